"""Ways to get a gain called for results that show none, and what `assay judge` says to each; and honest pairs
that it should say nothing to.

Each attack brings its files as its tool writes them, with a player to be beaten; the attacker edits no score.
verdict_attacks.py tries and records them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.attack import Attack, Said, said_of
from tests.tools.judged_conditions import (
    ASKED,
    MEASURED,
    Facts,
    Write,
    csv,
    inspect,
    lm_eval,
    nested,
    parquet,
    verifiers,
)
from tests.tools.judged_files import Result, as_csv, as_jsonl, results

from assay.core.errors import DataError
from assay.core.seeds import rng
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.judge.command import JudgeRequest, judge_arms, judge_files, read_arms
from assay.verdict.judge.planning import PlanRequest, run

# What only such attacks are answered by. That something is not known is said of most files, and that equal
# answers were now and then scored otherwise (scored_twice, score_beyond_text) of graders that are sampled.
CODES = frozenset(
    (
        *("measured_otherwise", "decoded_differently", "limit_decides", "answers_not_scored"),
        *("best_of_answers", "failed_in_one_arm", "some_items", "cut_off_in_one_arm"),
        *("one_model", "rival_no_result", "bounds_not_reached", "clusters_not_held", "no_score"),
        *("items_in_one_arm", "other_prompts", "arm_at_bound", "missing_worst", "missing_left_out"),
        *("graded_otherwise", "graded_by_itself", "same_results", "other_units", "one_answer"),
        *("target_in_prompt", "target_repeated", "target_counts_as_wrong", "other_questions"),
        *("items_ask_the_same", "items_share_passages", "cut_off_in_both", "failed_counts_as_right"),
        *("draws_picked", "draws_in_order", "scores_edited", "clusters_spelled_alike", "inspect_not_whole"),
    )
)
N = 120  # items
FULL = {
    "metric": "f1",
    "filter": "none",
    "scorer": "f1 of words",
    "scorer_options": "none",
    "grader_model": "none",
    "task_version": "1",
    "dataset": "sums",
    "dataset_revision": "a",
    "split": "test",
    "best_of": 1,
    "system_prompt": "Add.",
    "num_fewshot": 0,
    "chat_template": "none",
    "temperature": 0,
    "top_p": 1,
    "top_k": 1,
    "max_tokens": 64,
    "stop": "end",
}
Rows = list[Result]
Change = Callable[[int, Result], Mapping[str, Any]]


def rows_of(name: str, rate: float, change: Change | None = None, draws: int = 1) -> Rows:
    """Return an arm with about this rate, each row changed by its number."""
    rows = results(name, rate, items=N, draws=draws)
    return [{**row, **(change(k, row) if change else {})} for k, row in enumerate(rows)]


def judged(
    before: Rows,
    after: Rows,
    *,
    write: Write = csv,
    facts: tuple[Facts, Facts] = ({}, {}),
    rival: Rows | None = None,
    asked: Mapping[str, Any] | None = None,
    plan: PlanRequest | None = None,
) -> Said:
    """Return what is said of two arms, beside a player that is right in a tenth."""
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        paths = [
            write(folder / n, rows, f)
            for n, rows, f in zip(("before", "after"), (before, after), facts, strict=True)
        ]
        told = write(folder / "rival", rival or rows_of("rival", 0.1), facts[0])
        if plan is not None:
            run(replace(plan, pilot=paths[0], out=folder / "plan.yaml"))
            asked = {"plan": folder / "plan.yaml"}
        whole = {"rival": [f"always the same={told}"]} if plan is None else {}
        try:
            claim = judge_files(paths[0], paths[1], JudgeRequest(**{**whole, **(asked or {})}))[2].claim
        except DataError:
            return "REFUSED", []
        return said_of(claim)


def pair(
    change_before: Change | None = None, change_after: Change | None = None, **more: Any
) -> Callable[[], Said]:
    """Return the attack on an honest-looking pair, whose rows are changed."""
    return lambda: judged(rows_of("before", 0.3, change_before), rows_of("after", 0.7, change_after), **more)


def condition(write: Write, before: Facts, after: Facts) -> Callable[[], Said]:
    """Return the attack that changes one fact of how results were made."""
    return pair(write=write, facts=(before, after))


def _failed(share: float, **marks: Any) -> Change:
    """Mark the first share of the rows as failed, which count as wrong."""
    return lambda k, row: {**marks, "score": 0.0} if k < share * N else dict.fromkeys(marks)


def _says(column: str, value: object) -> Change:
    """Let a column hold one value in every row."""
    return lambda k, row: {column: value}


def _clusters(name: Callable[[int], str], prompt: bool = False, **more: Any) -> Callable[[], Said]:
    """Return a pair whose rows are in clusters of these names, which share a passage if `prompt`."""

    def change(k: int, row: Result) -> Mapping[str, Any]:
        told = {"prompt": f"{_passage(k // 4)} What is {k}?"} if prompt else {}
        return {"cluster": name(k), **told}

    return pair(change, change, rival=rows_of("rival", 0.1, change), **more)


def _empty(k: int, row: Result) -> Mapping[str, Any]:
    return {"completion": " ", "score": 0.0} if k < N // 10 else {}


def _status(won: bool, k: int) -> str:
    return "pass" if won else "fail"


def _half(k: int, row: Result) -> Mapping[str, Any]:
    return {"score": 0.7}


def _solved(k: int, row: Result) -> Mapping[str, Any]:
    return {"score": 1.0 if k % 5 < 3 else 0.0}


def _of_lm_eval(facts: Facts) -> Callable[[], Said]:
    return condition(lm_eval, {"samples": N, **facts}, {"samples": N, **facts})


def spellings() -> Said:
    """Judge the same data under twelve spellings of its ids; return the claim with the least p."""
    first, other = (rows_of(name, rate) for name, rate in (("spelled", 0.5), ("spelled after", 0.52)))
    claims: list[Claim] = []
    for k in range(12):
        with tempfile.TemporaryDirectory() as where:
            paths = []
            for name, rows in (("before", first), ("after", other)):
                named = [{**row, "item": f"{k}-{row['item']}"} for row in rows]
                paths.append(as_csv(Path(where) / f"{name}.csv", named))
            claims.append(
                judge_arms(
                    read_arms({"before": paths[0], "after": paths[1]}, JudgeRequest()), JudgeRequest()
                )[2].claim
            )
    assert len({each.p for each in claims}) == 1
    return said_of(min(claims, key=lambda claim: claim.p or 1.0))


def _evalplus(status: Callable[[bool, int], str], name: str = "plus_status") -> Write:
    def write(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
        told = [
            {
                "task_id": row["item"],
                "solution": row["completion"],
                facts.get("column", name): status(bool(row["score"]), k)
                if path.stem == "before"
                else "pass"
                if row["score"]
                else "fail",
            }
            for k, row in enumerate(rows)
        ]
        return as_jsonl(path.with_suffix(".jsonl"), told)

    return write


def _alike(k: int, row: Result) -> Mapping[str, Any]:
    """Let half of the items have one answer in every arm, which is right in a third."""
    return {"completion": f"it is {k}", "score": float(k % 3 == 0)} if k % 2 else {}


def _rescored(share: float, score: Callable[[int], float] = lambda k: 1.0) -> Change:
    """Score a share of the answers that are alike anew."""
    return lambda k, row: {**_alike(k, row), **({"score": score(k)} if k % 2 and k < share * N else {})}


def _sampled(name: str, kinder: float) -> Rows:
    """Return four draws that are graded by tosses: each twelfth score is another, or one of a share more."""
    rows = rows_of(name, 0.45, _alike, draws=4)
    for k, row in enumerate(rows):
        luck = rng("grader", name, k).random()
        row["score"] = 1.0 if luck > 1 - kinder else 1.0 - row["score"] if luck < 1 / 12 else row["score"]
    return rows


def _changed(make: Callable[[int], Mapping[str, Any]]) -> dict[str, Any]:
    """Return the same texts for every arm, as arguments of `pair`."""

    def change(k: int, row: Result) -> Mapping[str, Any]:
        return make(k)

    return {"change_before": change, "change_after": change, "rival": rows_of("rival", 0.1, change)}


def _passage(k: int) -> str:
    return " ".join(f"w{k}x{n}" for n in range(60))


def _drawn_examples(k: int) -> str:
    """Return a prompt behind five worked examples of thirty, as few-shot prompts have them."""
    luck = rng("examples", k).choice(30, 5, replace=False).tolist()
    return "\n".join([*(f"{_passage(100 + n)} A: {n}" for n in luck), f"What is {k}?"])


def _reference(k: int) -> str:
    return " ".join(f"step {k} of {n}" for n in range(5))


def _repeats(k: int, row: Result) -> Mapping[str, Any]:
    said = f"So: {_reference(k)}." if row["score"] else "no"
    return {"target": _reference(k), "completion": said}


def _own_words(k: int, row: Result) -> Mapping[str, Any]:
    return {"target": _reference(k), "completion": f"{row['completion']} in words of its own"}


def _word_for_word(k: int, row: Result) -> Mapping[str, Any]:
    return {"target": _reference(k), **({"completion": _reference(k)} if row["score"] else {})}


def _shows_target(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
    """Write a log of inspect whose messages after hold what is right."""
    written = inspect(path, [{**row, "target": f"value {row['target']}"} for row in rows], facts)
    log = json.loads(written.read_text(encoding="utf-8"))
    for sample in log["samples"] if path.stem == "after" else ():
        sample["messages"][0]["content"] += f" ({sample['target']})"
    written.write_text(json.dumps(log), encoding="utf-8")
    return written


def _best(n: int, kept: int, *, anew: bool = False) -> Rows:
    """Return the best of n draws of each item, with the numbers that they had, or numbered anew."""
    drawn: dict[str, Rows] = {}
    for row in rows_of("after", 0.35, draws=n):
        drawn.setdefault(row["item"], []).append(row)
    found = [sorted(rows, key=lambda row: -row["score"])[:kept] for rows in drawn.values()]
    return [{**row, "draw": k if anew else row["draw"]} for rows in found for k, row in enumerate(rows)]


def _hashed(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
    """Write samples of lm-eval with digests of their prompts, which hold what is right after."""
    written = lm_eval(path, [{**row, "target": f"value {row['target']}"} for row in rows], facts)
    told = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    for row in told:
        given = row["arguments"]["gen_args_0"]
        given["arg_0"] += f" ({row['target']})" if path.stem == "after" else ""
        row["prompt_hash"] = f"{hash(given['arg_0']):x}"
    return as_jsonl(written, told)


def _changed_log(change: Callable[[dict[str, Any]], None]) -> Write:
    """Write a log of inspect, that of after with a change."""

    def write(path: Path, rows: Sequence[Result], facts: Facts) -> Path:
        written = inspect(path, rows, facts)
        log = json.loads(written.read_text(encoding="utf-8"))
        if path.stem == "after":
            change(log)
        written.write_text(json.dumps(log), encoding="utf-8")
        return written

    return write


def _edit(log: dict[str, Any]) -> None:
    for sample in log["samples"][::3]:
        for score in sample["scores"].values():
            history = [{"value": score["value"]}, {"value": "C", "provenance": {"author": "me"}}]
            score |= {"value": "C", "history": history}


_edited, _taken_back = _changed_log(_edit), _changed_log(lambda log: log.update(invalidated=True))
_KINDS: dict[str, tuple[Callable[[], Said], set[str]]] = {
    "the best of eight draws as one row": (
        pair(None, lambda k, row: {"best_of": 8}), {"best_of_answers"}
    ),
    "all eight answers in a cell, scored once": (
        pair(None, lambda k, row: {"completion": ["a", "b", "c", "d"]}, write=nested), {"answers_not_scored"}
    ),
    "pass@8 for a metric": (
        pair(lambda k, row: {"metric": "pass@1"}, lambda k, row: {"metric": "pass@8"}), {"measured_otherwise"}
    ),
    "pass@8 in both": (condition(csv, {"metric": "pass@8"}, {"metric": "pass@8"}), {"best_of_answers"}),
    "a vote of sixteen by its filter's name": (
        condition(lm_eval, {"beside": False}, {"beside": False, "filter": "maj@16"}), {"measured_otherwise"}
    ),
    "sixteen draws put together in both": (
        condition(lm_eval, {"beside": False, "repeats": 16}, {"beside": False, "repeats": 16}),
        {"answers_not_scored"},
    ),
    "num_return_sequences in the settings of a row": (
        condition(nested, {"num_return_sequences": 1}, {"num_return_sequences": 8}), {"measured_otherwise"}
    ),
    "num_choices of inspect": (
        condition(inspect, {}, {"asked": {"num_choices": 8}}), {"measured_otherwise"}
    ),
    "time-outs of the base count as wrong": (
        pair(_failed(0.1, timed_out="true")), {"failed_in_one_arm"}
    ),
    "errors of the base count as wrong": (
        pair(_failed(0.1, error="HTTP 503")), {"failed_in_one_arm"}
    ),
    "a status of the base's rows says error": (pair(_failed(0.05, status="error")), {"failed_in_one_arm"}),
    "an error that speaks of a time-out": (
        pair(_failed(0.05, exception="ReadTimeout: read timed out")), {"failed_in_one_arm"}
    ),
    "empty completions of the base": (
        pair(_empty, write=nested), {"failed_in_one_arm"}
    ),
    "empty completions after, for a loss": (
        lambda: judged(rows_of("before", 0.5), rows_of("after", 0.8, _empty), write=nested),
        {"failed_in_one_arm"},
    ),
    "solutions of the base that were not let end": (
        lambda: judged(
            rows_of("before", 0.3),
            rows_of("after", 0.7),
            write=_evalplus(lambda won, k: "pass" if won else "timeout"),
            rival=rows_of("rival", 0.1),
        ),
        {"failed_in_one_arm"},
    ),
    "other tests of evalplus": (
        pair(write=_evalplus(_status), facts=({}, {"column": "base_status"})),
        {"measured_otherwise"},
    ),
    "items where the base failed": (pair(lambda k, row: {"score": 0.0}), {"arm_at_bound"}),
    "after is right in all": (pair(None, lambda k, row: {"score": 1.0}), {"arm_at_bound"}),
    "--limit of lm-eval": (_of_lm_eval({"samples": 1319}), {"some_items"}),
    "a part of the samples of inspect": (
        condition(inspect, {"samples": 1000}, {"samples": 1000}), {"some_items"}
    ),
    "items dropped after": (
        lambda: judged(rows_of("before", 0.3), rows_of("after", 0.7)[10:]), {"items_in_one_arm"}
    ),
    "scores of the failed left out": (
        pair(None, lambda k, row: {"score": "" if k < 9 else row["score"]}), {"no_score"}
    ),
    "nothing is wholly right any more": (pair(_solved, _half), {"worse_beside"}),
    "a rival of zeros": (
        pair(rival=rows_of("zero", 0.0)),
        {"rival_no_result"},
    ),
    "a rival with one score": (
        pair(rival=rows_of("flat", 0.0, lambda k, row: {"score": 0.25})),
        {"rival_no_result"},
    ),
    "a rival that wrote nothing": (
        pair(rival=rows_of("mute", 0.1, lambda k, row: {"completion": None})),
        {"rival_no_result"},
    ),
    "a twentieth of the base cut off": (
        pair(
            lambda k, row: {"truncated": k < 6, "score": 0.0 if k < 6 else row["score"]},
            lambda k, row: {"truncated": False},
        ),
        {"cut_off_in_one_arm"},
    ),
    "a third of the base cut off": (
        pair(
            lambda k, row: {"finish_reason": "length" if k < 40 else "stop"},
            lambda k, row: {"finish_reason": "stop"},
        ),
        {"cut_off_in_one_arm"},
    ),
    "the base cut off at a lower limit": (
        pair(
            lambda k, row: {"truncated": k < 6, "max_new_tokens": 64},
            lambda k, row: {"truncated": False, "max_new_tokens": 4096},
        ),
        {"limit_decides"},
    ),
    "one model in both files": (
        pair(lambda k, row: {"model": "org/base"}, lambda k, row: {"model": "org/base"}), {"one_model"}
    ),
    "one model of inspect in both": (
        condition(inspect, {"eval": {"model": "org/x"}}, {"eval": {"model": "org/x"}}), {"one_model"}
    ),
    "a plan made of the results": (
        pair(write=inspect, plan=PlanRequest(made="2026-02-01")), {"not_as_planned"}
    ),
    "ids in twelve spellings": (spellings, {"not_shown"}),
    "bounds of 0 to 100 for shares": (pair(asked={"bounds": "0,100"}), {"bounds_not_reached"}),
    "a cluster for every item": (_clusters(lambda k: f"c{k}"), {"clusters_not_held"}),
    "clusters of some rows": (
        _clusters(lambda k: f"c{k // 30}" if k < 60 else ""), {"clusters_not_held"}
    ),
    "three tasks gain and hide that one is lost": (
        pair(
            lambda k, row: {"task": f"t{k % 4}", "score": float(k % 4 == 0 or row["score"])},
            lambda k, row: {"task": f"t{k % 4}", "score": float(k % 4 != 0)},
            rival=rows_of("rival", 0.1, lambda k, row: {"task": f"t{k % 4}"}),
        ),
        {"worse_on_suite"},
    ),
    "another extraction after, seen in equal answers": (
        pair(_alike, _rescored(0.5)), {"graded_otherwise"}
    ),
    "a stricter grader before, seen in equal answers": (
        pair(_rescored(0.6, lambda k: 0.0), _alike), {"graded_otherwise"}
    ),
    "half points for equal answers": (
        pair(_rescored(1.0, lambda k: 0.2), _rescored(1.0, lambda k: 0.7)), {"graded_otherwise"}
    ),
    "a few equal answers scored otherwise": (pair(_alike, _rescored(0.05)), {"scored_twice"}),
    "a sampled grader that is kinder after": (
        lambda: judged(_sampled("tossed", 0.0), _sampled("tossed kindly", 0.4)), {"graded_otherwise"}
    ),
    "empty answers are right after": (
        pair(
            lambda k, row: {"completion": " ", "score": 0.0} if k < 20 else {},
            lambda k, row: {"completion": " ", "score": 1.0} if k < 20 else {},
            write=nested,
        ),
        {"graded_otherwise"},
    ),
    "a baseline that was graded otherwise": (
        pair(_alike, _alike, rival=rows_of("rival", 0.1, _rescored(0.6, lambda k: 0.0))), {"graded_otherwise"}
    ),
    "the messages after hold the target": (pair(write=_shows_target), {"target_in_prompt"}),
    "reference answers learned by heart": (
        pair(_own_words, _repeats, rival=rows_of("rival", 0.1, _own_words)), {"target_repeated"}
    ),
    "the target itself counts as wrong before": (
        pair(lambda k, row: {"completion": row["target"], "score": 0.0} if k % 5 == 0 else {}),
        {"target_counts_as_wrong"},
    ),
    "other targets after": (
        pair(lambda k, row: {"target": f"{k}"}, lambda k, row: {"target": f"{k + (k % 4 == 0)}"}),
        {"other_questions"},
    ),
    "ten passages of twelve questions each": (
        pair(**_changed(lambda k: {"prompt": f"{_passage(k // 12)} What is {k}?"})), {"items_share_passages"}
    ),
    "one question in six spellings": (
        pair(
            **_changed(
                lambda k: {
                    "prompt": ("{}?", "{} ?", " {}", "{}.", "{}!", "  {}  ")[k % 6].format(
                        f"What is the root of {k // 6}"
                    ).replace("What", "WHAT" if k % 2 else "What"),
                    "target": f"{k // 6}",
                }
            )
        ),
        {"items_ask_the_same"},
    ),
    "graded by the model itself": (
        pair(
            lambda k, row: {"model": "org/base", "judge_model": "hub/org/Tuned"},
            lambda k, row: {"model": "org/tuned", "judge_model": "hub/org/Tuned"},
        ),
        {"graded_by_itself"},
    ),
    "shares before, per cent after": (
        pair(
            lambda k, row: {"score": 0.6 * row["score"]},
            lambda k, row: {"score": 60 * row["score"]},
            rival=rows_of("rival", 0.1, lambda k, row: {"score": 60 * row["score"]}),
            asked={"bounds": "0,100"},
        ),
        {"other_units"},
    ),
    "one answer to all after": (pair(None, lambda k, row: {"completion": "B"}), {"one_answer"}),
    "the score of one file is what the other calls success": (
        lambda: judged(
            rows_of("before", 0.7, lambda k, row: {"success": row["score"] == 1 and k % 2 == 0}),
            rows_of("after", 0.7, lambda k, row: {"score": 0.9 * row["score"]}),
        ),
        {"not_shown"},
    ),
    "what succeeded before, parts of the score after": (
        lambda: judged(
            [{**row, "success": row.pop("score")} for row in rows_of("before", 0.3)],
            rows_of("after", 0.3, lambda k, row: {"score": 0.5 + 0.5 * row["score"]}),
        ),
        {"measured_otherwise"},
    ),
    **{
        f"of the base {column} says {said}": (
            pair(_failed(0.1, **{column: said}), _says(column, fine)), {"failed_in_one_arm"}
        )
        for column, said, fine in (
            ("error_type", "RateLimitError", ""), ("status", "server_error", "completed"),
            ("state", "killed", "done"), ("status_code", 500, 200), ("exit_code", 124, 0),
            ("api_exception", "ConnectionReset", ""), ("run_status", "not started", "finished"),
        )
    },
    "errors of the base with a tenth of a point": (
        pair(lambda k, row: {"error": "HTTP 503", "score": 0.1} if k < 12 else {"error": ""}),
        {"failed_in_one_arm"},
    ),
    "errors after count as right": (
        pair(None, lambda k, row: {"error": "HTTP 503", "score": 1.0} if k < 40 else {"error": ""}),
        {"failed_counts_as_right"},
    ),
    "empty answers after are right, and the base gives none": (
        pair(None, lambda k, row: {"completion": "", "score": 1.0} if k < 40 else {}, write=nested),
        {"failed_counts_as_right"},
    ),
    **{
        f"the base ends by {said}": (
            pair(_failed(0.3, finish_reason=said), _says("finish_reason", "stop")),
            {"cut_off_in_one_arm"},
        )
        for said in ("max_length", "token limit", "truncated")
    },
    "the best of four draws put first, --draws 1": (
        lambda: judged(rows_of("before", 0.4, draws=4), _best(4, 4, anew=True), asked={"draws": 1},
                       rival=rows_of("rival", 0.1, draws=4)),
        {"draws_in_order"},
    ),
    "the best two of eight draws": (
        lambda: judged(rows_of("before", 0.35, draws=2), _best(8, 2), rival=rows_of("rival", 0.1, draws=2)),
        {"draws_picked"},
    ),
    "the best of eight draws by its number": (
        lambda: judged(rows_of("before", 0.35), _best(8, 1)), {"draws_picked"}
    ),
    "tried until it is right": (
        lambda: judged(
            rows_of("before", 0.35, lambda k, row: {"attempts": 1}),
            [{**row, "draw": 0, "attempts": row["draw"] + 1} for row in _best(8, 1)],
        ),
        {"answers_not_scored"},
    ),
    **{
        f"another {column} after": (
            pair(_says(column, "v1"), _says(column, "v2")), {"measured_otherwise"}
        )
        for column in (
            *("graded_by", "judge_version", "llm_judge", "reward_model", "verifier", "rubric_version"),
            *("answer_extraction", "scorer_threshold", "pass_threshold", "grading_rubric"),
        )
    },
    "another model in the verdict of each row": (
        pair(
            lambda k, row: {"judge": {"model": "a/strict", "why": f"{k}"}},
            lambda k, row: {"judge": {"model": "b/kind", "why": f"{k}"}},
            write=nested,
        ),
        {"measured_otherwise"},
    ),
    "marks of 0 to 5, shares of them before": (
        lambda: judged(
            rows_of("before", 0.5, lambda k, row: {"score": k % 6 / 5}),
            rows_of("after", 0.5, lambda k, row: {"score": float((k + 1) % 6)}),
            rival=rows_of("rival", 0.1, lambda k, row: {"score": k % 2 / 5}),
            asked={"bounds": "0,5"},
        ),
        {"other_units"},
    ),
    "five clusters in many spellings": (
        _clusters(lambda k: (f"t{k // 24}", f"T{k // 24}", f" t{k // 24}\u00a0", f"\uff54{k // 24}")[k % 4]),
        {"clusters_spelled_alike"},
    ),
    "a rival of zeros but one": (
        pair(rival=rows_of("zero", 0.0, lambda k, row: {"score": float(k == 3)})), {"rival_no_result"}
    ),
    "targets in prompts of which the file gives a digest": (pair(write=_hashed), {"target_in_prompt"}),
    "short targets in the prompts after": (
        pair(
            lambda k, row: {"target": f"{k % 90 + 10}", "prompt": f"Add {1000 + k}."},
            lambda k, row: {"target": f"{k % 90 + 10}", "prompt": f"Add {1000 + k}. ({k % 90 + 10})"},
        ),
        {"target_in_prompt"},
    ),
    "scores of a log that were edited": (
        pair(write=_edited, facts=({"samples": N}, {"samples": N})), {"scores_edited"}
    ),
    "a log that whoever ran it took back": (
        pair(write=_taken_back, facts=({"samples": N}, {"samples": N})), {"inspect_not_whole"}
    ),
    **{
        f"the more {name}, the better": (
            lambda name=name: judged(  # type: ignore[misc]
                *(
                    [{**row, name: row["score"]} for row in rows_of(arm, rate)]
                    for arm, rate in (("before", 0.3), ("after", 0.7))
                ),
                rival=[{**row, name: row["score"]} for row in rows_of("rival", 0.1)],
                asked={"metric": name},
            ),
            set(),
        )
        for name in ("failed", "errors", "mistakes", "toxicity")
    },
    "the base as its own baseline": (
        lambda: judged(
            rows_of("before", 0.3), rows_of("after", 0.7),
            rival=[{**row, "completion": None} for row in rows_of("before", 0.3)],
        ),
        set(),
    ),
    "nothing is known of either": (pair(), {"not_known_alike"}),
    "a grader that one file names": (condition(csv, {}, {"judge_model": "a/b"}), {"not_known_alike"}),
}  # fmt: skip


KINDS = [Attack("judge", name, make, frozenset(own)) for name, (make, own) in _KINDS.items()]


def attacks() -> list[Attack]:
    """Return every attack on a judgement of foreign results, those on its conditions among them."""
    found = [*KINDS]
    for title, cases, code in (
        ("measured otherwise", MEASURED, "measured_otherwise"),
        ("asked otherwise", ASKED, "decoded_differently"),
    ):
        for write, what, before, after in cases:
            name = f"{title}: {what} ({write.__name__})"
            k = sum(each.name.startswith(name) for each in found)
            name = f"{name} {k + 1}" if k else name
            found.append(Attack("judge", name, condition(write, before, after), frozenset({code})))
    return found


def _score(k: int, row: Result) -> Mapping[str, Any]:
    luck = rng("honest", row["completion"]).random()
    return {"score": round(0.5 * row["score"] + 0.4 * luck, 3)}


def _seeded(name: str, rate: float) -> Rows:
    """Return two draws an item, which are called by their seeds."""
    rows = rows_of(name, rate, draws=2)
    return [{**row, "draw": int(rng("seed", name, k).integers(1 << 31))} for k, row in enumerate(rows)]


def _same(write: Write, facts: Facts) -> Callable[[], Said]:
    return condition(write, facts, facts)


HONEST: dict[str, Callable[[], Said]] = {
    "a table": _same(csv, FULL),
    "a table of Arrow": _same(parquet, FULL),
    "settings inside each row": _same(nested, FULL),
    "scores between 0 and 1": pair(_score, _score, facts=(FULL, FULL)),
    "four draws of each": lambda: judged(
        rows_of("before", 0.3, draws=4), rows_of("after", 0.6, draws=4), facts=(FULL, FULL)
    ),
    "clusters of four": _clusters(lambda k: f"c{k // 4}", facts=(FULL, FULL)),
    "two models by name": pair(
        lambda k, row: {"model": "org/base"}, lambda k, row: {"model": "org/tuned"}, facts=(FULL, FULL)
    ),
    "as many errors in both": pair(
        *(lambda k, row: {"error": "HTTP 503", "score": 0.0} if k % 30 == 0 else {"error": ""},) * 2,
        facts=(FULL, FULL),
    ),
    "as many cut off in both": pair(*(lambda k, row: {"truncated": k % 20 == 0},) * 2, facts=(FULL, FULL)),
    "lm-eval": _of_lm_eval({}),
    "lm-eval with five examples and a template": _of_lm_eval(
        {"shots": 5, "template": "ab", "system": "Add."}
    ),
    "lm-eval without its results": _of_lm_eval({"beside": False}),
    "inspect": _same(inspect, {"samples": N}),
    "inspect with one grader": _same(
        inspect, {"samples": N, "scorer": "model_graded_fact", "options": {"model": "a/judge"}}
    ),
    "inspect with another seed": condition(
        inspect, {"samples": N, "asked": {"seed": 1}}, {"samples": N, "asked": {"seed": 2}}
    ),
    "verifiers": _same(verifiers, {"asked": {"temperature": 0.7}}),
    "evalplus": pair(write=_evalplus(_status)),
    "equal answers with equal scores": pair(_alike, _alike, facts=(FULL, FULL)),
    "a grader that is sampled": lambda: judged(
        _sampled("tossed", 0.0),
        [*_sampled("tossed again", 0.0)[: 2 * N], *rows_of("after", 1.0, draws=4)[2 * N :]],
        facts=(FULL | {"grader_model": "a/judge"},) * 2,
    ),
    "one last message of four draws": lambda: judged(
        *(
            rows_of(name, rate, lambda k, row: {"completion": "Done."}, draws=4)
            for name, rate in (("before", 0.3), ("after", 0.6))
        ),
        facts=(FULL, FULL),
    ),
    "42 and 42.0, with and without a last newline": pair(
        lambda k, row: {"target": f"{k}", "prompt": f"{row['prompt']}\n"},
        lambda k, row: {"target": f"{k}.0", "prompt": f" {row['prompt']}"},
        facts=(FULL, FULL),
    ),
    "targets in one file alone": pair(lambda k, row: {"target": ""}, facts=(FULL, FULL)),
    "examples drawn for each prompt": pair(
        **_changed(lambda k: {"prompt": _drawn_examples(k)}), facts=(FULL, FULL)
    ),
    "one long instruction before each prompt": pair(
        **_changed(lambda k: {"prompt": f"{_passage(0)} What is {k}?"}), facts=(FULL, FULL)
    ),
    "passages with their clusters": _clusters(lambda k: f"p{k // 4}", prompt=True, facts=(FULL, FULL)),
    "long answers that have to be right word for word": pair(
        _word_for_word, _word_for_word, rival=rows_of("rival", 0.1, _word_for_word), facts=(FULL, FULL)
    ),
    "marks of whole points from 0 to 5": pair(
        lambda k, row: {"score": 2 * row["score"] + k % 3},
        lambda k, row: {"score": 3 * row["score"] + k % 3},
        rival=rows_of("rival", 0.1, lambda k, row: {"score": k % 3}),
        asked={"bounds": "0,5"},
        facts=(FULL, FULL),
    ),
    "seeds for numbers of draws": lambda: judged(
        *(_seeded(name, rate) for name, rate in (("before", 0.3), ("after", 0.6))),
        rival=_seeded("rival", 0.1),
        facts=(FULL, FULL),
    ),
    "draws numbered through the file": lambda: judged(
        *(
            [{**row, "draw": k} for k, row in enumerate(rows_of(name, rate, draws=2))]
            for name, rate in (("before", 0.3), ("after", 0.7))
        ),
        rival=rows_of("rival", 0.1, draws=2),
        facts=(FULL, FULL),
    ),
    "the first two of four draws": lambda: judged(
        *(rows_of(name, rate, draws=4) for name, rate in (("before", 0.3), ("after", 0.7))),
        rival=rows_of("rival", 0.1, draws=4),
        asked={"draws": 2},
        facts=(FULL, FULL),
    ),
    "tests that fail with exit code 1": pair(
        *(lambda k, row: {"exit_code": int(row["score"] == 0), "status": "syntax_error"},) * 2,
        facts=(FULL, FULL),
    ),
    "as many stopped in both": pair(
        *(lambda k, row: {"exit_code": 137 if k % 24 == 0 else 0},) * 2, facts=(FULL, FULL)
    ),
    "one judge, with its reasons in each row": pair(
        **_changed(lambda k: {"judge": {"model": "a/judge", "why": f"as in {k}"}}),
        write=nested,
        facts=({**FULL, "grader_model": ""},) * 2,
    ),
    "True of a table, true of JSON": pair(
        _says("case_sensitive", "True"),
        _says("case_sensitive", True),
        rival=rows_of("rival", 0.1, _says("case_sensitive", "True")),
        write=nested,
        facts=(FULL, FULL),
    ),
    "clusters 1 before and 1.0 after": lambda: judged(
        rows_of("before", 0.3, lambda k, row: {"cluster": k // 4}),
        rows_of("after", 0.7, lambda k, row: {"cluster": float(k // 4)}),
        rival=rows_of("rival", 0.1, lambda k, row: {"cluster": k // 4}),
        facts=(FULL, FULL),
    ),
    "success and a partial score in every file": pair(
        *(lambda k, row: {"success": row["score"] == 1, "score": 0.3 + 0.6 * row["score"]},) * 2,
        rival=rows_of("rival", 0.1, lambda k, row: {"success": row["score"] == 1}),
        facts=(FULL, FULL),
    ),
    "stars from 1 to 5, and a prompt that says so": pair(
        **_changed(lambda k: {"prompt": f"Rate review {k} from 1 to 5.", "target": f"{k % 5 + 1}"}),
        facts=(FULL, FULL),
    ),
    "a weak rival": pair(rival=rows_of("weak", 0.04), facts=(FULL, FULL)),
    "ratings from 0 to 10": pair(
        lambda k, row: {"score": 2 * row["score"] + k % 5},
        lambda k, row: {"score": 5 * row["score"] + k % 5},
        rival=rows_of("rival", 0.1, lambda k, row: {"score": k % 3}),
        asked={"bounds": "0,10"},
        facts=(FULL, FULL),
    ),
}


def honest_rows() -> list[dict[str, Any]]:
    """Judge every honest pair; return and print what is said of it by the codes of attacks."""
    rows = []
    for name, make in HONEST.items():
        verdict, remarks = make()
        told = [each.code for each in remarks if each.code in CODES]
        print(f"{'! ' if told else '  '}honest: {name}: {verdict}", *told)
        rows.append(
            {
                "name": name,
                "verdict": verdict,
                "codes": [*dict.fromkeys(each.code for each in remarks)],
                "said": told,
            }
        )
    return rows
