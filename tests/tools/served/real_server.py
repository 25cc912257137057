"""`transformers serve`, on small untrained models that are made here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import urllib3
from transformers import LlamaConfig, LlamaForCausalLM

from assay.rollout.policy.base import tiny
from assay_tasks.collider import Collider, ColliderSettings
from tests.peers import PEER, has

MARKS = [
    pytest.mark.skipif(
        not all(map(has, ("fastapi", "uvicorn", "openai", "multipart"))),
        reason="transformers serve needs fastapi, uvicorn, openai and python-multipart",
    ),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
]
TASK = Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))


def write_model(folder: Path, *, seed: int) -> None:
    """Write a Llama with the words of the collider: of a Qwen3 that server would read answers as ChatML."""
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
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config.do_sample = True  # else that server is greedy at any temperature
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def served(model: str, folder: Path) -> Iterator[str]:
    """Serve a model, by its path or relative to a folder, and give the address without /v1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "hub").mkdir(exist_ok=True)
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(folder / "hub")}
    words = ["serve", model, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    script = shutil.which("transformers") or str(Path(sys.executable).with_name("transformers"))
    path = folder / f"serve-{port}.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [PEER, script, *words], env=environment, stdout=log, stderr=log, cwd=folder
        )
        try:
            limit = time.monotonic() + 180
            while True:
                assert process.poll() is None and time.monotonic() < limit, path.read_text()[-4000:]
                try:
                    if urllib3.request("GET", f"http://127.0.0.1:{port}/health", retries=False).status == 200:
                        break
                except urllib3.exceptions.HTTPError:
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)
