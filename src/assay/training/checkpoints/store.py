"""Checkpoints on disk: written aside, hashed, renamed; only one that verifies is ever gone on from."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, EnvironmentFailure, RecordError, TrainingError
from assay.core.storage.files import read_bytes, remove, sha256_bytes, write_bytes, write_folder
from assay.core.storage.json import digest, dumps, loads
from assay.rollout.policy.base.model_files import said
from assay.training.log.history import ROWS

LEDGER, STATE = "ledger.json", "trainer_state.json"
# What is gone on with before the first step; the rest of a ledger is read by those whose state it is.
_KINDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    LEDGER: {
        "probe": list,
        "rows": dict,
        "watch": dict,
        "monitor": dict,
        "chain": str,
        "seconds": (int, float),
        "skipped": dict,
    },
    STATE: {
        "global_step": int,
        "max_steps": int,
        "epoch": (int, float),
        "num_train_epochs": int,
        "log_history": list,
        "train_batch_size": (int, type(None)),
        "stateful_callbacks": dict,
        "num_input_tokens_seen": int,
    },
}


def unreadable(name: str, content: bytes) -> str | None:
    """Return what is wrong with a file of a checkpoint, None if nothing is; a name of another kind is not
    looked at."""
    if name.endswith((".pt", ".pth")):
        return _pickle(name, content)
    if name.endswith(".safetensors"):
        return _tensors(name, content)
    return _mapping(name, content) if name in _KINDS else None


def _pickle(name: str, content: bytes) -> str | None:
    import torch
    from transformers.trainer_pt_utils import safe_globals

    try:
        with safe_globals():  # type: ignore[no-untyped-call]
            value = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - torch, zip and pickle raise what they trip over, on bytes of anybody's
        return f"{name} is none that torch reads as plain values and tensors ({said(error)[:80]})"
    return None if isinstance(value, dict) else f"{name} holds a {type(value).__name__}, not named values"


def _tensors(name: str, content: bytes) -> str | None:
    import torch
    from safetensors.torch import load

    try:
        tensors = load(content)
        odd = [key for key, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    except Exception as error:  # noqa: BLE001 - as above
        return f"{name} holds no tensors ({said(error)[:80]})"
    return f"{name} holds NaN or Inf in {odd[0][:80]}" if odd else None


def _mapping(name: str, content: bytes) -> str | None:
    try:
        told: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        return f"{name} is not JSON ({said(error)[:80]})"
    if not isinstance(told, Mapping):
        return f"{name} is no mapping"
    for key, kind in _KINDS[name].items():
        value = told.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"{name} has {str(value)[:40]!r} for {key}"
    if name == LEDGER and not all(_is_text(text) for text in told["probe"]):
        return f"{name} has a probe that is none of tokens"
    return _rows(name, told["rows"]) if name == LEDGER else None


def _is_text(text: Any) -> bool:
    """Return whether a text of the probe is an opening, what came after it and which of that counts, all of
    them numbers."""
    if not (
        isinstance(text, list) and len(text) == 3 and all(isinstance(part, list) and part for part in text)
    ):
        return False
    return len(text[1]) == len(text[2]) and all(
        type(token) is int and token >= 0 for part in text for token in part
    )


def _rows(name: str, tables: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the tables of a ledger: lists of rows, those of one table with the same
    columns."""
    for table, rows in tables.items():
        if not isinstance(rows, list):
            return f"{name} has no list of {table[:40]}"
        if table in ROWS and not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
            return f"{name} has rows of {table} that differ in their columns"
    return None


