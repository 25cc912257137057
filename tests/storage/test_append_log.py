"""A log that only grows keeps every complete row through kills, torn lines and full disks, and never hides
damage."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.house import SRC

from assay.core.errors import RecordError
from assay.core.storage.append_log import AppendLog, read_complete

ROWS: list[dict[str, Any]] = [{"k": k, "text": "é\u2028\n" * k, "loss": 0.1 * k} for k in range(4)]


def written(path: Path, rows: list[dict[str, Any]] = ROWS) -> bytes:
    with AppendLog.open(path) as log:
        for row in rows:
            log.append(row)
    return path.read_bytes()


def python(code: str, *arguments: object) -> dict[str, Any]:
    """Run code in a process of its own and return the JSON that it prints last."""
    call = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(
        call, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(SRC)}
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_rows_come_back_in_order_and_a_log_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "new folder/log.jsonl"
    written(path, ROWS[:2])
    written(path, ROWS[2:])
    assert list(read_complete(path)) == ROWS
    assert [p.name for p in path.parent.iterdir()] == ["log.jsonl"]


def test_each_row_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with AppendLog.open(path) as log:
        for n, row in enumerate(ROWS, start=1):
            log.append(row, durable=n % 2 == 0)
            assert list(read_complete(path)) == ROWS[:n]
    log.close()


def test_a_tail_torn_at_any_byte_is_cut_off_kept_beside_and_costs_no_earlier_row(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.jsonl")
    start = whole[:-1].rindex(b"\n") + 1
    for end in range(start, len(whole)):
        path = tmp_path / f"{end}.jsonl"
        path.write_bytes(whole[:end])
        assert list(read_complete(path)) == ROWS[:-1]
        assert path.read_bytes() == whole[:end], "reading changes nothing"
        with AppendLog.open(path) as log:
            assert log.torn_bytes == end - start
            assert path.read_bytes() == whole[:start]
            log.append(ROWS[-1])
        assert path.read_bytes() == whole
        beside = path.with_name(f"{path.name}.torn")
        assert beside.exists() == (end > start)
        assert end == start or beside.read_bytes() == whole[start:end] + b"\n"


def test_a_second_torn_line_does_not_replace_the_first(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for piece in (b'{"first', b'{"second'):
        with path.open("ab") as stream:
            stream.write(piece)
        AppendLog.open(path).close()
    assert path.with_name("log.jsonl.torn").read_bytes() == b'{"first\n{"second\n'


@pytest.mark.parametrize(
    "damage",
    [b"{", b"", b'{"a":NaN}', b'{"a":1,"a":2}', b"\xff", b"\0\0", b"[" * 70 + b"]" * 70, b'{"k":1}{"k":2}'],
)
@pytest.mark.parametrize("tail", [b"", b'{"k":2}\n', b'{"k":2}\n{"k'])
def test_a_complete_line_that_is_damaged_is_named_and_the_file_left_alone(
    tmp_path: Path, damage: bytes, tail: bytes
) -> None:
    path = tmp_path / "log.jsonl"
    content = b'{"k":0}\n' + damage + b"\n" + tail
    path.write_bytes(content)
    for use in (lambda: AppendLog.open(path), lambda: list(read_complete(path))):
        with pytest.raises(RecordError) as caught:
            use()
        for word in (f"{path}, line 2", "expected", "found", "Fix: "):
            assert word in str(caught.value)
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["log.jsonl"]


def test_what_is_no_regular_file_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(RecordError, match="regular file"):
            AppendLog.open(path)
    with pytest.raises(RecordError, match="No such file"):
        list(read_complete(tmp_path / "none"))


@pytest.mark.parametrize(
    "value",
    [{"a": float("nan")}, {"a": "\ud800"}, {1: "a", "1": "b"}, {"a": object()}, "x" * 8_000_001],
    ids=["NaN", "surrogate", "one key twice", "object", "too long"],
)
def test_what_could_not_be_read_back_is_never_written(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "log.jsonl"
    before = written(path)
    with AppendLog.open(path) as log, pytest.raises((RecordError, ValueError, TypeError)):
        log.append(value)
    assert path.read_bytes() == before


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(VALUES, max_size=5), cut=st.integers(min_value=0))
def test_any_cut_leaves_exactly_the_rows_that_were_complete(
    tmp_path: Path, values: list[Any], cut: int
) -> None:
    path = tmp_path / "log.jsonl"
    path.unlink(missing_ok=True)
    with AppendLog.open(path) as log:
        for value in values:
            log.append(value)
    content = path.read_bytes()[: cut % (path.stat().st_size + 1)]
    path.write_bytes(content)
    kept = values[: content.count(b"\n")]
    AppendLog.open(path).close()
    assert list(read_complete(path)) == kept


KILLED = """
import json, os, random, signal, sys, time
from pathlib import Path
from assay.core.storage.append_log import AppendLog, read_complete
path, chance, torn, rows = Path(sys.argv[1]), random.Random(7), [], [0]

