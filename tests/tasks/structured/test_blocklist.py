"""Blocked terms: the spellings that hit, and the words that only look alike."""

from __future__ import annotations

import json

import pytest

from assay.core.errors import TaskError
from assay.tasks.structured import parse_blocklist
from assay.tasks.structured.reading.blocklist import Blocklist
from tests.tasks.structured.material import GOLD, built, graded, row

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
