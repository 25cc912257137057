"""The libraries that are used without a project: docs/api.md runs, and says what the commands say."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from assay.core.errors import ConfigError, DataError, EnvironmentLost, PackageError, TaskError
from assay.core.storage.json import dumps
from assay.health import HealthCallback, Monitor, examine
from assay.health.callback import HealthWarning
from assay.package import Verification, checking, pack, verify
from assay.package.checking import VerifyRequest
from assay.verdict import Results, compare, plan, read, report
from assay.verdict.judge.command import JudgeRequest, judge_files
from tests.house import ROOT
from tests.warm import warm_python

_BLOCK = re.compile(r"^(?:<!-- (?P<needs>[^\n]+) -->\n)?```python\n(?P<code>.*?)^```", re.M | re.S)


def blocks(needs: str | None) -> list[str]:
    found = [
        each["code"] for each in _BLOCK.finditer((ROOT / "docs/api.md").read_text()) if each["needs"] == needs
    ]
    assert found
    return found


def frame(rate: float, seed: int) -> pd.DataFrame:
    draws = [(f"q{n}", draw) for n in range(40) for draw in range(2)]
    right = np.random.default_rng(seed).random(len(draws)) < rate
    table = pd.DataFrame(draws, columns=["item", "draw"])
    return table.assign(score=right.astype(int), note=None)


@pytest.mark.parametrize("library", ["verdict", "health", "rollout", "package"])
def test_a_library_names_what_it_offers_and_documents_it(library: str) -> None:
    module = importlib.import_module(f"assay.{library}")
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert (getattr(module, name).__doc__ or "").strip(), name


# In one process: what the first of them would load, the others would find.
LIGHT = (
    *(
        "assay.verdict",
        "assay.health",
        "assay.cli",
        "assay.verdict.judge.command",
        "assay.verdict.judge.page",
    ),
    *("assay.package", "assay.package.judgements", "assay.stages.packing.card"),
    "huggingface_hub.repocard_data",
)
LOADED = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if found := {"torch", "transformers", "trl", "peft", "datasets", "dvc"} & sys.modules.keys():
        sys.exit(f"{name} loads {sorted(found)}")
"""


