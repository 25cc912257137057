"""How many kinds of secrets the scan tells, and that it says nothing of what is none."""

from __future__ import annotations

import pytest

from assay.stages.packing.secrets.search import scan
from tests.packaging.secret_kinds import (
    BLIND,
    BLIND_HARMLESS,
    DRAWS,
    HARMLESS,
    HELD_BACK,
    KINDS,
    ORDINARY,
    WRITTEN_BEFORE,
    Kind,
    told,
)


def test_there_are_more_than_a_hundred_kinds_and_thirty_harmless_texts() -> None:
    assert (
        len({kind.name for kind in KINDS}) == len(KINDS) >= 100 and len(set(HARMLESS)) == len(HARMLESS) >= 30
    )


def test_nine_in_ten_kinds_are_told_whatever_was_drawn() -> None:
    missed = {
        kind.name for kind in KINDS if not all(told(kind.write(f"{kind.name} {n}")) for n in range(DRAWS))
    }
    assert len(missed) <= len(KINDS) / 10


@pytest.mark.parametrize("kinds", [WRITTEN_BEFORE, HELD_BACK, BLIND])
def test_kinds_that_were_written_before_the_patterns_are_told(kinds: tuple[Kind, ...]) -> None:
    missed = [kind.name for kind in kinds if not told(kind.write(kind.name))]
    assert len(kinds) > 110 and len(missed) <= len(kinds) * 0.13


@pytest.mark.parametrize("text", (*HARMLESS, *ORDINARY, *BLIND_HARMLESS))
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert [(each.kind, each.begins) for each in scan({"a": text.encode()}, (), [])] == []


@pytest.mark.parametrize("comment", ["gitleaks:allow", "betterleaks:allow", "kingfisher:ignore", "nosecret"])
def test_no_comment_in_a_file_lets_a_secret_pass(comment: str) -> None:
    github = next(kind for kind in KINDS if kind.name == "OpenRouter")
    assert told(f"{github.write('a')}  # {comment}")
