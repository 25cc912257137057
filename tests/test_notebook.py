"""The notebook runs from top to bottom on any run, by one path, and what it recomputes is what the claim
says."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import v4

from assay.core.evidence_files import place_of
from assay.core.storage.json import read_record
from assay.verdict.evidence.claim.claim import Claim
from tests.house import ROOT
from tests.verification.made_run import made_run

NOTEBOOK = ROOT / "notebooks/evidence.ipynb"
KEPT = [ROOT / f"notebooks/{name}.ipynb" for name in ("judge", "health", "rescore", "replay")]
EQUAL = "difference, interval, p and cross-check are those of claim.json, to the last digit"


@pytest.fixture
def execute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return what runs the notebook on a run, in a kernel of its own, and returns its cells."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))

    def executed(run: Path | None) -> list[Any]:
        if run is None:
            monkeypatch.delenv("ASSAY_RUN", raising=False)
        else:
            monkeypatch.setenv("ASSAY_RUN", str(run))
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        NotebookClient(
            notebook, timeout=120, resources={"metadata": {"path": str(NOTEBOOK.parent)}}
        ).execute()
        cells: list[Any] = notebook.cells
        return cells

    return executed


def printed(cells: list[Any]) -> str:
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert not [each.text for each in outputs if each.get("name") == "stderr"], "no warning of any library"
    return "\n".join(
        each.get("text") or each.data.get("text/markdown") or each.data.get("text/html", "")
        for each in outputs
    )


def figures(cells: list[Any]) -> int:
    return sum("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", ()))


def test_as_it_is_it_shows_the_committed_evidence(execute: Any) -> None:
    cells = execute(None)
    claim = read_record(ROOT / place_of("claim.json"), Claim, fix="")
    said = printed(cells)
    assert claim.sentence in said and EQUAL in said and figures(cells) == 6
    assert "verdict and reason are those of claim.json" in said
    assert f"seed {claim.training_seeds[0]}" in said


def test_one_path_swaps_in_a_run_of_another_task(execute: Any, tmp_path: Path) -> None:
    project = made_run(tmp_path / "mine", task="structured")
    claim = read_record(project.results("claim.json"), Claim, fix="")
    said = printed(execute(project.root))
    assert claim.sentence in said and EQUAL in said and "structured" in said and "schema_valid_rate" in said


def _narrower(claim: dict[str, Any]) -> None:
    claim["difference"]["low"] -= 0.001


def _better(claim: dict[str, Any]) -> None:
    claim["verdict"] = "REGRESSED" if claim["verdict"] == "IMPROVED" else "IMPROVED"


def _another_plan(claim: dict[str, Any]) -> None:
    claim["plan"]["smallest_effect_points"] += 1


@pytest.mark.parametrize("tamper", [_narrower, _better, _another_plan])
def test_a_claim_that_its_episodes_do_not_bear_out_stops_it(
    execute: Any, tmp_path: Path, tamper: Any
) -> None:
    shutil.copytree(
        ROOT / "evidence/results", tmp_path / "evidence/results", ignore=shutil.ignore_patterns("figures")
    )
    file = tmp_path / "evidence/results/report/claim.json"
    claim = json.loads(file.read_text(encoding="utf-8"))
    tamper(claim)
    file.write_text(json.dumps(claim), encoding="utf-8")
    with pytest.raises(CellExecutionError, match="AssertionError"):
        execute(tmp_path)


def test_a_path_without_a_run_is_said_with_what_to_set(execute: Any, tmp_path: Path) -> None:
    said = r"expected a folder with evidence/results/report/claim\.json .*Fix: set RUN to"
    with pytest.raises(CellExecutionError, match=said):
        execute(tmp_path / "nowhere")


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_one_that_needs_no_run_shows_what_it_prints_and_begins_with_what_a_hosted_notebook_lacks(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Its outputs are kept: they follow from its own cells."""
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    first, *cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert first.source.startswith("%pip install") and not first.outputs
    names: dict[str, Any] = {}
    for n, cell in enumerate(cells, 1):
        *body, last = ast.parse(cell.source).body
        ends = isinstance(last, ast.Expr) and "Markdown" in ast.unparse(last)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(ast.Module(body if ends else [*body, last], []), path.name, "exec"), names)
        outputs = [v4.new_output("stream", text=printed.getvalue())] if printed.getvalue() else []
        if ends:
            assert isinstance(last, ast.Expr)
            shown = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
            outputs.append(v4.new_output("display_data", {"text/markdown": shown.data}))
        if request.config.getoption("--update-golden"):
            cell.outputs, cell.execution_count = outputs, n
        assert cell.outputs == outputs, "pytest --update-golden writes it anew"
    if request.config.getoption("--update-golden"):
        path.write_text(v4.writes(notebook) + "\n", encoding="utf-8")


OF_A_RUN = sorted(set(NOTEBOOK.parent.glob("*.ipynb")) - set(KEPT))


@pytest.mark.parametrize("path", OF_A_RUN, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs_and_no_number_stands_in_its_prose(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
        if cell.cell_type == "markdown":
            prose = re.sub(r"^## \d+\.|95 %", "", cell.source)
            assert not re.findall(r"\d", prose), prose
        assert len(cell.source.split("\n")) <= 40, "short cells"
