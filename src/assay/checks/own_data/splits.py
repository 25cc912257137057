"""Make a dataset of a tasks file: splits, schema files beside them, checksums, and a task preset.

Splits are by prompt group, never by row, so that a prompt that is repeated in other words cannot leak.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.checks.own_data.advice import SUITES, describe_download, find_fitting, make_preset, this_machine
from assay.core.config.composition import preset_values
from assay.core.console import say
from assay.core.counting import counted
from assay.core.errors import ConfigError, DataError
from assay.core.seeds import derive_seed
from assay.core.storage.files import read_text, real, remove, sha256_bytes, write_bytes, write_text
from assay.core.storage.json import as_written
from assay.core.storage.untrusted import inside, listing
from assay.core.storage.yaml import read_yaml
from assay.pipeline.inputs import blocklist_of
from assay.pipeline.project import Project
from assay.rollout.audit.audit import Audited
from assay.rollout.dataset.clusters import sizes_of, united
from assay.rollout.dataset.source import KeptRecord
from assay.rollout.dataset.suite import FEWEST_CLUSTERS, MORE_HELD_OUT
from assay.rollout.dataset.verified import SUMS, UNLISTED, parse_sums, sums_text
from assay.rollout.dataset.wording import family_of
from assay.verdict.statistics.bounded_mean import clusters_needed, smallest_certain_gain

NAME = re.compile(r"[a-z0-9_]+")
SPLITS = ("train", "validation", "heldout")
MORE = MORE_HELD_OUT.removeprefix("--fractions ")
LARGER_SUITES = ("0.4,0.2,0.4", "0.2,0.4,0.4")  # tried in this order where a suite is too small
Sizes = NDArray[np.float64]  # records of each cluster, [clusters]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the splits go and how they are made."""

    name: str
    folder: Path
    root: str  # dataset.root of the new preset
    fractions: tuple[float, float, float]
    seed: int
    whole_families: bool  # whether the records of a family are in one split


def plan(
    project: Project,
    tasks: Path,
    data: Path | None,
    fractions: str,
    seed: int,
    *,
    force: bool,
    whole_families: bool,
) -> Plan:
    """Return where the splits of a tasks file go, before any work is done.

    Raises:
        ConfigError: A name or fraction that cannot be.
        DataError: The folder is outside the project, or holds data that must not be overwritten.
    """
    chosen = project.root / (data or Path("data") / tasks.stem)
    folder = inside(chosen, [project.root], where="the data folder", fix="choose --data in the project")
    if not NAME.fullmatch(folder.name):
        near = re.sub(r"[^a-z0-9]+", "_", folder.name.lower()).strip("_") or "my_tasks"
        found, fix = repr(folder.name), f"--data data/{near}"
        raise ConfigError("a name of a-z, 0-9 and _", found=found, where="the data folder", fix=fix)
    if real(tasks).is_relative_to(real(folder)):
        expected = "a tasks file outside the folder to write"
        fix = "move the tasks file elsewhere, or choose --data"
        raise DataError(expected, found=str(tasks), where=str(folder), fix=fix)
    held = [name for name in listing(folder) if name not in UNLISTED] if folder.is_dir() else []
    if held and not force:
        fix = "choose another --data, or add --force"
        found = f"{counted(len(held), 'files')}, {held[0]} among them"
        raise DataError("a new folder", found=found, where=str(folder), fix=fix)
    root = folder.relative_to(project.root).as_posix()
    target = project.root / f"configs/task/{folder.name}.yaml"
    if target.exists():
        there = read_yaml(target, fix=f"rm {target}").get("dataset")
        named = there.get("root") if isinstance(there, dict) else None
        if named != root:
            expected, found = f"a preset with dataset.root: {root}, or none", f"dataset.root: {named}"
            fix = "choose --data with another last part, or remove the preset"
            raise DataError(expected, found=found, where=f"configs/task/{folder.name}.yaml", fix=fix)
    return Plan(folder.name, folder, root, _fractions(fractions), seed, whole_families)


