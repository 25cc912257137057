"""Tasks with settings of their own are found by their folder, in a checkout and where assay is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core import beside
from assay.core.config import reading, tasks
from assay.core.errors import ConfigError
from tests.composed import composed
from tests.house import ROOT

SETTINGS = """
from typing import Literal
from assay.rollout import TaskSettings

class Echo(TaskSettings):
    name: Literal["echo"]
"""


def installed(root: Path, share: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put assay and its tasks where pip would, and return the folder of tasks."""
    package, folder = root / "lib/site-packages/assay", root / share / "tasks"
    package.mkdir(parents=True)
    folder.mkdir(parents=True)
    (folder / "echo").mkdir()
    (folder / "echo/settings.py").write_text(SETTINGS)
    monkeypatch.setattr(assay, "__file__", str(package / "__init__.py"))
    return folder


def test_a_checkout_has_its_own_tasks_and_what_lies_beside_the_code() -> None:
    assert beside.beside("tasks") == ROOT / "tasks" and beside.beside("LICENSE") == ROOT / "LICENSE"
    assert beside.beside("no such file") is None


@pytest.mark.parametrize(
    ("share", "files"),
    [
        (
            "share/assay-grpo",
            [f"../../share/assay-grpo/{name}" for name in ("LICENSE", "tasks/echo/settings.py")],
        ),
        ("lib/site-packages/share/assay-grpo", []),  # pip install --target
    ],
)
def test_an_installation_has_the_tasks_where_pip_put_them(
    share: str, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = installed(tmp_path, share, monkeypatch)
    told = tmp_path / "lib/site-packages/assay_grpo-0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Name: assay-grpo\nVersion: 0\n")
    (told / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    monkeypatch.syspath_prepend(str(told.parent))
    assert beside.beside("tasks") == folder
    monkeypatch.setattr(tasks, "PACKAGE", f"assay_tasks_{tmp_path.name}")
    assert tasks.task_names() == ("echo", "own")
    assert tasks.settings_class("echo").__name__ == "Echo"


def test_settings_of_a_task_that_is_not_here_say_where_its_folder_belongs() -> None:
    values: Any = composed("tiny_smoke", "collider")
    values["task"] |= {"name": "echo", "code": "tasks/echo"}
    with pytest.raises(ConfigError, match="put that task's folder into tasks/"):
        reading.parse_params(values)


@pytest.mark.parametrize("before", ["src/assay/tasks", "src/assay/rollout/tasks"])
@pytest.mark.parametrize("name", ["collider", "structured"])
def test_settings_of_a_time_when_a_task_lay_elsewhere_are_read(name: str, before: str) -> None:
    values: Any = composed("tiny_smoke", name)
    now = reading.parse_params(values)
    values["task"]["code"] = f"{before}/{name}"
    assert reading.parse_params(values) == now and now.task.code == f"tasks/{name}"
    values["task"]["code"] = f"{before}/own"
    with pytest.raises(ConfigError, match="code"):
        reading.parse_params(values)
