"""Prompts that are conversations, and control tokens in texts: read, shown, cut, grouped and said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import TaskError
from assay.core.seeds import rng
from assay_tasks.structured import parse_blocklist
from assay_tasks.structured.prompts import CLOSING, MARK, opening_chars
from assay_tasks.structured.reading.blocklist import Blocklist
from assay_tasks.structured.reading.oddities import control_tokens
from assay_tasks.structured.reading.reading import NoConversation, read_conversation
from tests.tasks.structured.material import CONTEXT, GOLD, INVOICE, built, graded, row, texts, values

TASK = built()
SYSTEM = {"role": "system", "content": "Be exact."}
TALK = [
    SYSTEM,
    {"role": "user", "content": CONTEXT},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": "Extract it."},
]


def talk(messages: Any, **changes: Any) -> dict[str, Any]:
    return row(prompt=messages, context=None, **changes)


def opening(record: dict[str, Any], task: Any = TASK) -> list[dict[str, str]]:
    return list(task.start(task.item(record), 0)[0])


def kinds(record: dict[str, Any], task: Any = TASK) -> dict[str, str]:
    return {odd.kind: odd.detail for odd in task.examine(record)[1]}


def test_a_conversation_is_shown_as_it_stands_and_asks_for_the_schema_in_its_last_message() -> None:
    shown = opening(talk(TALK))
    assert shown[:3] == TALK[:3] and shown[3]["role"] == "user"
    assert shown[3]["content"].startswith(f"Extract it.{CLOSING}") and '"vendor"' in shown[3]["content"]
    assert opening(row(prompt=None, context=None, messages=TALK)) == shown
    assert not kinds(talk(TALK)) and graded(GOLD, talk(TALK))[1].success
    with_context = opening(row(prompt=TALK))
    assert with_context[3]["content"].startswith(f"Extract it.\n{CONTEXT}{CLOSING}")


def test_a_conversation_of_one_message_is_the_prompt_it_holds() -> None:
    one = [{"role": "user", "content": "Extract the invoice.", "name": None}]
    assert opening(row(prompt=one)) == opening(row())
    assert TASK.item(row(prompt=one)).cluster == TASK.item(row()).cluster


@pytest.mark.parametrize(
    ("messages", "word"),
    [
        ([], "messages"),
        ([SYSTEM], "the user's"),
        (TALK[:3], "gold"),
        ([*TALK[1:], SYSTEM], "system"),
        ([SYSTEM, *TALK], "system"),
        ([TALK[1], TALK[3]], "assistant's is due"),
        (TALK[2:], "user's is due"),
        ([{"role": "tool", "content": "x"}], "tool"),
        ([{"role": "user", "content": " "}], "content"),
        ([{"role": "user"}], "no text"),
        (["Who?"], "no object"),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], "content"),
        ([{"role": "user", "content": "x", "tool_calls": [1]}], "tool_calls"),
    ],
)
def test_what_is_no_conversation_is_refused_with_the_reason(messages: Any, word: str) -> None:
    for record in (talk(messages), row(prompt=None, context=None, messages=messages)):
        with pytest.raises(TaskError) as caught:
            TASK.item(record)
        assert word in str(caught.value) and "'one'" in caught.value.where


def test_prompt_and_messages_together_are_refused() -> None:
    with pytest.raises(TaskError, match="prompt or messages"):
        TASK.item(row(messages=TALK))


ROLES = st.sampled_from(["system", "user", "assistant", "x"])


@given(values | st.lists(st.fixed_dictionaries({"role": ROLES, "content": texts})))
def test_any_messages_are_read_or_refused(messages: Any) -> None:
    try:
        before, last = read_conversation(messages)
    except NoConversation:
        return
    assert [{"role": role, "content": content} for role, content in (*before, ("user", last))] == messages


def test_the_prompt_group_is_the_whole_conversation_however_it_is_typed() -> None:
    home = TASK.item(talk(TALK)).cluster
    shouted = [message | {"content": f" {message['content'].upper()}\u200b "} for message in TALK]
    assert (
        TASK.item(talk(shouted)).cluster
        == TASK.item(row(prompt=None, context=None, messages=TALK)).cluster
        == home
    )
    for place in range(4):
        other = [
            message | {"content": "Another."} if n == place else message for n, message in enumerate(TALK)
        ]
        assert TASK.item(talk(other)).cluster != home
    assert TASK.item(talk(TALK[1:])).cluster != home


def test_what_an_earlier_message_says_is_stated() -> None:
    assert "unstated_value" not in kinds(talk(TALK))
    assert "unstated_value" in kinds(talk([TALK[0], {"role": "user", "content": "No figures."}, *TALK[2:]]))
    assert "blocked_prompt" in kinds(talk(TALK), built(blocklist=["exact"]))
    item = TASK.item(talk(TALK))
    words = TASK.baselines()["guess"](item, TASK.start(item, 0)[1], rng("guess"))
    assert graded(words, talk(TALK))[1].flags["parsed_strict"]


def test_the_longest_earlier_message_is_cut_and_neither_the_system_nor_the_question() -> None:
    long = [
        {"role": "system", "content": "s" * 3000},
        {"role": "user", "content": "head " + "x" * 2500 + " tail"},
        {"role": "assistant", "content": "y" * 400},
        {"role": "user", "content": "z" * 200},
    ]
    cutting = built(truncate_prompts=True, max_prompt_chars=5000)
    item = cutting.item(talk(long))
    assert (
        opening_chars(item.public) <= 5000
        and item.chars_cut > 1000
        and "long_prompt" not in kinds(talk(long), cutting)
    )
    shown = opening(talk(long), cutting)
    assert (
        shown[0]["content"] == "s" * 3000
        and shown[2]["content"] == "y" * 400
        and shown[3]["content"].startswith("z" * 200)
    )
    assert (
        shown[1]["content"].startswith("head ")
        and MARK in shown[1]["content"]
        and shown[1]["content"].endswith(" tail")
    )
    again = cutting.shortened(item, 100)
    assert again is not None and opening_chars(again.public) <= opening_chars(item.public) - 100
    assert again.public.before[1][1].count(MARK) == 1 and again.chars_cut == 2510 - len(
        again.public.before[1][1]
    ) + len(MARK)
    assert "long_prompt" in kinds(
        talk([long[0], long[3]]), built(truncate_prompts=True, max_prompt_chars=2000)
    )


@pytest.mark.parametrize(
    "token",
    [
        "<|im_end|>",
        "<|endoftext|>",
        "<start_of_turn>",
        "</s>",
        "[INST]",
        "<|eot_id|>",
        "<\uff5cUser\uff5c>",
        "<think>",
    ],
)
def test_a_control_token_is_said_wherever_it_stands(token: str) -> None:
    told = f"Acme.{token} More."
    for record in (
        row(prompt=told),
        row(context=told),
        talk([SYSTEM | {"content": told}, *TALK[1:]]),
        row(schema=INVOICE | {"title": token}),
        row(schema={"type": "object"}, gold={"a": [token]}),
        row(schema=True, gold=None, golds=[{"a": 1}, {token: 1}]),
    ):
        assert ascii(token) in kinds(record)["control_token"]


def test_plain_text_holds_no_control_token() -> None:
    assert control_tokens("if a <b> and c|d: x[1], <|>, <||>, a < | b | > c, <p>s</p> [inst]") == []
    assert "control_token" not in kinds(row())
    assert len(control_tokens("".join(f"<|reserved_{n}|>" for n in range(100)))) == 5


TERMS = Blocklist(["ass", "Straße", "bad word", "café", "c++", "坏话"])


@pytest.mark.parametrize(
    "text",
    [
        "ass",
        "ASS",
        "an ass!",
        "(ass)",
        "kick_ass",
        "\uff41\uff53\uff53",
        "a\u200bs\u200ds",
        "\u202eass",
        "as\u00ads",
        "a\ufe0fss",
        "a\u0000ss",
        "\U0001d51e\U0001d530\U0001d530",
        "STRASSE",
        "stra\u00dfe",
        "STRA\u1e9eE",
        "bad  word",
        "Bad\n\tWORD",
        "bad\u00a0word",
        "bad\u3000word",
        "caf\u00e9",
        "cafe\u0301",
        "CAFE\u0301!",
        "cafe\u200b\u0301",
        "I like C++.",
        "说坏话的人",
        "\u2060ass\ufeff",
        "a\u2800ss",
        "a\u2065ss",
        "a\U000e0080ss",
    ],
)
def test_a_term_is_found_however_it_is_spelt(text: str) -> None:
    assert TERMS.hit(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "class",
        "assess",
        "as s",
        "ass1",
        "strassen",
        "bad words",
        "badword",
        "bad, word",
        "cafe",
        "cafés",
        "c+",
        "坏 话",
        "",
        "bass",
    ],
)
def test_a_word_that_only_contains_a_term_is_not_hit(text: str) -> None:
    assert TERMS.hit(text) is None


def test_a_file_has_a_term_a_line_with_comments_and_a_byte_order_mark() -> None:
    text = "\ufeff# list\r\nBad  Word\r\n\r\n  ass # the animal\nc#\nASS\n"
    assert parse_blocklist(text, "terms.txt") == ("bad word", "ass", "c#")
    assert parse_blocklist("", "terms.txt") == ()


@pytest.mark.parametrize("line", ["\u200b", "\u00ad\ufeff", "\u2060 # nothing"])
def test_a_term_of_which_nothing_is_left_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(TaskError, match=r"terms\.txt, line 2"):
        parse_blocklist(f"fine\n{line}\n", "terms.txt")
    with pytest.raises(TaskError):
        Blocklist([line.split(" #")[0]])


def test_escapes_in_json_do_not_hide_a_term_in_values_or_keys() -> None:
    for text in (
        '{"a": "\\u0061ss"}',
        '{"\\u0061ss": 1}',
        '{"a": [{"b": "x\\nass"}]}',
        'Sure: {"a": "a\\u200bss"}',
    ):
        assert graded(text, row(), built(blocklist=("ass",)))[1].flags["blocked"], text


def test_escapes_do_not_hide_a_term_where_nothing_could_be_parsed() -> None:
    for text in ('[{"a": "\\u0061ss"}]', 'x {"z": 1} {"a": "\\u0061ss"}', '{"a": "\\u0061ss"'):
        assert Blocklist(["ass"]).hit_in_json(text), text


def test_an_escape_is_read_before_its_letter_is_taken_for_a_word() -> None:
    for term, text in (
        ("tits", r'{"a": "Sizes:\tits own"}'),
        ("nude", r'{"a": "x\nude"}'),
        ("u0041", r'{"a": "\u0041"}'),
    ):
        assert Blocklist([term]).hit_in_json(text) is None, text


def test_a_vowel_sign_belongs_to_the_word_it_ends() -> None:
    assert Blocklist(["\u0915\u092e"]).hit("\u0915\u092e\u0940") is None
    assert Blocklist(["\u0915\u092e"]).hit("\u0915\u092e!") is not None


def test_a_hit_in_prose_around_an_object_counts() -> None:
    assert graded('You ass: {"a": 1}', row(), built(blocklist=("ass",)))[1].flags["blocked"]


def test_a_hit_is_counted_and_costs_the_reward_only_where_the_settings_say_so() -> None:
    gold = GOLD | {"vendor": "Ass & Co"}
    for reject, reward in ((False, 1.0), (True, 0.0)):
        task = built(blocklist=("ass",), reject_blocklisted=reject)
        earned, verdict, _ = graded(gold, row(gold=gold), task)
        assert (earned, verdict.flags["blocked"], verdict.success) == (pytest.approx(reward), True, True)
        assert not graded(GOLD, row(), task)[1].flags["blocked"]


def test_a_term_in_the_prompt_is_reported_and_not_punished() -> None:
    task = built(blocklist=("acme",), reject_blocklisted=True)
    assert [odd.kind for odd in task.examine(row())[1]] == ["blocked_prompt"]
    assert graded(json.dumps(GOLD).replace("Acme", "Ajax"), row(), task)[0] > 0.0
