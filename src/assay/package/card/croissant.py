"""croissant.json of a package: the data described in Croissant 1.0 (MLCommons), a JSON-LD that dataset tools can load.

Source: Croissant Format Specification 1.0, MLCommons (2024): FileObject, RecordSet, Field, Split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any
from urllib.parse import quote

from assay.core.counting import counted
from assay.core.storage.files import sha256_bytes
from assay.dataset.reading import read_lines
from assay.evidence.escape import visible
from assay.package.card.datasheet import column_meanings, heading_and_lead, stated_licence
from assay.package.card.field_types import Kind, fields_of

CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
DATASHEET = "README.md"
CONTEXT: dict[str, Any] = {
    "@language": "en", "@vocab": "https://schema.org/", "citeAs": "cr:citeAs", "column": "cr:column",
    "conformsTo": "dct:conformsTo", "cr": "http://mlcommons.org/croissant/", "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"}, "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/", "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"}, "extract": "cr:extract", "field": "cr:field",
    "fileProperty": "cr:fileProperty", "fileObject": "cr:fileObject", "fileSet": "cr:fileSet", "format": "cr:format",
    "includes": "cr:includes", "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath", "key": "cr:key",
    "md5": "cr:md5", "parentField": "cr:parentField", "path": "cr:path", "recordSet": "cr:recordSet",
    "references": "cr:references", "regex": "cr:regex", "repeated": "cr:repeated", "replace": "cr:replace",
    "samplingRate": "cr:samplingRate", "sc": "https://schema.org/", "separator": "cr:separator", "source": "cr:source",
    "subField": "cr:subField", "transform": "cr:transform",
}  # fmt: skip
_FORMATS = {".jsonl": "application/jsonlines", ".json": "application/json", ".md": "text/markdown"}
_DEFINITIONS = "https://mlcommons.org/definitions/"
_SPLITS = {
    "train": f"{_DEFINITIONS}training_split", "validation": f"{_DEFINITIONS}validation_split",
    "heldout": f"{_DEFINITIONS}test_split",
}  # fmt: skip
SPLITS, FILE = "splits", "file"
MOST_NAMED = 20


def croissant(task: str, files: Mapping[str, bytes], *, folder: str) -> dict[str, Any]:
    """Return the description of a dataset as a JSON-LD value; equal files give an equal value.

    Each .jsonl at the top of the folder is a split: a RecordSet of its own with the fields that occur in it. An object
    becomes subfields, which not every record need have. Fields whose values have no one shape, and lines that are no
    records, are named or counted in the description.

    Args:
        task: What the data are called, which becomes part of the name.
        files: The content of every file of the data, by name relative to its folder.
        folder: The folder inside the package, such as data/collider.
    """
    datasheet = files.get(DATASHEET, b"").decode("utf-8", "replace")
    title, lead = heading_and_lead(datasheet)
    meanings, licence = column_meanings(datasheet), stated_licence(datasheet)
    splits = sorted(name for name in files if name.endswith(".jsonl") and "/" not in name)
    texts = [text for text in (title, lead) if text]
    if licence is None:
        texts.append("No licence is stated in a form that could be read." if datasheet else "No licence is stated.")
    texts.append("No citation, creator, address or date is stated; the digests say what data these are.")
    value: dict[str, Any] = {
        "@context": CONTEXT, "@type": "sc:Dataset", "name": visible(f"assay-{task}").replace("\n", " "),
        "conformsTo": CONFORMS_TO,
        "description": visible(" ".join(texts)), "isLiveDataset": False,
        **({} if licence is None else {"license": licence.url}),
        "distribution": [_file_object(name, content, folder) for name, content in sorted(files.items())],
    }  # fmt: skip
    if splits:
        value["recordSet"] = [_split_names(splits), *(_record_set(name, files[name], folder, meanings) for name in splits)]
    return value


def _file_object(name: str, content: bytes, folder: str) -> dict[str, Any]:
    ending = name[name.rfind(".") :] if "." in name.rsplit("/", 1)[-1] else ""
    return {
        "@type": "cr:FileObject", "@id": _file_id(folder, name), "name": visible(name), "contentUrl": f"{folder}/{name}",
        "contentSize": f"{len(content)} B", "encodingFormat": _FORMATS.get(ending, "text/plain"),
        "sha256": sha256_bytes(content),
    }  # fmt: skip


def _file_id(folder: str, name: str) -> str:
    return f"{FILE}/{quote(f'{folder}/{name}', safe='/')}"


def _set_id(split: str) -> str:
    """Return the id of a split's record set: its name, unless that is the beginning of other ids."""
    return quote(f"{split}-split" if split in (FILE, SPLITS) else split, safe="")


