"""How much faster than what one would use instead? Ours beside stock TRL and transformers, one CPU thread.

    ./run repro base, then ./run bench speed_cpu
    ./run python benchmarks/speed_cpu.py --pairs 1 --only evaluation_ratio --out FILE    (a quick look)

* collider, collider_json, structured: a whole GRPO step with a fresh LoRA adapter on the tiny base. The JSON
  surface, with long prompts and turns, has a base made for this alone (json_base.py). Stock is GRPOTrainer
  with its own generate (stock.py says what is equal). Ours has logging, digests and the KL to the base too.
* evaluation, evaluation_json: 800 episodes of the collider with the base, 64 on the JSON surface. Stock reads
  the whole conversation at each turn, in batches of the size that suits it best of those tried.
* collider_both, structured_both, evaluation_both: two cores, where ours has two processes and stock two
  threads; by the clock.
* overhead: a training with all that is logged, its tables as long as after a whole one, and without.

Each side has processes of its own, of one thread each but where said; they are asked in turn, A B B A, with
another training seed for each pair.
A ratio is stock's seconds over ours, of one pair. Both begin from the same base and play the same worlds;
what they sample differs, so the ratio by token stands beside the ratio by step. `floor_seconds` is what the
episodes take at least: FLOPs of the tokens that were read, written and learned from (floors.least_work), at
the rate that a product of matrices of these shapes reaches in this run. Writes results/speed_cpu.json, .md.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, holds, machine, options, page, spread, told_of, turns, written
from benchmarks.json_base import JSON
from benchmarks.sides import Together, Worker

PAIRS, STEPS, WARM_UP, LOGGED_STEPS = 7, 4, 1, 11
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
    middle = spread(ratios["wall"])
    return middle | {
        "n": len(pairs),
        "range_holds_the_median_with_probability": holds(len(pairs)),
        "median_cpu": statistics.median(ratios["cpu"]),
        "median_by_token": statistics.median(ratios["by_token"]),
        "goal": goal,
        "reached": None if goal is None else middle["median"] >= goal,
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
    found: list[Run] = []
    for pair, side in turns(pairs):
        found.append(ask(side, pair))
        print(
            f"{say}, pair {pair + 1} of {pairs}: {side} {found[-1]['wall']:.2f} s",
            file=sys.stderr,
            flush=True,
        )
    both = zip(found[::2], found[1::2], strict=True)
    return [(one, other) if k % 2 == 0 else (other, one) for k, (one, other) in enumerate(both)]


def ours_on(task: str, cores: int) -> Worker | Together:
    """Return our side: one process a core."""
    return Worker("ours", task) if cores == 1 else Together(task, cores)


def stock_on(task: str, cores: int) -> Worker:
    """Return stock's side: one thread a core."""
    return Worker("stock" if cores == 1 else "stock_on_two", task)


def step(
    task: str, pairs: int, steps: int, warm_up: int = WARM_UP, cores: int = 1, goal: float | None = None
) -> dict[str, Any]:
    """Compare whole GRPO steps of one task."""
    with stock_on(task, cores) as stock, ours_on(task, cores) as ours:
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
    ratio = compared(found, goal)
    return ratio | {
        "sides": rows,
        "product_rates": rates,
        "turns_cut_in_checked_steps": cut,
        "base": about,
        "steps_timed_a_run": steps,
        "warm_up_steps": warm_up,
    }


