"""A message names the file and line that a person edits, a setting of a wrong form is answered with the right
one, and every path of the tree that the source names is there."""

from __future__ import annotations

import ast
import re
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from assay.cli.tools.sweep.sources import PLAYING
from assay.core.config import composition
from assay.core.config.composition import Selection, compose, place_of, use
from assay.core.config.forms import form_of, shown_form
from assay.core.config.reading import parse_params
from assay.core.errors import ConfigError
from assay.pipeline.project import Project
from tests import house
from tests.calling import called
from tests.house import ROOT

SELECTIONS = (
    Selection("tiny", "structured", 0),
    Selection("pretrained", "structured", 0),
    Selection("tiny", "collider", 0),
)
# Rooms in which params.yaml is the file of a package, which has no presets.
OF_PACKAGES = ("assay/package/verification/", "assay/package/", "assay/stages/packing/")


def nodes(values: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the places of everything in nested settings, sections and leaves."""
    inner = values.items() if isinstance(values, dict) and path[-1:] != ("template",) else ()
    return [
        *([path] if path else []),
        *(found for name, part in inner for found in nodes(part, (*path, str(name)))),
    ]


def changed(values: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return the settings with another value at one place."""
    result = deepcopy(values)
    section = result
    for step in path[:-1]:
        section = section[step]
    section[path[-1]] = value
    return result


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with nothing but presets and params.yaml."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    use(tmp_path, grpo="tiny", task="structured", seed=0)
    return tmp_path


def test_no_message_sends_a_person_to_params_yaml() -> None:
    for path in house.modules():
        name = path.relative_to(house.SRC).as_posix()
        if name.startswith(OF_PACKAGES):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if id(node) in docstrings:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                # "params.yaml, name" is the place of a setting; a place and nothing else is "params.yaml" as
                # a keyword.
                assert "params.yaml, " not in node.value, f"{name}:{node.lineno}"
            if isinstance(node, ast.keyword) and node.arg == "where" and isinstance(node.value, ast.Constant):
                assert "params.yaml" not in str(node.value.value), f"{name}:{node.value.lineno}"


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda each: f"{each.grpo}-{each.task}")
def test_each_setting_is_placed_in_the_line_that_says_it(selection: Selection) -> None:
    for path in nodes(dict(compose(ROOT, selection).values)):
        found = re.fullmatch(
            r"(configs/\S+\.yaml), line (\d+), (\S+)", place_of(ROOT, ".".join(path), selection)
        )
        assert found, path
        line = (ROOT / found[1]).read_text().split("\n")[int(found[2]) - 1]
        assert re.search(rf"(^|[\s{{]){path[-1]}:", line), (path, found[0], line)
        assert found[3] == ".".join(path)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        (
            "  group_size: 8",
            "  group_size: many",
            r"configs/grpo/_defaults\.yaml, line \d+, train\.group_size",
        ),
        (
            "  smallest_effect_points: 10.0\n",
            "",
            r"configs/grpo/tiny\.yaml, line \d+, claim\.smallest_effect_points",
        ),
        ("evidence:\n  acknowledged_alarms: []\n", "", r"configs/grpo/tiny\.yaml, evidence"),
        (
            "  acknowledged_alarms: []",
            "  acknowledged_alarms: [kl]",
            r"configs/grpo/_defaults\.yaml, line \d+, evidence\.ack",
        ),
    ],
)
def test_what_is_wrong_in_a_preset_is_told_with_its_file_and_line(
    root: Path, old: str, new: str, place: str
) -> None:
    preset = root / "configs/grpo/_defaults.yaml"
    assert old in preset.read_text()
    preset.write_text(preset.read_text().replace(old, new))
    with pytest.raises(ConfigError) as caught:
        use(root, grpo=None, task=None, seed=None)
    assert re.match(place, caught.value.where), caught.value.where


def test_a_setting_of_the_task_is_placed_in_the_preset_of_the_task_and_the_seed_in_the_selection(
    root: Path,
) -> None:
    assert place_of(root, "task.weights.exact").startswith("configs/task/structured.yaml, line ")
    assert place_of(root, "seed").startswith("configs/config.yaml, line ")


