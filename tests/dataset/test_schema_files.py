"""A schema_path leads to a schema and all its $refs, never outside, never to the network, and to the same
digest anywhere."""

from __future__ import annotations

import builtins
import io
import json
import os
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import AssayError, DataError
from assay.core.storage import untrusted as foreign
from assay.rollout.dataset import schema_files
from assay.rollout.dataset.schema_files import Closure, SchemaFiles
from assay.rollout.tasks.schema import compile_schema, schema_key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a data folder, and beside the project a file that nobody may read."""
    (tmp_path / "project/data").mkdir(parents=True)
    (tmp_path / "secret.json").write_text('{"title": "secret"}')
    return tmp_path / "project/data"


def write(folder: Path, **files: Any) -> None:
    for name, content in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def closure(folder: Path, path: str = "a.json") -> Closure:
    return SchemaFiles(folder, folder.parent).closure(path)


def accepts(found: Closure, value: Any) -> bool:
    """Say whether the task, which only sees documents by URI, accepts a value."""
    return compile_schema(schema_key(found.document, found.resources, found.uri)).problem(value) is None


def test_a_path_is_relative_to_the_tasks_file_first_and_to_the_project_else(folder: Path) -> None:
    write(folder, a={"title": "data"})
    write(folder.parent, a={"title": "project"}, b={"title": "only there"})
    assert closure(folder).document == {"title": "data"}
    assert closure(folder, "b.json").document == {"title": "only there"}
    assert closure(folder, "../a.json").document == {"title": "project"}


def test_nested_refs_are_relative_to_the_file_that_holds_them(folder: Path) -> None:
    write(folder, x__a={"properties": {"p": {"$ref": "../y/b.json#/$defs/p"}}})
    write(
        folder,
        y__b={"$defs": {"p": {"$ref": "deep/c.json"}}},
        y__deep__c={"type": "integer", "not": {"$ref": "../d.json"}},
    )
    write(folder, y__d={"const": 3})
    found = closure(folder, "x/a.json")
    assert sorted(file.name for file in found.files) == ["x/a.json", "y/b.json", "y/d.json", "y/deep/c.json"]
    assert found.uri == "file:///x/a.json"
    assert accepts(found, {"p": 4}) and not accepts(found, {"p": 3}) and not accepts(found, {"p": "4"})


def test_files_that_refer_to_each_other_end(folder: Path) -> None:
    write(
        folder,
        a={"properties": {"next": {"$ref": "b.json"}}},
        b={"type": "object", "properties": {"a": {"$ref": "a.json"}}},
    )
    found = closure(folder)
    assert len(found.files) == 2
    assert not accepts(found, {"next": {"a": {"next": 1}}})


def test_a_ref_through_the_common_folder_by_its_name_still_resolves(folder: Path) -> None:
    write(folder, s__a={"properties": {"p": {"$ref": "../s/b.json"}}}, s__b={"type": "integer"})
    found = closure(folder, "s/a.json")
    assert not accepts(found, {"p": "x"})


@pytest.mark.parametrize(
    "own", ["https://example.com/schemas/a.json", "a.json", "other/name.json", "urn:example:a"]
)
def test_a_relative_ref_is_a_file_whatever_id_the_schema_gives_itself(folder: Path, own: str) -> None:
    write(
        folder,
        a={"$id": own, "properties": {"p": {"$ref": "b.json"}}},
        b={"$ref": "c.json"},
        c={"type": "integer"},
    )
    if own == "other/name.json":
        write(folder, other__b={"$ref": "c.json"}, other__c={"type": "integer"})
    found = closure(folder)
    assert accepts(found, {"p": 1}) and not accepts(found, {"p": "x"})


def test_what_is_embedded_needs_no_file(folder: Path) -> None:
    inner = {"$id": "https://example.com/inner.json", "$anchor": "here", "type": "integer"}
    refs = ["#/$defs/inner", "https://example.com/inner.json", "https://example.com/inner.json#here", "#top"]
    write(
        folder,
        a={"$defs": {"inner": inner, "top": {"$anchor": "top"}}, "allOf": [{"$ref": ref} for ref in refs]},
    )
    found = closure(folder)
    assert len(found.files) == 1
    assert accepts(found, 1) and not accepts(found, "x")


def test_an_id_of_another_file_of_the_closure_may_be_named_by_its_network_uri(folder: Path) -> None:
    write(
        folder,
        a={"allOf": [{"$ref": "b.json"}, {"$ref": "https://example.com/b"}]},
        b={"$id": "https://example.com/b"},
    )
    assert len(closure(folder).files) == 2


def test_the_metaschema_may_be_named_and_is_not_fetched(folder: Path) -> None:
    uri = "https://json-schema.org/draft/2020-12/schema"
    write(folder, a={"$schema": uri, "properties": {"schema": {"$ref": uri}}})
    assert not accepts(closure(folder), {"schema": {"type": 3}})


def test_texts_that_look_like_refs_in_data_or_names_are_none(folder: Path) -> None:
    no = "https://example.com/no.json"
    write(
        folder,
        a={
            "enum": [{"$ref": no}],
            "const": {"$ref": no},
            "default": {"$ref": no},
            "properties": {"$ref": {}},
        },
    )
    assert len(closure(folder).files) == 1


OUTSIDE = [
    "../../secret.json",
    "../../../../../../../../etc/passwd",
    "/etc/passwd",
    "x/../../../secret.json",
    "",
    "\0",
    ".",
    "link.json",
    "linked/secret.json",
    "pipe",
    "x/" * 3000,
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leaves_is_refused_and_nothing_outside_is_opened(
    folder: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "link.json").symlink_to(folder.parent.parent / "secret.json")
    (folder / "linked").symlink_to(folder.parent.parent)
    os.mkfifo(folder / "pipe")
    opened = spy(monkeypatch)
    with pytest.raises(DataError):
        closure(folder, path)
    assert not opened


@pytest.mark.parametrize(
    "ref",
    [
        "../../secret.json",
        "../../../../../../etc/passwd",
        "%2e%2e/%2e%2e/secret.json",
        "file:///etc/passwd",
        "/etc/passwd",
        "file:secret.json",
        "http://localhost:1/x.json",
        "https://example.com/x.json",
        "ftp://example.com/x",
        "//example.com/x",
        "gopher://x",
        "C:\\x.json",
        "http://[",
        "b%00.json",
        "link.json",
        "linked/secret.json",
        "none.json",
        "sub",
        "pipe",
        "urn:x:y",
        "data:application/json,{}",
    ],
)
def test_a_ref_that_leaves_is_refused_and_nothing_outside_is_opened(
    folder: Path, ref: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "link.json").symlink_to(folder.parent.parent / "secret.json")
    (folder / "linked").symlink_to(folder.parent.parent)
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    write(folder, a={"properties": {"p": {"$ref": ref}}})
    opened = spy(monkeypatch)
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: pytest.fail("the network was asked"))
    with pytest.raises(DataError):
        closure(folder)
    assert [path.name for path in opened] == ["a.json"]


def spy(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list that gathers every path that is opened from now on, by whatever way."""
    opened: list[Path] = []
    real_os, real_io = os.open, io.open

    def watched_os(path: Any, *rest: Any, **more: Any) -> int:
        opened.append(Path(path))
        return real_os(path, *rest, **more)

    def watched_io(path: Any, *rest: Any, **more: Any) -> Any:
        if not isinstance(path, int):
            opened.append(Path(path))
        return real_io(path, *rest, **more)

    monkeypatch.setattr(foreign.os, "open", watched_os)
    monkeypatch.setattr(builtins, "open", watched_io)
    monkeypatch.setattr(io, "open", watched_io)
    return opened


