"""The selection in configs/ and the params.yaml composed from it, kept the same by `assay config`."""

from __future__ import annotations

import difflib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.config.config_errors import quoted
from assay.core.config.interpolation import refuse_in_files
from assay.core.config.places import located
from assay.core.config.reading import parse_params
from assay.core.config.settings import Params
from assay.core.errors import ConfigError
from assay.core.storage.files import read_bytes, read_text, write_text
from assay.core.storage.json import dumps
from assay.core.storage.yaml import line_of, read_yaml, refuse_foreign

CONFIG = "configs/config.yaml"
PARAMS = "params.yaml"
GROUPS = ("grpo", "task")
RESTORE = "git checkout -- configs"
# DVC sets it for every stage of `dvc exp run`, whose point is to differ from configs/.
IN_EXPERIMENT = "DVC_EXP_BASELINE_REV"


@dataclass(frozen=True, slots=True)
class Selection:
    """What configs/config.yaml selects."""

    grpo: str
    task: str
    seed: int

    def overrides(self) -> list[str]:
        """Return the selection as `assay config use` and `dvc exp run -S` take it."""
        return [f"grpo={self.grpo}", f"task={self.task}", f"seed={self.seed}"]

    @property
    def presets(self) -> str:
        """Both presets in a line, as messages name them."""
        return f"task={self.task} grpo={self.grpo}"


@dataclass(frozen=True, slots=True)
class Composition:
    """The settings of a selection: as values, and as the text of params.yaml."""

    values: Mapping[str, Any]
    text: str


def use(root: Path, *, grpo: str | None, task: str | None, seed: int | None) -> list[str]:
    """Select a preset, a task or a seed (None keeps it), write params.yaml, and return what changed, a line
    each.

    Both files are written only once the composed settings are known to be valid.

    Raises:
        ConfigError: No such preset, a preset is broken, or the composed settings are wrong.
    """
    before = selected(root)
    after = Selection(
        grpo=before.grpo if grpo is None else grpo,
        task=before.task if task is None else task,
        seed=before.seed if seed is None else seed,
    )
    composed = compose(root, after)
    parse_selected(root, after, composed.values)
    changes = [f"{CONFIG}: {old} -> {new}" for old, new in _paired(before, after) if old != new]
    if changes:
        write_text(root / CONFIG, _rewritten(read_text(root / CONFIG, fix=RESTORE), after))
    target = root / PARAMS
    if not target.is_file() or read_bytes(target, fix=f"rm {PARAMS}") != composed.text.encode():
        write_text(target, composed.text)
        changes.append(f"{PARAMS}: written from configs/")
    return changes


def check(root: Path) -> None:
    """Make sure that params.yaml says what configs/ says; comments and the order of keys are free.

    Raises:
        ConfigError: They differ; names the first setting, both values, and how to make them agree.
    """
    now = selected(root)
    expected = compose(root, now).values
    found = read_yaml(root / PARAMS, fix="./run assay config use")
    key = _first_difference(expected, found)
    if key is not None:
        raise ConfigError(
            f"{key}: {_shown(expected, key)}, as configs/ has it",
            found=f"{key}: {_shown(found, key)}",
            where=PARAMS,
            fix=f"./run assay config use   (goes back to configs/)\n  or {_keep(root, now, found, key)}",
        )


