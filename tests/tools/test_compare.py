"""`assay runs compare` reads runs wherever they lie, puts together what belongs together, and names what does
not."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from assay.core.errors import AssayError
from assay.core.evidence_files import folder_of, place_of
from assay.core.records import Episode, HealthSummary, TrainFacts
from assay.core.storage.json import read_record, write_json, write_jsonl
from assay.package.recipe import compare
from assay.pipeline.dvc_lock import md5_at
from assay.verdict.evidence.claim.openings import Openings
from assay.verdict.evidence.recipe.tables import RecipeComparison
from assay.verdict.evidence.words.remarks import remark
from tests.evidence.conftest import make_claim, make_plan
from tests.evidence.synthetic_episodes import SUITE, arm

BEFORE = arm("base", 0.35, clusters=24)
OPENED = Openings(place=1, recipe_place=1, policies_before=0, registered=True, restored=0, sha256="0" * 64)
RESULTS = "evidence/results"


def write_run(
    project: Path, seed: int, rate: float = 0.7, *, rate_of_learning: float = 0.001, lock: bool = True
) -> Path:
    """Write a project as a run with this seed leaves it, as far as a comparison reads it."""
    after = arm(f"trained {seed} {rate_of_learning}", rate, clusters=24)
    policy = hashlib.sha256(f"{seed} {rate_of_learning} {rate}".encode()).hexdigest()
    plan = make_plan(seeds=tuple(range(6)))
    claim = make_claim(
        BEFORE, after, plan, training_seeds=(seed,), policies=("b" * 64, policy), opened=OPENED
    )
    facts = TrainFacts(
        seed=seed,
        steps=200,
        chosen_step=150,
        claim_plan_sha256="c" * 64,
        base_digest="b" * 64,
        policy_digest=f"{seed}" * 64,
        validation_suite=SUITE,
        chain=policy,
        alarms=(),
        health=HealthSummary.of([]),
    )
    write_json(project / place_of("claim.json"), claim)
    write_json(project / place_of("train.json"), facts)
    write_jsonl(project / place_of("pre_eval.jsonl"), BEFORE)
    write_jsonl(project / place_of("post_eval.jsonl"), after)
    rate_told = {"train": {"learning_rate": rate_of_learning}, "checkpoint": {"keep": seed}}
    params = {"version": 1, "seed": seed} | rate_told
    with (project / "params.yaml").open("w") as stream:
        YAML().dump(params, stream)
    if lock:
        write_lock(project, params)
    return project


def write_lock(project: Path, params: dict[str, object], code: str = "0" * 32) -> None:
    """Write what DVC would have recorded of the run."""
    outs = {name: folder_of(name) for name in ("pre_eval", "train", "post_eval")}
    outs["render_evidence"] = folder_of("report")
    stages = {}
    for stage, folder in outs.items():
        told = {name: params[name] for name in ("seed", "train")} if stage == "train" else {}
        own = {"path": "src/assay/rollout/tasks", "md5": code}
        stages[stage] = {
            "cmd": f"assay {stage}",
            "deps": [own, {"path": "models/base", "md5": f"{params['seed']}"}],
            "params": {"params.yaml": told},
            "outs": [{"path": folder, "md5": md5_at(project / folder)}],
        }
    with (project / "dvc.lock").open("w") as stream:
        YAML().dump({"schema": "2.0", "stages": stages}, stream)


def git(root: Path, *arguments: str) -> str:
    """Run git without anyone's own settings."""
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": str(root)}
    named = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    command, how = ["git", *named, *arguments], {"cwd": root, "env": os.environ | own}
    return subprocess.run(command, check=True, capture_output=True, text=True, **how).stdout.strip()