def evaluation(task: str, pairs: int, cores: int = 1, goal: float | None = None) -> dict[str, Any]:
    """Compare evaluations of the base on training items of the collider."""
    episodes, sizes = EPISODES[task], SIZES[task]
    with stock_on(task, cores) as stock, ours_on(task, cores) as ours:
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
    with ours_on(task, cores) as narrow:  # the same number of conversations at once: memory hangs on it
        idle_narrow = narrow.ask("idle")["peak_mib"]
        run = narrow.ask("evaluate", episodes=episodes, batch_size=best)
        as_stock = one_side([run], 1, {**narrow.ask("memory"), "idle_mib": idle_narrow}, rates)
    answers = list(zip(checked["stock"]["greedy"], checked["ours"]["greedy"], strict=True))
    return compared(found, goal) | {
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

        def ask(side: str, _: int) -> Run:
            asked = {"warm_up": WARM_UP, "steps": LOGGED_STEPS, "seed": 0, "checked": False}
            return dict(ours.ask("train", **asked, logged=side == "ours"))

        ours.ask("idle")
        ask("ours", 0)
        found = in_turn(pairs, ask, "overhead")
    if any(without["weights"] != logged["weights"] for without, logged in found):
        raise SystemExit("the trainings with and without logging differ in a weight")
    ratios = {
        clock: [logged[clock] / without[clock] for without, logged in found] for clock in ("wall", "cpu")
    }
    middle = spread(ratios["wall"])
    return middle | {
        "n": pairs,
        "range_holds_the_median_with_probability": holds(pairs),
        "median_cpu": statistics.median(ratios["cpu"]),
        "goal": MOST_OVERHEAD,
        "reached": middle["median"] <= MOST_OVERHEAD,
        "pairs": [
            {
                "with_seconds": logged["wall"] / LOGGED_STEPS,
                "without_seconds": without["wall"] / LOGGED_STEPS,
                **{clock: ratios[clock][k] for clock in ratios},
            }
            for k, (without, logged) in enumerate(found)
        ],
    }


# By its key in the record: the goal that an issue set, and what compares.
PARTS: dict[str, tuple[float | None, Callable[[int, int, float | None], dict[str, Any]]]] = {
    "collider_step_ratio": (3.5, lambda pairs, steps, goal: step("collider", pairs, steps, goal=goal)),
    "structured_step_ratio": (3.0, lambda pairs, steps, goal: step("structured", pairs, steps, goal=goal)),
    "evaluation_ratio": (6.0, lambda pairs, _, goal: evaluation("collider", pairs, goal=goal)),
    "collider_both_step_ratio": (
        6.0,
        lambda pairs, steps, goal: step("collider", pairs, steps, cores=2, goal=goal),
    ),
    "structured_both_step_ratio": (
        4.0,
        lambda pairs, steps, goal: step("structured", pairs, steps, cores=2, goal=goal),
    ),
    "evaluation_both_ratio": (10.0, lambda pairs, _, goal: evaluation("collider", pairs, cores=2, goal=goal)),
    "collider_json_step_ratio": (
        None,
        lambda pairs, steps, _: step(JSON, min(pairs, JSON_PAIRS), min(steps, JSON_STEPS), JSON_WARM_UP),
    ),
    "evaluation_json_ratio": (None, lambda pairs, _, __: evaluation(JSON, min(pairs, JSON_PAIRS))),
    "overhead": (MOST_OVERHEAD, lambda pairs, _, __: overhead(pairs)),
}


def write_page(out: Path, record: Mapping[str, Any]) -> None:
    """Write what the record says as tables."""
    found = {key: record[key] for key in PARTS if "sides" in record.get(key, {})}
    ratios = [
        {"what": key.removesuffix("_ratio"), "times faster": each["median"], "lowest": each["low"]}
        | {"highest": each["high"], "n": each["n"], "by token": each["median_by_token"], "goal": each["goal"]}
        for key, each in found.items()
    ]
    sides = [
        {"what": key.removesuffix("_ratio"), "side": side, "seconds": row["seconds"]}
        | {"of it playing": row["share_playing"], "floor, s": row["floor_seconds"]}
        | {"times the floor": row["seconds"] / row["floor_seconds"]}
        | {"tokens/s": row["tokens_per_second"], "tokens": row["tokens"], "mean reward": row["reward"]}
        | {
            "peak MiB": row["peak_mib"],
            "idle MiB": row["idle_mib"],
            "log-prob gap": row["logprob_difference"],
        }
        for key, each in found.items()
        for side, row in each["sides"].items()
    ]
    answers = {key: each["greedy_answers"] for key, each in found.items() if "greedy_answers" in each}
    said = [
        f"Greedy answers equal in {key}: {each['equal']} of {each['n']}." for key, each in answers.items()
    ]
    if "overhead" in record:
        said.append(f"All logging costs {record['overhead']['median']:.4f} times the step without it.")
    said += ["The floor is the products of matrices that nobody can avoid.", told_of(record["machine"])]
    tables = {"Stock's seconds over ours": ratios, "Each side, medians of a step or an evaluation": sides}
    page(out, "Ours beside stock on CPU", tables, " ".join(said))


def main() -> None:
    """Measure, and write the result."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--steps", type=int, default=STEPS, help="optimizer steps timed in each run")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", type=Path, default=RESULTS / "speed_cpu.json")
    chosen = parser.parse_args()
    begun, record = time.monotonic(), {"machine": machine()}
    for key in chosen.only:
        goal, make = PARTS[key]
        record[key] = make(chosen.pairs, chosen.steps, goal)
        record["seconds"] = round(time.monotonic() - begun, 1)
        write_page(chosen.out, written(chosen.out, record))
        if "median" in record[key]:
            low, middle, high = (record[key][name] for name in ("low", "median", "high"))
            print(f"{key}: {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)


if __name__ == "__main__":
    main()
