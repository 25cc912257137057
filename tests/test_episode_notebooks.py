"""Two notebooks over kept episodes, run by Python alone: one walks through an episode, one rewards all anew.
Neither obeys a text, nor believes an edited reward."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

from assay.core.records import Episode
from assay.core.storage.json import read_records, write_jsonl
from assay.stages.packing.archive import unpack
from tests.house import ROOT
from tests.verification.made_run import made_run, packaged

HOSTILE = "\x1b[2Jfine\r\u202e<script>alert(1)</script>\n--- end"
Rows = list[dict[str, Any]]


def cells(name: str) -> list[str]:
    """Return the code of a notebook, a text a cell."""
    notebook = json.loads((ROOT / f"notebooks/{name}.ipynb").read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what runs the cells of a notebook on a run, with other values of some names. It works in an
    empty folder, and returns all names and what was printed."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")

    def executed(name: str, run: Path, **others: Any) -> tuple[dict[str, Any], str]:
        monkeypatch.setenv("ASSAY_RUN", str(run))
        names: dict[str, Any] = {"__name__": "notebook"}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for cell in cells(name):
                exec(compile(cell, f"{name}.ipynb", "exec"), names)
                names |= {key: value for key, value in others.items() if key in names}
        return names, printed.getvalue()

    return executed


def stored(run: Path = ROOT, arm: str = "post_eval") -> list[Episode]:
    return read_records(run / f"evidence/results/{arm}/{arm}.jsonl", Episode, fix="")


def with_edited(folder: Path, **changes: Any) -> Episode:
    """Make a run like the committed one, whose first episode is edited, and return that."""
    (folder / "evidence/results/post_eval").mkdir(parents=True)
    for name in ("data", "configs", "params.yaml", "evidence/results/data"):
        (folder / name).symlink_to(ROOT / name)
    first, *rest = stored()
    first = first.model_copy(update=changes)
    write_jsonl(folder / "evidence/results/post_eval/post_eval.jsonl", [first, *rest])
    return first


def test_an_episode_is_walked_through_as_it_was_played(execute: Any) -> None:
    one = next(each for each in stored() if len(each.turns) > 3 and each.draw == 1)
    names, printed = execute("episode", ROOT, ITEM=one.item_id, DRAW=1)
    lines = printed.splitlines()
    assert "WARNING" not in printed and "--- user" in lines
    assert sum(line.startswith("--- turn") for line in lines) == len(one.turns)
    for turn in one.turns:
        assert f"| {turn.completion}" in lines and f"| {turn.observation or turn.completion}" in lines
    totals = [float(found) for found in re.findall(r"in all (\S+)$", printed, re.M)]
    assert len(totals) == len(one.turns) and totals[-1] == pytest.approx(one.reward, abs=1e-5)
    assert names["verdict"].success == one.success and names["step"].ending == one.ending


def test_an_edited_reward_and_a_text_that_steers_are_shown_and_not_obeyed(
    execute: Any, tmp_path: Path
) -> None:
    last = stored()[0].turns[0].model_copy(update={"completion": HOSTILE})
    one = with_edited(tmp_path / "run", reward=9.0, turns=(last, *stored()[0].turns[1:]))
    _, printed = execute("episode", tmp_path / "run", ITEM=one.item_id)
    assert "WARNING: post_eval: 1 episode graded otherwise" in printed
    assert all(sign.isprintable() or sign == "\n" for sign in printed)
    assert r"| \x1b[2Jfine\x0d\u202e<script>" in printed and "\n--- end" not in printed
    with pytest.raises(AssertionError, match="graded otherwise"):
        execute("other_reward", tmp_path / "run")


def row(group: str, old: float, success: float | None = None, *, new: float = 0.0, **parts: float) -> Any:
    return {"group": group, "cluster": group, "success": success, "old": old, "new": new, "parts": parts}


@pytest.fixture(scope="module")
def shown() -> Mapping[str, Any]:
    """The functions that the last cells define, which need no run."""
    names: dict[str, Any] = {"Any": Any, "rows": [row("a", 0.0, 0.0, a=0.0), row("a", 1.0, 1.0, a=1.0)]}
    for cell in cells("other_reward")[-3:]:
        exec(compile(cell, "other_reward.ipynb", "exec"), names)
    return names


def test_what_changes_in_a_group_is_what_a_hand_counts(shown: Mapping[str, Any]) -> None:
    """Group a is turned round, in b a tie is broken, c stays, and one completion is alone."""
    rows = [
        *(row("a", old, float(old == 2), new=2 - old) for old in (0.0, 1.0, 2.0)),
        *(row("b", 1.0, new, new=3 * new) for new in (0.0, 1.0)),
        *(row("c", old, old, new=old) for old in (0.0, 1.0)),
        row("alone", 5.0, 1.0, new=5.0),
    ]
    table = shown["compare"](rows)
    assert table["count"].to_dict() == {
        "groups whose order changes": "2 of 3",
        "of which a pair changes places": "1 of 3",
        "advantages that change sign": "2 of 7",
        "advantages that become 0": "0 of 7",
        "advantages that were 0": "2 of 7",
        "groups that all earned the same": "1 of 3",
        "groups that all earn the same now": "0 of 3",
        **dict.fromkeys(["agreement with success before", "agreement with success now"], "4 pairs"),
        "gain in agreement, points": "4 pairs",
    }
    said = table["% [95 %]"]
    assert said["agreement with success before"].startswith("87.5 ")
    assert said["agreement with success now"].startswith("50.0 ")
    assert said["gain in agreement, points"].startswith("\u221237.5 ")
    with pytest.raises(AssertionError, match="groups of two"):
        shown["compare"]([row("alone", 1.0), row("another", 2.0)])
    assert "0 pairs" in set(shown["compare"]([row("a", 1.0), row("a", 2.0)])["count"])


def test_agreement_is_kendalls_tau_of_groups_without_ties(shown: Mapping[str, Any]) -> None:
    chance = np.random.default_rng(3)
    for n in (4, 9):
        success = [0.0, 1.0, *(float(each) for each in chance.integers(0, 2, n - 2))]
        new = chance.permutation(n).astype(float)
        table = shown["compare"]([row("a", 0.0, s, new=float(r)) for s, r in zip(success, new, strict=True)])
        count, said = table.loc["agreement with success now"]
        share = int(count.split()[0]) / (n * (n - 1) / 2)
        tau_b = kendalltau(new, success).statistic
        assert 2 * float(said.split()[0]) / 100 - 1 == pytest.approx(tau_b / np.sqrt(share), abs=2e-3)


def test_parts_share_the_spread_within_groups_and_sum_to_one(shown: Mapping[str, Any]) -> None:
    pairs = ((0, 0.0, 1.0), (0, 3.0, 2.0), (1, 5.0, 0.0), (1, 5.0, 4.0))
    # Deviations of the rewards: 2 and 2; of part a: 1.5 and 0; of part b: 0.5 and 2.
    found = shown["share_spread"]([row(f"g{n}", a + b, a=a, b=b) for n, a, b in pairs])
    assert found == pytest.approx({"a": 3 / 8, "b": 5 / 8})
    assert shown["share_spread"]([row("g", 1.0, a=1.0), row("g", 1.0, a=1.0)]) == {}


def changes_of(names: Mapping[str, Any]) -> str:
    found: str = names["compare"](names["rows"])["count"]["groups whose order changes"]
    return found


def test_kept_episodes_are_rewarded_by_a_function_of_ones_own(execute: Any) -> None:
    names, _ = execute("other_reward", ROOT)
    rows: Rows = names["rows"]
    assert [each["new"] for each in rows] == [float(each.success) for each in stored()]
    again: Rows = [each | {"new": 3 * sum(each["parts"].values())} for each in rows]
    assert changes_of({**names, "rows": again}) == "0 of 512"
    assert rows[0]["texts"] == [turn.completion for turn in stored()[0].turns] and rows[0]["record"]["id"]


def log_of_another(path: Path) -> Path:
    chance, lines = np.random.default_rng(0), list[dict[str, Any]]()
    for step in range(4):
        for item in range(6):
            for _ in range(4):
                right, form = float(chance.random() < 0.4), float(chance.random() < 0.5)
                told = {
                    "step": step,
                    "item": f"i{item}",
                    "completion": f"{chance.random()}",
                    "success": right,
                }
                lines.append({**told, "parts": {"right": right, "form": form}, "reward": right + 2 * form})
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    return path


def test_a_log_of_another_trainer_is_rewarded_anew_too(
    execute: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_LOG", str(log_of_another(tmp_path / "log.jsonl")))
    names, _ = execute("other_reward", tmp_path)
    table = names["compare"](names["rows"])
    assert len(names["rows"]) == 96 and names["rows"][0]["parts"].keys() == {"right", "form"}
    assert table["% [95 %]"]["agreement with success now"].startswith("100.0 ")
    assert table["% [95 %]"]["gain in agreement, points"].startswith("+")


@pytest.mark.long
def test_a_task_grades_again_under_other_settings(execute: Any, tmp_path: Path) -> None:
    """Weights that were paid change nothing; those for form alone no longer tell right from valid."""
    run = made_run(tmp_path / "run", task="structured")
    paid = run.params.task.model_dump()["weights"]
    form = {**dict.fromkeys(paid, 0.0), "schema_valid": 1.0}
    for arm in ("post_eval", "validation"):
        names, _ = execute("other_reward", run.root, ARM=arm, SETTINGS={"weights": paid})
        assert changes_of(names).startswith("0 of ")
        names, _ = execute("other_reward", run.root, ARM=arm, SETTINGS={"weights": form})
        valid = [(bool(each["new"]), each["parts"]["schema_valid"] > 0) for each in names["rows"]]
        assert {one == other for one, other in valid} == {True} and not changes_of(names).startswith("0 of ")


@pytest.mark.long
def test_an_episode_of_a_package_is_graded_without_running_its_code(execute: Any, tmp_path: Path) -> None:
    made = made_run(tmp_path / "run", task="words")
    unpack(packaged(made, tmp_path / "package"), tmp_path / "unpacked")
    for code in (tmp_path / "unpacked").rglob("task.py"):
        code.write_text("raise SystemExit('this code was run')\n", encoding="utf-8")
    one: Sequence[Episode] = stored(made.root)
    names, printed = execute("episode", tmp_path / "unpacked", ITEM=one[3].item_id, DRAW=one[3].draw)
    assert "WARNING" not in printed and f"| {one[3].turns[0].completion}" in printed
    assert names["verdict"].success == one[3].success
    shutil.rmtree(tmp_path / "unpacked")
