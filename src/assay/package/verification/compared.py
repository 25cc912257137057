"""Stored files against those computed again: equal to the last byte, or where they differ and by how much."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from assay.core.errors import RecordError
from assay.core.storage.gzipped import SUFFIX, unpacked
from assay.core.storage.json import loads
from assay.package.verification.checks import SHOWN, LookResult

# relative: what another processor or another release of a library makes of the last bits, and no editor
NEAR = 1e-9
FIX = "get the package again from where it was published"
NEARLY = "equal to 9 digits, not to the last"
_PICTURE = re.compile(rb'src="data:image/svg\+xml;base64,[A-Za-z0-9+/=]*"')  # a figure on a page
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
Place = tuple[str, Any, Any]


def compare(
    stored: Path,
    again: Path,
    names: Iterable[str],
    *,
    said: str,
    apart_from_svg: bool = False,
    pages: Container[str] = (),
    in_any_order: Container[str] = (),
) -> LookResult:
    """Compare files of two folders byte by byte and say what was seen.

    Tables and values whose numbers agree to 9 digits pass, and are named.

    Args:
        stored: The package.
        again: Where they were computed again.
        names: Relative paths.
        said: What they are, if nothing is wrong.
        apart_from_svg: Whether drawings inside a page are left out.
        pages: Those that other code may have worded otherwise: where one differs, nobody can tell by it, so
            it is left open by name, with what of its numbers and words is another.
        in_any_order: JSON whose keys an earlier version wrote in another order: its values count.
    """
    wrong: list[str] = []
    near: list[str] = []
    left: dict[str, str] = {}
    for name in sorted(names):
        one, other = _content(stored / name, apart_from_svg), _content(again / name, apart_from_svg)
        if one is None or other is None:
            wrong.append(
                f"{name} is missing" if one is None else f"{name} cannot be computed from the package"
            )
        elif name in in_any_order and _values_of(name, one) == _values_of(name, other):
            continue
        elif one != other and name in pages:
            left[name] = worded(name, one, other)
        elif one != other:
            text, close = difference(name, one, other)
            (near if close else wrong).append(text)
    if left and not wrong:
        told = f"of another version, so nobody can tell by them: {'; '.join(left.values())}"
        return LookResult(told, left=list(left))
    if near and not wrong:
        return LookResult(f"{said}; {NEARLY} in {len(near)} of them ({near[0]})")
    return LookResult(f"{said}, equal to the last byte", wrong)


def _content(path: Path, apart_from_svg: bool) -> bytes | None:
    if not path.is_file():
        return None
    if path.suffix == SUFFIX:  # another zlib packs otherwise
        return unpacked(path.read_bytes(), where=path.name, fix=FIX)
    return _PICTURE.sub(b'src=""', path.read_bytes()) if apart_from_svg else path.read_bytes()


def _values_of(name: str, content: bytes) -> Any:
    try:
        return loads(content.decode(), where=name, fix="")
    except (RecordError, UnicodeDecodeError):
        return content


def worded(name: str, stored: bytes, again: bytes) -> str:
    """Return in what two pages differ: numbers that one alone has, else words, else only what is not text.

    >>> worded("a.html", b"<b>98.9 %</b> of 512", b"<i>71.4 %</i> of 512")
    'a.html has 98.9 where 71.4 follows'
    """
    texts = [_Text.of(content.decode("utf-8", "replace")) for content in (stored, again)]
    ours, theirs = (Counter(_NUMBER.findall(text)) for text in texts)
    if ours != theirs:
        odd = [", ".join([*one][:SHOWN]) or "nothing" for one in (ours - theirs, theirs - ours)]
        return f"{name} has {odd[0]} where {odd[1]} follows"
    if texts[0] != texts[1]:
        return _line(name, *(text.encode() for text in texts))
    return f"{name} says the same in other markup"


class _Text(HTMLParser):
    """The text of a page without its tags; what a script or a style holds is text too."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def handle_data(self, data: str) -> None:
        """Keep a piece of text."""
        self.pieces.append(data)

    @classmethod
    def of(cls, content: str) -> str:
        """Return the text of a page, each run of spaces as one."""
        page = cls()
        page.feed(content)
        page.close()
        return " ".join(" ".join(page.pieces).split())


