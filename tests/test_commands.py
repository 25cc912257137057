"""The commands at the top are few, and a name that was there before says where its command is now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from assay.cli import GROUPS, app
from assay.cli.moved import MOVED
from tests.house import STAGES
from tests.stages.test_bad_input import assay

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


@pytest.mark.parametrize("old", ["replay", "new-task"])
def test_an_old_name_says_where_its_command_is(tmp_path: Path, old: str) -> None:
    told, unknown = (assay(tmp_path, name, "mine", "--page", "x.html") for name in (old, "unheard-of"))
    assert told.returncode == unknown.returncode == 2
    assert told.stdout == "" and told.stderr.splitlines() == [
        f"assay: expected a command of `assay --help`, found {old}, which has moved.",
        f"Fix: ./run assay {MOVED[old]}",
    ]
