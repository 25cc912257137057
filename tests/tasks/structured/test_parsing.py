"""From text to an object: whole, dug out, or not there; strict, and linear whatever the text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.storage.json import MAX_DEPTH, parse_strict
from assay_tasks.structured.grading.parsing import MAX_CHARS, MAX_STARTS, parse
from tests.tasks.structured.material import objects, texts

N = 100_000
SCRAPS = st.lists(
    st.sampled_from(
        [
            "{",
            "}",
            "[",
            "]",
            '"',
            "\\",
            ":",
            ",",
            "1",
            "NaN",
            "-",
            "e9",
            "null",
            "true",
            "```",
            "\n",
            " ",
            "a",
            "\\u",
            "d8",
        ]
    )
    | st.just('{"a":1}'),
    max_size=30,
).map("".join)


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize(
    ("text", "outcome", "value"),
    [
        ('{"a": 1}', "ok", {"a": 1}),
        (' \n{"a": 1}\r\n\t', "ok", {"a": 1}),
        ("{}", "ok", {}),
        (nested(MAX_DEPTH), "ok", json.loads(nested(MAX_DEPTH))),
        ('\ufeff{"a": 1}', "repaired", {"a": 1}),
        ('\u00a0{"a": 1}', "repaired", {"a": 1}),
        ('{"a": 1} {"b": 2}', "repaired", {"a": 1}),
        ('{"a": 1}.', "repaired", {"a": 1}),
        ('[{"a": 1}]', "repaired", {"a": 1}),
        ('"{\\"a\\": 1}"', "failed", None),
        ('Use {x} here: {"a": "}{"}', "repaired", {"a": "}{"}),
        ('{{"a": 1}}', "repaired", {"a": 1}),
        ('{"b": 0}\n```json\n{"a": 1}\n```', "repaired", {"a": 1}),
        ('```\n[1]\n```\n```\n{"a": 1}\n```', "repaired", {"a": 1}),
        ('```json {"a": 1} ```', "repaired", {"a": 1}),
        ('```json\n{"a": 1}', "repaired", {"a": 1}),
        ('{"a": 1, "a": 2}', "failed", None),
        ('{"a": 1, "a": {"b": 2}}', "failed", None),
        ('{"a": NaN}', "failed", None),
        ('{"a": -Infinity}', "failed", None),
        ('{"a": 1e400}', "failed", None),
        ('{"a": ' + "9" * 400 + "}", "failed", None),
        ('{"a": ' + "9" * 5000 + "}", "failed", None),
        ('{"a": "\\ud800"}', "failed", None),
        ('{"\\udc00": 1}', "failed", None),
        ('{"a": "\ud800"}', "failed", None),
        ('{"a": "\\ud83d\\ude00"}', "ok", {"a": "\U0001f600"}),
        ('{"a": "\\\\ud800"}', "ok", {"a": "\\ud800"}),
        (nested(MAX_DEPTH + 1), "failed", None),
        ('{"a": ' + json.dumps("[" * 200) + "}", "ok", {"a": "[" * 200}),
        ("{'a': 1}", "failed", None),
        ('{"a": 1,}', "failed", None),
        ('{"a": 01}', "failed", None),
        ('{"a": "\t"}', "failed", None),
        ('{"a": 1', "failed", None),
        ("", "failed", None),
        (" \n", "failed", None),
        ("null", "failed", None),
        ("3", "failed", None),
        ("The total is 12.", "failed", None),
    ],
)
def test_a_completion_is_read_as_what_it_is(text: str, outcome: str, value: Any) -> None:
    parsed = parse(text)
    assert (parsed.outcome, parsed.value) == (outcome, value)
    assert (parsed.reason is not None) == (outcome == "failed")


@pytest.mark.parametrize(
    "text",
    [
        "[" * N,
        "{" * N,
        '{"a":' * (N // 5),
        '[{"' * (N // 3),
        '{"' * (N // 2),
        "`" * N,
        "```\n" * (N // 4),
        "```json\n{" * (N // 9),
        '"' * N,
        '\\"' * (N // 2),
        "{}" * (N // 2),
        '{"a":1,"a":1}' * (N // 13),
        "{" + "[1," * (N // 3),
        "a" * (MAX_CHARS + 1),
        '{"a":[' + "{" * (MAX_STARTS * 2) + "1," * (N // 2),
        '{"' + "a" * N,
    ],
)
def test_a_hundred_thousand_characters_of_nothing_are_read_at_once(text: str) -> None:
    assert parse(text).outcome in ("failed", "repaired")


@given(st.text() | SCRAPS)
def test_no_text_raises_and_what_is_dug_out_stands_in_it(text: str) -> None:
    parsed = parse(text)
    if parsed.outcome == "failed":
        assert parsed.value is None and parsed.reason
    else:
        assert isinstance(parsed.value, dict) and "{" in text and "}" in text


@given(objects, texts.filter(lambda text: not set(text) & set('{}"`[')))
def test_an_object_is_read_whole_or_dug_out_of_talk(value: dict[str, Any], talk: str) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        assert parse(text).value == value and parse(text).outcome == "ok"
        assert parse(f"Well {talk}: {text} {talk}.").value == value


@given(st.text() | SCRAPS)
def test_the_strict_reader_agrees_with_pythons_where_it_reads_at_all(text: str) -> None:
    try:
        value = parse_strict(text, max_chars=1000, max_depth=8)
    except ValueError:
        return
    assert json.loads(text) == value
