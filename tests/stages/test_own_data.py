"""Data of one's own, from the fingerprint on: whatever byte changes after it, no stage goes on, and the file
is named."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.core.errors import AssayError, ConfigError, DataError
from assay.core.storage.json import read_record
from assay.pipeline import first_look, inputs
from assay.pipeline.project import Project
from assay.rollout.dataset import cache as copies
from assay.rollout.dataset.fingerprint import Fingerprint
from assay.stages import fingerprint
from tests import own_data
from tests.own_data import DATA, jsonl, row, write_sums

CACHE = ".scratch/datasets"
TERMS = b"# terms\ncurse\n"


@pytest.fixture
def plain(tmp_path: Path) -> Project:
    """A fingerprinted project that reads its data in place."""
    return made(tmp_path, cache=None)


@pytest.fixture
def cached(tmp_path: Path) -> Project:
    """A fingerprinted project with a verified copy of its data."""
    return made(tmp_path, cache=CACHE)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every line that is said from now on."""
    lines: list[str] = []
    for place in (first_look, inputs):
        for name in {"say", "complain"} & set(vars(place)):
            monkeypatch.setattr(place, name, lines.append)
    return lines


def made(root: Path, *, cache: str | None, **audit: str) -> Project:
    own_data.write_data(root, more={"terms.txt": TERMS})
    project = own_data.project(root, cache=cache, blocklist="terms.txt", **audit)
    fingerprint.run(project)
    return project


def read(project: Project) -> Fingerprint:
    return read_record(project.results("fingerprint.json"), Fingerprint, fix="")


def copy_of(project: Project) -> Path:
    return project.root / CACHE / read(project).dataset_sha256[:16]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1
    path.write_bytes(bytes(content))


def read_all(project: Project) -> dict[str, list[Any]]:
    return {split: project.items(split) for split in own_data.SPLITS}


SOURCES = [
    f"{DATA}/{name}"
    for name in ("train.jsonl", "heldout.jsonl", "validation.jsonl", "terms.txt", *own_data.SCHEMAS)
]


def test_items_are_those_of_the_files_with_their_schemas_in_them(plain: Project) -> None:
    items = read_all(plain)
    assert [item.id for item in items["heldout"]] == ["r9", "r10", "r11", "r12"]
    assert len(plain.inputs("heldout").heldout.items) == 3
    assert plain.inputs("validation").validation.split == "validation"


def test_a_copy_gives_the_same_items_as_the_data_themselves(tmp_path: Path) -> None:
    one, two = made(tmp_path / "one", cache=None), made(tmp_path / "two", cache=CACHE)
    assert read_all(one) == read_all(two)
    assert read(one).dataset_sha256 == read(two).dataset_sha256
    assert read(one).cached is None


@pytest.mark.parametrize("cache", [None, CACHE])
@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(position=st.integers(0, 10_000))
def test_any_changed_byte_of_the_data_stops_every_later_stage(
    tmp_path_factory: pytest.TempPathFactory, name: str, cache: str | None, position: int
) -> None:
    project = made(tmp_path_factory.mktemp("p"), cache=cache)
    split = Path(name).stem if name.endswith(".jsonl") else "train"
    project.items(split)
    flip(project.root / name, position)
    with pytest.raises(DataError) as caught:
        project.items(split)
    assert name in caught.value.where


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(which=st.integers(0, 100), position=st.integers(0, 10_000))
def test_any_changed_byte_of_the_copy_stops_every_later_stage(
    tmp_path_factory: pytest.TempPathFactory, which: int, position: int
) -> None:
    project = made(tmp_path_factory.mktemp("p"), cache=CACHE)
    files = sorted(path for path in copy_of(project).rglob("*") if path.is_file())
    path = files[which % len(files)]
    split = path.stem if path.suffix == ".jsonl" else "train"
    project.items(split)
    flip(path, position)
    with pytest.raises(DataError, match="rm -r") as caught:
        project.items(split)
    assert str(path) in caught.value.where
    with pytest.raises(DataError, match="rm -r"):
        fingerprint.run(project)


