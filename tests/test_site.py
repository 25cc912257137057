"""The site is made of docs/: every page has its place in it, and no link of a page ends outside."""

from __future__ import annotations

import importlib.util
import re
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.house import ROOT
from tests.pages import PAGES, text_of

DOCS = [page for page in PAGES if page.startswith("docs/")]
MADE = {"reference.md", "report.html"}  # while it is built


def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / ".ci/site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOKS = hooks()


def named(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    values = part.values() if isinstance(part, dict) else part
    return [name for each in values for name in named(each)]


def test_every_page_has_one_place_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = YAML(typ="safe", pure=True).load(text.split("\nnav:\n")[1])
    assert sorted(named(nav)) == sorted({page.removeprefix("docs/") for page in DOCS} | MADE)


@pytest.mark.parametrize("page", DOCS)
def test_a_link_that_leaves_the_docs_leads_to_the_repository_or_the_report(page: str) -> None:
    for found in HOOKS.LINK.finditer(text_of(page)):
        link = HOOKS.moved_link(page, found[1], "https://host/owner/name")
        inside = (ROOT / page).parent / link
        report = link.endswith("report.html") and not link.startswith("https")
        assert link.startswith("https://host/owner/name/") or report or inside.is_file(), link


def test_a_link_to_nothing_is_left_for_the_strict_build_to_refuse() -> None:
    assert HOOKS.moved_link("docs/a.md", "../nothing.md", "https://host/x") == "../nothing.md"


def test_links_on_the_site_lead_to_the_repository_it_is_built_from() -> None:
    page, config = (
        SimpleNamespace(file=SimpleNamespace(src_uri="a.md")),
        SimpleNamespace(repo_url="https://h/o/fork/"),
    )
    assert (
        HOOKS.on_page_markdown("[run](../run)", page, config, []) == "[run](https://h/o/fork/blob/main/run)"
    )


NOTEBOOKS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("notebooks/*.ipynb"))


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS, "mkdocs.yml", "action.yml"])
def test_no_page_has_a_reader_guess_where_the_repository_is(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not re.search(r"(OWNER|USER|ORG|YOUR[-_]?NAME|<\w+>)/assay\b", text), page


def test_the_reference_names_the_libraries_that_have_a_face() -> None:
    faces = re.findall(r"`assay\.(\w+)`", text_of("docs/api.md").split("## ")[0])
    assert set(HOOKS.LIBRARIES) >= set(faces)
    assert all((ROOT / f"src/assay/{name}/__init__.py").is_file() for name in HOOKS.LIBRARIES)
