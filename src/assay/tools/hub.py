"""One repository on a Hugging Face hub: one commit to it, what lies in it, and every failure as one message with a fix."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import PackageError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

# The hub's library waits without end; an upload may be slow, silence for so long means that nothing will come.
SILENCE_S = 120.0
LOGIN = "./run hf auth login, or set HF_TOKEN to a token that may write to this repository"
AGAIN = "call the same command again; what has arrived is not sent twice"


@dataclass(frozen=True, slots=True)
class Stored:
    """A file as the hub lists it: its size and one of the two digests, of a git blob or of a large file's content."""

    size: int
    blob_sha1: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a repository is before anything is sent: its newest commit, who may read it, and its files."""

    commit: str
    private: bool
    files: dict[str, Stored]


class Hub:
    """A hub, by the endpoint and the token of this user's settings.

    Raises:
        PackageError: There is no token.
    """

    def __init__(self) -> None:
        from huggingface_hub import HfApi, get_token

        token = get_token()
        if token is None:
            raise PackageError("a token of the hub", found="none", where="HF_TOKEN and the hub's own login", fix=LOGIN)
        self._token = token
        # The library reads HF_ENDPOINT when it is first imported; whatever imported it before us, it is read here.
        self._api: HfApi = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)
        self.endpoint = str(self._api.endpoint)

    def opened(self, repo_id: str, revision: str, *, private: bool) -> Standing:
        """Make the repository and the branch where they are missing, and return how they stand.

        Raises:
            PackageError: The hub refuses, fails or is not there.
        """
        with self._patient(repo_id):
            self._api.whoami()
            self._api.create_repo(repo_id, private=private, exist_ok=True)
            if revision != "main":
                self._api.create_branch(repo_id, branch=revision, exist_ok=True)
            info = self._api.model_info(repo_id, revision=revision)
            return Standing(str(info.sha), bool(info.private), self._files(repo_id, str(info.sha)))

    def commit(
        self, repo_id: str, revision: str, files: Mapping[str, Path], *, removed: list[str], parent: str, message: str
    ) -> tuple[str, dict[str, Stored]]:
        """Send all files in one commit and return its id and what the hub then lists in it.

        Args:
            repo_id: owner/name.
            revision: Branch.
            files: Path in the repository → file here.
            removed: Files of the repository that go with the same commit.
            parent: The commit that was looked at; if there is a newer one the hub refuses.
            message: Of the commit.

        Raises:
            PackageError: The hub refuses, fails or is not there.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        operations: list[Any] = [CommitOperationAdd(name, str(path)) for name, path in sorted(files.items())]
        operations += [CommitOperationDelete(name) for name in removed]
        with self._patient(repo_id):
            done = self._api.create_commit(repo_id, operations, commit_message=message, revision=revision, parent_commit=parent)
            return str(done.oid), self._files(repo_id, str(done.oid))

    def _files(self, repo_id: str, commit: str) -> dict[str, Stored]:
        from huggingface_hub.hf_api import RepoFile

        listed = self._api.list_repo_tree(repo_id, recursive=True, revision=commit)
        return {
            each.path: Stored(each.size, each.blob_id, each.lfs.sha256 if each.lfs else None)
            for each in listed
            if isinstance(each, RepoFile)
        }

    @contextmanager
    def _patient(self, repo_id: str) -> Iterator[None]:
        """Let no call wait for ever, and turn what fails into one message that never holds the token."""
        import httpx2
        from huggingface_hub import set_client_factory
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError
        from huggingface_hub.utils._http import default_client_factory

        def patient() -> httpx2.Client:
            client = default_client_factory()
            client.timeout = httpx2.Timeout(SILENCE_S, connect=30.0)
            return client

        where = f"{repo_id} at {self.endpoint}"
        set_client_factory(patient)
        try:
            yield
        except HfHubHTTPError as error:
            raise self._refused(error.response.status_code, error.server_message or "", where) from None
        except (HFValidationError, LocalTokenNotFoundError, ValueError, KeyError, TypeError) as error:
            found, fix = f"{type(error).__name__}: {error}", "see what it says; HF_ENDPOINT may name something that is no hub"
            raise self._error("a request and an answer that make sense", found, where, fix) from None
        except httpx2.TimeoutException:
            raise self._error("an answer", f"none in {SILENCE_S:.0f} s", where, f"see to the network, then {AGAIN}") from None
        except (httpx2.HTTPError, ConnectionError, RuntimeError) as error:
            # What failed below an upload arrives as a RuntimeError with the reason behind it.
            cause = error.__cause__
            if isinstance(cause, HfHubHTTPError):
                raise self._refused(cause.response.status_code, cause.server_message or "", where) from None
            reason = f"{type(cause or error).__name__}: {cause or error}"
            raise self._error("a hub that can be reached", reason, where, f"see to the network, then {AGAIN}") from None
        finally:
            set_client_factory(default_client_factory)

    def _refused(self, status: int, told: str, where: str) -> PackageError:
        fixes = {
            401: f"the token is not valid (any more): {LOGIN}",
            403: f"this token may not do that; make one with write access, or name a repository of your own: {LOGIN}",
            404: "see whether owner and name are right; a private repository of others looks like none",
            409: f"somebody else is at this repository: {AGAIN}",
            412: f"somebody else committed meanwhile: look at it, then {AGAIN}",
            413: "a file is too large for this hub; package a smaller adapter",
            429: "wait: this hub allows only so many calls an hour",
        }
        fix = fixes.get(status, f"the hub has a trouble of its own; later, {AGAIN}" if status >= 500 else "see what it says")
        return self._error("a hub that takes it", f"HTTP {status}{': ' if told else ''}{told}", where, fix)

    def _error(self, expected: str, found: str, where: str, fix: str) -> PackageError:
        shown = found.replace(self._token, "…").split("\n")[0][:300]
        return PackageError(expected, found=shown, where=where, fix=fix)
