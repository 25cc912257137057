"""A reader sees what was run, and for every task what was right."""

from __future__ import annotations

import json
import re

from tests.tasks.structured.material import CALL_GOLD, GOLD, call_row, row, settings

from assay.core.records import Episode, HealthSummary, TrainFacts
from assay.evidence.claim.what_was_run import BaseFacts, base_said, run_frame
from assay.tasks.collider import Collider, ColliderSettings, generate
from assay.tasks.structured import Structured
from conftest import make_report


def test_a_run_is_told_by_task_data_base_training_and_suite(before: list[Episode]) -> None:
    trained = TrainFacts(
        seed=7,
        steps=200,
        chosen_step=150,
        claim_plan_sha256="c" * 64,
        base_digest="b" * 64,
        policy_digest="a" * 64,
        validation_suite="v",
        chain="",
        alarms=(),
        health=HealthSummary.of([]),
    )
    base = BaseFacts.model_validate_json(
        json.dumps({"kind": "scratch", "seed": 3, "digest": "b" * 64, "parsed_rate": 0.9})
    )
    frame = run_frame(
        task="collider",
        data="data/collider",
        dataset_sha256="0123456789abcdef" + "9" * 48,
        base=base,
        trained=trained,
        checkpoint_rule="last",
        before=make_report(before),
        decoding="temperature 1",
    )
    assert dict(zip(frame["what"], frame["value"], strict=True)) == {
        "task": "collider",
        "data": "data/collider, dataset digest 0123456789abcdef",
        "base": "from scratch, seed 3; digest bbbbbbbbbbbb",
        "training": "GRPO, 200 steps, training seed 7",
        "chosen checkpoint": "step 150 of 200, by the rule last",
        "held-out suite": "40 items, 4 draws each",
        "completions": "temperature 1",
    }


def test_a_pretrained_base_is_told_by_model_and_revision() -> None:
    facts = {"kind": "pretrained", "model": "Some/Model", "revision": "abc", "digest": "d" * 64}
    assert (
        base_said(BaseFacts.model_validate(facts))
        == "pretrained, Some/Model; revision abc; digest dddddddddddd"
    )


def test_a_collider_says_its_particle_or_that_there_is_none() -> None:
    task = Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))
    rows = generate("validation", 60, max_turns=8, labels=("tests",))
    items = [task.item(row) for row in rows]
    said = {item.strata["kind"]: task.truth(item) for item in items}
    assert said["null"] == "no particle"
    assert re.fullmatch(r"[a-z_]+, \d+\.\d GeV, spin [012]", said["signal"])
    row = next(row for row in rows if row["kind"] == "signal")
    assert task.truth(task.item(row)).startswith(
        f"{row['truth']['channel']}, {row['truth']['mass_gev']:.1f} GeV"
    )


def test_structured_output_says_its_gold_as_compact_json_or_that_it_has_none() -> None:
    task = Structured(settings())
    said = [task.truth(task.item(row(**changes))) for changes in ({}, {"gold": None})]
    assert said == [json.dumps(GOLD, separators=(",", ":")), "no gold: any valid object counts"]
    assert json.loads(task.truth(task.item(call_row()))) == CALL_GOLD


def test_no_truth_is_told_to_a_policy() -> None:
    task = Structured(settings())
    item = task.item(row(context=None, gold=GOLD | {"vendor": "Unheard"}))
    assert "Unheard" in task.truth(item) and "Unheard" not in json.dumps(task.start(item, 0)[0])
