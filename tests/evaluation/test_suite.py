"""A suite's digest is another for another task, other records, other rules of grading; equal ones are graded
alike."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from assay.core.config.settings import GenerationSettings
from assay.core.config.tasks import every_task, settings_class
from assay.rollout.dataset.suite import SAMPLING_AGAIN, Suite, choose, rules_of
from assay.rollout.tasks.protocol import Item
from tests.composed import composed
from tests.house import ROOT

SETTINGS: TypeAdapter[Any] = TypeAdapter(every_task())
GENERATION = GenerationSettings.model_validate(composed("tiny")["generation"])


def values(task: str) -> Any:
    return composed("tiny", task)["task"]


def rules(task: str, **changes: Any) -> str:
    return rules_of(SETTINGS.validate_python(values(task) | changes), GENERATION, None)


def items(*pairs: tuple[str, str]) -> tuple[Item, ...]:
    return tuple(Item(name, name, {}, None, None, record=record) for name, record in pairs)


SUITES = st.builds(
    Suite,
    split=st.sampled_from(["heldout", "validation"]),
    items=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy")), max_size=2).map(
        lambda pairs: items(*pairs)
    ),
    draws=st.integers(1, 2),
    seed=st.integers(0, 1),
    rules=st.sampled_from(["", "r", "s"]),
)


@given(SUITES, SUITES)
def test_suites_share_a_digest_only_if_they_are_one(one: Suite, other: Suite) -> None:
    assert (one.digest == other.digest) is (one == other)


def test_items_of_equal_ids_and_other_records_make_another_suite() -> None:
    one, other = (Suite("heldout", items(("r1", record)), 1, 0, "rules") for record in ("gold a", "gold b"))
    assert one.digest != other.digest


def test_two_tasks_never_share_rules_and_every_setting_of_play_or_grading_counts() -> None:
    assert rules("collider") != rules("structured")
    others: dict[str, dict[str, Any]] = {
        "collider": {
            "max_turns": 7,
            "shaping": 0.5,
            "gamma": 0.5,
            "max_new_tokens": {"compact": 9, "json": 256},
        },
        "structured": {
            "lessons": None,
            "strata": [],
            "max_new_tokens": {"compact": 25, "json": 160},
            "max_prompt_chars": 1,
            "max_prompt_tokens": 1,
            "truncate_prompts": True,
            "extracted_share": 0.5,
            "blocklist": "terms.txt",
            "weights": values("structured")["weights"] | {"exact": 0.4},
            "reject_blocklisted": True,
            "grade": ["city"],
            "number_tolerance": {"relative": 0.01, "absolute": 0.5},
            "whitespace": "keep",
            "cut": ["think"],
        },
    }
    for task, changes in others.items():
        assert {*changes, "name", "code"} == {*values(task)}, "every setting is tried"
        for name, value in changes.items():
            assert (rules(task, **{name: value}) == rules(task)) is (
                name in settings_class(task).not_measured
            ), name


def test_surface_and_blocked_terms_belong_to_the_rules() -> None:
    task = SETTINGS.validate_python(values("structured"))
    spoken = [GENERATION.model_copy(update={"surface": surface}) for surface in ("compact", "json")]
    made = {rules_of(task, generation, terms) for generation in spoken for terms in (None, "a", "b")}
    assert len(made) == 6


def test_a_temperature_other_than_1_belongs_to_the_rules_whatever_that_of_rollouts() -> None:
    task = SETTINGS.validate_python(values("collider"))
    made = [
        rules_of(
            task, GENERATION.model_copy(update={"temperature": hot, "evaluation_temperature": cool}), None
        )
        for hot, cool in ((1.0, None), (1.2, 1.0), (0.7, None), (1.0, 0.7), (0.9, 0.7), (1.0, 0.3))
    ]
    assert made[0] == made[1] and made[2] == made[3] == made[4] and len(set(made)) == 3


def test_choosing_keeps_rules_and_records_in_the_order_of_the_file() -> None:
    all_items = items(("a", "1"), ("b", "2"), ("c", "3"))
    suite = choose(all_items, 3, split="heldout", draws=1, seed=0, rules="r")
    assert suite.contents == ("1", "2", "3") and suite.rules == "r"
    assert replace(suite, draws=2).digest != suite.digest


def test_the_second_time_of_the_base_meets_the_same_worlds_with_other_draws_and_is_another_suite() -> None:
    suite = choose(items(("a", "1"), ("b", "2")), 2, split="heldout", draws=2, seed=0)
    again = replace(suite, sampling=SAMPLING_AGAIN)
    pairs = list(zip(suite.plays(), again.plays(), strict=True))
    assert all(
        (one.item, one.draw, one.world_seed) == (two.item, two.draw, two.world_seed) for one, two in pairs
    )
    assert not {one.seed for one, _ in pairs} & {two.seed for _, two in pairs}
    assert suite.digest != again.digest and suite.contents == again.contents


@pytest.mark.parametrize("n", [24, 64, 100, 256, 511])
def test_a_part_of_the_held_out_file_holds_every_kind_and_tier_within_one_item_of_its_share(n: int) -> None:
    rows = [json.loads(line) for line in (ROOT / "data/collider/heldout.jsonl").read_text().splitlines()]
    whole = [
        Item(row["id"], row["id"], {"kind": row["kind"], "tier": row["tier"]}, None, None) for row in rows
    ]
    part = choose(whole, n, split="heldout", draws=2, seed=0)
    of_whole, of_part = (
        Counter(tuple(item.strata.values()) for item in each) for each in (whole, part.items)
    )
    assert len(part.items) == n and len(of_whole) == 6
    assert all(abs(of_part[cell] - n * count / len(whole)) <= 1 for cell, count in of_whole.items())


@pytest.mark.parametrize("preset", sorted(path.stem for path in (ROOT / "configs/grpo").glob("[!_]*.yaml")))
def test_presets_spend_their_episodes_on_items_and_not_on_further_draws_of_them(preset: str) -> None:
    """Two draws of twice the items tell more than four: the luck of a draw is shared out, items are not."""
    assert composed(preset)["evaluation"]["draws"] == 2
