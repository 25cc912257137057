"""A training is read as it stands on disk: torn ends are not there yet, damage is said, and nothing steers a
terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from assay.cli.tools.watch import command as watch
from assay.cli.tools.watch import snapshot as snapshot_room
from assay.cli.tools.watch.command import describe, list_alarms
from assay.cli.tools.watch.snapshot import Snapshot, SnapshotReader, find_place
from assay.core.errors import RecordError
from assay.core.evidence_files import place_of
from assay.core.storage.files import write_text
from tests.house import ROOT

LOG, EVALS, SCORES, HEALTH = map(
    place_of, ("training_log.csv", "checkpoint_evals.csv", "validation_scores.csv", "health.jsonl")
)
HOSTILE = "\x1b[2J\x07\u202eevil\u200b\r\n\x9b31m"


def training(root: Path, *, steps: int = 10, done: int = 4, **manifest: Any) -> Path:
    """Write what a training of so many steps leaves after some of them."""
    observed = root / "evidence/observed"
    steps_done = range(1, done + 1)
    rows = "".join(f"{k},{k / steps},0.1,{k / 10 - 0.5},0.2,0.0,1.0,0.001\n" for k in steps_done)
    write_text(root / LOG, "step,epoch,loss,reward,reward_std,kl,grad_norm,learning_rate\n" + rows)
    rows = "".join(f"{k},{2.0 * k},{1000.0 + k}\n" for k in steps_done)
    write_text(observed / "training_clock.csv", "step,wall_time_s,tokens_per_second\n" + rows)
    head = "step,fraction_done,episodes,mean_reward,success_rate,parsed_rate\n"
    write_text(root / EVALS, head + "0,0.0,16,0.1,0.25,1.0\n")
    rows = "".join(
        f'0,{greedy},"item, {k}",cluster{k},0,0.1,{float(k < 4)},1.0\n'
        for greedy in (0, 1)
        for k in range(16)
    )
    head = "step,greedy,item_id,cluster,draw,mean_reward,success_rate,parsed_rate\n"
    write_text(root / SCORES, head + rows)
    known = {"run": "a" * 64, "finished": None, "params": {"train": {"steps": steps}}} | manifest
    write_text(observed / "manifest.json", json.dumps(known))
    write_text(observed / "run_log.jsonl", '{"event":"started","step":0,"time":"2026-01-01T00:00:00Z"}\n')
    write_text(root / HEALTH, json.dumps(alarm("kl", "AMBER", 2)) + "\n")
    return root


def alarm(rule: str, level: str, step: int, **more: Any) -> dict[str, Any]:
    known = {"rule": rule, "level": level, "stop": False, "value": 0.2, "threshold": 0.1, "baseline": None}
    since = {"step": step, "first_step": step, "item_ids": [], "message": "too far from the base"}
    return known | since | more


def look(root: Path) -> Snapshot:
    return SnapshotReader(find_place(root)).read()


def test_a_running_training_is_told_with_its_speed_and_time_left(tmp_path: Path) -> None:
    snapshot = look(training(tmp_path))
    assert (snapshot.state, snapshot.step, snapshot.steps, snapshot.left_s) == ("running", 4, 10, 12.0)
    facts = dict(describe(snapshot, width=20))
    assert facts["reward"].startswith("-0.100  ▁")
    assert "success 25.0 % (95 % interval 9.1 to 52.5, n = 16)" in facts["validation"]
    assert facts["alarms"] == "AMBER kl since step 2"
    assert facts["time left"] == "12 s" and facts["tokens/s"].startswith("1,002 over")
    assert snapshot.faults == [] and list_alarms(snapshot) == [("AMBER", "kl", "2", "too far from the base")]


def test_the_intervals_of_validations_are_those_that_the_report_will_draw() -> None:
    seen = look(ROOT).checkpoints
    drawn = pd.read_csv(ROOT / place_of("plots/checkpoints.csv"))
    ends = [name for name in drawn.columns if name.endswith(("_low", "_high"))]
    assert {"success_rate_low", "greedy_success_rate_high", "best_of_k_mean_reward_low"} <= set(ends)
    for name in ends:
        assert pd.Series(seen[name], dtype=float).equals(drawn[name].astype(float)), name


def test_a_validation_that_is_not_there_as_a_whole_has_no_interval_and_a_damaged_one_is_said(
    tmp_path: Path,
) -> None:
    root = training(tmp_path)
    head, *rows = (root / SCORES).read_text().splitlines(keepends=True)
    for kept in (0, 1, 15, 16, 17, 31):
        write_text(root / SCORES, head + "".join(rows[:kept]))
        snapshot = look(root)
        assert "interval missing, n = 16" in dict(describe(snapshot, width=0))["validation"], kept
        assert snapshot.faults == []
    for old, new in (("0.1", "what"), ("0.1", "inf"), (",0,0.1", ",7e9,0.1")):
        damaged = rows[9].replace(old, new)
        write_text(root / SCORES, "".join([head, *rows[:9], damaged, *rows[10:]]))
        snapshot = look(root)
        assert "interval missing" in dict(describe(snapshot, width=0))["validation"]
        assert snapshot.faults[0].startswith("validation_scores.csv: step 0: ")


def test_an_alarm_that_is_over_is_not_told_as_standing(tmp_path: Path) -> None:
    root = training(tmp_path)
    told = (("kl", "AMBER", 2), ("entropy", "AMBER", 3), ("kl", "GREEN", 4), ("entropy", "RED", 4))
    lines = [alarm(*each) for each in told]
    write_text(root / HEALTH, "".join(json.dumps(line) + "\n" for line in lines))
    assert [(event.rule, event.level) for event in look(root).raised] == [("entropy", "RED")]


def test_before_the_first_step_everything_is_missing_and_nothing_is_zero(tmp_path: Path) -> None:
    write_text(tmp_path / "params.yaml", "")
    snapshot = look(tmp_path)
    assert snapshot.state == "none yet"
    facts = dict(describe(snapshot, width=20))
    assert facts["step"] == "missing of missing" and facts["validation"] == "success missing"
    assert [facts[name] for name in ("reward", "tokens/s", "alarms")] == ["missing"] * 3


def test_states_follow_what_was_written(tmp_path: Path) -> None:
    root = training(tmp_path)
    log = root / "evidence/observed/run_log.jsonl"
    for name in root.glob("evidence/**/*"):
        os.utime(name, (time.time() - 300, time.time() - 300))
    assert look(root).state == "silent"
    write_text(log, log.read_text() + '{"event":"ended early","why":"stopped by SIGTERM"}\n')
    assert look(root).state == "ended early"
    assert "stopped by SIGTERM" in dict(describe(look(root), width=9))["state"]
    write_text(log, log.read_text() + '{"event":"resumed","step":4}\n')
    assert look(root).state == "running"
    training(root, finished="2026-01-01T00:10:00Z")
    assert look(root).state == "finished" and "time left" not in dict(describe(look(root), width=9))


def test_before_the_next_training_begins_the_last_one_is_told_as_such(tmp_path: Path) -> None:
    root = training(tmp_path, done=10, finished="2026-01-01T00:10:00Z")

    def state(output: str, process: int = os.getpid()) -> str:
        by = {"pid": process, "cmd": "dvc repro"}
        write_text(root / ".dvc/tmp/rwlock", json.dumps({"write": {f"{root}/{output}": by}, "read": {}}))
        return dict(describe(look(root), width=9))["state"]

    said = "; this is the last training: DVC is making models/base, and the next has not begun"
    assert state("models/base") == f"finished{said}"
    for later in ("evidence/results/control", "evidence/results/post_eval"):  # of the training that is shown
        assert state(later) == f"finished; DVC is making {later}"
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    assert state("models/base", gone.pid) == "finished", "killed, and left its lock behind"
    for content in ("", "[]", '{"write": 3}', '{"write": {"x": 3}}', "\x00"):
        write_text(root / ".dvc/tmp/rwlock", content)
        assert dict(describe(look(root), width=9))["state"] == "finished"
    state("evidence/results/train")
    os.utime(root / ".dvc/tmp/rwlock", (1, 1))  # this very stage wrote down that it ended
    assert dict(describe(look(root), width=9))["state"] == "finished"


@pytest.mark.long
def test_a_torn_last_line_is_not_there_yet_and_a_damaged_one_is_said(tmp_path: Path) -> None:
    root = training(tmp_path)
    log, events, health = root / LOG, root / "evidence/observed/run_log.jsonl", root / HEALTH
    for path in (log, events, health, root / SCORES):
        content = path.read_bytes()
        for cut in range(1, len(content.rstrip(b"\n").split(b"\n")[-1]) + 1):
            path.write_bytes(content[:-cut])
            assert look(root).faults == [], f"{path.name} less {cut} bytes"
        path.write_bytes(content)
    log.write_text(
        log.read_text() + "5,0.5,0.1\n6,0.6,0.1,what,0.2,0.0,1.0,0.001\n7,0.7,0.1,inf,0.2,0.0,1.0,0.001\n"
    )
    events.write_text('{"event":"started"}\nnot json\n[1]\n{"event":"validation","step":5}\n')
    health.write_text(
        json.dumps(alarm("no_such_rule", "RED", 1)) + "\n" + json.dumps(alarm("kl", "RED", 3)) + "\n"
    )
    snapshot = look(root)
    said = " | ".join(snapshot.faults)
    for part in (
        "training_log.csv: line 6: 3 cells, not 8",
        "line 7: reward is 'what'",
        "line 8: reward is 'inf'",
        "run_log.jsonl: line 2",
        "line 3: not an object",
        "health.jsonl: line 1",
    ):
        assert part in said, said
    assert snapshot.log["reward"][-2:] == [None, None] and snapshot.step == 7
    assert [event.level for event in snapshot.raised] == ["RED"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff\xfe",
        b"[" * 100_000,
        b"null",
        b'{"params": 3}',
        b'{"params": {"train": {"steps": "x"}}}',
        b'{"event": {"a": 1}, "step": []}\n',
        b"step\n\n\n",
        b",,,\n,,\n",
        b'"step\n1\n',
        b'{"event":"finished","step":1e300}\n',
        b'{"event":["ended early"]}\n',
        b"step,wall_time_s,tokens_per_second,reward\n1e308,1e308,1e308,1e308\n2,-1e308,1e308,1e308\n",
    ],
)
def test_no_content_of_any_file_makes_looking_fail(tmp_path: Path, content: bytes) -> None:
    root = training(tmp_path)
    for path in sorted(path for path in root.glob("evidence/**/*") if path.is_file()):
        kept = path.read_bytes()
        path.write_bytes(content)
        for line in [*describe(look(root), width=20), *list_alarms(look(root))]:
            assert all(part.isprintable() for part in line)
        watch.format_lines(look(root))
        path.write_bytes(kept)


def test_a_folder_or_a_pipe_or_a_huge_file_in_place_of_a_table_is_said(tmp_path: Path) -> None:
    root = training(tmp_path)
    for name in (LOG, EVALS, SCORES, HEALTH):
        (root / name).unlink()
    (root / LOG).mkdir()
    for name in (EVALS, SCORES):
        os.mkfifo(root / name)
    with (root / HEALTH).open("wb") as stream:
        stream.truncate(10**9)
    said = " | ".join(look(root).faults)
    assert said.count("regular file") == 3 and "at most 67,108,864 bytes" in said


def test_nothing_that_is_told_can_steer_a_terminal(tmp_path: Path) -> None:
    root = training(tmp_path / HOSTILE.replace("\r\n", ""))
    event = json.dumps({"event": HOSTILE, HOSTILE: HOSTILE})
    write_text(root / "evidence/observed/run_log.jsonl", f"{event}\n")
    loud = json.dumps(alarm("kl", "RED", 1, message=HOSTILE + "x" * 9999))
    write_text(root / HEALTH, f"{loud}\n")
    snapshot = look(root)
    lines = watch.format_lines(snapshot)
    assert all(line.isprintable() for line in lines) and max(map(len, lines)) < 400
    console = Console(width=80, force_terminal=True, file=io.StringIO(), record=True)
    console.print(watch.make_panel(snapshot, 80))
    text = console.export_text(styles=False)
    assert "evil" in text and not set(text) & set("\x1b\x07\u202e\u200b\r\x9b")


@pytest.mark.parametrize("width", [1, 10, 20, 40, 80, 300])
def test_the_view_fits_any_width(tmp_path: Path, width: int) -> None:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(watch.make_panel(look(training(tmp_path)), width))
    assert max(map(len, console.export_text().split("\n"))) <= max(width, 4)


def test_a_project_its_evidence_and_its_run_folder_are_places_and_others_are_refused(tmp_path: Path) -> None:
    root = training(tmp_path / "project")
    run = root / ".scratch/train" / ("a" * 16)
    for folder, steps in ((root, 10), (root / "evidence", 10), (run, 10), (run.with_name("b" * 16), None)):
        folder.mkdir(parents=True, exist_ok=True)
        if folder.parent.name == "train":
            write_text(folder / "key.json", "{}")
            write_text(folder / "run_log.jsonl", '{"event":"checkpoint","step":3}\n')
        assert look(folder).steps == steps
    other = look(run.with_name("b" * 16))
    assert other.step == 3 and other.log == {} and other.state == "running"
    for nowhere in (tmp_path, tmp_path / "none", root / "evidence/results"):
        with pytest.raises(RecordError, match="expected a folder of a training"):
            find_place(nowhere)


def test_a_file_that_did_not_change_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    plain = snapshot_room.read_bytes

    def noted(path: Path, fix: str) -> bytes:
        read.append(path.name)
        return plain(path, fix=fix)

    monkeypatch.setattr(snapshot_room, "read_bytes", noted)
    reader = SnapshotReader(find_place(training(tmp_path)))
    reader.read()
    first = len(read)
    reader.read()
    assert len(read) == first > 3
    write_text(tmp_path / LOG, "step,reward\n1,0.5\n")
    assert reader.read().log["reward"] == [0.5] and read[first:] == ["training_log.csv"]


COMMAND = [sys.executable, "-m", "assay.cli", "runs", "watch"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", "COLUMNS": "90", "LINES": "40"}


def test_without_a_terminal_one_snapshot_is_printed_and_nothing_is_written(tmp_path: Path) -> None:
    root = training(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    done = subprocess.run(
        [*COMMAND, str(root)], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "step          4 of 10" in done.stdout and "\x1b" not in done.stdout
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_on_a_terminal_it_follows_until_ctrl_c_and_gives_the_cursor_back(tmp_path: Path) -> None:
    root = training(tmp_path)
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, str(root)],
        env=ENVIRONMENT,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    os.close(terminal)
    seen = b""

    def until(text: bytes) -> None:
        nonlocal seen
        deadline = time.monotonic() + 60
        while text not in seen:
            assert time.monotonic() < deadline, seen.decode(errors="replace")
            if select.select([master], [], [], 0.2)[0]:
                seen += os.read(master, 65536)

    try:
        until(b"4 of 10")
        training(root, done=7)
        until(b"7 of 10")
        shutil.rmtree(root / "evidence/results")  # as DVC does before a stage runs
        until(b"success missing")
        process.send_signal(signal.SIGINT)
        until(b"\x1b[?25h")
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