FORMAT = 1
MANIFEST = "MANIFEST.json"
_NAME = re.compile(r"step-(\d{6,})")
_VALIDATION = re.compile(r"validations/step-\d{6,}\.jsonl")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose every byte was found to be what was written."""

    step: int
    folder: Path
    run: str
    healthy: bool

    def read(self, name: str) -> bytes:
        """Return the bytes of one of its files."""
        return read_bytes(self.folder / name, fix="remove this checkpoint; the one before it is used then")


class Checkpoints:
    """The checkpoints of one run, in one folder.

    Layout: step-000025/ with MANIFEST.json (sha256 and size of every file, and of itself) and validations/
    with the episodes of each validation, written once and named by every later checkpoint with their sha256.

    Args:
        folder: Of the run.
        run: The run's key; a checkpoint of another run is never gone on from.
        keep: Newest checkpoints that stay, damaged ones not counted. The newest healthy one stays beside
            them.
        main: Whether this process is the one that writes.
    """

    def __init__(self, folder: Path, run: str, keep: int, *, main: bool = True) -> None:
        self.folder, self._run, self._keep = folder, run, keep
        self._validations: dict[str, str] = {}
        self.damaged: list[str] = []
        if main:  # which alone holds this folder: what it finds is of a save that was killed
            for left in folder.glob(".step-*"):
                shutil.rmtree(left, ignore_errors=True)
            for left in folder.glob("validations/.step-*"):
                remove(left)

    def keep_validation(self, step: int, content: bytes) -> None:
        """Keep the episodes of a validation; checkpoints from now on name them."""
        name = _validation(step)
        self._written(lambda: write_bytes(self.folder / name, content))
        self._validations[name] = sha256_bytes(content)

    def validation(self, step: int) -> bytes:
        """Return the episodes of a validation as they were kept."""
        return read_bytes(self.folder / _validation(step), fix="remove the newest checkpoint")

    def save(self, step: int, files: Mapping[str, bytes], *, healthy: bool) -> None:
        """Save one checkpoint, whole or not at all, then let go of those that are no longer needed.

        Raises:
            TrainingError: The disk does not take it; what was there before is as it was.
        """
        body: dict[str, Any] = {
            "format": FORMAT,
            "step": step,
            "run": self._run,
            "healthy": healthy,
            "files": {name: _facts(content) for name, content in sorted(files.items())},
            "validations": dict(sorted(self._validations.items())),
        }
        manifest = dumps(body | {"sha256": digest(body)}).encode()
        folder = self.folder / f"step-{step:06d}"
        self._written(lambda: write_folder(folder, {**files, MANIFEST: manifest}, check=lambda _: None))
        self._let_go(folder)

    def newest(self) -> Checkpoint | None:
        """Return the newest checkpoint that verifies and is of this run; `damaged` says what was passed over,
        and why."""
        for folder in self._folders():
            try:
                checkpoint = self.verified(folder)
            except RecordError as error:
                self.damaged.append(f"{folder.name}: {error.found}")
                continue
            return checkpoint
        return None

    def verified(self, folder: Path) -> Checkpoint:
        """Return a checkpoint after comparing every byte with its manifest, and looking at what the bytes
        say.

        Raises:
            RecordError: It is damaged, incomplete, of another run, or nothing that can be gone on with; says
                which file.
        """
        checkpoint, validations = read_checkpoint(folder)
        if checkpoint.run != self._run:
            raise _damage(folder, f"a checkpoint of another run ({checkpoint.run[:12]})")
        check_contents(checkpoint)
        self._validations = validations
        return checkpoint

    def _folders(self) -> list[Path]:
        found = [path for path in self.folder.glob("step-*") if _NAME.fullmatch(path.name)]
        return sorted(found, key=lambda path: int(path.name.split("-")[1]), reverse=True)

    def _let_go(self, newest: Path) -> None:
        folders = self._folders()
        if len(folders) <= self._keep:
            return
        # What is damaged can be gone on from as little as what is not there: it takes nobody's place.
        sound = {
            folder: checkpoint.healthy
            for folder in folders
            if (checkpoint := self._sound(folder)) is not None
        }
        if len(sound) < self._keep:
            return
        healthy = next((folder for folder, well in sound.items() if well), None)
        stay = {newest, healthy, *list(sound)[: self._keep]}
        for folder in folders:
            if folder not in stay:
                # Under this name it is no checkpoint any more: a crash in between leaves nothing
                # half-trusted.
                gone = folder.with_name(f".{folder.name}.gone")
                shutil.rmtree(gone, ignore_errors=True)
                folder.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)

    def _sound(self, folder: Path) -> Checkpoint | None:
        """Return a checkpoint of this run whose every byte is what was written, None if it is not one."""
        try:
            checkpoint, _ = read_checkpoint(folder)
        except RecordError:
            return None
        return checkpoint if checkpoint.run == self._run else None

    def _written(self, write: Any) -> None:
        try:
            write()
        except (OSError, RecordError) as error:
            reason = error.found if isinstance(error, RecordError) else str(error.strerror or error)
            kept = next((folder.name for folder in self._folders() if self._sound(folder) is not None), None)
            there = (
                f"goes on from {kept}, which was read through and is intact"
                if kept
                else "begins anew: none is intact"
            )
            raise TrainingError(
                "room for a checkpoint",
                found=reason,
                where=str(self.folder),
                fix=f"make room and call again; the training {there}",
            ) from error


def read_checkpoint(folder: Path) -> tuple[Checkpoint, dict[str, str]]:
    """Return a checkpoint, and the sha256 of each validation it builds on, after comparing every byte with
    its manifest.

    Raises:
        RecordError: It is damaged or incomplete; says which file.
    """
    fix = "none needed: the checkpoint before it is used"
    try:
        content = read_bytes(folder / MANIFEST, fix=fix)
        raw = loads(content.decode("utf-8", "replace"), where=str(folder / MANIFEST), fix=fix)
    except AssayError as error:
        raise _damage(folder, f"{MANIFEST} is {error.found}") from None
    if not isinstance(raw, dict) or dumps(raw).encode() != content or digest(_body(raw)) != raw.get("sha256"):
        raise _damage(folder, f"{MANIFEST} is not what was written")
    if not _is_manifest(raw):
        raise _damage(folder, f"{MANIFEST} is none that was ever written here")
    if raw["format"] != FORMAT or folder.name != f"step-{raw['step']:06d}":
        raise _damage(folder, f"format {raw['format']} and step {raw['step']} under this name")
    present = {path.name for path in folder.iterdir()}
    if present != {*raw["files"], MANIFEST}:
        odd = sorted(present ^ {*raw["files"], MANIFEST})
        raise _damage(folder, f"missing or foreign files: {', '.join(odd)}")
    for name, facts in raw["files"].items():
        _compare(folder, folder / name, facts["sha256"])
    for name, expected in raw["validations"].items():
        _compare(folder, folder.parent / name, expected)
    return Checkpoint(raw["step"], folder, raw["run"], raw["healthy"]), dict(raw["validations"])


def check_contents(checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint whose files, though they are those of its manifest, say nothing that can be gone on
    with.

    Raises:
        RecordError: It is one; says which file, and why.
    """
    for path in sorted(checkpoint.folder.iterdir()):
        if path.name != MANIFEST and (found := unreadable(path.name, checkpoint.read(path.name))) is not None:
            raise _damage(checkpoint.folder, found)


