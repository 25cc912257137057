"""A served model is a policy: its episodes are those of any other, asked for once, and its key is nowhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.cli.tools.evaluate import EvaluationRequest, prepare
from assay.core.records import Episode
from assay.rollout.evaluation.replay import graded_again
from assay.verdict.judge.command import JudgeRequest, judge_files
from tests.house import ROOT
from tests.tools.served.material import (
    COLLIDER,
    WORDS,
    by_chance,
    done,
    episodes,
    facts,
    refused,
    starred,
    write_project,
)
from tests.tools.served.stand_in import Body, Handler, StandIn, serving

KEY = "sk-canary-Zq81_secret/value"


pytestmark = pytest.mark.usefixtures("project")


def plain(found: list[Episode]) -> list[tuple[str, int, int, tuple[str, ...]]]:
    return [(e.item_id, e.draw, e.seed, tuple(turn.completion for turn in e.turns)) for e in found]


def test_who_is_always_right_is_measured_so_on_an_own_task(server: StandIn, tmp_path: Path) -> None:
    told = done(server.url, *WORDS, "--items", 12, "--draws", 2, "--out", tmp_path)
    found = episodes(tmp_path)
    assert len(found) == 24 and all(each.success and each.reward == 1.0 for each in found)
    assert all(
        turn.n_tokens == len(turn.completion) and not turn.truncated for e in found for turn in e.turns
    )
    assert len(server.asked) == 24 and len({body["seed"] for _, body in server.asked}) == 24
    assert {(body["temperature"], body["top_p"], body["max_tokens"]) for _, body in server.asked} == {
        (0.7, 1.0, 8)
    }
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["report"]["measures"]["success_rate"]["value"] == 1.0 and report["report"]["n_items"] == 12
    assert "served tiny on data/words/validation.jsonl: 12 items, 2 draws" in told
    assert "cannot be pinned" in told and "all draws of every item are the same text" in told


def test_a_conversation_goes_on_in_messages_and_is_graded_as_the_task_grades(tmp_path: Path) -> None:
    with serving(by_chance) as server:
        done(server.url, *COLLIDER, "--items", 6, "--draws", 2, "--in-flight", 5, "--out", tmp_path)
        assert 1 < server.most_at_once <= 5
    found = episodes(tmp_path)
    assert max(len(each.turns) for each in found) > 1
    asked = EvaluationRequest(Path(COLLIDER[1]), task="collider", items=6, draws=2)
    ready = prepare(Path.cwd(), asked)
    assert graded_again(ready.task, ready.suite, found, "served", rewards=0, metrics=0) == []
    last = max((body["messages"] for _, body in server.asked), key=len)
    told = [turn for each in found for turn in each.turns]
    assert last[1]["content"] in {turn.completion for turn in told}
    assert last[2]["content"] in {turn.observation for turn in told}


def test_episodes_hang_neither_on_how_many_are_asked_at_once_nor_on_what_failed(tmp_path: Path) -> None:
    with serving(by_chance) as server:
        for name, many in (("one", 1), ("many", 16)):
            done(server.url, *COLLIDER, "--items", 5, "--in-flight", many, "--out", tmp_path / name)
    assert episodes(tmp_path / "one") == episodes(tmp_path / "many")


def test_what_nobody_knows_of_a_served_model_is_not_made_up(server: StandIn, tmp_path: Path) -> None:
    done(server.url, *WORDS, "--items", 3, "--out", tmp_path)
    told = facts(tmp_path)
    # The card of a model has when it was made up, which is another each time.
    assert told["identity"]["card"] == {"id": "tiny", "max_model_len": 512}
    assert told["identity"]["answered_as"] == ["tiny-2026 fp_1"]
    assert "127.0.0.1" not in json.dumps(told)
    for each in episodes(tmp_path):
        assert each.policy == told["policy_digest"]
        assert each.turns[0].prompt_digest.startswith("messages:")


def test_another_name_setting_fingerprint_or_card_is_another_policy(server: StandIn, tmp_path: Path) -> None:
    def digest_of(*more: str | Path | int) -> str:
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        done(server.url, *WORDS, "--items", 2, *more, "--out", out)
        return str(facts(out)["policy_digest"])

    found = [digest_of(), digest_of("--temperature", "0.5"), digest_of("--extra", '{"top_k": 5}')]
    assert digest_of() == found[0]
    server.cards[0]["max_model_len"] = 1024
    found.append(digest_of())
    server.spoil = lambda reply: reply | {"system_fingerprint": "fp_2"}
    found.append(digest_of())
    assert len(set(found)) == 5


def test_tokens_and_cost_are_those_that_the_server_counts(server: StandIn, tmp_path: Path) -> None:
    prices = ("--price-in", "2.5", "--price-out", "10")
    told = done(server.url, *WORDS, "--items", 5, "--greedy", *prices, "--out", tmp_path)
    found = facts(tmp_path)
    read = sum(len(body["messages"][0]["content"]) for _, body in server.asked)
    wrote = sum(each.n_tokens for each in episodes(tmp_path))
    assert (found["prompt_tokens"], found["completion_tokens"]) == (read, wrote)
    assert found["cost"] == round((2.5 * read + 10 * wrote) / 1e6, 6)
    assert f"cost {found['cost']:g}" in told


def test_without_counts_of_tokens_nothing_is_said_of_them(server: StandIn, tmp_path: Path) -> None:
    server.spoil = lambda reply: {name: value for name, value in reply.items() if name != "usage"}
    prices = ("--price-in", "1", "--price-out", "1")
    told = done(server.url, *WORDS, "--items", 3, *prices, "--out", tmp_path)
    found, report = facts(tmp_path), json.loads((tmp_path / "report.json").read_text())["report"]
    assert found["without_usage"] == found["answers"] and found["cost"] is found["prompt_tokens"] is None
    assert not [name for name in report["measures"] if "tokens" in name]
    assert "came without counts of tokens" in told and "mean_tokens" not in told


def test_an_answer_cut_at_the_limit_is_truncated(server: StandIn, tmp_path: Path) -> None:
    server.say = lambda body: "x" * 20
    done(server.url, *WORDS, "--items", 2, "--draws", 1, "--out", tmp_path / "said")
    assert facts(tmp_path / "said")["finish_reasons"] == {"length": 2}
    server.spoil = lambda reply: reply | {"choices": [reply["choices"][0] | {"finish_reason": None}]}
    told = done(server.url, *WORDS, "--items", 2, "--draws", 1, "--out", tmp_path / "unsaid")
    assert "none given 2x" in told
    for name in ("said", "unsaid"):
        assert all(turn.truncated for each in episodes(tmp_path / name) for turn in each.turns)


def test_an_answer_without_text_is_an_empty_one_and_said(server: StandIn, tmp_path: Path) -> None:
    message = {"role": "assistant", "content": None, "refusal": "no"}
    choice = {"message": message, "finish_reason": "content_filter"}
    server.spoil = lambda reply: reply | {"choices": [choice]}
    told = done(server.url, *WORDS, "--items", 2, "--draws", 1, "--out", tmp_path)
    assert [each.turns[0].completion for each in episodes(tmp_path)] == ["", ""]
    assert "content_filter 2x" in told


def saying(**message: object) -> Callable[[Body], Body]:
    """Return what makes each answer this message; {} in a text stands for what was to be said."""

    def spoil(reply: Body) -> Body:
        text = reply["choices"][0]["message"]["content"]
        filled = {k: v.replace("{}", text) if isinstance(v, str) else v for k, v in message.items()}
        return reply | {"choices": [{"message": {"role": "assistant", **filled}, "finish_reason": "stop"}]}

    return spoil


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_server_that_keeps_the_answer_as_thought_is_warned_of_first(
    server: StandIn, tmp_path: Path, field: str
) -> None:
    server.spoil = saying(**{"content": None, field: "The star is on {}."})
    told = done(server.url, *WORDS, "--items", 4, "--draws", 2, "--out", tmp_path).splitlines()
    summary = told.index(next(line for line in told if line.startswith("served tiny on")))
    billed = facts(tmp_path)["completion_tokens"]
    warning = (
        f"WARNING: 8 of 8 completions are empty, though {billed} tokens were billed; 8 of them are reasoning"
    )
    assert told[summary - 1].startswith(warning)
    assert any("8 completions: 8 empty (8 reasoning only), 0 truncated" in line for line in told)
    assert not any("same text" in line for line in told)
    report = json.loads((tmp_path / "report.json").read_text())["written"]
    assert (report["empty"], report["only_reasoning"]) == (8, 8)


def test_thought_beside_an_answer_changes_nothing(server: StandIn, tmp_path: Path) -> None:
    server.spoil = saying(content="{}", reasoning_content="The star is on {}.")
    told = done(server.url, *WORDS, "--items", 2, "--draws", 1, "--out", tmp_path)
    assert "0 empty" in told and "WARNING" not in told and all(each.success for each in episodes(tmp_path))


WRAPPED: dict[str, tuple[str, dict[str, object]]] = {
    "think": ("think", {"content": "<think>\nHm, {}?\n</think>\n\n{}"}),
    "fence": ("fence", {"content": "```\n{}\n```"}),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_right_but_wrapped_is_said_and_the_fix_asks_for_nothing_anew(
    server: StandIn, tmp_path: Path, name: str
) -> None:
    names, message = WRAPPED[name]
    server.spoil = saying(**message)
    asked = (*WORDS, "--items", 3, "--draws", 2, "--out", tmp_path)
    told = done(server.url, *asked)
    assert f"6 episodes without success are right inside {names}" in told
    fix = told.partition("Fix: ")[2].partition(";")[0].split()
    again = done(server.url, *asked[:-2], *fix)
    assert len(server.asked) == 6 and "6 answers of an earlier call" in again and "WARNING" not in again
    assert all(each.success for each in episodes(tmp_path)) and f"cut off before grading: {names}" in again


def test_a_call_of_a_tool_is_what_the_model_wrote(server: StandIn, tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    server.spoil = saying(content=None, tool_calls=[call])
    done(server.url, *WORDS, "--items", 1, "--draws", 1, "--out", tmp_path)
    said = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    assert episodes(tmp_path)[0].turns[0].completion == said


def test_a_journal_of_the_time_before_there_was_thought_in_it_is_read(
    server: StandIn, tmp_path: Path
) -> None:
    common = (*WORDS, "--items", 2, "--draws", 1, "--out", tmp_path)
    done(server.url, *common)
    journal = tmp_path / "answers.jsonl"
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    for row in rows:
        del row["answer"]["reasoning"]
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "2 answers of an earlier call" in done(server.url, *common) and len(server.asked) == 2


def test_half_a_pair_of_surrogates_becomes_a_replacement_character(server: StandIn, tmp_path: Path) -> None:
    server.say = lambda body: "a\ud83d"
    done(server.url, *WORDS, "--items", 1, "--draws", 1, "--out", tmp_path)
    assert episodes(tmp_path)[0].turns[0].completion == "a\N{REPLACEMENT CHARACTER}"


def test_the_same_command_again_asks_nothing(server: StandIn, tmp_path: Path) -> None:
    common = (*WORDS, "--items", 4, "--draws", 2, "--out", tmp_path)
    done(server.url, *common)
    first, asked = episodes(tmp_path), len(server.asked)
    told = done(server.url, *common)
    assert "8 answers of an earlier call" in told and "measured:" not in told
    assert episodes(tmp_path) == first and len(server.asked) == asked == 8
    done(server.url, *WORDS, "--items", 4, "--draws", 3, "--out", tmp_path)
    assert len(server.asked) == 12  # the third draws alone
    assert facts(tmp_path)["kept"] == 8


def test_another_server_is_asked_though_its_model_has_the_same_name(server: StandIn, tmp_path: Path) -> None:
    done(server.url, *WORDS, "--items", 2, "--draws", 1, "--out", tmp_path)
    with serving(lambda body: "no") as other:
        done(other.url, *WORDS, "--items", 2, "--draws", 1, "--out", tmp_path)
        assert len(other.asked) == 2


def test_a_kill_costs_no_answer_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    """Killed with SIGKILL four times in the middle; then the episodes of a call that was not."""
    with serving(by_chance) as server:
        common = ["--items", "20", "--draws", "2", "--in-flight", "4"]
        done(server.url, *COLLIDER, *common, "--out", tmp_path / "whole")
        whole, asked = episodes(tmp_path / "whole"), len(server.asked)
        out, journal = tmp_path / "killed", tmp_path / "killed/answers.jsonl"
        words = ["evaluate", "--served", server.url, "--model", "tiny", *COLLIDER, *common, "--out", str(out)]
        server.asked.clear()
        server.delay, kept = 0.02, 0
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        for _ in range(4):
            process = subprocess.Popen(
                [sys.executable, "-m", "assay.cli", *words],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            limit = time.monotonic() + 120
            while not journal.exists() or len(journal.read_bytes().splitlines()) < kept + 12:
                assert process.poll() is None and time.monotonic() < limit
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
            kept = len(journal.read_bytes().splitlines())
        with journal.open("ab") as stream:
            stream.write(b'{"answer":{"completion_tok')  # what a kill may leave of a line
        server.delay = 0.0
        told = done(server.url, *COLLIDER, *common, "--out", out)
        assert "answers of an earlier call" in told and facts(out)["kept"] >= kept - 4
        assert plain(episodes(out)) == plain(whole)
        # Twice is asked at most what was under way at a kill: its answers never came.
        assert asked <= len(server.asked) <= asked + 4 * 4


def test_the_key_is_sent_and_is_nowhere_else(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    server.key = KEY
    monkeypatch.setenv("MY_KEY", KEY)
    # A server that repeats the key in an answer, in an error, and in what it says of itself.
    server.spoil = lambda reply: reply | {"system_fingerprint": f"fp {KEY}"}
    server.cards[0]["owned_by"] = KEY
    server.say = lambda body: KEY
    common = (*WORDS, "--items", 3, "--max-new-tokens", 64, "--key-variable", "MY_KEY", "--out", tmp_path)
    told = done(server.url, *common)
    assert {held["Authorization"] for held in server.headers} == {f"Bearer {KEY}"}
    server.key = "another"
    told += refused(server.url, *common)
    assert "401: Incorrect API key provided: ***" in told
    out, err = capfd.readouterr()
    assert KEY not in told + out + err
    written = [path for folder in (tmp_path, Path.cwd()) for path in folder.rglob("*") if path.is_file()]
    assert len(written) > 5 and not [path for path in written if KEY.encode() in path.read_bytes()]


def test_a_key_that_is_repeated_with_letters_escaped_is_not_shown(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "ab+cd/ef<gh")  # .NET escapes + and <, PHP the slash
    said = rb'{"error": {"message": "no such key: ab\u002Bcd\/ef\u003cgh"}}'
    monkeypatch.setattr(Handler, "do_GET", lambda handler: handler.reply(401, said))
    told = refused(server.url, *WORDS, "--key-variable", "MY_KEY", "--out", tmp_path)
    assert "no such key: ***" in told and "ab+cd" not in told


def test_a_key_is_read_from_no_variable_that_was_not_named(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    done(server.url, *WORDS, "--items", 1, "--draws", 1, "--out", tmp_path / "none")
    monkeypatch.setenv("ASSAY_API_KEY", KEY)
    done(server.url, *WORDS, "--items", 1, "--draws", 1, "--out", tmp_path / "own")
    assert [held.get("Authorization") for held in server.headers] == [None, f"Bearer {KEY}"]


def test_two_served_models_are_judged_like_any_other_results(tmp_path: Path) -> None:
    for name, say in (("before", by_chance), ("after", starred)):
        with serving(say) as server:
            done(server.url, *WORDS, "--items", 30, "--out", tmp_path / name)
    arms = [tmp_path / name / "episodes.jsonl" for name in ("before", "after")]
    claim = judge_files(*arms, JudgeRequest())[2].claim
    assert (
        claim.effect
        and claim.effect.direction == "better"
        and claim.difference is not None
        and (claim.difference.low or 0) > 0
    )
    # The prompts are the same messages, and that is known.
    assert not [text for text in claim.warnings if "prompt" in text]


FAILS_ONCE = """
from assay.core.errors import EnvironmentFailure

