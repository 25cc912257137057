"""Is every tampering with a package found, and no honest package called tampered with?

    ./run python benchmarks/tamper.py --package dist/assay-package.tar --out benchmarks/results/tamper.json

Each tampering is made at random from a seed, at one of three depths:

* as is: the files are changed, and nothing else;
* re-sealed: SHA256SUMS is made anew, so that V0 has nothing to find;
* re-locked: dvc.lock, the checksums of the data, the model card and provenance are made anew as well, so
  that only what follows from other files is left to find it.

It is found if any check of V0 to V3 fails. Checks are made from the cheapest to the dearest and end with the
first that fails; where nothing was touched that grading and tables are computed from, these are not computed
again, since they would come to what they did for the package as it was. Every 61st is also given to the whole
of `assay verify`, all of it, which has to come to the same. Honest packages are the given one and those of
small runs of both tasks, as tar, gzip, folder, folder written in another order, and built once more from its
files: nothing may fail. Last come the designs of `designs.py`, forgeries thought out and covered up by
assay's own code, on a package of a real small run (`--real`): a table by level of what found each, V4 and V5
included, beside what was predicted.

Exits with 1 unless all are found and none is called so. Predicted before the first run: all, and none.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import designs
from benchmarks.common import RESULTS, ROOT, machine, options, written
from benchmarks.resealing import Files, files_in, relocked, resealed, tar_of, write
from benchmarks.tamperings import KINDS, byte_of, flipped

from assay.core.console import quietly
from assay.core.storage.files import sha256_bytes
from assay.package import checking as tool
from assay.package.verification.checks import Check
from assay.package.verification.content.regraded import regraded
from assay.package.verification.content.rendered import files_again, pages_again, tables_again
from assay.package.verification.levels import consistent, settings
from assay.package.verification.unpacked import Unpacked
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import unpack, write_gz
from assay.stages.packing.layout import NAME

EVERY = 61  # so many-th is also given to the whole of `assay verify`; no divisor of the number of kinds
DEPTHS = ("as is", "re-sealed", "re-locked")
RESULT = RESULTS / "tamper.json"
SMALL_RUNS = [(task, seed) for seed in range(5) for task in ("collider", "structured")][:9]
FORMS = ("tar", "gzip", "folder", "folder in another order", "built again")
# What readers see, and the lists: nothing is graded or counted from it.
LISTED = r"provenance\.json|SHA256SUMS|dvc\.lock|(evidence/)?README\.md"
FOR_READERS = re.compile(rf"{LISTED}|evidence/results/report/.*")
CLEAN: Files = {}
"""The files of the package; every process has its own."""


def first_failure(package: Path, touched: set[str] | None = None) -> Check | None:
    """Return the first check that fails, from the cheapest to the dearest; None if all hold.

    Args:
        package: To look at.
        touched: What may differ from the package as it was; None: everything.
    """
    return next((check for check in cheapest_first(package, touched) if check.outcome == "failed"), None)


def cheapest_first(package: Path, touched: set[str] | None) -> Iterator[Check]:
    """Yield the checks of V0 to V3 of `assay verify` in another order, without those that nothing was changed
    for."""
    result = plain.check(str(package))
    for finding in result.findings:
        outcome: Any = "failed" if finding.ok is False else "passed"
        yield Check(level="V0", name=finding.name, outcome=outcome, found=finding.text)
    if not result.ok:
        return
    with tempfile.TemporaryDirectory(prefix="assay-tamper-") as scratch:
        root, work = Path(scratch, "package"), Path(scratch, "work")
        if why := tool._unpacked(package, result, root):
            yield Check(level="V0", name="unpacking", outcome="failed", found=why)
            return
        files = Unpacked(root)
        yield from settings(files, other_code=False)
        yield from consistent(files)
        if touched is None or not all(FOR_READERS.fullmatch(name) for name in touched):
            yield from regraded(files)
            yield from tables_again(files, work / "tables")
        data, documents = files_again(files, work / "pages", other_code=False)
        yield data()
        yield from pages_again(files, work / "pages", other_drawings=False, other_code=False)
        yield documents()


def tampered(kind: str, depth: str, seed: str, folder: Path) -> tuple[Path, str, set[str] | None]:
    """Write a package that was tampered with, and say how, and which files differ then, where that is
    known."""
    rng, path = Random(seed), folder / f"{NAME}.tar"
    if kind in ("link", "byte of the archive"):
        content = {"package": tar_of(CLEAN, folder).read_bytes()}
        if kind == "link":
            blocks = range(len(content["package"]) // 512)
            at = 512 * rng.choice([k for k in blocks if is_header(content["package"], k)])
            block = bytearray(content["package"][at : at + 512])
            block[156:157], block[157:168] = b"2", b"/etc/passwd"
            block[148:156] = b" " * 8
            block[148:156] = b"%06o\0 " % sum(block)
            content["package"] = content["package"][:at] + bytes(block) + content["package"][at + 512 :]
            what = f"the header at {at} is that of a link"
        else:
            what = flipped(rng, content, "package")
        path.write_bytes(content["package"])
        return path, what, None
    files = dict(CLEAN)
    determined = kind == "byte" and depth == "re-locked"
    what = byte_of(rng, files, determined=True) if determined else KINDS[kind](rng, files)
    touched = {name for name in files.keys() | CLEAN.keys() if files.get(name) != CLEAN.get(name)}
    assert touched, f"{kind}: {what} changed nothing"
    if depth != "as is":
        if depth == "re-locked":
            files = relocked(files, touched, folder / "relocked")
        files = resealed(files)
    differ = {name for name in files.keys() | CLEAN.keys() if files.get(name) != CLEAN.get(name)}
    return tar_of(files, folder), what, differ


def is_header(tar: bytes, block: int) -> bool:
    """Return whether a block of a tar is the header of a file."""
    return tar[512 * block + 257 : 512 * block + 263] == b"ustar\0"


def try_one(given: tuple[int, str, str, int]) -> dict[str, Any]:
    """Make one tampering and look whether it is found."""
    number, kind, depth, seed = given
    with tempfile.TemporaryDirectory(prefix="assay-tamper-") as folder:
        path, what, touched = tampered(kind, depth, f"{seed} {number} {kind} {depth}", Path(folder))
        found = first_failure(path, touched)
        told = {"kind": kind, "depth": depth, "what": what, "caught": found is not None}
        told |= {"level": found and found.level, "check": found and found.name}
        told["found"] = found and found.found[:200]
        if number % EVERY == 0:
            result = tool._files(path, tool.VerifyRequest())
            with quietly():
                checks = list(tool.verified(path, result, tool.VerifyRequest(processes=1)))
            told["whole"] = any(check.outcome == "failed" for check in checks)
    return told


def honest(given: tuple[str, str]) -> dict[str, Any]:
    """Check one honest package in one form with the whole of `assay verify`."""
    tar, form = Path(given[0]), given[1]
    with tempfile.TemporaryDirectory(prefix=f"assay-honest-{len(form)}-") as folder:
        package = in_form(tar, form, Path(folder))
        result = tool._files(package, tool.VerifyRequest())
        with quietly():
            checks = list(tool.verified(package, result, tool.VerifyRequest(processes=1)))
    failed = [f"{check.name}: {check.found}" for check in checks if check.outcome == "failed"]
    return {"package": tar.parent.name, "form": form, "sha256": result.sha256, "failed": failed}


def in_form(tar: Path, form: str, folder: Path) -> Path:
    """Return a package as what else it can be."""
    if form == "tar":
        return Path(shutil.copy(tar, folder / tar.name))
    if form == "gzip":
        write_gz(folder / f"{NAME}.tar.gz", tar)
        assert gzip.decompress((folder / f"{NAME}.tar.gz").read_bytes()) == tar.read_bytes()
        return folder / f"{NAME}.tar.gz"
    unpack(tar, folder / "unpacked")
    if form == "folder":
        return folder / "unpacked"
    files = files_in(folder / "unpacked")
    if form == "built again":
        return tar_of(dict(sorted(files.items(), reverse=True)), folder)
    write(dict(sorted(files.items(), reverse=True)), folder / "reversed")
    return folder / "reversed"


def small_run(given: tuple[str, str, int]) -> str:
    """Make a small run and its package; return the tar."""
    from tests.verification.made_run import made_run, packaged

    folder, task, seed = given
    where = Path(folder, f"{task}-{seed}")
    return str(packaged(made_run(where / "run", task=task, seed=seed), where))


def plan_of(n: int, seed: int) -> list[tuple[int, str, str, int]]:
    """Return which tamperings are made: every kind at every depth about equally often."""
    cells = [(kind, depth) for depth in DEPTHS for kind in KINDS]
    cells += [("link", "as is"), ("byte of the archive", "as is")] * 3
    chosen = [cells[k % len(cells)] for k in range(n)]
    return [(number, kind, depth, seed) for number, (kind, depth) in enumerate(chosen)]


def told_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts by kind and depth, and which check was the first to find each."""
    cells: dict[str, dict[str, Any]] = {}
    for each in found:
        empty = {"n": 0, "caught": 0, "by": Counter()}
        cell = cells.setdefault(each["kind"], {}).setdefault(each["depth"], empty)
        cell["n"] += 1
        cell["caught"] += each["caught"]
        if each["caught"]:
            cell["by"][f"{each['level']} {each['check']}"] += 1
    return cells


