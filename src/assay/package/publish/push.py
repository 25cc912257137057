"""`assay publish push`: a package that passes its checks goes to a hub in one commit, looked at there."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.console import progress, say
from assay.core.counting import counted
from assay.core.errors import PackageError
from assay.core.evidence_files import place_of
from assay.core.storage.files import read_bytes
from assay.package.checking import VerifyRequest, verified
from assay.pipeline.project import Project
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import unpack
from assay.stages.packing.secrets.known import known_secrets, this_machine
from assay.stages.packing.secrets.search import cleared
from assay.stages.render_evidence.at_hand import claim_at_hand

if TYPE_CHECKING:
    from huggingface_hub import HfApi

# The hub writes it into every repository; no package may hold a name of git's.
OF_THE_HUB = frozenset({".gitattributes"})
CLAIM = place_of("claim.json")
SHOWN = 5
# The hub's library waits without end; an upload may be slow, but after so long a silence nothing will come.
SILENCE_S = 120.0
LOGIN = "./run hf auth login, or set HF_TOKEN to a token that may write to this repository"
AGAIN = "call the same command again; what has arrived is not sent twice"
REFUSED = {
    401: f"the token is not valid (any more): {LOGIN}",
    403: f"make a token with write access, or name a repository of your own: {LOGIN}",
    404: "see whether owner and name are right; a private repository of others looks like none",
    409: f"somebody else is at this repository: {AGAIN}",
    412: f"somebody else committed meanwhile: look at it, then {AGAIN}",
    413: "a file is too large for this hub; package a smaller adapter",
    429: "wait: this hub allows only so many calls an hour",
}
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class Checked:
    """A package that may be sent: its identity, and its files, unpacked, by their names in it."""

    identity: str
    root: Path
    files: Mapping[str, Path]


def run(
    package: Path, repo_id: str, *, dry_run: bool, private: bool | None, revision: str, replace: bool
) -> None:
    """Check a package, search it for secrets, send it, and compare what the hub then lists, digest by digest.

    Args:
        package: A .tar or .tar.gz.
        repo_id: owner/name of a model repository; made if there is none.
        dry_run: Whether only to say what would be sent; the network is not asked then.
        private: Who may read it: of a repository that is there it has to hold. None: a new one is private.
        revision: Branch; made if there is none.
        replace: Whether files of the repository that are not of this package go with the commit.

    Raises:
        PackageError: A check fails, there is a secret, the repository holds something else, the hub refuses
            or fails, or not everything arrived. Until the one commit there is at most an empty repository.
    """
    if not _REPO.fullmatch(repo_id) or not package.is_file():
        wrong = (str(package), "an archive", "--package")
        if package.is_file():
            wrong = (repo_id, "owner/name", "REPO_ID")
        fix = "./run assay publish push owner/name --package FILE   (./run dvc repro package writes one)"
        raise PackageError(wrong[1], found=repr(wrong[0]), where=wrong[2], fix=fix)
    api = None if dry_run else open_hub()  # before minutes of checking, so that nobody waits for a refusal
    with open_checked(package) as checked:
        if api is not None:
            with refusals_told(api, repo_id):
                send(api, checked, repo_id, private=private, revision=revision, replace=replace)
            return
        sizes = {name: path.stat().st_size for name, path in checked.files.items()}
        for name, size in sizes.items():
            say(f"{size:>12,}  {name}")
        total = f"{len(sizes)} files, {sum(sizes.values()):,} bytes"
        who = "public" if private is False else "private"
        say(f"{total} would go to {repo_id}, branch {revision}, in one commit; a new one would be {who}")
        say(f"nothing was sent and no network was asked (--dry-run); package {checked.identity}")


@contextmanager
def open_checked(package: Path) -> Iterator[Checked]:
    """Unpack a package that passes V0 to V3, holds no secret, and whose claim is of the settings at hand.

    Raises:
        AssayError: It is not so; names the first that is amiss.
    """
    with progress("publish: checks", 1) as advance:
        result = plain.check(package)
        checks = list(verified(package, result, VerifyRequest()))
        advance(1)
    failed = [check for check in checks if check.outcome == "failed"]
    if failed or result.sha256 is None:
        first = "nothing could be read"
        if failed:
            first = f"{failed[0].level}, {failed[0].name}: {failed[0].found}"
        found, fix = f"{len(failed)} failed: {first}", f"./run assay verify {package}   (says all of it)"
        raise PackageError("a package that passes its checks", found=found, where=str(package), fix=fix)
    say(f"{package}: {sum(c.outcome == 'passed' for c in checks)} checks passed, sha256 {result.sha256}")
    with tempfile.TemporaryDirectory(prefix="assay-publish-") as scratch:
        root = Path(scratch, "package")
        try:  # the very bytes that were checked: another archive in its place is refused by its digest
            names = unpack(package, root, sha256=result.sha256).files
        except PackageError as error:
            fix = "leave the archive alone meanwhile, and call again"
            expected = "the archive that was checked"
            raise PackageError(expected, found=error.found, where=str(package), fix=fix) from None
        files = {name: root / name for name in sorted(names)}
        if not Project.open(root).params.evaluation.open:
            fix = "evaluation.open: true in configs/grpo/, ./run assay config use, then ./run repro"
            raise PackageError("a package with a verdict", found="a draft", where=str(package), fix=fix)
        check_at_hand(package, root)
        # Secrets of this machine, too: the one that packaged it may not have known them.
        waivers = Project.open(root).params.package.waivers
        waived = cleared(files, known_secrets(this_machine(Path.cwd())).secrets, waivers)
        but = f" but {counted(len(waived), 'places')} answered for" if waived else ""
        say(f"no secret found in {len(files)} files{but}")
        yield Checked(result.sha256, root, files)


def check_at_hand(package: Path, root: Path) -> None:
    """Refuse the package of this project's own dist/ where its claim is not about the settings at hand.

    A package from anywhere else speaks for itself: it holds the settings and data that it is about.

    Raises:
        NoVerdictYet: There is no claim about these settings.
        PackageError: The package holds another one.
    """
    here = Path.cwd()
    if package.resolve().parent != here.resolve() / "dist" or not (here / "params.yaml").is_file():
        return
    claim_at_hand(Project.open(here))
    if read_bytes(root / CLAIM, fix="") != read_bytes(here / CLAIM, fix="./run repro"):
        where, fix = f"{package}, {CLAIM}", "./run dvc repro package"
        raise PackageError("the claim about the settings at hand", found="another", where=where, fix=fix)


def open_hub() -> HfApi:
    """Return the hub, by the endpoint and the token of this user's settings; PackageError without a token."""
    from huggingface_hub import HfApi, get_token

    token = get_token()
    if token is None:
        where = "HF_TOKEN and the hub's own login"
        raise PackageError("a token of the hub", found="none", where=where, fix=LOGIN)
    # The library reads HF_ENDPOINT when it is first imported, which may have been before it was set.
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)