def test_a_link_that_stays_inside_is_followed(folder: Path) -> None:
    write(folder, real={"title": "real"})
    (folder / "a.json").symlink_to("real.json")
    assert closure(folder).document == {"title": "real"}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("{", "Expecting"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, "a": 1}', "duplicate"),
        ("[]", "list"),
        ("true", "bool"),
        ("[" * 5000, "nested"),
        ('"' + "x" * 5_000_000 + '"', "bytes"),
        ("", "Expecting"),
    ],
)
def test_a_schema_file_that_is_none_is_refused_with_its_name(folder: Path, content: str, word: str) -> None:
    write(folder, a={"$ref": "b.json"}, b=content) if content != "true" else write(folder, a=content)
    with pytest.raises(DataError, match=word) as caught:
        if content in ("[]",):
            write(folder, a=content)
        closure(folder)
    assert ".json" in caught.value.where


def test_a_chain_of_more_files_than_anyone_writes_is_refused(folder: Path) -> None:
    write(folder, **{f"f{n}": {"$ref": f"f{n + 1}.json"} for n in range(schema_files.MAX_FILES + 5)})
    with pytest.raises(DataError, match="at most 100"):
        closure(folder, "f0.json")


def test_a_folder_linked_to_itself_does_not_go_on_for_ever(folder: Path) -> None:
    (folder / "again").symlink_to(folder)
    write(folder, a={"$ref": "again/a.json"})
    with pytest.raises(DataError, match=r"at most|symbolic"):
        closure(folder)


def test_each_file_is_read_once_however_many_rows_name_it(folder: Path) -> None:
    write(folder, a={"$ref": "b.json"}, b={})
    reads: list[str] = []

    def read(path: Path) -> bytes:
        reads.append(path.name)
        return path.read_bytes()

    schemas = SchemaFiles(folder, folder.parent, read=read)
    assert {id(schemas.closure("./" * n + "a.json")) for n in range(100)} == {id(schemas.closure("a.json"))}
    assert reads == ["a.json", "b.json"]


def test_a_refusal_is_remembered_too_and_told_the_same(folder: Path) -> None:
    schemas = SchemaFiles(folder, folder.parent)
    told = []
    for _ in range(2):
        with pytest.raises(AssayError) as caught:
            schemas.closure("none.json")
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert str(folder) not in told[0]


def test_the_digest_does_not_know_where_the_files_lie(folder: Path) -> None:
    write(folder, s__a={"$ref": "b.json"}, s__b={"type": "integer"})
    shutil.copytree(folder / "s", folder.parent / "elsewhere/deeper")
    assert closure(folder, "s/a.json").digest == closure(folder, "elsewhere/deeper/a.json").digest


def test_the_digest_knows_every_byte_of_every_file(folder: Path) -> None:
    write(
        folder, a={"allOf": [{"$ref": "b.json"}, {"$ref": "c.json"}]}, b={"type": "integer"}, c={"minimum": 3}
    )
    before = closure(folder).digest
    write(folder, c={"minimum": 4})
    assert closure(folder).digest != before


def test_two_files_that_trade_their_content_make_another_digest(folder: Path) -> None:
    both = {"properties": {"p": {"$ref": "b.json"}, "q": {"$ref": "c.json"}}}
    write(folder, a=both, b={"type": "integer"}, c={"type": "string"})
    before = closure(folder).digest
    write(folder, b={"type": "string"}, c={"type": "integer"})
    assert closure(folder).digest != before