def test_judging_health_packages_and_cards_load_nothing_of_a_training() -> None:
    command = [sys.executable, "-c", LOADED, *LIGHT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code in blocks(None):
        exec(code, {})
    assert (tmp_path / "judged/report.html").stat().st_size > 10_000
    assert verify(tmp_path / "mine.tar").verdict == "origin not shown"


def test_a_frame_a_file_and_the_command_come_to_one_claim(tmp_path: Path) -> None:
    arms = {"before": frame(0.2, 1), "after": frame(0.6, 2), "silent": frame(0.1, 3)}
    for name, table in arms.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    asked = JudgeRequest(rival=[f"silent={tmp_path / 'silent.csv'}"])
    by_command = judge_files(tmp_path / "before.csv", tmp_path / "after.csv", asked)[2].claim
    frames = {name: read(table) for name, table in arms.items()}
    files = {name: read(tmp_path / f"{name}.csv") for name in arms}
    for given in (frames, files):
        claim = compare(given["before"], given["after"], rivals={"silent": given["silent"]})
        assert dumps(claim.record) == dumps(by_command)
        assert claim.verdict == "BETTER" and claim.gain is not None and claim.interval is not None
        assert claim.interval[0] < claim.gain < claim.interval[1]
    # What was read stays as it was, however often it is compared.
    before, after = frames["before"], frames["after"]
    kept = before.frame.copy()
    assert str(compare(before, after)) == str(compare(before, after))
    pd.testing.assert_frame_equal(before.frame, kept)


@pytest.mark.long
def test_a_claim_is_packed_with_its_report_and_verify_says_what_the_command_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = compare(read(frame(0.2, 1)), read(frame(0.6, 2)), title="mine")
    page = report(claim, tmp_path / "out")
    packed = pack(claim, tmp_path / "mine.tar")
    assert "mine" in page.read_text()
    assert sorted(each.name for each in page.parent.iterdir()) == ["claim.json", "report.html", "summary.md"]
    (tmp_path / "mine.sha256").write_text(f"{packed.sha256}  assay-package/SHA256SUMS\n")
    for sha256, verdict in ((packed.sha256, "passed"), (tmp_path / "mine.sha256", "passed"), (None, "or")):
        found = verify(packed.path, sha256)
        assert found.verdict.startswith(verdict) and found.passed == (verdict == "passed")
        assert found.counts["passed"] > 5 and not found.counts["failed"]
    asked, said = VerifyRequest(sha256=packed.sha256), list[str]()
    monkeypatch.setattr(checking, "say", said.append)
    assert checking.run(packed.path, asked, tmp_path / "verify.json") == 0
    found = verify(packed.path, packed.sha256)
    assert re.sub(r" \([\d.]+ s\)", "", "\n".join(said)) == str(found)
    assert Verification.model_validate_json((tmp_path / "verify.json").read_text()) == found
    edited = packed.path.read_bytes().replace(claim.verdict.encode(), claim.verdict.lower().encode())
    packed.path.write_bytes(edited)
    assert verify(packed.path).verdict == "failed"


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda folder: verify(folder / "none.tar"), PackageError, "no such file"),
        (lambda folder: verify(folder), PackageError, "a folder without SHA256SUMS"),
        (lambda folder: verify(folder, level="V1"), PackageError, "V3, V4 or V5"),
        (lambda folder: pack(compare(read(frame(0.2, 1)), read(frame(0.6, 2)))), PackageError, "mine.tar"),
        (lambda folder: pack(folder, folder / "x.tar"), PackageError, "where a run is packed"),
        (lambda folder: pack(folder), ConfigError, "params.yaml"),
        (lambda folder: pack([], folder / "x.tar.gz"), ConfigError, "a name of its own"),
        (lambda folder: pack([folder, folder], folder / "x.tar.gz"), ConfigError, "a name of its own"),
    ],
)
def test_what_is_no_package_and_no_run_is_refused_in_words(
    ask: Any, error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        ask(tmp_path)


def test_a_plan_is_kept_to(tmp_path: Path) -> None:
    before, after = read(frame(0.2, 1)), read(frame(0.6, 2))
    made = plan(before, effect=5.0)
    assert made.items.n_items == 40 and made.power.smallest_detectable_points is not None
    assert "beforehand" in " ".join(map(str, compare(before, after, plan=made).warnings))
    fewer = read(frame(0.6, 2).query("item != 'q0'"))
    assert compare(read(frame(0.2, 1).query("item != 'q0'")), fewer, plan=made).verdict == "NOT EVALUABLE"
    with pytest.raises(ConfigError, match="as planned"):
        compare(before, after, rivals={"silent": before}, plan=made)


def test_what_cannot_be_read_names_the_row_and_the_way() -> None:
    with pytest.raises(DataError, match="row 1"):
        read(pd.DataFrame({"item": ["a", "b"], "score": [0.5, "often"]}))
    with pytest.raises(DataError, match="at least one result"):
        read(pd.DataFrame({"item": [], "score": []}))
    told = read(
        pd.DataFrame({"task_no": ["a", "b"], "ok": [1, 0]}), columns={"item": "task_no", "score": "ok"}
    )
    assert list(told.frame["score"]) == [1.0, 0.0]
    with pytest.raises(ConfigError, match="same bounds"):
        compare(told, read(pd.DataFrame({"item": ["a"], "score": [5]}), bounds=(0, 10)))


ITEMS = [f"q{n}" for n in range(40)]


def scores(every: int, **more: Any) -> pd.DataFrame:
    return pd.DataFrame({"item": ITEMS, "score": [float(n % every == 0) for n in range(40)], **more})


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        (lambda table: table, {}),
        (lambda table: table.set_index("item"), None),
        (lambda table: table.set_index("item", drop=False), None),
        (lambda table: table.assign(draw=0).set_index(["item", "draw"]), None),
        (lambda table: table.astype({"item": "category", "score": "category"}), None),
        (lambda table: table.astype({"item": "string", "score": "Int64"}), None),
        (lambda table: table.assign(score=[Decimal(int(each)) for each in table["score"]]), None),
        (lambda table: table.assign(score=table["score"].astype(bool)), None),
        (lambda table: table.set_axis([0, 1], axis=1), {"item": 0, "score": 1}),
        (lambda table: table.set_axis(["a, score=b", "c"], axis=1), {"item": "a, score=b", "score": "c"}),
    ],
)
def test_a_frame_of_another_form_is_read_as_the_same_results(change: Any, columns: Any) -> None:
    found = read(change(scores(2)), columns=columns)
    pd.testing.assert_frame_equal(found.frame, read(scores(2)).frame)


