"""A pretrained base is fine-tuned on part of the train split before GRPO: the same bytes however often it was
killed, never on what GRPO meets, and further fine-tuning is a rival that has to be beaten."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, LlamaConfig, Qwen3Config

from assay.checks.doctor.preflight import read_ahead
from assay.checks.doctor.weights import lora_findings
from assay.core.config.reading import parse_params
from assay.core.errors import AssayError, ConfigError, PolicyError, TaskError
from assay.core.records import Episode
from assay.core.storage.json import read_record, read_records, write_json
from assay.package.verification.content.training import items_in_order
from assay.package.verification.stated import facts_within_bounds, rivals_told
from assay.package.verification.suites import policies_named
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.heldout_ledger import openings
from assay.pipeline.note_openings import tries
from assay.pipeline.project import Project
from assay.pipeline.rival_files import BaseRivals
from assay.rollout.dataset.suite import parted
from assay.rollout.policy.base import sft, tiny
from assay.rollout.policy.digests import digest_folder
from assay.stages import base, control, fingerprint, package, post_eval, pre_eval, render_evidence, train
from assay.stages.packing.archive import unpack
from assay.verdict.evidence.claim.base_facts import BaseFacts
from assay.verdict.evidence.claim.claim import Claim
from tests import own_data
from tests.house import ROOT
from tests.stages.test_own_base import small
from tests.verification.made_lock import lock

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
LORA = {"r": 2, "alpha": 4, "dropout": 0.5, "target_modules": "all-linear"}
WARM: dict[str, Any] = {
    "share": 0.5,
    "steps": 4,
    "batch_size": 2,
    "learning_rate": 0.01,
    "lora": LORA,
    "keep_every": 2,
    "gates": {"parsed_rate": 0.0, "episodes": 2},
}


def fine_tuned(root: Path, more: int = 0, **changes: Any) -> Project:
    """Return a project whose base is to be fine-tuned, with fingerprinted data."""
    root.mkdir(exist_ok=True)
    own_data.write_data(root)
    values = small(root).params.model_dump(mode="json")
    values["base"]["warm_start"] = WARM | changes
    values["evaluation"]["rivals"] |= {"few_shot": 0, "best_of_n": 0, "constrained": False, "more_sft": more}
    project = Project(root, parse_params(values))
    fingerprint.run(project)
    return project


@pytest.mark.parametrize("lora", [LORA, None], ids=["lora", "all weights"])
def test_a_killed_fine_tuning_ends_in_the_same_bytes_whatever_is_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lora: dict[str, Any] | None
) -> None:
    whole = fine_tuned(tmp_path / "whole", lora=lora)
    base.run(whole)
    facts = read_record(whole.results("base.json"), BaseFacts, fix="")
    assert facts.sft is not None and facts.digest == digest_folder(whole.root / "models/base") != facts.sft.of
    assert len(whole.results("sft.csv").read_text().split()) == 5
    assert facts.called == f"mine + SFT on {facts.sft.rows} rows"

    killed, loss_of = fine_tuned(tmp_path / "killed", lora=lora), tiny._loss

    def dies(at: int) -> Any:
        left = [at]

        def loss(*given: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return loss_of(*given)

        return loss

    for at, spoil in ((3, b""), (1, b"spoilt")):
        monkeypatch.setattr(tiny, "_loss", dies(at))
        with pytest.raises(KeyboardInterrupt):
            base.run(killed)
        (kept,) = killed.root.glob(f".scratch/base/*/{sft.KEPT}")
        kept.write_bytes(kept.read_bytes() + spoil)
    monkeypatch.setattr(tiny, "_loss", dies(4))
    base.run(killed)
    for name in ("base.json", "sft.csv"):
        assert killed.results(name).read_bytes() == whole.results(name).read_bytes()
    assert not list(killed.root.glob(".scratch/base/*/*"))


SHAPE = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "initializer_range": 1.0,
}


@pytest.mark.parametrize("config", [Qwen3Config, LlamaConfig, Gemma2Config])
def test_the_loss_of_every_family_is_that_of_the_models_own_logits_where_an_answer_stands(
    config: Any,
) -> None:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config(**SHAPE))
    batch = [([5, 6, 7, 8, 9], [0, 0, 1, 1, 1]), ([11, 12, 13], [0, 1, 1]), ([3, 4, 5, 6], [0, 1, 0, 1])]
    told = []
    for ids, mask in batch:
        logits = model(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
        told += [-logits[place - 1, ids[place]] for place, counted in enumerate(mask) if counted]
    expected = torch.stack(told).mean()
    assert torch.allclose(tiny._loss(model, batch, 0), expected, atol=1e-5), expected


def test_what_is_shown_and_what_grpo_meets_share_no_cluster_and_are_all_there_is(tmp_path: Path) -> None:
    project = fine_tuned(tmp_path)
    inputs = project.inputs("train")
    shown, met = ({item.id for item in part} for part in (inputs.shown, inputs.train))
    assert shown and met and not shown & met
    assert shown | met == {item.id for item in inputs.items["train"]}
    with pytest.raises(ConfigError, match="both supervised fine-tuning and GRPO"):
        parted(inputs.items["train"][:1], 0.5, 0, 0.5)


REFUSED = [
    ({"share": 0.01, "batch_size": 3}, ConfigError, "at least one batch of lessons"),
    ({"lora": LORA | {"target_modules": ["nothing"]}}, ConfigError, "names of linear modules"),
    ({"gates": {"parsed_rate": 1.0, "episodes": 2}}, PolicyError, "parsed_rate of at least 1"),
    ({"learning_rate": 1e9, "lora": None}, AssayError, "finite"),
]


@pytest.mark.parametrize(("changes", "error", "said"), REFUSED, ids=[said for _, _, said in REFUSED])
def test_what_cannot_be_fine_tuned_is_said_in_one_message(
    tmp_path: Path, changes: dict[str, Any], error: type[AssayError], said: str
) -> None:
    project = fine_tuned(tmp_path, **changes)
    with pytest.raises(error, match=said):
        base.run(project)


def test_a_gate_that_was_too_high_is_lowered_without_learning_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = fine_tuned(tmp_path, gates={"parsed_rate": 1.0, "episodes": 2})
    with pytest.raises(PolicyError, match=r"or lower base\.warm_start\.gates"):
        base.run(project)
    monkeypatch.setattr(tiny, "_loss", lambda *_: pytest.fail("it learns again"))
    base.run(fine_tuned(tmp_path))
    facts = read_record(project.results("base.json"), BaseFacts, fix="")
    assert facts.digest == digest_folder(tmp_path / "models/base")


@pytest.mark.parametrize(
    ("changes", "level", "said"),
    [
        ({"target_modules": ["nothing"]}, "fault", "no linear module named nothing"),
        ({"r": 10_000, "alpha": 10_000}, "warning", "10000: more than full rank"),
    ],
)
def test_an_adapter_of_fine_tuning_is_looked_at_ahead(
    tmp_path: Path, changes: dict[str, Any], level: str, said: str
) -> None:
    project = fine_tuned(tmp_path, lora=LORA | changes)
    policy = read_ahead(project.params, project.inputs("train").task, project.root)
    assert policy is not None
    found = {each.check: each for each in lora_findings(policy.model, project.params)}
    odd = [each for name, each in found.items() if name.endswith("of SFT") and each.level != "ok"]
    assert [each.level for each in odd] == [level] and said in odd[0].found
    assert "base.warm_start.lora" in odd[0].where and found["LoRA rank"].level == "ok"


UNFIT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"warm_start": None}, {"more_sft": 4}, "evaluation.rivals.more_sft"),
    ({"quantization": "nf4"}, {}, "base.quantization: null"),
    ({"dtype": "bfloat16", "warm_start": WARM | {"lora": None}}, {}, "base.warm_start.lora"),
    ({"warm_start": WARM | {"share": 1.0}}, {}, "base.warm_start.share"),
]


@pytest.mark.parametrize(("of_base", "rivals", "said"), UNFIT, ids=[said for _, _, said in UNFIT])
def test_settings_that_leave_nothing_to_fine_tune_are_refused_when_read(
    tmp_path: Path, of_base: dict[str, Any], rivals: dict[str, Any], said: str
) -> None:
    values = small(tmp_path).params.model_dump(mode="json")
    values["base"] |= {"warm_start": WARM} | of_base
    values["evaluation"]["rivals"] |= rivals
    with pytest.raises(ConfigError, match=said.replace(".", r"\.")):
        parse_params(values)


def test_a_task_where_nobody_can_show_anything_is_refused_before_a_weight_is_read(tmp_path: Path) -> None:
    project = fine_tuned(tmp_path)
    items = [
        replace(item, hidden=replace(item.hidden, golds=(), counting=()))
        for item in project.inputs("train").train
    ]
    with pytest.raises(TaskError, match=r"base\.warm_start: null"):
        sft.lessons_of(project.task(), items, "sft", 0)


def test_further_fine_tuning_plays_as_a_rival_of_its_own_and_is_no_try_at_the_records(tmp_path: Path) -> None:
    project = fine_tuned(tmp_path, more=2)
    base.run(project)
    pre_eval.run(project)
    rows = read_records(project.results("rival_more_sft.jsonl"), Episode, fix="")
    played = read_records(project.results("pre_eval.jsonl"), Episode, fix="")
    (policy,), (before,) = ({each.policy for each in some} for some in (rows, played))
    facts = read_record(project.results("rivals.json"), BaseRivals, fix="").rivals
    assert policy != before and list(facts) == ["more_sft"] and facts["more_sft"].used == 2
    plan = json.loads(project.results("claim_plan.json").read_text())["rivals"]
    assert plan["more_sft"] == "trained otherwise"
    suite, ledger = project.inputs("heldout").heldout, openings(project.root)
    assert ledger is not None and not tries(ledger, suite.contents, before, suite.digest)
    pre_eval.run(project)
    assert read_records(project.results("rival_more_sft.jsonl"), Episode, fix="") == rows


@pytest.mark.long
def test_a_fine_tuned_base_goes_through_every_stage_and_claim_and_package_say_so(tmp_path: Path) -> None:
    project = fine_tuned(tmp_path / "project", more=2)
    root = project.root
    for name in ("constraints.txt", "requirements.txt", "pyproject.toml", "LICENSE", "dvc.yaml"):
        shutil.copy(ROOT / name, root)
    values = project.params.model_dump(mode="json")
    values["claim"]["controls"] = ["aa"]
    (root / "params.yaml").write_text(json.dumps(values))
    for code in ("src/assay", "tasks"):
        shutil.copytree(ROOT / code, root / code, ignore=shutil.ignore_patterns("__pycache__"))
    project = Project(root, parse_params(values))
    for stage in (fingerprint, base, pre_eval, train, control, post_eval, render_evidence):
        stage.run(project)
    lock(project)
    package.run(project)
    claim = read_record(project.results("claim.json"), Claim, fix="")
    assert claim.sentence.endswith("rows).") and "this base (mine + SFT on" in claim.sentence
    assert claim.rivals["more_sft"].kind == "trained otherwise" and "base_fine_tuned" in {
        w.code for w in claim.warnings
    }
    manifest = json.loads(project.observed("manifest.json").read_text())
    assert manifest["base_sft"]["train_rows"] == len(project.items("train"))
    unpack(root / "dist/assay-package.tar", tmp_path / "unpacked")
    unpacked = Unpacked(tmp_path / "unpacked")
    assert "SFT on" in (tmp_path / "unpacked/README.md").read_text()
    assert not (tmp_path / "unpacked/models/base").exists()
    for look in (facts_within_bounds, policies_named, items_in_order, rivals_told):
        assert look(unpacked).wrong == [], look
    told = json.loads((tmp_path / "unpacked/evidence/results/base/base.json").read_text())
    told["sft"]["rows"] = told["sft"]["train_rows"]
    write_json(tmp_path / "unpacked/evidence/results/base/base.json", told)
    assert any("the data have" in each for each in facts_within_bounds(Unpacked(tmp_path / "unpacked")).wrong)
