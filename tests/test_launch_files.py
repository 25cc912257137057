"""configs/launch/: the Slurm script does as it says on a Slurm of small programs; the SkyPilot file is one,
its lines run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests import fake_slurm
from tests.house import ROOT

LAUNCH = ROOT / "configs/launch"
SKY = YAML(typ="safe", pure=True).load((LAUNCH / "skypilot.yaml").read_text(encoding="utf-8"))
# Source: SkyPilot 0.14.1, get_task_schema and get_resources_schema in sky/utils/schemas.py, StorageMode in
# sky/data/storage.py.
TASK_KEYS = {
    "name",
    "workdir",
    "num_nodes",
    "resources",
    "file_mounts",
    "volumes",
    "envs",
    "secrets",
    "setup",
    "run",
    "config",
}
RESOURCE_KEYS = {
    "infra",
    "accelerators",
    "cpus",
    "memory",
    "instance_type",
    "use_spot",
    "disk_size",
    "disk_tier",
    "image_id",
    "ports",
    "labels",
    "autostop",
    "any_of",
    "ordered",
    "job_recovery",
}
MODES = {"MOUNT", "COPY", "MOUNT_CACHED"}

# In the place of ./run and DVC: a stage that is spread over nodes where that is asked for, and saves when it
# is stopped.
STAGE = r"""
import os, signal, sys, time
def saved(*_):
    time.sleep(0.2)
    print("saved by", os.environ.get("SLURM_NODEID", "the one process"), flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, saved)
where, told = os.environ.get("SLURM_NODEID", "one"), os.path.expandvars(os.environ.get("ASSAY_TORCHRUN", ""))
os.write(1, f"at work on {where} {told}\n".encode())  # whole, beside those of others
time.sleep(float(os.environ["SECONDS_OF_WORK"]))
"""
RUN = f"""#!{sys.executable}
import os, shlex, subprocess, sys
if sys.argv[1:3] == ["assay", "verdict"]:
    print("verdict")
    sys.exit(5)
assert sys.argv[1:] == ["dvc", "repro", "train"], sys.argv
command = [sys.executable, "-m", "assay.core.parent", sys.executable, {{stage!r}}]
if "ASSAY_ON_NODES" in os.environ:
    command = [*shlex.split(os.environ["ASSAY_ON_NODES"]), sys.executable, {{stage!r}}]
