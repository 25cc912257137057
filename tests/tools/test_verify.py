"""`assay verify` says one line a check and a verdict, without torch, from the archive alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from assay.package import checking as tool
from assay.package.checking import VerifyRequest
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import unpack
from tests.house import SRC
from tests.verification.made_run import made_run, packaged

BLOCKED = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "safetensors")
# Whatever else is imported, none of these may be.
CALL = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED}:
            raise ImportError("this machine has no " + name)
sys.meta_path.insert(0, Blocked())
from assay.cli import main
main()
"""
# What numpy may use of this processor.
FOUND = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
# What numpy calls AVX-512; without it exponentials have other last bits, as on processors that lack it.
WIDE = "X86_V4"
OTHER_PROCESSOR = {"NPY_DISABLE_CPU_FEATURES": f"{WIDE} AVX512_ICL AVX512_SPR"} if WIDE in FOUND else {}


@pytest.fixture(scope="module")
def tar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    return packaged(made_run(folder / "run"), folder / "dist")


def verify(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CALL, "verify", *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_a_package_passes_without_torch_on_another_processor_and_leaves_nothing_but_what_was_asked_for(
    tar: Path, tmp_path: Path
) -> None:
    done = verify(str(tar), "--out", "verify.json", cwd=tmp_path, **OTHER_PROCESSOR)
    assert done.returncode == 9, done.stdout + done.stderr
    assert WIDE not in FOUND or "not to the last" in done.stdout
    told = json.loads((tmp_path / "verify.json").read_text(encoding="utf-8"))
    first, *lines, last = done.stdout.strip().split("\n")
    assert len(lines) == len(told["checks"])
    assert first.startswith("HOLDS TOGETHER, ORIGIN NOT SHOWN: its numbers follow from")
    assert last.startswith("HOLDS TOGETHER, ORIGIN NOT SHOWN: ") and last.endswith(told["published"])
    assert re.search(
        r"package [0-9a-f]{64}, data [0-9a-f]{64}, plan [0-9a-f]{64}, 20 examples, place 1 ", last
    )
    assert {check["level"] for check in told["checks"] if check["outcome"] == "passed"} == {
        "V0",
        "V1",
        "V2",
        "V3",
    }
    assert {check["level"] for check in told["checks"] if check["outcome"] == "not asked"} == {
        "V0",
        "V4",
        "V5",
    }
    assert (told["verdict"], told["counts"]["failed"]) == ("origin not shown", 0)
    assert told["sha256"] == plain.check(str(tar)).sha256
    page = (SRC.parent / "docs/internals/verification.md").read_text(encoding="utf-8")
    unnamed = [c["name"] for c in told["checks"] if c["outcome"] == "passed" and f"`{c['name']}`" not in page]
    assert unnamed == [], "docs/internals/verification.md names each line as it is printed"
    assert str(tmp_path) not in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["verify.json"]


@pytest.mark.long
def test_an_unpacked_folder_with_an_edited_number_fails_and_is_left_as_it_was(
    tar: Path, tmp_path: Path
) -> None:
    from assay.stages.packing.archive import sealed

    folder = tmp_path / "folder"
    unpack(tar, folder)
    path = folder / "evidence/results/report/metrics.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"p": ', '"p": 0'), encoding="utf-8")
    # As somebody would who knows how the lists are made.
    kept = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    kept.pop("SHA256SUMS")
    for name, content in sealed(kept).items():
        assert isinstance(content, bytes)
        (folder / name).write_bytes(content)
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    result = tool._files(folder, VerifyRequest())
    assert result.ok
    checks = list(tool.verified(folder, result, VerifyRequest()))
    failed = {check.name: check.found for check in checks if check.outcome == "failed"}
    assert set(failed) >= {"claim", "dvc.lock"}
    assert "metrics.json" in failed["claim"]
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


def test_a_folder_that_changes_after_it_was_checked_is_not_looked_into(tar: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    unpack(tar, folder)
    result = tool._files(folder, VerifyRequest())
    (folder / "LICENSE").write_bytes(b"another\n")
    assert "changed" in tool._unpacked(folder, result, tmp_path / "copy")


def test_what_is_no_package_is_not_looked_into(
    tar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.tar"
    content = bytearray(tar.read_bytes())
    content[3000] ^= 1
    broken.write_bytes(content)
    result = tool._files(broken, VerifyRequest())
    checks = list(tool.verified(broken, result, VerifyRequest(regenerate=1, retrain=True)))
    assert {check.level for check in checks if check.outcome == "failed"} == {"V0"}
    assert {check.level: check.outcome for check in checks if check.level != "V0"} == dict.fromkeys(
        ("V1", "V2", "V3", "V4", "V5"), "not checked"
    )
    said: list[str] = []
    monkeypatch.setattr(tool, "say", said.append)
    assert tool.run(broken, VerifyRequest(), None) == 1
    assert said[-1].startswith("FAILED")


def test_another_digest_than_the_published_one_fails_before_anything_is_read(tar: Path) -> None:
    result = tool._files(tar, VerifyRequest(sha256="0" * 64))
    assert not result.ok


def test_a_folder_that_is_no_package_is_said_so_in_one_message(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("a")
    done = verify("notes", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    first, fix = done.stderr.splitlines()
    assert "a folder without SHA256SUMS" in first and fix.startswith("Fix: name a package")


def test_a_package_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    done = verify("nothing.tar", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "nothing.tar" in done.stderr