failed = []


def once(*given, **beside):
    if not failed:
        failed.append(True)
        raise EnvironmentFailure("busy")
    return _reward(*given, **beside)


_reward, reward = reward, once
"""


@pytest.mark.parametrize("who", ["a served model", "a player"])
def test_an_environment_that_fails_once_is_asked_again(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    monkeypatch.chdir(write_project(tmp_path))
    with Path("tasks/words/task.py").open("a") as code:
        code.write(FAILS_ONCE)
    common = [*WORDS, "--items", "3", "--draws", "1", "--out", str(tmp_path / "out")]
    if who == "a player":
        result = CliRunner().invoke(app, ["evaluate", "--player", "gold", *common])
        assert result.exit_code == 0, (result.output, result.exception)
    else:
        done(server.url, *common)
    assert [each.success for each in episodes(tmp_path / "out")] == [True] * 3


def test_torch_is_not_needed(server: StandIn, tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from assay.cli import main; main()"
    words = [
        "evaluate",
        "--served",
        server.url,
        "--model",
        "tiny",
        *WORDS,
        "--items",
        "2",
        "--out",
        str(tmp_path),
    ]
    subprocess.run(
        [sys.executable, "-c", code, *words],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        check=True,
        capture_output=True,
    )
    assert (
        len(episodes(tmp_path))
        == 2 * prepare(Path.cwd(), EvaluationRequest(Path(WORDS[1]), task="words")).suite.draws
    )
