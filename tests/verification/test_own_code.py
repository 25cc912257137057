"""Tests of packages whose task brought code along: none of it is run, or the checker's own copy alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from assay.core.errors import PackageError
from assay.package.verification import own_code
from assay.rollout.tasks.own.calls import Call, Failed, Reply
from assay.rollout.tasks.own.recorded import Recorded, Recorder, ToldLine
from assay.rollout.tasks.own.settings import OwnTask
from assay.stages.packing.layout import strangers

ROW = {"prompt": "pick: *a b", "answer": "a"}


class Paying:
    """A runner that pays 1 for a."""

    def tell(self, calls):  # type: ignore[no-untyped-def]
        """Return what each call earns."""
        return [Reply((), {"reward": float(call.completions[-1:] == ("a",))}) for call in calls]

    def say(self, asks):  # type: ignore[no-untyped-def]
        """Say a."""
        return ["a" for _ in asks]

    def close(self) -> None:
        """Nothing is held."""


def test_what_code_said_is_said_again_without_it_and_nothing_else_is() -> None:
    recorder = Recorder(Paying())
    told = recorder.tell([Call(ROW, 3, ("a",))])
    lines = [ToldLine.model_validate_json(line.model_dump_json()) for line in recorder.lines(Recorded())]
    again = Recorded(lines)
    assert again.tell([Call(ROW, 3, ("a",))]) == told
    (other,) = again.tell([Call(ROW, 3, ("b",))])
    assert isinstance(other, Failed) and other.kind == "raised"


def test_code_that_was_brought_along_has_a_place_in_a_package_and_compiled_code_has_none() -> None:
    names = ["tasks/mine/task.py", "told.jsonl", "tasks/mine/task.pyc", "tasks/mine/.hidden.py"]
    odd = list(strangers(names, data="data/x", scratch=True, code="tasks/mine"))
    assert [each.partition(":")[0] for each in odd] == ["tasks/mine/.hidden.py", "tasks/mine/task.pyc"]
    assert len(list(strangers(names, data="data/x", scratch=True))) == len(names)


def test_only_an_unchanged_copy_of_the_folder_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = OwnTask.model_construct(name="own", code="tasks/mine")
    params = SimpleNamespace(params=SimpleNamespace(task=settings))
    monkeypatch.setattr(own_code.Project, "open", lambda root: params)
    for place in ("package/tasks/mine", "mine"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "task.py").write_text("def reward(): ...\n")
    root = own_code.own_copy(tmp_path / "package", tmp_path / "mine", tmp_path / "work")
    assert (root / "tasks/mine/task.py").read_text() == "def reward(): ...\n"
    (tmp_path / "mine/task.py").write_text("def reward(): 1\n")
    with pytest.raises(PackageError, match="with sha256"):
        own_code.own_copy(tmp_path / "package", tmp_path / "mine", tmp_path / "work2")
