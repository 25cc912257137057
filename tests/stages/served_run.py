"""A project whose base and tuned model are served, in a folder of its own."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.core.config.composition import Selection, compose
from assay.core.config.training import ELSEWHERE
from assay.core.console import quietly
from assay.core.seeds import rng
from assay.core.storage.files import sha256_bytes
from assay.pipeline.project import Project
from tests.house import ROOT
from tests.tools.served.stand_in import Body

BEFORE_PACKAGE = ("fingerprint", "base", "pre_eval", "train", "control", "post_eval", "render_evidence")
SHARE = {"my-base": 0.4, "my-tuned": 0.9}  # of questions that are answered rightly


def says(body: Body) -> str:
    """Answer an item of `words` as often rightly as the model does, by the seed and the question."""
    asked = body["messages"][-1]["content"]
    right = re.findall(r"\*(\w+)", asked)[0]
    chance = rng("says", body["model"], asked, body["seed"] if body["temperature"] else 0).random()
    return str(right) if chance < SHARE[body["model"]] else "nothing"


def served_settings(
    url: str, tuned: str | None = None, *, task: str = "words", **base: Any
) -> dict[str, Any]:
    """Return whole settings of a small run, asked at an address, or two."""
    values: dict[str, Any] = json.loads(json.dumps(compose(ROOT, Selection("tiny_smoke", task, 0)).values))
    model = {"url": url, "model": "my-base", "key_variable": None, "price_in": 1.0, "price_out": 2.0}
    limits = {"timeout": 20.0, "retries": 2, "requests_per_minute": None, "tokens_per_minute": None}
    values["base"] = {"kind": "served", **model, "extra": {}, "in_flight": 4, **limits, **base}
    served = model | {"url": tuned or url, "model": "my-tuned"}
    seen = f"data/{task}/train.jsonl"
    data = [{"file": seen, "sha256": sha256_bytes((ROOT / seen).read_bytes())}]
    values["train"] = {"kind": "external", "served": served, "how": "by a script of ours", "data": data}
    values["claim"] |= {"checkpoint_rule": ELSEWHERE, "controls": ["aa"], "seeds": [0]}
    values["generation"]["surface"] = "json"
    values["evaluation"] |= {
        "open": True,
        "items": 24,
        "draws": 2,
        "rivals": {"few_shot": 2, "best_of_n": 2, "constrained": False},
    }
    return values


def write_project(root: Path, values: dict[str, Any], *, data: str = "data/words") -> Path:
    """Write a project with these settings that holds all that a package does."""
    for name in (data, "tasks/words", "src/assay"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("constraints.txt", "requirements.txt", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, root)
    (root / "params.yaml").write_text(json.dumps(values, indent=1), encoding="utf-8")
    return root


def run_stages(root: Path, stages: Sequence[str]) -> None:
    """Run stages as their commands do."""
    with quietly():
        for stage in stages:
            importlib.import_module(f"assay.stages.{stage}").run(Project.open(root))