def write(project: Project, preset: str, audited: Audited, made: Plan) -> None:
    """Write the splits of an audited tasks file and a preset for them, and say how to go on.

    Args:
        project: The project, with the preset that the file was read by.
        preset: Name of that preset.
        audited: The records.
        made: From `plan`.

    Raises:
        DataError: Too few clusters would choose the checkpoint, or be held out.
    """
    members = [member for kept in audited.kept.values() for member in kept]
    told_few, splits = _enough(project, members, made)
    files = make_files(splits)
    if (blocklist := blocklist_of(project.root, project.params)) is not None:
        files[getattr(project.params.task, "blocklist", "")] = blocklist
    text = _preset_text(project.root, preset, made)
    _clear(made.folder, keep=set(files))
    for name, content in files.items():
        write_bytes(made.folder / name, content)
    # Last, so that half a dataset is not taken for a whole one.
    sums = {name: sha256_bytes(content) for name, content in files.items()}
    write_text(made.folder / SUMS, sums_text(sums))
    told = ", ".join(f"{name} {len(chosen)}" for name, chosen in splits.items())
    say(f"wrote {made.root}: {told} records, by prompt group")
    if divided := _divided_families(splits):
        say(
            f"in several splits: {counted(len(divided), 'families')}, such as {divided[0]}, so training knows"
            " families that are held out; --whole-families keeps each in one split"
        )
    if told_few:
        say(told_few)
    place = f"configs/task/{made.name}.yaml"
    if (project.root / place).exists():
        say(f"{place} is there already and was left as it is")
    else:
        write_text(project.root / place, text)
        say(f"wrote {place}, like {preset}.yaml with dataset.root: {made.root} and no lessons")
    sizes = {name: len(chosen) for name, chosen in splits.items()}
    for line in _preset_for_here(project.root, made, sizes, scratch=project.params.task.brings_code):
        say(line)


def _enough(
    project: Project, members: Sequence[KeptRecord], made: Plan
) -> tuple[str, dict[str, list[KeptRecord]]]:
    """Return what a claim on these splits cannot show ("" if it can show what matters), and the splits.

    Raises:
        DataError: A suite has fewer clusters than any test needs; names shares that give enough, if some do.
    """
    similarity, points = project.params.dataset.near_duplicates, project.params.claim.smallest_effect_points
    homes = _groups(members, similarity, whole_families=made.whole_families)

    def sizes(chosen: Sequence[KeptRecord]) -> Sizes:
        return np.array(sizes_of(united([member.item for member in chosen], similarity)), np.float64)

    def tried(fractions: Sequence[float]) -> tuple[dict[str, list[KeptRecord]], Sizes, str]:
        splits = _split(members, homes, fractions, made.seed)
        held, chooses = sizes(splits["heldout"]), sizes(splits["validation"])
        suites = (("heldout", len(held), _needed(held)), ("validation", len(chooses), FEWEST_CLUSTERS))
        few = [f"{n} in {name}, which needs {least}" for name, n, least in suites if n < least]
        return splits, held, "; ".join(few) if few or splits["train"] else "none in train"

    splits, held, lacking = tried(made.fractions)
    if lacking:
        fits = (text for text in (MORE, *LARGER_SUITES) if not tried(_fractions(text))[2])
        other = f"add records that ask for other work; {_at_most(sizes(members), homes, points)}"
        fix = next((f"--fractions {text}" for text in fits), other)
        found = f"{counted(len(sizes(members)), 'clusters')}, {lacking}"
        raise DataError("suites that a test can use", found=found, where=made.root, fix=fix)
    enough = clusters_needed(held, gain=points / 100)
    if len(held) >= enough:
        return "", splits
    told = (
        f"heldout has {counted(len(held), 'clusters')}: a test needs {_needed(held)} of such sizes, and"
        f" {enough} to show that each gained {points:g} points; "
    )
    _, more, too_few = tried(_fractions(MORE))
    if len(more) > len(held) and not too_few:
        told += f"{MORE_HELD_OUT} holds out {len(more)}"
        if len(more) >= clusters_needed(more, gain=points / 100):
            return told, splits
        told += "; "
    return told + _at_most(sizes(members), homes, points), splits


