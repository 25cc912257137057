"""Provenance statements against the rules of in-toto Statement v1 and SLSA provenance v1."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from assay.core.errors import PackageError
from assay.core.storage.files import sha256_bytes
from assay.package.secrets.search import scan
from assay.package.statement import (
    Dependencies,
    Packaged,
    inner_statement,
    outer_statement,
    statement_text,
    tree_digest,
)

ROOT = Path(__file__).resolve().parents[2]
A, B, C = "a" * 64, "b" * 64, "c" * 64
PARAMS = {"seed": 3, "train": {"learning_rate": 0.001}, "task": {"name": "collider"}}
SUBJECTS = {"models/adapter/adapter_model.safetensors": A, "evidence/results/report/claim.json": B}
MADE_FROM = Dependencies(
    data={"data/collider/train.jsonl": A, "data/collider/heldout.jsonl": B},
    base={"kind": "scratch", "digest": C, "seed": 0},
    source={"src/assay/a.py": A, "src/assay/b.py": B},
    constraints=C,
)
PACKAGED = Packaged(
    started="2026-01-02T03:04:05Z",
    finished="2026-01-02T03:04:06Z",
    commit="d" * 40,
    modified=True,
    remotes=("host.example/a/b",),
)


def inner(**changed: Any) -> dict[str, Any]:
    values = {
        "subjects": SUBJECTS,
        "params": PARAMS,
        "task": "collider",
        "seed": 3,
        "dependencies": MADE_FROM,
    }
    return inner_statement(**{**values, **changed})


def measured() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((ROOT / "evidence/observed/manifest.json").read_text())
    return value


def outer(trained: dict[str, Any] | None, packaged: Packaged = PACKAGED) -> dict[str, Any]:
    return outer_statement({"assay-package.tar": A}, PARAMS, "collider", 3, MADE_FROM, trained, packaged)


def faults(statement: dict[str, Any]) -> list[str]:
    """Return which rules of the two specifications a statement breaks."""
    found = []

    def rule(name: str, kept: bool) -> None:
        if not kept:
            found.append(name)

    def uri(text: object) -> bool:
        return isinstance(text, str) and bool(re.fullmatch(r"[a-z][a-z0-9+.-]*://[a-z0-9.-]+(/\S*)?", text))

    def digests(each: dict[str, Any]) -> bool:
        lengths = {"sha256": (64,), "gitCommit": (40, 64), "dirHash": (64,)}
        return bool(each.get("digest")) and all(
            re.fullmatch(r"[0-9a-f]+", value) and len(value) in lengths.get(name, (len(value),))
            for name, value in each["digest"].items()
        )

    rule("_type", statement.get("_type") == "https://in-toto.io/Statement/v1")
    rule("predicateType", statement.get("predicateType") == "https://slsa.dev/provenance/v1")
    rule("only the four fields", set(statement) == {"_type", "subject", "predicateType", "predicate"})
    subject = statement.get("subject") or []
    rule("a subject, each with a digest", bool(subject) and all(digests(each) for each in subject))
    rule("names of subjects once", len({each["name"] for each in subject}) == len(subject))
    predicate = statement.get("predicate", {})
    built, run = predicate.get("buildDefinition", {}), predicate.get("runDetails", {})
    rule("buildType", uri(built.get("buildType")))
    rule("externalParameters", isinstance(built.get("externalParameters"), dict))
    rule(
        "parameters in one place",
        not set(built.get("externalParameters", {})) & set(built.get("internalParameters", {})),
    )
    needed = built["resolvedDependencies"]
    rule("resolvedDependencies", all("uri" in each or "content" in each or digests(each) for each in needed))
    rule("builder.id", uri(run.get("builder", {}).get("id")))
    versions = run.get("builder", {}).get("version", {})
    rule("builder.version is of strings", all(isinstance(value, str) for value in versions.values()))
    metadata = run.get("metadata", {})
    times = [metadata[name] for name in ("startedOn", "finishedOn") if name in metadata]
    rule(
        "times are RFC 3339 in UTC",
        all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", time) for time in times),
    )
    known = {
        "predicate": (predicate, {"buildDefinition", "runDetails"}),
        "buildDefinition": (
            built,
            {"buildType", "externalParameters", "internalParameters", "resolvedDependencies"},
        ),
        "runDetails": (run, {"builder", "metadata", "byproducts"}),
        "builder": (run.get("builder", {}), {"id", "builderDependencies", "version"}),
        "metadata": (metadata, {"invocationId", "startedOn", "finishedOn"}),
        "dependency": (
            {name: 0 for each in built["resolvedDependencies"] for name in each},
            {"name", "uri", "digest", "content", "downloadLocation", "mediaType", "annotations"},
        ),
    }
    for name, (fields, standard) in known.items():
        rule(
            f"own fields of {name} begin with assay_",
            all(n in standard or n.startswith("assay_") for n in fields),
        )
    return found


def test_both_statements_keep_the_rules() -> None:
    assert faults(inner()) == []
    assert faults(outer(measured())) == []
    assert faults(outer(None)) == []


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (lambda s: s.update(_type="https://in-toto.io/Statement/v0.1"), "_type"),
        (lambda s: s["subject"].clear(), "a subject, each with a digest"),
        (lambda s: s["subject"][0]["digest"].update(sha256="A" * 64), "a subject, each with a digest"),
        (lambda s: s["predicate"]["runDetails"]["builder"].pop("id"), "builder.id"),
        (lambda s: s["predicate"]["buildDefinition"].pop("externalParameters"), "externalParameters"),
        (
            lambda s: s["predicate"]["runDetails"]["metadata"].update(startedOn="yesterday"),
            "times are RFC 3339 in UTC",
        ),
        (
            lambda s: s["predicate"]["runDetails"].update(host="x"),
            "own fields of runDetails begin with assay_",
        ),
    ],
)
def test_the_rules_would_notice(change: Any, broken: str) -> None:
    statement = copy.deepcopy(outer(measured()))
    change(statement)
    assert broken in faults(statement)


def test_the_inner_statement_knows_nothing_but_contents() -> None:
    text = statement_text(inner())
    assert text == statement_text(
        inner(subjects=dict(reversed(SUBJECTS.items())), params=dict(reversed(PARAMS.items())))
    )
    assert not re.search(r"\d{4}-\d\d-\d\dT|gitCommit|hardware|startedOn|version", text)
    assert statement_text(inner(subjects={**SUBJECTS, "more": C})) != text
    assert (
        text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    )


def test_the_outer_statement_says_what_was_measured_and_nothing_else() -> None:
    run = measured()
    predicate = outer(run)["predicate"]
    details = predicate["runDetails"]
    assert (
        details["metadata"]["startedOn"] == run["started"]
        and details["metadata"]["finishedOn"] == PACKAGED.finished
    )
    assert details["metadata"]["assay_spans"]["training"] == {
        "started": run["started"],
        "finished": run["finished"],
    }
    assert details["metadata"]["invocationId"] == run["run"]
    assert details["builder"]["assay_hardware"] == run["hardware"]
    assert details["builder"]["version"] == {name: v for name, v in run["packages"].items() if v}
    needed = predicate["buildDefinition"]["resolvedDependencies"]
    commits = {each["name"]: each for each in needed if "gitCommit" in each["digest"]}
    assert commits["checkout at training"]["digest"] == {"gitCommit": run["git"]["commit"]}
    assert commits["checkout at packaging"]["annotations"] == {
        "modified": True,
        "remotes": ["host.example/a/b"],
    }
    assert scan({"provenance.json": statement_text(outer(run)).encode()}, (), []) == []


def test_a_run_without_a_manifest_has_no_clock_and_no_hardware() -> None:
    outside = PACKAGED.model_copy(update={"commit": None, "modified": None, "remotes": None})
    predicate = outer(None, outside)["predicate"]
    assert (
        "startedOn" not in predicate["runDetails"]["metadata"]
        and "assay_hardware" not in predicate["runDetails"]["builder"]
    )
    assert predicate["runDetails"]["metadata"]["assay_spans"]["training"] == {
        "started": None,
        "finished": None,
    }
    assert not any(
        "gitCommit" in each["digest"] for each in predicate["buildDefinition"]["resolvedDependencies"]
    )


def test_no_more_than_build_l1_is_claimed() -> None:
    for statement in (inner(), outer(measured())):
        assert statement["predicate"]["runDetails"]["builder"]["assay_claims"] == "Build L1"
        assert not re.search(r"Build L[2-4]|\bL[2-4]\b", statement_text(statement))


def test_every_input_is_a_dependency() -> None:
    named = {
        each["name"]: each["digest"]
        for each in inner()["predicate"]["buildDefinition"]["resolvedDependencies"]
    }
    assert named == {
        "data/collider/heldout.jsonl": {"sha256": B},
        "data/collider/train.jsonl": {"sha256": A},
        "base model": {"assay_folder": C},
        "src/assay": {"dirHash": tree_digest(MADE_FROM.source)},
        "constraints.txt": {"sha256": C},
    }
    pinned = MADE_FROM.model_copy(
        update={"base": {"kind": "pretrained", "digest": C, "model": "a/b", "revision": "e" * 40}}
    )
    (model,) = [
        each
        for each in inner(dependencies=pinned)["predicate"]["buildDefinition"]["resolvedDependencies"]
        if each["name"] == "base model"
    ]
    assert (model["annotations"]["model"], model["annotations"]["revision"]) == ("a/b", "e" * 40)


def test_a_digest_that_is_none_is_refused() -> None:
    for wrong in ("", "A" * 64, "a" * 63, "md5"):
        with pytest.raises(PackageError, match="sha256"):
            inner(subjects={"x": wrong})
    with pytest.raises(PackageError, match="subject"):
        inner(subjects={})
    with pytest.raises(PackageError, match="commit"):
        outer({**measured(), "git": {"commit": "main", "modified": False}})
    with pytest.raises(PackageError, match="time"):
        outer({**measured(), "started": "2026-01-02 03:04:05"})
    with pytest.raises(ValidationError):
        Packaged(started="now", finished="2026-01-02T03:04:06Z", commit=None, modified=None, remotes=None)


def test_a_folders_digest_is_what_plain_tools_print(tmp_path: Path) -> None:
    files = {"src/b.py": b"two", "src/a/c.py": b"", "src/a.py": b"one"}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    command = "find src -type f | LC_ALL=C sort | xargs -r sha256sum | sha256sum | cut -f1 -d' '"
    printed = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert tree_digest({name: sha256_bytes(content) for name, content in files.items()}) == printed
