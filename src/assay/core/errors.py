"""The one tree of errors that assay raises on purpose; everything else is a bug, or an environment that
failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NO_VERDICT, MOST_SHOWN = "no verdict for these settings yet", 6


class EnvironmentFailure(Exception):
    """What a task's environment raises when it crashed or timed out through no fault of the model.

    It says nothing about a completion, so it never becomes a reward: the call is made again on the same
    state, and an episode whose environment keeps failing is lost and left out of what is learned. A subclass
    may be raised as well.
    """


class AssayError(Exception):
    """A condition the user can act on, told as: what was expected, what was found, where, and how to fix
    it."""

    exit_code: int = 1  # of the process that ends with it

    def __init__(self, expected: str, *, found: str, where: str, fix: str) -> None:
        self.expected, self.found, self.where, self.fix = expected, found, where, fix
        super().__init__(f"{where}: expected {expected}, found {found}.\nFix: {fix}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it come back whole from a process beside, which exceptions with named arguments do not."""
        return _unpickled, (type(self), self.args, vars(self))


def _unpickled(kind: type[AssayError], told: tuple[Any, ...], values: Mapping[str, Any]) -> AssayError:
    error = kind.__new__(kind, *told)
    vars(error).update(values)
    return error


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


class TrainingStopped(TrainingError):
    """A training ended itself: it was poisoned, or nothing could be learned any more."""

    exit_code = 4


class Interrupted(AssayError):
    """Somebody asked the process to stop, and it left everything so that it can go on."""

    def __init__(self, name: str, *, where: str, exit_code: int) -> None:
        """Say which signal and where; `exit_code` is 130 after Ctrl-C, 143 after SIGTERM."""
        super().__init__(
            "to work to the end", found=name, where=where, fix="call the same command again to go on"
        )
        self.args = (f"stopped by {name} {where}, which is saved.\nTo go on: call the same command again",)
        self.exit_code = exit_code


class RunningAlready(AssayError):
    """Another process works on the very same run."""


class EnvironmentLost(AssayError):
    """An environment failed for good in the middle of an evaluation, which scores every episode or none."""


class EvidenceError(AssayError):
    """Reports that cannot honestly be compared."""


class NoVerdictYet(AssayError):
    """There is no claim about the settings and data at hand: none was made yet, or the one that stands is
    about others."""

    exit_code = 6

    def __init__(self, differences: Sequence[str], *, data: str) -> None:
        """Say in what the claim that stands is another's, a difference a line; `data` is what the data at
        hand are called."""
        shown = [
            *differences[:MOST_SHOWN],
            *([f"and {len(differences) - MOST_SHOWN} more"] * (len(differences) > MOST_SHOWN)),
        ]
        super().__init__(
            "a claim about these settings", found="; ".join(shown), where=data, fix="./run repro"
        )
        told = "".join(f"\n  {each}" for each in shown)
        self.args = (f"{data}: {NO_VERDICT}.{told}\nFix: {self.fix}",)


class PackageError(AssayError):
    """An archive that must not be written, or must not be trusted."""