def _divided_families(splits: Mapping[str, Sequence[KeptRecord]]) -> list[str]:
    """Return the families that have records in several splits, sorted."""
    found = Counter(
        family
        for members in splits.values()
        for family in {family_of(member.entry.record) for member in members} - {None}
    )
    return sorted(str(family) for family, n in found.items() if n > 1)


def _needed(sizes: Sizes) -> int:
    """Return how many clusters of such sizes any test needs."""
    return max(FEWEST_CLUSTERS, clusters_needed(sizes) if len(sizes) else 0)


def _at_most(sizes: Sizes, homes: Sequence[str], points: float) -> str:
    """Return what a split of clusters of these sizes can show at most: the two largest are for training and
    validation, and all others held out; or all, where a family is of several groups and is split itself."""
    whole = len(set(homes)) == len(sizes)
    rest = np.sort(sizes)[: max(1, len(sizes) - 2 * whole)]
    least, clusters = smallest_certain_gain(rest), counted(len(sizes), "clusters")
    if least is None:
        return f"no split of {clusters} can show anything"
    if 100 * least <= points:
        return f"a split of {clusters} shows {points:g} points only if nearly all are held out"
    return f"no split of {clusters} can show {points:g} points, {100 * least:.0f} at most"


def _fractions(text: str) -> tuple[float, float, float]:
    try:
        train, validation, heldout = (float(part) for part in text.split(","))
    except ValueError:
        train = validation = heldout = 0.0
    if not (min(train, validation, heldout) > 0 and abs(train + validation + heldout - 1) < 1e-9):
        expected = "three numbers above 0 with sum 1, for train, validation and heldout"
        raise ConfigError(expected, found=repr(text), where="--fractions", fix="--fractions 0.8,0.1,0.1")
    return train, validation, heldout


def _clear(folder: Path, keep: set[str]) -> None:
    """Remove the files of an older dataset there, as its checksums name them; anything else is left alone."""
    if not (folder / SUMS).is_file():
        return
    listed = parse_sums(read_text(folder / SUMS, fix=f"remove {folder}"), str(folder / SUMS))
    for name in sorted(set(listed) & set(listing(folder)) - keep):
        remove(folder / name)


def _preset_text(root: Path, preset: str, made: Plan) -> str:
    """Return the preset with the new data folder and without lessons and secondary suites, which only the
    shipped data have."""
    source = f"configs/task/{preset}.yaml"
    text = read_text(root / source, fix="git checkout -- configs")
    lines = ((r"^(  root: ).*$", made.root, 1), (r"^(  lessons: ).*$", "null", 0))
    for pattern, value, least in (*lines, (r"^(  secondary: ).*$", "[]", 0)):
        text, count = re.subn(pattern, rf"\g<1>{value}", text, flags=re.MULTILINE)
        if not least <= count <= 1:
            expected = "one line `  root: …`, indented by two"
            raise ConfigError(expected, found=str(count), where=source, fix="write it so")
    return text


def _items_otherwise(preset: Path, sizes: dict[str, int]) -> str:
    """Return the numbers of items of a preset that these data do not have, or have more of."""
    values = read_yaml(preset, fix=f"rm {preset.name}")
    told = []
    for suite, split in SUITES:
        items = (values.get(suite) or {}).get("items")
        if isinstance(items, int) and items != sizes[split]:
            told.append(f"its {suite}.items is {items}, {split} has {sizes[split]}")
    return "; " + ", ".join(told) if told else ""


