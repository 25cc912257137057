"""Held-out work in another guise is found by its values, as far as chance does not explain it, and no shipped
data ring."""

from __future__ import annotations

import copy
import json
import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from assay.rollout.audit.coincidence import by_key
from assay.rollout.dataset.audit_records import Contamination, Overlap, judged, overlap_said
from tests import house
from tests.dataset.test_contamination import SPLITS, found_in

Row = dict[str, Any]
Rows = dict[str, list[Row]]
SIZES = {"train": 300, "validation": 60, "heldout": 120}


def told(rows: Rows) -> dict[str, bool]:
    """Return what train and held-out share by their values, and whether it bars."""
    bars, warned = judged(found_in(**rows), SPLITS)
    found = [each for each in (*bars, *warned) if each.splits == ("heldout", "train")]
    return {each.kind: each in bars for each in found if each.of is not None or each.kind == "world"}


def made(make: Callable[[random.Random], Row], sizes: dict[str, int] = SIZES) -> Rows:
    """Return splits drawn from one generator."""
    source = random.Random(7)
    return {split: [make(source) for _ in range(n)] for split, n in sizes.items()}


def copied(rows: Rows, edit: Callable[[Row], Row], n: int, into: str = "train") -> Rows:
    """Return splits of which one holds n held-out records in another guise."""
    copies = [edit(copy.deepcopy(row)) for row in rows["heldout"][:n]]
    return rows | {into: [*rows[into], *copies]}


def reactor(source: random.Random) -> Row:
    """A hidden world of another task than those shipped: numbers, a list, a kind, a part that may lack."""
    leak = (
        {"place_m": source.gauss(3, 1), "rate": source.lognormvariate(0, 1)}
        if source.random() < 0.5
        else None
    )
    truth = {
        "kind": source.choice(["batch", "flow"]),
        "stages": source.randint(1, 4),
        "volume_l": source.lognormvariate(3, 1),
        "heat": source.gauss(0, 20),
        "valves": [source.random() for _ in range(4)],
        "leak": leak,
    }
    return {"truth": truth, "briefing": {"budget": source.choice([5, 10]), "scale": source.uniform(10, 90)}}


def moved(size: float, *names: str) -> Callable[[Row], Row]:
    """Return an edit that adds something to some fields of the hidden truth."""

    def edit(row: Row) -> Row:
        for name in names:
            value = row["truth"][name]
            row["truth"][name] = [each + size for each in value] if isinstance(value, list) else value + size
        return row

    return edit


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        (moved(1e-9, "valves"), "world"),
        (moved(1e-5, "volume_l"), "world"),
        (moved(0.001, "valves"), "near_world"),
        (moved(0.005, "valves"), "near_world"),
        (moved(500.0, "heat"), "near_world"),
        (moved(0.3, "heat", "volume_l"), "near_world"),
    ],
)
def test_hidden_worlds_with_a_field_or_a_few_moved_are_found_and_many_of_them_bar(
    edit: Callable[[Row], Row], kind: str
) -> None:
    rows = made(reactor)
    assert told(rows) == {}
    many = copied(rows, edit, 60)
    assert told(many) == {kind: True}
    (found,) = (each for each in found_in(**many).overlaps if each.kind == kind)
    assert found.count == 60
    assert told(copied(rows, edit, 6)) == {kind: kind == "world"}  # a few near ones are a warning


def test_no_world_slips_over_an_edge_of_rounding() -> None:
    source = random.Random(3)
    rows = made(reactor)
    # Each number as near to the middle between two rounded ones as can be
    for row in rows["heldout"]:
        row["truth"]["valves"] = [float(f"0.{source.randint(1000, 9998)}5") for _ in range(4)]
    (found,) = found_in(**copied(rows, moved(1e-9, "valves"), 120)).overlaps
    assert (found.kind, found.count) == ("world", 120)


def test_numbers_of_a_task_of_ones_own_are_compared_where_nothing_is_called_its_truth() -> None:
    def circuit(source: random.Random) -> Row:
        return {"ohms": [source.uniform(1, 99) for _ in range(5)], "volts": source.uniform(1, 20)}

    def edit(row: Row) -> Row:
        return row | {"ohms": [round(row["ohms"][0] * 1.3, 3), *row["ohms"][1:]]}

    rows = made(circuit)
    assert told(rows) == {}
    assert told(copied(rows, edit, 60)) == {"near_world": True}


