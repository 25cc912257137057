"""What a task's own code looks for in a completion: the texts that stand in it, and texts that its patterns
match. A word that is paid wherever it stands, and a pattern that never ends, are found by nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]
from typing import Any

MOST_FILES, LONGEST = 20, 200
PUMPED = 40  # times that what a pattern repeats is said: 2 ** 40 ways to part it are never tried out
_SPECIAL = re.compile(r"[\\*+?{\[(|^$]")
_OF_CATEGORY = {"DIGIT": "1", "SPACE": " ", "WORD": "a", "NOT_DIGIT": "a", "NOT_SPACE": "a", "NOT_WORD": "-"}


def texts_in(folder: Path) -> list[str]:
    """Return the texts that stand in the files of a folder, without what documents them: each once."""
    found: dict[str, None] = {}
    for path in sorted(folder.glob("*.py"))[:MOST_FILES]:
        try:
            nodes = list(ast.walk(ast.parse(path.read_bytes())))
        except (OSError, SyntaxError, ValueError):
            continue
        documents = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        said = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in documents]
        found |= dict.fromkeys(text for text in said if isinstance(text, str) and text.strip())
    return [text for text in found if len(text) <= LONGEST]


def matching(texts: list[str]) -> list[str]:
    """Return a text that each of some texts matches that is a pattern."""
    return [_written(parsed, []) for parsed in _patterns(texts)]


def almost_matching(texts: list[str]) -> list[str]:
    """Return texts that such patterns fail to match behind something that they repeat: where there are many
    ways to part what is repeated, all are tried."""
    found: list[str] = []
    for parsed in _patterns(texts):
        _written(parsed, found)
    return list(dict.fromkeys(found))


def _patterns(texts: list[str]) -> Iterator[Any]:
    for text in texts:
        if _SPECIAL.search(text):
            with suppress(re.error, RecursionError, OverflowError):
                yield _parser.parse(text)


def _written(parsed: Any, pumped: list[str], before: str = "", *, inner: bool = False) -> str:
    """Return a text for a parsed pattern, in which all that is repeated is said once.

    Args:
        parsed: The pattern, or a part of it.
        pumped: Takes in what fails behind each repetition.
        before: What stands before the part.
        inner: Whether the part is itself repeated. What may be left out is left out then, for one repetition
            of many is hardest to part from the next where nothing stands between them.
    """
    found = ""
    parts = [each for each in parsed if not (inner and _is_optional(each))] or list(parsed)[:1]
    for kind, value in parts:
        name = str(kind)
        if name == "LITERAL":
            found += chr(value)
        elif name in ("ANY", "NOT_LITERAL"):
            found += "b" if value == ord("a") else "a"
        elif name == "IN":
            found += _member(value)
        elif name == "BRANCH":
            found += _written(value[1][0], pumped, before + found, inner=inner)
        elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
            part = value[-1] if name == "SUBPATTERN" else value
            found += _written(part, pumped, before + found, inner=inner)
        elif name.endswith("_REPEAT"):
            once = _written(value[2], [], inner=True)
            if not inner and value[1] > PUMPED:
                pumped.append(f"{before}{found}{once * PUMPED}!")
            found += once * min(LONGEST, max(1, value[0]))
    return found[:LONGEST]


def _is_optional(part: Any) -> bool:
    return str(part[0]).endswith("_REPEAT") and part[1][0] == 0


def _member(values: Any) -> str:
    """Return a character of a set."""
    kind, value = values[0]
    if str(kind) == "NEGATE":
        excluded = {chr(other) for name, other in values[1:] if str(name) == "LITERAL"}
        return next((letter for letter in "a1 -" if letter not in excluded), "~")
    if str(kind) == "CATEGORY":
        return _OF_CATEGORY[str(value).removeprefix("CATEGORY_")]
    return chr(value[0] if str(kind) == "RANGE" else value)
