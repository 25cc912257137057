"""What goes wrong at a server, or on the way to it, is waited out where that helps, and else is one message;
what was answered is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path

import pytest

from assay.rollout.policy.served import client
from tests.tools.served.material import WORDS, done, episodes, evaluated, facts, refused
from tests.tools.served.stand_in import Handler, StandIn, dripping, reset, saying, slow, status, torn

FEW = (*WORDS, "--items", 4, "--draws", 1)


@pytest.fixture(autouse=True)
def short_waits(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_S", 0.02)


FAULTS: dict[str, tuple[Callable[[Handler], None], str]] = {
    "429 without a word": (status(429), "429"),
    "429 that says when": (status(429, Retry_After="0"), "429"),
    "500": (status(500), "500"),
    "502 as a page": (lambda handler: handler.reply(502, b"<html>Bad Gateway</html>"), "502"),
    "503": (status(503), "503"),
    "529, overloaded": (status(529), "529"),
    "reset": (reset, "connection"),
    "half an answer": (torn, "connection"),
    "slow": (slow(3), "time-out"),
    "dripping": (dripping, "time-out"),
    "no JSON": (saying(b"{nothing"), "no JSON"),
    "nothing": (saying(b""), "no JSON"),
    "a list": (saying([]), "no answer in it"),
    "deep": (saying(b"[" * 100_000), "no JSON"),
    "no choices": (saying({"choices": []}), "no answer in it"),
    "an error under 200": (saying({"error": {"message": "upstream"}}), "no answer in it"),
    "text that is none": (saying({"choices": [{"message": {"content": 3}}]}), "no answer in it"),
    "tokens below 0": (
        saying({"choices": [{"message": {"content": "a"}}], "usage": {"completion_tokens": -1}}),
        "no answer in it",
    ),
    "too long": (saying(b" " * 5_000_000), "too long"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_passes_is_asked_again_and_counted(server: StandIn, tmp_path: Path, name: str) -> None:
    fault, why = FAULTS[name]
    server.faults.extend([fault, fault])
    limit = 1 if why == "time-out" else 60
    told = done(server.url, *FEW, "--timeout", limit, "--out", tmp_path)
    assert len(episodes(tmp_path)) == 4 and all(each.success for each in episodes(tmp_path))
    assert facts(tmp_path)["asked_again"] == {why: 2} and f"{why} 2x" in told
    assert len(server.asked) == 6


def test_what_does_not_pass_ends_in_one_message_and_keeps_what_was_answered(
    server: StandIn, tmp_path: Path
) -> None:
    common = (*FEW, "--in-flight", 1, "--retries", 2, "--out", tmp_path)
    server.faults.extend(
        [lambda handler: handler.reply(200, _fine())] * 2 + [status(503, "model is loading")] * 3
    )
    said = refused(server.url, *common)
    assert "503: model is loading (3 times)" in said and "is not asked again" in said
    assert server.url in said and not (tmp_path / "episodes.jsonl").exists()
    before = len(server.asked)
    told = done(server.url, *common)
    assert "2 answers of an earlier call" in told and len(server.asked) == before + 2


def _fine() -> dict[str, object]:
    return {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_server_that_says_when_is_left_alone_until_then_by_all(
    server: StandIn, tmp_path: Path, form: str
) -> None:
    def busy(handler: Handler) -> None:
        after = "1" if form == "seconds" else formatdate(time.time() + 2.1, usegmt=True)
        handler.error(429, "busy", {"Retry-After": after})

    server.faults.append(busy)
    done(server.url, *WORDS, "--items", 12, "--draws", 1, "--in-flight", 1, "--out", tmp_path)
    times = [at for at, _ in server.asked]
    assert times[1] - times[0] >= 1.0
    server.asked.clear()
    server.faults.append(status(429, Retry_After="1"))
    server.delay = 0.05
    done(server.url, *WORDS, "--items", 40, "--draws", 1, "--in-flight", 4, "--out", tmp_path / "many")
    gaps = [later - earlier for earlier, later in pairwise(at for at, _ in server.asked)]
    assert max(gaps) >= 0.9  # of all four, none asks meanwhile


def test_a_wait_that_is_too_long_is_the_users_to_decide(server: StandIn, tmp_path: Path) -> None:
    server.faults.append(status(429, "daily limit", Retry_After="86400"))
    said = refused(server.url, *FEW, "--out", tmp_path)
    assert "Retry-After 86400 s (429: daily limit)" in said and "wait as long" in said


REFUSED: dict[str, tuple[Callable[[Handler], None], str]] = {
    "a bad request": (status(400, "max_tokens is not supported"), "400: max_tokens is not supported"),
    "no such model": (status(404, "The model `tiny` does not exist."), "correct --served or --model"),
    "no credit": (
        status(429, "You exceeded your quota", "insufficient_quota"),
        "429: You exceeded your quota",
    ),
    "elsewhere": (status(307, "moved", Location="http://127.0.0.1:9/v1"), "redirects"),
    "a detail, as FastAPI": (lambda handler: handler.reply(422, {"detail": [{"msg": "no"}]}), "422"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_second_try_helps_is_not_tried_again(server: StandIn, tmp_path: Path, name: str) -> None:
    fault, expected = REFUSED[name]
    server.faults.append(fault)
    assert expected in refused(server.url, *FEW, "--in-flight", 1, "--out", tmp_path)
    assert len(server.asked) == 1


def test_answers_under_way_when_another_is_refused_are_kept(server: StandIn, tmp_path: Path) -> None:
    server.faults.append(lambda handler: (time.sleep(0.1), handler.error(400, "no"))[1])
    server.delay = 0.5
    refused(server.url, *FEW, "--in-flight", 4, "--out", tmp_path)
    assert len((tmp_path / "answers.jsonl").read_bytes().splitlines()) == 3


def test_several_in_flight_and_a_limit_a_minute_are_both_kept(server: StandIn, tmp_path: Path) -> None:
    done(server.url, *WORDS, "--items", 10, "--draws", 1, "--requests-per-minute", 600, "--out", tmp_path)
    assert len(server.asked) == 10


def test_another_name_in_answers_is_said_since_it_is_another_policy(server: StandIn, tmp_path: Path) -> None:
    names = iter(["a", "b"])
    server.spoil = lambda reply: reply | {"model": next(names)}
    told = done(server.url, *WORDS, "--items", 2, "--draws", 1, "--out", tmp_path)
    assert "more than one answered" in told and "a fp_1; b fp_1" in told


def test_a_server_that_lists_no_models_is_asked_all_the_same(server: StandIn, tmp_path: Path) -> None:
    server.cards = "none"  # type: ignore[assignment]
    done(server.url, *FEW, "--out", tmp_path / "none")
    assert facts(tmp_path / "none")["identity"]["card"] is None
    server.cards = [{"id": "other"}]
    assert "does not list 'tiny' but other" in done(server.url, *FEW, "--out", tmp_path / "other")


def test_a_server_that_is_not_ready_yet_is_not_pinned_as_one_that_lists_no_models(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "do_GET", lambda handler: handler.error(503, "Loading model"))
    assert "503: Loading model" in refused(server.url, *FEW, "--out", tmp_path) and not server.asked


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_a_url_is_taken_as_people_write_it(server: StandIn, tmp_path: Path, end: str) -> None:
    done(server.url + end, *FEW, "--out", tmp_path)
    assert len(server.asked) == 4


BAD = {
    "no URL": ("localhost:8000", (), "a URL such as"),
    "a password in it": ("http://me:secret@localhost", (), "not shown"),
    "a key in it": ("http://localhost/v1?key=secret", (), "not shown"),
    "nobody there": ("http://127.0.0.1:9", (), "start the server"),
    "extra that is no JSON": ("http://127.0.0.1:9", ("--extra", "{"), "a JSON object"),
    "extra that is ours": ("http://127.0.0.1:9", ("--extra", '{"stream": true}'), "leave stream out"),
    "extra with an option": ("http://127.0.0.1:9", ("--extra", '{"seed": 1}'), "use --seed"),
    "another limit": ("{url}", ("--extra", '{"max_completion_tokens": 9}'), "--max-new-tokens 9"),
    "one price": ("http://127.0.0.1:9", ("--price-in", "1"), "--price-out"),
    "a price below 0": ("http://127.0.0.1:9", ("--price-in", "-1", "--price-out", "1"), "a price"),
    "no time": ("http://127.0.0.1:9", ("--timeout", "0"), "a time above 0"),
    "no key": ("http://127.0.0.1:9", ("--key-variable", "NOT_SET"), "export NOT_SET"),
    "a folder too": ("http://127.0.0.1:9", ("--policy", "models/base"), "leave one of the two out"),
    "a player too": ("http://127.0.0.1:9", ("--player", "constant"), "leave one of the two out"),
    "a batch": ("http://127.0.0.1:9", ("--batch-size", "4"), "--in-flight"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_message(server: StandIn, tmp_path: Path, name: str) -> None:
    url, words, expected = BAD[name]
    said = refused(url.replace("{url}", server.url), *FEW, *words, "--out", tmp_path / "out")
    assert expected in said and "secret" not in said
    assert not server.asked and not (tmp_path / "out").exists()


@pytest.mark.parametrize("key", ["sk secret key with spaces", "secret\u00e9-key-key", "secre"])
def test_a_key_that_cannot_be_sent_is_not_shown(
    server: StandIn, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("ASSAY_API_KEY", key)
    said = refused(server.url, *FEW)
    assert "not shown" in said and key not in said


def test_options_of_a_served_model_want_one() -> None:
    from typer.testing import CliRunner

    from assay.cli import app

    for words in (["--model", "tiny"], ["--in-flight", "3"]):
        result = CliRunner().invoke(app, ["evaluate", *WORDS, "--policy", "models/base", *words])
        assert "beside --served" in str(result.exception)
    result = CliRunner().invoke(app, ["evaluate", *WORDS])
    assert "--policy FOLDER, --player NAME, or --served URL --model NAME" in str(result.exception)


def test_a_journal_that_is_none_is_refused_and_left_as_it_is(server: StandIn, tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"key": "a"}\n')
    said = refused(server.url, *FEW, "--out", tmp_path)
    assert "answers.jsonl, line 1" in said and (tmp_path / "answers.jsonl").read_text() == '{"key": "a"}\n'


def test_a_torn_last_line_is_dropped_and_asked_again(server: StandIn, tmp_path: Path) -> None:
    done(server.url, *FEW, "--out", tmp_path)
    journal = tmp_path / "answers.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-9])
    server.asked.clear()
    done(server.url, *FEW, "--out", tmp_path)
    assert len(server.asked) == 1 and len(journal.read_bytes().splitlines()) == 4


def test_two_processes_do_not_ask_for_the_same_at_once(server: StandIn, tmp_path: Path) -> None:
    from assay.core.storage.locks import hold

    with hold(tmp_path / "answers.lock"):
        result = evaluated(server.url, *FEW, "--out", tmp_path)
    assert type(result.exception).__name__ == "RunningAlready"


def test_waits_grow_and_differ() -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(client, "FIRST_WAIT_S", 1.0)
        waits = [[client.wait_before(again) for _ in range(50)] for again in (1, 2, 3, 7, 500)]
    for found, longest in zip(waits, (1, 2, 4, 60, 60), strict=True):
        assert longest / 2 <= min(found) < max(found) <= longest and len(set(found)) > 40
