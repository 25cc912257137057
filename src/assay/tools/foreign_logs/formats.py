"""How other tools write what a model said in training, and what was measured: one record at a time.

The forms, and where they are written:

* TRL: `completions/completions_<step>.parquet` with step, prompt, completion, a column a reward function and
  advantage, and `log_history` of `trainer_state.json`: `GRPOTrainer.log` and `_calculate_rewards` in
  trl/trainer/grpo_trainer.py, `TrainerState` in transformers/trainer_callback.py.
* verl: `<step>.jsonl` in `trainer.rollout_data_dir`, each line with input, output, gts, score, step and what
  the reward function returned beside: `RayPPOTrainer._dump_generations` in verl/trainer/ppo/ray_trainer.py.
* prime-rl: `rollouts/step_<n>/train/effective/traces.jsonl`, before that
  `rollouts/step_<n>/train_rollouts.jsonl`, with a `Trace.to_record` of verifiers a line
  (verifiers/v1/trace.py): nodes, rewards by name with score and weight, metrics, task; or, in the older
  form, example_id, prompt, completion, reward and metrics (prime-rl pull requests 2248 and 2983).
* Anybody's: lines with step, item, completion, reward and parts.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from assay.tools.foreign_logs.records import LoggedCompletion

TEXT = ("completion", "output", "response", "generation")
ITEM = ("item", "item_id", "example_id", "task_id", "uid", "prompt", "input", "question")
REWARD = ("reward", "score", "total_reward", "total")
GOLD = ("gold", "gts", "ground_truth", "answer", "target", "reference", "solution")
PARTS = ("parts", "components", "reward_parts", "rewards", "metrics")
TOKENS = ("tokens", "n_tokens", "completion_tokens", "response_length", "completion_length")
SUCCESS = (
    "success",
    "solved",
    "is_correct",
    "correct",
    "correctness",
    "accuracy",
    "acc",
    "passed",
    "exact_match",
)
_SUCCESS = re.compile(rf"(?:^|[^a-z])(?:{'|'.join(SUCCESS)}|em|pass)(?:$|[^a-z])", re.I)
LARGEST, MOST_STEPS = 1e100, 1 << 53  # of a number, of steps: beyond these it is no measurement
CUT = ("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "length")
NO_PARTS = {"step", "advantage", "epoch", "draw", "group", "index", "id", "seed", "truncated", "is_truncated"}
# By signal of ours: what TRL, verl and prime-rl call it; a prefix train/ is taken off before.
ROW_NAMES: Mapping[str, tuple[str, ...]] = {
    "step": ("step", "global_step", "training/global_step", "_step", "trainer/global_step"),
    "reward": ("reward", "reward/mean", "critic/score/mean", "critic/rewards/mean", "mean_reward"),
    "zero_variance": ("frac_reward_zero_std", "zero_variance"),
    "entropy": ("entropy", "actor/entropy", "actor/entropy_loss", "entropy/mean", "entropy/all/mean"),
    "kl": ("kl", "actor/kl_loss", "objective/kl"),
    "truncated": (
        "completions/clipped_ratio",
        "response_length/clip_ratio",
        "is_truncated/mean",
        "truncated",
    ),
    "mean_length": (
        "completions/mean_length",
        "completion_length",
        "response_length/mean",
        "seq_len/mean",
        "mean_length",
    ),
    "clip": ("clip_ratio/region_mean", "clip_ratio", "actor/pg_clipfrac"),
    "grad_norm": ("grad_norm", "actor/grad_norm", "optim/grad_norm"),
    "loss": ("loss", "actor/pg_loss", "loss/mean"),
    "validation": ("eval_reward", "eval/reward", "val/reward", "validation_reward"),
}
_PART = re.compile(r"^rewards?/(?P<name>.+?)(?:/mean)?$")
_NO_MEAN = re.compile(r"/(?:std|min|max|median)$|_std$")


def names_success(name: str) -> bool:
    """Return whether a column's name says that it tells right from wrong.

    >>> [names_success(name) for name in ("accuracy_reward", "acc", "format", "accelerate")]
    [True, True, False, False]
    """
    return _SUCCESS.search(name) is not None


def number(value: object) -> float | None:
    """Return a number or truth value as a float; None for all else, NaN and what is beyond all sense."""
    if isinstance(value, bool | int | float):
        try:
            found = float(value)
        except OverflowError:
            return None
        return found if abs(found) <= LARGEST else None
    return None


def text_of(value: object) -> str | None:
    """Return a completion or prompt as text: itself, or the contents of its messages."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        value = [value]
    if isinstance(value, list | tuple):
        said = [_content(each) for each in value]
        return "\n".join(each for each in said if each)
    return str(value)


def _content(message: object) -> str:
    if not isinstance(message, Mapping):
        return "" if message is None else str(message)
    content = message.get("content")
    if content is None or isinstance(content, str):
        calls = message.get("tool_calls")
        return content or ("" if calls is None else json.dumps(calls, sort_keys=True, default=str))
    return " ".join(str(each.get("text", "")) for each in content if isinstance(each, Mapping))


def is_completion(record: Mapping[str, Any]) -> bool:
    """Return whether a record is of one completion, and not of a step."""
    return "nodes" in record or any(record.get(name) is not None for name in TEXT)


