"""A ledger says which held-out records were opened for which policy, and tells what was done here from what
came along."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from assay.cli.tools import tasks_file
from assay.core.config.settings import Params
from assay.core.errors import RecordError
from assay.core.records import OpenedRecords
from assay.core.storage.json import read_record
from assay.pipeline.heldout_ledger import LEDGER, NOTHING, copy_id, openings, policies_that_saw
from assay.pipeline.note_openings import adopt, note_called, note_opening, opened_records, recipe_of
from assay.pipeline.project import Project
from assay.rollout.dataset.wording import content_of
from assay.stages import fingerprint
from assay.stages.render_evidence.claim_inputs import opened_since
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.openings import opening_warnings, openings_of
from assay.verdict.evidence.words.remarks import remark
from tests.house import ROOT
from tests.own_data import jsonl, row, write_data
from tests.own_data import project as of_my_own

BASE, TRAINED = "b" * 64, "c" * 64


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A small dataset, fingerprinted, in which nothing was opened yet."""
    write_data(tmp_path / "clone")
    made = of_my_own(tmp_path / "clone")
    fingerprint.run(made)
    return made


@pytest.fixture
def claim() -> Claim:
    # Nothing else of it is asked here
    return Claim.model_construct(verdict="IMPROVED", before_policy=BASE, after_policy=TRAINED)


def a_run(project: Project, trained: str = TRAINED, *, coin: str = "r" * 64) -> None:
    suite = project.inputs("heldout").heldout
    note_opening(project.root, project.params, "pre_eval", suite, BASE, base=BASE)
    note_opening(project.root, project.params, "control", suite, coin, base=BASE)
    note_opening(project.root, project.params, "post_eval", suite, trained, base=BASE)


def shipped(project: Project, folder: Path) -> Project:
    """Return what a stranger gets of a project: everything but .scratch/, which is in no clone and no zip."""
    shutil.copytree(project.root, folder, ignore=shutil.ignore_patterns(".scratch"))
    return Project(folder, project.params)


def test_the_protocols_own_openings_are_nothing_to_speak_of(project: Project, claim: Claim) -> None:
    a_run(project)
    a_run(project)
    assert opened_since(project, claim) == []
    ledger = openings(project.root)
    assert (
        ledger is not None
        and [each.times for each in ledger.openings] == [2, 2, 2]
        and len(ledger.record_sets) == 1
    )


def test_a_newcomer_is_told_of_no_opening_of_his_own_and_how_many_the_makers_have(
    project: Project, claim: Claim, tmp_path: Path
) -> None:
    for number in range(3):
        a_run(project, str(number) * 64)
    a_run(project)
    ((kind, said),) = opened_since(project, claim)
    assert kind == "warning" and said == remark("opened_for_others", here=3)
    theirs = shipped(project, tmp_path / "newcomer")
    a_run(theirs)  # equal bytes, so the same two policies and the same control
    assert opened_since(theirs, claim) == [("note", remark("opened_elsewhere", here=0, elsewhere=3))]
    a_run(theirs, "f" * 64)
    assert opened_since(theirs, claim) == [
        ("warning", remark("opened_for_others", here=1)),
        ("note", remark("opened_elsewhere", here=1, elsewhere=3)),
    ]
    assert copy_id(theirs.root) != copy_id(project.root)


def test_a_ledger_names_nobody_and_no_place(project: Project) -> None:
    a_run(project)
    text = project.observed(LEDGER).read_text()
    assert str(project.root) not in text and set(json.loads(text)["openings"][0]) == {
        "stage",
        "policy_digest",
        "suite_digest",
        "data",
        "split",
        "records",
        "copy_id",
        "times",
        "base",
        "place",
        "recipe_place",
        "looks",
        "called",
        "family",
        "seed",
        "restored",
        "put_back",
    }