def test_the_held_out_file_is_not_read_for_training(plain: Project) -> None:
    flip(plain.data("heldout.jsonl"), 50)
    assert plain.items("train")


@pytest.mark.parametrize("name", SOURCES)
def test_a_file_that_is_gone_is_named(plain: Project, name: str) -> None:
    (plain.root / name).unlink()
    split = Path(name).stem if name.endswith(".jsonl") else "train"
    with pytest.raises(AssayError, match=Path(name).name):
        plain.items(split)


def test_a_copy_that_another_process_builds_meanwhile_is_never_taken_from_it(
    cached: Project, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    copy, expected, real = copy_of(cached), read_all(cached), copies.write_folder
    shutil.rmtree(copy)
    others: list[int] = []

    def late(folder: Path, files: Any, **how: Any) -> bool:
        assert real(folder, files, **how)
        others.append(folder.stat().st_ino)
        return real(folder, files, **how)

    monkeypatch.setattr(copies, "write_folder", late)
    assert read_all(cached) == expected
    assert others == [copy.stat().st_ino] and [path.name for path in copy.parent.iterdir()] == [copy.name]
    assert told == []  # the other process says so


def add_file(copy: Path) -> Path:
    (copy / "schemas/extra.json").write_text("{}")
    return copy / "schemas/extra.json"


def remove_file(copy: Path) -> Path:
    path = next(copy.glob("schemas/*/person.json"))
    path.unlink()
    return path


def link_file(copy: Path) -> Path:
    path = copy / "train.jsonl"
    shutil.copy(path, copy.parent / "same.jsonl")
    path.unlink()
    path.symlink_to(copy.parent / "same.jsonl")
    return path


def link_folder(copy: Path) -> Path:
    shutil.copytree(copy / "schemas", copy.parent / "same")
    shutil.rmtree(copy / "schemas")
    (copy / "schemas").symlink_to(copy.parent / "same")
    return copy / "schemas"


def pipe(copy: Path) -> Path:
    (copy / "train.jsonl").unlink()
    os.mkfifo(copy / "train.jsonl")
    return copy / "train.jsonl"


def link_all(copy: Path) -> Path:
    copy.rename(copy.parent / "real")
    copy.symlink_to(copy.parent / "real")
    return copy


@pytest.mark.parametrize("damage", [add_file, remove_file, link_file, link_folder, pipe, link_all])
def test_a_copy_that_is_not_exactly_its_files_is_refused_with_the_file_and_the_cure(
    cached: Project, damage: Any
) -> None:
    path = damage(copy_of(cached))
    for load in (lambda: cached.items("train"), lambda: fingerprint.run(cached)):
        with pytest.raises(DataError, match="rm -r") as caught:
            load()
        assert str(path) in caught.value.where


def test_a_copy_that_is_gone_is_built_again_with_a_word(cached: Project, told: list[str]) -> None:
    before = read_all(cached)
    files = {path: path.read_bytes() for path in copy_of(cached).rglob("*") if path.is_file()}
    shutil.rmtree(copy_of(cached))
    assert read_all(cached) == before
    assert any("built again" in line for line in told)
    assert {path: path.read_bytes() for path in copy_of(cached).rglob("*") if path.is_file()} == files


def test_a_build_that_breaks_off_leaves_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("assay.core.storage.files.os.rename", full)
    with pytest.raises(OSError, match="No space"):
        made(tmp_path, cache=CACHE)
    assert list((tmp_path / CACHE).iterdir()) == []


def test_another_order_of_records_is_another_copy_and_is_told(cached: Project, told: list[str]) -> None:
    before = read(cached)
    path = cached.data("train.jsonl")
    path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))
    write_sums(cached.data(""))
    fingerprint.run(cached)
    assert any("another order" in line for line in told)
    assert read(cached).dataset_sha256 == before.dataset_sha256
    assert [item.id for item in cached.items("train")] == ["r5", "r4", "r3", "r2", "r1", "r0"]


