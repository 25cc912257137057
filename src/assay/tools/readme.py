"""`assay readme`: the generated blocks of README.md, each a function of committed files."""

from __future__ import annotations

from pathlib import Path

from assay.console import say
from assay.errors import RecordError
from assay.evidence.seed_tables import seeds_block
from assay.stages.at_hand import claim_at_hand
from assay.stages.project import RESULTS, Project
from assay.storage.files import read_text, write_text
from assay.tools.recipe_file import digest_last_code, read_recipes

README = "README.md"
TASKS = ("collider", "structured")


def blocks(root: Path) -> dict[str, str]:
    """Return the text of every generated block, by its name.

    Raises:
        NoVerdictYet: The last run was of other settings.
        AssayError: There is no finished run, or recipe.json or dvc.lock is damaged.
    """
    recipes, code = read_recipes(root), digest_last_code(root)
    claim_at_hand(Project.open(root))
    claim = read_text(root / RESULTS / "summary.md", fix="./run repro")
    return {"claim": claim} | {f"{task} seeds": seeds_block(recipes.get(task), task, code) for task in TASKS}


def marks(name: str) -> tuple[str, str]:
    """Return what stands before and behind a generated block."""
    return f"<!-- {name}: generated, do not edit -->\n", f"<!-- end of {name} -->"


def run(root: Path) -> None:
    """Write the generated blocks of README.md anew; the rest stays to the byte.

    Raises:
        AssayError: A block has no place there, or its source cannot be read.
    """
    text = read_text(root / README, fix="run this in the project's folder")
    for name, block in blocks(root).items():
        start, end = marks(name)
        if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
            raise RecordError(f"one pair of marks {start.strip()} … {end}", found="none", where=README, fix="restore it")
        head, _, rest = text.partition(start)
        text = head + start + block + end + rest.partition(end)[2]
    write_text(root / README, text)
    say("README.md shows the last run, and the seeds of recipe.json")
