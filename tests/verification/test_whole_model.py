"""A whole model that was made elsewhere: merged, or another one; taken, judged, packed and checked; and what
is refused of it."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from assay.cli import config
from assay.cli.tools.sweep.sources import open_source
from assay.core.errors import AssayError
from assay.core.records import Episode
from assay.core.storage.json import read_record, read_records, write_json
from assay.package.checking import VerifyRequest, verified
from assay.package.verification.checks import Check
from assay.package.verification.levels import all_levels
from assay.package.verification.rerun.regenerated import regenerated
from assay.pipeline.external import brought_digest, take
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.rollout.dataset.external import ExternalFacts
from assay.rollout.evaluation.measures import mean_of
from assay.rollout.policy.digests import digest_folder
from assay.stages import package
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import unpack
from assay.verdict.evidence.claim.claim import Claim
from tests.verification.external_run import settings
from tests.verification.made_lock import lock
from tests.verification.made_run import copied, looked_without_drawing
from tests.verification.whole_run import ADAPTER, WHOLE, adapted, judged, played, saved, small_project

pytestmark = pytest.mark.filterwarnings("ignore")  # of peft and transformers


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A measured base, and beside it an adapter and the model that it merges into."""
    root = tmp_path_factory.mktemp("whole") / "run"
    root.mkdir()
    project = small_project(root)
    model = adapted(project)
    saved(project, model.merge_and_unload())
    return root


@pytest.fixture
def copy(ready: Path, tmp_path: Path) -> Path:
    """A copy of that but for the code, most of its files, to do with as a test likes."""
    return copied(ready, tmp_path / "copy")


