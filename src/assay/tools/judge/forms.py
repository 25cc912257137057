"""What a row means in each form of JSONL, CSV and Parquet: a table, assay's episodes, lm-evaluation-harness,
verifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from assay.tools.judge.lines import Row, refuse
from assay.tools.judge.rows import NO_STRATA
from assay.tools.judge.sources import Form, Reading, number_of, text_of, truth_of, whole_of
from assay.tools.judge.written import texts_in

Reader = Callable[[str, Row, str | None], Reading]
ITEM, SCORE = ("item", "item_id", "id"), ("score", "reward")
LABELS = ("stratum", "task")
# What verifiers counts as cut off, beside a completion that ended by its length.
CUT = ("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed")


def form_of(row: Row, where: str) -> Form:
    """Return the form that a first row has.

    Raises:
        DataError: None that is read here.
    """
    keys = row.keys()
    if {"doc_id", "doc", "filtered_resps"} <= keys:
        return "lm-eval samples"
    if {"item_id", "cluster", "draw", "turns", "ending"} <= keys:
        return "assay episodes"
    if {"task", "traces", "env"} <= keys:
        return "verifiers traces"
    if {"prompt", "completion", "reward"} <= keys and ("example_id" in keys or "id" in keys):
        return "verifiers results"
    if _first(row, ITEM) and (_first(row, SCORE) or "success" in keys):
        return "table"
    found = f"the columns {', '.join(map(str, list(keys)[:12]))}"
    fix = "name the columns item and score (or success), or see docs/judge.md for the forms that are read"
    raise refuse("columns item and score, or the results of a tool that is known", found, where, fix)


def _first(row: Row, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in row), None)


def table_row(where: str, row: Row, metric: str | None) -> Reading:
    """Return a row of a table of one's own: item and score or success; the rest as far as it is there."""
    item = "item" if "item" in row else _first(row, ITEM)
    score = metric or ("score" if "score" in row else _first(row, SCORE))
    if item is None or row[item] is None:
        raise refuse("an item on every row", "none", where)
    if metric is not None and metric not in row:
        raise refuse(
            f"the column {metric}", f"{', '.join(row)}", where, "--metric with a column that is there"
        )
    success = truth_of(row.get("success"), where, "success")
    value = None if score is None else number_of(row.get(score), where)
    truncated = truth_of(row.get("truncated"), where, "truncated")
    tokens = whole_of(row.get("tokens"), where, "tokens")
    told = tokens is not None or truncated is not None or row.get("completion") is not None
    labels = {name: text_of(row[name]) for name in LABELS if name in row and row[name] not in (None, "")}
    prompt, target = text_of(row.get("prompt")), text_of(row.get("target"))
    return Reading(
        where,
        text_of(row[item]),
        float(success) if score is None and success is not None else value,
        success,
        whole_of(row.get("draw", row.get("epoch")), where, "draw"),
        None if row.get("cluster") is None else text_of(row["cluster"]),
        1 if told else None,
        tokens,
        None if truncated is None else int(truncated),
        strata=labels or NO_STRATA,
        content=f"{prompt}\0{target}" if prompt or target else "",
        prompt=prompt,
        completion=text_of(row.get("completion")),
        wrote=texts_in(row.get("completion")),
        model=None if row.get("model") is None else text_of(row["model"]),
    )


def episode_row(where: str, row: Row, metric: str | None) -> Reading:
    """Return an episode of assay: its success decides, its reward is the score."""
    turns = row["turns"]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise refuse("the turns of an episode", type(turns).__name__, where)
    success = truth_of(row.get("success"), where, "success")
    if success is None:
        raise refuse("whether the episode succeeded", "nothing", where)
    strata = row.get("strata") or {}
    if not isinstance(strata, dict):
        raise refuse("strata by label", type(strata).__name__, where)
    tokens = sum(whole_of(turn.get("n_tokens", 0), where, "n_tokens") or 0 for turn in turns)
    truncated = sum(bool(turn.get("truncated")) for turn in turns)
    # Of completions that `episodes grade` was brought nobody counted a token: no turn has one, nor a prompt.
    counted = tokens > 0 or any(turn.get("prompt_digest") for turn in turns)
    return Reading(
        where,
        text_of(row["item_id"]),
        number_of(row.get("reward"), where),
        success,
        whole_of(row["draw"], where, "draw"),
        text_of(row["cluster"]),
        len(turns),
        tokens if counted else None,
        truncated if counted or truncated else None,
        sum(turn.get("outcome") == "failed" for turn in turns),
        strata={str(label): str(value) for label, value in strata.items()},
        # The prompt's digest stands for the question: the first turn of an item is the same in every arm.
        prompt=text_of(turns[0].get("prompt_digest")) if turns else "",
        completion="\0".join(text_of(turn.get("completion")) for turn in turns),
        wrote=tuple(text_of(turn.get("completion")) for turn in turns),
        model=row.get("policy") if isinstance(row.get("policy"), str) else None,
    )


