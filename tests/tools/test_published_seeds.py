"""The raw episodes of every seed are a package of their own, and every number over seeds follows from it."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.evidence_files import place_of
from assay.core.storage.json import write_json
from assay.package.archive import sealed, write_tar
from assay.tools import verify
from assay.tools.recipe.published import HOME, pack_seeds
from tests.tools.test_recipe_json import entry_of
from tests.verification.made_run import made_run

ASKED = verify.VerifyRequest()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two finished runs, not to be changed."""
    home = tmp_path_factory.mktemp("runs")
    return {f"seed{seed}": made_run(home / f"seed{seed}", seed=seed).root for seed in range(2)}


@pytest.fixture(scope="module")
def packed(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_seeds(tmp_path_factory.mktemp("published"), entry_of(runs), list(runs.values()))


def checked(package: Path, folder: Path) -> dict[str, str]:
    code = verify.run(package, ASKED, folder / "verify.json")
    told = json.loads((folder / "verify.json").read_text())
    assert code == (told["verdict"] == "failed")
    return {f"{each['level']} {each['name']}": each["outcome"] for each in told["checks"]}


def unpacked(packed: Path, folder: Path) -> Path:
    tar = folder / "seeds.tar"
    tar.write_bytes(gzip.decompress(packed.read_bytes()))
    subprocess.run(["tar", "-xf", tar, "-C", folder], check=True)
    return folder / "assay-package"


def sealed_again(root: Path, folder: Path) -> Path:
    """Return the package of somebody who changed files and knows how to make the list of sums."""
    files = {
        p.relative_to(root).as_posix(): p for p in root.rglob("*") if p.is_file() and p.name != "SHA256SUMS"
    }
    write_tar(folder / "again.tar", sealed(files))
    return folder / "again.tar"


def test_what_was_packed_says_its_numbers_again(packed: Path, tmp_path: Path) -> None:
    found = checked(packed, tmp_path)
    assert "failed" not in found.values()
    assert found["V1 collider: the numbers over seeds, from raw episodes"] == "passed"


def test_equal_runs_give_an_equal_package_that_dvc_knows(
    packed: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    again = pack_seeds(tmp_path, entry_of(runs), list(runs.values()))
    assert again.read_bytes() == packed.read_bytes() and again.parent == tmp_path / HOME
    subprocess.run(["dvc", "init", "--no-scm", "-q"], cwd=tmp_path, check=True)
    assert (
        "up to date" in subprocess.run(["dvc", "status"], cwd=tmp_path, capture_output=True, text=True).stdout
    )
    again.write_bytes(again.read_bytes() + b"\0")
    assert (
        "modified" in subprocess.run(["dvc", "status"], cwd=tmp_path, capture_output=True, text=True).stdout
    )


def test_what_all_runs_have_in_common_lies_in_it_once(packed: Path, tmp_path: Path) -> None:
    root = unpacked(packed, tmp_path)
    homes = [path.parts[len(root.parts)] for path in root.rglob("pre_eval.jsonl")]
    assert homes == ["shared"] and len(list(root.rglob("post_eval.jsonl"))) == 2


def change_an_episode(root: Path) -> None:
    path = root / "seed1" / place_of("post_eval.jsonl")
    path.write_text(path.read_text().replace('"success":true', '"success":false', 1))


def change_the_verdict(root: Path) -> None:
    path = root / "recipe.json"
    told = json.loads(path.read_text())
    told["recipes"]["collider"]["runs"][1]["gain"]["low"] += 0.01
    write_json(path, told)


def drop_a_seed(root: Path) -> None:
    for path in sorted((root / "seed1").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def add_a_file(root: Path) -> None:
    (root / "more.txt").write_text("hello")


@pytest.mark.parametrize("change", [change_an_episode, change_the_verdict, drop_a_seed, add_a_file])
def test_a_package_that_was_changed_and_sealed_again_fails(
    change: Callable[[Path], None], packed: Path, tmp_path: Path
) -> None:
    root = unpacked(packed, tmp_path)
    change(root)
    assert "failed" in checked(sealed_again(root, tmp_path), tmp_path).values()
