"""The bill of materials beside an archive is looked at with it: whatever is changed in it is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.core.storage.json import dumps, write_json
from assay.package.checking import _software
from assay.stages.packing.sbom import installed_here, sbom, sbom_faults
from tests.house import ROOT

PINS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
NAME, IDENTITY = "assay-package/SHA256SUMS", "e" * 64


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every text and number."""
    if not isinstance(value, dict | list):
        yield place
        return
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(each, (*place, key))


def test_any_value_that_is_another_is_named_and_so_is_another_package() -> None:
    here = installed_here()
    some = {name: each for name, each in here.items() if name[0] in "jr"}
    stored = dumps(sbom(PINS, some, NAME, IDENTITY))
    told = json.loads(stored)
    assert len(told["components"]) > 10
    assert list(sbom_faults(told, PINS, here, NAME, IDENTITY)) == []
    assert list(sbom_faults(told, PINS, {}, NAME, IDENTITY)) == [], "as another machine looks at it"
    unfound = []
    for place in leaves(told):
        forged = json.loads(stored)
        inner = forged
        for key in place[:-1]:
            inner = inner[key]
        old = inner[place[-1]]
        inner[place[-1]] = old + 1 if isinstance(old, int) else f"{old[:-1]}{'1' if old[-1] != '1' else '2'}"
        if not list(sbom_faults(forged, PINS, here, NAME, IDENTITY)):
            unfound.append(place)
    assert unfound == []
    assert "serialNumber" in " ".join(sbom_faults(told, PINS, here, NAME, "f" * 64))


def test_it_is_looked_at_as_it_lies_there(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text(PINS)
    bill = tmp_path / "assay-package.cdx.json"
    write_json(bill, sbom(PINS, {"regex": installed_here()["regex"]}, NAME, IDENTITY))
    seen = _software(bill, tmp_path, IDENTITY)
    assert not seen.wrong and seen.said.startswith("2 components of assay-package.cdx.json")
    bill.write_text(bill.read_text() + "\n")
    assert list(_software(bill, tmp_path, IDENTITY).wrong) == [
        "assay-package.cdx.json: not as assay writes it"
    ]


def test_what_is_added_or_left_out_is_named_where_the_package_says_otherwise() -> None:
    here = installed_here()
    told = sbom(PINS, {name: here[name] for name in ("numpy", "torch", "regex")}, NAME, IDENTITY)
    library = told["components"][0]
    forged: dict[str, Any] = {
        "evil: version 1.0": told
        | {"components": [library | {"name": "evil", "version": "1.0"}, *told["components"]]},
        "numpy: version 0.1": told | {"components": [library | {"version": "0.1"}, *told["components"][1:]]},
        "numpy: a sha256": told
        | {
            "components": [
                library | {"hashes": [{"alg": "SHA-256", "content": "0" * 64}]},
                *told["components"][1:],
            ]
        },
        "numpy: licences": told | {"components": [library | {"licenses": []}, *told["components"][1:]]},
        "dependencies: ": told | {"components": told["components"][1:]},
        "services: ": told | {"services": []},
    }
    for said, each in forged.items():
        found = list(sbom_faults(each, PINS, here, NAME, IDENTITY))
        assert any(fault.startswith(said) for fault in found), (said, found)
