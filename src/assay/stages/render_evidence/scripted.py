"""The episodes of scripted players as files: whatever a claim or a score says of them follows from these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from assay.core.errors import RecordError
from assay.core.evidence_files import place_of
from assay.core.records import Episode
from assay.core.storage.gzipped import read_records_gz, write_jsonl_gz
from assay.pipeline.project import Project
from assay.stages.render_evidence.rivals import ScriptedArms

FOLDER = "scripted"
PLAYER = "scripted:"  # and the name of the player is the policy of its episodes
ENDING = ".jsonl.gz"


def write_scripted(project: Project, scripted: Mapping[str, ScriptedArms]) -> None:
    """Write a file for each suite.

    Args:
        project: The run.
        scripted: As `scripted_arms` returns them.
    """
    for suite, arms in scripted.items():
        episodes = (
            episode.model_copy(update={"policy": f"{PLAYER}{name}"})
            for name, played in arms.episodes.items()
            for episode in played
        )
        write_jsonl_gz(project.results(scripted_file(project, suite)), episodes)


def scripted_file(project: Project, suite: str) -> str:
    """Return the name of the file of a secondary suite, or, of "", of the one that decides."""
    return f"{FOLDER}/{suite or project.params.played[0]}{ENDING}"


def scripted_files(names: Iterable[str]) -> list[str]:
    """Return which of some paths are such files, sorted."""
    home = f"{place_of(FOLDER)}/"
    return sorted(name for name in names if name.startswith(home) and name.endswith(ENDING))


def read_scripted(path: Path, *, fix: str) -> dict[str, list[Episode]]:
    """Return the episodes of a file by the name of their player.

    Raises:
        RecordError: It is missing or damaged, or an episode is of no scripted player.
    """
    found: dict[str, list[Episode]] = {}
    for episode in read_records_gz(path, Episode, fix=fix):
        policy = episode.policy or ""
        if not policy.startswith(PLAYER):
            raise RecordError(
                f"episodes of which policy begins with {PLAYER}",
                found=policy[:60] or "null",
                where=path.name,
                fix=fix,
            )
        found.setdefault(policy.removeprefix(PLAYER), []).append(episode)
    return found
