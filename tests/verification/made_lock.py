"""dvc.lock of a made run, as DVC would have written it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from assay.core.storage.yaml import read_yaml
from assay.pipeline.dvc_lock import folder_md5, md5
from assay.pipeline.project import Project


def lock(project: Project) -> None:
    """Write the dvc.lock that DVC would write of a run as it stands."""
    root, values = project.root, read_yaml(project.root / "params.yaml", fix="")
    stages: dict[str, Any] = {}
    for name, declared in read_yaml(root / "dvc.yaml", fix="")["stages"].items():
        if name == "package":
            stages[name] = {"cmd": declared["cmd"]}
            continue
        found: dict[str, Any] = {"cmd": _filled(declared["cmd"], values)}
        for kind, parts in (("deps", ("deps",)), ("outs", ("outs", "metrics", "plots"))):
            paths = sorted(_filled(each, values) for part in parts for each in _names(declared.get(part)))
            found[kind] = [_entry(root, path) for path in paths if (root / path).exists() or kind == "outs"]
        told = {each: _at(values, each) for each in _names(declared.get("params"))}
        if told:
            found["params"] = {"params.yaml": told}
        stages[name] = found
    (root / "dvc.lock").write_text(
        OmegaConf.to_yaml(OmegaConf.create({"schema": "2.0", "stages": stages})), encoding="utf-8"
    )


def _names(listed: Any) -> list[str]:
    """Return the paths or parameters that a section of dvc.yaml lists, with or without options behind
    them."""
    return [name for each in listed or [] for name in ([each] if isinstance(each, str) else list(each))]


def _filled(text: str, values: Any) -> str:
    return re.sub(r"\$\{([\w.]+)\}", lambda found: str(_at(values, found[1])), text)


def _at(values: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        values = values[name]
    return values


def _entry(root: Path, path: str) -> dict[str, Any]:
    if (root / path).is_file():
        content = (root / path).read_bytes()
        return {"path": path, "hash": "md5", "md5": md5(content), "size": len(content)}
    files = [each for each in (root / path).rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    found, size = folder_md5({each.relative_to(root / path).as_posix(): each for each in files})
    return {"path": path, "hash": "md5", "md5": found, "size": size, "nfiles": len(files)}
