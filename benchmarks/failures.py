"""Does a training survive an environment that fails? Episodes lost for good are left out, or scored as zero.

    ./run repro base, then ./run bench failures    (45 minutes on one core)

The collider's recipe is trained on models/base for STEPS steps: without failures ("clean"), and with 5, 25
and 50 % of the training episodes lost. Each call of `step` fails by itself, by a seed derived from labels,
and outlasts the retries, so a longer episode is lost more often; the hazard of a call is what loses that
share of the episodes that the clean trainings played. `start`, which a group shares, does not fail; nor do
validation and the KL probe. `masked` is what assay does: the episode has no reward and stays out of its
group's mean and deviation. `zero` is what a naive pipeline does: a failure is the end, with reward 0.

Criterion, fixed before the first run: an arm stays inside if at least 7/8 of its points (runs x validations
after step 0; missing ones are outside) lie inside the 95 % prediction interval of one new clean run, mean +-
t(n - 1) s sqrt(1 + 1/n). The control holds each clean run against the other clean ones. PREDICTED was written
before the first run.

Added once masked 50 % had left, to learn why, without a criterion: `clean again` on the seeds of the arms,
`halved` groups without failures, `late` failures in `judge`, whatever the length.

Writes results/failures.json and .md; with --go-on the runs that it holds are kept.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import t as student
from transformers.utils.logging import disable_progress_bar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, ROOT, changed, machine, options, page, written

from assay.core.errors import EnvironmentFailure, TrainingStopped
from assay.core.records import AlarmSource, Episode
from assay.core.seeds import derive_seed
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.rollout.evaluation import retries
from assay.rollout.tasks.protocol import Item, Message, Step, Task, Verdict
from assay.training.checkpoints.store import Checkpoints
from assay.training.grpo import train
from assay.training.log.history import History, Watch
from assay.training.setup import Setup

STEPS, EVERY = 80, 20
CLEAN_SEEDS, ARM_SEEDS = range(8), range(100, 102)
SHARES = (0.05, 0.25, 0.5)
ADDED = {"clean again": 0.0, "halved": 0.0, "late": 0.5}
LEVEL, INSIDE = 0.95, 7 / 8
PREDICTED = {
    "masked": {0.05: "inside", 0.25: "inside", 0.5: "inside"},
    "zero": {0.05: "inside", 0.25: "outside", 0.5: "outside"},
}
ENDED = "environment failed"
NEVER = 10**6
RESULT = RESULTS / "failures.json"
Run = dict[str, Any]


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
                raise EnvironmentFailure
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
            raise EnvironmentFailure
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


def trained(project: Project, arm: str, share: float, hazard: float, seed: int) -> Run:
    """Train once and return what validation showed, and what was lost."""
    params, judged = project.params.model_copy(update={"seed": seed}), project.task()
    if arm == "halved":
        sizes = ("group_size", "micro_batch_size")
        params = changed(params, train={name: getattr(params.train, name) // 2 for name in sizes})
    history, watch = History(), Counting(judged)
    real, stopped, began = project.task(shaping=True), None, time.perf_counter()
    task = Failing(real, hazard, params.health.retries, zero=arm == "zero", late=arm == "late")

    def tell(event: str, facts: Mapping[str, Any]) -> None:
        task.on = True  # the first event is the validation of step 0, after the KL probe, before training

    with tempfile.TemporaryDirectory(prefix="assay-failures-") as folder:
        try:
            train(
                open_policy(project.params, project.root / "models/base"),
                Setup(task, judged, project.items("train"), project.inputs("validation").validation, params),
                checkpoints=Checkpoints(Path(folder), "failures", 1),
                start=None,
                history=history,
                watch=watch,
                on_step=lambda step: None,
                tell=tell,
            )
        except TrainingStopped as error:
            stopped = str(error)
    points = [
        {
            "step": each.step,
            "reward": float(np.mean([episode.reward for episode in each.sampled])),
            "success": float(np.mean([episode.success for episode in each.sampled])),
            "turns": float(np.mean([len(episode.turns) for episode in each.sampled])),
        }
        for each in history.validations
    ]
    run = {
        "arm": arm,
        "share": share,
        "seed": seed,
        "points": points,
        "stopped": stopped,
        "episodes": len(history.train_log) * params.train.items_per_step * params.train.group_size,
        "lost": sum(row["lost"] for row in history.train_log) + watch.ended,
        "learned_from": sum(watch.turns.values()),
        "turns": {str(n): k for n, k in sorted(watch.turns.items())},
    }
    said = f"{arm} {share:.0%}, seed {seed}: {run['lost']} of {run['episodes']} lost"
    print(f"{said}; {stopped or 'to the end'}; {time.perf_counter() - began:.0f} s", flush=True)
    return run


def hazard_of(share: float, turns: Mapping[int, int]) -> float:
    """Return the probability of failing in a call with which this share of these episodes is lost."""

    def excess(hazard: float) -> float:
        kept = sum(k * (1.0 - hazard) ** n for n, k in turns.items()) / sum(turns.values())
        return kept - (1.0 - share)

    return float(brentq(excess, 0.0, 1.0))


def interval(values: Sequence[float]) -> dict[str, float]:
    """Return the prediction interval of one more value beside these."""
    mean, deviation, n = float(np.mean(values)), float(np.std(values, ddof=1)), len(values)
    reach = float(student.ppf((1 + LEVEL) / 2, n - 1)) * deviation * math.sqrt(1 + 1 / n)
    return {"mean": mean, "deviation": deviation, "low": mean - reach, "high": mean + reach}


def band(clean: Sequence[Run], name: str) -> dict[int, dict[str, float]]:
    """Return the interval at each validation step."""
    return {
        step: interval([point[name] for run in clean for point in run["points"] if point["step"] == step])
        for step in range(0, STEPS + 1, EVERY)
    }


def inside(runs: Sequence[Run], limits: Mapping[int, Mapping[str, float]], name: str) -> tuple[int, int]:
    """Return how many points after step 0 lie inside, and how many there should be."""
    hits = sum(
        limits[point["step"]]["low"] <= point[name] <= limits[point["step"]]["high"]
        for run in runs
        for point in run["points"]
        if point["step"]
    )
    return hits, len(runs) * sum(step > 0 for step in limits)


def apart(runs: Sequence[Run], clean: Sequence[Run], name: str) -> dict[str, float]:
    """Return the difference to the clean runs of the mean over the points, with an interval.

    The spread between seeds is that of the clean runs, taken to be everybody's: an arm has too few runs to
    tell its own.
    """
    one, other = (
        [float(np.mean([point[name] for point in run["points"] if point["step"]])) for run in each]
        for each in (runs, clean)
    )
    error = float(np.std(other, ddof=1)) * math.sqrt(1 / len(one) + 1 / len(other))
    gap = float(np.mean(one) - np.mean(other))
    reach = float(student.ppf((1 + LEVEL) / 2, len(other) - 1)) * error
    return {"value": gap, "low": gap - reach, "high": gap + reach}


def last(runs: Sequence[Run]) -> dict[str, float]:
    """Return the means of the last validation."""
    names = ("reward", "success", "turns")
    return {name: float(np.mean([run["points"][-1][name] for run in runs])) for name in names}


def judged(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the intervals of the clean runs, and each arm and the control held against them."""

    def of(arm: str, share: float) -> list[Run]:
        return [run for run in runs if (run["arm"], run["share"]) == (arm, share)]

    clean = of("clean", 0.0)
    bands = {name: band(clean, name) for name in ("reward", "success")}

    def row(arm: str, share: float) -> dict[str, Any]:
        own = of(arm, share)
        return {
            "arm": arm,
            "share": share,
            "runs": len(own),
            "stopped": sum(run["stopped"] is not None for run in own),
            "lost_share": sum(run["lost"] for run in own) / sum(run["episodes"] for run in own),
            "learned_from": sum(run["learned_from"] for run in own) / len(own),
            "inside": {name: inside(own, bands[name], name)[0] for name in bands},
            "points": inside(own, bands["reward"], "reward")[1],
            "inside_by_run": [inside([run], bands["reward"], "reward")[0] for run in own],
            "difference": {name: apart(own, clean, name) for name in bands},
            "last": last(own),
        }

    arms = [row(arm, share) for arm in PREDICTED for share in SHARES if of(arm, share)]
    for each in arms:
        each["stays"] = each["inside"]["reward"] >= INSIDE * each["points"]
        each["predicted"] = PREDICTED[each["arm"]][each["share"]]
    control = [
        inside([run], band([each for each in clean if each is not run], "reward"), "reward") for run in clean
    ]
    return {
        "bands": bands,
        "arms": arms,
        "added": [row(arm, share) for arm, share in ADDED.items() if of(arm, share)],
        "control": {
            "inside": sum(k for k, _ in control),
            "points": sum(n for _, n in control),
            "runs": len(control),
        },
        "clean_last": last(clean),
    }


