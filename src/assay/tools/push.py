"""`assay publish push`: a package that passes its checks and holds no secret goes to a hub in one commit, looked at there."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from assay.console import progress, say
from assay.counting import counted
from assay.errors import PackageError
from assay.packaging import verify as plain
from assay.packaging.known import known_secrets
from assay.packaging.machine import this_machine
from assay.packaging.secrets import cleared
from assay.stages.at_hand import claim_at_hand
from assay.stages.project import RESULTS, Project
from assay.storage.files import read_bytes
from assay.tools.hub import Hub, Stored
from assay.tools.verify import Asked, verified

# The hub writes it into every repository; no package may hold a name of git's.
OF_THE_HUB = frozenset({".gitattributes"})
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
SHOWN = 5
CLAIM = f"{RESULTS}/claim.json"


def run(package: Path, repo_id: str, *, dry_run: bool, private: bool | None, revision: str, replace: bool) -> None:
    """Check a package, search it for secrets, send it, and compare what the hub then lists, digest by digest.

    Args:
        package: A .tar or .tar.gz.
        repo_id: owner/name of a model repository; made if there is none.
        dry_run: Whether only to say what would be sent; the network is not asked then.
        private: Who may read it: of a repository that is there it has to hold, a new one gets it. None: a new one is private.
        revision: Branch; made if there is none.
        replace: Whether files of the repository that are not of this package go with the commit.

    Raises:
        PackageError: A check fails, there is a secret, the repository holds something else, the hub refuses or fails, or
            not everything arrived. Until the one commit nothing is changed but that an empty repository may be there.
    """
    if not _REPO.fullmatch(repo_id) or not package.is_file():
        wrong = (repo_id, "owner/name", "REPO_ID") if package.is_file() else (str(package), "an archive", "--package")
        fix = "./run assay publish push owner/name --package dist/assay-package.tar   (./run dvc repro package writes it)"
        raise PackageError(wrong[1], found=repr(wrong[0]), where=wrong[2], fix=fix)
    # Before minutes of checking, so that nobody waits for a refusal.
    hub = None if dry_run else Hub()
    with tempfile.TemporaryDirectory(prefix="assay-push-") as scratch:
        root = Path(scratch, "package")
        identity = checked(package)
        # The very bytes that were checked: another archive in its place is refused by its digest.
        try:
            names = plain.unpack(package, root, sha256=identity).files
        except plain.Refused as error:
            found, fix = str(error).split("\n")[0], "leave the archive alone meanwhile, and call again"
            raise PackageError("the archive that was checked", found=found, where=str(package), fix=fix) from None
        files = {name: root / name for name in sorted(names)}
        shown_at_hand(package, root)
        searched(root, files)
        if hub is None:
            _tell(files, repo_id, identity, private=private, revision=revision)
            return
        _send(hub, files, repo_id, identity, private=private, revision=revision, replace=replace)


def checked(package: Path) -> str:
    """Return the identity of a package that passes V0 to V3.

    Raises:
        PackageError: A check fails; names the first.
    """
    with progress("push: checks", 1) as advance:
        result = plain.check(package)
        checks = list(verified(package, result, Asked()))
        advance(1)
    failed = [check for check in checks if check.outcome == "failed"]
    if failed or result.sha256 is None:
        first = f"{failed[0].level}, {failed[0].name}: {failed[0].found}" if failed else "nothing that could be read"
        found, fix = f"{len(failed)} failed: {first}", f"./run assay verify {package}   (says all of it)"
        raise PackageError("a package that passes its checks", found=found, where=str(package), fix=fix)
    say(f"{package}: {sum(check.outcome == 'passed' for check in checks)} checks passed, sha256 {result.sha256}")
    return result.sha256


def shown_at_hand(package: Path, root: Path) -> None:
    """Refuse the package of this project's own dist/ where the claim in it is not the one about the settings at hand.

    A package from anywhere else speaks for itself: it holds the settings and data that it is about.

    Args:
        package: The archive.
        root: Where it was unpacked.

    Raises:
        NoVerdictYet: There is no claim about these settings.
        PackageError: The package holds another one.
    """
    here = Path.cwd()
    if package.resolve().parent != here.resolve() / "dist" or not (here / "params.yaml").is_file():
        return
    project = Project.open(here)
    claim_at_hand(project)
    if read_bytes(root / CLAIM, fix="") != read_bytes(here / CLAIM, fix="./run repro"):
        found, fix = "another", "./run dvc repro package"
        raise PackageError("the claim about the settings at hand", found=found, where=f"{package}, {CLAIM}", fix=fix)


def searched(root: Path, files: Mapping[str, Path]) -> None:
    """Refuse to send a secret of this machine, also one that the machine which packaged it did not know."""
    waivers = Project.open(root).params.package.waivers
    waived = cleared(files, known_secrets(this_machine(Path.cwd())).secrets, waivers)
    are = "is" if len(waived) == 1 else "are"
    say(f"no secret found in {len(files)} files" + (f" but {len(waived)} that {are} answered for" if waived else ""))


def _tell(files: Mapping[str, Path], repo_id: str, identity: str, *, private: bool | None, revision: str) -> None:
    sizes = {name: path.stat().st_size for name, path in files.items()}
    for name, size in sizes.items():
        say(f"{size:>12,}  {name}")
    who = "public" if private is False else "private"
    total = f"{len(files)} files, {sum(sizes.values()):,} bytes"
    say(f"{total} would go to {repo_id}, branch {revision}, in one commit; a new repository would be {who}")
    say(f"nothing was sent and no network was asked (--dry-run); package {identity}")


def _send(
    hub: Hub, files: Mapping[str, Path], repo_id: str, identity: str,
    *, private: bool | None, revision: str, replace: bool,
) -> None:  # fmt: skip
    standing = hub.opened(repo_id, revision, private=private is not False)
    where = f"{repo_id} at {hub.endpoint}"
    if private is not None and standing.private != private:
        found, fix = ("public" if private else "private"), "change it in the repository's settings, or leave the option out"
        raise PackageError(f"a {'private' if private else 'public'} repository", found=f"a {found} one", where=where, fix=fix)
    others = sorted(set(standing.files) - set(files) - OF_THE_HUB)
    if others and not replace:
        more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        raise PackageError(
            "a repository with nothing but a package, which nothing can be added to", where=where,
            found=f"{counted(len(others), 'other files')}: {', '.join(others[:SHOWN])}{more}",
            fix="another repository or --revision, or --replace to remove them in the same commit",
        )  # fmt: skip
    with progress("push: sending", 1) as advance:
        message = f"assay package {identity[:16]}"
        commit, listed = hub.commit(repo_id, revision, files, removed=others, parent=standing.commit, message=message)
        advance(1)
    amiss = differences(files, listed)
    if amiss:
        shown = "; ".join(amiss[:SHOWN]) + (f"; and {len(amiss) - SHOWN} more" if len(amiss) > SHOWN else "")
        fix = "call the same command again; until it ends without this, what lies there is not the package"
        raise PackageError("every file as it was sent", found=shown, where=f"{where}, commit {commit}", fix=fix)
    say(f"{len(files)} files are at {hub.endpoint}/{repo_id}, commit {commit}, with the digests they have here")
    say(f"to check it there: hf download {repo_id} --revision {commit} --local-dir DIR, then")
    say(f"python DIR/verify.py DIR --allow .gitattributes --allow .cache --sha256 {identity}")


def differences(files: Mapping[str, Path], listed: Mapping[str, Stored]) -> list[str]:
    """Return in what a repository is not these files, in words: names, sizes, digests of the contents."""
    amiss = [f"{name} is missing" for name in sorted(set(files) - set(listed))]
    amiss += [f"{name} is not of the package" for name in sorted(set(listed) - set(files) - OF_THE_HUB)]
    for name in sorted(set(files) & set(listed)):
        stored, size = listed[name], files[name].stat().st_size
        if stored.size != size:
            amiss.append(f"{name} has {stored.size} bytes there and {size} here")
        elif (stored.sha256 or stored.blob_sha1) != _digest(files[name], size, of_blob=stored.sha256 is None):
            amiss.append(f"{name} has another content")
    return amiss


def _digest(path: Path, size: int, *, of_blob: bool) -> str:
    """Return the sha256 of a file, or the sha1 by which git names a blob."""
    digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False) if of_blob else hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
