"""Rows and suites: strict reading, balanced tiers, hidden truths of the promised strength, no answer in an
id."""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import kstest, poisson

from assay.core.errors import TaskError
from assay.core.storage.json import dumps
from assay_tasks.collider import SUITES, Collider, generate
from assay_tasks.collider.world import noise, physics, spin
from assay_tasks.collider.world.generation import RECIPES, STRENGTH_Z
from assay_tasks.collider.world.scenario import content_id, from_row

COUNTS = st.floats(0.5, 5000.0)


@given(COUNTS, st.floats(0.1, 20.0))
def test_the_solved_signal_has_the_asked_significance(expected: float, z: float) -> None:
    assert float(physics.asimov_z(physics.signal_for_z(z, expected), expected)) == pytest.approx(z, rel=1e-6)


@given(COUNTS, COUNTS)
def test_without_background_uncertainty_the_local_significance_is_the_asimov_formula(
    signal: float, expected: float
) -> None:
    known = float(physics.asimov_z(signal, expected))
    assert float(physics.local_z(signal + expected, expected, 1e-5)) == pytest.approx(
        min(known, 37.0), abs=1e-2, rel=1e-3
    )


@given(COUNTS, st.floats(1.0, 500.0), st.floats(0.005, 0.2))
def test_the_local_significance_is_the_published_formula(
    expected: float, signal: float, relative: float
) -> None:
    # Cowan (2012), eq. 20, written as published.
    s, b, v = signal, expected, (relative * expected) ** 2
    first = (s + b) * np.log((s + b) * (b + v) / (b * b + (s + b) * v))
    second = b * b / v * np.log(1.0 + v * s / (b * (b + v)))
    assert float(physics.local_z(s + b, b, relative)) == pytest.approx(
        min(37.0, np.sqrt(max(0.0, 2.0 * (first - second)))), abs=1e-3, rel=1e-5
    )


@given(COUNTS, st.floats(0.0, 1.0))
def test_a_deficit_has_no_significance(expected: float, share: float) -> None:
    assert float(physics.local_z(expected * share, expected, 0.03)) == 0.0


def test_more_background_uncertainty_never_adds_significance() -> None:
    z = physics.local_z(150.0, 100.0, np.array([0.005, 0.03, 0.1, 0.3]))
    assert (np.diff(z) < 0).all()


def test_the_global_significance_is_below_the_local_one_and_grows_with_it() -> None:
    local = np.linspace(0.0, 20.0, 200)
    overall = physics.global_z(local, 4)
    assert (overall <= local).all() and (np.diff(overall) >= 0).all()
    assert (physics.global_z(local, 1) >= overall).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_on_null_worlds_the_global_p_value_is_not_too_small_and_five_sigma_never_comes(share: float) -> None:
    n = 8000
    chance = np.random.default_rng(20240601)
    best = np.zeros(n)
    for channel in range(4):
        shift = np.clip(chance.normal(0.0, 0.02, (n, 1)), -0.05, 0.05)
        known = physics.background(channel) * share
        counts = chance.poisson(known * (1.0 + shift)).astype(float)
        width = int(physics.window_width(channel, 500.0))
        scan = physics.scan(counts, known, physics.UNCALIBRATED_BACKGROUND, width)
        best = np.maximum(best, scan.max(axis=-1))
    overall = physics.global_z(best, 4)
    for threshold in (1.0, 1.5, 2.0, 3.0):
        p = float(ndtr(-threshold))
        assert np.mean(overall >= threshold) <= p + 3.0 * np.sqrt(p / n)
    assert np.mean(overall >= 5.0) < 1e-3


def test_a_window_is_cut_at_the_ends_of_the_axis() -> None:
    sums = physics.window_sums(np.arange(64.0)[None], 5)[0]
    assert sums[0] == 0 + 1 + 2 and sums[10] == 8 + 9 + 10 + 11 + 12 and sums[63] == 61 + 62 + 63


def test_the_background_falls_and_adds_up() -> None:
    for place, channel in enumerate(physics.CHANNELS):
        assert (np.diff(physics.background(place)) < 0).all()
        assert physics.background(place).sum() == pytest.approx(channel.background_events)


@given(st.floats(50.0, 9000.0), st.integers(0, 63))
def test_a_bin_centre_lies_in_its_bin(m0_gev: float, place: int) -> None:
    assert int(physics.bin_of(m0_gev, physics.bin_centre_gev(m0_gev, place))) == place


def test_the_spin_moments_are_the_integrals_of_their_densities() -> None:
    c = np.linspace(-1.0, 1.0, 200_001)
    for name, j, density in [
        ("dimuon", 0, np.ones_like(c)),
        ("dimuon", 1, 1 + c**2),
        ("diphoton", 2, 1 + 6 * c**2 + c**4),
        ("dimuon", 2, 1 - c**4),
    ]:
        assert spin.moment(name, j) == pytest.approx(np.average(c**2, weights=density), rel=1e-4)


def test_two_photons_are_never_taken_for_spin_one() -> None:
    assert all(spin.favoured(0, value, 0.05)[0] != 1 for value in np.linspace(-1, 2, 61))


