"""`assay episodes rescore` tells what another reward changes, and refuses what the stored episodes cannot
tell."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau
from typer.testing import CliRunner

from assay.cli import app
from assay.core.errors import AssayError
from assay.core.records import Episode, ValidationEpisode
from assay.core.storage.json import read_record, read_records, write_jsonl
from assay.dataset.suite import Suite, choose
from assay.evaluation.replay import play_baseline
from assay.pipeline.inputs import task_with
from assay.tools.rescore.command import Rescored
from assay.tools.rescore.comparing import compare_rewards
from assay.tools.rescore.rewards import Rewarded, Scored
from assay.tools.tasks_file import items_of, open_project
from tests.house import ROOT

WEIGHTS = {"parsed_strict": 0.05, "parsed_extracted": 0.0, "schema_valid": 0.15, "fields": 0.3, "exact": 0.5}


def rescore(*words: str | Path) -> Rescored:
    done = CliRunner().invoke(app, ["episodes", "rescore", *map(str, words), "--out", "out"])
    assert done.exit_code == 0, f"{done.output} {done.exception!r}"
    return read_record(Path("out/rescore.json"), Rescored, fix="")


def refused(*words: str | Path) -> str:
    done = CliRunner().invoke(app, ["episodes", "rescore", *map(str, words), "--out", "out"])
    assert done.exit_code == 1 and isinstance(done.exception, AssayError), f"{done.output} {done.exception!r}"
    assert not Path("out").exists(), "nothing is written"
    message = str(done.exception)
    assert message.count("Fix:") == 1 and message.count("\n") == 1
    return message


def played(task: str, players: Sequence[str], n: int, file: str = "heldout") -> list[Episode]:
    """Return episodes of n items in which each player is a draw, as a suite of the pipeline asks them."""
    project = open_project(Path.cwd(), task)
    made = task_with(project, None)
    items, _ = items_of(project, made, Path(f"data/{task}/{file}.jsonl"))
    split: Any = file
    suite: Suite = choose(items, n, split=split, draws=len(players), seed=0)
    plays = suite.plays()
    found = []
    for place, player in enumerate(players):
        mine = [play for play in plays if play.draw == place]
        found += play_baseline(made, made.baselines()[player], mine, player)
    return found


def written(episodes: Sequence[Episode], name: str = "episodes.jsonl") -> Path:
    write_jsonl(Path(name), episodes)
    return Path(name)


def row(group: str, reward: float, success: float | None = None, **parts: float) -> Scored:
    return Scored("here", group, group, group, reward, parts or {"all": reward}, success)


def test_what_changes_in_a_group_is_what_a_hand_counts() -> None:
    """Group a: old 0, 1, 2, new 2, 1, 0, the last right. Group b: a tie is broken. Group c stays."""
    rows = [
        *(row("a", reward, float(reward == 2)) for reward in (0.0, 1.0, 2.0)),
        *(row("b", 1.0, success) for success in (0.0, 1.0)),
        *(row("c", reward, reward) for reward in (0.0, 1.0)),
        row("alone", 5.0, 1.0),
    ]
    new = [2.0, 1.0, 0.0, 1.0, 3.0, 0.0, 1.0, 5.0]
    found, changes = compare_rewards(rows, [Rewarded(each, {"all": each}) for each in new], "")
    assert found is not None and (found.groups, found.members, found.alone) == (3, 7, 1)
    assert [each.order for each in changes] == ["reversed", "ties", "same"]
    counts = ("order_changed", "order_reversed", "flips", "lost", "gained", "silent_before", "silent_after")
    assert [getattr(found, name).count for name in counts] == [2, 1, 2, 0, 2, 1, 0]
    assert found.flips.share.value == pytest.approx(2 / 7) and found.pairs == 4
    assert (found.auc_before.value, found.auc_after.value) == pytest.approx((3.5 / 4, 2 / 4))
    assert [each.auc_after for each in changes] == [0.0, 1.0, 1.0]


def test_agreement_is_kendalls_tau_of_groups_without_ties() -> None:
    chance = np.random.default_rng(3)
    for n in (4, 9):
        success = [0.0, 1.0, *(float(each) for each in chance.integers(0, 2, n - 2))]
        rewards = chance.permutation(n).astype(float)
        found, _ = compare_rewards(
            [row("a", 0.0, each) for each in success], [Rewarded(each, {}) for each in rewards], ""
        )
        assert found is not None and found.auc_after.value is not None
        pairs = found.pairs / (n * (n - 1) / 2)
        tau_b = kendalltau(rewards, success).statistic
        assert 2 * found.auc_after.value - 1 == pytest.approx(tau_b / np.sqrt(pairs))


def test_parts_share_the_spread_within_groups_and_sum_to_one() -> None:
    rows = [
        row(f"g{n}", a + b, None, a=a, b=b)
        for n, a, b in ((0, 0.0, 1.0), (0, 3.0, 2.0), (1, 5.0, 0.0), (1, 5.0, 4.0))
    ]
    found, _ = compare_rewards(rows, [Rewarded(each.parts["a"], {"a": each.parts["a"]}) for each in rows], "")
    assert found is not None and found.pairs == 0
    # Deviations of the rewards: 2 and 2; of part a: 1.5 and 0; of part b: 0.5 and 2.
    assert found.spread_before == pytest.approx({"a": 3 / 8, "b": 5 / 8}) and found.spread_after == {"a": 1.0}


def test_the_weights_that_were_paid_change_nothing(project: Path) -> None:
    episodes = played("structured", ["guess", "gold", "copied_schema", "empty_fields"], 30)
    weights = ",".join(f"{name}={value}" for name, value in WEIGHTS.items())
    found = rescore(written(episodes), "--weights", weights, "--task", "structured")
    assert found.how == "weights of the task" and found.comparison.groups == 30
    assert found.comparison.order_changed.count == found.comparison.flips.count == 0
    assert found.comparison.spread_before == pytest.approx(found.comparison.spread_after)
    assert found.says == "The new reward agrees with success as the old one does."


def test_weights_of_the_task_are_those_that_it_would_have_paid_by(project: Path) -> None:
    """A reward that pays for form alone no longer tells right from valid, in episodes and validations."""
    episodes = played("structured", ["guess", "gold", "empty_fields"], 40, "validation")
    lines = [
        ValidationEpisode(step=step, greedy=greedy, episode=each)
        for step in (0, 10)
        for greedy in (False, True)
        for each in episodes
        if not greedy or each.draw == 0
    ]
    write_jsonl(Path("validation.jsonl"), lines)
    Path("weights.yaml").write_text("exact: 0.0\nfields: 0.0\nparsed_strict: 1.0\n", encoding="utf-8")
    found = rescore("validation.jsonl", "--weights", "weights.yaml", "--task", "structured")
    assert found.comparison.groups == 80 and found.files[0].kind == "validations"
    assert found.notes[0] == "80 greedy episodes of validation.jsonl left out: each is alone"
    assert found.says.startswith("The new reward agrees worse with success")
    assert found.comparison.auc_before.value == 1.0 and found.comparison.spread_after["exact"] == 0.0
    with Path("out/groups.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 80 and {each["n"] for each in rows} == {"3"}
    assert "agrees worse with success" in Path("out/rescore.md").read_text(encoding="utf-8")


def test_parts_of_other_tasks_are_weighed_as_they_are_stored(project: Path) -> None:
    stored = ROOT / "evidence/results/pre_eval/pre_eval.jsonl"
    found = rescore(stored, "--weights", "terminal=0,format=1", "--task", "collider")
    episodes = read_records(stored, Episode, fix="")
    only = [Rewarded(e.parts["format"], {"format": e.parts["format"]}) for e in episodes]
    rows = [row(e.item_id, e.reward, float(e.success)) for e in episodes]
    by_hand, _ = compare_rewards(rows, only, "")
    assert by_hand is not None and found.how == "parts weighed" and found.comparison.groups == 512
    assert found.comparison.order_changed == by_hand.order_changed
    assert found.comparison.auc_after == by_hand.auc_after
    assert found.comparison.auc_after.value == 0.5 and "agrees with success" in found.says


def test_another_function_of_a_task_of_ones_own_is_asked_about_every_completion(project: Path) -> None:
    Path("other.py").write_text(
        "def length(completions, **kwargs):\n    return [float(len(each)) for each in completions]\n\n\n"
        "def right(completions, answer, **kwargs):\n"
        "    return [float(each.strip() == one) for each, one in zip(completions, answer)]\n",
        encoding="utf-8",
    )
    episodes = written(played("words", ["hasty", "gold", "silent"], 40))
    of_length = rescore(episodes, "--entry", "other.py:length", "--task", "words")
    assert of_length.how == "another function" and of_length.comparison.groups == 40
    assert (
        of_length.says.startswith("The new reward agrees worse") and of_length.comparison.order_changed.count
    )
    right = rescore(episodes, "--entry", "other.py:right", "--task", "words")
    assert right.comparison.auc_after.value == 1.0 and right.comparison.auc_before.value == 1.0
    assert "has no" not in right.says
    assert "a function or class" in _without_out(episodes, "--entry", "other.py:none", "--task", "words")


def _without_out(*words: str | Path) -> str:
    shutil.rmtree("out")
    return refused(*words)


def _log(rows: Sequence[dict[str, Any]]) -> Path:
    Path("log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    return Path("log.jsonl")


def test_a_log_of_another_trainer_is_weighed_by_its_parts(project: Path) -> None:
    chance = np.random.default_rng(0)
    rows = []
    for step in range(4):
        for item in range(6):
            for _ in range(4):
                right, form = float(chance.random() < 0.4), float(chance.random() < 0.5)
                parts = {"right": right, "form": form}
                told = {"step": step, "item": f"i{item}", "completion": f"{chance.random()}", "parts": parts}
                rows.append({**told, "reward": right + 2 * form, "success": right})
    found = rescore(_log(rows), "--weights", "form=0")
    assert found.how == "parts weighed" and found.task is None and found.comparison.groups == 24
    assert found.comparison.auc_after.value == 1.0 and found.says.startswith("The new reward agrees better")
    assert found.comparison.spread_after == {"form": 0.0, "right": 1.0}
    assert found.notes[0].startswith("Part right is paid for success and nothing else")
    shutil.copy("log.jsonl", "again.jsonl")
    both = rescore("log.jsonl", "again.jsonl", "--weights", "form=0").comparison
    assert both.groups == 48 and both.auc_gain.value == found.comparison.auc_gain.value


def _edited(episodes: list[Episode], **changes: Any) -> list[Episode]:
    return [episodes[0].model_copy(update=changes), *episodes[1:]]


REFUSED: dict[str, tuple[Callable[[], tuple[str | Path, ...]], str]] = {
    "nothing asked": (lambda: (written(played("words", ["hasty", "gold"], 4)),), "found neither"),
    "no such part": (
        lambda: (written(played("words", ["hasty", "gold"], 4)), "--weights", "no=1", "--task", "words"),
        "a reward part of the log",
    ),
    "no number": (lambda: ("x.jsonl", "--weights", "a=much"), "a finite number"),
    "no file": (lambda: ("x.jsonl", "--weights", "a=1"), "found nothing"),
    "shaping": (
        lambda: (ROOT / "evidence/results/pre_eval/pre_eval.jsonl", "--weights", "step_shaping=2"),
        "shaping that needs the state",
    ),
    "another task": (
        lambda: (written(played("words", ["hasty", "gold"], 4)), "--weights", "reward=2"),
        "episodes of the task",
    ),
    "a reward beyond its parts": (
        lambda: (
            written(_edited(played("words", ["hasty", "gold"], 4), reward=7.0)),
            *("--weights", "reward=2", "--task", "words"),
        ),
        "rewards that are the sum of their parts",
    ),
    "a grade that does not follow": (
        lambda: (
            written(_edited(played("structured", ["guess", "gold"], 4), success=True, reward=1.0)),
            *("--weights", "exact=0.4", "--task", "structured"),
        ),
        "a function of their texts",
    ),
    "weights that are refused": (
        lambda: (
            written(played("structured", ["guess", "gold"], 4)),
            *("--weights", "parsed_extracted=0.9", "--task", "structured"),
        ),
        "parsed_extracted must not exceed",
    ),
    "groups of one": (
        lambda: (written(played("words", ["hasty"], 4)), "--weights", "reward=2", "--task", "words"),
        "groups of two completions",
    ),
    "a function for a shipped task": (
        lambda: (
            written(played("structured", ["guess", "gold"], 4)),
            *("--entry", "other.py:f", "--task", "structured"),
        ),
        "a task of your own",
    ),
    "no such record": (
        lambda: (
            written(_edited(played("structured", ["guess", "gold"], 4), item_id="gone")),
            *("--weights", "exact=0.4", "--task", "structured"),
        ),
        "a tasks file with the items",
    ),
    "a log without parts": (
        lambda: (
            _log([{"step": 1, "item": "a", "completion": "x", "reward": 1.0}] * 3),
            *("--weights", "a=1"),
        ),
        "reward parts that add up",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_episodes_do_not_tell_is_refused_with_one_message(name: str, project: Path) -> None:
    words, said = REFUSED[name]
    assert said in refused(*words())


def test_a_task_without_its_code_is_refused(project: Path) -> None:
    episodes = written(played("words", ["hasty", "gold"], 4))
    Path("other.py").write_text("def f(completions, **kwargs):\n    return [0.0] * len(completions)\n")
    shutil.rmtree("tasks/words")
    assert "task" in refused(episodes, "--entry", "other.py:f", "--task", "words")
    # Weights need no code.
    assert rescore(episodes, "--weights", "reward=2", "--task", "words").comparison.flips.count == 0
