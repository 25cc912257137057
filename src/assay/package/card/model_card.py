"""README.md of a package: a model card that a hub can read and a person can believe, written from the claim
alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.config.settings import Params, PretrainedBase
from assay.core.counting import counted
from assay.core.evidence_files import place_of
from assay.core.records import TrainFacts
from assay.dataset.fingerprint import Fingerprint
from assay.evaluation.alarms import rule_said, training_alarm_said
from assay.evidence.claim.claim import Claim, controls_said
from assay.evidence.claim.what_was_run import BaseFacts
from assay.evidence.escape import inline, markdown_table, one_line
from assay.evidence.formatting import NO_INTERVAL, missing_interval_said, split_word
from assay.evidence.page.data import splits_frame
from assay.evidence.tables.claim_tables import BeforeAfter
from assay.package.card.metadata import hub_base, metadata
from assay.package.card.numbers import before_after_frame
from assay.package.layout import NAME, PARITY, PROVENANCE, SUMS, VERIFIER
from assay.statistics.report import Report

LEVELS: tuple[tuple[str, str], ...] = (
    ("V0", "every file is the one that was packed (needs Python alone; also done by `verify.py` in here)"),
    (
        "V1",
        (
            "every number, interval, p and verdict is computed again from the raw episodes, equal to the last"
            " digit"
        ),
    ),
    ("V2", "every stored completion is read and graded again"),
    (
        "V3",
        "things hold together: the plan precedes the training, suites and draws are whole, alarms ring again",
    ),
    (
        "V4",
        "on demand: held-out episodes of base and trained policy are played again with the models in here",
    ),
    ("V5", "on demand: the training, and the control where there is one, is done again from the base"),
)
NOT_COVERED = (
    "Who recomputes all checksums can change what no other file follows from: V4 shows completions that the"
    " model does not give, V5 a training that did not happen, and neither is run unless it is asked for. A"
    " package says nothing about who made it; its sha256 has to come from somebody you trust."
)
FIGURE = place_of("figures/before_after_summary.png")
FILES: tuple[tuple[str, str], ...] = (
    ("models/adapter", "the adapter, safetensors"),
    (place_of("report.html"), "the whole report as one page, without a network"),
    ("evidence/results", "raw episodes, logs, claim, figures"),
    (PROVENANCE, "what was made of what"),
    (PARITY, "adapter against merged model"),
    (SUMS, "sha256 of every file"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What stands behind the numbers of a card: the reports of both arms and before_after_metrics.json."""

    before: Report
    after: Report
    metrics: BeforeAfter


def model_card(
    claim: Claim,
    *,
    measured: Measured | None,
    trained: TrainFacts,
    base: BaseFacts,
    fingerprint: Fingerprint,
    params: Params,
    limits: Sequence[str],
    licence: str | None = None,
    data_licence: str | None = None,
) -> str:
    """Return the text of the card: YAML for a hub, then Markdown; equal records give equal bytes.

    Args:
        claim: What is claimed.
        measured: Where the numbers come from; None where nothing can be read. Unused where the claim is not
            evaluable.
        trained: Facts of the training.
        base: What was trained.
        fingerprint: The data.
        params: The settings.
        limits: What nobody should read into the claim, one sentence each.
        licence: A hub's id of the licence of the weights, such as apache-2.0; None where none is stated.
        data_licence: What the data's own page says, as `datasheet.stated_licence` finds it; None where it
            says nothing.

    Raises:
        EvidenceError: The reports and before_after_metrics.json are not of one comparison.
    """
    evaluable = claim.verdict != "NOT EVALUABLE"
    shown = measured if evaluable else None
    title = f"# GRPO adapter for the task {one_line(params.dataset.name)}"
    blocks = [title, *_verdict(claim), "## What this does not show", _bullets(limits)]
    if shown is not None:
        blocks += _numbers(claim, shown)
    blocks += ["## The base", _base(base, params), "## The training", *_training(claim, trained, params)]
    blocks += ["## The data", *_data(fingerprint, data_licence), "## Use it", *_use(base, params)]
    blocks += [
        "## Check it",
        *_check(),
        "## Findings that were waived",
        *_waived(params),
        "## Files",
        _files(),
    ]
    blocks += ["## Licence", _licence(licence)]
    after, data = shown.after if shown else None, params.dataset.name
    head = metadata(claim, after, base=base, fingerprint=fingerprint, data=data, licence=licence)
    return f"---\n{head}\n---\n\n" + "\n\n".join(blocks) + "\n"


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {one_line(text)}" for text in texts) or "None was stated."