def check_overrides(root: Path, given: Sequence[str]) -> None:
    """Refuse what `dvc exp run -S` is given, before DVC fails on it in words of its own, or a stage minutes
    later; of a sweep each value is looked at, one over presets by its names alone.

    Args:
        root: The project.
        given: NAME=VALUE, as behind -S.

    Raises:
        ConfigError: There is no such setting, or it cannot have that value.
    """
    plain = [each for each in given if _PLAIN.match(each)]  # what is added, removed or of a file is DVC's
    now, swept = selected(root), {each: found for each in plain if (found := _swept(each))}
    single = [each for each in plain if each not in swept]
    groups = [each for each in plain if each.partition("=")[0] in GROUPS]
    for group, _, name in (each.partition("=") for each in groups if each in single):
        _refuse_unknown(root, group, name)
    if not set(groups) <= set(single):  # a sweep over presets, which differ in what they name
        return
    known = [name for name, _ in leaves(compose(root, now, groups).values)]
    sections = {name[:end] for name in known for end, sign in enumerate(name) if sign == "."}
    for each in plain:
        name = each.partition("=")[0]
        if name not in known and name not in sections and name not in GROUPS:
            near = difflib.get_close_matches(name, known, n=1)
            fix = f"-S {near[0]}=…" if near else f"take a name of {PARAMS}"
            if _is_accepted(root, now, [*groups, f"+{each}"]):
                fix = f"-S '+{each}'   (the presets leave it as by default)"
            raise ConfigError("a setting that there is", found=repr(name), where="-S", fix=fix)
    for value in itertools.islice(itertools.chain([None], *swept.values()), MOST_SWEPT):
        together = [*single, *([] if value is None else [value])]
        try:
            parse_params(compose(root, now, together).values)
        except ConfigError as error:
            expected = f"{error.expected} for {error.where.removeprefix('setting ')}"
            where = f"-S {' '.join(together)}"
            raise ConfigError(expected, found=error.found, where=where, fix="another value of -S") from None


