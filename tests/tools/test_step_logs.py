"""Logs in the forms in which people have them: sound trainings stay quiet, ill ones are named, facts ring at
their step, and of what was not read nobody says GREEN."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import pytest
from benchmarks import log_alarms, step_logs
from benchmarks.step_logs import StepLog, ending, learns, putting
from rich.console import Console

from assay.cli.tools.watch.foreign import run
from assay.core import console
from assay.core.errors import DataError
from assay.health.logs.blocks import cut, most_success_in, signals_of
from assay.health.logs.console_logs import read_printed
from assay.health.logs.judging import judge_log
from assay.health.logs.reading import read_foreign
from assay.health.logs.records import JudgedLog
from assay.rollout.tables.columns import Columns
from tests.house import ROOT
from tests.tools.log_shapes import CLEAN, play
from tests.tools.test_foreign_logs import written

FINE = learns(0.3, 0.6, length=(300.0, 310.0))
NAN, INF = float("nan"), float("inf")


def nulls_then_nan(rows: list[dict[str, Any]]) -> None:
    putting("loss", None, 5, 15, 25)(rows)
    putting("loss", NAN, 35)(rows)


def judged(log: StepLog, folder: Path) -> JudgedLog:
    return judge_log(read_foreign(step_logs.write_log(log, folder)))


def test_sound_logs_of_all_forms_stay_quiet_and_ill_ones_are_named() -> None:
    recorded = json.loads((ROOT / "benchmarks/results/log_alarms.json").read_text(encoding="utf-8"))[
        "by_step"
    ]
    here = log_alarms.rung_by_step(step_logs.ILL, step_logs.SOUND)
    assert here == recorded
    assert here["clean"] >= 40 and here["red"] == 0 and here["amber"] <= 1
    assert here["ill"] >= 40 and here["found"] >= 0.95 * here["ill"]
    assert (
        {log.form for log in step_logs.SOUND} == set(step_logs.FORMS) == {log.form for log in step_logs.ILL}
    )


@pytest.mark.parametrize(
    ("damage", "level", "since", "said"),
    [
        (putting("grad_norm", NAN, 30), "AMBER", 31, "grad_norm is NaN at step 31"),
        (putting("grad_norm", INF, 0), "AMBER", 1, "grad_norm is Inf at step 1"),
        (putting("grad_norm", NAN, 40, 41, 42), "RED", 41, "3 steps from 41 to 43"),
        (putting("grad_norm", NAN, 59), "RED", 60, "grad_norm is NaN at step 60"),
        (putting("loss", NAN, 7), "RED", 8, "loss is NaN at step 8, and a number again"),
        (putting("reward", -INF, 7), "RED", 8, "reward is -Inf at step 8"),
        (putting("reward", "failed", 7, 9), "RED", 8, "reward is 'failed' at 2 steps from 8 to 10"),
        (putting("loss", None, 7), "AMBER", 8, "loss is null at step 8"),
        (nulls_then_nan, "RED", 6, "loss is null, NaN at 4 steps from 6 to 36"),
        (ending("loss", 50, "n/a"), "RED", 51, "loss is 'n/a' at 10 steps from 51 to 60"),
        (ending("reward", 50), "AMBER", 51, "reward is in no row after step 50"),
        (putting("kl", NAN, 20), "AMBER", 21, "kl is NaN at step 21"),
        (putting("critic/vf_loss", NAN, 20), "RED", 21, "critic/vf_loss is NaN at step 21"),
    ],
    ids=lambda value: str(value)[:24] if isinstance(value, str) else "",
)
def test_a_value_that_is_none_rings_at_its_step_however_short_it_was(
    damage: step_logs.Damage, level: str, since: int, said: str, tmp_path: Path
) -> None:
    def harm(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["kl"], row["critic/vf_loss"] = 0.01, 0.2
        damage(rows)

    (found,) = judged(StepLog("harmed", FINE, damage=harm), tmp_path).findings
    assert (found.rule, found.level, found.since) == ("non_finite", level, since)
    assert said.lower() in found.said.lower()


@pytest.mark.parametrize("value", [NAN, "broken", None])
def test_a_reward_of_one_completion_that_is_no_number_rings(value: object, tmp_path: Path) -> None:
    records = play(CLEAN["learned"], steps=40)
    records[700]["reward"] = value
    found = judge_log(read_foreign(written(tmp_path / "log.jsonl", records))).findings
    assert [(each.rule, each.since) for each in found] == [("non_finite", records[700]["step"])]
    assert found[0].level == ("AMBER" if value is None else "RED")


@pytest.mark.parametrize("word", ["NaN", '"nan"', '"inf"'])
def test_a_column_that_was_never_a_number_rings_too(word: str, tmp_path: Path) -> None:
    for rest, rules in (('"reward": 0.5, "kl": 0.1', ["non_finite"]), ('"note": 1', ["non_finite"])):
        lines = [f'{{"step": {k}, "loss": {word}, {rest}}}\n' for k in range(40)]
        (tmp_path / "log.jsonl").write_text("".join(lines), encoding="utf-8")
        log = judge_log(read_foreign(tmp_path / "log.jsonl"))
        assert [each.rule for each in log.findings] == rules and log.worst == "RED"


def test_a_part_that_was_not_asked_for_and_a_chart_with_gaps_are_no_alarm(tmp_path: Path) -> None:
    def harm(rows: list[dict[str, Any]]) -> None:
        for k, row in enumerate(rows):
            row["part maths"] = NAN if k % 3 else 0.4

    for form in ("trl", "charts", "history"):
        (tmp_path / form).mkdir()
        assert judged(StepLog("gaps", FINE, form, damage=harm), tmp_path / form).worst == "GREEN"


def test_what_is_said_of_parts_that_never_pay_or_never_change(tmp_path: Path) -> None:
    parts = {"part_think": (0.0, 0.0), "part_overlong_penalty": (0.0, 0.0), "part_valid": (0.2, 0.2)}
    log = judged(StepLog("dead", learns(0.3, 0.6, **parts), noise=0.0), tmp_path)
    assert [(each.rule, each.level) for each in log.findings] == [("dead_part", "AMBER")]
    assert "think never paid" in log.findings[0].said.lower()
    assert {"overlong_penalty is 0 at every step: it was never due", "valid is 0.2 at every step"} <= {
        *log.notes
    }


def test_a_part_of_completions_that_never_paid_rings(tmp_path: Path) -> None:
    records = play(CLEAN["learned"], steps=40)
    for each in records:
        each["parts"]["tags"] = 0.0
    found = judge_log(read_foreign(written(tmp_path / "log.jsonl", records))).findings
    assert [each.rule for each in found] == ["dead_part"] and "tags never paid" in found[0].said.lower()


TEXT = "I would start with the second clause, since the first {n} rows are empty"


def long_texts(name: str) -> list[dict[str, Any]]:
    return [{"step": k, "prompt": f"q{k}", name: TEXT.format(n=k), "reward": k % 2} for k in range(40)]


UNREAD: dict[str, tuple[list[dict[str, Any]], str]] = {
    "texts in a column nobody knows": (long_texts("utterance"), "--columns completion=utterance"),
    "no reward": (
        [{"step": k, "grad_norm": 0.3 + k / 99, "mean_utility": k} for k in range(40)],
        "score=mean_utility",
    ),
    "loss alone": (
        [{"step": k, "loss": 0.1 * k, "reward": k % 3} for k in range(40)],
        "only loss, reward by step",
    ),
    "no number": ([{"step": k, "reward": None, "kl": 0.1} for k in range(40)], "reward holds no number"),
    "texts alone": (
        [{"step": k // 8, "completion": f"so {k}"} for k in range(200)],
        "no column is known as a reward",
    ),
    "three steps": ([{"step": k, "reward": k, "kl": 0.1, "entropy": 1.0} for k in range(3)], "too short"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_was_not_read_is_not_measured_with_a_code_of_its_own_and_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(console, "_OUT", Console(file=shown, soft_wrap=True, highlight=False, markup=False))
    records, told = UNREAD[name]
    assert run(written(tmp_path / "log.jsonl", records)) == 5
    said = shown.getvalue()
    assert "NOT MEASURED" in said and told in said and "GREEN" not in said and "not measured:" not in said


def test_the_option_that_the_message_names_reads_the_column(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", [each for n in range(4) for each in long_texts("utterance")])
    log = judge_log(read_foreign(path, Columns.read("completion=utterance")))
    assert log.worst == "GREEN" and log.completions == 160 and "hedging" in log.measured
    rows = [{"update": k, "utility": 0.3 + k / 99, "kl": 0.1} for k in range(40)]
    path = written(tmp_path / "rows.jsonl", rows)
    log = judge_log(read_foreign(path, Columns.read("step=update,score=utility")))
    assert log.worst == "GREEN" and {"kl", "dead_part"} <= set(log.measured)


def test_an_alarm_rings_though_the_rest_could_not_be_read(tmp_path: Path) -> None:
    records = long_texts("utterance")
    records[9]["reward"] = NAN
    log = judge_log(read_foreign(written(tmp_path / "log.jsonl", records)))
    assert log.worst == "RED" and log.lacking is not None


def test_numbers_that_no_reward_is_made_of_are_named_and_not_added(tmp_path: Path) -> None:
    (tmp_path / "completions").mkdir()
    for step in range(30):
        table = [
            {
                "step": step,
                "prompt": f"q{step}{k // 4}",
                "completion": f"\\boxed{{{k}}}",
                "turns": step * 2.0 + k,
            }
            | {"accuracy_reward": float(k % 2), "advantage": 0.0, "note": TEXT.format(n=k)}
            for k in range(16)
        ]
        pd.DataFrame(table).to_parquet(tmp_path / f"completions/completions_{step:05d}.parquet")
    log = read_foreign(tmp_path)
    assert {each.reward for each in log.completions} == {0.0, 1.0}
    assert log.numbers == ("turns",) and "texts beside the completions that were not read: note" in log.notes
    assert judge_log(log).worst == "GREEN"


def test_a_reward_in_quotes_and_a_conversation_are_read(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    lines = [{"step": k // 8, "messages": said, "reward": str(k % 2)} for k in range(200)]
    first = read_foreign(written(tmp_path / "log.jsonl", lines)).completions[1]
    assert (first.text, first.reward) == ("4", 1.0) and first.item


def test_a_folder_of_ms_swift_gives_means_and_batches_of_completions(tmp_path: Path) -> None:
    step_logs.write_log(StepLog("fine", FINE, "swift"), tmp_path)
    lines = [
        {"gen_step": [k] * 8, "prompt": [f"q{k}{n // 4}" for n in range(8)], "advantages": [0.0] * 8}
        | {"completion": [f"so {n}" for n in range(8)], "MathAccuracy": [float(n % 2) for n in range(8)]}
        for k in range(1, 31)
    ]
    log = read_foreign(written(tmp_path / "completions.jsonl", lines).parent)
    assert len(log.completions) == 240 and len(log.rows) == 60
    assert {round(each.reward or 0.0, 9) for each in log.completions} == {0.0, 1.0}
    assert judge_log(log).worst == "GREEN"


def test_a_wrong_answer_that_was_common_from_the_start_is_no_change(tmp_path: Path) -> None:
    lines, rng = list[dict[str, Any]](), random.Random(4)
    for n in range(60 * 24):
        step, item, draw = n // 24, n // 4, n % 4
        right = rng.random() < 0.2 + step / 200
        said = f"<answer>{item + 100 if right else draw}</answer>"
        lines.append({"step": step, "item": f"i{item}", "completion": said, "reward": float(right)})
        lines[-1] |= {"success": right, "gold": f"{item + 100}"}
    log = judge_log(read_foreign(written(tmp_path / "log.jsonl", lines)))
    assert log.findings == () and {"top_share", "field_collapse"} <= set(log.measured)


def test_prompts_are_told_apart_by_what_completions_share(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    for n in range(96):
        step, prompt, draw = n // 16, n // 4 % 4, n % 4
        line = {"step": step, "uid": f"b_{step}_{prompt}_{draw}_0", "input": f"q{step}{prompt}", "acc": None}
        lines.append(line | {"output": f"{draw}", "score": draw % 2})
    lines[5]["acc"] = 1.0
    log = read_foreign(written(tmp_path / "log.jsonl", lines))
    assert set(Counter((each.step, each.item) for each in log.completions).values()) == {4}


def test_a_reward_that_is_success_itself_contradicts_nothing(tmp_path: Path) -> None:
    for low, high, noise in ((0.5, 0.62, 0.0), (0.05, 0.12, 0.004), (0.3, 0.3, 0.02)):
        shape = step_logs.graded(low, high, (low, high))

        def same(rows: list[dict[str, Any]]) -> None:
            for row in rows:
                row["reward"] = row["success"]

        log = judged(StepLog("one", shape, noise=noise, damage=same), tmp_path)
        assert log.findings == ()
        assert log.unmeasured["reward_vs_success"].startswith("a success that is not the reward itself")


@pytest.mark.parametrize(("beside", "at_end"), [({"success": 0}, 0.0), ({}, 0.97)])
def test_success_by_step_in_per_cent_is_read_beside_completions_that_fail_or_do_not_say(
    beside: dict[str, int], at_end: float, tmp_path: Path
) -> None:
    lines: list[dict[str, Any]] = []
    for step in range(1, 61):
        lines.append({"step": step, "reward": 0.5, "success": 20.0 + step, "loss": 0.1})
        for k in range(8 if step > 30 else 0):
            lines.append({"step": step, "prompt": f"p{k}", "completion": f"{k} or {step}", "reward": k % 2})
            lines[-1] |= beside
    log = read_foreign(written(tmp_path / "log.jsonl", lines))
    assert judge_log(log).steps == (1, 60)
    blocks = cut(log)
    told = [signals_of(block, None, most_success_in(log)).success for block in (blocks[0], blocks[-1])]
    assert told == pytest.approx([0.29, at_end], abs=0.01)


PRINTED = {
    "bars": [
        "{'loss': 0.1, 'reward': nan}\n",
        "  2%|#  | 10/500 [00:01<01:00]\r",
        "{'loss': 0.2, 'reward': -inf}",
    ],
    "words for numbers": ["{'loss': '0.1', 'reward': '0.5'}", "{'loss': '0.2', 'reward': '0.6'}"],
    "steps named": [
        "Global step 7: {'policy_loss': 0.1, 'reward': np.float64(0.5)}",
        "step 8: {'reward': 1.0}",
    ],
    "verl": [
        "(Task pid=1) step:3 - critic/score/mean:0.5 - actor/kl_loss:-1e-05",
        "step:4 - critic/score/mean:nan",
    ],
    "lists": ["====== Step 5/90 ======", "  • Loss: 0.02", "  • Avg Reward: 0.41", "====== Step 6/90 ====="],
}


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("bars", [10, 11]),
        ("words for numbers", [1, 2]),
        ("steps named", [7, 8]),
        ("verl", [3, 4]),
        ("lists", [5]),
    ],
)
def test_printed_rows_have_their_steps(name: str, steps: list[int]) -> None:
    assert [row["step"] for row in read_printed(PRINTED[name])] == steps


def test_charts_of_two_runs_and_rows_without_a_step_are_refused_with_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "charts.csv"
    path.write_text("Step,a - train/reward,b - train/reward\n1,0.1,0.2\n", encoding="utf-8")
    with pytest.raises(DataError, match="expected the charts of one run, found those of a, b"):
        read_foreign(path)
    path = written(tmp_path / "rows.jsonl", [{"epoch": 0.1, "reward": 0.2, "loss": 0.1}] * 9)
    with pytest.raises(DataError, match="expected a step beside each row, found reward, loss, and no step"):
        read_foreign(path)


def test_what_holds_no_printed_rows_is_refused_as_that(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("Traceback (most recent call last):\n  File\n", encoding="utf-8")
    with pytest.raises(DataError, match="expected rows that a trainer printed"):
        read_foreign(tmp_path / "train.log")


def test_a_folder_without_a_log_names_the_files_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(DataError, match=r"1 file, none of them one of these: model\.safetensors"):
        read_foreign(tmp_path)
