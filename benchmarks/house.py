"""How large the house is, counted from the files: `./run house`.

Lines of code hold more than a comment or a docstring. The closure of a stage is every module that
its imports lead to. It runs nothing of assay and writes nothing.
"""

from __future__ import annotations

import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]
from tests.house import SRC, STAGES, code_of, imported, modules

LIBRARIES = ("verdict", "rollout", "health", "package")
MOST_PARAMETERS = 8
FILES = ("dvc.yaml", "dvc.lock", "params.yaml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Size(NamedTuple):
    """Of one or more files."""

    modules: int = 0
    lines: int = 0
    code: int = 0
    docstrings: int = 0


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the lines that docstrings take."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                found |= {*range(first.lineno, (first.end_lineno or first.lineno) + 1)}
    return found


def size_of(paths: Iterable[Path]) -> Size:
    """Return the size of files together."""
    total = Size()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        documented = docstring_lines(ast.parse(text))
        ignored = {
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        }
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        code = {
            line
            for each in tokens
            if each.type not in ignored
            for line in range(each.start[0], each.end[0] + 1)
        }
        here = Size(1, text.count("\n"), len(code - documented), len(documented))
        total = Size(*(one + other for one, other in zip(total, here, strict=True)))
    return total


def functions(paths: Iterable[Path]) -> Iterator[tuple[Path, Function]]:
    """Yield every function and method."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, Function):
                yield path, node


def parameters_of(function: Function) -> int:
    """Return how many parameters a caller may give."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(each.arg not in ("self", "cls") for each in given)


def room_of(path: Path) -> str:
    """Return the room of a module; "" for assay/__init__.py."""
    parts = path.relative_to(SRC / "assay").parts
    return parts[0] if len(parts) > 1 else ""


def edges(paths: Iterable[Path]) -> Counter[tuple[str, str]]:
    """Return how many modules of a library import from another one, by the pair."""
    found: Counter[tuple[str, str]] = Counter()
    for path in paths:
        here = room_of(path)
        there = {
            name.split(".")[1] for name in imported(path) if name.startswith("assay.") and name.count(".")
        }
        found.update((here, each) for each in there if each != here and {here, each} <= {*LIBRARIES})
    return found


def row(name: str, *cells: object) -> None:
    """Print a line of a table."""
    print(
        f"{name:<24}" + "".join(f"{each:>12,}" if isinstance(each, int) else f"{each:>12}" for each in cells)
    )


def main() -> None:
    """Print the tables."""
    all_modules = modules()
    row("room", "modules", "lines", "code", "docstrings")
    rooms = sorted({room_of(path) for path in all_modules} - {""})
    for room in rooms:
        row(room, *size_of(path for path in all_modules if room_of(path) == room))
    row(f"src ({len(rooms)} rooms)", *size_of(all_modules))
    row("tasks", *size_of((ROOT / "tasks").rglob("*.py")))
    row("tests", *size_of((ROOT / "tests").rglob("*.py")))
    row("benchmarks", *size_of((ROOT / "benchmarks").glob("*.py")))
    print()
    row("closure of a stage", "modules", "lines", "code", "docstrings")
    for stage in STAGES:
        row(stage, *size_of(code_of(stage)))
    print()
    found = list(functions(all_modules))
    counts = sorted(parameters_of(each) for _, each in found)
    print(f"functions: {len(counts):,}; parameters: median {statistics.median(counts):g}, ", end="")
    print(f"p95 {counts[int(0.95 * len(counts))]}, most {counts[-1]}")
    many = [
        (parameters_of(each), path, each.name)
        for path, each in found
        if parameters_of(each) > MOST_PARAMETERS
    ]
    print(f"functions of more than {MOST_PARAMETERS} parameters: {len(many)}")
    for n, path, name in sorted(many, reverse=True)[:10]:
        print(f"  {n}  {path.relative_to(SRC / 'assay').as_posix()}:{name}")
    handed = sum("project" in {arg.arg for arg in each.args.args} for _, each in found)
    print(f"functions that take a Project: {handed}")
    between = edges(all_modules)
    print(
        f"imports between the libraries: {sum(between.values())}",
        *(f"{a}→{b} {n}" for (a, b), n in between.items()),
    )
    print("bytes: " + ", ".join(f"{name} {(ROOT / name).stat().st_size:,}" for name in FILES))


if __name__ == "__main__":
    main()
