"""What identifies a model and an adapter: sha256 over names and contents of their files. No torch, so that
anyone can check."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

THREADS = 4  # files at once: sha256 lets other threads run meanwhile, and large models come in several files
# What a training keeps beside a model to go on from, and earlier states of it.
_OF_A_TRAINING = re.compile(
    r"(checkpoint-\d+|global_step_?\d+|runs|wandb)/.*"
    r"|(optimizer|scheduler|scaler)\.pt|rng_state(_\d+)?\.pth|training_args\.bin|trainer_state\.json"
    r"|latest|zero_to_fp32\.py",
    re.DOTALL,
)


def adapted_digest(base: str, adapter: Path) -> str:
    """Return what identifies a base, given by its digest, under an adapter folder."""
    return hashlib.sha256(f"{base}+{digest_folder(adapter)}".encode()).hexdigest()


def digest_folder(folder: Path) -> str:
    """Return the sha256 over names and contents of the files that make a model or an adapter.

    What describes and decides no token is left out, so that equal weights have one digest wherever they came
    from: README, licence and policy of use, what is hidden (what downloads and git keep for themselves),
    original/ and consolidated.safetensors, second copies, and what a training keeps to go on from.
    """
    files = files_of_model(folder)
    with ThreadPoolExecutor(THREADS) as threads:
        contents = threads.map(_content, files)
        lines = [
            f"{path.relative_to(folder).as_posix()}\0{content}\n"
            for path, content in zip(files, contents, strict=True)
        ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def files_of_model(folder: Path) -> list[Path]:
    """Return the files that make a model or an adapter, in order; what is left out is said at
    `digest_folder`."""
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and not describes(path.relative_to(folder))
    )


def listing_digest(contents: Mapping[str, bytes]) -> str:
    """Return the sha256 of what sha256sum prints of files, in the order of their names.

    >>> listing_digest({"b": b"", "a": b""})[:16]
    'f87e14d51c60a125'
    """
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(contents.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def describes(path: Path) -> bool:
    """Return whether a file of a model folder, by its path in it, decides no token."""
    hidden = any(part.startswith(".") for part in path.parts)
    return (
        hidden
        or path.parts[0] == "original"
        or path.name == "consolidated.safetensors"
        or path.name in ("README.md", "LICENSE", "LICENSE.txt", "USE_POLICY.md")
        or _OF_A_TRAINING.fullmatch(path.as_posix()) is not None
    )


def _content(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