def add_experiment(root: Path, name: str, base: str) -> str:
    """Commit the work tree as `dvc exp run` does: on a reference below refs/exps/, with the branch left as it
    is."""
    git(root, "add", "-A")
    commit = git(root, "commit-tree", git(root, "write-tree"), "-p", base, "-m", name)
    git(root, "update-ref", f"refs/exps/{base[:2]}/{base[2:]}/{name}", commit)
    return commit


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the tool says, line by line, cells of tables joined; figures are left blank, for drawing them
    takes longest."""
    monkeypatch.setattr("assay.package.recipe.compare.render", lambda figure: {"png": b"", "svg": b""})
    lines: list[str] = []
    for name in ("say", "complain"):
        monkeypatch.setattr(f"assay.package.recipe.compare.{name}", lines.append)
    monkeypatch.setattr(
        "assay.package.recipe.compare.say_table",
        lambda head, rows: lines.extend(" ".join(row) for row in rows),
    )
    return lines


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Six projects, one a seed, not to be changed."""
    root = tmp_path_factory.mktemp("runs")
    return [write_run(root / f"seed{seed}", seed) for seed in range(6)]


def compared(root: Path, *names: Path | str, one_sided: bool = False) -> RecipeComparison:
    """Return the record of a comparison."""
    compare.run(root, [str(name) for name in names], one_sided=one_sided, out=root / "out")
    return read_record(root / "out/compare.json", RecipeComparison, fix="")


def test_projects_and_folders_of_results_are_one_recipe(
    tmp_path: Path, folders: list[Path], said: list[str]
) -> None:
    mixed = [folders[0], folders[1] / RESULTS, *folders[2:]]
    (recipe,) = compared(tmp_path, *mixed).recipes
    assert (recipe.verdict, recipe.seeds, recipe.recipe) == ("IMPROVED", (0, 1, 2, 3, 4, 5), "the recipe")
    assert said[0].startswith("IMPROVED: The recipe improves held-out success: +")
    assert said[-1].startswith("wrote compare.json")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    figures = {
        f"{name}.{kind}" for name in ("seeds_forest", "performance_profile") for kind in ("png", "svg")
    }
    assert written == {"compare.json", "compare.csv", "compare.md", *figures}
    assert len((tmp_path / "out/compare.csv").read_text().splitlines()) == 7
    raw = json.loads((tmp_path / "out/compare.json").read_text())
    assert raw["suite_digest"] == SUITE and raw["n_runs"] == 6 and raw["recipes"][0]["sided"] == "two-sided"


def test_without_out_nothing_is_written(tmp_path: Path, folders: list[Path], said: list[str]) -> None:
    compare.run(tmp_path, [str(folder) for folder in folders], one_sided=False, out=None)
    assert list(tmp_path.iterdir()) == []
    assert any("seed5" in line for line in said)


def test_the_same_runs_give_the_same_bytes_figures_included(tmp_path: Path, folders: list[Path]) -> None:
    names = [str(folder) for folder in folders]
    compare.run(tmp_path, names, one_sided=False, out=tmp_path / "a")
    compare.run(tmp_path, names[::-1], one_sided=False, out=tmp_path / "b")
    assert {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "b").iterdir()
    }
    assert (tmp_path / "a/seeds_forest.png").read_bytes().startswith(b"\x89PNG")


