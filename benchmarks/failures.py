"""Does a training survive an environment that fails? Episodes lost for good are left out, or scored as zero;
both drawn.

The collider's recipe is trained on models/base for STEPS steps, many times: with no failures ("clean"), and
with 5, 25 and 50 % of the training episodes lost. A failure is drawn in every call of `step` by itself, from
a seed derived from labels, and outlasts the retries; so a longer episode is more likely to be lost, as in
real life. The hazard of a call is what loses the given share of the episodes that the clean trainings played.
`start` does not fail, because a group shares it: that would be a whole group less, and nothing to compare.
Validation plays in an environment that works, in every arm (a validation with a lost episode would measure
nothing), and so does the probe that the KL is measured on. Nobody waits between two calls: no such failure
would pass by waiting.

* masked: what assay does. The episode has no reward, stays out of its group's mean and deviation, and none
  of its tokens counts.
* zero: what a naive pipeline does. The failure is the end of the episode, with reward 0.

The interval, at each validation step: the 95 % prediction interval of one new clean run, mean +- t(n - 1) s
sqrt(1 + 1/n) over the clean runs. A masked run is one new run with a training seed of its own; if failures
changed nothing, its reward would be one more draw from where the clean ones came from. (An interval of the
mean would be too narrow for a single run: it shrinks with n, and the spread between seeds does not.) It holds
point by point, so one point in twenty of an unharmed run lies outside.

Criterion, fixed before the first run: an arm stays inside if at least seven eighths of its points do; its
points are those of all its runs, at each validation after step 0 (there all runs are still the base). A point
that is missing because a training stopped is outside. The same rule is applied to each clean run against the
interval of the other clean ones, as a control. Because an interval may be wide, the difference to clean of
the mean over the points stands beside it.

Prediction, written before the first run:

* masked 5, 25, 50 %: all inside. At 50 % a step learns from half the episodes, so its first points may lie
  low.
* zero 5 %: inside; three episodes of 64 are too few to be seen.
* zero 25 %: leaves, downwards: with 0 the environment pays more than the base earns (about -0.7), so
  failures are rewarded at first and punished later, and staying longer is rewarded whatever for.
* zero 50 %: leaves at most points, downwards.

Fewer episodes a step alone can make learning slower, without anything being wrong; these arms do not separate
that from other harm, and the number of episodes learned from stands in the table.

What came (8 clean runs, 2 an arm): masked 5 and 25 % stayed (7 of 8 points each), masked 50 % did not (2 of
8), against the prediction; zero 5 % stayed (8 of 8), zero 25 and 50 % left (6 and 2 of 8), as predicted. At
no share do masked and zero differ from each other by more than seeds do. So the claim that a masked training
stays inside at any share is refuted at 50 %, and this task and size show no gain of masking over zero. (0
lies inside the range of its rewards, -1 to 1, so a zero may be mild here; that was not varied.)

Added after these results were seen, to learn why masked 50 % left; no criterion applies to them:

* clean again: no failures, on the seeds of the arms; are these seeds slow ones?
* halved: no failures, groups of half the size, so half the episodes a step; is it the number of episodes?
* late: masked, 50 %, but lost at the end, whatever the length (`judge` fails, not `step`); is it which
  episodes are lost?

What came: the seeds are ordinary ones (7 of 8 points inside). Half the group without any failure falls as far
below clean as masked 50 % does, so the loss of episodes is enough to explain it. Whether it matters which
ones are lost, two runs do not say.

Usage: ./run repro base, then ./run bench failures (about 45 minutes on one core). --go-on keeps the runs that
failures.json holds and makes those that are missing; --draw makes none. Writes results/failures.json, .md,
.png and .svg.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import platform
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.stats import t as student
from transformers.utils.logging import disable_progress_bar

from assay.core.config.settings import Params
from assay.core.counting import counted
from assay.core.errors import EnvironmentFailure, TrainingStopped
from assay.core.records import AlarmSource, Episode
from assay.core.seeds import derive_seed
from assay.dataset.suite import Suite
from assay.evaluation import retries
from assay.evidence.figures.drawing import GREY, legend, look, new_figure, render, styled
from assay.evidence.formatting import signed
from assay.pipeline.inputs import items_of, task_of, validation_suite
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.policy.model import Policy
from assay.tasks.protocol import Item, Message, Step, Task, Verdict
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.history import History, Watch

STEPS, EVERY = 80, 20
CLEAN_SEEDS, ARM_SEEDS = range(8), range(100, 102)
SHARES = (0.05, 0.25, 0.5)
ADDED = {"clean again": 0.0, "halved": 0.0, "late": 0.5}
LEVEL, INSIDE = 0.95, 7 / 8
PREDICTED = {
    "masked": {0.05: "inside", 0.25: "inside", 0.5: "inside"},
    "zero": {0.05: "inside", 0.25: "outside", 0.5: "outside"},
}
SAID = {
    "clean again": "clean, the arms' seeds",
    "halved": "clean, half the group",
    "late": "50% lost whatever the length, masked",
}
ENDED = "environment failed"
NEVER = 10**6
RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).resolve().parent.parent
Run = dict[str, Any]


class Outage(EnvironmentFailure):
    """What the environment raises."""


@dataclass(frozen=True, slots=True)
class State:
    """A state of the real task, and where it stands."""

    item_id: str
    world_seed: int
    turn: int
    earned: float
    inner: Any  # None once a failure has ended the episode


class Failing:
    """A task whose `step` fails with a probability, for as long as it is tried again.

    Args:
        task: The real one.
        hazard: Probability that a call fails.
        retries: How often a call that failed is made again; all of these fail too.
        zero: Whether a failure is no error but the end of the episode, with reward 0.
        late: Whether `judge` fails instead.
    """

    def __init__(self, task: Task, hazard: float, retries: int, *, zero: bool, late: bool) -> None:
        self._task, self._hazard, self._retries, self._zero, self._late = task, hazard, retries, zero, late
        self._calls: Counter[tuple[str, int, int]] = Counter()
        self._down = 0
        self.on = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], State]:
        """Open an episode; the members of a group share this one."""
        messages, inner = self._task.start(item, world_seed)
        return messages, State(item.id, world_seed, 0, 0.0, inner)

    def step(self, state: State, completion: str) -> Step:
        """Play on, or fail."""
        if not self._late and self._fails(state):
            if not self._zero:
                raise Outage
            back = {next(iter(self._task.parts)): -state.earned}  # penalties are not kept: the sum is 0
            return Step(replace(state, inner=None), None, ENDED, "ok", None, None, back)
        step = self._task.step(state.inner, completion)
        earned = state.earned + sum(step.parts.values())
        return replace(step, state=State(state.item_id, state.world_seed, state.turn + 1, earned, step.state))

    def _fails(self, state: State) -> bool:
        if self._down:  # the same call, tried again
            self._down -= 1
            return True
        # The members of a group meet the same world in the same order each time: the number of a call tells
        # them apart.
        call = (state.item_id, state.world_seed, state.turn)
        self._calls[call] += 1
        drawn = derive_seed("environment failure", *call, self._calls[call]) * 2.0**-63
        failed = self.on and drawn < self._hazard
        self._down = self._retries if failed and not self._zero else 0
        return failed

    def judge(self, state: State) -> Verdict:
        """Judge an episode; where there is none, no question has an answer."""
        if self._late and self._fails(state):
            raise Outage
        if state.inner is None:
            return Verdict(False, dict.fromkeys(self._task.flags), dict.fromkeys(self._task.metrics))
        return self._task.judge(state.inner)


class Counting(Watch):
    """Counts the training episodes that have an end: by turns, and those that a failure ended."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.turns: Counter[int] = Counter()
        self.ended = 0

    def look(self, step: int, source: AlarmSource, episodes: Sequence[Episode]) -> None:
        """Look at the episodes of one batch or validation."""
        super().look(step, source, episodes)
        if source == "batch":
            self.turns.update(len(episode.turns) for episode in episodes)
            self.ended += sum(episode.ending == ENDED for episode in episodes)