def test_another_size_of_the_suite_shares_records_and_counts(project: Project, claim: Claim) -> None:
    a_run(project)
    changed = project.params.evaluation.model_copy(update={"items": 2, "draws": 7})
    small = Project(project.root, project.params.model_copy(update={"evaluation": changed}))
    assert small.inputs("heldout").heldout.digest != project.inputs("heldout").heldout.digest
    note_opening(small.root, small.params, "post_eval", small.inputs("heldout").heldout, "e" * 64, base=BASE)
    assert opened_since(project, claim)[0][1] == remark("opened_for_others", here=1)


def test_openings_of_other_records_do_not_count_even_under_equal_ids(project: Project, claim: Claim) -> None:
    a_run(project)
    numbers = range(9, 13)
    others = [row(n, prompt=f"And who is {n}? Ben {n}.", gold={"name": f"Ben {n}"}) for n in numbers]
    write_data(project.root, {"heldout": jsonl(others)})
    before = heldout_suite_ids(project)
    fingerprint.run(project)
    assert heldout_suite_ids(project) == before
    a_run(project, "e" * 64)
    assert opened_since(project, claim.model_copy(update={"after_policy": "e" * 64})) == []


def heldout_suite_ids(project: Project) -> list[str]:
    return [json.loads(line)["id"] for line in project.data("heldout.jsonl").read_text().split("\n") if line]


def test_two_datasets_with_equal_ids_and_other_golds_are_two_suites(project: Project) -> None:
    digest = project.inputs("heldout").heldout.digest
    numbers = range(9, 13)
    others = [row(n, gold={"name": f"Ana {n}", "age": n + 20 + (n < 12)}) for n in numbers]
    write_data(project.root, {"heldout": jsonl(others)})
    fingerprint.run(project)
    assert project.inputs("heldout").heldout.digest != digest


def test_a_ledger_that_was_removed_torn_or_begun_anew_is_said(
    project: Project, claim: Claim, tmp_path: Path
) -> None:
    a_run(project, "e" * 64)
    a_run(project)
    path = project.observed(LEDGER)
    whole = path.read_bytes()
    path.unlink()
    found = opened_since(project, claim)  # the working copy itself remembers
    assert [each.code for _, each in found] == ["ledger_not_whole", "opened_for_others"]
    stranger = shipped(project, tmp_path / "zip")
    assert opened_since(stranger, claim) == [("warning", remark("openings_not_known"))]
    note_opening(
        stranger.root, stranger.params, "post_eval", stranger.inputs("heldout").heldout, TRAINED, base=BASE
    )
    assert opened_since(stranger, claim)[0][1] == remark("ledger_not_whole"), (
        "the base was opened as well, and nothing says so"
    )
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordError, match=LEDGER):
        opened_since(project, claim)
    path.write_bytes(whole.replace(b"post_eval", b"pre_eval", 1)[:-40])
    with pytest.raises(RecordError, match=LEDGER):
        note_opening(
            project.root, project.params, "post_eval", project.inputs("heldout").heldout, TRAINED, base=BASE
        )


def test_a_ledger_of_another_format_is_refused_with_a_way_out(project: Project, claim: Claim) -> None:
    a_run(project)
    path = project.observed(LEDGER)
    for other in ({"openings": []}, json.loads(path.read_text()) | {"format": "assay-openings/2"}):
        path.write_text(json.dumps(other))
        with pytest.raises(RecordError, match="or remove the file: the count then begins anew"):
            opened_since(project, claim)


def test_the_shipped_ledger_can_be_read(claim: Claim, tmp_path: Path) -> None:
    for name in ("evidence/results/data/fingerprint.json", f"evidence/observed/{LEDGER}"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "data").symlink_to(ROOT / "data")
    project = Project(tmp_path, Project.open(ROOT).params)
    suite = project.inputs("heldout").heldout
    ledger = openings(project.root)
    assert ledger is not None
    shipped_claim = read_record(ROOT / "evidence/results/report/claim.json", Claim, fix="")
    seen = policies_that_saw(ledger, suite.contents)
    assert {shipped_claim.before_policy, shipped_claim.after_policy} <= seen.keys()
    own = (shipped_claim.before_policy, shipped_claim.after_policy)
    assert all(seen[policy].n_records == len(suite.contents) for policy in own)
    assert all(kind == "note" for kind, _ in opened_since(project, shipped_claim))
    family = recipe_of(project.params).family  # the settings of today are those that were registered
    assert {each.family for each in ledger.openings if each.policy_digest == own[1]} == {family}


