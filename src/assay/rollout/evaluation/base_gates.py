"""What a base that was taught here has to be able to do before anything is measured on it."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.config.settings import ScratchBase, SftGates
from assay.core.console import complain
from assay.core.decoding import Decoding
from assay.core.errors import PolicyError
from assay.core.seeds import rng
from assay.rollout.dataset.suite import choose
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.measures import mean_of
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.policy.base import tiny
from assay.rollout.policy.model import Policy
from assay.rollout.tasks.protocol import Item, Task, learner

SHARPER = 0.25  # greedy decoding that is right so much more often than sampling is said


def check_base(
    policy: Policy,
    task: Task,
    items: Sequence[Item],
    settings: ScratchBase,
    sampled: Decoding,
    greedy: Decoding,
    pace: Pace,
) -> dict[str, float]:
    """Return what a saved base can do on train items: shares of copies and parsed episodes, success, reward.

    Raises:
        PolicyError: It cannot read values off, or does not speak the syntax.
    """
    gates = settings.gates
    probe = task.drills(rng("base", "final probe", settings.seed), settings.warm_start.probe_items)
    copied = tiny.copy_accuracy(policy, probe)
    plays = choose(items, min(gates.episodes, len(items)), split="train", draws=1, seed=0).plays()
    episodes = measure(policy, task, plays, sampled, pace=pace)
    if learner(task):
        likeliest = measure(policy, task, plays, greedy, pace=pace)
        gap = (mean_of(likeliest, "success_rate") or 0.0) - (mean_of(episodes, "success_rate") or 0.0)
        if gap > SHARPER:
            complain(
                f"the base's likeliest answers are right {gap:.0%} more often than sampled ones, so that a"
                " training may gain by less chance alone, which is no skill. Fix: a weak player whose"
                " likeliest answer is wrong (task.players)"
            )
    facts = {"copy_accuracy": copied}
    facts |= {name: mean_of(episodes, name) or 0.0 for name in ("parsed_rate", "success_rate", "mean_reward")}
    for name, least in (("copy_accuracy", gates.copy_accuracy), ("parsed_rate", gates.parsed_rate)):
        if facts[name] < least:
            raise PolicyError(
                f"{name} of at least {least}",
                found=f"{facts[name]:.3f}",
                where=f"the base of base.seed={settings.seed}",
                fix=(
                    "raise the steps of base.warm_start, or choose another base.seed; nothing is measured on"
                    " this base"
                ),
            )
    return facts


def check_fine_tuned(
    policy: Policy, task: Task, items: Sequence[Item], gates: SftGates, sampled: Decoding, pace: Pace
) -> dict[str, float]:
    """Return what a fine-tuned base does with train items that it was not shown: share of parsed episodes,
    success, reward.

    Raises:
        PolicyError: It does not speak the syntax.
    """
    plays = choose(items, min(gates.episodes, len(items)), split="train", draws=1, seed=0).plays()
    episodes = measure(policy, task, plays, sampled, pace=pace)
    facts = {name: mean_of(episodes, name) or 0.0 for name in ("parsed_rate", "success_rate", "mean_reward")}
    if facts["parsed_rate"] < gates.parsed_rate:
        raise PolicyError(
            f"parsed_rate of at least {gates.parsed_rate} after fine-tuning (base.warm_start.gates)",
            found=f"{facts['parsed_rate']:.3f} of {len(episodes)} episodes",
            where="the fine-tuned base",
            fix=(
                "raise base.warm_start.steps or its learning_rate; or lower base.warm_start.gates: what was"
                " learned is kept for that"
            ),
        )
    return facts
