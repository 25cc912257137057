"""A project with a few of the presets: whoever asks which of them give a params.yaml composes them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

GRPO = ("pretrained", "tiny", "tiny_json", "tiny_smoke")  # enough to be mistaken among
TASKS = ("collider", "structured")


def leave_few(root: Path, grpo: Sequence[str] = GRPO) -> None:
    """Remove the other presets of a project's configs/."""
    for group, names in (("grpo", grpo), ("task", TASKS)):
        for path in (root / "configs" / group).glob("[!_]*.yaml"):
            if path.stem not in names:
                path.unlink()
