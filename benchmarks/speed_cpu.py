"""How much faster than what one would use instead? Ours beside stock TRL and transformers, on one CPU thread,
in one run.

    ./run repro base, then ./run bench speed_cpu
    ./run python benchmarks/speed_cpu.py --pairs 1 --steps 1 --only collider --out FILE    (a quick look)

collider, collider_json, structured: a whole GRPO step with a fresh LoRA adapter on the tiny base, items x
group as in the recipe. The JSON surface of the collider is what instruct models play, with long prompts and
longer turns; a base of the same shape that speaks it is made for this alone (benchmarks/json_base.py). Stock
is GRPOTrainer with its own generate; for the collider with its own environments, for the structured task with
a reward function (benchmarks/stock.py says what is equal and what is not). Ours is everything a training does
in a step, logging, digests and the KL to the base included, which stock does not have. evaluation,
evaluation_json: 800 episodes of the collider with the base, 64 on the JSON surface. Stock renders and reads
the whole conversation at each turn, in batches of the size that suits it best of those tried. floor: beside
each row stands what its episodes take at least, by arithmetic alone: FLOPs of the tokens that were really
read, written and learned from (filler.least_work) at the rate that a product of matrices of these shapes
reaches in this run. continuous: one step of stock with use_transformers_continuous_batching, for both tasks;
its cache takes what memory there is. overhead: a training with all logging against the same engine without
(benchmarks/logging_cost.py).

Each side has a process of its own; they are asked in turn, A B B A, with another training seed for each pair.
A ratio is stock's seconds over ours, of the same pair. Both begin from the same base and play the same
worlds; what they sample differs, so turns and tokens do a little: they stand in the record, and the ratio by
token beside the ratio by step. Writes results/speed_cpu.json, .md, .png and .svg, or with --out that file
alone.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.sides import JSON, Worker, holds, machine, published, written
from matplotlib.figure import Figure

from assay.evidence.figures.drawing import GREY, PALETTE, new_figure, styled

# Of what an issue set one for.
GOALS = {"collider_step_ratio": 8.0, "structured_step_ratio": 4.0, "evaluation_ratio": 8.0}
PAIRS, STEPS, WARM_UP = 7, 4, 1
JSON_PAIRS, JSON_STEPS, JSON_WARM_UP = 5, 1, 0  # where a step is long, what a first one costs more is little
EPISODES, SIZES = {"collider": 800, JSON: 64}, {"collider": (64, 256, 800), JSON: (8, 16, 32)}
CHECKED = 32
MOST_OVERHEAD = 1.02


def one_side(
    runs: Sequence[Mapping[str, float]], per: float, memory: Mapping[str, float], rates: Mapping[str, float]
) -> dict[str, Any]:
    """Return the row of one side: medians over its runs.

    Args:
        runs: What came of each.
        per: How many steps (or evaluations) a run made.
        memory: Of its process.
        rates: Operations a second of products: `read` as wide as a batch that is read, `written` of one token
            a row.
    """
    middle = statistics.median
    flops = {
        kind: middle(run[f"flops_{kind}"] / per for run in runs) for kind in ("read", "written", "learned")
    }
    playing = flops["read"] / rates["read"] + flops["written"] / rates["written"]
    return {
        "flops": flops,
        "floor_playing_seconds": playing,
        "floor_seconds": playing + flops["learned"] / rates["read"],
        "seconds": middle(run["wall"] / per for run in runs),
        "cpu_seconds": middle(run["cpu"] / per for run in runs),
        "tokens_per_second": middle(run["tokens"] / run["wall"] for run in runs),
        "tokens": middle(run["tokens"] / per for run in runs),
        "turns": middle(run["turns"] / per for run in runs),
        "episodes": middle(run["episodes"] / per for run in runs),
        "reward": statistics.fmean(run["reward"] for run in runs),
        "share_playing": middle(run.get("playing", run["wall"]) / run["wall"] for run in runs),
        **memory,
    }


def fastest(sides: Mapping[str, Worker], rows: float) -> dict[str, float]:
    """Return the best rate of products that either process measures now (Side.rates)."""
    found = [side.ask("rates", rows=int(rows)) for side in sides.values()]
    return {kind: max(each[kind] for each in found) for kind in found[0]}


def compared(
    pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]], goal: float | None
) -> dict[str, Any]:
    """Return the ratios of pairs (stock, ours): of seconds, of processor seconds, and of seconds a token."""
    ratios = {
        "wall": [stock["wall"] / ours["wall"] for stock, ours in pairs],
        "cpu": [stock["cpu"] / ours["cpu"] for stock, ours in pairs],
        "by_token": [
            stock["wall"] / stock["tokens"] * ours["tokens"] / ours["wall"] for stock, ours in pairs
        ],
    }
    return {
        "median": statistics.median(ratios["wall"]),
        "low": min(ratios["wall"]),
        "high": max(ratios["wall"]),
        "n": len(pairs),
        "range_holds_the_median_with_probability": holds(len(pairs)),
        "median_cpu": statistics.median(ratios["cpu"]),
        "median_by_token": statistics.median(ratios["by_token"]),
        "goal": goal,
        "reached": None if goal is None else statistics.median(ratios["wall"]) >= goal,
        "pairs": [
            {
                "stock_seconds": stock["wall"],
                "ours_seconds": ours["wall"],
                **{name: ratios[name][k] for name in ratios},
            }
            for k, (stock, ours) in enumerate(pairs)
        ],
    }


Run = dict[str, float]


def in_turn(pairs: int, ask: Callable[[str, int], Run], say: str) -> list[tuple[Run, Run]]:
    """Return what both sides answered, pair by pair: stock first, then ours first, and so on."""
    found = []
    for pair in range(pairs):
        got = {side: ask(side, pair) for side in (("stock", "ours") if pair % 2 == 0 else ("ours", "stock"))}
        found.append((got["stock"], got["ours"]))
        walls = ", ".join(f"{side} {got[side]['wall']:.2f} s" for side in ("stock", "ours"))
        print(f"{say}, pair {pair + 1} of {pairs}: {walls}", file=sys.stderr, flush=True)
    return found


def step(task: str, pairs: int, steps: int, warm_up: int = WARM_UP) -> dict[str, Any]:
    """Compare whole GRPO steps of one task."""
    with Worker("stock", task) as stock, Worker("ours", task) as ours:
        sides = {"stock": stock, "ours": ours}
        idle = {side: sides[side].ask("idle")["peak_mib"] for side in sides}
        # The first one of a process also allocates. It is checked, and so is the first step of a warm-up: no
        # clock runs there.
        first = {side: sides[side].ask("train", warm_up=warm_up, steps=1, seed=0) for side in sides}
        asked = {"warm_up": warm_up, "steps": steps, "checked": warm_up > 0}
        found = in_turn(pairs, lambda side, pair: sides[side].ask("train", **asked, seed=pair), task)
        rows, rates = {}, fastest(sides, found[0][1]["episodes"] / steps)
        for k, side in enumerate(("stock", "ours")):
            runs = [pair[k] for pair in found]
            memory = {**sides[side].ask("memory"), "idle_mib": idle[side]}
            worst = max(run["logprob_difference"] for run in [first[side], *runs])
            rows[side] = one_side(runs, steps, memory, rates) | {"logprob_difference": worst}
        cut = first["stock"]["turns_cut"] + sum(pair[0]["turns_cut"] for pair in found)
        about = ours.ask("about")
    ratio = compared(found, GOALS.get(f"{task}_step_ratio"))
    return ratio | {
        "sides": rows,
        "product_rates": rates,
        "turns_cut_in_checked_steps": cut,
        "base": about,
        "steps_timed_a_run": steps,
        "warm_up_steps": warm_up,
    }


def continuous() -> dict[str, Any]:
    """Return one step of stock with its continuous batching, by task; it is the first of its process."""
    found: dict[str, Any] = {}
    for task in ("collider", "structured"):
        with Worker("stock", task) as stock:
            idle = stock.ask("idle")["peak_mib"]
            try:
                run = stock.ask("train", warm_up=0, steps=1, seed=0, checked=False, continuous=True)
            except RuntimeError as error:
                found[task] = {"error": str(error)[:400]}
            else:
                rates = stock.ask("rates", rows=run["episodes"])
                row = one_side([run], 1, {**stock.ask("memory"), "idle_mib": idle}, rates)
                found[task] = row | {"n": 1, "logprob_difference": None}
    return found


def evaluation(task: str, pairs: int) -> dict[str, Any]:
    """Compare evaluations of the base on training items of the collider."""
    episodes, sizes = EPISODES[task], SIZES[task]
    with Worker("stock", task) as stock, Worker("ours", task) as ours:
        sides = {"stock": stock, "ours": ours}
        idle = {side: sides[side].ask("idle")["peak_mib"] for side in sides}
        checked = {side: sides[side].ask("check", episodes=CHECKED) for side in sides}
        tried = {size: stock.ask("evaluate", episodes=episodes, batch_size=size) for size in sizes}
        best = min(sizes, key=lambda size: tried[size]["wall"])
        arguments = {"stock": {"batch_size": best}, "ours": {}}
        ours.ask("evaluate", episodes=episodes)

        def ask(side: str, _: int) -> Run:
            return dict(sides[side].ask("evaluate", episodes=episodes, **arguments[side]))

        found = in_turn(pairs, ask, f"evaluation, {task}")
        rates, about = fastest(sides, episodes), ours.ask("about")
        rows = {}
        for k, side in enumerate(("stock", "ours")):
            memory = {**sides[side].ask("memory"), "idle_mib": idle[side]}
            rows[side] = one_side([pair[k] for pair in found], 1, memory, rates)
            rows[side]["logprob_difference"] = checked[side]["logprob_difference"]
    with Worker("ours", task) as narrow:  # the same number of conversations at once: memory hangs on it
        idle_narrow = narrow.ask("idle")["peak_mib"]
        run = narrow.ask("evaluate", episodes=episodes, batch_size=best)
        as_stock = one_side([run], 1, {**narrow.ask("memory"), "idle_mib": idle_narrow}, rates)
    answers = list(zip(checked["stock"]["greedy"], checked["ours"]["greedy"], strict=True))
    return compared(found, GOALS["evaluation_ratio"] if task == "collider" else None) | {
        "sides": rows,
        "product_rates": rates,
        "episodes": episodes,
        "base": about,
        "stock_batch_size": best,
        "stock_seconds_by_batch_size": {str(k): tried[k]["wall"] for k in sizes},
        "ours_at_stocks_batch_size": as_stock | {"n": 1, "logprob_difference": None},
        "greedy_answers": {"n": len(answers), "equal": sum(one == other for one, other in answers)},
    }


def overhead(pairs: int) -> dict[str, Any]:
    """Compare the same training with all logging and without any."""
    with Worker("ours", "collider") as ours:
        ours.ask("overhead", logged=True)
        found = []
        for pair in range(pairs):
            order = (True, False) if pair % 2 == 0 else (False, True)
            got = {logged: ours.ask("overhead", logged=logged) for logged in order}
            if got[True]["weights"] != got[False]["weights"]:
                raise SystemExit("the trainings with and without logging differ in a weight")
            found.append(got)
            ratio = got[True]["wall"] / got[False]["wall"]
            print(f"overhead, pair {pair + 1} of {pairs}: {ratio:.4f}", file=sys.stderr)
    ratios = {clock: [got[True][clock] / got[False][clock] for got in found] for clock in ("wall", "cpu")}
    middle = statistics.median(ratios["wall"])
    return {
        "median": middle,
        "low": min(ratios["wall"]),
        "high": max(ratios["wall"]),
        "n": pairs,
        "range_holds_the_median_with_probability": holds(pairs),
        "median_cpu": statistics.median(ratios["cpu"]),
        "goal": MOST_OVERHEAD,
        "reached": middle <= MOST_OVERHEAD,
        "pairs": [
            {
                "with_seconds": got[True]["wall"],
                "without_seconds": got[False]["wall"],
                **{clock: ratios[clock][k] for clock in ratios},
            }
            for k, got in enumerate(found)
        ],
    }


PARTS: dict[str, tuple[str, Callable[[int, int], dict[str, Any]]]] = {
    "collider": ("collider_step_ratio", lambda pairs, steps: step("collider", pairs, steps)),
    "collider_json": (
        "collider_json_step_ratio",
        lambda pairs, steps: step(JSON, min(pairs, JSON_PAIRS), min(steps, JSON_STEPS), JSON_WARM_UP),
    ),
    "structured": ("structured_step_ratio", lambda pairs, steps: step("structured", pairs, steps)),
    "continuous": ("stock_with_continuous_batching", lambda pairs, steps: continuous()),
    "evaluation": ("evaluation_ratio", lambda pairs, steps: evaluation("collider", pairs)),
    "evaluation_json": (
        "evaluation_json_ratio",
        lambda pairs, steps: evaluation(JSON, min(pairs, JSON_PAIRS)),
    ),
    "overhead": ("overhead", lambda pairs, steps: overhead(pairs)),
}
SAID = {
    "collider_step_ratio": "GRPO step, collider",
    "collider_json_step_ratio": "GRPO step, collider, JSON surface",
    "structured_step_ratio": "GRPO step, structured",
    "evaluation_ratio": f"evaluation, {EPISODES['collider']} episodes",
    "evaluation_json_ratio": f"evaluation, JSON surface, {EPISODES[JSON]} episodes",
}


@styled
def figure_of(record: Mapping[str, Any]) -> Figure:
    """Return two panels: how many times faster, pair by pair, and tokens a second of each side."""
    figure, (left, right) = new_figure(1, 2, height=4.9)
    keys = [key for key in SAID if key in record]
    for k, key in enumerate(keys):
        found = record[key]
        left.barh(k, found["median"], color=PALETTE[0], height=0.55)
        left.plot(
            [pair["wall"] for pair in found["pairs"]], [k] * found["n"], "o", color="black", ms=3.5, alpha=0.6
        )
        if found["goal"] is not None:
            left.plot([found["goal"]] * 2, [k - 0.4, k + 0.4], color=PALETTE[1], lw=2)
        for j, side in enumerate(("stock", "ours")):
            row = found["sides"][side]
            right.barh(k + 0.2 - 0.4 * j, row["tokens_per_second"], color=(GREY, PALETTE[0])[j], height=0.38)
            said = f" {side}: {row['tokens_per_second']:,.0f}"
            right.text(row["tokens_per_second"], k + 0.2 - 0.4 * j, said, va="center", fontsize=8.5)
    for axes in (left, right):
        axes.set_yticks(range(len(keys)), [SAID[key] for key in keys] if axes is left else [""] * len(keys))
        axes.set_ylim(len(keys) - 0.4, -0.6)
    left.axvline(1.0, color=GREY, lw=1, ls=":")
    left.set_title("Times faster than stock (dots: pairs; line: goal)")
    left.set_xlabel("stock's seconds / ours")
    right.set_title("Speed of each side")
    right.set_xlabel("tokens of the policy per second")
    right.margins(x=0.3)
    right.locator_params(axis="x", nbins=4)
    return figure


def told(record: Mapping[str, Any]) -> str:
    """Return the result as Markdown."""
    measured = [key for key in SAID if key in record]
    lines = [
        "| what | times faster, median (range) | n | by token | goal | reached |",
        "|---|---|---|---|---|---|",
    ]
    for key in measured:
        found = record[key]
        goal = "none set | |"
        if found["goal"] is not None:
            goal = f"{found['goal']:.0f} | {'yes' if found['reached'] else 'no'} |"
        lines.append(
            f"| {SAID[key]} | **{found['median']:.2f}** ({found['low']:.2f} to {found['high']:.2f}) |"
            f" {found['n']} | {found['median_by_token']:.2f} | {goal}"
        )
    lines += [
        "",
        "| what | side | seconds | of it playing | floor, s | times the floor | tokens/s | tokens | turns ",
    ]
    lines[-1] += "| mean reward | peak, MiB (idle) | log-prob difference |"
    lines += ["|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for key in measured:
        lines += [_row(SAID[key], side, row) for side, row in record[key]["sides"].items()]
        if row := record[key].get("ours_at_stocks_batch_size"):
            side = f"ours, {record[key]['stock_batch_size']} at once as stock (n = 1, the first)"
            lines.append(_row(SAID[key], side, row))
    for task, row in record.get("stock_with_continuous_batching", {}).items():
        said, side = SAID[f"{task}_step_ratio"], "stock, continuous batching (n = 1)"
        lines.append(
            f"| {said} | {side} | does not run: {row['error'].splitlines()[0]} |"
            if "error" in row
            else _row(said, side, row)
        )
    if measured:
        lines += ["", floor_told({SAID[key]: record[key]["sides"] for key in measured})]
    for base in [record[key]["base"] for key in measured if record[key]["base"]][:1]:
        lines += [
            "",
            (
                f"The base of the JSON surface has {base['parameters']:,} parameters and {base['vocabulary']}"
                f" words; {base['parsed_rate']:.1%} of {base['actions']} sampled actions parse."
            ),
        ]
    if found := record.get("overhead"):
        lines += [
            "",
            (
                f"All logging, digests, alarms and live tables: **{found['median']:.4f}** times the step"
                f" without ({found['low']:.4f} to {found['high']:.4f}, n = {found['n']}; goal at most"
                f" {found['goal']})."
            ),
        ]
    for key in ("evaluation_ratio", "evaluation_json_ratio"):
        if key in record:
            greedy = record[key]["greedy_answers"]
            lines += [
                "",
                f"{SAID[key]}: greedy answers equal to stock generate, {greedy['equal']} of {greedy['n']}.",
            ]
    where = record["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    lines += [
        "",
        (
            "Seconds are of one step or one evaluation, medians; tokens are those the policy wrote. The"
            f" range of n pairs holds the true median with probability 1 - 2/2^n. {where['cpu']}, one thread;"
            f" {versions}."
        ),
        "",
        "![times faster than stock](speed_cpu.png)",
    ]
    return "\n".join(lines) + "\n"


def floor_told(rows: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return one sentence: how far each side is from the floor, and the most that anybody could be faster
    than stock."""
    said = [
        f"{what}: stock {sides['stock']['seconds'] / sides['stock']['floor_seconds']:.1f} times, "
        f"ours {sides['ours']['seconds'] / sides['ours']['floor_seconds']:.1f} times"
        for what, sides in rows.items()
    ]
    return (
        "The floor is the products of matrices that a row's own tokens take, each prompt read once, at the"
        f" rate measured here, and nothing else; seconds over floor ({'; '.join(said)}), and stock's is also"
        " the most that anybody could be faster than stock, at equal work in float32 on one thread."
    )


