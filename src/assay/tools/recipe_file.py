"""evidence/results/recipe.json: put together from finished runs, one entry a task, written by no stage."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from assay.errors import AssayError
from assay.evidence.recipe_records import RecipeClaim
from assay.evidence.recipe_runs import Run
from assay.evidence.recipe_tables import compare_runs
from assay.evidence.seed_records import BaseBuilt, Recipes, SeedRun, SeedsTogether
from assay.stages.project import RESULTS
from assay.storage.files import read_bytes, sha256_bytes
from assay.storage.json import digest, read_record, write_json
from assay.storage.yaml import read_yaml
from assay.tools.compare import with_known_code
from assay.tools.run_sources import APART, SETTINGS, flat, read_run
from assay.tools.seed_copies import LOCK, lock_of

FILE = f"{RESULTS}/recipe.json"
# The stages whose code decides the numbers of a run; how they are drawn changes none.
DECIDE = ("fingerprint", "base", "pre_eval", "train", "control", "post_eval")
_FIX = "git checkout -- evidence/results/recipe.json, or remove it and call assay seeds again"


def known(root: Path) -> dict[str, SeedsTogether]:
    """Return what recipe.json holds, by task; nothing where there is none.

    Raises:
        RecordError: It is damaged, or of another version.
    """
    return dict(read_record(root / FILE, Recipes, fix=_FIX).recipes) if (root / FILE).is_file() else {}


def write(root: Path, found: SeedsTogether) -> Path:
    """Write one task's entry beside those of other tasks, and return where."""
    recipes = known(root) | {found.task: found}
    write_json(root / FILE, Recipes(recipes=dict(sorted(recipes.items()))))
    return root / FILE


def digests(lock: Mapping[str, Any]) -> tuple[str, str]:
    """Return the digests of the code, and of the data, that the stages of a dvc.lock ran on.

    Code is the same for every task; data are not.
    """
    stages = lock.get("stages") or {}
    deps = {str(dep["path"]): dep.get("md5") for name in DECIDE for dep in stages.get(name, {}).get("deps", [])}
    own = {path: md5 for path, md5 in deps.items() if not path.startswith(("models/", "evidence/"))}
    code = {path: md5 for path, md5 in own.items() if path.startswith("src/") or path == "constraints.txt"}
    return digest(code), digest({path: md5 for path, md5 in own.items() if path not in code})


def code_now(root: Path) -> str | None:
    """Return the digest of the code that the project's last run was made by; None where dvc.lock does not say."""
    if not (root / LOCK).is_file():
        return None
    lock = lock_of(root)
    return digests(lock)[0] if set(DECIDE) <= set(lock.get("stages") or {}) else None


def together(
    task: str, preset: str, copies: Mapping[str, Path], runs: Sequence[SeedRun], bases: Sequence[BaseBuilt], *, one_sided: bool
) -> SeedsTogether:
    """Return one recipe over its seeds; what `assay runs compare` refuses, or a seed without a verdict, is not evaluable.

    Args:
        task: What its data are called.
        preset: That of the settings.
        copies: Folder of each run, by its name.
        runs: All seeds asked for, failed ones included: leaving one out would flatter the rest.
        bases: Bases built with other base seeds.
        one_sided: As for `assay runs compare`.
    """
    claim, reason, notes = _claimed(copies, runs, one_sided=one_sided)
    # A seed that failed can have a dvc.lock of an earlier run, by other code.
    whole = [copies[run.name] for run in runs if run.state == "finished" and (copies[run.name] / LOCK).is_file()]
    locked = [copy for copy in copies.values() if (copy / LOCK).is_file()]
    code, data, settings = _made_by((whole or locked or list(copies.values()))[0])
    return SeedsTogether(
        task=task, preset=preset, verdict="NOT EVALUABLE" if claim is None else claim.verdict,
        reason=reason if claim is None else claim.reason,
        sentence=f"The recipe over seeds is not evaluable: {reason}." if claim is None else claim.sentence,
        code_digest=code, data_digest=data, settings_digest=settings,
        lock_sha256={
            name: sha256_bytes(read_bytes(copy / LOCK, fix="call again"))
            for name, copy in copies.items()
            if copy in locked
        },
        seeds=tuple(run.seed for run in runs), runs=tuple(runs), bases=tuple(bases), recipe=claim, notes=tuple(notes),
    )  # fmt: skip


def _made_by(copy: Path) -> tuple[str, str, str]:
    """Return the digests of the code, the data and the settings of a run, the training seed left out."""
    settings = flat(read_yaml(copy / SETTINGS, fix="call again"))
    kept = {name: value for name, value in settings.items() if name.split(".")[0] not in APART}
    return *digests(lock_of(copy)), digest(kept)


def left_out(others: Mapping[int, Path], found: SeedsTogether) -> tuple[int, ...]:
    """Return the seeds whose copies hold a finished run of the same code, data and settings, and that were not asked for."""
    kind = (found.code_digest, found.data_digest, found.settings_digest)
    same = []
    for seed, copy in others.items():
        with suppress(AssayError):  # one that cannot be read is no finished run
            whole = "render_evidence" in (lock_of(copy).get("stages") or {})
            if seed not in found.seeds and whole and _made_by(copy) == kind:
                same.append(seed)
    return tuple(sorted(same))


def _claimed(
    copies: Mapping[str, Path], runs: Sequence[SeedRun], *, one_sided: bool
) -> tuple[RecipeClaim | None, str, Sequence[str]]:
    """Return what the runs show together, or None with the reason; and notes."""
    bad = [run for run in runs if run.verdict in (None, "NOT EVALUABLE")]
    if bad:
        each = "; ".join(f"{run.name} {'failed' if run.verdict is None else 'is NOT EVALUABLE'} ({run.reason})" for run in bad)
        return None, each, ()
    read = []
    try:
        for name, copy in copies.items():
            with tempfile.TemporaryDirectory(prefix="assay-seeds-") as scratch:
                run = read_run(copy, str(copy), Path(scratch))
            read.append(Run(name, run.settings, run.claim, run.trained, run.before, run.after))
        read, notes = with_known_code(read)
        found = compare_runs(read, one_sided=one_sided)
    except AssayError as error:
        return None, told(f"{error.where}: expected {error.expected}, found {error.found}", *copies.values()), ()
    if len(found.recipes) != 1:
        return None, f"the runs are of {len(found.recipes)} recipes, not of one", ()
    return found.recipes[0], "", [*found.notes, *notes]


def told(text: str, *copies: Path) -> str:
    """Return a message without the places of copies on this machine, which are nobody's business and change no fact.

    >>> told("/here/run/evidence: expected a, found b", Path("/here/run"))
    'evidence: expected a, found b'
    """
    for place in {str(each) for copy in copies for each in (copy, copy.resolve())}:
        text = text.replace(f"{place}/", "").replace(place, Path(place).name)
    return text
