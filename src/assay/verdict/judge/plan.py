"""The plan of a judgement: what is compared, on which items, by which metric, and what has to be shown; fixed
and hashed before the results are there."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from ruamel.yaml import YAML

from assay.core.errors import ConfigError
from assay.core.records import Record
from assay.core.storage.json import digest, dumps
from assay.core.storage.yaml import read_yaml
from assay.rollout.tables.columns import Meaning
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.judge.contents import identity_of
from assay.verdict.judge.rows import SCORE, JudgedRow
from assay.verdict.statistics.power import ReachAt

FILE, SUM = "plan.yaml", "sha256"
FIX = "make another plan with assay plan; what was planned is what is judged"
HEAD = (
    "# What `assay judge --plan` holds results to. sha256 is of all that stands here but itself:",
    "# whoever changes a line makes another plan. The date is the word of whoever planned.",
)


Missing = Literal["refuse", "worst", "common"]


class PlannedItems(Record):
    """On which items; a digest that is not there leaves open what it would fix."""

    n_items: int = Field(ge=1)
    n_clusters: int = Field(ge=1)
    ids_sha256: str | None = Field(default=None, description="of all ids; null: only how many is planned")
    clusters_sha256: str | None = Field(default=None, description="of which item lies in which cluster")
    contents_sha256: str | None = Field(
        default=None, description="of questions and targets; null: the list did not hold them"
    )


class PlanReach(Record):
    """Which true effect so many clusters and draws find."""

    draws: int = Field(ge=1)
    by_clusters: tuple[ReachAt, ...]


class PlanPower(Record):
    """What the plan can show, computed before the results; points are percentage points of the metric."""

    of: str = Field(description="what it was computed from")
    rate: float = Field(ge=0, le=1, description="mean before, a share of the bounds")
    within_item_variance: float = Field(ge=0, le=0.25, description="of one draw, mean over items, shares")
    power: float
    assumed_spread_points: float = Field(ge=0, description="sd of the true gains of clusters: an assumption")
    n_clusters: int = Field(ge=1, description="of items that do not ask the same")
    smallest_detectable_points: float | None = Field(
        default=None, description="null: nothing possible would be found"
    )
    clusters_for_smallest_effect: int | None = Field(
        default=None, description="with the planned draws; null: more than were tried"
    )
    table: tuple[PlanReach, ...]


class JudgePlan(Record):
    """What will be judged, and what has to come of it."""

    kind: Literal["assay-plan/2"] = "assay-plan/2"
    made: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="the day, by the word of whoever planned")
    show: Literal["better", "no worse"] = Field(
        description="better than before; or no loss of the smallest effect"
    )
    decides: str | None = Field(default=None, description="success or score; null: as the results are")
    metric: str | None = Field(default=None, description="the score to read; null: the only one")
    # Left out where there is none, so that digests of plans are those of the time before it.
    columns: dict[Meaning, str] = Field(
        default={},
        exclude_if=lambda value: not value,
        description="of results, by meaning, as they were read of those before; the score is metric",
    )
    bounds: tuple[float, float]
    lower_is_better: bool
    draws: int = Field(ge=1, le=10_000)
    alpha: float = Field(gt=0, le=0.1)
    sided: Literal["two-sided", "one-sided"]
    worst_cluster: float = Field(
        default=100.0,
        ge=1,
        le=100,
        exclude_if=lambda value: value == 100.0,
        description="points that a cluster nobody saw may lose; left out: all",
    )
    smallest_effect_points: float = Field(gt=0, le=100)
    rivals: tuple[str, ...] = ()
    missing: Missing = Field(
        default="refuse",
        exclude_if=lambda value: value == "refuse",
        description="what becomes of results that are missing",
    )
    items: PlannedItems
    power: PlanPower

    @property
    def level(self) -> float:
        """Of the two-sided test that decides: one-sided is each side at alpha."""
        return self.alpha * (2 if self.sided == "one-sided" else 1)


def plan_text(plan: JudgePlan) -> str:
    """Return plan.yaml: the same plan is the same text."""
    buffer, writer = io.StringIO(), YAML()
    writer.width = 100
    told = plan.model_dump(mode="json", exclude_none=True)
    # What nothing possible would show is said as null: left out it could not be read back.
    writer.dump({**told, "power": plan.power.model_dump(mode="json"), SUM: digest(plan)}, buffer)
    return "\n".join((*HEAD, buffer.getvalue()))


def read_plan(path: Path) -> JudgePlan:
    """Return the plan of a file.

    Raises:
        ConfigError: It is none, or its digest is of another plan.
    """
    values: dict[str, Any] = read_yaml(path, fix=FIX)
    told = values.pop(SUM, None)
    try:
        plan = JudgePlan.model_validate_json(dumps(values))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(
            "a plan that assay plan wrote", found=f"{place}: {first['msg']}", where=str(path), fix=FIX
        ) from None
    if told != digest(plan):
        found = f"{told}, where what stands there has {digest(plan)}"
        raise ConfigError(
            f"a plan that was not changed since its {SUM}", found=found, where=str(path), fix=FIX
        )
    return plan


def items_of(homes: Mapping[str, str], contents: Mapping[str, str]) -> PlannedItems:
    """Return the items of a plan from the cluster and the content of each, by its id."""
    contents = {item: identity_of(content) for item, content in contents.items()}
    return PlannedItems(
        n_items=len(homes),
        n_clusters=len(set(homes.values())),
        ids_sha256=digest(sorted(homes)),
        clusters_sha256=digest(sorted(homes.items())),
        contents_sha256=digest(sorted(contents.items())) if all(contents.values()) else None,
    )


def items_in(rows: Sequence[JudgedRow]) -> PlannedItems:
    """Return the items of an arm as it was read."""
    return items_of({row.item_id: row.cluster for row in rows}, {row.item_id: row.content for row in rows})


def departures(
    plan: JudgePlan, before: Sequence[JudgedRow], primary: str, settings: Mapping[str, object]
) -> list[Remark]:
    """Return in what results are not those of the plan.

    Args:
        plan: The plan.
        before: Rows with all items that were brought; those after have to be on the same items in any case.
        primary: What decides: success or score.
        settings: What was asked of the judgement, by the plan's names.
    """
    found = items_in(before)
    planned = plan.items
    drawn = sorted(set(Counter(row.item_id for row in before).values()))
    pairs = [
        ("items", f"{planned.n_items}", f"{found.n_items}"),
        ("clusters", f"{planned.n_clusters}", f"{found.n_clusters}"),
        ("draws of every item", f"{plan.draws}", ", ".join(map(str, drawn)) or "none"),
        ("what decides", plan.decides or primary, primary),
    ]
    pairs += [(name, str(getattr(plan, name)), str(value)) for name, value in settings.items()]
    digests = (
        ("the items' ids", "ids_sha256"),
        ("the items' clusters", "clusters_sha256"),
        ("the items' questions and targets", "contents_sha256"),
    )
    for said, name in digests:
        wanted, here = getattr(planned, name), getattr(found, name)
        # Results that do not hold their prompts are a warning, as between the arms.
        if wanted and here and not any(pair[1] != pair[2] for pair in pairs[:2]):
            pairs.append((said, f"sha256 {wanted[:12]}", f"sha256 {here[:12]}"))
    return [
        remark("not_as_planned", what=said, planned=wanted, found=here)
        for said, wanted, here in pairs
        if wanted != here
    ]


MISSING_SAID: dict[Missing, str] = {
    "refuse": "",
    "worst": ", what is missing as the worst",
    "common": ", on the items that every arm has whole",
}


def planned_said(plan: JudgePlan) -> str:
    """Return what was planned, as one sentence."""
    metric = f" ({plan.metric})" if plan.metric else ""
    what = "success" if plan.decides == "success" else "the score" if plan.decides == SCORE else "the metric"
    rivals = f" and than {', '.join(plan.rivals)}" if plan.rivals and plan.show == "better" else ""
    aim = {
        "better": f"better than before{rivals}",
        "no worse": f"no worse than before by {plan.smallest_effect_points:g} points",
    }[plan.show]
    lower = ", where less is better" if plan.lower_is_better else ""
    return (
        f"{what}{metric}{lower}: {aim}, at {plan.alpha:g} {plan.sided}, on {plan.items.n_items} items in"
        f" {plan.items.n_clusters} clusters, K = {plan.draws}{MISSING_SAID[plan.missing]}"
    )


def dated(plan: JudgePlan) -> Remark:
    """Return what shows that there was a plan, and what does not, as one warning."""
    fixed = plan.items.ids_sha256 is not None
    return remark("planned", made=plan.made, sha256=digest(plan), items_fixed=fixed)
