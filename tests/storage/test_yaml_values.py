"""YAML knows values that JSON does not; the one reader refuses them by name, in params.yaml and presets
alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.house import ROOT

from assay.core.config.composition import check, use
from assay.core.errors import ConfigError
from assay.core.storage.yaml import read_yaml
from assay.tools.doctor import command as doctor

NOT_FINITE = (".inf", "-.inf", ".nan", ".NaN", "1e309", "-1e309", "1e400")
FOREIGN = {
    **{text: "a finite number" for text in NOT_FINITE},
    "1" + "0" * 400: "a number within a double",
    "2020-01-01": "JSON has too",
    "2020-01-01T00:00:00Z": "JSON has too",
    "!!binary aGk=": "without tags",
    "!!set {a, b}": "without tags",
    "{1: 2}": "names",
    "!!bool maybe": "without tags",
    "{null: 1}": "names",
    "{? [a, b] : 1}": "names",
    '"\\ud800"': "half a surrogate pair",
    "[" * 100 + "]" * 100: "at most 64 levels",
    "9" * 5000: "valid YAML",
    "[1, .inf]": "a finite number",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", FOREIGN, ids=lambda text: text[:20])
def test_a_value_that_json_has_not_is_refused_with_its_place(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"train:\n  rate: {text}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_yaml(tmp_path / "a.yaml", fix="the fix")
    assert FOREIGN[text] in str(caught.value) and "Fix: the fix" in str(caught.value)
    assert (
        "train.rate" in caught.value.where
        or "line 2" in caught.value.where
        or "4300 digits" in caught.value.found
    )


def test_what_json_has_too_is_read_as_ever(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: {b: [1, 1e-6, null, true, '!x', 'a & b * c']}\n", encoding="utf-8")
    assert read_yaml(tmp_path / "a.yaml", fix="") == {"a": {"b": [1, 1e-6, None, True, "!x", "a & b * c"]}}


def test_memory_that_is_no_number_is_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match="--device-memory: expected a number of GiB, found nan"):
        doctor.run(root, float("nan"))


@pytest.mark.parametrize("text", NOT_FINITE)
def test_settings_that_are_not_finite_are_refused_by_name(text: str, root: Path) -> None:
    whole = (root / "params.yaml").read_text()
    assert "  learning_rate: 0.001\n" in whole
    (root / "params.yaml").write_text(whole.replace("  learning_rate: 0.001\n", f"  learning_rate: {text}\n"))
    with pytest.raises(ConfigError, match=r"params.yaml, train.learning_rate: expected a finite number"):
        check(root)


@pytest.mark.parametrize("text", NOT_FINITE)
def test_presets_that_are_not_finite_are_refused_by_name_and_nothing_is_written(
    text: str, root: Path
) -> None:
    preset, before = root / "configs/grpo/tiny.yaml", (root / "params.yaml").read_bytes()
    whole = preset.read_text()
    assert "  learning_rate: 1.0e-3\n" in whole
    preset.write_text(whole.replace("  learning_rate: 1.0e-3\n", f"  learning_rate: {text}\n"))
    for call in (check, lambda root: use(root, grpo="tiny", task=None, seed=None)):
        with pytest.raises(ConfigError, match=r"tiny.yaml, train.learning_rate: expected a finite number"):
            call(root)
    assert (root / "params.yaml").read_bytes() == before
