"""Each preset trains its own architecture on both tasks, on a CPU, with random weights.

Cut for time: data to 64 records a split, layers to one (Gemma 2: two, one of each kind), hidden units to an
eighth, inner units of the MLP to a sixteenth, the vocabulary to some 2,000 tokens.
`benchmarks/presets.py --shapes` does the same with all but the layers uncut.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, Gemma2ForCausalLM

from assay.checks.doctor import command as doctor
from assay.checks.own_data.advice import FORECASTS
from assay.core.config.composition import Selection, compose, files_of, place_of, preset_values, presets, use
from assay.core.config.reading import parse_params
from assay.core.config.settings import PretrainedBase
from assay.core.decoding import Decoding
from assay.core.errors import ConfigError
from assay.rollout.policy.base import model_files
from assay.rollout.policy.base.model_files import own_code
from assay.rollout.policy.base.pretrained import LICENCES, licence_of
from assay.rollout.policy.engine.engine import Session
from assay.rollout.policy.model import load
from assay.training.logprobs import hidden_states, logits_of
from tests.house import ROOT
from tests.policy.architectures import logprobs_of
from tests.presets.shapes import (
    CONFIGS,
    PAGE,
    SHAPES,
    config_of,
    copy_listed,
    listed,
    two_steps,
    values_of,
    write_base,
)

PARAMETERS = {
    "4090_qwen3": 4_022_468_096,
    "4090_qwen3_8b": 8_190_735_360,
    "4090_llama3": 8_030_261_248,
    "4090_gemma2": 9_241_705_984,
    "4090_mistral": 7_248_023_552,
    "4090_phi4_mini": 3_836_021_760,
    "h100_qwen3": 8_190_735_360,
    **{
        f"{machine}_{name}": count
        for machine in ("cpu", "8gb")
        for name, count in (
            ("smollm2_135m", 134_515_008),
            ("smollm2_360m", 361_821_120),
            ("qwen25", 494_032_768),
            ("qwen3", 596_049_920),
        )
    },
    "12gb_qwen3": 1_720_574_976,
}
PROJECTIONS = (
    "mlp.down_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "self_attn.k_proj",
    "self_attn.o_proj",
    "self_attn.q_proj",
    "self_attn.v_proj",
)
# Phi has the three of attention in one, and so the two of the MLP.
OF_PHI = ("mlp.down_proj", "mlp.gate_up_proj", "self_attn.o_proj", "self_attn.qkv_proj")


@pytest.mark.filterwarnings("ignore")
# What trains on the processor of a laptop trains on 8 GB as the same model.
@pytest.mark.parametrize("preset", [name for name in SHAPES if not name.startswith("8gb_")])
def test_a_preset_trains_saves_loads_again_and_is_measured_on_both_tasks(preset: str) -> None:
    layers = range(SHAPES[preset].layers)
    names = OF_PHI if "phi" in preset else PROJECTIONS
    expected = [f"model.layers.{layer}.{name}" for layer, name in itertools.product(layers, names)]
    with tempfile.TemporaryDirectory() as folder:
        outcomes = list(two_steps(Path(folder), preset, uncut=False))
    four_bit = values_of(preset, "collider")["base"]["quantization"] == "nf4"
    for outcome in outcomes:
        assert [name.removeprefix("base_model.model.") for name in outcome.adapted] == expected
        assert outcome.unmoved == []
        assert len(outcome.four_bit) == (len(expected) if four_bit else 0)
        assert torch.equal(outcome.trained, outcome.reloaded)
        assert outcome.episodes == 4
    assert len(outcomes) == 2


def test_the_page_says_of_each_preset_what_it_sets_and_what_was_forecast() -> None:
    shipped = {name for name in presets(ROOT, "grpo") if not name.startswith(("tiny", "pretrained"))}
    shipped -= {"cpu_smollm2"}  # of which no forecast was made: its weights are in a package
    page, known = PAGE.read_text(), json.loads((ROOT / FORECASTS).read_text())["presets"]
    copied = {name for name in listed() if "-" not in name}
    assert shipped.isdisjoint(copied) and shipped | copied == set(SHAPES)
    assert set(SHAPES) == {name.split(", ")[0] for name in known}
    for name in SHAPES:
        begins = f"| `{name}` |" if name in shipped else f"# {name}: at most "
        (line,) = (line for line in page.split("\n") if line.startswith(begins))
        peaks = [known[f"{name}, {task}"]["peak_gib"] for task in ("collider", "structured")]
        cells = line.strip("| ").split(" | ")
        made_for = known[f"{name}, collider"]["device_gib"]
        assert cells[-1].removeprefix(begins) == "{:.1f} / {:.1f} of {}".format(*peaks, made_for)
        values = parse_params(values_of(name, "structured"))
        assert isinstance(values.base, PretrainedBase)
        model, licence, train = values.base.model.split("/")[1], licence_of(values.base.model), values.train
        if name in shipped:
            rate = f"{train.learning_rate:.0e}".replace("e-0", "e-")
            assert cells[1:-1] == [
                model,
                licence.partition(" Community")[0].partition(" Terms")[0],
                "4 bits" if values.base.quantization else values.base.dtype,
                str(values.generation.batch_size),
                f"{train.items_per_step} × {train.group_size}",
                f"{rate}, {train.lora.r}",
            ]
        else:
            assert licence == "Apache-2.0" or f"{model} ({licence})" in page


def test_the_preset_of_a_package_shows_few_answers_and_plays_against_more_of_the_same() -> None:
    params = parse_params(values_of("cpu_smollm2", "structured"))
    assert isinstance(params.base, PretrainedBase) and params.sft is not None
    assert params.base.sha256 and (params.device, params.threads, params.generation.surface) == (
        "cpu",
        2,
        "json",
    )
    assert params.evaluation.rivals.more_sft > params.sft.steps and "random_reward" in params.claim.controls


@pytest.mark.parametrize("preset", SHAPES)
def test_a_preset_is_pinned_complete_and_counts_the_published_parameters(preset: str) -> None:
    for task in ("collider", "structured"):
        params = parse_params(values_of(preset, task))
        assert isinstance(params.base, PretrainedBase) and len(params.base.revision or "") == 40
        episodes = params.train.items_per_step * params.train.group_size
        assert episodes % params.train.micro_batch_size == 0 and params.train.gradient_checkpointing
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config_of(preset))
    assert sum(each.numel() for each in model.parameters()) == PARAMETERS[preset]


@pytest.mark.parametrize("preset", SHAPES)
def test_the_doctor_says_revision_licence_download_and_memory_of_a_preset(
    preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    copy_listed(tmp_path)
    (tmp_path / "benchmarks/results").mkdir(parents=True)
    shutil.copy(ROOT / FORECASTS, tmp_path / FORECASTS)
    said: list[str] = []
    monkeypatch.setattr(doctor, "say", said.append)
    use(tmp_path, grpo=preset, task="structured", seed=0)
    assert doctor.run(tmp_path) == 1  # there are no data
    base = preset_values(tmp_path, "grpo", preset)["base"]
    told = "\n".join(said)
    for each in (f"{base['model']}, {base['revision']}", LICENCES[base["model"]], "./run hf download"):
        assert each in told
    assert re.search(rf"{preset} as it is shipped: \d+\.\d GiB at most, made for \d+", told)


def test_settings_that_name_code_which_is_in_transformers_are_known_by_their_bytes(tmp_path: Path) -> None:
    """The file of the tests is the published one, byte for byte, so its digest is what the program knows."""
    published = (CONFIGS / "Phi-4-mini-instruct.json").read_bytes()
    (tmp_path / "config.json").write_bytes(published)
    assert b"auto_map" in published and own_code(tmp_path) is None
    (tmp_path / "config.json").write_bytes(published.replace(b"0.75", b"0.74"))
    assert own_code(tmp_path) == "config.json"


def test_a_model_whose_code_is_in_transformers_is_loaded_and_saved_without_naming_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_base(tmp_path, "4090_phi4_mini", ["a b c"], uncut=False)
    settings = json.loads((tmp_path / "config.json").read_text())
    settings["auto_map"] = json.loads((CONFIGS / "Phi-4-mini-instruct.json").read_text())["auto_map"]
    written = json.dumps(settings).encode()
    (tmp_path / "config.json").write_bytes(written)
    monkeypatch.setattr(model_files, "BROUGHT_IN", {hashlib.sha256(written).hexdigest()})
    policy = load(tmp_path, adapter=None, device="cpu", dtype="bfloat16", quantization=None)
    assert type(policy.model).__module__ == "transformers.models.phi3.modeling_phi3"
    policy.model.save_pretrained(tmp_path / "again")
    assert "auto_map" not in json.loads((tmp_path / "again/config.json").read_text())


def test_a_preset_that_starts_from_another_names_the_file_of_a_setting() -> None:
    now = Selection("12gb_qwen3", "structured", 0)
    assert files_of(ROOT, "grpo", "12gb_qwen3") == [
        f"configs/grpo/{name}.yaml" for name in ("_defaults", "pretrained", "8gb_qwen3", "12gb_qwen3")
    ]
    for setting, name in (
        ("base.revision", "12gb_qwen3"),
        ("base.template", "8gb_qwen3"),
        ("claim.controls", "pretrained"),
        ("claim.alpha", "_defaults"),
    ):
        assert place_of(ROOT, setting, now).startswith(f"configs/grpo/{name}.yaml, line ")
    assert preset_values(ROOT, "grpo", "12gb_qwen3").items() <= dict(compose(ROOT, now).values).items()


@pytest.mark.parametrize(
    ("defaults", "expected", "found"),
    [
        ("[b, _self_]", "another preset to start from", "'a', which starts from it"),
        ("[a, _self_]", "another preset to start from", "'a', which starts from it"),
        ("[tinny, _self_]", "another preset to start from", "'tinny'"),
        ("[_self_, tiny]", "[NAME, _self_]", "['_self_', 'tiny']"),
        ("[tiny, tiny_smoke, _self_]", "[NAME, _self_]", "['tiny', 'tiny_smoke', '_self_']"),
        ("tiny", "[NAME, _self_]", "'tiny'"),
        ("", "[NAME, _self_]", "null"),
    ],
)
def test_a_preset_that_starts_from_none_or_from_itself_is_refused_with_its_file(
    tmp_path: Path, defaults: str, expected: str, found: str
) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    for name, text in (("a", defaults), ("b", "[a, _self_]")):
        (tmp_path / f"configs/grpo/{name}.yaml").write_text(f"# @package _global_\ndefaults: {text}\n")
    with pytest.raises(ConfigError) as caught:
        use(tmp_path, grpo="a", task=None, seed=None)
    assert expected in caught.value.expected and caught.value.found == found
    assert caught.value.where in ("configs/grpo/a.yaml, defaults", "configs/grpo/b.yaml, defaults")


def test_a_preset_without_its_first_line_is_refused(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    (tmp_path / "configs/grpo/a.yaml").write_text("defaults: [tiny, _self_]\n")
    with pytest.raises(ConfigError, match=r"configs/grpo/a\.yaml, line 1: expected # @package _global_"):
        use(tmp_path, grpo="a", task=None, seed=None)


def test_the_soft_caps_of_gemma_2_are_the_same_in_play_and_in_the_learning_pass() -> None:
    sizes = {
        "vocab_size": 60,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "initializer_range": 0.6,
        "sliding_window": 6,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 2,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Gemma2ForCausalLM(
            Gemma2Config(**sizes, attn_logit_softcapping=1.0, final_logit_softcapping=2.0)
        ).eval()
    assert model.config._attn_implementation == "eager"  # the fused attention of torch knows no cap
    opening = [5, 6, 7, 8, 9, 10, 11, 12]
    with torch.no_grad():
        (played,) = Session(model, [opening], [1], Decoding(1.0, 12), end_ids=(2,), pad_id=0).complete()
        ids = torch.tensor([[*opening, *played.ids]])
        counted = torch.arange(ids.shape[1])[None] >= len(opening)
        hidden, places = hidden_states(model, ids, torch.ones_like(ids), counted, most=4)
        learned = torch.log_softmax(logits_of(model, hidden), -1).gather(1, ids.flatten()[places][:, None])[
            :, 0
        ]
    plain = logprobs_of(model, ids[0].tolist())[len(opening) - 1 :]
    for other in (torch.tensor(played.logprobs), learned):
        assert float((other - plain).abs().max()) < 1e-5
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        uncapped = Gemma2ForCausalLM(
            Gemma2Config(
                **sizes, **{"attn_logit_softcapping": 1.0, "final_logit_softcapping": 2.0} | {name: None}
            )
        ).eval()
        uncapped.load_state_dict(model.state_dict())
        off = logprobs_of(uncapped, ids[0].tolist())[len(opening) - 1 :]
        assert float((off - plain).abs().max()) > 0.1, (
            f"{name} decides nothing here, so this test would not see it"
        )
