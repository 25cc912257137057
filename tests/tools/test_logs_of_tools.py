"""Logs as TRL, verl and prime-rl write them are read: TRL's come from a run of its trainer, right here."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import pytest

from assay.health.logs.judging import judge_log
from assay.health.logs.means import read_means
from assay.health.logs.reading import read_foreign
from assay.rollout.tables.columns import Columns
from tests.tools.log_shapes import CLEAN, HACKS, Draw, play

WORDS = [
    "the",
    "answer",
    "is",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "plus",
    "what",
]


def accuracy_reward(completions: list[str], **_: Any) -> list[float]:
    return [float("one" in text) for text in completions]


def brevity(completions: list[str], **_: Any) -> list[float]:
    return [1 / (1 + len(text)) for text in completions]


@pytest.fixture(scope="module")
def trl_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that a GRPOTrainer wrote: six steps of a model of one layer."""
    folder = tmp_path_factory.mktemp("trl")
    with warnings.catch_warnings():  # peft and TRL ask transformers by names that are no longer the new ones
        warnings.simplefilter("ignore")
        train_by_trl(folder)
    return folder


def train_by_trl(folder: Path) -> None:
    """Train for six steps with completions logged."""
    from datasets import Dataset
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    from assay.rollout.policy.base.tiny import build_tokenizer

    tokenizer = build_tokenizer([*WORDS, *" \n<>/"])
    tokenizer.chat_template = None
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=2, bos_token_id=None, **sizes, **ids)
    arguments = GRPOConfig(
        output_dir=str(folder),
        **{"max_steps": 6, "logging_steps": 1, "save_steps": 6, "learning_rate": 1e-3},
        **{"per_device_train_batch_size": 24, "num_generations": 4, "max_completion_length": 6},
        **{"use_cpu": True, "bf16": False, "report_to": [], "disable_tqdm": True},
        **{"log_completions": True, "num_completions_to_print": 0, "reward_weights": [1.0, 0.5]},
    )
    prompts = [{"prompt": f"what is {a} plus {b}"} for a in WORDS[3:9] for b in WORDS[3:9]]
    trainer = GRPOTrainer(
        model=Qwen2ForCausalLM(config),
        processing_class=tokenizer,
        reward_funcs=[accuracy_reward, brevity],
        args=arguments,
        train_dataset=Dataset.from_list(prompts),
    )
    trainer.train()


def test_a_folder_of_trl_gives_completions_means_and_the_weights_of_its_parts(trl_run: Path) -> None:
    log = read_foreign(trl_run)
    assert len(log.completions) == 144 and {each.step for each in log.completions} == set(range(1, 7))
    first = log.completions[0]
    assert first.text is not None and first.success == float("one" in first.text)
    assert first.parts["brevity"] == pytest.approx(0.5 / (1 + len(first.text)), rel=1e-4)
    assert first.reward == pytest.approx(first.success + first.parts["brevity"], rel=1e-4)
    assert {len(group) for group in _groups(log.completions).values()} == {4}
    told = [row for row in log.rows if "reward" in row]
    assert (
        len(told) == 6
        and {"entropy", "mean_length", "truncated", "grad_norm", "zero_variance"} <= told[0].keys()
    )
    assert "weighed as in the rows by step" in " ".join(log.notes)
    assert {"entropy", "length", "truncated", "part_share", "reward_vs_success"} <= set(
        judge_log(log).measured
    )


def _groups(completions: Any) -> dict[tuple[int, str], list[Any]]:
    found: dict[tuple[int, str], list[Any]] = {}
    for each in completions:
        found.setdefault((each.step, each.item), []).append(each)
    return found


def test_the_state_of_a_checkpoint_of_trl_is_read_by_itself(trl_run: Path) -> None:
    log = read_foreign(trl_run / "checkpoint-6/trainer_state.json")
    assert not log.completions and {"part accuracy_reward", "part brevity", "success"} <= log.rows[0].keys()
    judged = judge_log(log)
    assert {"entropy", "length", "grad_norm"} <= set(judged.measured)
    assert judged.unmeasured["distinct"] == "several completions of one prompt"


