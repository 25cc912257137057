"""What takes the place of a training that was done elsewhere: its adapter is looked at and taken as it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.config.places import setting
from assay.core.config.training import Brought, ExternalTraining, ServedTraining
from assay.core.console import complain, say
from assay.core.errors import DataError, PolicyError
from assay.core.evidence_files import LOGS, folder_of
from assay.core.storage.files import read_bytes, sha256_bytes, write_bytes, write_folder
from assay.core.storage.json import write_json
from assay.dataset.external import ExternalFacts
from assay.pipeline.policies import ADAPTER
from assay.pipeline.project import Project
from assay.pipeline.served import take_served
from assay.policy.base.pretrained import locate
from assay.policy.digests import adapted_digest, digest_folder, listing_digest

if TYPE_CHECKING:
    from assay.policy.base.adapter_files import AdapterFiles

FOLDER, PLAN = setting("train.folder"), "claim_plan.json"


def take(project: Project, brought: Brought) -> None:
    """Write models/adapter and train.json from what the settings name; whatever a training would tell stays
    unwritten.

    Raises:
        DataError: A file is missing, no regular one, a link that leaves the folder, or another than the settings
            say.
        PolicyError: It is no plain LoRA adapter, or one of another base.
    """
    if isinstance(brought, ServedTraining):
        take_served(project, brought)
        return
    assert isinstance(brought, ExternalTraining)
    plan = sha256_bytes(read_bytes(project.results(PLAN), fix="./run dvc repro fingerprint"))
    base = locate(project.root / "models/base")
    files = _adapter(project, brought, base)
    for folder in (folder_of("train"), f"{LOGS}/train"):
        shutil.rmtree(project.root / folder, ignore_errors=True)
    write_folder(project.root / ADAPTER, files.named(), check=lambda _: None)
    of_base = digest_folder(base)
    facts = ExternalFacts(
        kind="external",
        how=brought.how,
        sha256=brought.sha256,
        claim_plan_sha256=plan,
        base_digest=of_base,
        policy_digest=adapted_digest(of_base, project.root / ADAPTER),
    )
    write_json(project.results("train.json"), facts)
    # A log without a step: DVC wants the folder, and a package has no empty one.
    write_bytes(project.results("train_log.jsonl"), b"")
    say(f"train: took {brought.folder}, policy {facts.policy_digest[:12]}; how it was trained is not known")
    if not brought.data:
        complain("train.data names no file: whether it was trained on held-out records is not known")


def _adapter(project: Project, brought: ExternalTraining, base: Path) -> AdapterFiles:
    from transformers import AutoConfig

    from assay.policy.base.adapter_files import check_fits, read_adapter

    folder = (project.root / Path(brought.folder).expanduser()).absolute()
    if not folder.is_dir():
        fix = "correct train.folder; it is relative to the project"
        raise DataError(
            "a folder with an adapter", found="none", where=f"{FOLDER}, {brought.folder}", fix=fix
        )
    if (folder / "config.json").exists() and not (folder / "adapter_config.json").exists():
        raise PolicyError(
            "a LoRA adapter (adapter_config.json)",
            found="a whole model (config.json)",
            where=brought.folder,
            fix=(
                "bring the adapter that it was merged from; a whole model is judged by assay evaluate and assay"
                " judge, as docs/external.md says"
            ),
        )
    files = read_adapter(folder, folder)
    if (found := listing_digest(files.named())) != brought.sha256:
        fix = f"bring the files that were meant; if these are, set train.sha256: {found}"
        raise DataError(
            f"files of train.sha256 {brought.sha256[:16]}…",
            found=f"{found[:16]}…",
            where=brought.folder,
            fix=fix,
        )
    config = AutoConfig.from_pretrained(base, local_files_only=True, trust_remote_code=False)
    check_fits(_Outlined(config), files, brought.folder)
    told = files.base_name
    if Path(brought.folder).is_absolute() or (told is not None and Path(told).is_absolute()):
        complain(
            "train.folder, or the base that the adapter names, is an absolute path, and both are part of the"
            " package, which is refused where that path lies below your home. Fix: write it relative to the"
            " project"
        )
    return files


class _Outlined:
    """A base of which nothing but the configuration is known."""

    def __init__(self, config: Any) -> None:
        self.config = config
