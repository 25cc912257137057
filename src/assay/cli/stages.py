"""The eight stages of dvc.yaml, one command each, in pipeline order."""

from __future__ import annotations

import gc
import importlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.naming import name_settings_of
from assay.core.errors import ConfigError, PolicyError
from assay.core.garbage import uncollected
from assay.core.parent import end_with_parent

if TYPE_CHECKING:
    from assay.pipeline.project import Project


def fingerprint() -> None:
    """Verify, fingerprint and audit the data; fix the claim.

    Example: assay fingerprint
    """
    _run_stage("fingerprint")


def base() -> None:
    """Pin the base policy: build the tiny one, or resolve a pretrained model.

    Example: assay base
    """
    _run_stage("base")


def pre_eval() -> None:
    """Play the held-out and the secondary suites with the base policy, and the baselines that are made of it.

    Example: assay pre-eval
    """
    _run_stage("pre_eval")


def train(
    resume_from: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A checkpoint or run folder; the newest of this run if not given."),
    ] = None,
) -> None:
    """Train an adapter with GRPO, or go on where an interrupted training stopped.

    Example: assay train
    """
    _run_stage("train", resume_from)


def control() -> None:
    """Train for random rewards and play the held-out suite with that policy, where claim.controls asks for
    it.

    Example: assay control
    """
    _run_stage("control")


def post_eval() -> None:
    """Play the same suites with the trained policy, and the held-out one with the base once more.

    Example: assay post-eval
    """
    _run_stage("post_eval")


def render_evidence() -> None:
    """Write claim, tables, figures and report.

    Example: assay render-evidence
    """
    _run_stage("render_evidence")


def package(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--run", metavar="DIR", help="Folder of another finished run; its package goes to DIR/dist."
        ),
    ] = None,
) -> None:
    """Write one archive that anyone can verify, after a search for secrets.

    Example: assay package --run .scratch/seeds/mine-0
    """
    _run_stage("package", root=folder)


def _run_stage(name: str, resume_from: Path | None = None, root: Path | None = None) -> None:
    from assay.cli.tools.stage_times import note_seconds, tell_place

    began = time.monotonic()
    end_with_parent()
    project = _open(name, root)
    tell_place(name, project.scratch, project.params)
    taken = name == "train" and project.params.external is not None
    if name in ("pre_eval", "train", "control", "post_eval") and not taken:
        _become_several(name, project.params, resume_from)
    # What is imported is no garbage: looking for some among it takes a fifth of a training's start.
    with uncollected():
        stage = importlib.import_module(f"assay.stages.{name}")
        if name == "train":
            from assay.checks.doctor.preflight import examine_training
    gc.freeze()  # and later searches pass over it
    if name == "train" and not taken:
        with stage.open_training(project, resume_from) as training:
            if training.start is None:
                examine_training(training)
            stage.train_through(training)
    else:
        stage.run(project)
    if name == "pre_eval" and os.environ.get("RANK", "0") == "0":
        from assay.checks.doctor.preflight import report_power

        report_power(project)
    if name == "render_evidence":
        from assay.stages.render_evidence.claim_inputs import note_outcome

        note_outcome(project)
    if name == "fingerprint":
        _withdraw(project)  # only now are data and plan known
    note_seconds(name, project.scratch, project.params, time.monotonic() - began)


def _open(name: str, root: Path | None) -> Project:
    """Return the project that a stage is to work in, once its settings were looked at."""
    from assay.core.config.composition import check_unless_experiment
    from assay.pipeline.project import Project

    if root is None:
        root = Path.cwd()
        check_unless_experiment(root)
    elif not (root / "params.yaml").is_file():
        fix = "name the folder of a project that was run"
        raise ConfigError(
            "the folder of a finished run", found="no params.yaml in it", where=f"--run {root}", fix=fix
        )
    else:
        name_settings_of(root)
    project = Project.open(root)
    if name in ("pre_eval", "train", "post_eval"):
        _require_base(root)
    if (
        name in ("base", "pre_eval") and "RANK" not in os.environ
    ):  # of several processes the one that starts them looks
        from assay.checks.doctor.preflight import look

        look(project)
        gc.collect()  # what it has left is not to be kept with what is imported
    if name in ("base", "pre_eval", "train", "control", "post_eval"):
        _withdraw(project)
    return project


def _require_base(root: Path) -> None:
    """Refuse before anything is imported, started or taken away."""
    folder = root / "models/base"
    if not folder.is_dir() or not any(folder.iterdir()):
        raise PolicyError("a base", found="none yet", where="models/base", fix="./run dvc repro base")


def _withdraw(project: Any) -> None:
    """Let no claim about other settings stand beside what is made now; of several processes the first one
    sees to it."""
    from assay.stages.render_evidence.no_claim import withdraw_if_other

    if os.environ.get("RANK", "0") == "0":
        withdraw_if_other(project)


def _become_several(stage: str, params: Any, resume_from: Path | None = None) -> None:
    """Start all processes of a stage where there are several, before one imports what each of them will."""
    from assay.pipeline.launching import heed_launcher, launch, must_launch

    heed_launcher(params.distributed)
    measures = stage in ("pre_eval", "post_eval")
    if must_launch(params.distributed, any_number=measures) and (
        stage != "control" or "random_reward" in params.claim.controls
    ):
        if params.device == "cuda":
            from assay.rollout.policy.model import require_device

            require_device(params.device)  # said once here, and not by each process
        told = [] if resume_from is None else ["--resume-from", str(resume_from)]
        launch(params.distributed, [stage.replace("_", "-"), *told])
