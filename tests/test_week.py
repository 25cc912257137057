"""What watches the week of a user (`./run week`) sees everything a command leaves; the week itself is played
by .ci/run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from tests.week.playing import Desk, Step, Unexpected
from tests.week.table import WEEK

STEPS = [step for steps in WEEK.values() for step in steps]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk with a clone `mine` that holds one file, and another folder beside it."""
    made = Desk(tmp_path / "a desk")
    (made.root / "mine").mkdir()
    (made.root / "theirs").mkdir()
    begin = "echo 1 >kept; echo ignored >.gitignore; git init -q; git add -A; git commit -qm one"
    subprocess.run(["sh", "-c", begin], cwd=made.root / "mine", check=True, env=made.environment())
    return made


@pytest.mark.parametrize(
    "step",
    [
        Step("mine", "true"),
        Step("mine", "echo 2 >kept", (" M kept",)),
        Step("mine", "echo 2 >ignored"),
        Step("mine", "echo hello; exit 3", says=("hell",), code=3),
        Step("mine", "echo 2 >../theirs/new", reaches=("theirs",)),
        Step(".", "git clone -q mine third", reaches=("third",)),
        Step("mine", "sh -c 'touch ignored; exec sleep 100'", code=-9, killed_at="ignored"),
    ],
    ids=lambda step: step.command,
)
def test_a_command_that_does_what_the_table_says_passes(desk: Desk, step: Step) -> None:
    assert desk.play(step).seconds < 50


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Step("mine", "exit 3"), "ended with 3, not 0"),
        (Step("mine", "true", says=("hello",)), "did not say 'hello'"),
        (Step("mine", "echo 2 >kept"), "left ' M kept' to git"),
        (Step("mine", "echo 2 >new", (" M kept",)), "should have left ' M kept'"),
        (Step("mine", "echo 2 >new"), "left '?? new'"),
        (Step("mine", "mkdir -p ~/.cache/library"), "changed home/.cache, outside"),
        (Step("mine", 'echo 2 >"$TMPDIR/left"'), "changed tmp/left, outside"),
        (Step("mine", "echo 2 >../theirs/new"), "changed theirs/new, outside"),
        (Step("mine", "git config --global user.name B"), "changed home/.gitconfig, outside"),
        (
            Step("mine", "sh -c 'sleep 300 & touch ignored; sleep 300'", code=-9, killed_at="ignored"),
            "left running",
        ),
    ],
    ids=lambda given: given.command if isinstance(given, Step) else "",
)
def test_whatever_else_it_does_is_named(
    desk: Desk, step: Step, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.week.playing.GRACE", 0.5)
    with pytest.raises(Unexpected, match=words.replace("?", r"\?")):
        desk.play(step)


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.week.playing.SECONDS", 0.5)
    with pytest.raises(Unexpected, match="not done within"):
        desk.play(Step("mine", "sleep 300 & echo $! >ignored; sleep 300"))
    assert not psutil.pid_exists(int((desk.root / "mine/ignored").read_text()))


def test_the_week_has_in_it_what_users_do() -> None:
    typed = "\n".join(step.command for step in STEPS)
    for words in (
        "git clone",
        "assay config use",
        "dvc repro",
        "dvc exp run -S",
        "--queue",
        "--run-all",
        "--temp",
        "-S grpo=",
        "-S task=",
        "dvc exp show",
        "dvc exp diff",
        "dvc exp apply",
        "dvc exp branch",
        "dvc exp push",
        "dvc exp pull",
        "dvc params diff",
        "dvc metrics diff",
        "dvc plots diff",
        "dvc push",
        "dvc fetch",
        "dvc pull",
        "dvc checkout",
        "dvc gc",
        "assay runs compare",
    ):
        assert words in typed, words
    assert len(STEPS) >= 30 and sum(bool(step.killed_at) for step in STEPS) >= 3
