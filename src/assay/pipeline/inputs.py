"""What stages read before they compute: the task, verified items, and the suites made of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path

from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.console import complain
from assay.core.decoding import Decoding
from assay.core.errors import ConfigError, DataError
from assay.core.installed import WHERE, Required, differences
from assay.core.installed import require as require_packages
from assay.core.records import Split
from assay.core.storage.files import real, sha256_bytes
from assay.core.storage.json import digest, read_record
from assay.core.storage.untrusted import inside, read_capped, sha256_contents
from assay.dataset import cache
from assay.dataset.fingerprint import Fingerprint
from assay.dataset.schema_files import SchemaFiles
from assay.dataset.source import DataRow
from assay.dataset.suite import SAMPLING_AGAIN, Suite, choose, choose_secondary, rules_of
from assay.dataset.verified import entries, reader, require, verify
from assay.pipeline.project import Project
from assay.tasks.catalogue import build
from assay.tasks.protocol import Item, Task

AGAIN = "./run dvc repro fingerprint"
MAX_BLOCKLIST_BYTES = 10_000_000

# Items by everything they are made from; the bytes are hashed at every call, only the parsing is saved.
_ITEMS: dict[str, tuple[Item, ...]] = {}
# Suites by their items' key and by how they were chosen: who asks again gets the same items.
_SUITES: dict[tuple[Hashable, ...], Suite] = {}


def task_of(project: Project, *, shaping: bool = False) -> Task:
    """Return the chosen task; shaping rewards are a matter of training alone.

    Raises:
        ConfigError: An installed package that grades is missing, or of another version.
        DataError: The blocklist, or such a package, changed since it was fingerprinted.
    """
    if project.params.task.needs:
        told, found = fingerprint_of(project).requires or (), requires_of(project) or ()
        if odd := differences(told, found):
            fix = "./run pip install --force-reinstall --no-deps it, or ./run dvc repro -f fingerprint"
            raise DataError(
                "the installed packages that were fingerprinted", found=odd[0], where=WHERE, fix=fix
            )
    content = blocklist_of(project)
    if content is not None:
        require(
            fingerprint_of(project).blocklist, sha256_bytes(content), _blocklist_name(project), _fix(project)
        )
    return task_with(project, content, shaping=shaping)


def task_with(project: Project, blocklist: bytes | None, *, shaping: bool = False) -> Task:
    """Return the chosen task with the terms of a blocklist.

    Raises:
        DataError: The blocklist is no UTF-8 text.
    """
    name = _blocklist_name(project)
    try:
        text = "" if blocklist is None else blocklist.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            "UTF-8 text", found=error.reason, where=f"{name}, byte {error.start}", fix="convert it"
        ) from None
    return build(
        project.params.task,
        project.params.generation,
        shaping=shaping,
        blocklist=text,
        where=name,
        root=str(project.root),
        runner=project.recorded,
    )


def blocklist_of(project: Project) -> bytes | None:
    """Return the bytes of the file of blocked terms, None where none is set.

    Raises:
        DataError: It is missing, or outside dataset.root.
    """
    name = project.params.task.blocklist_file
    if name is None:
        return None
    fix = "put the file in dataset.root, or set task.blocklist: null in configs/task/"
    path = inside(project.data(name), [project.data("")], where=setting("task.blocklist"), fix=fix)
    return read_capped(path, max_bytes=MAX_BLOCKLIST_BYTES, fix=fix)


def decoding_of(project: Project, *, greedy: bool = False, rollout: bool = False) -> Decoding:
    """Return how tokens are chosen in an evaluation, or in a rollout."""
    params = project.params
    generation = params.generation
    limit = params.task.max_new_tokens[generation.surface]
    sampled = generation.temperature if rollout else generation.measured_at
    return Decoding(
        0.0 if greedy else sampled, limit, generation.backend, generation.cuda_graphs, generation.drafts
    )


def fingerprint_of(project: Project) -> Fingerprint:
    """Return the fingerprint that the first stage wrote."""
    return read_record(project.results("fingerprint.json"), Fingerprint, fix=AGAIN)


def items_of(project: Project, split: str) -> list[Item]:
    """Return the items of a data file, from exactly the bytes that were fingerprinted, and without those left
    out then.

    Args:
        project: Names dataset and task.
        split: Name of the data file, without .jsonl.

    Raises:
        DataError: The data file, a schema file, the blocklist or the cached copy changed since; names the
            file.
    """
    return list(_items(project, split)[1])


def _items(project: Project, split: str) -> tuple[str, tuple[Item, ...]]:
    """Return `items_of`, behind the key of all they are made from."""
    found, params = fingerprint_of(project), project.params
    where = f"{params.dataset.root}/{split}.jsonl"
    task = task_of(project)
    if found.task != task.name or split not in found.splits:
        told = f"one of task {found.task} with {', '.join(found.splits)}"
        raise DataError(f"a fingerprint of task {task.name} with {split}", found=told, where=where, fix=AGAIN)
    if (found.cached is None) != (params.dataset.cache is None):
        raise DataError("a fingerprint made with this dataset.cache", found="another", where=where, fix=AGAIN)
    _verify_sources(project, found, split)
    copy = _copy_of(project, found)
    if copy is not None and found.cached is not None:
        cache.verify_copy(copy, found.cached, cache.read_with(found.cached, split))
    settings = [
        params.task.model_dump(mode="json"),
        params.generation.model_dump(mode="json"),
        params.dataset.root,
    ]
    key = digest([str(project.root), split, found.model_dump(mode="json"), settings])
    if key not in _ITEMS:
        read = _entries(project, found, split, copy)
        _ITEMS[key] = tuple(
            replace(task.item(entry.row), record=entry.digest, row=entry.record) for entry in read
        )
    return key, _ITEMS[key]


def rules_at(project: Project) -> str:
    """Return the rules by which the settings ask and grade, as a suite holds them."""
    content, params = blocklist_of(project), project.params
    return rules_of(
        params.task, params.generation, None if content is None else sha256_bytes(content), code_of(project)
    )


def code_of(project: Project) -> str | None:
    """Return the sha256 of the task's own folder of code; None where the task is part of assay.

    Raises:
        ConfigError: There is no such folder, or it is outside the project.
    """
    task = project.params.task
    if not task.brings_code:
        return None
    fix = "set task.code in configs/task/ to a folder of the project"
    folder = inside(project.root / task.code, [project.root], where=setting("task.code"), fix=fix)
    found = sha256_contents(folder) if folder.is_dir() else None
    if found is None:
        raise ConfigError("a folder", found=task.code, where=setting("task.code"), fix=fix)
    return found


def requires_of(project: Project) -> tuple[Required, ...] | None:
    """Return the installed packages that a task's own code grades with; None where there are none.

    Raises:
        ConfigError: One is missing, or of another version.
    """
    if project.recorded is not None:
        return project.recorded.requires
    return require_packages(project.params.task.needs) or None


def splits_of(params: Params) -> tuple[str, str, str]:
    """Return the data files a claim rests on: what is trained on, what chooses the checkpoint, what is
    reported."""
    return "train", params.validation.suite, "heldout"


def heldout_suite(project: Project, *, draws: int | None = None, again: bool = False) -> Suite:
    """Return the held-out suite, or what a draft plays in its place; `again` with other sampling seeds, for
    the base's second time."""
    chosen = project.params.evaluation
    asked = {"n": chosen.items, "draws": draws or chosen.draws, "seed": chosen.seed}
    if not chosen.open:
        asked["n"] = min(chosen.items, len(items_of(project, project.params.played[0])))
    split: Split = "heldout" if chosen.open else "validation"
    suite = _chosen(project, project.params.played[0], choose, split=split, **asked)
    return replace(suite, sampling=SAMPLING_AGAIN) if again else suite


