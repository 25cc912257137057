"""The two sections of docs/reasoning-gym.md that benchmarks/reasoning_gym.py makes: traps and table."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

Row = Mapping[str, Any]
EASY, SHARED, SMALL, FAIR = 0.5, 0.9, 0.25, 0.2
MARKS = ("executed", "endless", "raised", "odd_scores", "entries_changed", "touches_global_random")


def best(row: Row) -> float:
    """Return the most that a text without skill earns."""
    return float(row["trivial"][row["best"]])


def number(value: object) -> str:
    """Return a score with two decimals, the name of an exception as it is, a dash for none."""
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float | int) else str(value)


# Sentences, each with what says of a row whether it is named there: "" if not, " " alone, or words to add.
# One in bold begins a trap.
TRAPS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    (
        "**{n} graders execute the completion**, by `eval` or by sympy's `parse_expr`: {names}.",
        lambda row: " " * bool(row["executed"]),
    ),
    (
        "**{n} data sets pay 0.5 or more for a text that takes no skill**: {names}.",
        lambda row: f"{best(row):.2f} by {row['best']}" * (best(row) >= EASY),
    ),
    ("**{n} graders hang** on texts such as `9**9**9**9`: {names}.", lambda row: " " * bool(row["endless"])),
    (
        "Over a second for one score: {names}.",
        lambda row: f"{row['slowest_score_ms'] / 1e3:.0f} s" * (row["slowest_score_ms"] > 1e3),
    ),
    (
        "**{n} repeat at least 90% of their prompts under the next seed**: held-out items drawn with it "
        "were trained on.",
        lambda row: " " * (row["near"] >= SHARED),
    ),
    ("The others: {names}.", lambda row: f"{row['near']:.2f}" * (row["near"] < SHARED)),
    (
        "**{n} have so few prompts that 500 items hold at least a quarter of those of a distant seed**: "
        "{names}.",
        lambda row: f"{row['far']:.2f}" * (row["far"] >= SMALL),
    ),
    (
        "**{n} graders raise an exception** on what a policy may write: {names}.",
        lambda row: ", ".join(sorted({kind for kinds in row["raised"].values() for kind in kinds})),
    ),
    (
        "**{n} make other items when run again** with the same seed: {names}.",
        lambda row: row["repeats"] * (row["repeats"] != "yes"),
    ),
    (
        "**{n} grade differently once an item has been stored as JSON**; the stored answer then earns: "
        "{names}.",
        lambda row: number(row["gold_json"]) * (row["gold_json"] != row["gold"]),
    ),
    ("**{n} data sets store no answer**: {names}.", lambda row: " " * (row["gold"] is None)),
    (
        "A stored answer earns less than 1 for: {names}.",
        lambda row: number(row["gold"]) * ((row["gold"] or 1.0) < 1.0),
    ),
    (
        "**{n} change the global random generators** (`random`, `numpy.random`) while they make items: "
        "{names}.",
        lambda row: " " * row["touches_global_random"],
    ),
)


def is_sound(row: Row) -> bool:
    """Return whether a data set has no fault but that neighbouring seeds share items."""
    return (
        not any(row[mark] for mark in MARKS)
        and row["gold"] == row["gold_json"] == 1.0
        and bool(row["grades_repeat"])
        and row["repeats"] == "yes"
        and row["far"] < SMALL
        and best(row) <= FAIR
    )


def filled(text: str, indent: str = "") -> str:
    """Return prose with full lines."""
    how: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, 110, subsequent_indent=indent, **how)


def traps(rows: Mapping[str, Row]) -> str:
    """Return the ten worst traps, the worst first, and which data sets have none of them."""
    found: list[str] = []
    for text, told in TRAPS:
        words = {name: told(row) for name, row in rows.items()}
        named = [name if word == " " else f"{name} ({word})" for name, word in words.items() if word]
        said = text.format(n=len(named), names=", ".join(named) or "none")
        if text.startswith("**"):
            found.append(said)
        else:
            found[-1] += f" {said}"
    lines = [filled(f"{place}. {trap}", "   ") for place, trap in enumerate(found, 1)]
    sound = [name for name, row in rows.items() if is_sound(row)]
    clean = f"Apart from the fourth, {len(sound)} have none of these, and pay no trivial text over {FAIR}: "
    return "\n".join([*lines, "", filled(f"{clean}{', '.join(sound)}.")])


def table(rows: Mapping[str, Row], near: int) -> str:
    """Return a line for each data set."""
    lines = [
        f"| data set | trivial | by | gold | runs it | repeats | {near} | far | raises | item | score |",
        "|---|--:|---|--:|---|---|--:|--:|--:|--:|--:|",
    ]
    for name, row in rows.items():
        gold, through = number(row["gold"]), number(row["gold_json"])
        runs = ["yes"] * bool(row["executed"]) + ["hangs"] * bool(row["endless"])
        cells = [name, f"{best(row):.2f}", row["best"], gold if gold == through else f"{gold} > {through}"]
        cells += [", ".join(runs) or "–", row["repeats"].removesuffix(" seed"), f"{row['near']:.2f}"]
        cells += [f"{row['far']:.2f}", str(len(row["raised"]) or "–")]
        times = (row["item_ms"], row["score_ms"])
        cells += [f"{value:.0f}" if value >= 10 else f"{value:.2g}" for value in times]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page(text: str, found: Mapping[str, Any]) -> str:
    """Return the page with the two sections made of what was found; all else of it stays."""
    rows = found["data_sets"]
    made = {"The ten worst traps": traps(rows), "The table": table(rows, found["seeds"]["near"])}
    for title, body in made.items():
        section = f"## {title}\n\n{body}\n"
        text = re.sub(rf"## {title}\n.*?(?=\n## |\Z)", lambda _, section=section: section, text, flags=re.S)
    return text