NAMES = ["Ada", "Bo", "Cyd", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jo", "Kit", "Lou"]
TOWNS = ["Ulm", "Bern", "Graz", "Lyon", "Metz", "Nice", "Pisa", "Turin", "York", "Bath"]
WARES = [f"{a} {b}" for a in ("red", "old", "oak", "tin") for b in ("chair", "door", "pipe", "bell", "sign")]


def order(source: random.Random) -> Row:
    """A job whose answer has several parts; some answers meet by chance."""
    who, where, what = source.choice(NAMES), source.choice(TOWNS), source.choice(WARES)
    ways = [
        f"{who} of {where} orders the {what} today",
        f"to {where} goes the {what} which {who} paid for",
        f"note for the clerk: {what}, {where}, payer {who}",
    ]
    how = source.choice(["quickly", "by rail", "by road", "as ever", "at once", "before noon", "after lunch"])
    gold = {"call": "send", "arguments": {"who": who, "town": where, "what": what}}
    return {"prompt": f"{source.choice(ways)} {how} {source.randint(1, 99)}", "gold": gold}


def reworded(row: Row) -> Row:
    """The same job with other words around what it is about."""
    about = row["gold"]["arguments"]
    said = f"we spoke long; {about['what']} shall be moved towards {about['town']} while {about['who']} waits"
    return row | {"prompt": said}


def test_the_same_answers_asked_in_other_words_bar_beyond_what_chance_gives() -> None:
    rows = made(order)
    natural = {json.dumps(row["gold"]) for row in rows["train"]}
    met = sum(json.dumps(row["gold"]) in natural for row in rows["heldout"])
    assert met > 0.05 * len(rows["heldout"])  # so a share alone would ring
    assert told(rows) == {}
    assert told(copied(rows, reworded, 90)) == {"gold": True}
    # The validation copied as well, or all of train in two wordings, hides nothing.
    both = copied(rows, reworded, 120)
    both["train"] += [reworded(row) for row in rows["validation"]]
    assert told(both) == {"gold": True}
    assert told(rows | {"train": [*both["train"], *map(reworded, rows["train"])]})["gold"]


@pytest.mark.parametrize(
    "answers", [["yes", "no"], [str(k) for k in range(10)], list(map(str, range(10**6)))]
)
def test_answers_that_many_questions_have_do_not_ring(answers: Sequence[str]) -> None:
    def question(source: random.Random) -> Row:
        words = " ".join(source.choice(["lamp", "tree", "stone", "cloud", "river"]) for _ in range(12))
        return {"prompt": f"{words} {source.randint(0, 10**9)}", "answer": source.choice(answers)}

    assert told(made(question)) == {}


def sums(source: random.Random) -> Row:
    """A question of words with numbers; what it is about is another thing each time."""
    a, b = source.randint(2, 90), source.randint(2, 90)
    what = "".join(source.choice("abcdefghij") for _ in range(7))
    return {"prompt": f"A {what} weighs {a} grams and its lid {b}. How heavy is it?", "answer": str(a + b)}


def plus_one(row: Row) -> Row:
    """Every number of question and answer is one more."""
    return {name: re.sub(r"\d+", lambda found: str(int(found[0]) + 1), text) for name, text in row.items()}


def test_questions_with_other_numbers_alone_are_warned_of_and_most_of_a_suite_bars() -> None:
    rows = made(sums)
    assert told(rows) == {}
    some, most = (copied(rows, plus_one, n) for n in (40, 110))
    assert told(some)["template"] is False
    assert told(most)["template"] is True


def test_a_template_that_all_records_have_is_no_sign() -> None:
    def templated(source: random.Random) -> Row:
        a, b = source.randint(2, 9000), source.randint(2, 9000)
        return {"prompt": f"What is {a} plus {b}? Write the sum.", "answer": str(a + b)}

    assert told(made(templated)) == {}


def test_questions_with_answers_as_worked_examples_in_prompts_bar_however_often_they_are_shown() -> None:
    rows = made(order)
    examples = [f"{row['prompt']} -> {json.dumps(row['gold'])}" for row in rows["heldout"]]

    def shown(n: int, in_how_many: int) -> Rows:
        text = " ; ".join(examples[:n])
        train = [
            row | {"prompt": f"{text} ; {row['prompt']}"} if k < in_how_many else row
            for k, row in enumerate(rows["train"])
        ]
        return rows | {"train": train}

    assert told(shown(120, 1))["inside"] is True
    assert told(shown(30, 60))["inside"] is True  # as a preamble of many prompts
    assert told(shown(5, 1))["inside"] is False


def test_what_validation_shares_is_found_too() -> None:
    found = found_in(**copied(made(reactor), moved(0.001, "valves"), 40, into="validation"))
    (said,) = judged(found, SPLITS)[0]
    assert (said.kind, said.splits) == ("near_world", ("heldout", "validation"))


def test_of_a_handful_of_records_nothing_follows() -> None:
    rows = made(order, {"train": 12, "validation": 4, "heldout": 3})
    assert told(copied(rows, reworded, 2)) == {}


def test_a_pool_without_a_third_split_is_judged_by_itself() -> None:
    keys: dict[str, list[str | None]] = {
        "train": [f"k{k // 2}" for k in range(200)],
        "heldout": [f"k{k}" for k in range(60)],
    }
    assert not by_key(keys, "heldout", "train", SPLITS).beyond
    apart = keys | {"train": [f"k{k}" for k in range(200)]}
    assert by_key(apart, "heldout", "train", SPLITS).beyond


def test_an_overlap_says_of_how_many_and_what_chance_gives() -> None:
    many = Overlap(kind="gold", splits=("heldout", "train"), count=90, first=("a",), of=120, expected=12.0)
    assert "share 90 answers, asked in other words (of 120, by chance 12; first: 'a')" in overlap_said(many)
    assert many.bars and not many.model_copy(update={"count": 17}).bars
    empty = Contamination(n_records={}, compared={}, overlaps=(many,))
    assert judged(empty, SPLITS) == ([many], [])


@pytest.mark.long
@pytest.mark.parametrize("task", ["collider", "structured", "words", "lode", "frozen_lake", "rotate_matrix"])
def test_no_shipped_data_ring(task: str) -> None:
    rows = {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        for path in sorted((house.ROOT / f"data/{task}").glob("*.jsonl"))
    }
    assert [each for each in found_in(**rows).overlaps if each.of is not None] == []


@pytest.mark.long
def test_ten_thousand_records_against_ten_thousand_take_seconds() -> None:
    def both(source: random.Random) -> Row:
        return order(source) | {"numbers": [source.random() for _ in range(12)]}

    rows = made(both, {"train": 10_000, "validation": 1_000, "heldout": 10_000})
    start = time.process_time()
    found_in(**rows)
    assert time.process_time() - start < 60
