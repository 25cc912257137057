"""provenance.json: the one in a package is a function of contents, the one beside it knows clocks and git."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from assay.core.storage.json import dumps
from assay.stages.packing.provenance import GitState, MadeFrom, Packaged, Provenance, Witnessed, trained_of
from assay.stages.packing.secrets.search import scan

ROOT = Path(__file__).resolve().parents[2]
A, B, C = "a" * 64, "b" * 64, "c" * 64
MADE = {
    "subjects": {"models/adapter/adapter_model.safetensors": A, "evidence/results/report/claim.json": B},
    "params": {"seed": 3, "train": {"learning_rate": 0.001}, "task": {"name": "collider"}},
    "task": "collider",
    "seed": 3,
    "made_from": MadeFrom(
        data={"data/collider/train.jsonl": A, "data/collider/heldout.jsonl": B},
        base={"kind": "scratch", "digest": C, "seed": 0},
        code={"src/assay/core": "0" * 32 + ".dir"},
        constraints=C,
    ),
}
PACKAGED = {
    "started": "2026-01-02T03:04:05Z",
    "finished": "2026-01-02T03:04:06Z",
    "git": GitState(commit="d" * 40, modified=True),
    "remotes": ("host.example/a/b",),
}
MANIFEST: dict[str, Any] = json.loads((ROOT / "evidence/observed/manifest.json").read_text())


def test_the_inner_one_knows_nothing_but_contents() -> None:
    text = dumps(Provenance(**MADE))
    turned = {**MADE, "subjects": dict(reversed(MADE["subjects"].items()))}
    assert text == dumps(Provenance(**turned))
    assert not re.search(r"\d{4}-\d\d-\d\dT|commit|hardware|started|packages", text)
    assert dumps(Provenance(**{**MADE, "subjects": {**MADE["subjects"], "more": C}})) != text
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert json.loads(text)["format"] == "assay-package/7"


def test_the_outer_one_says_what_was_measured_and_leaks_nothing() -> None:
    told = Witnessed(**MADE, trained=trained_of(MANIFEST), packaged=Packaged(**PACKAGED))
    value = told.model_dump(mode="json")
    for name in ("run", "started", "finished", "hardware", "packages", "environment"):
        assert value["trained"][name] == MANIFEST[name]
    assert value["trained"]["git"]["commit"] == MANIFEST["git"]["commit"]
    assert value["packaged"]["git"] == {"commit": "d" * 40, "modified": True}
    assert scan({"provenance.json": dumps(told).encode()}, (), []) == []


@pytest.mark.parametrize(
    "change",
    [
        {"subjects": {"x": "A" * 64}},
        {"subjects": {"x": "md5"}},
        {"subjects": {}},
        {"made_from": {**dict(MADE["made_from"]), "data": {"x": ""}}},
    ],
)
def test_a_digest_that_is_none_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Provenance(**{**MADE, **change})


@pytest.mark.parametrize(
    "change", [{"git": {"commit": "main", "modified": False}}, {"started": "2026-01-02 03:04:05"}]
)
def test_a_commit_or_time_that_is_none_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        trained_of({**MANIFEST, **change})
    with pytest.raises(ValidationError):
        Packaged(**{**PACKAGED, **change})
