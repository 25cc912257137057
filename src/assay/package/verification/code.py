"""V3, the code: what stages ran, by dvc.lock, is the code here; and whether its packages are those here."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from pathlib import Path, PurePosixPath

import assay
from assay.core.beside import beside
from assay.core.config.tasks import FOLDER
from assay.core.errors import PackageError, RecordError
from assay.core.provenance import packages
from assay.core.storage.files import read_bytes, read_text, sha256_bytes
from assay.core.storage.untrusted import LEFT_BEHIND, listing
from assay.package.verification.checks import REMEDY, LookResult
from assay.package.verification.unpacked import FIX, Unpacked
from assay.pipeline.dvc_lock import SOURCE, code_in, folder_md5, md5_at

BESIDE = ("constraints.txt", "requirements.txt", "pyproject.toml", "LICENSE")
# What the stages run, as dvc.yaml has it: a dvc.lock that leaves some of it out does not say which it was.
RAN = frozenset(
    f"{SOURCE}/{name}"
    for name in (
        *("core", "rollout/tasks", "rollout/dataset", "rollout/audit"),
        *("rollout/audit/coincidence.py", "rollout/audit/contamination.py"),
        *("rollout/policy", "rollout/evaluation", "health/rules", "training", "verdict/statistics"),
        *("verdict/evidence", "verdict/evidence/claim/plan.py", "pipeline", "stages/fingerprint.py"),
        *("stages/base.py", "stages/pre_eval.py", "stages/train.py", "stages/control.py"),
        *("stages/post_eval.py", "stages/render_evidence"),
    )
)


def code_equal(package: Unpacked, *, other_code: bool) -> LookResult:
    """Compare the code that the stages ran, by its md5 in dvc.lock, with the installed one.

    Args:
        package: What was unpacked.
        other_code: Whether a difference is accepted, and said.
    """
    task = package.project.params.task.told_code
    try:
        told = code_in(package.lock, task)
    except PackageError as error:
        return LookResult("", [f"dvc.lock, {error.where}: expected {error.expected}, {error.found}"])
    places = {*RAN, *told} if task is None else {*RAN, *told, task}
    odd = {path for path in places if path not in told or md5_here(path) != told[path]}
    return _compared(f"{len(places)} folders of the code", odd, [SOURCE], other_code=other_code)


def md5_here(path: str) -> str | None:
    """Return the md5 of a folder or file of the code as it is installed here; None where there is none.

    Args:
        path: As dvc.lock has it, below src/assay or a task: one that leads out of there is not followed.
    """
    if PurePosixPath(path).as_posix() != path or ".." in path.split("/"):
        return None
    place = Path(assay.__file__).parent / path.removeprefix(f"{SOURCE}/")
    if path.startswith(f"{FOLDER}/"):
        place = beside(path) or place
    if not place.is_dir():
        return md5_at(place) if place.is_file() else None
    return folder_md5({name: place / name for name in listing(place) if _is_source(name)})[0]


def requirements_equal(package: Unpacked, *, other_code: bool) -> LookResult:
    """Compare what lies beside the code, by which a reader installs it, with what was installed here;
    arguments as of `code_equal`."""
    here = {name: place for name in BESIDE if (place := beside(name)) is not None}
    odd = {
        name
        for name, place in here.items()
        if name not in package.names or _sha256(place) != _sha256(package.root / name)
    }
    seen = _compared(", ".join(here), odd, sorted(odd), other_code=other_code)
    unseen = [name for name in BESIDE if name not in here]
    if seen.wrong or not unseen:
        return seen
    said = f"{', '.join(unseen)}: there is nothing here to compare them with; install assay anew"
    return LookResult(said, left=[*seen.left, *unseen])


def _compared(compared: str, odd: Set[str], left: Sequence[str], *, other_code: bool) -> LookResult:
    if not odd:
        return LookResult(f"{compared} are those that check here")
    told = f"{len(odd)} of {compared} differ from those that check here, first {min(odd)}"
    if other_code:
        return LookResult(f"{told}; accepted (--other-code)", left=left)
    return LookResult("", [f"{told}. Fix: {REMEDY}"])


def _is_source(name: str) -> bool:
    return not name.endswith(".pyc") and not set(LEFT_BEHIND) & set(name.split("/"))


def _sha256(path: Path) -> str:
    return sha256_bytes(read_bytes(path, fix=FIX))


PINS = "constraints.txt"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;#]+)")


def stack_said(root: Path) -> str:
    """Return what to say of the packages that can change a number; hardware is not recorded in a package.

    A local part of a version (torch 2.13.0+cpu) is a build and no pin, and is not compared.
    """
    pins = pins_of(root)
    if pins is None:
        return f"there is no {PINS}, so with which packages it was made is not known"
    odd = [
        f"{name} {here or 'missing'} here, {pins[name]} there"
        for name, here in packages().items()
        if name in pins and pins[name].split("+")[0] != (here or "").split("+")[0]
    ]
    if odd:
        return f"packages differ from its {PINS}: {'; '.join(odd[:3])}{' and more' if len(odd) > 3 else ''}"
    return f"packages are those of its {PINS}; on which processor it was made, a package does not say"


def pins_of(root: Path) -> dict[str, str] | None:
    """Return the versions that a package pins, by name in small letters; None where it pins none that can be
    read."""
    try:
        lines = read_text(root / PINS, fix="").split("\n")
    except RecordError:
        return None
    return {found.group(1).lower(): found.group(2) for line in lines if (found := _PIN.match(line))}
