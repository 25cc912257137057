"""What two sets of results come to, and the report and package of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.core.errors import ConfigError
from assay.core.records import Interval
from assay.verdict.evidence.claim.claim import Claim as ClaimRecord
from assay.verdict.evidence.words.remarks import Remark
from assay.verdict.evidence.words.sentences import heading
from assay.verdict.judge.command import JudgeRequest, judge_arms, refuse_same
from assay.verdict.judge.plan import JudgePlan, Missing
from assay.verdict.judge.planning import metric_of
from assay.verdict.judge.reading import Arm
from assay.verdict.judge.rows import read_rows
from assay.verdict.judge.sources import REPORT, Judgement
from assay.verdict.judge.verdict import Judged
from assay.verdict.results import Results


@dataclass(frozen=True, slots=True)
class Claim:
    """One comparison. Gains are percentage points of the score's bounds; None was not measured."""

    verdict: str  # BETTER, NO SKILL SHOWN, WORSE, NO EVIDENCE, NOT EVALUABLE …
    gain: float | None  # after - before
    interval: tuple[float, float] | None  # 95 % of the gain
    p: float | None  # two-sided
    n_items: int
    n_clusters: int
    draws: int  # of each item
    reasons: tuple[Remark, ...]  # a code and its values; str() says it in English
    warnings: tuple[Remark, ...]
    record: ClaimRecord = field(repr=False)  # all of it, as claim.json has it
    # What pages and packages are made of.
    judgement: Judgement = field(repr=False)
    rows: Mapping[str, str] = field(repr=False)  # text of each arm's rows, by the arm's name
    judged: Judged = field(repr=False)

    def __str__(self) -> str:
        return f"{heading(self.record)}: {self.record.sentence}"


def compare(
    before: Results,
    after: Results,
    *,
    rivals: Mapping[str, Results] | None = None,
    plan: JudgePlan | None = None,
    effect: float = 10.0,
    lower_is_better: bool = False,
    missing: Missing = "refuse",
    title: str | None = None,
) -> Claim:
    """Return whether the second of two policies is better on the same items.

    Args:
        before: Results of the first policy.
        after: Results of the second on the same items, as many draws of each.
        rivals: Results on the same items of players that need no skill, by name: without them no skill is
            shown, however much better the results are.
        plan: Made beforehand; it then says effect, direction and what becomes of missing results.
        effect: The smallest change that matters, percentage points of the score's bounds.
        lower_is_better: Whether less is better.
        missing: What becomes of results that are missing: `refuse`, `worst` or `common`.
        title: Of the report; None: the models' names.

    Raises:
        ConfigError: Bounds, scores or baselines are not those of the plan, or the results have others.
        DataError: A baseline is one of the two.
    """
    rivals = dict(rivals or {})
    if odd := [name for name in rivals if not isinstance(name, str) or name in ("", "before", "after")]:
        fix = "rivals={'always B': …}"
        raise ConfigError("rivals by names of their own", found=repr(odd[0]), where="compare", fix=fix)
    given = {"before": before, "after": after, **rivals}
    for name, each in given.items():
        if each.bounds != before.bounds:
            found, fix = f"{each.bounds} of {name}", "read(…, bounds=…) the same for each"
            raise ConfigError("the same bounds in all", found=found, where="compare", fix=fix)
    if plan is not None:
        _refuse_unplanned(given, tuple(sorted(rivals)), plan)
        effect, lower_is_better = plan.smallest_effect_points, plan.lower_is_better
        missing = plan.missing
    low, high = before.bounds
    request = JudgeRequest(
        bounds=f"{low!r},{high!r}",
        effect=effect,
        lower=lower_is_better,
        missing=missing,
        title=title,
        metric=None if plan is None else plan.metric,
    )
    # The verdict may change ids and clusters of rows; those that were read stay.
    arms = {name: _copied(each.arm, name) for name, each in given.items()}
    refuse_same(arms, {"before", "after"})
    judgement, texts, judged = judge_arms(arms, request, plan=plan)
    record = judged.claim
    shown = record.difference or Interval(value=None, low=None, high=None, n=0)
    least, most = _points(shown.low), _points(shown.high)
    return Claim(
        verdict=record.verdict,
        gain=_points(shown.value),
        interval=None if least is None or most is None else (least, most),
        p=record.p,
        n_items=record.n_items,
        n_clusters=record.n_clusters,
        draws=record.draws,
        reasons=record.reasons,
        warnings=record.warnings,
        record=record,
        judgement=judgement,
        rows=texts,
        judged=judged,
    )


def report(claim: Claim, folder: str | Path) -> Path:
    """Write report.html, claim.json and summary.md; return the page. `assay.package.pack` packs a claim."""
    from assay.verdict.judge.page import write_pages  # matplotlib, which takes a second to load

    write_pages(Path(folder), claim.judgement, claim.judged)
    return Path(folder) / REPORT


def _refuse_unplanned(given: Mapping[str, Results], rivals: tuple[str, ...], plan: JudgePlan) -> None:
    bounds, fix = given["before"].bounds, "bring what was planned"
    if (bounds, rivals) != (plan.bounds, plan.rivals):
        expected = f"bounds {plan.bounds} and rivals {list(plan.rivals)}, as planned"
        found = f"bounds {bounds} and rivals {list(rivals)}"
        raise ConfigError(expected, found=found, where="compare", fix=fix)
    for name, each in given.items():
        if (metric := metric_of(each.arm.record, each.metric)) != plan.metric:
            expected = f"the score {plan.metric or 'without a name'}, as planned"
            raise ConfigError(expected, found=f"{metric} of {name}", where="compare", fix=fix)


def _copied(arm: Arm, name: str) -> Arm:
    return replace(arm, record=arm.record.renamed(name), rows=read_rows(arm.text, name))


def _points(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 10)
