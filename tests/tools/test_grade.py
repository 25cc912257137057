"""`assay episodes grade` makes of completions what the pipeline would have made, and refuses what is no
suite."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.cli.tools.grade import command
from assay.cli.tools.grade.command import Grade
from assay.cli.tools.grade.completions import documented, numbered, read_row
from assay.cli.tools.tasks_file import items_of, open_project, read_cut, suite_from
from assay.core.errors import AssayError, DataError
from assay.core.records import Episode
from assay.core.storage.json import read_record, read_records, write_jsonl
from assay.package.verification.compared import difference
from assay.pipeline.inputs import task_with
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.doubts import find_disagreement
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.tables.columns import Columns
from assay.rollout.tasks.protocol import Task
from assay.rollout.tasks.wrappings import cut_off
from assay.verdict.evidence.claim.claim import Claim
from tests.house import ROOT
from tests.tools.judged_files import as_csv, as_jsonl, as_parquet

HELDOUT = "data/collider/heldout.jsonl"
Rows = list[dict[str, Any]]


def grade(*words: str | Path) -> tuple[list[Episode], Grade]:
    done = CliRunner().invoke(app, ["episodes", "grade", *map(str, words), "--out", "out"])
    assert done.exit_code == 0, f"{done.output} {done.exception!r}"
    return read_records(Path("out/episodes.jsonl"), Episode, fix=""), read_record(
        Path("out/grade.json"), Grade, fix=""
    )


def refused(*words: str | Path) -> str:
    done = CliRunner().invoke(app, ["episodes", "grade", *map(str, words), "--out", "out"])
    assert done.exit_code == 1 and isinstance(done.exception, AssayError), f"{done.output} {done.exception!r}"
    assert not Path("out").exists(), "nothing is written"
    return str(done.exception)


def few_of(task: str) -> Path:
    """Return where some records of a task stand, beside what they refer to."""
    return Path(f"data/{task}/few.jsonl")


def played(task: str, tasks: str, player: str, n: int, draws: int) -> tuple[Task, list[Play], list[Episode]]:
    """Return the first items of a tasks file, made a file of their own, as a scripted player plays them."""
    project = open_project(Path.cwd(), task)
    made = task_with(project.root, project.params, None)
    lines = Path(tasks).read_text(encoding="utf-8").splitlines(keepends=True)[:n]
    few = few_of(task)
    few.write_text("".join(lines), encoding="utf-8")
    items, _ = items_of(project, made, few)
    plays = suite_from(project, items, few, None, None, draws, "").plays()
    return made, plays, play_baseline(made, made.baselines()[player], plays, player)


def plain(episodes: Sequence[Episode]) -> Rows:
    return [{"item": e.item_id, "draw": e.draw, "completion": e.turns[0].completion} for e in episodes]


def transcripts(task: Task, plays: Sequence[Play], episodes: Sequence[Episode]) -> Rows:
    rows = []
    for play, episode in zip(plays, episodes, strict=True):
        messages = list(task.start(play.item, play.world_seed)[0])
        for turn in episode.turns:
            messages.append({"role": "assistant", "content": turn.completion})
            if turn.observation is not None:
                messages.append({"role": "user", "content": turn.observation})
        rows.append({"item": episode.item_id, "draw": episode.draw, "messages": messages})
    return rows


def facts(episodes: Sequence[Episode]) -> list[Any]:
    return [
        e.model_dump(exclude={"policy", "seed"}) for e in sorted(episodes, key=lambda e: (e.item_id, e.draw))
    ]


def graded_alike(stored: bytes) -> bool:
    """Return whether what was graded is what is stored, but for what another processor makes of last bits."""
    again = Path("out/episodes.jsonl").read_bytes()
    return again == stored or difference("episodes.jsonl", stored, again)[1]


def test_the_committed_episodes_are_graded_as_they_were_but_for_last_bits(project: Path) -> None:
    stored = ROOT / "evidence/results/pre_eval/pre_eval.jsonl"
    episodes, told = grade(HELDOUT, stored)
    assert graded_alike(stored.read_bytes()) and len(episodes) == 1024
    assert told.form == "assay episodes" and told.unknown == (
        "sampling settings (temperature, limit of tokens): no file has them",
    )


@pytest.mark.parametrize(("form", "write"), [("csv", as_csv), ("jsonl", as_jsonl), ("parquet", as_parquet)])
@pytest.mark.parametrize(("task", "player"), [("structured", "gold"), ("words", "hasty")])
def test_completions_of_one_turn_get_what_the_task_gives_in_every_form(
    task: str, player: str, form: str, write: Callable[..., Path], project: Path
) -> None:
    _, _, wanted = played(task, f"data/{task}/heldout.jsonl", player, 24, 2)
    file = write(Path(f"mine.{form}"), plain(wanted)[::-1])
    found, told = grade(few_of(task), file, "--task", task, "--model", "a model of mine")
    assert facts(found) == facts(wanted) and {each.policy for each in found} == {"a model of mine"}
    assert told.success_rate.value == pytest.approx(sum(e.success for e in wanted) / 48)
    assert any(each.startswith("tokens") for each in told.unknown) and told.draws == 2


@pytest.mark.parametrize(("task", "player"), [("collider", "adaptive"), ("frozen_lake", "shy")])
@pytest.mark.parametrize("form", ["messages", "completions"])
def test_transcripts_of_several_turns_are_played_through_the_environment(
    task: str, player: str, form: str, project: Path
) -> None:
    if task == "frozen_lake":
        pytest.importorskip("gymnasium")
    made, plays, wanted = played(task, f"data/{task}/heldout.jsonl", player, 12, 2)
    rows = transcripts(made, plays, wanted)
    if form == "completions":
        rows = [
            {"id": e.item_id, "epoch": e.draw + 1, "completions": [turn.completion for turn in e.turns]}
            for e in wanted
        ]
    found, told = grade(few_of(task), as_jsonl(Path("mine.jsonl"), rows), "--task", task)
    assert facts(found) == facts(wanted) and max(len(e.turns) for e in found) > 1
    assert told.prompts_other == (0 if form == "messages" else None)


def test_two_graded_files_have_a_verdict(project: Path) -> None:
    for player, arm in (("empty_fields", "before"), ("gold", "after")):
        _, _, wanted = played("structured", "data/structured/heldout.jsonl", player, 60, 2)
        grade(few_of("structured"), as_jsonl(Path("mine.jsonl"), plain(wanted)), "--task", "structured")
        Path("out").rename(arm)
    judged = ["judge", "before/episodes.jsonl", "after/episodes.jsonl", "--out", "judged"]
    done = CliRunner().invoke(app, judged)
    assert done.exit_code == 0, f"{done.output} {done.exception!r}"
    claim = read_record(Path("judged/claim.json"), Claim, fix="")
    assert claim.verdict == "NO SKILL SHOWN" and claim.effect and claim.effect.direction == "better"
    # Of tokens nobody knows, nothing is said.
    assert claim.tokens_per_completion is None and "truncated" not in " ".join(map(str, claim.warnings))


def test_records_without_an_id_are_known_by_their_prompts(project: Path) -> None:
    _, plays, wanted = played("words", "data/words/heldout.jsonl", "hasty", 8, 2)
    rows = plain(wanted)
    for row, play in zip(rows, plays, strict=True):
        del row["item"]
        row["prompt"] = (play.item.row or {})["prompt"]
    found, _ = grade(few_of("words"), as_jsonl(Path("mine.jsonl"), rows), "--task", "words")
    assert facts(found) == facts(wanted)
    rows[0]["prompt"] = "another"
    shutil.rmtree("out")
    message = refused(few_of("words"), as_jsonl(Path("mine.jsonl"), rows), "--task", "words")
    assert "found none with 'another'" in message


def _openai(item: str, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    body = {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
    response = {"status_code": 200, "body": body | {"usage": {"completion_tokens": 3}}}
    return {"id": f"batch-{item}", "custom_id": item, "response": response, "error": None}


def _responses(item: str, text: str) -> dict[str, Any]:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    body = {
        "model": "m",
        "output": [{"type": "reasoning", "summary": []}, said],
        "usage": {"output_tokens": 3},
    }
    return {"custom_id": item, "response": {"status_code": 200, "body": body}, "error": None}


def _anthropic(item: str, text: str) -> dict[str, Any]:
    message = {"model": "m", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    return {"custom_id": item, "result": {"type": "succeeded", "message": message}}


def _gemini(item: str, text: str) -> dict[str, Any]:
    content = {"parts": [{"text": text}], "role": "model"}
    return {"key": item, "response": {"candidates": [{"content": content, "finishReason": "STOP"}]}}


SHAPES: dict[str, tuple[Callable[[str, str], dict[str, Any]], str | None]] = {
    "openai": (_openai, None),
    "openai responses": (_responses, None),
    "anthropic": (_anthropic, None),
    "gemini": (_gemini, None),
    "vLLM": (
        lambda item, text: {
            **{"id": item, "request_id": "0", "prompt": "<|im_start|>", "finished": True},
            "outputs": [{"index": 0, "text": text, "token_ids": [1, 2, 3], "finish_reason": "stop"}],
        },
        None,
    ),
    "Ollama, a chat": (
        lambda item, text: {
            **{"id": item, "model": "m", "done": True, "done_reason": "stop", "eval_count": 3},
            "message": {"role": "assistant", "content": text},
        },
        None,
    ),
    "Ollama, a text": (
        lambda item, text: {"id": item, "model": "m", "response": text, "done": True, "context": [1]},
        None,
    ),
    "evalplus": (lambda item, text: {"task_id": item, "solution": text}, None),
    "own script": (lambda item, text: {"Problem ID": item, "output_text": text, "epoch": 0}, None),
    "own names": (
        lambda item, text: {"key": item, "said": {"first": text}, "completion": "none"},
        "item=key,completion=said.first",
    ),
    "in the file's order": (lambda item, text: {"item": item[:1], "output": text}, "draw=#"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_answers_are_read_alike_in_whatever_shape_they_come(shape: str) -> None:
    make, columns = SHAPES[shape]
    rows = [(f"line {k}", make(f"{k}", f"text {k}")) for k in (3, 1, 2)]
    if columns == "draw=#":
        rows = [(where, row | {"item": "1"}) for where, row in rows]
    found = numbered(rows, "mine.jsonl", Columns.read(columns))[1]
    by_item = [(each.item, each.draw, *each.completions) for each in found]
    wanted = [("1", 0, "text 3"), ("1", 1, "text 1"), ("1", 2, "text 2")]
    if columns != "draw=#":
        wanted = [("1", 0, "text 1"), ("2", 0, "text 2"), ("3", 0, "text 3")]
    assert by_item == wanted


def test_each_of_several_outputs_of_vllm_is_a_draw_of_its_prompt() -> None:
    outputs = [{"index": k, "text": f"text {k}", "token_ids": [1] * k, "finish_reason": end}
               for k, end in enumerate(("stop", "length"))]  # fmt: skip
    rows = [("line 1", {"request_id": "7", "prompt": "Who?", "outputs": outputs})]
    found = numbered(rows, "mine.jsonl")[1]
    assert [(each.item, each.draw, each.completions, each.truncated, each.tokens) for each in found] == [
        ("\0Who?", 0, ("text 0",), (False,), (0,)),
        ("\0Who?", 1, ("text 1",), (True,), (1,)),
    ]
    found = numbered([("line 1", {"id": "a", "completion": "z", "outputs": ["x", "y"]})], "mine.jsonl")[1]
    assert [each.completions for each in found] == [("z",)], "outputs of tests, as data of programs have them"
    found = numbered([("line 1", {"id": "a", "outputs": ["x", "y"]})], "mine.jsonl")[1]
    assert [(each.draw, each.completions) for each in found] == [(0, ("x",)), (1, ("y",))]


@pytest.mark.parametrize(
    ("row", "fix"),
    [
        (
            {"message": {"role": "assistant", "content": "x"}, "done": True},
            "write the id of its record as item",
        ),
        (
            {"id": "a", "message": {"role": "assistant", "content": "x"}, "done": False},
            "ask with stream: false",
        ),
    ],
)
def test_what_is_missing_from_an_answer_of_ollama_is_one_thing(row: dict[str, Any], fix: str) -> None:
    with pytest.raises(DataError) as told:
        numbered([("line 1", row)], "mine.jsonl")
    assert told.value.fix.startswith(fix)


def test_a_request_of_a_batch_that_failed_is_named_with_its_error() -> None:
    rows = [("line 1", _openai("a", "x")), ("line 2", _openai("b", "y"))]
    rows[1][1]["response"] = {"status_code": 500, "body": None}
    with pytest.raises(
        DataError, match=r"line 2: expected an answer to each request, found none to 'b': 500"
    ):
        numbered(rows, "mine.jsonl")


def test_two_columns_that_may_be_the_completion_are_said_and_the_fix_leads_on() -> None:
    rows = [("line 1", {"id": "a", "output": "x", "response": "y"})]
    with pytest.raises(DataError, match="one column as completion, found output, response") as told:
        numbered(rows, "mine.jsonl")
    fix = told.value.fix.partition(" or ")[0].removeprefix("--columns ")
    assert numbered(rows, "mine.jsonl", Columns.read(fix))[1][0].completions == ("x",)


def test_a_model_that_was_asked_otherwise_is_told(project: Path) -> None:
    made, plays, wanted = played("words", "data/words/heldout.jsonl", "hasty", 8, 1)
    rows = transcripts(made, plays, wanted)
    rows[0]["messages"][0] = {"role": "user", "content": "Guess!"}
    assert grade(few_of("words"), as_jsonl(Path("mine.jsonl"), rows), "--task", "words")[1].prompts_other == 1


def test_held_out_records_that_are_graded_are_noted_as_opened(project: Path) -> None:
    stored = ROOT / "evidence/results/pre_eval/pre_eval.jsonl"
    grade(HELDOUT, stored)
    ledger = json.loads(Path("evidence/observed/heldout_openings.json").read_text())
    policy = read_records(stored, Episode, fix="")[0].policy
    assert [(each["policy_digest"], each["split"]) for each in ledger["openings"]] == [(policy, "heldout")]


def _two_models(rows: Rows) -> None:
    for n, row in enumerate(rows):
        row["model"] = f"m{n % 2}"


def _again(rows: Rows) -> None:
    rows.append(dict(rows[0]))
    for row in rows:
        del row["draw"]


SPOILT: dict[str, tuple[Callable[[Rows], Any], tuple[str, ...]]] = {
    "an unknown item": (lambda r: r[0].update(item="no such"), ("1 item ", "'no such'")),
    "a missing item": (lambda r: r.pop(0), ("1 episode missing", "1 item without any")),
    "a missing draw": (lambda r: r.append({**r[0], "draw": 1}), ("5 episodes missing where other items",)),
    "the same draw again": (lambda r: r.append(dict(r[0])), ("draw 0 of", "again")),
    "an item again": (_again, ("again", "column draw")),
    "no completion": (lambda r: r[2].update(completion=None), ("a text as completion", "line 3")),
    "NaN": (lambda r: r[2].update(completion=float("nan")), ("a text as completion", "nan")),
    "a number": (lambda r: r[2].update(completion=4), ("a text as completion", "found 4")),
    "half a character": (lambda r: r[2].update(completion="a\ud800"), ("half a character",)),
    "two models": (_two_models, ("the completions of one model", "m0, m1")),
    "no item": (lambda r: [each.pop("item") for each in r], ("a column for the item or prompt",)),
    "no column": (
        lambda r: [each.pop("completion") for each in r],
        ("a column for the completion", "item, draw"),
    ),
    "nothing": (lambda r: r.clear(), ("at least one completion",)),
    "a turn too many": (
        lambda r: r[1].update(completions=[r[1].pop("completion"), "more"]),
        ("1 transcript of 6 going on too long", "2 completions"),
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_completions_that_are_no_suite_are_refused_with_one_message(name: str, project: Path) -> None:
    _, _, wanted = played("words", "data/words/heldout.jsonl", "hasty", 6, 1)
    rows = plain(wanted)
    spoil, said = SPOILT[name]
    spoil(rows)
    message = refused(few_of("words"), as_jsonl(Path("mine.jsonl"), rows), "--task", "words")
    assert all(word in message for word in said), message
    assert message.count("Fix:") == 1 and message.count("\n") == 1


def test_transcripts_that_end_early_or_met_another_world_are_refused(project: Path) -> None:
    made, plays, wanted = played("collider", HELDOUT, "adaptive", 6, 1)
    rows = transcripts(made, plays, wanted)
    rows[0]["messages"] = rows[0]["messages"][:2]
    early = refused(few_of("collider"), as_jsonl(Path("mine.jsonl"), rows), "--task", "collider")
    assert "1 transcript of 6 ending too early; the first has 1 completion, and it goes on" in early
    other = transcripts(made, plays, wanted)
    message = refused(
        few_of("collider"), as_jsonl(Path("mine.jsonl"), other), "--task", "collider", "--seed", "5"
    )
    assert "what the environment says after turn 1" in message and "--seed" in message


def test_another_encoding_is_refused(project: Path) -> None:
    played("words", "data/words/heldout.jsonl", "hasty", 2, 1)
    Path("mine.csv").write_bytes("item,completion\nword-1,caf\xe9\n".encode("latin-1"))
    assert "UTF-8" in refused(few_of("words"), "mine.csv", "--task", "words")


def test_so_many_items_as_evaluate_chose_can_be_graded(project: Path) -> None:
    stored = read_records(ROOT / "evidence/results/pre_eval/pre_eval.jsonl", Episode, fix="")
    asked = open_project(Path.cwd(), None)
    items, _ = items_of(asked, task_with(asked.root, asked.params, None), Path(HELDOUT))
    chosen = {item.id for item in suite_from(asked, items, Path(HELDOUT), 40, None, 2, "").items}
    few = [each for each in stored if each.item_id in chosen]
    write_jsonl(Path("few_episodes.jsonl"), few)
    assert "944 episodes missing" in refused(HELDOUT, "few_episodes.jsonl")
    assert len(grade(HELDOUT, "few_episodes.jsonl", "--items", "40")[0]) == 80
    assert graded_alike(Path("few_episodes.jsonl").read_bytes())


RECORD: dict[str, Any] = {
    "prompt": "Which?",
    "schema": {"type": "object"},
    "gold": {"item": "lamp", "to": "Oslo"},
}
LAMP = '{"item": "lamp", "to": "Oslo"}'


def records(n: int, record: dict[str, Any]) -> Path:
    """Write a tasks file of so many records."""
    rows = [{**record, "id": f"r{k}", "prompt": f"{record['prompt']} Number {k}."} for k in range(n)]
    return as_jsonl(Path("data/structured/mine.jsonl"), rows)


def told_of(
    tasks: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch, cut: str | None = None
) -> tuple[list[str], Grade]:
    """Grade, and return what was said and written."""
    said: list[str] = []
    monkeypatch.setattr(command, "say", said.append)
    request = command.GradeRequest(task="structured", out=Path("out"), cut=cut)
    command.run(Path.cwd(), tasks, as_jsonl(Path("mine.jsonl"), rows), request)
    return said, read_record(Path("out/grade.json"), Grade, fix="")


def test_right_answers_in_a_wrapping_are_counted_and_the_fix_that_is_printed_grades_them(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = [
        "{}",
        "<think>\nOslo?\n</think>\n\n{}",
        "Oslo?</think>{}",
        "```json\n{}\n```",
        "Sure: {}\nFine?",
    ]
    texts = [text.replace("{}", LAMP) for text in (*around, "<think>I wonder", "<think>x</think>Rome")]
    rows = [
        {"item": f"r{k}", "draw": d, "completion": text} for k in range(4) for d, text in enumerate(texts)
    ]
    said, bare = told_of(records(4, RECORD), rows, monkeypatch)
    assert said[0].startswith("WARNING: 4 of 28 completions are empty; 4 of them are reasoning without an")
    assert said[1].startswith("WARNING: 16 episodes without success are right inside think, fence, prose")
    line = "28 completions: 4 empty (4 reasoning only), unknown how many truncated; 16 episodes right but"
    assert any(each.startswith(line) for each in said)
    option, names = said[1].partition("Fix: ")[2].partition(";")[0].split()
    assert bare.success_rate.value == pytest.approx(4 / 28) and option == "--cut"
    _, cut = told_of(records(4, RECORD), rows, monkeypatch, cut=names)
    assert cut.success_rate.value == pytest.approx(20 / 28) and cut.written.right_but_wrapped == 0
    assert cut.written.cut == ("think", "fence", "prose") and cut.suite_digest != bare.suite_digest
    stored = read_records(Path("out/episodes.jsonl"), Episode, fix="")
    assert {turn.completion for each in stored for turn in each.turns} == set(texts)


def test_a_wrapping_that_is_none_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        AssayError, match=r"(?s)none, or some of channels, think.*found 'thnk'.*--cut think,fence"
    ):
        read_cut("think,thnk")


CALLED = [{"id": "1", "type": "function", "function": {"name": "send", "arguments": '{"item": "lamp"}'}}]
PARTS = [
    {"type": "thinking", "thinking": "?"},
    {"type": "tool_use", "name": "send", "input": {"item": "lamp"}},
]
THOUGHT = {"role": "assistant", "content": None, "reasoning_content": "send it"}
SENDS = '{"name": "send", "arguments": {"item": "lamp"}}'
MESSAGES: dict[str, dict[str, Any]] = {
    "messages": {"messages": [{"role": "assistant", "content": None, "tool_calls": CALLED}]},
    "a message": {"completion": {"role": "assistant", "content": None, "tool_calls": CALLED}},
    "a row": {"completion": None, "tool_calls": CALLED},
    "older": {"completion": [{"role": "assistant", "content": "", "function_call": CALLED[0]["function"]}]},
    "words before": {"messages": [{"role": "assistant", "content": "I will.", "tool_calls": CALLED}]},
    "parts": {"messages": [{"role": "assistant", "content": PARTS}]},
    "thought": {"messages": [THOUGHT]},
    "thought in a row": {"completion": None, "reasoning": "send it"},
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_without_content_is_the_call_or_the_thought_that_it_holds(name: str) -> None:
    answered = read_row("mine.jsonl, line 1", {"item": "r1", **MESSAGES[name]})[1]
    thought = name.startswith("thought")
    assert cut_off(answered.completions[0], ["tool_call"]) == ("" if thought else SENDS)
    assert answered.hidden == thought
    with pytest.raises(AssayError, match="expected a text as completion, found none"):
        read_row("mine.jsonl, line 1", {"item": "r1", "messages": [{"role": "assistant", "content": None}]})


def test_a_gold_that_nobody_can_meet_is_said_with_what_leaves_it_out(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = records(24, {**RECORD, "gold": {"item": "lamp", "to": "Oslo", "domain": ""}})
    answer = '{"item": "lamp", "to": "Oslo", "domain": "trade"}'
    rows = [{"item": f"r{k}", "completion": answer} for k in range(24)]
    said, told = told_of(tasks, rows, monkeypatch)
    (line,) = [line for line in said if "gold.domain" in line]
    assert "says nothing in all 24 records" in line and "24 of 24 episodes fail by that alone" in line
    assert told.success_rate.value == 0.0
    fix, preset = (
        line.partition("Fix: task.")[2].partition(" in the preset")[0],
        Path("configs/task/structured.yaml"),
    )
    preset.write_text(preset.read_text().replace("grade: null", fix))
    said, told = told_of(tasks, rows, monkeypatch)
    assert told.success_rate.value == 1.0 and not any("gold.domain" in line for line in said)


REWARDS: dict[str, tuple[list[tuple[float, bool]], tuple[int, int]]] = {
    # (reward, success) of each episode; failures that are paid, successes that are not
    "agree": ([(1.0, True)] * 5 + [(0.0, False)] * 5, (0, 0)),
    "one in twenty": ([(1.0, True)] * 10 + [(0.0, False)] * 9 + [(1.0, False)], (0, 0)),
    "graded": ([(0.9 + k / 100, True) for k in range(5)] + [(k / 10, False) for k in range(5)], (0, 0)),
    "paid alike": ([(1.0, True)] * 6 + [(1.0, False)] * 3 + [(0.0, False)] * 3, (3, 0)),
    "nothing succeeds": ([(1.0, False)] * 5 + [(0.0, False)] * 5, (5, 0)),
    "nothing succeeds or pays": ([(0.2, False)] * 10, (0, 0)),
    "success unpaid": ([(1.0, True)] * 3 + [(0.0, True)] * 2 + [(0.0, False)] * 5, (0, 2)),
    "upside down": ([(0.0, True)] * 5 + [(1.0, False)] * 5, (5, 5)),
}


@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_that_says_something_else_than_success_is_said(name: str) -> None:
    pairs, odd = REWARDS[name]
    task: Any = SimpleNamespace(reward_range=(0.0, 1.0))
    episodes: Any = [
        SimpleNamespace(item_id=f"r{k}", draw=0, reward=reward, success=success)
        for k, (reward, success) in enumerate(pairs)
    ]
    said = find_disagreement(task, episodes)
    assert bool(said) == (odd != (0, 0))
    for line in said:
        assert f"{odd[0]} failures are paid as successes are, {odd[1]} successes no better" in line


def test_calls_and_refusals_of_openai_are_what_was_said() -> None:
    call = {"type": "function_call", "name": "f", "arguments": '{"a": 1}', "call_id": "c"}
    row = {"custom_id": "1", "response": {"body": {"output": [call]}}}
    _, answer = read_row("a line", documented("a line", row, Columns()))
    assert '"name": "f"' in answer.completions[0] and '"a": 1' in answer.completions[0]
    message = {"role": "assistant", "content": None, "refusal": "I can't."}
    row = {"custom_id": "1", "response": {"body": {"choices": [{"message": message}]}}}
    assert read_row("a line", documented("a line", row, Columns()))[1].completions == ("I can't.",)


def test_no_answer_of_several_to_one_request_is_dropped() -> None:
    row = _openai("1", "7")
    row["response"]["body"]["choices"].append({"message": {"role": "assistant", "content": "8"}})
    with pytest.raises(DataError, match="2 to '1'"):
        documented("a line", row, Columns())
    lines = [("a line", {"item": "1", "draw": k, "completion": text}) for k, text in enumerate("78")]
    assert [each.completions for each in numbered(lines, "a file")[1]] == [("7",), ("8",)]