def secondary_suites(project: Project) -> dict[str, Suite]:
    """Return the suites on which policies are compared beside the held-out one, by data file."""
    chosen = project.params.evaluation
    return {
        name: _chosen(project, name, choose_secondary, most=chosen.items, seed=chosen.seed)
        for name in project.params.played[1:]
    }


def secondary_file(stage: str, suite: str) -> str:
    """Return the file of a stage's episodes of a secondary suite, without .jsonl.

    >>> secondary_file("pre_eval", "traps")
    'pre_eval_secondary/traps'
    """
    return f"{stage}_secondary/{suite}"


def validation_suite(project: Project) -> Suite:
    """Return the validation suite, from whichever data file the settings name."""
    chosen = project.params.validation
    asked = {"n": chosen.items, "draws": chosen.draws, "seed": chosen.seed}
    return _chosen(project, chosen.suite, choose, split="validation", **asked)


def _chosen(project: Project, name: str, how: Callable[..., Suite], **asked: Hashable) -> Suite:
    """Return what `how` chooses of the items of a data file, by the rules and the likeness of the settings;
    chosen once."""
    key, items = _items(project, name)
    asked |= {"rules": rules_at(project), "similarity": project.params.dataset.near_duplicates}
    known = (key, how, *sorted(asked.items()))
    if known not in _SUITES:
        _SUITES[known] = how(items, **asked)
    return _SUITES[known]


