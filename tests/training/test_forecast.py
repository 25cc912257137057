"""What the doctor forecasts before weights are loaded is what a training then takes, and what it says to
lower is enough."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest
import torch

from assay.checks.doctor.forecast.forecast import (
    BESIDE,
    MEMORY,
    TIME,
    USABLE,
    folder_ahead,
    forecast,
    look_ahead,
    memory_finding,
    time_finding,
    what_to_lower,
)
from assay.checks.doctor.forecast.memory import MemoryForecast, Meter, Scales, scales, weightless
from assay.checks.doctor.forecast.pace import pace
from assay.checks.doctor.forecast.rehearsal import Lengths, Rehearsal, build
from assay.checks.findings import Deadline, TooSlow
from assay.core.config.settings import Params
from assay.rollout.dataset.suite import choose
from assay.training import flat
from assay.training.setup import Setup
from tests.training.forecast_setup import Model, Talk, measured, settings
from tests.training.healthy_setup import rows

SMALL = Lengths(40, 2, 8, 10)


def model(**changes: Any) -> Model:
    return replace(Model("qwen3", 64, 2, "float32", None, False, vocabulary=512, lengths=SMALL), **changes)


def test_a_meter_counts_what_is_alive_and_forgets_what_is_gone() -> None:
    with Meter() as meter:
        kept = torch.zeros(1024)
        before = meter.above()
        gone = kept.repeat(4)
        view = gone[:10]
        assert meter.now - before == 4 * 4096
        del gone
        assert meter.now - before == 4 * 4096, "a view keeps all of it alive"
        del view
        assert meter.now == before == 4096 and meter.peak - before == 4 * 4096


def test_without_weight_numbers_that_decide_are_real_and_the_others_take_no_memory() -> None:
    with weightless() as meter:
        ids = torch.arange(6).view(2, 3)
        large = torch.empty(2**20, 2**12)  # 16 GiB, which nobody has to have
        chosen = large[:3][ids]
        assert ids.amax(dim=1).tolist() == [2, 5] and chosen.shape == (2, 3, 2**12)
        assert meter.peak >= 2**34
        with pytest.raises(Exception, match="scalar"):
            float(large.sum())


def test_the_peak_of_a_real_training_is_within_a_tenth_of_the_forecast(tmp_path: Path) -> None:
    which = model(architecture="gemma2", dtype="bfloat16", quantization="nf4", hidden=128, checkpointing=True)
    params, config = settings(which, steps=1), which.written(tmp_path)
    with scales(config, params, which.lengths) as weighed:
        memory = weighed.memory()
    assert memory.peak == pytest.approx(measured(tmp_path, params, which, metered=True).peak, rel=0.1)


@pytest.mark.parametrize("prompt", [flat.LEAST_SHARED - 1, 2 * flat.LEAST_SHARED])
def test_a_prompt_that_is_read_flat_is_forecast_as_it_is_read(prompt: int, tmp_path: Path) -> None:
    lengths = replace(SMALL, prompt=prompt)
    which = model(checkpointing=True, lengths=lengths)
    params, config = settings(which, items_per_step=1, micro_batch_size=4), which.written(tmp_path)
    with mock.patch.object(flat, "_flat_states", side_effect=flat._flat_states) as passes:
        with scales(config, params, lengths) as weighed:
            forecast = weighed.learn(4)
        step = Rehearsal(build(config, params, "cpu"), params, lengths)
        with Meter() as meter:
            step.learn(4, checkpointing=True)
    assert passes.call_count == (2 if prompt >= flat.LEAST_SHARED else 0)
    # What is still there are the model, whose weights the meter has met, and the gradients
    assert forecast == pytest.approx(meter.peak - meter.now, rel=0.02)


def test_what_is_said_to_be_lowered_makes_it_fit_and_one_more_would_not(tmp_path: Path) -> None:
    which = model(vocabulary=64)
    config, params = which.written(tmp_path), settings(which, items_per_step=4, micro_batch_size=8)
    # What has been weighed once weighs as much when it is asked for again
    once = mock.patch.object(Scales, "learn", functools.cache(Scales.learn))
    with once, scales(config, params, which.lengths) as weighed:
        memory = weighed.memory()
        room = weighed.learn(4) - 4096
        there_is = int((memory.stays + memory.gradient + room + BESIDE["cpu"]) / USABLE)
        told = memory_finding(memory, weighed, which.lengths, params, there_is)
        assert told.level == "warning"
        assert (
            "train.micro_batch_size: 2, or train.gradient_checkpointing: true with train.micro_batch_size: 4"
            in told.fix
        )
        assert weighed.learn(2) <= room  # and room is just below what 4 take
        assert weighed.learn(4, checkpointing=True) <= room < weighed.learn(8, checkpointing=True)


def test_a_base_that_alone_is_too_large_is_a_fault() -> None:
    params, nothing_else = settings(model()), cast(Scales, None)
    told = memory_finding(MemoryForecast(2**33, 0, 0, 0, 1, 1, 1, 1), nothing_else, SMALL, params, 2**33)
    assert told.level == "fault" and "base.quantization: nf4" in told.fix


def test_what_is_sharded_by_another_engine_is_not_held_against_the_device() -> None:
    params, nothing_else = settings(model()), cast(Scales, None)
    other = params.model_copy(
        update={"distributed": params.distributed.model_copy(update={"engine": "fsdp"})}
    )
    told = memory_finding(MemoryForecast(2**33, 0, 0, 0, 1, 1, 1, 1), nothing_else, SMALL, other, 2**33)
    assert told.level == "ok" and "while fsdp may take less or more" in told.found


def test_weighing_ends_at_its_deadline_and_what_it_did_not_come_to_is_named_without_a_value() -> None:
    with pytest.raises(TooSlow), weightless(Deadline(0.0)):
        torch.empty(1)

    class NoTime:
        def play(self, rows: int) -> tuple[int, int]:
            raise TooSlow

        learn = play

    ways = what_to_lower(MemoryForecast(0, 0, 0, 0, 9, 9, 9, 4), cast(Scales, NoTime()), settings(model()), 2)
    assert ways == [
        "lower generation.batch_size (to how many was not weighed: the time was up)",
        "lower train.micro_batch_size (to how many was not weighed: the time was up)",
        "train.kl_probe_episodes: 1",
    ]


def test_a_forecast_needs_configuration_and_tokenizer_and_no_weights(tmp_path: Path) -> None:
    which = model(lengths=replace(SMALL, new=24))
    which.written(tmp_path)
    for file in tmp_path.glob("*.safetensors"):
        file.unlink()
    params: Params = settings(which)
    base = params.base.model_copy(update={"model": str(tmp_path), "revision": None})
    assert folder_ahead(base, Path("/")) == tmp_path
    ahead, items = look_ahead(tmp_path, params), rows(0, 8)
    suite, task = choose(rows(50, 4), 4, split="validation", draws=1, seed=0), Talk(which.lengths)
    state = torch.get_rng_state()
    here = forecast(ahead, Setup(task, task, items, suite, params), Deadline(60.0))
    assert [(one.check, one.level) for one in here] == [(MEMORY, "ok"), (TIME, "ok")]
    assert "s at most (playing" in here[1].found and torch.equal(torch.get_rng_state(), state)
    elsewhere = time_finding(ahead, which.lengths, params, Deadline(60.0), fits=True, elsewhere=True)
    assert elsewhere.found.startswith("missing")
    (late,) = forecast(ahead, Setup(task, task, items, suite, params), Deadline(0.0))
    assert (late.check, late.level) == (MEMORY, "warning") and late.found.startswith("missing")


def test_a_model_too_slow_to_be_timed_has_no_time_and_that_is_said(tmp_path: Path) -> None:
    which = model()
    with pytest.raises(TooSlow, match="one episode of 66 tokens"):
        pace(which.written(tmp_path), settings(which), which.lengths, "cpu", Deadline(0.0))
