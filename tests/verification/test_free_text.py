"""What no other file determines may hold no word and no number but those that assay writes there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import PackageError
from assay.core.evidence_files import place_of
from assay.core.storage.json import dumps, json_text
from assay.package.verification.checks import looked
from assay.package.verification.content.rendered import files_again
from assay.package.verification.content.training import log_whole
from assay.package.verification.locked import lock_whole
from assay.package.verification.stated import facts_within_bounds
from assay.package.verification.unpacked import Unpacked
from assay.stages.package import members_of
from assay.stages.packing.layout import active_in
from assay.training.log.step_chain import START, chain_of
from tests.verification.made_run import PARITY, made_run

Edit = Callable[[str], str]


def record(**values: Any) -> Edit:
    """Return an edit of a record, written as assay writes it."""
    return lambda text: json_text(json.loads(text) | values)


def first_row(**values: Any) -> Edit:
    """Return an edit of the first row of a log, chained anew."""

    def edit(text: str) -> str:
        rows, chain = [json.loads(line) for line in text.splitlines()], START
        rows[0] |= values
        for row in rows:
            chain = row["chain"] = chain_of(chain, row)
        return "".join(f"{dumps(row)}\n" for row in rows)

    return edit


def replaced(old: str, new: str) -> Edit:
    return lambda text: text.replace(old, new, 1)


BASE, CONTROL = place_of("base.json"), place_of("control.json")
LAB = "seen by an independent laboratory"


@pytest.mark.parametrize(
    ("check", "name", "edit", "said"),
    [
        ("documents", "params.yaml", lambda text: f"{text}# {LAB}\n", "params.yaml, line"),
        ("documents", "params.yaml", replaced("threads: 1", "threads:   1"), "params.yaml, line"),
        ("documents", "params.yaml", replaced("threads: 1\n", f"threads: 1 # {LAB}\n"), "params.yaml, line"),
        ("facts", BASE, record(note=LAB), "note"),
        ("facts", BASE, record(mean_reward=99.0), "mean_reward"),
        ("facts", BASE, record(mean_reward=-99.0), "mean_reward"),
        ("facts", BASE, record(parameters=10**9), "parameters"),
        ("facts", BASE, record(success_rate=1.5), "success_rate"),
        ("facts", BASE, record(success_rate="high"), "success_rate"),
        ("facts", BASE, lambda text: f"{text}\n", "base.json: not as assay writes it"),
        ("facts", CONTROL, record(note=LAB), "note"),
        ("facts", CONTROL, lambda text: text.replace("  ", "   "), "control.json: not as assay writes it"),
        ("facts", place_of("rivals.json"), lambda text: f" {text}", "rivals.json: not as assay writes it"),
        ("steps", place_of("train_log.jsonl"), first_row(note=LAB), "'note' is no number of a training"),
        ("steps", place_of("train_log.jsonl"), first_row(**{LAB: 1}), "is no number of a training"),
        ("lock", "dvc.lock", replaced("    cmd: ", f"    desc: {LAB}\n    cmd: "), "nothing that DVC writes"),
        ("lock", "dvc.lock", replaced("      size: ", f"      note: {LAB}\n      size: "), "path, hash, md5"),
        ("documents", "data/collider/README.md", lambda text: f"{text}<ScRipt src=//x>\n", "<ScRipt"),
    ],
)
def test_a_word_or_a_number_more_is_found(
    unpacked: Path, tmp_path: Path, check: str, name: str, edit: Edit, said: str
) -> None:
    text = (unpacked / name).read_text(encoding="utf-8")
    assert edit(text) != text
    (unpacked / name).unlink()
    (unpacked / name).write_text(edit(text), encoding="utf-8")
    package = Unpacked(unpacked)
    looks = {"facts": facts_within_bounds, "steps": log_whole, "lock": lock_whole}
    if check == "documents":
        found = files_again(package, tmp_path / "work", other_code=False)[1]()
    else:
        found = looked("V3", check, lambda: looks[check](package))
    assert found.outcome == "failed" and said in found.found, found


@pytest.mark.parametrize(
    ("text", "active"),
    [
        ("a < b, <https://example.com>, <n>, `<|im_end|>`, on = 1, <b>bold</b>", False),
        ("see [it](javascript:alert(1))", True),
        ("<svg onload=alert(1)>", True),
        ("<b ONCLICK = 'x'>", True),
        ("<iframe src=x>", True),
        ("< img src=x>", True),
    ],
)
def test_pages_of_the_data_are_to_be_read_and_no_more(text: str, active: bool) -> None:
    members: dict[str, bytes | Path] = {"data/x/README.md": text.encode(), "data/x/train.jsonl": b"<script>"}
    assert bool([*active_in("./data/x", members)]) == active


def test_settings_are_packed_as_values_and_an_active_page_is_not(tmp_path: Path) -> None:
    project = made_run(tmp_path / "run")
    params = project.root / "params.yaml"
    before = members_of(project, PARITY)["params.yaml"]
    params.write_text(f"# of mine\n{params.read_text(encoding='utf-8')}", encoding="utf-8")
    assert members_of(project, PARITY)["params.yaml"] == before
    (project.root / "data/collider/README.md").write_text("<script>1</script>\n", encoding="utf-8")
    with pytest.raises(PackageError, match="more than text"):
        members_of(project, PARITY)
