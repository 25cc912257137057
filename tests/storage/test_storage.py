"""Files whole or not at all; strict JSON both ways; archives that depend on nothing but their members."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.house import ROOT

import assay
from assay.checks.doctor import command as doctor
from assay.core.config.composition import check, use
from assay.core.errors import AssayError, ConfigError, RecordError, RunningAlready
from assay.core.records import Interval
from assay.core.storage import files, json, tables
from assay.core.storage.locks import hold
from assay.core.storage.untrusted import sha256_contents
from assay.core.storage.yaml import read_yaml


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    files.write_text(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, "a": 2}', "duplicate"),
        ("{", "Expecting"),
        ("[" * 100_000, "deeper than 64"),
        ('{"a": 1e400}', "beyond a double"),
        ('{"a": "\\ud800"}', "surrogate"),
        ("[" * 65 + "]" * 65, "deeper than 64"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_line(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"ok": 1}\n' + text + "\n")
    with pytest.raises(RecordError) as caught:
        list(json.read_jsonl(path, fix="write it again"))
    assert "line 2" in str(caught.value)
    assert word.lower() in str(caught.value).lower()


def test_a_line_separator_inside_a_string_does_not_split_a_record(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    json.write_jsonl(path, [{"text": "a\u2028b\u0085c"}])
    assert list(json.read_jsonl(path, fix="")) == [{"text": "a\u2028b\u0085c"}]


def test_nan_never_reaches_disk(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"NaN|nan|Out of range"):
        json.write_json(tmp_path / "x.json", {"a": float("nan")})
    with pytest.raises(RecordError, match="finite"):
        tables.csv_text([{"a": float("inf")}], ["a"])


def test_a_record_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    json.write_json(tmp_path / "x.json", {"value": 1.0, "low": 0.5, "high": 1.5, "n": 3, "note": "?"})
    with pytest.raises(RecordError, match="note"):
        json.read_record(tmp_path / "x.json", Interval, fix="")


def test_records_written_and_read_are_equal(tmp_path: Path) -> None:
    record = Interval(value=0.1, low=None, high=0.3, n=4)
    json.write_jsonl(tmp_path / "x.jsonl", [record, record])
    assert json.read_records(tmp_path / "x.jsonl", Interval, fix="") == [record, record]


def test_a_float_in_a_table_reads_back_to_the_same_bits() -> None:
    assert tables.csv_text([{"x": 0.1 + 0.2}], ["x"]) == "x\n0.30000000000000004\n"


def test_yaml_reads_1e_minus_6_as_a_number(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("lr: 1e-6\n")
    assert read_yaml(tmp_path / "p.yaml", fix="") == {"lr": 1e-6}


def test_a_writer_that_is_killed_leaves_what_the_next_sweep_takes_and_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    tables.write_csv(path, [{"step": 1}], ["step"])
    child = os.fork()
    if child == 0:
        files.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[attr-defined,assignment]
        tables.write_csv(path, [{"step": 2}], ["step"])
        os._exit(0)
    os.waitpid(child, 0)
    (left,) = (name.name for name in tmp_path.iterdir() if name != path)
    assert left.startswith(f".table.csv.{child}-") and left.endswith(".part")
    assert files.sweep(tmp_path, tmp_path / "nowhere") == [left]
    assert [name.name for name in tmp_path.iterdir()] == ["table.csv"] and path.read_text() == "step\n1\n"


def test_a_sweep_takes_nothing_that_is_not_a_dead_writers(tmp_path: Path) -> None:
    nobody, me = 2**22 + 1, os.getpid()
    kept = [
        f".a.json.{me}-abcdefgh.part",
        ".a.json.abcdefgh",
        f"a.json.{nobody}-abcdefgh.part",
        ".hidden",
        f".a.json.{nobody}-ABCDEFGH.part",
        f".a.json.{nobody}-abcdefg.part",
        f".x.{nobody}-abcdefgh.part.txt",
    ]
    gone = [f".a.json.{nobody}-abcdefgh.part", f".a.json.{me}-old_old_.part"]
    for name in kept + gone:
        (tmp_path / name).write_bytes(b"x")
    os.utime(tmp_path / gone[1], (1.0, 1.0))  # the number of its process is another's by now
    (tmp_path / f"folder/.deep.{nobody}-abcdefgh.part").parent.mkdir()
    (tmp_path / f"folder/.deep.{nobody}-abcdefgh.part").write_bytes(b"x")
    assert files.sweep(tmp_path) == sorted(gone)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "folder"])
    assert len(list((tmp_path / "folder").iterdir())) == 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("folder/a.py", "folder/deep/b.py", "folder/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path / "folder"


def test_a_file_has_the_digest_of_its_bytes_and_nothing_has_none(folder: Path) -> None:
    assert sha256_contents(folder / "a.py") == hashlib.sha256(b"folder/a.py").hexdigest()
    assert sha256_contents(folder / "d") is None


def leave_caches(folder: Path) -> None:
    (folder / "deep/__pycache__").mkdir()
    (folder / "deep/__pycache__/b.pyc").write_bytes(b"x")


def link(folder: Path) -> None:
    shutil.move(folder / "c", folder.parent / "elsewhere")
    (folder / "c").symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize("act", [leave_caches, link, lambda folder: os.utime(folder / "c", (1, 1))])
def test_what_is_no_content_changes_nothing(folder: Path, act: Callable[[Path], None]) -> None:
    before = sha256_contents(folder)
    act(folder)
    assert sha256_contents(folder) == before


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: (folder / "deep/b.py").write_text("folder/deep/B.py"),
        lambda folder: (folder / "deep/b.py").rename(folder / "b.py"),
        lambda folder: (folder / "new").write_text(""),
        lambda folder: (folder / "c").unlink(),
    ],
)
def test_another_name_or_byte_is_another_digest(folder: Path, act: Callable[[Path], None]) -> None:
    before = sha256_contents(folder)
    act(folder)
    assert sha256_contents(folder) != before


HOLDER = """
import pathlib, sys
from assay.core.storage.locks import hold
with hold(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Start another process that holds the lock until its input ends."""
    environment = os.environ | {"PYTHONPATH": str(Path(assay.__file__).parent.parent)}
    started = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert started.stdout is not None and started.stdout.readline() == "held\n"
    return started


def test_a_second_holder_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    path = tmp_path / "deep/run.lock"
    with (
        hold(path),
        pytest.raises(RunningAlready, match=rf"run.lock.*process {os.getpid()}\.\nFix: wait"),
        hold(path),
    ):
        pass
    assert not path.exists()
    with hold(path):
        pass


@pytest.mark.parametrize("gone", [False, True])
def test_a_holder_whose_number_is_not_there_to_read_is_refused_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    path = tmp_path / "run.lock"

    def read(*_: object, **__: object) -> str:
        if gone:
            raise FileNotFoundError(2, "No such file or directory")
        return ""

    with hold(path):
        monkeypatch.setattr(Path, "read_text", read)
        with pytest.raises(RunningAlready, match=r"process \?\."), hold(path):
            pass


@pytest.mark.parametrize("end", [signal.SIGKILL, None])
def test_a_lock_ends_with_its_process(tmp_path: Path, end: signal.Signals | None) -> None:
    path = tmp_path / "run.lock"
    other = holder(path)
    with other:
        with pytest.raises(AssayError, match=f"process {other.pid}"), hold(path):
            pass
        if end is not None:
            other.send_signal(end)
        other.communicate()
    with hold(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_lock_is_let_go_of_when_its_block_raises(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with pytest.raises(KeyboardInterrupt), hold(path):
        raise KeyboardInterrupt
    with hold(path):
        pass


def test_a_lock_that_its_last_holder_removes_meanwhile_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, original, removed = tmp_path / "run.lock", fcntl.flock, list[int]()

    def late(handle: int, how: int) -> None:
        if not removed:
            removed.append(handle)
            path.unlink()  # between opening and locking
        original(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with hold(path):
        assert removed and path.exists()
        with pytest.raises(RunningAlready), hold(path):
            pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="a folder to write in"), hold(tmp_path / "file/run.lock"):
        pass


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(RecordError, match="a file that can be locked"), hold(tmp_path / "run.lock"):
        pass


NOT_FINITE = (".inf", "-.inf", ".nan", ".NaN", "1e309", "-1e309", "1e400")
FOREIGN = {
    **{text: "a finite number" for text in NOT_FINITE},
    "1" + "0" * 400: "a number within a double",
    "2020-01-01": "JSON has too",
    "2020-01-01T00:00:00Z": "JSON has too",
    "!!binary aGk=": "without tags",
    "!!set {a, b}": "without tags",
    "{1: 2}": "names",
    "!!bool maybe": "without tags",
    "{null: 1}": "names",
    "{? [a, b] : 1}": "names",
    '"\\ud800"': "half a surrogate pair",
    "[" * 100 + "]" * 100: "at most 64 levels",
    "9" * 5000: "valid YAML",
    "[1, .inf]": "a finite number",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", FOREIGN, ids=lambda text: text[:20])
def test_a_value_that_json_has_not_is_refused_with_its_place(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"train:\n  rate: {text}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_yaml(tmp_path / "a.yaml", fix="the fix")
    assert FOREIGN[text] in str(caught.value) and "Fix: the fix" in str(caught.value)
    assert (
        "train.rate" in caught.value.where
        or "line 2" in caught.value.where
        or "4300 digits" in caught.value.found
    )


def test_what_json_has_too_is_read_as_ever(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: {b: [1, 1e-6, null, true, '!x', 'a & b * c']}\n", encoding="utf-8")
    assert read_yaml(tmp_path / "a.yaml", fix="") == {"a": {"b": [1, 1e-6, None, True, "!x", "a & b * c"]}}


def test_memory_that_is_no_number_is_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match="--device-memory: expected a number of GiB, found nan"):
        doctor.run(root, float("nan"))


@pytest.mark.parametrize("text", NOT_FINITE)
def test_settings_that_are_not_finite_are_refused_by_name(text: str, root: Path) -> None:
    whole = (root / "params.yaml").read_text()
    assert "  learning_rate: 0.0015\n" in whole
    (root / "params.yaml").write_text(
        whole.replace("  learning_rate: 0.0015\n", f"  learning_rate: {text}\n")
    )
    with pytest.raises(ConfigError, match=r"params.yaml, train.learning_rate: expected a finite number"):
        check(root)


@pytest.mark.parametrize("text", NOT_FINITE)
def test_presets_that_are_not_finite_are_refused_by_name_and_nothing_is_written(
    text: str, root: Path
) -> None:
    preset, before = root / "configs/grpo/tiny.yaml", (root / "params.yaml").read_bytes()
    whole = preset.read_text()
    assert "  learning_rate: 1.5e-3\n" in whole
    preset.write_text(whole.replace("  learning_rate: 1.5e-3\n", f"  learning_rate: {text}\n"))
    for call in (check, lambda root: use(root, grpo="tiny", task=None, seed=None)):
        with pytest.raises(ConfigError, match=r"tiny.yaml, train.learning_rate: expected a finite number"):
            call(root)
    assert (root / "params.yaml").read_bytes() == before
