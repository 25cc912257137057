"""What identifies a model and an adapter: sha256 over names and contents of their files. No torch, so that anyone can check."""

from __future__ import annotations

import hashlib
from pathlib import Path


def adapted_digest(base: str, adapter: Path) -> str:
    """Return what identifies a base, given by its digest, under an adapter folder."""
    return hashlib.sha256(f"{base}+{digest_folder(adapter)}".encode()).hexdigest()


def digest_folder(folder: Path) -> str:
    """Return the sha256 over names and contents of the files that make a model or an adapter.

    README files are left out: they describe, they do not decide a token.
    """
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "README.md"):
        content = hashlib.sha256()
        with path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                content.update(chunk)
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content.hexdigest()}\n".encode())
    return digest.hexdigest()
