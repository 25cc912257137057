"""A few groups played as a training plays them, within a bounded time."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch

from assay.checks.doctor.observed import BROKEN, UNDER_WAY, Observed
from assay.checks.findings import Deadline, DoctorCheck, Finding, TooSlow
from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.counting import counted
from assay.core.decoding import Decoding
from assay.core.records import Episode
from assay.core.seeds import derive_seed
from assay.health.rules.alarm_levels import ROUNDING
from assay.health.rules.signals import StepSignals, episode_text
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.rollout import Lost, Pace, Rollout, attempt
from assay.rollout.evaluation.trajectory import open_item
from assay.rollout.policy.backends.select import converse
from assay.rollout.policy.engine.context import positions_of
from assay.rollout.policy.model import Policy, evaluating
from assay.rollout.tasks.protocol import Item, Task

MOST_ITEMS, MOST_MEMBERS = 8, 16
SMALL_MODEL = 20_000_000  # parameters; of a larger one it is measured first how long a token takes
SECONDS = 30.0  # for a completion at its longest, and then for more groups
LEAST_ROOM = 16  # tokens
# Of the time that is left: for the probe, the rest being for the pass that learns; of that for reading
# prompts once.
PROBING, READING = 0.6, 0.4
SAMPLE = 128  # tokens that are read to see how fast a model reads; with fewer it reads slower than it will


@dataclass(frozen=True, slots=True)
class Probe:
    """The episodes of the probe with their plays, and what it took.

    Attributes:
        plays: In the order of the rollouts.
        rollouts: Whole episodes only.
        lost: Episodes that the environment lost.
        unfinished: Episodes under way when the time was over; their tokens are as good as any.
        seconds: Wall seconds of playing.
        room: Tokens a completion had; fewer than in training where a token takes too long.
        reading: Wall seconds that one token of a prompt takes to read; None for a small model, of which it is
            not measured.
    """

    plays: list[Play]
    rollouts: list[Rollout]
    lost: int
    unfinished: list[Rollout]
    seconds: float
    room: int
    reading: float | None

    @property
    def episodes(self) -> list[Episode]:
        """The episodes alone."""
        return [rollout.episode for rollout in self.rollouts]

    @property
    def seconds_per_episode(self) -> float:
        """Wall seconds."""
        return self.seconds / max(1, len(self.rollouts) + self.lost + len(self.unfinished))


@dataclass(frozen=True, slots=True)
class _Pace:
    """What there is time for: tokens of a completion, seconds for its longest; and how long a prompt's token
    takes to read."""

    room: int
    seconds: float
    reading: float | None


def play_probe(
    policy: Policy, observed: Observed, items: Sequence[Item], params: Params, deadline: Deadline
) -> Probe:
    """Play groups of a few items as training does: same temperature, same limits, one world a group.

    Raises:
        TooSlow: There is no time for one prompt and the shortest completions.
    """
    task, retries, size = cast(Task, observed), params.health.retries, params.generation.batch_size
    members = min(params.train.group_size, MOST_MEMBERS)
    groups = [_group(item, members, params.seed) for item in items[:MOST_ITEMS]]
    pace = _Pace(params.task.max_new_tokens[params.generation.surface], SECONDS, None)
    large = sum(parameter.numel() for parameter in policy.model.parameters()) > SMALL_MODEL
    if large:
        pace = _pace(policy, task, groups[0], params, deadline)
    generation = params.generation
    decoding = Decoding(
        generation.temperature, pace.room, generation.backend, generation.cuda_graphs, generation.drafts
    )
    played: list[tuple[Play, Rollout | Lost]] = []
    first = 1 if large and params.device == "cpu" else len(groups)
    begun, seconds = time.monotonic(), 0.0
    observed.until = begun + 1.5 * pace.seconds
    for part in (groups[:first], groups[first:]):
        # What one group took says how many more there is time for.
        allowed = part if not seconds else part[: max(0, int((pace.seconds - seconds) / seconds))]
        plays = [each for group in allowed for each in group]
        if plays:
            found = attempt(policy, task, plays, decoding, pace=Pace(size, retries=retries))
            played += zip(plays, found, strict=True)
        seconds = time.monotonic() - begun
    observed.until = None
    ended = [(each, one) for each, one in played if isinstance(one, Rollout)]
    whole = [(each, one) for each, one in ended if one.episode.ending not in (BROKEN, UNDER_WAY)]
    unfinished = [one for _, one in ended if one.episode.ending == UNDER_WAY]
    return Probe(
        [each for each, _ in whole],
        [one for _, one in whole],
        len(played) - len(ended),
        unfinished,
        seconds,
        pace.room,
        pace.reading,
    )


def _pace(policy: Policy, task: Task, group: Sequence[Play], params: Params, deadline: Deadline) -> _Pace:
    """Return what there is time for, from how long a large model takes to read and to write a few tokens.

    Raises:
        TooSlow: Not for the prompt, or not for the shortest completions.
    """
    ids = open_item(task, policy.dialogue, group[0].item, group[0].world_seed).prompt_ids
    reading = _seconds_to_read(policy, ids[:SAMPLE]) / max(1, len(ids[:SAMPLE]))
    prompt, budget = reading * len(ids), PROBING * deadline.left
    if prompt > READING * budget:
        raise TooSlow(
            f"a prompt of {len(ids)} tokens takes some {prompt:.0f} s to read, with {deadline.left:.0f} s"
            " left"
        )
    begun = time.monotonic()
    per_token = _seconds_per_token(policy, ids[:SAMPLE], group, params)
    # The last completions may begin just before the others are broken off, at 1.5 times these seconds.
    seconds = min(SECONDS, max(0.0, budget - prompt - (time.monotonic() - begun)) / 2.5)
    wanted = params.task.max_new_tokens[params.generation.surface]
    room = min(wanted, int(seconds / max(per_token, 1e-9)))
    if room < min(wanted, LEAST_ROOM):
        raise TooSlow(f"a token takes {per_token:.2g} s to write, with {deadline.left:.0f} s left")
    return _Pace(room, seconds, reading)


def _group(item: Item, members: int, seed: int) -> list[Play]:
    world = derive_seed("world", "doctor", seed, item.id)
    return [Play(item, k, derive_seed("sampling", "doctor", seed, item.id, k), world) for k in range(members)]


def _seconds_to_read(policy: Policy, ids: Sequence[int]) -> float:
    """Return the wall seconds of one forward pass; the first of two also allocates, and does not count."""
    given = torch.as_tensor(ids)[None].to(next(policy.model.parameters()).device)
    taken = 0.0
    with evaluating(policy.model):
        for _ in range(2):
            begun = time.monotonic()
            float(
                policy.model(input_ids=given, use_cache=False, logits_to_keep=1).logits.sum()
            )  # waits for a GPU
            taken = time.monotonic() - begun
    return taken


def _seconds_per_token(policy: Policy, ids: Sequence[int], group: Sequence[Play], params: Params) -> float:
    """Return the wall seconds that one more token takes a group, from a few behind the first of a prompt."""
    n = 4
    with evaluating(policy.model):
        generation = params.generation
        decoding = Decoding(
            generation.temperature, n, generation.backend, generation.cuda_graphs, generation.drafts
        )
        session = converse(policy, [list(ids)] * len(group), [each.seed for each in group], decoding)
        begun = time.monotonic()
        written = max(len(completion.ids) for completion in session.complete())
    # The last token chosen is not fed to the model.
    return (time.monotonic() - begun) / max(1, written - 1)


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
    signals = StepSignals.of(0, episodes)
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
    check = DoctorCheck("environment", f"at most {most:.0%} of the episodes lost", "the task's environment")
    fix = "see to the environment, raise health.retries, or raise health.max_lost_share"
    found, much = f"{probe.lost} of {n}", bool(n) and probe.lost > most * n
    return check.judge(found, fix, fault=much, doubtful=probe.lost > 0, ok=f"none of {n} lost")


def _whole(probe: Probe, params: Params) -> Finding:
    room, surface = params.task.max_new_tokens[params.generation.surface], params.generation.surface
    check = DoctorCheck("probe", "whole episodes in a minute", "this machine, with this base")
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
    check = DoctorCheck("variety", "other completions within a group", setting("generation.temperature"))
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
    check = DoctorCheck(
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
        other = 1.0 - 0.05 ** (1.0 / len(episodes))  # Clopper and Pearson (1934), where none was seen
        found = f"{rewards[0]:g} for each of {counted(len(episodes), 'episodes')}: no gradient"
        return check.fault(f"{found}; up to {other:.0%} of others may still earn something else", fix)
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
    levels, limit = params.health.truncated, f"task.max_new_tokens.{params.generation.surface}"
    expected = f"at most {levels.amber:.0%} of the completions cut off"
    fix = f"raise {limit}, or use a base that ends its answers"
    return DoctorCheck("truncation", expected, setting(limit)).judge(
        f"{share:.0%}", fix, fault=share >= levels.stop, doubtful=share > levels.amber, ok=f"{share:.1%}"
    )


def _parsed(share: float, params: Params) -> Finding:
    least = params.health.parsed.amber
    expected = f"at least {least:.0%} of the completions readable"
    check = DoctorCheck("parsing", expected, "the base, on this task")
    fix = "use a base that speaks the task's format: more base.warm_start, or another base.model"
    found = f"{share:.0%}" if share else "none"
    return check.judge(found, fix, fault=share == 0.0, doubtful=share < least, ok=f"{share:.1%}")


def _success(episodes: Sequence[Episode]) -> Finding:
    rate, n = float(np.mean([episode.success for episode in episodes])), counted(len(episodes), "episodes")
    expected = f"a base that succeeds in less than {SATURATED:.0%}"
    check = DoctorCheck("room to learn", expected, "the items of train")
    found, ok = f"{rate:.0%} of {n} succeed already", f"success in {rate:.0%} of {n}"
    return check.judge(found, "take harder items", doubtful=rate >= SATURATED, ok=ok)


def _paid_for_success(episodes: Sequence[Episode]) -> Finding:
    """Look whether successes are paid better than failures; a few of each are needed to say anything."""
    check = DoctorCheck("reward and success", "success paid better than failure", "the task's reward parts")
    rewards = {success: [e.reward for e in episodes if e.success is success] for success in (True, False)}
    if min(len(side) for side in rewards.values()) < CLEAR:
        return check.ok(f"{len(rewards[True])} successes of {len(episodes)}: too few of a kind to tell")
    # Rank-biserial correlation: how much oftener a success is paid better than a failure, than the other way
    # round.
    found = float(np.mean(np.sign(np.subtract.outer(rewards[True], rewards[False]))))
    means = f"{np.mean(rewards[True]):.3g} for success, {np.mean(rewards[False]):.3g} for failure"
    fix = "correct the task's reward parts or their weights (task.weights): what is learned is what is paid"
    told = f"a rank correlation of {found:+.2f} ({means})"
    return check.judge(told, fix, fault=found < -2.0 / np.sqrt(len(episodes)), doubtful=found < 0.0)


def _measured_context(probe: Probe, policy: Policy) -> Finding:
    longest = max(len(one.prompt_ids) + len(one.completion_ids) for one in probe.rollouts)
    limit = positions_of(policy.model.config)
    check = DoctorCheck(
        "episode length",
        f"episodes within {limit} positions",
        "config.json of the base, max_position_embeddings",
    )
    fix = (
        "lower task.max_turns or task.max_new_tokens, or use a base with more positions"
        " (base.architecture.max_positions)"
    )
    over = limit is not None and longest > limit
    return check.judge(f"{longest} tokens", fix, fault=over, ok=f"up to {longest} tokens")
