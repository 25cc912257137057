"""Logs in short: the numbers are those of the files, what is damaged is refused by file and line, or counted
where asked."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from assay.core import console
from assay.core.errors import AssayError, ConfigError, DataError, RecordError
from assay.core.storage.json import dumps
from assay.evaluation.clusters import cluster_sums
from assay.statistics.intervals import rate_interval
from assay.tools.logs.summarize import COLUMNS, format_markdown, make_tables, run, summarize

NUMBERS = ("value", "low", "high", "first", "last", "p50", "p95", "p99", "largest")


def episode(item: int, draw: int, **changes: Any) -> dict[str, Any]:
    chance = random.Random(f"{item} {draw}")
    won = chance.random() < 0.4
    turn = {
        "prompt_digest": "d",
        "completion": "c",
        "n_tokens": 4 + draw,
        "truncated": False,
        "outcome": "ok",
    }
    turn |= {"failure": None, "action": "a", "observation": None, "parts": {}}
    return {
        "item_id": f"i{item:03d}",
        "cluster": f"c{item // 2:03d}",
        "strata": {"tier": "easy"},
        "draw": draw,
        "seed": draw,
        "turns": [turn] * (1 + draw % 2),
        "prompt_chars_cut": 0,
        "ending": "claim" if won else "gave up",
        "reward": 1.0 if won else -0.5,
        "parts": {"terminal": 1.0 if won else -0.5},
        "success": won,
        "flags": {"odd": None if item % 3 else won},
        "metrics": {"size": None if item % 5 else float(item)},
    } | changes


def row(step: int, **changes: Any) -> dict[str, Any]:
    return {
        "step": step,
        "digests": {"weights": "a" * 64},
        "chain": "b" * 64,
        "item_ids": ["x"],
        "skipped": None,
        "loss": 1.0 / step,
        "reward": 0.1 * step,
        "num_tokens": 100.0 * step,
        "signals": {"kl": None if step % 2 else 0.5},
        "components": {"step": step, "n": 64, "mean_cumulative": 0.1 * step},
    } | changes


EPISODES = [episode(item, draw) for item in range(24) for draw in range(4)]
VALIDATION = [
    {"step": step, "greedy": greedy, "episode": episode(item, draw)}
    for step in (0, 25)
    for greedy in (False, True)
    for item in range(12)
    for draw in range(1 if greedy else 2)
]
ROWS = [row(step) for step in range(1, 41)]
CLOCK = "step,wall_time_s,generate_s,tokens_per_second,peak_gpu_mib\n" + "".join(
    f"{step},{2.0 * step},{step / 100},{1000 + step},\n" for step in range(1, 101)
)


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(dumps(each) + "\n" for each in rows)


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def long_table(*paths: Path, skip: bool = False) -> dict[tuple[str, str, str, str], dict[str, Any]]:
    found = summarize(list(paths), skip_damaged=skip)
    assert all(tuple(each) == COLUMNS for each in found)
    return {(Path(each["file"]).name, each["kind"], each["part"], each["measure"]): each for each in found}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return what is said, on either stream, without a terminal."""
    said = io.StringIO()
    plain = Console(file=said, soft_wrap=True, highlight=False, markup=False, emoji=False)
    for name in ("_OUT", "_ERR"):
        monkeypatch.setattr(console, name, plain)
    return said


def test_rates_of_episodes_are_those_of_the_house_and_undefined_ones_are_left_out(tmp_path: Path) -> None:
    found = long_table(written(tmp_path, "pre_eval.jsonl", lines(EPISODES)))
    wins = [float(each["success"]) for each in EPISODES]
    expected = rate_interval(cluster_sums(wins, [each["cluster"] for each in EPISODES]))
    rate = found["pre_eval.jsonl", "episodes", "all", "success_rate"]
    assert [rate[name] for name in ("value", "low", "high")] == [expected.value, expected.low, expected.high]
    assert rate["n"] == 96
    assert found["pre_eval.jsonl", "episodes", "all", "odd_rate"]["n"] == 32
    size = found["pre_eval.jsonl", "episodes", "all", "metric.size"]
    assert (size["n"], size["value"]) == (20, 10.0)
    share = found["pre_eval.jsonl", "ending", "all", "claim: share"]
    assert share["value"] == expected.value
    assert found["pre_eval.jsonl", "ending", "all", "gave up: mean_reward"]["value"] == -0.5


