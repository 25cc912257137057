"""The suites on disk: what the code generates, byte for byte, under the checksums they are listed with."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay.core.storage.json import dumps
from assay.tasks.collider import SUITES, Collider, generate

DATA = Path(__file__).resolve().parents[3] / "data" / "collider"


def rows_of(suite: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{suite}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_suites_have_their_sizes() -> None:
    assert SUITES == {"train": 2048, "validation": 256, "heldout": 512, "heldout_ood": 256, "traps": 256}


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_on_disk_is_what_the_code_generates(suite: Any) -> None:
    fresh = generate(suite, SUITES[suite], max_turns=8, labels=("release", 1))
    text = "".join(dumps(row) + "\n" for row in fresh)
    assert (DATA / f"{suite}.jsonl").read_bytes() == text.encode()


def test_the_checksums_are_right_and_name_every_suite() -> None:
    listed = dict(reversed(line.split("  ")) for line in (DATA / "SHA256SUMS").read_text().splitlines())
    assert list(listed) == sorted(f"{suite}.jsonl" for suite in SUITES)
    assert sorted(path.name for path in DATA.glob("*.jsonl")) == list(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == digest, name


def test_the_task_reads_every_row_and_no_scenario_is_in_two_suites(compact: Collider) -> None:
    ids = Counter(compact.item(row).id for suite in SUITES for row in rows_of(suite))
    assert len(ids) == sum(SUITES.values()) and set(ids.values()) == {1}


def test_the_datasheet_states_the_sizes_on_disk() -> None:
    text = (DATA / "README.md").read_text(encoding="utf-8")
    for suite in SUITES:
        rows = rows_of(suite)
        nulls = sum(row["kind"] == "null" for row in rows)
        decoys = sum(row["truth"]["decoy"] is not None for row in rows)
        assert f"| `{suite}` | {len(rows)} | {nulls} | {decoys} |" in text, suite
