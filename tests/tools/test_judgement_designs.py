"""Forgeries of a package of a judgement whose pages were made again from what was forged: each is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import package_designs as designs
from benchmarks.resealing import Files, write

FOUND = {
    "more rows than there are": "judged.json, after: 999 rows, and 120 in rows/after.csv",
    "an arm of another name throughout": "judged.json, before: named",
    "sources left out": "judged.json, after: read from no file",
    "one draw twice": "rows/after.csv: draw 0 of 'q000' twice",
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return designs.honest_judgement(tmp_path_factory.mktemp("honest"))


@pytest.mark.parametrize(
    "name", [name if k == 0 else pytest.param(name, marks=pytest.mark.long) for k, name in enumerate(FOUND)]
)
def test_what_the_rows_deny_or_no_file_can_have_held_is_found(
    name: str, honest: Files, tmp_path: Path
) -> None:
    design = designs.JUDGEMENTS[f"columns and plans: {name}"]
    assert design.derived
    write(designs.forged_judgement(design, honest, tmp_path / "work"), tmp_path / "package")
    found = designs.first_of_judgement(tmp_path / "package", tmp_path / "checks")
    assert found is not None and found.found.startswith(FOUND[name])
