"""The templates of `dvc plots` and its page: filled by DVC's own renderer, complete, and without a
network."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from dvc_render.html import HTML
from dvc_render.vega import VegaRenderer

from assay.core.storage.yaml import read_yaml

ROOT = Path(__file__).resolve().parent.parent
PLOTS = ROOT / ".dvc" / "plots"
PAGE = (PLOTS / "offline.html").read_text(encoding="utf-8")


def stage_plots() -> dict[str, dict[str, Any]]:
    stages: Any = read_yaml(ROOT / "dvc.yaml", fix="git checkout dvc.yaml")
    found = [entry for entry in stages["plots"] if isinstance(entry, dict)]
    return {Path(name).stem: options for entry in found for name, options in entry.items()}


ROWS = {
    "rates": [{"measure": "success_rate", "arm": "before", "value": "12.5", "low": "", "high": "", "n": "8"}],
    "differences": [{"measure": "success_rate", "value": "", "low": "", "high": "", "n": "0"}],
    "rewards": [{"low": "-1.0", "high": "0.0", "arm": "after", "n": "3", "share": "37.5"}],
}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_table_fills_its_template_and_leaves_no_anchor(name: str) -> None:
    options = stage_plots()[name]
    rows = [row | {"rev": rev} for rev in ("HEAD", "workspace") for row in ROWS[name]]
    shown = {key: options[key] for key in ("template", "x", "y", "title", "x_label", "y_label")}
    filled = json.loads(VegaRenderer(rows, name, template_dir=str(PLOTS), **shown).partial_html())
    text = json.dumps(filled)
    assert "<DVC_METRIC" not in text and options["title"] in text
    assert filled["data"]["values"] == rows
    encodings = [filled["encoding"], *(layer.get("encoding", {}) for layer in filled.get("layer", []))]
    assert any(each.get("color", {}).get("field") == "rev" for each in encodings)


def test_the_page_holds_its_scripts_unchanged_and_asks_no_server() -> None:
    inside = re.findall(
        r'<script data-package="([^"]+)" data-version="([^"]+)">\n(.*?)\n</script>', PAGE, re.DOTALL
    )
    assert [name for name, *_ in inside] == ["vega", "vega-lite", "vega-embed"]
    for name, version, script in inside:
        assert f"{name} {version}  sha256 {hashlib.sha256(script.encode()).hexdigest()}" in PAGE
    assert "src=" not in re.sub(r"<script data.*?</script>", "", PAGE, flags=re.DOTALL)
    assert "default-src 'none'" in PAGE


def test_dvc_puts_the_plots_and_none_of_its_own_scripts_into_the_page() -> None:
    page = HTML(PAGE).with_scripts(VegaRenderer.SCRIPTS).with_element("<p>a plot</p>").embed()
    assert "<p>a plot</p>" in page and VegaRenderer.SCRIPTS.strip() not in page and "{plot_divs}" not in page
    assert "html_template = plots/offline.html" in (ROOT / ".dvc" / "config").read_text()


def test_no_figure_is_shown_twice() -> None:
    listed = re.findall(
        r"^  - (evidence/results/report/figures/\S+)$", (ROOT / "dvc.yaml").read_text(), re.MULTILINE
    )
    assert listed and all(name.endswith(".svg") for name in listed) and len(set(listed)) == len(listed)
