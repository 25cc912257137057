"""The words of a tiny base read and count tokens exactly as the tokenizer and the dialogue that are built of
them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.policy.base.tiny import build_tokenizer
from assay.policy.base.words import END, Words
from assay.policy.renderer import Dialogue
from assay.tasks.collider.surfaces import compact_vocabulary
from assay.tasks.structured import shop
from assay.verify.folders import _NOTHING_AROUND

VOCABULARIES = {"collider": compact_vocabulary(), "structured": tuple(shop.vocabulary()), "no words": ()}
TEXTS = (
    "rg4",
    "ygb072c9",
    "L9 gb55z041 lb15z031",
    "",
    "??",
    "what no word is",
    "<|user|>rg1",
    "<|unk|>a",
    "é\n",
    '{"colour":"red"}',
)


@pytest.mark.parametrize("task", VOCABULARIES)
def test_a_text_has_the_ids_that_the_tokenizer_gives_it(task: str) -> None:
    words, tokenizer = Words(VOCABULARIES[task]), build_tokenizer(VOCABULARIES[task])
    for text in (*TEXTS, *VOCABULARIES[task][::17], "".join(VOCABULARIES[task][::29])):
        assert words.ids(text) == tokenizer(text, add_special_tokens=False)["input_ids"], text


def test_openings_and_replies_are_those_of_the_dialogue() -> None:
    words, dialogue = Words(compact_vocabulary()), Dialogue(build_tokenizer(compact_vocabulary()))
    asked = [{"role": "user", "content": "L9 gb55z041"}]
    assert words.opening(asked) == dialogue.opening(asked)
    for last in (words.eos_id, words.vocabulary["s"]):
        assert words.reply("L8", last_id=last) == dialogue.reply("L8", last_id=last)
    assert words.end_ids == dialogue.end_ids


@pytest.mark.parametrize("task", VOCABULARIES)
def test_the_file_of_the_tokenizer_is_known_word_by_word(tmp_path: Path, task: str) -> None:
    build_tokenizer(VOCABULARIES[task]).save_pretrained(tmp_path)
    found = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert found.pop("post_processor", None) in (None, _NOTHING_AROUND)
    assert {name: value for name, value in found.items() if value is not None} == Words(
        VOCABULARIES[task]
    ).tokenizer_json()


def test_a_completion_in_pieces_is_read_and_its_end_is_in_none_of_its_tokens() -> None:
    words, tokenizer = Words(("a", "ab", "b", "abab")), build_tokenizer(("a", "ab", "b", "abab"))
    for n, ways in ((1, 1), (2, 1), (3, 2), (4, 1), (5, 0)):
        found = list(words.readings("abab", n))
        assert len(found) == len(set(found)) == ways
        assert all(tokenizer.decode(list(each)) == "abab" for each in found)
    assert next(words.readings("abab", 1)) == tuple(words.ids("abab"))
    assert (
        list(words.readings(f"a{END}", 2)) == [] and not words.can_write("c") and words.can_write("<|user|>a")
    )
