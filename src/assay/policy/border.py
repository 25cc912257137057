"""The border at which a library is handed what somebody else wrote: whatever it raises there becomes one
message of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from assay.core.errors import AssayError, PolicyError

_SHOWN = 160  # characters of what a library says


@contextmanager
def refuse_unreadable(expected: str, *, where: str, fix: str) -> Iterator[None]:
    """Turn whatever a library raises in the block into a PolicyError; our own errors and signals go through
    as they are.

    Loaders of model folders raise what they trip over: a field of another type ends as TypeError, KeyError,
    AttributeError, RecursionError, errors of dataclasses and tensors of their own, or as a panic of Rust,
    which is no Exception. No list of them stays complete, so here, where all that runs is another's code on
    another's files, everything is caught.

    Raises:
        PolicyError: The block failed; says what the library said.
    """
    try:
        yield
    except AssayError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise PolicyError(expected, found=said(error), where=where, fix=fix) from error


def said(error: BaseException) -> str:
    """Return what a library says, in one line; its kind of error too where the text alone would say little.

    >>> said(KeyError("layers")), said(ValueError("no such file"))
    ("KeyError: 'layers'", 'no such file')
    """
    first = next((line.strip() for line in str(error).split("\n") if line.strip()), "")[:_SHOWN]
    if isinstance(error, OSError | ValueError) and first:
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
