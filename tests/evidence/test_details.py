"""What a reader is told beside the verdict: reliability, who answered, what collapsed, what broke, and
for whom it helped."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np
import pytest

from assay.core.records import Episode
from assay.core.seeds import rng
from assay.verdict.evidence.details.details import Details, details_of
from assay.verdict.evidence.details.tables import detail_notes, detail_tables
from assay.verdict.evidence.words.remarks import remark
from assay.verdict.statistics.power import planned_power
from conftest import codes
from synthetic_episodes import arm, episode

Right = Callable[[int, int], bool]


def played(right: Right, *, items: int = 60, draws: int = 4, size: int = 1, **changes: Any) -> list[Episode]:
    """Return an arm in which `right` decides by item and draw; `size` items make a cluster."""
    made = [
        episode(item, draw, success=right(item, draw), cluster=item // size)
        for item in range(items)
        for draw in range(draws)
    ]
    return [each.model_copy(update=changes) for each in made]


def found(before: list[Episode], after: list[Episode]) -> Details:
    greedy = [[each for each in one if each.draw == 0] for one in (before, after)]
    return details_of(before, after, (greedy[0], greedy[1]))


@pytest.fixture(scope="module")
def usual() -> Details:
    return found(arm("base", 0.35, clusters=40), arm("good", 0.7, clusters=40))


def test_success_in_k_draws_is_what_every_choice_of_k_draws_gives(usual: Details) -> None:
    before = arm("base", 0.35, clusters=40)
    wins: dict[str, int] = {}
    for each in before:
        wins[each.item_id] = wins.get(each.item_id, 0) + each.success
    at = {each.k: each for each in usual.at_k}
    assert sorted(at) == [1, 2, 3, 4]
    for k, each in at.items():
        none = np.mean([comb(4 - c, k) / comb(4, k) for c in wins.values()])
        every = np.mean([comb(c, k) / comb(4, k) for c in wins.values()])
        assert each.any_right.before == pytest.approx(1 - none)
        assert each.all_right.before == pytest.approx(every)
        assert each.any_right.difference.low < each.any_right.difference.value  # type: ignore[operator]
    assert at[1].any_right == at[1].any_right and at[4].all_right.before < at[1].all_right.before  # type: ignore[operator]


def test_one_draw_in_both_arms_tells_of_one_draw_alone() -> None:
    one = found(played(lambda i, d: i % 3 == 0, draws=1), played(lambda i, d: i % 2 == 0, draws=1))
    assert [each.k for each in one.at_k] == [1] and one.by_base_success == {}
    assert (one.components.draws, one.components.items, one.components.without_luck) == (None, None, None)


def test_a_flag_that_fewer_answers_name_is_shown_with_the_share_and_with_silence_as_wrong() -> None:
    """Right in half of the cases in which it is named; named in all before, in one of ten after."""
    before = played(lambda i, d: True, flags={"found": True})
    after = played(lambda i, d: True, flags={"found": True})
    before = [e.model_copy(update={"flags": {"found": True, "spin": e.draw % 2 == 0}}) for e in before]
    after = [
        e.model_copy(
            update={
                "flags": {"found": True, "spin": e.draw % 2 == 0 if int(e.item_id[-2:]) % 10 == 0 else None}
            }
        )
        for e in after
    ]
    (told,) = found(before, after).conditional
    assert (told.flag, told.among) == ("spin", "found")
    assert told.answered_before == 1.0 and told.answered_after == pytest.approx(0.1)
    assert told.of_those_who_answered.difference.value == 0.0
    assert told.silence_is_wrong.difference.value == pytest.approx(-0.45)
    (said,) = detail_notes(found(before, after))
    assert said.code == "answered_only" and (said.values["before"], said.values["after"]) == (1.0, 0.1)
    assert "\u221245.0" in str(said)


def test_a_flag_that_hangs_on_another_answer_is_seen_over_all_items_where_it_may_be_asked() -> None:
    """`signal` is the item's; `spin` is asked of who names a channel. After training fewer do."""

    def naming(below: int) -> list[Episode]:
        flags = [
            {
                "signal": True if i % 2 else None,
                "channel": True if i % 2 and i % 10 < below else None,
                "spin": True if i % 2 and i % 10 < below else None,
            }
            for i in range(100)
        ]
        one = played(lambda i, d: True)
        return [e.model_copy(update={"flags": flags[int(e.item_id[-2:])]}) for e in one]

    by_name = {each.flag: each for each in found(naming(8), naming(4)).conditional}
    assert by_name.keys() == {"channel", "spin"}
    for told in by_name.values():
        assert told.among == "signal"
        assert (told.answered_before, told.answered_after) == pytest.approx((0.8, 0.4))
        # The tenth of items that nobody names in either arm is among them.
        n_signal = len({e.item_id for e in naming(8) if e.flags["signal"]})
        assert told.silence_is_wrong.difference.n == n_signal
        assert told.silence_is_wrong.difference.value == pytest.approx(-0.4)
        assert told.of_those_who_answered.difference.value == 0.0


