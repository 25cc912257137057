"""What scripted players did lies in evidence and package; all that is said of them follows from it."""

from __future__ import annotations

import gzip
import json
import shutil
import statistics
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import RecordError
from assay.core.evidence_files import place_of
from assay.core.records import Episode
from assay.core.storage.gzipped import read_records_gz, unpacked, write_jsonl_gz
from assay.package.verification.checks import Check
from assay.package.verification.compared import compare
from assay.package.verification.content import regraded as regraded_module
from assay.package.verification.content.regraded import regraded, scripted_regraded
from assay.package.verification.content.rendered import pages_again
from assay.package.verification.unpacked import Unpacked
from assay.stages.packing.layout import strangers

HELDOUT = "scripted/heldout.jsonl.gz"


def lines(root: Path, name: str) -> list[dict[str, Any]]:
    """Return a file of episodes as any reader of JSON lines would read it."""
    content = (root / place_of(name)).read_bytes()
    plain = gzip.decompress(content) if name.endswith(".gz") else content
    return [json.loads(line) for line in plain.splitlines()]


def said(root: Path, name: str) -> Any:
    """Return a file of one JSON value."""
    return json.loads((root / place_of(name)).read_text(encoding="utf-8"))


def test_gains_over_scripted_players_and_normalised_scores_follow_from_their_episodes(pristine: Path) -> None:
    claim, reports = said(pristine, "claim.json"), said(pristine, "reports.json")
    after = lines(pristine, "post_eval.jsonl")
    arms: dict[str, list[dict[str, Any]]] = {}
    for each in lines(pristine, HELDOUT):
        arms.setdefault(each["policy"].removeprefix("scripted:"), []).append(each)
    assert arms.keys() == reports["baselines"].keys()
    scripted = {name: each for name, each in claim["rivals"].items() if name in arms}
    assert len(scripted) >= 3
    for name, told in scripted.items():
        gains = {(each["item_id"], each["draw"]): each["success"] for each in after}
        gap = statistics.fmean(gains[e["item_id"], e["draw"]] - e["success"] for e in arms[name])
        assert gap == pytest.approx(told["difference"]["value"], abs=1e-9)
    for name, episodes in arms.items():
        mean = statistics.fmean(each["reward"] for each in episodes)
        assert mean == pytest.approx(reports["baselines"][name]["measures"]["mean_reward"]["value"], abs=1e-9)
    low, high = (statistics.fmean(e["reward"] for e in arms[n]) for n in ("random", "oracle_channel"))
    score = (statistics.fmean(each["reward"] for each in after) - low) / (high - low)
    metrics = said(pristine, "metrics.json")
    assert score == pytest.approx(metrics["score"], abs=1e-3)
    assert [*metrics][:3] == ["verdict", "success", "success_before"], "a narrow screen shows these"
    assert claim["secondary_suites"]
    for suite in claim["secondary_suites"]:
        played = {each["policy"] for each in lines(pristine, f"scripted/{suite}.jsonl.gz")}
        assert played == {f"scripted:{name}" for name in arms}


def rewrite(root: Path, edit: Callable[[str], str], level: int = 9) -> None:
    """Write what the scripted players did on the suite of the claim otherwise."""
    path = root / place_of(HELDOUT)
    text = gzip.decompress(path.read_bytes()).decode()
    path.unlink()  # which may lie in a second place
    path.write_bytes(gzip.compress(edit(text).encode(), level, mtime=0))


def leave_one_out(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[:-1])


@pytest.mark.parametrize(
    "edit", [lambda text: text.replace('"success":false', '"success":true', 1), leave_one_out]
)
def test_what_scripted_players_did_is_graded_again(unpacked: Path, edit: Callable[[str], str]) -> None:
    rewrite(unpacked, edit)
    graded = {each.name: each.outcome for each in regraded(Unpacked(unpacked))}
    assert graded.pop(HELDOUT) == "failed"
    assert set(graded.values()) == {"passed"}


def test_what_they_have_just_played_to_the_last_byte_is_not_graded_a_second_time(
    unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graded = list(scripted_regraded(Unpacked(unpacked)))
    shutil.copytree(unpacked / place_of("scripted"), tmp_path / place_of("scripted"))
    with monkeypatch.context() as patched:
        patched.setattr(regraded_module, "graded_again", lambda *_, **__: ["graded a second time"])
        assert list(scripted_regraded(Unpacked(unpacked), tmp_path)) == graded
    rewrite(unpacked, lambda text: text.replace('"success":false', '"success":true', 1))
    edited = {each.name: each.outcome for each in scripted_regraded(Unpacked(unpacked), tmp_path)}
    assert edited.pop(HELDOUT) == "failed"
    assert set(edited.values()) == {"passed"}


@pytest.mark.long
@pytest.mark.usefixtures("figures_as_stored")
def test_it_is_played_again_whoever_packed_it_and_left_open_where_an_older_package_has_none(
    unpacked: Path, tmp_path: Path
) -> None:
    def claim(*, other_code: bool = False) -> Check:
        looks = pages_again(Unpacked(unpacked), tmp_path / "work", other_drawings=True, other_code=other_code)
        return next(each for each in looks if each.name == "claim")

    rewrite(unpacked, lambda text: text, level=1)
    assert claim().outcome == "passed"
    rewrite(unpacked, leave_one_out)
    edited = claim()
    assert edited.outcome == "failed"
    assert f"{place_of(HELDOUT)}, line" in edited.found
    for each in (unpacked / place_of("scripted")).iterdir():
        each.unlink()
    older = claim(other_code=True)
    assert older.outcome == "not checked"
    assert place_of(HELDOUT) in older.left
    # Nobody else's package may lack them.
    missing = compare(unpacked, tmp_path / "work", [place_of(HELDOUT)], said="")
    assert missing.wrong == [f"{place_of(HELDOUT)} is missing"]


def named(content: bytes) -> bytes:
    """Return a gzip with a name in its header."""
    return content[:3] + b"\x08" + content[4:10] + b"hidden\0" + content[10:]


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (named, "more in it"),
        (lambda content: content + content, "more in it"),
        (lambda content: content + b"tail", "more in it"),
        (lambda content: content[:-9], "cut off"),
        (lambda content: b"no gzip", "incorrect header"),
        (lambda content: gzip.compress(gzip.decompress(content), mtime=7), "more in it"),
        (lambda content: zlib.compress(gzip.decompress(content)), "incorrect header"),
    ],
)
def test_a_gzip_that_says_more_than_its_content_is_refused(tmp_path: Path, damage: Any, found: str) -> None:
    path = tmp_path / "x.jsonl.gz"
    write_jsonl_gz(path, [{"a": 1}])
    assert unpacked(path.read_bytes(), where="x", fix="") == b'{"a":1}\n'
    with pytest.raises(RecordError, match=found):
        unpacked(damage(path.read_bytes()), where="x", fix="")


def test_a_gzip_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("assay.core.storage.gzipped.MOST_BYTES", 1000)
    write_jsonl_gz(tmp_path / "x.gz", ["a" * 2000])
    with pytest.raises(RecordError, match="more than 1000 bytes"):
        read_records_gz(tmp_path / "x.gz", Episode, fix="")


def test_only_gzips_of_lines_have_a_place_in_the_folder_of_scripted_players() -> None:
    names = [place_of(f"scripted/{name}") for name in ("heldout.jsonl.gz", "heldout.jsonl", "a/b.jsonl.gz")]
    assert len(list(strangers(names, data="data/x", scratch=True))) == 2
