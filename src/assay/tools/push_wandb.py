"""`assay publish wandb`: a package that passes its checks and holds no secret, as an artifact of a Weights & Biases project."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from assay.console import progress, say
from assay.errors import PackageError
from assay.evidence.claim import Claim
from assay.packaging import verify as plain
from assay.packaging.contents import NAME
from assay.provenance import WANDB_QUIET
from assay.stages.project import RESULTS
from assay.storage.files import write_text
from assay.storage.json import read_record
from assay.tools.push import checked, searched, shown_at_hand

INSTALL = "./run python -m pip install -c constraints.txt --no-build-isolation -e '.[wandb]'"
AGAIN = "see to it, then call the same command again"
WAIT_S = 3600  # for the upload to arrive; the library's own wait has no end


def run(package: Path) -> None:
    """Check a package, search it for secrets, and log the tar and its sha256 as one artifact of type assay-package.

    WANDB_PROJECT names the project; without it nothing is sent. All else (entity, mode, address, key) is read by the library.

    Args:
        package: The .tar.

    Raises:
        PackageError: WANDB_PROJECT is unset, the extra is not installed, a check fails, there is a secret, or W&B refuses,
            fails, or does not list the files as they are here.
    """
    project = os.environ.get("WANDB_PROJECT", "").strip()
    if not project:
        fix = "WANDB_PROJECT=name ./run assay publish wandb, with the name of the W&B project it is to go to"
        raise PackageError("the name of a W&B project", found="none, so nothing is uploaded", where="WANDB_PROJECT", fix=fix)
    if not package.is_file() or package.suffix != ".tar":
        raise PackageError("a .tar", found="none", where=str(package), fix="--package dist/assay-package.tar")
    wandb = _library()
    with tempfile.TemporaryDirectory(prefix="assay-push-wandb-") as scratch:
        identity = checked(package)
        tar, root = Path(scratch, f"{NAME}.tar"), Path(scratch, "package")
        shutil.copyfile(package, tar)
        try:  # the very bytes that were checked are those that go
            names = plain.unpack(tar, root, sha256=identity).files
        except plain.Refused as error:
            fix = "leave the archive alone meanwhile, and call again"
            raise PackageError("the archive that was checked", found=error.found, where=str(package), fix=fix) from None
        shown_at_hand(package, root)
        searched(root, {name: root / name for name in sorted(names)})
        write_text(tar.with_name(f"{NAME}.tar.sha256"), f"{identity}  {NAME}.tar\n")
        claim = read_record(root / RESULTS / "claim.json", Claim, fix=f"./run assay verify {package}")
        with progress("publish wandb: sending", 1) as advance:
            told = _log(wandb, project, [tar, tar.with_name(f"{NAME}.tar.sha256")], metadata_of(claim, identity))
            advance(1)
    say(told)


def metadata_of(claim: Claim, identity: str) -> dict[str, Any]:
    """Return what the artifact says of itself: verdict, the tar's sha256, and the gain as a share with its 95 % interval."""
    gain = None if claim.difference is None else claim.difference.model_dump()
    return {"verdict": claim.verdict, "sentence": claim.sentence, "sha256": identity, "gain": gain, "p": claim.p}


def _library() -> Any:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # its crashes, with their stacks, would go to its makers
    try:
        import wandb
    except ImportError as error:
        found = f"not installed ({error.name or error}), so nothing is uploaded"
        raise PackageError("the library of W&B", found=found, where="wandb", fix=INSTALL) from None
    # Left to itself it would ask, in the midst of our own lines and after minutes of checking, whether to make an account.
    try:
        ready = wandb.setup().settings.mode != "online" or wandb.login(prompt=False)
        found = "none"
    except (wandb.Error, ValueError) as error:
        ready, found = False, without_keys(str(error))
    if not ready:
        where, fix = "WANDB_API_KEY and the library's own login", "./run wandb login, or set WANDB_API_KEY"
        raise PackageError("a key of W&B", found=f"{found}, so nothing is uploaded", where=where, fix=fix)
    return wandb


def _log(wandb: Any, project: str, files: list[Path], metadata: dict[str, Any]) -> str:
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
                return f"nothing is uploaded yet, since W&B is offline; wandb sync {kept} does it, and needs the same machine"
            logged.wait(timeout=WAIT_S)
            listed, where = {name: entry.digest for name, entry in logged.manifest.entries.items()}, logged.qualified_name
        finally:
            run.finish()
    except (wandb.Error, ValueError, TypeError, OSError, RuntimeError) as error:
        found = f"{type(error).__name__}: {without_keys(str(error))}"
        raise PackageError("W&B to take the artifact", found=found, where=f"project {project}", fix=AGAIN) from None
    if listed != sent:
        raise PackageError("the two files as they are here", found=f"{sorted(listed)}", where=where, fix=AGAIN)
    return f"{where} is at W&B with the digests its files have here; sha256 of the tar {metadata['sha256']}"


def without_keys(text: str) -> str:
    """Return the first line of a message without anything that is as long as a key and looks like one.

    >>> without_keys("401 for 0123456789abcdef0123456789abcdef01234567 of me")
    '401 for … of me'
    """
    return re.sub(r"[\w-]{32,}", "…", text.strip().split("\n")[0])[:300]
