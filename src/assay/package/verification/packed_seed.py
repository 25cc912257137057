"""One run of a package of seeds: looked at as a run that was packed alone is, but for what is not in there;
and whether the runs are of as many trainings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any

from assay.core.counting import counted
from assay.core.evidence_files import place_of
from assay.core.records import Episode, ValidationEpisode
from assay.core.storage.untrusted import listing
from assay.package.verification.checks import LOG, Check, Level, LookResult, looked
from assay.package.verification.content.regraded import validations_regraded
from assay.package.verification.content.rendered import episodes_again, training_again
from assay.package.verification.content.tables import TRAINING_LOG, sampled_of, tables_agree
from assay.package.verification.levels import CONSISTENT, OF_A_TRAINING, Look, consistent
from assay.package.verification.stated import facts_without_models, openings_without_ledger
from assay.package.verification.suites import (
    AFTER,
    APART,
    BEFORE,
    Drawn,
    drawn,
    draws_apart,
    merged_draws,
    share_of,
    texts_of,
    validated,
)
from assay.package.verification.unpacked import Unpacked
from assay.stages.render_evidence.arms import CONTROL, log_table

VALIDATIONS = "validation.jsonl"
# What stands in the place of a look, or is looked at once for all runs, or needs a model.
OTHERWISE: Mapping[str, Look | None] = {
    "facts of the model": facts_without_models,
    "ledger": openings_without_ledger,
} | dict.fromkeys(("dvc.lock", "model settings", "base and adapter", "weights", "adapter"))


class PackedSeed(Unpacked):
    """A run without models, and in an older package without the log of its training.

    Args:
        root: Folder of the run.
        read: Its episodes by arm, where they were read already.
        task_code: As of `Unpacked`.
    """

    def __init__(
        self, root: Path, read: Mapping[str, list[Episode]] | None = None, *, task_code: Path | None = None
    ) -> None:
        names = (name for name in listing(root) if not name.startswith(".scratch/"))  # which looking makes
        super().__init__(root, frozenset(names), task_code)
        self._episodes.update(read or {})

    @cached_property
    def lock(self) -> Mapping[str, Any]:
        """The stages of dvc.lock up to the claim: what was packaged of a run later is none of its seeds'."""
        return {name: stage for name, stage in super().lock.items() if name != "package"}

    @property
    def logged(self) -> bool:
        """Whether the log of the training is there, with the episodes of its validations."""
        return {place_of(LOG), place_of(VALIDATIONS)} <= self.names

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """The rows of train_log.jsonl; none where there is no such file, which is said."""
        return super().log if self.logged else []

    @cached_property
    def validation_lines(self) -> list[ValidationEpisode]:
        """Every line of validation.jsonl; none where there is no such file."""
        return super().validation_lines if self.logged else []


def looks_at(package: PackedSeed, work: Path) -> Iterator[Check]:
    """Yield the checks of a run whose claim and reports were made again already."""
    otherwise = dict(OTHERWISE)
    more: list[tuple[Level, str, Callable[[], LookResult]]] = [
        ("V1", "episodes", partial(episodes_again, package, work))
    ]
    if package.logged or package.elsewhere:
        more.append(("V1", "training tables", partial(training_again, package, work)))
    if package.logged:
        more.append(("V2", VALIDATIONS, partial(validations_regraded, package)))
    elif not package.elsewhere:
        more.append(("V3", "tables of the training", partial(tables_agree, package)))
        otherwise["draws"] = partial(draws_apart, of=sampled_of)
        otherwise |= {name: None for name, look in CONSISTENT if look in OF_A_TRAINING}
    yield from (looked(level, name, look) for level, name, look in more)
    yield from consistent(package, otherwise)


