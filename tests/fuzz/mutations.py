"""How files go wrong: values of another kind, bytes that were flipped or cut off, and names that are not the
files they were.

Everything is a function of a `random.Random`, so that a trial can be made again from its number.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

# What has no place among the values of Python's json: it is written as it stands here.
RAW = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e309",
    "-1e999",
    "1" + "0" * 400,
    "0x10",
    "01",
    "tru",
    "",
    "{",
    "'a'",
    '"\\ud800"',
    '"\\u0000"',
    "[" * 200 + "]" * 200,
    '{"a":' * 100 + "1" + "}" * 100,
    '{"a":1,"a":2}',
    "1e-400",
    "-0",
    "1.0",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    7,
    10**6,
    10**9,
    10**18,
    2**63,
    -(2**63),
    10**30,
    -(10**30),
    0.5,
    -0.5,
    1e-320,
    1e308,
    -1e308,
    "",
    " ",
    "a",
    "null",
    "1",
    "true",
    "x" * 20_000,
    "\x00",
    "\u202e\u0007",
    "é\U0001f600",
    "../../etc/passwd",
    "/",
    "/dev/null",
    "a\nb",
    "{{ x }}",
    "{% for %}",
    "${oc.env:HOME}",
    "???",
    "*",
    [],
    {},
    [[]],
    [None],
    [1, "a", None],
    {"": None},
    {"a": {}},
    [0] * 2000,
)
YAML = (
    ".inf",
    "-.inf",
    ".nan",
    ".NaN",
    "1e309",
    "-1e309",
    "1e400",
    "1e-400",
    "0x1F",
    "0o17",
    "1_000",
    "1:30",
    "2020-01-01",
    "2020-01-01T00:00:00Z",
    "!!binary aGk=",
    "!!set {a, b}",
    "!!python/object/apply:os.getcwd []",
    "!!float 1",
    "!!int x",
    "&a 1",
    "*a",
    "<<: {a: 1}",
    "{? [a, b] : 1}",
    "{1: 2}",
    "{null: 1}",
    "{true: 1}",
    "[",
    "]",
    "{",
    "|",
    ">",
    "@",
    "`",
    "%",
    "\t1",
    "~",
    "",
    "'",
    '"',
    '"\\ud800"',
    '"\\0"',
    "yes",
    "no",
    "on",
    "=",
    "<<",
    "${seed}",
    "${train}",
    "${oc.env:HOME}",
    "${nothing}",
    "${",
    "???",
    "[1, 2",
    "- 1",
    "{a: 1, a: 2}",
    "[" * 150 + "]" * 150,
    "9" * 5000,
    "1" + "0" * 400,
    "2020-13-45",
    "!!timestamp x",
    "!!null x",
    "!!omap [a: 1]",
    "!!bool maybe",
)
HELD = re.compile(r'"@RAW(\d+)@"')
KEYED = re.compile(r"^(\s*(?:- )?[^\s#:{\[]+:)([ \t]*)(.*)$")


def other_bytes(rng: Random, content: bytes) -> bytes:
    """Return bytes that were damaged: flipped, cut, doubled, or written by another system."""
    at = rng.randrange(len(content) + 1)
    ways: list[Callable[[], bytes]] = [
        lambda: content[:at],
        lambda: b"",
        lambda: content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :],
        lambda: content[:at] + bytes(rng.randrange(256) for _ in range(8)) + content[at + 8 :],
        lambda: content[:at] + b"\x00" * 4 + content[at:],
        lambda: b"\xef\xbb\xbf" + content,
        lambda: b"\xff\xfe" + content,
        lambda: content.replace(b"\n", b"\r\n"),
        lambda: content.replace(b"\n", b"\r"),
        lambda: content + content,
        lambda: content[: at // 2] + content[at:],
        lambda: content + b"\n\n{",
        lambda: content.replace(b'"', b"'"),
        lambda: content[:at] + "\u202e\u0000é".encode() + content[at:],
        lambda: content.decode("utf-8", "replace").encode("utf-16"),
        lambda: b"\n" + content,
        lambda: b"[]",
        lambda: b"null",
        lambda: b"{}",
    ]
    return rng.choice(ways)()


def other_json(rng: Random, content: bytes, most: int = 3) -> bytes:
    """Return the text of a JSON value in which a few places hold something else; what is no JSON is damaged
    as bytes."""
    try:
        value = json.loads(content)
    except ValueError:
        return other_bytes(rng, content)
    raw: list[str] = []
    for _ in range(rng.randrange(1, most + 1)):
        value = _elsewise(rng, value, raw)
    text = json.dumps(value, indent=rng.choice([None, 2]), ensure_ascii=rng.random() < 0.5)
    text = HELD.sub(lambda found: raw[int(found[1])], text)
    return text.encode("utf-8", "surrogatepass")


def other_lines(rng: Random, content: bytes) -> bytes:
    """Return a JSONL file of which a line or two are other ones, gone, doubled or not JSON."""
    lines = content.split(b"\n")
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(lines))
        what = rng.random()
        if what < 0.75 and lines[at]:
            lines[at] = other_json(rng, lines[at]).replace(b"\n", b" ")
        elif what < 0.8:
            del lines[at]
        elif what < 0.85:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif what < 0.9:
            lines.insert(at, rng.choice([b"", b"null", b"[]", b"{}", b"1", b'"a"', b"\xff", b"nan"]))
        else:
            lines[at] = other_bytes(rng, lines[at])
        if not lines:
            return b""
    return b"\n".join(lines)


def other_yaml(rng: Random, content: bytes) -> bytes:
    """Return a YAML file of which a line or two say something else."""
    lines = content.decode("utf-8").split("\n")
    for _ in range(rng.randrange(1, 3)):
        keyed = [number for number, line in enumerate(lines) if KEYED.match(line)]
        if not keyed:
            break
        at, what = rng.choice(keyed), rng.random()
        found = KEYED.match(lines[at])
        assert found is not None
        if what < 0.7:
            told = rng.choice(YAML) if rng.random() < 0.6 else json.dumps(rng.choice(VALUES))
            lines[at] = f"{found[1]} {told}"
        elif what < 0.76:
            del lines[at]
        elif what < 0.82:
            lines.insert(at, lines[at])
        elif what < 0.88:
            lines[at] = f"{rng.choice([' ', '  ', chr(9), '- '])}{lines[at]}"
        elif what < 0.94:
            key = rng.choice(
                [
                    "1",
                    "null",
                    "true",
                    '""',
                    "? [a]",
                    "é",
                    "x" * 300,
                    ".inf",
                    "2020-01-01",
                    "<<",
                    "!!binary aGk=",
                ]
            )
            lines.insert(at, f"{lines[at][: len(lines[at]) - len(lines[at].lstrip())]}{key}: 1")
        else:
            lines[at] = f"{found[1]}x {found[3]}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def other_table(rng: Random, content: bytes) -> bytes:
    """Return a CSV file of which a cell, a row or a column is another."""
    rows = [line.split(b",") for line in content.split(b"\n")]
    for _ in range(rng.randrange(1, 3)):
        filled = [row for row in rows if row]
        if not filled:
            break
        row = rng.choice(filled)
        what = rng.random()
        if what < 0.6:
            cells = (
                b"",
                b"nan",
                b"inf",
                b"-1",
                b"1e309",
                b"x",
                b'"',
                b"\x00",
                b"1e-400",
                b"9" * 400,
                b"None",
                b"true",
                b"1,1",
            )
            row[rng.randrange(len(row))] = rng.choice(cells)
        elif what < 0.75:
            del row[rng.randrange(len(row))]
        elif what < 0.9:
            row.append(b"1")
        else:
            rows.remove(row)
            rows = rows or [[b""]]
    return b"\n".join(b",".join(row) for row in rows)


def other_tensors(rng: Random, content: bytes) -> bytes:
    """Return a safetensors file whose header says something else, or whose numbers are no numbers."""
    if len(content) < 9 or rng.random() < 0.3:
        return other_bytes(rng, content)
    size = int.from_bytes(content[:8], "little")
    head, body = content[8 : 8 + size], content[8 + size :]
    if rng.random() < 0.4:
        at = rng.randrange(max(1, len(body) - 4)) // 4 * 4
        return (
            content[: 8 + size]
            + body[:at]
            + rng.choice([b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f"])
            + body[at + 4 :]
        )
    head = other_json(rng, head)
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + body


def other_file(rng: Random, path: Path) -> None:
    """Damage a file by the kind of its name, or put something else in its place."""
    what = rng.random()
    if what < 0.12:
        _displaced(rng, path)
        return
    content = path.read_bytes()
    by_kind = {
        ".json": other_json,
        ".jsonl": other_lines,
        ".yaml": other_yaml,
        ".lock": other_yaml,
        ".csv": other_table,
        ".safetensors": other_tensors,
    }
    changed = by_kind.get(path.suffix, other_bytes) if what < 0.8 else other_bytes
    rewrite(path, changed(rng, content))


def rewrite(path: Path, content: bytes) -> None:
    """Put other bytes in the place of a file, which may have been a link."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def _displaced(rng: Random, path: Path) -> None:
    path.unlink()
    what = rng.randrange(7)
    if what == 1:
        path.mkdir()
    elif what == 2:
        path.symlink_to(path.name)  # a loop
    elif what == 3:
        path.symlink_to("/dev/zero")
    elif what == 4:
        import os

        os.mkfifo(path)
    elif what == 5:
        path.symlink_to("nowhere")
    elif what == 6:
        path.write_bytes(b"")
        path.chmod(0)


