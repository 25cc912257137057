"""`assay runs diff` gives one plain answer and an exit code, and refuses logs that say nothing about their
runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.cli.tools.logs import diff_runs
from assay.core.errors import RecordError
from assay.core.storage.json import write_jsonl
from assay.training.log.step_chain import LINKS
from tests.evaluation.test_run_difference import chained, log


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the tool says, line by line."""
    lines: list[str] = []
    for name in ("say", "complain"):
        monkeypatch.setattr(f"assay.cli.tools.logs.diff_runs.{name}", lines.append)
    return lines


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    write_jsonl(path, rows)
    return path


@pytest.mark.parametrize("place", ["run", "run/train_log.jsonl", "project", "project/evidence/logs/train"])
def test_equal_runs_are_told_so_wherever_the_log_lies(tmp_path: Path, said: list[str], place: str) -> None:
    written(tmp_path / "run/train_log.jsonl", log(200))
    written(tmp_path / "project/evidence/logs/train/train_log.jsonl", log(200))
    written(tmp_path / "other/train_log.jsonl", log(200))
    assert diff_runs.run(tmp_path / place, tmp_path / "other") == 0
    chain = log(200)[-1]["chain"][:12]
    assert said == [
        f"the runs are identical over 200 steps (chain {chain}…); all logged numbers are equal too"
    ]


def test_equal_runs_with_another_number_are_told_with_both_values(tmp_path: Path, said: list[str]) -> None:
    rows = log(20)
    rows[11] |= {"kl_probe": 0.25}
    a, b = written(tmp_path / "a.jsonl", log(20)), written(tmp_path / "b.jsonl", chained(rows))
    assert diff_runs.run(a, b) == 0
    assert said[0].startswith("the runs took the same 20 steps, but logged other numbers of them: ")
    assert said[0].endswith("kl_probe differs first at step 12: nothing in A, 0.25 in B")


def test_equal_runs_with_another_signal_are_not_called_identical(tmp_path: Path, said: list[str]) -> None:
    rows = log(20)
    rows[11] |= {"signals": {"lost": 0.25}}
    a, b = written(tmp_path / "a.jsonl", log(20)), written(tmp_path / "b.jsonl", chained(rows))
    assert diff_runs.run(a, b) == 0
    assert said == ["the runs took the same 20 steps, but logged other signals or reward parts of them"]


@pytest.mark.parametrize("link", LINKS)
def test_the_first_difference_is_told_with_its_meaning_its_items_and_exit_code_1(
    tmp_path: Path, said: list[str], link: str
) -> None:
    rows = log(20, {(17, name) for name in LINKS[LINKS.index(link) :]})
    rows[18]["loss"] = 5.0
    a, b = written(tmp_path / "a.jsonl", log(20)), written(tmp_path / "b.jsonl", chained(rows))
    assert diff_runs.run(a, b) == 1
    assert said[0].startswith(f"first difference: step 17, link {link} (")
    assert "(still equal: prompts" in said[0] or link == "prompts"
    assert said[1] == f"usually this means: {diff_runs.MEANING[link]}"
    assert said[2] == "items of step 17: item17"
    assert said[3] == f"other logged numbers: later, loss differs first at step 19: {1 / 19} in A, 5.0 in B"
    assert len(said) == 4


def test_every_link_has_a_meaning() -> None:
    assert tuple(diff_runs.MEANING) == LINKS


def test_a_run_that_ends_earlier_is_told_with_both_last_steps(tmp_path: Path, said: list[str]) -> None:
    a, b = written(tmp_path / "a.jsonl", log(12)), written(tmp_path / "b.jsonl", log(20))
    assert diff_runs.run(a, b) == 1
    assert (
        said[0]
        == "first difference: step 13: A ends at step 12, B at 20; over the 12 steps of both the runs are"
        " identical"
    )
    said.clear()
    assert diff_runs.run(b, a) == 1
    assert said[0].startswith("first difference: step 13: B ends at step 12, A at 20;")
    assert "items of step 13: item13" in said


def test_items_that_differ_are_told_of_both_and_long_lists_are_cut(tmp_path: Path, said: list[str]) -> None:
    rows = log(3, {(2, link) for link in LINKS})
    rows[1]["item_ids"] = [f"x{k}" for k in range(40)]
    diff_runs.run(written(tmp_path / "a.jsonl", log(3)), written(tmp_path / "b.jsonl", chained(rows)))
    assert "items of step 2 in A: item2" in said
    assert "items of step 2 in B: x0, x1, x2, x3, x4, x5, x6, x7 and 32 more" in said
    assert said[-1] == "no other logged number differs in the steps of both"


def test_a_log_compared_with_itself_is_told_so(tmp_path: Path, said: list[str]) -> None:
    written(tmp_path / "evidence/logs/train/train_log.jsonl", log(3))
    assert diff_runs.run(tmp_path, tmp_path / "evidence/logs/train") == 0
    assert "compared with itself" in said[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "expected a row for each step, found none"),
        (b'{"step": 1,', "line 1: expected strict JSON"),
        (b'{"step": 1, "loss": NaN}\n', "line 1: expected strict JSON"),
        (b"\xff\n", "UTF-8"),
        (b'{"step": 1, "loss": 0.5}\n', "train again: this log was written before steps had digests"),
        (b"[]\n", "expected step 1"),
    ],
)
def test_a_damaged_log_is_refused_and_named(tmp_path: Path, content: bytes, words: str) -> None:
    good, bad = written(tmp_path / "good.jsonl", log(3)), tmp_path / "bad.jsonl"
    bad.write_bytes(content)
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(RecordError) as caught:
            diff_runs.run(*pair)
        assert words in str(caught.value)
        assert "bad.jsonl" in str(caught.value)


def test_an_edited_row_is_named_with_its_log(tmp_path: Path) -> None:
    rows = log(20)
    rows[16]["digests"] |= {"weights": "0" * 64}
    a, b = written(tmp_path / "a.jsonl", rows), written(tmp_path / "b.jsonl", log(20))
    with pytest.raises(RecordError, match=r"row 17 of A \(.*a\.jsonl\) does not follow from row 16"):
        diff_runs.run(a, b)


@pytest.mark.parametrize("name", ["none", "empty"])
def test_where_there_is_no_log_the_message_says_where_it_was_looked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match=r"train_log\.jsonl"):
        diff_runs.run(tmp_path / name, tmp_path)
