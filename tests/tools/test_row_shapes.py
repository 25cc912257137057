"""Logs whose rows have a shape of their own: each is read, or refused with what is missing, and none of whose
rows something was lost is called sound."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError
from assay.health.logs.console_logs import read_printed
from assay.health.logs.judging import judge_log
from assay.health.logs.reading import read_foreign
from assay.health.logs.records import JudgedLog
from assay.rollout.tables.columns import Columns

Row = dict[str, Any]
N = 40


def rows(**others: Callable[[int], object]) -> list[Row]:
    """Return a sound training by its means, some of them replaced."""
    rng = random.Random(7)
    made = []
    for k in range(1, N + 1):
        row = {"step": k, "reward": 0.3 + 0.3 * k / N + rng.gauss(0, 0.01), "loss": 0.1 + rng.gauss(0, 0.01)}
        row |= {"kl": 0.02 + rng.gauss(0, 0.001), "grad_norm": 0.4 + rng.gauss(0, 0.02)}
        made.append(row | {name: value(k) for name, value in others.items()})
    return made


def judged(path: Path, text: str, columns: str | None = None) -> JudgedLog:
    path.write_text(text, encoding="utf-8")
    return judge_log(read_foreign(path, Columns.read(columns)))


def lines(records: list[Row]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in records)


def nested(row: Row) -> Row:
    return {"step": row["step"], "metrics": {name: value for name, value in row.items() if name != "step"}}


def long(records: list[Row]) -> list[Row]:
    return [
        {"step": row["step"], "tag": name, "value": value}
        for row in records
        for name, value in row.items()
        if name != "step"
    ]


def table(records: list[Row], sign: str = ",", write: Callable[[object], str] = str) -> str:
    head = sign.join(records[0])
    return "\n".join([head, *(sign.join(map(write, row.values())) for row in records)]) + "\n"


def printed(form: str) -> Callable[[list[Row]], str]:
    return lambda records: "".join(f"{form.format(**row)}\n" for row in records)


OF_BASELINES = {"step": "time/total_timesteps", "reward": "rollout/ep_rew_mean", "kl": "train/approx_kl"}
OF_BASELINES |= {"loss": "train/loss", "grad_norm": "train/grad_norm"}


def as_baselines(records: list[Row]) -> str:
    """Return what Stable-Baselines3 prints, a table a step."""
    told = []
    for row in records:
        told.append("-" * 40)
        for section in ("rollout/", "time/", "train/"):
            told.append(f"| {section:<19} | {'':<13} |")
            for name, theirs in OF_BASELINES.items():
                if theirs.startswith(section):
                    told.append(f"|    {theirs.removeprefix(section):<16} | {row[name]!s:<13} |")
        told.append("-" * 40)
    return "\n".join(told) + "\n"


SHAPES: Mapping[str, tuple[str, Callable[[list[Row]], str]]] = {
    "nested": ("log.jsonl", lambda made: lines([nested(row) for row in made])),
    "a metric a row": ("log.jsonl", lambda made: lines(long(made))),
    "a metric a row, as CSV": ("log.csv", lambda made: table(long(made))),
    "lines called .json": ("result.json", lines),
    "lists by metric": (
        "log.json",
        lambda made: json.dumps({name: [row[name] for row in made] for name in made[0]}),
    ),
    "numbered rows by metric": (
        "log.json",
        lambda made: json.dumps(
            {name: {str(k): row[name] for k, row in enumerate(made)} for name in made[0]}
        ),
    ),
    "objects by step": ("log.json", lambda made: json.dumps({row["step"]: row for row in made})),
    "a list under a name": ("log.json", lambda made: json.dumps({"metrics": made, "run": "a"})),
    "decimal commas": ("log.csv", lambda made: table(made, ";", lambda cell: str(cell).replace(".", ","))),
    "decimal commas between tabs": (
        "log.tsv",
        lambda made: table(made, "\t", lambda cell: str(cell).replace(".", ",")),
    ),
    "Stable-Baselines3, printed": ("train.log", as_baselines),
    "Stable-Baselines3, cells alone": (
        "train.log",
        lambda made: re.sub(r"^-+\n", "", as_baselines(made), flags=re.MULTILINE),
    ),
    "Stable-Baselines3, progress.csv": (
        "progress.csv",
        lambda made: table([{OF_BASELINES[name]: value for name, value in row.items()} for row in made]),
    ),
    "MLflow, a history": (
        "history.csv",
        lambda made: table(
            [
                {
                    "key": row["tag"],
                    "value": row["value"],
                    "timestamp": 17,
                    "step": row["step"],
                    "run_id": "a",
                }
                for row in long(made)
            ]
        ),
    ),
    "MLflow, metrics beside parameters": (
        "runs.csv",
        lambda made: table(
            [
                {
                    "" if name == "index" else name if name == "step" else f"metrics.{name}": value
                    for name, value in {"index": 7, **row}.items()
                }
                for row in made
            ]
        ),
    ),
    "pairs": (
        "train.log",
        printed("[10:00:00] INFO step={step} loss={loss} reward={reward} kl={kl} grad_norm={grad_norm}"),
    ),
    "torchtune": (
        "log_17.txt",
        printed("Step {step} | loss:{loss} rewards:{reward} kl:{kl} grad_norm:{grad_norm} "),
    ),
    "words": (
        "run.out",
        printed("iter {step}/40 | loss {loss} | reward {reward} | kl {kl} | grad_norm {grad_norm}"),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_log_of_any_shape_is_read_and_what_broke_in_it_rings(shape: str, tmp_path: Path) -> None:
    name, write = SHAPES[shape]
    sound = judged(tmp_path / name, write(rows()))
    assert sound.worst == "GREEN" and sound.steps == (1, N) and {"kl", "grad_norm"} <= set(sound.measured)
    ill = rows(kl=lambda k: 0.02 if k < 25 else 30.5 + k / 100)
    ill[9]["loss"] = float("nan")
    found = {each.rule: each.since for each in judged(tmp_path / name, write(ill)).findings}
    assert found["non_finite"] == 10 and found["kl"] >= 25


def mlflow(run: Path, made: list[Row]) -> Path:
    """Write the files of a run as MLflow stores it: one for each metric."""
    for name in made[0].keys() - {"step"}:
        file = run / "metrics/train" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"1700000000{row['step']:03d} {row[name]} {row['step']}\n" for row in made))
    (run / "meta.yaml").write_text("run_id: a\n")
    return run


def test_the_store_of_mlflow_is_read_from_any_of_its_folders_and_one_run_at_a_time(tmp_path: Path) -> None:
    ill = rows()
    ill[9]["loss"] = float("nan")
    run = mlflow(tmp_path / "mlruns/0/one", ill)
    for place in (tmp_path / "mlruns", run, run / "metrics"):
        found = judge_log(read_foreign(place))
        assert found.steps == (1, N) and [each.since for each in found.findings] == [10], place
    mlflow(tmp_path / "mlruns/0/two", rows())
    with pytest.raises(DataError, match="the log of one run") as told:
        read_foreign(tmp_path / "mlruns")
    named = Path(told.value.fix.removeprefix("name one of them, such as "))
    assert judge_log(read_foreign(named)).worst == "RED"


@pytest.mark.parametrize(
    ("name", "text", "fix"),
    [
        (
            "runs.csv",
            ",run_id,metrics.reward,params.lr\n0,a,0.4,1e-5\n1,b,0.5,1e-5\n",
            "export the history of one run by step",
        ),
        (
            "runs.csv",
            "Run ID,Name,reward,loss\na,x,0.4,1\nb,y,0.5,2\n",
            "export the history of one run by step",
        ),
        ("log.csv", "reward,loss\n0.4,1\n0.5,0.9\n", "--columns step=#, if each row is one more step"),
        ("log.csv", "tick,reward\n1,0.4\n2,0.5\n", "--columns step=tick, if that is it"),
        (
            "0.monitor.csv",
            '#{"t_start": 1.5, "env_id": "x"}\nr,l,t\n3.0,21,0.5\n2.0,20,0.9\n',
            "--columns step=#,score=r",
        ),
    ],
)
def test_a_table_without_steps_is_told_the_one_thing_to_do(
    name: str, text: str, fix: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as told:
        judged(tmp_path / name, text)
    assert told.value.fix.replace("NAME", "r").startswith(fix)
    if "=" in fix:
        (columns,) = re.findall(r"step=[^ ]*\w|step=#", fix)
        assert judged(tmp_path / name, text, columns).steps == (1, 2)


def test_a_folder_called_metrics_of_other_files_hides_no_log(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics/NOTES").write_text("what each is\n")
    (tmp_path / "train.csv").write_text("step,reward\n1,0.5\n2,0.6\n")
    assert [row["step"] for row in read_foreign(tmp_path).rows] == [1, 2]


@pytest.mark.parametrize("step", ["nan", "inf", "abc", "1e999", "-3"])
def test_a_printed_table_whose_step_is_none_is_counted(step: str) -> None:
    told = as_baselines([{"step": step, "reward": 0.5, "kl": 0.1, "loss": 0.2, "grad_norm": 0.3}])
    assert [row["step"] for row in read_printed(told.splitlines(keepends=True))] == [1]


def test_lines_of_an_evaluation_are_no_steps_of_the_training(tmp_path: Path) -> None:
    name, write = SHAPES["pairs"]
    text = write(rows()) + "eval step=41 reward=nan loss=nan\n"
    assert judged(tmp_path / name, text).worst == "GREEN"


@pytest.mark.parametrize(
    ("step", "columns"),
    [
        (lambda k: k / 10, None),
        (lambda k: f"{k},500", None),
        (lambda k: None if k % 2 else k, None),
        (lambda k: k if k < 20 else f"step-{k}", None),
        (lambda k: k, "step=epoch"),
    ],
    ids=["shares", "texts", "half", "from some step on", "as somebody named it"],
)
def test_rows_whose_step_cannot_be_read_are_not_left_out_in_silence(
    step: Callable[[int], object], columns: str | None, tmp_path: Path
) -> None:
    made = rows(step=step, epoch=lambda k: k / 10, kl=lambda k: 0.02 if k < 15 else 30.0)
    with pytest.raises(DataError, match="step") as refused:
        judged(tmp_path / "log.jsonl", lines(made), columns)
    assert "--columns step=NAME" in str(refused.value.fix)


def test_a_summary_without_a_step_is_named_and_what_broke_there_rings(tmp_path: Path) -> None:
    log = judged(tmp_path / "log.jsonl", lines([*rows(), {"step": "final", "reward": 0.6}]))
    assert log.worst == "GREEN" and "1 of 41 rows have no step (step = 'final')" in log.notes[0]
    log = judged(tmp_path / "log.jsonl", lines([*rows(), {"reward": float("nan")}]))
    assert [(each.rule, each.since) for each in log.findings] == [("non_finite", N)]


@pytest.mark.parametrize("name", ["run", "run_id", "seed", "experiment"])
def test_several_runs_in_one_file_are_not_averaged(name: str, tmp_path: Path) -> None:
    made = rows() + rows(reward=lambda k: 0.6 - 0.5 * k / N)
    for k, row in enumerate(made):
        row[name] = k // N
    with pytest.raises(DataError, match=f"several by {name}: 0, 1") as refused:
        judged(tmp_path / "log.jsonl", lines(made))
    assert "in a file of its own" in str(refused.value.fix)
    assert judged(tmp_path / "one.jsonl", lines(made[:N])).worst == "GREEN"
    taken_up = [row | {name: 1} if row["step"] > 20 else row for row in made[:N]]
    again = [row | {name: 1} for row in made[18:20]]
    assert judged(tmp_path / "again.jsonl", lines([*taken_up[:20], *again, *taken_up[20:]])).worst == "GREEN"


def test_numbers_with_signs_that_cannot_be_sure_are_named(tmp_path: Path) -> None:
    made = rows(kl=lambda k: f"{k},500")
    log = judged(tmp_path / "log.tsv", table(made, "\t"))
    assert log.worst == "NOT MEASURED" and log.lacking is not None and "kl cannot be read" in log.lacking
    log = judged(tmp_path / "log.csv", table(rows(step=lambda k: f'"{k},000"')))
    assert log.worst == "GREEN" and log.steps == (1000, 1000 * N)


@pytest.mark.parametrize(("end", "level"), [(0.02, "RED"), (0.33, "AMBER"), (0.55, "GREEN")])
def test_a_reward_that_is_lost_rings(end: float, level: str, tmp_path: Path) -> None:
    rng = random.Random(3)
    made = rows(reward=lambda k: rng.gauss(0.6 if k < 25 else end, 0.01))
    log = judged(tmp_path / "log.jsonl", lines(made))
    assert log.worst == level and "reward_lost" in log.measured


def test_a_loss_that_leaves_all_bounds_rings_at_its_step(tmp_path: Path) -> None:
    for height, rules in ((1e9, ["loss_size"]), (5.0, [])):
        made = rows(loss=lambda k, height=height: height if k == 30 else 0.1)  # type: ignore[misc]
        log = judged(tmp_path / "log.jsonl", lines(made))
        assert [(each.rule, each.since) for each in log.findings] == [(rule, 30) for rule in rules]


def test_a_percentage_is_the_share_that_it_is(tmp_path: Path) -> None:
    made = rows(reward=lambda k: f"{60 if k < 25 else 2}%")
    assert [each.rule for each in judged(tmp_path / "log.csv", table(made)).findings] == ["reward_lost"]