def test_records_that_were_left_out_stay_out_in_every_stage(tmp_path: Path) -> None:
    train = b"\n" + jsonl([row(0), row(0), row(1, gold=None), row(2)]) + b"NaN\n"
    for cache in (None, CACHE):
        root = tmp_path / str(cache)
        own_data.write_data(root, splits={"train": train})
        project = own_data.project(root, cache=cache, no_gold="drop", unreadable="drop")
        fingerprint.run(project)
        assert read(project).splits["train"].dropped == [3, 4, 6]
        assert [item.id for item in project.items("train")] == ["r0", "r2"]


def test_what_is_unusable_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    own_data.write_data(tmp_path, splits={"train": jsonl([row(0), row(0, id="b", gold={"name": "Ana 0"})])})
    project = own_data.project(tmp_path)
    with pytest.raises(DataError, match="conflicting_gold"):
        fingerprint.run(project)
    assert not (tmp_path / "evidence").exists()


@pytest.mark.parametrize("split", ["train", "validation", "heldout"])
def test_a_split_that_is_needed_and_missing_or_empty_is_named(tmp_path: Path, split: str) -> None:
    folder = own_data.write_data(tmp_path, splits={split: b""})
    project = own_data.project(tmp_path)
    with pytest.raises(DataError, match="empty") as caught:
        fingerprint.run(project)
    assert split in caught.value.where
    (folder / f"{split}.jsonl").unlink()
    write_sums(folder)
    with pytest.raises(DataError, match=f"{split}.jsonl"):
        fingerprint.run(project)


def test_the_validation_suite_may_be_another_file_and_keeps_its_label(tmp_path: Path) -> None:
    folder = own_data.write_data(tmp_path, more={"checks.jsonl": jsonl([row(n) for n in range(20, 24)])})
    project = own_data.project(tmp_path)
    chosen = project.params.validation.model_copy(update={"suite": "checks"})
    project = Project(tmp_path, project.params.model_copy(update={"validation": chosen}))
    fingerprint.run(project)
    suite = project.inputs("validation").validation
    assert suite.split == "validation"
    assert {item.id for item in suite.items} <= {f"r{n}" for n in range(20, 24)}
    (folder / "checks.jsonl").unlink()
    write_sums(folder)
    with pytest.raises(DataError, match=r"checks\.jsonl"):
        fingerprint.run(project)


def test_every_file_of_the_data_folder_needs_its_checksum(tmp_path: Path) -> None:
    folder = own_data.write_data(tmp_path)
    project = own_data.project(tmp_path)
    (folder / "schemas/new.json").write_text("{}")
    with pytest.raises(DataError, match=r"schemas/new\.json"):
        fingerprint.run(project)
    (folder / "schemas/new.json").unlink()
    (folder / ".DS_Store").write_text("x")
    (folder / "README.md").write_text("x")
    fingerprint.run(project)


def test_a_schema_that_was_edited_is_told_as_such_and_changes_the_digest(
    plain: Project, told: list[str]
) -> None:
    before = read(plain).dataset_sha256
    schema = plain.data("schemas/parts/text.json")
    schema.write_text('{"type": "string"}')
    with pytest.raises(DataError, match=r"schemas/parts/text\.json"):
        fingerprint.run(plain)
    write_sums(plain.data(""))
    plain.data("train.jsonl").write_bytes(jsonl([*(row(n) for n in range(1, 6)), row(77)]))
    write_sums(plain.data(""))
    fingerprint.run(plain)
    lines = "\n".join(told)
    assert f"schema {DATA}/schemas/parts/text.json edited" in lines
    assert "train: 1 record added (r77)" in lines
    assert "train: 1 record removed (r0)" in lines
    assert "edited (" not in lines
    assert read(plain).dataset_sha256 != before