def test_experiments_in_a_folder_of_their_own_are_remembered_by_the_folder_they_were_called_in(
    project: Project, claim: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(project)
    temporary = shipped(project, tmp_path / "temp")
    monkeypatch.setenv("DVC_ROOT", str(project.root))
    a_run(temporary, "e" * 64)
    assert copy_id(temporary.root) == copy_id(project.root)
    monkeypatch.delenv("DVC_ROOT")
    assert opened_since(project, claim)[0][1] == remark("opened_for_others", here=1)


def test_whoever_evaluates_held_out_records_from_another_file_has_opened_them(project: Project) -> None:
    items = project.items("heldout")
    some = [row(40), row(10), row(11)]  # two of them are held out
    (project.root / "elsewhere.jsonl").write_bytes(jsonl(some))
    shutil.copytree(project.data("schemas"), project.root / "schemas")
    tasks = project.root / "elsewhere.jsonl"
    read, _ = tasks_file.items_of(project, project.task(), tasks)
    suite = tasks_file.suite_from(project, read, tasks, None, None, 1, "")
    tasks_file.note_asked(project, suite, "e" * 64, "b" * 64)
    ledger = openings(project.root)
    assert ledger is not None
    assert policies_that_saw(ledger, [content_of(item.row or {}) for item in items])["e" * 64].n_records == 2
    (opening,) = ledger.openings
    assert (opening.stage, opening.split) == ("evaluate", "heldout")


def known(project: Project, trained: str = TRAINED) -> OpenedRecords:
    return opened_records(project.root, project.params, project.inputs("heldout").heldout, trained, BASE)


def test_the_second_policy_is_the_second_and_says_who_was_first(project: Project) -> None:
    a_run(project, "e" * 64)
    first = known(project, "e" * 64)
    assert (first.place, first.others, first.restored) == (1, (), 0)
    other = project.params.model_copy(update={"seed": 77})
    a_run(Project(project.root, other))
    second = known(Project(project.root, other))
    assert (second.place, second.recipe_place) == (2, 2)
    assert [(each.policy_digest, each.n_records, each.same_recipe) for each in second.others] == [
        ("e" * 64, len(set(project.inputs("heldout").heldout.contents)), True)
    ]
    assert known(project, "e" * 64) == first, "what came later changes nothing of what was said"


def test_a_call_is_noted_once_and_hands_its_level_on(project: Project, tmp_path: Path) -> None:
    suite = project.inputs("heldout").heldout
    a_run(project, "e" * 64)
    note_called(project.root, "e" * 64, suite, called=True)
    note_called(project.root, "e" * 64, suite, called=False)  # rendered again, under what rule ever
    note_called(project.root, "0" * 64, suite, called=True)  # never opened
    last = seeded(project, 77)
    a_run(last)
    looks = project.params.claim.looks
    assert looks is not None
    (before,) = known(last).others
    assert (before.called, before.looks) == (True, looks)
    assert openings_of(known(last), "", looks).share == pytest.approx(2 / looks)
    (project.observed(LEDGER)).unlink()  # the working copy still knows it
    assert known(last).others == (before,)
    elsewhere = shipped(project, tmp_path / "elsewhere")
    a_run(elsewhere, "e" * 64)
    note_called(elsewhere.root, "e" * 64, suite, called=False)
    adopt(last.root, openings(elsewhere.root) or NOTHING)
    assert known(last).others[0].called is False, "where two copies differ, nothing is handed on"


def test_removing_the_ledger_loses_no_opening_and_is_said_and_without_a_base_nobody_knows_the_place(
    project: Project, tmp_path: Path
) -> None:
    a_run(project, "e" * 64)
    other = Project(project.root, project.params.model_copy(update={"seed": 77}))
    a_run(other)
    assert known(other).restored == 0
    project.observed(LEDGER).unlink()
    a_run(other)  # and now the file is whole again, but what was done to it is known
    assert (known(other).place, known(other).restored) == (2, 2)
    stranger = shipped(other, tmp_path / "zip")
    stranger.observed(LEDGER).unlink()  # neither ledger nor memory, and post_eval alone runs again
    note_opening(
        stranger.root, stranger.params, "post_eval", stranger.inputs("heldout").heldout, TRAINED, base=BASE
    )
    assert known(stranger).place is None
    a_run(stranger)  # as the fix says: both measure again
    assert known(stranger).place == 1


def test_a_removed_ledger_comes_back_from_the_last_commit(project: Project, tmp_path: Path) -> None:
    a_run(project, "e" * 64)
    clone = shipped(project, tmp_path / "clone with git")
    git = ["git", "-C", str(clone.root), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-f", "evidence"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    clone.observed(LEDGER).unlink()
    other = Project(clone.root, clone.params.model_copy(update={"seed": 77}))
    a_run(other)
    assert (known(other).place, known(other).restored) == (2, 1)
    assert json.loads(clone.observed(LEDGER).read_text())["openings"], "and it stands in the file again"


PUT_BACK = {
    "a checkout": ("checkout -q -- evidence",),
    "a stash": ("stash -q",),
    "another branch": ("checkout -q -f other",),
    "a branch without it": ("checkout -q -f before",),
    "a commit of long ago": ("checkout -q HEAD~1 -- evidence",),
    "an experiment, which no branch has": ("restore -q -s refs/exps/aa/mine -- evidence",),
}


@pytest.fixture
def in_git(project: Project) -> Callable[..., None]:
    """Git in the project, which holds a ledger of one run, of two, and commits before and beside them."""

    def git(words: str) -> None:
        named = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *named, "-C", str(project.root), *words.split()], check=True)

    git("init -q -b main")
    git("add -f data")
    git("commit -qm data")
    git("branch before")
    a_run(project, "e" * 64)
    git("add -f evidence/observed")
    git("commit -qm one")
    git("branch other")
    git("update-ref refs/exps/aa/mine HEAD")
    a_run(seeded(project, 77), "f" * 64)
    git("commit -qam two")
    return git


