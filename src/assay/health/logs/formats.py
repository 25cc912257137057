"""How other tools write what a model said in training: one completion at a time.

The forms, and where they are written:

* TRL: `completions/completions_<step>.parquet` with step, prompt, completion, a column a reward function,
  what those log beside, and advantage: `GRPOTrainer.log` in trl/trainer/grpo_trainer.py. The one of ms-swift
  writes the same to completions.jsonl, a batch a line, with gen_step as its step.
* verl: `<step>.jsonl` in `trainer.rollout_data_dir`, each line with input, output, gts, score, step, uid and
  what the reward function returned beside: `RayPPOTrainer._dump_generations` in
  verl/trainer/ppo/ray_trainer.py.
* prime-rl: `monitors/file/traces/stream.jsonl`, an episode a line with the step in run.work.step; before that
  `rollouts/step_<n>/train/effective/traces.jsonl` and `rollouts/step_<n>/train_rollouts.jsonl`, with a
  `Trace.to_record` of verifiers a line (verifiers/v1/trace.py): nodes, rewards by name with score and weight,
  metrics, task; or, in the oldest form, example_id, prompt, completion, reward and metrics (prime-rl pull
  requests 2248, 2983 and 3444).
* Anybody's: lines with step, item, completion, reward and parts, under the names of tools/columns.py.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from assay.health.logs.means import is_sound, number_in, odd_word
from assay.health.logs.records import LoggedCompletion
from assay.rollout.tables.columns import Columns, is_cut_off, look_up, read_step

REWARD = ("reward", "score", "total_reward", "total")
PARTS = ("parts", "components", "reward_parts", "rewards")
BESIDE = ("metrics", "reward_extra_info")
KEYS = ("uid", "prompt_uid", "group_id", "hash")  # tell prompts apart as well, besides items and prompts
NO_NUMBERS = {"advantage", "advantages", "group", "index", "seed", "created_at", "timestamp", "version"}


def number(value: object) -> float | None:
    """Return a number or truth value as a float; None for all else, NaN and what is beyond all sense."""
    if isinstance(value, bool | int | float):
        try:
            found = float(value)
        except OverflowError:
            return None
        return found if is_sound(found) else None
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


def spread(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the records of a batch whose columns are lists, as ms-swift logs one, each with what is said of
    all of them; any other as it is.

    >>> spread({"gen_step": [2, 2], "completion": ["a", "b"]})
    [{'step': 2, 'completion': 'a'}, {'step': 2, 'completion': 'b'}]
    >>> spread({"step": 2, "completion": ["a", "b"]})
    [{'step': 2, 'completion': 'a'}, {'step': 2, 'completion': 'b'}]
    """
    told = record.get("completion")
    if not isinstance(told, list) or not told or not isinstance(told[0], str | list):
        return [record]
    kept = {name: v for name, v in record.items() if not isinstance(v, list) or len(v) == len(told)}
    names = {name: "step" if name == "gen_step" and "step" not in record else name for name in kept}
    return [
        {names[name]: value[n] if isinstance(value, list) else value for name, value in kept.items()}
        for n in range(len(told))
    ]