def lm_eval_row(where: str, row: Row, metric: str | None) -> Reading:
    """Return a line of lm-evaluation-harness' --log_samples."""
    names, kept = row.get("metrics") or [], row.get("filter", "none")
    wanted, _, sieve = (metric or "").partition(",")
    if not isinstance(names, list) or not names:
        raise refuse("the names of its metrics", repr(names), where)
    if not metric and len(names) > 1:
        fix = f"--metric with one of them, such as --metric {names[0]}"
        raise refuse("one metric", ", ".join(map(str, names)), where, fix)
    name = wanted or str(names[0])
    if name not in row:
        raise refuse(f"the metric {name}", f"{', '.join(map(str, names))}", where, f"--metric {names[0]}")
    value = row[name]
    if isinstance(value, list | dict):
        fix = "--metric with one that is a number for each document"
        raise refuse("a number for each document", f"{name}, which is put together later", where, fix)
    task = row.get("task_name")
    content = (
        row.get("doc_hash") or text_of(row.get("doc")),
        row.get("target_hash") or text_of(row.get("target")),
    )
    return Reading(
        where,
        text_of(row["doc_id"]),
        number_of(value, where, name),
        strata={"task": task} if isinstance(task, str) else NO_STRATA,
        content="\0".join(map(text_of, content)),
        prompt=text_of(row.get("prompt_hash") or row.get("arguments")),
        completion=text_of(row.get("resps")),
        wrote=texts_in(row.get("resps")),
        cluster=None,
        why="" if sieve in ("", kept) else "another filter",
        model=None,
    )


def verifiers_row(where: str, row: Row, metric: str | None) -> Reading:
    """Return a rollout of verifiers (vf-eval --save-results)."""
    if metric is not None and metric not in row:
        raise refuse(f"the metric {metric}", f"{', '.join(row)}", where, "--metric reward")
    said, prompt = row["completion"], text_of(row["prompt"])
    truncated = truth_of(row.get("is_truncated"), where, "is_truncated")
    tokens = row.get("token_usage")
    written = tokens.get("output_tokens") if isinstance(tokens, Mapping) else None
    error = row.get("error")
    if isinstance(error, Mapping):
        error = error.get("error_chain_str") or error.get("error")
    # A rollout that failed has the reward 0 there: nothing was measured, whatever the model would have said.
    value = None if error else row[metric or "reward"]
    return Reading(
        where,
        text_of(row.get("example_id", row.get("id"))),
        number_of(value, where, metric or "reward"),
        n_turns=1,
        tokens=whole_of(written, where, "output_tokens"),
        truncated=None if truncated is None else int(truncated),
        strata={"task": text_of(row["task"])} if row.get("task") not in (None, "", "default") else NO_STRATA,
        content=f"{prompt}\0{text_of(row.get('answer'))}",
        prompt=prompt,
        completion=text_of(said),
        wrote=texts_in(said),
        why=text_of(error)[:80],
    )


