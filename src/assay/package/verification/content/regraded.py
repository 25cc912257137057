"""V2: every stored completion is read and graded again, held-out and validation alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from assay.core.counting import counted
from assay.core.records import Episode
from assay.package.verification.checks import Check, LookResult, looked, unlooked
from assay.package.verification.own_code import unseen_said
from assay.package.verification.unpacked import FIX, Unpacked
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.replay import graded_again
from assay.rollout.tasks.own.settings import OF_TEXT, OwnTask
from assay.stages.packing.layout import TOLD
from assay.stages.packing.pages import told_of
from assay.stages.render_evidence.scripted import FOLDER, read_scripted, scripted_file, scripted_files

EACH = "each with the parts, flags and success that are stored"


def regraded(package: Unpacked, *, scripted: bool = True) -> Iterator[Check]:
    """Grade the episodes of every arm, of scripted players and of every validation again.

    Metrics that agree to 9 digits pass and rewards that agree to 12, and it is said of them: processors with
    and without AVX-512 differ in the last bits of an exponential. Of somebody's own code 7 digits will do, as
    many as single precision has. Without `scripted` those of such players are left to `scripted_regraded`.
    """
    for name in package.arms:
        yield looked("V2", f"{name}.jsonl", partial(_arm, package, name))
    if scripted:
        yield from scripted_regraded(package)
    if not package.elsewhere:
        yield looked("V2", "validation.jsonl", partial(validations_regraded, package))
    if package.project.params.task.brings_code:
        if package.task_code is None:
            yield unlooked("V2", "rewards", unseen_said(package))
        else:
            yield looked("V2", TOLD, partial(_told_again, package))


def scripted_regraded(package: Unpacked, played: Path | None = None) -> Iterator[Check]:
    """Grade what scripted players did again.

    Args:
        package: What is stored.
        played: A copy of the package in which they have just played. A file that came out there to the last
            byte was graded in that, completion by completion. None: all are graded here.
    """
    for path in scripted_files(package.names):
        name = f"{FOLDER}/{path.rpartition('/')[2]}"
        again = None if played is None else played / path
        yield looked("V2", name, partial(_scripted, package, name, again))


def _told_again(package: Unpacked) -> LookResult:
    """Compare what the task's code is said to have told beside the episodes with what the checker's copy
    tells."""
    again = (told_of(package.project) or b"").splitlines()
    stored = (package.root / TOLD).read_bytes().splitlines()
    odd = len(set(again) ^ set(stored))
    wrong = [f"{TOLD}: {counted(odd, 'lines')} are not what the task's code tells"] if odd else []
    return LookResult(f"{counted(len(stored), 'lines')} told again", wrong)


def _arm(package: Unpacked, name: str) -> LookResult:
    return _graded(package, [(package.suite_of(name), package.episodes(name), f"{name}.jsonl")])


def _scripted(package: Unpacked, name: str, again: Path | None) -> LookResult:
    """Grade what each scripted player did on one suite; that it is what they do, V1 looks at."""
    suites = {scripted_file(package.project, each): each for each in ("", *package.project.params.played[1:])}
    if name not in suites:
        return LookResult("", [f"{name}: of no suite that was played"])
    known = suites[name]
    suite = package.secondary[known] if known else package.heldout
    played = read_scripted(package.results(name), fix=FIX)
    parts = [(suite, episodes, f"{name}, {player}") for player, episodes in played.items()]
    # Whether code that was brought along repeats itself is part of what grading looks at.
    if again is None or package.project.params.task.brings_code or not _equal(package.results(name), again):
        return _graded(package, parts)
    return LookResult(f"{_counts(parts)} graded again, {EACH}")


def _equal(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def _counts(parts: Sequence[tuple[Suite, list[Episode], str]]) -> str:
    n = sum(len(episodes) for _, episodes, _ in parts)
    turns = sum(len(episode.turns) for _, episodes, _ in parts for episode in episodes)
    return f"{counted(turns, 'completions')} of {counted(n, 'episodes')}"


def validations_regraded(package: Unpacked) -> LookResult:
    """Grade the episodes of every validation again."""
    parts, single = [], replace(package.validation, draws=1)
    for step, sampled, greedy in package.validations:
        parts.append((package.validation, sampled, f"validation.jsonl, step {step}, sampled"))
        parts.append((single, greedy, f"validation.jsonl, step {step}, greedy"))
    return _graded(package, parts)


def _graded(package: Unpacked, parts: Sequence[tuple[Suite, list[Episode], str]]) -> LookResult:
    said, how = f"{_counts(parts)} graded again", EACH
    task, settings, word = package.replayed, package.project.params.task, False
    if isinstance(settings, OwnTask) and package.task_code is None:
        rule = settings.success
        word = rule.compare not in OF_TEXT
        said = f"{_counts(parts)} read again"
        how = f"success judged again by {rule.compare} with {rule.column}; rewards as they are stored"
        if word:
            how = f"success itself is not checked: it is the word of {settings.entry} ({rule.compare})"
    wrong = [fault for part in parts for fault in graded_again(task, *part, rewards=0, metrics=0)]
    digits = (7, 7) if settings.brings_code else (12, 9)
    rewards, metrics = (10.0**-n for n in digits)
    if wrong and not any(graded_again(task, *part, rewards=rewards, metrics=metrics) for part in parts):
        how = f"{how}; rewards equal to {digits[0]} digits, metrics to {digits[1]}, not to the last"
        wrong = []
    return LookResult(f"{said}, {how}", wrong, outcome="not checked" if word else "passed")