def _swept(override: str) -> list[str]:
    """Return the overrides that one with several values stands for; nothing for one with a single value."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(override)
    except HydraException:
        fix = "close its brackets and quotes"
        raise ConfigError("a value that can be read", found=repr(override), where="-S", fix=fix) from None
    if not parsed.is_sweep_override() or not parsed.is_discrete_sweep():
        return []
    return [f"{parsed.key_or_group}={value}" for value in parsed.sweep_string_iterator()]


def _is_accepted(root: Path, selection: Selection, overrides: Sequence[str]) -> bool:
    try:
        parse_params(compose(root, selection, overrides).values)
    except ConfigError:
        return False
    return True


_PLAIN, MOST_SWEPT = re.compile(r"[\w.]+="), 32


def check_unless_experiment(root: Path) -> None:
    """Do what `check` does, except under `dvc exp run`, which changes settings on purpose."""
    if not os.environ.get(IN_EXPERIMENT):
        check(root)


def selected(root: Path) -> Selection:
    """Return what configs/config.yaml selects.

    Raises:
        ConfigError: The file is unreadable, or a selection is missing from it.
    """
    raw = read_yaml(root / CONFIG, fix=RESTORE)
    defaults = raw.get("defaults")
    chosen: dict[str, Any] = {}
    for entry in defaults if isinstance(defaults, list) else []:
        chosen |= entry if isinstance(entry, dict) else {}
    for group in GROUPS:
        if not isinstance(chosen.get(group), str):
            raise ConfigError(
                f"a line `- {group}: <preset>` in the defaults list",
                found=repr(chosen[group]) if group in chosen else "none",
                where=CONFIG,
                fix=f"add it; known: {', '.join(presets(root, group))}",
            )
    seed = raw.get("seed")
    if type(seed) is not int:
        raise ConfigError("an integer", found=repr(seed), where=f"{CONFIG}, seed", fix="add a line `seed: 0`")
    return Selection(chosen["grpo"], chosen["task"], seed)


def presets(root: Path, group: str) -> list[str]:
    """Return the names that can be selected in a group, sorted: one with _ in front is only started from."""
    return sorted(path.stem for path in (root / "configs" / group).glob("[!_]*.yaml"))


def files_of(root: Path, group: str, name: str) -> list[str]:
    """Return the files that make a preset: where its `defaults` name another that it starts from, that one's
    first.

    Raises:
        ConfigError: One of them cannot be read, or starts from no preset, or from one that starts from it.
    """
    chain: list[str] = []
    start: str | None = name
    while start is not None:
        chain.append(start)
        file = f"configs/{group}/{start}.yaml"
        start = _start_of(read_yaml(root / file, fix=f"correct it, or {RESTORE}"), where=file)
        if start is not None and (start in chain or not (root / f"configs/{group}/{start}.yaml").is_file()):
            found = f"{quoted(start)}, which starts from it" if start in chain else quoted(start)
            known = [each for each in presets(root, group) if each not in chain]
            expected = f"another preset to start from ({', '.join(known)})"
            raise ConfigError(expected, found=found, where=f"{file}, defaults", fix="correct the name")
    return [f"configs/{group}/{each}.yaml" for each in reversed(chain)]


def _start_of(values: Mapping[str, Any], *, where: str) -> str | None:
    """Return the preset that a preset starts from: before its own values, as Hydra composes them, and one."""
    if "defaults" not in values:
        return None
    match values["defaults"]:
        case [str(name), "_self_"]:
            return name
        case other:
            found, fix = quoted(other), "write it so, with the name of one preset"
            raise ConfigError("[NAME, _self_]", found=found, where=f"{where}, defaults", fix=fix)


def preset_values(root: Path, group: str, name: str) -> dict[str, Any]:
    """Return what a preset sets, with what it starts from.

    Raises:
        ConfigError: It cannot be read.
    """
    from omegaconf import OmegaConf

    parts = [read_yaml(root / file, fix=RESTORE) for file in files_of(root, group, name)]
    merged: Any = OmegaConf.to_container(OmegaConf.merge(*parts))
    return {str(key): value for key, value in merged.items() if key != "defaults"}


def compose(root: Path, selection: Selection, further: Sequence[str] = ()) -> Composition:
    """Return the settings of a selection, composed as `dvc exp run` does it and with the bytes it would
    write; `further` settings and presets stand for its own.

    Raises:
        ConfigError: A preset is unknown or broken, or one of them has an interpolation.
    """
    refuse_in_files(root / "configs")
    for group, name in zip(GROUPS, (selection.grpo, selection.task), strict=True):
        _refuse_unknown(root, group, name)
        # Hydra would fail on a broken file too, but without the line; and without this one it nests the
        # settings.
        for file in files_of(root, group, name):
            if "# @package _global_" not in (text := read_text(root / file, fix=RESTORE)).split("\n")[:1]:
                expected, found = "# @package _global_", quoted(text.partition("\n")[0])
                raise ConfigError(expected, found=found, where=f"{file}, line 1", fix="put it there")
    import hydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    names = {each.partition("=")[0] for each in further}
    own = [each for each in selection.overrides() if each.partition("=")[0] not in names]
    overrides = [*own, *further]
    try:
        with hydra.initialize_config_dir(str((root / "configs").resolve()), version_base=None):
            composed = hydra.compose(config_name="config", overrides=overrides)
        OmegaConf.resolve(composed)
        values = OmegaConf.to_container(composed, throw_on_missing=True)
        text = OmegaConf.to_yaml(composed)
    except (HydraException, OmegaConfBaseException) as error:
        found = next((line for line in str(error).split("\n") if line.strip()), type(error).__name__)
        raise ConfigError("settings that compose", found=found, where="configs/", fix=RESTORE) from None
    if not isinstance(values, dict):
        raise ConfigError("a mapping of settings", found=type(values).__name__, where="configs/", fix=RESTORE)
    refuse_foreign(values, where="configs/", fix=RESTORE)
    return Composition({str(key): value for key, value in values.items()}, text)


def parse_selected(root: Path, selection: Selection, values: Mapping[str, Any]) -> Params:
    """Return the settings composed of a selection.

    Raises:
        ConfigError: They are wrong; names the preset that says so, and its line.
    """
    try:
        return parse_params(values)
    except ConfigError as error:
        where = located(error.where, lambda name: place_of(root, name, selection))
        raise ConfigError(error.expected, found=error.found, where=where, fix=error.fix) from None


def place_of(root: Path, name: str, selection: Selection | None = None) -> str:
    """Return where a person edits a setting: the preset that holds it, with its line; params.yaml where
    nothing composes it.

    Under `dvc exp run -S` a value may come from its command line instead, and that is said then.

    Args:
        root: The project, or a folder with nothing but params.yaml, such as an unpacked package.
        name: The setting, dotted.
        selection: The presets; None: those that configs/config.yaml selects.
    """
    if not (root / CONFIG).is_file():
        return f"{PARAMS}, {name}"
    steps = name.split(".")
    try:
        now = selected(root) if selection is None else selection
        if selection is None and os.environ.get(IN_EXPERIMENT) and _overridden(root, now, steps):
            return f"-S {name}=… of this experiment"
        files = _files(root, now)
        # As Hydra composes: what comes later overrides what comes before, and config.yaml itself is last.
        found = [(*line_of(root / file, steps, fix=RESTORE), file) for file in (*files, CONFIG)]
    except (
        ConfigError
    ):  # a preset that cannot be read is told by who composes; here another error is being told
        return f"configs/, {name}"
    depth = max(each[0] for each in found)
    if depth == 0:
        own = [f"configs/{group}/{getattr(now, group)}.yaml" for group in GROUPS]
        return f"{_home_of(root, steps[0], own)}, {name}"
    _, line, file = [each for each in found if each[0] == depth][-1]
    return f"{file}, line {line}, {name}"


def origins(root: Path, name: str) -> list[tuple[str, Any]]:
    """Return every file that sets what is asked for, with its line, and the value there; the last one counts.

    Args:
        root: The project.
        name: A setting, dotted.

    Raises:
        ConfigError: There is no such setting, or it is a section.
    """
    now = selected(root)
    known = dict(leaves(compose(root, now).values))
    if name not in known:
        inside = [each for each in known if each.startswith(f"{name}.")]
        near = inside[:3] or difflib.get_close_matches(name, known, n=3) or list(known)[:3]
        raise ConfigError("a setting", found=repr(name), where="--why", fix=f"one of {', '.join(near)}")
    steps, found = name.split("."), []
    for file in (*_files(root, now), CONFIG):
        values = dict(leaves(read_yaml(root / file, fix=RESTORE)))
        if name in values:
            found.append((f"{file}, line {line_of(root / file, steps, fix=RESTORE)[1]}", values[name]))
    return found


def shown(root: Path) -> list[tuple[str, str]]:
    """Return every setting of the selection, dotted, with its value as JSON."""
    return [(name, dumps(value)) for name, value in leaves(compose(root, selected(root)).values)]


def _files(root: Path, now: Selection) -> list[str]:
    """Return the files that a selection composes, in order: of each group one, after those it starts from,
    and what the preset sets otherwise for this very task, if there is such a file."""
    both = f"configs/both/{now.grpo}-{now.task}.yaml"
    files = [file for group in GROUPS for file in files_of(root, group, getattr(now, group))]
    return [*files, both] if (root / both).is_file() else files


def _overridden(root: Path, now: Selection, steps: Sequence[str]) -> bool:
    theirs: Any = read_yaml(root / PARAMS, fix=RESTORE)
    ours: Any = compose(root, now).values
    for step in steps:
        theirs, ours = (each.get(step) if isinstance(each, Mapping) else None for each in (theirs, ours))
    return repr(theirs) != repr(ours)


def _home_of(root: Path, section: str, files: Sequence[str]) -> str:
    """Return the file in which a section belongs that none of the selected ones has: the preset of the task
    where other tasks have it, else the other preset."""
    grpo, task = files
    own = (read_yaml(root / f"configs/task/{name}.yaml", fix=RESTORE) for name in presets(root, "task"))
    if section in read_yaml(root / CONFIG, fix=RESTORE):
        return CONFIG
    return task if any(section in each for each in own) else grpo


def _refuse_unknown(root: Path, group: str, name: str) -> None:
    known = presets(root, group)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        found, where = repr(name), f"configs/{group}"
        hint = (
            f"did you mean {group}={near[0]}?"
            if near
            else f"choose one of them, or write configs/{group}/{name}.yaml"
        )
        if name == getattr(selected(root), group):
            found = f"{found}, which {CONFIG} selects"
            hint = f"./run assay config use {group}=PRESET   (one of those that are there)"
        raise ConfigError(
            f"a preset ({', '.join(known) or 'none there'})", found=found, where=where, fix=hint
        )


def _rewritten(text: str, selection: Selection) -> str:
    lines = {
        r"^([ \t]*-[ \t]*grpo[ \t]*:[ \t]*)[^\s#]+": selection.grpo,
        r"^([ \t]*-[ \t]*task[ \t]*:[ \t]*)[^\s#]+": selection.task,
        r"^(seed[ \t]*:[ \t]*)[^\s#]+": str(selection.seed),
    }
    for pattern, value in lines.items():
        text, count = re.subn(pattern, rf"\g<1>{value}", text, flags=re.MULTILINE)
        if count != 1:
            found = f"{count} lines for {value!r}"
            expected = "one line each: `- grpo: ...`, `- task: ...`, `seed: ...`"
            raise ConfigError(expected, found=found, where=CONFIG, fix=f"write them so, or {RESTORE}")
    return text


def _paired(before: Selection, after: Selection) -> Iterator[tuple[str, str]]:
    return zip(before.overrides(), after.overrides(), strict=True)


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys and values; an empty section counts as a value, so that it is not overlooked.

    >>> list(leaves({"train": {"lora": {"r": 8}}, "extra": {}}))
    [('train.lora.r', 8), ('extra', {})]
    """
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _first_difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """Return the first dotted key whose value differs, in the order of `expected`, then of `found`.

    1, 1.0 and True are equal in Python and three different settings in YAML: the type counts.

    >>> _first_difference({"train": {"steps": 1}}, {"train": {"steps": 1.0}})
    'train.steps'
    >>> _first_difference({"seed": 1}, {"seed": 1}) is None
    True
    """
    ours, theirs = dict(leaves(expected)), dict(leaves(found))
    for key in ours | theirs:
        if key not in ours or key not in theirs or repr(ours[key]) != repr(theirs[key]):
            return key
    return None


