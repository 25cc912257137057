"""`assay runs report`: what changed in settings, numbers and figures since a commit, as Markdown."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path, PurePosixPath

from assay.core.console import say
from assay.core.errors import AssayError, ConfigError, RecordError
from assay.core.evidence_files import place_of
from assay.core.storage.yaml import read_yaml
from assay.pipeline.project import Project
from assay.stages.render_evidence.at_hand import claim_at_hand
from assay.verdict.evidence.claim.claim import Claim

FIGURES_AT = (
    "ASSAY_FIGURES_AT"  # from where a browser gets the files of a commit: https://host/owner/name/raw
)
METRICS = place_of("metrics.json")


def run(root: Path, revision: str) -> None:
    """Print what changed in a project since whatever git takes for a commit.

    Raises:
        ConfigError: There is no such commit here.
        NoVerdictYet: The claim that stands is about other settings or data than those at hand.
        RecordError: DVC could not compare.
    """
    commit = _resolve(root, revision)
    project = Project.open(root)
    claim = claim_at_hand(project)
    settings = _compare(root, "params", "diff", commit, "--md")
    numbers = _compare(root, "metrics", "diff", commit, "--md", "--targets", METRICS)
    drawn = _git(root, "diff", "--name-only", commit, "--", f"{place_of('figures')}/*.png").split("\n")
    say(f"## Evidence against {_git(root, 'rev-parse', '--short', commit)}\n")
    say(f"* before: {_data_name(root, commit)}: {_claim_of(root, commit)}")
    say(f"* now: {project.params.dataset.name}: {claim.verdict}: {claim.sentence}")
    _show("Settings", settings, "No setting differs.")
    _show("Numbers", numbers, "No number differs.")
    _show("Figures", _figures(root, commit, [name for name in drawn if name]), "No figure differs.")


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _resolve(root: Path, revision: str) -> str:
    try:
        return _git(root, "rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except (subprocess.CalledProcessError, ValueError):
        expected, where = "a commit of this repository", "assay runs report"
        fix = "git log --oneline shows the commits of this repository"
        raise ConfigError(expected, found=repr(revision), where=where, fix=fix) from None


def _of_commit(root: Path, commit: str, name: str) -> str:
    """Return a file of a commit, nothing where it has none."""
    done = subprocess.run(["git", "show", f"{commit}:{name}"], cwd=root, capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _claim_of(root: Path, commit: str) -> str:
    try:
        text = _of_commit(root, commit, place_of("claim.json"))
        if "sentence" in (told := json.loads(text)):  # as it was before a claim was codes
            return f"{told['verdict']}: {told['sentence']}"
        claim = Claim.model_validate_json(text)
        return f"{claim.verdict}: {claim.sentence}"
    except (ValueError, KeyError, TypeError):
        return "no claim"


def _data_name(root: Path, commit: str) -> str:
    """Return what the data of a commit are called: the last part of dataset.root."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "params.yaml"
        copy.write_text(_of_commit(root, commit, copy.name), encoding="utf-8")
        try:
            return PurePosixPath(str(read_yaml(copy, fix="")["dataset"]["root"])).name
        except (AssayError, KeyError, TypeError):
            return "no data"


def _compare(root: Path, *words: str) -> str:
    """Return the table that DVC draws; nothing if it has no rows.

    Raises:
        RecordError: It failed. Of files that it cannot read it only warns, and ends with 0.
    """
    done = subprocess.run(["dvc", *words], cwd=root, capture_output=True, text=True, check=False)
    unread = "failed to load" in done.stderr and "workspace" in done.stderr
    if done.returncode or unread:
        found = " ".join(done.stderr.split())
        raise RecordError(
            "what DVC can compare", found=found, where=f"dvc {' '.join(words)}", fix="see to what it names"
        )
    rows = [line for line in done.stdout.split("\n") if line.startswith("|")]
    return "\n".join(rows) if len(rows) > 2 else ""  # it draws a head of two lines also over no rows


def _figures(root: Path, commit: str, names: list[str]) -> str:
    """Return the figures that changed, side by side where it is known from where a browser gets them."""
    at = os.environ.get(FIGURES_AT)
    if not at:
        return "\n".join(f"* {name}" for name in names)
    now, blocks = _git(root, "rev-parse", "HEAD"), []
    for name in names:
        pictures = f"| ![]({at}/{commit}/{name}) | ![]({at}/{now}/{name}) |"
        blocks.append(f"**{PurePosixPath(name).stem}**\n\n| before | now |\n|---|---|\n{pictures}")
    return "\n\n".join(blocks)


def _show(title: str, told: str, otherwise: str) -> None:
    say(f"\n### {title}\n\n{told}" if told else f"\n{otherwise}")
