"""A pretrained base is found offline, whole and without code of its own, or refused with what to type."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.core.config.settings import TinyArchitecture
from assay.core.errors import PolicyError
from assay.rollout.policy.base import tiny
from assay.rollout.policy.base.pretrained import LOCAL, find, how_to_download, locate, resolve, write_pointer
from assay.rollout.policy.digests import digest_folder
from tests.house import ROOT

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder whose weights lie in several files."""
    folder = tmp_path_factory.mktemp("model") / "mine"
    tokenizer = tiny.build_tokenizer([chr(code) for code in range(32, 127)])
    shape = TinyArchitecture(
        hidden_size=32, intermediate_size=64, layers=2, heads=2, max_positions=64, initializer_range=0.02
    )
    tiny.build_model(shape, tokenizer, 0).save_pretrained(folder, max_shard_size="20KB")
    tokenizer.save_pretrained(folder)
    assert len(list(folder.glob("*.safetensors"))) > 2
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache of this test alone."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def snapshot(hub: Path, model: Path, name: str = "Qwen/Qwen3-8B", *, main: bool = True) -> Path:
    """Put a copy of a model into a hub cache, as a download does."""
    place = hub / f"models--{name.replace('/', '--')}"
    shutil.copytree(model, place / "snapshots" / COMMIT)
    (place / "blobs").mkdir()
    (place / "refs").mkdir()
    if main:
        (place / "refs/main").write_text(COMMIT)
    return place / "snapshots" / COMMIT


def copied(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "copy"))


def refusal(name: str, revision: str | None = None) -> str:
    with pytest.raises(PolicyError) as caught:
        find(name, revision)
    return str(caught.value)


def test_an_empty_cache_is_answered_with_the_command(hub: Path) -> None:
    said = refusal("Qwen/Qwen3-8B", COMMIT)
    assert f"Fix: ./run hf download Qwen/Qwen3-8B --revision {COMMIT}" in said


def test_a_gated_model_is_told_with_its_licence_and_without_its_second_copy() -> None:
    said = how_to_download("meta-llama/Llama-3.1-8B-Instruct", COMMIT)
    assert '--exclude "consolidated*"' in how_to_download("mistralai/Mistral-7B-Instruct-v0.3", COMMIT)
    assert '--exclude "original/*"' in said and "huggingface.co/meta-llama/Llama-3.1-8B-Instruct" in said
    assert "./run hf auth login" in said and "licence" in how_to_download("google/gemma-2-9b-it", None)
    assert "licence" not in how_to_download("Qwen/Qwen3-8B", None)


def test_a_name_of_a_stranger_is_quoted() -> None:
    assert (
        how_to_download("a/b; rm -rf x", "v$(id)") == "./run hf download 'a/b; rm -rf x' --revision 'v$(id)'"
    )


@pytest.mark.parametrize("name", ["../nowhere/model", "a/b/c", "", "x" * 200, "~/nothing"])
def test_what_is_neither_a_folder_nor_a_name_is_refused(hub: Path, name: str) -> None:
    assert "base.model" in refusal(name)


def test_a_snapshot_is_found_and_a_branch_is_said_aloud_with_its_commit(hub: Path, model: Path) -> None:
    snapshot(hub, model)
    pinned = find("Qwen/Qwen3-8B", COMMIT)
    assert (pinned.revision, pinned.notes) == (COMMIT, ())
    (note,) = find("Qwen/Qwen3-8B", None).notes
    assert f"set base.revision: {COMMIT}" in note


def test_another_revision_in_the_cache_is_named(hub: Path, model: Path) -> None:
    snapshot(hub, model, main=False)
    assert f"found only {COMMIT}" in refusal("Qwen/Qwen3-8B", "f" * 40)
    assert f"found only {COMMIT}" in refusal("Qwen/Qwen3-8B")


def test_a_broken_off_download_is_refused_by_name_and_one_that_left_a_file_over_is_told(
    hub: Path, model: Path
) -> None:
    found = snapshot(hub, model)
    (found.parent.parent / "blobs/abc.1234.incomplete").write_bytes(b"x")
    (note,) = find("Qwen/Qwen3-8B", COMMIT).notes
    assert "broken off" in note
    shard = sorted(found.glob("model-*.safetensors"))[1]
    shard.unlink()
    said = refusal("Qwen/Qwen3-8B", COMMIT)
    assert f"no {shard.name}" in said and f"--revision {COMMIT}" in said


def test_the_list_that_a_download_keeps_may_name_what_was_left_out_on_purpose(hub: Path, model: Path) -> None:
    tree_cache = pytest.importorskip("huggingface_hub._tree_cache")
    found = snapshot(hub, model, "meta-llama/Llama-3.1-8B-Instruct")
    names = [path.name for path in found.iterdir()] + [
        "original/consolidated.00.pth",
        "LICENSE",
        ".gitattributes",
    ]
    trees = found.parent.parent / "trees"
    entry = tree_cache.TreeCacheEntry

    def write(listed: list[str]) -> None:
        fields = {"size": 1, "oid": "a", "blob_id": "a", "etag": "a", "lfs": None, "xet_hash": None}
        known = {k: v for k, v in fields.items() if k in entry.__dataclass_fields__}
        tree_cache.write_tree_cache(str(trees.parent), COMMIT, {name: entry(**known) for name in listed})

    write(names)
    assert any(trees.iterdir())
    assert find("meta-llama/Llama-3.1-8B-Instruct", COMMIT).folder == found
    write([*names, "generation_config.json", "merges.txt"])
    assert "merges.txt" in refusal("meta-llama/Llama-3.1-8B-Instruct", COMMIT)


