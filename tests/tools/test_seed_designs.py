"""Forgeries of a package of seeds, covered up with assay's own code: each is found where it is due."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import seed_designs as designs
from benchmarks.resealing import files_in, write

from assay.package.verification.checks import looked
from assay.package.verification.content.tables import TRAINING_LOG, sampled_of
from assay.package.verification.packed_seed import PackedSeed, looks_at, seeds_apart
from assay.package.verification.suites import AFTER, Drawn, draws_apart, merged_draws
from tests.house import ROOT

# Of each kind those that differ in what finds them: in a package with logs and, if that is another check, in
# one without.
FOUND: dict[str, tuple[str | None, ...]] = {
    "arms: control is the base": ("arms",),
    "tokens: one everywhere": ("tokens",),
    "tokens: prompts of zeros": ("openings",),
    "tokens: opening cut short": ("tokens",),
    "seeds: another training under other digests": ("seeds apart",),
    "seeds: after of another seed": ("seeds apart",),
    "settings: sha256 of the plan": ("plan before training",),
    "settings: more results": ("names",),
    "facts: control of another seed": ("policies",),
    "facts: honest play": ("alarms", "tables of the training"),
    "facts: other records opened": ("ledger",),
    "training: rewards in the log": ("training tables", "tables of the training"),
    "training: rewards that rise": ("training tables", "tables of the training"),
    "training: learning rate": ("training tables", "tables of the training"),
    "training: checkpoints": ("training tables", "tables of the training"),
    "training: validations": ("training tables", "tables of the training"),
    "training: chosen step": ("checkpoint", "tables of the training"),
    "training: alarms emptied": ("alarms", "tables of the training"),
    "training: losses": ("training tables", None),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> designs.Runs:
    return designs.honest_runs(tmp_path_factory.mktemp("honest"))


def failures(runs: designs.Runs, folder: Path, *, logged: bool) -> Iterator[str]:
    """Yield what fails of all that is looked at in trainings, but for their claims, which nobody forged."""
    for name, files in runs.items():
        kept = {each: content for each, content in files.items() if logged or designs.LOGGED not in each}
        write(kept, folder / name)
    packages = {name: PackedSeed(folder / name) for name in runs}
    for check in looks_at(packages[designs.ONE], folder / "work"):
        if check.outcome == "failed":
            yield check.name
    if looked("V3", "seeds apart", lambda: seeds_apart(packages)).outcome == "failed":
        yield "seeds apart"


def test_trainings_as_they_were_are_well(honest: designs.Runs, tmp_path: Path) -> None:
    for logged in (True, False):
        assert list(failures(honest, tmp_path / str(logged), logged=logged)) == []


def test_a_curve_of_another_training_is_found_where_a_loss_is_none(
    honest: designs.Runs, tmp_path: Path
) -> None:
    (place,) = (name for name in honest[designs.ONE] if name.endswith(TRAINING_LOG))
    head, first, *rest = honest[designs.ONE][place].decode().splitlines(keepends=True)
    at = head.rstrip().split(",").index("loss")
    cells = first.rstrip("\n").split(",")
    content = (head + ",".join([*cells[:at], "", *cells[at + 1 :]]) + "\n" + "".join(rest)).encode()
    for name, files in honest.items():
        write(files | {place: content}, tmp_path / name)
    found = seeds_apart({name: PackedSeed(tmp_path / name) for name in honest}).wrong
    assert any("reward and loss of every step are those of" in fault for fault in found), found


@pytest.mark.parametrize("name", FOUND)
def test_a_design_is_found(name: str, honest: designs.Runs, tmp_path: Path) -> None:
    runs = {run: dict(files) for run, files in honest.items()}
    designs.DESIGNS[name].forge(runs)
    for logged, expected in zip((True, False), FOUND[name], strict=False):
        found = list(failures(runs, tmp_path / str(logged), logged=logged))
        assert expected in found if expected else found == [], found


def test_the_better_draw_of_every_item_is_no_chance_in_a_shipped_seed(tmp_path: Path) -> None:
    seed, homes = "collider-tiny-seed0", ("shared", "collider-tiny-seed0")
    with tarfile.open(ROOT / "evidence/seeds/collider.tar.gz") as archive:
        wanted = [each for each in archive if each.name.split("/")[1] in homes]
        archive.extractall(tmp_path, wanted, filter="data")
    for home in homes:
        shutil.copytree(tmp_path / "assay-package" / home, tmp_path / seed, dirs_exist_ok=True)
    package = PackedSeed(tmp_path / seed)
    assert draws_apart(package, of=sampled_of).wrong == []
    files = files_in(tmp_path / seed)
    designs.rows("post_eval.jsonl", designs.better_draw(texts_only=True))(files)
    write(files, tmp_path / "forged")
    (wrong,) = draws_apart(PackedSeed(tmp_path / "forged"), of=sampled_of).wrong
    assert f"{AFTER}.jsonl: the draws of 0 of 512 items differ in texts, and of 123 of 128" in wrong


def test_draws_that_never_differ_are_told_by_as_many_trainings_as_it_takes() -> None:
    """One seed with six of 128 proves little; ten of them do."""

    def suite(n: int, differing: int) -> list[Drawn]:
        return [Drawn(str(k), draw, bool(draw) or k >= differing, k) for k in range(n) for draw in range(2)]

    one = (suite(512, 0), suite(128, 6))
    assert merged_draws([one])[1] == []
    (wrong,) = merged_draws([one] * 10)[1]
    assert "0 of 5120 items differ in success, and of 60 of 1280" in wrong
    assert merged_draws([(suite(512, 20), suite(128, 6))] * 10)[1] == []