def write_page(record: Mapping[str, Any]) -> None:
    """Write what the record says as a table."""
    rows = [
        {"arm": row["arm"], "aimed at": row["share"], "lost": row["lost_share"], "runs": row["runs"]}
        | {"episodes learned from": row["learned_from"]}
        | {"points inside": f"{row['inside']['reward']} of {row['points']}"}
        | {"stays": row.get("stays"), "predicted": row.get("predicted")}
        | {
            f"{end} difference of reward": row["difference"]["reward"][end]
            for end in ("low", "value", "high")
        }
        | {f"last {name}": value for name, value in row["last"].items()}
        for row in (*record["arms"], *record["added"])
    ]
    control = record["control"]
    about = (
        f"The clean runs, each held against the others: {control['inside']} of {control['points']} points."
    )
    page(RESULT, "Trainings with an environment that fails", {"Arms": rows}, about)


def main() -> None:
    """Train all arms, one after the other, and write the result after each."""
    retries.pause = lambda seconds: None  # no failure here would pass by waiting
    parser = options(__doc__)
    parser.add_argument("--go-on", action="store_true", help="make the runs that failures.json lacks")
    go_on = parser.parse_args().go_on
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    disable_progress_bar()
    if not (ROOT / "models/base").is_dir():
        raise SystemExit("models/base is missing.\nFix: ./run repro")
    params = changed(
        Project.open(ROOT).params,
        train={"steps": STEPS},
        validation={"interval": EVERY},
        checkpoint={"every": NEVER},
        health={"max_lost_share": 1.0, "preflight": False},
        distributed={"processes": 1},
    )
    project = Project(ROOT, params)
    record: dict[str, Any] = {
        "recipe": {
            "task": params.task.name,
            "base": open_policy(project.params, project.root / "models/base").digest,
            "steps": STEPS,
            "validation_every": EVERY,
            "seeds": {"clean": list(CLEAN_SEEDS), "arms": list(ARM_SEEDS)},
            "retries": params.health.retries,
        },
        "level": LEVEL,
        "stays_from": INSIDE,
        "runs": [],
        "machine": machine(),
    }
    if go_on:
        known = json.loads(RESULT.read_text(encoding="utf-8"))
        if known["recipe"]["base"] != record["recipe"]["base"]:
            raise SystemExit("failures.json was made with another base.\nFix: leave --go-on out")
        record["runs"] = known["runs"]
    runs: list[Run] = record["runs"]

    def made(arm: str, share: float, hazard: float, seed: int) -> None:
        if not any((run["arm"], run["share"], run["seed"]) == (arm, share, seed) for run in runs):
            runs.append(trained(project, arm, share, hazard, seed))

    for seed in CLEAN_SEEDS:
        made("clean", 0.0, 0.0, seed)
    turns = Counter[int]()
    for run in runs:
        if run["arm"] == "clean":
            turns.update({int(n): k for n, k in run["turns"].items()})
    hazards = {share: hazard_of(share, turns) for share in SHARES}
    record["hazards"] = {str(share): hazard for share, hazard in hazards.items()}
    arms = [(arm, share, hazards[share]) for share in SHARES for arm in ("masked", "zero")]
    arms += [(arm, share, share) for arm, share in ADDED.items()]
    for seed in ARM_SEEDS:
        for arm, share, hazard in arms:
            made(arm, share, hazard, seed)
            write_page(written(RESULT, record | judged(runs)))


if __name__ == "__main__":
    main()
