"""`assay publish wandb`: a package that passes its checks, as an artifact of a Weights & Biases project."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from assay.core.console import progress, say
from assay.core.errors import PackageError
from assay.core.provenance import WANDB_QUIET
from assay.core.storage.files import write_text
from assay.core.storage.json import read_record
from assay.package.publish.push import CLAIM, open_checked
from assay.stages.packing import verify as plain
from assay.stages.packing.layout import NAME, SUMS
from assay.verdict.evidence.claim.claim import Claim

INSTALL = (
    "./run python -m pip install --require-hashes --no-deps --no-build-isolation -r requirements/wandb.txt"
)
AGAIN = "see to it, then call the same command again"
WAIT_S = 3600  # for the upload to arrive; the library's own wait has no end


def run(package: Path) -> None:
    """Check a package, search it for secrets, and log the tar and its sha256 as one artifact.

    WANDB_PROJECT names the project; without it nothing is sent. All else is read by the library.

    Raises:
        PackageError: WANDB_PROJECT is unset, the extra is not installed, a check fails, there is a secret, or
            W&B refuses, fails, or does not list the files as they are here.
    """
    project = os.environ.get("WANDB_PROJECT", "").strip()
    if not project:
        fix = "WANDB_PROJECT=name ./run assay publish wandb, with the name of the W&B project it is to go to"
        expected, found = "the name of a W&B project", "none, so nothing is uploaded"
        raise PackageError(expected, found=found, where="WANDB_PROJECT", fix=fix)
    if not package.is_file() or package.suffix != ".tar":
        raise PackageError("a .tar", found="none", where=str(package), fix="--package dist/assay-package.tar")
    wandb = import_wandb()
    with open_checked(package) as checked, tempfile.TemporaryDirectory(prefix="assay-wandb-") as scratch:
        tar = Path(scratch, f"{NAME}.tar")
        shutil.copyfile(package, tar)
        if not plain.check(tar, sha256=checked.identity).ok:
            fix = "leave the archive alone meanwhile, and call again"
            raise PackageError("the archive that was checked", found="another", where=str(package), fix=fix)
        digest = tar.with_name(f"{NAME}.sha256")
        write_text(digest, f"{checked.identity}  {NAME}/{SUMS}\n")
        claim = read_record(checked.root / CLAIM, Claim, fix=f"./run assay verify {package}")
        with progress("publish wandb: sending", 1) as advance:
            told = log_artifact(wandb, project, [tar, digest], describe_claim(claim, checked.identity))
            advance(1)
    say(told)


def describe_claim(claim: Claim, identity: str) -> dict[str, Any]:
    """Return what the artifact says of itself: verdict, the package's sha256, and the gain as a share."""
    gain = None if claim.difference is None else claim.difference.model_dump()
    told = {"verdict": claim.verdict, "sentence": claim.sentence, "p": claim.p}
    return told | {"sha256": identity, "gain": gain}


def import_wandb() -> Any:
    """Return the library, ready to log; PackageError where it is not installed, or has no key."""
    # Its crashes, with their stacks, would go to its makers.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    try:
        import wandb
    except ImportError as error:
        found = f"not installed ({error.name or error}), so nothing is uploaded"
        raise PackageError("the library of W&B", found=found, where="wandb", fix=INSTALL) from None
    # Left to itself it would ask, after minutes of checking, whether to make an account.
    try:
        ready = wandb.setup().settings.mode != "online" or wandb.login(prompt=False)
        found = "none"
    except (wandb.Error, ValueError) as error:
        ready, found = False, hide_keys(str(error))
    if not ready:
        where, fix = "WANDB_API_KEY and the library's own login", "./run wandb login, or set WANDB_API_KEY"
        raise PackageError("a key of W&B", found=f"{found}, so nothing is uploaded", where=where, fix=fix)
    return wandb


def log_artifact(wandb: Any, project: str, files: list[Path], metadata: dict[str, Any]) -> str:
    """Log the artifact in a run of its own and return what to say of it."""
    folder = Path(os.environ.get("WANDB_DIR") or ".scratch")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        settings = wandb.Settings(root_dir=str(folder), **WANDB_QUIET)
        run = wandb.init(project=project, job_type="assay-package", settings=settings)
        try:
            if run.disabled:
                found, fix = "disabled, so nothing is uploaded", "unset WANDB_MODE, or ./run wandb enabled"
                raise PackageError("W&B that is online or offline", found=found, where="WANDB_MODE", fix=fix)
            artifact = wandb.Artifact(NAME, type="assay-package", metadata=metadata)
            sent = {path.name: artifact.add_file(str(path)).digest for path in files}
            logged = run.log_artifact(artifact, aliases=["latest", metadata["sha256"][:16]])
            if run.offline:
                kept = Path(run.settings.sync_dir)
                later = f"wandb sync {kept} does it, and needs the same machine"
                return f"nothing is uploaded yet, since W&B is offline; {later}"
            logged.wait(timeout=WAIT_S)
            listed = {name: entry.digest for name, entry in logged.manifest.entries.items()}
            where = logged.qualified_name
        finally:
            run.finish()
    except (wandb.Error, ValueError, TypeError, OSError, RuntimeError) as error:
        found = f"{type(error).__name__}: {hide_keys(str(error))}"
        expected, where = "W&B to take the artifact", f"project {project}"
        raise PackageError(expected, found=found, where=where, fix=AGAIN) from None
    if listed != sent:
        expected = "the two files as they are here"
        raise PackageError(expected, found=f"{sorted(listed)}", where=where, fix=AGAIN)
    return (
        f"{where} is at W&B with the digests its files have here; sha256 of the package {metadata['sha256']}"
    )


def hide_keys(text: str) -> str:
    """Return the first line of a message without anything that is as long as a key and looks like one.

    >>> hide_keys("401 for 0123456789abcdef0123456789abcdef01234567 of me")
    '401 for … of me'
    """
    return re.sub(r"[\w-]{32,}", "…", text.strip().split("\n")[0])[:300]