def both(**named: Any) -> list[Results]:
    return [
        read(scores(every, f1=0.1 * every, acc=[n % every / every for n in range(40)]), **named)
        for every in (4, 2)
    ]


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda: read(scores(2), bounds=(1, 0)), ConfigError, "LOW,HIGH"),
        (lambda: read(scores(2), bounds=(0, 0)), ConfigError, "LOW,HIGH"),
        (lambda: read(scores(2), bounds=(0, float("inf"))), ConfigError, "LOW,HIGH"),
        (lambda: read(scores(2), draws=0), ConfigError, "at least one draw"),
        (lambda: read(scores(2), metric="f1", columns={"score": "acc"}), ConfigError, "one score"),
        (lambda: read(scores(2).set_axis(["score", "score"], axis=1)), DataError, "score twice"),
        (lambda: compare(*both(), effect=0), ConfigError, "percentage points"),
        (lambda: compare(*both(), effect=float("nan")), ConfigError, "percentage points"),
        (lambda: compare(*both(), rivals={3: both()[0]}), ConfigError, "names of their own"),  # type: ignore[dict-item]
        (lambda: compare(*both(), rivals={"same": both()[0]}), DataError, "those of before"),
        (lambda: compare(*both(), rivals={"same": both()[1]}), DataError, "those of after"),
        (lambda: plan(both()[0], effect=101), ConfigError, "percentage points"),
        (lambda: plan(both()[0], alpha=0.5), ConfigError, "0.1 at most"),
        (
            lambda: compare(*both(metric="acc"), plan=plan(both(metric="f1")[0])),
            ConfigError,
            "score f1, as pl",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(ask: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        ask()


def test_bounds_of_any_numbers_are_the_same_bounds() -> None:
    before = read(scores(4), bounds=[0, 1])  # type: ignore[arg-type]
    assert compare(before, read(scores(2), bounds=(np.float64(0), np.float64(1)))).gain == 25.0


def test_arms_and_scores_are_called_by_their_names() -> None:
    whole, lost = read(scores(4)), read(scores(2).replace({"score": {1.0: None}}))
    barred = compare(whole, lost).reasons[0]
    assert (barred.code, barred.values["arm"], barred.values["n"]) == ("no_score", "after", 20)
    before, after = both(metric="f1")[0], both(metric="acc")[1]
    (told,) = compare(before, after).reasons
    assert told.code == "measured_otherwise" and "metric (f1, then acc)" in str(told)
    assert not any(each.code == told.code for each in compare(*both(metric="acc")).reasons)


def test_a_plan_keeps_the_score_and_one_rival_by_its_name() -> None:
    made = plan(both(metric="f1")[0], rivals="silent")
    assert (made.metric, made.rivals) == ("f1", ("silent",))


def test_a_monitor_says_at_the_end_what_the_log_as_a_file_says(tmp_path: Path) -> None:
    rows = [{"step": n, "reward": 0.02 * n, "kl": 0.01 if n < 30 else 9.0} for n in range(60)]
    monitor, rang = Monitor(), dict[str, int]()
    for row in rows:
        monitor.add(row)
        rang |= {alarm.rule: row["step"] for alarm in monitor.new_alarms()}
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    assert monitor.health() == examine(tmp_path / "log.csv")
    assert 30 < rang["kl"] < 50 and monitor.new_alarms() == []


def kl_that_jumps(number: Any = float) -> list[dict[str, Any]]:
    return [{"step": n, "reward": number(0.02 * n), "kl": number(0.01 if n < 30 else 9.0)} for n in range(60)]


@pytest.mark.parametrize(
    "rows",
    [
        kl_that_jumps()[::-1],
        kl_that_jumps() * 2,
        kl_that_jumps(np.float32),
        kl_that_jumps(np.array),
        [{**row, "step": np.int64(row["step"])} for row in kl_that_jumps()],
    ],
)
def test_neither_the_order_of_rows_nor_the_kind_of_numbers_changes_what_rings(
    rows: list[dict[str, Any]],
) -> None:
    monitor, stepped = Monitor(), Monitor()
    for row in rows:
        monitor.add(row)
        stepped.add({name: value for name, value in row.items() if name != "step"}, row["step"])
    for each in (monitor, stepped):
        (alarm,) = each.new_alarms()
        assert (alarm.rule, alarm.level, alarm.since) == ("kl", "RED", 32)


@pytest.mark.parametrize("step", [None, -1, 1.5, float("nan"), "soon"])
def test_means_without_a_step_are_refused_and_what_follows_is_read(step: Any) -> None:
    monitor = Monitor(columns={})
    with pytest.raises(DataError, match="no step"):
        monitor.add({"reward": 1.0} | ({} if step is None else {"step": step}))
    monitor.add({"reward": 1.0}, 3)
    health = monitor.health()
    assert health is not None and health.steps == (3, 3)


def trained(folder: Any, callback: Any, logs: list[dict[str, Any]], resumed: int = 0) -> Any:
    """Log as a trainer of transformers does; return what it is asked for afterwards."""
    from transformers import TrainerControl, TrainerState, TrainingArguments

    arguments = TrainingArguments(output_dir=str(folder), report_to=[], use_cpu=True)
    arguments.output_dir = folder and str(folder)
    state, control = TrainerState(is_world_process_zero=True, global_step=resumed), TrainerControl()
    callback.on_train_begin(arguments, state, control)
    for each in logs:
        state.global_step += 1
        callback.on_step_end(arguments, state, control)
        callback.on_log(arguments, state, control, logs=each)
    callback.on_train_end(arguments, state, control)
    return control


NAN_AT_END = [{"reward": 0.1, "loss": float("nan") if n > 8 else 0.1, "grad_norm": 1.0} for n in range(12)]


def test_a_training_is_stopped_at_the_level_that_was_asked_for() -> None:
    with pytest.raises(ConfigError, match="AMBER, RED"):
        HealthCallback(stop_at="red")  # type: ignore[arg-type]
    with pytest.warns(HealthWarning, match="RED since step 10, non_finite"):
        assert trained(None, HealthCallback(stop_at="RED"), NAN_AT_END).should_training_stop
    with pytest.warns(HealthWarning):
        assert not trained(None, HealthCallback(), NAN_AT_END).should_training_stop


def test_a_log_that_says_nothing_is_called_not_measured() -> None:
    with pytest.warns(HealthWarning, match="NOT MEASURED: nothing that was logged can be read"):
        trained(None, HealthCallback(), [{"learning_rate": 0.1}] * 3)
    with pytest.warns(HealthWarning, match="NOT MEASURED: too short"):
        trained(None, HealthCallback(), [{"reward": 0.1, "step": float("nan")}] * 3)


def test_completions_of_an_earlier_training_are_read_only_where_it_is_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "completions").mkdir()
    rows = [{"step": 1, "prompt": "which", "completion": f"plum {n}", "reward": 0.5} for n in range(8)]
    path = tmp_path / "completions/completions_00001.parquet"
    pd.DataFrame(rows).to_parquet(path)
    os.utime(path, (0, 0))
    monkeypatch.chdir(tmp_path)
    for folder, resumed, n in ((tmp_path, 0, 0), (tmp_path, 1, 8), (None, 1, 0)):
        callback = HealthCallback()
        with pytest.warns(HealthWarning):
            trained(folder, callback, [{"reward": 0.1}] * 3, resumed)
        health = callback.monitor.health()
        assert health is not None and health.completions == n


@pytest.mark.long
def test_all_processes_stop_where_the_first_one_asks_for_it(tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(
        """import os, warnings
warnings.simplefilter("ignore")
from accelerate import PartialState
from transformers import TrainerControl, TrainerState, TrainingArguments
from assay.health import HealthCallback
PartialState(cpu=True)
first = os.environ["RANK"] == "0"
arguments = TrainingArguments(output_dir=".", report_to=[], use_cpu=True)
callback, control = HealthCallback(stop_at="RED"), TrainerControl()
for step in range(1, 13):
    state = TrainerState(is_world_process_zero=first, global_step=step)
    callback.on_step_end(arguments, state, control)
    if control.should_training_stop:
        break
    loss = float("nan") if step > 8 else 0.1
    callback.on_log(arguments, state, control, logs={"reward": 0.1, "loss": loss})
print(f"process {os.environ['RANK']} of {arguments.world_size} stopped at {step}", flush=True)
""",
        encoding="utf-8",
    )
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--standalone",
        str(script),
    ]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHON_EXEC": warm_python()},
        timeout=300,
    )
    said = re.findall(r"process \d of 2 stopped at (\d+)", found.stdout)
    assert len(said) == 2 and said[0] == said[1] and 9 < int(said[0]) < 12, found.stdout + found.stderr


