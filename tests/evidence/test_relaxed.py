"""Whatever is set looser than the shipped presets have it is named in the claim, by name and value."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from tests.composed import composed
from tests.house import ROOT

from assay.core.config.health import HealthSettings
from assay.core.config.reading import parse_params
from assay.core.config.settings import Gates, Params
from assay.core.config.training import ExternalTraining
from assay.verdict.evidence.claim.relaxed import CHOICES, NUMBERS, looser_limits, other_measuring, relaxed
from assay.verdict.evidence.words.remarks import remark

PRESETS = sorted(path.stem for path in (ROOT / "configs/grpo").glob("[!_]*.yaml") if "smoke" not in path.stem)


def changed(name: str, value: Any) -> Params:
    values = composed("tiny")
    *folders, last = name.split(".")
    place = values
    for folder in folders:
        place = place[folder]
    place[last] = value
    return parse_params(values)


def numbers(model: type[BaseModel], prefix: str) -> set[str]:
    found = set()
    for name, field in model.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= numbers(kind, f"{prefix}{name}.")
        elif kind in (int, float):
            found.add(f"{prefix}{name}")
    return found


def test_every_number_among_the_alarms_and_the_gates_is_judged() -> None:
    asked = numbers(HealthSettings, "health.") | numbers(Gates, "base.gates.")
    assert len(asked) > 60
    assert asked == {name for name in NUMBERS if name.startswith(("health.", "base."))}


@pytest.mark.parametrize("grpo", PRESETS)
@pytest.mark.parametrize("task", sorted(path.stem for path in (ROOT / "configs/task").glob("*.yaml")))
def test_no_shipped_preset_is_looser_than_usual_but_where_it_is_meant(grpo: str, task: str) -> None:
    # A field of few jobs is judged over more steps there, and every claim says so.
    told: dict[str, Any] = {}
    if grpo in ("tiny", "tiny_json") and task == "structured":
        told["health.top_share_window"] = (10, 50)
    if grpo == "tiny_json":
        told["base.gates.copy_accuracy"] = (0.95, 0.8)
    assert relaxed(parse_params(composed(grpo, task))) == told


@pytest.mark.long
def test_the_usual_value_of_each_number_is_one_that_a_preset_has() -> None:
    def value(values: Any, name: str) -> Any:
        for step in name.split("."):
            values = values.get(step, {})
        return values

    known = [composed(grpo) for grpo in PRESETS]
    for name, (usual, _) in NUMBERS.items():
        assert usual in [value(values, name) for values in known], name


BEYOND = {"above": lambda usual: usual * 2, "below": lambda usual: usual / 2}


@pytest.mark.parametrize("name", [name for name, (_, looser) in NUMBERS.items() if looser != "neither"])
def test_a_looser_number_is_named_with_both_values(name: str) -> None:
    usual, looser = NUMBERS[name]
    value = BEYOND[looser](usual)
    params = changed_freely(name, int(value) if name.endswith(("_for", "episodes", "steps")) else value)
    assert relaxed(params) == {name: (usual, value)}
    found = looser_limits(params)[0]
    assert str(found) == f"Looser than usual: {name} {value:g} (usually {usual:g})."


def changed_freely(name: str, value: Any) -> Params:
    """Return settings with a value that reading might refuse for its order beside another one."""
    *folders, last = name.split(".")
    params: Any = parse_params(composed("tiny"))
    chain = [params]
    for folder in folders:
        chain.append(getattr(chain[-1], folder))
    new = value
    for model, field in zip(reversed(chain), [last, *reversed(folders)], strict=True):
        new = model.model_copy(update={field: new})
    assert isinstance(new, Params)
    return new


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("deterministic", False),
        ("health.preflight", False),
        ("health.on_non_finite", "skip"),
        ("dataset.audit.unreadable", "drop"),
        ("dataset.audit.conflicting_gold", "keep"),
        ("dataset.audit.gold_breaks_schema", "drop"),
        ("dataset.audit.long_prompt", "keep"),
    ],
)
def test_a_relaxed_choice_is_named(name: str, value: Any) -> None:
    assert name in CHOICES
    assert list(relaxed(changed(name, value))) == [name]


def test_nothing_relaxed_says_nothing_and_the_smoke_test_is_named_for_what_it_is() -> None:
    assert looser_limits(parse_params(composed("tiny"))) == []
    assert "base.gates.copy_accuracy" in relaxed(parse_params(composed("tiny_smoke")))


def test_the_temperature_of_evaluations_is_named_in_the_claim_where_it_is_not_1() -> None:
    cooler = changed("generation.evaluation_temperature", 0.7)
    assert other_measuring(cooler) == [remark("cooler", measured=0.7, trained=1.0)]
    for same in (None, 1.0):
        assert other_measuring(changed("generation.evaluation_temperature", same)) == []
    elsewhere = changed("generation.evaluation_temperature", 0.7).model_copy(
        update={"train": ExternalTraining.model_construct(kind="external")}
    )
    assert other_measuring(elsewhere) == [remark("cooler", measured=0.7, trained=None)]


def test_what_is_cut_off_before_grading_is_said() -> None:
    wanted = remark("cut_before_grading", cut=["think", "fence"])
    assert wanted in other_measuring(changed("task.cut", ["think", "fence"]))
    assert wanted not in other_measuring(changed("task.cut", []))
