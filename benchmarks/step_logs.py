"""Made-up means by step, as trainers log them, in the forms in which people have them: fifty sound
trainings and forty-eight ill ones, each with the rule that should name it.

A training is a function of its progress; noise, batches and damage come on top. `LATER` was written when the
rules were done.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Shape = Callable[[float], dict[str, float]]  # progress in [0, 1] -> signals, parts as "part <name>"
Damage = Callable[[list[Row]], None]
TRL = {
    **{"length": "completions/mean_length", "truncated": "completions/clipped_ratio", "std": "reward_std"},
    **{"zero": "frac_reward_zero_std", "clip": "clip_ratio/region_mean", "validation": "eval_reward"},
}
VERL = {
    **{"reward": "critic/score/mean", "length": "response_length/mean", "kl": "actor/kl_loss"},
    **{"truncated": "response_length/clip_ratio", "entropy": "actor/entropy", "clip": "actor/pg_clipfrac"},
    **{"grad_norm": "actor/grad_norm", "loss": "actor/pg_loss", "most": "critic/score/max"},
    **{"least": "critic/score/min", "success": "reward_extra/acc/mean"},
}
PRIME = {
    **{"reward": "reward/all/mean", "length": "seq_len/all/mean", "entropy": "entropy/all/mean"},
    **{"truncated": "is_truncated/all/mean", "grad_norm": "optim/grad_norm", "loss": "loss/mean"},
    "success": "metrics/all/correct/mean",
}
OPENRLHF = {"length": "response_length", "loss": "policy_loss", "success": "accuracy"}


@dataclass(frozen=True)
class StepLog:
    """One training by its means: `rule` names what is ill in it, None for a sound one."""

    name: str
    shape: Shape
    form: str = "trl"
    rule: str | None = None
    steps: int = 60
    noise: float = 0.02  # of the mean of a batch, as a share of what a signal is
    every: int = 1  # steps between rows
    damage: Damage | None = None
    seed: int = 0

    def rows(self) -> list[Row]:
        """Return the rows under plain names, each with "step"."""
        rng, made = random.Random(f"{self.name} {self.form} {self.seed}"), list[Row]()
        for k in range(1, self.steps + 1):
            told = self.shape((k - 1) / (self.steps - 1))
            row: Row = {"step": k * self.every}
            for name, value in {"grad_norm": 0.4, "loss": 0.01, **told}.items():
                unit = 0.5 if name in ("success", "reward") or name.startswith("part ") else abs(value)
                free = value + rng.gauss(0.0, self.noise * unit)
                row[name] = max(0.0, free) if value >= 0.0 else free
                if value == 0.0 or name == "success":
                    row[name] = value if value == 0.0 else min(1.0, row[name])
            _add_up(row)
            made.append(row)
        if self.damage is not None:
            self.damage(made)
        return made


def _add_up(row: Row) -> None:
    """Make the reward of its parts, where it has any; success is a part of its own where none is named so."""
    parts = {name: value for name, value in row.items() if name.startswith("part ")}
    if "part accuracy" in parts:
        row["success"] = parts["part accuracy"]
    if parts and "reward" not in row:
        row["reward"] = sum(parts.values())


# --- forms


def write_log(log: StepLog, folder: Path) -> Path:
    """Write a log in its form and return what is to be named on the command line."""
    rows = log.rows()
    return WRITERS[log.form](rows, folder)


def _named(row: Row, names: Mapping[str, str], part: str) -> Row:
    """Return a row under a tool's names."""
    made: Row = {}
    parts = any(name == "part accuracy" for name in row)
    for name, value in row.items():
        if name.startswith("part "):
            made[part.format(name[5:])] = value
        elif name != "success" or not parts:
            made[names.get(name, "accuracy" if name == "success" else name)] = value
    return made


def _trl(row: Row) -> Row:
    beside = {"learning_rate": 1e-6 * (1 - row["step"] / 1e4), "num_tokens": 900.0 * row["step"]}
    beside |= {"epoch": row["step"] / 50, "completions/min_length": 9.0, "completions/max_length": 512.0}
    return _named(row, TRL, "rewards/{}/mean") | beside


def _state(rows: Sequence[Row], folder: Path) -> Path:
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"log_history": [_trl(row) for row in rows]}), encoding="utf-8")
    return path


