"""The commands of docs/served.md, and of the message that leads there, are run but for the address."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.core.config.removed import IN_MESSAGES
from assay.core.seeds import rng
from tests.pages import commands
from tests.tools.served.material import starred, write_project
from tests.tools.served.stand_in import Body, StandIn, serving


def says(body: Body) -> str:
    """Say the right word, of my-base in four of ten questions."""
    right = body["model"] != "my-base" or rng("says", body["seed"]).random() < 0.4
    return starred(body) if right else "nothing"


def call(words: Sequence[str], server: StandIn) -> int:
    """Call a command with the server's address for the one that it names."""
    given = list(words)
    if "--served" in given:
        given[given.index("--served") + 1] = server.url
    if "--tasks" in given and "--items" not in given:
        given += ["--items", "60"]
    if "--extra" in given:
        server.needed -= {"temperature", "max_tokens", "seed"}
    # The limits of a minute are those of test_pace.py.
    return CliRunner().invoke(app, given).exit_code


def test_the_commands_of_the_page_measure_and_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_project(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-page")
    found = [each.words[2:] for each in commands("docs/served.md")]
    assert sum("--served" in words for words in found) == 5
    with serving(says) as server:
        for words in found:
            assert call(words, server) == (9 if words[0] == "verify" else 0), words
        sent = [{*body} for _, body in server.asked]
    assert {"model", "messages", "max_completion_tokens"} in sent
    assert len(list((tmp_path / ".scratch/evaluate").glob("*/served.json"))) == 3
    claim = json.loads((tmp_path / "judged/claim.json").read_text())
    assert claim["verdict"] == "BETTER" and set(claim["plan"]["rivals"]) == {"constant", "hasty"}


def test_the_fix_of_settings_that_name_a_served_model_leads_to_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_project(tmp_path))
    measure, judge = (words.removeprefix("./run assay ") for words in re.split(r", .*then ", IN_MESSAGES))
    for name, value in (("FILE", "data/words/validation.jsonl"), ("TASK", "words"), ("URL", "there")):
        measure = re.sub(rf"\b{name}\b", value, measure)
    with serving(says) as server:
        for model, out in (("my-base", "before"), ("my-tuned", "after")):
            words = measure.replace("NAME", model).replace("--out before", f"--out {out}")
            assert call(shlex.split(words), server) == 0, words
        assert call(shlex.split(judge), server) == 0
    claim = json.loads((tmp_path / "judged/claim.json").read_text())
    assert claim["effect"]["direction"] == "better"