@pytest.fixture(scope="module")
def merged(ready: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A finished run whose trained policy is the merged model, packed."""
    root = shutil.copytree(ready, tmp_path_factory.mktemp("whole") / "merged", symlinks=True)
    return _packed(judged(Project.open(root), WHOLE))


@pytest.fixture(scope="module")
def alone(merged: Project) -> dict[tuple[str, str], Check]:
    """What its package says of itself, one batch played again, to who has the package alone."""
    return _checked(merged, regenerate=1)


def _packed(project: Project) -> Project:
    lock(project)
    package.run(project)
    return project


def _checked(project: Project, **asked: Any) -> dict[tuple[str, str], Check]:
    told = VerifyRequest(processes=1, task_code=project.root / "tasks/words", **asked)
    tar = project.root / "dist/assay-package.tar"
    return {(each.level, each.name): each for each in verified(tar, plain.check(tar), told)}


def _failed(found: dict[tuple[str, str], Check]) -> list[str]:
    return [f"{each.level} {each.name}: {each.found}" for each in found.values() if each.outcome == "failed"]


def _episodes(project: Project, name: str = "post_eval") -> list[Episode]:
    return read_records(project.results(f"{name}.jsonl"), Episode, fix="")


@pytest.mark.long
def test_a_merged_model_plays_as_base_and_adapter_do(merged: Project, copy: Path) -> None:
    apart = played(Project.open(copy), ADAPTER)
    one, other = _episodes(merged), _episodes(apart)
    texts = [[turn.completion for each in run for turn in each.turns] for run in (one, other)]
    same = sum(a == b for a, b in zip(*texts, strict=True))
    assert same >= 0.9 * len(texts[0])  # sums are rounded otherwise, so that a token may tip once in a while
    assert mean_of(one, "success_rate") == pytest.approx(mean_of(other, "success_rate"), abs=0.15)
    assert one[0].policy != other[0].policy


def test_the_claim_says_that_a_whole_model_was_brought(merged: Project) -> None:
    claim = read_record(merged.results("claim.json"), Claim, fix="")
    assert claim.verdict != "NOT EVALUABLE"
    said = "\n".join(map(str, claim.warnings))
    assert "nothing shows that it was trained from this base" in said
    assert "tokenizer is not" not in said and "chat template renders" not in said
    facts = read_record(merged.results("train.json"), ExternalFacts, fix="")
    assert facts.policy_digest == facts.sha256 == digest_folder(merged.root / WHOLE)


def test_its_package_holds_no_weights_of_it_and_passes_every_check(
    merged: Project, alone: dict[tuple[str, str], Check]
) -> None:
    assert not _failed(alone)
    assert "not in the package: models/adapter" in alone["V3", "dvc.lock"].found
    with tarfile.open(merged.root / "dist/assay-package.tar") as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
        card = tar.extractfile("assay-package/README.md")
        assert card is not None and "Whole model for the task" in card.read().decode()
    assert not [name for name in names if name.startswith("models/adapter") or name == "parity.json"]


@pytest.mark.long
def test_it_is_played_again_by_who_has_it_and_by_nobody_else(
    merged: Project, alone: dict[tuple[str, str], Check], tmp_path: Path, figures_of: Callable[[Path], None]
) -> None:
    figures_of(merged.root)  # they were drawn again for who has the package alone
    assert alone["V4", "whole model"].outcome == "not checked" and not _failed(alone)
    assert ("V4", "play post_eval again") not in alone and ("V4", "play pre_eval again") in alone
    given = _checked(merged, regenerate=1, policy=merged.root / WHOLE)
    assert given["V4", "play post_eval again"].outcome == "passed" and not _failed(given)
    seen = regenerated(merged, batches=1, key="a word", policy=merged.root / "models/base")
    assert {each.name: each.outcome for each in seen}["whole model"] == "failed"
    lied = shutil.copytree(merged.root, tmp_path / "lied", symlinks=True)
    _told(lied, parameters=7_000_000_000)
    seen = regenerated(Project.open(lied), batches=1, key="a word", policy=merged.root / WHOLE)
    assert "not what train.json says" in "".join(each.found for each in seen if each.outcome == "failed")


def _of_another_kind(project: Project) -> None:
    """Write a Llama of another size, with a word and a template of its own."""
    words = json.loads((project.root / "models/base/tokenizer.json").read_text())
    config = json.loads((project.root / "models/base/config.json").read_text())
    torch.manual_seed(1)
    shape = LlamaConfig(
        vocab_size=config["vocab_size"] + 1,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=config["max_position_embeddings"],
        eos_token_id=config["eos_token_id"],
        pad_token_id=config["pad_token_id"],
        bos_token_id=None,
    )
    folder = saved(project, LlamaForCausalLM(shape), max_shard_size="20KB")
    words["model"]["vocab"]["<more>"] = config["vocab_size"]
    (folder / "tokenizer.json").write_text(json.dumps(words))
    template = folder / "chat_template.jinja"
    head = "{% for message in messages %}"
    assert head in template.read_text()
    template.write_text(template.read_text().replace(head, f"a {head}", 1))


@pytest.mark.long
def test_a_model_of_another_kind_is_judged_and_said_to_be_one(
    ready: Path, merged: Project, tmp_path: Path, figures_of: Callable[[Path], None]
) -> None:
    figures_of(merged.root)
    copy = shutil.copytree(ready, tmp_path / "copy", symlinks=True)
    project = Project.open(copy)
    shutil.rmtree(copy / WHOLE)
    _of_another_kind(project)
    assert len(list((copy / WHOLE).glob("*.safetensors"))) > 1
    found = _packed(judged(project, WHOLE))
    said = "\n".join(map(str, read_record(found.results("claim.json"), Claim, fix="").warnings))
    assert "LlamaForCausalLM" in said and "no fine-tune of this base (Qwen3ForCausalLM with 15,488)" in said
    assert "tokenizer is not the base's" in said and "128 of 128 prompts of train items" in said
    assert "The prompt of 8 of 8 items differs in tokens" in said
    assert not _failed(_checked(found, regenerate=1, policy=copy / WHOLE))


Change = Callable[[Path], None]


def _shard_of(folder: Path) -> Path:
    """Spread the weights over two files, and return the second."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = (names[:4], names[4:])
    placed: dict[str, str] = {}
    for number, part in enumerate(parts, start=1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file, metadata={"format": "pt"})
        placed |= dict.fromkeys(part, file)
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": placed})
    return folder / "model-00002-of-00002.safetensors"


def _torn(folder: Path) -> None:
    path = _shard_of(folder)
    path.write_bytes(path.read_bytes()[:-100])


def _no_shard(folder: Path) -> None:
    _shard_of(folder).unlink()


def _index_outside(folder: Path) -> None:
    path = _shard_of(folder)
    shutil.move(path, folder.parent / path.name)
    index = folder / "model.safetensors.index.json"
    index.write_text(index.read_text().replace(path.name, f"../{path.name}"))


def _pickle(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def _changed(change: Callable[[dict[str, torch.Tensor]], None]) -> Change:
    def apply(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return apply


def _no_number(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.norm.weight"][3] = float("nan")


def _endless(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.norm.weight"][3] = -float("inf")


def _less(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["model.layers.0.mlp.up_proj.weight"]


def _whole_numbers(tensors: dict[str, torch.Tensor]) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    tensors[name] = tensors[name].to(torch.int8)


def _wider(tensors: dict[str, torch.Tensor]) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    tensors[name] = torch.cat([tensors[name], tensors[name]])


def _configured(**told: Any) -> Change:
    def apply(folder: Path) -> None:
        path = folder / "config.json"
        write_json(path, json.loads(path.read_text()) | told)

    return apply


def _without(*names: str) -> Change:
    def apply(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return apply


def _shards_of_verl(folder: Path) -> None:
    """Leave what verl keeps of a step: shards, and beside them a folder without weights."""
    actor = folder.parent / "actor"
    actor.mkdir()
    (folder / "model.safetensors").rename(actor / "model_world_size_2_rank_0.pt")
    folder.rename(actor / "huggingface")
    actor.rename(folder)


def _state_of_deepspeed(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "zero_to_fp32.py").write_text("# python zero_to_fp32.py . output_dir/")


def _gguf(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model.gguf")


def _linked(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.rename(folder.parent / "weights")
    path.symlink_to("../weights")


def _below(folder: Path) -> None:
    fresh = folder.parent / "moved"
    folder.rename(fresh)
    folder.mkdir()
    fresh.rename(folder / "checkpoint-60")


def _the_base(folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(folder.parents[1] / "models/base", folder)
    (folder / "README.md").write_text("fine-tuned for hours")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_torn, "model-00002-of-00002.safetensors is cut short"),
        (_no_shard, "no model-00002-of-00002.safetensors"),
        (_index_outside, "none of the model's files"),
        (_pickle, "pytorch_model.bin, a pickle"),
        (_changed(_no_number), "NaN or Inf in model.norm.weight"),
        (_changed(_endless), "NaN or Inf in model.norm.weight"),
        (_changed(_less), "none of model.layers.0.mlp.up_proj.weight, which would be made up"),
        (_changed(_whole_numbers), "torch.int8"),
        (_changed(_wider), "a model that can be loaded"),
        (_configured(auto_map={"AutoModelForCausalLM": "modeling_x.X"}), "code of its own"),
        (_configured(transformers_weights=".other.safetensors"), "weights of its own"),
        (_configured(quantization_config={"quant_method": "gptq", "bits": 4}), "quantised ones (gptq)"),
        (_configured(model_type="nobodys", architectures=["Nobodys"]), "nobodys"),
        (_without("tokenizer.json"), "no tokenizer.json"),
        (_without("chat_template.jinja"), "a chat template"),
        (_without("config.json"), "neither"),
        (_shards_of_verl, "python -m verl.model_merger merge"),
        (_state_of_deepspeed, "zero_to_fp32.py . FOLDER --safe_serialization"),
        (_gguf, "none, and model.gguf"),
        (_linked, "a link that leaves"),
        (_below, "in it checkpoint-60"),
        (_the_base, "the base itself"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_one_message_and_nothing_is_lost(
    change: Change, said: str, copy: Path
) -> None:
    (copy / "models/adapter").mkdir()
    (copy / "models/adapter/kept").write_text("of before")
    change(copy / WHOLE)
    named = f"{WHOLE}/huggingface" if (copy / WHOLE / "huggingface").is_dir() else WHOLE
    settings(copy, {"folder": named, "sha256": digest_folder(copy / named)})
    project = Project.open(copy)
    assert project.params.external is not None
    with pytest.raises(AssayError) as refused:
        take(project.root, project.inputs("train"), project.params.external)
    assert said in str(refused.value) and str(refused.value).count("Fix: ") == 1
    assert (copy / "models/adapter/kept").read_text() == "of before"


def test_a_model_that_changed_since_it_was_taken_is_not_measured(copy: Path) -> None:
    settings(copy, {"folder": WHOLE, "sha256": brought_digest(copy / WHOLE)[1]})
    project = Project.open(copy)
    assert project.params.external is not None
    take(project.root, project.inputs("train"), project.params.external)
    _changed(_no_number)(copy / WHOLE)
    with pytest.raises(AssayError, match="the pinned model whole"):
        open_policy(project.params, project.root / "models/base", copy / "models/adapter")


def test_what_a_training_keeps_beside_its_model_makes_it_no_other(copy: Path) -> None:
    folder = copy / WHOLE
    before = brought_digest(folder)
    for name in ("optimizer.pt", "rng_state_0.pth", "training_args.bin", "trainer_state.json", "README.md"):
        (folder / name).write_bytes(b"state")
    shutil.copytree(folder, folder.parent / "checkpoint-10")
    shutil.move(folder.parent / "checkpoint-10", folder)
    assert brought_digest(folder) == before
    (folder / "generation_config.json").write_text('{"eos_token_id": 0}')
    assert brought_digest(folder)[1] != before[1]


def test_a_whole_model_is_not_merged(merged: Project) -> None:
    from assay.stages.packing.merged import weights_of

    with pytest.raises(AssayError, match="a whole model that was brought"):
        weights_of(merged)


def test_the_command_prints_what_the_settings_need(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(config, "say", said.append)
    for name, kind in ((ADAPTER, "a LoRA adapter"), (WHOLE, "a whole model, Qwen3ForCausalLM with 15,488")):
        config.digest(ready / name)
        sha256, _, told = said[-1].partition("  ")
        assert sha256 == brought_digest(ready / name)[1] and kind in told
    with pytest.raises(AssayError, match="in it adapter, whole"):
        config.digest(ready / "elsewhere")


def test_a_project_with_a_whole_model_has_no_checkpoints_to_sweep(merged: Project) -> None:
    with pytest.raises(AssayError, match=r"train\.kind: external"):
        open_source(merged.root, merged.root)


def _told(root: Path, **other: Any) -> None:
    path = root / "evidence/results/train/train.json"
    facts = json.loads(path.read_text())
    facts["whole"] = None if "whole" in other else facts["whole"] | other
    write_json(path, facts)


def _another_model(root: Path) -> None:
    path = root / "evidence/results/train/train.json"
    facts = json.loads(path.read_text())
    write_json(path, facts | {"policy_digest": facts["base_digest"]})


def _weights_of_it(root: Path) -> None:
    (root / "models/adapter").mkdir()
    shutil.copy(root / "models/base/model.safetensors", root / "models/adapter/model.safetensors")


@pytest.mark.parametrize(
    ("change", "caught"),
    [
        (lambda root: _told(root, parameters=7_000_000_000), {("V1", "claim")}),
        (lambda root: _told(root, whole=None), {("V1", "claim"), ("V3", "adapter"), ("V3", "weights")}),
        (_another_model, {("V3", "base and adapter"), ("V3", "policies")}),
        (_weights_of_it, {("V3", "names"), ("V1", "documents")}),
    ],
)
def test_what_was_changed_is_caught(
    change: Change,
    caught: set[tuple[str, str]],
    merged: Project,
    tmp_path: Path,
    figures_of: Callable[[Path], None],
) -> None:
    root = tmp_path / "unpacked"
    unpack(merged.root / "dist/assay-package.tar", root)
    figures_of(root)
    change(root)
    if ("V1", "claim") in caught:
        found = list(all_levels(root, tmp_path / "work", processes=1))
    else:  # what draws nothing is enough
        found = looked_without_drawing(root, tmp_path / "work")
    assert caught <= {(each.level, each.name) for each in found if each.outcome == "failed"}
