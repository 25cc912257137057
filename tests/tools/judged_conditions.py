"""Results with what tools write beside them, made up for tests and attacks: one fact of their conditions
differs between two arms."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.tools.judged_files import Result, as_csv, as_inspect_json, as_jsonl, as_parquet

Facts = Mapping[str, Any]


def inspect(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
    """Write a log of inspect; facts by the place of the head that they stand in."""
    head: dict[str, Any] = {
        "eval": {
            "task": "sums",
            "task_version": 1,
            "created": "2026-01-02T10:00:00+00:00",
            "model": f"org/{path.stem}",
            "scorers": [{"name": facts.get("scorer", "match"), "options": facts.get("options", {})}],
            "dataset": {"name": facts.get("dataset", "sums"), "samples": facts.get("samples", 60)},
            "config": facts.get("config", {}),
            "model_roles": facts.get("roles", {}),
            "task_args": facts.get("args", {}),
            **facts.get("eval", {}),
        },
        "plan": {"steps": facts.get("steps", []), "config": facts.get("asked", {})},
        "stats": {"model_usage": {f"org/{path.stem}": {}, **facts.get("used", {})}},
    }
    written = as_inspect_json(path.with_suffix(".json"), rows, **head)
    log = json.loads(written.read_text(encoding="utf-8"))
    for sample in log["samples"]:
        sample["scores"] = {facts.get("scorer", "match"): next(iter(sample["scores"].values()))}
    written.write_text(json.dumps(log), encoding="utf-8")
    return written


def lm_eval(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
    """Write samples of lm-eval, and the results beside them unless facts leave them out."""
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    metric, sieve = facts.get("metric", "exact_match"), facts.get("filter", "strict-match")
    asked = {"until": ["\n"], "do_sample": False, **facts.get("asked", {})}
    told = [
        {
            "doc_id": row["item"],
            "doc": {"question": row["prompt"]},
            "target": row["target"],
            "arguments": {"gen_args_0": {"arg_0": row["prompt"], "arg_1": asked}},
            "resps": [[row["completion"]] * facts.get("repeats", 1)],
            "filtered_resps": [row["completion"]],
            "filter": sieve,
            "metrics": [metric],
            metric: row["score"],
        }
        for row in rows
        if row["draw"] == 0
    ]
    about = {
        "task": "sums",
        "dataset_path": "org/sums",
        "test_split": "test",
        "output_type": "generate_until",
        "filter_list": [{"name": sieve, "filter": [{"function": "take_first"}]}],
        "metric_list": [{"metric": metric, **facts.get("options", {})}],
        **facts.get("task", {}),
    }
    beside = {
        "model_name": f"org/{path.stem}",
        "configs": {"sums": about},
        "versions": {"sums": facts.get("version", 1.0)},
        "n-shot": {"sums": facts.get("shots", 0)},
        "n-samples": {"sums": {"original": facts.get("samples", 60), "effective": 60}},
        "config": {"fewshot_seed": 1234},
        "system_instruction": facts.get("system"),
        "chat_template_sha": facts.get("template"),
        "date": 1767225600.5,
    }
    if facts.get("beside", True):
        (folder / "results_2026.json").write_text(json.dumps(beside), encoding="utf-8")
    return as_jsonl(folder / "samples_sums_2026.jsonl", told)


def verifiers(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
    """Write results of verifiers and their metadata."""
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    named = {"example_id": "item", "prompt": "prompt", "completion": "completion", "answer": "target"}
    told = [{**{name: row[key] for name, key in named.items()}, "reward": row["score"]} for row in rows]
    about = {
        "env_id": "sums",
        "model": f"org/{path.stem}",
        "env_args": facts.get("args", {}),
        "sampling_args": {"n": 1, **facts.get("asked", {})},
        "version_info": {"env_version": facts.get("version", "1")},
    }
    (folder / "metadata.json").write_text(json.dumps(about), encoding="utf-8")
    return as_jsonl(folder / "results.jsonl", told)


def csv(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
    """Write a CSV with a column for each fact."""
    return as_csv(path.with_suffix(".csv"), [{**row, **facts} for row in rows])


def parquet(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
    """Write a table of Arrow with a column for each fact."""
    return as_parquet(path.with_suffix(".parquet"), [{**row, **facts} for row in rows])


def nested(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
    """Write JSONL with the facts inside a value of each row."""
    return as_jsonl(path.with_suffix(".jsonl"), [{**row, "metadata": {**facts}} for row in rows])


def whole(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
    """Write one JSON value that says the facts once, beside its list of results."""
    written = path.with_suffix(".json")
    written.write_text(json.dumps({"config": {**facts}, "results": [*rows]}), encoding="utf-8")
    return written


Write = Callable[[Path, Sequence[Result], Facts], Path]
GRADED = {"scorer": "model_graded_fact"}
# What differs, by form: what is said of it, the facts before, and those after.
MEASURED: list[tuple[Write, str, Facts, Facts]] = [
    (inspect, "scorer", {}, {"scorer": "includes"}),
    (inspect, "scorer options", {"options": {"location": "end"}}, {"options": {"location": "any"}}),
    (inspect, "grader", {**GRADED, "options": {"model": "a/one"}}, {**GRADED, "options": {"model": "a/two"}}),
    (inspect, "grader", {**GRADED, "roles": {"grader": {"model": "a/one"}}}, {**GRADED, "roles": {}}),
    (inspect, "grader", GRADED, GRADED),  # each model grades itself
    (inspect, "scorer options", GRADED, {**GRADED, "options": {"template": "Be kind."}}),
    (
        inspect,
        "other models used",
        {"scorer": "rubric", "used": {"a/judge": {}}},
        {"scorer": "rubric", "used": {"b/judge": {}}},
    ),
    (inspect, "task version", {}, {"eval": {"task_version": 2}}),
    (inspect, "dataset", {}, {"dataset": "sums-easy"}),
    (inspect, "task argument grader", {"args": {"judge_model": "a"}}, {"args": {"judge_model": "b"}}),
    (lm_eval, "filter", {}, {"filter": "flexible-extract"}),
    (lm_eval, "filter", {"beside": False}, {"beside": False, "filter": "flexible-extract"}),
    (lm_eval, "metric", {}, {"metric": "acc"}),
    (lm_eval, "scorer options", {}, {"options": {"ignore_case": True}}),
    (lm_eval, "task version", {}, {"version": 2.0}),
    (lm_eval, "dataset", {}, {"task": {"dataset_name": "easy"}}),
    (lm_eval, "dataset version", {}, {"task": {"dataset_kwargs": {"revision": "v2"}}}),
    (lm_eval, "split", {}, {"task": {"test_split": "train"}}),
    (lm_eval, "scorer", {}, {"task": {"output_type": "multiple_choice"}}),
    (lm_eval, "answers of one score", {"beside": False}, {"beside": False, "repeats": 8}),
    (verifiers, "task version", {}, {"version": "2"}),
    (
        verifiers,
        "environment argument grader",
        {"args": {"judge_model": "a"}},
        {"args": {"judge_model": "b"}},
    ),
    *(
        (write, what, {name: "one"}, {name: "two"})
        for write in (csv, nested, parquet, whole)
        for what, name in (
            ("metric", "metric"),
            ("filter", "filter"),
            ("scorer", "scorer_name"),
            ("grader", "judge_model"),
            ("task version", "Task Version"),
            ("dataset", "benchmark"),
            ("dataset version", "dataset_revision"),
            ("split", "split"),
            ("answers of one score", "best_of"),
            ("scorer options", "grader_prompt"),
        )
    ),
]
ASKED: list[tuple[Write, str, Facts, Facts]] = [
    (inspect, "temperature", {}, {"asked": {"temperature": 1.0}}),
    (inspect, "max_tokens", {"asked": {"max_tokens": 64}}, {"asked": {"max_tokens": 4096}}),
    (inspect, "system message", {}, {"steps": [{"solver": "system_message", "params": {"template": "Hi"}}]}),
    (inspect, "solver", {}, {"steps": [{"solver": "chain_of_thought", "params": {}}]}),
    (inspect, "task argument examples", {"args": {"fewshot": 0}}, {"args": {"fewshot": 5}}),
    (inspect, "message_limit", {}, {"config": {"message_limit": 9}}),
    (lm_eval, "examples", {}, {"shots": 5}),
    (lm_eval, "system message", {}, {"system": "Think."}),
    (lm_eval, "chat template", {}, {"template": "ab12"}),
    (lm_eval, "temperature", {"beside": False}, {"beside": False, "asked": {"temperature": 0.7}}),
    (lm_eval, "stop", {}, {"asked": {"until": ["Q:"]}}),
    (verifiers, "temperature", {"asked": {"temperature": 0.2}}, {"asked": {"temperature": 1}}),
    (verifiers, "environment argument examples", {}, {"args": {"num_fewshot": 4}}),
    *(
        (write, what, {name: 1}, {name: 2})
        for write in (csv, nested, parquet, whole)
        for what, name in (
            ("temperature", "temperature"),
            ("max_tokens", "max_new_tokens"),
            ("examples", "num_fewshot"),
        )
    ),
]