def test_each_pass_of_a_validation_is_a_row_of_its_own(tmp_path: Path) -> None:
    found = summarize([written(tmp_path, "validation.jsonl", lines(VALIDATION))], skip_damaged=False)
    ((heading, frame),) = make_tables(found)
    passes = [f"step {step}, {decoding}" for step in (0, 25) for decoding in ("sampled", "greedy")]
    assert heading == "Validations by step" and list(frame.part[frame.measure == "mean_reward"]) == passes
    sizes = [(row["part"], row["n"]) for row in found if row["measure"] == "episodes"]
    assert sizes == list(zip(passes, (24, 12, 24, 12), strict=True))


def test_numbers_of_a_training_have_first_last_mean_and_say_where_they_were_not_measured(
    tmp_path: Path,
) -> None:
    found = long_table(written(tmp_path, "train_log.jsonl", lines(ROWS)))
    loss = found["train_log.jsonl", "steps", "all", "loss"]
    assert (loss["first"], loss["last"], loss["n"]) == (1.0, 0.025, 40)
    assert loss["value"] == pytest.approx(sum(1 / s for s in range(1, 41)) / 40)
    assert loss["low"] < loss["value"] < loss["high"]
    kl = found["train_log.jsonl", "steps", "all", "signals.kl"]
    assert (kl["n"], kl["value"], kl["low"]) == (20, 0.5, None)
    assert found["train_log.jsonl", "steps", "all", "components.mean_cumulative"]["last"] == 4.0
    assert not [key for key in found if key[3] == "components.step"]
    tokens = found["train_log.jsonl", "steps", "all", "num_tokens"]
    assert (tokens["first"], tokens["last"], tokens["value"], tokens["p50"]) == (100.0, 4000.0, None, None)


def test_timings_have_percentiles_that_were_measured_and_the_running_clock_is_split_into_steps(
    tmp_path: Path,
) -> None:
    found = long_table(written(tmp_path, "training_clock.csv", CLOCK))
    generate = found["training_clock.csv", "steps", "all", "generate_s"]
    shares = [generate[name] for name in ("p50", "p95", "p99", "largest")]
    assert shares == [0.505, 0.95, 0.99, 1.0]
    step = found["training_clock.csv", "steps", "all", "step_s"]
    assert (step["n"], step["value"], step["unit"]) == (99, 2.0, "s")
    assert found["training_clock.csv", "steps", "all", "tokens_per_second"]["unit"] == "tokens/s"
    wall = found["training_clock.csv", "steps", "all", "wall_time_s"]
    assert (wall["last"], wall["value"]) == (200.0, None)


def test_what_was_never_measured_is_missing_and_never_0(tmp_path: Path, shown: io.StringIO) -> None:
    path = written(tmp_path, "training_clock.csv", CLOCK)
    gpu = long_table(path)["training_clock.csv", "steps", "all", "peak_gpu_mib"]
    assert gpu["n"] == 0 and all(gpu[name] is None for name in NUMBERS)
    run([path], form=None, out=None, skip_damaged=False)
    assert "Steps are not independent" in shown.getvalue()
    (line,) = [line for line in shown.getvalue().split("\n") if line.startswith("peak_gpu_mib")]
    assert line.split() == ["peak_gpu_mib", "0", *["missing"] * 7]
    run([path], form="csv", out=tmp_path / "out.csv", skip_damaged=False)
    rows = csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text()))
    (written_row,) = [each for each in rows if each["measure"] == "peak_gpu_mib"]
    assert all(written_row[name] == "" for name in NUMBERS) and written_row["n"] == "0"


