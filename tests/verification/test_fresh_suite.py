"""A fresh held-out suite follows from plan and policy, nobody has looked at it, and the claim says how many
came before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from assay.cli.tools import fresh_data
from assay.core.config.tasks import settings_class
from assay.core.errors import AssayError, ConfigError, RecordError
from assay.core.records import TrainFacts
from assay.core.storage.json import read_record
from assay.pipeline.heldout_ledger import NOTHING, openings
from assay.pipeline.note_openings import note_opening, opened_records
from assay.pipeline.project import Project
from assay.rollout.dataset.audit_records import Contamination, judged
from assay.rollout.dataset.fresh import FILE
from assay.rollout.dataset.wording import content_of
from assay.stages import fingerprint
from assay.stages.packing.layout import strangers
from assay.stages.render_evidence.claim_inputs import _fresh
from assay.verdict.evidence.words.remarks import remark


def on(project: Project, folder: Path) -> Project:
    """Return the project with a folder of data."""
    data = project.params.dataset.model_copy(update={"root": folder.relative_to(project.root).as_posix()})
    return Project(project.root, project.params.model_copy(update={"dataset": data}))


def trained_in(project: Project) -> TrainFacts:
    return read_record(project.results("train.json"), TrainFacts, fix="")


@pytest.mark.parametrize("task", ["collider", "structured"])
def test_equal_labels_draw_equal_records_and_none_of_the_shipped_ones(task: str) -> None:
    kind = settings_class(task)
    one, again, other = (kind.fresh_heldout(label, 60) for label in ("a", "a", "b"))
    assert one is not None and other is not None and one == again
    shipped = {
        content_of(json.loads(line))
        for name, text in kind.make_data().items()
        if name.endswith(".jsonl")
        for line in text.splitlines()
    }
    drawn = [{content_of(json.loads(line)) for line in text.splitlines()} for text in (one, other)]
    assert [len(each) for each in drawn] == [60, 60] and not (drawn[0] | drawn[1]) & shipped
    assert len(drawn[0] & drawn[1]) <= 3, "jobs are few enough to be met twice"


def test_a_fresh_suite_is_the_first_look_and_what_is_not_drawn_bars_the_claim(unpacked: Path) -> None:
    project, old = Project.open(unpacked), trained_in(Project.open(unpacked))
    suite = project.inputs("heldout").heldout
    for k in range(3):
        note_opening(project.root, project.params, "post_eval", suite, f"{k:064d}", base=old.base_digest)
    folder = fresh_data.run(project)
    assert folder == fresh_data.run(project), "the same policy has the same suite"
    fresh = on(project, folder)
    assert fresh_data.run(fresh) == folder
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
    assert _fresh(fresh, old) == ([], [remark("fresh_suite", n=0)]) and _fresh(project, old) == ([], [])
    another = old.model_copy(update={"policy_digest": "e" * 64})
    assert _fresh(fresh, another)[0] == [remark("fresh_of_other_policy")]
    path = folder / "heldout.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert _fresh(fresh, old)[0] == [remark("fresh_not_derived")]


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
    assert _fresh(on(project, second), trained_in(project))[1] == [remark("fresh_suite", n=1)]
    shutil.rmtree(second)
    kind = type(project.params.task)
    monkeypatch.setattr(kind, "fresh_heldout", classmethod(lambda cls, label, n: None))
    with pytest.raises(ConfigError, match="a task with a generator"):
        fresh_data.run(project)
    assert remark("fresh_not_checked") in _fresh(on(project, first), old)[1]
    project.results("claim_plan.json").write_text("{}")
    with pytest.raises(AssayError, match="the plan by which was trained"):
        fresh_data.run(project)
    path.unlink()
    with pytest.raises(RecordError, match="a trained policy, found none"):
        fresh_data.run(project)
