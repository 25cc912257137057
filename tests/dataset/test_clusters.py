"""What is one piece of work is one cluster, however it is worded; what is other work stays apart."""

from __future__ import annotations

import ast
import inspect
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from assay.rollout.dataset.clusters import find_chain, sizes_of, thresholds, united
from assay.rollout.dataset.likeness import Compared, alike, wording_of
from assay.rollout.dataset.wording import essence, essential_words
from assay.rollout.tasks.protocol import Item
from tests import house, templates

Row = Mapping[str, Any]
DEFAULT = 0.6
WORKS: list[tuple[str, dict[str, Any]]] = [
    ("Write a JSON profile of a baker from Lyon who owns two cats.", {"job": "baker", "city": "Lyon"}),
    ("Anna bought 3 lamps and wants them delivered to Oslo on Monday.", {"item": "lamp", "n": 3}),
    ("The meeting with Dr. Meyer moved from Tuesday 10:00 to Thursday 14:30 in room 5.", {"who": "Meyer"}),
    ("Invoice 2291 of ACME Corp. totals 1,250.00 euro, due on 2024-05-01.", {"total": 1250.0}),
    ("Flight LH 400 from Frankfurt to New York is delayed by two hours.", {"flight": "LH 400"}),
    ("My router has no light after the firmware update 3.1.4, I restarted it twice.", {"device": "router"}),
    ("Mix 200 g flour with 2 eggs and 100 ml of milk, then bake for 25 minutes.", {"flour": 200}),
    ("Patient, 54 years, reports chest pain since yesterday evening.", {"age": 54}),
]
BEFORE = (
    "",
    "Please: ",
    "Hi there, ",
    "Quick one: ",
    "URGENT - ",
    "As discussed yesterday, ",
    "fyi ",
    "Hey team! ",
)
AFTER = (
    "",
    " Thanks!",
    " Thank you very much.",
    " Cheers",
    " Kind regards, the office",
    " (no rush)",
    " asap",
)


def items(rows: Sequence[Row]) -> list[Item]:
    return [Item(f"r{k}", f"p{k}", {}, None, None, row=row) for k, row in enumerate(rows)]


def sizes(rows: Sequence[Row], similarity: float = DEFAULT) -> list[int]:
    return sizes_of(united(items(rows), similarity))


def worded(works: Sequence[Row], n: int, seed: int = 0) -> list[Row]:
    """Return n wordings of each record: other words before and after, other case, other punctuation."""
    rng, found = random.Random(seed), []
    forms: tuple[Callable[[str], str], ...] = (
        str,
        str.upper,
        str.lower,
        lambda text: text.replace(",", " -"),
    )
    for work in works:
        for _ in range(n):
            text = rng.choice(forms)(rng.choice(BEFORE) + work["context"] + rng.choice(AFTER))
            found.append({**work, "context": text})
    return found


def works(n: int = len(WORKS), *, gold: bool = True) -> list[Row]:
    return [
        {"prompt": "Extract.", "context": text} | ({"gold": right} if gold else {})
        for text, right in WORKS[:n]
    ]


