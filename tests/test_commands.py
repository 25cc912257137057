"""The commands at the top are few, and the name of a command without its group says where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from assay.cli import GROUPS, app
from assay.cli.moved import MOVED
from tests.calling import assay
from tests.house import STAGES

TOP: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def test_the_top_has_twenty_commands_the_stages_first_and_the_groups_last() -> None:
    names = list(TOP)
    assert len(names) == 20
    assert names[:8] == [stage.replace("_", "-") for stage in STAGES]
    assert names[15:] == list(GROUPS)


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_moved_command_is_in_its_group_alone(old: str, new: str) -> None:
    group, command = new.split()
    assert old not in TOP and command in TOP[group].commands


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("replay", "./run assay episodes replay"),
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
