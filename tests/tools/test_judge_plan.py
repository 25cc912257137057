"""A plan made beforehand is what results are held to; exit code, summary, JUnit and package say what came."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.core import console
from assay.core.errors import ConfigError
from assay.core.seeds import rng
from assay.core.storage.json import digest, read_record
from assay.core.storage.yaml import read_yaml
from assay.rollout.dataset.suite import Unseen
from assay.rollout.evaluation.clusters import ClusterSums
from assay.stages.packing.archive import sealed, unpack, write_tar
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.judge.command import JudgeRequest, judge_files
from assay.verdict.judge.gate import gate_of
from assay.verdict.judge.plan import JudgePlan, plan_text, read_plan
from assay.verdict.statistics.bounded_mean import bounded_mean_test
from tests.house import ROOT
from tests.tools.judged_files import as_csv, as_jsonl, results

Told = tuple[int, str]


def run(*words: str | Path) -> Told:
    """Return exit code and all output of a command, on single spaces."""
    with console._OUT.capture() as said:
        done = CliRunner().invoke(app, list(map(str, words)))
    raised = "" if done.exception is None else str(done.exception)
    return done.exit_code, " ".join(f"{said.get()} {done.output} {raised}".split())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Results by name, of 60 items twice."""
    folder = tmp_path_factory.mktemp("results")
    rates = {"before": 0.4, "better": 0.8, "same": 0.42, "worse": 0.1, "rival": 0.15, "strong": 0.85}
    return {name: as_csv(folder / f"{name}.csv", results(name, rate)) for name, rate in rates.items()}


