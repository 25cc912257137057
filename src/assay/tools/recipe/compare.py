"""`assay runs compare`: trainings of several seeds as one statement about the recipe; recipes in pairs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from assay.core.console import complain, say, say_table
from assay.core.errors import AssayError, EvidenceError, RecordError
from assay.core.storage.files import write_bytes, write_text
from assay.core.storage.json import write_json
from assay.core.storage.tables import write_csv
from assay.evidence.figures.drawing import render
from assay.evidence.figures.recipe_figures import performance_profile, seeds_forest
from assay.evidence.recipe.formatting import MEANING
from assay.evidence.recipe.runs import RUNS, Run
from assay.evidence.recipe.tables import (
    CSV_COLUMNS,
    RecipeComparison,
    compare_runs,
    comparison_frame,
    comparison_markdown,
    contests_frame,
    csv_rows,
    recipes_frame,
)
from assay.tools.recipe.run_sources import CODE, WORKSPACE, experiments, read_run


def run(root: Path, names: Sequence[str], *, one_sided: bool, out: Path | None) -> None:
    """Say what the runs show together; with `out` write compare.json, compare.csv, compare.md and two figures
    there.

    Args:
        root: The project.
        names: Folders, experiments or revisions; without any, all experiments of the commit at hand and the
            workspace.
        one_sided: Ask only whether the recipe improves: 5 seeds are enough, and a loss is never shown.
        out: A folder, made if it is not there.

    Raises:
        AssayError: A run cannot be read, or they cannot be put together.
    """
    if out is not None and out.exists() and not out.is_dir():
        fix = "--out with another name"
        raise RecordError("a folder to write in", found="a file", where=str(out), fix=fix)
    runs = read_all(root, names or [*experiments(root), WORKSPACE])
    notes: list[str] = []
    if not names:
        runs, notes = without_copies(runs)
    runs, unknown = with_known_code(runs)
    found = compare_runs(runs, one_sided=one_sided, notes=[*notes, *unknown])
    tell(found)
    if out is not None:
        write(out, found, runs[0].claim.plan.smallest_effect_points, runs[0].claim.plan.primary)
        say(f"wrote compare.json, compare.csv, compare.md and figures to {out}")


def read_all(root: Path, names: Sequence[str]) -> list[Run]:
    """Return all runs; if one cannot be read none is compared, since those that fail are seldom a random
    choice.

    Raises:
        EvidenceError: Some cannot be read; each is said.
        AssayError: The only one cannot.
    """
    runs: list[Run] = []
    failed: list[AssayError] = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="assay-compare-") as scratch:
            try:
                runs.append(read_run(root, name, Path(scratch)))
            except AssayError as error:
                failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        for each in failed:
            complain(f"{each.where}: expected {each.expected}, found {each.found}")
        found, fix = f"{len(failed)} that cannot (above)", "mend them, or name the others"
        fix += " (and say what was left out, and why)"
        raise EvidenceError("runs that can be read", found=found, where=RUNS, fix=fix)
    return runs


def without_copies(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Return the runs without those that are another one's copy in everything, and a note of each copy.

    After `dvc exp run` the workspace holds the newest experiment a second time.
    """
    kept: list[Run] = []
    notes = []
    for run in runs:
        same = [k for k in kept if (k.trained, k.settings, k.claim) == (run.trained, run.settings, run.claim)]
        if same:
            notes.append(f"{run.name} is the same run as {same[0].name}, and counted once.")
        else:
            kept.append(run)
    return kept, notes


def with_known_code(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Return the runs, without code in their settings if it is not known of all; then a note says so."""
    unknown = [run.name for run in runs if not any(name.startswith(CODE) for name in run.settings)]
    if not unknown:
        return list(runs), []
    bare = [
        replace(run, settings={k: v for k, v in run.settings.items() if not k.startswith(CODE)})
        for run in runs
    ]
    named = ", ".join(unknown)
    return bare, [f"Whether the same code trained them is not known: no dvc.lock beside {named}."]


def tell(found: RecipeComparison) -> None:
    """Say verdicts, then tables, then what the intervals are for."""
    for recipe in found.recipes:
        title = f"{recipe.recipe}: " if len(found.recipes) > 1 else ""
        say(f"{title}{recipe.verdict}: {recipe.sentence}")
        for warning in recipe.warnings:
            say(f"warning: {title}{warning}")
    for contest in found.contests:
        say(f"{contest.verdict}: {contest.sentence}")
    for note in found.notes:
        say(f"note: {note}")
    frames = [comparison_frame(found), recipes_frame(found)]
    frames += [contests_frame(found)] if found.contests else []
    for frame in frames:
        say("")
        say_table(list(frame.columns), [[str(cell) for cell in row] for row in frame.itertuples(index=False)])
    say("")
    say(MEANING)


def write(out: Path, found: RecipeComparison, smallest_effect_points: float, primary: str) -> None:
    """Write the comparison as record, table, text and figures; equal runs give equal bytes."""
    write_json(out / "compare.json", found)
    write_csv(out / "compare.csv", csv_rows(found), CSV_COLUMNS)
    write_text(out / "compare.md", comparison_markdown(found))
    figures = {
        "seeds_forest": seeds_forest(found.recipes, smallest_effect_points, primary),
        "performance_profile": performance_profile(found.recipes, primary),
    }
    for name, figure in figures.items():
        for kind, content in render(figure).items():
            write_bytes(out / f"{name}.{kind}", content)