def shop(split: str) -> list[dict[str, Any]]:
    text = (house.ROOT / f"data/structured/{split}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


@pytest.mark.parametrize("gold", [True, False], ids=["with golds", "without golds"])
@pytest.mark.parametrize("similarity", [0.3, 0.45, DEFAULT])
def test_eight_records_in_512_wordings_are_eight_clusters(gold: bool, similarity: float) -> None:
    assert sizes(worded(works(gold=gold), 64), similarity) == [64] * 8


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_so_few_works_that_each_is_in_most_records_are_told_too(n: int) -> None:
    assert sizes(worded(works(n), 512 // n)) == [512 // n] * n


EQUAL, SKEWED, ALONE = [64] * 8, [400] + [16] * 7, [505] + [1] * 7
ANSWERS: dict[str, Sequence[Any]] = {
    "an answer each": [right for _, right in WORKS],
    "yes or no": ["yes", "no"] * 4,
    "one of three": ["good", "bad", "mixed", "bad", "good", "bad", "good", "mixed"],
    "yes but once": ["yes"] * 7 + ["no"],
    "one answer": ["yes"] * 8,
    "no answers": [None] * 8,
}
# Of each wording: other case, filler words, three words of its own, its own words in another order, far
# digits.
CHANGES: dict[str, Callable[[random.Random, str], str]] = {
    "filler": lambda rng, text: rng.choice([str, str.upper, str.lower])(
        rng.choice(BEFORE) + text + rng.choice(AFTER)
    ),
    "words of its own": lambda rng, text: f"{_noises(rng, 1)[0]} {text}",
    "another order": lambda rng, text: " ".join(_turned(text.split(), rng.randrange(1, 5))),
    "far digits": lambda rng, text: re.sub(r"\b(\d{2,3})\b", rf"\1.00000000{rng.randrange(9)}", text),
}


def _turned(words: Sequence[str], by: int) -> list[str]:
    return [*words[by:], *words[:by]]


@pytest.mark.parametrize("counts", [EQUAL, SKEWED, ALONE], ids=["equal", "skewed", "nearly alone"])
@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("change", CHANGES)
def test_few_answers_and_a_record_that_makes_up_most_wordings_hide_nothing(
    counts: Sequence[int], answers: str, change: str
) -> None:
    if answers == "no answers" and change == "words of its own":
        pytest.skip("without an answer other words may be other work")
    rng = random.Random(f"{answers} {change}")
    rows = [
        {"prompt": "Answer.", "context": CHANGES[change](rng, text)}
        | ({} if right is None else {"gold": right})
        for (text, _), right, n in zip(WORKS, ANSWERS[answers], counts, strict=True)
        for _ in range(n)
    ]
    assert sizes(rows) == sorted(counts, reverse=True)


def test_a_record_of_another_answer_that_says_everything_hides_nothing() -> None:
    rows = [{**row, "gold": "yes"} for row in worded(works(), 64)]
    every = {"prompt": "Extract.", "context": " ".join(text for text, _ in WORKS), "gold": "no"}
    assert len(sizes([*rows, every])) == 9


NAMED = "Say whether the sentence is good, bad or mixed. Answer with one word and nothing else. "


@pytest.mark.long
@pytest.mark.parametrize("labels", [["good", "bad", "mixed"], ["good", "bad"], list("abcdefgh")], ids=len)
@pytest.mark.parametrize("asked", ["", NAMED, NAMED * 10], ids=["no", "short", "long"])
@pytest.mark.parametrize("apart", [True, False], ids=["field of its own", "one text"])
def test_sentences_that_people_wrote_are_work_of_their_own_whatever_asks_for_their_label(
    labels: Sequence[str], asked: str, apart: bool
) -> None:
    rng, texts = random.Random(4), _sentences()
    rows = [
        ({"prompt": asked, "context": text} if apart else {"prompt": asked + text})
        | {"gold": rng.choice(labels)}
        for text in texts
    ]
    assert len(sizes(rows)) >= 0.97 * len(texts)


@cache
def _sentences() -> Sequence[str]:
    """Return 200 short sentences, none about the same: what the functions of this package say they do."""
    found = {
        inspect.cleandoc(said).split("\n\n")[0].replace("\n", " ")
        for path in sorted((house.ROOT / "src/assay").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and (said := ast.get_docstring(node))
    }
    texts = sorted(text for text in found if 5 <= len(text.split()) <= 15)
    return random.Random(5).sample(texts, 200)


def test_wordings_of_jobs_of_the_shop_are_the_jobs() -> None:
    picked = [{**row, "family": f"f{k}"} for k, row in enumerate(shop("heldout")[:80:10])]
    renamed = [{**row, "family": f"f{k}"} for k, row in enumerate(worded(picked, 64))]
    assert sizes(renamed) == [64] * 8


def test_a_task_that_names_its_texts_otherwise_is_read_too() -> None:
    rows = [{"question": row["context"], "answer": row["gold"]} for row in worded(works(), 64)]
    assert sizes(rows) == [64] * 8


def test_a_wording_of_its_own_for_each_record_hides_nothing() -> None:
    rng = random.Random(1)
    rows = [
        {**work, "context": f"{noise} {work['context']}"} for work in works() for noise in _noises(rng, 64)
    ]
    assert len(sizes(rows)) == 8


def _noises(rng: random.Random, n: int) -> list[str]:
    return [" ".join(f"x{rng.randrange(10**6)}" for _ in range(3)) for _ in range(n)]


def _orders(n: int) -> list[Row]:
    rng, seen = random.Random(2), set()
    while len(seen) < n:
        who, what = (
            rng.choice(["Anna", "Ben", "Carla", "David", "Elif", "Farid", "Greta", "Hans"]),
            rng.choice(["lamps", "rugs", "desks"]),
        )
        seen.add(
            (who, rng.randrange(1, 99), what, rng.choice(["Oslo", "Rome", "Paris", "Lima", "Cairo", "Tokyo"]))
        )
    return [
        {
            "prompt": "Extract the order.",
            "context": f"{who} orders {k} {what} to be delivered to {city}.",
            "gold": {"name": who, "n": k, "item": what, "city": city},
        }
        for who, k, what, city in sorted(seen)
    ]


def _letters(n: int) -> list[Row]:
    rng, words = random.Random(3), [f"word{k}" for k in range(60)]
    return [
        {
            "prompt": "Spam?",
            "context": " ".join(rng.choices(words, k=rng.randrange(8, 60))),
            "gold": rng.random() < 0.5,
        }
        for _ in range(n)
    ]


LONG = "Read the message and answer with one JSON object and nothing else. Never invent a value. " * 12


@pytest.mark.parametrize(
    "rows",
    [
        _orders(500),
        [{**row, "prompt": LONG} for row in _orders(500)],
        [{key: value for key, value in row.items() if key != "gold"} for row in _orders(500)],
        _letters(300),
        [{**row, "prompt": LONG} for row in _letters(300)],
        [{"prompt": f"What is {a} plus {b}?", "gold": a + b} for a in range(40) for b in range(a)],
        [
            {"prompt": f"请从下面的句子中提取第{a}号和第{b}号订单", "gold": [a, b]}
            for a in range(20)
            for b in range(a)
        ],
    ],
    ids=[
        "one template",
        "long instruction",
        "no golds",
        "two labels",
        "two labels, long",
        "sums",
        "no spaces",
    ],
)
def test_other_values_in_one_template_are_other_work(rows: Sequence[Row]) -> None:
    # Where no answer is known, records that differ in one number only may be taken for one.
    assert len(sizes(rows)) >= (0.97 if "gold" in rows[0] else 0.9) * len(rows)


def test_a_template_of_many_slots_does_not_chain_records_with_other_answers() -> None:
    found = sizes(templates.queries(1900))
    assert len(found) > 600 and found[0] < 20


def test_each_two_of_a_cluster_of_other_answers_are_alike_and_no_two_clusters_could_be_one() -> None:
    rows = templates.calls(600)
    labels = [item.cluster for item in united(items(rows), DEFAULT)]
    same = np.array([[one == other for other in labels] for one in labels])
    alike = np.eye(len(rows), dtype=np.bool_)
    for pairs in Compared([wording_of(row) for row in rows]).pairs(thresholds(DEFAULT)[2]):
        alike[pairs.one, pairs.other] = alike[pairs.other, pairs.one] = True
    assert 1.2 * len(set(labels)) < len(rows) and not (same & ~alike).any()
    # Of two clusters, each two of all their records: some are unlike.
    home = np.eye(len(rows))[[labels.index(label) for label in labels]]
    unlike = home.T @ (~alike).astype(np.float64) @ home
    whole = np.flatnonzero(home.sum(axis=0))
    assert (unlike[np.ix_(whole, whole)] + np.eye(len(whole)) > 0).all()


def test_yes_and_no_do_not_chain_the_records_of_one_template() -> None:
    rng = random.Random(4)
    rows = [
        {
            **row,
            "answer": rng.choice(["yes", "no"]),
            "prompt": row["prompt"].replace("Write one SQL query", "Are there any"),
        }
        for row in templates.queries(400)
    ]
    found = united(items(rows), DEFAULT)
    assert sizes_of(found)[0] < 40
    by_cluster = defaultdict(list)
    for item in found:
        by_cluster[item.cluster].append(int(item.id[1:]))
    shares = {
        (one, other): share
        for some in Compared([wording_of(row) for row in rows]).pairs(0.4)
        for one, other, share in zip(some.one, some.other, some.share, strict=True)
    }
    for home in by_cluster.values():
        assert all((one, other) in shares for k, one in enumerate(home) for other in home[k + 1 :])


@pytest.mark.parametrize("least", [1e-9, 0.2, 0.4, 0.6, 0.8, 1.0])
def test_pairs_that_are_found_by_their_rarest_words_are_all_there_are(least: float) -> None:
    rng = random.Random(9)
    rows = [
        {"prompt": " ".join(str(rng.randrange(12)) for _ in range(rng.randrange(9)))}
        | ({"answer": rng.choice("xyz")} if k % 4 else {})
        for k in range(300)
    ]
    compared = Compared([wording_of(row) for row in rows])
    both = (compared._said @ compared._said.T).toarray()
    share = both / np.maximum(1, compared._sizes[:, None] + compared._sizes - both)
    for same_answer in (False, True):
        alike_ = (share >= least - 1e-12) & (both > 0)
        if same_answer:
            alike_ &= compared.answers[:, None] == compared.answers
        found = {
            (one, other)
            for some in compared.pairs(least, same_answer=same_answer)
            for one, other in zip(some.one.tolist(), some.other.tolist(), strict=True)
        }
        assert found == {(one, other) for one, other in np.argwhere(alike_).tolist() if one < other}


def test_copies_and_wordings_of_records_in_a_template_are_still_found() -> None:
    rows = [*templates.queries(300), *templates.queries(300, polite=True)]
    found = united(items(rows), DEFAULT)
    assert [item.cluster for item in found[:300]] == [item.cluster for item in found[300:]]


def test_a_passage_with_several_questions_is_one_cluster() -> None:
    passages = [" ".join(f"w{rng}x{k}" for k in range(80)) for rng in range(20)]
    rows = [
        {"prompt": f"{text} Which is {n}?", "answer": f"{k} {n}"}
        for k, text in enumerate(passages)
        for n in range(9)
    ]
    assert sizes(rows) == [9] * 20


def test_of_a_cluster_that_chains_the_rule_is_told_with_two_records_and_their_overlap() -> None:
    rows = templates.queries(400, answer=False)
    found = united(items(rows), DEFAULT)
    chain = find_chain(found, DEFAULT)
    assert chain is not None and chain.rule == "no known answer" and chain.least == DEFAULT
    assert chain.link_share >= DEFAULT > chain.ends_share
    said, place = [wording_of(row) for row in rows], {item.id: k for k, item in enumerate(found)}
    for (one, other), share in ((chain.link, chain.link_share), (chain.ends, chain.ends_share)):
        assert found[place[one]].cluster == found[place[other]].cluster
        pairs = {
            (a, b): each
            for many in alike(said, 0.01)
            for a, b, each in zip(many.one.tolist(), many.other.tolist(), many.share.tolist(), strict=True)
        }
        assert pairs.get((*sorted((place[one], place[other])),), 0.0) == pytest.approx(share)
    assert find_chain(united(items(worded(works(), 8)), DEFAULT), DEFAULT) is None


def test_the_shipped_held_out_jobs_are_64_clusters_and_its_scenarios_are_all_apart() -> None:
    jobs = shop("heldout")
    assert len(sizes(jobs)) == 64
    assert len(sizes([{**row, "family": None} for row in jobs])) >= 0.97 * len(jobs)
    lines = (house.ROOT / "data/collider/heldout.jsonl").read_text(encoding="utf-8").split("\n")
    assert sizes([json.loads(line) for line in lines if line]) == [1] * 512


def test_families_that_say_the_same_are_one_and_a_chance_pair_of_many_unites_none() -> None:
    orders = _orders(60)
    two = [{**row, "family": "a"} for row in orders[:30]]
    copies = [{**row, "family": "b", "context": f"Hello! {row['context']}"} for row in orders[:20]]
    other = [{**row, "family": "b"} for row in orders[30:40]]
    assert len(sizes([*two, *copies, *other])) == 1
    assert len(sizes([*two, *copies[:3], *other])) == 2


def test_a_world_that_differs_in_far_digits_only_is_the_same_world() -> None:
    worlds = [{"truth": {"mass": 125.09 * k, "spin": 0, "shift": [0.01 * k, -0.02]}} for k in (1, 2, 3)]
    near = [{"truth": {**w["truth"], "mass": w["truth"]["mass"] * (1 + 1e-9)}} for w in worlds]
    assert sizes([*worlds, *near]) == [2, 2, 2]


def test_clusters_do_not_depend_on_the_order_of_the_records() -> None:
    rows = items([*worded(works(), 8), *shop("heldout")[:100]])
    mixed = random.Random(0).sample(rows, len(rows))

    def groups(found: Sequence[Item]) -> set[frozenset[str]]:
        homes: defaultdict[str, set[str]] = defaultdict(set)
        for item in found:
            homes[item.cluster].add(item.id)
        return {frozenset(ids) for ids in homes.values()}

    assert groups(united(rows, DEFAULT)) == groups(united(mixed, DEFAULT))


def test_an_item_of_no_record_stays_in_the_cluster_of_its_task() -> None:
    plain = [
        Item("a", "one", {}, None, None),
        Item("b", "one", {}, None, None),
        Item("c", "two", {}, None, None),
    ]
    assert united(plain, DEFAULT) == plain and united([], DEFAULT) == []


@pytest.mark.long
def test_ten_thousand_records_are_compared_in_seconds() -> None:
    rows = [*_orders(5000), *worded(works(), 625)]
    started = time.perf_counter()
    assert len(sizes(rows)) > 4000
    assert time.perf_counter() - started < 20


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ship 3 lamps to Oslo.", "please SHIP 3 lamps, to Oslo!"),
        ("Ship 3 lamps to Oslo.", "Hello, could you kindly ship 3 lamps to Oslo? Thank you very much."),
        ("Ship 3 lamps to Oslo.", "Ship 3.000000001 lamps to Os\u200blo"),
        ("Pay 1250 euro", "Pay 1,250.00 euro"),
        ("Pay 3.5 euro", "Pay 3,5000000001 euro"),
        ("Caf\u00e9 open", "Cafe\u0301 OPEN"),
    ],
)
def test_filler_words_and_far_digits_are_no_other_words(one: str, other: str) -> None:
    assert essential_words(one) == essential_words(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ship 3 lamps", "Ship 4 lamps"),
        ("order 1234567", "order 1234568"),
        ("from Oslo to Rome", "from Rome to Oslo"),
        ("version 3.1.4", "version 3.1.5"),
        ("pay 3.51", "pay 3.52"),
    ],
)
def test_other_values_are_other_words(one: str, other: str) -> None:
    assert essential_words(one) != essential_words(other)


def test_a_text_of_nothing_but_politeness_keeps_it() -> None:
    assert essential_words("Thank you!") and essence({"a": ["Please", None, True, 0]}) == {
        "a": ["please", None, True, "0"]
    }


def test_the_share_is_that_of_jaccard() -> None:
    rows = [
        {"prompt": "alpha beta gamma"},
        {"prompt": "alpha beta delta"},
        *({"prompt": f"{k}"} for k in range(9)),
    ]
    pairs = [found for found in alike([wording_of(row) for row in rows], 0.1) if len(found.one)]
    # alpha, beta and "alpha beta" of these three and two more words and pairs on each side
    assert [each.share.tolist() for each in pairs] == [[pytest.approx(3 / 7)]]