def trace_row(where: str, row: Row, metric: str | None) -> Reading:
    """Return a rollout of verifiers 0.4 (vf-eval writes traces.jsonl): that of the agent that trains."""
    traces = [each for each in row["traces"] if each.get("agent", {}).get("trainable", True)]
    if len(traces) > 1:
        found = ", ".join(str(each.get("agent", {}).get("name")) for each in traces[:4])
        raise refuse(
            "rollouts of one agent", f"those of {found}", where, "write the rows you mean as a table"
        )
    trace = traces[0] if traces else {}
    task, data = row["task"], row["task"]["data"]
    errors = (trace.get("errors") or row.get("errors") or [{}])[-1]
    measured = row.get("ok") is True and trace.get("ok") is True
    nodes, calls = trace.get("nodes") or [], trace.get("calls") or []
    opening = next((k for k, node in enumerate(nodes) if node.get("sampled")), len(nodes))
    ended = next((call.get("finish_reason") for call in reversed(calls) if not call.get("error")), None)
    config = trace.get("agent", {}).get("config", {})
    return Reading(
        where,
        text_of(task.get("key") or task.get("hash") or data),
        _reward_of(trace, metric, where) if measured else None,
        n_turns=sum(bool(node.get("sampled")) for node in nodes),
        tokens=whole_of(trace.get("num_output_tokens") or None, where, "num_output_tokens"),
        truncated=int(trace.get("stop_condition") in CUT or ended == "length"),
        content=text_of({name: value for name, value in data.items() if name != "idx"}),
        prompt=text_of([node["message"] for node in nodes[:opening]] or None),
        completion=text_of([node["message"].get("content") for node in nodes if node.get("sampled")]),
        wrote=texts_in([{**node["message"], "role": "assistant"} for node in nodes if node.get("sampled")]),
        model=text_of(config.get("model") or (calls[-1].get("model") if calls else None)) or None,
        why=": ".join(filter(None, map(text_of, (errors.get("type"), errors.get("message")))))[:80],
    )


def _reward_of(trace: Mapping[str, Any], metric: str | None, where: str) -> float | None:
    """Return the weighted sum of a trace's rewards, or the one reward or metric that was asked for."""
    rewards, metrics = trace["rewards"], trace.get("metrics") or {}
    if metric is None or (metric == "reward" and metric not in {**rewards, **metrics}):
        told = [
            (number_of(each["score"], where, name), number_of(each["weight"], where, name))
            for name, each in rewards.items()
            if each is not None
        ]
        parts = [score * weight for score, weight in told if score is not None and weight is not None]
        return sum(parts) if parts else None
    if metric in rewards:
        reward = rewards[metric]
        return None if reward is None else number_of(reward["score"], where, metric)
    if metric not in metrics:
        found = ", ".join((*rewards, *metrics)) or "none"
        raise refuse(f"the reward or metric {metric}", found, where, "--metric with one that is there")
    return number_of(metrics[metric], where, metric)


READERS: dict[Form, Reader] = {
    "table": table_row,
    "assay episodes": episode_row,
    "lm-eval samples": lm_eval_row,
    "verifiers results": verifiers_row,
    "verifiers traces": trace_row,
}
# Forms in which an item that stands there again is its next draw; elsewhere draws are numbered, or it is
# twice there.
REPEATS: frozenset[Form] = frozenset({"verifiers results", "verifiers traces"})


def readings(rows: Iterator[tuple[str, Row]], metric: str | None) -> tuple[Form | None, Iterator[Reading]]:
    """Return the form of rows, told by the first, and their results; None where there are no rows.

    Raises:
        DataError: A row is not what the first one promised.
    """
    first = next(rows, None)
    if first is None:
        return None, iter(())
    form = form_of(first[1], first[0])
    return form, _read(form, first, rows, metric)


def _read(
    form: Form, first: tuple[str, Row], rows: Iterator[tuple[str, Row]], metric: str | None
) -> Iterator[Reading]:
    reader = READERS[form]
    yield from _one(reader, form, *first, metric)
    one_filter = form == "lm-eval samples" and "," not in (metric or "")
    for where, row in rows:
        if one_filter and row.get("filter") != first[1].get("filter"):
            names = [str(each.get("filter")) for each in (first[1], row)]
            fix = f"--metric {metric or (first[1].get('metrics') or ['acc'])[0]},{names[0]}"
            raise refuse("the answers of one filter", " and ".join(names), where, fix)
        yield from _one(reader, form, where, row, metric)


def _one(reader: Reader, form: Form, where: str, row: Row, metric: str | None) -> Iterator[Reading]:
    try:
        found = reader(where, row, metric)
    except (KeyError, AttributeError, TypeError) as error:
        odd = f"one without {error.args[0]}" if isinstance(error, KeyError) else "one of another shape"
        raise refuse(f"a row of {form}, as the first one was", odd, where) from None
    if found.why != "another filter":
        yield found