@pytest.mark.parametrize(
    ("gone", "named"),
    [
        ("config.json", "no config.json"),
        ("tokenizer.json", "no tokenizer.json"),
        ("tokenizer_config.json", "no tokenizer_config.json"),
        ("model.safetensors.index.json", "no weights"),
    ],
)
def test_a_folder_that_lacks_a_file_is_refused_by_name(
    model: Path, tmp_path: Path, gone: str, named: str
) -> None:
    folder = copied(model, tmp_path)
    (folder / gone).unlink()
    assert named in refusal(str(folder))


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "generation_config.json", "tokenizer.json"]
)
def test_a_file_of_settings_that_is_cut_short_is_refused_by_name(
    model: Path, tmp_path: Path, name: str
) -> None:
    folder = copied(model, tmp_path)
    (folder / name).write_text('{"eos_token_id": [1,')
    assert f"{name} is not JSON" in refusal(str(folder))


@pytest.mark.parametrize(
    "content", [b"", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", b"half"]
)
def test_weights_that_are_a_pointer_empty_or_cut_short_are_refused(
    model: Path, tmp_path: Path, content: bytes
) -> None:
    folder = copied(model, tmp_path)
    shard = sorted(folder.glob("model-*.safetensors"))[0]
    shard.write_bytes(shard.read_bytes()[:-1] if content == b"half" else content)
    assert f"{shard.name} is cut short or damaged" in refusal(str(folder))


@pytest.mark.parametrize(
    "index", ["[]", "{", '{"weight_map": {}}', '{"weight_map": {"a": 1}}', '{"weight_map": []}']
)
def test_an_index_that_names_no_weights_is_refused(model: Path, tmp_path: Path, index: str) -> None:
    folder = copied(model, tmp_path)
    (folder / "model.safetensors.index.json").write_text(index)
    assert "names no files of weights" in refusal(str(folder))


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_model_with_code_of_its_own_is_refused_and_nothing_of_it_runs(
    model: Path, tmp_path: Path, name: str
) -> None:
    folder = copied(model, tmp_path)
    settings = json.loads((folder / name).read_text()) | {"auto_map": {"AutoModelForCausalLM": "evil.Model"}}
    (folder / name).write_text(json.dumps(settings))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert f"auto_map in {name}" in refusal(str(folder))
    assert not (tmp_path / "ran").exists()


def test_what_decides_no_token_is_no_part_of_the_digest_and_what_does_is(model: Path, tmp_path: Path) -> None:
    folder = copied(model, tmp_path)
    before = digest_folder(folder)
    for name in (
        ".cache/huggingface/x.metadata",
        ".git/HEAD",
        ".gitattributes",
        "original/w.pth",
        "consolidated.safetensors",
        "LICENSE",
        "README.md",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    assert digest_folder(folder) == before
    (folder / "generation_config.json").write_text("{}")
    assert digest_folder(folder) != before


def test_a_base_that_went_or_changed_after_it_was_pinned_is_refused_with_its_way_back(
    model: Path, tmp_path: Path
) -> None:
    folder = copied(model, tmp_path)
    source = resolve(str(folder), None)
    assert source.revision == LOCAL
    write_pointer(tmp_path / "base", source)
    assert locate(tmp_path / "base") == folder
    shutil.rmtree(folder)
    with pytest.raises(
        PolicyError, match=r"found nothing(?s:.*)put the folder back(?s:.*)dvc repro --force base"
    ):
        locate(tmp_path / "base")


def test_offline_with_an_empty_cache_one_message_says_what_to_download(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in ("configs", "data"):
        shutil.copytree(ROOT / name, project / name)
    nowhere = {
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": "http://10.255.255.1",
        "HTTPS_PROXY": "http://10.255.255.1:9",
    }
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "DVC_", "TRANSFORMERS_"))
    }
    environment = kept | nowhere | {"PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""}

    def assay(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "assay.cli", *words]
        return subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    assert assay("config", "use", "grpo=4090_qwen3_8b", "task=collider").returncode == 0
    assert assay("fingerprint").returncode == 0
    done = assay("base")
    assert done.returncode == 1 and "Traceback" not in done.stderr + done.stdout
    model = "Qwen/Qwen3-8B"
    revision = "b968826d9c46dd6066d109eabc6255188de91218"
    assert done.stderr.count("expected the model") == 1
    assert f"Fix: ./run hf download {model} --revision {revision}" in done.stderr
    assert "expected a CUDA device" in done.stderr  # both are learned at once
    begun = time.process_time(), time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf/hub"))
        with pytest.raises(PolicyError):
            find(model, revision)
    assert time.process_time() - begun[0] < 5 and time.monotonic() - begun[1] < 5