def seeded(project: Project, seed: int) -> Project:
    return Project(project.root, project.params.model_copy(update={"seed": seed}))


@pytest.mark.parametrize("words", PUT_BACK.values(), ids=PUT_BACK)
def test_who_comes_back_by_git_is_not_told_to_have_cut_the_ledger_and_every_opening_counts(
    project: Project, in_git: Callable[..., None], words: tuple[str, ...]
) -> None:
    a_run(seeded(project, 78), "d" * 64)
    for each in words:
        in_git(each)
    last = seeded(project, 79)
    a_run(last)
    found = known(last)
    assert (found.place, found.restored) == (4, 0) and found.put_back >= 1
    said = [each.code for each in opening_warnings(openings_of(found, ""), found)]
    assert "ledger_put_back" in said and "ledger_restored" not in said


def test_a_ledger_that_was_cut_by_hand_is_still_said_to_have_been(
    project: Project, in_git: Callable[..., None]
) -> None:
    path = project.observed(LEDGER)
    ledger = json.loads(path.read_text())
    ledger["openings"] = [each for each in ledger["openings"] if each["policy_digest"] != "f" * 64]
    path.write_text(json.dumps(ledger))
    last = seeded(project, 79)
    a_run(last)
    found = known(last)
    assert (found.place, found.restored, found.put_back) == (3, 1, 0)
    assert "ledger_restored" in [each.code for each in opening_warnings(openings_of(found, ""), found)]