def test_experiments_of_this_commit_and_the_workspace_are_taken_and_a_copy_counts_once(
    tmp_path: Path, said: list[str]
) -> None:
    root = tmp_path / "project"
    git(write_run(root, 0), "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "base")
    base = git(root, "rev-parse", "HEAD")
    for seed in range(1, 6):
        write_run(root, seed)
        add_experiment(root, f"exp-{seed}", base)
    git(root, "update-ref", "refs/exps/exec/EXEC_HEAD", base)
    git(root, "update-ref", "refs/exps/stash", base)
    # The workspace is now exp-5 once more; seed 0 is what the branch has.
    (recipe,) = compared(root, one_sided=True).recipes
    assert [(row.seed, row.name) for row in recipe.runs] == [(seed, f"exp-{seed}") for seed in range(1, 6)]
    assert recipe.verdict == "IMPROVED"
    assert "note: workspace is the same run as exp-5, and counted once." in said
    (recipe,) = compared(root, "HEAD", *(f"exp-{seed}" for seed in range(1, 6))).recipes
    assert recipe.runs[0].name == "HEAD" and recipe.seeds == (0, 1, 2, 3, 4, 5)
    with pytest.raises(AssayError, match="seed 5 in exp-5 and in workspace"):
        compared(root, "exp-5", "workspace")


def test_an_experiment_in_a_folder_of_a_larger_repository_is_found(tmp_path: Path, said: list[str]) -> None:
    root = tmp_path / "repository/inside"
    git(write_run(root, 0).parent, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "base")
    assert compared(root, "HEAD").recipes[0].seeds == (0,)


def test_a_name_from_two_commits_is_the_one_of_the_commit_at_hand_or_refused(
    tmp_path: Path, said: list[str]
) -> None:
    root = write_run(tmp_path / "p", 0)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    bases = [git(root, "rev-parse", "HEAD")]
    write_run(root, 1)
    add_experiment(root, "same", bases[0])
    git(root, "commit", "-qam", "two")
    bases.append(git(root, "rev-parse", "HEAD"))
    write_run(root, 2)
    add_experiment(root, "same", bases[1])
    assert compared(root, "same").recipes[0].seeds == (2,)
    git(root, "commit", "-qm", "three", "--allow-empty")
    with pytest.raises(AssayError, match="2 of that name"):
        compared(root, "same")


def test_other_settings_are_another_recipe_and_both_are_compared(
    tmp_path: Path, folders: list[Path], said: list[str]
) -> None:
    others = [write_run(tmp_path / f"slow{seed}", seed, 0.2, rate_of_learning=1e-4) for seed in range(6)]
    found = compared(tmp_path, *folders, *others)
    assert [r.recipe for r in found.recipes] == ["train.learning_rate=0.0001", "train.learning_rate=0.001"]
    assert found.contests[0].verdict == "B IS BETTER"
    assert any("B IS BETTER" in line for line in said)


def test_other_code_is_another_recipe(tmp_path: Path, folders: list[Path], said: list[str]) -> None:
    other = write_run(tmp_path / "other", 9)
    write_lock(other, {"seed": 9, "train": {"learning_rate": 0.001}}, code="f" * 32)
    names = [recipe.recipe for recipe in compared(tmp_path, *folders, other).recipes]
    assert names == ["code: src/assay/rollout/tasks=00000000", "code: src/assay/rollout/tasks=ffffffff"]


def test_a_run_without_dvc_lock_is_taken_with_a_note(
    tmp_path: Path, folders: list[Path], said: list[str]
) -> None:
    bare = write_run(tmp_path / "bare", 9, lock=False)
    found = compared(tmp_path, *folders, bare)
    assert len(found.recipes) == 1 and found.notes == (remark("code_not_known", trainings=[str(bare)]),)


def _damage(project: Path, name: str, change: Callable[[str], str]) -> None:
    path = project / place_of(name)
    path.write_text(change(path.read_text()))


def _drop(project: Path) -> None:
    rows = [
        Episode.model_validate_json(line)
        for line in (project / place_of("post_eval.jsonl")).read_text().splitlines()
    ]
    write_jsonl(project / place_of("post_eval.jsonl"), rows[:-1])


def _link(project: Path) -> None:
    target = project.parent / "elsewhere.jsonl"
    (project / place_of("post_eval.jsonl")).rename(target)
    (project / place_of("post_eval.jsonl")).symlink_to(target)


def _pipe(project: Path) -> None:
    (project / place_of("post_eval.jsonl")).unlink()
    os.mkfifo(project / place_of("post_eval.jsonl"))


def _reseed(project: Path) -> None:
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("seed: 7", "seed: 8"))


def _retrain(project: Path) -> None:
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("0.001", "0.002"))


def _edit(old: str, new: str, *names: str) -> Callable[[Path], object]:
    """Return what puts one text in the place of another in files of a run."""
    return lambda run: [_damage(run, name, lambda text: text.replace(old, new)) for name in names]


def _remove(name: str) -> Callable[[Path], object]:
    return lambda run: (run / name).unlink()


def _cut(project: Path) -> None:
    _damage(project, "post_eval.jsonl", lambda text: text[:-40])


