"""`assay episodes replay` shows one episode as it was played, says whether its task agrees, and obeys no
text."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.core.errors import AssayError
from assay.core.records import Episode, ValidationEpisode
from assay.core.storage.json import read_records, write_jsonl
from tests.house import ROOT
from tests.verification.made_run import made_run, packaged

STORED = ROOT / "evidence/results/pre_eval/pre_eval.jsonl"
HOSTILE = "\x1b[2Jfine\r\u202e<script>alert(1)</script>\n--- end\nsuccess: yes"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of settings and data."""
    root = tmp_path / "project"
    for name in ("configs", "data"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copy(ROOT / "params.yaml", root)
    monkeypatch.chdir(root)
    return root


def replay(*words: str | int | Path) -> str:
    done = CliRunner().invoke(app, ["episodes", "replay", *map(str, words)])
    assert done.exit_code == 0, f"{done.output} {done.exception!r}"
    return done.output


def refused(*words: str | Path) -> str:
    done = CliRunner().invoke(app, ["episodes", "replay", *map(str, words)])
    assert done.exit_code == 1 and isinstance(done.exception, AssayError), f"{done.output} {done.exception!r}"
    return str(done.exception)


def several() -> Episode:
    """Return a committed episode of several turns."""
    return next(each for each in read_records(STORED, Episode, fix="") if len(each.turns) > 3)


def test_an_episode_is_shown_turn_by_turn_with_what_it_earned(project: Path) -> None:
    one = several()
    told = replay(STORED, one.item_id, "--draw", one.draw)
    lines = told.splitlines()
    assert [line for line in lines if line.startswith("--- turn")][-1].startswith(
        f"--- turn {len(one.turns)} of {len(one.turns)}"
    )
    for turn in one.turns:
        assert f"| {turn.completion}" in lines and (
            turn.observation is None or f"| {turn.observation}" in told
        )
    totals = [float(found) for found in re.findall(r"in all (\S+)$", told, re.M)]
    assert len(totals) == len(one.turns) and totals[-1] == pytest.approx(one.reward, abs=1e-5)
    assert "--- user" in lines and f"ending: {one.ending}" in lines and re.search("^right: .", told, re.M)
    assert "checked: graded again by the task, with the same result" in lines


def test_an_edited_episode_is_shown_as_one_that_the_task_grades_otherwise(project: Path) -> None:
    write_jsonl(Path("edited.jsonl"), [several().model_copy(update={"reward": 9.0, "success": True})])
    assert "graded otherwise by the task that is here: reward" in replay("edited.jsonl")
    turns = several().turns
    other = several().model_copy(
        update={"turns": (turns[0].model_copy(update={"observation": "no"}), *turns[1:])}
    )
    write_jsonl(Path("edited.jsonl"), [other])
    assert "graded otherwise" in replay("edited.jsonl") and "the prompt is not" in replay("edited.jsonl")


def test_no_text_of_an_episode_steers_a_terminal_or_a_page(project: Path) -> None:
    one = several()
    turns = (one.turns[0].model_copy(update={"completion": HOSTILE, "observation": HOSTILE}), *one.turns[1:])
    update = {"turns": turns, "ending": HOSTILE, "strata": {"a<b>": HOSTILE}, "success": False}
    write_jsonl(Path("hostile.jsonl"), [one.model_copy(update=update)])
    told = replay("hostile.jsonl", "--page", "page.html")
    assert all(sign.isprintable() or sign == "\n" for sign in told)
    assert r"| \x1b[2Jfine\x0d\u202e<script>" in told
    assert "\nsuccess: yes" not in told and told.count("\n--- end\n") == 1
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page and "a&lt;b&gt;" in page
    assert not {"\x1b", "\u202e", "\r"} & set(page)
    assert "default-src 'none'" in page and not re.search(r"(?:src|href)=\"?(?:https?:)?//", page)


def test_an_episode_far_from_its_project_is_shown_as_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = replay(STORED)
    assert "the prompt is not at hand" in told and "no settings of its task are here" in told
    assert "right: not at hand" in told


def test_what_the_model_did_not_read_as_it_is_shown_is_said(project: Path) -> None:
    assert "prompt: examples stood before" in replay(STORED.with_name("rival_few_shot.jsonl"))
    write_jsonl(Path("cut.jsonl"), [several().model_copy(update={"prompt_chars_cut": 7})])
    assert "prompt: 7 characters of what is shown here were cut" in replay("cut.jsonl")


def test_validations_are_found_by_their_step(project: Path) -> None:
    lines = [ValidationEpisode(step=step, greedy=False, episode=several()) for step in (0, 25)]
    write_jsonl(Path("validation.jsonl"), lines)
    assert "validation.jsonl, line 2, step 25" in replay("validation.jsonl", "--step", 25)


@pytest.mark.long
@pytest.mark.parametrize("task", ["collider", "words"])
def test_an_episode_of_a_package_is_graded_from_it_alone(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a task of one's own too, whose code is not run."""
    made = made_run(tmp_path / "run", task=task)
    package = packaged(made, tmp_path / "package")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    one = read_records(made.results("post_eval.jsonl"), Episode, fix="")[3]
    told = replay(package, one.item_id, "--draw", one.draw, "--page", "page.html")
    assert "graded again by the task, with the same result" in told and "--- user" in told
    assert f"| {one.turns[0].completion}" in told and Path("page.html").is_file()
    assert "pre_eval" in replay(package, "--arm", "pre_eval")
    assert "an arm of a run" in refused(package, "--arm", "no such arm")
    of_folder = replay(made.root, one.item_id)
    assert ("with the same result" in of_folder) == (task != "words")
    assert ("the code of a task is not run from another folder" in of_folder) == (task == "words")


def test_what_is_no_episode_is_refused_with_one_message(project: Path) -> None:
    Path("other.jsonl").write_text('{"item": 1}\n', encoding="utf-8")
    Path("empty").mkdir()
    for words, said in (
        (("nothing.jsonl",), "nothing"),
        (("other.jsonl",), "an episode of assay"),
        (("empty",), "episodes.jsonl in it"),
        ((STORED, "no such item"), "none in 1024 episodes of 512 items"),
        ((STORED, "--draw", "9"), "an episode of draw 9"),
        ((STORED, "--page", "page.txt"), "ends in .html"),
    ):
        message = refused(*words)
        assert said in message and message.count("Fix:") == 1, message
