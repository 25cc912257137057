"""docs/internals/parameter.md shows one parameter's way from configs/ to a claim; here it is gone, on a
copy."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.config.composition import check, use
from assay.core.config.reading import parse_params
from assay.core.errors import ConfigError, RecordError
from assay.core.storage.yaml import read_yaml
from assay.package.verification.content.training import log_whole
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.project import Project
from assay.pipeline.resume import run_key
from assay.pipeline.run_folder import NOT_IN_KEY
from assay.stages.packing.archive import unpack
from assay.stages.train import READS
from assay.training.log.step_chain import check_chain
from assay.training.recipe import grpo_config
from tests.copied_house import copied
from tests.few_presets import leave_few
from tests.house import ROOT
from tests.verification import made_run as making

RATE = 0.002


def places() -> list[str]:
    """Return the first column of the table in docs/internals/parameter.md."""
    text = (ROOT / "docs/internals/parameter.md").read_text(encoding="utf-8")
    return [
        re.sub("`", "", line.split(" | ")[0].removeprefix("| "))
        for line in text.split("\n")
        if line.startswith("| `")
    ]


class Way:
    """A run of a copy whose preset says another rate, its package unpacked, and what its settings were
    before."""

    def __init__(self, folder: Path) -> None:
        """Change the preset, compose, make the run, package it."""
        self.root, self.preset = copied(folder), "configs/grpo/tiny.yaml"
        leave_few(self.root)
        use(self.root, grpo="tiny", task="collider", seed=0)
        self.before = parse_params(read_yaml(self.root / "params.yaml", fix=""))
        path = self.root / self.preset
        text = path.read_text(encoding="utf-8")
        assert text.count("  learning_rate: 1.5e-3\n") == 1
        path.write_text(
            text.replace("  learning_rate: 1.5e-3\n", f"  learning_rate: {RATE}\n"), encoding="utf-8"
        )
        with pytest.raises(ConfigError, match=r"train\.learning_rate: 0\.002"):
            check(self.root)  # params.yaml still says what it said
        use(self.root, grpo=None, task=None, seed=None)
        check(self.root)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(making, "ROOT", self.root)
            self.run = making.made_run(folder / "run")
            self.package = folder / "package"
            unpack(making.packaged(self.run, folder / "dist"), self.package)

    def record(self, name: str) -> dict[str, Any]:
        """Return a record of the run."""
        found: dict[str, Any] = json.loads(self.run.results(name).read_text(encoding="utf-8"))
        return found

    def log(self) -> list[dict[str, Any]]:
        """Return the rows of train_log.jsonl."""
        return [
            json.loads(line)
            for line in self.run.results("train_log.jsonl").read_text(encoding="utf-8").splitlines()
        ]


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Way:
    return Way(tmp_path_factory.mktemp("way"))


def in_the_preset(way: Way) -> None:
    assert read_yaml(way.root / way.preset, fix="")["train"]["learning_rate"] == RATE


def in_params_yaml(way: Way) -> None:
    for root in (way.root, way.run.root):
        assert read_yaml(root / "params.yaml", fix="")["train"]["learning_rate"] == RATE


def in_the_settings(way: Way) -> None:
    values = read_yaml(way.root / "params.yaml", fix="")
    assert parse_params(values).train.learning_rate == RATE
    for wrong in ({"learning_rate": 0.0}, {"learning_rate": "fast"}, {"learning_rates": RATE}):
        with pytest.raises(ConfigError, match="learning_rate"):
            parse_params(values | {"train": values["train"] | wrong})
    del values["train"]["learning_rate"]
    with pytest.raises(ConfigError, match="found nothing"):
        parse_params(values)


def in_dvc_yaml(way: Way) -> None:
    stages = read_yaml(way.root / "dvc.yaml", fix="")["stages"]
    assert [name for name, stage in stages.items() if "train" in stage.get("params", ())] == [
        "train",
        "control",
        # The openings name the settings that a policy was trained with.
        "post_eval",
        # The claim names what is set looser than usual.
        "render_evidence",
    ]


def in_the_key(way: Way) -> None:
    keys = [
        run_key(
            Project(way.run.root, params).root,
            Project(way.run.root, params).params,
            "train",
            READS,
            NOT_IN_KEY,
        )
        for params in (way.before, way.run.params)
    ]
    assert keys[0].digest != keys[1].digest
    assert keys[1].parts["params.train.learning_rate"] == str(RATE)


def in_trl(way: Way) -> None:
    assert grpo_config(way.run.params, "").learning_rate == RATE


def in_the_table(way: Way) -> None:
    with way.run.results("training_log.csv").open(encoding="utf-8") as stream:
        rates = [float(row["learning_rate"]) for row in csv.DictReader(stream)]
    assert rates == sorted(rates) and rates[0] < rates[-1] == RATE  # five steps of warm-up


def in_the_log(way: Way) -> None:
    rows = way.log()
    assert rows[-1]["learning_rate"] == RATE
    check_chain(rows, "train_log.jsonl")
    with pytest.raises(RecordError):
        check_chain([*rows[:-1], rows[-1] | {"learning_rate": 0.001}], "train_log.jsonl")


def in_the_facts(way: Way) -> None:
    assert way.record("train.json")["chain"] == way.log()[-1]["chain"]


def in_the_claim(way: Way) -> None:
    assert way.record("claim.json")["after_policy"] == way.record("train.json")["policy_digest"]
    assert "learning_rate" not in json.dumps(way.record("claim.json"))


def on_the_card(way: Way) -> None:
    assert "learning rate 0.002 " in (way.package / "README.md").read_text(encoding="utf-8")


def in_the_provenance(way: Way) -> None:
    told = json.loads((way.package / "provenance.json").read_text(encoding="utf-8"))
    assert told["params"]["train"]["learning_rate"] == RATE


def in_the_check(way: Way) -> None:
    assert [*log_whole(Unpacked(way.package)).wrong] == []
    params = way.package / "params.yaml"
    told = params.read_text(encoding="utf-8")
    try:
        params.write_text(
            told.replace(f"  learning_rate: {RATE}\n", "  learning_rate: 0.001\n"), encoding="utf-8"
        )
        assert any("learning_rate" in fault for fault in log_whole(Unpacked(way.package)).wrong)
    finally:
        params.write_text(told, encoding="utf-8")


WAY: dict[str, Callable[[Way], None]] = {
    "configs/grpo/tiny.yaml": in_the_preset,
    "params.yaml": in_params_yaml,
    "config.Params": in_the_settings,
    "dvc.yaml": in_dvc_yaml,
    ".scratch/train/<key>": in_the_key,
    "GRPOConfig": in_trl,
    "training_log.csv": in_the_table,
    "train_log.jsonl": in_the_log,
    "train.json": in_the_facts,
    "claim.json": in_the_claim,
    "README.md of the package": on_the_card,
    "provenance.json of the package": in_the_provenance,
    "assay verify": in_the_check,
}


def test_the_way_is_the_one_that_is_shown() -> None:
    assert places() == list(WAY)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("place", WAY)
def test_a_changed_rate_is_met_at_every_place(way: Way, place: str) -> None:
    WAY[place](way)
