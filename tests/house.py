"""What the house tests know of the source tree, read by its syntax alone."""

from __future__ import annotations

import ast
import functools
import importlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
SOURCE = "src/assay"
STAGES = ("fingerprint", "base", "pre_eval", "train", "control", "post_eval", "render_evidence", "package")


def modules() -> list[Path]:
    """Return every module of the package."""
    return sorted((SRC / "assay").rglob("*.py"))


def modules_of_tasks() -> list[Path]:
    """Return every module of the tasks that have settings of their own."""
    return sorted(each for path in ROOT.glob("tasks/*/settings.py") for each in path.parent.rglob("*.py"))


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Return the full names a module imports anywhere in it, late imports and those for types included."""
    return _imports(path, typing=True)


def _imports(path: Path, *, typing: bool) -> frozenset[str]:
    names: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if typing or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return frozenset(names)


def _files(name: str) -> list[Path]:
    path = SRC / name.replace(".", "/")
    return [f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()]


def holds_code(path: Path) -> bool:
    """Return whether a module holds more than a docstring; or, a public face, than names and where they
    stand."""
    return not all(_only_names(each) for each in ast.parse(path.read_text(encoding="utf-8")).body)


def _only_names(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return ast.unparse(node).startswith(("__all__ = [", "__getattr__ = load_lazily("))
    return isinstance(node, ast.ImportFrom) or (
        isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )


@functools.cache
def code_of(stage: str) -> frozenset[Path]:
    """Return every file of the package that a stage can run."""
    todo, seen = _files(f"assay.stages.{stage}"), set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in _imports(path, typing=False):
            parts = name.split(".")
            if parts[0] == "assay":
                for n in range(1, len(parts) + 1):
                    todo += _files(".".join(parts[:n]))
    return frozenset(path for path in seen if holds_code(path))


def reads_and_writes(stage: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a stage's module says it reads and writes."""
    module = importlib.import_module(f"assay.stages.{stage}")
    return tuple(module.READS), tuple(module.WRITES)
