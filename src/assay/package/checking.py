"""`assay verify`: a package against itself, from the archive alone: one line a check, and what they come
to."""

from __future__ import annotations

import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from assay.core.console import complain, progress, quietly, say
from assay.core.errors import PackageError
from assay.core.garbage import uncollected
from assay.core.provenance import packages
from assay.core.storage.files import read_bytes, read_text
from assay.core.storage.json import json_text, loads, write_json
from assay.package.judgements import RECORD, check_judgement, holds_judgement
from assay.package.publish.sign import available, signature_check
from assay.package.published import NOTHING, published_said
from assay.package.verification.checks import (
    CODES,
    MEANING,
    Check,
    Level,
    LookResult,
    Outcome,
    Verification,
    error_said,
    looked,
    unlooked,
    verdict_of,
)
from assay.package.verification.code import PINS
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import check_names, unpack
from assay.stages.packing.layout import NAME

RECIPE, SHARED = "recipe.json", "shared"  # of a package of seeds: its numbers, and what all runs share
_LEVELS: tuple[Level, ...] = ("V1", "V2", "V3")
NEEDED = ("huggingface_hub",)  # by the checks of a run, not those of a judgement
FIX = "name a package: dist/assay-package.tar, its .tar.gz, or the folder it was unpacked into"


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What somebody wants to know of a package.

    `sha256` is the published one of the package, or a file that begins with it; `regenerate` the batches to
    play again, None for none; `key` what they are drawn by, None for a word nobody can foresee; `base` the
    folder of a pretrained base, `policy` that of a whole model that was brought; `allow` what an unpacked
    folder may hold besides; `task_code` the checker's own copy of the folder of a task that was brought
    along, to be run; `signature` a file of `assay publish sign` and `public_key` whose it has to be, both or
    none.
    """

    sha256: str | None = None
    other_code: bool = False
    regenerate: int | None = None
    key: str | None = None
    retrain: bool = False
    base: Path | None = None
    policy: Path | None = None
    allow: Sequence[str] = ()
    processes: int = 2
    signature: Path | None = None
    public_key: Path | None = None
    task_code: Path | None = None


def verify(
    path: str | Path,
    sha256: str | Path | None = None,
    level: Literal["V3", "V4", "V5"] = "V3",
    *,
    batches: int = 1,
    other_code: bool = False,
    base: str | Path | None = None,
    policy: str | Path | None = None,
    task_code: str | Path | None = None,
) -> Verification:
    """Return what a package says again of itself: `.passed`, `.verdict`, `.checks`; `print` shows all of it.

    Args:
        path: A .tar, a .tar.gz or an unpacked folder, of a run, of seeds or of a judgement.
        sha256: Of the package, as its maker published it, or a file that begins with it.
        level: The last one: V3 looks at files, numbers, grades and consistency, V4 also plays again, V5 also
            trains again.
        batches: How many of each file V4 plays again.
        other_code: Whether another version of assay may have made it; what that worded otherwise is not
            checked.
        base: Folder of a pretrained base, which no package holds.
        policy: Folder of a whole model that was brought, which no package holds.
        task_code: Your own copy of the folder of a task that was brought along: it is run.

    Raises:
        PackageError: There is no such file or folder, or the folder is no package.
    """
    if level not in ("V3", "V4", "V5"):
        raise PackageError("V3, V4 or V5", found=repr(level), where="verify, level", fix='level="V3"')
    asked = VerifyRequest(
        sha256=None if sha256 is None else str(sha256),
        other_code=other_code,
        regenerate=None if level == "V3" else batches,
        retrain=level == "V5",
        base=None if base is None else Path(base),
        policy=None if policy is None else Path(policy),
        task_code=None if task_code is None else Path(task_code),
    )
    with quietly():
        return check_package(Path(path), asked)


def run(package: Path, asked: VerifyRequest, out: Path | None) -> int:
    """Print what came of a package, then every check, then what to compare; return the exit code of `CODES`.

    Args:
        package: A .tar, a .tar.gz or an unpacked folder.
        asked: Which checks, against what.
        out: Where to write verify.json; None: nowhere.

    Raises:
        PackageError: As of `check_package`.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was unpacked is removed
    begun = time.monotonic()
    told = check_package(package, asked)
    if out is not None:
        write_json(out, told)
    for line in told.lines(time.monotonic() - begun):
        say(line)
    return CODES[told.verdict]