def read_completion(record: Mapping[str, Any], step: int | None, success: str | None) -> LoggedCompletion:
    """Return one completion.

    Args:
        record: As the tool wrote it.
        step: By the file's name, for a record that does not say.
        success: The column or part that tells right from wrong; None: the first whose name says so.

    Raises:
        ValueError: The record lacks a step, or has a reward that is no number.
    """
    if "nodes" in record:
        return _read_trace(record, step, success)
    found = number(record.get("step"))
    at = step if found is None else int(found)
    if at is None or not 0 <= at <= MOST_STEPS or (found is not None and not found.is_integer()):
        raise ValueError(f"step = {record.get('step')!r}"[:80])
    text = text_of(_first(record, TEXT))
    name = next((each for each in REWARD if record.get(each) is not None), None)
    reward = None if name is None else number(record[name])
    if name is not None and reward is None:
        raise ValueError(f"{name} = {record[name]!r}, no finite number"[:80])
    parts, loose = _parts(record)
    known = [*_columns(record), *parts]
    right = next((each for each in known if each == success), None)
    if success is None:
        right = next((each for each in known if names_success(each)), None)
    cut = record.get("truncated", record.get("is_truncated"))
    if cut is None and (reason := record.get("finish_reason", record.get("stop_condition"))) is not None:
        cut = str(reason) in CUT
    return LoggedCompletion(
        step=at,
        item=_digest(_first(record, ITEM)),
        text=text,
        reward=reward,
        parts=parts,
        loose=loose,
        success=None if right is None else number(record.get(right, parts.get(right))),
        gold=_gold(_first(record, GOLD)),
        tokens=next((n for each in TOKENS if (n := number(record.get(each))) is not None), None),
        truncated=None if cut is None else bool(cut),
        lost=bool(record["error"]) if "error" in record else None,
    )


def _read_trace(record: Mapping[str, Any], step: int | None, success: str | None) -> LoggedCompletion:
    run = record.get("run")
    at = number(run.get("step")) if isinstance(run, Mapping) else None
    step = int(at) if at is not None else step
    nodes, rewards = record["nodes"], record.get("rewards")
    if step is None or not isinstance(nodes, list) or not isinstance(rewards, Mapping):
        raise ValueError("a trace without step (rollouts/step_<n>/…), nodes or rewards")
    said = [
        _content(node.get("message")) for node in nodes if isinstance(node, Mapping) and node.get("sampled")
    ]
    parts, metrics = dict[str, float](), record.get("metrics")
    for name, each in rewards.items():
        score = number(each.get("score")) if isinstance(each, Mapping) else number(each)
        weight = number(each.get("weight", 1.0)) if isinstance(each, Mapping) else 1.0
        if score is not None and weight is not None:
            parts[str(name)] = score * weight
    measured = {
        **(metrics if isinstance(metrics, Mapping) else {}),
        **{name: each.get("score") if isinstance(each, Mapping) else each for name, each in rewards.items()},
    }
    right = (
        success
        if success in measured
        else next((each for each in measured if names_success(str(each))), None)
    )
    task = record.get("task")
    task = task if isinstance(task, Mapping) else {"data": task}
    key = task.get("key") or task.get("hash") or task.get("data")
    data = task.get("data")
    return LoggedCompletion(
        step=step,
        item=_digest(key),
        text="\n".join(said),
        reward=math.fsum(parts.values()) if parts else None,
        parts=parts,
        success=None if right is None else number(measured[right]),
        gold=_gold(_first(data, GOLD)) if isinstance(data, Mapping) else None,
        tokens=number(record.get("num_output_tokens")) or None,
        truncated=str(record.get("stop_condition")) in CUT or _ended_by_length(record.get("calls")),
        lost=record["ok"] is False if "ok" in record else None,
    )


def _ended_by_length(calls: object) -> bool:
    last = calls[-1] if isinstance(calls, list) and calls else None
    return isinstance(last, Mapping) and last.get("finish_reason") == "length"


def read_row(record: Mapping[str, Any], success: str | None) -> dict[str, float] | None:
    """Return the means of a step under the names of our signals; None for a record without step or signal."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat.setdefault(str(name).strip().removeprefix("train/"), value)
    row: dict[str, float] = {}
    for signal, names in ROW_NAMES.items():
        told = next((flat[name] for name in names if flat.get(name) is not None), None)
        if isinstance(told, bool | float) or (isinstance(told, int) and abs(told) < 1 << 1000):
            value = float(told)  # NaN and Inf as well: that is for a rule to say
            row[signal] = value if abs(value) <= LARGEST else math.nan
    for name, value in flat.items():
        match, told = _PART.match(name), number(value)
        if told is None or _NO_MEAN.search(name) or name.startswith(("eval", "val")):
            continue
        if match is not None and match["name"] not in ("mean", "std"):
            row[f"part {match['name']}"] = told
        wanted = name == success or (match is not None and match["name"] == success)
        if wanted or (success is None and "success" not in row and names_success(name)):
            row["success"] = told
    step = row.get("step")
    if step is None or not 0 <= step <= MOST_STEPS or len(row) < 2:
        return None
    return row


def _first(record: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _columns(record: Mapping[str, Any]) -> list[str]:
    return [str(name) for name, value in record.items() if number(value) is not None]


def _parts(record: Mapping[str, Any]) -> tuple[dict[str, float], bool]:
    """Return the reward parts, and whether they are loose: the numbers that are nothing else, or metrics."""
    for name in PARTS:
        inside = record.get(name)
        if isinstance(inside, Mapping):
            told = {str(key): found for key, value in inside.items() if (found := number(value)) is not None}
            return told, name == "metrics"
    taken = NO_PARTS | set(REWARD) | set(TOKENS) | set(ITEM) | set(GOLD)
    loose = {name: number(record[name]) for name in _columns(record) if name not in taken}
    return {name: value for name, value in loose.items() if value is not None}, True


def _gold(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, default=str)


def _digest(value: object) -> str:
    if value is None:
        return ""
    said = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return said if len(said) <= 40 else hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
