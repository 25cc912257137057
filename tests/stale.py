"""Which stages are stale: `./run stale`. With --results they run again, in a copy, and what they make is
compared.

A stage is stale where its code, settings or inputs are no longer those that dvc.lock names. That says nothing
of its results: a comment makes a stage stale. So it is only said, and the exit code is 1 in two cases: with
--results where a result would be another, and where the commit at hand is tagged as a release (v…).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.core.console import say
from assay.core.storage.yaml import read_yaml
from tests.house import ROOT
from tests.smoke import copy_project

LAST = "package"  # holds dvc.lock, which names the code: another one for each, and no result
RENEW = "Fix: ./run repro, then commit dvc.lock and evidence/"
DVC = (sys.executable, "-m", "dvc")


def main() -> int:
    """Do what the command line asks; return the exit code."""
    parser = argparse.ArgumentParser("./run stale", description=__doc__.partition(":")[0])
    parser.add_argument("--results", action="store_true", help="run them in a copy: minutes, for a training")
    return look(ROOT, results=parser.parse_args().results)


def look(root: Path, *, results: bool) -> int:
    """Say which stages are stale, and whether their results would be others; return the exit code."""
    status = subprocess.run([*DVC, "status", "--json"], cwd=root, stdout=subprocess.PIPE, check=True)
    stale = dict(stale_stages(json.loads(status.stdout), locked(root)))
    for stage, reasons in stale.items():
        say(f"stale: {stage}: {', '.join(reasons)}")
    if not stale:
        say("no stage is stale: the results in git were made by the code, settings and data at hand")
        return 0
    tagged = ["git", "tag", "--points-at", "HEAD", "v*"]
    if tags := subprocess.run(tagged, cwd=root, capture_output=True, text=True, check=False).stdout.split():
        say(f"{tags[0]} would be a release with evidence of other code. {RENEW}, and tag that commit")
        return 1
    if not results:
        return 0
    with tempfile.TemporaryDirectory(prefix="assay-stale-") as folder:
        copy = Path(folder).resolve() / "copy"
        copy_project(copy, root)
        if (root / "models").is_dir():  # git does not hold them; without them they are made again
            shutil.copytree(root / "models", copy / "models")
        stages = [stage for stage in locked(root) if stage != LAST]
        subprocess.run([*DVC, "repro", *stages], cwd=copy, check=True, stdout=sys.stderr)
        others = list(differences(locked(root), locked(copy)))
    for each in others:
        say(f"another result: {each}")
    say(f"results differ. {RENEW}" if others else "results are equal to the last byte")
    return 1 if others else 0


def locked(root: Path) -> dict[str, Any]:
    """Return the stages of dvc.lock."""
    found: dict[str, Any] = read_yaml(root / "dvc.lock", fix="git checkout -- dvc.lock")["stages"]
    return found


def stale_stages(status: Mapping[str, Any], stages: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield every stage whose code, settings or inputs are others than dvc.lock names, with which.

    Args:
        status: What `dvc status --json` writes.
        stages: Those of dvc.lock. What one of them writes and git does not hold is missing in a clone, which
            makes no stage stale.
    """
    made = {out["path"] for stage in stages.values() for out in stage.get("outs", [])}
    for stage, changes in status.items():
        reasons = ["its command"] if "changed command" in changes else []
        for change in (each for each in changes if isinstance(each, dict)):
            for path, how in change.get("changed deps", {}).items():
                if isinstance(how, dict):
                    reasons += [f"{path}: {name}" for name in how]
                elif how != "deleted" or path not in made:
                    reasons.append(path if how == "modified" else f"{path} ({how})")
        if reasons and stage != LAST:
            yield stage, reasons


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a stage wrote otherwise, by two dvc.lock."""
    for stage, found in after.items():
        known = {out["path"]: out["md5"] for out in before.get(stage, {}).get("outs", [])}
        for out in found.get("outs", []) if stage != LAST else []:
            if known.get(out["path"]) != out["md5"]:
                yield f"{stage}: {out['path']}"


if __name__ == "__main__":
    sys.exit(main())
