"""docs/reasoning-gym.md, made from what benchmarks/reasoning_gym.py found."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

Row = Mapping[str, Any]
WIDTH = 110
EASY, SHARED, SMALL, FAIR = 0.5, 0.9, 0.25, 0.2

HEAD = """\
# reasoning-gym, data set by data set

All {count} data sets of reasoning-gym {version}, each with its default settings, checked before anybody
trains on them. This page is made by `./run bench reasoning_gym` from
[reasoning_gym.json](../benchmarks/results/reasoning_gym.json); `composite`, a mixture of the others, is left
out. Scores are means over {items} items of seed {seed}.

What helps against most of it: draw the items once, keep each prompt once, take seeds that are at least as far
apart as a split has items, and store them as JSON with a digest; grade in a process of its own that is killed
after a time limit; and compare a policy with what the trivial text of that row earns, not with 0.
"""

COLUMNS = """\
## What the columns mean

* **trivial**, **by**: the most that one of {texts} texts earns that take no skill, and which: fixed ones
  such as `banana`, nothing at all and 20,000 characters, the prompt or its last line, the commonest stored
  answer for every item, the next item's stored answer, all stored answers in one text. Where answers are few,
  the commonest one has to earn something; a policy must beat it.
* **gold**: what the stored answer itself earns. `0.97 > 0.05`: as made, and once the item has gone through
  JSON. A dash: no answer is stored.
* **runs it**: a completion that opens a file was executed by the grader, and the file was there. `hangs`: on
  some text the grader had not come back after {bad_limit} s ({limit} s for a trivial
  text on all {items} items).
* **repeats**: whether the same items come in a fresh process, by question and answer: `yes`, or what they
  depend on besides the seed (`hash` is PYTHONHASHSEED, tried as 0, 1 and 2; with
  `never` two processes differ even under the same one). It was also tried backwards (`order`), and with a
  clock that is 41 days ahead (`day`).
* **{near}**: which part of the {items} prompts of seed {near} is also in seed {seed}. Most data sets draw
  item i from `Random(seed + i)`.
* **far**: which part of the {items} prompts of seed {far:,} is also among {train} of seed {seed}. Above 0,
  the data set is small, and far seeds do not help: take each prompt once.
* **raises**: on how many of {tried} texts (the trivial ones, and {bad} such as `NaN`, `1e999`, 5,000 digits,
  100,000 brackets, None) the grader raised an exception on an item.
* **item**, **score**: milliseconds of one processor to make an item, and to grade one trivial text.
"""

AGAIN = """\
## How to repeat it

reasoning-gym pins tabulate 0.9.0, which is not ours, so it goes into a folder of its own. Any interpreter
that has it does as well, such as that of a venv: the script needs nothing else.
`python benchmarks/reasoning_gym.py --only chain_sum` measures a row anew.

Needs: a network for the first command, and forty minutes of one core for the second.

```sh
./run python -m pip install --target ../gym reasoning-gym=={version}
PYTHONPATH=../gym ./run bench reasoning_gym
```