def test_a_value_of_an_experiment_is_placed_on_its_command_line(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (root / "params.yaml").read_text()
    (root / "params.yaml").write_text(text.replace("group_size: 8", "group_size: 4"))
    assert place_of(root, "train.group_size").startswith("configs/grpo/_defaults.yaml")
    monkeypatch.setenv(composition.IN_EXPERIMENT, "abc")
    assert place_of(root, "train.group_size") == "-S train.group_size=… of this experiment"
    assert place_of(root, "train.epsilon_low").startswith("configs/grpo/_defaults.yaml")
    assert place_of(root, "train.steps").startswith("configs/both/tiny-structured.yaml")


def test_a_folder_with_nothing_but_params_yaml_has_its_settings_there(root: Path) -> None:
    shutil.rmtree(root / "configs")
    text = (root / "params.yaml").read_text()
    (root / "params.yaml").write_text(text.replace("  steps: 700\n", "  steps: many\n"))
    assert place_of(root, "train.steps") == "params.yaml, train.steps"
    with pytest.raises(ConfigError) as caught:
        Project.open(root)
    assert caught.value.where == "params.yaml, train.steps"


def test_the_command_line_shows_the_file_for_an_error_from_deep_below(root: Path) -> None:
    shutil.copytree(ROOT / "data/structured", root / "data/structured")
    preset = root / "configs/grpo/tiny.yaml"
    preset.write_text(preset.read_text().replace("validation: {items: 128}", "validation: {items: 6400}"))
    use(root, grpo=None, task=None, seed=None)
    done = called(root, "fingerprint")
    line = preset.read_text().split("\n").index("validation: {items: 6400}") + 1
    assert f"configs/grpo/tiny.yaml, line {line}, validation.items: expected at most 256" in done.stderr
    assert not (root / "evidence").exists()


WRONG: tuple[Any, ...] = (5, "text", [5], [{"nonsense": 1}], {"nonsense": 1}, [], None)


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda each: f"{each.grpo}-{each.task}")
def test_whatever_holds_others_is_answered_with_a_form_that_is_accepted_when_pasted(
    selection: Selection,
) -> None:
    raw, shown = dict(compose(ROOT, selection).values), 0
    for path in nodes(raw):
        if shown_form(path) is None:
            continue
        for wrong in WRONG:
            try:
                parse_params(changed(raw, path, wrong))
            except ConfigError as error:
                fix = error.fix
                found = re.search(
                    r"write it as (?:a section with ([\w, ]+), as the presets|(\w+): (.*?)(?:   \(|$))", fix
                )
                # An unknown or missing name inside a section is told by that name, which is more to the
                # point.
                if found is None or fix.startswith("add "):
                    known = wrong == {"nonsense": 1} or (wrong == [] and "aa has to be" in error.expected)
                    assert known, (path, wrong, str(error))
                    continue
                shown += 1
                if found[1] is None:
                    at = next(n for n in range(len(path), 0, -1) if path[n - 1] == found[2])
                    pasted = YAML(typ="safe", pure=True).load(found[3])
                    parse_params(changed(raw, path[:at], pasted))
    assert shown > 40


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("kl", "rule is one of non_finite, "),
        (["kl"], "[{rule: non_finite, reason: "),
        ([{"rule": "kll", "reason": "x"}], "did you mean 'kl'?"),
        ([{"rule": "kl"}], "acknowledged_alarms: [{rule: "),
        ([{"rule": "kl", "why": "x"}], "acknowledged_alarms: [{rule: "),
        ({"kl": "x"}, "[{rule: non_finite, reason: "),
    ],
)
def test_acknowledged_alarms_are_documented_by_their_refusal(written: Any, told: str) -> None:
    raw = dict(compose(ROOT, SELECTIONS[0]).values)
    with pytest.raises(ConfigError) as caught:
        parse_params(changed(raw, ("evidence", "acknowledged_alarms"), written))
    assert caught.value.where.startswith("setting evidence.acknowledged_alarms")
    assert told in caught.value.fix


def test_a_name_that_is_no_setting_has_no_form() -> None:
    assert form_of(["train", "nothing"]) is None and shown_form(["nothing"]) is None


# A tampering adds the one, where nothing is; in the other the shipped tasks lay when recipes were registered.
MADE_UP = {"src/assay/json.py", "src/assay/tasks"}
NAMED = re.compile(r"(?<![\w/.-])((?:src/assay|benchmarks|configs|docs|tests)/[\w./-]*)([{*<…]?)")


def test_every_path_of_the_tree_that_the_source_names_exists() -> None:
    missing = set()
    for path in [*house.modules(), *sorted((ROOT / "benchmarks").glob("*.py"))]:
        for name, goes_on in NAMED.findall(path.read_text(encoding="utf-8")):
            # Of what is put together by the running code, the folder is known.
            known = name.rpartition("/")[0] if goes_on else name.rstrip("./")
            if not (ROOT / known).exists():
                missing.add(known)
    assert missing == MADE_UP


def test_a_sweep_counts_the_code_of_rooms_that_the_key_of_a_training_has() -> None:
    stages = YAML(typ="safe", pure=True).load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert {f"src/assay/{name}" for name in PLAYING} <= set(stages["train"]["deps"])