def alarm(step: int, level: str, **changes: Any) -> dict[str, Any]:
    known = {"rule": "kl", "level": level, "stop": False, "value": 0.2, "threshold": 0.1, "baseline": None}
    return known | {"step": step, "first_step": step, "item_ids": [], "message": "It is."} | changes


def test_alarms_beside_a_train_log_become_shares_of_its_steps(tmp_path: Path) -> None:
    log = written(tmp_path, "train_log.jsonl", lines(ROWS))
    written(tmp_path, "health.jsonl", lines([alarm(11, "AMBER"), alarm(21, "GREEN"), alarm(31, "RED")]))
    found = long_table(log)["health.jsonl", "alarms", "RED", "kl"]
    assert (found["value"], found["n"], found["note"]) == (0.5, 40, "left GREEN 2 x")


def damage(at: int, new: str | None) -> Callable[[list[str]], list[str]]:
    """Return what puts another line in the place of one (counted from 1), or takes it out."""
    return lambda old: [*old[: at - 1], *([] if new is None else [new]), *old[at:]]


BROKEN: dict[str, tuple[str, Callable[[list[str]], list[str]], int]] = {
    "a cut last line": ("steps", lambda old: [*old[:-1], old[-1][:-20]], 40),
    "half a line": ("episodes", damage(7, dumps(EPISODES[6])[:50]), 7),
    "a key twice": ("steps", damage(5, dumps(ROWS[4])[:-1] + ',"loss":0}'), 5),
    "NaN": ("steps", damage(9, dumps(ROWS[8]).replace('"skipped":null', '"skipped":null,"x":NaN')), 9),
    "a text for a number": ("steps", damage(9, dumps(row(9, loss="<b>0"))), 9),
    "true for a number": ("steps", damage(9, dumps(row(9, loss=True))), 9),
    "a number beyond sense": ("steps", damage(9, dumps(row(9, loss=1e300))), 9),
    "a nested number beyond sense": ("steps", damage(9, dumps(row(9, signals={"kl": {"a": 1}}))), 9),
    "a step twice": ("steps", damage(9, dumps(ROWS[7])), 9),
    "an absurd step": ("steps", damage(9, dumps(row(10**9))), 9),
    "a step as text": ("steps", damage(9, dumps(row(9) | {"step": "9"})), 9),
    "an episode among steps": ("steps", damage(3, dumps(EPISODES[0])), 3),
    "a step among episodes": ("episodes", damage(1, dumps(ROWS[0])), 1),
    "an unknown field": ("episodes", damage(2, dumps(EPISODES[1] | {"extra": 1})), 2),
    "a draw twice": ("episodes", damage(6, dumps(EPISODES[4])), 6),
    "an item in another cluster": ("episodes", damage(6, dumps(EPISODES[5] | {"cluster": "other"})), 6),
    "an infinite reward": (
        "episodes",
        damage(6, dumps(EPISODES[5]).replace('"reward":-0.5', '"reward":-1e999')),
        6,
    ),
    "a list": ("episodes", damage(2, "[1]"), 2),
    "bytes that are no text": ("episodes", damage(2, "\udcff\udcfe"), 2),
    "a pass out of order": ("validation", damage(70, dumps(VALIDATION[0])), 70),
    "greedy as a number": ("validation", damage(4, dumps(VALIDATION[3] | {"greedy": 1})), 4),
    "a cell too many": ("clock", damage(4, "3,6.0,0.1,1000,,9"), 4),
    "a cell that is no number": ("clock", damage(4, "3,6.0,0x1,1000,"), 4),
    "nan in a cell": ("clock", damage(4, "3,6.0,nan,1000,"), 4),
    "an underscore in a cell": ("clock", damage(4, "3,6_0,0.1,1000,"), 4),
    "no step": ("clock", damage(4, ",6.0,0.1,1000,"), 4),
    "an open quote": ("clock", damage(4, '3,"6.0,0.1,1000,'), 4),
}
WHOLE = {
    "steps": ("train_log.jsonl", lines(ROWS)),
    "episodes": ("pre_eval.jsonl", lines(EPISODES)),
    "validation": ("validation.jsonl", lines(VALIDATION)),
    "clock": ("training_clock.csv", CLOCK),
}


