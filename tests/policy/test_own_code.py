"""A model folder that names code of its own is refused before anything of it is loaded, wherever it names
it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.core.errors import PolicyError
from assay.policy.base.model_files import own_code
from assay.policy.model import load, open_tokenizer


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "generation_config.json", "preprocessor_config.json"]
)
@pytest.mark.parametrize("nested", [False, True])
def test_code_of_its_own_is_refused_by_whoever_loads(tmp_path: Path, name: str, nested: bool) -> None:
    mapped = {"auto_map": {"AutoModelForCausalLM": "modeling_x.X"}}
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert own_code(tmp_path) is None
    (tmp_path / name).write_text(json.dumps({"text_config": mapped} if nested else mapped), encoding="utf-8")
    (tmp_path / "modeling_x.py").write_text("raise SystemExit('this was run')", encoding="utf-8")
    assert own_code(tmp_path) == name
    with pytest.raises(PolicyError, match=f"auto_map in {name}"):
        open_tokenizer(tmp_path, {})
    with pytest.raises(PolicyError, match=f"auto_map in {name}"):
        load(tmp_path, adapter=None, device="cpu", dtype="float32", quantization=None)
