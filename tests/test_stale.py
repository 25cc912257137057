"""Stages whose results are of other code are named; they fail where a result would be another, or a release
is tagged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import stale

PIPELINE = """stages:
  count:
    cmd: {python} src/count.py
    deps: [src/count.py]
    params: [most]
    outs: [evidence/counts: {{cache: false}}]
  package:
    cmd: mkdir -p dist && cp src/count.py dist
    deps: [src/count.py, evidence/counts]
    outs: [dist]
"""
SCRIPT = """import pathlib
pathlib.Path("evidence/counts").mkdir(parents=True, exist_ok=True)
pathlib.Path("evidence/counts/all.txt").write_text("1 2 3")
"""


def test_a_clone_without_what_git_does_not_hold_has_no_stale_stage() -> None:
    stages = {"train": {"outs": [{"path": "models/adapter"}]}, "post_eval": {}}
    missing = {
        "train": [{"changed outs": {"models/adapter": "deleted"}}],
        "post_eval": [{"changed deps": {"models/adapter": "deleted"}}],
        "package": ["changed command", {"changed deps": {"src/a": "modified"}}],
    }
    assert dict(stale.stale_stages(missing, stages)) == {}
    changed = {
        "train": ["changed command", {"changed deps": {"params.yaml": {"train.steps": "modified"}}}],
        "post_eval": [
            {"changed deps": {"src/a": "modified", "src/b": "deleted", "models/adapter": "modified"}}
        ],
    }
    assert dict(stale.stale_stages(changed, stages)) == {
        "train": ["its command", "params.yaml: train.steps"],
        "post_eval": ["src/a", "src/b (deleted)", "models/adapter"],
    }


@pytest.mark.long
def test_a_comment_makes_a_stage_stale_and_another_result_or_a_tagged_release_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(stale, "say", said.append)
    root = tmp_path / "project"
    files = {
        "src/count.py": SCRIPT,
        "dvc.yaml": PIPELINE.format(python=sys.executable),
        "params.yaml": "most: 3\n",
        ".dvc/config": "[core]\n    no_scm = true\n",
        ".gitignore": "/dist\n/.dvc/cache\n/.dvc/tmp\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    def git(*words: str) -> None:
        identity = ("-c", "user.name=A User", "-c", "user.email=user@example.org")
        subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)

    def look(script: str, *, results: bool = False) -> tuple[int, list[str]]:
        said.clear()
        (root / "src/count.py").write_text(script)
        return stale.look(root, results=results), list(said)

    subprocess.run([*stale.DVC, "repro"], cwd=root, check=True, capture_output=True)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("tag", "v1")
    code, lines = look(SCRIPT, results=True)
    assert code == 0 and lines[0].startswith("no stage is stale")
    commented, other = f"# A comment.\n{SCRIPT}", SCRIPT.replace("3", "4")
    code, lines = look(commented)
    assert code == 1 and lines[0] == "stale: count: src/count.py" and lines[1].startswith("v1 would be")
    git("tag", "-d", "v1")
    assert look(other) == (0, ["stale: count: src/count.py"])
    assert look(commented, results=True) == (0, [lines[0], "results are equal to the last byte"])
    code, lines = look(other, results=True)
    assert code == 1 and lines[1:] == [
        "another result: count: evidence/counts",
        f"results differ. {stale.RENEW}",
    ]
    assert (root / "evidence/counts/all.txt").read_text() == "1 2 3"