def write_verl(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Write rollouts as verl's `RayPPOTrainer._dump_generations` does: a file a step, a line a rollout."""
    for each in records:
        line = {"input": f"user\nquestion {each['item']}\nassistant\n", "output": each["completion"]}
        line |= {"gts": "4", "score": each["reward"], "step": each["step"], "acc": each["success"]}
        with (folder / f"{each['step']}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return folder


TRACE = json.loads((Path(__file__).parent / "trace_of_verifiers.json").read_text(encoding="utf-8"))


def write_prime(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Write rollouts as prime-rl does: records of verifiers 0.4.0, whose own `to_record` made the pattern."""
    for each in records:
        user, said = TRACE["nodes"]
        task = TRACE["task"] | {"hash": each["item"], "data": {"prompt": each["item"]}}
        nodes = [user, said | {"message": said["message"] | {"content": each["completion"]}}]
        scores = {name: {"score": value, "weight": 1.0} for name, value in each["parts"].items()}
        trace = TRACE | {"task": task, "nodes": nodes, "rewards": scores}
        trace |= {"metrics": {"is_correct": float(each["success"])}}
        for kind in ("all", "effective"):
            path = folder / f"rollouts/step_{each['step']}/train/{kind}/traces.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(trace) + "\n")
    return folder


def write_older_prime(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Write rollouts as prime-rl did before: outputs of an older verifiers, one file a step."""
    for each in records:
        line = {"example_id": each["item"], "task": "default", "prompt": [{"role": "user", "content": "Q"}]}
        line |= {"completion": [{"role": "assistant", "content": each["completion"]}], "error": None}
        line |= {"reward": each["reward"], "metrics": each["parts"] | {"correct": float(each["success"])}}
        path = folder / f"rollouts/step_{each['step']}/train_rollouts.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return folder


def write_table(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Write the means by step as a CSV that names its columns as verl does."""
    lines = ["training/global_step,critic/score/mean,response_length/mean,accuracy"]
    for step in sorted({each["step"] for each in records}):
        here = [each for each in records if each["step"] == step]
        means = (
            sum(value(each) for each in here) / len(here)
            for value in (
                lambda e: e["reward"],
                lambda e: len(e["completion"].split()),
                lambda e: e["success"],
            )
        )
        lines.append(",".join(map(str, (step, *means))))
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


WRITERS: Mapping[str, tuple[Any, str, Draw]] = {
    "verl": (write_verl, "length", HACKS["pays_for_length"][0]),
    "prime-rl": (write_prime, "part_share", HACKS["form_alone"][0]),
    "older prime-rl": (write_older_prime, "part_share", HACKS["form_alone"][0]),
    "csv of verl": (write_table, "length", HACKS["pays_for_length"][0]),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_hack_is_found_in_the_form_of_each_tool_and_a_sound_training_is_not(
    name: str, tmp_path: Path
) -> None:
    write, rule, hack = WRITERS[name]
    for folder, draw in (("hack", hack), ("sound", CLEAN["learned_form_and_all"])):
        (tmp_path / folder).mkdir()
        log = read_foreign(write(tmp_path / folder, play(draw, steps=30)))
        rang = {each.rule for each in judge_log(log).findings}
        if folder == "hack":
            assert {rule, "reward_vs_success"} <= rang
        else:
            assert rang == set()


def test_a_trace_of_verifiers_is_read_to_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "rollouts/step_7/train_rollouts.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(TRACE) + "\n" + json.dumps({"traces": [TRACE]}) + "\n", encoding="utf-8")
    one, other = read_foreign(tmp_path).completions
    assert one == other and (one.step, one.item, one.text) == (7, "ab12", "<answer>4</answer>")
    assert one.reward == pytest.approx(1.2) and one.parts == {"correct_answer": 1.0, "format": 0.2}
    assert (one.success, one.gold, one.truncated, one.lost) == (1.0, "4", False, False)


def test_messages_are_read_as_text_and_numbers_that_make_no_reward_are_no_parts(tmp_path: Path) -> None:
    table = [
        {
            **{"step": k, "prompt": [{"role": "user", "content": f"q{k // 2}"}], "n_calls": 50 * k % 7},
            **{"completion": [{"role": "assistant", "content": f"a{k}"}], "reward": k % 2, "advantage": 0.1},
        }
        for k in range(24)
    ]
    pd.DataFrame(table).to_parquet(tmp_path / "completions_00001.parquet")
    log = read_foreign(tmp_path)
    assert [each.text for each in log.completions[:2]] == ["a0", "a1"]
    assert log.completions[0].item == log.completions[1].item != log.completions[2].item
    assert {len(each.parts) for each in log.completions} == {0}


def test_what_is_measured_on_validation_is_neither_success_nor_part_of_a_training_step() -> None:
    record = {"step": 3, "eval_reward": 0.4, "eval_rewards/accuracy/mean": 0.9, "train/reward": 0.5}
    means = read_means([record], Columns(), "log")
    assert means.rows == ({"step": 3.0, "reward": 0.5, "validation": 0.4},)
