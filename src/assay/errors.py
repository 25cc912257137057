"""The one tree of errors that assay raises on purpose; everything else is a bug."""

from __future__ import annotations


class AssayError(Exception):
    """A condition the user can act on, told as: what was expected, what was found, where, and how to fix it."""

    def __init__(self, expected: str, *, found: str, where: str, fix: str) -> None:
        self.expected, self.found, self.where, self.fix = expected, found, where, fix
        super().__init__(f"{where}: expected {expected}, found {found}.\nFix: {fix}")


class ConfigError(AssayError):
    """A setting is unknown, missing, mistyped or impossible on this machine."""


class DataError(AssayError):
    """A data file is missing, damaged, or not what its checksums say."""


class RecordError(AssayError):
    """A file that assay wrote earlier cannot be read back as what it should be."""


class TaskError(AssayError):
    """An item of a task is broken: ours or the data's fault, never the model's."""


class PolicyError(AssayError):
    """A model cannot be loaded, built, or trusted to speak the task's syntax."""


class TrainingError(AssayError):
    """Training cannot go on, or would publish something poisoned."""


class EvidenceError(AssayError):
    """Reports that cannot honestly be compared."""


class PackageError(AssayError):
    """An archive that must not be written, or must not be trusted."""
