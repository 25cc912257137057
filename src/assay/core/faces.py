"""Public faces of libraries: importing one loads nothing, asking it for a name loads what that needs."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from typing import Any


def load_lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names stand elsewhere (PEP 562).

    Args:
        package: Its name.
        homes: Where each name stands, as module:name.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return pkgutil.resolve_name(homes[name])

    return get
