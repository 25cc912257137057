"""A model behind `transformers serve` is measured as the same model from its folder is.

Runs where what that server needs is installed (fastapi, uvicorn, openai: all in the extra `openenv`).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import urllib3
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils.import_utils import is_serve_available
from typer.testing import CliRunner

from assay.cli import app
from assay.evaluation.replay import graded_again
from assay.policy.base import tiny
from assay.tasks.collider import Collider, ColliderSettings
from assay.tools.evaluate import EvaluationRequest, prepare
from tests.house import ROOT
from tests.tools.served.material import COLLIDER, episodes, facts, write_project

pytestmark = [
    pytest.mark.skipif(not is_serve_available(), reason="transformers serve needs fastapi, uvicorn, openai"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
]
TASK = Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))
MODEL = "models/base"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a small untrained Llama: of a Qwen3 that server would read answers as ChatML."""
    root = write_project(tmp_path_factory.mktemp("project"))
    tokenizer = tiny.build_tokenizer(TASK.vocabulary())
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = LlamaForCausalLM(config)
    model.generation_config.do_sample = True  # else that server is greedy at any temperature
    model.save_pretrained(root / MODEL)
    tokenizer.save_pretrained(root / MODEL)
    return root


@pytest.fixture(scope="module")
def url(made: Path) -> Iterator[str]:
    """Where `transformers serve` answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (made / "hub").mkdir()
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(made / "hub")}
    words = ["serve", str(made / MODEL), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    log = (made / "serve.log").open("wb")
    script = shutil.which("transformers") or str(Path(sys.executable).with_name("transformers"))
    process = subprocess.Popen([sys.executable, script, *words], env=environment, stdout=log, stderr=log)
    try:
        limit = time.monotonic() + 180
        while True:
            assert process.poll() is None and time.monotonic() < limit, (made / "serve.log").read_text()[
                -4000:
            ]
            try:
                if urllib3.request("GET", f"http://127.0.0.1:{port}/health", retries=False).status == 200:
                    break
            except urllib3.exceptions.HTTPError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)
        log.close()


@pytest.fixture(autouse=True)
def project(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    monkeypatch.delenv("ASSAY_API_KEY", raising=False)
    return made


def evaluate(*arguments: str | Path | int) -> None:
    result = CliRunner().invoke(app, ["evaluate", *COLLIDER, *map(str, arguments)])
    assert result.exit_code == 0, (result.output, result.exception)


def test_greedy_conversations_are_word_for_word_those_of_the_folder(
    url: str, made: Path, tmp_path: Path
) -> None:
    common = ("--greedy", "--items", 4)
    evaluate("--served", url, "--model", made / MODEL, *common, "--out", tmp_path / "served")
    evaluate("--policy", MODEL, *common, "--out", tmp_path / "folder")
    served, folder = episodes(tmp_path / "served"), episodes(tmp_path / "folder")
    assert max(len(each.turns) for each in served) > 1
    unknown = {"prompt_digest": ""}
    for one, other in zip(served, folder, strict=True):
        turns = [[turn.model_copy(update=unknown) for turn in each.turns] for each in (one, other)]
        assert turns[0] == turns[1]
        assert (one.reward, one.success, one.flags, one.seed) == (
            other.reward,
            other.success,
            other.flags,
            other.seed,
        )
    told = facts(tmp_path / "served")
    assert told["completion_tokens"] == sum(each.n_tokens for each in folder)
    assert told["identity"]["answered_as"] == [f"{made / MODEL}@main"]


def test_a_kill_in_the_middle_costs_nothing_that_was_answered(url: str, made: Path, tmp_path: Path) -> None:
    common = ["--items", "3", "--draws", "2", "--in-flight", "2"]
    words = ["--served", url, "--model", str(made / MODEL), *common, "--out", str(tmp_path)]
    journal = tmp_path / "answers.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "assay.cli", "evaluate", *COLLIDER, *words],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])},
    )
    limit = time.monotonic() + 180
    while not journal.exists() or len(journal.read_bytes().splitlines()) < 5:
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = journal.read_bytes()
    evaluate(*words)
    assert journal.read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    found, told = episodes(tmp_path), facts(tmp_path)
    assert told["kept"] >= 5 and told["answers"] == sum(len(each.turns) for each in found)
    ready = prepare(Path.cwd(), EvaluationRequest(Path(COLLIDER[1]), task="collider", items=3, draws=2))
    assert graded_again(ready.task, ready.suite, found, "served", exact=True) == []
    said = {each.item_id: set[str]() for each in found}
    for each in found:
        said[each.item_id].add(each.turns[0].completion)
    assert max(len(texts) for texts in said.values()) > 1  # it samples
