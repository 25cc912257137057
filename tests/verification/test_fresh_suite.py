"""A fresh held-out suite follows from plan and policy, nobody has looked at it, it alone may change
the plan after the training, and the claim says how many came before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from assay.cli.tools import fresh_data
from assay.core.errors import AssayError, ConfigError, RecordError
from assay.core.records import TrainFacts
from assay.core.storage.files import ASIDE, sha256_bytes
from assay.core.storage.json import read_record
from assay.pipeline.heldout_ledger import NOTHING, openings
from assay.pipeline.note_openings import note_opening, opened_records
from assay.pipeline.project import Project
from assay.rollout.dataset.audit_records import Contamination, judged
from assay.rollout.dataset.fresh import FILE
from assay.rollout.dataset.verified import SUMS, sums_text
from assay.rollout.tasks.protocol import Task
from assay.stages import fingerprint, render_evidence
from assay.stages.packing.archive import unpack
from assay.stages.packing.layout import strangers
from assay.stages.render_evidence.fresh_suite import fresh_suite, planned_before
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.evidence.words.remarks import remark
from tests.verification import made_run
from tests.verification.made_lock import lock

KEPT = remark("fresh_kept")


def on(project: Project, folder: Path) -> Project:
    """Return the project with a folder of data."""
    data = project.params.dataset.model_copy(update={"root": folder.relative_to(project.root).as_posix()})
    return Project(project.root, project.params.model_copy(update={"dataset": data}))


def trained_in(project: Project) -> TrainFacts:
    return read_record(project.results("train.json"), TrainFacts, fix="")


def plan_in(project: Project) -> ClaimPlan:
    return read_record(project.results("claim_plan.json"), ClaimPlan, fix="")


def test_a_fresh_suite_is_the_first_look_and_what_is_not_drawn_bars_the_claim(unpacked: Path) -> None:
    project, old = Project.open(unpacked), trained_in(Project.open(unpacked))
    suite = project.inputs("heldout").heldout
    for k in range(3):
        note_opening(project.root, project.params, "post_eval", suite, f"{k:064d}", base=old.base_digest)
    folder = fresh_data.run(project)
    assert folder == fresh_data.run(project), "the same policy has the same suite"
    fresh = on(project, folder)
    assert not planned_before(project, plan_in(project), old), "it is no fresh suite"
    assert not list(
        strangers(
            [f"data/x/{each.relative_to(folder)}" for each in folder.glob("*.*")], data="data/x", scratch=True
        )
    ), "a package holds it"
    fingerprint.run(fresh)
    found = read_record(fresh.results("contamination.json"), Contamination, fix="")
    assert judged(found, ("train", "validation", "heldout"))[0] == []
    assert "heldout_0" in found.n_records, "what older suites share with it is looked at"
    asked = fresh.inputs("heldout").heldout
    for stage, who in (("pre_eval", old.base_digest), ("post_eval", old.policy_digest)):
        note_opening(fresh.root, fresh.params, stage, asked, who, base=old.base_digest)
    place = opened_records(fresh.root, fresh.params, asked, old.policy_digest, old.base_digest).place
    assert place == 1 and len((openings(fresh.root) or NOTHING).openings) > 3
    assert fresh_suite(fresh, old) == ([], [remark("fresh_suite", n=0), KEPT])
    assert fresh_suite(project, old) == ([], [])
    another = old.model_copy(update={"policy_digest": "e" * 64})
    assert fresh_suite(fresh, another)[0] == [remark("fresh_of_other_policy")]
    again = old.model_copy(
        update={"claim_plan_sha256": sha256_bytes(fresh.results("claim_plan.json").read_bytes())}
    )
    assert KEPT not in fresh_suite(fresh, again)[1], "trained again by the plan of the suite"
    path = folder / "heldout.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert fresh_suite(fresh, old)[0] == [remark("fresh_not_derived")]
    (folder / "heldout_0.jsonl").unlink()
    assert fresh_suite(fresh, old)[0] == [remark("fresh_not_derived")]


MAY_DIFFER: tuple[tuple[dict[str, Any], bool], ...] = (
    ({}, True),
    ({"suite_digest": "other", "largest_cluster": 7}, True),
    ({"worst_cluster": 100.0}, True),
    ({"worst_cluster": 50.0}, False),
    ({"smallest_effect_points": 1.0}, False),
    ({"looks": 2}, False),
    ({"validation_suite": "other"}, False),
)


def test_only_what_other_records_change_may_differ_from_the_plan_before_training(unpacked: Path) -> None:
    project = Project.open(unpacked)
    old, fresh = trained_in(project), on(project, fresh_data.run(project))
    fingerprint.run(fresh)
    plan = plan_in(fresh)
    assert plan.worst_cluster > 50
    for changes, before in MAY_DIFFER:
        assert planned_before(fresh, plan.model_copy(update=changes), old) is before, changes


def test_a_plan_before_training_has_to_be_the_one_noted_then_and_of_the_data_beside_it(
    unpacked: Path,
) -> None:
    project = Project.open(unpacked)
    old, folder = trained_in(project), fresh_data.run(project)
    fresh = on(project, folder)
    fingerprint.run(fresh)
    assert planned_before(fresh, plan_in(fresh), old)
    assert not planned_before(fresh, plan_in(fresh), old.model_copy(update={"claim_plan_sha256": "0" * 64}))
    for name in ("train.jsonl", "heldout_0.jsonl"):  # of other data than was planned for
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content.partition(b"\n")[2])
        sums = sums_text({each.name: sha256_bytes(each.read_bytes()) for each in folder.glob("*.json*")})
        (folder / SUMS).write_text(sums)
        fingerprint.run(fresh)
        assert not planned_before(fresh, plan_in(fresh), old), name
        (folder / name).write_bytes(content)


def test_another_policy_has_another_suite_which_is_counted_and_none_has_none(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, old = Project.open(unpacked), trained_in(Project.open(unpacked))
    first = fresh_data.run(project)
    path = project.results("train.json")
    told = json.loads(path.read_text()) | {"policy_digest": "e" * 64}
    path.write_text(json.dumps(told))
    second = fresh_data.run(project)
    texts = [(each / "heldout.jsonl").read_bytes() for each in (first, second)]
    assert texts[0] != texts[1] and json.loads((second / FILE).read_text())["number"] == 2
    assert fresh_suite(on(project, second), trained_in(project))[1] == [remark("fresh_suite", n=1)]
    shutil.rmtree(second)
    kind = type(project.task())
    monkeypatch.setattr(kind, "generate", Task.generate)
    with pytest.raises(ConfigError, match="a task with a generator"):
        fresh_data.run(project)
    assert not second.exists()
    assert remark("fresh_not_checked") in fresh_suite(on(project, first), old)[1]
    project.results("claim_plan.json").write_text("{}")
    with pytest.raises(AssayError, match="the plan by which was trained"):
        fresh_data.run(project)
    path.unlink()
    with pytest.raises(RecordError, match="a trained policy, found none"):
        fresh_data.run(project)


def test_what_a_killed_call_left_and_a_folder_of_ones_own_are_no_fresh_suites(unpacked: Path) -> None:
    project = Project.open(unpacked)
    data = project.data("")
    left = data.parent / f".{data.name}-fresh-1.{2**22 + 7}-abcdefgh{ASIDE}"
    own = data.parent / f"{data.name}-fresh-1"
    for folder in (left, own):
        folder.mkdir()
        (folder / "train.jsonl").write_text("{}\n")
    folder = fresh_data.run(project)
    assert folder.name == f"{data.name}-fresh-2" and not left.exists()
    assert (own / "train.jsonl").read_text() == "{}\n"
    assert sorted(each.name for each in folder.iterdir() if each.name[0] == ".") == []


@pytest.mark.long
def test_a_policy_that_was_kept_has_a_claim_on_its_fresh_suite_and_its_package_passes(tmp_path: Path) -> None:
    project = made_run.made_run(tmp_path / "run", rendered=False)
    fresh, trained = on(project, fresh_data.run(project)), trained_in(project)
    values = OmegaConf.load(project.root / "params.yaml")
    values.dataset.root = fresh.params.dataset.root
    OmegaConf.save(values, project.root / "params.yaml")
    fingerprint.run(fresh)
    made_run._before(fresh, trained.base_digest)
    made_run._after(fresh, trained)
    render_evidence.run(fresh)
    lock(fresh)
    claim = read_record(fresh.results("claim.json"), Claim, fix="")
    assert claim.verdict == "IMPROVED" and claim.opened is not None and claim.opened.place == 1
    assert remark("fresh_suite", n=0) in claim.warnings and KEPT in claim.warnings
    unpack(made_run.packaged(fresh, tmp_path / "dist"), tmp_path / "unpacked")
    looks = made_run.looked_without_drawing(tmp_path / "unpacked", tmp_path / "work")
    assert [each for each in looks if each.outcome != "passed"] == []
    assert any("the same but for held-out records" in each.found for each in looks)
