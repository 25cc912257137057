"""The package stage: equal runs give equal bytes wherever they lie; a run that cannot be packaged costs no
package."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import NoVerdictYet, PackageError, RunningAlready
from assay.core.storage.json import loads, write_json
from assay.core.storage.locks import hold
from assay.package import pack
from assay.pipeline.project import Project
from assay.rollout.policy.digests import adapted_digest, digest_folder
from assay.stages import package
from assay.stages.packing import verify as plain
from assay.stages.packing.parity import MergeComparison
from tests.house import ROOT
from tests.verification.made_lock import lock
from tests.verification.made_run import PARITY, copied, made_run

TAR = "dist/assay-package.tar"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without a model; nobody writes in it."""
    return made_run(tmp_path_factory.mktemp("made") / "run").root


@pytest.fixture(scope="module")
def packed(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run where it was trained and packaged into a linked folder; nobody writes in it."""
    root = Path(shutil.copytree(made, tmp_path_factory.mktemp("packed") / "run"))
    say_when_and_where(root, loads(read(root, "results/train/train.json"), where="", fix="")["chain"])
    (root.parent / "elsewhere").mkdir()
    (root.parent / "elsewhere/kept").write_text("mine")
    (root / "dist").symlink_to(root.parent / "elsewhere")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(package, "parity_of", parity_of_a_model_that_merges)
        patched.setattr(package, "cleared", lambda *_: [])  # as `unscanned` says
        packaged(root)
    return root


@pytest.fixture(autouse=True)
def _merges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a real model merges as it plays is asked in tests/policy/test_merged.py; the made run has
    none."""
    monkeypatch.setattr(package, "parity_of", parity_of_a_model_that_merges)


@pytest.fixture
def unscanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the scan for secrets finds is asked in tests/packaging, and by the other tests here; it is most of
    what packing costs."""
    monkeypatch.setattr(package, "cleared", lambda *_: [])


def parity_of_a_model_that_merges(project: Project) -> tuple[Any, MergeComparison]:
    digest = adapted_digest(digest_folder(project.root / "models/base"), project.root / "models/adapter")
    return PARITY.model_copy(update={"policy_digest": digest}), MergeComparison(32, 400, 200, 200, 1.0, 1e-5)


def packaged(root: Path) -> dict[str, bytes]:
    made = pack(root)
    assert made.path == root / TAR
    assert (root / "dist/assay-package.sha256").read_text().startswith(f"{made.sha256}  ")
    return dist(root)


def dist(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "dist").iterdir()}


def read(root: Path, name: str) -> str:
    return (root / "evidence" / name).read_text(encoding="utf-8")


def say_when_and_where(root: Path, chain: str) -> dict[str, Any]:
    """Write the observations of a training that ended with this chain, and return them."""
    observed: dict[str, Any] = loads(read(ROOT, "observed/manifest.json"), where="", fix="")
    write_json(root / "evidence/observed/manifest.json", observed | {"chain": chain})
    return observed


@pytest.mark.long
def test_two_packages_of_one_run_and_of_a_copy_of_it_elsewhere_are_the_same_bytes(
    made: Path, packed: Path, tmp_path: Path
) -> None:
    one = Path(shutil.copytree(packed, tmp_path / "one"))
    other = Path(shutil.copytree(made, tmp_path / "a longer name/other"))
    for path in (path for path in other.rglob("*") if path.is_file()):
        os.utime(path, (1e9, 1e9))
        path.chmod(0o600)
    (other / "src/assay/__pycache__").mkdir()
    (other / "src/assay/__pycache__/cli.cpython-311.pyc").write_bytes(b"litter")
    first, again, elsewhere = dist(packed), packaged(one), packaged(other)
    assert first == again == elsewhere
    assert set(first) == {
        "assay-package.tar",
        "assay-package.tar.gz",
        "assay-package.sha256",
        "assay-package.cdx.json",
    }


def test_what_is_written_verifies_and_the_statement_beside_is_about_it(packed: Path) -> None:
    found = plain.check(str(packed / TAR))
    assert found.ok, found.findings
    provenance = loads(read(packed, "observed/provenance.json"), where="", fix="")
    assert provenance["subjects"] == {"assay-package/SHA256SUMS": found.sha256}
    assert (packed / "dist/assay-package.sha256").read_text() == f"{found.sha256}  assay-package/SHA256SUMS\n"


def _remove(path: str) -> Callable[[Path], None]:
    return lambda root: (root / path).unlink()


def _lose_the_logs(root: Path) -> None:
    shutil.rmtree(root / "evidence/logs/train")


def _link(root: Path) -> None:
    (root / "data/collider/more.jsonl").symlink_to(root / "data/collider/train.jsonl")


def _forget_a_stage(root: Path) -> None:
    text = (root / "dvc.lock").read_text()
    (root / "dvc.lock").write_text(text.replace("  train:\n", "  drain:\n"))


def _say_a_token(root: Path) -> None:
    (root / "evidence/results/report/summary.md").write_text("use hf_" + "aB3dE5gH7jK9" * 3 + "\n")
    lock(Project.open(root))


def _edit(root: Path) -> None:
    with (root / "evidence/results/report/summary.md").open("a") as stream:
        stream.write("It got better.\n")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_remove("evidence/logs/train/validation.jsonl"), "evidence/logs/train is not what train wrote"),
        (_lose_the_logs, "evidence/logs/train: expected a file or folder"),
        (_remove("LICENSE"), "LICENSE: expected a file"),
        (_edit, "evidence/results/report is not what render_evidence wrote"),
        (_link, "data/collider/more.jsonl: not among the fingerprinted data"),
        (_forget_a_stage, "no train"),
        (_say_a_token, "evidence/results/report/summary.md:1: "),
    ],
)
def test_a_run_that_cannot_be_packaged_is_refused_and_the_last_package_stays(
    packed: Path, tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    root = copied(packed, tmp_path / "run")
    before = dist(packed)
    spoil(root)
    with pytest.raises((PackageError, NoVerdictYet)) as caught:
        package.run(Project.open(root))
    assert words in str(caught.value)
    assert dist(root) == before
    assert not (root / ".dist-new").exists()


@pytest.mark.usefixtures("unscanned")
def test_a_full_disk_leaves_the_last_package(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied(packed, tmp_path / "run")
    before = dist(packed)

    def full(path: Path, tar: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(package, "write_gz", full)
    with pytest.raises(OSError, match="No space left"):
        package.run(Project.open(root))
    assert dist(root) == before


@pytest.mark.usefixtures("unscanned")
def test_a_file_that_changes_while_it_is_packed_is_noticed(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied(made, tmp_path / "run")
    real = package.write_tar

    def edited(path: Path, members: Any) -> str:
        return real(path, {**members, "LICENSE": b"another\n"})

    monkeypatch.setattr(package, "write_tar", edited)
    with pytest.raises(PackageError, match="LICENSE"):
        package.run(Project.open(root))
    assert not (root / "dist").exists()


@pytest.mark.usefixtures("unscanned")
def test_two_at_once_are_refused_and_the_first_ends_as_if_alone(made: Path, tmp_path: Path) -> None:
    root = copied(made, tmp_path / "run")
    with hold(root / ".dist.lock"), pytest.raises(RunningAlready):
        package.run(Project.open(root))
    assert len(packaged(root)) == 4 and not (root / ".dist.lock").exists()


def test_a_linked_folder_is_replaced_and_what_it_led_to_stays(packed: Path) -> None:
    assert len(dist(packed)) == 4 and not (packed / "dist").is_symlink()
    assert [path.name for path in (packed.parent / "elsewhere").iterdir()] == ["kept"]
    assert (packed.parent / "elsewhere/kept").read_text() == "mine"


def test_a_project_of_no_run_is_told_what_to_type(made: Path, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_bytes((made / "params.yaml").read_bytes())
    project = Project.open(tmp_path)
    with pytest.raises(NoVerdictYet, match=r"no claim was made yet(.|\n)*Fix: \./run repro"):
        package.run(project)


@pytest.mark.usefixtures("unscanned")
def test_when_and_where_it_was_trained_is_told_of_this_training_and_of_no_other(
    packed: Path, tmp_path: Path
) -> None:
    provenance = loads(read(packed, "observed/provenance.json"), where="", fix="")
    other = copied(packed, tmp_path / "run")
    observed = say_when_and_where(other, "e" * 64)
    assert provenance["trained"]["started"] == observed["started"]
    assert provenance["trained"]["hardware"] == observed["hardware"]
    packaged(other)
    assert loads(read(other, "observed/provenance.json"), where="", fix="")["trained"] is None