@pytest.mark.parametrize("name", BROKEN)
def test_damage_is_refused_by_file_and_line_or_counted(tmp_path: Path, shown: io.StringIO, name: str) -> None:
    kind, breaks, number = BROKEN[name]
    file, text = WHOLE[kind]
    broken = "\n".join(breaks(text.split("\n")[:-1])) + ("" if name == "a cut last line" else "\n")
    path = written(tmp_path, file, broken)
    with pytest.raises(RecordError) as refused:
        summarize([path], skip_damaged=False)
    assert refused.value.where == f"{path}:{number}" and "--skip-damaged" in refused.value.fix
    left = long_table(path, skip=True)[file, "left out", "all", "lines"]
    assert left["value"] == 1 and f"line {number}:" in left["note"]
    assert left["n"] == len(text.split("\n")) - 1
    run([path], form=None, out=None, skip_damaged=True)
    assert f"1 line left out, the first is line {number}" in shown.getvalue()
    assert f"line {number}" in format_markdown(summarize([path], skip_damaged=True))


def test_a_row_that_is_not_there_is_refused_and_counted_as_missing(tmp_path: Path) -> None:
    for kind, gone in (("steps", 9), ("episodes", 6)):
        name, text = WHOLE[kind]
        path = written(tmp_path, name, "\n".join(damage(gone, None)(text.split("\n"))))
        with pytest.raises(RecordError, match=r"expected (step 9|draws 0..3 of every item)"):
            summarize([path], skip_damaged=False)
        assert "1 record missing" in long_table(path, skip=True)[name, "left out", "all", "lines"]["note"]


def test_one_absurd_step_costs_its_own_row_alone(tmp_path: Path) -> None:
    rows = [*ROWS[:3], row(10**12), *ROWS[4:20], row(2), *ROWS[21:]]
    found = long_table(written(tmp_path, "train_log.jsonl", lines(rows)), skip=True)
    assert found["train_log.jsonl", "left out", "all", "lines"]["value"] == 2
    assert found["train_log.jsonl", "steps", "all", "loss"]["n"] == 38


def test_whole_files_count_no_line_as_left_out(tmp_path: Path, shown: io.StringIO) -> None:
    paths = [written(tmp_path, name, text) for name, text in WHOLE.values()]
    found = long_table(*paths, skip=True)
    counts = {key[0]: each["value"] for key, each in found.items() if key[1] == "left out"}
    assert counts == dict.fromkeys([name for name, _ in WHOLE.values()], 0)
    run(paths, form=None, out=None, skip_damaged=True)
    assert "warning" not in shown.getvalue()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("health.jsonl", lines([alarm(1, "RED")])),
        ("run_log.jsonl", '{"event":"started","step":0,"time":"2026"}\n'),
        ("x.jsonl", ""),
        ("x.jsonl", "\n\n"),
        ("x.csv", ""),
        ("x.csv", "a,b\n1,2\n"),
        ("checkpoint_evals.csv", "step,fraction_done,episodes\n0,0.0,128\n"),
        ("training_clock.csv", "step,wall_time_s,wall_time_s\n1,1.0,1.0\n"),
        ("training_clock.csv", '"step,wall_time_s\n'),
        ("training_clock.csv", "step,wall_time_s,generate_s\n"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_a_file_of_another_kind_or_without_a_record_is_refused(
    tmp_path: Path, name: str, text: str, skip: bool
) -> None:
    with pytest.raises(RecordError, match=name):
        summarize([written(tmp_path, name, text)], skip_damaged=skip)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(DataError):
            summarize([path], skip_damaged=True)


def test_a_damaged_health_file_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    log = written(tmp_path, "train_log.jsonl", lines(ROWS))
    written(
        tmp_path, "health.jsonl", lines([alarm(11, "AMBER"), alarm(12, "RED"), alarm(3, "GREEN")]) + "{\n"
    )
    with pytest.raises(RecordError, match=r"health\.jsonl:4"):
        summarize([log], skip_damaged=False)
    assert long_table(log, skip=True)["health.jsonl", "left out", "all", "lines"]["value"] == 2


def test_the_same_file_twice_and_a_table_for_a_file_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, *WHOLE["clock"])
    with pytest.raises(ConfigError, match="twice"):
        run([path, tmp_path / "." / path.name], form="csv", out=None, skip_damaged=False)
    with pytest.raises(ConfigError, match="--format"):
        run([path], form=None, out=tmp_path / "x.txt", skip_damaged=False)