def _verdict(claim: Claim) -> list[str]:
    detail = f" ({claim.detail})" if claim.detail else ""
    found = [f"**{claim.verdict}{detail}.** {one_line(claim.sentence)}"]
    if claim.verdict == "NOT EVALUABLE":
        found.append(
            f"Reason: {one_line(claim.reason)}. Until that is cleared up no number of this run is a result."
        )
    scope = (
        f"Scope: {split_word(claim.split)}, {claim.decoding},"
        f" {counted(len(claim.training_seeds), 'training runs')}; this "
    )
    scope += (
        "checkpoint against this base, on this suite. Checkpoint rule:"
        f" {one_line(claim.plan.checkpoint_rule)}."
    )
    if claim.verdict != "NOT EVALUABLE":
        scope += f" Reason of the verdict: {one_line(claim.reason)}."
        found += [scope, one_line(controls_said(claim))]
    else:
        found.append(scope)
    if claim.warnings:
        found += [f"{counted(len(claim.warnings), 'warnings')}:", _bullets(claim.warnings)]
    return found


def _numbers(claim: Claim, measured: Measured) -> list[str]:
    how = (
        f"{split_word(claim.split).capitalize()}, {claim.decoding},"
        f" {counted(claim.n_clusters, claim.plan.cluster_name)}, "
    )
    how += f"{counted(claim.n_items, 'items')}, K = {claim.draws}"
    note = (
        "Rates in %, differences in points, 95 % intervals in brackets. n: episodes before and after in which"
        " the question "
    )
    note += (
        f"arises; a difference pairs the items defined in both. All measures: `{place_of('report.html')}`."
    )
    table = markdown_table(before_after_frame(measured.before, measured.after, measured.metrics))
    found = ["## Before and after", f"{one_line(how)}. {note}", table, f"![Before and after]({FIGURE})"]
    if NO_INTERVAL in table:
        found.append(one_line(missing_interval_said(claim.plan.cluster_name)))
    return found


def _base(base: BaseFacts, params: Params) -> str:
    if base.kind == "scratch":
        size = "" if base.parameters is None else f", {base.parameters:,} parameters"
        said = (
            f"Built from scratch by this pipeline, seed {base.seed}{size}; it is in here, in `models/base`."
        )
    elif (hub := hub_base(base)) is not None:
        said = f"{inline(hub)}, revision {inline(base.revision or '')}, of the hub; it is not in here."
    else:
        said = (
            "A pretrained model from a folder of the machine that trained; it is not in here and has no name"
            " on a hub."
        )
    surface = params.generation.surface
    limit = counted(params.task.max_new_tokens[surface], "tokens")
    said += (
        f" Its files have the digest {inline(base.digest)}. It was played at temperature"
        f" {params.generation.temperature:g} "
    )
    return said + f"with at most {limit} a completion, on the {surface} surface."


def _training(claim: Claim, trained: TrainFacts, params: Params) -> list[str]:
    train, health = params.train, trained.health
    facts = [
        (
            f"GRPO (TRL), {counted(trained.steps, 'optimizer steps')},"
            f" {counted(train.items_per_step, 'items')} a step, {train.group_size} episodes an item; training"
            f" seed {trained.seed}."
        ),
        (
            f"LoRA of rank {train.lora.r}, alpha {train.lora.alpha}; learning rate {train.learning_rate:g}"
            f" ({train.lr_scheduler}), loss {train.loss_type}, beta {train.beta:g}, clip"
            f" {train.epsilon_low:g} and {train.epsilon_high:g}."
        ),
        (
            f"Chosen on the validation suite: step {trained.chosen_step} of {trained.steps}, by the rule "
            f"{claim.plan.checkpoint_rule}."
        ),
        f"Digest of the policy: {trained.policy_digest}; chain over every step: {trained.chain}.",
    ]
    alarms = [
        *(rule_said(rule) for rule in health.rules),
        *(training_alarm_said(alarm) for alarm in trained.alarms),
    ]
    said = f"Health while training: {health.worst}."
    if health.unmeasured:
        said += f" Never measured, so neither ill nor known to be well: {', '.join(health.unmeasured)}."
    return [_bullets(facts), one_line(said), *([_bullets(alarms)] if alarms else [])]


