"""What `assay task check` says of tasks with something the matter, and of those without."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from assay.checks.envcheck.command import QUICK_SECONDS, SKIPPED, examined, run
from assay.checks.envcheck.completions import hedges, wrapped
from assay.checks.envcheck.evidence import CHECKS, OUT_OF_TIME
from tests.house import ROOT
from tests.tools.envcheck.broken import BROKEN
from tests.tools.envcheck.making import Made
from tests.tools.envcheck.sound import SOUND

FEW = {
    "a gold within is enough",
    "raises on emptiness",
    "NaN",
    "random",
    "hash of a text",
    "day of the week",
    "eval",
    "names in a set of three",
    "the number of cores",
    "touches a file",
}


@pytest.mark.parametrize(
    "made", [made for made in BROKEN if made.name in FEW], ids=lambda made: made.name
)  # all of them: ./run bench envcheck
def test_a_broken_task_is_named_by_its_check(made: Made, tmp_path: Path) -> None:
    amiss = {each.check for each in examined(made.project(tmp_path)) if each.level in ("warning", "fault")}
    assert amiss & set(made.check.split("|"))


def test_a_search_that_never_ends_is_broken_off_and_named_and_hides_no_cause(tmp_path: Path) -> None:
    made = next(each for each in BROKEN if each.name == "backtracks on words")
    found = {each.check: each for each in examined(made.project(tmp_path), 12.0)}  # it is used up to the last
    # Where the search lets go of Python's lock in time the text is told, else the line.
    told = ("task.py, line 5, in reward", "did not come back in 2 s: item train-0, on 'I am sure")
    assert found["ending"].level == "fault" and any(each in found["ending"].found for each in told)
    assert found["signal"].level == "note" and OUT_OF_TIME not in {each.found for each in found.values()}


@pytest.mark.parametrize("made", SOUND[:1], ids=lambda made: made.name)
def test_a_sound_task_has_no_fault(made: Made, tmp_path: Path) -> None:
    found = examined(made.project(tmp_path))
    assert [each.check for each in found] == list(CHECKS)
    assert not [each for each in found if each.level == "fault"]


def test_the_command_writes_all_findings_and_ends_with_0_for_a_sound_task(tmp_path: Path) -> None:
    for name in ("configs", "data/words", "tasks/words"):
        shutil.copytree(ROOT / name, tmp_path / name)
    assert run(tmp_path, "words", out=tmp_path / "found.json") == 0
    told = json.loads((tmp_path / "found.json").read_text())
    assert told["task"] == "words" and [each["check"] for each in told["findings"]] == list(CHECKS)


def test_looks_that_were_left_out_have_an_exit_code_of_their_own(tmp_path: Path) -> None:
    for name in ("configs", "data/words", "tasks/words"):
        shutil.copytree(ROOT / name, tmp_path / name)
    assert run(tmp_path, "words", seconds=0.01, out=tmp_path / "found.json") == SKIPPED


def test_the_look_before_a_training_is_short_and_bars_one_on_a_broken_task(tmp_path: Path) -> None:
    made = next(each for each in BROKEN if each.name == "raises on emptiness")
    found = examined(made.project(tmp_path), QUICK_SECONDS)
    assert ("bad completions", "fault") in [(each.check, each.level) for each in found]
    assert next(each for each in found if each.check == "other process").level == "note"


def test_a_hedge_names_the_right_answer_once_first_and_once_last() -> None:
    for orders in hedges("7", ["1", "2", "7"], 0).values():
        assert len(orders) == 3 and all("7" in text and "1" in text and "2" in text for text in orders)


def test_a_text_is_wrapped_as_the_declared_expression_finds_it() -> None:
    assert wrapped("7", r"\\boxed\{(.*?)\}") == r"\boxed{7}"
    assert wrapped("7", "(?i)[ab]+(.)") == "7", "what cannot be made simply is left as it is"
