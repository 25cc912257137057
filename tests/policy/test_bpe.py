"""The tokens of a base that learned them from its lessons, read without the library that learned them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from assay.core.errors import RecordError
from assay.package.verification.folders import _NOTHING_AROUND
from assay.rollout.policy.base.bpe import Merged, read_merges
from assay.rollout.policy.base.tiny import train_tokenizer
from assay.rollout.policy.base.words import END
from assay.rollout.policy.renderer import Dialogue
from assay_tasks.collider.task import Collider, ColliderSettings
from assay_tasks.structured import shop
from assay_tasks.structured.shop.lessons import opening
from assay_tasks.structured.shop.orders import draw_job

SIZE = 1280
COLLIDER = Collider(ColliderSettings(surface="json", max_turns=8, shaping=0.0, gamma=1.0))
JOB = draw_job(np.random.default_rng(2), 0)
ODD = ("", "é\n", "<|user|>12.345", f"a{END}b", "\x00ÿ", "7", "12345 .5 ... {{")


def texts(task: str, seed: int, n: int = 60) -> list[str]:
    """Return what is said in lessons of a task."""
    chance, made = np.random.default_rng(seed), COLLIDER if task == "collider" else shop
    talks = [*made.demonstrations(chance, n), *made.drills(chance, n)]
    return [said["content"] for talk in talks for said in talk]


@pytest.fixture(params=["collider", "structured"])
def learned(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A task, and a folder with the tokenizer that was learned from its lessons."""
    train_tokenizer(texts(request.param, 0), SIZE).save_pretrained(tmp_path)
    return request.param, tmp_path


def test_equal_lessons_make_equal_tokenizers(learned: tuple[str, Path], tmp_path: Path) -> None:
    task, folder = learned
    again = train_tokenizer(texts(task, 0), SIZE)
    again.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again/tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert len(again) <= SIZE


def test_a_text_has_the_ids_that_the_library_gives_it(learned: tuple[str, Path]) -> None:
    task, folder = learned
    merged, library = Merged(read_merges(folder, SIZE, fix="")), train_tokenizer(texts(task, 0), SIZE)
    for text in (*texts(task, 1), *ODD):
        ids = merged.ids(text)
        assert ids == library(text, add_special_tokens=False)["input_ids"], text
        assert library.decode(ids, skip_special_tokens=False) == text
    dialogue, asked = Dialogue(library), [{"role": "user", "content": texts(task, 1)[0]}]
    assert merged.prompt(asked) == dialogue.prompt(asked)
    for last in (merged.eos_id, merged.vocabulary["s"]):
        assert merged.reply("{}", last_id=last) == dialogue.reply("{}", last_id=last)


def test_the_whole_file_follows_from_its_merges(learned: tuple[str, Path]) -> None:
    found = json.loads((learned[1] / "tokenizer.json").read_text(encoding="utf-8"))
    assert found.pop("post_processor", None) in (None, _NOTHING_AROUND)
    expected = Merged(read_merges(learned[1], SIZE, fix="")).tokenizer_json()
    assert {name: value for name, value in found.items() if value is not None} == expected


def test_what_never_varies_takes_few_tokens_and_digits_go_in_pairs(learned: tuple[str, Path]) -> None:
    task, folder = learned
    merged = Merged(read_merges(folder, SIZE, fix=""))
    if task == "collider":
        claim = '{"action_type":"claim","channel":"dimuon","mass_gev":283.64,"spin":null,"confidence":0.5}'
        assert len(merged.ids(claim)) < 12 and len(merged.ids("283.64")) == 3
    else:
        assert len(merged.ids(opening(JOB)[0]["content"])) < 40


def test_a_completion_in_pieces_is_read_too() -> None:
    merged = Merged((("a", "b"), ("ab", "ab"), ("Ã", "©")))
    assert merged.ids("ababé") == [merged.vocabulary["abab"], merged.vocabulary["Ã©"]]
    found = [list(merged.readings("abab", n)) for n in (1, 2, 3, 4, 5)]
    assert [len(each) for each in found] == [1, 1, 2, 1, 0]
    assert list(merged.readings("é", 2)) == [(merged.vocabulary["Ã"], merged.vocabulary["©"])]
    assert list(merged.readings(f"a{END}", 2)) == [] and not merged.can_write(END)


def test_bytes_that_are_no_text_are_known_to_be_lost() -> None:
    merged = Merged((("a", "b"),))
    assert merged.keeps("é") and not merged.keeps(b"\xc3".decode(errors="replace"))


@pytest.mark.parametrize(
    "merges", [[], [["ab", "c"]], [["a", 1]], ["abc"], [["a", "b"], ["ab", "a"], ["ab", "ab"]], None]
)
def test_merges_that_no_learning_gives_are_refused(merges: object, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"merges": merges}}), encoding="utf-8")
    with pytest.raises(RecordError, match="merges"):
        read_merges(tmp_path, 261 + 2, fix="")
