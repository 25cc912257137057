"""V1 to V3 of one unpacked package: all checks in order, those that draw beside those that count."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from assay.core.config.removed import LAST, RemovedSetting
from assay.core.errors import PackageError
from assay.package.verification import code, folders, locked, stated, suites
from assay.package.verification.checks import UNUSABLE, Check, Level, LookResult, looked, plain, unlooked
from assay.package.verification.content import training, weights
from assay.package.verification.content.regraded import regraded, scripted_regraded
from assay.package.verification.content.rendered import files_again, pages_again, tables_again
from assay.package.verification.unpacked import Unpacked
from assay.stages.render_evidence.ahead import end_when_orphaned

Look = Callable[[Unpacked], LookResult]
Looks = Callable[[Unpacked], list[Check]]
LEVELS: tuple[Level, ...] = ("V1", "V2", "V3")
RIGHT = ("V2", "passed")  # of a file of episodes that was graded again
CONSISTENT: tuple[tuple[str, Look], ...] = (
    ("dvc.lock", locked.lock_holds),
    ("pipeline", locked.lock_whole),
    ("names", folders.names_allowed),
    ("model settings", folders.model_settings),
    ("base and adapter", weights.digests_hold),
    ("weights", weights.weights_sane),
    ("adapter", weights.adapter_learned),
    ("facts of the model", stated.facts_within_bounds),
    ("plan before training", training.plan_precedes),
    ("suites", suites.suites_equal),
    ("draws and seeds", suites.draws_complete),
    ("openings", suites.openings_equal),
    ("tokens", suites.tokens_counted),
    ("policies", suites.policies_named),
    ("ledger", stated.openings_follow),
    ("arms", suites.arms_apart),
    ("draws", suites.draws_apart),
    ("rivals", stated.rivals_told),
    ("steps", training.log_whole),
    ("training items", training.items_in_order),
    ("checkpoint", training.checkpoint_follows),
    ("alarms", training.alarms_ring_again),
)
OF_A_TRAINING: tuple[Look, ...] = (
    training.log_whole,
    training.items_in_order,
    training.checkpoint_follows,
    training.alarms_ring_again,
)


def all_levels(
    root: Path, work: Path, *, other_code: bool = False, processes: int = 2, task_code: Path | None = None
) -> Iterator[Check]:
    """Yield the checks of V1, V2 and V3 as they end; no torch, no network, nothing of the package is run.

    Args:
        root: The unpacked package; only read.
        work: An empty folder for what is computed again.
        other_code: Whether another version of the code may check, and other drawings go unjudged.
        processes: 2: what draws nothing is looked at in a process beside.
        task_code: The checker's own copy of the folder of a task that was brought along: it is run, in place
            of the package's word. None: nobody's code is.

    Raises:
        PackageError: It is of what only earlier versions can do.
    """
    package = Unpacked(root, task_code=task_code)
    refuse_removed(package)
    shown = _named(root, work)
    first = [shown(each) for each in settings(package, other_code=other_code)]
    yield from first
    if (
        first[-1].outcome == "failed"
    ):  # by settings that nobody can read, or that ask for years, nothing can be computed
        yield from (
            unlooked(level, "all else", "not looked at: the settings are not those of this run")
            for level in LEVELS
        )
        return
    told = (root, package.names, task_code)
    with _beside(processes, told) as start:
        differs = first[0].outcome == "not checked"
        grading = start(partial(tables_and_grading, work=work / "tables", scripted=False))
        beside = start(partial(data_and_consistency, work=work / "tables", other_code=differs))

        def graded() -> frozenset[str]:
            return frozenset(each.name for each in _waited(grading) if (each.level, each.outcome) == RIGHT)

        pages = pages_again(
            package,
            work / "pages",
            other_drawings=other_code,
            other_code=differs,
            graded=graded,
            processes=processes,
        )
        rendered = list(map(shown, pages))
        scripted = map(shown, scripted_regraded(package, work / "pages"))
        others = list(map(shown, [*_waited(grading), *_waited(beside)]))
        numbers = [each for each in others if each.level == "V1"]
        yield from (*numbers[:-1], *rendered, *numbers[-1:])  # the documents come last
        yield from (each for each in others if each.level == "V2")
        yield from scripted
        yield from (each for each in others if each.level == "V3")


def refuse_removed(package: Unpacked) -> None:
    """Refuse a package of what only earlier versions can do, and so check.

    Raises:
        PackageError: It is one.
    """
    try:
        package.project  # noqa: B018  # reads the settings
    except RemovedSetting as gone:
        fix = f"check it with the version of assay that made it, or with commit {LAST} and --other-code"
        raise PackageError(
            gone.expected, found=gone.found, where=f"the package's {gone.where}", fix=fix
        ) from None
    except UNUSABLE:
        return  # a check says so


def tables_and_grading(package: Unpacked, *, work: Path, scripted: bool = True) -> list[Check]:
    """Return the checks for which the claim waits; arguments as of `pages_again` and `regraded`."""
    return [*tables_again(package, work), *regraded(package, scripted=scripted)]


def data_and_consistency(package: Unpacked, *, work: Path, other_code: bool) -> list[Check]:
    """Return all other checks that draw nothing, the documents second; arguments as of `pages_again`."""
    data, documents = files_again(package, work, other_code=other_code)
    return [data(), documents(), *consistent(package)]


def settings(package: Unpacked, *, other_code: bool) -> Iterator[Check]:
    """Yield what has to hold before the rest means anything: whose code it is, and that its settings can be
    read."""
    yield looked("V3", "code", partial(code.code_equal, package, other_code=other_code))
    yield looked("V3", "requirements", partial(code.requirements_equal, package, other_code=other_code))
    yield looked("V3", "settings", partial(settings_fit, package))


def settings_fit(package: Unpacked) -> LookResult:
    """Check that the settings can be read and ask for no more steps and draws than are stored: checks cost
    what they ask."""
    params = package.project.params
    asked = {"evaluation.draws": (params.evaluation.draws, "pre_eval.jsonl")}
    if not package.elsewhere:
        asked |= {
            "train.steps": (params.train.steps, "train_log.jsonl"),
            "validation.draws": (params.validation.draws, "validation.jsonl"),
        }
    wrong = []
    for name, (n, file) in asked.items():
        with package.results(file).open("rb") as stream:
            lines = sum(1 for _ in stream)
        if n > lines:
            wrong.append(f"params.yaml, {name}: {n}, and {lines} lines in {file}")
    return LookResult(
        f"params.yaml of task {params.task.name}, read strictly; no larger than what is stored", wrong
    )


def consistent(
    package: Unpacked, otherwise: Mapping[str, Look | None] = MappingProxyType({})
) -> Iterator[Check]:
    """Yield the checks of what must hold together.

    Args:
        package: All of a run, or what a package of seeds holds of one.
        otherwise: By the name of a look what is looked at in its place; None: nothing is.
    """
    for name, look in CONSISTENT:
        found = otherwise.get(name, look)
        if found is None:
            continue
        if package.elsewhere and look in OF_A_TRAINING:
            yield unlooked("V3", name, "trained elsewhere: there is no log of it", "not shown")
            continue
        yield looked("V3", name, partial(found, package))


def _waited(beside: Callable[[], list[Check]]) -> list[Check]:
    try:
        return beside()
    except (OSError, RuntimeError) as error:  # the process beside was killed, or could not be started
        return [
            unlooked("V2", "grading", f"the process beside ended: {error}").model_copy(
                update={"outcome": "failed"}
            )
        ]


_PACKAGE: Unpacked  # of the process beside, which keeps what it has read


@contextmanager
def _beside(
    processes: int, told: tuple[Path, frozenset[str], Path | None]
) -> Iterator[Callable[[Looks], Callable[[], list[Check]]]]:
    """Give a function that starts a look in a process beside this one, if there may be one, and returns how
    to wait for it; `told` are the arguments of its `Unpacked`."""
    if processes < 2:
        package = Unpacked(*told)
        yield lambda look: cache(partial(_look_alone, look, package))
        return
    # A fork has everything imported already; elsewhere it is not safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_open, initargs=told) as pool:
        yield lambda look: pool.submit(_look, look).result


def _look_alone(look: Looks, package: Unpacked) -> list[Check]:
    """Return what a look finds; its episodes are read again by the next one, and not held beside those of the
    claim."""
    try:
        return look(package)
    finally:
        package.forget_episodes()


def _open(*told: Any) -> None:
    global _PACKAGE  # a process beside has one package
    end_when_orphaned()
    _PACKAGE = Unpacked(*told)


def _look(look: Looks) -> list[Check]:
    return look(_PACKAGE)


def _named(root: Path, work: Path) -> Callable[[Check], Check]:
    """Return how a check is told without the folders of this machine in which it was made."""

    def shown(check: Check) -> Check:
        found = check.found
        for folder in (work / "pages", work / "tables", root):
            found = found.replace(f"{folder}/", "").replace(str(folder), "the package")
        return check.model_copy(update={"found": plain(found)})

    return shown
