"""Stage 2: pin the base policy. Build and warm-start the tiny one and check it, or resolve a pretrained
model, and fine-tune it where that is asked for."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.config.settings import PretrainedBase, ScratchBase, SftSettings
from assay.core.console import complain, say
from assay.core.errors import ConfigError
from assay.core.evidence_files import folder_of, place_of
from assay.core.storage.files import read_text, remove, write_text
from assay.core.storage.json import loads, write_json
from assay.core.storage.tables import csv_text
from assay.pipeline.inputs import Inputs, decoding_of
from assay.pipeline.policies import BASE, open_policy, tell_control_tokens
from assay.pipeline.project import Project
from assay.pipeline.resume import kept_meanwhile
from assay.rollout.evaluation.base_gates import check_base, check_fine_tuned
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.policy.base import pretrained
from assay.rollout.policy.base.adapter_files import write_model
from assay.rollout.policy.base.sft import fine_tune, lessons_of, tokens_of
from assay.rollout.policy.base.warm_start import (
    Lessons,
    demonstrated,
    made_beside,
    teach,
    tokenizer_of,
    warm_started,
)
from assay.rollout.policy.digests import digest_folder
from assay.rollout.policy.model import load, open_tokenizer, pin, require_device
from assay.rollout.policy.renderer import Dialogue

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SFT, CURVE = "sft", "sft.csv"
GATES = ("base.warm_start.gates",)  # which are asked once all has been learned
READS = ("${task.code}", place_of("fingerprint.json"), "${dataset.root}/train.jsonl")
WRITES = (BASE, folder_of("base"))


def run(project: Project) -> None:
    """Write models/base and base.json; refuse a base that does not speak the task."""
    inputs, params = project.inputs("train"), project.params  # so that changed data are refused at once
    remove(project.results(CURVE))
    if isinstance(params.base, PretrainedBase):
        tell_control_tokens(inputs, pin_pretrained(project, params.base), "train")
        if params.sft is not None:
            fine_tune_pinned(project, inputs, params.sft)
        return
    require_device(params.device)
    pin(params.threads, deterministic=params.deterministic, device=params.device)
    folder = project.root / BASE
    teach(params, inputs.task, inputs.train)
    with made_beside(params.base, partial(_demonstrations, project, params.base)) as shown:
        policy = warm_started(params.base, inputs.task, shown)
    tell_control_tokens(inputs, policy.tokenizer, "train")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    facts: dict[str, Any] = {"kind": "scratch", "seed": params.base.seed, "digest": digest_folder(folder)}
    facts["parameters"] = sum(p.numel() for p in policy.model.parameters())
    saved = load(folder, adapter=None, device=params.device, dtype="float32", quantization=None)
    sampled = decoding_of(params, rollout=True)  # as training will begin: cooler, it would look better
    pace = Pace(params.generation.batch_size, retries=params.health.retries)
    greedy = decoding_of(params, greedy=True)
    facts |= check_base(saved, inputs.task, inputs.train, params.base, sampled, greedy, pace)
    write_json(project.results("base.json"), facts)
    say(
        f"base {facts['digest'][:12]}: {facts['parameters']:,} parameters, reads off"
        f" {facts['copy_accuracy']:.1%}, parses {facts['parsed_rate']:.1%}, success"
        f" {facts['success_rate']:.1%} (train items, sampled)"
    )


def pin_pretrained(project: Project, settings: PretrainedBase) -> PreTrainedTokenizerBase:
    """Write which model it is, and return its tokenizer.

    That needs no GPU, so a machine that only downloads can do it, and is told what follows.

    Raises:
        PolicyError: The model is not there, or not fit to be loaded.
    """
    try:
        require_device(project.params.device)
    except ConfigError as error:
        complain(f"the stages after base cannot run here: {error}")
    source = pretrained.resolve(settings.model, settings.revision, project.root, settings.sha256)
    # Else it would be told where all weights have been loaded
    tokenizer = open_tokenizer(source.folder, settings.template)
    folder = project.root / BASE
    shutil.rmtree(folder, ignore_errors=True)
    pretrained.write_pointer(folder, source)
    pinned: dict[str, Any] = {
        "kind": "pretrained",
        "model": source.name,
        "revision": source.revision,
        "digest": source.digest,
    }
    said = ""
    if source.origin is not None:
        pinned["origin"] = source.origin.model_dump(mode="json")
        said = f", {source.origin.weights}; licence {source.origin.licence_said}"
    write_json(project.results("base.json"), pinned)
    say(f"base {source.name} at {source.revision}, digest {source.digest[:12]}{said}")
    for note in source.notes:
        complain(note)
    if Path(settings.model).is_absolute():
        complain(
            "base.model is an absolute path; params.yaml is part of the package, which is refused where that"
            " path lies below your home or the project. Fix: write it relative to the project, or with ~"
        )
    return tokenizer


def fine_tune_pinned(project: Project, inputs: Inputs, sft: SftSettings) -> None:
    """Fine-tune the pinned model on its share of the train items, and put the result in the model's place.

    Raises:
        ConfigError: The device is not there, or a share is too small.
        PolicyError: What came of it does not speak the task.
        TaskError: There is nothing to show.
    """
    params, root, folder = project.params, project.root, project.root / BASE
    lessons = lessons_of(inputs.task, inputs.shown, SFT, sft.seed)  # before any weight is read
    source, pinned = (
        pretrained.locate(folder),
        loads(read_text(project.results("base.json"), fix=""), where="base.json", fix="./run dvc repro base"),
    )
    policy = open_policy(params, folder)
    with kept_meanwhile(root, params, "base", READS, without=GATES) as (scratch, key):
        taught, found = fine_tune(
            policy, tokens_of(lessons, policy, sft.batch_size), sft, sft.steps, SFT, scratch, key
        )
        shutil.rmtree(folder)
        folder.mkdir()
        write_model(taught, folder, base=source)
        saved = open_policy(params, folder)
        facts = pinned | {"digest": saved.digest}
        facts["sft"] = {
            "of": policy.digest,
            "rows": found.rows,
            "train_rows": len(inputs.items["train"]),
            "steps": sft.steps,
            "tokens": found.tokens,
            "first_loss": found.losses[0],
            "last_loss": found.losses[-1],
        }
        sampled = decoding_of(params, rollout=True)
        pace = Pace(params.generation.batch_size, retries=params.health.retries)
        facts["sft"] |= check_fine_tuned(saved, inputs.task, inputs.train, sft.gates, sampled, pace)
        curve = [{"step": step, "loss": loss} for step, loss in enumerate(found.losses, start=1)]
        write_text(project.results(CURVE), csv_text(curve, ["step", "loss"]))
        write_json(project.results("base.json"), facts)
    told = facts["sft"]
    say(
        f"sft: {told['rows']} of {told['train_rows']} train rows, loss {found.losses[0]:.2f} to"
        f" {found.losses[-1]:.2f}; parses {told['parsed_rate']:.1%}, success {told['success_rate']:.1%}"
        " (items not shown, sampled)"
    )


def _demonstrations(project: Project, settings: ScratchBase) -> Lessons:
    """Return the demonstrations, in a process of their own: from the same bytes, read once more."""
    inputs = project.inputs("train")
    teach(inputs.params, inputs.task, inputs.train)
    return demonstrated(settings, inputs.task, Dialogue(tokenizer_of(settings, inputs.task)))
