"""The commands at the top are few, and the name of a command without its group says where it is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from assay import cli
from assay.cli import GROUPS, PANELS, app, moved
from assay.cli.moved import MOVED, OF_RUN
from assay.rollout.policy.served.request import KEY, served_model
from assay.verdict.judge.command import read_bounds, read_effect
from tests.calling import assay
from tests.house import ROOT, STAGES

TOP: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def leaves(commands: Mapping[str, Any], *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command by its words."""
    for name, command in commands.items():
        inside = getattr(command, "commands", None)
        yield from [((*before, name), command)] if inside is None else leaves(inside, *before, name)


LEAVES = dict(leaves(TOP))


def test_the_top_has_twenty_one_commands_the_stages_last_and_each_in_a_panel() -> None:
    assert len(TOP) == 21
    alone = [name for name in TOP if name not in GROUPS]
    assert alone[-8:] == [stage.replace("_", "-") for stage in STAGES]
    panels = {command.rich_help_panel for command in TOP.values()}
    assert panels == set(PANELS), "a group stands in a panel that there is"


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_the_example_of_a_command_is_one_that_it_takes(words: tuple[str, ...]) -> None:
    command = LEAVES[words]
    told, _, example = command.epilog.partition(": ")
    assert told == "Example" and "\n" not in command.help and "Example" not in command.help
    assert command.short_help.rstrip(".") in command.help + "."
    first, *rest = shlex.split(example)
    assert (first, *rest[: len(words)]) == ("assay", *words)
    given = command.make_context(words[-1], rest[len(words) :])
    assert set(given.params) == {each.name for each in command.params if each.name != "help"}


def test_help_shows_defaults_and_no_types_of_python(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert ended("evaluate", "--help") == 0
    told = capsys.readouterr().out
    assert "<" not in re.sub(r"\[[^]]*<=[^]]*\]", "", told) and "in_flight" not in told
    for option, field in (("in-flight", "in_flight"), ("timeout", "timeout"), ("retries", "retries")):
        model = served_model({"served": "http://127.0.0.1/v1", "model": "mine"})
        assert re.search(rf"--{option} .*default: \({getattr(model, field):.0f}\)", told), option
    assert f"default: ({KEY})" in told
    options = {each.name: each.show_default for each in LEAVES["judge",].params}
    assert float(options["effect"]) == read_effect(None)
    assert read_bounds(options["bounds"]) == read_bounds(None)


def test_a_shell_is_told_how_a_word_may_go_on() -> None:
    call = "import sys; sys.argv = ['assay']; from assay.cli import main; main()"
    for line, said in (("assay ver", {"verify", "verdict"}), ("assay runs se", {"serve"})):
        told = {"_ASSAY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        done = subprocess.run(
            [sys.executable, "-c", call], env=os.environ | told, capture_output=True, text=True, check=False
        )
        assert set(done.stdout.split()) == said, done.stderr


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
        ("check", "./run assay config check, or ./run assay task check"),
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