OTHERS = "expected the files that the run wrote, found others"
# By whether there is a dvc.lock, what is done, and what is said.
HOSTILE: dict[str, tuple[bool, Callable[[Path], object], str]] = {
    "a missing file": (False, _remove(place_of("train.json")), "train.json"),
    "no claim": (False, _remove(place_of("claim.json")), "found no report/claim.json"),
    "no settings": (False, _remove("params.yaml"), "found no params.yaml"),
    "a damaged line": (False, _edit('{"cluster', '["cluster', "post_eval.jsonl"), "line 1"),
    "a half line": (False, _cut, "post_eval.jsonl, line 192"),
    "a missing draw": (False, _drop, "1 missing"),
    "a link that leaves": (False, _link, "a link that leaves"),
    "a pipe": (False, _pipe, "a pipe, socket or device"),
    "not UTF-8": (False, lambda p: (p / place_of("claim.json")).write_bytes(b"\xff"), "UTF-8"),
    "another seed": (False, _reseed, "7 in train.json, 8 in params.yaml"),
    "an edited episode": (
        True,
        _edit('"success":false', '"success":true', "post_eval.jsonl"),
        f"post_eval: {OTHERS}",
    ),
    "an edited page beside the claim": (
        True,
        lambda p: (p / place_of("report.html")).write_text("IMPROVED"),
        f"report: {OTHERS}",
    ),
    "a pipe beside the episodes": (
        True,
        lambda p: os.mkfifo(p / place_of("pre_eval_greedy.jsonl")),
        f"pre_eval: {OTHERS}",
    ),
    "settings changed since": (True, _retrain, "is 0.002, and 0.001 is what train ran with"),
    "a lock of nothing": (True, lambda p: (p / "dvc.lock").write_text("stages: 3\n"), "stages missing"),
    "another suite": (False, _edit(SUITE, "6" * 64, "claim.json"), "one suite"),
    "another base": (False, _edit("b" * 64, "e" * 64, "claim.json", "train.json"), "one base policy"),
    "not evaluable": (
        False,
        _edit('"verdict": "IMPROVED"', '"verdict": "NOT EVALUABLE"', "claim.json"),
        "is NOT EVALUABLE",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_run_that_cannot_be_trusted_is_refused_and_named(
    tmp_path: Path, folders: list[Path], said: list[str], what: str
) -> None:
    lock, spoil, words = HOSTILE[what]
    bad = write_run(tmp_path / "the bad one", 7, lock=lock)
    spoil(bad)
    with pytest.raises(AssayError) as caught:
        compared(tmp_path, *folders, bad)
    assert words in str(caught.value) and "the bad one" in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["nosuch", "-x", "", "a b", "HEAD:params.yaml", "../..", "\x00"])
def test_a_name_that_is_no_run_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(AssayError):
        compare.run(tmp_path, [name], one_sided=False, out=None)


def test_a_link_in_a_commit_and_a_commit_without_a_run_are_refused(tmp_path: Path) -> None:
    root = write_run(tmp_path / "p", 0)
    (root / place_of("train.json")).unlink()
    (root / place_of("train.json")).symlink_to("/etc/hostname")
    git(root, "init", "-q")
    git(root, "add", "params.yaml")
    git(root, "commit", "-qm", "empty")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "link")
    for name, words in (("HEAD", "a link or a folder"), ("HEAD~1", "no such file")):
        with pytest.raises(AssayError, match=words):
            compare.run(root, [name], one_sided=False, out=None)


def test_all_runs_that_cannot_be_read_are_said(tmp_path: Path, folders: list[Path], said: list[str]) -> None:
    with pytest.raises(AssayError, match="2 that cannot"):
        compared(tmp_path, folders[0], "nosuch", tmp_path)
    assert any(line.startswith("nosuch:") for line in said) and any(str(tmp_path) in line for line in said)
    assert all("\nFix: " in line for line in said), "each with its own way on"


def test_an_out_that_is_a_file_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(AssayError, match="--out with another name"):
        compared(tmp_path, "nosuch")
    assert (tmp_path / "out").read_text() == "mine"