@pytest.mark.parametrize("content", ["", "{", "[]", '{"records": 5, "schemas": {}}', "\x00"])
def test_a_damaged_memory_of_the_last_fingerprint_is_no_obstacle(
    plain: Project, content: str, told: list[str]
) -> None:
    (index,) = (plain.root / first_look.INDICES).iterdir()
    index.write_text(content)
    fingerprint.run(plain)
    assert any("cannot be said" in line for line in told)
    told.clear()
    fingerprint.run(plain)
    assert not [line for line in told if "cannot be said" in line or "since the last" in line]


def test_a_blocklist_outside_the_data_is_not_read(tmp_path: Path) -> None:
    own_data.write_data(tmp_path)
    (tmp_path / "terms.txt").write_text("curse")
    for name in ("../../terms.txt", "/etc/passwd", "link.txt"):
        (tmp_path / DATA / "link.txt").unlink(missing_ok=True)
        (tmp_path / DATA / "link.txt").symlink_to(tmp_path / "terms.txt")
        with pytest.raises(DataError, match="inside"):
            inputs.blocklist_of(
                own_data.project(tmp_path, blocklist=name).root,
                own_data.project(tmp_path, blocklist=name).params,
            )


def test_terms_reach_the_task(plain: Project) -> None:
    assert plain.task().blocklist.terms == ("curse",)  # type: ignore[attr-defined]


def test_another_task_or_cache_than_the_fingerprinted_one_is_refused(plain: Project) -> None:
    path = plain.results("fingerprint.json")
    path.write_text(path.read_text().replace('"structured"', '"collider"'))
    with pytest.raises(DataError, match="repro fingerprint"):
        plain.items("train")
    fingerprint.run(plain)
    with pytest.raises(DataError, match=r"dataset\.cache"):
        own_data.project(plain.root, cache=CACHE, blocklist="terms.txt").items("train")
    with pytest.raises(DataError, match="a fingerprint of"):
        plain.items("nothing")


def test_two_projects_in_other_folders_have_the_same_evidence_of_their_data(tmp_path: Path) -> None:
    one, two = made(tmp_path / "one", cache=CACHE), made(tmp_path / "deeper/two", cache=CACHE)
    for name in ("fingerprint.json", "audit.json", "claim_plan.json"):
        assert one.results(name).read_bytes() == two.results(name).read_bytes()
    schemas = json.loads(one.results("fingerprint.json").read_text())["schemas"]
    assert set(schemas) == {f"{DATA}/{name}" for name in own_data.SCHEMAS}


def test_a_schema_file_outside_the_data_folder_is_refused_because_nobody_would_see_it_change(
    tmp_path: Path,
) -> None:
    (tmp_path / "elsewhere.json").write_text('{"type": "object"}')
    rows = {
        name: jsonl([row(n, schema_path="elsewhere.json") for n in numbers])
        for name, numbers in own_data.SPLITS.items()
    }
    own_data.write_data(tmp_path, rows)
    with pytest.raises(DataError, match=r"elsewhere\.json"):
        fingerprint.run(own_data.project(tmp_path))


def test_a_blocklist_without_a_checksum_is_refused(tmp_path: Path) -> None:
    folder = own_data.write_data(tmp_path)
    (folder / ".terms").write_bytes(TERMS)
    with pytest.raises(DataError, match="blocklist"):
        fingerprint.run(own_data.project(tmp_path, blocklist=".terms"))


@pytest.mark.parametrize("cache", ["../out", "", ".", f"{DATA}/copies", "/tmp"])
def test_a_copy_is_kept_neither_outside_the_project_nor_among_the_data(tmp_path: Path, cache: str) -> None:
    own_data.write_data(tmp_path)
    with pytest.raises(ConfigError, match=r"dataset\.cache"):
        fingerprint.run(own_data.project(tmp_path, cache=cache))


def test_a_pipe_in_place_of_the_checksums_is_refused_at_once(tmp_path: Path) -> None:
    folder = own_data.write_data(tmp_path)
    (folder / "SHA256SUMS").unlink()
    os.mkfifo(folder / "SHA256SUMS")
    with pytest.raises(AssayError, match="SHA256SUMS"):
        fingerprint.run(own_data.project(tmp_path))
