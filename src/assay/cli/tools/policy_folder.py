"""The policy of a folder: where its weights lie, and how it is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.core.errors import PolicyError
from assay.core.storage.files import read_text, real
from assay.core.storage.json import loads
from assay.pipeline.project import Project
from assay.rollout.policy import model
from assay.rollout.policy.base import pretrained
from assay.rollout.policy.model import Policy, pin, require_device

ADAPTER = "adapter_config.json"


@dataclass(frozen=True, slots=True)
class PolicyPlace:
    """Where a policy's weights lie."""

    base: Path
    adapter: Path | None


def open_folder(project: Project, folder: Path) -> Policy:
    """Load the policy of a folder on the configured device, in the precision and with the template settings
    of base.

    Raises:
        ConfigError: The device is not there.
        PolicyError: The folder holds no policy, or one that cannot be read.
    """
    params, base = project.params, project.params.base
    place = find_weights(project.root, folder)
    require_device(params.device)
    pin(params.threads, deterministic=params.deterministic, device=params.device)
    return model.load(
        place.base,
        adapter=place.adapter,
        device=params.device,
        dtype=base.dtype,
        quantization=base.quantization,
        template=base.template,
    )


def find_weights(root: Path, folder: Path) -> PolicyPlace:
    """Return where the weights of a policy folder lie.

    Raises:
        PolicyError: It is no folder, holds no policy, or its adapter names a base that is not there.
    """
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing there"
        expected = "a folder with a model or an adapter"
        fix = "./run repro, which makes models/base and models/adapter; or name another folder"
        raise PolicyError(expected, found=found, where=str(folder), fix=fix)
    if (folder / ADAPTER).is_file():
        return PolicyPlace(_base_of(root, folder), folder)
    if (folder / pretrained.POINTER).is_file() or (folder / "config.json").is_file():
        return PolicyPlace(pretrained.locate(folder), None)
    expected = f"a model (config.json), a pinned base ({pretrained.POINTER}) or an adapter ({ADAPTER})"
    fix = "name the folder that holds them, such as models/base or models/adapter"
    raise PolicyError(expected, found="none of these files", where=str(folder), fix=fix)


def _base_of(root: Path, folder: Path) -> Path:
    """Return the base that an adapter names: in the project it lies in, else in this one, else of the hub."""
    where = f"{folder / ADAPTER}, base_model_name_or_path"
    fix = "put the base there, or correct the name"
    config = loads(read_text(folder / ADAPTER, fix=fix), where=str(folder / ADAPTER), fix="train again")
    name = config.get("base_model_name_or_path") if isinstance(config, dict) else None
    if not isinstance(name, str) or not name:
        raise PolicyError("the name of the base", found=repr(name), where=where, fix="train again, or add it")
    for place in (parent / name for parent in (*real(folder).parents, root)):
        if place.is_dir():
            return pretrained.locate(place)
    revision = config.get("revision")
    try:
        return pretrained.find(name, revision if isinstance(revision, str) else None).folder
    except PolicyError as error:
        found, fix = (
            f"{name!r}, which is neither a folder here nor in the hub cache",
            f"{fix}; or {error.fix}",
        )
        raise PolicyError("a base that is there", found=found, where=where, fix=fix) from None
