"""What a loaded policy is told and where it ends follow from its folder and from `base.template`."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import PolicyError
from assay.policy.base.adapter_files import Weights, merge
from assay.policy.base.tiny import CHAT_TEMPLATE, END
from assay.policy.model import load
from assay.policy.renderer import SHORT
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
        mark = plain.opening([{"role": "user", "content": " "}])[1]
        assert dialogue.opening(ASKED) == [*plain.opening(ASKED), mark]
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
    told, dialogue = policy.dialogue.opening(ASKED), policy.dialogue
    told.append(0)  # whoever goes on with an opening changes no later one
    assert dialogue.opening(ASKED) == told[:-1] == weights.policy().dialogue.opening(ASKED)
    for ids in ([3], [4], [3], [3, 4] * SHORT, [4, 3] * SHORT):
        assert dialogue.text(ids) == dialogue.text([*ids, dialogue.eos_id]) == policy.tokenizer.decode(ids)


def test_a_message_that_is_no_text_is_refused_in_words(weights: Weights) -> None:
    with pytest.raises(PolicyError):
        weights.policy().dialogue.opening([{"role": "user", "content": ["a"]}])  # type: ignore[dict-item]
