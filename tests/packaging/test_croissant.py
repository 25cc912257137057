"""The description of the data holds to the rules of Croissant 1.0 that can be checked without its library.

The library itself (mlcroissant 1.1.1, not installed here) found no error in the descriptions of both tasks and loaded every
record of every split with the values of the files; its warnings were the missing citation, date, version and licence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.package.card.croissant import CONFORMS_TO, SPLITS, croissant
from assay.package.card.datasheet import stated_licence
from tests.house import ROOT

TYPES = {"sc:Text", "sc:Integer", "sc:Float", "sc:Boolean", "sc:URL"}


def files_of(task: str) -> dict[str, bytes]:
    root = ROOT / "data" / task
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def leaves(fields: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in fields:
        yield from leaves(each["subField"]) if "subField" in each else [each]


def ids(value: Any) -> Iterator[str]:
    """Yield the ids of all nodes that have a type: what may be referred to."""
    if isinstance(value, dict):
        if "@type" in value and "@id" in value and "://" not in value["@id"]:
            yield value["@id"]
        for name, each in value.items():
            yield from ids(each) if name not in ("@context", "data") else ()
    elif isinstance(value, list):
        for each in value:
            yield from ids(each)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if set(value) == {"@id"}:
            yield value["@id"]
        for name, each in value.items():
            yield from references(each) if name != "@context" else ()
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def extracted(row: dict[str, Any], field: dict[str, Any]) -> Any:
    """Return what a loader takes out of a row for a field: a column, then a path into it, for each element of a list."""
    value = row.get(field["source"]["extract"]["column"])
    path = field["source"].get("transform", {}).get("jsonPath", "")
    for name in filter(None, path.split(".")):
        value = [each.get(name) for each in value] if isinstance(value, list) else (value or {}).get(name)
    return value


def check_rules(value: dict[str, Any], files: dict[str, bytes], folder: str) -> None:
    json.dumps(value, allow_nan=False)
    assert value["conformsTo"] == CONFORMS_TO == "http://mlcommons.org/croissant/1.0" and value["@type"] == "sc:Dataset"
    assert value["name"] and value["description"]
    for name in ("citeAs", "creator", "datePublished", "url", "version"):
        assert name not in value  # nobody stated them
    objects = {each["contentUrl"]: each for each in value["distribution"]}
    assert set(objects) == {f"{folder}/{name}" for name in files}
    for name, content in files.items():
        each = objects[f"{folder}/{name}"]
        assert each["sha256"] == hashlib.sha256(content).hexdigest() and each["contentSize"] == f"{len(content)} B"
    found = list(ids(value))
    assert len(found) == len(set(found))
    assert set(references(value)) <= set(found)
    for record_set in value.get("recordSet", []):
        assert all(each["dataType"] in TYPES for each in leaves(record_set["field"]))
        assert all(each["@id"].startswith(f"{record_set['@id']}/") for each in leaves(record_set["field"]))


@pytest.mark.parametrize("task", ["collider", "structured"])
def test_the_shipped_data_are_described_by_the_rules_and_every_type_holds_in_every_record(task: str) -> None:
    files = files_of(task)
    value = croissant(task, files, folder=f"data/{task}")
    check_rules(value, files, f"data/{task}")
    kinds = {"sc:Text": str, "sc:Integer": int, "sc:Float": (int, float), "sc:Boolean": bool}
    sets = {each["@id"]: each for each in value["recordSet"]}
    assert set(sets) == {SPLITS} | {Path(name).stem for name in files if name.endswith(".jsonl")}
    n = 0
    for split, record_set in sets.items():
        if split == SPLITS:
            assert {each[f"{SPLITS}/name"] for each in record_set["data"]} == set(sets) - {SPLITS}
            continue
        rows = [json.loads(line) for line in files[f"{split}.jsonl"].decode().splitlines()]
        described = {each["name"] for each in record_set["field"]} - {"split"}
        assert described == {name for row in rows for name in row}
        for field in leaves(record_set["field"][1:]):
            for row in rows:
                got = extracted(row, field)
                for each in got if isinstance(got, list) else [got]:
                    assert each is None or isinstance(each, kinds[field["dataType"]]), (field["@id"], row["id"])
                    n += each is not None
            assert any(extracted(row, field) is not None for row in rows), field["@id"]
    assert n > 10_000


def test_the_licence_is_the_one_the_datasheet_states_for_the_data_or_none() -> None:
    assert croissant("collider", files_of("collider"), folder="d")["license"] == "https://spdx.org/licenses/CC0-1.0"
    structured = croissant("structured", files_of("structured"), folder="d")
    assert "license" not in structured and "No licence is stated" in structured["description"]


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("## License\n\nMIT\n", "MIT"),
        ("## Licence\n\nThe data: CC-BY-SA 4.0. Code: MIT.\n", "CC BY-SA 4.0"),
        ("## Licence\n\nCC BY 4.0 or MIT.\n", None),
        ("## Licence\n\nAsk COMMITTEE, PERMIT or SUMMIT.\n", None),
        ("## Licence\n\nCC BY 3.0\n", None),
        ("## Licence\n\nProprietary.\n\n## Code\n\nMIT\n", None),
        ("The code is under MIT.\n", None),
        ("", None),
    ],
)
def test_a_licence_is_never_guessed(page: str, name: str | None) -> None:
    found = stated_licence(page)
    assert (None if found is None else found.name) == name


ODD = [
    {"id": "1", "a/b": 1, "$..x": "t", "x y": None, "split": "q", "@id": "z", "": 3, "\u202ee": "w", "n": 1, "mix": 1,
     "o": {"parent": 1, "k k": 2, "ok": [1.5]}, "deep": {"a": {"b": {"c": {"d": {"e": 1}}}}}, "l": [[1]], "w" * 300: 1,
     "calls": [{"name": "f", "parameters": {"type": "object"}}, {"name": "g", "parameters": True}]},
    {"id": "2", "a/b": 2.5, "mix": "s", "n": None, "o": {"ok": []}, "gold": {"f": {"x": [1]}}, "yes": True},
]  # fmt: skip


def test_data_of_ones_own_are_described_as_far_as_they_have_one_shape() -> None:
    files = {"train.jsonl": "".join(json.dumps(row) + "\n" for row in ODD).encode(), "odd name%20#.jsonl": b'{"id":"a"}\n'}
    value = croissant("structured", files, folder="data/own")
    check_rules(value, files, "data/own")
    train = next(each for each in value["recordSet"] if each["@id"] == "train")
    found = {each["@id"]: each for each in leaves(train["field"])}
    assert found["train/a%2Fb"]["dataType"] == "sc:Float" and found["train/yes"]["dataType"] == "sc:Boolean"
    assert found["train/o/ok"]["repeated"] and found["train/calls/name"]["dataType"] == "sc:Text"
    assert found["train/gold/f/x"]["source"]["transform"] == {"jsonPath": "f.x"}
    assert found["train/_split"]["source"]["extract"] == {"fileProperty": "filename"}  # split is a name of their own
    assert "train/x%20y" in found and "Null in 1." in found["train/x%20y"]["description"]
    for name in ("mix", "l", "deep", "o.parent", "o.k k", "calls.parameters"):
        assert name in train["description"] and f"train/{name.replace('.', '/')}" not in found
    shown = [each["name"] + each["description"] for each in leaves(train["field"])]
    assert "\u202e" not in "".join(shown)  # only what a loader looks the column up by is as it stands in the file
    assert found["train/%E2%80%AEe"]["source"]["extract"] == {"column": "\u202ee"}


def test_no_name_of_a_split_takes_the_id_of_something_else() -> None:
    files = {f"{name}.jsonl": b'{"data": {"own": 1}, "name": "x"}\n' for name in ("splits", "file", "data", "train")}
    value = croissant("t", files, folder="data/own")
    check_rules(value, files, "data/own")
    assert {each["name"] for each in value["recordSet"][1:]} == {"splits", "file", "data", "train"}


def test_lines_that_are_no_records_are_counted_and_an_empty_file_has_no_fields() -> None:
    files = {"train.jsonl": b'{"id":"a"}\n{"id":\n{"id":"b","id":"c"}\nNaN\n', "empty.jsonl": b"", "README.md": b"# \xff <b>\n"}
    value = croissant("t\n<x>", files, folder="data/own")
    check_rules(value, files, "data/own")
    told = {each["@id"]: each["description"] for each in value["recordSet"]}
    assert told["train"].startswith("1 record of the split train. Lines of the file that are no records: 3.")
    assert told["empty"].startswith("0 records") and "\n" not in value["name"]


def test_equal_files_give_equal_values_in_whatever_order_they_come() -> None:
    files = files_of("structured")
    backwards = dict(reversed(files.items()))
    assert json.dumps(croissant("s", files, folder="d")) == json.dumps(croissant("s", backwards, folder="d"))