def check_package(package: Path, asked: VerifyRequest) -> Verification:
    """Return what all checks of a package say, those that were asked for.

    Raises:
        PackageError: There is no such file or folder, the folder is no package, or a signature cannot be
            checked for want of its key or the library.
    """
    if not package.exists():
        raise PackageError("a package", found="no such file or folder", where=str(package), fix=FIX)
    if package.is_dir() and not (package / plain.SUMS).exists():
        raise PackageError("a package", found=f"a folder without {plain.SUMS}", where=str(package), fix=FIX)
    if asked.signature or asked.public_key:
        if not (asked.signature and asked.public_key):
            fix = "--signature FILE --public-key PUB.pem"
            raise PackageError(
                "a signature and whose it has to be", found="one of them", where="assay verify", fix=fix
            )
        for path in (asked.signature, asked.public_key):
            read_bytes(path, fix="name a file that is there and can be read")
        available()  # what was asked for and cannot be done must not read like a check that passed
    asked = replace(asked, sha256=_published_sha256(asked.sha256))
    complain("verify: V0 to V3 ...")  # what came of it is the first line, so none is written before the end
    result, published = _files(package, asked), list[str]()
    found = list(verified(package, result, asked, published))
    return verification(package, result.sha256, found, *published)


def verification(
    package: Path, sha256: str | None, checks: Sequence[Check], published: str = NOTHING
) -> Verification:
    """Return what the checks of a package come to."""
    outcomes: tuple[Outcome, ...] = get_args(Outcome)
    counts = {outcome: sum(check.outcome == outcome for check in checks) for outcome in outcomes}
    return Verification(
        package=package.name,
        sha256=sha256,
        verdict=verdict_of(checks),
        published=published,
        counts=counts,
        checks=tuple(checks),
        packages=packages(),
    )


def _published_sha256(given: str | None) -> str | None:
    """Return the 64 digits that were given, or that the file begins with that was.

    Raises:
        PackageError: There are none.
    """
    if given is None or re.fullmatch("[0-9a-fA-F]{64}", given):
        return given
    text = read_text(Path(given), fix="give the 64 digits, or a file that begins with them") if given else ""
    if (found := re.match(r"[0-9a-fA-F]{64}\b", text)) is None:
        fix = "give those that its maker published, or of a run of yours dist/assay-package.sha256"
        raise PackageError(
            "64 hexadecimal digits", found=repr(given)[:80], where="assay verify --sha256", fix=fix
        )
    return found[0]


def _files(package: Path, asked: VerifyRequest) -> plain.Result:
    """Return V0; what cannot be read at all has failed."""
    try:
        return plain.check(package, sha256=asked.sha256, allow=asked.allow)
    except OSError as error:
        return plain.Result([plain.FileCheck("form", False, error_said(error))], None, {})


def verified(
    package: Path, result: plain.Result, asked: VerifyRequest, published: list[str] | None = None
) -> Iterator[Check]:
    """Yield each check as it ends: V0 as it was found, then what can be looked at once the files are those of
    a package; put into `published` what to compare with what its maker published."""
    words: dict[bool | None, Outcome] = {True: "passed", False: "failed", None: "not asked"}
    for finding in result.findings:
        yield Check(level="V0", name=finding.name, outcome=words[finding.ok], found=finding.text)
    with tempfile.TemporaryDirectory(prefix="assay-verify-") as scratch:
        root, work = Path(scratch, "package"), Path(scratch, "work")
        work.mkdir()
        sound, signed, copied = result.ok, None, None
        if sound and (why := _unpacked(package, result, root)):
            yield Check(level="V0", name="unpacking", outcome="failed", found=why)
            sound = False
        if asked.signature and asked.public_key:
            why = "the files are not those of a package"
            signed = (
                signature_check(root, asked.signature, asked.public_key)
                if sound
                else unlooked("V0", "signature", why)
            )
            yield signed
        if sound and published is not None:
            judged = RECORD if holds_judgement(root) and not holds_seeds(root) else None
            published.append(published_said(root, judged=judged))
        with uncollected():
            if sound and holds_seeds(root):
                from assay.package.recipe.check_seeds import check_seeds

                yield from check_seeds(
                    root,
                    work,
                    other_code=asked.other_code,
                    processes=asked.processes,
                    task_code=asked.task_code,
                )
            elif sound and holds_judgement(root):
                yield from check_judgement(root, work, other_code=asked.other_code)
            elif sound:
                _demand_packages()
                from assay.package.verification.levels import (
                    all_levels,  # heavy, and of no use for what is no package
                )
                from assay.package.verification.own_code import own_copy

                copied = (
                    None
                    if asked.task_code is None
                    else own_copy(root, asked.task_code, Path(scratch, "code"))
                )
                for check in all_levels(
                    root, work, other_code=asked.other_code, processes=asked.processes, task_code=copied
                ):
                    sound = sound and check.outcome != "failed"
                    yield check
                if (bill := _bill_beside(package)).is_file():
                    yield looked("V3", "software", partial(_software, bill, root, result.sha256))
            else:
                for level in _LEVELS:
                    yield _unlooked(
                        level, "the files are not those of a package, so nothing in them was looked at"
                    )
        shutil.rmtree(work, ignore_errors=True)
        if sound and holds_seeds(root):
            why = "a package of seeds holds no model: play again what one run packed"
            yield _unlooked("V4", why, _unasked(asked))
        elif sound and holds_judgement(root):
            why = "a package of a judgement holds no model: the results were made elsewhere"
            yield _unlooked("V4", why, _unasked(asked))
        else:
            yield from _on_demand(
                root, asked, sound and (signed is None or signed.outcome == "passed"), copied
            )


