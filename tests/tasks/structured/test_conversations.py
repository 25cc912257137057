"""Prompts that are conversations, and control tokens in texts: read, shown, cut, grouped and said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import TaskError
from assay.core.seeds import rng
from assay.tasks.structured.prompts import CLOSING, MARK, opening_chars
from assay.tasks.structured.reading.oddities import control_tokens
from assay.tasks.structured.reading.reading import NoConversation, read_conversation
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
