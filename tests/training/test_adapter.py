"""An adapter sits on all the modules that were asked for, or is refused: peft is content with one name that
matches."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from assay.core.config.settings import LoraSettings, Params
from assay.core.errors import ConfigError
from assay.training.adapter import adapter_tensors, attach_adapter
from tests.training.healthy_setup import healthy, healthy_policy

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def targeting(*names: str) -> Params:
    params = healthy().params
    lora = params.train.lora.model_copy(update={"target_modules": list(names)})
    return params.model_copy(update={"train": params.train.model_copy(update={"lora": lora})})


def test_seven_names_and_all_linear_are_the_same_adapter() -> None:
    by_name, by_kind = (
        attach_adapter(healthy_policy(), params) for params in (targeting(*SEVEN), healthy().params)
    )
    assert adapter_tensors(by_name).keys() == adapter_tensors(by_kind).keys()
    assert len(adapter_tensors(by_name)) == 2 * len(SEVEN)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["q_proj", "v_prj"], "no linear module named v_prj"),
        (["proj"], "no linear module named proj"),
        ([".*"], "no linear module named"),
        (["q_proj", "lm_head"], "lm_head, which turns words"),
        (["embed_tokens"], "embed_tokens, which turns words"),
        (["q_proj", "mlp"], "no linear module named mlp"),
        ([""], "no linear module named"),
    ],
)
def test_a_name_that_no_linear_layer_has_is_refused_with_those_there_are(
    names: list[str], found: str
) -> None:
    with pytest.raises(ConfigError, match=found) as caught:
        attach_adapter(healthy_policy(), targeting(*names))
    assert (
        "all-linear, or names among down_proj, gate_proj" in str(caught.value)
        and "lm_head" not in caught.value.fix
    )


def test_no_names_at_all_are_refused_when_the_settings_are_read() -> None:
    with pytest.raises(ValidationError):
        LoraSettings(r=1, alpha=1, dropout=0.0, target_modules=[])