def _fix(project: Project) -> str:
    return f"{AGAIN}   (or restore the file: git checkout -- {project.params.dataset.root})"


def _blocklist_name(project: Project) -> str:
    return f"{project.params.dataset.root}/{project.params.task.blocklist_file}"


def _verify_sources(project: Project, found: Fingerprint, split: str) -> None:
    """Refuse a data file or schema file that is not the fingerprinted one; `task_of` has seen to the
    blocklist."""
    name, fix = f"{split}.jsonl", _fix(project)
    data = {name: found.splits[split].file_sha256}
    verify(project.data(""), data, shown=f"{project.params.dataset.root}/", fix=fix)
    verify(project.root, found.schemas, shown="", fix=fix)


def cache_folder(project: Project, dataset_sha256: str) -> Path:
    """Return where the verified copy of a dataset lies; only for projects that keep one.

    Raises:
        ConfigError: The place is outside the project, or among the data.
    """
    name = project.params.dataset.cache or ""
    chosen, data = real(project.root / name), real(project.data(""))
    if (
        not chosen.is_relative_to(real(project.root))
        or chosen == real(project.root)
        or chosen.is_relative_to(data)
    ):
        expected = "a folder of its own inside the project"
        fix = "dataset.cache: .scratch/datasets, or null"
        raise ConfigError(expected, found=repr(name), where=setting("dataset.cache"), fix=fix)
    return cache.folder_of(project.root / name, dataset_sha256)


def _copy_of(project: Project, found: Fingerprint) -> Path | None:
    """Return the folder of the verified copy, built again if it is gone; None if none is to be kept."""
    if project.params.dataset.cache is None:
        return None
    folder = cache_folder(project, found.dataset_sha256)
    if not folder.exists() and not folder.is_symlink():
        splits = {split: _source_entries(project, found, split) for split in found.splits}
        files = cache.copies(splits, blocklist_of(project))
        if cache.sums_of(files) != found.cached:
            raise DataError("the copy that was fingerprinted", found="another", where=str(folder), fix=AGAIN)
        if cache.keep(folder, files, found.dataset_sha256) == cache.BUILT:
            complain(
                f"{project.params.dataset.cache}/{folder.name} was gone and is built again from"
                f" {project.params.dataset.root}"
            )
    return folder


def _entries(project: Project, found: Fingerprint, split: str, copy: Path | None) -> Sequence[DataRow]:
    if copy is not None and found.cached is not None:
        return cache.open_copy(copy, found.cached, split)
    return _source_entries(project, found, split)


def _source_entries(project: Project, found: Fingerprint, split: str) -> list[DataRow]:
    part, fix = found.splits[split], _fix(project)
    schemas = SchemaFiles(project.data(""), project.root, read=reader(project.root, found.schemas, fix))
    where = f"{project.params.dataset.root}/{split}.jsonl"
    return entries(
        project.data(f"{split}.jsonl"), part.file_sha256, schemas, where=where, fix=fix, skip=part.dropped
    )