def test_the_counts_are_the_quantiles_of_the_poisson_distribution() -> None:
    chance = np.random.default_rng(7)
    mean = np.exp(chance.uniform(np.log(1e-3), np.log(500.0), 100_000))
    uniform = chance.uniform(1e-12, 1.0 - 1e-12, mean.size)
    assert (noise.poisson_counts(uniform, mean) == poisson.ppf(uniform, mean)).all()


def test_few_and_many_entries_give_the_same_counts() -> None:
    chance = np.random.default_rng(8)
    mean, uniform = chance.uniform(0.0, 40.0, (50, 64)), chance.uniform(size=(50, 64))
    whole = noise.poisson_counts(uniform, mean)
    assert all(
        (noise.poisson_counts(uniform[i : i + 1], mean[i : i + 1]) == whole[i]).all() for i in range(50)
    )


def test_noise_depends_on_its_key_alone_and_every_part_of_the_key_matters() -> None:
    base = noise.uniforms([3, 4], "take_data", 1, [0, 2], 64)
    assert (noise.uniforms([4], "take_data", 1, [2], 64)[0] == base[1]).all()
    others = [
        noise.uniforms([5], "take_data", 1, [2], 64),
        noise.uniforms([4], "angles", 1, [2], 64),
        noise.uniforms([4], "take_data", 2, [2], 64),
        noise.uniforms([4], "take_data", 1, [3], 64),
    ]
    assert all(not (other[0] == base[1]).any() for other in others)


def test_noise_is_uniform_along_and_across_keys() -> None:
    values = noise.uniforms(np.arange(2000), "take_data", 0, np.zeros(2000, int), 64)
    assert ((values > 0.0) & (values < 1.0)).all()
    assert kstest(values.ravel(), "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(values[:-1, 0], values[1:, 0])[0, 1]) < 0.1


@given(st.floats(50.0, 9000.0), st.integers(0, 63), st.floats(1e-3, 9e5))
def test_one_number_is_what_an_array_of_them_holds(m0_gev: float, place: int, mass_gev: float) -> None:
    assert physics.centre_gev(m0_gev, place) == physics.bin_centre_gev(m0_gev, np.arange(64))[place]
    assert physics.bin_at(m0_gev, mass_gev) == int(physics.bin_of(m0_gev, np.array([mass_gev]))[0])
    for channel in range(6):
        of_array = physics.resolution(channel, np.array([mass_gev]))[0]
        assert physics.resolution_at(channel, mass_gev) == of_array


def test_one_resolution_is_what_an_array_holds_to_the_last_digit() -> None:
    masses = np.random.default_rng(0).uniform(50, 9000, 50_000)
    of_array = physics.resolution(physics.DIMUON, masses)
    assert [float(physics.resolution(physics.DIMUON, mass)) for mass in masses.tolist()] == of_array.tolist()


def test_one_take_is_what_a_batch_of_takes_holds() -> None:
    for channel, (seed, visit, blocks) in product(range(6), ((7, 0, 1), (7, 1, 4), (2**64 - 1, 2, 10))):
        mean = physics.background(channel) * blocks / 10
        many = noise.poisson(np.array([3, seed], np.uint64), channel, [0, visit], np.stack([mean, mean]))
        assert noise.one_take(seed, channel, visit, mean).tolist() == many[1].tolist()


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


DATA = Path(__file__).resolve().parents[3] / "data" / "collider"


def rows_of(suite: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{suite}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_suites_have_their_sizes() -> None:
    assert SUITES == {"train": 2048, "validation": 256, "heldout": 512, "heldout_ood": 256, "traps": 256}


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_on_disk_is_what_the_code_generates(suite: Any) -> None:
    fresh = generate(suite, SUITES[suite], max_turns=10, labels=("release", 4))
    text = "".join(dumps(row) + "\n" for row in fresh)
    assert (DATA / f"{suite}.jsonl").read_bytes() == text.encode()


def test_the_checksums_are_right_and_name_every_suite() -> None:
    listed = dict(reversed(line.split("  ")) for line in (DATA / "SHA256SUMS").read_text().splitlines())
    assert list(listed) == sorted(f"{suite}.jsonl" for suite in SUITES)
    assert sorted(path.name for path in DATA.glob("*.jsonl")) == list(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == digest, name


def test_the_task_reads_every_row_and_no_scenario_is_in_two_suites(compact: Collider) -> None:
    ids = Counter(compact.item(row).id for suite in SUITES for row in rows_of(suite))
    assert len(ids) == sum(SUITES.values()) and set(ids.values()) == {1}


def test_the_datasheet_states_the_sizes_on_disk() -> None:
    text = (DATA / "README.md").read_text(encoding="utf-8")
    for suite in SUITES:
        rows = rows_of(suite)
        nulls = sum(row["kind"] == "null" for row in rows)
        decoys = sum(row["truth"]["decoy"] is not None for row in rows)
        assert f"| `{suite}` | {len(rows)} | {nulls} | {decoys} |" in text, suite