def _split_names(splits: Sequence[str]) -> dict[str, Any]:
    names = [name.removesuffix(".jsonl") for name in splits]
    fields = (("name", "sc:Text", "Name of the split."), ("url", "sc:URL", "What such a split is for, where that is defined."))
    return {
        "@type": "cr:RecordSet", "@id": SPLITS, "name": SPLITS, "dataType": "cr:Split", "key": {"@id": f"{SPLITS}/name"},
        "description": "The splits; each is a file and a record set.",
        "field": [
            {"@type": "cr:Field", "@id": f"{SPLITS}/{name}", "name": name, "description": said, "dataType": kind}
            for name, kind, said in fields
        ],
        "data": [{f"{SPLITS}/name": visible(name), f"{SPLITS}/url": _SPLITS.get(name)} for name in names],
    }  # fmt: skip


def _record_set(name: str, content: bytes, folder: str, meanings: Mapping[str, str]) -> dict[str, Any]:
    reading = read_lines(content.removesuffix(b"\n").split(b"\n") if content else [], where=name)
    rows = [line.row for line in reading.lines]
    fields, split = fields_of(rows), name.removesuffix(".jsonl")
    told = [f"{counted(len(rows), 'records')} of the split {split}."]
    if reading.refused:
        told.append(f"Lines of the file that are no records: {len(reading.refused)}.")
    if fields.undescribed:
        shown = ", ".join(fields.undescribed[:MOST_NAMED])
        further = f" and {len(fields.undescribed) - MOST_NAMED} more" if len(fields.undescribed) > MOST_NAMED else ""
        told.append(f"Not described, since their values have no one shape: {shown}{further}.")
    return {
        "@type": "cr:RecordSet", "@id": _set_id(split), "name": visible(split),
        "description": visible(" ".join(told)),
        "field": [
            _split_field(_file_id(folder, name), _set_id(split), {kind.path[0] for kind in fields.kinds}),
            *(_field(kind, _file_id(folder, name), _set_id(split), meanings) for kind in fields.kinds),
        ],
    }  # fmt: skip


def _split_field(file_id: str, parent: str, taken: AbstractSet[str]) -> dict[str, Any]:
    """Return the field that says which split a record is of: the name of its file; it must not be called as another is."""
    name = "split"
    while name in taken:
        name = f"_{name}"
    return {
        "@type": "cr:Field", "@id": f"{parent}/{name}", "name": name, "dataType": "sc:Text",
        "description": "The split, which is the name of the file.", "references": {"field": {"@id": f"{SPLITS}/name"}},
        "source": {
            "fileObject": {"@id": file_id}, "extract": {"fileProperty": "filename"},
            "transform": {"regex": r"^(.+?)(?:\.jsonl)?$"},
        },
    }  # fmt: skip


def _field(kind: Kind, file_id: str, parent: str, meanings: Mapping[str, str]) -> dict[str, Any]:
    place = f"{parent}/{quote(kind.path[-1], safe='')}"
    told = [f"{meanings[dotted].rstrip('.')}."] if (dotted := ".".join(kind.path)) in meanings else []
    told += [f"In {kind.present} of {kind.of}."] if kind.present < kind.of else []
    told += [f"Null in {kind.nulls}."] if kind.nulls else []
    value: dict[str, Any] = {
        "@type": "cr:Field", "@id": place, "name": visible(kind.path[-1]),
        "description": visible(" ".join(told)) if told else f"Field {visible(kind.path[-1])}.",
    }  # fmt: skip
    if kind.repeated:
        value["repeated"] = True
    if kind.subfields:
        value["subField"] = [_field(each, file_id, place, meanings) for each in kind.subfields]
        return value
    value["dataType"] = kind.data_type
    value["source"] = {"fileObject": {"@id": file_id}, "extract": {"column": kind.path[0]}}
    if len(kind.path) > 1:
        value["source"]["transform"] = {"jsonPath": ".".join(kind.path[1:])}
    return value