def _preset_for_here(root: Path, made: Plan, sizes: dict[str, int], *, scratch: bool) -> list[str]:
    """Write a preset that runs here with these data, unless there is one, and return how to go on."""
    machine = this_machine()
    found, lines = find_fitting(root, machine, scratch=scratch)
    place = f"configs/grpo/{made.name}.yaml"
    if (root / place).exists():
        otherwise = _items_otherwise(root / place, sizes)
        lines.append(f"{place} is there already and was left as it is{otherwise}")
        if otherwise:
            lines.append(
                f"Fix: rm {place}, then call this again with --force, which writes it for these data"
            )
    else:
        source, text, changes = make_preset(root, machine, sizes, scratch=scratch)
        write_text(root / place, text)
        if not found:
            slow = "does on the processor, slowly, with a small model"
            lines.append(f"none runs here as it is; {source} {slow}")
        lines.append(f"wrote {place}, like {source}.yaml{' with ' + ', '.join(changes) if changes else ''}")
    base = describe_download(preset_values(root, "grpo", made.name))
    another = f"   # or another model, or a folder of yours: base.model in {place}"
    return [
        *lines,
        "next:",
        *([] if base is None else [f"  {base}{another}"]),
        f"  ./run assay config use task={made.name} grpo={made.name}",
        "  ./run repro",
    ]


def split_of_groups(sizes: Mapping[str, int], fractions: Sequence[float], seed: int) -> dict[str, str]:
    """Return the split of each prompt group: in an order by group and seed alone, cut at the shares.

    Args:
        sizes: Records by group.
        fractions: Shares of the records for train, validation and heldout; their sum is 1.
        seed: Another seed is another order.

    >>> split_of_groups({"a": 8, "b": 1, "c": 1}, (0.8, 0.1, 0.1), 0)["a"]
    'train'
    """
    total, before = sum(sizes.values()), 0
    borders = [sum(fractions[: n + 1]) for n in range(len(SPLITS) - 1)]
    found = {}
    for group in sorted(sizes, key=lambda name: (derive_seed("split", seed, name), name)):
        middle = (before + sizes[group] / 2) / total
        found[group] = SPLITS[sum(middle >= border for border in borders)]
        before += sizes[group]
    return found


def split_by_group(
    members: Sequence[KeptRecord], fractions: Sequence[float], seed: int, where: str, similarity: float
) -> dict[str, list[KeptRecord]]:
    """Return the records by split, in the order they came; near-duplicates stay together, families need not.

    Raises:
        DataError: A split would be empty.
    """
    homes = _groups(members, similarity)
    splits = _split(members, homes, fractions, seed)
    for name, chosen in splits.items():
        if not chosen:
            groups = len(set(homes))
            fix = "add records with other prompts, or choose other --fractions or another --seed"
            raise DataError(f"records for {name}", found=f"none, of {groups} prompts", where=where, fix=fix)
    return splits


def _groups(members: Sequence[KeptRecord], similarity: float, *, whole_families: bool = False) -> list[str]:
    """Return of each record the group that must not be split."""
    items = [member.item for member in members]
    return [item.cluster for item in united(items, similarity, families=whole_families)]


def _split(
    members: Sequence[KeptRecord], homes: Sequence[str], fractions: Sequence[float], seed: int
) -> dict[str, list[KeptRecord]]:
    splits: dict[str, list[KeptRecord]] = {name: [] for name in SPLITS}
    found = split_of_groups(Counter(homes), fractions, seed)
    for member, home in zip(members, homes, strict=True):
        splits[found[home]].append(member)
    return splits


def make_files(splits: Mapping[str, Sequence[KeptRecord]]) -> dict[str, bytes]:
    """Return the files of a dataset: one JSONL a split, and schema files in schemas/ with their layout."""
    closures = [member.entry.closure for members in splits.values() for member in members]
    schemas = {file.path: file.content for closure in closures if closure for file in closure.files}
    # One common folder of all, so that files of one name stay apart and $refs between them still hold.
    common = Path(os.path.commonpath([path.parent for path in schemas])) if schemas else Path()
    files = {f"schemas/{path.relative_to(common).as_posix()}": content for path, content in schemas.items()}
    for name, members in splits.items():
        lines = []
        for member in members:
            row = dict(member.entry.record)
            if member.entry.closure is not None:
                start = member.entry.closure.files[0].path
                row["schema_path"] = f"schemas/{start.relative_to(common).as_posix()}"
            lines.append(as_written(row) + "\n")
        files[f"{name}.jsonl"] = "".join(lines).encode()
    return files
