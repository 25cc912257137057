"""No interpolation reaches params.yaml: not from a preset, not by `-S`, however it is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from assay.core.config.composition import compose, selected, use
from assay.core.config.interpolation import refuse_in_overrides
from assay.core.errors import ConfigError
from tests.few_presets import leave_few
from tests.house import ROOT

SECRET = "nothing that may be seen"
WRITTEN = [
    ("grpo/tiny.yaml", "\nnote: ${oc.env:KEY}\n"),
    ("grpo/tiny.yaml", '\nnote: "\\x24{oc.env:KEY}"\n'),
    ("grpo/tiny.yaml", "\nnote: [a, {b: 'x ${oc.decode:${oc.env:KEY}}'}]\n"),
    ("grpo/tiny.yaml", '\n"${oc.env:KEY}": 1\n'),
    ("task/collider.yaml", "\nnote: ${now:%Y}\n"),
    ("config.yaml", "\nnote: ${hydra:runtime.cwd}\n"),
    ("config.yaml", "\nnote: ${seed}\n"),
    ("grpo/unused.yaml", "# @package _global_\nnote: ${oc.env:KEY}\n"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a few of the presets; nobody writes in it."""
    root = tmp_path_factory.mktemp("interpolation")
    shutil.copytree(ROOT / "configs", root / "configs")
    leave_few(root)
    return root


@pytest.mark.parametrize(("file", "text"), WRITTEN)
def test_a_preset_with_an_interpolation_is_refused_by_file_and_line_and_nothing_is_written(
    file: str, text: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", SECRET)
    root = Path(shutil.copytree(made, tmp_path / "project"))
    preset = root / "configs" / file
    before = preset.read_text() if preset.exists() else ""
    preset.write_text(before + text)
    with pytest.raises(ConfigError, match="no interpolation") as refused:
        use(root, grpo=None, task=None, seed=1)
    assert refused.value.where.startswith(f"configs/{file}, line ") and SECRET not in str(refused.value)
    assert not (root / "params.yaml").exists() and selected(root).seed == 0


def test_the_projects_own_interpolation_composes(made: Path) -> None:
    assert compose(made, selected(made)).values["seed"] == 0


@pytest.mark.parametrize("told", ["seed=${oc.env:KEY}", "a.b='${now:%s}'", "--set-param=seed=${seed}"])
def test_an_override_with_an_interpolation_is_refused(told: str) -> None:
    with pytest.raises(ConfigError, match="no interpolation"):
        refuse_in_overrides(["exp", "run", "-S", told])
    refuse_in_overrides(["exp", "run", "-S", "seed=3", "-S", "note='$5 {or so}'"])
