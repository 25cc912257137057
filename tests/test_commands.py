"""The commands at the top are few, and the name of a command without its group says where it is."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from assay import cli
from assay.cli import GROUPS, app, moved
from assay.cli.moved import MOVED, OF_RUN
from tests.calling import assay
from tests.house import ROOT, STAGES

TOP: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def test_the_top_has_twenty_one_commands_the_stages_first_and_the_groups_last() -> None:
    names = list(TOP)
    assert len(names) == 21
    assert names[:8] == [stage.replace("_", "-") for stage in STAGES]
    assert names[15:] == list(GROUPS)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What assay itself tells a person."""
    lines: list[str] = []
    monkeypatch.setattr(moved, "complain", lines.append)
    monkeypatch.setattr(cli, "say", lines.append)
    return lines


def ended(*words: str) -> int:
    with pytest.raises(SystemExit) as found:
        app(list(words))
    assert isinstance(found.value.code, int)
    return found.value.code


@pytest.mark.parametrize("word", OF_RUN)
def test_a_word_of_run_says_that_it_is_one(word: str, said: list[str]) -> None:
    assert word not in TOP and f"\n{word}) " in (ROOT / "run").read_text(encoding="utf-8")
    assert ended(word, "--force") == 2
    assert said[0].endswith(f"found {word}, which is a word of ./run.") and said[1:] == [f"Fix: ./run {word}"]


@pytest.mark.parametrize(
    ("words", "own", "other"),
    [
        (("seeds", "--one-side"), "Possible options: --one-sided", []),
        (("seeds", "--heldout"), "", ["assay: --held-out is an option of assay runs sweep"]),
        (("runs", "sweep", "x", "--heldout"), "Possible options: --held-out", []),
        (("judge", "x", "--chekpoint"), "No such option: --chekpoint", []),
    ],
)
def test_a_mistyped_option_names_the_one_that_was_meant(
    words: tuple[str, ...], own: str, other: list[str], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(*words) == 2 and said == other
    assert own in " ".join(capsys.readouterr().err.replace("\u2502", " ").split())


def test_the_first_words_of_the_help_are_for_whoever_types_it(
    said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("--version") == 0 and said == [f"assay {version('assay-grpo')}"]
    assert ended("--help") == 0 and "`./run repro`" in capsys.readouterr().out


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_moved_command_is_in_its_group_alone(old: str, new: str) -> None:
    group, command = new.split()
    assert old not in TOP and command in TOP[group].commands


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("grade", "./run assay episodes grade"),
        ("watch", "./run assay runs watch"),
        ("check", "./run assay task check, or ./run assay config check"),
        ("new-task", "./run assay task new"),
    ],
)
def test_a_command_without_its_group_says_where_it_is(tmp_path: Path, name: str, fix: str) -> None:
    told, unknown = (assay(tmp_path, each, "mine", "--page", "x.html") for each in (name, "unheard-of"))
    assert told.returncode == unknown.returncode == 2
    assert told.stdout == "" and told.stderr.splitlines() == [
        f"assay: expected a command of `assay --help`, found {name}, which is in a group.",
        f"Fix: {fix}",
    ]
