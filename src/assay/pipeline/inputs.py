"""What stages read before they compute: the task, verified items, and the suites made of them. Read once, and
handed down as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from assay.core.config.places import setting
from assay.core.config.settings import DatasetSettings, Params
from assay.core.config.tasks import TaskSettings
from assay.core.console import complain, say
from assay.core.decoding import Decoding
from assay.core.errors import ConfigError, DataError
from assay.core.evidence_files import place_of
from assay.core.installed import WHERE, Required, differences
from assay.core.installed import require as require_packages
from assay.core.storage.files import real, sha256_bytes
from assay.core.storage.json import read_record
from assay.core.storage.untrusted import inside, read_capped, sha256_contents
from assay.rollout.dataset import cache
from assay.rollout.dataset.fingerprint import Fingerprint
from assay.rollout.dataset.schema_files import SchemaFiles
from assay.rollout.dataset.source import DataRow, KeptRecord
from assay.rollout.dataset.suite import Suite, choose, choose_secondary, parted, rules_of
from assay.rollout.dataset.verified import entries, reader, require, verify
from assay.rollout.tasks.protocol import Item, Task

if TYPE_CHECKING:
    from assay.rollout.tasks.own.recorded import Recorded

AGAIN = "./run dvc repro fingerprint"
MAX_BLOCKLIST_BYTES = 10_000_000

# What is trained on, what chooses the checkpoint, what is reported (or what a draft plays in its place), and
# what is played beside that.
Part = Literal["train", "validation", "heldout", "secondary"]


@dataclass(frozen=True)
class Inputs:
    """What a stage computes from: values, held to the fingerprint when they were read.

    Attributes:
        params: All settings.
        task: What is played, as it is evaluated: without shaping.
        fingerprint: What the data are.
        items: Of each data file that was read, by its name without .jsonl; without those left out.
        rules: By which the settings ask and grade, as a suite holds them.
    """

    params: Params
    task: Task
    fingerprint: Fingerprint
    items: Mapping[str, Sequence[Item]]
    rules: str

    @property
    def train(self) -> Sequence[Item]:
        """The items that are trained on for reward."""
        return self._parts[1]

    @property
    def shown(self) -> Sequence[Item]:
        """The train items whose answers the base is shown before; none of them is in `train`."""
        return self._parts[0]

    @cached_property
    def _parts(self) -> tuple[Sequence[Item], Sequence[Item]]:
        items, sft = self.items["train"], self.params.sft
        if sft is None:
            return [], items
        return parted(items, sft.share, sft.seed, self.params.dataset.near_duplicates)

    @cached_property
    def heldout(self) -> Suite:
        """The held-out suite, or what a draft plays in its place."""
        chosen, items = self.params.evaluation, self.items[self.params.played[0]]
        return choose(
            items,
            chosen.items if chosen.open else min(chosen.items, len(items)),
            split="heldout" if chosen.open else "validation",
            draws=chosen.draws,
            seed=chosen.seed,
            rules=self.rules,
            similarity=self.params.dataset.near_duplicates,
        )

    @cached_property
    def validation(self) -> Suite:
        """The suite that chooses the checkpoint, from whichever data file the settings name."""
        chosen = self.params.validation
        return choose(
            self.items[chosen.suite],
            chosen.items,
            split="validation",
            draws=chosen.draws,
            seed=chosen.seed,
            rules=self.rules,
            similarity=self.params.dataset.near_duplicates,
        )

    @cached_property
    def secondary(self) -> dict[str, Suite]:
        """The suites on which policies are compared beside the held-out one, by data file."""
        chosen, similarity = self.params.evaluation, self.params.dataset.near_duplicates
        return {
            name: choose_secondary(
                self.items[name], chosen.items, seed=chosen.seed, rules=self.rules, similarity=similarity
            )
            for name in self.params.played[1:]
        }


def read_inputs(root: Path, params: Params, *parts: Part, recorded: Recorded | None = None) -> Inputs:
    """Read what is asked for of a project's data, from exactly the bytes that were fingerprinted.

    Args:
        root: Of the project.
        params: Its settings.
        parts: Whose data files are read; no other is opened.
        recorded: What the task's own code said, in whose place it answers; None: that code is run.

    Raises:
        ConfigError: An installed package that grades is missing, or of another version.
        DataError: A data file, a schema file, the blocklist, such a package or the cached copy changed since;
            names it.
    """
    files: dict[Part, Sequence[str]] = {
        "train": ["train"],
        "validation": [params.validation.suite],
        "heldout": params.played[:1],
        "secondary": params.played[1:],
    }
    found, task = read_fingerprint(root), read_task(root, params, recorded=recorded)
    names = dict.fromkeys(name for part in parts for name in files[part])
    items = {name: read_items(root, params, task, name) for name in names}
    return Inputs(params, task, found, items, rules_at(root, params))


def read_task(root: Path, params: Params, *, shaping: bool = False, recorded: Recorded | None = None) -> Task:
    """Return the chosen task; shaping rewards are a matter of training alone.

    Raises:
        ConfigError: An installed package that grades is missing, or of another version.
        DataError: The blocklist, or such a package, changed since it was fingerprinted.
    """
    if params.task.needs:
        told, found = read_fingerprint(root).requires or (), requires_of(params.task, recorded) or ()
        if odd := differences(told, found):
            fix = "./run pip install --force-reinstall --no-deps it, or ./run dvc repro -f fingerprint"
            raise DataError(
                "the installed packages that were fingerprinted", found=odd[0], where=WHERE, fix=fix
            )
    content = blocklist_of(root, params)
    if content is not None:
        require(
            read_fingerprint(root).blocklist, sha256_bytes(content), _blocklist_name(params), _fix(params)
        )
    return task_with(root, params, content, shaping=shaping, recorded=recorded)


def task_with(
    root: Path,
    params: Params,
    blocklist: bytes | None,
    *,
    shaping: bool = False,
    recorded: Recorded | None = None,
) -> Task:
    """Return the chosen task with the terms of a blocklist.

    Raises:
        DataError: The blocklist is no UTF-8 text.
    """
    name = _blocklist_name(params)
    try:
        text = "" if blocklist is None else blocklist.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            "UTF-8 text", found=error.reason, where=f"{name}, byte {error.start}", fix="convert it"
        ) from None
    task: Task = params.task.build(
        params.generation, shaping=shaping, blocklist=text, where=name, root=str(root), runner=recorded
    )
    return task


def blocklist_of(root: Path, params: Params) -> bytes | None:
    """Return the bytes of the file of blocked terms, None where none is set.

    Raises:
        DataError: It is missing, or outside dataset.root.
    """
    name = params.task.blocklist_file
    if name is None:
        return None
    fix, data = (
        "put the file in dataset.root, or set task.blocklist: null in configs/task/",
        _data(root, params),
    )
    path = inside(data / name, [data], where=setting("task.blocklist"), fix=fix)
    return read_capped(path, max_bytes=MAX_BLOCKLIST_BYTES, fix=fix)


def decoding_of(params: Params, *, greedy: bool = False, rollout: bool = False) -> Decoding:
    """Return how tokens are chosen in an evaluation, or in a rollout."""
    generation = params.generation
    limit = params.task.max_new_tokens[generation.surface]
    sampled = generation.temperature if rollout else generation.measured_at
    return Decoding(
        0.0 if greedy else sampled, limit, generation.backend, generation.cuda_graphs, generation.drafts
    )


def read_fingerprint(root: Path) -> Fingerprint:
    """Return the fingerprint that the first stage wrote."""
    return read_record(root / place_of("fingerprint.json"), Fingerprint, fix=AGAIN)


def read_items(root: Path, params: Params, task: Task, split: str) -> list[Item]:
    """Return the items of a data file, from exactly the bytes that were fingerprinted, and without those left
    out then.

    Args:
        root: Of the project.
        params: Name the dataset.
        task: Makes items of its records.
        split: Name of the data file, without .jsonl.

    Raises:
        DataError: The data file, a schema file or the cached copy changed since; names the file.
    """
    found, where = read_fingerprint(root), f"{params.dataset.root}/{split}.jsonl"
    if found.task != task.name or split not in found.splits:
        told = f"one of task {found.task} with {', '.join(found.splits)}"
        raise DataError(f"a fingerprint of task {task.name} with {split}", found=told, where=where, fix=AGAIN)
    if (found.cached is None) != (params.dataset.cache is None):
        raise DataError("a fingerprint made with this dataset.cache", found="another", where=where, fix=AGAIN)
    _verify_sources(root, params, found, split)
    copy = _copy_of(root, params, found)
    if copy is not None and found.cached is not None:
        cache.verify_copy(copy, found.cached, cache.read_with(found.cached, split))
    read = _entries(root, params, found, split, copy)
    return [replace(task.item(entry.row), record=entry.digest, row=entry.record) for entry in read]


def rules_at(root: Path, params: Params) -> str:
    """Return the rules by which the settings ask and grade, as a suite holds them."""
    content = blocklist_of(root, params)
    terms = None if content is None else sha256_bytes(content)
    return rules_of(params.task, params.generation, terms, code_of(root, params.task))


def code_of(root: Path, task: TaskSettings) -> str | None:
    """Return the sha256 of the task's own folder of code; None where the task is part of assay.

    Raises:
        ConfigError: There is no such folder, or it is outside the project.
    """
    if not task.brings_code:
        return None
    fix = "set task.code in configs/task/ to a folder of the project"
    folder = inside(root / task.code, [root], where=setting("task.code"), fix=fix)
    found = sha256_contents(folder) if folder.is_dir() else None
    if found is None:
        raise ConfigError("a folder", found=task.code, where=setting("task.code"), fix=fix)
    return found


def requires_of(task: TaskSettings, recorded: Recorded | None = None) -> tuple[Required, ...] | None:
    """Return the installed packages that a task's own code grades with; None where there are none.

    Raises:
        ConfigError: One is missing, or of another version.
    """
    if recorded is not None:
        return recorded.requires
    return require_packages(task.needs) or None


def splits_of(params: Params) -> tuple[str, str, str]:
    """Return the data files a claim rests on: what is trained on, what chooses the checkpoint, what is
    reported."""
    return "train", params.validation.suite, "heldout"


def secondary_file(stage: str, suite: str) -> str:
    """Return the file of a stage's episodes of a secondary suite, without .jsonl.

    >>> secondary_file("pre_eval", "traps")
    'pre_eval_secondary/traps'
    """
    return f"{stage}_secondary/{suite}"


def _data(root: Path, params: Params) -> Path:
    return root / params.dataset.root


def _fix(params: Params) -> str:
    return f"{AGAIN}   (or restore the file: git checkout -- {params.dataset.root})"


def _blocklist_name(params: Params) -> str:
    return f"{params.dataset.root}/{params.task.blocklist_file}"


def _verify_sources(root: Path, params: Params, found: Fingerprint, split: str) -> None:
    """Refuse a data file or schema file that is not the fingerprinted one; `read_task` has seen to the
    blocklist."""
    name, fix = f"{split}.jsonl", _fix(params)
    data = {name: found.splits[split].file_sha256}
    verify(_data(root, params), data, shown=f"{params.dataset.root}/", fix=fix)
    verify(root, found.schemas, shown="", fix=fix)


def cache_folder(root: Path, dataset: DatasetSettings, dataset_sha256: str) -> Path:
    """Return where the verified copy of a dataset lies; only for projects that keep one.

    Raises:
        ConfigError: The place is outside the project, or among the data.
    """
    name = dataset.cache or ""
    chosen, data = real(root / name), real(root / dataset.root)
    if not chosen.is_relative_to(real(root)) or chosen == real(root) or chosen.is_relative_to(data):
        expected = "a folder of its own inside the project"
        fix = "dataset.cache: .scratch/datasets, or null"
        raise ConfigError(expected, found=repr(name), where=setting("dataset.cache"), fix=fix)
    return cache.folder_of(root / name, dataset_sha256)


def keep_copy(
    root: Path,
    dataset: DatasetSettings,
    found: Fingerprint,
    kept: Mapping[str, Sequence[KeptRecord]],
    blocklist: bytes | None,
) -> dict[str, str] | None:
    """Write the verified copy of a dataset, and return the sha256 of its files; None if none is to be kept.

    Args:
        root: Of the project.
        dataset: Its settings.
        found: The fingerprint, by which the copy is named.
        kept: Records by split.
        blocklist: Terms of the blocklist, which it holds too.
    """
    if dataset.cache is None:
        return None
    folder = cache_folder(root, dataset, found.dataset_sha256)
    entries = {split: [member.entry for member in members] for split, members in kept.items()}
    files = cache.copies(entries, blocklist)
    say(f"copy {dataset.cache}/{folder.name}: {cache.keep(folder, files, found.dataset_sha256)}")
    return cache.sums_of(files)


def _copy_of(root: Path, params: Params, found: Fingerprint) -> Path | None:
    """Return the folder of the verified copy, built again if it is gone; None if none is to be kept."""
    if params.dataset.cache is None:
        return None
    folder = cache_folder(root, params.dataset, found.dataset_sha256)
    if not folder.exists() and not folder.is_symlink():
        splits = {split: _source_entries(root, params, found, split) for split in found.splits}
        files = cache.copies(splits, blocklist_of(root, params))
        if cache.sums_of(files) != found.cached:
            raise DataError("the copy that was fingerprinted", found="another", where=str(folder), fix=AGAIN)
        if cache.keep(folder, files, found.dataset_sha256) == cache.BUILT:
            complain(
                f"{params.dataset.cache}/{folder.name} was gone and is built again from {params.dataset.root}"
            )
    return folder


def _entries(
    root: Path, params: Params, found: Fingerprint, split: str, copy: Path | None
) -> Sequence[DataRow]:
    if copy is not None and found.cached is not None:
        return cache.open_copy(copy, found.cached, split)
    return _source_entries(root, params, found, split)


def _source_entries(root: Path, params: Params, found: Fingerprint, split: str) -> list[DataRow]:
    part, fix, data = found.splits[split], _fix(params), _data(root, params)
    schemas = SchemaFiles(data, root, read=reader(root, found.schemas, fix))
    where = f"{params.dataset.root}/{split}.jsonl"
    return entries(
        data / f"{split}.jsonl", part.file_sha256, schemas, where=where, fix=fix, skip=part.dropped
    )