@pytest.fixture(scope="module")
def plan(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of the results before."""
    path = tmp_path_factory.mktemp("plan") / "plan.yaml"
    code, told = run("plan", files["before"], "--out", path)
    assert code == 0, told
    return path


def ended(plan: Path, before: Path, after: Path, **asked: Any) -> tuple[int, Claim]:
    """Return the exit code and the claim, without pages."""
    told, _, judged = judge_files(before, after, JudgeRequest(plan=plan, **asked))
    assert told.plan is not None
    return gate_of(judged.claim, told.plan).code, judged.claim


def gated(plan: Path, before: Path, after: Path, *words: str | Path, out: Path) -> Told:
    """Return what judging by a plan says."""
    return run("judge", "--plan", plan, before, after, "--out", out, *words)


@pytest.mark.parametrize(
    ("after", "code", "word", "failed"),
    [
        ("better", 0, "SHOWN AS PLANNED", None),
        ("same", 7, "NOT SHOWN", 2),
        ("worse", 8, "WORSE", 1),
        ("short", 5, "NOT EVALUABLE", 0),
    ],
)
def test_the_exit_code_summary_and_junit_say_what_came_of_the_plan(
    after: str, code: int, word: str, failed: int | None, files: dict[str, Path], plan: Path, tmp_path: Path
) -> None:
    files["short"] = as_csv(tmp_path / "short.csv", results("short", 0.8)[4:])
    out, junit = tmp_path / "out", tmp_path / "junit.xml"
    found, told = gated(plan, files["before"], files[after], "--junit", junit, out=out)
    assert found == code and f"plan: {word}: " in told, told
    made = digest(read_plan(plan))
    summary = (out / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith(f"### {word}: {after}.csv against before.csv\n\nPlanned: success: better")
    claim = read_record(out / "claim.json", Claim, fix="")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert made in summary and made in page and made in " ".join(map(str, claim.warnings))
    assert "The date is the word of whoever planned" in " ".join(map(str, claim.warnings))
    assert "made after the results" not in " ".join(map(str, claim.warnings))
    suite = ElementTree.parse(junit).getroot()
    cases = suite.findall("testcase")
    assert [k for k, case in enumerate(cases) if case.find("failure") is not None] == (
        [] if failed is None else [failed]
    )
    assert suite.get("failures") == str(int(failed is not None)) and suite.get("tests") == "3"


@pytest.mark.long
@pytest.mark.parametrize(("after", "code"), [("same", 7), ("worse", 8)])
def test_without_a_plan_the_code_follows_the_word_where_it_is_asked_to(
    after: str, code: int, files: dict[str, Path], tmp_path: Path
) -> None:
    pair = (files["before"], files[after], "--out", tmp_path / "out")
    assert run("judge", *pair)[0] == 0
    assert run("judge", "--gate", *pair)[0] == code


@pytest.mark.long
@pytest.mark.parametrize(
    ("names", "code"),
    [(("better", "strong"), 0), (("better", "same"), 7), (("same", "worse"), 8), (("worse", "short"), 5)],
)
def test_several_sets_of_results_are_held_to_one_plan_at_the_levels_that_holm_leaves(
    names: tuple[str, str], code: int, files: dict[str, Path], plan: Path, tmp_path: Path
) -> None:
    files["short"] = as_csv(tmp_path / "short.csv", results("short", 0.8)[4:])
    out, junit = tmp_path / "out", tmp_path / "junit.xml"
    more = (files[names[1]], "--junit", junit)
    found, told = gated(plan, files["before"], files[names[0]], *more, out=out)
    assert found == code and f"plan: exit code {code}" in told, told
    claims = {name: read_record(out / f"{name}.csv/claim.json", Claim, fix="") for name in names}
    evaluable = [claim for claim in claims.values() if claim.verdict != "NOT EVALUABLE"]
    assert min(claim.level for claim in evaluable) == 0.05 / len(evaluable)
    suites = ElementTree.parse(junit).getroot().findall("testsuite")
    failed = [int(suite.get("failures", "")) for suite in suites]
    shown = [gate_of(claim, read_plan(plan)).code == 0 for claim in claims.values()]
    assert failed == [int(not each) for each in shown] and all(shown) == (code == 0)
    for name in names:
        summary = (out / f"{name}.csv/summary.md").read_text(encoding="utf-8")
        assert digest(read_plan(plan)) in summary
        assert f"| {name}.csv | " in (out / "compared.md").read_text(encoding="utf-8")
    checked, _ = run("verify", out / f"{names[0]}.csv/assay-package.tar")
    assert checked == 9


@pytest.mark.long
def test_a_claim_that_fails_for_its_rival_passes_no_level_on(files: dict[str, Path], tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    code, told = run("plan", files["before"], "--rival", "strong", "--out", plan)
    assert code == 0, told
    files["weak"] = as_csv(tmp_path / "weak.csv", results("weak", 0.55))
    more = (files["weak"], "--rival", f"strong={files['strong']}")
    code, told = gated(plan, files["before"], files["better"], *more, out=out)
    levels = [read_record(out / f"{name}.csv/claim.json", Claim, fix="").level for name in ("better", "weak")]
    assert code == 7 and levels == [0.025, 0.025], told


def test_no_worse_is_planned_of_one_set_of_results_at_a_time(
    files: dict[str, Path], plan: Path, tmp_path: Path
) -> None:
    other = planned(plan, "margin", show="no worse", smallest_effect_points=40.0)
    code, told = gated(other, files["before"], files["same"], files["better"], out=tmp_path / "out")
    assert code == 1 and "expected one set of results after, found 2 files after" in told
    assert not (tmp_path / "out").exists()


def test_a_plan_is_read_back_as_it_was_made_and_an_edited_one_is_refused(plan: Path, tmp_path: Path) -> None:
    made, text = read_plan(plan), plan.read_text(encoding="utf-8")
    assert made.items.n_items == 60 and made.draws == 2 and made.decides == "success"
    assert f"sha256: {digest(made)}" in text
    for old, new in (
        ("draws: 2", "draws: 1"),
        ("show: better", "show: no worse"),
        ("alpha: 0.05", "alpha: 0.1"),
    ):
        edited = tmp_path / "edited.yaml"
        edited.write_text(text.replace(old, new, 1), encoding="utf-8")
        code, told = run("judge", "--plan", edited, "a.csv", "b.csv")
        assert code == 1 and "expected a plan that was not changed since its sha256" in told, told
    assert run("plan", plan, "--out", plan)[0] == 1 and plan.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows: rows[2:], "items: the plan has 60, found 59"),
        (
            lambda rows: [{**row, "item": f"x{row['item']}"} for row in rows],
            "the items' ids: the plan has sha256",
        ),
        (
            lambda rows: [{**row, "cluster": row["item"][:3]} for row in rows],
            "clusters: the plan has 60, found 6",
        ),
        (lambda rows: rows[::2], "draws of every item: the plan has 2, found 1"),
        (
            lambda rows: [{**row, "target": "another"} for row in rows],
            "the items' questions and targets: the plan has",
        ),
        (
            lambda rows: [{**row, "score": row["score"] / 2} for row in rows],
            "what decides: the plan has success",
        ),
    ],
    ids=["fewer", "others", "clusters", "draws", "questions", "scores"],
)
def test_results_that_are_not_the_planned_ones_are_not_evaluable_with_a_reason(
    change: Any, reason: str, plan: Path, tmp_path: Path
) -> None:
    arms = [
        as_csv(tmp_path / f"{name}.csv", change(results(name, rate)))
        for name, rate in (("first", 0.4), ("second", 0.8))
    ]
    code, claim = ended(plan, *arms)
    assert code == 5 and claim.verdict == "NOT EVALUABLE" and reason in claim.reason, claim.reason


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--draws", "1"), "--draws 1, where the plan has 2"),
        (("--bounds", "0,10"), "--bounds (0.0, 10.0), where the plan has (0.0, 1.0)"),
        (("--metric", "f1"), "--metric f1, where the plan has None"),
        (("--effect", "5"), "--effect 5.0, where the plan has 10.0"),
        (("--lower-is-better",), "--lower-is-better True, where the plan has False"),
        (("--rival", "same=same.csv"), "--baseline ('same',), where the plan has ()"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_option_that_says_something_else_is_refused_and_nothing_is_written(
    words: tuple[str, ...], found: str, files: dict[str, Path], plan: Path, tmp_path: Path
) -> None:
    code, told = gated(plan, files["before"], files["better"], *words, out=tmp_path / "out")
    assert code == 1 and found in told, told
    assert not (tmp_path / "out").exists()


def test_a_planned_rival_has_to_play_and_to_be_beaten(files: dict[str, Path], plan: Path) -> None:
    other = planned(plan, "rivals", rivals=("always B",))
    with pytest.raises(ConfigError, match=r"--baseline \(\), where the plan has \('always B',\)"):
        ended(other, files["before"], files["better"])
    for name, code in (("rival", 0), ("strong", 7)):
        rival = [f"always B={files[name]}"]
        assert ended(other, files["before"], files["better"], rival=rival)[0] == code


def planned(plan: Path, name: str, **changes: Any) -> Path:
    """Return a plan that differs."""
    path = plan.with_name(f"{name}.yaml")
    path.write_text(plan_text(read_plan(plan).model_copy(update=changes)), encoding="utf-8")
    return path


def test_no_worse_is_shown_where_the_interval_excludes_the_loss(
    files: dict[str, Path], plan: Path, tmp_path: Path
) -> None:
    for effect, after, code in ((40.0, "same", 0), (1.0, "same", 7), (40.0, "worse", 8)):
        other = planned(plan, "no_worse", show="no worse", smallest_effect_points=effect)
        assert ended(other, files["before"], files[after])[0] == code
    code, told = run("plan", files["before"], "--no-worse", "--alpha", "0.01", "--out", tmp_path / "p.yaml")
    assert code == 1 and "expected the level of the 95 % interval" in told


def test_less_may_be_better_and_one_sided_is_each_side_at_alpha(files: dict[str, Path], plan: Path) -> None:
    other = planned(plan, "lower", lower_is_better=True, sided="one-sided")
    code, claim = ended(other, files["before"], files["worse"])
    assert code == 0 and claim.level == 0.1
    assert ended(other, files["before"], files["better"])[0] == 8


@pytest.mark.long
def test_items_may_be_listed_or_only_counted_and_the_claim_says_which(
    files: dict[str, Path], tmp_path: Path
) -> None:
    items = [
        {"item": row["item"], "prompt": row["prompt"], "target": row["target"]} for row in results("any", 1.0)
    ]
    listed = as_jsonl(tmp_path / "items.jsonl", items[::2])
    for name, words in (("listed", ("--items", listed)), ("counted", ("--items", "60"))):
        plan = tmp_path / f"{name}.yaml"
        code, told = run("plan", *words, "--draws", "2", "--rate", "0.4", "--out", plan)
        assert code == 0 and ("warning: only how many items" in told) == (name == "counted"), told
        code, claim = ended(plan, files["before"], files["better"])
        warned = " ".join(map(str, claim.warnings))
        assert code == 0 and ("chosen by their results" in warned) == (name == "counted")
    assert read_plan(tmp_path / "listed.yaml").items.contents_sha256 is not None
    pilot = as_csv(tmp_path / "pilot.csv", results("before", 0.4, items=20))
    assert run("plan", pilot, "--items", listed, "--out", tmp_path / "both.yaml")[0] == 0
    assert read_plan(tmp_path / "both.yaml").items == read_plan(tmp_path / "listed.yaml").items


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "expected which items, or how many, found neither"),
        (("--items", "60"), "expected a pilot or stated rates, found neither"),
        (("--items", "60", "--clusters", "70", "--rate", "0.4"), "at most as many clusters as items"),
        (("--items", "60", "--rate", "0.4", "--within", "0.25"), "a variance within items up to 0.24"),
        (
            ("--items", "none.csv", "--rate", "0.4"),
            "expected a number, or a list of items, found no such file",
        ),
        (("--items", "60", "--rate", "0.4", "--date", "soon"), "expected a day, found 'soon'"),
        (("--items", "0", "--rate", "0.4"), "at most as many clusters as items"),
        (("--items", "99999999999", "--rate", "0.4"), "expected at most 10,000,000 items"),
        (("--items", "60", "--rate", "0.4", "--rival", ""), "expected names of baselines, found ''"),
        (("--items", "60", "--rate", "0.4", "--rival", "a", "--rival", "a"), "found 'a', 'a'"),
    ],
)
def test_what_cannot_be_planned_is_one_message(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    code, found = run("plan", *words, "--out", tmp_path / "plan.yaml")
    assert code == 1 and told in found, found
    assert not (tmp_path / "plan.yaml").exists()


def test_a_list_that_says_two_things_of_one_item_is_no_plan(tmp_path: Path) -> None:
    listed = as_jsonl(tmp_path / "items.jsonl", [{"item": 1, "cluster": "a"}, {"item": "1", "cluster": "b"}])
    words = ("--items", listed, "--rate", "0.4", "--out", tmp_path / "plan.yaml")
    code, found = run("plan", *words)
    assert code == 1 and "line 2: expected one cluster, prompt and target of each item" in found
    as_jsonl(listed, [{"item": 1, "cluster": "a"}] * 2 + [{"item": 2, "cluster": "a"}])
    code, found = run("plan", *words)
    assert code == 0 and read_plan(tmp_path / "plan.yaml").items.n_items == 2


@pytest.mark.long
@pytest.mark.parametrize(("items", "draws", "within"), [(60, 2, None), (120, 4, 0.1)])
def test_the_deciding_test_finds_the_planned_effect_with_the_planned_power(
    items: int, draws: int, within: float | None, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    stated = () if within is None else ("--within", str(within))
    assert (
        run("plan", "--items", str(items), "--draws", str(draws), "--rate", "0.4", *stated, "--out", plan)[0]
        == 0
    )
    power, unseen = read_plan(plan).power, Unseen(loss=read_plan(plan).worst_cluster / 100)
    assert power.smallest_detectable_points is not None
    assert power.within_item_variance == pytest.approx(within or 0.24, abs=0.003)
    luck, found, gain = rng("planned", items), 0, power.smallest_detectable_points / 100
    for _ in range(250):
        before = np.full(items, 0.4) if within is None else luck.beta(0.4 * 5 / 7, 0.6 * 5 / 7, items)
        after = np.clip(before + gain + 0.2 * luck.normal(size=items), 0, 1)
        after = np.clip(after + gain - (after - before).mean(), 0, 1)
        gaps = (luck.binomial(draws, after) - luck.binomial(draws, before)) / draws
        sums = ClusterSums(tuple(map(str, range(items))), gaps, np.ones(items))
        p, gap = bounded_mean_test(sums, unseen=unseen)
        found += p <= 0.05 and gap.value is not None and gap.value > 0
    assert 0.7 < found / 250 < 0.92


@pytest.mark.long
def test_more_draws_and_more_clusters_find_smaller_effects(tmp_path: Path) -> None:
    code, told = run("plan", "--items", "600", "--rate", "0.4", "--out", tmp_path / "plan.yaml")
    assert code == 0, told
    table = read_plan(tmp_path / "plan.yaml").power.table
    grid = np.array([[each.smallest_detectable_points for each in row.by_clusters] for row in table], float)
    assert (np.diff(grid, axis=0) < 0).all() and (np.diff(grid, axis=1) < 0).all()
    assert [each.n_clusters for each in table[0].by_clusters] == [300, 600, 1200, 2400]


@pytest.mark.long
def test_the_package_of_a_planned_verdict_holds_the_plan_and_is_found_out_where_it_is_another(
    files: dict[str, Path], plan: Path, tmp_path: Path
) -> None:
    assert gated(plan, files["before"], files["better"], out=tmp_path / "out")[0] == 0
    code, told = run("verify", tmp_path / "out/assay-package.tar")
    made = digest(read_plan(plan))
    assert code == 9 and f"V1 passed the plan, and its digest: its digest is {made}" in told, told
    assert "what was judged is what was planned" in told and "its date" in told
    folder = tmp_path / "assay-package"
    unpack(tmp_path / "out/assay-package.tar", folder)
    other = tmp_path / "other.yaml"
    assert run("plan", files["before"], "--effect", "3", "--out", other)[0] == 0
    for name, change, found in (
        (
            "plan.yaml",
            lambda text: text.replace("draws: 2", "draws: 1", 1),
            "expected a plan that was not changed",
        ),
        (
            "plan.yaml",
            lambda _: other.read_text(encoding="utf-8"),
            "not the plan that judged.json was judged by",
        ),
        ("judged.json", lambda text: text.replace('"draws":2', '"draws":3', 1), "not the plan that"),
        (
            "judged.json",
            lambda text: text.replace('"bounds":[0.0,1.0]', '"bounds":[0.0,2.0]', 1),
            "claim.json",
        ),
    ):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        text = (copy / name).read_text(encoding="utf-8")
        assert change(text) != text
        (copy / name).write_text(change(text), encoding="utf-8")
        members = {
            path.relative_to(copy).as_posix(): path
            for path in copy.rglob("*")
            if path.is_file() and path.name != "SHA256SUMS"
        }
        write_tar(tmp_path / "changed.tar", sealed(members))
        code, told = run("verify", tmp_path / "changed.tar")
        assert code == 1 and found in told, told


WORKFLOW = ROOT / "docs/judge-ci.yml"
RUN = """import sys
from tests.tools.judged_files import as_csv, results
from pathlib import Path
as_csv(Path(sys.argv[1]), results("after", {rate}))
"""


@pytest.mark.long
@pytest.mark.parametrize(("rate", "code"), [(0.85, 0), (0.05, 8)])
def test_the_steps_of_the_workflow_run_and_the_job_ends_as_the_plan_does(
    rate: float, code: int, files: dict[str, Path], plan: Path, tmp_path: Path
) -> None:
    steps = {
        step["name"]: step for step in read_yaml(WORKFLOW, fix="")["jobs"]["judge"]["steps"] if "run" in step
    }
    assert list(steps) == ["Install", "Evaluate", "Planned", "Judge", "Summary", "Comment"]
    base, root = tmp_path / "base", tmp_path / "project"
    (base / "evals").mkdir(parents=True)
    shutil.copy(plan, base / "evals/plan.yaml")
    shutil.copy(files["before"], base / "evals/before.csv")
    (base / "evals/run.py").write_text(RUN.format(rate=rate), encoding="utf-8")
    for words in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words], cwd=base, check=True
        )
    subprocess.run(["git", "clone", "-q", base, root], check=True)
    # What a pull request brings of both counts for nothing.
    (root / "evals/plan.yaml").write_text("effect: 0\n", encoding="utf-8")
    (root / "evals/before.csv").write_text("item,success\n", encoding="utf-8")
    surroundings = os.environ | {
        "GITHUB_BASE_REF": "main",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "GITHUB_STEP_SUMMARY": str(root / "page.md"),
    }
    ended = {}
    for name in ("Evaluate", "Planned", "Judge", "Summary"):
        done = subprocess.run(
            ["bash", "-e", "-c", steps[name]["run"]],
            cwd=root,
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
        )
        ended[name] = done.returncode
        assert name == "Judge" or done.returncode == 0, done.stderr
    assert ended["Judge"] == code
    assert (root / "page.md").read_text(encoding="utf-8").startswith("### ")
    assert ElementTree.parse(root / "judged/junit.xml").getroot().get("tests") == "3"
    # What needs a network or an account is not run: it installs what there is, and posts what was written.
    *hashed, own = [line.split() for line in steps["Install"]["run"].strip().split("\n")]
    assert [words[-1] for words in hashed] == [
        f"assay/requirements/{name}.txt" for name in ("build", "judge")
    ]
    assert all({"--require-hashes", "--no-deps"} <= {*words} for words in hashed)
    assert own[-1] == "./assay" and {"--no-deps", "--no-build-isolation"} <= {*own}
    assert all((ROOT / words[-1].removeprefix("assay/")).is_file() for words in hashed)
    assert steps["Comment"]["run"].split()[-1] == "judged/summary.md"


def test_the_plan_of_a_pilot_of_scores_says_that_the_score_decides(tmp_path: Path) -> None:
    rows = [{"item": k, "score": round(10 * rng("pilot", k).random(), 2)} for k in range(60)]
    pilot = as_csv(tmp_path / "pilot.csv", rows)
    code, told = run("plan", pilot, "--bounds", "0,10", "--out", tmp_path / "plan.yaml")
    assert code == 0 and "planned: the score: better than before" in told, told
    made: JudgePlan = read_plan(tmp_path / "plan.yaml")
    assert made.bounds == (0.0, 10.0) and made.decides == "score"
    code, claim = ended(tmp_path / "plan.yaml", pilot, pilot)
    assert code == 7 and claim.difference is not None and claim.difference.value == 0.0
