"""Curves are drawn while a training runs, in a process that ends with it and touches nothing but its own
folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay.cli.tools.watch import redraw
from assay.cli.tools.watch.snapshot import Snapshot, SnapshotReader, find_place
from assay.core.evidence_files import place_of
from assay.core.storage.files import write_text
from tests.house import ROOT
from tests.tools.test_snapshot import HOSTILE, training

PATIENCE_S = 900.0
TABLES = ("training_log", "reward_components", "checkpoint_evals")


def look(root: Path) -> Snapshot:
    return SnapshotReader(find_place(root)).read()


def real(root: Path, rows: int) -> Path:
    """Write the first rows of the tables of the committed run, as they stood after so many steps."""
    training(root, steps=200)
    for name in TABLES:
        lines = (ROOT / place_of(f"{name}.csv")).read_text().split("\n")
        write_text(root / place_of(f"{name}.csv"), "\n".join(lines[: rows + 1]) + "\n")
    shutil.copy(ROOT / place_of("validation_scores.csv"), root / place_of("validation_scores.csv"))
    return root


@pytest.mark.parametrize("rows", [1, 2, 3, 60])
def test_every_curve_is_drawn_however_few_steps_there_are(tmp_path: Path, rows: int) -> None:
    root = real(tmp_path, rows)
    redraw.draw(root, look(root), 5.0)
    folder = root / "evidence/observed/live"
    names = {path.stem for path in folder.glob("*.svg")}
    assert names >= {"training_curve", "reward_components", "checkpoint_progression"}
    page = (folder / "index.html").read_text()
    for name in names:
        assert f'src="{name}.svg"' in page and (folder / f"{name}.svg").read_bytes().rstrip().endswith(
            b"</svg>"
        )
    assert "could not be drawn" not in page and f"<dd>{rows} of 200</dd>" in page
    strip = (folder / "health.svg").read_text()
    assert f"optimizer step ({rows} of 200 steps)" in strip and "green" not in strip


def test_before_the_first_step_the_page_says_so_and_has_no_curve(tmp_path: Path) -> None:
    root = real(tmp_path, 3)
    redraw.draw(root, look(root), 5.0)
    for name in TABLES:
        (root / place_of(f"{name}.csv")).unlink()
    redraw.draw(root, look(root), 5.0)
    folder = root / "evidence/observed/live"
    assert sorted(path.name for path in folder.iterdir()) == ["index.html"], (
        "curves of an earlier training are taken away"
    )
    assert "<dt>reward</dt><dd>missing</dd>" in (folder / "index.html").read_text()


def test_a_table_that_is_not_there_yet_costs_no_other_curve(tmp_path: Path) -> None:
    root = real(tmp_path, 5)
    for name in TABLES[1:]:
        (root / place_of(f"{name}.csv")).unlink()
    redraw.draw(root, look(root), 5.0)
    assert (root / "evidence/observed/live/training_curve.svg").is_file()


def test_figures_that_fail_are_said_on_the_page_and_keep_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(snapshot: Snapshot) -> dict[str, tuple[bytes, str]]:
        raise ValueError("<script>no</script>")

    monkeypatch.setattr(redraw, "draw_figures", broken)
    root = real(tmp_path, 5)
    redraw.draw(root, look(root), 5.0)
    page = (root / "evidence/observed/live/index.html").read_text()
    assert "could not be drawn: ValueError: &lt;script&gt;" in page and "<dd>5 of 200</dd>" in page


def test_hostile_text_is_text_on_the_page(tmp_path: Path) -> None:
    root = training(tmp_path)
    markup = "<img src=x onerror=alert(1)></dl></main><script>alert(1)</script>"
    log = root / "evidence/observed/run_log.jsonl"
    from assay.core.storage.json import dumps

    write_text(log, dumps({"event": markup, "why": HOSTILE}) + "\n")
    redraw.draw(root, look(root), 5.0)
    page = (root / "evidence/observed/live/index.html").read_text()
    assert "<img src=x" not in page and "&lt;img src=x" in page
    assert "<script" not in page and "\u202e" not in page and "\x1b" not in page


def test_a_page_is_loaded_again_while_training_and_not_after(tmp_path: Path) -> None:
    for manifest, again in (({}, True), ({"finished": "2026-01-01T00:10:00Z"}, False)):
        root = training(tmp_path, **manifest)
        redraw.draw(root, look(root), 4.2)
        assert (
            'http-equiv="refresh" content="5"' in (root / "evidence/observed/live/index.html").read_text()
        ) == again
    root = training(tmp_path)
    redraw.draw(root, look(root), 5.0, lost=True)
    page = (root / "evidence/observed/live/index.html").read_text()
    assert "refresh" not in page and "gone without a word" in page


PARENT = """import subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True)
print(process.pid, flush=True)
process.wait()"""


@contextmanager
def started(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "assay.cli.tools.watch.redraw", str(root), "1"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def until(true: Callable[[], object]) -> None:
    """Wait; long, because the process lets all others of a busy machine go first."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_follows_draws_a_last_time_at_the_word_end_and_writes_nowhere_else(tmp_path: Path) -> None:
    root = real(tmp_path, 5)
    page = root / "evidence/observed/live/index.html"
    before = {path for path in root.rglob("*") if "live" not in path.parts}
    with started(root) as process:
        until(page.is_file)
        assert "<dd>5 of 200</dd>" in page.read_text()
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
        real(root, 9)
        until(lambda: "<dd>9 of 200</dd>" in page.read_text())
        real(root, 30)
        _, err = process.communicate(b"end\n", timeout=PATIENCE_S)
        assert (process.returncode, err) == (0, b"")
    assert "<dd>30 of 200</dd>" in page.read_text()
    assert {path for path in root.rglob("*") if "live" not in path.parts} == before


def test_a_killed_trainer_takes_it_along_and_the_page_says_so(tmp_path: Path) -> None:
    root = real(tmp_path, 3)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, sys.executable, "-m", "assay.cli.tools.watch.redraw", str(root), "1"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    page = root / "evidence/observed/live/index.html"
    try:
        until(page.is_file)
    finally:
        parent.kill()
        parent.communicate()

    def gone() -> bool:
        try:
            return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    until(gone)
    assert "gone without a word" in page.read_text()


def test_a_folder_that_cannot_be_written_ends_it_with_a_line(tmp_path: Path) -> None:
    root = real(tmp_path, 3)
    write_text(root / "evidence/observed/live", "in the way")
    with started(root) as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and b"Traceback" not in err and err.count(b"\n") <= 2 and b"live" in err


def test_the_trainer_can_remove_all_it_reads_at_any_time(tmp_path: Path) -> None:
    root = real(tmp_path, 3)
    with started(root) as process:
        until((root / "evidence/observed/live/index.html").is_file)
        shutil.rmtree(root / "evidence", ignore_errors=True)
        time.sleep(1.5)
        _, err = process.communicate(b"end\n", timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, b"")
