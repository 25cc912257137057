"""`assay doctor`: look at a project as it stands, and say what would go wrong in its training."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

from assay.checks.doctor.examination import examine, examine_ahead, examine_without_model
from assay.checks.doctor.level import level_finding
from assay.checks.doctor.settings import settings_findings
from assay.checks.doctor.site_cache import site_cache_finding
from assay.checks.doctor.worlds import setup_of
from assay.checks.findings import AHEAD, LEAST, Deadline, Finding, error_finding, explain, verdict_of
from assay.checks.own_data.advice import FORECASTS, read_forecasts
from assay.core.config.composition import CONFIG, selected
from assay.core.config.settings import PretrainedBase, is_gguf
from assay.core.console import complain, progress, say, say_table
from assay.core.counting import counted
from assay.core.errors import AssayError, ConfigError
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.rollout.policy.base.pretrained import find, how_to_download, licence_of
from assay.training.setup import Setup

BASE = "models/base"
GIB = 2.0**30
# What a forecast reads of a model on the hub.
WITHOUT_WEIGHTS = '--include "*.json" --include "*.jinja" --include "*.model" --include merges.txt'


def run(root: Path, device_memory: float | None = None) -> int:
    """Print what was found and return the exit code: 1 if a training could not work, else 0.

    Args:
        root: Of the project.
        device_memory: GiB of a device that is not here, for which memory is forecast and nothing else is
            looked at that needs the base; None: of the device that is here.

    Raises:
        ConfigError: Settings that cannot be read, or a memory that is no number.
    """
    if device_memory is not None and math.isnan(device_memory):  # which is neither too little nor too much
        raise ConfigError("a number of GiB", found="nan", where="--device-memory", fix="--device-memory 24")
    project = Project.open(root)
    begun = time.monotonic()
    with progress("doctor", 1) as advance:
        findings, unseen = examined(project, device_memory)
        findings = [*findings, site_cache_finding(root)]
        advance(1)
    shown = [finding for finding in findings if finding.level != "ok"]
    if shown:
        say_table(("level", "check", "where", "found"), [(f.level, f.check, f.where, f.found) for f in shown])
    for told in explain(shown):
        say(f"\n{told}")
    for finding in findings:
        if finding.level == "ok" and "forecast" in finding.check:
            say(f"{finding.check}: {finding.found}")
    if isinstance(project.params.base, PretrainedBase):
        say(describe_base(root, project.params.base))
    for what in unseen:
        complain(what)
    say(_summary(findings, time.monotonic() - begun))
    return 1 if verdict_of(findings) == "fault" else 0


def examined(project: Project, device_memory: float | None = None) -> tuple[list[Finding], list[str]]:
    """Return all findings that can be had, and what could not be looked at, a sentence each."""
    params = project.params
    try:
        training = setup_of(project)
    except AssayError as error:
        left = "not looked at: data, task, tokenizer, model, probe"
        return [*settings_findings(params), error_finding("data", error)], [left]
    deadline = Deadline()
    told, unseen = _forecast(project, training, deadline, device_memory)
    if device_memory is not None:
        return [*examine_without_model(training), *told], unseen
    why = None
    if not (project.root / BASE).is_dir():
        why = f"there is no {BASE} yet. Fix: ./run dvc repro base"
    elif verdict_of(told) == "fault":
        why = "the base would not fit this device"
    told = [*told, level_finding(project)]
    if why is not None:
        found, seen = _without_base(project, training)
        left = f"not looked at: {'' if seen else 'tokenizer, template, '}weights, probe; {why}"
        return [*found, *told], [left, *unseen]
    try:
        policy = open_policy(project.params, project.root / "models/base")
    except AssayError as error:
        told = [*examine_without_model(training), *told, error_finding("base", error)]
        return told, ["not looked at: tokenizer, template, weights, probe", *unseen]
    found = examine(policy, training, folder=project.root, seconds=max(deadline.left, LEAST))
    # Timed as it is trained; the probe's is the cruder one.
    if any("s at most" in finding.found for finding in told):
        found = [finding for finding in found if finding.check != "time (forecast)"]
    return [*found, *told], unseen


def _without_base(project: Project, training: Setup) -> tuple[list[Finding], bool]:
    """Return what can be said before the base is built or loaded, and whether its tokenizer could be looked
    at."""
    from assay.checks.doctor.preflight import read_ahead, refuse_prompts
    from assay.rollout.policy.base.warm_start import teach

    try:
        teach(project.params, training.judged, training.items)
        policy = read_ahead(project.params, training.judged, project.root)
    except AssayError as error:
        return [*examine_without_model(training), error_finding("base", error)], False
    if policy is None:
        return examine_without_model(training), False
    found = examine_ahead(policy, training, folder=project.root)
    try:
        return [*found, refuse_prompts(project, training.judged, policy)], True
    except AssayError as error:
        return [*found, error_finding("prompts of all splits", error)], True


def _forecast(
    project: Project, training: Setup, deadline: Deadline, device_memory: float | None
) -> tuple[list[Finding], list[str]]:
    """Return what is forecast of a pretrained base before its weights are loaded, or why nothing is."""
    params, base = project.params, project.params.base
    if not isinstance(base, PretrainedBase):
        return [], []
    import torch

    from assay.checks.doctor.forecast.forecast import folder_ahead, forecast, look_ahead
    from assay.rollout.policy.model import pin

    folder = folder_ahead(base, project.root)
    if folder is None:
        how, whole = how_to_download(base.model, base.revision), is_gguf(base.model)
        fix = f"Fix: {how}" if whole else f"Fix, without weights: {how} {WITHOUT_WEIGHTS}"
        return [], [f"not forecast: memory and time; config.json of {base.model} is not here. {fix}"]
    here = params.device == "cpu" or torch.cuda.is_available()
    try:
        # As a training computes, for what is timed; before anything touches a GPU.
        pin(params.threads, deterministic=params.deterministic, device=params.device if here else "cpu")
        ahead = look_ahead(folder, params)
    except (AssayError, OSError) as error:
        return [], [f"not forecast: memory and time; {str(error).splitlines()[0]}"]
    size = None if device_memory is None else int(device_memory * GIB)
    part = Deadline((AHEAD if device_memory is None else 1.0) * deadline.left)
    return forecast(ahead, training, part, device_bytes=size), []


def describe_base(root: Path, base: PretrainedBase) -> str:
    """Return what a pretrained base is, its licence, how to have it, and what was forecast of the selected
    preset as it is shipped."""
    if (root / Path(base.model).expanduser()).is_dir():
        told = f"base: the folder {base.model}"
    elif is_gguf(base.model):
        told = f"base: {base.model}; {_converted_said(root, base)}"
    else:
        at = base.revision or "no pinned revision"
        download = how_to_download(base.model, base.revision)
        told = f"base: {base.model}, {at}; licence: {licence_of(base.model)}; to have it: {download}"
    if not (root / CONFIG).is_file():
        return told
    now = selected(root)
    known = read_forecasts(root, now.task).get(now.grpo)
    if known is None:
        return told
    sizes = f"{known['peak_gib']:.1f} GiB at most, made for {known['device_gib']} GiB"
    return f"{told}\n{now.grpo} as it is shipped: {sizes} ({FORECASTS})"


def _converted_said(root: Path, base: PretrainedBase) -> str:
    try:
        origin = find(base.model, None, root, base.sha256).origin
    except AssayError as error:
        return f"not here as it is asked for: {error.found}. Fix: {error.fix}"
    assert origin is not None
    return f"{origin.file}, sha256 {origin.sha256}: {origin.weights}; licence: {origin.licence_said}"


def _summary(findings: Sequence[Finding], seconds: float) -> str:
    counts = {
        level: sum(finding.level == level for finding in findings) for level in ("ok", "warning", "fault")
    }
    well = f"{counted(counts['ok'], 'checks')} {'is' if counts['ok'] == 1 else 'are'} well"
    told = (
        f"{well}, {counted(counts['warning'], 'warnings')}, {counted(counts['fault'], 'faults')}"
        f" ({seconds:.1f} s)"
    )
    return f"{told}: a training could not work so" if counts["fault"] else told
