"""What a package says of the openings before its claim follows from the notes in it, and from nothing
else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import PackageError
from assay.core.evidence_files import place_of
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import dumps, write_json
from assay.core.storage.yaml import read_yaml
from assay.package.verification.checks import looked
from assay.package.verification.stated import openings_follow
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.heldout_ledger import openings
from assay.pipeline.note_openings import note_called, note_opening, opened_records
from assay.pipeline.project import Project
from assay.stages.packing.layout import OPENINGS
from assay.stages.packing.pages import ledger_of
from assay.verdict.evidence.claim.openings import level_of, openings_of


@pytest.fixture
def third(unpacked: Path) -> Path:
    """A package whose claim is the third try: a foreign base and a trained policy were there before it."""
    project, package = Project.open(unpacked), Unpacked(unpacked)
    suite, base, policy = (
        project.inputs("heldout").heldout,
        package.trained.base_digest,
        package.trained.policy_digest,
    )
    (unpacked / OPENINGS).unlink()
    for stage, who, of in (
        ("pre_eval", "f" * 64, "f" * 64),
        ("pre_eval", base, base),
        ("post_eval", "e" * 64, base),
        ("post_eval", policy, base),
    ):
        note_opening(project.root, project.params, stage, suite, who, base=of)
        if who == "e" * 64:
            note_called(project.root, who, suite, called=True)
    found = opened_records(
        project.root, project.params, suite, policy, base, secondary=project.inputs("secondary").secondary
    )
    write_json(project.results("openings.json"), found)
    sha256 = sha256_bytes(project.results("openings.json").read_bytes())
    opened = openings_of(found, sha256, package.plan.looks)
    told = {"opened": opened.model_dump(mode="json"), "level": level_of(opened, package.plan)}
    _change(project.results("claim.json"), lambda claim: claim.update(told))
    note_opening(
        project.root, project.params, "post_eval", suite, "d" * 64, base=base
    )  # what came later is no part of it
    write_json(unpacked / OPENINGS, ledger_of(project))
    shutil.rmtree(project.scratch)
    return unpacked


def test_a_sound_package_follows_and_its_ledger_is_no_matter_of_when_and_where(
    unpacked: Path, third: Path
) -> None:
    package = Unpacked(third)
    seen = openings_follow(package)
    assert not seen.wrong and "place 3 of the claim, behind 2 tries" in seen.said
    ledger = openings(Project.open(third).root)
    assert ledger is not None
    assert {(each.times, each.copy_id) for each in ledger.openings} == {(1, None)}
    assert "d" * 64 not in {each.policy_digest for each in ledger.openings}


def test_a_draft_has_neither_notes_nor_a_place(unpacked: Path) -> None:
    values = read_yaml(unpacked / "params.yaml", fix="")
    values["evaluation"]["open"] = False
    (unpacked / "params.yaml").write_text(json.dumps(values))
    wrong = openings_follow(Unpacked(unpacked)).wrong
    assert len(wrong) == 3 and all(each.endswith("a draft opens nothing") for each in wrong)
    for name in (OPENINGS, place_of("openings.json")):
        (unpacked / name).unlink()
    _change(unpacked / place_of("claim.json"), lambda claim: claim.update(opened=None))
    seen = openings_follow(Unpacked(unpacked))
    assert not seen.wrong and "no held-out record was opened" in seen.said


def told(change: Callable[[Any], None]) -> Callable[[Path], None]:
    return lambda root: _change(root / place_of("openings.json"), change)


def noted(change: Callable[[Any], None]) -> Callable[[Path], None]:
    return lambda root: _change(root / OPENINGS, change)


def claimed(change: Callable[[Any], None]) -> Callable[[Path], None]:
    return lambda root: _change(root / place_of("claim.json"), change)


def _change(path: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(dumps(value))


def without(policy: str) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        value["openings"] = [each for each in value["openings"] if each["policy_digest"] != policy]

    return change


def each_with(**values: str) -> Callable[[Any], None]:
    return lambda ledger: [each.update(values) for each in ledger["openings"]] and None


OTHERWISE: tuple[dict[str, str], ...] = (
    {"base": "0" * 64},
    {"data": "a laboratory"},
    {"split": "validation"},
)


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (told(lambda v: v.update(place=1, others=[])), "place: 1; the ledger in the package gives 3"),
        (told(lambda v: v.update(others=v["others"][:1])), "others: "),
        (told(lambda v: v.update(recipe_place=1)), "recipe_place: 1"),
        (told(lambda v: v.update(rolls=3)), "rolls: 3"),
        (told(lambda v: v["others"][1].update(called=None)), "others: "),
        (noted(lambda v: [each.pop("called", None) for each in v["openings"]] and None), "others: "),
        (told(lambda v: v["others"][1].update(looks=1)), "others: "),
        (told(lambda v: v.update(secondary_places={"traps": 1})), "secondary_places: traps; the plan has"),
        (claimed(lambda v: v.update(level=0.05)), "claim.json, level: 0.05; place 3 leaves 0.002"),
        (claimed(lambda v: v["opened"].update(registered=False)), "claim.json, opened: not what"),
        (noted(without("f" * 64)), "others: "),
        (noted(without("e" * 64)), "others: "),
        *((noted(each_with(**other)), "no note of ") for other in OTHERWISE),
        (lambda root: (root / OPENINGS).unlink(), "found No such file"),
        (lambda root: (root / OPENINGS).write_text("[]"), "heldout_openings.json"),
    ],
)
def test_whoever_changes_either_is_found(third: Path, tamper: Callable[[Path], None], said: str) -> None:
    tamper(third)
    check = looked("V3", "ledger", lambda: openings_follow(Unpacked(third)))
    assert check.outcome == "failed" and said in check.found


def test_a_run_whose_ledger_lost_what_its_claim_names_is_not_packaged(third: Path) -> None:
    _change(third / OPENINGS, without("e" * 64))
    with pytest.raises(PackageError, match="none of policy eeee"):
        ledger_of(Project.open(third))
