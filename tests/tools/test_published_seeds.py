"""The raw episodes of every seed are a package of their own, and every number over seeds follows from it."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.core.errors import PackageError
from assay.core.evidence_files import folder_of, place_of
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import write_json
from assay.package import checking as verify
from assay.package import pack
from assay.package.recipe.check_seeds import HOME, check_seeds, pack_seeds
from assay.package.recipe.recipe_file import read_stages
from assay.package.verification.checks import CODES, Check
from assay.pipeline.dvc_lock import md5_at
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import sealed, write_tar
from tests.house import ROOT
from tests.packaging.canaries import drawn
from tests.tools.test_recipe_json import entry_of
from tests.verification.flipped import unfound_flips
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


def checked(package: Path, folder: Path, asked: verify.VerifyRequest = ASKED) -> dict[str, str]:
    code = verify.run(package, asked, folder / "verify.json")
    told = json.loads((folder / "verify.json").read_text())
    assert code == CODES[told["verdict"]]
    names = {f"{each['level']} {each['name']}": each for each in told["checks"]}
    outcomes = {f"outcome of {name}": each["outcome"] for name, each in names.items()}
    return outcomes | {name: each["found"] for name, each in names.items()}


def unpacked(packed: Path, folder: Path) -> Path:
    tar = folder / "seeds.tar"
    tar.write_bytes(gzip.decompress(packed.read_bytes()))
    subprocess.run(["tar", "-xf", tar, "-C", folder], check=True)
    return folder / "assay-package"


def sealed_again(root: Path, folder: Path) -> Path:
    """Return the package of somebody who changed files and knows how to make the list of sums."""
    files = {p.relative_to(root).as_posix(): p for p in root.rglob("*") if p.is_file()}
    del files["SHA256SUMS"]
    write_tar(folder / "again.tar", sealed(files))
    return folder / "again.tar"


def test_what_was_packed_says_its_numbers_again(packed: Path, tmp_path: Path) -> None:
    found = checked(packed, tmp_path)
    assert "failed" not in found.values(), found
    assert {"V1 seed0: claim", "V1 seed1: claim", "V1 data", "V1 figure"} <= found.keys()


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


def test_pack_writes_the_same_of_the_folders_of_runs(
    packed: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    copies = [Path(shutil.copytree(run, tmp_path / name)) for name, run in runs.items()]
    shutil.copytree(ROOT / "configs", copies[0] / "configs")
    made = pack(copies, tmp_path / "mine.tar.gz")
    assert made.path.read_bytes() == packed.read_bytes()
    assert plain.check(made.path, sha256=made.sha256).ok


def test_a_secret_in_the_data_of_a_run_is_not_packed(runs: dict[str, Path], tmp_path: Path) -> None:
    copies = {name: Path(shutil.copytree(run, tmp_path / name)) for name, run in runs.items()}
    notes = copies["seed1"] / "data/collider/NOTES.md"
    notes.write_text(f"api_token = {drawn('of a run', 40)}\n")
    with pytest.raises(PackageError, match=r"data/collider/NOTES\.md"):
        pack_seeds(tmp_path / "published", entry_of(copies), list(copies.values()))


def test_what_all_runs_have_in_common_lies_in_it_once(packed: Path, tmp_path: Path) -> None:
    root = unpacked(packed, tmp_path)
    homes = [path.parts[len(root.parts)] for path in root.rglob("pre_eval.jsonl")]
    assert homes == ["shared"] and len(list(root.rglob("post_eval.jsonl"))) == 2


def edited(path: Path, one: str, other: str) -> None:
    text = path.read_text()
    assert one in text
    path.write_text(text.replace(one, other, 1))


def told(found: dict[str, str], name: str) -> str:
    """Return what a check that failed says."""
    assert found[f"outcome of {name}"] == "failed", found
    return found[name]


def test_every_edit_of_any_seed_is_found_and_named(packed: Path, tmp_path: Path) -> None:
    root = unpacked(packed, tmp_path)
    edited(root / "seed1" / place_of("post_eval.jsonl"), '"success":true', '"success":false')
    claim = root / "seed0" / place_of("claim.json")
    number = json.loads(claim.read_text())["difference"]["low"]
    edited(claim, f'"low": {number}', '"low": 0.123')
    edited(root / "seed0" / place_of("training_log.csv"), "\n2,", "\n2,0")
    recipe = json.loads((root / "recipe.json").read_text())
    recipe["recipes"]["collider"]["runs"][1]["gain"]["low"] += 0.01
    write_json(root / "recipe.json", recipe)
    edited(root / "collider.svg", "</svg>", "<!-- drawn by hand --></svg>")
    (root / "more.txt").write_text("hello")
    found = checked(sealed_again(root, tmp_path), tmp_path)
    assert "post_eval: 1 episode graded otherwise" in told(found, "V1 seed1: claim")
    assert "claim.json, difference.low: 0.123 is stored" in told(found, "V1 seed0: claim")
    locked = told(found, "V3 dvc.lock")
    assert f"seed0/{folder_of('train')}" in locked and f"seed1/{folder_of('post_eval')}" in locked
    assert "recipes.collider." in told(found, "V1 collider: the numbers over seeds, from raw episodes")
    assert "collider.svg" in told(found, "V1 figure") and "more.txt" in told(found, "V1 recipe")


def test_who_edits_an_episode_and_all_that_vouches_for_it_still_needs_its_text(
    packed: Path, tmp_path: Path
) -> None:
    root = unpacked(packed, tmp_path)
    path, lock = root / "seed1" / place_of("post_eval.jsonl"), root / "seed1/dvc.lock"
    edited(path, '"success":true', '"success":false')
    for home in ("shared", "seed1"):
        shutil.copytree(root / home, tmp_path / "whole", dirs_exist_ok=True)
    whole, recorded = tmp_path / "whole" / folder_of("post_eval"), lock.read_text()
    (before,) = {
        out["md5"]
        for out in read_stages(root / "seed1")["post_eval"]["outs"]
        if out["path"] == folder_of("post_eval")
    }
    lock.write_text(recorded.replace(before, md5_at(whole)))
    recipe = json.loads((root / "recipe.json").read_text())
    recipe["recipes"]["collider"]["lock_sha256"]["seed1"] = sha256_bytes(lock.read_bytes())
    write_json(root / "recipe.json", recipe)
    found = checked(sealed_again(root, tmp_path), tmp_path)
    assert found["outcome of V3 dvc.lock"] == "passed"
    assert "post_eval: 1 episode graded otherwise" in told(found, "V1 seed1: claim")


@pytest.mark.parametrize(
    ("gone", "said"),
    [("seed1", "seed1: expected the files of every run"), ("shared/data", "it holds no data, so no episode")],
)
def test_a_package_without_a_seed_or_without_data_says_so_in_one_line(
    gone: str, said: str, packed: Path, tmp_path: Path
) -> None:
    root = unpacked(packed, tmp_path)
    shutil.rmtree(root / gone)
    assert said in told(checked(sealed_again(root, tmp_path), tmp_path), "V1 runs")


def test_a_byte_of_any_member_that_is_another_is_found(packed: Path, tmp_path: Path) -> None:
    root = unpacked(packed, tmp_path)
    work = iter(range(1000))

    def look(package: Path, name: str) -> Iterator[Check]:
        folder = tmp_path / f"work{next(work)}"
        folder.mkdir()
        # Lazily: what a dvc.lock or provenance.json vouches for is looked at before anything is graded.
        return check_seeds(package, folder, processes=1)

    assert unfound_flips(root, look) == []
