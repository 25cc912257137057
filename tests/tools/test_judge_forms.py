"""Results as people have them are judged, or the message about them names the option that leads on: each fix
that is printed is tried, until the results are read."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from assay.cli.judging import keep_columns
from assay.cli.tools.grade.completions import numbered
from assay.core.errors import AssayError, ConfigError, DataError
from assay.core.seeds import rng
from assay.core.storage.json import write_jsonl
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.judge import command
from assay.verdict.judge.command import JudgeRequest
from assay.verdict.judge.forms import Asked, table_row
from assay.verdict.judge.plan import read_plan
from assay.verdict.judge.planning import PlanRequest, run
from assay.verdict.judge.rows import JudgedRow, identical_draws
from assay.verdict.judge.sources import Reading
from tests.evidence.synthetic_episodes import arm
from tests.tools.judged_files import as_csv, as_inspect_eval, as_inspect_json, as_jsonl, as_parquet, results

N = 16  # items
RIGHT = {"before": 4, "after": 12}  # of these


def _won(name: str, k: int) -> bool:
    return k < RIGHT[name]


def _table(arm: str, **columns: Callable[[int, bool], object]) -> list[dict[str, Any]]:
    return [{name: make(k, _won(arm, k)) for name, make in columns.items()} for k in range(N)]


def _csv_text(path: Path, head: str, make: Callable[[int, bool], str]) -> Path:
    lines = [head, *(make(k, _won(path.stem, k)) for k in range(N))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _json(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def _evalplus(path: Path) -> Path:
    tasks = {
        f"Set/{k}": [
            {"task_id": f"Set/{k}", "solution": "x", "base_status": status, "plus_status": "fail"}
            for status in (["pass"] if _won(path.stem, k) else ["timeout"])
        ]
        for k in range(N)
    }
    path.write_text(json.dumps({"date": "today", "hash": "0", "eval": tasks}), encoding="utf-8")
    return path


def _promptfoo(path: Path) -> Path:
    rows = [
        {
            "testIdx": k,
            "promptIdx": 0,
            "success": won,
            "score": float(won),
            "response": {"output": f"say {k}"},
        }
        for k, won in ((k, _won(path.stem, k)) for k in range(N))
    ]
    value = {"evalId": "e", "results": {"version": 3, "prompts": [{"raw": "p"}], "results": rows}}
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def _lighteval(path: Path) -> Path:
    rows = [
        {
            "doc": {"query": f"{k}?", "id": str(k), "task_name": "sums|0", "choices": [str(k)]},
            "metric": {"extractive_match": float(_won(path.stem, k)), "pass_k": 1.0},
            "model_response": {"text": ["a", "b"], "output_tokens": [[1, 2], [3]]},
        }
        for k in range(N)
    ]
    return as_parquet(path, rows)


def _samples(path: Path, sieve: str = "none", **metrics: Callable[[bool], object]) -> Path:
    rows = [
        {"doc_id": k, "doc": {"q": k}, "target": "t", "resps": [["a", "b", "c"]], "filtered_resps": ["a"],
         "filter": sieve, "metrics": list(metrics), **{name: of(_won(path.parent.name, k)) for name, of in
                                                      metrics.items()}}
        for k in range(N)
    ]  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    return as_jsonl(path, rows)


def _own(path: Path) -> Path:
    rows = [
        {"problem_id": f"p{k}", "candidate_index": d, "completion_text": f"{k} {d}",
         "canonical_correct": _won(path.stem, k), "scalar_reward": 0.2 + _won(path.stem, k)}
        for k in range(N) for d in range(2)
    ]  # fmt: skip
    return as_jsonl(path, rows)


def _lists(path: Path) -> Path:
    rows = [{"id": k, "acc": _won(path.stem, k)} for k in range(N)]
    path.write_text(json.dumps({"args": [{"a": 1}], "samples": rows}), encoding="utf-8")
    return path


# What somebody has, as file names and who writes them. "!" marks those that take a fix or more.
FILES: Mapping[str, tuple[str, Callable[[Path], Path]]] = {
    "evalplus lines": (
        "jsonl",
        lambda path: as_jsonl(path, [
            {"task_id": f"Set/{k}", "solution": f"v{d}", "passed": _won(path.stem, k)}
            for k in range(N) for d in range(2)
        ]),
    ),
    "evalplus summary !": ("json", _evalplus),
    "promptfoo": ("json", _promptfoo),
    "lighteval !": ("parquet", _lighteval),
    "own script !": ("jsonl", _own),
    "em and f1 !": ("csv", lambda path: _csv_text(path, "item,em,f1", lambda k, won: f"{k},{won:d},{won:d}")),
    "semicolons": ("csv", lambda path: _csv_text(path, "Item ID;Score", lambda k, won: f"{k};{won:d},0")),
    "a head for spreadsheets": (
        "csv", lambda path: _csv_text(path, "sep=;\nid;score", lambda k, won: f"{k};{won:d}")
    ),
    "tabs": ("csv", lambda path: _csv_text(path, "id\tpassed", lambda k, won: f"{k}\t{won}")),
    "percent": ("csv", lambda path: _csv_text(path, "id,score", lambda k, won: f"{k},{100 * won}.0%")),
    "percent as success !": (
        "csv", lambda path: _csv_text(path, "id,success", lambda k, won: f"{k},{100 if won else 20}.0%")
    ),
    "an item twice !": (
        "csv", lambda path: _csv_text(path, "id,score", lambda k, won: f"{k},{won:d}\n{k},{won:d}")
    ),
    "an item once a seed !": (
        "csv",
        lambda path: _csv_text(
            path, "id,seed,score", lambda k, won: "\n".join(f"{k},{s},{won:d}" for s in (7, 8))
        ),
    ),
    "an item once a run !": (
        "jsonl",
        lambda path: as_jsonl(path, [
            {"task_id": k, "Run-ID": r, "passed": _won(path.stem, k)} for k in range(N) for r in (1, 2)
        ]),
    ),
    "names of its own !": (
        "csv", lambda path: _csv_text(path, "row_key,my_score", lambda k, won: f"{k},{won:d}")
    ),
    "two ids !": (
        "csv", lambda path: _csv_text(path, "task_id,doc_id,acc", lambda k, won: f"{k},{k},{won:d}")
    ),
    "a prompt for an id !": (
        "csv", lambda path: _csv_text(path, "question,correct", lambda k, won: f"what is {k}?,{won}")
    ),
    "an index": ("csv", lambda path: _csv_text(path, ",id,score", lambda k, won: f"{7 * k},q{k},{won:d}")),
    "two indices": (
        "csv", lambda path: _csv_text(path, ",Unnamed: 0.1,id,score", lambda k, won: f"{k},{k},q{k},{won:d}")
    ),
    "an index and no id !": ("csv", lambda path: _csv_text(path, ",score", lambda k, won: f"{k},{won:d}")),
    "an index and a prompt !": (
        "csv", lambda path: _csv_text(path, "index,question,score", lambda k, won: f"7,what is {k}?,{won:d}")
    ),
    "a name with spaces !": (
        "csv", lambda path: _csv_text(path, "row key,score", lambda k, won: f"{k},{won:d}")
    ),
    "lists of two kinds": ("json", _lists),
    "why each ended": (
        "csv",
        lambda path: as_csv(path, [
            {"id": k, "score": int(won), "finish_reason": "stop" if won else "content_filter"}
            for k, won in ((k, _won(path.stem, k)) for k in range(N))
        ]),
    ),
    "by column, as lists": (
        "json",
        lambda path: _json(path, {"id": [*range(N)], "score": [_won(path.stem, k) * 1.0 for k in range(N)]})
    ),
    "by column, as pandas numbers rows": (
        "json", lambda path: _json(path, {
            "id": {str(k): f"q{k}" for k in range(N)},
            "passed": {str(k): _won(path.stem, k) for k in range(N)}
        })
    ),
    "the right letter beside the score !": (
        "csv", lambda path: _csv_text(path, "id,score,correct", lambda k, won: f"{k},{won:d},B")
    ),
}  # fmt: skip
WORDS = ("pass fail", "PASSED FAILED", "C I", "correct incorrect", "yes no", "Y N", "True False", "1 0")


def judged(*typed: Path | str) -> Claim:
    """Return the claim of two files, with the options as somebody types them."""
    before, after, *words = map(str, typed)
    given = dict(zip(words[::2], words[1::2], strict=True))
    asked: dict[str, Any] = {name.removeprefix("--"): value for name, value in given.items()}
    asked |= {"plan": Path(asked["plan"])} if "plan" in asked else {}
    return command.judge_files(Path(before), Path(after), JudgeRequest(**asked))[2].claim


def follow(before: Path, after: Path) -> tuple[Claim, list[str]]:
    """Judge, and apply the first fix of each message as it is printed; return the claim and the messages."""
    words: list[str] = []
    told: list[str] = []
    while True:
        try:
            return judged(before, after, *words), told
        except DataError as error:
            assert error.fix not in [each.partition("Fix: ")[2] for each in told], f"round and round: {told}"
            told.append(str(error))
            assert len(told) <= 4, told
            if (typed := re.search(r"assay judge (\S+) (\S+)(.*)", error.fix)) is not None:
                before, after, words = Path(typed[1]), Path(typed[2]), shlex.split(typed[3])
                continue
            option = re.search(
                r"(--metric|--columns) ('.*?'|\S+?)(?:,? (?:if|or|reads|with)\b.*|;.*)?$", error.fix
            )
            assert option is not None, error.fix
            words = _joined(words, option[1], *shlex.split(option[2]))


def _joined(words: list[str], name: str, value: str) -> list[str]:
    """Put a further option to those before; pairs of columns are joined."""
    given = dict(zip(words[::2], words[1::2], strict=True))
    given[name] = f"{given[name]},{value}" if name == "--columns" and name in given else value
    return [word for pair in given.items() for word in pair]


@pytest.mark.parametrize("name", FILES)
def test_results_as_people_have_them_are_judged_or_the_fix_leads_there(name: str, tmp_path: Path) -> None:
    ending, write = FILES[name]
    paths = [write(tmp_path / f"{arm}.{ending}") for arm in ("before", "after")]
    claim, told = follow(*paths)
    assert bool(told) == name.endswith("!"), told
    assert claim.before is not None and claim.after is not None and claim.n_items == N
    low = 0.2 if name == "percent as success !" else 0.0
    wanted = [low + (1 - low) * RIGHT[arm] / N for arm in ("before", "after")]
    assert [claim.before.value, claim.after.value] == pytest.approx(wanted)


# A transcript, by how somebody keeps it: what the model was told, and what it said.
TRANSCRIPTS: Mapping[str, Callable[[str, str], dict[str, object]]] = {
    "messages": lambda asked, said: {
        "messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
    },
    "ShareGPT": lambda asked, said: {
        "conversations": [{"from": "human", "value": asked}, {"from": "gpt", "value": said}]
    },
    "as JSON": lambda asked, said: {"transcript": json.dumps(
        [{"role": "system", "content": "Short."}, {"role": "user", "content": asked},
         {"role": "assistant", "content": said}]
    )},
    "as Python": lambda asked, said: {"Chat": str(
        [{"role": "user", "content": asked}, {"role": "assistant", "content": said, "refusal": None}]
    )},
    "in parts, with the time": lambda asked, said: {"dialogue": [
        {"role": "user", "parts": [{"text": asked}]}, {"role": "model", "parts": [{"text": said}], "at": 7}
    ]},
    "completion as messages": lambda asked, said: {
        "prompt": asked, "completion": [{"role": "assistant", "content": said}]
    },
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_transcript_is_read_as_its_completion_so_that_equal_answers_are_compared(name: str) -> None:
    def row(said: str) -> Reading:
        return table_row("line 1", {"id": 1, "score": 1} | TRANSCRIPTS[name]("Who?", said), Asked())

    assert row("Rome").completion == "Rome" and row("Rome").wrote == ("Rome",)
    assert row("Rome").prompt == row("Oslo").prompt != "" and row("Oslo").completion == "Oslo"


@pytest.mark.parametrize("value", [
    "a text that somebody wrote", [{"role": "user", "content": "Who?"}], [], None, [{"role": "narrator"}],
    "[1, 2", [["a"]], 7,
])  # fmt: skip
def test_a_column_called_like_a_transcript_without_an_answer_holds_no_completion(value: object) -> None:
    found = table_row("line 1", {"id": 1, "score": 1, "conversation": value}, Asked())
    assert (found.completion, found.wrote) == ("", None)


def test_of_several_turns_all_from_the_first_answer_on_is_the_completion() -> None:
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
    }
    told = [{"role": "user", "content": "Who?"}, call, {"role": "tool", "content": "42"},
            {"role": "assistant", "content": "Rome"}]  # fmt: skip
    found = table_row("line 1", {"id": 1, "score": 1, "messages": told}, Asked())
    calls, told_then, said = found.completion.split("\0")
    assert "f" in calls and (told_then, said) == ("42", "Rome") and found.wrote == (calls, "Rome")


def test_a_completion_beside_a_transcript_is_the_completion() -> None:
    row = {"id": 1, "score": 1, "output": "Rome", "messages": [{"role": "assistant", "content": "Oslo"}]}
    assert table_row("line 1", row, Asked()).completion == "Rome"


@pytest.mark.parametrize(("ending", "cut"), [
    ("length", 1), ("MAX_TOKENS", 1), ("stop", 0), ("content_filter", 0), ("eos_token", 0),
    ("abort", None), (128009, None), (1, None), (None, None),
])  # fmt: skip
def test_an_ending_that_does_not_say_whether_it_was_the_length_refuses_nothing(
    ending: object, cut: int | None
) -> None:
    row = {"item": "a", "score": 1, "completion": "x", "stop_reason": ending}
    assert table_row("line 1", row, Asked()).truncated == cut
    (answered,) = numbered([("line 1", row)], "answers.jsonl")[1]
    assert answered.truncated == (None if cut is None else (bool(cut),))
    with pytest.raises(DataError, match="true or false as truncated, found 'abort'"):
        table_row("line 1", {"item": "a", "score": 1, "truncated": "abort"}, Asked())


@pytest.mark.parametrize("words", WORDS)
def test_words_for_right_and_wrong_are_read(words: str, tmp_path: Path) -> None:
    yes, no = words.split()
    paths = [
        _csv_text(tmp_path / f"{arm}.csv", "item,success", lambda k, won: f"{k},{yes if won else no}")
        for arm in ("before", "after")
    ]
    claim = judged(*paths)
    assert claim.after is not None and claim.after.value == RIGHT["after"] / N


@pytest.mark.parametrize(("cell", "bounds", "told"), [
    ("1,234", None, "a comma before three digits may be either"),
    ("0,520", None, 0.52), ("12,5", "0,100", 0.125), ("52,0 %", None, 0.52), ("52%", "0,100", 0.52),
    ("110%", None, "expected scores from 0 to 1, found 1.1"), ("five", None, "expected a finite number"),
])  # fmt: skip
def test_numbers_are_read_as_spreadsheets_write_them_or_the_doubt_is_said(
    cell: str, bounds: str | None, told: str | float, tmp_path: Path
) -> None:
    path = tmp_path / "results.csv"
    path.write_text("item;score\n" + "".join(f"q{k};{cell}\n" for k in range(8)), encoding="utf-8")
    asked = [] if bounds is None else ["--bounds", bounds]
    if isinstance(told, str):
        with pytest.raises(DataError, match=re.escape(told)):
            judged(path, path, *asked)
        return
    claim = judged(path, path, *asked)
    assert claim.before is not None and claim.before.value == pytest.approx(told)


def test_the_metric_is_any_column_and_then_a_success_does_not_decide(tmp_path: Path) -> None:
    rows = [{"item": k, "success": True, "f1": k / N} for k in range(N)]
    path = as_jsonl(tmp_path / "results.jsonl", rows)
    by_success, by_metric = judged(path, path), judged(path, path, "--metric", "f1")
    assert (by_success.plan.primary, by_metric.plan.primary) == ("success", "score")
    assert by_metric == judged(path, path, "--columns", "score=f1")
    with pytest.raises(DataError, match="the column f2, found item, success, f1"):
        judged(path, path, "--metric", "f2")
    with pytest.raises(AssayError, match="expected one score, found f1 and success"):
        judged(path, path, "--metric", "f1", "--columns", "score=success")


def test_of_a_folder_of_tasks_each_is_read_by_its_own_score_and_the_message_leads_there(
    tmp_path: Path,
) -> None:
    for name in ("before", "after"):
        _samples(tmp_path / name / "samples_arc_2025-01-01.jsonl", acc=float, acc_norm=lambda won: 1.0)
        _samples(tmp_path / name / "samples_sums_2025-01-01.jsonl", "strict", exact_match=float)
    folders = [tmp_path / name for name in ("before", "after")]
    for words in ([], ["--metric", "exact_match"], ["--metric", "exact_match,strict"]):
        with pytest.raises(DataError, match="one score of each task, found arc: acc, acc_norm") as told:
            judged(*folders, *words)
        assert judged(*folders, *shlex.split(told.value.fix)).n_items == 2 * N
    claim, told_then = follow(*folders)
    assert len(told_then) == 1 and claim.after is not None and claim.after.value == RIGHT["after"] / N
    assert judged(*folders, "--metric", "acc") == claim
    with pytest.raises(
        DataError, match=r"the metric wer, found acc, acc_norm, exact_match(.|\n)*--metric acc"
    ):
        judged(*folders, "--metric", "wer")
    with pytest.raises(DataError, match="a task drop, found arc, sums"):
        judged(*folders, "--metric", "drop=f1")
    with pytest.raises(DataError, match="the filter loose, found strict") as told:
        judged(*folders, "--metric", "arc=acc;sums=exact_match,loose")
    assert judged(*folders, *shlex.split(told.value.fix)) == claim


def test_a_filter_that_is_not_there_is_told_which_are(tmp_path: Path) -> None:
    paths = [
        _samples(tmp_path / name / "samples_a_1.jsonl", "strict", acc=float) for name in ("before", "after")
    ]
    with pytest.raises(DataError, match="the filter loose, found strict") as told:
        judged(*paths, "--metric", "acc,loose")
    assert judged(*paths, *told.value.fix.split()).n_items == N


def test_answers_that_were_not_scored_are_said(tmp_path: Path) -> None:
    paths = [_samples(tmp_path / name / "samples_a_1.jsonl", acc=float) for name in ("before", "after")]
    told = " ".join(map(str, judged(*paths).warnings))
    assert f"{N} results before have one score for up to 3 answers" in told


def test_a_sample_that_ended_in_an_error_comes_first_in_the_reason(tmp_path: Path) -> None:
    rows = results("before", 0.5, items=8, draws=1)
    before = as_inspect_json(tmp_path / "before.json", rows)
    value = json.loads(before.read_text(encoding="utf-8"))
    value["samples"][3] |= {"scores": {}, "error": {"message": "429 after 10 tries"}}
    after = tmp_path / "after.json"
    after.write_text(json.dumps(value), encoding="utf-8")
    claim = judged(before, after)
    assert claim.reason.startswith("1 of 8 results after have no score: item 'q003' (429 after 10 tries)")
    assert "--draws" not in claim.reason


def test_a_folder_that_evaluate_or_grade_wrote_is_judged_by_its_episodes(tmp_path: Path) -> None:
    for name, rate in (("before", 0.3), ("after", 0.6)):
        (tmp_path / name).mkdir()
        write_jsonl(tmp_path / name / "episodes.jsonl", arm(name, rate))
        as_jsonl(tmp_path / name / "answers.jsonl", [{"key": "x", "text": "y"}])
        (tmp_path / name / "report.json").write_text("{}", encoding="utf-8")
    folders = [tmp_path / name for name in ("before", "after")]
    assert judged(*folders) == judged(*(folder / "episodes.jsonl" for folder in folders))


def test_equal_draws_are_said_only_where_nearly_all_are(tmp_path: Path) -> None:
    def said(name: str, answer: Callable[[int, int], str]) -> str:
        rows = [
            {"item": k, "draw": d, "score": 1, "completion": answer(k, d)} for k in range(20) for d in (0, 1)
        ]
        path = as_jsonl(tmp_path / f"{name}.jsonl", rows)
        return " ".join(map(str, judged(path, path).warnings))

    assert "are the same text" not in said("closed", lambda k, d: "A" if k < 9 else f"B{d}")
    assert "of 20 of 20 items of before are the same text" in said("greedy", lambda k, d: f"A{k}")


@pytest.mark.parametrize(
    ("rate", "greedy", "said"),
    [(0.97, False, False), (0.97, True, True), (0.6, True, True), (0.03, False, False)],
)
def test_equal_draws_are_not_said_where_the_rates_make_them_likely(
    rate: float, greedy: bool, said: bool
) -> None:
    luck, rows = rng("equal", str(rate)), []
    for k in range(200):
        won = [bool(luck.random() < rate) for _ in range(2)]
        rows += [
            JudgedRow(
                f"{k}", d, f"{k}", 0.0, 0.0, won[d * (not greedy)], completion="AB"[won[d * (not greedy)]]
            )
            for d in (0, 1)
        ]
    same, known, odd = identical_draws(rows)
    assert (known, odd) == (200, said) and same > 0.9 * known


INSPECT: Mapping[str, tuple[str, Callable[[Claim], object], object]] = {
    "cluster": ("cluster=metadata.topic", lambda claim: claim.n_clusters, 4),
    "item": ("item=metadata.key,draw=metadata.try", lambda claim: claim.n_items, 6),
    "draw": ("item=metadata.key,draw=metadata.try", lambda claim: claim.draws, 2),
    "draws in order": ("item=metadata.key,draw=#", lambda claim: claim.draws, 2),
    "success": ("success=metadata.ok", lambda claim: claim.before and claim.before.value, 1.0),
    "score": ("score=metadata.grade", lambda claim: claim.before and claim.before.value, 0.25),
}


@pytest.mark.parametrize("write", [as_inspect_json, as_inspect_eval])
@pytest.mark.parametrize("name", INSPECT)
def test_named_columns_are_read_of_logs_of_inspect(
    name: str, write: Callable[..., Path], tmp_path: Path
) -> None:
    columns, value, wanted = INSPECT[name]
    path = write(
        tmp_path / f"log.{'json' if write is as_inspect_json else 'eval'}",
        results("log", 0.5, items=12, draws=1),
        metadata=lambda row: {
            **{
                "topic": int(row["item"][1:]) % 4,
                "key": int(row["item"][1:]) % (6 if "key" in columns else 12),
            },
            **{"try": int(row["item"][1:]) // 6, "ok": True, "grade": 0.25},
        },
    )
    if name == "item":
        with pytest.raises(DataError, match="each draw of an item once"):
            judged(path, path, "--columns", "item=metadata.try")
    assert value(judged(path, path, "--columns", columns)) == wanted
    with pytest.raises(DataError, match="the column nothing"):
        judged(path, path, "--columns", "cluster=nothing")


def test_means_and_completions_without_scores_are_sent_where_they_are_read(tmp_path: Path) -> None:
    means = tmp_path / "results.json"
    means.write_text(json.dumps({"results": {"arc": {"acc,none": 0.4}}, "configs": {"arc": {"l": [{}]}}}))
    answers = as_jsonl(tmp_path / "answers.jsonl", [{"id": "a", "response": "4"}])
    batch = as_jsonl(tmp_path / "batch.jsonl", [{"id": "r", "custom_id": "a", "response": {"body": {"choices":
                     [{"message": {"content": "4"}}]}}}])  # fmt: skip
    lists = tmp_path / "lists.json"
    lists.write_text(json.dumps({"one": [{"a": 1}], "two": [{"b": 1}]}))
    for path, found in (
        (means, "samples_*.jsonl"),
        (answers, f"assay episodes grade TASKS {answers}"),
        (batch, f"assay episodes grade TASKS {batch}"),
        (lists, "one of these lists alone"),
    ):
        with pytest.raises(DataError) as told:
            judged(path, path)
        assert found in told.value.fix


def test_columns_are_kept_beside_the_results_and_read_from_there(tmp_path: Path) -> None:
    path, named = _own(tmp_path / "before.jsonl"), "success=canonical_correct,item=problem_id"
    keep_columns(JudgeRequest(columns=named, out=tmp_path))
    claim = judged(path, path, "--columns", str(tmp_path / "columns.yaml"))
    assert claim == judged(path, path, "--columns", named) and claim.n_items == N


def test_what_two_columns_may_be_is_said_where_nothing_depends_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(command, "say", said.append)
    rows = [{"item": k, "score": 1, "question": "q", "input": "i"} for k in range(6)]
    path = as_jsonl(tmp_path / "results.jsonl", rows)

    def trusted(*words: str) -> str:
        return " ".join(map(str, judged(path, path, *words).warnings))

    assert "taken on trust: question," in trusted()
    assert "question and input may be the prompt" in " ".join(said)
    assert "taken on trust: question," not in trusted("--columns", "prompt=question")


def test_the_score_stays_in_the_column_of_the_first_row(tmp_path: Path) -> None:
    rows = [{"item": 0, "score": 1}, {"item": 1, "reward": 0}]
    path = as_jsonl(tmp_path / "results.jsonl", rows)
    assert "1 of 2 results before have no score: item '1'" in judged(path, path).reason


def test_a_plan_of_results_with_a_score_beside_their_success_can_be_kept(tmp_path: Path) -> None:
    rows = [{"id": k, "acc": k / N, "success": k % 2 == 0} for k in range(N)]
    path, plan = as_jsonl(tmp_path / "before.jsonl", rows), tmp_path / "plan.yaml"
    for words, metric in ((None, "success"), ("acc", "score")):
        plan.unlink(missing_ok=True)
        run(PlanRequest(pilot=path, metric=words, out=plan))
        claim = judged(path, path, "--plan", str(plan))
        assert (claim.verdict, claim.plan.primary) == ("NO EVIDENCE", metric), claim.reason


def test_a_column_that_was_named_is_read_whatever_tool_the_others_look_like(tmp_path: Path) -> None:
    rows = [{"id": k, "prompt": "p", "completion": "c", "reward": 0.5, "ok": k < 4} for k in range(N)]
    claim = judged(*[as_jsonl(tmp_path / "results.jsonl", rows)] * 2, "--columns", "success=ok")
    assert claim.before is not None and (claim.plan.primary, claim.before.value) == ("success", 4 / N)


def test_of_episodes_the_metric_is_success_or_reward(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    write_jsonl(path, arm("before", 0.3))
    words = {"success": (), "reward": ("--bounds", "-1,2")}
    by = {name: judged(path, path, "--metric", name, *more) for name, more in words.items()}
    assert {name: claim.plan.primary for name, claim in by.items()} == {
        "success": "success",
        "reward": "score",
    }
    assert by["success"].before == judged(path, path).before
    with pytest.raises(DataError, match="the metric f1, found success, reward"):
        judged(path, path, "--metric", "f1")


def test_a_plan_holds_the_columns_that_its_pilot_was_read_by(tmp_path: Path) -> None:
    rows = [{"task_id": k, "doc_id": k / N, "ok": k % 3 == 0, "passed": k % 2 == 0} for k in range(N)]
    path, plan = as_jsonl(tmp_path / "before.jsonl", rows), tmp_path / "plan.yaml"
    named = "item=task_id,success=ok"
    by_metric = tmp_path / "by_metric.yaml"
    run(PlanRequest(pilot=path, metric="doc_id", columns="item=task_id", out=by_metric))
    assert judged(path, path, "--plan", str(by_metric)).verdict == "NO EVIDENCE"
    run(PlanRequest(pilot=path, columns=named, out=plan))
    assert "item: task_id" in plan.read_text(encoding="utf-8")
    claims = [judged(path, path, "--plan", str(plan), *more) for more in ((), ("--columns", named))]
    assert claims[0] == claims[1] and claims[0].before is not None
    assert claims[0].before.value == pytest.approx(sum(row["ok"] for row in rows) / N)
    with pytest.raises(ConfigError, match="success passed, where the plan has ok"):
        judged(path, path, "--plan", str(plan), "--columns", "success=passed")


def test_a_plan_without_columns_of_other_names_has_the_digest_that_it_always_had(tmp_path: Path) -> None:
    rows = [{"item": k, "score": k % 2} for k in range(N)]
    path, plan = as_csv(tmp_path / "before.csv", rows), tmp_path / "plan.yaml"
    run(PlanRequest(pilot=path, out=plan))
    assert "columns" not in plan.read_text(encoding="utf-8")
    assert "columns" not in read_plan(plan).model_dump(mode="json")


def test_a_list_of_items_is_read_for_its_items_alone(tmp_path: Path) -> None:
    rows = [
        {"id": k, "question": f"What is {k}?", "correct": "B", "draw": "first", "score": "n/a"}
        for k in range(N)
    ]
    listed, plan = as_csv(tmp_path / "items.csv", rows), tmp_path / "plan.yaml"
    run(PlanRequest(items=str(listed), rate=0.5, draws=1, out=plan))
    assert read_plan(plan).items.n_items == N and read_plan(plan).items.contents_sha256 is not None


def test_a_plan_is_made_and_kept_with_named_columns(tmp_path: Path) -> None:
    rows = _table("before", key=lambda k, won: k, grade=lambda k, won: int(won))
    path, plan, named = as_csv(tmp_path / "before.csv", rows), tmp_path / "plan.yaml", "item=key,score=grade"
    run(PlanRequest(pilot=path, columns=named, out=plan))
    assert judged(path, path, "--columns", named, "--plan", str(plan)).verdict == "NO EVIDENCE"
    assert judged(path, path, "--plan", str(plan)).verdict == "NO EVIDENCE"
    with pytest.raises(DataError, match="expected a column for the item"):
        run(PlanRequest(pilot=path, out=tmp_path / "other.yaml"))
