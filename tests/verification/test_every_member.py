"""No member of a package is only listed: one byte of any of them changed, and all lists made anew, some check
fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from assay.cli import app
from assay.package.judgements import check_judgement
from assay.package.verification.checks import Check
from assay.package.verification.content.rendered import files_again
from assay.package.verification.levels import consistent, settings
from assay.package.verification.unpacked import Unpacked
from assay.stages.packing.archive import unpack
from assay.stages.packing.layout import SUMS
from tests.tools.judged_files import as_csv, results
from tests.verification.flipped import unfound_flips

MADE = (
    "README.md",
    "provenance.json",
    "parity.json",
    "verify.py",
    "dvc.lock",
    "evidence/observed/heldout_openings.json",
)


def test_of_a_run(unpacked: Path, tmp_path: Path) -> None:
    names = Unpacked(unpacked).names

    def look(root: Path, name: str) -> Iterator[Check]:
        package = Unpacked(root, names)
        yield from settings(package, other_code=False)
        if name in MADE:
            yield files_again(package, tmp_path / "work", other_code=False)[1]()
        yield from consistent(package)

    assert unfound_flips(unpacked, look, names - {SUMS}) == []


def test_of_a_judgement(tmp_path: Path) -> None:
    rates = {"before": 0.3, "after": 0.8, "worst": 0.1}
    before, after, worst = (
        as_csv(tmp_path / f"{each}.csv", results(each, rate)) for each, rate in rates.items()
    )
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    for words in (
        ["plan", before, "--rival", "worst", "--out", plan],
        ["judge", before, after, "--plan", plan, "--rival", f"worst={worst}", "--out", out],
    ):
        done = CliRunner().invoke(app, [*map(str, words)])
        assert done.exit_code == 0, done.output
    root, work = tmp_path / "package", tmp_path / "work"
    unpack(out / "assay-package.tar", root)

    def look(package: Path, name: str) -> Iterator[Check]:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        yield from check_judgement(package, work)

    assert [each.found for each in look(root, "") if each.outcome == "failed"] == []
    assert unfound_flips(root, look) == []
