"""V3, dvc.lock: md5 and size of everything that stages read and wrote, the settings they read, and one md5
for each file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from assay.core.config.settings import ScratchBase
from assay.core.errors import RecordError
from assay.core.evidence_files import folder_of, place_of
from assay.core.storage.yaml import read_yaml
from assay.package.verification.checks import LookResult
from assay.package.verification.unpacked import FIX, Unpacked
from assay.pipeline.dvc_lock import folder_md5, is_code, md5
from assay.rollout.dataset.external import whole_of
from assay.stages.packing.layout import ADAPTER, BASE, OPENINGS
from assay.stages.packing.pages import BEFORE

PARAMS = "params.yaml"
# What a stage cannot have done without: then dvc.lock says which it was.
READS = {
    "base": (place_of("fingerprint.json"),),
    "pre_eval": (place_of("fingerprint.json"), BASE),
    "train": (place_of("fingerprint.json"), place_of("claim_plan.json"), BASE),
    "post_eval": (place_of("fingerprint.json"), BASE, ADAPTER),
    "render_evidence": (folder_of("data"), folder_of("train")),
}
STAGE_KEYS = {"cmd", "deps", "params", "outs"}
WRITTEN = ("evidence/", "models/")
LockEntry = Mapping[str, Any]


def lock_holds(package: Unpacked) -> LookResult:
    """Compare every dep and out of dvc.lock with the file or folder in the package."""
    wrong: list[str] = []
    absent: list[str] = []
    n, known = 0, dict[str, tuple[str, int]]()
    base = package.project.params.base
    elsewhere = set() if isinstance(base, ScratchBase) else {BASE}
    elsewhere |= {ADAPTER} if whole_of(package.told) else set()
    for stage, kind, entry in _entries(package.lock):
        path = entry["path"]
        if is_code(path, package.project.params.task.told_code):  # which code that is, `code` says
            continue
        if path in elsewhere:
            absent.append(path)
            continue
        if path not in known:
            known[path] = _measured(package, path)
        n += 1
        if known[path][0] == "":
            wrong.append(f"dvc.lock, {stage}, {kind} {path}: not in the package")
        elif (entry["md5"], entry["size"]) != known[path]:
            told = f"md5 {entry['md5'][:12]}, {entry['size']} bytes"
            wrong.append(
                f"{path}: {stage} of dvc.lock has it as {told}; it is {known[path][0][:12]}, {known[path][1]}"
                " bytes"
            )
    said = (
        f"{n} deps and outs of {len(package.lock)} stages, {len(known)} files and folders: each with the md5"
        " and size it has"
    )
    return LookResult(
        f"{said}; not in the package: {', '.join(sorted(set(absent)))}" if absent else said, wrong
    )


def lock_whole(package: Unpacked) -> LookResult:
    """Check that all stages before this package are there with the settings of params.yaml, and read what
    others wrote."""
    wrong, lock = [], package.lock
    if odd := set(lock) ^ set(BEFORE):
        wrong.append(f"dvc.lock: stages {', '.join(sorted(odd))}: in it, or in the pipeline, not in both")
    values = read_yaml(package.root / PARAMS, fix=FIX)
    for stage in sorted(set(lock) & set(BEFORE)):
        if more := set(lock[stage]) - STAGE_KEYS:
            wrong.append(f"dvc.lock, {stage}: {min(map(str, more))!r:.60} is nothing that DVC writes")
        if lock[stage].get("cmd") != f"assay {stage.replace('_', '-')}":
            wrong.append(f"dvc.lock, {stage}, cmd: {lock[stage].get('cmd')!r:.80}")
        wrong += _other_settings(stage, lock[stage], values)
        read = {entry["path"] for _, kind, entry in _entries({stage: lock[stage]}) if kind == "deps"}
        wrong += [f"dvc.lock, {stage}, deps: no {name}" for name in READS.get(stage, ()) if name not in read]
    made: dict[str, tuple[str, LockEntry]] = {}
    for stage, kind, entry in _entries(lock):
        if kind == "outs" and made.setdefault(entry["path"], (stage, entry))[0] != stage:
            wrong.append(f"dvc.lock: {entry['path']} is an out of two stages")
    outs = tuple(made)
    for name in sorted(package.names):
        if (
            name.startswith(WRITTEN)
            and name not in made
            # The ledger of openings is noted by whoever opens, and is nobody's out.
            and name != OPENINGS
            and not any(name.startswith(f"{out}/") for out in outs)
        ):
            wrong.append(f"{name}: no stage of dvc.lock wrote it")
    n = 0
    for stage, kind, entry in _entries(lock):
        if kind == "deps" and entry["path"] in made:
            n += 1
            maker, out = made[entry["path"]]
            if (out["md5"], out["size"]) != (entry["md5"], entry["size"]):
                wrong.append(f"dvc.lock: {stage} read another {entry['path']} than {maker} wrote")
    said = f"all {len(lock)} stages, with the settings of params.yaml; {n} times one read what another wrote"
    return LookResult(said, wrong)


def _entries(lock: Mapping[str, Any]) -> Iterator[tuple[str, str, LockEntry]]:
    """Yield (stage, deps or outs, entry) of everything with a digest.

    Raises:
        RecordError: An entry is none.
    """
    for stage, found in lock.items():
        for kind in ("deps", "outs"):
            for entry in found.get(kind) or []:
                kinds = {"path": str, "md5": str, "size": int, "hash": str}
                known = isinstance(entry, dict) and set(entry) <= {*kinds, "nfiles", "isexec"}
                if not known or any(type(entry.get(name)) is not of for name, of in kinds.items()):
                    where = f"dvc.lock, {stage}, {kind}"
                    raise RecordError(
                        "path, hash, md5 and size", found=repr(entry)[:80], where=where, fix=FIX
                    )
                yield stage, kind, entry


def _measured(package: Unpacked, path: str) -> tuple[str, int]:
    """Return the md5 by which DVC knows a file or folder, and its size; the md5 is empty where there is
    neither."""
    if path in package.names:
        content = (package.root / path).read_bytes()
        return md5(content), len(content)
    inside = sorted(name for name in package.names if name.startswith(f"{path}/"))
    if not inside:
        return "", 0
    return folder_md5({name.removeprefix(f"{path}/"): package.root / name for name in inside})


def _value(values: Mapping[str, Any], dotted: str) -> Any:
    found: Any = values
    for name in dotted.split("."):
        if not isinstance(found, Mapping) or name not in found:
            raise RecordError(f"a setting {dotted}", found="none", where=PARAMS, fix=FIX)
        found = found[name]
    return found


def _other_settings(stage: str, locked: LockEntry, values: Mapping[str, Any]) -> list[str]:
    """Return the settings of a stage that dvc.lock has otherwise than params.yaml."""
    told = locked.get("params") or {}
    if not isinstance(told, dict) or set(told) - {PARAMS} or not isinstance(told.get(PARAMS, {}), dict):
        return [f"dvc.lock, {stage}, params: not those of {PARAMS}"]
    return [
        f"{PARAMS}, {name}: not what {stage} read, by dvc.lock"
        for name, value in sorted(told.get(PARAMS, {}).items())
        if json.dumps(value, sort_keys=True) != json.dumps(_value(values, name), sort_keys=True)
    ]