def _console(rows: Sequence[Row], folder: Path) -> Path:
    """TRL's dicts as a progress bar writes them through: the bar is drawn again behind each."""
    last, lines = rows[-1]["step"], ["Loading checkpoint shards: 100%|####| 2/2 [00:01<00:00,  1.9it/s]"]
    for row in rows:
        shown = {name: value for name, value in _trl(row).items() if name != "step"}
        lines.append(f"{shown}")
        lines.append(f"  {row['step'] / last:3.0%}|##  | {row['step']}/{last} [00:11<10:00,  2.1s/it]\\r")
    path = folder / "train.log"
    path.write_text("\n".join(lines).replace("\\r\n", "\r"), encoding="utf-8")
    return path


def _swift(rows: Sequence[Row], folder: Path) -> Path:
    lines = []
    for row in rows:
        made = _trl(row)
        made["global_step/max_steps"] = f"{made.pop('step')}/{rows[-1]['step']}"
        made |= {"percentage": "3.00%", "elapsed_time": "1m 2s", "memory(GiB)": 40.1}
        lines.append(json.dumps({_swift_name(name): value for name, value in made.items()}))
    path = folder / "logging.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _swift_name(name: str) -> str:
    return name.replace("rewards/accuracy/", "rewards/MathAccuracy/").replace(
        "rewards/format/", "rewards/Format/"
    )


def _verl_console(rows: Sequence[Row], folder: Path) -> Path:
    lines = ["(TaskRunner pid=811) step:0 - val-core/openai/gsm8k/acc/mean@1:0.31"]
    for row in rows:
        made = _named(row, VERL, "reward_extra/{}/mean")
        step = made.pop("step")
        made |= {"training/global_step": step, "timing_s/gen": 30.2, "perf/mfu/actor": 0.3}
        said = " - ".join(f"{name}:{value}" for name, value in made.items())
        lines += [f"(TaskRunner pid=811) step:{step} - {said}", "(WorkerDict pid=3) INFO: saved"]
    path = folder / "verl.out"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _charts(rows: Sequence[Row], folder: Path) -> Path:
    """One CSV of several charts of W&B, with some gaps."""
    made = [_trl(row) for row in rows]
    names = [name for name in dict.fromkeys(name for row in made for name in row) if name != "step"]
    head = [
        '"train/global_step"',
        *(f'"run-7 - train/{n}{end}"' for n in names for end in ("", "__MIN", "__MAX")),
    ]
    lines = [",".join(head)]
    for k, row in enumerate(made):
        cells = [_cell(None if (k + j) % 17 == 5 else row.get(name)) for j, name in enumerate(names)]
        lines.append(",".join([f'"{row["step"]}"', *(cell for cell in cells for _ in range(3))]))
    path = folder / "wandb_export_2026-11-28T10_00_00.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _cell(value: object) -> str:
    return '""' if value is None else f'"{value}"'


