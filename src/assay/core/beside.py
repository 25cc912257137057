"""What lies beside the code and is no module of it: in a checkout, or where an installation put it."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import assay

INSTALLED, SHARE = "assay-grpo", "share/assay-grpo"  # as pyproject.toml has them


def beside(name: str) -> Path | None:
    """Return where a file or folder lies here, None where there is none.

    Args:
        name: As it is called in a checkout, such as `LICENSE` or `tasks`.
    """
    checkout = Path(assay.__file__).parents[2]
    if (checkout / "src/assay").is_dir():
        return checkout / name if (checkout / name).exists() else None
    target = Path(assay.__file__).parents[1] / SHARE / name  # where `pip install --target` puts it
    if target.exists():
        return target
    with suppress(PackageNotFoundError):
        for each in distribution(INSTALLED).files or ():
            _, found, after = each.as_posix().partition(f"{SHARE}/{name}")
            if found and after[:1] in ("", "/"):
                inside = Path(after.removeprefix("/")).parts
                place = Path(str(each.locate())).resolve()
                return place.parents[len(inside) - 1] if inside else place
    return None