def _demand_packages() -> None:
    """Say at once, and not after half a minute of checks, which package a run cannot be checked without.

    Raises:
        ModuleNotFoundError: One is not installed.
    """
    for name in NEEDED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _bill_beside(package: Path) -> Path:
    """Return where the software lies that an archive was made with, if it does."""
    return package.with_name(f"{package.name.removesuffix('.gz').removesuffix('.tar')}.cdx.json")


def _software(bill: Path, root: Path, identity: str | None) -> LookResult:
    """Compare the bill of materials beside an archive with the archive and its pins."""
    from assay.stages.packing.sbom import installed_here, sbom_faults

    text = read_text(bill, fix=FIX)
    told, pins = loads(text, where=bill.name, fix=FIX), read_text(root / PINS, fix=FIX)
    faults = sbom_faults(told, pins, installed_here(), f"{NAME}/{plain.SUMS}", str(identity))
    wrong = [f"{bill.name}, {each}" for each in faults]
    if text != json_text(told):
        wrong.append(f"{bill.name}: not as assay writes it")
    said = f"{len(told['components'])} components of {bill.name}, of this package and within its {PINS}"
    return LookResult(f"{said}; which of them were installed is its maker's word", wrong)


def holds_seeds(package: Path) -> bool:
    """Return whether an unpacked package is one of seeds."""
    return (package / RECIPE).is_file() and (package / SHARED).is_dir()


def _unpacked(package: Path, result: plain.Result, root: Path) -> str:
    """Put the files of a package into a folder of our own, links never followed; return why it cannot be, or
    nothing."""
    try:
        if not package.is_dir():
            unpack(package, root, sha256=result.sha256)
            return ""
        check_names(result.files)
        for name in result.files:
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(package / name, target, follow_symlinks=False)
        again = plain.check(root, sha256=result.sha256)
        return "" if again.ok else "the folder changed while it was read"
    except (OSError, PackageError) as error:
        return str(error)


def _on_demand(root: Path, asked: VerifyRequest, sound: bool, copied: Path | None) -> Iterator[Check]:
    """Yield V4 and V5, which need the model and time, or say that nobody asked for them."""
    why = None if sound else "not done, because a check before it failed"
    if sound and copied is None and (asked.regenerate is not None or asked.retrain):
        from assay.pipeline.project import Project

        if Project.open(root).params.task.brings_code:
            why = "not done, because it runs the task's own code; --task-code DIR runs your own copy of it"
    if asked.regenerate is None or why:
        unasked = "not asked for (--regenerate N plays N batches of each file again)"
        yield _unlooked("V4", *((unasked, "not asked") if asked.regenerate is None else (str(why),)))
    else:
        from assay.package.verification.rerun.regenerated import regenerated
        from assay.package.verification.unpacked import Unpacked

        with progress("verify: play again", 1) as advance:
            checks = regenerated(
                Unpacked(root, task_code=copied).project,
                batches=asked.regenerate,
                key=asked.key,
                base=asked.base,
                policy=asked.policy,
            )
            advance(1)
        yield from checks
    if not asked.retrain or why:
        unasked = "not asked for (--retrain does the training again)"
        yield _unlooked("V5", *((str(why),) if asked.retrain else (unasked, "not asked")))
    else:
        from assay.package.verification.rerun.retrained import retrained
        from assay.pipeline.project import Project

        yield from retrained(Project.open(root), base=asked.base)


def _unlooked(level: Level, why: str, outcome: Outcome = "not checked") -> Check:
    return unlooked(level, MEANING[level], why, outcome)


def _unasked(asked: VerifyRequest) -> Outcome:
    """Return what V4 or V5 of a package without a model is: nothing that is missed, or what was asked for and
    cannot be."""
    return "not shown" if asked.regenerate is None and not asked.retrain else "not checked"