sys.exit(255 if subprocess.call(command) else 0)
"""


def submitted(
    folder: Path, nodes: int, seconds: float, *, stop: bool, cancelled: bool = False
) -> tuple[int, str, str]:
    """Run the batch script as a job; return its exit code, what it said, and what was queued again."""
    (folder / "stage.py").write_text(STAGE, encoding="utf-8")
    (folder / "run").write_text(RUN.format(stage=str(folder / "stage.py")), encoding="utf-8")
    (folder / "run").chmod(0o755)
    commands = fake_slurm.write(folder / "slurm")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "ASSAY_", "DVC_"))
    }
    environment |= fake_slurm.job(folder, nodes, 31) | {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "SECONDS_OF_WORK": str(seconds),
        "SLURM_GPUS_ON_NODE": "8",
    }
    output = folder / "out"
    with output.open("w") as stream:
        job = subprocess.Popen(
            ["bash", str(LAUNCH / "slurm.sh"), "train"], env=environment, stdout=stream, stderr=stream
        )
        deadline = time.monotonic() + 60
        while stop and output.read_text().count("at work on") < nodes:
            assert time.monotonic() < deadline and job.poll() is None, output.read_text()
            time.sleep(0.02)
        if cancelled:
            (commands / "cancelled").touch()
        if stop:
            job.send_signal(signal.SIGTERM)
        code = job.wait(timeout=120)
    queued = commands / "requeued"
    return code, output.read_text(), queued.read_text() if queued.exists() else ""


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_job_ends_as_the_pipeline_and_its_verdict_end(tmp_path: Path, nodes: int) -> None:
    code, said, queued = submitted(tmp_path, nodes, 0.0, stop=False)
    assert (code, queued) == (5, "") and said.endswith("verdict\n"), said
    if nodes == 2:
        for node in range(nodes):
            told = (
                f"--nnodes=2 --nproc-per-node=8 --node-rank={node} --master-addr=127.0.0.1"
                " --master-port=20031"
            )
            assert f"at work on {node} {told}\n" in said
    else:
        assert "at work on one \n" in said


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only there a parent's end is noticed")
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_job_that_is_stopped_waits_until_all_have_saved_and_is_queued_again(
    tmp_path: Path, nodes: int
) -> None:
    code, said, queued = submitted(tmp_path, nodes, 60.0, stop=True)
    assert (code, queued) == (0, "requeue 31\n"), said
    assert said.count("saved by") == nodes and "verdict" not in said
    assert said.rindex("saved by") < said.index("queued again")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only there a parent's end is noticed")
def test_a_job_that_somebody_cancelled_is_not_queued_again(tmp_path: Path) -> None:
    code, said, queued = submitted(tmp_path, 1, 60.0, stop=True, cancelled=True)
    assert code != 0 and queued == "" and said.count("saved by") == 1 and "verdict" not in said, said


def test_the_skypilot_file_has_the_fields_that_skypilot_knows() -> None:
    assert set(SKY) <= TASK_KEYS and set(SKY["resources"]) <= RESOURCE_KEYS
    assert all(isinstance(value, str) for part in ("envs", "secrets") for value in SKY[part].values())
    assert {mount["mode"] for mount in SKY["file_mounts"].values()} <= MODES
    assert SKY["envs"]["KEPT"] in SKY["file_mounts"]
    assert (ROOT / f"configs/grpo/{SKY['envs']['PRESET']}.yaml").is_file()
    assert (ROOT / f"configs/task/{SKY['envs']['TASK']}.yaml").is_file()


BOX = """#!/bin/sh
echo "$@" >>calls
case "$*" in
"dvc repro "*) mkdir -p evidence models && echo "$3" >>evidence/done && echo lock >dvc.lock ;;
esac
case "$*" in "dvc repro $TAKEN_AWAY_AT") exit 143 ;; esac
"""


def test_a_box_that_is_taken_away_leaves_its_finished_stages_to_the_next(tmp_path: Path) -> None:
    def box(name: str, taken_away_at: str) -> tuple[int, list[str]]:
        folder = tmp_path / name
        shutil.copytree(ROOT / "configs", folder / "configs")
        (folder / "params.yaml").touch()
        (folder / "run").write_text(BOX, encoding="utf-8")
        (folder / "run").chmod(0o755)
        own = os.environ | SKY["envs"] | {"KEPT": str(tmp_path / "bucket"), "TAKEN_AWAY_AT": taken_away_at}
        done = subprocess.run(
            ["bash", "-c", SKY["run"]], cwd=folder, env=own, capture_output=True, text=True, check=False
        )
        assert (folder / ".scratch").is_symlink(), done.stderr
        (folder / ".scratch" / name).touch()
        return done.returncode, (folder / "calls").read_text().splitlines()

    (tmp_path / "bucket").mkdir()
    code, _ = box("first", "control")
    assert code == 143
    code, calls = box("second", "never")
    assert code == 0 and calls[-1] == "assay verdict" and "dvc repro package" in calls
    evidence = (tmp_path / "second/evidence/done").read_text().split()
    assert evidence == ["pre_eval", "train", "pre_eval", "train", "control", "post_eval", "package"]
    assert sorted(path.name for path in (tmp_path / "second/.scratch").iterdir()) == ["first", "second"]


def test_every_shell_line_is_one() -> None:
    for text in (SKY["setup"], SKY["run"], (LAUNCH / "slurm.sh").read_text(encoding="utf-8")):
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