def lines_of(run: str, checks: Sequence[Check]) -> Iterator[Check]:
    """Yield the checks of a run: those that hold as one a level, and any other by itself."""
    for level in dict.fromkeys(check.level for check in checks):
        held = [check.name for check in checks if (check.level, check.outcome) == (level, "passed")]
        if held:
            said = f"as in a package of this run alone: {', '.join(held)}"
            yield Check(level=level, name=run, outcome="passed", found=said)
    for check in checks:
        if check.outcome != "passed":
            yield check.model_copy(update={"name": f"{run}: {check.name}"})


def seeds_apart(packages: Mapping[str, PackedSeed]) -> LookResult:
    """Check that each run is another training from one base: other digests, other curves, other texts; and
    that what they say of each other's openings is what those say themselves."""
    wrong = []
    for name, digests in _digests(packages).items():
        twice = [(digest, n) for digest, n in Counter(digests).items() if n > 1]
        wrong += [f"{name} {digest[:16]}: of {counted(n, 'trainings')}" for digest, n in twice]
    bases = {package.told.base_digest for package in packages.values()}
    if len(bases) > 1:
        wrong.append(f"train.json, base_digest: {len(bases)} bases, one is expected")
    wrong += [*_copies(packages), *_other_openings(packages)]
    wrong += merged_draws([_draws_of(package) for package in packages.values() if not package.elsewhere])[1]
    return LookResult(
        f"{counted(len(packages), 'trainings')} of one base, none a copy of another in digests, curve or"
        " texts",
        wrong,
    )


def _draws_of(package: PackedSeed) -> tuple[list[Drawn], list[Drawn]]:
    step = package.trained.chosen_step
    told = validated(package, step) if package.logged else sampled_of(package, step)
    return drawn(package.episodes(AFTER)), told


def _digests(packages: Mapping[str, PackedSeed]) -> dict[str, list[str]]:
    """Return by name digests that two trainings cannot share: who chose step 0 plays as the base does."""
    found: dict[str, list[str]] = {"policy_digest": [], "chain": []}
    for package in packages.values():
        trained, control = package.trained, package.control
        policies = [trained.policy_digest if trained.chosen_step else None, control.policy_digest]
        found["policy_digest"] += [each for each in policies if each is not None]
        found["chain"] += [each for each in (trained.chain, control.chain) if each is not None]
    return found


def _copies(packages: Mapping[str, PackedSeed]) -> Iterator[str]:
    base = texts_of(next(iter(packages.values())).episodes(BEFORE))
    texts = {
        (run, arm): texts_of(package.episodes(arm))
        for run, package in packages.items()
        for arm in (AFTER, CONTROL)
        if arm in package.arms
    }
    far = {key for key, each in texts.items() if share_of(base, each) < APART}
    for one, other in combinations(sorted(far), 2):
        if share_of(texts[one], texts[other]) == 1.0:
            yield (
                f"{other[0]}, {other[1]}.jsonl: the texts of every item are those of {one[0]}, {one[1]}.jsonl"
            )
    curves: dict[tuple[object, ...], str] = {}
    for run, package in packages.items():
        told = log_table(package.project, TRAINING_LOG, "reward", "loss")
        # As text: a NaN, as of a step that was skipped, is no number that equals another.
        curve = tuple(told["reward"].map(repr)), tuple(told["loss"].map(repr))
        if (known := curves.setdefault(curve, run)) != run:
            yield f"{run}, {TRAINING_LOG}: reward and loss of every step are those of {known}"


def _other_openings(packages: Mapping[str, PackedSeed]) -> Iterator[str]:
    told = {package.told.policy_digest: (run, package.opened) for run, package in packages.items()}
    for run, package in packages.items():
        for other in package.opened.others:
            name, own = told.get(other.policy_digest, ("", None))
            if own is None or (other.same_recipe and (other.place or 0) <= (own.place or 0)):
                continue
            yield (
                f"{run}, openings.json: {name} at place {other.place},"
                f" {'' if other.same_recipe else 'not '}of the same recipe; itself it says place {own.place}"
            )