def _data(fingerprint: Fingerprint, data_licence: str | None) -> list[str]:
    said = (
        f"Digest of all records: {inline(fingerprint.dataset_sha256)}. The files are in here, below `data/`. "
    )
    stated = f"Licence, as their own page states it: {one_line(data_licence or '')}."
    said += stated if data_licence else "Their page states no licence in words that could be read."
    return [said, markdown_table(splits_frame(fingerprint))]


def _use(base: BaseFacts, params: Params) -> list[str]:
    lines = ["from peft import PeftModel", "from transformers import AutoModelForCausalLM, AutoTokenizer", ""]
    hub = hub_base(base)
    dtype = f', dtype="{params.base.dtype}"' if isinstance(params.base, PretrainedBase) else ""
    if base.kind == "scratch":
        name = '"models/base"'
    elif hub is not None:
        name = f'"{hub}", revision="{base.revision}"'
    else:
        name = "BASE"
    lines += [
        f"tokenizer = AutoTokenizer.from_pretrained({name})",
        f"base = AutoModelForCausalLM.from_pretrained({name}{dtype})",
        'model = PeftModel.from_pretrained(base, "models/adapter")',
    ]
    inside = "With transformers and peft, in the unpacked package"
    inside += " (BASE: the folder of the base):" if name == "BASE" else ":"
    found = [inside, "```python\n" + "\n".join(lines) + "\n```"]
    remote = 'model = PeftModel.from_pretrained(base, REPO_ID, subfolder="models/adapter")'
    if base.kind == "scratch":
        remote = 'base = AutoModelForCausalLM.from_pretrained(REPO_ID, subfolder="models/base")\n' + remote
    found += ["From a hub repository that holds this package:", f"```python\n{remote}\n```"]
    found.append(
        "The versions it was made with are in `constraints.txt`. What it is asked, and what it answers,"
        f" stands in `{place_of('sample_trajectories.md')}`; prompts of another form are not what was"
        " measured."
    )
    if isinstance(params.base, PretrainedBase) and params.base.quantization is not None:
        found.append(
            f"The base was loaded in {params.base.quantization}; loaded otherwise it is another policy."
        )
    if params.base.template:
        told = ", ".join(f"{name}={value!r}" for name, value in sorted(params.base.template.items()))
        found.append(f"For every prompt `apply_chat_template` was given {inline(told)}.")
    return found


def _check() -> list[str]:
    levels = "\n".join(f"| {level} | {meaning} |" for level, meaning in LEVELS)
    return [
        f"In the unpacked package:\n\n```sh\nsha256sum -c {SUMS}\npython3 {VERIFIER}\n```",
        f"With assay, on the archive:\n\n```sh\nassay verify {NAME}.tar\n```",
        f"| level | what it says |\n| --- | --- |\n{levels}",
        NOT_COVERED,
    ]


def _waived(params: Params) -> list[str]:
    if not params.package.waivers:
        return ["None: the secret scan found nothing that had to be answered for."]
    said = "The secret scan found these; somebody looked at them and answers for them."
    lines = [f"| {one_line(w.file)} | {w.sha256} | {one_line(w.reason)} |" for w in params.package.waivers]
    return [said, "\n".join(["| file | sha256 of what was found | reason |", "| --- | --- | --- |", *lines])]


def _files() -> str:
    return "\n".join(
        ["| file | what it is |", "| --- | --- |", *(f"| `{name}` | {meaning} |" for name, meaning in FILES)]
    )


def _licence(licence: str | None) -> str:
    code = "The code in `src/` is under the licence of the file `LICENSE`."
    if licence is None:
        return f"No licence of the weights is stated. {code}"
    return f"The weights: {one_line(licence)}. {code}"
