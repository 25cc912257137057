"""A pretrained Hugging Face model as base: found, pinned to a revision and digested, never copied."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from assay.errors import PolicyError
from assay.policy.digests import digest_folder

POINTER = "pointer.json"
LOCAL = "local"  # the revision of a folder: its digest says what it is


@dataclass(frozen=True, slots=True)
class Source:
    """Where a pretrained model lies and what it is."""

    folder: Path
    name: str
    revision: str
    digest: str


def name_of(model: str, revision: str | None) -> str:
    """Return what a base is called in records: the hub's name of it, or of a folder its own name and not where it lies.

    >>> name_of("Qwen/Qwen3-4B", "1cfa9a7"), name_of("../kept/my-base/", LOCAL)
    ('Qwen/Qwen3-4B', 'my-base')
    """
    return PurePosixPath(model).name or model if revision == LOCAL else model


def resolve(model: str, revision: str | None, root: Path | None = None) -> Source:
    """Find a model: a local folder, or a snapshot in the hub cache; the network is not asked.

    Args:
        model: Path of a folder, or a hub id such as "Qwen/Qwen3-4B".
        revision: Commit, tag or branch of a hub model; None for a folder.
        root: What a relative path begins at; None: the working folder.

    Raises:
        PolicyError: It is not there; says what to type to download it.
    """
    folder = ((root or Path()) / Path(model).expanduser()).absolute()
    if (folder / "config.json").is_file():
        return Source(folder, name_of(model, LOCAL), LOCAL, digest_folder(folder))
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        found = Path(snapshot_download(model, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError):
        pin = f" --revision {revision}" if revision else ""
        raise PolicyError(
            f"the model {model!r} in a local folder or the hub cache",
            found="neither",
            where="params.yaml, base.model",
            fix=f"./run hf download {model}{pin}",
        ) from None
    return Source(found, model, found.name, digest_folder(found))


def write_pointer(folder: Path, source: Source) -> None:
    """Write models/base for a pretrained model: where it lies, not its gigabytes."""
    folder.mkdir(parents=True)
    pointer = {"folder": str(source.folder), "revision": source.revision, "digest": source.digest}
    (folder / POINTER).write_text(json.dumps(pointer, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def locate(folder: Path) -> Path:
    """Return the folder to load from: models/base itself, or what its pointer names.

    Raises:
        PolicyError: The model behind the pointer changed since it was pinned.
    """
    pointer = folder / POINTER
    if not pointer.is_file():
        return folder
    try:
        pinned = json.loads(pointer.read_text(encoding="utf-8"))
        target, expected = Path(pinned["folder"]), str(pinned["digest"])
    except (ValueError, KeyError, TypeError):
        raise PolicyError("folder and digest", found="neither", where=POINTER, fix="./run dvc repro base") from None
    found = digest_folder(target) if target.is_dir() else "nothing"
    if found != expected:
        raise PolicyError(
            f"the pinned model ({expected[:16]}…)",
            found=found[:16],
            where="models/base",
            fix="./run dvc repro base",
        )
    return target