def test_nothing_is_written_if_one_of_the_files_is_damaged(tmp_path: Path) -> None:
    good, bad = written(tmp_path, *WHOLE["clock"]), written(tmp_path, "x.jsonl", "{\n")
    with pytest.raises(RecordError):
        run([good, bad], form="csv", out=tmp_path / "out.csv", skip_damaged=False)
    assert not (tmp_path / "out.csv").exists()


HOSTILE = ("<script>x()</script>", "a|b\n| c |", "\x1b[31mred", "\u202egnp", "=1+1")
HOSTILE += ("[x](http://evil.invalid)", "n" * 5000)


def test_text_of_a_stranger_is_shown_and_never_obeyed(tmp_path: Path, shown: io.StringIO) -> None:
    odd = {"flags": dict.fromkeys(HOSTILE, True), "metrics": dict.fromkeys(HOSTILE, 1.0)}
    rows = [each | odd | {"ending": HOSTILE[k % 7]} for k, each in enumerate(EPISODES)]
    path = written(tmp_path, "<b>\u202e|x.jsonl", lines(rows))
    clock = written(tmp_path, "training_clock.csv", 'step,wall_time_s,"=cmd()",<b>\n1,1.0,2.0,3.0\n')
    for form, name in ((None, None), ("csv", "o.csv"), ("markdown", "o.md")):
        run([path, clock], form=form, out=None if name is None else tmp_path / name, skip_damaged=False)
    said, page = shown.getvalue(), (tmp_path / "o.md").read_text()
    table = list(csv.reader(io.StringIO((tmp_path / "o.csv").read_text())))
    assert not any(sign in text for sign in "\x1b\u202e" for text in (said, page, str(table)))
    assert "<script" not in page and "<b>" not in page and "\n| c " not in page
    assert {len(each) for each in table} == {len(COLUMNS)}
    assert not any(cell.startswith(("=", "+", "@")) for each in table for cell in each)
    assert max(map(len, page.split("\n"))) < 1000


def test_any_damage_ends_in_a_refusal_or_a_count_and_never_in_another_error(tmp_path: Path) -> None:
    chance = random.Random(6)
    refused = 0
    for k in range(120):
        name, text = WHOLE[chance.choice(list(WHOLE))]
        content = bytearray(text.encode()[:6000])
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(content))
            new = chance.choices(b'\x00\xff{}[]",:\n0123eE.-', k=chance.randint(0, 3))
            content[place : place + chance.choice((0, 1, 40))] = bytes(new)
        path = tmp_path / f"{k}{Path(name).suffix}"
        path.write_bytes(content)
        for skip in (False, True):
            try:
                found = summarize([path], skip_damaged=skip)
            except AssayError:
                refused += 1
                continue
            assert json.loads(json.dumps(found, allow_nan=False)) and format_markdown(found)
    assert refused > 100
