"""V5: the training is done again on a copy of the unpacked package, and everything it leaves is compared.

A log that was made up, or belongs to another seed or other data, can hold together in itself. It is not what
the training of these settings gives. Equality is expected on the same processor with the same packages; a
package does not say on which processor it was made, so a difference says as much about this machine as about
the package until it is the same one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.core.counting import counted
from assay.core.errors import Interrupted, RecordError
from assay.core.evidence_files import place_of
from assay.core.records import TrainFacts
from assay.core.storage.files import read_bytes
from assay.core.storage.json import read_jsonl, read_record
from assay.package.verification.checks import LOG, TRAINING_TABLES, UNUSABLE, Check, Outcome, error_said
from assay.package.verification.code import stack_said
from assay.package.verification.rerun.regenerated import base_of, without_device
from assay.pipeline.project import Project
from assay.rollout.policy.digests import digest_folder
from assay.training.log.step_chain import Difference, check_chain, first_difference, first_numbers

ADAPTER = "models/adapter"
COMPARED = tuple(name for name in TRAINING_TABLES if name != LOG)  # the log is compared step by step
CONTROL = ("control.json", "control_eval.jsonl")
FIX = "take the package again"
# What a training under DVC or torchrun is told by its parent, and what would draw curves beside it.
_NOT_OURS = ("DVC_ROOT", "DVC_STAGE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID")


def retrained(project: Project, *, base: Path | None = None, scratch: Path | None = None) -> list[Check]:
    """Train again, the control too, and return what was found: a check each for base, steps, adapter and
    every table.

    Args:
        project: The unpacked package; it is not written to.
        base: Folder of a pretrained base, which a package does not hold.
        scratch: Where the copy is made, and removed; the system's temporary folder if not given.
    """
    if project.params.external is not None:
        return [_check("train again", "not checked", "trained elsewhere: how is not known, so nobody can")]
    if (n := project.params.distributed.processes) > 1:
        found = f"it was trained by {n} processes; unpack it and call assay train there, then assay runs diff"
        return [_check("train again", "not checked", found)]
    try:
        if (no_device := without_device(project, "V5")) is not None:
            return [no_device]
        folder, check = base_of(project, base, "V5")
        if folder is None:
            return [check]
        with _copy(project, folder, scratch) as again, _environment():
            # Heavy, and wanted by few.
            from assay.stages import control, train

            train.run(again)
            control.run(again)
            return [check, *compared(project, again)]
    except Interrupted:
        raise
    except UNUSABLE as error:
        return [_check("train again", "failed", error_said(error))]


def compared(stored: Project, again: Project) -> list[Check]:
    """Return what differs between a stored training and one that was done again, one check a thing."""
    tables = (
        *COMPARED,
        *(name for name in CONTROL if stored.results(name).exists() or again.results(name).exists()),
    )
    return [_steps(stored, again), _adapter(stored, again), *(_table(stored, again, name) for name in tables)]


def _check(name: str, outcome: Outcome, found: str) -> Check:
    return Check(level="V5", name=name, outcome=outcome, found=found)


@contextmanager
def _copy(project: Project, base: Path, scratch: Path | None) -> Iterator[Project]:
    """Yield a copy of a project without what its training left, its base in place."""
    from assay.rollout.policy.base import pretrained

    with tempfile.TemporaryDirectory(dir=scratch, prefix="assay-retrain-") as made:
        root = Path(made) / "project"
        shutil.copytree(project.root, root, ignore=shutil.ignore_patterns(".scratch", ".git", "__pycache__"))
        shutil.rmtree(root / ADAPTER, ignore_errors=True)
        for name in (*COMPARED, *CONTROL, LOG, "train.json"):
            (root / place_of(name)).unlink(missing_ok=True)
        if not (root / "models/base/config.json").is_file():
            shutil.rmtree(root / "models/base", ignore_errors=True)
            source = pretrained.PinnedSource(base.resolve(), base.name, pretrained.LOCAL, digest_folder(base))
            pretrained.write_pointer(root / "models/base", source)
        yield Project.open(root)


@contextmanager
def _environment() -> Iterator[None]:
    """Let the training know nothing of who called: its scratch folder then lies in its own copy."""
    before = dict(os.environ)
    for name in _NOT_OURS:
        os.environ.pop(name, None)
    os.environ["ASSAY_REDRAW_SECONDS"] = "0"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _steps(stored: Project, again: Project) -> Check:
    """Compare the steps: prompts, completions, rewards, gradients and weights, and every number logged of
    them."""
    name = "train again: steps"
    try:
        logs = [list(read_jsonl(each.results(LOG), fix=FIX)) for each in (stored, again)]
        facts = [read_record(each.results("train.json"), TrainFacts, fix=FIX) for each in (stored, again)]
        check_chain(logs[0], f"the stored {LOG}")
        difference = first_difference(logs[0], logs[1], ("the stored log", "the training done again"))
    except RecordError as error:
        return _check(name, "failed", error_said(error))
    if difference is not None:
        return _check(name, "failed", f"{_said(difference)}. {stack_said(stored.root)}")
    numbers = first_numbers(*logs)
    if numbers is not None:
        one, other = numbers.values
        return _check(
            name,
            "failed",
            f"step {numbers.step}, {numbers.name}: {one!r} is stored, {other!r} was logged again",
        )
    for field in TrainFacts.model_fields:
        one, other = (getattr(each, field) for each in facts)
        if one != other:
            return _check(
                name,
                "failed",
                f"train.json, {field}: {str(one)[:80]} is stored, {str(other)[:80]} was found again",
            )
    same = "the one step is the same" if len(logs[0]) == 1 else f"all {len(logs[0])} steps are the same"
    return _check(name, "passed", f"{same}, chain {facts[0].chain[:16]}")


def _said(found: Difference) -> str:
    if found.link is None:
        return (
            f"{counted(found.n_steps[0], 'steps')} stored, {found.n_steps[1]} trained again; those of both"
            " are the same"
        )
    before = f" ({', '.join(found.still_equal)} are still the same)" if found.still_equal else ""
    one, other = (str(digest)[:16] for digest in found.digests)
    return (
        f"first difference at step {found.step}, {found.link}{before}: {one} is stored, {other} was found"
        " again"
    )


def _adapter(stored: Project, again: Project) -> Check:
    one, other = (digest_folder(each.root / ADAPTER) for each in (stored, again))
    same = one == other
    found = f"digest {one[:16]}" + ("" if same else f" is stored, {other[:16]} was trained again")
    return _check("train again: adapter", "passed" if same else "failed", found)


def _table(stored: Project, again: Project, name: str) -> Check:
    label = f"train again: {name}"
    try:
        one, other = (read_bytes(each.results(name), fix=FIX).split(b"\n") for each in (stored, again))
    except RecordError as error:
        return _check(label, "failed", error_said(error))
    if one == other:
        return _check(label, "passed", f"{counted(len(one) - 1, 'lines')}, the same to the last byte")
    pairs = enumerate(zip(one, other, strict=False), start=1)
    line = next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)) + 1)
    return _check(
        label, "failed", f"line {line} differs first, of {len(one) - 1} stored and {len(other) - 1} new ones"
    )
