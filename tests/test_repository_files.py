"""What a host of git and editors read of this repository agrees with what the project says of itself."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from assay.core.storage.yaml import read_yaml
from tests.house import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
# What a form of the host may ask in, and what is said of each question.
KINDS, TOLD = {"textarea", "input", "dropdown"}, {"label", "description", "render", "options"}


def test_the_citation_names_the_version_and_licence_of_the_project() -> None:
    cited = read_yaml(ROOT / "CITATION.cff", fix="")
    assert (cited["version"], cited["license"]) == tuple(
        PROJECT["project"][k] for k in ("version", "license")
    )
    assert cited["cff-version"] == "1.2.0" and cited["authors"] == [{"name": "The assay authors"}]
    assert {"message", "title"} <= cited.keys()


def test_hooks_call_the_pinned_tools_and_fetch_nothing() -> None:
    pinned = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    (repository,) = read_yaml(ROOT / ".pre-commit-config.yaml", fix="")["repos"]
    assert repository["repo"] == "local" and len(repository["hooks"]) == 2
    for hook in repository["hooks"]:
        run, tool, *_ = hook["entry"].split()
        assert run == "./run" and re.search(rf"^{tool}==", pinned, re.M) and hook["language"] == "system"


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_of_an_issue_is_one_that_the_host_takes(form: Any) -> None:
    asked = read_yaml(form, fix="")
    assert {"name", "description", "body"} <= asked.keys() and asked["body"]
    ids = [each["id"] for each in asked["body"]]
    assert len(set(ids)) == len(ids)
    for each in asked["body"]:
        assert each["type"] in KINDS and each["attributes"]["label"] and each["attributes"].keys() <= TOLD


def test_an_editor_breaks_lines_where_the_tools_do() -> None:
    lengths = re.findall(r"max_line_length = (\d+)", (ROOT / ".editorconfig").read_text(encoding="utf-8"))
    assert lengths == [str(PROJECT["tool"]["ruff"]["line-length"])]


def test_the_changelog_has_releases_and_says_a_thing_once() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, *_ = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (?:unreleased|\d{4}-\d\d-\d\d)$", text, re.M)
    assert tuple(map(int, newest.split("."))) >= tuple(map(int, PROJECT["project"]["version"].split(".")))
    head, *sections = re.split(r"^### ", text.split("\n## 0.1.0")[0], flags=re.M)
    assert [each.split("\n")[0] for each in sections] == ["Added", "Changed", "Fixed", "Removed"]
    assert not re.search(r"^\* ", head, re.M), "a line stands below Added, Changed, Fixed or Removed"
    said = re.findall(r"^\* .*(?:\n  .*)*", text, re.M)
    assert sorted(said) == sorted(set(said))
