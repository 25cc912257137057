"""What of a package its reader has to compare with what its maker published: no check finds a package in
which all of it was exchanged alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.core.counting import counted
from assay.core.evidence_files import place_of
from assay.core.storage.files import read_text
from assay.core.storage.json import digest, loads
from assay.package.verification.checks import UNUSABLE, plain

NOTHING = "nothing could be read"
_CLAIM, _DATA, _OPENED = (place_of(name) for name in ("claim.json", "fingerprint.json", "openings.json"))


def published_said(root: Path, *, judged: str | None = None) -> str:
    """Return the digests of data and plan, and the counts, that an unpacked package claims for itself.

    Args:
        root: The package; of a run, of seeds or of a judgement.
        judged: The record of a judgement, where it is one.
    """
    try:
        return plain(", ".join(_of_rows(root, judged) if judged else _of_runs(root)))
    except UNUSABLE:
        return NOTHING


def _of_rows(root: Path, record: str) -> list[str]:
    told = _read(root / record)
    arms = {"before": told["before"], "after": told["after"], **told["rivals"]}
    planned = "none" if told["plan"] is None else digest(told["plan"])
    rows = [f"{counted(arm['rows'], 'rows')} {name} {arm['rows_sha256']}" for name, arm in arms.items()]
    return [*rows, f"plan {planned}"]


def _of_runs(root: Path) -> list[str]:
    # Of seeds what all runs share lies in one place, the rest in each run's: they are told apart by digest.
    claims, data, opened = (
        [_read(path) for path in sorted(root.glob(name)) or sorted(root.glob(f"*/{name}"))]
        for name in (_CLAIM, _DATA, _OPENED)
    )
    said = [f"data {each}" for each in dict.fromkeys(one["dataset_sha256"] for one in data)]
    said += [f"plan {each}" for each in dict.fromkeys(one["plan_digest"] for one in claims)]
    said += [counted(n, "examples") for n in dict.fromkeys(one["n_items"] for one in claims)]
    said += [f"place {n} among the tries at them" for n in dict.fromkeys(one["place"] for one in opened)]
    return said if len(claims) < 2 else [*said, counted(len(claims), "seeds")]


def _read(path: Path) -> Any:
    return loads(read_text(path, fix=""), where=path.name, fix="")
