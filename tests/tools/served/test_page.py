"""The commands of docs/served.md are run as they stand, but for the address."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli import app
from tests.pages import commands
from tests.tools.served.material import starred, write_project
from tests.tools.served.stand_in import serving


def test_the_commands_of_the_page_measure_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_project(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-page")
    found = [each.words[2:] for each in commands("docs/served.md") if "--served" in each.words]
    assert len(found) == 3
    with serving(starred) as server:
        for words in found:
            given = list(words)
            given[given.index("--served") + 1] = server.url
            if "--extra" in given:
                server.needed -= {"temperature", "max_tokens", "seed"}
            if "--items" not in given:
                given += ["--items", "20"]
            # The limits of a minute are those of test_pace.py.
            result = CliRunner().invoke(app, given)
            assert result.exit_code == 0, (words, result.output, result.exception)
        sent = [{*body} for _, body in server.asked]
    assert {"model", "messages", "max_completion_tokens"} in sent
    assert len(list((tmp_path / ".scratch/evaluate").glob("*/served.json"))) == 3
