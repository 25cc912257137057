"""Rows and suites: strict reading, balanced tiers, hidden truths of the promised strength, no answer in an
id."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any

import pytest

from assay.core.errors import TaskError
from assay.tasks.collider import Collider, generate
from assay.tasks.collider.world import physics
from assay.tasks.collider.world.generation import RECIPES, STRENGTH_Z
from assay.tasks.collider.world.scenario import content_id, from_row

ROWS = generate("heldout", 300, max_turns=8, labels=("scenarios",))


def test_rows_survive_json_and_are_in_canonical_order() -> None:
    again = json.loads(json.dumps(ROWS))
    assert again == ROWS and [row["id"] for row in ROWS] == sorted(row["id"] for row in ROWS)
    assert [from_row(row).id for row in again] == [row["id"] for row in ROWS]


def test_equal_labels_give_equal_rows_and_other_suites_share_none() -> None:
    assert generate("heldout", 300, max_turns=8, labels=("scenarios",)) == ROWS
    suites = [generate(name, 60, max_turns=8, labels=("scenarios",)) for name in RECIPES]
    ids = [row["id"] for rows in suites for row in rows]
    assert len(set(ids)) == len(ids)


def test_the_tiers_are_balanced_and_about_a_third_of_the_worlds_are_null() -> None:
    assert set(Counter(row["tier"] for row in ROWS).values()) == {100}
    assert 0.2 < sum(row["kind"] == "null" for row in ROWS) / len(ROWS) < 0.4


def test_the_strength_of_a_signal_is_in_the_range_of_its_tier() -> None:
    for row in ROWS:
        scenario = from_row(row)
        truth, m0_gev = scenario.truth, scenario.briefing.m0_gev
        if truth.channel is None:
            continue
        place = physics.NAMES.index(truth.channel)
        width, centre = int(physics.window_width(place, m0_gev)), int(physics.bin_of(m0_gev, truth.mass_gev))
        sigma = (float(physics.resolution(place, truth.mass_gev)) ** 2 + truth.natural_width**2) ** 0.5
        shape = physics.peak_shape(m0_gev, truth.mass_gev, sigma) * truth.signal_events
        z = physics.asimov_z(
            *(physics.window_sums(x, width)[centre] for x in (shape, physics.background(place)))
        )
        low, high = STRENGTH_Z[scenario.tier]
        assert low - 0.01 <= float(z) <= high + 0.01


def test_the_unfamiliar_suite_has_an_unseen_octave_and_one_more_channel() -> None:
    for row in generate("heldout_ood", 30, max_turns=8, labels=("o",)):
        assert row["briefing"]["m0_gev"] >= 3500.0
        assert len(row["briefing"]["channels"]) == 5


def test_the_trap_suite_has_a_decoy_of_every_kind() -> None:
    decoys = Counter(
        row["truth"]["decoy"]["kind"] for row in generate("traps", 120, max_turns=8, labels=("t",))
    )
    assert set(decoys) == {"known_peak", "fluctuation", "miscalibrated"} and min(decoys.values()) >= 15


def test_no_photon_pair_ever_comes_from_spin_one() -> None:
    assert all(row["truth"]["spin"] != 1 for row in ROWS if row["truth"]["channel"] == "diphoton")


def _damaged(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    row: dict[str, Any] = copy.deepcopy(next(row for row in ROWS if row["kind"] == "signal"))
    target = row
    for key in path[:-1]:
        target = target[key]
    if value is KeyError:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    if path != ("id",):
        row["id"] = content_id(str(row.get("tier")), str(row.get("kind")), row["briefing"], row["truth"])
    return row


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("id",), "0" * 16),
        (("tier",), "trivial"),
        (("kind",), KeyError),
        (("briefing", "m0_gev"), "100"),
        (("briefing", "m0_gev"), -5.0),
        (("briefing", "channels"), ["dimuon", "diphoton", "dielectron", "four_lepton"]),
        (("briefing", "channels"), []),
        (("briefing", "budget_blocks"), 11),
        (("briefing", "extra"), 1),
        (("truth", "spin"), 3),
        (("truth", "mass_gev"), None),
        (("truth", "mass_gev"), 5e5),
        (("truth", "channel"), "bb"),
        (("truth", "signal_events"), -1.0),
        (("truth", "scale_shifts"), [0.01]),
        (("truth", "background_shifts"), [9.0, 0.0, 0.0, 0.0]),
        (("truth", "decoy"), {"kind": "miscalibrated", "channel": "dimuon", "mass_gev": 3.0, "size": 1.0}),
    ],
)
def test_a_broken_row_names_the_field_that_is_broken(
    path: tuple[str, ...], value: Any, compact: Collider
) -> None:
    with pytest.raises(TaskError) as caught:
        compact.item(_damaged(path, value))
    assert path[-1] in str(caught.value)


def test_a_row_with_numbers_that_are_not_json_is_refused(compact: Collider) -> None:
    row = copy.deepcopy(ROWS[0])
    row["briefing"]["m0_gev"] = float("nan")
    with pytest.raises(TaskError):
        compact.item(row)


def test_an_unknown_suite_is_refused() -> None:
    with pytest.raises(TaskError):
        generate("holdout", 1, max_turns=8, labels=())  # type: ignore[arg-type]
