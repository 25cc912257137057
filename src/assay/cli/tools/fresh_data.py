"""`assay data fresh`: a new held-out suite for the policy that was trained, drawn by its plan and itself."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path, PurePosixPath

from assay.core.console import say
from assay.core.counting import counted
from assay.core.errors import ConfigError, RecordError
from assay.core.evidence_files import place_of
from assay.core.storage.files import read_bytes, sha256_bytes, sweep, write_folder
from assay.core.storage.json import json_text, read_record
from assay.pipeline.heldout_ledger import NOTHING, openings
from assay.pipeline.project import Project
from assay.rollout.audit.sources import checked_sums
from assay.rollout.dataset.external import Training, read_training
from assay.rollout.dataset.fresh import FILE, HELDOUT, MARK, PLAN, FreshSuite, first_name
from assay.rollout.dataset.source import read_tasks
from assay.rollout.dataset.verified import SUMS, sums_text
from assay.stages.render_evidence.fresh_suite import planned_before
from assay.verdict.evidence.claim.plan import ClaimPlan, plan_digest

WHERE = "assay data fresh"
KEPT = ("base", "train")  # stages that read no held-out record, so that what they made stays
OF_DATA = {place_of("fingerprint.json"), place_of("claim_plan.json")}


def run(project: Project) -> Path:
    """Write a folder of data beside the chosen one: the same but for its held-out file, which is drawn anew,
    and with the older ones beside it, so that what they share is found.

    A policy has one fresh suite: asked for again, it is the same. Where it is chosen already, base and policy
    are kept for it.

    Raises:
        RecordError: Nothing was trained yet, or not by the plan that stands there.
        ConfigError: The task has no generator.
        DataError: The data are not those of their SHA256SUMS.
    """
    root, data = project.root, PurePosixPath(project.params.dataset.root)
    fix = "./run dvc repro train"
    if not project.results("train.json").is_file():
        raise RecordError("a trained policy", found="none", where=WHERE, fix=fix)
    trained = read_training(project.results("train.json"), fix=fix)
    chosen = _fresh_in(root / data)
    if chosen is not None and chosen.policy_digest == trained.policy_digest:
        say(f"{data} is the fresh suite of this policy (number {chosen.number})")
        keep_training(project, trained)
        return root / data
    written = read_bytes(project.results("claim_plan.json"), fix=fix)
    if sha256_bytes(written) != trained.claim_plan_sha256:
        where = str(project.results("claim_plan.json"))
        raise RecordError("the plan by which was trained", found="another", where=where, fix=fix)
    plan = plan_digest(read_record(project.results("claim_plan.json"), ClaimPlan, fix=fix))
    name = first_name(data.name)
    for folder in sorted((root / data.parent).glob(f"{name}{MARK}*")):
        held = _fresh_in(folder)
        if held is not None and (held.plan_digest, held.policy_digest) == (plan, trained.policy_digest):
            return _told(project, folder, held)
    sweep(root / data.parent)
    number = 1 + _most(project, data.parent, name)
    made, files = _drawn(project, number, plan, trained.policy_digest)
    files |= {PLAN: written, FILE: json_text(made).encode()}
    files[SUMS] = sums_text({each: sha256_bytes(content) for each, content in files.items()}).encode()
    folder = root / data.parent / f"{name}{MARK}{number}"
    if not write_folder(folder, files, check=lambda _: None, replace=False):
        raise RecordError("no folder yet", found="one", where=str(folder), fix=f"./run {WHERE}")
    return _told(project, folder, made)


def _drawn(project: Project, number: int, plan: str, policy: str) -> tuple[FreshSuite, dict[str, bytes]]:
    """Return a suite, and the files of its folder by name: those of the chosen data, with the former
    held-out records under another name."""
    data, fix = project.data(""), "restore the data"
    shown = f"{project.params.dataset.root}/{HELDOUT}"
    n = len(read_tasks(data / HELDOUT, where=shown, fix=fix).lines)
    made = FreshSuite(number=number, plan_digest=plan, policy_digest=policy, records=n, heldout_sha256="")
    files = {
        f"{made.former}.jsonl" if each == HELDOUT else each: read_bytes(data / each, fix=fix)
        for each in checked_sums(project.root, project.params.dataset.root)
    }
    text = made.draw(project.task(), files)
    if text is None:
        raise ConfigError(
            "a task with a generator of such records",
            found=project.params.dataset.name,
            where=WHERE,
            fix="a generator (docs/own-task.md, generate), or held-out records of your own that nobody has"
            " seen, in a new folder of data",
        )
    files[HELDOUT] = text.encode()
    return made.model_copy(update={"heldout_sha256": sha256_bytes(files[HELDOUT])}), files


def keep_training(project: Project, trained: Training) -> None:
    """Have DVC take base and policy as made from the chosen data, where nothing differs but held-out records,
    which neither of their stages reads.

    Raises:
        RecordError: Something else differs: it is trained again.
    """
    root, again = project.root, "./run repro   (which trains again)"
    _dvc(root, "repro", "--quiet", "--single-item", "fingerprint")
    plan = read_record(project.results("claim_plan.json"), ClaimPlan, fix=again)
    if not planned_before(project, plan, trained):
        expected = "data and a plan that differ in held-out records from those that were trained by"
        raise RecordError(expected, found="others", where=project.params.dataset.root, fix=again)
    found = json.loads(_dvc(root, "status", "--json", *KEPT) or "{}")
    for stage, told in found.items():
        if other := sorted(name for part in told for name in _changed(part, project.params.dataset.root)):
            expected = f"{stage} as dvc.lock has it, but for held-out records"
            raise RecordError(expected, found=f"changed: {', '.join(other)}", where=WHERE, fix=again)
    if found:
        _dvc(root, "commit", "--quiet", "--force", *KEPT)
    say("base and policy are kept; ./run repro measures them on it")
    if not project.params.evaluation.open:
        say("evaluation.open is false: a draft, which measures on validation; set it true to open the suite")


def _changed(part: object, data: str) -> list[str]:
    """Return what a part of `dvc status` names beside the records and what follows from them."""
    if not isinstance(part, dict):
        return [str(part)]
    found = []
    for kind, names in part.items():
        if kind != "changed deps":
            # What is not in DVC's cache is put there; what lies in the project is as it was made.
            found += [f"{name} ({state})" for name, state in names.items() if state != "not in cache"]
            continue
        params = {name for name in names.get("params.yaml", {}) if name != "dataset.root"}
        deps = {name for name in names if not name.startswith(f"{data}/")} - OF_DATA - {"params.yaml"}
        found += [*params, *deps]
    return found


def _dvc(root: Path, *words: str) -> str:
    done = subprocess.run(["dvc", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        found = " ".join((done.stderr or done.stdout).split())[-400:]
        raise RecordError("what DVC can do", found=found, where=f"dvc {' '.join(words)}", fix="./run repro")
    return done.stdout


def _told(project: Project, folder: Path, made: FreshSuite) -> Path:
    shown = folder.relative_to(project.root).as_posix()
    say(f"{shown}: {counted(made.records, 'held-out records')}, fresh suite {made.number} of this project")
    say(f"to measure the same policy on it: dataset.root: {shown} in the preset of configs/task/, then")
    say(f"./run assay config use, ./run {WHERE} and ./run repro")
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
