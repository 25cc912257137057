"""Stage 8: one archive that a stranger can check: model, data, code, episodes, logs, claim, report,
provenance."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from assay.core.config.settings import ScratchBase
from assay.core.console import complain, say
from assay.core.errors import PackageError
from assay.core.evidence_files import FILES
from assay.core.provenance import now
from assay.core.storage.files import read_bytes, read_text, write_text
from assay.core.storage.json import dumps, write_json
from assay.core.storage.locks import hold
from assay.core.storage.yaml import read_yaml, yaml_text
from assay.pipeline.dvc_lock import SOURCE, lock_text, refuse_others
from assay.pipeline.project import Project
from assay.rollout.dataset.external import WholeFacts, read_training, whole_of
from assay.rollout.policy.base.pretrained import locate
from assay.stages.packing import verify
from assay.stages.packing.archive import sealed, write_gz, write_tar
from assay.stages.packing.layout import (
    ADAPTER,
    LOCK,
    NAME,
    OPENINGS,
    PARITY,
    PROVENANCE,
    SUMS,
    TOLD,
    VERIFIER,
    active_in,
    files_of,
    strangers,
)
from assay.stages.packing.merged import parity_of
from assay.stages.packing.pages import BEFORE, documents, ledger_of, observed_provenance, told_of
from assay.stages.packing.parity import Parity
from assay.stages.packing.sbom import SBOM, installed_here, sbom
from assay.stages.packing.secrets.known import known_secrets, this_machine
from assay.stages.packing.secrets.search import cleared
from assay.stages.packing.verify import check
from assay.stages.render_evidence.at_hand import claim_at_hand

READS = (
    "params.yaml",
    "constraints.txt",
    "requirements.txt",
    "pyproject.toml",
    "LICENSE",
    "${task.code}",
    "${dataset.root}",
    "models/base",
    "models/adapter",
    "evidence/README.md",
    *FILES,
)
WRITES = ("dist",)
PARAMS = "params.yaml"


def run(project: Project) -> str:
    """Write dist/: the archive, its gzip, its sha256, the software it was made with; and beside other clocks
    what was packaged. Return the identity of the package.

    Raises:
        NoVerdictYet: The claim that stands is about other settings or data than those at hand.
        PackageError: Something of the run is missing, or another than dvc.lock tells of; base and adapter do
            not merge as they play; or there is a secret in it that nobody answers for. An earlier package
            stays as it was.
    """
    with hold(project.root / ".dist.lock"):
        return _package(project)


def archive_of(root: Path) -> Path:
    """Return where the package of a project lies."""
    return root / f"dist/{NAME}.tar"


def _package(project: Project) -> str:
    began = now()
    claim_at_hand(project)
    parity = None
    if whole_in(project) is None:
        parity, measured = parity_of(project)
        say(
            f"merged model against base and adapter: logits differ by {measured.difference:.2g} at most, "
            f"{100 * measured.agreement:.1f} % of {measured.n_tokens} greedy tokens agree"
        )
    else:
        locate(project.root / ADAPTER)
        say("the whole model that was brought is still the one that was measured; it is not packed")
    members = sealed(members_of(project, parity))
    lock = read_yaml(project.root / LOCK, fix="./run dvc repro")
    code = [each for each in (SOURCE, project.params.task.told_code) if each is not None]
    refuse_others(lock, BEFORE, members | dict(files_of(project.root, code, fix="git checkout -- src tasks")))
    known = known_secrets(this_machine(project.root))
    waived = cleared(members, known.secrets, project.params.package.waivers)
    _tell(len(members), known.too_common, len(waived))
    fresh = project.root / ".dist-new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        identity = write_tar(fresh / f"{NAME}.tar", members)
        write_gz(fresh / f"{NAME}.tar.gz", fresh / f"{NAME}.tar")
        write_text(fresh / f"{NAME}.sha256", f"{identity}  {NAME}/{SUMS}\n")
        constraints = read_text(project.root / "constraints.txt", fix="git checkout -- constraints.txt")
        write_json(fresh / SBOM, sbom(constraints, installed_here(), f"{NAME}/{SUMS}", identity))
        _look_back(fresh / f"{NAME}.tar", identity)
        size = (fresh / f"{NAME}.tar").stat().st_size
        _replace(project.root / "dist", fresh)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    provenance = observed_provenance(project, identity, members, began=began, ended=now())
    write_json(project.observed(PROVENANCE), provenance)
    archive = archive_of(project.root)
    shown = archive.relative_to(Path.cwd()) if archive.is_relative_to(Path.cwd()) else archive
    say(f"{shown}: {len(members)} files, {size / 1e6:.1f} MB, sha256 {identity}")
    published = shlex.quote(str(shown.with_suffix(".sha256")))
    say(f"to check it: ./run assay verify {shlex.quote(str(shown))} --sha256 {published}")
    return identity


def members_of(project: Project, parity: Parity | None) -> Mapping[str, bytes | Path]:
    """Return every member of the package by name, but for the list of them.

    Args:
        project: The run, or an unpacked package of it.
        parity: How the merged model compares with base and adapter; None where there is no adapter.

    Raises:
        PackageError: A file of the run is missing, or a link.
    """
    root, fix = project.root, "./run dvc repro"
    params = project.params
    places = {"${dataset.root}": params.dataset.root, "${task.code}": params.task.code}
    # Code that is part of assay is told by its md5 in dvc.lock; a task that was brought along travels.
    own = params.task.brings_code
    left_out = set() if own else {"${task.code}"}
    left_out |= set() if isinstance(params.base, ScratchBase) else {"models/base"}
    entries = [places.get(entry, entry) for entry in READS if entry not in left_out]
    text = lock_text(read_yaml(root / LOCK, fix=fix), BEFORE)
    members: dict[str, bytes | Path] = dict(files_of(root, entries, fix=fix))
    members[LOCK] = text.encode()
    # Its values alone: a comment, or an order of keys, is what no check could hold against anything.
    members[PARAMS] = yaml_text(read_yaml(root / PARAMS, fix=fix)).encode()
    members |= {} if parity is None else {PARITY: (dumps(parity) + "\n").encode()}
    if params.evaluation.open:
        members[OPENINGS] = (dumps(ledger_of(project)) + "\n").encode()
    members[VERIFIER] = read_bytes(Path(verify.__file__), fix="git checkout -- src")
    told = told_of(project) if project.recorded is None else read_bytes(root / TOLD, fix=fix)
    members |= {} if told is None else {TOLD: told}
    whole = members | documents(project, members)
    if odd := [*strangers_in(project, whole), *active_in(params.dataset.root, whole)]:
        fix = "move it out of the folder, or write it as plain text (stages/packing/layout.py has a list)"
        raise PackageError(
            "files that have a place in a package", found=odd[0], where=f"{len(odd)} of the run", fix=fix
        )
    return whole


def strangers_in(project: Project, names: Iterable[str]) -> Iterator[str]:
    """Yield which of the files of a package have no place in one of this project, with the reason."""
    scratch = isinstance(project.params.base, ScratchBase)
    data, task = PurePosixPath(project.params.dataset.root).as_posix(), project.params.task
    code = PurePosixPath(task.code).as_posix() if task.brings_code else None
    return strangers(names, data=data, scratch=scratch, adapter=holds_adapter(project), code=code)


def whole_in(project: Project) -> WholeFacts | None:
    """Return what is known of the whole model that took the place of an adapter, if one did.

    Raises:
        RecordError: train.json is missing or damaged.
    """
    if project.params.external is None:
        return None
    return whole_of(read_training(project.results("train.json"), fix="./run dvc repro train"))


def holds_adapter(project: Project) -> bool:
    """Return whether it was an adapter that was trained, or brought, and no whole model.

    Raises:
        RecordError: train.json is missing or damaged.
    """
    return whole_in(project) is None


def _replace(folder: Path, fresh: Path) -> None:
    old = folder.with_name(".dist-old")
    if folder.is_symlink():
        folder.unlink()
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    fresh.rename(
        folder
    )  # killed right before this line, the last package is in .dist-old, and stays until there is a new one
    shutil.rmtree(old, ignore_errors=True)


def _look_back(archive: Path, identity: str) -> None:
    """Check what was written as a stranger would.

    Raises:
        PackageError: A file changed between being listed and being packed, or the disk lies.
    """
    faults = [each.text for each in check(archive, sha256=identity).findings if each.ok is False]
    if faults:
        fix = "let whatever writes the files finish, then ./run dvc repro package"
        raise PackageError("the package that was put together", found=faults[0], where=archive.name, fix=fix)


def _tell(n: int, too_common: tuple[str, ...], n_waived: int) -> None:
    are = "is" if n_waived == 1 else "are"
    say(f"no secret found in {n} files" + (f" but {n_waived} that {are} answered for" if n_waived else ""))
    if too_common:
        complain(f"not searched for, since too common to tell anything: {', '.join(too_common)}")
