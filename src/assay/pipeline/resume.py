"""What a stage keeps beside its outputs, so that an interrupted call can be gone on with: by whom, where, and
for what run.

DVC removes the outputs of a stage before it runs it, so this lies in a folder of its own that neither git nor
DVC knows. Its name is a digest of everything that decides what the stage computes: a changed input is another
folder, and nothing of one run is ever taken for a part of another.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.config.settings import Params
from assay.core.console import complain
from assay.core.errors import ConfigError, RecordError
from assay.core.evidence_files import scratch_of
from assay.core.provenance import arithmetic, hardware, packages
from assay.core.records import Episode
from assay.core.storage.files import read_bytes, sha256_bytes, write_bytes
from assay.core.storage.json import digest, dumps, loads, write_json
from assay.core.storage.locks import hold
from assay.core.storage.untrusted import sha256_contents
from assay.core.storage.yaml import read_yaml
from assay.pipeline.inputs import requires_of

PIPELINE = "dvc.yaml"
_FIX = f"git checkout -- {PIPELINE}"
_PLACEHOLDER = re.compile(r"\$\{([\w.]+)\}")
_MISSING = "missing"
_OF = "of.json"


@dataclass(frozen=True, slots=True)
class RunKey:
    """What a stage computes from, name by name, and all of it as one digest."""

    digest: str
    parts: dict[str, str]


def run_key(
    root: Path, params: Params, stage: str, reads: Sequence[str], without: Sequence[str] = ()
) -> RunKey:
    """Return what decides the results of a stage: its command, parameters, deps by their contents,
    packages and, where they grade, what is installed of them.

    Args:
        root: Of the project as it stands on disk.
        params: Its settings.
        stage: Its name in dvc.yaml.
        reads: READS of its module, for a project whose dvc.yaml does not have it; all parameters count there.
        without: Parameters, or sections of them, under which a run may go on as well as under any other.

    Raises:
        ConfigError: dvc.yaml is not what DVC reads, or an installed package that grades is missing.
    """
    values = params.model_dump(mode="json")
    declared = _declared(root, stage)
    parts: dict[str, str] = {}
    if declared is None:
        names, deps = list(values), list(reads)
    else:
        names, deps = _listed(declared, stage, "params"), _listed(declared, stage, "deps")
        parts["cmd"] = _resolved(str(declared.get("cmd", "")), values)
    for name in names:
        parts |= dict(_leaves(f"params.{name}", _found(values, name)))
    left_out = tuple(f"params.{name}" for name in without)
    parts = {
        name: value
        for name, value in parts.items()
        if not f"{name}.".startswith(tuple(f"{n}." for n in left_out))
    }
    for dep in deps:
        path = _resolved(dep, values)
        parts[f"deps.{path}"] = sha256_contents(root / path) or _MISSING
    parts |= {f"packages.{name}": version or _MISSING for name, version in packages().items()}
    parts |= {
        f"requires.{each.name}": f"{each.version} {each.sha256}" for each in requires_of(params.task) or ()
    }
    return RunKey(digest(parts), parts)


def machine_of(device: str) -> dict[str, str]:
    """Return what of this machine decides last bits beside the run's key: processor, instructions, thread
    flags, GPU.

    It is no part of the key: on another machine it is the same run, and has to be told, not to be begun again
    unnoticed.
    """
    from assay.rollout.policy.model import gpu_name

    found = arithmetic()
    gpu = gpu_name(device)
    return found if gpu is None else found | {"gpu": gpu}


def difference(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return in what the parts of two run keys differ, a line each: parameters first, then all else by name.

    >>> here = {"cmd": "assay train", "params.train.steps": "200", "deps.src/assay/training": "6c1f"}
    >>> difference(here, here | {"params.train.steps": "300", "deps.src/assay/training": "0b77"})
    ['train.steps: 200 here, 300 there', 'src/assay/training: other content']
    """
    odd = [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
    odd.sort(key=lambda name: not name.startswith("params."))
    return [_told(name, one.get(name), other.get(name)) for name in odd]


def _told(name: str, here: str | None, there: str | None) -> str:
    kind, _, rest = name.partition(".")
    if kind == "deps" and not {here, there} & {None, _MISSING}:
        return f"{rest}: other content"
    if kind == "deps":
        lacking = "here" if here in (None, _MISSING) else "there"
        return f"{rest}: missing {lacking}"
    return (
        f"{rest or name}: {'nothing' if here is None else here} here, {'nothing' if there is None else there}"
        " there"
    )


def _declared(root: Path, stage: str) -> Mapping[str, Any] | None:
    """Return what dvc.yaml says of a stage, None where it says nothing."""
    if not (root / PIPELINE).exists():
        return None
    stages = read_yaml(root / PIPELINE, fix=_FIX).get("stages")
    found = stages.get(stage) if isinstance(stages, dict) else None
    return found if isinstance(found, dict) else None


def _listed(declared: Mapping[str, Any], stage: str, kind: str) -> list[str]:
    entries = declared.get(kind, [])
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ConfigError(
            "a list of names", found=repr(entries)[:80], where=f"{PIPELINE}, {stage}.{kind}", fix=_FIX
        )
    return [str(entry) for entry in entries]


def _resolved(text: str, params: Mapping[str, Any]) -> str:
    return _PLACEHOLDER.sub(lambda found: str(_found(params, found.group(1))), text)


def _found(params: Mapping[str, Any], dotted: str) -> Any:
    """Return a parameter by its dotted name, "missing" where there is none."""
    value: Any = params
    for step in dotted.split("."):
        value = value.get(step, _MISSING) if isinstance(value, Mapping) else _MISSING
    return value


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, below in value.items():
            yield from _leaves(f"{name}.{key}", below)
    else:
        yield name, dumps(value)


@contextmanager
def kept_meanwhile(
    root: Path, params: Params, stage: str, reads: Sequence[str], *others: str, without: Sequence[str] = ()
) -> Iterator[tuple[Path, str]]:
    """Give a folder in which a stage keeps what it needs to go on after an interruption, and the key of what
    it computes there; the folder is gone once the block has ended.

    Args:
        root: Of the project.
        params: Its settings.
        stage: Its name in dvc.yaml.
        reads: READS of its module.
        others: What else decides the result, such as a policy's digest.
        without: Parameters that decide nothing of what is kept.

    Raises:
        RunningAlready: Another call is at it.
    """
    own = run_key(root, params, stage, reads, without).digest
    key = digest([own, hardware(), machine_of(params.device), *others])
    folder = scratch_of(root) / stage / key[:16]
    with locked(folder):
        yield folder, key
        shutil.rmtree(folder, ignore_errors=True)


def locked(folder: Path) -> AbstractContextManager[None]:
    """Keep every other process from working on the run of a scratch folder, as long as this one does or
    lives.

    Raises:
        RunningAlready: Another one is at it; names its process.
    """
    return hold(folder.with_name(f"{folder.name}.lock"))


def say_other_machine(folder: Path, measurement: str, machine: Mapping[str, str]) -> None:
    """Say where batches of a measurement were kept on another machine, which are not taken here; note whose
    this folder is.

    Args:
        folder: Of the batches that this machine keeps, beside those of others.
        measurement: Digest of all that decides its episodes but the machine.
        machine: What `machine_of` returns.
    """
    for other in sorted(folder.parent.glob(f"*/{_OF}")):
        told = _told_of(other)
        if (
            other.parent != folder
            and told.get("measurement") == measurement
            and any(other.parent.glob("*/batch-*"))
        ):
            odd = "; ".join(difference(machine, told["machine"])) or "other cores or Python"
            complain(
                f"batches kept in {other.parent.name} are of another machine ({odd}): all of it is played"
                " again here"
            )
    write_json(folder / _OF, {"measurement": measurement, "machine": dict(machine)})


def _told_of(path: Path) -> dict[str, Any]:
    try:
        found = loads(read_bytes(path, fix="").decode("utf-8", "replace"), where=str(path), fix="")
    except RecordError:
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("machine"), dict) else {}


