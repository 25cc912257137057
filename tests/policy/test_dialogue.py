"""What a loaded policy is told and where it ends follow from its folder and from `base.template`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.core.errors import PolicyError
from assay.package.verification.folders import _NOTHING_AROUND
from assay.rollout.policy import renderer
from assay.rollout.policy.base.adapter_files import Weights, merge
from assay.rollout.policy.base.tiny import CHAT_TEMPLATE, build_tokenizer
from assay.rollout.policy.base.words import END, Words
from assay.rollout.policy.model import load
from assay.rollout.policy.renderer import SHORT, Dialogue
from assay_tasks.collider.surfaces import compact_vocabulary
from assay_tasks.structured import shop
from tests.policy.adapted import adapted_base

pytestmark = pytest.mark.filterwarnings("ignore")
LOUD = CHAT_TEMPLATE.replace(
    "{{ '<|assistant|>' }}", "{{ '<|assistant|>' }}{% if loud %}{{ ' ' }}{% endif %}"
)
ASKED = [{"role": "user", "content": "a"}]


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    made = adapted_base(tmp_path)
    (made.base / "chat_template.jinja").write_text(LOUD)
    config = made.base / "generation_config.json"
    config.write_text(config.read_text().replace('"eos_token_id": 2', '"eos_token_id": [9, 2, 7]'))
    return made


def test_a_policy_ends_where_its_template_its_tokenizer_or_its_generation_config_says(
    weights: Weights,
) -> None:
    for policy in (weights.policy(), merge(weights)):
        assert policy.dialogue.end_ids == (
            2,
            9,
            7,
        ) and policy.dialogue.eos_id == policy.tokenizer.convert_tokens_to_ids(END)
    (weights.base / "generation_config.json").unlink()
    assert weights.policy().dialogue.end_ids == (2,)
    (weights.base / "generation_config.json").write_text('{"eos_token_id": ["<end>"]}')
    with pytest.raises(PolicyError, match="eos_token_id: expected numbers"):
        weights.policy()


def test_a_setting_of_the_template_reaches_every_prompt_and_goes_with_the_weights(weights: Weights) -> None:
    loud = Weights(weights.base, weights.adapter, "cpu", "float32", None, {"loud": True})
    plain = weights.policy().dialogue
    for dialogue in (loud.policy().dialogue, merge(loud).dialogue, loud.load(loud.base, None, None).dialogue):
        mark = plain.prompt([{"role": "user", "content": " "}])[1]
        assert dialogue.prompt(ASKED) == [*plain.prompt(ASKED), mark]
        assert dialogue.reply("b", last_id=2) == [*plain.reply("b", last_id=2), mark]
    with pytest.raises(PolicyError, match="did you mean loud"):
        load(
            weights.base,
            adapter=None,
            device="cpu",
            dtype="float32",
            quantization=None,
            template={"lout": True},
        )


def test_what_is_remembered_is_given_as_if_it_were_new(weights: Weights) -> None:
    policy = weights.policy()
    told, dialogue = policy.dialogue.prompt(ASKED), policy.dialogue
    told.append(0)  # whoever goes on with an opening changes no later one
    assert dialogue.prompt(ASKED) == told[:-1] == weights.policy().dialogue.prompt(ASKED)
    for ids in ([3], [4], [3], [3, 4] * SHORT, [4, 3] * SHORT):
        assert dialogue.text(ids) == dialogue.text([*ids, dialogue.eos_id]) == policy.tokenizer.decode(ids)


def test_openings_are_remembered_up_to_so_many_characters(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renderer, "MOST_OPENED", 100)
    dialogue = weights.policy().dialogue
    for length in (*range(60), *range(60)):
        asked = [{"role": "user", "content": "g" * length}]
        assert dialogue.prompt(asked) == dialogue._open(asked)
        held = [len(text) for said in dialogue._opened for message in said for _, text in message]
        assert 0 < sum(held) <= 100


def test_a_message_that_is_no_text_is_refused_in_words(weights: Weights) -> None:
    with pytest.raises(PolicyError):
        weights.policy().dialogue.prompt([{"role": "user", "content": ["a"]}])  # type: ignore[dict-item]


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
    assert words.prompt(asked) == dialogue.prompt(asked)
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
