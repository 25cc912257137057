"""The levels of alarms, as far as what an honest player shows moves them: what is honest does not ring."""

from __future__ import annotations

import math

from assay.core.config.health import HealthSettings, Levels
from assay.core.records import HonestLevels, HonestPlay
from assay.health.rules.alarm_levels import DECIMALS, ROUNDING
from assay.health.rules.commonest import ALL, Common
from assay.health.rules.signals import SURE

AMBER, RED = 1.5, 2.0  # times what honest play shows of an ill, and of a good that much less
FEW = 0.5  # different answers an item: of more, most items have one of their own
LEAST_SUCCESS = 1 / 64  # what no success in the first steps counts as


def has_few_answers(play: HonestPlay) -> bool:
    """Return whether honest answers repeat from item to item, so that to give one often is no sign of
    anything."""
    return play.answers <= FEW * play.items


def honest_share(play: HonestPlay | None) -> float | None:
    """Return the share of items to which honest play gives its commonest answer; None where a task has an
    answer for each item."""
    return play.top_share if play is not None and has_few_answers(play) else None


def unavoidable(play: HonestPlay | None) -> float:
    """Return the share of episodes in which honest play fails too; none where it nearly always succeeds.

    >>> unavoidable(None)
    0.0
    """
    failing = 0.0 if play is None else 1.0 - play.success
    return failing if failing > SURE else 0.0


def moved_levels(settings: HealthSettings, play: HonestPlay, *, keyed: bool) -> dict[str, HonestLevels]:
    """Return by rule the levels that honest play moves; None for a level that nothing could be beyond.

    Args:
        settings: The levels as they are set.
        play: What honest play showed.
        keyed: Whether right answers are known, by which `commonest` judges shares item by item.
    """
    shares, distinct, parsed = settings.zero_variance, settings.distinct, settings.parsed
    moved = {
        "zero_variance": (
            max(shares.amber, min(1.0, AMBER * play.zero_variance)),
            max(shares.red, min(1.0, RED * play.zero_variance)),
        ),
        "distinct": (min(distinct.amber, play.distinct / AMBER), min(distinct.red, play.distinct / RED)),
        "parsed": (parsed.amber * play.parsed, parsed.red * play.parsed),
    }
    found = {
        rule: _kept(amber, red)
        for rule, (amber, red) in moved.items()
        if (amber, red) != (getattr(settings, rule).amber, getattr(settings, rule).red)
    }
    share = honest_share(play)
    if share is not None and not keyed:
        found["top_share"] = _of_shares(settings.top_share, Common(1.0, share, play.items))
    return found


def _of_shares(levels: Levels, common: Common) -> HonestLevels:
    """Return the levels of `commonest.share_readings` for the commonest answer of honest play."""
    amber, red = common.honest + levels.amber, common.honest + levels.red
    # A text for all is AMBER wherever it is wrong for some
    return _kept(min(amber, ALL) if common.answers_all else amber, red)


def _kept(amber: float, red: float) -> HonestLevels:
    shown = [round(level, DECIMALS) if 0.0 < level < 1.0 else None for level in (amber, red)]
    return HonestLevels(amber=shown[0], red=shown[1])


def relative(settings: HealthSettings, play: HonestPlay | None) -> HealthSettings:
    """Return settings with the levels of honest play; those of `top_share` follow from its share, step by
    step."""
    changed: dict[str, Levels] = {}
    for rule, moved in ({} if play is None else play.levels).items():
        if rule != "top_share":
            own: Levels = getattr(settings, rule)
            never = 0.0 if rule in ("distinct", "parsed") else 1.0  # nothing is beyond it
            limits = {
                name: never if (level := getattr(moved, name)) is None else level for name in ("amber", "red")
            }
            changed[rule] = own.model_copy(update=limits)
    return settings.model_copy(update=changed)


def with_form(settings: HealthSettings, failed: float | None, cut: float | None) -> HealthSettings:
    """Return settings whose levels of `parsed` and `truncated` are as far from what the base did before
    training as they are from a base without a fault, where it was beyond them already: what is to be learned
    is no harm done.

    Args:
        settings: The levels.
        failed: Share of the base's completions that did not parse; None: not known.
        cut: Share that was cut off.
    """
    parsed, truncated, changed = settings.parsed, settings.truncated, dict[str, Levels]()
    if failed is not None and failed > 1.0 - parsed.amber + ROUNDING:
        moved = {name: max(0.0, getattr(parsed, name) - failed) for name in ("amber", "red")}
        changed["parsed"] = parsed.model_copy(update=moved)
    if cut is not None and cut > truncated.amber + ROUNDING:
        moved = {name: min(1.0, getattr(truncated, name) + cut) for name in ("amber", "red")}
        changed["truncated"] = truncated.model_copy(update=moved)
    return settings.model_copy(update=changed)


def with_kl(
    settings: HealthSettings, play: HonestPlay | None, success: float | None, tokens: float | None
) -> HealthSettings:
    """Return settings whose KL has room for what it takes to be right, which is much where answers are short.

    A policy that always does what its base does with probability s is at least -ln s nats from it, an
    episode.

    Args:
        settings: The levels.
        play: Knows how many turns an episode has.
        success: Of the first steps, share; None: not known yet.
        tokens: A completion of the first steps, mean.
    """
    if play is None or success is None or not tokens:
        return settings
    least = -math.log(min(1.0, max(success, LEAST_SUCCESS))) / (play.turns * tokens)
    levels = {"amber": max(settings.kl.amber, AMBER * least), "red": max(settings.kl.red, RED * least)}
    return settings.model_copy(update={"kl": settings.kl.model_copy(update=levels)})