def test_a_draft_plays_validation_items_and_writes_nothing_down_unless_they_are_held_out_elsewhere(
    project: Project,
) -> None:
    draft = Project(project.root, of_draft(project.params))
    suite = draft.inputs("heldout").heldout
    assert {item.id for item in suite.items} <= {item.id for item in project.items("validation")}
    assert (suite.split, suite.draws) == ("validation", project.params.evaluation.draws)
    assert draft.inputs("secondary").secondary == {}
    a_run(draft)
    assert openings(draft.root) is None
    note_opening(draft.root, draft.params, "evaluate", project.inputs("heldout").heldout, "e" * 64, base=BASE)
    (opening,) = (openings(draft.root) or NOTHING).openings
    assert opening.split == "heldout", "who asks for held-out records has opened them"
    note_opening(project.root, project.params, "pre_eval", replace(suite, split="heldout"), BASE, base=BASE)
    a_run(draft)
    assert len((openings(draft.root) or NOTHING).openings) > 2


def of_draft(params: Params) -> Params:
    return params.model_copy(update={"evaluation": params.evaluation.model_copy(update={"open": False})})


def test_settings_that_open_are_the_recipe_they_were(project: Project) -> None:
    assert recipe_of(of_draft(project.params)) == recipe_of(project.params)


def test_what_a_seed_opened_in_a_copy_is_known_to_the_project(project: Project, tmp_path: Path) -> None:
    a_run(project)
    copy = shipped(project, tmp_path / "seed")
    other = Project(copy.root, copy.params.model_copy(update={"seed": 1}))
    a_run(other, "f" * 64)
    ledger = openings(other.root)
    assert ledger is not None
    adopt(project.root, ledger)
    project.observed(LEDGER).unlink()  # the working copy itself remembers it by now
    seen = openings(project.root)
    assert seen is not None and "f" * 64 in policies_that_saw(
        seen, project.inputs("heldout").heldout.contents
    )


def test_a_plan_that_picks_among_seeds_that_another_one_showed_leaves_some_out(project: Project) -> None:
    def planned(seed: int, seeds: list[int]) -> Project:
        claim = project.params.claim.model_copy(update={"seeds": seeds})
        return Project(project.root, project.params.model_copy(update={"seed": seed, "claim": claim}))

    for seed in range(4):
        a_run(planned(seed, [0, 1, 2, 3]), f"{seed}" * 64)
    for seeds, left_out in (([0, 2], (1, 3)), ([0, 1, 2, 3, 4], ()), ([7, 8], ())):
        picked = planned(seeds[0], seeds)
        policy = f"{len(seeds)}{seeds[0]}" * 32
        a_run(picked, policy)
        assert known(picked, policy).left_out == left_out


def copied(project: Project) -> None:
    """Make the held-out records those of another dataset: other ids, order, spaces, labels, manners and
    case."""
    rows = [json.loads(line) for line in project.data("heldout.jsonl").read_text().splitlines()][::-1]
    for k, each in enumerate(rows):
        each |= {"id": f"other {k}", "difficulty": "new", "note": k}
        each["prompt"] = f"Hello,  {each['prompt'].upper()} Please!"
    write_data(project.root, {"heldout": b"".join(json.dumps(each).encode() + b"\n" for each in rows)})


def test_a_copy_of_the_records_under_other_ids_is_the_same_records(project: Project) -> None:
    a_run(project, "e" * 64)
    before = project.inputs("heldout").heldout
    copied(project)
    dataset = project.params.dataset.model_copy(update={"name": "renamed"})
    renamed = Project(project.root, project.params.model_copy(update={"dataset": dataset}))
    fingerprint.run(renamed)
    suite = renamed.inputs("heldout").heldout
    assert before.digest != suite.digest and set(before.contents) & set(suite.contents)
    a_run(renamed)
    assert (known(renamed).place, known(renamed).recipe_place) == (2, 2)