def levels_of(cells: dict[str, Any]) -> Counter[str]:
    """Return how many each level was the first to find, by depth."""
    found = Counter[str]()
    for depths in cells.values():
        for depth, cell in depths.items():
            for check, n in cell["by"].items():
                found[f"{depth}: {check.partition(' ')[0]}"] += n
    return found


def missed_of(tried: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what nothing found, or not as it was found in the whole package."""
    return [each for each in tried if not each["caught"] or each.get("whole") is False]


def replaced(result: dict[str, Any], tried: list[dict[str, Any]], package: str) -> dict[str, Any]:
    """Return an earlier result in which these kinds are as they came out now, on this package."""
    kinds = sorted({each["kind"] for each in tried})
    missed = [each for each in result["missed"] if each["kind"] not in kinds] + missed_of(tried)
    cells = result["by_kind_and_depth"] | told_of(tried)
    again = {"kinds": kinds, "tamperings": len(tried), "package_sha256": package}
    again["missed_before"] = [each for each in result["missed"] if each["kind"] in kinds]
    return result | {
        "by_kind_and_depth": cells,
        "by_level": levels_of(cells),
        "missed": missed,
        "caught": result["tamperings"] - len(missed),
        "again": again,
    }


def main() -> None:
    """Tamper, check, count, and write the result."""
    parser = options(__doc__)
    parser.add_argument("--package", type=Path, default=ROOT / f"dist/{NAME}.tar")
    parser.add_argument("--tamperings", type=int, default=312)
    parser.add_argument("--clean", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--real",
        type=Path,
        help="package of a real run of grpo=tiny_smoke in which an alarm rang, for the designs",
    )
    parser.add_argument(
        "--only-designs", action="store_true", help="leave the rest of an earlier result as it is"
    )
    parser.add_argument(
        "--again",
        nargs="+",
        choices=sorted({*KINDS}),
        help="try these kinds alone, in the place of what an earlier result says of them",
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    if chosen.only_designs:
        result = json.loads(chosen.out.read_text(encoding="utf-8")) | designed(chosen.real, chosen.processes)
        write_result(chosen.out, result)
        return
    begun, package = time.monotonic(), sha256_bytes(chosen.package.read_bytes())
    with tempfile.TemporaryDirectory(prefix="assay-tamper-") as folder:
        unpack(chosen.package, Path(folder, "clean"))
        CLEAN.update(files_in(Path(folder, "clean")))
        if found := first_failure(chosen.package):
            raise SystemExit(f"the package itself fails: {found.level} {found.name}: {found.found}")
        seconds = {"one package, whole": round(time.monotonic() - begun, 1)}
        with ProcessPoolExecutor(chosen.processes, mp_context=multiprocessing.get_context("fork")) as pool:
            plan = plan_of(chosen.tamperings, chosen.seed)
            if chosen.again:
                before = json.loads(chosen.out.read_text("utf-8"))
                if (before["tamperings"], before["seed"]) != (chosen.tamperings, chosen.seed):
                    raise SystemExit(f"expected the number and seed that {chosen.out} was made with")
                tried = list(pool.map(try_one, [each for each in plan if each[1] in chosen.again]))
                write_result(chosen.out, replaced(before, tried, package))
                return
            tried = list(told(pool.map(try_one, plan, chunksize=2), "tamperings"))
            seconds["tamperings"] = round(time.monotonic() - begun, 1)
            made = [str(chosen.package)]
            made += pool.map(small_run, [(folder, *each) for each in SMALL_RUNS])
            forms = [(tar, form) for form in FORMS for tar in made][: chosen.clean]
            clean = list(told(pool.map(honest, forms), "honest packages"))
            seconds["honest packages"] = round(time.monotonic() - begun, 1)
    missed = missed_of(tried)
    alarms = [each for each in clean if each["failed"]]
    result = {
        "tamperings": len(tried),
        "caught": len(tried) - len(missed),
        "clean": len(clean),
        "false_alarms": len(alarms),
        "missed": missed,
        "alarms": alarms,
        "by_kind_and_depth": told_of(tried),
        "by_level": levels_of(told_of(tried)),
        "whole_verifications": sum("whole" in each for each in tried),
        "distinct_clean_packages": len({each["sha256"] for each in clean}),
        "package_sha256": package,
        "seed": chosen.seed,
        "seconds": seconds | {"all": round(time.monotonic() - begun, 1)},
        "processes": chosen.processes,
        "machine": machine(),
    }
    if chosen.real is not None:
        result |= designed(chosen.real, chosen.processes)
    write_result(chosen.out, result)


def designed(package: Path, processes: int) -> dict[str, Any]:
    """Return what became of every design on a package, and the table of them by kind and level."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assay-designs-") as folder:
        unpack(Path(package), Path(folder, "clean"))
        clean = files_in(Path(folder, "clean"))
        if found := first_failure(package):
            raise SystemExit(f"the package itself fails: {found.level} {found.name}: {found.found}")
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(told(pool.map(designs.tried, [(name, clean) for name in designs.DESIGNS]), "designs"))
    table: dict[str, dict[str, int]] = {}
    for each in found:
        row = table.setdefault(each["kind"], dict.fromkeys((*designs.LEVELS, designs.NOTHING), 0))
        row[each["level"]] += 1
    return {
        "designs": found,
        "designs_by_kind_and_level": table,
        "designs_n": len(found),
        "designs_otherwise": [each["design"] for each in found if each["level"] != each["due"]],
        "designs_package_sha256": sha256_bytes(package.read_bytes()),
        "designs_seconds": round(time.monotonic() - begun, 1),
    }


def write_result(out: Path, result: dict[str, Any]) -> None:
    """Write the result and print what of it fits a screen; fail unless all was found as early as it was due,
    and nothing else."""
    before = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    result = {
        name: value for name, value in before.items() if "_designs" in name
    } | result  # of other scripts
    written(out, result)
    shown = {name: value for name, value in result.items() if name not in ("by_kind_and_depth", "designs")}
    print(json.dumps(shown, indent=2, sort_keys=True))
    levels = (*designs.LEVELS, designs.NOTHING)
    late = [
        each for each in result.get("designs", ()) if levels.index(each["level"]) > levels.index(each["due"])
    ]
    if result["missed"] or result["alarms"] or late:
        raise SystemExit("not all were found as early as due, or an honest package was called tampered with")


def told(results: Iterator[dict[str, Any]], what: str) -> Iterator[dict[str, Any]]:
    """Say how far it is, now and then."""
    for number, each in enumerate(results, start=1):
        if number % 20 == 0:
            print(f"{number} {what}", file=sys.stderr, flush=True)
        yield each


if __name__ == "__main__":
    main()