def size(k):  # now and then a long row: its write is the one that a kill can tear
    return 500_000 if k % 50 == 49 else k % 97

for kill in range(int(sys.argv[2])):
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        k = rows[-1]
        with AppendLog.open(path) as log:
            os.write(told, b"x")
            while True:
                log.append({"k": k, "fill": "x" * size(k)}, durable=k % 20 == 0)
                k += 1
    os.read(ready, 1)
    time.sleep(chance.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with AppendLog.open(path) as log:
        torn.append(log.torn_bytes)
    found = [(row["k"], len(row["fill"])) for row in read_complete(path)]
    assert found == [(k, size(k)) for k in range(len(found))], found[-3:]
    assert len(found) >= rows[-1], (len(found), rows)
    rows.append(len(found))
print(json.dumps({"rows": rows, "torn": torn}))
"""


@pytest.mark.long
def test_twenty_kills_at_random_moments_leave_a_prefix_of_what_was_written(tmp_path: Path) -> None:
    found = python(KILLED, tmp_path / "log.jsonl", 20)
    assert len(found["torn"]) == 20
    assert found["rows"][-1] > 20, "the writers must have got somewhere"


FULL = """
import json, resource, sys
from pathlib import Path
from assay.core.storage.append_log import AppendLog, read_complete
path, limited, rows = Path(sys.argv[1]), sys.argv[2] == "limited", 0
log = AppendLog.open(path)
if limited:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
failures = []
for size in (777, 777, 10):
    try:
        while True:
            log.append({"k": rows, "fill": "x" * size})
            rows += 1
    except OSError as error:
        failures.append([error.errno, error.filename])
        assert [row["k"] for row in read_complete(path)] == list(range(rows))
        assert path.read_bytes().endswith(b"\\n")
if limited:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
else:
    (path.parent / "ballast").unlink()
log.append({"k": rows})
log.close()
again = AppendLog.open(path)
last = list(read_complete(path))[-1]
print(json.dumps({"rows": rows, "last": last, "torn": again.torn_bytes, "failures": failures}))
"""


def refused(found: dict[str, Any], reason: int, path: Path) -> None:
    assert found["failures"] == [[reason, str(path)]] * 3
    assert found["torn"] == 0
    assert found["last"] == {"k": found["rows"]}


def test_a_file_that_may_not_grow_keeps_whole_rows_and_goes_on_when_it_may(tmp_path: Path) -> None:
    refused(python(FULL, tmp_path / "log.jsonl", "limited"), errno.EFBIG, tmp_path / "log.jsonl")


def test_a_full_disk_keeps_whole_rows_and_the_log_goes_on_when_there_is_room(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(disk)], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted: {mounted.stderr.decode().strip()}")
    try:
        (disk / "ballast").write_bytes(b"x" * 65_536)
        refused(python(FULL, disk / "log.jsonl", "disk"), errno.ENOSPC, disk / "log.jsonl")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_row_that_the_disk_did_not_take_for_good_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    before = written(path)

    def fails(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with AppendLog.open(path) as log:
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="Input/output"):
            log.append({"k": 4}, durable=True)
        assert path.read_bytes() == before
        log.append({"k": 4})  # does not wait for the disk
        assert path.read_bytes() == before + b'{"k":4}\n'


def test_when_somebody_else_wrote_meanwhile_their_row_is_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "log.jsonl", b'{"theirs":1}\n'
    before = written(path)

    def fails(descriptor: int) -> None:
        os.write(descriptor, other)
        raise OSError(errno.EIO, "Input/output error")

    with AppendLog.open(path) as log:
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="Input/output"):
            log.append({"k": 4}, durable=True)
    assert path.read_bytes() == before + b'{"k":4}\n' + other