class KeptEpisodes:
    """The finished batches of one evaluation on disk, a file each: `evaluation.measure.Kept`.

    A file that is damaged, cut short or of another evaluation counts as none: its batch is played again.

    Args:
        folder: Where the files lie.
        key: Digest of all that decides the episodes, the partition into batches included.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key, self._complained = folder, key, False
        self.played: list[Episode] = []

    def path(self, index: int) -> Path:
        """Return the file of a batch."""
        return self._folder / f"batch-{index:05}.jsonl"

    def get(self, index: int) -> list[Episode] | None:
        """Return the episodes of a batch as they were put, None if there is no file to trust."""
        path = self.path(index)
        if not path.exists():
            return None
        try:
            return self._read(path, index)
        except (RecordError, ValueError) as error:
            if not self._complained:
                reason = error.found if isinstance(error, RecordError) else type(error).__name__
                complain(f"{path} is not what was kept there ({reason}); such batches are played again")
                self._complained = True
            return None

    def put(self, index: int, episodes: Sequence[Episode]) -> None:
        """Keep the episodes of a batch: the whole file or, after a crash, none."""
        body = "".join(dumps(episode) + "\n" for episode in episodes).encode()
        write_bytes(self.path(index), dumps(self._header(index, body)).encode() + b"\n" + body)
        self.played += episodes

    def _header(self, index: int, body: bytes) -> dict[str, Any]:
        return {"batch": index, "key": self._key, "sha256": sha256_bytes(body)}

    def _read(self, path: Path, index: int) -> list[Episode]:
        head, _, body = read_bytes(path, fix="nothing to do").partition(b"\n")
        header = loads(head.decode("utf-8"), where=str(path), fix="nothing to do")
        if header != self._header(index, body):
            raise RecordError("this batch", found="another, or damage", where=str(path), fix="nothing to do")
        return [Episode.model_validate_json(line) for line in body.split(b"\n") if line]
