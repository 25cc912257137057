"""Where a package comes from, as in-toto statements (v1) with the SLSA provenance predicate (v1).

They meet what SLSA calls Build L1: provenance exists and says how the package was built. Nothing more is
claimed: whoever ran the pipeline wrote them, unsigned, on a machine of their own. `inner_statement` lies in
the package and is a function of its contents; `outer_statement` lies beside it, is about the archive as a
whole, and holds what clocks, git and hardware had to say.

Sources: in-toto.io/Statement/v1 (subject, digest), slsa.dev/provenance/v1 (required: buildType,
externalParameters, builder.id; names of our own fields begin with `assay_`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from assay.core.errors import PackageError
from assay.core.records import Record
from assay.core.storage.json import dumps

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
# A type's URI should lead to its description but need not (in-toto's TypeURI). This project has no site of
# its own, and a name under .invalid (RFC 2606) can never be registered by somebody else, who would then
# describe our builds.
BUILD_TYPE = "https://assay.invalid/pipeline/v1"
# Who ran the pipeline is whoever ran it: no service that anybody could trust more than them.
BUILDER = "https://assay.invalid/self-run/v1"
LEVEL = "Build L1"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]


class Packaged(Record):
    """What was so when the package was written."""

    started: Time
    finished: Time
    commit: str | None = Field(description="of the checkout; null outside of one")
    modified: bool | None = Field(
        description="whether code, data or settings differed from the commit; null if unknown"
    )
    remotes: tuple[str, ...] | None = Field(
        description="host/path of each git remote; null outside of a checkout"
    )


class Dependencies(Record):
    """What a run was made from, by digest."""

    data: dict[str, str] = Field(description="path in the package → sha256 of each data file")
    base: dict[str, Any] = Field(
        description="base.json: kind, digest and, of a downloaded one, model and revision"
    )
    source: dict[str, str] = Field(description="path in the package → sha256 of each file of the code")
    constraints: str = Field(description="sha256 of constraints.txt")


def tree_digest(files: Mapping[str, str]) -> str:
    """Return one sha256 of a folder: of the lines `sha256sum` prints for its files, sorted by path in bytes.

    It is in-toto's `dirHash`: `find src -type f | LC_ALL=C sort | xargs sha256sum | sha256sum`.

    Args:
        files: Path → sha256 in hexadecimal.

    >>> tree_digest({})[:8]
    'e3b0c442'
    """
    lines = (f"{_sha256(files[name], name)}  {name}\n" for name in sorted(files, key=str.encode))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def inner_statement(
    subjects: Mapping[str, str], params: Mapping[str, Any], task: str, seed: int, dependencies: Dependencies
) -> dict[str, Any]:
    """Return the statement that lies in a package: the same for the same contents, whenever and wherever it
    was built.

    Args:
        subjects: Path in the package → sha256 of each file it is about: adapter, claim, episodes, report.
        params: Every setting of the run, as values.
        task: What its data are called.
        seed: Of the training.
        dependencies: What the run was made from.

    Raises:
        PackageError: A digest is none, or there is no subject.
    """
    predicate = {
        "buildDefinition": _definition(params, task, seed, {}, _resolved(dependencies)),
        "runDetails": {"builder": {"id": BUILDER, "assay_claims": LEVEL}},
    }
    return _statement(subjects, predicate)


def outer_statement(
    archive: Mapping[str, str],
    params: Mapping[str, Any],
    task: str,
    seed: int,
    dependencies: Dependencies,
    trained: Mapping[str, Any] | None,
    packaged: Packaged,
) -> dict[str, Any]:
    """Return the statement that lies beside a package: the archive, and what was measured while it came
    about.

    Args:
        archive: File name → sha256 of the archive; of its gzip too where there is one.
        params: Every setting of the run, as values.
        task: What its data are called.
        seed: Of the training.
        dependencies: What the run was made from.
        trained: evidence/observed/manifest.json; None where a run has none, and then its clock and hardware
            are missing here.
        packaged: What was so when the package was written.

    Raises:
        PackageError: A digest, commit or time is none.
    """
    run = trained or {}
    git = run.get("git") or {}
    commits = [_commit("training", git.get("commit"), git.get("modified"), packaged.remotes)]
    commits.append(_commit("packaging", packaged.commit, packaged.modified, packaged.remotes))
    versions = run.get("packages") or {}
    internal = {"assay_environment": run.get("environment"), "assay_world_size": run.get("world_size")}
    builder = {
        "id": BUILDER,
        "assay_claims": LEVEL,
        "assay_hardware": run.get("hardware"),
        "version": {name: version for name, version in versions.items() if version is not None},
        "assay_not_installed": sorted(name for name, version in versions.items() if version is None),
    }
    training = {name: _time(run.get(name), f"{name} of the training") for name in ("started", "finished")}
    spans = {"training": training, "packaging": {"started": packaged.started, "finished": packaged.finished}}
    metadata = {
        "invocationId": run.get("run"),
        "startedOn": training["started"],
        "finishedOn": packaged.finished,
        "assay_spans": spans,
    }
    predicate = {
        "buildDefinition": _definition(
            params,
            task,
            seed,
            _set(internal),
            [*_resolved(dependencies), *(each for each in commits if each)],
        ),
        "runDetails": {"builder": _set(builder), "metadata": _set(metadata)},
    }
    return _statement(archive, predicate)


def statement_text(statement: Mapping[str, Any]) -> str:
    """Return a statement as it is written: canonical JSON and a line end."""
    return dumps(dict(statement)) + "\n"


def _set(fields: Mapping[str, Any]) -> dict[str, Any]:
    # Unset and null mean the same in SLSA; within our own fields null stays, and says that something is
    # missing.
    return {name: value for name, value in fields.items() if value is not None}


def _statement(subjects: Mapping[str, str], predicate: dict[str, Any]) -> dict[str, Any]:
    if not subjects:
        raise PackageError(
            "a subject", found="none", where="provenance", fix="name the files the statement is about"
        )
    listed = [
        {"name": name, "digest": {"sha256": _sha256(subjects[name], name)}} for name in sorted(subjects)
    ]
    return {
        "_type": STATEMENT_TYPE,
        "subject": listed,
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }


def _definition(
    params: Mapping[str, Any], task: str, seed: int, internal: dict[str, Any], resolved: list[dict[str, Any]]
) -> dict[str, Any]:
    external = {"params": dict(params), "task": task, "seed": seed}
    return {
        "buildType": BUILD_TYPE,
        "externalParameters": external,
        "internalParameters": internal,
        "resolvedDependencies": resolved,
    }


def _resolved(made_from: Dependencies) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "digest": {"sha256": _sha256(made_from.data[name], name)}}
        for name in sorted(made_from.data)
    ]
    base = made_from.base
    model: dict[str, Any] = {
        "name": "base model",
        "digest": {"assay_folder": _sha256(base.get("digest"), "base model")},
        "annotations": {
            "kind": base.get("kind"),
            "assay_folder": "sha256 in hexadecimal, policy.digests.digest_folder",
        },
    }
    if base.get("model") is not None:
        model["annotations"] |= {"model": base["model"], "revision": base.get("revision")}
    found.append(model)
    found.append({"name": "src/assay", "digest": {"dirHash": tree_digest(made_from.source)}})
    found.append(
        {"name": "constraints.txt", "digest": {"sha256": _sha256(made_from.constraints, "constraints.txt")}}
    )
    return found


def _commit(
    of: str, commit: object, modified: object, remotes: Sequence[str] | None
) -> dict[str, Any] | None:
    if commit is None:
        return None
    if not (isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        raise PackageError(
            "a git commit", found=ascii(commit)[:80], where=f"provenance, {of}", fix="see evidence/observed"
        )
    notes = {"modified": modified, "remotes": None if remotes is None else list(remotes)}
    return {"name": f"checkout at {of}", "digest": {"gitCommit": commit}, "annotations": notes}


def _sha256(digest: object, name: str) -> str:
    if not (isinstance(digest, str) and _SHA256.fullmatch(digest)):
        found = ascii(digest)[:80]
        raise PackageError(
            "a sha256 in 64 lower-case hexadecimal digits", found=found, where=name, fix="report this"
        )
    return digest


def _time(time: object, where: str) -> str | None:
    if time is None:
        return None
    if not (isinstance(time, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", time)):
        raise PackageError(
            "a time in UTC, as in RFC 3339", found=ascii(time)[:80], where=where, fix="see evidence/observed"
        )
    return time