def test_nothing_logged_is_no_health_yet() -> None:
    monitor = Monitor()
    assert monitor.health() is None and monitor.new_alarms() == []


@pytest.fixture
def small() -> tuple[Any, Any]:
    from tests.small_policy import small_model, tiny

    tokenizer = tiny.build_tokenizer(["plum", "reed", "?", "which"])
    return small_model(tokenizer), tokenizer


def test_a_model_plays_without_a_project_and_repeats_itself(
    small: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from assay.rollout import Engine, Environment, Told, play

    (code,) = blocks("a model")
    names: dict[str, Any] = dict(zip(("model", "tokenizer"), small, strict=True))
    exec(code, names)
    assert "8 results of 2 items" in capsys.readouterr().out
    again = play(
        Engine(*small, max_new_tokens=16, batch_size=3),
        names["reward"],
        [{"prompt": "plum?", "answer": "plum"}, {"prompt": "reed?", "answer": "reed"}],
        draws=4,
    )
    assert again == names["episodes"]

    class Twice(Environment):
        def reset(self, row: Any, seed: int) -> str:
            self.said: list[str] = []
            return str(row["prompt"])

        def step(self, completion: str) -> Told:
            self.said.append(completion)
            return Told("which" if len(self.said) < 2 else None, {"short": 1.0}, success=len(self.said) == 2)

    (one,) = play(Engine(*small, max_new_tokens=2), Twice, [{"prompt": "plum"}], parts=["short"])
    assert len(one.turns) == 2 and one.success and one.reward == 2.0


def test_what_a_played_environment_says_of_an_episode_stands_in_it_and_batches_are_stepped_at_once(
    small: tuple[Any, Any],
) -> None:
    from assay.rollout import Batched, Engine, Environment, Told, play

    sizes = list[int]()

    class Once(Environment, Batched):
        def reset(self, row: Any, seed: int) -> str:
            return str(row["prompt"])

        @staticmethod
        def step_batch(environments: Any, completions: Any) -> list[Told]:
            sizes.append(len(completions))
            said = {"flags": {"short": True}, "metrics": {"chars": 3}, "action": "a", "ending": "said"}
            return [Told(None, 1.0, success=True, **said) for _ in completions]

        def step(self, completion: str) -> Told:
            return self.step_batch([self], [completion])[0]

    found = play(Engine(*small, max_new_tokens=2), Once, [PLUM], draws=3)
    assert [(each.flags, each.metrics, each.ending) for each in found] == [
        ({"short": True}, {"chars": 3.0}, "said")
    ] * 3
    assert sizes == [3] and found[0].turns[0].action == "a"


PLUM = {"prompt": "plum?", "answer": "plum"}


def paid(completions: list[str], **columns: Any) -> list[float]:
    return [1.0] * len(completions)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"max_new_tokens": 0}, ConfigError, "Engine, max_new_tokens"),
        ({"batch_size": 0}, ConfigError, "Engine, batch_size"),
        ({"temperature": -1.0}, ConfigError, "Engine, temperature"),
        ({"temperature": float("nan")}, ConfigError, "Engine, temperature"),
        ({"backend": "fast"}, ConfigError, "cached or lean"),
        ({"draws": 0}, ConfigError, "at least one draw"),
        ({"environment": 3}, ConfigError, "or a reward function"),
        ({"environment": dict}, ConfigError, "or a reward function"),
        ({"examples": [{"question": "plum?"}]}, TaskError, "prompt"),
        ({"examples": [PLUM, PLUM]}, TaskError, "example 1: .*that of example 0 again"),
        ({"examples": [PLUM | {"id": 1}, {"prompt": "reed?", "id": "1"}]}, TaskError, "an id of its own"),
        ({"examples": [PLUM | {"x": float("nan")}]}, TaskError, "what JSON can hold"),
        ({"examples": [PLUM | {"x": np.float32(1)}]}, TaskError, "what JSON can hold"),
        ({"environment": lambda completions, **columns: 1 / 0}, TaskError, "ZeroDivisionError"),
        ({"environment": lambda completions, **columns: None}, TaskError, "NoneType"),
        ({"environment": lambda completions, **columns: [1.0, 1.0]}, TaskError, "2 numbers for 1"),
        ({"environment": lambda completions, **columns: [float("nan")]}, TaskError, "no finite number"),
        ({"environment": lambda completions, **columns: [None]}, EnvironmentLost, "reward is None"),
    ],
)
def test_what_cannot_be_played_is_refused_in_words(
    small: tuple[Any, Any], given: dict[str, Any], error: type[Exception], said: str
) -> None:
    from assay.rollout import Engine, play

    asked = {"environment": paid, "examples": [PLUM], "max_new_tokens": 2} | given
    environment, examples, draws = asked.pop("environment"), asked.pop("examples"), asked.pop("draws", 1)
    with pytest.raises(error, match=said):
        play(Engine(*small, **asked), environment, examples, draws=draws)


