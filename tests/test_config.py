"""Settings are read strictly: every mistake is refused with its place and what to do about it."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from assay.core.config.composition import preset_values
from assay.core.config.reading import parse_params
from assay.core.config.removed import IN_MESSAGES
from assay.core.config.settings import Params
from assay.core.errors import ConfigError
from assay.core.storage.yaml import read_yaml
from tests.composed import composed

REPOSITORY = Path(__file__).parents[1]
GRPO = sorted((REPOSITORY / "configs" / "grpo").glob("[!_]*.yaml"))
TASKS = sorted((REPOSITORY / "configs" / "task").glob("*.yaml"))


@pytest.fixture
def raw() -> dict[str, Any]:
    """The settings of the default preset."""
    return composed("tiny")


def keys(values: dict[str, Any], prefix: str = "") -> set[str]:
    """Return the dotted keys of nested settings; what a chat template is given is one, whatever its names."""
    found: set[str] = set()
    for name, value in values.items():
        nested = isinstance(value, dict) and name != "template"
        found |= keys(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}"}
    return found


def refusal(raw: dict[str, Any]) -> ConfigError:
    """Return what is said of wrong settings."""
    with pytest.raises(ConfigError) as caught:
        parse_params(raw)
    return caught.value


def test_the_default_preset_is_valid(raw: dict[str, Any]) -> None:
    assert isinstance(parse_params(raw), Params)


@pytest.mark.parametrize("task", TASKS, ids=lambda path: path.stem)
def test_every_task_is_valid_with_every_preset(task: Path) -> None:
    for grpo in GRPO:
        parse_params(composed(grpo.stem, task.stem))


# Which came later than presets were told to be complete, and have a default.
LATER: dict[str, tuple[str, ...]] = {
    "scratch": ("base.bpe_vocabulary",),
    "pretrained": ("base.sha256", "base.warm_start.", "evaluation.rivals.more_sft"),
}


def test_presets_of_one_kind_of_base_have_the_same_keys() -> None:
    by_kind: dict[str, dict[str, set[str]]] = {}
    for path in GRPO:
        values = preset_values(REPOSITORY, "grpo", path.stem)
        by_kind.setdefault(values["base"]["kind"], {})[path.name] = keys(values)
    for kind, presets in by_kind.items():
        first_name, first = next(iter(presets.items()))
        for name, found in presets.items():
            odd = sorted(key for key in found ^ first if not key.startswith(LATER[kind]))
            assert not odd, f"{name} and {first_name} differ in {odd}"


def test_task_presets_share_their_sections() -> None:
    assert {frozenset(read_yaml(path, fix="none")) for path in TASKS} == {frozenset({"task", "dataset"})}


def test_an_unknown_setting_names_the_nearest(raw: dict[str, Any]) -> None:
    raw["train"] = raw["train"] | {"learning_rat": 0.1}
    error = refusal(raw)
    assert error.where == "setting train.learning_rat"
    assert error.fix == "did you mean 'learning_rate'?"


def test_an_unknown_setting_with_no_neighbour_lists_what_is_known(raw: dict[str, Any]) -> None:
    raw["train"] = raw["train"] | {"zzz": 0.1}
    assert "known here" in refusal(raw).fix
    assert "'group_size'" in refusal(raw).fix


def test_an_unknown_setting_of_a_base_does_not_show_the_tag_of_the_union(raw: dict[str, Any]) -> None:
    raw["base"] = raw["base"] | {"gate": 1}
    error = refusal(raw)
    assert error.where == "setting base.gate"
    assert error.fix == "did you mean 'gates'?"


def test_a_missing_setting_is_named(raw: dict[str, Any]) -> None:
    raw["train"] = {name: value for name, value in raw["train"].items() if name != "beta"}
    error = refusal(raw)
    assert (error.where, error.found) == ("setting train.beta", "nothing")
    assert "train.beta" in error.fix


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("train", "steps", "10"),
        ("train", "steps", 10.0),
        ("train", "steps", True),
        ("train", "steps", 0),
        ("train", "group_size", 1),
        ("train", "learning_rate", "1e-6"),
        ("train", "learning_rate", float("nan")),
        ("train", "beta", float("inf")),
        ("train", "beta", -0.1),
        ("train", "loss_type", "ppo"),
        ("train", "gradient_checkpointing", "no"),
        ("generation", "temperature", 0),
        ("evaluation", "draws", 1),
        ("claim", "alpha", 1.0),
        ("task", "name", "chess"),
    ],
)
def test_a_mistyped_or_impossible_value_is_refused_where_it_stands(
    raw: dict[str, Any], section: str, name: str, value: object
) -> None:
    raw[section] = raw[section] | {name: value}
    error = refusal(raw)
    assert error.where == f"setting {section}.{name}"
    assert error.found == ("true" if value is True else repr(value))


def test_evaluations_hotter_than_rollouts_are_refused_since_the_surer_policy_would_look_better(
    raw: dict[str, Any],
) -> None:
    raw["generation"] = raw["generation"] | {"temperature": 1.0, "evaluation_temperature": 1.5}
    error = refusal(raw)
    assert (error.where, error.found) == ("setting generation.evaluation_temperature", "1.5")


@pytest.mark.parametrize("names", [["train"], ["heldout"], ["validation"], ["traps", "traps"]])
def test_a_secondary_suite_that_trains_chooses_or_decides_or_counts_twice_is_refused(
    raw: dict[str, Any], names: list[str]
) -> None:
    raw["dataset"] = raw["dataset"] | {"secondary": names}
    error = refusal(raw)
    assert (error.where, error.found) == ("setting dataset.secondary", repr(names[0]))


@pytest.mark.parametrize(
    ("section", "values"),
    [("base", {"kind": "served", "url": "http://127.0.0.1:8000/v1"}), ("train", {"served": {"model": "m"}})],
)
def test_a_served_model_in_the_settings_is_refused_with_the_commands_that_measure_it(
    raw: dict[str, Any], section: str, values: dict[str, Any]
) -> None:
    raw[section] = values
    error = refusal(raw)
    assert error.where.startswith(f"setting {section}.") and "served" in error.found
    assert error.fix == IN_MESSAGES  # tests/tools/served/test_page.py does what it says


@pytest.mark.parametrize("backend", ["vllm", "vllm_server"])
def test_a_setting_of_earlier_versions_is_refused_with_what_takes_its_place(
    raw: dict[str, Any], backend: str
) -> None:
    raw["generation"] = raw["generation"] | {"backend": backend}
    error = refusal(raw)
    assert (error.where, error.found) == ("setting generation.backend", f"{backend!r}, which was removed")
    raw["generation"] |= {"backend": error.fix.removeprefix("set generation.backend: ")}
    assert parse_params(raw).generation.backend == "cached"


def test_deepspeed_is_refused_with_what_is_served_instead_and_why_it_is_not(raw: dict[str, Any]) -> None:
    raw["distributed"] = raw["distributed"] | {"engine": "deepspeed"}
    error = refusal(raw)
    assert (error.expected, error.where) == ("'ddp' or 'fsdp'", "setting distributed.engine")
    assert "'deepspeed'" in error.found and "no poisoned step" in error.found
    assert "ddp" in error.fix and "fsdp" in error.fix


@pytest.mark.parametrize(
    ("section", "name", "value", "fix"),
    [
        ("train", "lr_scheduler", "cosin", "did you mean 'cosine'?"),
        ("distributed", "engine", "FSDP", "did you mean 'fsdp'?"),
        ("distributed", "engine", "tensor", "correct the value in configs/"),
        ("base", "kind", "pretrain", "did you mean 'pretrained'?"),
        ("base", "dtype", "float32", "remove it: it is a setting of another kind of base"),
    ],
)
def test_a_choice_that_there_is_not_is_answered_with_the_nearest(
    raw: dict[str, Any], section: str, name: str, value: str, fix: str
) -> None:
    raw[section] = raw[section] | {name: value}
    assert refusal(raw).fix == fix


@pytest.mark.parametrize("wrong", ["nonsense", None, [], -1e9, 1e9, {}], ids=str)
def test_no_setting_is_refused_in_the_words_of_another_library(raw: dict[str, Any], wrong: object) -> None:
    refused = 0
    for key in sorted(keys(raw)):
        *path, last = key.split(".")
        values: dict[str, Any] = deepcopy(raw)
        section = values
        for step in path:
            section = section[step]
        section[last] = wrong
        try:
            parse_params(values)
        except ConfigError as error:
            refused += 1
            assert error.where.startswith(f"setting {path[0] if path else last}"), error
            assert not re.search("Input|should|validation,|dictionary|instance", error.expected), error
            assert "[" not in error.where, error
    assert refused > 20


def test_a_value_that_may_be_of_two_kinds_is_refused_once_with_both(raw: dict[str, Any]) -> None:
    raw["train"] = raw["train"] | {"lora": raw["train"]["lora"] | {"target_modules": "all"}}
    error = refusal(raw)
    assert (error.where, error.expected) == (
        "setting train.lora.target_modules",
        "a valid list or 'all-linear'",
    )
    assert error.found == "'all'"


def test_a_long_value_is_quoted_in_short(raw: dict[str, Any]) -> None:
    raw["device"] = "x" * 10_000
    assert len(str(refusal(raw))) < 300


def test_several_mistakes_are_counted(raw: dict[str, Any]) -> None:
    raw["train"] = raw["train"] | {"steps": "x", "beta": "y"}
    assert "(1 more like it)" in refusal(raw).found


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_refused_first(raw: dict[str, Any], version: object) -> None:
    raw["version"] = version
    raw["nonsense"] = 1
    error = refusal(raw)
    assert error.where == "setting version"
    assert "assay config use" in error.fix


@pytest.mark.parametrize(("device", "backend"), [("cpu", "cached"), ("cuda", "transformers")])
def test_cuda_graphs_that_nothing_could_replay_are_refused(
    raw: dict[str, Any], device: str, backend: str
) -> None:
    raw["device"], raw["generation"] = device, raw["generation"] | {"backend": backend, "cuda_graphs": True}
    told = refusal(raw)
    assert told.where == "setting generation.cuda_graphs"
    assert f"backend {backend} on device {device}" in str(told)
    raw["device"], raw["generation"] = "cuda", raw["generation"] | {"backend": "cached"}
    assert parse_params(raw).generation.cuda_graphs


def test_a_micro_batch_that_does_not_divide_is_refused(raw: dict[str, Any]) -> None:
    train = raw["train"]
    raw["distributed"]["processes"] = 1
    raw["train"] = train | {"micro_batch_size": train["items_per_step"] * train["group_size"] - 1}
    assert refusal(raw).where == "setting train.micro_batch_size"


def test_a_from_scratch_base_of_words_speaks_compact_and_one_of_bpe_tokens_json(raw: dict[str, Any]) -> None:
    raw["generation"] = raw["generation"] | {"surface": "json"}
    assert refusal(raw).where == "setting generation.surface"
    raw["base"] = raw["base"] | {"bpe_vocabulary": 1280}
    assert parse_params(raw).generation.surface == "json"
    raw["generation"] = raw["generation"] | {"surface": "compact"}
    refused = refusal(raw)
    assert refused.where == "setting generation.surface" and "surface json" in refused.expected
    raw["base"] = raw["base"] | {"bpe_vocabulary": 100}
    assert refusal(raw).where == "setting base.bpe_vocabulary"


def test_settings_cannot_be_changed(raw: dict[str, Any]) -> None:
    params = parse_params(raw)
    with pytest.raises(ValueError, match="frozen"):
        params.seed = 1  # type: ignore[misc]


@pytest.mark.parametrize("text", ["1e-6", "1.0e-6", "1E-6", "0.000001"])
def test_a_small_number_is_a_number_however_it_is_written(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.yaml").write_text(f"learning_rate: {text}\n")
    value = read_yaml(tmp_path / "one.yaml", fix="none")["learning_rate"]
    assert type(value) is float
    assert value == 1e-6


@pytest.mark.parametrize(
    ("content", "expected", "where"),
    [
        (b"train: {steps: 1\n", "valid YAML", "params.yaml, line 2"),
        (b"seed: 1\nseed: 2\n", "valid YAML", "params.yaml, line 2"),
        (b"- 1\n", "a mapping of settings", "params.yaml"),
        (b"", "a mapping of settings", "params.yaml"),
        (b"name: \xff\n", "UTF-8 text", "params.yaml, byte 6"),
    ],
)
def test_an_unreadable_file_is_refused_with_its_place(
    tmp_path: Path, content: bytes, expected: str, where: str
) -> None:
    path = tmp_path / "params.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_yaml(path, fix="mend it")
    assert caught.value.expected == expected
    assert caught.value.where.startswith(where)
    assert caught.value.fix == "mend it"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_yaml(tmp_path / "params.yaml", fix="make it")


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"lessons": "school"}, "task.lessons"),
        ({"max_prompt_chars": 0}, "task.max_prompt_chars"),
        ({"max_prompt_tokens": 0}, "task.max_prompt_tokens"),
        ({"extracted_share": 1.5}, "task.extracted_share"),
        ({"extracted_share": 1.0}, "task.extracted_share"),
        ({"weights": {"exact": -0.1}}, "task.weights.exact"),
        ({"weights": {"fields": float("nan")}}, "task.weights.fields"),
        ({"weights": {"parsed_strict": 0.1, "parsed_extracted": 0.2}}, "task.weights"),
        ({"weights": {"parsed_strict": 0.0, "schema_valid": 0.0}}, "task.weights"),
    ],
)
def test_settings_of_the_structured_task_that_cannot_be_or_pay_for_chatter_are_refused(
    changes: dict[str, Any], where: str
) -> None:
    raw = composed("tiny", "structured")
    weights = raw["task"]["weights"] | changes.get("weights", {})
    raw["task"] = raw["task"] | changes | {"weights": weights}
    assert refusal(raw).where == f"setting {where}"