@contextmanager
def refuse_going_on(start: Checkpoint | None, begun: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Say what is wrong with a checkpoint, where taking up what it holds fails before a step has begun.

    Its values may be of the right kind and still not fit: another model's optimizer, the generators of
    another library.

    Raises:
        RecordError: It failed so; names the checkpoint.
    """
    try:
        yield
    except (AssayError, EnvironmentFailure, OSError):
        raise
    except Exception as error:
        if start is None or begun():
            raise
        fix = (
            "remove it, and the training goes on from the one before it: rm -r"
            f" {shlex.quote(str(start.folder))}"
        )
        raise RecordError(
            "a checkpoint to go on from", found=said(error), where=str(start.folder), fix=fix
        ) from error


def _is_manifest(raw: Mapping[str, Any]) -> bool:
    """Return whether a manifest has the form we write: a file is named without a folder, a validation as we
    name it."""
    kinds = {
        "format": int,
        "step": int,
        "run": str,
        "healthy": bool,
        "files": dict,
        "validations": dict,
        "sha256": str,
    }
    if raw.keys() != kinds.keys() or not all(isinstance(raw[name], kind) for name, kind in kinds.items()):
        return False
    files = all(
        isinstance(facts, dict)
        and isinstance(facts.get("sha256"), str)
        and Path(name).name == name
        and "\0" not in name
        for name, facts in raw["files"].items()
    )
    named = all(
        _VALIDATION.fullmatch(name) and isinstance(told, str) for name, told in raw["validations"].items()
    )
    return files and named


def _body(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if name != "sha256"}


def _compare(folder: Path, path: Path, expected: str) -> None:
    try:
        content = read_bytes(path, fix="none needed")
    except RecordError as error:
        raise _damage(folder, f"{path.name} is {error.found}") from None
    if sha256_bytes(content) != expected:
        raise _damage(folder, f"{path.name} is not what was written")


def _damage(folder: Path, found: str) -> RecordError:
    return RecordError(
        "a whole checkpoint of this run", found=found, where=str(folder), fix="use another checkpoint"
    )


def _facts(content: bytes) -> dict[str, Any]:
    return {"sha256": sha256_bytes(content), "bytes": len(content)}


def _validation(step: int) -> str:
    return f"validations/step-{step:06d}.jsonl"
