"""`assay data fresh`: a new held-out suite for the policy that was trained, drawn by its plan and itself."""

from __future__ import annotations

import re
import shutil
from pathlib import Path, PurePosixPath

from assay.core.console import say
from assay.core.counting import counted
from assay.core.errors import ConfigError, RecordError
from assay.core.storage.files import read_bytes, sha256_bytes, write_text
from assay.core.storage.json import read_record, write_json
from assay.pipeline.heldout_ledger import NOTHING, openings
from assay.pipeline.project import Project
from assay.rollout.audit.sources import checked_sums
from assay.rollout.dataset.external import read_training
from assay.rollout.dataset.fresh import FILE, MARK, FreshSuite, first_name
from assay.rollout.dataset.verified import SUMS, sums_text
from assay.verdict.evidence.claim.plan import ClaimPlan, plan_digest

WHERE = "assay data fresh"


def run(project: Project) -> Path:
    """Write a folder of data beside the chosen one: the same but for its held-out file, which is drawn anew,
    and with the older ones beside it, so that what they share is found.

    A policy has one fresh suite: asked for again, it is the same.

    Raises:
        RecordError: Nothing was trained yet, or not by the plan that stands there.
        ConfigError: The task has no generator.
        DataError: The data are not those of their SHA256SUMS.
    """
    params, root = project.params, project.root
    fix = "./run dvc repro train"
    if not project.results("train.json").is_file():
        raise RecordError("a trained policy", found="none", where=WHERE, fix=fix)
    trained = read_training(project.results("train.json"), fix=fix)
    written = project.results("claim_plan.json")
    if sha256_bytes(read_bytes(written, fix=fix)) != trained.claim_plan_sha256:
        raise RecordError("the plan by which was trained", found="another", where=str(written), fix=fix)
    data = PurePosixPath(params.dataset.root)
    before = _fresh_in(root / data)
    if before is not None and before.policy_digest == trained.policy_digest:
        say(f"{data} is the fresh suite of this policy (number {before.number})")
        return root / data
    plan = plan_digest(read_record(written, ClaimPlan, fix=fix))
    name = first_name(data.name)
    for folder in sorted((root / data.parent).glob(f"{name}{MARK}*")):
        held = _fresh_in(folder)
        if held is not None and (held.plan_digest, held.policy_digest) == (plan, trained.policy_digest):
            return _told(project, folder, held)
    sums = checked_sums(root, params.dataset.root)
    n = len(read_bytes(root / data / "heldout.jsonl", fix="restore the data").splitlines())
    number = 1 + _most(project, data.parent, name)
    made = FreshSuite(
        number=number, plan_digest=plan, policy_digest=trained.policy_digest, records=n, heldout_sha256=""
    )
    text = params.task.fresh_heldout(made.label, n)
    if text is None:
        raise ConfigError(
            "a task with a generator of records",
            found=params.task.name,
            where=WHERE,
            fix="held-out records of your own that nobody has seen: put them in a new folder of data",
        )
    made = made.model_copy(update={"heldout_sha256": sha256_bytes(text.encode())})
    folder = root / data.parent / f"{name}{MARK}{number}"
    for each in sums:
        target = folder / (f"heldout_{number - 1}.jsonl" if each == "heldout.jsonl" else each)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / data / each, target)
    write_text(folder / "heldout.jsonl", text)
    write_json(folder / FILE, made)
    names = [*(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)]
    digests = {each.relative_to(folder).as_posix(): sha256_bytes(each.read_bytes()) for each in names}
    write_text(folder / SUMS, sums_text(digests))
    return _told(project, folder, made)


def _told(project: Project, folder: Path, made: FreshSuite) -> Path:
    shown = folder.relative_to(project.root).as_posix()
    say(f"{shown}: {counted(made.records, 'held-out records')}, fresh suite {made.number} of this project")
    preset = f"configs/task/{project.params.task.name}.yaml"
    say(f"to measure the same policy on it: dataset.root: {shown} in {preset}, then ./run assay config use")
    say("and ./run repro")
    return folder


def _fresh_in(folder: Path) -> FreshSuite | None:
    path = folder / FILE
    return read_record(path, FreshSuite, fix="restore the data") if path.is_file() else None


def _most(project: Project, parent: PurePosixPath, name: str) -> int:
    """Return the number of the last fresh suite that was drawn here, as folders and the ledger know it."""
    known = [each.data for each in (openings(project.root) or NOTHING).openings]
    known += [path.name for path in (project.root / parent).iterdir()]
    found = (re.fullmatch(rf"{re.escape(name)}{MARK}(\d+)", each) for each in known)
    return max((int(each[1]) for each in found if each), default=0)
