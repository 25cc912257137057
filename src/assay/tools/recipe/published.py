"""The raw episodes of every seed of a recipe, in a package of their own.

One archive a task in evidence/seeds/, tracked by DVC through a file beside it. What is equal in every run, as
the data and the measurement of the base, lies in it once. Every claim and the numbers over seeds follow from
it with this code and no model (check_seeds.py).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePath

from assay.core.evidence_files import RESULTS, place_of
from assay.core.storage.files import read_bytes, write_bytes, write_text
from assay.core.storage.json import dumps
from assay.evidence.figures.drawing import render
from assay.evidence.figures.gallery import of_seeds_of
from assay.evidence.recipe.records import Recipes, SeedsTogether
from assay.package.archive import sealed, sha256_of, write_gz, write_tar
from assay.package.layout import PROVENANCE, files_of
from assay.package.verify import FORMAT
from assay.pipeline.dvc_lock import md5
from assay.pipeline.project import Project
from assay.tools.recipe import recipe_file
from assay.tools.recipe.compare import LOCK, SETTINGS

HOME, RECIPE, SHARED = "evidence/seeds", "recipe.json", "shared"
# Of each run: the results that dvc.lock vouches for, and of what was rendered from them what recipe.json
# quotes.
PAGES = tuple(place_of(name) for name in ("claim.json", "metrics.json"))
KINDS = ("png", "svg")
FIX = "./run assay seeds again"


def pack_seeds(root: Path, found: SeedsTogether, copies: Sequence[Path]) -> Path:
    """Write evidence/seeds/<task>.tar.gz of finished runs, the file by which DVC tracks it, and the figure.

    Raises:
        PackageError: A file of a run is missing.
        OSError: It cannot be written; an older archive stays.
    """
    runs = {copy.name: dict(files_of(copy, entries_of(copy), fix=FIX)) for copy in copies}
    figures = {f"{found.task}.{kind}": content for kind, content in draw_seeds(found, copies[0]).items()}
    members: dict[str, bytes | Path] = {
        **figures,
        RECIPE: recipe_bytes(found),
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
    for name, drawing in figures.items():
        write_bytes(packed.with_name(name), drawing)
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


def entries_of(copy: Path) -> list[str]:
    """Return what of a run is packed: its results, as dvc.lock names them, its settings and its data."""
    outs = [
        str(out["path"])
        for name, stage in recipe_file.read_stages(copy).items()
        if name != recipe_file.LAST
        for out in stage.get("outs", [])
    ]
    kept = [out for out in outs if out.startswith(f"{RESULTS}/")]
    return [*kept, *PAGES, SETTINGS, LOCK, *data_of(Project.open(copy))]


def data_of(project: Project) -> list[str]:
    """Return the folder of the data, without which no episode can be graded; none where it lies elsewhere."""
    data = PurePath(os.path.normpath(project.params.dataset.root))
    return [] if data.is_absolute() or data.parts[:1] in ((), ("..",)) else [data.as_posix()]


def recipe_bytes(found: SeedsTogether) -> bytes:
    """Return recipe.json as the package of one recipe holds it."""
    return f"{dumps(Recipes(recipes={found.task: found}).model_dump(mode='json'))}\n".encode()


def draw_seeds(found: SeedsTogether, copy: Path) -> dict[str, bytes]:
    """Return the figure of every seed by its format; which measure is primary, the settings of a run say."""
    return render(of_seeds_of(found, Project.open(copy).params.claim.primary).figure)


def holds_seeds(package: Path) -> bool:
    """Return whether an unpacked package is one of seeds."""
    return (package / RECIPE).is_file() and (package / SHARED).is_dir()
