"""Each extra of pyproject.toml has a file in requirements/ from which pip takes nothing without a sha256."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from tests.house import ROOT
from tests.tools.test_light_install import light

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# requirements.txt is the file of `train`; what assay depends on without it has judge.txt.
EXTRAS = {
    **{name: asked for name, asked in PROJECT["optional-dependencies"].items() if name != "train"},
    "judge": PROJECT["dependencies"],
}
PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)(?: ; ([^\\]+))?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)")
OTHERWISE = {"trackio": {"pillow"}}  # what an extra wants another version of than is pinned
CONSTRAINTS = (ROOT / "constraints.txt").read_text()


def same(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


PINS = {same(name): version for name, version in re.findall(r"(?m)^([A-Za-z0-9._-]+)==(\S+)$", CONSTRAINTS)}


def pins_of(extra: str) -> dict[str, str]:
    """Return the versions of a file of requirements, every line of which has to be a pin with hashes."""
    text = (ROOT / f"requirements/{extra}.txt").read_text()
    body = text.split("\n", 2)[2].rstrip("\n")
    found = list(PIN.finditer(body))
    assert "\n".join(each[0] for each in found) == body
    assert all(each[3] is None or Marker(each[3]) for each in found)
    return {same(each[1]): each[2] for each in found}


def test_every_extra_has_its_file_and_no_file_is_of_another() -> None:
    assert {path.stem for path in (ROOT / "requirements").iterdir()} == {*EXTRAS, "build", "site"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_an_extra_asks_for_stands_there_or_in_the_constraints_and_nothing_twice(extra: str) -> None:
    pins = pins_of(extra)
    for asked in map(Requirement, EXTRAS[extra]):
        version = pins.get(same(asked.name), PINS.get(same(asked.name)))
        assert version and asked.specifier.contains(version), asked
    again = {name for name, version in pins.items() if PINS.get(name, version) != version}
    assert again == OTHERWISE.get(extra, set())
    assert extra == "judge" or not {name for name in pins if name in PINS} - again


def test_what_is_installed_here_is_what_assay_depends_on_with_the_extra_train() -> None:
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["train"]]
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    here = {same(Requirement(line).name): line for line in lines if line and line[0] not in "#-"}
    of_notebooks = {"nbclient", "nbformat", "ipykernel"}
    assert here.keys() - {same(Requirement(each).name) for each in asked} == of_notebooks
    for each in map(Requirement, asked):
        assert same(each.name) in PINS and each.specifier.contains(PINS[same(each.name)]), each


def test_the_environment_that_judges_holds_all_that_it_needs_and_what_builds_it() -> None:
    assert {same(name) for name in light()} <= set(pins_of("judge"))
    assert pins_of("build") == {"setuptools": PINS["setuptools"]}
    below = {same(part.split("==")[0]): part for part in re.split(r"\n(?=[A-Za-z0-9])", CONSTRAINTS)}
    text = (ROOT / "requirements/judge.txt").read_text()
    for part in re.split(r"\n(?=[A-Za-z0-9])", text)[1:]:
        name = same(part.split("==")[0])
        assert set(re.findall("[0-9a-f]{64}", part)) == set(re.findall("[0-9a-f]{64}", below[name])), name
