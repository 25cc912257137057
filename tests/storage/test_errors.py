"""Errors say the same wherever they are raised."""

from __future__ import annotations

import pickle

import pytest

from assay.core.errors import AssayError, Interrupted, NoVerdictYet


def kinds(kind: type[AssayError] = AssayError) -> list[type[AssayError]]:
    return [kind, *(below for each in kind.__subclasses__() for below in kinds(each))]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_an_error_comes_back_whole_from_a_process_beside(kind: type[AssayError]) -> None:
    if kind is Interrupted:
        error: AssayError = Interrupted("SIGTERM", where="at step 3", exit_code=143)
    elif kind is NoVerdictYet:
        error = NoVerdictYet(["seed is 7"], data="collider")
    else:
        error = kind("a number", found="a word", where="a.json", fix="write a number")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind and str(back) == str(error) and vars(back) == vars(error)
    assert back.exit_code == error.exit_code