@dataclass(frozen=True)
class Bench:
    """What all trainings share."""

    policy: Policy
    trained: Task
    judged: Task
    items: Sequence[Item]
    validation: Suite
    params: Params

    def run(self, arm: str, share: float, hazard: float, seed: int) -> Run:
        """Train once and return what validation showed, and what was lost."""
        params = self.params.model_copy(update={"seed": seed})
        history, watch = History(), Counting(self.judged)
        if arm == "halved":
            half = {name: getattr(params.train, name) // 2 for name in ("group_size", "micro_batch_size")}
            params = params.model_copy(update={"train": params.train.model_copy(update=half)})
        task = Failing(self.trained, hazard, params.health.retries, zero=arm == "zero", late=arm == "late")

        def tell(event: str, facts: Mapping[str, Any]) -> None:
            task.on = True  # the first event is the validation of step 0, after the KL probe, before training

        stopped = None
        with tempfile.TemporaryDirectory(prefix="assay-failures-") as folder:
            try:
                train(
                    copy.deepcopy(self.policy),
                    task,
                    self.judged,
                    self.items,
                    self.validation,
                    params,
                    checkpoints=Checkpoints(Path(folder), "failures", 1),
                    start=None,
                    history=history,
                    watch=watch,
                    on_step=lambda step: None,
                    tell=tell,
                )
            except TrainingStopped as error:
                stopped = str(error)
        played = len(history.train_log) * params.train.items_per_step * params.train.group_size
        lost = sum(row["lost"] for row in history.train_log) + watch.ended
        points = []
        for each in history.validations:
            shown = {
                "reward": [episode.reward for episode in each.sampled],
                "success": [episode.success for episode in each.sampled],
                "turns": [len(episode.turns) for episode in each.sampled],
            }
            points.append({"step": each.step} | {name: float(np.mean(all_)) for name, all_ in shown.items()})
        told = {"arm": arm, "share": share, "seed": seed, "points": points, "stopped": stopped}
        turns = {str(n): k for n, k in sorted(watch.turns.items())}
        counts = {"episodes": played, "lost": lost, "learned_from": sum(watch.turns.values())}
        return told | counts | {"turns": turns}


def hazard_of(share: float, turns: Mapping[int, int]) -> float:
    """Return the probability of failing in a call with which this share of these episodes is lost."""
    total = sum(turns.values())

    def excess(hazard: float) -> float:
        return sum(k * (1.0 - hazard) ** n for n, k in turns.items()) / total - (1.0 - share)

    return float(brentq(excess, 0.0, 1.0))


def value(run: Run, step: int, name: str) -> float | None:
    """Return what validation showed at a step; None if the training stopped before."""
    return next((float(point[name]) for point in run["points"] if point["step"] == step), None)


def interval(values: Sequence[float]) -> dict[str, float]:
    """Return the prediction interval of one more value beside these."""
    mean, deviation, n = float(np.mean(values)), float(np.std(values, ddof=1)), len(values)
    reach = float(student.ppf((1 + LEVEL) / 2, n - 1)) * deviation * math.sqrt(1 + 1 / n)
    return {"mean": mean, "deviation": deviation, "low": mean - reach, "high": mean + reach}


def band(clean: Sequence[Run], name: str) -> dict[int, dict[str, float]]:
    """Return the interval at each validation step."""
    found = {}
    for step in range(0, STEPS + 1, EVERY):
        values = [value(run, step, name) for run in clean]
        found[step] = interval([each for each in values if each is not None])
    return found


def inside(runs: Sequence[Run], limits: Mapping[int, Mapping[str, float]], name: str) -> tuple[int, int]:
    """Return how many points after step 0 lie inside, and how many there are."""
    hits = [
        (seen := value(run, step, name)) is not None and limits[step]["low"] <= seen <= limits[step]["high"]
        for run in runs
        for step in limits
        if step
    ]
    return sum(hits), len(hits)


def level_of(run: Run, name: str) -> float:
    """Return the mean over the points after step 0 that there are."""
    return float(np.mean([point[name] for point in run["points"] if point["step"]]))


def apart(
    runs: Sequence[Run], others: Sequence[Run], clean: Sequence[Run], name: str = "reward"
) -> dict[str, float]:
    """Return the difference, runs minus others, of the mean over the points, with an interval.

    The spread between seeds is that of the clean runs, taken to be everybody's: an arm has too few runs to
    tell its own.
    """
    one, other, spread = ([level_of(run, name) for run in each] for each in (runs, others, clean))
    error = float(np.std(spread, ddof=1)) * math.sqrt(1 / len(one) + 1 / len(other))
    gap, reach = (
        float(np.mean(one) - np.mean(other)),
        float(student.ppf((1 + LEVEL) / 2, len(spread) - 1)) * error,
    )
    return {"value": gap, "low": gap - reach, "high": gap + reach}


def judged(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the intervals of the clean runs, and each arm and the control held against them."""
    clean = [run for run in runs if run["arm"] == "clean"]
    names = ("reward", "success")
    bands = {name: band(clean, name) for name in names}
    arms = []
    for arm in ("masked", "zero"):
        for share in SHARES:
            if own := _of(runs, arm, share):
                row = _row(arm, share, own, clean, bands)
                stays = row["inside"]["reward"] >= INSIDE * row["points"]
                arms.append(row | {"stays": stays, "predicted": PREDICTED[arm][share]})
    added = []
    for arm, share in ADDED.items():
        own = [run for run in runs if run["arm"] == arm]
        if own:
            added.append(_row(arm, share, own, clean, bands))
    against = {
        str(share): apart(one, other, clean)
        for share in SHARES
        if (one := _of(runs, "masked", share)) and (other := _of(runs, "zero", share))
    }
    others = [([run], [each for each in clean if each is not run]) for run in clean]
    control = [inside(one, band(rest, "reward"), "reward") for one, rest in others]
    return {
        "bands": bands,
        "arms": arms,
        "added": added,
        "masked_minus_zero": against,
        "control": {
            "inside": sum(k for k, _ in control),
            "points": sum(n for _, n in control),
            "runs": len(control),
        },
        "clean_last": {
            name: float(np.mean([run["points"][-1][name] for run in clean])) for name in (*names, "turns")
        },
    }


def _of(runs: Sequence[Run], arm: str, share: float) -> list[Run]:
    return [run for run in runs if (run["arm"], run["share"]) == (arm, share)]


def _row(
    arm: str, share: float, own: Sequence[Run], clean: Sequence[Run], bands: Mapping[str, Mapping[int, Any]]
) -> dict[str, Any]:
    counts = {name: inside(own, bands[name], name) for name in bands}
    return {
        "arm": arm,
        "share": share,
        "runs": len(own),
        "stopped": sum(run["stopped"] is not None for run in own),
        "lost_share": sum(run["lost"] for run in own) / sum(run["episodes"] for run in own),
        "learned_from": sum(run["learned_from"] for run in own) / len(own),
        "inside": {name: counts[name][0] for name in bands},
        "points": counts["reward"][1],
        "inside_by_run": [inside([run], bands["reward"], "reward")[0] for run in own],
        "difference": {name: apart(own, clean, clean, name) for name in bands},
        "last": {
            name: float(np.mean([run["points"][-1][name] for run in own])) for name in (*bands, "turns")
        },
    }


@styled
def figure_of(runs: Sequence[Run], found: Mapping[str, Any], size: str) -> Figure:
    """Return validation reward against step: the clean interval with masked arms, zero arms, and what was
    added later."""
    figure, panels = new_figure(1, 3, width=13.0, height=5.6)
    clean, masked = _of(runs, "clean", 0.0), _of(runs, "masked", 0.5)
    for axes, title in zip(
        panels, ("Lost episodes masked", "Lost episodes scored as zero", "Added later: why"), strict=True
    ):
        axes.set_title(f"{title}; {size}")
        axes.set_xlabel("optimizer step")
        axes.set_ylabel("mean validation reward")
        _clean(axes, found["bands"]["reward"], len(clean))
    for k, share in enumerate(SHARES):
        _arm(panels[0], _of(runs, "masked", share), f"{share:.0%} lost", look(k))
        _arm(panels[1], _of(runs, "zero", share), f"{share:.0%} lost", look(k))
    _arm(panels[2], masked, "50% lost, masked", look(2))
    for k, (arm, said) in enumerate(SAID.items()):
        _arm(panels[2], [run for run in runs if run["arm"] == arm], said, look(3 + k))
    for axes in panels[1:]:
        axes.sharey(panels[0])
    for axes in panels:
        legend(axes, below=True)
    return figure


def _clean(axes: Axes, limits: Mapping[int, Mapping[str, float]], n: int) -> None:
    steps = list(limits)
    low, high, mean = ([limits[step][name] for step in steps] for name in ("low", "high", "mean"))
    label = f"95 % interval of one new clean run (from n = {n})"
    axes.fill_between(steps, low, high, color=GREY, alpha=0.22, lw=0, label=label)
    axes.plot(steps, mean, color="black", lw=1.2, label=f"clean (mean, n = {n})")


def _arm(axes: Axes, own: Sequence[Run], said: str, style: dict[str, Any]) -> None:
    if not own:
        return
    for run in own:
        x, y = zip(*((point["step"], point["reward"]) for point in run["points"]), strict=True)
        axes.plot(x, y, color=style["color"], lw=0.7, alpha=0.55)
    steps = sorted(set.intersection(*({point["step"] for point in run["points"]} for run in own)))
    mean = [float(np.mean([value(run, step, "reward") for run in own])) for step in steps]
    axes.plot(steps, mean, ms=5, label=f"{said} (mean and each, n = {len(own)})", **style)


def told(record: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return the result as Markdown."""
    arms, control, recipe = found["arms"], found["control"], record["recipe"]
    words = {}
    for arm in ("masked", "zero"):
        for stays in (True, False):
            shares = [f"{each['share']:.0%}" for each in arms if (each["arm"], each["stays"]) == (arm, stays)]
            words[arm, stays] = ", ".join(shares) or "none"
    lines = [
        (
            f"**Inside the clean interval: masked {words['masked', True]}; scored as zero"
            f" {words['zero', True]}. Left it: masked {words['masked', False]}; scored as zero"
            f" {words['zero', False]}.** Collider, tiny base, {recipe['steps']} steps; {recipe['clean_runs']}"
            f" clean runs, {recipe['runs_an_arm']} an arm."
        ),
        "",
        (
            f"Criterion, fixed before the first run: an arm stays inside if at least {INSIDE:.1%} of its"
            " points (runs × validations after step 0) lie inside the 95 % prediction interval of one new"
            " clean run."
        ),
        "",
        (
            "| lost episodes | aimed at | lost | episodes learned from | points inside (by run) | stays |"
            " predicted | mean reward, difference to clean | success: points inside | last: reward | success,"
            " % | turns |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_told(each, "inside" if each["stays"] else "outside", each["predicted"]) for each in arms]
    last = found["clean_last"]
    lines += [
        (
            f"| clean, each against the others (n = {control['runs']}) | 0% | 0.0% |"
            f" {recipe['episodes_a_run']} | {control['inside']} of {control['points']} |"
            f" {'inside' if control['inside'] >= INSIDE * control['points'] else 'outside'} | | | |"
            f" {last['reward']:.3f} | {100 * last['success']:.1f} | {last['turns']:.2f} |"
        ),
        "",
    ]
    gaps = "; ".join(f"{float(share):.0%}: {_gap(gap)}" for share, gap in found["masked_minus_zero"].items())
    lines += [f"Masked minus scored as zero, mean reward over the points: {gaps}.", ""]
    if found["added"]:
        lines += [
            (
                "Added after these results were seen, to learn why masked 50 % left; the criterion does not"
                " apply to them:"
            ),
            "",
            (
                "| arm | aimed at | lost | episodes learned from | points inside (by run) | | | mean reward,"
                " difference to clean | success: points inside | last: reward | success, % | turns |"
            ),
            "|---|---|---|---|---|---|---|---|---|---|---|---|",
            *(_told(each | {"arm": SAID[each["arm"]]}, "", "") for each in found["added"]),
            "",
        ]
    lines += [
        "| step | clean reward, mean | interval | clean success, % | interval |",
        "|---|---|---|---|---|",
    ]
    for step in found["bands"]["reward"]:
        reward, success = (found["bands"][name][step] for name in ("reward", "success"))
        lines.append(
            f"| {step} | {reward['mean']:.3f} | {reward['low']:.3f} to {reward['high']:.3f} |"
            f" {100 * success['mean']:.1f} | {100 * success['low']:.1f} to {100 * success['high']:.1f} |"
        )
    hazards = ", ".join(f"{h:.2%} a call for {float(share):.0%}" for share, h in record["hazards"].items())
    stopped = sum(each["stopped"] for each in arms)
    lines += [
        "",
        (
            "Mean reward is over the points of a run; intervals of differences are 95 % and take the spread"
            " between clean seeds for everybody's. Failures are drawn in each call of `step` and outlast the"
            f" retries ({hazards}; chosen on the turns of the clean runs' training episodes). Validation"
            f" plays in an environment that works. {counted(stopped, 'trainings')} of the arms stopped early."
        ),
        "",
        "![validation reward with lost episodes masked or scored as zero](failures.png)",
    ]
    return "\n".join(lines) + "\n"


def _gap(gap: Mapping[str, float]) -> str:
    return (
        f"{signed(gap['value'], places=3)} ({signed(gap['low'], places=3)} to"
        f" {signed(gap['high'], places=3)})"
    )


def _told(each: Mapping[str, Any], came: str, predicted: str) -> str:
    last, by_run = each["last"], ", ".join(str(k) for k in each["inside_by_run"])
    return (
        f"| {each['arm']} (n = {each['runs']}) | {each['share']:.0%} | {each['lost_share']:.1%} |"
        f" {each['learned_from']:.0f} | {each['inside']['reward']} of {each['points']} ({by_run}) | {came} |"
        f" {predicted} | {_gap(each['difference']['reward'])} | {each['inside']['success']} of"
        f" {each['points']} | {last['reward']:.3f} | {100 * last['success']:.1f} | {last['turns']:.2f} |"
    )


def publish(record: dict[str, Any]) -> None:
    """Write record, tables and figure."""
    RESULTS.mkdir(exist_ok=True)
    found = judged(record["runs"])
    record = record | found
    text = json.dumps(record, indent=2, sort_keys=True) + "\n"
    (RESULTS / "failures.json").write_text(text, encoding="utf-8")
    (RESULTS / "failures.md").write_text(told(record, found), encoding="utf-8")
    for kind, content in render(figure_of(record["runs"], found, record["recipe"]["a_point"])).items():
        (RESULTS / f"failures.{kind}").write_bytes(content)


def prepared() -> Bench:
    """Return base, tasks, items and settings: those of params.yaml with fewer steps, and failures allowed."""
    project = Project.open(ROOT)
    if not (ROOT / "models/base").is_dir():
        raise SystemExit("models/base is missing.\nFix: ./run repro")
    params = project.params
    params = params.model_copy(
        update={
            "train": params.train.model_copy(update={"steps": STEPS}),
            "validation": params.validation.model_copy(update={"interval": EVERY}),
            "checkpoint": params.checkpoint.model_copy(update={"every": NEVER}),
            "health": params.health.model_copy(update={"max_lost_share": 1.0, "preflight": False}),
        }
    )
    project = Project(ROOT, params)
    return Bench(
        open_policy(project, None),
        task_of(project, shaping=True),
        task_of(project),
        items_of(project, "train"),
        validation_suite(project),
        params,
    )


def main() -> None:
    """Train all arms, one after the other, and write the result after each."""
    retries.pause = lambda seconds: None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--go-on", action="store_true", help="keep the runs of failures.json, make those that are missing"
    )
    parser.add_argument("--draw", action="store_true", help="draw and tell what failures.json holds")
    chosen = parser.parse_args()
    known = None
    if chosen.go_on or chosen.draw:
        known = json.loads((RESULTS / "failures.json").read_text(encoding="utf-8"))
    if chosen.draw:
        publish(known)
        return
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    disable_progress_bar()
    bench = prepared()
    params, suite = bench.params, bench.validation
    record: dict[str, Any] = {
        "recipe": {
            "task": params.task.name,
            "base": bench.policy.digest,
            "device": params.device,
            "threads": params.threads,
            "steps": STEPS,
            "validation_every": EVERY,
            "clean_runs": len(CLEAN_SEEDS),
            "runs_an_arm": len(ARM_SEEDS),
            "clean_seeds": list(CLEAN_SEEDS),
            "arm_seeds": list(ARM_SEEDS),
            "retries": params.health.retries,
            "episodes_a_run": STEPS * params.train.items_per_step * params.train.group_size,
            "a_point": f"{len(suite.items)} × {suite.draws} episodes a point",
        },
        "level": LEVEL,
        "stays_from": INSIDE,
        "hazards": {},
        "runs": [],
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if known is not None:
        if known["recipe"]["base"] != record["recipe"]["base"]:
            raise SystemExit("failures.json was made with another base.\nFix: leave --go-on out")
        record["runs"] = known["runs"]
    runs: list[Run] = record["runs"]

    def made(arm: str, share: float, hazard: float, seed: int) -> None:
        if not any((run["arm"], run["share"], run["seed"]) == (arm, share, seed) for run in runs):
            runs.append(_run(bench, arm, share, hazard, seed))

    for seed in CLEAN_SEEDS:
        made("clean", 0.0, 0.0, seed)
    turns = Counter[int]()
    for run in _of(runs, "clean", 0.0):
        turns.update({int(n): k for n, k in run["turns"].items()})
    hazards = {share: hazard_of(share, turns) for share in SHARES}
    record["hazards"] = {str(share): hazard for share, hazard in hazards.items()}
    arms = [(arm, share, hazards[share]) for share in SHARES for arm in ("masked", "zero")]
    for seed in ARM_SEEDS:
        for arm, share, hazard in arms + [(arm, share, share) for arm, share in ADDED.items()]:
            made(arm, share, hazard, seed)
            publish(record)
    print((RESULTS / "failures.md").read_text(encoding="utf-8"))


def _run(bench: Bench, arm: str, share: float, hazard: float, seed: int) -> Run:
    began = time.perf_counter()
    run = bench.run(arm, share, hazard, seed)
    rewards = " ".join(f"{point['reward']:.3f}" for point in run["points"])
    lost, seconds = f"{run['lost']} of {run['episodes']} lost", f"{time.perf_counter() - began:.0f} s"
    print(
        f"{arm} {share:.0%}, seed {seed}: {rewards}; {lost}; {run['stopped'] or 'to the end'}; {seconds}",
        flush=True,
    )
    return run


if __name__ == "__main__":
    main()
