"""Results of a project's own held-out records that are judged inside it are looks at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.storage.json import write_jsonl
from assay.pipeline.heldout_ledger import NOTHING, openings
from assay.pipeline.judged_openings import look_at
from assay.pipeline.note_openings import note_opening
from assay.pipeline.project import Project
from assay.rollout.dataset.wording import content_of, texts_of
from assay.verdict.judge.command import JudgeRequest, judge_files
from assay.verdict.judge.reading import Arm
from assay.verdict.judge.sources import JudgedLook
from assay.verdict.judge.verdict import judge
from tests.stages.test_opened import BASE, TRAINED, a_run, project
from tests.tools.judged_files import as_csv

__all__ = ["project"]


def arms(project: Project, folder: Path, policy: str | None = TRAINED, ids: str = "{}") -> list[Path]:
    """Return two files of results on the held-out records, as assay's episodes or as any table."""
    rows, files = [item.row or {} for item in project.items("heldout")], []
    for name, who, success in (("before", BASE, False), ("after", policy, True)):
        path = folder / f"{name}.jsonl"
        told = [
            {"id": ids.format(row["id"]), "score": float(success), "prompt": texts_of(row)[0]} for row in rows
        ]
        if policy is not None:
            turns = [{"completion": "x", "n_tokens": 1, "outcome": "ok", "prompt_digest": "p"}]
            told = [
                {"item_id": row["id"], "cluster": row["id"], "draw": 0, "success": success, "turns": turns}
                | {"reward": float(success), "policy": who, "seed": 1, "ending": "x", "strata": {}}
                for row in rows
            ]
        write_jsonl(path, told)
        files.append(path)
    return files


def judged(project: Project, files: list[Path]) -> tuple[JudgedLook | None, object]:
    def looking(found: dict[str, Arm]) -> JudgedLook | None:
        return look_at(
            project.root, project.params, found["before"].record, found["after"].record, found["before"].rows
        )

    told, _, found = judge_files(*files, JudgeRequest(), looking=looking)  # type: ignore[arg-type]
    assert judge(told, dict(zip(("before", "after"), found.arms, strict=True))).claim == found.claim
    return told.look, found.claim


def test_the_thirteenth_policy_of_a_project_is_the_thirteenth_for_judge_too(
    project: Project, tmp_path: Path
) -> None:
    for k in range(12):
        a_run(project, f"{k:064d}")
    a_run(project)
    before = openings(project.root)
    look, claim = judged(project, arms(project, tmp_path))
    looks = project.params.claim.looks
    assert look is not None and looks is not None and (look.place, look.looks) == (13, looks)
    assert claim.level == pytest.approx(0.05 / looks)  # type: ignore[attr-defined]
    codes = [each.code for each in claim.warnings]  # type: ignore[attr-defined]
    assert "judged_here" in codes and "first look" not in " ".join(map(str, claim.warnings))  # type: ignore[attr-defined]
    assert openings(project.root) == before, "its opening was noted when it played"


@pytest.mark.parametrize("ids", ["{}", "other-{}"], ids=["by id", "by what they ask"])
def test_results_of_unknown_policies_take_the_next_places_and_a_spent_suite_bars_them(
    project: Project, tmp_path: Path, ids: str
) -> None:
    few = project.params.model_copy(update={"claim": project.params.claim.model_copy(update={"looks": 3})})
    project = Project(project.root, few)
    a_run(project)
    places = []
    for k in range(2):
        files = arms(project, tmp_path, None, ids)
        files[1].write_text(files[1].read_text().replace("1.0", str(0.5 + k / 4)))
        for _ in range(2):  # judging the same results once more is no other look
            look, claim = judged(project, files)
        assert look is not None
        places.append((look.place, claim.verdict == "NOT EVALUABLE"))  # type: ignore[attr-defined]
    # Results do not say that their base is the project's, which then saw the records too.
    assert places == [(3, False), (4, True)]
    told = [each.stage for each in (openings(project.root) or NOTHING).openings]
    assert told.count("judge") == 2
    suite = project.inputs("heldout").heldout
    note_opening(project.root, project.params, "post_eval", suite, "e" * 64, base=BASE)
    noted = [each for each in (openings(project.root) or NOTHING).openings if each.policy_digest == "e" * 64]
    assert noted[0].place == 4, "and who trains after that comes after them"


def test_results_of_other_records_are_no_look(project: Project, tmp_path: Path) -> None:
    a_run(project)
    before = openings(project.root)
    contents = {content_of(item.row or {}) for item in project.items("heldout")}
    assert contents
    for each in ("before", "after"):
        as_csv(tmp_path / f"{each}.csv", [{"id": f"q{k}", "score": k % 2} for k in range(40)])
    look, _ = judged(project, [tmp_path / "before.csv", tmp_path / "after.csv"])
    assert look is None and openings(project.root) == before