def test_a_model_that_is_being_trained_plays_without_dropout_and_goes_on_training(
    small: tuple[Any, Any],
) -> None:
    from assay.rollout import Engine, play

    model, tokenizer = small
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.9
    engine = Engine(model, tokenizer, max_new_tokens=8)
    model.eval()
    resting = play(engine, paid, [PLUM], draws=4)
    model.train()
    assert play(engine, paid, [PLUM], draws=4) == resting
    assert model.training


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # of TRL and what it stands on
def test_a_plain_trainer_of_trl_warns_of_what_goes_wrong(small: tuple[Any, Any], tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import GRPOConfig  # type: ignore[attr-defined]

    calls = iter(range(10**6))

    def reward(completions: list[Any], **kwargs: Any) -> list[float]:
        return [float("nan") if next(calls) > 40 else 1.0 * (len(each) % 2) for each in completions]

    model, tokenizer = small
    (code,) = blocks("a trainer")
    names: dict[str, Any] = {
        "model": model,
        "reward": reward,
        "records": Dataset.from_list([{"prompt": "which"}] * 8),
        "arguments": GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=4,
            max_steps=12,
            logging_steps=1,
            log_completions=True,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            bf16=False,
        ),
    }
    code = code.replace("args=arguments", "args=arguments, processing_class=tokenizer")
    with pytest.warns(HealthWarning, match="non_finite"):
        exec(code, names | {"tokenizer": tokenizer})
