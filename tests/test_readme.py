"""README.md shows the committed evidence, and names nothing that is not there."""

from __future__ import annotations

import json
import re

import pytest

from assay.storage.yaml import read_yaml
from assay.tools import readme
from tests.house import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["claim", *(f"{task} seeds" for task in readme.TASKS)])
def test_a_generated_table_is_the_one_of_the_last_run(name: str) -> None:
    start, end = readme.marks(name)
    assert TEXT.split(start)[1].split(end)[0] == readme.blocks(ROOT)[name], "./run assay readme renews it"


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_link_and_every_path_of_ours_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    paths = re.findall(r"`((?:src|tests|configs|benchmarks|policy|training|stages|evidence)/[\w/.-]+\.(?:py|yaml))`", text)
    for name in links + paths:
        assert (ROOT / name).exists() or (ROOT / "src/assay" / name).exists(), f"{page} names {name}"


def test_the_table_of_gpu_presets_says_what_the_presets_and_their_forecast_say() -> None:
    forecasts = json.loads((ROOT / "benchmarks/results/presets.json").read_text(encoding="utf-8"))["presets"]
    names = {name.split(", ")[0] for name in forecasts}
    assert names == {path.stem for path in (ROOT / "configs/grpo").glob("*_*.yaml")} - {"tiny_smoke"}
    for name in names:
        values = read_yaml(ROOT / f"configs/grpo/{name}.yaml", fix="none")
        train, peaks = values["train"], [forecasts[f"{name}, {task}"]["peak_gib"] for task in ("collider", "structured")]
        told = [
            values["base"]["model"].split("/")[1], "4 bits" if values["base"]["quantization"] else "bfloat16",
            f"| {values['generation']['batch_size']} |", f"{train['items_per_step']} × {train['group_size']}",
            f"{train['learning_rate']:.0e}".replace("e-0", "e-") + f", {train['lora']['r']}",
            f"{peaks[0]:.1f} / {peaks[1]:.1f} of {forecasts[f'{name}, collider']['device_gib']}",
        ]  # fmt: skip
        row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{name}`"))
        assert [each for each in told if each.lower() not in row.lower()] == [], row


def test_the_errors_of_the_forecast_are_those_that_were_measured() -> None:
    measured = json.loads((ROOT / "benchmarks/results/presets.json").read_text(encoding="utf-8"))["accuracy"].values()
    for kind in ("memory", "time"):
        assert f"{max(abs(row[f'{kind}_error']) for row in measured):.1%}".replace("%", " %") in TEXT