Measured on {machine}, Python {python}, {versions}. Texts that might raise or never end were tried on
{bad_items} items of each data set.
"""


def page(found: Mapping[str, Any]) -> str:
    """Return the page of what was found."""
    rows: Mapping[str, Row] = found["data_sets"]
    versions = dict(found["versions"])
    facts = {
        "version": versions.pop("reasoning-gym"),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "count": len(rows),
        "texts": len(found["trivial_texts"]),
        "bad": len(found["bad_texts"]),
        "tried": len(found["trivial_texts"]) + len(found["bad_texts"]),
        "limit": found["limits_s"]["trivial texts"],
        "bad_limit": found["limits_s"]["bad texts"],
        "train": found["train_items"],
        "bad_items": found["items_of_bad_texts"],
        "seed": found["seeds"]["here"],
        "near": found["seeds"]["near"],
        "far": found["seeds"]["far"],
        **{key: found[key] for key in ("items", "machine", "python")},
    }
    head, columns, again = (_filled(part.format(**facts)) for part in (HEAD, COLUMNS, AGAIN))
    return "\n\n".join([head, *_traps(rows, facts), columns, again, *_table(rows, facts["near"])]) + "\n"


def _traps(rows: Mapping[str, Row], facts: Mapping[str, Any]) -> list[str]:
    """Return the ten worst traps, the worst first, and which data sets have none of them."""

    def named(whether: Callable[[Row], object], word: Callable[[Row], str] | None = None) -> tuple[int, str]:
        some = [f"{name} ({word(row)})" if word else name for name, row in rows.items() if whether(row)]
        return len(some), ", ".join(some) or "none"

    runs, running = named(lambda row: row["executed"])
    easy, easily = named(lambda row: _best(row) >= EASY, lambda row: f"{_best(row):.2f} by {row['best']}")
    hangs, hanging = named(lambda row: row["endless"])
    endless = ", ".join(sorted({text for row in rows.values() for text in row["endless"]}))
    _, slowest = named(
        lambda row: row["slowest_score_ms"] > 1e3, lambda row: f"{row['slowest_score_ms'] / 1e3:.0f} s"
    )
    near, _ = named(lambda row: row["near"] >= SHARED)
    _, unlike = named(lambda row: row["near"] < SHARED, lambda row: f"{row['near']:.2f}")
    small, smallest = named(lambda row: row["far"] >= SMALL, lambda row: f"{row['far']:.2f}")
    fails, failing = named(lambda row: row["raised"], lambda row: ", ".join(_kinds(row)))
    other, differing = named(lambda row: row["repeats"] != "yes", lambda row: row["repeats"])
    lossy, lost = named(lambda row: row["gold_json"] != row["gold"], lambda row: _number(row["gold_json"]))
    _, wrongly = named(lambda row: (row["gold"] or 1.0) < 1.0, lambda row: f"{row['gold']:.2f}")
    bare, barely = named(lambda row: row["gold"] is None)
    touched, touching = named(lambda row: row["touches_global_random"])
    seeds = f"{facts['seed']} and {facts['near']}"
    traps = (
        f"**{runs} graders execute the completion**, by `eval` or by sympy's `parse_expr`: {running}.",
        f"**{easy} data sets pay {EASY} or more for a text that takes no skill**: {easily}.",
        f"**{hangs} graders do not come back** from {endless}: {hanging}. Over a second for "
        f"one score: {slowest}.",
        f"**{near} of {len(rows)} share at least {SHARED:.0%} of their prompts between seeds {seeds}**: "
        f"held-out items of the next seed were trained on. The others: {unlike}.",
        f"**{small} have so few prompts that a quarter of a far seed stood among {facts['train']} already**: "
        f"{smallest}.",
        f"**{fails} graders raise an exception** on what a policy may write: {failing}.",
        f"**{other} do not make the same items again** under the same seed: {differing}.",
        f"**{lossy} grade another way once an item was stored as JSON**; the answer then earns: {lost}.",
        f"**{bare} data sets store no answer**: {barely}. A stored answer earns less than 1 for: {wrongly}.",
        f"**{touched} change the generators that everybody shares** (`random`, `numpy.random`) while "
        f"they make items: {touching}.",
    )
    sound = [name for name, row in rows.items() if is_sound(row)]
    clean = f"{len(sound)} have none of these but the fourth, and pay no trivial text more than {FAIR}: "
    numbered = "\n".join(_wrapped(f"{number}. {trap}", "   ") for number, trap in enumerate(traps, 1))
    return ["## The ten worst traps", numbered, _wrapped(clean + ", ".join(sound) + ".")]


def is_sound(row: Row) -> bool:
    """Return whether a data set has no fault but that neighbouring seeds share items."""
    marks = ("executed", "endless", "raised", "odd_scores", "entries_changed", "touches_global_random")
    return (
        not any(row[mark] for mark in marks)
        and row["gold"] == row["gold_json"] == 1.0
        and bool(row["grades_repeat"])
        and row["repeats"] == "yes"
        and row["far"] < SMALL
        and _best(row) <= FAIR
    )


def _table(rows: Mapping[str, Row], near: int) -> list[str]:
    lines = [
        f"| data set | trivial | by | gold | runs it | repeats | {near} | far | raises | item | score |",
        "|---|--:|---|--:|---|---|--:|--:|--:|--:|--:|",
    ]
    for name, row in rows.items():
        gold, through = _number(row["gold"]), _number(row["gold_json"])
        runs = ["yes"] * bool(row["executed"]) + ["hangs"] * bool(row["endless"])
        cells = (
            name,
            f"{_best(row):.2f}",
            row["best"],
            gold if gold == through else f"{gold} > {through}",
            ", ".join(runs) or "–",
            row["repeats"].removesuffix(" seed"),
            f"{row['near']:.2f}",
            f"{row['far']:.2f}",
            str(len(row["raised"]) or "–"),
            _ms(row["item_ms"]),
            _ms(row["score_ms"]),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return ["## The table", "\n".join(lines)]


def _best(row: Row) -> float:
    return float(row["trivial"][row["best"]])


def _kinds(row: Row) -> list[str]:
    return sorted({kind for kinds in row["raised"].values() for kind in kinds})


def _number(value: object) -> str:
    """Return a score with two decimals, the name of an exception as it is, a dash for none."""
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float | int) else str(value)


def _ms(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _filled(text: str) -> str:
    """Return prose with full lines; headings and blocks of commands stay."""
    parts = []
    for part in text.strip().split("\n\n"):
        if part.startswith(("#", "```")):
            parts.append(part)
        elif part.startswith("* "):
            points = part.removeprefix("* ").split("\n* ")
            parts.append("\n".join(_wrapped("* " + " ".join(point.split()), "  ") for point in points))
        else:
            parts.append(_wrapped(" ".join(part.split())))
    return "\n\n".join(parts)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
