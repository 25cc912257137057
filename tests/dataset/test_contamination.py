"""Held-out work that stands in the training data is found whatever the order, and harmless likeness is
not."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.rollout.audit.contamination import (
    BOILERPLATE,
    NGRAM,
    Texts,
    answers_inside,
    contamination,
    shared_ngrams,
)
from assay.rollout.dataset.audit_records import Contamination, judged, overlap_said
from assay.rollout.dataset.source import DataRow, KeptRecord
from assay.rollout.dataset.wording import words_of
from assay.rollout.tasks.protocol import Item
from tests import house

SPLITS = ("train", "validation", "heldout")


def found_in(**splits: Sequence[Mapping[str, Any]]) -> Contamination:
    """Return what splits of rows share."""
    kept = {}
    for split, rows in splits.items():
        named = [{"id": f"{split}-{k}", **row} for k, row in enumerate(rows)]
        kept[split] = [
            KeptRecord(
                DataRow(k + 1, row, row, "", None), Item(str(row["id"]), str(row["id"]), {}, None, None)
            )
            for k, row in enumerate(named)
        ]
    return contamination(kept)


def kinds(found: Contamination) -> set[tuple[str, tuple[str, str]]]:
    return {(each.kind, each.splits) for each in found.overlaps}


def words(n: int, seed: int = 0) -> str:
    return " ".join(f"w{random.Random(seed).random()}x{k}"[2:] for k in range(n)).replace(".", "")


def test_prompts_with_the_same_words_are_a_leak_whatever_their_case_and_punctuation() -> None:
    found = found_in(
        train=[{"prompt": "Extract the order.", "context": "Two lamps, for Kim."}, {"prompt": "other"}],
        validation=[{"prompt": "Something else"}],
        heldout=[{"prompt": "extract THE order", "context": "two lamps for \uff2bim!"}],
    )
    assert kinds(found) == {("prompt", ("heldout", "train"))}
    bars, notes = judged(found, SPLITS)
    assert len(bars) == 1 and "train-0" in overlap_said(bars[0]) and not notes


def test_a_leak_between_validation_and_held_out_bars_as_well_and_one_into_a_probe_does_not() -> None:
    row = {"prompt": "the same"}
    assert judged(found_in(train=[{"prompt": "x"}], validation=[row], heldout=[row]), SPLITS)[0]
    probe = found_in(train=[row], heldout=[{"prompt": "y"}], traps=[row])
    assert kinds(probe) == {("prompt", ("train", "traps"))} and judged(probe, SPLITS) == ([], [])


WORLD = {"channel": "dimuon", "mass_gev": 125.2, "scale_shifts": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("train", "heldout", "kind"),
    [
        ({"id": "0123", "truth": {"mass_gev": 1.0}}, {"id": "0123", "truth": {"mass_gev": 2.0}}, "scenario"),
        (
            {"truth": WORLD, "briefing": {"required_z": 5.0}},
            {"truth": WORLD, "briefing": {"required_z": 3.0}},
            "world",
        ),
        ({"truth": {"a": 1.0}, "seed": 77}, {"truth": {"a": 2.0}, "seed": 77}, "seed"),
        (
            {"prompt": "a", "metadata": {"generator_seed": 9}},
            {"prompt": "b", "metadata": {"generator_seed": 9}},
            "seed",
        ),
        ({"prompt": "a", "scenario_id": "s1"}, {"prompt": "b", "scenario_id": "s1"}, "scenario"),
    ],
)
def test_shared_scenarios_worlds_and_seeds_are_leaks(
    train: dict[str, Any], heldout: dict[str, Any], kind: str
) -> None:
    found = found_in(train=[train], heldout=[heldout])
    assert (kind, ("heldout", "train")) in kinds(found)
    assert judged(found, SPLITS)[0]


def test_equal_row_numbers_of_different_prompts_are_no_leak() -> None:
    assert not found_in(train=[{"id": "1", "prompt": "a"}], heldout=[{"id": "1", "prompt": "b"}]).overlaps


def test_one_seed_for_whole_files_is_a_warning() -> None:
    rows = {
        split: [{"prompt": f"{split} {k}", "seed": 1} for k in range(3)] for split in ("train", "heldout")
    }
    bars, notes = judged(found_in(**rows), SPLITS)
    assert not bars and len(notes) == 1 and "each of many records" in overlap_said(notes[0])


@pytest.mark.parametrize(("n", "hit"), [(NGRAM, True), (NGRAM - 1, False)])
def test_thirteen_words_on_end_are_warned_of_and_twelve_are_not(n: int, hit: bool) -> None:
    common = words(n, 5)
    train, heldout = f"{words(9, 1)} {common} {words(9, 2)}", f"{words(4, 3)} {common} {words(4, 4)}"
    found = found_in(train=[{"prompt": train}], heldout=[{"prompt": heldout}])
    assert kinds(found) == ({("ngram", ("heldout", "train"))} if hit else set())
    bars, notes = judged(found, SPLITS)
    assert not bars and len(notes) == hit


def test_a_run_does_not_reach_from_one_record_into_the_next() -> None:
    common = words(20, 5).split()
    found = found_in(
        train=[{"prompt": " ".join(common[:10])}, {"prompt": " ".join(common[10:])}],
        heldout=[{"prompt": " ".join(common)}],
    )
    assert not found.overlaps


def test_the_words_of_a_template_are_no_contamination() -> None:
    template = words(30, 5)

    def of(split: str, n: int) -> list[dict[str, str]]:
        return [{"prompt": f"{template} {split} {k}"} for k in range(n)]

    assert not found_in(train=of("train", BOILERPLATE + 1), heldout=of("heldout", 3)).overlaps
    assert found_in(train=of("train", BOILERPLATE), heldout=of("heldout", 3)).overlaps[0].count == 3


@pytest.mark.parametrize(
    ("gold", "prompt", "hit"),
    [
        ({"item": "lamp", "who": "Kim"}, 'for example {"item": "lamp", "who": "Kim"} is right', True),
        ("forty two kangaroos", "it was forty-two kangaroos that day", True),
        ({"answer": "a rather long reply"}, "he gave A RATHER LONG REPLY and left", True),
        ({"item": "lamp", "who": "Kim"}, "Kim wants a lamp", False),
        ("Paris", "Paris is large", False),
        (None, "anything", False),
    ],
)
def test_a_held_out_answer_inside_a_train_prompt_is_warned_of(gold: Any, prompt: str, hit: bool) -> None:
    found = found_in(train=[{"prompt": prompt}], heldout=[{"prompt": "q", "gold": gold}])
    assert kinds(found) == ({("answer", ("heldout", "train"))} if hit else set())


def test_neither_the_order_of_records_nor_of_splits_matters() -> None:
    rows = {
        split: [
            {"prompt": words(20, k % 7), "gold": words(5, k % 5), "seed": k // 2}
            for k in range(start, start + 12)
        ]
        for split, start in (("train", 0), ("validation", 5), ("heldout", 8))
    }
    one = found_in(**rows)
    named = {
        split: [{"id": f"{split}-{k}", **row} for k, row in enumerate(part)][::-1]
        for split, part in rows.items()
    }
    assert one.overlaps and found_in(**dict(reversed(named.items()))) == one


def test_what_a_check_had_nothing_to_read_is_said() -> None:
    found = found_in(train=[{"truth": {"a": 1.0}}], heldout=[{"truth": {"a": 2.0}}])
    assert (found.compared["prompt"], found.compared["world"]) == (0, 2)


word = st.sampled_from(["a", "b", "c"])
texts = st.lists(st.lists(word, max_size=9), min_size=1, max_size=5)


def has(text: Sequence[str], run: Sequence[str]) -> bool:
    return any(list(text[k : k + len(run)]) == list(run) for k in range(len(text) - len(run) + 1))


@given(texts, texts)
@settings(max_examples=80, deadline=None)
def test_rolling_digests_find_what_comparing_word_by_word_finds(
    train: list[list[str]], heldout: list[list[str]]
) -> None:
    runs = [{tuple(text[k : k + 4]) for k in range(len(text) - 3)} for text in train]
    expected = [
        k
        for k, text in enumerate(heldout)
        if any(tuple(text[p : p + 4]) in one for p in range(len(text) - 3) for one in runs)
    ]
    assert shared_ngrams(Texts(train), Texts(heldout), 4) == expected
    inside = [k for k, text in enumerate(heldout) if text and any(has(one, text) for one in train)]
    assert answers_inside(Texts(train), [[text] if text else [] for text in heldout]) == inside


def test_words_are_compared_without_case_form_and_punctuation() -> None:
    assert words_of("\uff22ad, stra\u00dfe\u2014No_1!") == ["bad", "strasse", "no_1"]


@pytest.mark.long
def test_two_thousand_records_of_three_kilobytes_take_a_few_seconds() -> None:
    source = random.Random(1)
    vocabulary = [f"word{k}" for k in range(5000)]
    rows = {
        split: [
            {
                "prompt": " ".join(source.choices(vocabulary, k=400)),
                "gold": " ".join(source.choices(vocabulary, k=6)),
            }
            for _ in range(n)
        ]
        for split, n in (("train", 1500), ("heldout", 500))
    }
    start = time.process_time()
    found_in(**rows)
    assert time.process_time() - start < 6


def test_a_conversation_leaks_by_all_its_words_and_each_of_several_golds_is_an_answer() -> None:
    said = [
        {"role": "user", "content": words(20)},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Go"},
    ]
    asked = {"prompt": f"{words(20)} yes go"}
    for conversation in ({"messages": said}, {"prompt": said}):
        assert ("prompt", ("heldout", "train")) in kinds(found_in(train=[conversation], heldout=[asked]))
        other = {"prompt": f"{words(20)} no"}
        assert kinds(found_in(train=[conversation], heldout=[other])) == {("ngram", ("heldout", "train"))}
    golds = {"prompt": "Who?", "golds": ["short", words(6, seed=1)]}
    found = found_in(train=[{"prompt": f"it is {words(6, seed=1)} here"}], heldout=[golds])
    assert kinds(found) == {("answer", ("heldout", "train"))}


JOBS: list[dict[str, Any]] = [
    {
        "prompt": "Extract the order.",
        "context": f"{who} wants {k} lamps sent from {home} to {city}, at 3.5 euro each.",
        "gold": {"name": who, "n": k, "from": home, "to": city},
    }
    for k, (who, home, city) in enumerate(
        [
            ("Anna", "Oslo", "Rome"),
            ("Ben", "Lima", "Cairo"),
            ("Carla", "Rome", "Oslo"),
            ("David", "Paris", "Lima"),
        ],
        start=2,
    )
]
EDITS: dict[str, Callable[[str], str]] = {
    "case": str.upper,
    "punctuation": lambda text: text.replace(",", " -").removesuffix(".") + "!!",
    "please": lambda text: f"Please, {text} Thank you!",
    "kindly": lambda text: f"Hello! Could you kindly: {text}",
    "invisible": lambda text: text.replace("lamps", "la\u200bmps"),
    "wide letters": lambda text: text.replace("lamps", "\uff4c\uff41\uff4d\uff50\uff53"),
    "far digits": lambda text: text.replace("3.5", "3.5000000035"),
    "filler before": lambda text: f"Well honestly, as I was saying the other day on the phone: {text}",
    "filler after": lambda text: f"{text} Have a nice day and do let me know if anything is unclear.",
    "filler inside": lambda text: text.replace("wants", "basically wants").replace("sent", "simply sent"),
    "another word": lambda text: text.replace("wants", "needs"),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("gold", [True, False], ids=["gold", "no gold"])
def test_a_held_out_record_that_is_a_training_record_in_other_words_bars_the_claim(
    edit: str, gold: bool
) -> None:
    if not gold and edit.startswith(("filler", "another")):
        pytest.skip("without an answer other words may be other work")
    rows = [row if gold else {key: row[key] for key in ("prompt", "context")} for row in JOBS]
    copies = [{**row, "context": EDITS[edit](row["context"])} for row in rows[:2]]
    bars, _ = judged(found_in(train=rows, heldout=[*copies, {"prompt": "Something else entirely."}]), SPLITS)
    assert len(bars) == 1 and "heldout and train share 2 " in overlap_said(bars[0]), bars


def test_a_world_with_changes_in_far_digits_is_the_same_world() -> None:
    world = {"mass": 481.91, "spin": 0, "shift": [0.01634, -0.000851]}
    near = {"mass": 481.91 * (1 + 1e-9), "spin": 0, "shift": [0.01634 + 1e-9, -0.000851]}
    assert kinds(found_in(train=[{"truth": world}], heldout=[{"truth": near}])) == {
        ("world", ("heldout", "train"))
    }
    other = {**world, "mass": 482.91}
    assert not kinds(found_in(train=[{"truth": world}], heldout=[{"truth": other}]))


def test_other_values_in_the_same_words_are_no_leak() -> None:
    assert not kinds(found_in(train=JOBS[:2], validation=JOBS[2:3], heldout=JOBS[3:]))


@pytest.mark.long
@pytest.mark.parametrize("task", ["structured", "collider"])
def test_the_shipped_data_share_nothing(task: str) -> None:
    files = sorted((house.ROOT / f"data/{task}").glob("*.jsonl"))
    rows = {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        for path in files
    }
    assert not kinds(found_in(**rows))
