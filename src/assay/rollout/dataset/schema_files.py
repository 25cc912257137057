"""Schema files of a dataset: a row names one, its file $refs lead to others, and none of them may lie
outside."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from assay.core.errors import AssayError, DataError
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import MAX_DEPTH, digest, parse_strict
from assay.core.storage.untrusted import inside, read_capped

# Under these a dict maps names to schemas, so a key called "$ref" or "enum" there is a name and not a
# keyword.
_MAPS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_DATA = frozenset({"const", "enum", "default", "examples"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
METASCHEMAS = frozenset(str(uri).rstrip("#") for uri in REGISTRY)


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """One $ref as it is written, and the URI it means, without the fragment."""

    ref: str
    target: str


@dataclass(slots=True)
class Walked:
    """All references of one document, in the order of the text, and the URIs that are found inside it."""

    base: str
    references: list[SchemaReference] = field(default_factory=list)
    identifiers: set[str] = field(default_factory=set)


def joined(base: str, ref: str) -> str:
    """Return the URI a reference means, without the fragment.

    Raises:
        ValueError: It cannot be a URI.

    >>> joined("file:///a/b.json", "../c.json#/x")
    'file:///c.json'
    """
    return urldefrag(urljoin(base, ref)).url


def walk(document: Any, uri: str, *, own_id: bool = True) -> Walked:
    """Return what a document that was found under a URI refers to.

    Args:
        document: The parsed schema file.
        uri: Where it was found.
        own_id: Whether its own $id, if it has one, takes the place of that URI.

    Raises:
        ValueError: A reference is no URI.
    """
    walked = Walked(_rebased(document, uri) if own_id else uri, identifiers={uri})
    todo: list[tuple[Any, str]] = [(document, uri)]
    while todo:
        value, base = todo.pop()
        if isinstance(value, dict):
            base = _rebased(value, base) if own_id or value is not document else base
            walked.identifiers.add(base)
            refs = [value[key] for key in _REFERENCES if isinstance(value.get(key), str)]
            walked.references += [
                SchemaReference(ref, base if ref.startswith("#") else joined(base, ref)) for ref in refs
            ]
        todo += reversed([(part, base) for part in _parts(value)])
    return walked


def _rebased(value: Any, base: str) -> str:
    own = value.get("$id") if isinstance(value, dict) else None
    # "#name" is how old drafts wrote an anchor; it moves nothing.
    return joined(base, own) if isinstance(own, str) and not own.startswith("#") else base


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        for key, part in value.items():
            if key in _MAPS and isinstance(part, dict):
                yield from part.values()
            elif key not in _DATA and isinstance(part, dict | list):
                yield part


MAX_SCHEMA_BYTES = 4_000_000
MAX_FILES = 100
MAX_URIS = 4 * MAX_FILES
MAX_TOTAL_BYTES = 500_000_000
FIX = "correct the schema_path or the $ref; schema files lie in the project or beside the tasks file"


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """One file of a closure."""

    path: Path
    name: str  # inside the closure: relative to the folder that all its files lie in
    label: str  # for people and fingerprint.json: relative to the project where it lies in it
    content: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Closure:
    """A schema file with everything its file $refs reach; the first of `files` is the schema itself."""

    files: tuple[SchemaFile, ...]
    document: dict[str, Any]
    resources: dict[str, Any]
    uri: str
    digest: str


def read_schema(path: Path) -> bytes:
    """Return the bytes of a schema file.

    Raises:
        DataError: It is missing, no regular file, or too large.
    """
    return read_capped(path, max_bytes=MAX_SCHEMA_BYTES, fix=FIX)


class MissingFolder(DataError):
    """A folder of schema files is not there; what is said of it is the same for every record that names a
    file in it."""


class SchemaFiles:
    """Closures by schema_path, each read once."""

    def __init__(
        self, tasks_folder: Path, project: Path, *, read: Callable[[Path], bytes] = read_schema
    ) -> None:
        """Look for schema files in two folders, the tasks file's own first; `read` opens what lies in
        them."""
        self._folders = tuple(Path(os.path.abspath(folder)) for folder in (tasks_folder, project))
        self._read = read
        self._closures: dict[str, Closure | DataError] = {}
        self._by_start: dict[Path, Closure] = {}
        self._bytes = 0
        self.missing: dict[
            str, tuple[Path, ...]
        ] = {}  # folders that are not there, and every place they were looked for

    def closure(self, schema_path: str) -> Closure:
        """Return the closure of a row's schema_path.

        Raises:
            DataError: The file, or one that it refers to, is missing, outside, on the network, or no strict
                JSON.
        """
        found = self._closures.get(schema_path)
        if found is None:
            try:
                # One file may be spelt in many ways; it is held once.
                start = self._start(schema_path)
                found = self._by_start.get(start) or self._load(start)
                self._by_start[start] = found
            except MissingFolder as error:
                found = error
            except AssayError as error:
                # Where the project lies is no matter of the data, and audit.json must not depend on it.
                place = error.where.replace(f"{self._folders[0]}/", "").replace(f"{self._folders[1]}/", "")
                where = f"schema_path {ascii(schema_path)[:200]}, {place}"
                found = DataError(error.expected, found=error.found, where=where, fix=error.fix)
            self._closures[schema_path] = found
        if isinstance(found, DataError):
            # A fresh one each time: a raised exception gathers the frames it passed through.
            raise DataError(found.expected, found=found.found, where=found.where, fix=found.fix)
        return found

    def label(self, path: Path) -> str:
        """Return how a file is named in records: relative to the project if it lies there."""
        project = self._folders[1]
        return path.relative_to(project).as_posix() if path.is_relative_to(project) else path.as_posix()

    def _start(self, schema_path: str) -> Path:
        if not schema_path or "\0" in schema_path or Path(schema_path).is_absolute():
            found = "an absolute path" if Path(schema_path).is_absolute() else ascii(schema_path)
            raise DataError("a relative path", found=found, where="schema_path", fix=FIX)
        folders = self._reached_by(schema_path)
        for folder in folders:
            path = inside(folder / schema_path, self._folders, where="schema_path", fix=FIX)
            if os.path.lexists(path):
                return path
        raise self._missing(schema_path, folders)

    def _missing(self, schema_path: str, folders: Sequence[Path]) -> DataError:
        """Return what is not there and where it was looked for: a whole folder, once for all files in it, or
        a file.

        The places are told without where the project lies, of which no record may depend.
        """
        parent = Path(schema_path).parent
        lacking = all(not os.path.lexists(folder / parent) for folder in folders)
        name = parent.as_posix() if lacking else schema_path
        sides = dict(zip(self._folders, ("beside the tasks file", "in the project"), strict=True))
        places = [sides[folder] for folder in dict.fromkeys(folders)]
        fix = f"copy it there; {FIX}"
        told = ascii(name)[1:-1][:200]
        expected, found = f"the {'folder' if lacking else 'file'} {told}", f"none {' and none '.join(places)}"
        if lacking:
            self.missing.setdefault(
                told, tuple(Path(os.path.normpath(folder / parent)) for folder in dict.fromkeys(folders))
            )
            return MissingFolder(expected, found=found, where="schema_path", fix=fix)
        return DataError(expected, found=found, where="schema_path", fix=fix)

    def _reached_by(self, schema_path: str) -> Sequence[Path]:
        """Return the folders from which the path stays inside; both where it stays inside from neither, to be
        refused."""
        plain = {folder: Path(os.path.normpath(folder / schema_path)) for folder in self._folders}
        stays = [
            folder for folder, path in plain.items() if any(path.is_relative_to(f) for f in self._folders)
        ]
        return stays or self._folders

    def _load(self, start: Path) -> Closure:
        paths, contents, documents = [start], [], []
        targets: dict[Path, list[Path | None]] = {}
        namers: dict[Path, str] = {}
        for path in paths:  # it grows while files are met
            if len(paths) > MAX_FILES:
                raise DataError(
                    f"at most {MAX_FILES} schema files that refer to each other",
                    found="more",
                    where=self.label(path),
                    fix="put them together with $defs",
                )
            content = self._read(inside(path, self._folders, where=namers.get(path, ""), fix=FIX))
            self._bytes += len(content)
            if self._bytes > MAX_TOTAL_BYTES:
                raise DataError(
                    f"at most {MAX_TOTAL_BYTES:,} bytes of schema files",
                    found="more",
                    where=self.label(path),
                    fix="name fewer or smaller schema files",
                )
            document = _parsed(content, self.label(path), root=path is start)
            walked = _walk(document, path.as_uri(), self.label(path))
            targets[path] = [_file_of(reference, walked, path) for reference in walked.references]
            for reference, target in zip(walked.references, targets[path], strict=True):
                if target is not None:
                    namers.setdefault(target, f"$ref {ascii(reference.ref)[:200]} of {self.label(path)}")
            contents.append(content)
            documents.append(document)
            paths += dict.fromkeys(
                target for target in targets[path] if target is not None and target not in paths
            )
        common = Path(os.path.commonpath([path.parent for path in paths]))
        names = {path: path.relative_to(common).as_posix() for path in paths}
        # Its own $id if it has one, so that its neighbours have one URI whichever way they are asked for.
        uri = walk(documents[0], f"file:///{quote(names[start])}").base
        resources = _resources(
            (uri, start), dict(zip(paths, documents, strict=True)), targets, self.label(start)
        )
        sums = [sha256_bytes(content) for content in contents]
        # In the order of reference: no path is in it, yet two files that trade their content make another
        # schema.
        graph = [
            [own, [paths.index(t) for t in targets[p] if t is not None]]
            for own, p in zip(sums, paths, strict=True)
        ]
        files = tuple(
            SchemaFile(path, names[path], self.label(path), content, own)
            for path, content, own in zip(paths, contents, sums, strict=True)
        )
        return Closure(files, documents[0], resources, uri, digest(graph))


def _parsed(content: bytes, label: str, *, root: bool) -> Any:
    try:
        document = parse_strict(content.decode("utf-8-sig"), max_chars=MAX_SCHEMA_BYTES, max_depth=MAX_DEPTH)
    except ValueError as error:
        raise DataError(
            "a schema in strict JSON", found=str(error).split("\n")[0], where=label, fix=FIX
        ) from None
    if not isinstance(document, dict) and (root or not isinstance(document, bool)):
        raise DataError(
            "a JSON Schema, which is an object", found=type(document).__name__, where=label, fix=FIX
        )
    return document


def _walk(document: Any, uri: str, label: str) -> Walked:
    try:
        return walk(document, uri)
    except ValueError as error:
        raise DataError("a $ref that is a URI", found=str(error), where=label, fix=FIX) from None


def _file_of(reference: SchemaReference, walked: Walked, path: Path) -> Path | None:
    """Return the file that a reference means, None if it means something inside the document or an absolute
    URI."""
    parts, target = urlsplit(reference.ref), urlsplit(reference.target)
    if reference.target in walked.identifiers:
        return None
    if target.scheme == "file" and (parts.scheme or reference.ref.startswith("/")):
        raise DataError(
            "a $ref relative to its file", found=ascii(reference.ref)[:200], where=path.name, fix=FIX
        )
    if parts.scheme or reference.ref.startswith("/"):
        return None
    base = urlsplit(walked.base)
    if (target.scheme, target.netloc) == (base.scheme, base.netloc) and target.path:
        # The document's own URI, even one of the network, stands for the place of its file.
        name = posixpath.relpath(unquote(target.path), posixpath.dirname(unquote(base.path)) or "/")
    else:
        name = unquote(parts.path)
    if "\0" in name:
        raise DataError(
            "a $ref that can be a file name", found=ascii(reference.ref), where=path.name, fix=FIX
        )
    return Path(os.path.normpath(path.parent / name))


def _resources(
    start: tuple[str, Path], documents: dict[Path, Any], targets: dict[Path, list[Path | None]], label: str
) -> dict[str, Any]:
    """Return every document under every URI by which a relative $ref of the closure may ask for it."""
    homes = dict([start])
    known: set[str] = set(METASCHEMAS)
    asked: dict[str, str] = {}
    todo = list(homes)
    for uri in todo:  # it grows while URIs are met
        path = homes[uri]
        # By the standard a document's own $id is its base; jsonschema keeps the URI it was asked for. Both
        # must find all.
        for own_id in (True, False):
            walked = walk(documents[path], uri, own_id=own_id)
            known |= walked.identifiers
            for reference, target in zip(walked.references, targets[path], strict=True):
                if target is None:
                    asked[reference.target] = reference.ref
                elif homes.setdefault(reference.target, target) != target:
                    found = f"two of them under {reference.target!a}"
                    raise DataError(
                        "schema files with one URI each",
                        found=found,
                        where=label,
                        fix="give each its own $id",
                    )
                elif reference.target not in todo:
                    todo.append(reference.target)
        # A network $id gives its neighbours' relative $refs other URIs than their files have; rings of them
        # must end.
        if len(todo) > MAX_URIS:
            raise DataError(
                f"at most {MAX_URIS} URIs of schema files", found="more", where=label, fix="simplify the $ids"
            )
    for uri, ref in asked.items():
        if uri not in known and uri.rstrip("#") not in known and uri not in homes:
            fix = "nothing is fetched or read elsewhere: save it beside the schema and refer to it by name"
            found = ascii(ref)[:200]
            raise DataError("a $ref to a file nearby or into the schema", found=found, where=label, fix=fix)
    return {uri: documents[path] for uri, path in homes.items()}
