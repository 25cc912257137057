"""The raw episodes of every seed of a recipe, in a package of their own, and what comes of them again.

One archive a task in evidence/seeds/, tracked by DVC through a file beside it. What is equal in every run, as the
measurement of the base, lies in it once. The numbers over seeds follow from it with this code and no model; the row of each seed is that
of its own claim.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from assay.core.errors import PackageError
from assay.core.evidence_files import RESULTS, place_of
from assay.core.storage.files import read_bytes, write_bytes, write_text
from assay.core.storage.json import dumps, read_record
from assay.evidence.recipe.records import Recipes, SeedsTogether
from assay.package.archive import sealed, sha256_of, write_gz, write_tar
from assay.package.layout import PROVENANCE, SUMS, files_of
from assay.package.verify import FORMAT
from assay.pipeline.dvc_lock import md5
from assay.tools.recipe import recipe_file
from assay.tools.recipe.compare import LOCK, SETTINGS
from assay.verify.checks import Check, LookResult, looked

HOME, RECIPE, SHARED = "evidence/seeds", "recipe.json", "shared"
# Of each run: the results that dvc.lock vouches for, and of what was rendered from them what recipe.json quotes.
PAGES = tuple(place_of(name) for name in ("claim.json", "metrics.json"))
FIX = "./run assay seeds again"
# What a comparison with the bases that were built beside it, or with runs that were left out, cannot say again.
_NOT_DERIVED = ("bases", "notes", "lock_sha256")


def pack_seeds(root: Path, found: SeedsTogether, copies: Sequence[Path]) -> Path:
    """Write evidence/seeds/<task>.tar.gz of finished runs, and the file by which DVC tracks it.

    Raises:
        PackageError: A file of a run is missing.
        OSError: It cannot be written; an older archive stays.
    """
    runs = {copy.name: dict(files_of(copy, _entries(copy), fix=FIX)) for copy in copies}
    members: dict[str, bytes | Path] = {
        RECIPE: f"{dumps(Recipes(recipes={found.task: found}).model_dump(mode='json'))}\n".encode(),
        PROVENANCE: f"{dumps({'format': FORMAT, 'seeds': found.task})}\n".encode(),
    }
    for name in sorted({name for files in runs.values() for name in files}):
        places = [files.get(name) for files in runs.values()]
        same = None not in places and len({sha256_of(place) for place in places if place}) == 1
        for run, files in list(runs.items())[: 1 if same else None]:
            if name in files:
                members[f"{SHARED if same else run}/{name}"] = files[name]
    packed = root / HOME / f"{found.task}.tar.gz"
    with tempfile.TemporaryDirectory(prefix="assay-seeds-") as scratch:
        write_tar(Path(scratch, "seeds.tar"), sealed(members))
        write_gz(packed, Path(scratch, "seeds.tar"))
    content = read_bytes(packed, fix=FIX)
    # By hand what `dvc add` writes, but for its copy in the cache: the archive itself is in git.
    tracked = {
        "md5": md5(content),
        "size": len(content),
        "hash": "md5",
        "path": packed.name,
        "cache": "false",
    }
    lines = [f"{'- ' if name == 'md5' else '  '}{name}: {value}" for name, value in tracked.items()]
    write_text(packed.with_name(f"{packed.name}.dvc"), "\n".join(["outs:", *lines, ""]))
    return packed


def _entries(copy: Path) -> list[str]:
    outs = [
        str(out["path"])
        for name, stage in recipe_file.read_stages(copy).items()
        if name != recipe_file.LAST
        for out in stage.get("outs", [])
    ]
    return [*(out for out in outs if out.startswith(f"{RESULTS}/")), *PAGES, SETTINGS, LOCK]


def holds_seeds(package: Path) -> bool:
    """Return whether an unpacked package is one of seeds."""
    return (package / RECIPE).is_file() and (package / SHARED).is_dir()


def check_seeds(package: Path, work: Path) -> Iterator[Check]:
    """Yield what the runs of an unpacked package say again of recipe.json, which lies in it.

    Args:
        package: The folder of the package.
        work: An empty folder.
    """
    told: dict[str, SeedsTogether] = {}

    def names() -> LookResult:
        told.update(read_record(package / RECIPE, Recipes, fix=FIX).recipes)
        expected = {
            SHARED,
            RECIPE,
            PROVENANCE,
            SUMS,
            *(run.name for one in told.values() for run in one.runs),
        }
        others = sorted(each.name for each in package.iterdir() if each.name not in expected)
        return LookResult(
            f"{len(told)} recipe", [f"{name}: has no place in a package of seeds" for name in others]
        )

    yield looked("V1", "recipe", names)
    for task, one in told.items():
        copies = [work / run.name for run in one.runs]

        def again(one: SeedsTogether = one, copies: Sequence[Path] = copies) -> LookResult:
            locks = {copy.name: sha256_of(package / copy.name / LOCK) for copy in copies}
            for copy in copies:
                _restore(package, copy)
            wrong = [
                f"{name}/{LOCK}: not that of {RECIPE}"
                for name in locks
                if locks[name] != one.lock_sha256[name]
            ]
            return _derived(one, copies, wrong)

        yield looked("V1", f"{task}: the numbers over seeds, from raw episodes", again)


def _restore(package: Path, copy: Path) -> None:
    """Put a run together; of what it rendered, which follows from the rest, dvc.lock is not asked."""
    for home in (package / SHARED, package / copy.name):
        if not home.is_dir():
            raise PackageError("the files of every run", found="no folder", where=copy.name, fix=FIX)
        for path in home.rglob("*"):
            if path.is_file():
                write_bytes(copy / path.relative_to(home), read_bytes(path, fix=FIX))
    stages = {
        name: stage for name, stage in recipe_file.read_stages(copy).items() if name != recipe_file.LAST
    }
    write_text(copy / LOCK, f"{dumps({'schema': '2.0', 'stages': stages})}\n")


def _derived(told: SeedsTogether, copies: Sequence[Path], wrong: list[str]) -> LookResult:
    """Put recipe.json together again; every difference is named by its field."""
    one_sided = told.recipe is not None and told.recipe.sided == "one-sided"
    runs = [recipe_file.read_seed(copy) for copy in copies]
    found = recipe_file.combine_seeds(told.task, told.preset, copies, runs, told.bases, one_sided=one_sided)
    left, right = (
        _flat({k: v for k, v in each.model_dump(mode="json").items() if k not in _NOT_DERIVED})
        for each in (told, found)
    )
    wrong += [
        f"{RECIPE}, {name}: {left.get(name)}, the episodes give {right.get(name)}"
        for name in sorted(left.keys() | right.keys())
        if left.get(name) != right.get(name)
    ]
    return LookResult(f"{len(left)} values of {len(runs)} seeds", wrong)


def _flat(value: object, prefix: str = "") -> dict[str, object]:
    if isinstance(value, Mapping):
        pairs = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list):
        pairs = [(str(k), inner) for k, inner in enumerate(value)]
    else:
        return {prefix: value}
    return {
        name: each
        for key, inner in pairs
        for name, each in _flat(inner, f"{prefix}.{key}".lstrip(".")).items()
    }
