"""provenance.json: what a package was made of, and, beside it, who made it when; unsigned, by whoever ran it.

The one in the package is a function of its contents. The one in evidence/observed is about the package as a
whole and also holds what clocks, git and hardware had to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from assay.core.installed import Required
from assay.core.records import Record

Format = Literal["assay-package/7"]
FORMAT: Format = get_args(Format)[0]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]


class TaskCode(Record):
    """What somebody's own task is: its folder, and what is installed that grades with it."""

    folder: str
    entry: str = Field(description="file and function or class, or an adapter")
    sha256: Sha256 = Field(description="of names and contents of its files, as suites hold it")
    files: dict[str, Sha256] = Field(description="path in the package → sha256")
    requires: tuple[Required, ...]


class MadeFrom(Record):
    """What a run was made from, by digest."""

    data: dict[str, Sha256] = Field(description="path in the package → sha256 of each data file")
    base: dict[str, Any] = Field(
        description="of base.json: kind, digest (policy.digests.digest_folder), of a downloaded one model and"
        " revision, and of one that was converted its origin"
    )
    code: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{32}(\.dir)?$")]] = Field(
        description="folder or file of the code that the stages ran → its md5, as dvc.lock has it"
    )
    constraints: Sha256 = Field(description="of constraints.txt")
    task: TaskCode | None = Field(
        default=None,
        exclude_if=lambda found: found is None,
        description="not there where the task is part of assay, and so of the source",
    )


class Provenance(Record):
    """provenance.json of a package: the same for the same contents, whenever and wherever it was built."""

    format: Format = FORMAT
    subjects: dict[str, Sha256] = Field(min_length=1, description="path → sha256 of what this is about")
    params: dict[str, Any] = Field(description="every setting of the run, as values")
    task: str = Field(description="what its data are called")
    seed: int = Field(description="of the training")
    made_from: MadeFrom


class GitState(Record):
    """What git said of a checkout."""

    commit: Commit | None = Field(description="null outside of a checkout")
    modified: bool | None = Field(
        description="whether code, data or settings differed from the commit; null if unknown"
    )


class Trained(Record):
    """Who trained when on what, from evidence/observed/manifest.json."""

    run: str | None = None
    started: Time | None = None
    finished: Time | None = None
    git: GitState | None = None
    environment: Any = None
    world_size: int | None = None
    hardware: Any = None
    packages: dict[str, str | None] = Field(default_factory=dict, description="null: not installed")


class Packaged(Record):
    """What was so when the package was written."""

    started: Time
    finished: Time
    git: GitState
    remotes: tuple[str, ...] | None = Field(
        description="host/path of each git remote; null outside of a checkout"
    )


class Witnessed(Provenance):
    """provenance.json beside a package: its subject is the package's SHA256SUMS."""

    trained: Trained | None = Field(
        description="null: nothing is known of this training's clock and hardware"
    )
    packaged: Packaged


def trained_of(manifest: Mapping[str, Any]) -> Trained:
    """Return what the manifest of a training says that is told on.

    Raises:
        ValidationError: A time or commit in it is none.
    """
    known = {name: manifest[name] for name in Trained.model_fields if manifest.get(name) is not None}
    if "git" in known:
        known["git"] = {name: known["git"].get(name) for name in GitState.model_fields}
    return Trained.model_validate(known)
