"""How far scripts come that see what a policy sees: a bound for the collider's score.

They look at channels one by one, feed the best one, calibrate it, measure its spin and claim what is proven.
The one with the highest mean reward on the training records, then the confidences it does best with there, is
played on the held-out suite beside the shipped players, once in each world. No policy plays. Writes
results/collider_bound.json, with intervals over items. Usage: ./run bench collider_bound
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, ROOT, written

from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Suite, choose
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.tasks.protocol import Baseline, Task
from assay.verdict.evidence.tables.claim_tables import normalised_score
from assay.verdict.statistics.report import Report, report_on
from assay_tasks.collider.baselines import best_place, claim, trusted_z
from assay_tasks.collider.surfaces import Action
from assay_tasks.collider.world.simulator import ColliderState

SHOWN = ("mean_reward", "success_rate")
STOPS, FED = (3.0, 3.5, 9.0), (1, 2, 3)
SURE, UNSURE = (0.7, 0.8, 0.9), (0.5, 0.6, 0.7)


@dataclass(frozen=True)
class Script:
    """A player that looks with one block a channel, feeds the best, and claims what is significant."""

    stop: float  # the local significance at which no further channel is looked at; 9 is never reached
    fed: int  # blocks for the best one at a time
    calibrates: bool
    sure: float = 0.9  # confidence of a claim
    unsure: float = 0.7  # confidence that nothing is there

    def act(self, state: ColliderState) -> Action:
        """Return the next action."""
        names, best = state.briefing.channels, best_place(state)
        looked = [bool(data.blocks) for data in state.data]
        z, last = trusted_z(state, best), state.turns_left == 1
        if any(looked) and z > 0 and state.is_significant(best):
            if self.calibrates and not (state.data[best].calibrated or last) and state.blocks_left:
                return Action("calibrate", names[best])
            notice = state.notice
            measured = notice.kind == "angles" and notice.place == best
            if not measured and not last:
                return Action("angles", names[best])
            return claim(state, best, int(notice.values[0]) if measured else None, self.sure)
        if last or not state.blocks_left:
            return Action("no_signal", confidence=self.unsure)
        if not all(looked) and z < self.stop and state.turns_left > 2:
            return Action("take_data", names[looked.index(False)], blocks=1)
        kept = int(self.calibrates and state.blocks_left > 1)
        free = state.blocks_left - kept
        return Action(
            "take_data", names[best], blocks=free if state.turns_left <= 2 + kept else min(free, self.fed)
        )


def players(task: Task, scripts: Sequence[Script]) -> dict[str, Baseline]:
    """Return scripts as players of the task, by what they do."""

    def player(script: Script) -> Baseline:
        return lambda item, state, rng: task.write(script.act(state), state)

    return {str(script): player(script) for script in scripts}


def reported(task: Task, suite: Suite, made: dict[str, Baseline]) -> dict[str, Report]:
    """Return what each player did on a suite, by name."""
    return {
        name: report_on(
            play_baseline(task, player, suite.plays(), name), suite, f"scripted:{name}", "sampled"
        )
        for name, player in made.items()
    }


def numbers(reports: dict[str, Report], task: Task) -> dict[str, dict[str, object]]:
    """Return of each player the measures with their intervals, and the score between floor and ceiling."""
    rewards = {name: each.measures["mean_reward"].value for name, each in reports.items()}
    return {
        name: {key: each.measures[key].model_dump(mode="json") for key in SHOWN}
        | {"score": normalised_score(rewards[name], rewards[task.floor], rewards[task.ceiling])}
        for name, each in reports.items()
    }


def main() -> None:
    """Play all scripts on the training records, and the best of them on the held-out suite."""
    project = Project.open(ROOT)
    task, records = project.task(), project.items("train")
    train = choose(records, len(records), split="train", draws=1, seed=0)
    shipped = {name: task.baselines()[name] for name in (task.floor, "adaptive", task.ceiling)}
    tried = reported(task, train, shipped)

    def best_of(scripts: Sequence[Script]) -> Script:
        tried.update(reported(task, train, players(task, scripts)))
        return max(scripts, key=lambda script: tried[str(script)].measures["mean_reward"].value or 0.0)

    best = best_of([Script(*each) for each in product(STOPS, FED, (True, False))])
    best = best_of([replace(best, sure=sure, unsure=unsure) for sure, unsure in product(SURE, UNSURE)])
    held = reported(
        task, replace(project.inputs("heldout").heldout, draws=1), players(task, [best]) | shipped
    )
    found: dict[str, Any] = {
        "best": str(best),
        "train": {"items": len(train.items), "players": numbers(tried, task)},
        "heldout": {"items": held[str(best)].n_items, "players": numbers(held, task)},
    }
    written(RESULTS / "collider_bound.json", found, indent=1)
    for name, row in found["heldout"]["players"].items():
        print(name, row)


if __name__ == "__main__":
    main()