def difference(name: str, stored: bytes, again: bytes) -> tuple[str, bool]:
    """Return where two contents first differ, and whether only in digits beyond the ninth of numbers."""
    try:
        places = _places(name, stored, again)
        first = next(places, None)
        if first is not None:
            close = _is_near(first) and all(_is_near(place) for place in places)
            told = (
                f"{name}, {first[0]}: {_short(first[1])} is stored, {_short(first[2])} follows from the"
                " package"
            )
            return (f"{told} ({NEARLY})" if close else told), close
    except (RecordError, UnicodeDecodeError, csv.Error):
        pass
    return _line(name, stored, again), False


def _places(name: str, stored: bytes, again: bytes) -> Iterator[Place]:
    """Yield every value of a JSON or CSV file that differs; nothing for a file that is neither, or differs in
    form alone."""
    one, other, name = stored.decode(), again.decode(), name.removesuffix(SUFFIX)
    if name.endswith(".json"):
        yield from _values("", *(loads(text, where=name, fix="") for text in (one, other)))
    elif name.endswith(".jsonl"):
        lines = [text.split("\n") for text in (one, other)]
        if len(lines[0]) == len(lines[1]):
            for number, (a, b) in enumerate(zip(*lines, strict=True), start=1):
                if a != b:
                    yield from _values(
                        f"line {number}", *(loads(text, where=name, fix="") for text in (a, b))
                    )
    elif name.endswith(".csv"):
        rows = [list(csv.reader(io.StringIO(text), strict=True)) for text in (one, other)]
        if [len(row) for row in rows[0]] == [len(row) for row in rows[1]]:
            for number, (a, b) in enumerate(zip(*rows, strict=True), start=1):
                for column, left, right in zip(rows[1][0], a, b, strict=True):
                    if left != right:
                        yield f"line {number}, {column}", _number(left), _number(right)


def _values(path: str, one: Any, other: Any) -> Iterator[Place]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            inner = f"{path}.{key}" if path else key
            if key not in one or key not in other:
                yield inner, one.get(key, "nothing"), other.get(key, "nothing")
            else:
                yield from _values(inner, one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from _values(f"{path}[{index}]", a, b)
    elif type(one) is not type(other) or one != other:
        yield path or "the whole", one, other


def _number(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return cell


def _is_near(place: Place) -> bool:
    _, one, other = place
    return (
        isinstance(one, float)
        and isinstance(other, float)
        and math.isclose(one, other, rel_tol=NEAR, abs_tol=1e-12)
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _line(name: str, stored: bytes, again: bytes) -> str:
    """Return the first line that differs, or the first byte of what has no lines."""
    if b"\0" in stored[:1000] or b"\0" in again[:1000]:
        at = next(
            (i for i, (a, b) in enumerate(zip(stored, again, strict=False)) if a != b),
            min(len(stored), len(again)),
        )
        return f"{name}, byte {at}: {len(stored)} bytes are stored, {len(again)} follow from the package"
    lines = [content.decode("utf-8", "replace").split("\n") for content in (stored, again)]
    pairs = enumerate(zip(*lines, strict=False), start=1)
    number, (a, b) = next(
        (pair for pair in pairs if pair[1][0] != pair[1][1]), (min(map(len, lines)) + 1, ("", ""))
    )
    if a == b:
        return f"{name}: {len(lines[0])} lines are stored, {len(lines[1])} follow from the package"
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, at - 30)
    return (
        f"{name}, line {number}: {_short(a[start:])} is stored, {_short(b[start:])} follows from the package"
    )