def send(
    api: HfApi, checked: Checked, repo_id: str, *, private: bool | None, revision: str, replace: bool
) -> None:
    """Make what is missing of repository and branch, send all files in one commit, and look at what arrived.

    Raises:
        PackageError: The repository is another than was asked for, or not everything arrived.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    where, files = f"{repo_id} at {api.endpoint}", checked.files
    api.whoami()
    api.create_repo(repo_id, private=private is not False, exist_ok=True)
    if revision != "main":
        api.create_branch(repo_id, branch=revision, exist_ok=True)
    info = api.model_info(repo_id, revision=revision)
    if private is not None and info.private != private:
        asked, other = ("private", "public") if private else ("public", "private")
        fix = "change it in the repository's settings, or leave the option out"
        raise PackageError(f"a {asked} repository", found=f"a {other} one", where=where, fix=fix)
    others = sorted(set(api.list_repo_files(repo_id, revision=info.sha)) - set(files) - OF_THE_HUB)
    if others and not replace:
        raise PackageError(
            "a repository with nothing but a package, which nothing can be added to",
            found=f"{counted(len(others), 'other files')}: {name_some(others)}",
            where=where,
            fix="another repository or --revision, or --replace to remove them in the same commit",
        )
    with progress("push: sending", 1) as advance:
        adds = [CommitOperationAdd(name, str(path)) for name, path in files.items()]
        done = api.create_commit(
            repo_id,
            [*adds, *(CommitOperationDelete(name) for name in others)],
            commit_message=f"assay package {checked.identity[:16]}",
            revision=revision,
            parent_commit=info.sha,  # if there is a newer one the hub refuses
        )
        advance(1)
    # A large file is listed by the sha256 of its content, any other as git names its blob.
    seen = api.verify_repo_checksums(repo_id, revision=done.oid, local_dir=checked.root)
    amiss = [f"{name} is missing" for name in seen.extra_paths]
    amiss += [f"{name} is not of the package" for name in sorted({*seen.missing_paths} - OF_THE_HUB)]
    amiss += [f"{each['path']} has another content" for each in seen.mismatches]
    if amiss:
        fix = "call the same command again; until it ends without this, what lies there is not the package"
        there = f"{where}, commit {done.oid}"
        raise PackageError("every file as it was sent", found=name_some(amiss), where=there, fix=fix)
    there = f"{api.endpoint}/{repo_id}, commit {done.oid}"
    say(f"{len(files)} files are at {there}, with the digests they have here")
    say(f"to check it there: hf download {repo_id} --revision {done.oid} --local-dir DIR, then")
    allowed = "--allow .gitattributes --allow .cache"
    say(f"python src/assay/stages/packing/verify.py DIR {allowed} --sha256 {checked.identity}")


def name_some(told: list[str]) -> str:
    """Return the first few of what there is to tell, and how many more there are."""
    return "; ".join(told[:SHOWN]) + (f"; and {len(told) - SHOWN} more" if len(told) > SHOWN else "")


@contextmanager
def refusals_told(api: HfApi, repo_id: str) -> Iterator[None]:
    """Let no call wait for ever, and turn what fails into one message that never holds the token."""
    import httpx2
    from huggingface_hub import set_client_factory
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils._http import default_client_factory

    def make_patient() -> httpx2.Client:
        client = default_client_factory()
        client.timeout = httpx2.Timeout(SILENCE_S, connect=30.0)
        return client

    set_client_factory(make_patient)
    try:
        yield
    except (httpx2.HTTPError, ConnectionError, RuntimeError, ValueError, KeyError, TypeError) as error:
        # What failed below an upload arrives as a RuntimeError with the reason behind it.
        reason = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
        expected, found = "a hub that can be reached", f"{type(reason).__name__}: {reason}"
        fix = f"see to the network, then {AGAIN}"
        if isinstance(reason, HfHubHTTPError):
            status = reason.response.status_code
            expected, found = "a hub that takes it", f"HTTP {status}: {reason.server_message or ''}"
            own_trouble = f"the hub has a trouble of its own; later, {AGAIN}"
            fix = REFUSED.get(status, own_trouble if status >= 500 else "see what it says")
        elif isinstance(reason, httpx2.TimeoutException):
            expected, found = "an answer", f"none in {SILENCE_S:.0f} s"
        elif isinstance(reason, (ValueError, KeyError, TypeError)):
            expected = "an answer that makes sense"
            fix = "see what it says; HF_ENDPOINT may name what is no hub"
        found = found.replace(str(api.token), "…").split("\n")[0][:300]
        raise PackageError(expected, found=found, where=f"{repo_id} at {api.endpoint}", fix=fix) from None
    finally:
        set_client_factory(default_client_factory)
