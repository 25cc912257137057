"""What a folder needs so that a model can be loaded from it, looked at before anything is (names, sizes, no
weights), and what a library says of a folder that it cannot read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, PolicyError
from assay.core.storage.files import sha256_bytes
from assay.rollout.policy.digests import describes

CONFIG, TOKENIZER_CONFIG, GENERATION_CONFIG = "config.json", "tokenizer_config.json", "generation_config.json"
# One of these is the tokenizer itself.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
# In the order in which transformers looks for them; an index names the files that the weights are spread
# over.
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
LARGE = ("tokenizer.json", "vocab.json")  # words, and no settings
NAMED = 4  # missing files that a message names
# Settings whose auto_map names what their makers have brought into transformers since, by the sha256 of the
# file: of Phi-4-mini-instruct, whose page says so of transformers 4.49.
BROUGHT_IN = {"ac65d86061d3d0d704ee2511fd0eb8713ef19eb6eedba17c3080a4165d5b933b"}


def faults(folder: Path) -> list[str]:
    """Return what is missing or broken in a model folder, a few words each; nothing if all is there.

    Of a file of weights the header is read, which says how long the file must be.
    """
    found = [] if any((folder / name).is_file() for name in TOKENIZERS) else ["no tokenizer.json"]
    for name in (CONFIG, TOKENIZER_CONFIG):
        if not (folder / name).is_file():
            found.append(f"no {name}")
        elif not isinstance(_json(folder / name), dict):
            found.append(f"{name} is not JSON")
    for name in (
        GENERATION_CONFIG,
        "tokenizer.json",
    ):  # transformers ignores a broken one of the first: its ends are lost
        if (folder / name).is_file() and not isinstance(_json(folder / name), dict):
            found.append(f"{name} is not JSON")
    # transformers would load that file, which is none of those looked at here, and may be in no digest
    if isinstance(config := _json(folder / CONFIG), dict) and config.get("transformers_weights"):
        found.append(f"{CONFIG} names weights of its own (transformers_weights)")
    present = next((name for name in WEIGHTS if (folder / name).is_file()), None)
    if present is None:
        return [*found, "no weights"]
    names = {present}
    if present.endswith(".index.json"):
        index = _json(folder / present)
        listed = index.get("weight_map") if isinstance(index, dict) else None
        if (
            not isinstance(listed, dict)
            or not listed
            or not all(isinstance(name, str) for name in listed.values())
        ):
            return [*found, f"{present} names no files of weights"]
        names = set(listed.values())
        # What no digest of the folder covers could be another thing tomorrow
        if odd := sorted(name for name in names if "/" in name or describes(Path(name))):
            return [*found, f"{present} names {odd[0]}, which is none of the model's files"]
    missing = sorted(name for name in names if not (folder / name).is_file())
    found += [f"no {name}" for name in missing[:NAMED]]
    if len(missing) > NAMED:
        found.append(f"nor {len(missing) - NAMED} further files of weights of {len(names)}")
    return found + [
        f"{name} is cut short or damaged"
        for name in sorted(names - set(missing))
        if not _whole(folder / name)
    ]


def refuse_odd_files(folder: Path) -> None:
    """Refuse a folder in which something is neither a file nor a folder: who opens a pipe or a device waits
    for ever.

    Raises:
        PolicyError: There is such a thing, or a link that leads nowhere; names it.
    """
    for path in sorted(folder.iterdir()):
        if not (path.is_file() or path.is_dir()):
            found = f"{path.name}, a link to nothing, a pipe or a device"
            raise PolicyError(
                "files", found=found, where=folder.name, fix="put the file itself there, or remove it"
            )


def own_code(folder: Path) -> str | None:
    """Return which settings file says that the model brings code of its own (auto_map, at any depth), or
    None.

    Such code is never run here. What transformers would do instead, if it does not refuse, is another model
    under that name.
    """
    for path in sorted(folder.glob("*.json")):
        settings = path.name not in LARGE and not path.name.endswith(".index.json")
        if settings and maps_code(_json(path)) and sha256_bytes(path.read_bytes()) not in BROUGHT_IN:
            return path.name
    return None


def maps_code(settings: Any) -> bool:
    """Return whether settings name code of their own, at any depth.

    >>> maps_code({"text_config": {"auto_map": {"AutoModel": "modeling_x.X"}}}), maps_code({"auto_map": None})
    (True, False)
    """
    todo = [settings]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if value.get("auto_map"):
                return True
            todo += value.values()
        elif isinstance(value, list):
            todo += value
    return False


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _whole(path: Path) -> bool:
    if path.suffix != ".safetensors":
        return path.stat().st_size > 0
    from safetensors import (
        SafetensorError,
        safe_open,
    )  # late: who checks a package asks for a model's name and has no models

    try:
        with safe_open(path, framework="np"):
            return True
    except (SafetensorError, OSError):
        return False


_SHOWN = 160  # characters of what a library says


@contextmanager
def refuse_unreadable(expected: str, *, where: str, fix: str) -> Iterator[None]:
    """Turn whatever a library raises in the block into a PolicyError; our own errors and signals go through
    as they are.

    Loaders of model folders raise what they trip over: a field of another type ends as TypeError, KeyError,
    AttributeError, RecursionError, errors of dataclasses and tensors of their own, or as a panic of Rust,
    which is no Exception. No list of them stays complete, so here, where all that runs is another's code on
    another's files, everything is caught.

    Raises:
        PolicyError: The block failed; says what the library said.
    """
    try:
        yield
    except AssayError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise PolicyError(expected, found=said(error), where=where, fix=fix) from error


def said(error: BaseException) -> str:
    """Return what a library says, in one line; its kind of error too where the text alone would say little.

    >>> said(KeyError("layers")), said(ValueError("no such file"))
    ("KeyError: 'layers'", 'no such file')
    """
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    # A heading says nothing without what stands below it
    first = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])[:_SHOWN]
    if isinstance(error, OSError | ValueError) and first:
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