def _row(said: str, side: str, row: Mapping[str, Any]) -> str:
    apart = "not captured" if row["logprob_difference"] is None else f"{row['logprob_difference']:.1g}"
    idle = f" ({row['idle_mib']:.0f})" if "idle_mib" in row else ""
    return (
        f"| {said} | {side} | {row['seconds']:.3f} | {row['share_playing']:.0%} | {row['floor_seconds']:.3f}"
        f" | {row['seconds'] / row['floor_seconds']:.1f} | {row['tokens_per_second']:,.0f} |"
        f" {row['tokens']:,.0f} | {row['turns']:,.0f} | {row['reward']:.3f} | {row['peak_mib']:.0f}{idle} |"
        f" {apart} |"
    )


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--steps", type=int, default=STEPS, help="optimizer steps timed in each run")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between")
    parser.add_argument("--out", type=Path, help="write the record here, and nothing to results/")
    chosen = parser.parse_args()
    parts = chosen.only.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    quick = chosen.out is not None or (chosen.pairs, chosen.steps, len(parts)) != (PAIRS, STEPS, len(PARTS))
    begun, record = time.monotonic(), {"machine": machine()}
    for part in parts:
        key, make = PARTS[part]
        record[key] = make(chosen.pairs, chosen.steps)
        if chosen.out is not None:
            written(chosen.out, record)
    record["seconds"] = round(time.monotonic() - begun, 1)
    published("speed_cpu", record, told(record), lambda: figure_of(record), out=chosen.out, quick=quick)


if __name__ == "__main__":
    main()
