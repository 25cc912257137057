"""`assay publish wandb` sends nothing unless it is asked to, nothing unchecked, and tells nothing of this
machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.core.errors import PackageError
from assay.package.publish import push_wandb
from assay.package.verification import levels as levels_room
from assay.package.verification.checks import Check
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import sealed, write_tar
from tests.house import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
SECRET = "abcdef0123" * 4
FILES: dict[str, bytes | Path] = {
    "verify.py": (ROOT / "src/assay/stages/packing/verify.py").read_bytes(),
    "provenance.json": b'{"format":"assay-package/7"}\n',
    "params.yaml": (ROOT / "params.yaml").read_bytes(),
    "evidence/results/report/claim.json": (ROOT / "evidence/results/report/claim.json").read_bytes(),
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package in a folder of its own; V1 to V3 need a whole run, V0 and the search for secrets are
    real."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name in ("DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / "wandb" / name))
    monkeypatch.setenv("WANDB_PROJECT", "project")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setattr(levels_room, "all_levels", lambda *_, **__: iter(()))
    path = tmp_path / "run-7.tar"
    write_tar(path, sealed(dict(FILES)), root="assay-package")
    return path


class Error(Exception):
    pass


class FakeRun:
    """What the real library's run does where it is online, kept in memory."""

    def __init__(self, arrived: bool = True, disabled: bool = False, says: str = "") -> None:
        self.offline, self.disabled, self._arrived, self._says = False, disabled, arrived, says
        self.finished, self.logged = False, list[Any]()
        self.given: dict[str, Any] = {}

    def finish(self) -> None:
        self.finished = True

    def log_artifact(self, artifact: Any, aliases: list[str]) -> Any:
        if self._says:
            raise Error(self._says)
        artifact.aliases, artifact.qualified_name = aliases, "me/project/assay-package:v0"
        entries = {name: SimpleNamespace(digest=digest) for name, digest in artifact.files.items()}
        artifact.manifest = SimpleNamespace(
            entries=entries if self._arrived else dict(list(entries.items())[:1])
        )
        artifact.wait = lambda timeout: None
        self.logged.append(artifact)
        return artifact


def library(run: FakeRun, key: str | None = SECRET) -> Any:
    class Artifact:
        def __init__(self, name: str, type: str, metadata: dict[str, Any]) -> None:
            self.type, self.metadata = type, metadata
            self.files: dict[str, str] = {}

        def add_file(self, path: str) -> Any:
            self.files[Path(path).name] = str(Path(path).read_bytes()[:200])
            return SimpleNamespace(digest=self.files[Path(path).name])

    def init(**given: Any) -> FakeRun:
        run.given = given
        return run

    settings = SimpleNamespace(mode="online")
    return SimpleNamespace(
        Settings=lambda **given: given,
        init=init,
        Artifact=Artifact,
        Error=Error,
        setup=lambda: SimpleNamespace(settings=settings),
        login=lambda prompt: prompt or key is not None,
    )


def refused(package: Path) -> PackageError:
    with pytest.raises(PackageError) as error:
        push_wandb.run(package)
    assert SECRET not in str(error.value)
    return error.value


def test_without_a_project_or_the_library_nothing_is_uploaded_and_it_says_why(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    missing = refused(package)
    assert "-r requirements/wandb.txt" in missing.fix and "nothing is uploaded" in missing.found
    for value in (None, " "):
        monkeypatch.delenv("WANDB_PROJECT") if value is None else monkeypatch.setenv("WANDB_PROJECT", value)
        error = refused(package)
        assert (
            error.where == "WANDB_PROJECT" and "nothing is uploaded" in error.found and error.exit_code == 1
        )
    assert "wandb" not in (ROOT / "requirements.txt").read_text(encoding="utf-8")


def test_without_a_key_nobody_is_asked_for_one(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun()
    monkeypatch.setitem(sys.modules, "wandb", library(run, key=None))
    assert "wandb login" in refused(package).fix and run.given == {}


def test_a_failed_check_or_a_secret_is_not_sent(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = FakeRun()
    monkeypatch.setitem(sys.modules, "wandb", library(run))
    failed = Check(level="V2", name="grading", outcome="failed", found="1 of 9 differs")
    with monkeypatch.context() as patch:
        patch.setattr(levels_room, "all_levels", lambda *_, **__: iter([failed]))
        assert "grading" in refused(package).found
    content = bytearray(package.read_bytes())
    content[3000] ^= 1
    (tmp_path / "broken.tar").write_bytes(content)
    refused(tmp_path / "broken.tar")
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    write_tar(
        tmp_path / "secret.tar", sealed(FILES | {"evidence/results/x": SECRET.encode()}), root="assay-package"
    )
    assert "evidence/results/x" in str(refused(tmp_path / "secret.tar"))
    assert run.logged == [] and run.given == {}


def test_tar_and_sha256_go_with_verdict_digest_and_gain(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = FakeRun()
    monkeypatch.setitem(sys.modules, "wandb", library(run))
    push_wandb.run(package)
    (artifact,) = run.logged
    identity = plain.check(package).sha256
    assert identity is not None and identity in artifact.files["assay-package.sha256"]
    assert set(artifact.files) == {"assay-package.tar", "assay-package.sha256"}
    assert artifact.type == "assay-package" and artifact.aliases == ["latest", identity[:16]]
    assert artifact.metadata["sha256"] == identity and artifact.metadata["verdict"] == "IMPROVED"
    assert (
        artifact.metadata["gain"]["low"]
        < artifact.metadata["gain"]["value"]
        < artifact.metadata["gain"]["high"]
    )
    assert (
        run.given["project"] == "project" and run.given["settings"].items() >= push_wandb.WANDB_QUIET.items()
    )


@pytest.mark.parametrize(
    ("run", "word"),
    [
        (FakeRun(disabled=True), "nothing is uploaded"),
        (FakeRun(arrived=False), "['assay-package.tar']"),
        (FakeRun(says=f"401 for {SECRET}"), "401 for …"),
    ],
)
def test_what_did_not_arrive_is_not_called_done(
    package: Path, monkeypatch: pytest.MonkeyPatch, run: FakeRun, word: str
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", library(run))
    assert word in refused(package).found and run.finished


def test_offline_the_real_library_keeps_the_files_and_learns_nothing_of_this_machine(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    said: list[str] = []
    monkeypatch.setattr(push_wandb, "say", said.append)
    push_wandb.run(package)
    assert "nothing is uploaded yet" in said[-1]
    staged = [path.read_bytes() for path in (tmp_path / "wandb/DATA/artifacts/staging").iterdir()]
    assert sorted(map(len, staged)) == [84, package.stat().st_size] and package.read_bytes() in staged
    (log,) = (tmp_path / ".scratch").rglob("run-*.wandb")
    kept = log.read_bytes()
    assert b'"verdict":"IMPROVED"' in kept and b"assay-package.sha256" in kept
    for fact in (SECRET, os.uname().nodename, sys.executable, str(ROOT), os.uname().release):
        assert fact.encode() not in kept
