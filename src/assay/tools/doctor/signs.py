"""What the probe's episodes forebode: no gradient, no end, no reading, no room, the wrong thing paid."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.counting import counted
from assay.core.records import Episode
from assay.policy.model import Policy
from assay.tools.doctor.findings import Check, Finding
from assay.tools.doctor.lengths import context_limit
from assay.tools.doctor.probe import Probe
from assay.training.health.alarm_levels import ROUNDING
from assay.training.health.signals import StepSignals, episode_text

ENOUGH_GROUPS, SATURATED, CLEAR = 4, 0.95, 5


def probe_findings(probe: Probe, policy: Policy, params: Params) -> list[Finding]:
    """Return what the episodes forebode; nothing of rewards where completions had less room than in
    training."""
    findings = [_infrastructure(probe, params), _whole(probe, params)]
    if not probe.rollouts:
        return findings
    findings.append(_measured_context(probe, policy))
    if findings[1].level != "ok":
        return findings
    episodes = probe.episodes
    signals = StepSignals.of(0, episodes, entropy=None, kl=None, clip=None, grad_norm=None, lost=None)
    return [
        *findings,
        _variety(episodes, signals.distinct, params),
        _spread(episodes, params),
        _truncated(signals.truncated or 0.0, params),
        _parsed(signals.parsed or 0.0, params),
        _success(episodes),
        _paid_for_success(episodes),
    ]


def _groups(episodes: Sequence[Episode]) -> list[list[Episode]]:
    groups: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        groups[episode.item_id].append(episode)
    return list(groups.values())


def _infrastructure(probe: Probe, params: Params) -> Finding:
    n, most = probe.lost + len(probe.rollouts), params.health.max_lost_share
    check = Check("environment", f"at most {most:.0%} of the episodes lost", "the task's environment")
    fix = "see to the environment, raise health.retries, or raise health.max_lost_share"
    if n and probe.lost > most * n:
        return check.fault(f"{probe.lost} of {n}", fix)
    return check.warning(f"{probe.lost} of {n}", fix) if probe.lost else check.ok(f"none of {n} lost")


def _whole(probe: Probe, params: Params) -> Finding:
    room, surface = params.task.max_new_tokens[params.generation.surface], params.generation.surface
    check = Check("probe", "whole episodes in a minute", "this machine, with this base")
    fix = (
        f"use a faster device or a smaller base, or lower task.max_new_tokens.{surface}; rewards were not"
        " looked at"
    )
    if probe.room < room:
        return check.warning(
            f"completions of {probe.room} instead of {counted(room, 'tokens')}, which take too long", fix
        )
    if probe.unfinished:
        return check.warning(
            f"{counted(len(probe.unfinished), 'episodes')} under way after {probe.seconds:.0f} s", fix
        )
    return check.ok(f"{counted(len(probe.rollouts), 'episodes')} in {probe.seconds:.1f} s")


def _variety(episodes: Sequence[Episode], differ: float | None, params: Params) -> Finding:
    check = Check("variety", "other completions within a group", setting("generation.temperature"))
    texts = Counter(episode_text(episode) for episode in episodes)
    if set(texts) == {""}:
        return check.fault(
            "nothing but empty completions", "use a base that answers: base.model, or base.warm_start"
        )
    groups = _groups(episodes)
    alike = sum(len({episode_text(episode) for episode in group}) == 1 for group in groups)
    fix = "generation.temperature: 1.0, or a base that has not settled on one answer"
    if alike == len(groups):
        return check.fault(f"one and the same completion in each of {counted(len(groups), 'groups')}", fix)
    if alike > len(groups) / 2:
        return check.warning(
            f"one and the same completion in {alike} of {counted(len(groups), 'groups')}", fix
        )
    if differ is not None and differ < params.health.distinct.amber:
        told = f"groups whose completions differ by {differ:.2g} (0 all alike, 1 none alike)"
        return check.warning(f"{told}, below health.distinct.amber: {params.health.distinct.amber:g}", fix)
    return check.ok(f"{counted(len(texts), 'different episodes')} of {len(episodes)}")


def _spread(episodes: Sequence[Episode], params: Params) -> Finding:
    check = Check(
        "reward spread", "rewards that differ within groups", "the task's rewards, and the items of train"
    )
    rewards = [episode.reward for episode in episodes]
    groups = _groups(episodes)
    n, compared = len(groups), [[each.reward for each in group] for group in groups if len(group) > 1]
    # Before the first step, a group that succeeds throughout is no better than one that fails: neither
    # teaches anything.
    alike = sum(max(each) - min(each) <= ROUNDING for each in compared) / len(compared) if compared else None
    if max(rewards) == min(rewards) and len(episodes) >= ENOUGH_GROUPS:
        fix = (
            "let the reward tell completions apart (task.weights), or choose items and a base that earn"
            " something at times"
        )
        return check.fault(
            f"{rewards[0]:g} for each of {counted(len(episodes), 'episodes')}: no gradient", fix
        )
    if alike is None:
        return check.warning("no group of two episodes left", "see the findings above")
    fix = "take items of another difficulty, or a larger train.group_size"
    if alike == 1.0:
        found = f"equal rewards within each of {counted(n, 'groups')}: no gradient"
        return check.fault(found, fix) if n >= ENOUGH_GROUPS else check.warning(found, fix)
    if alike > params.health.zero_variance.amber:
        return check.warning(f"equal rewards within {alike:.0%} of {counted(n, 'groups')}", fix)
    return check.ok(
        f"{min(rewards):.3g} … {max(rewards):.3g}, equal within {alike:.0%} of {counted(n, 'groups')}"
    )


def _truncated(share: float, params: Params) -> Finding:
    levels, surface = params.health.truncated, params.generation.surface
    where = setting(f"task.max_new_tokens.{surface}")
    check = Check("truncation", f"at most {levels.amber:.0%} of the completions cut off", where)
    fix = f"raise task.max_new_tokens.{surface}, or use a base that ends its answers"
    if share >= levels.stop:
        return check.fault(f"{share:.0%}", fix)
    return check.warning(f"{share:.0%}", fix) if share > levels.amber else check.ok(f"{share:.1%}")


def _parsed(share: float, params: Params) -> Finding:
    levels = params.health.parsed
    check = Check(
        "parsing", f"at least {levels.amber:.0%} of the completions readable", "the base, on this task"
    )
    fix = "use a base that speaks the task's format: more base.warm_start, or another base.model"
    if share == 0.0:
        return check.fault("none", fix)
    return check.warning(f"{share:.0%}", fix) if share < levels.amber else check.ok(f"{share:.1%}")


def _success(episodes: Sequence[Episode]) -> Finding:
    rate = float(np.mean([episode.success for episode in episodes]))
    check = Check("room to learn", f"a base that succeeds in less than {SATURATED:.0%}", "the items of train")
    if rate >= SATURATED:
        return check.warning(
            f"{rate:.0%} of {counted(len(episodes), 'episodes')} succeed already", "take harder items"
        )
    return check.ok(f"success in {rate:.0%} of {counted(len(episodes), 'episodes')}")


def _paid_for_success(episodes: Sequence[Episode]) -> Finding:
    """Look whether successes are paid better than failures; a few of each are needed to say anything."""
    check = Check("reward and success", "success paid better than failure", "the task's reward parts")
    rewards = {success: [e.reward for e in episodes if e.success is success] for success in (True, False)}
    if min(len(side) for side in rewards.values()) < CLEAR:
        return check.ok(f"{len(rewards[True])} successes of {len(episodes)}: too few of a kind to tell")
    # Rank-biserial correlation: how much oftener a success is paid better than a failure, than the other way
    # round.
    found = float(np.mean(np.sign(np.subtract.outer(rewards[True], rewards[False]))))
    means = f"{np.mean(rewards[True]):.3g} for success, {np.mean(rewards[False]):.3g} for failure"
    fix = "correct the task's reward parts or their weights (task.weights): what is learned is what is paid"
    told = f"a rank correlation of {found:+.2f} ({means})"
    if found < -2.0 / np.sqrt(len(episodes)):
        return check.fault(told, fix)
    return check.warning(told, fix) if found < 0.0 else check.ok(told)


def _measured_context(probe: Probe, policy: Policy) -> Finding:
    longest = max(len(one.prompt_ids) + len(one.completion_ids) for one in probe.rollouts)
    limit = context_limit(policy.model)
    check = Check(
        "episode length",
        f"episodes within {limit} positions",
        "config.json of the base, max_position_embeddings",
    )
    fix = (
        "lower task.max_turns or task.max_new_tokens, or use a base with more positions"
        " (base.architecture.max_positions)"
    )
    if limit is not None and longest > limit:
        return check.fault(f"{longest} tokens", fix)
    return check.ok(f"up to {longest} tokens")