def with_answer(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record whose conversation ends with what the assistant said as prompt and completion."""
    told = record.get("messages")
    if not isinstance(told, list) or not told or "completion" in record:
        return record
    last = told[-1]
    if not isinstance(last, Mapping) or last.get("role") != "assistant":
        return record
    return {"prompt": told[:-1], "completion": [last], **{k: v for k, v in record.items() if k != "messages"}}


def is_completion(record: Mapping[str, Any], columns: Columns) -> bool:
    """Return whether a record is of one completion, and not of a step."""
    said = _first(record, columns.candidates(record).get("completion", ()))
    return "nodes" in record or isinstance(said, str | list | tuple | Mapping)


def read_completion(record: Mapping[str, Any], step: int | None, columns: Columns) -> LoggedCompletion:
    """Return one completion with all numbers beside it by name; what they mean is for the whole log to say.

    Args:
        record: As the tool wrote it.
        step: By the file's name or the episode, for a record that does not say.
        columns: The columns that somebody named.

    Raises:
        ValueError: The record lacks a step.
    """
    if "nodes" in record:
        return _read_trace(record, step, columns)
    named, known = columns.named, columns.candidates(record)
    told = _first(record, known.get("step", ()))
    at = step if told is None else read_step(told)
    if at is None:
        raise ValueError(f"step = {told!r}"[:80])
    text = text_of(_first(record, known.get("completion", ())))
    rewards = [named["score"]] if "score" in named else [name for name in REWARD if name in record]
    said = _first(record, rewards)
    tokens = (number(look_up(record, name)) for name in known.get("tokens", ()))
    cut = _first(record, (*known.get("truncated", ()), "stop_condition"))
    keys = [named["item"]] if "item" in named else [*known.get("item", ()), *KEYS, *known.get("prompt", ())]
    parts = _numbers_in(_first(record, PARTS))
    return LoggedCompletion(
        step=at,
        item="",
        text=text,
        reward=number(number_in(said)),
        odd=("null" if rewards else None) if said is None else odd_word(said),
        parts=parts,
        numbers=_beside(record, columns),
        gold=_gold(_first(record, known.get("reference", ()))),
        tokens=next((n for n in tokens if n is not None), None),
        truncated=None if cut is None else bool(is_cut_off(cut)) if isinstance(cut, str) else bool(cut),
        lost=bool(record["error"]) if "error" in record else None,
        keys={name: _digest(value) for name in keys if (value := look_up(record, name)) is not None},
    )


def _beside(record: Mapping[str, Any], columns: Columns) -> dict[str, float]:
    """Return the numbers of a record that are neither step nor length nor name of anything; a right answer
    may be one, or a reward function that is called so."""
    known = columns.candidates(record)
    taken = NO_NUMBERS | {
        name
        for meaning in ("step", "tokens", "truncated", "item", "draw", "prompt", "completion")
        for name in known.get(meaning, ())
        if name != columns.named.get("success")
    }
    found = {
        name: n for name, value in record.items() if name not in taken and (n := number(value)) is not None
    }
    return found | _numbers_in(_first(record, BESIDE))


def _numbers_in(value: object) -> dict[str, float]:
    inside = value if isinstance(value, Mapping) else {}
    return {str(name): found for name, each in inside.items() if (found := number(each)) is not None}


def _read_trace(record: Mapping[str, Any], step: int | None, columns: Columns) -> LoggedCompletion:
    at = step_of_episode(record)
    step = step if at is None else at
    nodes, rewards = record["nodes"], record.get("rewards")
    if step is None:
        raise ValueError("a trace without step (rollouts/step_<n>/…, or run.work.step)")
    if not isinstance(nodes, list) or not isinstance(rewards, Mapping):
        raise ValueError("a trace without nodes or rewards")
    said = [
        _content(node.get("message")) for node in nodes if isinstance(node, Mapping) and node.get("sampled")
    ]
    parts, scores, odd = dict[str, float](), dict[str, float](), None
    for name, each in rewards.items():
        told = each.get("score") if isinstance(each, Mapping) else each
        weight = number(each.get("weight", 1.0)) if isinstance(each, Mapping) else 1.0
        score = number(told)
        if score is not None and weight is not None:
            parts[str(name)], scores[str(name)] = score * weight, score
        elif told is not None:
            odd = odd_word(told)
    task = record.get("task")
    task = task if isinstance(task, Mapping) else {"data": task}
    key, data = task.get("key") or task.get("hash") or task.get("data"), task.get("data")
    gold = _first(data, columns.candidates(data).get("reference", ())) if isinstance(data, Mapping) else None
    return LoggedCompletion(
        step=step,
        item="",
        text="\n".join(said),
        reward=math.fsum(parts.values()) if parts and odd is None else None,
        odd=odd,
        parts=parts,
        numbers=_numbers_in(record.get("metrics")) | scores,
        gold=_gold(gold),
        tokens=number(record.get("num_output_tokens")) or None,
        truncated=bool(is_cut_off(record.get("stop_condition")) or _ended_by_length(record.get("calls"))),
        lost=record["ok"] is False if "ok" in record else None,
        keys={} if key is None else {"task": _digest(key)},
    )


def step_of_episode(record: Mapping[str, Any]) -> int | None:
    """Return the step of a trace or an episode of prime-rl, None where it does not say."""
    run = record.get("run")
    work = run.get("work") if isinstance(run, Mapping) else None
    told = (each.get("step") for each in (work, run) if isinstance(each, Mapping))
    return next((step for value in told if (step := read_step(value)) is not None), None)


def is_evaluation(record: Mapping[str, Any]) -> bool:
    """Return whether an episode of prime-rl was played to evaluate, and taught nothing."""
    run = record.get("run")
    work = run.get("work") if isinstance(run, Mapping) else None
    return any(isinstance(each, Mapping) and each.get("type") == "eval" for each in (run, work))


def _ended_by_length(calls: object) -> bool:
    last = calls[-1] if isinstance(calls, list) and calls else None
    return isinstance(last, Mapping) and bool(is_cut_off(last.get("finish_reason")))


def _first(record: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((value for name in names if (value := look_up(record, name)) is not None), None)


def _gold(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, default=str)


def _digest(value: object) -> str:
    if value is None:
        return ""
    said = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return said if len(said) <= 40 else hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