def test_a_flag_that_the_item_decides_is_no_matter_of_who_answered(usual: Details) -> None:
    one = played(lambda i, d: True)
    half = [e.model_copy(update={"flags": {"power": True if int(e.item_id[-2:]) % 2 else None}}) for e in one]
    assert found(half, half).conditional == ()


@pytest.mark.parametrize(
    ("was", "share", "told"), [("varied", 0.98, True), ("constant", 0.98, False), ("varied", 0.6, False)]
)
def test_what_is_nearly_constant_after_training_and_was_not_before_is_said(
    was: str, share: float, told: bool
) -> None:
    luck = rng("collapse", was, share)

    def with_confidence(value: Callable[[], float]) -> list[Episode]:
        return [e.model_copy(update={"metrics": {"confidence": value()}}) for e in played(lambda i, d: True)]

    before = with_confidence(lambda: round(luck.random(), 1) if was == "varied" else 0.5)
    after = with_confidence(lambda: 0.5 if luck.random() < share else round(luck.random(), 1))
    details = found(before, after)
    assert [each.name for each in details.collapsed] == (["confidence"] if told else [])
    assert ("collapsed" in codes(detail_notes(details))) is told


def test_a_field_of_the_answer_that_collapsed_is_said_too() -> None:
    def saying(city: Callable[[Episode], str]) -> list[Episode]:
        made = played(lambda i, d: True)
        return [
            e.model_copy(
                update={
                    "turns": (
                        *e.turns[:-1],
                        e.turns[-1].model_copy(update={"action": f'{{"city": "{city(e)}"}}'}),
                    )
                }
            )
            for e in made
        ]

    details = found(saying(lambda e: e.item_id[-1]), saying(lambda e: "Rome"))
    assert [(each.name, each.value) for each in details.collapsed] == [("field city", '"Rome"')]


def test_items_broken_by_the_training_are_named_with_the_lines_of_their_episodes() -> None:
    before = played(lambda i, d: i < 30, items=40)
    after = played(lambda i, d: i >= 2, items=40)
    details = found(before, after)
    assert len(details.broken) == 2 and details.fixed == 10
    for each in details.broken:
        assert {before[line - 1].item_id for line in each.lines_before} == {each.item_id}
        assert len(each.lines_after) == 4
    assert detail_notes(details)[-1] == remark("items_broken", n=2, fixed=10)


def test_luck_alone_is_no_gain_for_hard_items() -> None:
    """The same policy twice: sorted by the draws that measure, items that never succeeded would all gain."""
    luck = rng("regression")
    one, other = (
        [
            e.model_copy(update={"success": bool(luck.random() < 0.3)})
            for e in played(lambda i, d: True, items=400)
        ]
        for _ in range(2)
    )
    bins = found(one, other).by_base_success
    assert list(bins) == ["0 of 2 right", "1 of 2 right", "2 of 2 right"]
    for each in bins.values():
        assert each.difference.low is not None and each.difference.high is not None
        assert each.difference.low < 0 < each.difference.high and abs(each.difference.value or 0) < 0.08


@pytest.mark.long
def test_variance_components_are_found_again() -> None:
    luck, clusters, size, draws = rng("components"), 300, 4, 8
    gains = luck.choice([-0.15, 0.15], clusters)
    items = luck.choice([-0.1, 0.1], (clusters, size))
    rate = 0.5 + gains[:, None] + items
    before = played(lambda i, d: bool(luck.random() < 0.5), items=clusters * size, draws=draws, size=size)
    after = played(
        lambda i, d: bool(luck.random() < rate[i // size, i % size]),
        items=clusters * size,
        draws=draws,
        size=size,
    )
    got = found(before, after).components
    assert got.clusters == pytest.approx(15, abs=2.5) and got.items == pytest.approx(10, abs=3)
    assert got.draws == pytest.approx(100 * (2 * 0.24 / draws) ** 0.5, abs=1.5)
    assert got.without_luck is not None and got.standard_error is not None
    assert 0 < got.without_luck < got.standard_error


def test_the_tables_show_every_detail_and_those_with_nothing_to_show_are_left_out(usual: Details) -> None:
    planned = planned_power(arm("base", 0.35, clusters=40), "s", 4, primary="success", alpha=0.05)
    tables = detail_tables(usual, planned, "scenarios")
    assert "Success in k draws and with greedy decoding" in tables and all(
        len(each) for each in tables.values()
    )
    reliable = tables["Success in k draws and with greedy decoding"]
    assert list(reliable["success"])[-1] == "greedy decoding" and len(reliable) == 8
    nothing = found(played(lambda i, d: True), played(lambda i, d: True))
    assert not any(
        caption.startswith("Items broken") for caption in detail_tables(nothing, planned, "scenarios")
    )
    assert detail_notes(nothing) == []


def test_details_survive_json(usual: Details) -> None:
    assert Details.model_validate_json(usual.model_dump_json()) == usual