def _shown(values: Mapping[str, Any], key: str) -> str:
    found = dict(leaves(values))
    return dumps(found[key]) if key in found else "nothing"


def _merged(below: Any, above: Any) -> Any:
    """Return the values below with those above in their place."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {**below, **{name: _merged(below.get(name), value) for name, value in above.items()}}


def _keep(root: Path, now: Selection, found: Mapping[str, Any], key: str) -> str:
    """Return how to keep what params.yaml says: by a selection that gives it, else by the file that holds the
    key."""
    seed = found.get("seed")
    if type(seed) is int:
        # The present preset first: usually only the seed is another.
        grpos = sorted(presets(root, "grpo"), key=lambda name: name != now.grpo)
        tasks = sorted(presets(root, "task"), key=lambda name: name != now.task)
        for grpo, task in itertools.product(grpos, tasks):
            candidate = Selection(grpo, task, seed)
            try:
                merged: Any = {}
                for file in (*_files(root, candidate), CONFIG):
                    merged = _merged(merged, read_yaml(root / file, fix=RESTORE))
                told = {**merged, "seed": seed}
                # Hydra takes a tenth of a second for each: it is asked of the one that looks right.
                likely = all(told.get(name) == value for name, value in found.items())
                same = likely and _first_difference(compose(root, candidate).values, found) is None
            except ConfigError:
                continue
            if same:
                changed = [new for old, new in _paired(now, candidate) if old != new]
                return f"./run assay config use {' '.join(changed)}   (keeps it)"
    place = CONFIG
    for path in _files(root, now):
        if key in dict(leaves(read_yaml(root / path, fix=RESTORE))):
            # What all presets start from is no place for what one of them sets otherwise.
            place = f"configs/grpo/{now.grpo}.yaml" if "/_" in path else path
    if key == "seed":
        return f"./run assay config use seed={seed}   (keeps the seed; the rest differs too)"
    return f"set {key} in {place}, then ./run assay config use   (keeps it)"
