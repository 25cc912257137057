"""The verdict on two arms that were made elsewhere, by the very code that judges a run of the pipeline.

What only a run can know is not made up: no training, no alarms, no openings, and a plan that was not fixed
before. The claim says so, and without rivals it can show no skill, however much better the results are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from assay.core.errors import DataError
from assay.core.records import Interval
from assay.core.seeds import derive_seed, rng
from assay.verdict.evidence.claim.claim import Beside, Claim, Compared, Played, compare, differences_of
from assay.verdict.evidence.claim.differences import compare_measure, deltas, measure_of_primary
from assay.verdict.evidence.claim.plan import ClaimPlan, usual_worst
from assay.verdict.evidence.claim.verdict import unpaired
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.judge.alike import (
    asked_otherwise,
    limits_decide,
    measured_otherwise,
    not_known,
    require_direction,
    scored_otherwise,
)
from assay.verdict.judge.doubts import doubts, other_units
from assay.verdict.judge.graded import compare_grading
from assay.verdict.judge.missing import settle
from assay.verdict.judge.plan import dated, departures
from assay.verdict.judge.rows import (
    SCORE,
    JudgedRow,
    all_know,
    as_episodes,
    by_content,
    obstacles,
    shared_passages,
    unite_same,
    warnings,
)
from assay.verdict.judge.sources import Judgement
from assay.verdict.judge.spelling import spell_clusters
from assay.verdict.judge.suite import LABEL
from assay.verdict.statistics.openings import opening_level
from assay.verdict.statistics.report import Decoding, Report, summarise

ALPHA, PARSED_MARGIN = 0.05, 0.05  # of the presets' plans
FULL_MARGIN = 0.05  # share of full scores, beside the mean
CHOSEN = "chosen elsewhere"
_MEASURES = (
    "mean_reward",
    "success_rate",
    f"{SCORE}_rate",
    "parsed_rate",
    "truncated_rate",
    "mean_n_steps",
    "mean_tokens",
    "mean_tokens_per_completion",
)


@dataclass(frozen=True, slots=True)
class Judged:
    """What two arms come to, with what the report shows of it."""

    claim: Claim
    reports: tuple[Report, Report] | None  # None: they are no whole suites
    gaps: Mapping[str, Interval]
    arms: tuple[list[JudgedRow], list[JudgedRow]]
    findings: tuple[Remark, ...]
    rivals: dict[str, list[JudgedRow]]


def judge(told: Judgement, arms: Mapping[str, list[JudgedRow]]) -> Judged:
    """Return the claim of a judgement and what it follows from.

    Args:
        told: What was asked, and what reading found.
        arms: Rows of before, after and each rival, by name; ids and clusters may be changed in place.

    Raises:
        DataError: The arms' scores have no bounds in common, or lower is better and not so judged.
    """
    require_direction(told)
    if told.missing != "worst":
        return _judge(told, arms)
    kept = {name: [*map(copy, rows)] for name, rows in arms.items()}
    found = _judge(told, arms)
    effect = found.claim.effect
    if effect is None or effect.direction != "worse":
        return found
    # That what is missing counts against after is no evidence of a loss: it has to stand the contrary too.
    again = {name: [*map(copy, rows)] for name, rows in kept.items()}
    other = _judge(told, again, for_after=True).claim.effect
    if other is not None and other.direction == "worse":
        return found
    return _judge(told, kept, stop=remark("loss_is_missing"))


def _judge(
    told: Judgement,
    arms: Mapping[str, list[JudgedRow]],
    *,
    for_after: bool = False,
    stop: Remark | None = None,
) -> Judged:
    """Return what is said under one reading of what is missing, as of `settle`; `stop` bars a claim."""
    records = {"before": told.before, "after": told.after, **told.rivals}
    notes = [remark("plan_afterwards", first=told.look is None) if told.plan is None else dated(told.plan)]
    level = level_of(told)
    if (look := told.look) is not None:
        notes.append(remark("judged_here", n=look.n_records, place=look.place, level=level))
    if told.level is not None:
        notes.append(remark("one_of_several", n=told.compared, level=told.level))
    for name in ("after", *told.rivals):
        if by_content(arms["before"], arms[name]):
            notes.append(remark("matched_by_content", arm=name))
    unscored = {
        name: int(str(each.values["n"]))
        for name, record in records.items()
        for each in record.blockers
        if each.code == "no_score"
    }
    settled = settle(
        arms,
        told.missing,
        told.bounds,
        lower_is_better=told.lower_is_better,
        unscored=unscored,
        for_after=for_after,
    )
    arms = settled.arms
    before, after = arms["before"], arms["after"]
    rivals = {name: arms[name] for name in told.rivals}
    primary = _primary(told, arms)
    stops = [*_departures(told, settled.planned, primary), *([stop] if stop else ())]
    spelled = spell_clusters(records, arms)  # a plan has names as they were
    if told.look is not None and told.look.share == 0:
        stops.append(remark("looks_used_up", place=told.look.place, looks=told.look.looks))
    dealt = settled.n_missing > 0
    barred = {
        name: [each for each in record.blockers if not (dealt and each.code == "no_score")]
        for name, record in records.items()
    }
    for blockers in barred.values():
        stops += blockers
    notes += settled.notes
    for name, rows in {"after": after, **rivals}.items():
        # What has no score is no row: that items or draws differ then follows from it.
        whole = not (barred["before"] or barred[name])
        found = obstacles(before, rows, name, draws=name == "after")
        stops += [each for each in found if whole or each.code not in ("items_in_one_arm", "other_draws")]
        notes += warnings(before, rows, name)
        by_model = any("grader" in file.measured for file in (*told.before.files, *records[name].files))
        odd, twice = compare_grading(before, rows, name, primary, by_model=by_model)
        stops += odd
        notes += twice
    for record in records.values():
        notes += record.notes
    stops += (
        measured_otherwise(told)
        + scored_otherwise(told, arms)
        + limits_decide(told, before, after)
        + other_units(told, arms)
    )
    notes += [*asked_otherwise(told), *not_known(told, arms), *doubts(told, arms)]
    cluster_name = "independent items" if all(row.cluster == row.item_id for row in before) else "clusters"
    everyone = [before, after, *rivals.values()]
    alone = {row.item_id: row.cluster for row in before}
    same = unite_same(before, everyone[1:])
    cluster_name = "clusters" if same else cluster_name
    draws = _apart(before, after) / max(1, len({row.cluster for row in before}))
    plan = _plan(told, before, after, primary, cluster_name, draws)
    if spelled is not None:
        tested = _tested_in(spelled, before, after, plan)
        n, of = (len(set(homes.values())) for homes in (alone, spelled))
        notes.append(remark("clusters_spelled_alike", n=n, names=of, p=tested and tested[0]))
    if same:
        tested = _tested_in(alone, before, after, plan)
        notes.append(remark("items_ask_the_same", n=same, p=tested and tested[0]))
    if shared := shared_passages(before):
        homes = {row.item_id: shared.get(row.item_id, row.cluster) for row in before}
        tested = _tested_in(homes, before, after, plan)
        told_of = {"n": len(shared), "passages": len(set(shared.values()))}
        p, gap = tested or (None, None)
        notes.append(remark("items_share_passages", **told_of, p=p, difference=gap))
    decoding: Decoding = "decoding not known"
    luck = luck_of(row.item_id for row in before)
    claim = compare(
        Played(as_episodes(before), told.before.rows_sha256, plan.suite_digest),
        Played(as_episodes(after), told.after.rows_sha256, plan.suite_digest),
        plan,
        Compared("tasks", decoding, level=level),
        rng=rng("claim", luck),
        beside=Beside(rivals={name: as_episodes(rows) for name, rows in rivals.items()}),
        stops=stops,
        notes=[each for k, each in enumerate(notes) if each not in notes[:k]],
    )
    reports, gaps = None, dict[str, Interval]()
    if claim.difference is not None:
        reports = (
            _report(before, plan, told.before.rows_sha256, decoding, luck),
            _report(after, plan, told.after.rows_sha256, decoding, luck),
        )
        claim = _as_known(claim, before, after)
        known = differences_of(claim)
        wanted = (set(reports[0].measures) & set(reports[1].measures)) - set(known) - {"median_reward"}
        names = [name for name in reports[0].measures if name in wanted]
        seed = derive_seed("gaps", luck)
        range_ = plan.reward_range
        gaps = deltas(as_episodes(before), as_episodes(after), names, seed, reward_range=range_) | known
    return Judged(claim, reports, gaps, (before, after), tuple(stops), rivals)


def level_of(told: Judgement) -> float | None:
    """Return the level at which better is said; None: the plan's. Of a look at held-out records of a project
    it is no more than its part of alpha."""
    if (look := told.look) is None:
        return told.level
    alpha = ALPHA if told.plan is None else told.plan.level
    place = look.place if look.share is None else 1
    own = alpha * look.share if look.share else opening_level(place, alpha, looks=look.looks)
    return own if told.level is None else min(own, told.level)


def _departures(told: Judgement, before: Sequence[JudgedRow], primary: str) -> list[Remark]:
    """Return in what was judged is not what a plan has; nothing without one."""
    if told.plan is None:
        return []
    settings = {
        "bounds": told.bounds,
        "lower_is_better": told.lower_is_better,
        "smallest_effect_points": told.smallest_effect_points,
        "rivals": tuple(sorted(told.rivals)),
    }
    early = sorted(day for file in told.after.files if (day := file.made) and day < told.plan.made)[:1]
    late = [
        remark("not_as_planned", what="results after", planned=f"its day, {told.plan.made}", found=day)
        for day in early
    ]
    return [*departures(told.plan, before, primary, settings), *late]


def _primary(told: Judgement, arms: Mapping[str, Sequence[JudgedRow]]) -> str:
    """Return the metric that decides: success, where it was given or every score is all or nothing; else the
    score.

    Raises:
        DataError: A score lies beyond its bounds, and not every file says what succeeded.
    """
    given = all(record.has_success for record in (told.before, told.after, *told.rivals.values()))
    # Where one file alone says what succeeded, that has to be the full score, or the arms differ in it.
    plain = all(row.share == float(row.success) for rows in arms.values() for row in rows)
    if given or plain:
        return "success"
    if all(row.share is not None for rows in arms.values() for row in rows):
        return SCORE
    fix = "--bounds LOW,HIGH; or give every file a column success"
    raise DataError("scores within their bounds", found="others", where="the arms together", fix=fix)


def _apart(*arms: Sequence[JudgedRow]) -> int:
    """Return how many rows of an arm say something of their own: draws of items that never disagree, as those
    of greedy decoding, say no more than one."""
    scores = {(arm, row.item_id, row.success, row.share) for arm, rows in enumerate(arms) for row in rows}
    items = {row.item_id for rows in arms for row in rows}
    return len(items) if len(scores) == len(items) * len(arms) else len(arms[0])


def _tested_in(
    homes: Mapping[str, str], before: Sequence[JudgedRow], after: Sequence[JudgedRow], plan: ClaimPlan
) -> tuple[float, Interval] | None:
    """Return p and difference of the primary metric with items in other clusters; None where they are too
    few, or the arms hold other items."""
    arms = [[copy(row) for row in rows] for rows in (before, after)]
    for row in (*arms[0], *arms[1]):
        row.cluster = homes.get(row.item_id, row.cluster)
    if unpaired(dict(zip(("before", "after"), map(as_episodes, arms), strict=True))):
        return None
    measure = measure_of_primary(plan.primary)
    one, other = map(as_episodes, arms)
    found = compare_measure(one, other, measure, rng("homes"), unseen=plan.unseen)
    return None if found.p is None else (found.p, found.difference)


def _plan(
    told: Judgement,
    before: Sequence[JudgedRow],
    after: Sequence[JudgedRow],
    primary: str,
    cluster_name: str,
    draws: float,
) -> ClaimPlan:
    parsed = all_know(before, "unparsed") and all_know(after, "unparsed")
    scored = primary == "success" and any(
        row.reward != float(row.success) for rows in (before, after) for row in rows
    )
    guardrails = {"parsed_rate": PARSED_MARGIN} if parsed else {}
    if primary == SCORE and not told.lower_is_better:
        guardrails["success_rate"] = FULL_MARGIN  # a mean may rise while nothing is wholly right any more
    suite = _digest(sorted({(row.item_id, row.content) for row in before}))
    return ClaimPlan(
        primary=primary,
        direction="lower" if told.lower_is_better else "higher",
        smallest_effect_points=told.smallest_effect_points,
        draws=max((row.draw + 1 for row in before), default=1),
        suite_digest=suite,
        checkpoint_rule=CHOSEN,
        alpha=ALPHA if told.plan is None else told.plan.level,
        worst_cluster=usual_worst(draws) if told.plan is None else told.plan.worst_cluster,
        cluster_name=cluster_name,
        secondary=("mean_reward",) if scored else (),
        guardrails=guardrails,
        tasks=LABEL if len({row.strata.get(LABEL) for row in before} - {None}) > 1 else None,
        rivals=dict.fromkeys(told.rivals, "trivial"),
        reward_range=told.bounds
        if scored and all_know(before, "share") and all_know(after, "share")
        else None,
    )


def luck_of(items: Iterable[str]) -> str:
    """Return what all randomness is drawn by: the items, so that numbers are the same whatever file they came
    in."""
    return _digest(sorted(set(items)))


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest()


def _unknown(rows: Sequence[JudgedRow]) -> set[str]:
    """Return the measures that rows say nothing of."""
    found = set()
    if not all_know(rows, "tokens"):
        found |= {"mean_tokens", "mean_tokens_per_completion"}
    if not all_know(rows, "truncated"):
        found.add("truncated_rate")
    if not all_know(rows, "unparsed"):
        found.add("parsed_rate")
    if not all_know(rows, "n_turns") or all(row.n_turns == 1 for row in rows):
        found.add("mean_n_steps")
    if all(row.share in (0.0, 1.0) and float(row.success) == row.share for row in rows):
        found.add(f"{SCORE}_rate")  # the same as success
    elif any(row.share is not None for row in rows) and not all_know(rows, "share"):
        found.add(f"{SCORE}_rate")
    return found


def _report(rows: list[JudgedRow], plan: ClaimPlan, policy: str, decoding: Decoding, luck: str) -> Report:
    """Return the report of one arm, with the measures that its rows say anything of."""
    unknown = _unknown(rows)
    if all(row.reward == (row.share if plan.primary == SCORE else row.success) for row in rows):
        unknown.add("mean_reward")  # the primary metric once more
    found = summarise(
        as_episodes(rows),
        policy_digest=policy,
        suite_digest=plan.suite_digest,
        split="tasks",
        decoding=decoding,
        draws=plan.draws,
        rng=rng("report", luck),
        only=set(_MEASURES) - unknown,
    )
    return found.model_copy(
        update={"measures": {k: v for k, v in found.measures.items() if k != "median_reward"}}
    )


def _as_known(claim: Claim, before: Sequence[JudgedRow], after: Sequence[JudgedRow]) -> Claim:
    """Return the claim without what its results say nothing of."""
    unknown = _unknown(before) | _unknown(after)
    update: dict[str, object] = {}
    if "parsed_rate" in unknown:
        update["gain_split"] = None
    if "mean_tokens" in unknown:
        update["tokens_per_completion"] = None
    if claim.plan.primary == SCORE:
        update["items_changed"] = None
    return claim.model_copy(update=update)


def version_here() -> str:
    """Return the version of assay that judges."""
    try:
        return version("assay-grpo")
    except PackageNotFoundError:  # run from its source
        return "source"