def _history(rows: Sequence[Row], folder: Path) -> Path:
    """The history of a run of W&B as JSONL: validation in rows of its own, and null where nothing is."""
    made = [
        {"_step": row["step"], "_timestamp": 1.7e9} | {f"train/{n}": v for n, v in _trl(row).items()}
        for row in rows
    ]
    lines = []
    for k, row in enumerate(made):
        lines.append(json.dumps(row | {"eval/loss": None, "train/step": row["train/step"]}))
        if k % 20 == 19:
            nothing = dict.fromkeys(name for name in row if name not in ("_step", "_timestamp"))
            lines.append(json.dumps(row | nothing | {"eval/loss": 0.4}))
    path = folder / "history.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _tensorboard(rows: Sequence[Row], folder: Path) -> Path:
    """A CSV a scalar, in a folder."""
    made = [_trl(row) for row in rows]
    for name in dict.fromkeys(name for row in made for name in row if name != "step"):
        lines = ["Wall time,Step,Value"]
        lines += [f"{1.7e9 + row['step']},{row['step']},{row[name]}" for row in made if name in row]
        tag = f"train_{name}".replace("/", "_")
        (folder / f"run-grpo_1-tag-{tag}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _openrlhf(rows: Sequence[Row], folder: Path) -> Path:
    lines = ["Episode [1/1]:   0%|          | 0/60 [00:00<?, ?it/s]"]
    for row in rows:
        made = _named(row, OPENRLHF, "rewards/{}/mean")
        step = made.pop("step")
        lines.append(f"2026-11-28 10:00:00.000 INFO Global step {step}: {made | {'actor_lr': 1e-6}}")
    path = folder / "openrlhf.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _prime(rows: Sequence[Row], folder: Path) -> Path:
    path = folder / "monitors/file/metrics.jsonl"
    path.parent.mkdir(parents=True)
    lines = [
        json.dumps({"producer": "orchestrator"} | _named(row, PRIME, "metrics/all/{}/mean")) for row in rows
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _notebook(rows: Sequence[Row], folder: Path) -> Path:
    """The table that a notebook shows, copied: tabs, and "rewards / name / mean"."""
    made = [_trl(row) for row in rows]
    names = [
        name for name in dict.fromkeys(name for row in made for name in row) if name not in ("step", "loss")
    ]
    lines = ["\t".join(["Step", "Training Loss", *(name.replace("/", " / ") for name in names)])]
    lines += ["\t".join(str(row.get(name, "")) for name in ("step", "loss", *names)) for row in made]
    path = folder / "table.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _table(rows: Sequence[Row], folder: Path) -> Path:
    made = [_named(row, VERL, "reward_extra/{}/mean") for row in rows]
    names = list(dict.fromkeys(name for row in made for name in row))
    lines = [",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in made)]
    path = folder / "metrics.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


WRITERS: Mapping[str, Callable[[Sequence[Row], Path], Path]] = {
    **{"trl": _state, "console": _console, "swift": _swift, "verl": _verl_console, "charts": _charts},
    **{"history": _history, "tensorboard": _tensorboard, "openrlhf": _openrlhf, "prime": _prime},
    **{"notebook": _notebook, "table": _table},
}
FORMS = tuple(WRITERS)


# --- sound shapes


def learns(low: float, high: float, bend: float = 1.0, **beside: tuple[float, float]) -> Shape:
    """Return a training whose only reward is accuracy, with other signals on a straight way."""

    def shape(at: float) -> dict[str, float]:
        told = {"part accuracy": low + (high - low) * at**bend}
        return told | {name.replace("part_", "part "): a + (b - a) * at for name, (a, b) in beside.items()}

    return shape


def graded(low: float, high: float, reward: tuple[float, float], **beside: tuple[float, float]) -> Shape:
    """Return a training whose success is graded by something else than its reward."""

    def shape(at: float) -> dict[str, float]:
        told = {"success": low + (high - low) * at, "reward": reward[0] + (reward[1] - reward[0]) * at}
        return told | {name: a + (b - a) * at for name, (a, b) in beside.items()}

    return shape


def form_first(at: float) -> dict[str, float]:
    """A format that is learned in the first fifth, accuracy all along."""
    return {"part accuracy": 0.2 + 0.35 * at, "part format": min(1.0, 0.1 + 5 * at), "length": 300 - 60 * at}


def warmed_up(at: float) -> dict[str, float]:
    """Large gradients while the learning rate warms up, and a KL that grows as it should."""
    return {"part accuracy": 0.3 + 0.3 * at, "grad_norm": 1.5 - 1.1 * min(1.0, 8 * at), "kl": 0.3 * at}


def harder_half_way(at: float) -> dict[str, float]:
    """A curriculum: accuracy falls where harder items come, and rises again."""
    right = 0.4 + at if at < 0.5 else 0.3 + 0.8 * (at - 0.5)
    return {"part accuracy": right, "length": 200.0 if at < 0.5 else 330.0, "entropy": 0.6 - 0.2 * at}


def surer(at: float) -> dict[str, float]:
    """Entropy falls as failures do."""
    return {"part accuracy": 0.3 + 0.65 * at, "entropy": 0.8 - 0.65 * at, "zero": 0.1 + 0.3 * at}


def gaps(rows: list[Row]) -> None:
    """A part that is asked for in every other step, as TRL logs one whose function answers None."""
    for row in rows[::2]:
        row["part accuracy"] = row["success"] = math.nan


def resumed(rows: list[Row]) -> None:
    """Twelve steps are made again after a crash."""
    again = [dict(row) for row in rows[28:40]]
    rows[40:40] = again


def seldom(rows: list[Row]) -> None:
    """A validation every tenth step."""
    for row in rows[9::10]:
        row["validation"] = 0.9 * row["reward"]


def per_cent(rows: list[Row]) -> None:
    """Success in per cent."""
    for row in rows:
        row["success"] *= 100.0


SHAPES: Mapping[str, tuple[Shape, Mapping[str, Any]]] = {
    "small gain, large batches": (learns(0.5, 0.6, length=(300.0, 310.0)), {"noise": 0.003}),
    "small gain from little": (learns(0.04, 0.11, kl=(0.0, 0.05)), {"noise": 0.006}),
    "small gain, noisy": (learns(0.42, 0.53, entropy=(0.5, 0.45)), {"noise": 0.15}),
    "steady": (learns(0.25, 0.75, length=(250.0, 400.0), entropy=(0.7, 0.4)), {}),
    "quick, then level": (learns(0.2, 0.8, 0.3, kl=(0.0, 0.4)), {"steps": 150}),
    "nothing learned": (learns(0.33, 0.33, length=(200.0, 205.0)), {"noise": 0.05}),
    "mastered": (learns(0.9, 0.99, zero=(0.5, 0.75), entropy=(0.3, 0.2)), {}),
    "shorter and better": (learns(0.4, 0.6, length=(900.0, 380.0)), {"noise": 0.01}),
    "longer and better": (learns(0.3, 0.55, length=(400.0, 1300.0), truncated=(0.02, 0.2)), {}),
    "format first": (form_first, {}),
    "warm-up, fair KL": (warmed_up, {"steps": 100}),
    "curriculum": (harder_half_way, {"steps": 120}),
    "surer as it learns": (surer, {"steps": 90}),
    "a part now and then": (learns(0.3, 0.6, part_format=(0.4, 0.6)), {"damage": gaps, "only": "trl"}),
    "resumed": (learns(0.3, 0.6, kl=(0.0, 0.1)), {"damage": resumed, "only": "trl"}),
    "validated now and then": (learns(0.3, 0.6), {"damage": seldom, "only": "trl"}),
    "graded beside, offset": (graded(0.45, 0.57, (-0.1, 0.14), std=(0.9, 0.9)), {"noise": 0.01}),
    "graded beside, in hundreds": (graded(0.2, 0.5, (40.0, 110.0), length=(200.0, 240.0)), {"noise": 0.01}),
    "graded beside, negative": (graded(0.05, 0.12, (-0.9, -0.76), std=(0.4, 0.4)), {"noise": 0.006}),
    "graded beside, per cent": (graded(0.3, 0.5, (0.3, 0.52)), {"damage": per_cent}),
    "a penalty never due": (learns(0.3, 0.6, part_overlong_penalty=(0.0, 0.0)), {"only": "trl"}),
    "a part always paid": (learns(0.3, 0.6, part_valid=(0.2, 0.2)), {"noise": 0.0, "only": "trl"}),
    "reward drifts a little": (graded(0.4, 0.4, (0.5, 0.512), std=(0.5, 0.5)), {"noise": 0.002}),
    "graded beside, offset, no spread": (graded(0.45, 0.57, (-0.1, 0.14), kl=(0.0, 0.1)), {"noise": 0.01}),
    "rows ten steps apart": (learns(0.2, 0.5, grad_norm=(0.6, 0.3)), {"every": 10, "steps": 40}),
}


def _spread(
    shapes: Mapping[str, tuple[Shape, Mapping[str, Any]]], rules: Mapping[str, str], times: int = 2
) -> tuple[StepLog, ...]:
    """Return each shape in some forms, going round all forms; some need names that only TRL's forms have."""
    made, trl = list[StepLog](), ("trl", "console", "swift", "charts", "history", "notebook", "tensorboard")
    for k, (name, (shape, how)) in enumerate(shapes.items()):
        told = dict(how)
        forms = {"trl": trl, "lines": ("trl", "swift", "history")}.get(told.pop("only", ""), FORMS)
        for j in range(times):
            form = forms[(2 * k + 5 * j + k // len(forms)) % len(forms)]
            made.append(StepLog(f"{name}, {form}", shape, form, rules.get(name), seed=j, **told))
    return tuple(made)


SOUND = _spread(SHAPES, {})


# --- ill shapes


def putting(column: str, value: object, *steps: int) -> Damage:
    """Return a damage that puts a value into a column at some rows."""

    def damage(rows: list[Row]) -> None:
        for k in steps:
            rows[k][column] = value

    return damage


def ending(column: str, at: int, value: object = None) -> Damage:
    """Return a damage that ends a column at a row: with a value from there on, or with none at all."""

    def damage(rows: list[Row]) -> None:
        for row in rows[at:]:
            row.pop(column, None)
            if value is not None:
                row[column] = value

    return damage


def late_jump(at: float) -> dict[str, float]:
    """Three quarters in the reward is found out."""
    found = max(0.0, min(1.0, (at - 0.7) * 10))
    return {"success": 0.4 - 0.25 * found, "reward": 0.4 + 0.5 * found, "length": 300.0 - 150 * found}


NAN, INF = math.nan, math.inf
FINE = learns(0.3, 0.6, kl=(0.0, 0.1), length=(300.0, 320.0))
ILL_SHAPES: Mapping[str, tuple[str, Shape, Mapping[str, Any]]] = {
    "one NaN gradient": ("non_finite", FINE, {"damage": putting("grad_norm", NAN, 33)}),
    "NaN loss at the first steps": ("non_finite", FINE, {"damage": putting("loss", NAN, 0, 1)}),
    "Inf reward once": ("non_finite", FINE, {"damage": putting("reward", INF, 21)}),
    "NaN gradients to the end": ("non_finite", FINE, {"damage": ending("grad_norm", 50, NAN)}),
    "a word for the reward": (
        "non_finite",
        FINE,
        {"damage": putting("reward", "error", 30), "only": "lines"},
    ),
    "null for the loss": ("non_finite", FINE, {"damage": putting("loss", None, 12, 13), "only": "lines"}),
    "the reward stops": ("non_finite", FINE, {"damage": ending("reward", 45)}),
    "a part never paid": ("dead_part", learns(0.3, 0.6, part_think_format=(0.0, 0.0)), {"only": "trl"}),
    "no reward at all": ("dead_part", graded(0.2, 0.2, (0.0, 0.0)), {}),
    "reward without success": ("reward_vs_success", graded(0.3, 0.3, (0.3, 0.9), length=(200.0, 220.0)), {}),
    "reward for success": ("reward_vs_success", graded(0.45, 0.2, (0.4, 0.7)), {}),
    "success lost alone": ("reward_vs_success", graded(0.6, 0.3, (0.5, 0.52)), {}),
    "found out late": ("reward_vs_success", late_jump, {"steps": 100}),
    "format alone": ("part_share", learns(0.3, 0.3, part_format=(0.1, 0.9)), {"only": "trl"}),
    "variety lost": ("entropy", learns(0.3, 0.35, entropy=(0.9, 0.05)), {}),
    "away from the base": ("kl", learns(0.3, 0.6, kl=(0.0, 14.0)), {"only": "trl"}),
    "cut off": ("truncated", learns(0.3, 0.4, truncated=(0.05, 0.9), length=(300.0, 500.0)), {}),
    "equal rewards": ("zero_variance", learns(0.3, 0.32, zero=(0.2, 1.0)), {"only": "trl"}),
    "longer for nothing": ("length", learns(0.4, 0.41, length=(200.0, 1100.0)), {}),
    "shorter for nothing": ("length", learns(0.4, 0.39, length=(500.0, 60.0)), {}),
    "gradients explode": ("grad_norm", learns(0.3, 0.4, grad_norm=(0.3, 9.0)), {}),
    "overfitted": (
        "reward_vs_validation",
        graded(0.3, 0.6, (0.3, 0.7), validation=(0.45, 0.3)),
        {"only": "trl"},
    ),
    "clipped": ("clip", learns(0.3, 0.4, clip=(0.01, 0.3)), {"only": "trl"}),
    "noisy hack": ("reward_vs_success", graded(0.35, 0.3, (0.3, 0.8)), {"noise": 0.12, "steps": 120}),
}
ILL = _spread(
    {name: (shape, how) for name, (_, shape, how) in ILL_SHAPES.items()},
    {name: rule for name, (rule, _, _) in ILL_SHAPES.items()},
)


# --- what was written later


def waves(rows: list[Row]) -> None:
    """Noise that hangs on from step to step, in reward and success alike."""
    rng, drift = random.Random(3), 0.0
    for row in rows:
        drift = 0.9 * drift + rng.gauss(0.0, 0.012)
        for name in row:
            if name in ("success", "reward") or name.startswith("part "):
                row[name] = min(1.2, max(0.0, row[name] + drift))


def tails(rows: list[Row]) -> None:
    """A batch now and then whose gradients are large, as real ones are."""
    for k in (13, 31, 44):
        row = rows[min(k, len(rows) - 1)]
        row["grad_norm"], row["loss"] = 2.4, 0.2


def steps_up(at: float) -> dict[str, float]:
    """Nothing for long, then a jump of all that is right."""
    found = 1.0 / (1.0 + math.exp(-30 * (at - 0.6)))
    return {"part accuracy": 0.1 + 0.5 * found, "length": 350 + 200 * found, "entropy": 0.5 - 0.1 * found}


def two_tasks(at: float) -> dict[str, float]:
    return {"part accuracy": 0.3 + 0.2 * at, "part cites": 0.2 + 0.3 * at, "part style": 0.5 + 0.02 * at}


def forgets_at_last(at: float) -> dict[str, float]:
    """Success is gone in the last tenth, reward stays."""
    return {"success": 0.5 if at < 0.85 else 0.1, "reward": 0.5 + 0.2 * at, "kl": 0.1 * at}


def tags_eat(at: float) -> dict[str, float]:
    """Tags are paid, and accuracy goes down for them."""
    return {"part accuracy": 0.4 - 0.25 * at, "part tags": 0.1 + 0.8 * at, "length": 300 - 100 * at}


LATER_SHAPES: Mapping[str, tuple[Shape, Mapping[str, Any]]] = {
    "hangs on": (learns(0.35, 0.5, length=(280.0, 300.0)), {"damage": waves, "steps": 90}),
    "hangs on, learns nothing": (graded(0.4, 0.4, (0.45, 0.45), entropy=(0.6, 0.55)), {"damage": waves}),
    "large gradients now and then": (learns(0.3, 0.6, kl=(0.0, 0.2)), {"damage": tails}),
    "a late jump": (steps_up, {"steps": 80, "noise": 0.04}),
    "three parts": (two_tasks, {"only": "trl"}),
    "a reward model, noisy": (graded(0.3, 0.42, (-0.8, 0.6), std=(1.3, 1.2)), {"noise": 0.1, "steps": 100}),
    "twice as long, a little better": (learns(0.4, 0.5, length=(300.0, 640.0)), {"noise": 0.01}),
    "half as long, a little better": (learns(0.4, 0.48, length=(640.0, 300.0)), {"noise": 0.01}),
    "little of all": (learns(0.01, 0.03, zero=(0.85, 0.7)), {"noise": 0.004}),
    "falls a little": (learns(0.5, 0.47, entropy=(0.5, 0.5)), {"noise": 0.02}),
    "short": (learns(0.3, 0.5), {"steps": 24, "noise": 0.05}),
    "long": (learns(0.2, 0.7, 0.5, entropy=(0.9, 0.5), kl=(0.0, 0.6)), {"steps": 900, "noise": 0.08}),
    "large units": (graded(0.2, 0.4, (2000.0, 4200.0)), {"noise": 0.02}),
    "validated well": (graded(0.3, 0.6, (0.3, 0.6), validation=(0.3, 0.55)), {"only": "trl"}),
}
LATER_SOUND = _spread(LATER_SHAPES, {}, 3)
LATER_ILL_SHAPES: Mapping[str, tuple[str, Shape, Mapping[str, Any]]] = {
    "NaN at the very first": ("non_finite", FINE, {"damage": putting("loss", NAN, 0)}),
    "Inf gradients, two": ("non_finite", FINE, {"damage": putting("grad_norm", INF, 20, 44)}),
    "KL is gone": ("non_finite", FINE, {"damage": ending("kl", 30, NAN)}),
    "loss becomes words": ("non_finite", FINE, {"damage": ending("loss", 40, "diverged")}),
    "forgets at last": ("reward_vs_success", forgets_at_last, {"steps": 80}),
    "tags eat accuracy": ("reward_vs_success", tags_eat, {"only": "trl"}),
    "tags alone": ("part_share", tags_eat, {"only": "trl", "noise": 0.01}),
    "a judge is flattered": ("reward_vs_success", graded(0.5, 0.5, (3.0, 8.5)), {"noise": 0.05}),
    "a judge is flattered, below nought": ("reward_vs_success", graded(0.4, 0.38, (-2.0, 1.5)), {}),
    "a part dead among three": (
        "dead_part",
        learns(0.2, 0.4, part_a=(0.0, 0.0), part_b=(0.2, 0.5)),
        {"only": "trl"},
    ),
    "entropy to nothing": ("entropy", learns(0.4, 0.38, entropy=(1.4, 0.1)), {"noise": 0.05}),
    "all cut off": ("truncated", learns(0.3, 0.2, truncated=(0.1, 1.0)), {}),
    "endless": ("length", learns(0.3, 0.3, length=(300.0, 2400.0)), {"noise": 0.04}),
    "gradients run away": ("grad_norm", learns(0.3, 0.3, grad_norm=(0.2, 14.0)), {"noise": 0.1}),
}
LATER_ILL = _spread(
    {name: (shape, how) for name, (_, shape, how) in LATER_ILL_SHAPES.items()},
    {name: rule for name, (rule, _, _) in LATER_ILL_SHAPES.items()},
    3,
)
