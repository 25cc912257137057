"""What the collider shows of an episode: what the player had in hand, and what the judge says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from assay.core.seeds import derive_seed, rng
from assay.rollout.tasks.protocol import Item, illustrated
from assay_tasks.collider import Collider
from assay_tasks.collider.illustrations import FALSE, FOUND, MISPLACED, MISSED, UNPROVEN
from assay_tasks.collider.world.simulator import ColliderState


def played(task: Collider, item: Item, texts: Sequence[str]) -> list[ColliderState]:
    states = [task.start(item, derive_seed("world", item.id))[1]]
    for text in texts:
        states.append(task.step(states[-1], text).state)
    return states


def by_player(task: Collider, item: Item, name: str) -> list[ColliderState]:
    states: list[Any] = [task.start(item, derive_seed("world", item.id))[1]]
    chance = rng("illustrated", item.id)
    while states[-1].ending is None:
        states.append(task.step(states[-1], task.baselines()[name](item, states[-1], chance)).state)
    return states


def test_the_collider_offers_pictures() -> None:
    assert illustrated(Collider.__new__(Collider)) is not None


@pytest.mark.parametrize("player", ["random", "adaptive", "oracle_channel", "always_null"])
def test_marks_say_what_the_judge_says(compact: Collider, items: list[Item], player: str) -> None:
    for item in items[:120]:
        states = by_player(compact, item, player)
        verdict, mark = compact.judge(states[-1]), compact.mark(states)
        signal, claimed = item.strata["kind"] == "signal", states[-1].ending == "claim"
        if mark is None:
            assert not signal and not claimed
            continue
        assert (mark.kind == FOUND) == (verdict.success and claimed)
        assert (mark.kind == FALSE) == bool(verdict.flags["false_claim"])
        assert (mark.kind == MISSED) == (signal and not claimed)
        right = bool(verdict.flags["channel_correct"] and verdict.flags["mass_correct"])
        assert (mark.kind in (FOUND, UNPROVEN)) == right
        assert (mark.kind == MISPLACED) == (signal and claimed and not right)
        if claimed:
            assert mark.y == verdict.metrics["local_z"]


@pytest.mark.parametrize("player", ["random", "adaptive"])
def test_what_was_spent_adds_up_and_its_names_are_those_of_the_world(
    compact: Collider, items: list[Item], player: str
) -> None:
    names: dict[str, set[tuple[str, ...]]] = {}
    for item in items[:60]:
        states = by_player(compact, item, player)
        spent = compact.spent(states)
        assert [round(sum(shares.values()), 9) for shares in spent.values()] == [1.0, 1.0]
        (blocks, shares), (_, turns) = spent.items()
        assert 10 * (1 - shares["not spent"]) == pytest.approx(
            states[-1].briefing.budget_blocks - states[-1].blocks_left
        )
        assert turns["verdict"] == (states[-1].verdict is not None) / 8
        names.setdefault(blocks, set()).add(tuple(shares))
    assert len(names) == 2 and all(len(found) == 1 for found in names.values())


def test_pictures_hold_the_counts_in_hand_the_window_of_the_claim_and_the_truth(
    compact: Collider, items: list[Item]
) -> None:
    item = next(i for i in items if i.hidden.truth.channel == "dimuon")
    states = played(compact, item, ["rg2", "rm4", "km", "s", "oops", "rg9", f"ymb{10:02d}1c7"])
    pictures = compact.pictures(states)
    assert [each.said.split(":")[0] for each in pictures] == [
        "",
        "takes 2 blocks of diphoton",
        "takes 4 blocks of dimuon",
        "calibrates dimuon",
        "scans",
        "cannot be read",
        "is refused",
        pictures[-1].said,
    ]
    assert pictures[-1].said.startswith("claims dimuon, ") and pictures[-1].said.endswith(
        "spin 1, confidence 0.7"
    )
    for state, picture in zip(states, pictures, strict=True):
        for data, panel in zip(state.data, picture.panels, strict=True):
            assert sum(panel.measured) == data.histogram().sum()
            assert len(panel.edges) == len(panel.measured) + 1 == len(panel.expected) + 1
    last = {panel.name.partition(",")[0]: panel for panel in pictures[-1].panels}
    assert last["dimuon"].name == "dimuon, 4 blocks, calibrated"
    assert last["dimuon"].right == item.hidden.truth.mass_gev
    assert [name for name, panel in last.items() if panel.right is not None] == ["dimuon"]
    claim = states[-1].verdict
    assert claim is not None and last["dimuon"].named is not None
    assert np.mean(last["dimuon"].named) == pytest.approx(claim.mass_gev)
    assert all(panel.named is None for each in pictures[:-1] for panel in each.panels)
