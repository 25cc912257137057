"""What a base is called in a package, for readers that have no library of models: `policy/pretrained.py` says the same."""

from __future__ import annotations

from pathlib import PurePosixPath

LOCAL = "local"  # the revision of a folder


def name_of(model: str, revision: str | None) -> str:
    """Return the hub's name of a base, or of a folder its own name and not where it lies.

    That module looks into files of weights by a library that who checks a package need not have; a test holds both equal.
    """
    return PurePosixPath(model).name or model if revision == LOCAL else model
