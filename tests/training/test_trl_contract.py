"""What of TRL, peft and transformers a training relies on, private names included; and its adapter."""

from __future__ import annotations

import inspect

import pytest
from pydantic import ValidationError

from assay.core.config.settings import Params
from assay.core.config.training import LoraSettings
from assay.core.errors import ConfigError
from assay.training.adapter import adapter_tensors, attach_adapter
from tests.training.healthy_setup import healthy, healthy_policy

trl = pytest.importorskip("trl")


def test_rows_pass_through_the_method_we_listen_at() -> None:
    source = inspect.getsource(trl.GRPOTrainer._generate_and_score_completions)
    assert "inputs: list[dict" in source
    assert 'prompts = [x["prompt"] for x in inputs]' in source


def test_the_rollout_function_may_mask_what_the_environment_said() -> None:
    assert 'extra_fields.pop("env_mask", None)' in inspect.getsource(trl.GRPOTrainer._generate)


def test_further_rollout_fields_reach_the_reward_function() -> None:
    source = inspect.getsource(trl.GRPOTrainer._generate_and_score_completions)
    assert "inp[key] = values[i]" in source


def test_no_loss_that_is_asked_for_reads_what_the_tokens_were_drawn_with() -> None:
    scored = inspect.getsource(trl.GRPOTrainer._generate_and_score_completions)
    assert "if sampling_per_token_logps_list is not None:" in scored
    loss = inspect.getsource(trl.GRPOTrainer._compute_loss)
    assert loss.count('inputs.get("sampling_per_token_logps", old_per_token_logps)') == 1
    assert loss.count("if self.off_policy_mask_threshold is not None:") == 2
    assert trl.GRPOConfig(output_dir=".", use_cpu=True, bf16=False).off_policy_mask_threshold is None


def test_the_training_step_has_the_signature_we_override() -> None:
    names = list(inspect.signature(trl.GRPOTrainer.training_step).parameters)
    assert names == ["self", "model", "inputs", "num_items_in_batch"]


def test_log_probabilities_are_asked_for_by_the_method_we_replace() -> None:
    names = list(inspect.signature(trl.GRPOTrainer._get_per_token_logps_and_entropies).parameters)
    assert names[:8] == [
        "self",
        "model",
        "input_ids",
        "attention_mask",
        "logits_to_keep",
        "batch_size",
        "compute_entropy",
        "compute_aux_loss",
    ]
    source = inspect.getsource(trl.GRPOTrainer._compute_loss)
    assert (
        'mask = completion_mask if "tool_mask" not in inputs else completion_mask * inputs["tool_mask"]'
        in source
    )
    assert "per_token_logps, entropies, aux_loss = self._get_per_token_logps_and_entropies(" in source
    assert 'output["tool_mask"] = tool_mask' in inspect.getsource(
        trl.GRPOTrainer._generate_and_score_completions
    )


def test_the_episodes_of_a_step_are_kept_in_equal_parts_until_they_are_used() -> None:
    source = inspect.getsource(trl.GRPOTrainer._prepare_inputs)
    assert "generate_every = self.args.steps_per_generation * self.num_iterations" in source
    assert "if self._step % generate_every == 0 or self._buffered_inputs is None:" in source
    assert "inputs = self._buffered_inputs[self._step % self.args.steps_per_generation]" in source


def test_the_fused_head_looks_up_what_we_put_in_front_of_it_and_how_wide_its_tiles_are() -> None:
    from trl.trainer import utils

    source = inspect.getsource(utils.add_fused_lm_head)
    assert "def _fused_forward(" in source
    assert "backbone_outputs = getattr(self, backbone_attr)(*args, **kwargs)" in source
    assert 'backbone_attr = "base_model"' in source
    assert "lm_head = self.get_output_embeddings()" in source
    assert "labels = shift_labels" in source
    assert "_CHUNKED_LOGPROB_CHUNK_SIZE," in source
    assert utils._CHUNKED_LOGPROB_CHUNK_SIZE <= 32768
    assert "model.forward = types.MethodType(_fused_forward, model)" in source


def test_routers_are_balanced_only_where_the_trainer_says_so() -> None:
    assert "self.aux_loss_enabled = " in inspect.getsource(trl.GRPOTrainer.__init__)


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
