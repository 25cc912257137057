"""What a package may hold: names from one table, settings that follow, tokens that can be counted, rows of
who is named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from assay.core.evidence_files import place_of
from assay.core.storage.yaml import read_yaml
from assay.package.verification import code, folders, suites
from assay.package.verification.checks import Check, LookResult, looked
from assay.package.verification.content import training, weights
from assay.package.verification.levels import all_levels, consistent, settings
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.dvc_lock import folder_md5
from assay.stages.packing.layout import BASE_FILES, strangers
from tests.house import ROOT
from tests.verification.test_consistency import Tamper, edit, lines

ADAPTER, CONFIG = "models/adapter/adapter_model.safetensors", "models/adapter/adapter_config.json"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("models/base/modeling_x.py", "code"),
        ("models/adapter/layer.py", "code"),
        ("models/base/kernel.so", "code"),
        ("models/base/.hidden", "hidden"),
        ("data/x/.cache/y.json", "hidden"),
        (".env", "hidden"),
        ("models/base/README.md", "no digest"),
        ("models/README.md", "no digest"),
        ("models/adapter/optimizer.pt", "loaded"),
        ("models/base/vocab.json", "none of what"),
        ("models/base/LICENSE", "none of what"),
        ("data/x/load.py", "code"),
        ("models/base/model-00001-of-00002.safetensors", "none of what"),
        ("conftest.py", "code"),
        ("src/assay/x.so", "code"),
        ("evidence/results/control/more.json", "no place"),
        ("evidence/results/report/figures/more/x.svg", "no place"),
        ("evidence/results/recipe.json", "no place"),
        ("models/base/original/params.json", "none of what"),
    ],
)
def test_a_name_that_is_in_no_package_is_refused_with_its_reason(name: str, why: str) -> None:
    (said,) = strangers([name], data="data/x", scratch=True)
    assert said.startswith(f"{name}: ") and why in said


def test_names_of_ones_own_data_are_no_strangers_and_a_pretrained_base_is() -> None:
    own = [
        "data/mine/train.jsonl",
        "data/mine/SHA256SUMS",
        "data/mine/schemas/täglich neu.json",
        "data/mine/terms.txt",
    ]
    assert list(strangers(own, data="data/mine", scratch=False)) == []
    packed = [f"models/base/{name}" for name in BASE_FILES]
    assert list(strangers(packed, data="data/mine", scratch=True)) == []
    assert len(list(strangers(packed, data="data/mine", scratch=False))) == len(packed)


def with_value(name: str, **values: Any) -> Tamper:
    def tamper(root: Path) -> None:
        path = root / name
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")

    return tamper


SET = {
    CONFIG: [
        {"use_rslora": True},
        {"use_dora": True},
        {"lora_alpha": 64},
        {"r": 4},
        {"alpha_pattern": {"q_proj": 1}},
        {"bias": "all"},
        {"rank_pattern": {"q_proj": 1}},
        {"fan_in_fan_out": True},
        {"modules_to_save": ["lm_head"]},
        {"task_type": None},
        {"layer_replication": [[0, 1]]},
        {"init_lora_weights": "pissa"},
        {"target_modules": "q.*"},
        {"boost": 2},
        {"boost": 0},
        {"auto_mapping": {"parent_library": "x"}},
        {"peft_type": "LOHA"},
        {"lora_dropout": 0.5},
        {"peft_version": "newest"},
    ],
    "models/base/config.json": [
        {"auto_map": {"AutoModel": "x.X"}},
        {"text_config": {"auto_map": {"AutoModel": "x.X"}}},
        {"trust_remote_code": True},
        {"quantization_config": {"quant_method": "x"}},
        {"rms_norm_eps": 1e-3},
        {"num_attention_heads": 1},
        {"vocab_size": 5},
        {"tie_word_embeddings": False},
        {"architectures": ["LlamaForCausalLM"]},
    ],
    "models/base/generation_config.json": [
        {"repetition_penalty": 1.1},
        {"eos_token_id": [2, 3]},
        {"suppress_tokens": [1]},
    ],
    "models/base/tokenizer_config.json": [
        {"auto_map": {"AutoTokenizer": ["x.X", None]}},
        {"chat_template": "{{ 1 }}"},
    ],
    "models/base/tokenizer.json": [
        {"normalizer": {"type": "Lowercase"}},
        {"added_tokens": []},
        {"truncation": {"max_length": 9}},
    ],
}


@pytest.mark.parametrize("name", SET)
def test_a_setting_of_a_model_that_does_not_follow_is_named(unpacked: Path, name: str) -> None:
    assert not folders.model_settings(Unpacked(unpacked)).wrong
    whole = (unpacked / name).read_bytes()
    for values in SET[name]:
        with_value(name, **values)(unpacked)
        wrong = folders.model_settings(Unpacked(unpacked)).wrong
        assert wrong and all(each.startswith(name) for each in wrong), values
        (unpacked / name).write_bytes(whole)


def test_another_chat_template_is_found(unpacked: Path) -> None:
    path = unpacked / "models/base/chat_template.jinja"
    path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert folders.model_settings(Unpacked(unpacked)).wrong


def arrays(change: Callable[[str, Any], Any], name: str = ADAPTER) -> Tamper:
    def tamper(root: Path) -> None:
        found = {
            key: np.asarray(change(key, array), np.float32)
            for key, array in load((root / name).read_bytes()).items()
        }
        (root / name).write_bytes(save(found, metadata={"format": "pt"}))

    return tamper


def zeroed(side: str) -> Tamper:
    return arrays(lambda key, array: 0 * array if side in key else array)


def balanced(root: Path) -> None:
    """Make A and B that are not 0 and whose product is."""
    found = {key: array.copy() for key, array in load((root / ADAPTER).read_bytes()).items()}
    for key in [each for each in found if "lora_A" in each]:
        a, b = found[key], found[key.replace("lora_A", "lora_B")]
        a[1], b[:, 1] = a[0], -b[:, 0]
    (root / ADAPTER).write_bytes(save(found, metadata={"format": "pt"}))


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (zeroed("lora_"), "A is 0"),
        (zeroed("lora_A"), "A is 0"),
        (zeroed("lora_B"), "adds nothing"),
        (balanced, "adds nothing"),
        (zeroed("q_proj.lora_B"), "adds nothing"),
        (arrays(lambda key, array: 500 * array), "reaches"),
        (arrays(lambda key, array: -array), "of train_log.jsonl made"),
    ],
)
def test_an_adapter_that_did_not_learn_or_learned_too_much_is_found(
    unpacked: Path, tamper: Tamper, said: str
) -> None:
    assert not weights.adapter_learned(Unpacked(unpacked)).wrong
    tamper(unpacked)
    wrong = " ".join(weights.adapter_learned(Unpacked(unpacked)).wrong)
    assert said in wrong and "of train_log.jsonl made" in wrong


def test_an_adapter_of_step_0_adds_nothing_and_is_called_so(unpacked: Path) -> None:
    edit(place_of("train.json"), '"chosen_step": \\d+', '"chosen_step": 0')(unpacked)
    assert any("at step 0" in each for each in weights.adapter_learned(Unpacked(unpacked)).wrong)
    zeroed("lora_B")(unpacked)
    seen = weights.adapter_learned(Unpacked(unpacked))
    assert not seen.wrong and "adds nothing" in seen.said


def test_an_array_more_in_the_base_is_found(unpacked: Path) -> None:
    path = unpacked / "models/base/model.safetensors"
    path.write_bytes(
        save(
            load(path.read_bytes()) | {"lm_head.weight": np.ones((1, 1), np.float32)},
            metadata={"format": "pt"},
        )
    )
    assert any("lm_head" in each for each in weights.weights_sane(Unpacked(unpacked)).wrong)


@pytest.mark.parametrize(
    "tamper",
    [
        edit(place_of("post_eval.jsonl"), '"n_tokens":3', '"n_tokens":4'),
        edit(place_of("pre_eval.jsonl"), '"truncated":false', '"truncated":true'),
        edit(place_of("control_eval.jsonl"), '"prompt_digest":"\\w{16}', '"prompt_digest":"' + "0" * 16),
        edit(place_of("validation.jsonl"), '"n_tokens":\\d', '"n_tokens":8'),
        edit(place_of("post_eval_greedy.jsonl"), '"prompt_chars_cut":0', '"prompt_chars_cut":2'),
    ],
)
def test_a_prompt_or_a_number_of_tokens_that_does_not_follow_is_found(unpacked: Path, tamper: Tamper) -> None:
    assert not suites.tokens_counted(Unpacked(unpacked)).wrong
    tamper(unpacked)
    assert suites.tokens_counted(Unpacked(unpacked)).wrong


def rows_in(root: Path, name: str) -> list[Any]:
    return [json.loads(line) for line in (root / place_of(name)).read_text(encoding="utf-8").split("\n")[:-1]]


@pytest.mark.parametrize(("source", "target"), [("pre_eval", "control_eval"), ("pre_eval", "post_eval")])
def test_rows_of_another_arm_are_found_by_the_policy_they_name_or_by_their_texts(
    unpacked: Path, source: str, target: str
) -> None:
    def looks() -> list[LookResult]:
        return [look(Unpacked(unpacked)) for look in (suites.policies_named, suites.arms_apart)]

    assert not any(seen.wrong for seen in looks())
    policy, others = rows_in(unpacked, f"{target}.jsonl")[0]["policy"], rows_in(unpacked, f"{source}.jsonl")
    lines(f"{target}.jsonl", lambda _: [json.dumps(row) for row in others])(unpacked)
    assert "of another policy" in looks()[0].wrong[0]
    lines(f"{target}.jsonl", lambda _: [json.dumps(row | {"policy": policy}) for row in others])(unpacked)
    # What the scripted stand-ins of a made run write is often the same, so a third arm is put far from the
    # base by hand.
    third = "post_eval" if target != "post_eval" else "control_eval"
    edit(place_of(f"{third}.jsonl"), '"completion":"', '"completion":"s', count=0)(unpacked)
    named, apart = looks()
    assert not named.wrong and f"{target}.jsonl: the texts of every item" in apart.wrong[0]


def test_a_validation_of_other_weights_than_its_step_is_found(unpacked: Path) -> None:
    def exchanged(found: list[str]) -> list[str]:
        rows = [json.loads(line) for line in found]
        one, other = ([row for row in rows if row["step"] == step] for step in (2, 4))
        for a, b in zip(one, other, strict=True):
            a["episode"], b["episode"] = b["episode"], a["episode"]
        return [json.dumps(row) for row in rows]

    lines("validation.jsonl", exchanged)(unpacked)
    assert "validation.jsonl, step 2" in suites.policies_named(Unpacked(unpacked)).wrong[0]


def test_other_thresholds_than_those_of_the_plan_are_found_though_every_alarm_follows_from_them(
    unpacked: Path,
) -> None:
    edit("params.yaml", "(?s)kl:\n    amber: [\\d.]+", "kl:\n    amber: 0.999")(unpacked)
    package = Unpacked(unpacked)
    assert any("thresholds of the plan" in each for each in training.alarms_ring_again(package).wrong)
    assert any("other alarms" in each for each in training.plan_precedes(package).wrong)


def test_an_emptied_log_of_alarms_is_found(unpacked: Path) -> None:
    (unpacked / place_of("health.jsonl")).write_bytes(b"")
    assert any("empty" in each for each in training.alarms_ring_again(Unpacked(unpacked)).wrong)


def test_how_accidents_are_met_is_no_part_of_the_plan(unpacked: Path) -> None:
    edit("params.yaml", "on_non_finite: \\w+", "on_non_finite: rollback")(unpacked)
    assert not training.plan_precedes(Unpacked(unpacked)).wrong


def test_settings_that_point_out_of_the_package_are_refused_before_anything_is_read(unpacked: Path) -> None:
    for root in ("/etc", "../..", "data/../../.."):
        edit("params.yaml", "  root: .*", f"  root: {root}")(unpacked)
        checks: list[Check] = [
            *settings(Unpacked(unpacked), other_code=True),
            *consistent(Unpacked(unpacked)),
        ]
        told = next(check for check in checks if check.name == "settings")
        assert told.outcome == "failed"
        assert "dataset.root" in told.found


def test_other_code_is_accepted_only_when_asked_and_never_called_checked(unpacked: Path) -> None:
    lock = unpacked / "dvc.lock"
    text = re.sub(r"(path: src/assay/core\n +hash: md5\n +md5: )\w{6}", r"\g<1>000000", lock.read_text())
    assert text != lock.read_text()
    lock.write_text(text)
    found = looked("V3", "code", lambda: code.code_equal(Unpacked(unpacked), other_code=True))
    assert (found.outcome, found.left) == ("not checked", ("src/assay",))
    assert "differ from those that check here" in found.found


def test_a_requirement_that_is_another_is_named_also_where_one_is_not_here(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def names(*, other_code: bool) -> tuple[str, tuple[str, ...]]:
        package = Unpacked(unpacked)
        found = looked("V3", "", lambda: code.requirements_equal(package, other_code=other_code))
        assert (found.outcome == "failed") == ("Fix: " in found.found)
        return found.outcome, found.left

    here = {name: ROOT / name for name in code.BESIDE}
    assert names(other_code=False) == ("passed", ())
    monkeypatch.setattr(code, "beside", (here | {"LICENSE": None}).get)
    assert names(other_code=False) == ("not checked", ("LICENSE",))
    edit("requirements.txt", r"\Z", "evil==1.0\n")(unpacked)
    assert names(other_code=False) == ("failed", ())
    assert names(other_code=True) == ("not checked", ("requirements.txt", "LICENSE"))


def test_the_md5_of_a_folder_is_the_one_that_dvc_takes() -> None:
    stages = read_yaml(ROOT / "dvc.lock", fix="")["stages"]
    entry = next(each for each in stages["fingerprint"]["deps"] if each["path"].startswith("data/"))
    folder = ROOT / entry["path"]
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert folder_md5(files) == (entry["md5"], entry["size"])


@pytest.mark.parametrize("kind", ["constant", "constant_with_warmup", "linear", "cosine"])
def test_learning_rates_are_those_of_the_library(pristine: Path, kind: str) -> None:
    import torch
    from transformers import get_scheduler

    asked = {"lr_scheduler": kind, "warmup_steps": 7, "steps": 40, "learning_rate": 0.003}
    settings_of = Unpacked(pristine).project.params.train.model_copy(update=asked)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.003)
    schedule, rates = get_scheduler(kind, optimizer, num_warmup_steps=7, num_training_steps=40), []
    for _ in range(40):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert training.learning_rates(settings_of) == pytest.approx(rates, abs=1e-15)


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("steps: 6", "steps: 1000000000000", "train.steps"),
        ("  items: 20\n  draws: 2", "  items: 20\n  draws: 1000000000", "evaluation.draws"),
        ("  items: 12\n  draws: 2", "  items: 12\n  draws: 1000000000", "validation.draws"),
    ],
)
def test_settings_that_ask_for_years_of_work_are_refused_before_any_is_done(
    unpacked: Path, tmp_path: Path, old: str, new: str, name: str
) -> None:
    text = (unpacked / "params.yaml").read_text(encoding="utf-8")
    assert old in text
    (unpacked / "params.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    (tmp_path / "work").mkdir()
    found = list(all_levels(unpacked, tmp_path / "work"))
    settings, *rest = (each for each in found if each.name not in ("code", "requirements"))
    assert (settings.name, settings.outcome) == ("settings", "failed") and name in settings.found
    assert [(each.name, each.outcome) for each in rest] == [("all else", "not checked")] * 3