def displaced_folder(rng: Random, path: Path) -> None:
    """Take a folder away, or put a file or a link in its place."""
    shutil.rmtree(path)
    what = rng.randrange(3)
    if what == 1:
        path.write_text("no folder")
    elif what == 2:
        path.symlink_to(path.name)


def _elsewise(rng: Random, value: Any, raw: list[str]) -> Any:
    places = list(_places(value))
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    what = rng.random()
    if what < 0.12:
        raw.append(rng.choice(RAW))
        holder[key] = f"@RAW{len(raw) - 1}@"
    elif what < 0.6:
        holder[key] = rng.choice(VALUES)
    elif what < 0.7:
        del holder[key]
    elif what < 0.78 and isinstance(holder, dict):
        holder[rng.choice(["", "extra", "__class__", "é", f"{key} ", "x" * 500])] = rng.choice(VALUES)
    elif what < 0.86:
        other, its = rng.choice(places)
        try:
            holder[key] = json.loads(json.dumps(other[its]))
        except (KeyError, IndexError, ValueError, RecursionError):
            holder[key] = None
    elif what < 0.92 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = rng.choice(
            [-holder[key], holder[key] + 1, holder[key] * 1000, float(holder[key]), str(holder[key])]
        )
    elif what < 0.96 and isinstance(holder[key], str):
        holder[key] = rng.choice(
            [holder[key][: len(holder[key]) // 2], holder[key] + "x", holder[key].upper(), [holder[key]]]
        )
    else:
        holder[key] = [holder[key]]
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in list(inside):
        yield value, key
        yield from _places(below)
