"""V1: episodes, tables, data, claim, pages, figures and the package's documents, made again and compared."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

import matplotlib as mpl

from assay.core.counting import counted
from assay.core.errors import RecordError
from assay.core.evidence_files import place_of
from assay.core.records import TRAINING_LOG_COLUMNS
from assay.core.storage.files import write_bytes
from assay.core.storage.json import read_record, write_jsonl
from assay.core.storage.untrusted import listing
from assay.package.verification.checks import LOG, TRAINING_TABLES, Check, LookResult, looked
from assay.package.verification.code import pins_of
from assay.package.verification.compared import compare
from assay.package.verification.unpacked import FIX, Unpacked, link
from assay.pipeline.live_log import Tables
from assay.pipeline.project import Project
from assay.stages import fingerprint, render_evidence
from assay.stages.package import holds_adapter, members_of
from assay.stages.packing.layout import ADAPTER, BASE, CARD, PARITY, PROVENANCE, SUMS, VERIFIER
from assay.stages.packing.parity import Parity
from assay.stages.render_evidence.scripted import ENDING, scripted_files
from assay.training.log.history import History, component_row


def tables_again(package: Unpacked, work: Path) -> Iterator[Check]:
    """Write the episodes of every arm and compute the tables of a training again, and compare each with the
    stored one.

    Args:
        package: What is stored.
        work: An empty folder to compute in.
    """

    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    yield looked("V1", "episodes", partial(episodes_again, package, work))
    yield looked("V1", "training tables", partial(training_again, package, work))


def episodes_again(package: Unpacked, work: Path) -> LookResult:
    """Write the episodes of every arm again and compare each file with the stored one."""
    again, n = replace(package.project, root=work), 0
    for name in package.arms:
        write_jsonl(again.results(f"{name}.jsonl"), package.episodes(name))
        n += len(package.episodes(name))
    said = f"{counted(n, 'episodes')} of {counted(len(package.arms), 'arms')} written again"
    names = [place_of(f"{name}.jsonl") for name in package.arms]
    return compare(package.root, work, names, said=said)


def training_again(package: Unpacked, work: Path) -> LookResult:
    """Compute the tables of a training again from its log and compare each with the stored one."""
    if package.elsewhere:
        said = "trained elsewhere: no table of a training, and no line in its log"
        here = [name for name in TRAINING_TABLES if place_of(name) in package.names]
        wrong = [f"{name}: of a training, and the settings name none" for name in here if name != LOG]
        return LookResult(said, wrong + [f"{LOG}: steps of no training" for _ in package.log[:1]])
    history, again = history_of(package), replace(package.project, root=work)
    Tables(again.root, again.params.train.steps, history, package.validation, package.task).write()
    write_jsonl(again.results("validation.jsonl"), package.validation_lines)
    n = sum(len(each.sampled) + len(each.greedy) for each in history.validations)
    said = (
        f"tables of {counted(len(package.log), 'steps')} and"
        f" {counted(len(history.validations), 'validations')} "
    )
    said += f"({counted(n, 'episodes')})"
    return compare(package.root, work, [place_of(name) for name in TRAINING_TABLES], said=said)


def history_of(package: Unpacked) -> History:
    """Return a training as its log and its validations tell it.

    Raises:
        KeyError: A row lacks its components.
    """
    columns = list(component_row(0, [], package.task))
    return History(
        training_log=[
            {name: row["kl_probe"] if name == "kl" else row.get(name) for name in TRAINING_LOG_COLUMNS}
            for row in package.log
        ],
        reward_components=[{name: row["components"][name] for name in columns} for row in package.log],
        train_log=list(package.log),
        validations=package.validations,
        health=package.events,
    )


PAGE, FIGURES, NUMBERS = place_of("report.html"), f"{place_of('figures')}/", (".json", ".csv", ENDING)


def files_again(
    package: Unpacked, work: Path, *, other_code: bool
) -> tuple[Callable[[], Check], Callable[[], Check]]:
    """Return how to make again, and compare, what the first stage wrote, and the package's own documents;
    arguments as of `pages_again`."""
    root = package.root

    def data() -> LookResult:
        fingerprint.run(_copied(package, work, fingerprint.WRITES))
        shutil.rmtree(work / ".scratch", ignore_errors=True)
        said = "fingerprint, audit, contamination and plan of the claim from the data"
        return compare(root, work, written_names(work, fingerprint.WRITES), said=said)

    def documents() -> LookResult:
        merged = holds_adapter(package.project)
        parity = read_record(root / PARITY, Parity, fix=FIX) if merged else None
        members = members_of(_copied(package, work, ()), parity)
        expected = {*members, SUMS}
        wrong = [f"{name} is missing" for name in sorted(expected - package.names)]
        wrong += [f"{name} has no place in a package" for name in sorted(package.names - expected)]
        made = {name: content for name, content in members.items() if isinstance(content, bytes)}
        for name, content in made.items():
            write_bytes(work / name, content)
        said = (
            f"{', '.join(sorted(made))} written again; every other of the {len(expected)} files is one of the"
            " run's"
        )
        seen = compare(root, work, made, said=said, pages=(CARD, PROVENANCE, VERIFIER) if other_code else ())
        return LookResult("", wrong) if wrong else seen

    return partial(looked, "V1", "data", data), partial(looked, "V1", "documents", documents)


def pages_again(
    package: Unpacked,
    work: Path,
    *,
    other_drawings: bool,
    other_code: bool,
    graded: Callable[[], Set[str]] | None = None,
    processes: int = 1,
) -> Iterator[Check]:
    """Run the last stage on a copy of a package, and yield the checks of claim, pages and figures.

    Args:
        package: What is stored.
        work: A folder that is not there yet, for the copy.
        other_drawings: Whether drawings are not judged that are not the same.
        other_code: Whether other code made the package: a page that it worded otherwise is left open by name.
        graded: As of `ArmReader`.
        processes: As of `begin`.
    """
    root = package.root

    def claim() -> LookResult:
        render_evidence.run(_copied(package, work, render_evidence.WRITES), graded, processes=processes)
        stored = among(package.names, render_evidence.WRITES)  # a table more than follows is found too
        names = {name for name in _rendered_names(work) | stored if name.endswith(NUMBERS)}
        # An older version packed none, and what follows from them is looked at all the same.
        older = other_code and not scripted_files(package.names)
        left = scripted_files(names) if older else []
        said = f"{len(names)} files from episodes, reports and logs"
        sorted_once = [place_of("metrics.json")] if other_code else []
        seen = compare(root, work, names.difference(left), said=said, in_any_order=sorted_once)
        if left and not seen.wrong:
            said = f"{seen.said}; of an older version, and without the episodes of scripted players"
            return LookResult(said, left=left)
        return seen

    def pages() -> LookResult:
        names = _rendered_names(work)
        drawn = {name for name in names if name.startswith(FIGURES)} | {PAGE}
        other = other_drawings and bool(compare(root, work, drawn, said="").wrong)
        texts = {name for name in names - drawn if not name.endswith(NUMBERS)}
        seen = compare(
            root,
            work,
            texts | {PAGE},
            said="report, summary and trajectories rendered again",
            apart_from_svg=other,
            pages=texts | {PAGE} if other_code else (),
        )
        if other and not seen.wrong:
            left = sorted({*seen.left, PAGE})
            return LookResult(f"{seen.said}, but for the drawings in report.html", left=left)
        return seen

    def figures() -> LookResult:
        names = {name for name in listing(work) if name.startswith(FIGURES)}
        stored = {name for name in package.names if name.startswith(FIGURES)}
        if odd := sorted(names ^ stored):
            return LookResult(
                "",
                [f"{name} is {'missing' if name in names else 'no figure of this evidence'}" for name in odd],
            )
        seen = compare(root, work, names, said=f"{counted(len(names), 'figures')} drawn again")
        if not seen.wrong:
            return seen
        # What a package says of its own stack excuses nothing: only who verifies may let drawings go
        # unchecked.
        theirs = (pins_of(root) or {}).get("matplotlib")
        said = (
            f"{len(seen.wrong)} of {len(names)} are drawn otherwise here (matplotlib {mpl.__version__},"
            f" theirs {theirs})"
        )
        return (
            LookResult(said, left=["the figures"])
            if other_drawings
            else LookResult("", [f"{said}: {seen.wrong[0]}"])
        )

    yield looked("V1", "claim", claim)
    yield looked("V1", "pages", pages)
    yield looked("V1", "figures", figures)


def _copied(package: Unpacked, work: Path, writes: tuple[str, ...]) -> Project:
    """Return a copy of the package as it is stored, but for what a stage is about to write.

    Raises:
        ConfigError: params.yaml is missing or wrong.
        DataError: It names data outside of the package.
    """
    shutil.rmtree(work, ignore_errors=True)
    for name in package.names:
        if not any(name == each or name.startswith(f"{each}/") for each in writes):
            target = work / name
            target.parent.mkdir(parents=True, exist_ok=True)
            link(package.root / name, target)  # stages write files anew, never into one that is there
    for name in (BASE, ADAPTER):  # where a pretrained base or a whole model lies, no package says
        (work / name).mkdir(parents=True, exist_ok=True)
    return replace(package.project, root=work)


def written_names(work: Path, writes: tuple[str, ...]) -> set[str]:
    """Return the files of a copy that are, or lie in, what a stage writes."""
    return among(listing(work), writes)


def among(names: Iterable[str], writes: tuple[str, ...]) -> set[str]:
    """Return the names that are, or lie in, what a stage writes."""
    inside = tuple(f"{each}/" for each in writes)
    return {name for name in names if name in writes or name.startswith(inside)}


def _rendered_names(work: Path) -> set[str]:
    """Return what the last stage has written into a copy.

    Raises:
        RecordError: Nothing, since it could not end.
    """
    found = written_names(work, render_evidence.WRITES)
    if PAGE not in found or not any(name.startswith(FIGURES) for name in found):
        fix = "see the check of the claim"
        raise RecordError(
            "evidence that was rendered", found="none, see claim", where="evidence/results", fix=fix
        )
    return found
