"""`assay judge` says of results that were made elsewhere what the pipeline would say of its own, and no
more."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.core.errors import DataError
from assay.core.records import Episode
from assay.core.seeds import rng
from assay.core.storage.json import read_record, write_jsonl
from assay.stages.packing.archive import sealed, unpack, write_tar
from assay.verdict.evidence.claim.claim import Claim, Compared, Played, compare
from assay.verdict.evidence.words.remarks import remark
from assay.verdict.judge import command
from assay.verdict.judge.verdict import luck_of
from assay.verdict.statistics import intervals
from assay.verdict.statistics.tests import holm
from tests.evidence.synthetic_episodes import arm
from tests.tools.judged_files import FORMS, as_csv, as_inspect_json, as_jsonl, as_verifiers, results


def judge(before: Path, after: Path, **asked: Any) -> Claim:
    """Return the claim, without its pages."""
    return command.judge_files(before, after, command.JudgeRequest(**asked))[2].claim


def judge_whole(*words: str | Path, out: Path, code: int = 0) -> Claim:
    """Return the claim that the command writes."""
    done = CliRunner().invoke(app, ["judge", *map(str, words), "--out", str(out)])
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    return read_record(out / "claim.json", Claim, fix="")


@pytest.fixture
def better(tmp_path: Path) -> tuple[Path, Path]:
    """Two files, the second clearly better."""
    return (
        as_csv(tmp_path / "before.csv", results("before", 0.3)),
        as_csv(tmp_path / "after.csv", results("after", 0.8)),
    )


def test_assays_own_episodes_get_the_claim_that_the_pipelines_code_makes_of_them(tmp_path: Path) -> None:
    arms: tuple[list[Episode], list[Episode]] = (arm("base", 0.3), arm("trained", 0.6))
    files = [tmp_path / "before.jsonl", tmp_path / "after.jsonl"]
    for file, episodes in zip(files, arms, strict=True):
        write_jsonl(file, episodes)
    found = judge(*files)
    wanted = compare(
        *(Played(each, "", found.plan.suite_digest) for each in arms),
        found.plan,
        Compared("tasks", "sampled"),
        rng=rng("claim", luck_of(each.item_id for each in arms[0])),
    )
    said = {"warnings", "before_policy", "after_policy", "decoding"}
    assert found.model_dump(exclude=said) == wanted.model_dump(exclude=said)
    assert found.plan.guardrails == {"parsed_rate": 0.05} and found.plan.secondary == ("mean_reward",)
    assert found.gain_split is not None and found.n_clusters == 20


def _arms_in(form: str, folder: Path) -> list[Path]:
    ending, write = FORMS[form]
    folder.mkdir()
    return [
        write(folder / f"{arm}.{ending}", results(arm, rate))
        for arm, rate in (("before", 0.4), ("after", 0.6))
    ]


@pytest.fixture(scope="module")
def of_csv(tmp_path_factory: pytest.TempPathFactory) -> Claim:
    """The claim that two CSVs support."""
    folder = tmp_path_factory.mktemp("judged")
    return judge(*_arms_in("csv", folder / "csv"))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "csv"])
def test_the_same_results_give_the_same_numbers_in_every_form(
    form: str, of_csv: Claim, tmp_path: Path
) -> None:
    found = judge(*_arms_in(form, tmp_path / "form"))
    assert found.p is not None and "prompts_not_held" not in {each.code for each in found.warnings}
    numbers = (
        "before",
        "after",
        "difference",
        "p",
        "cross_check",
        "n_items",
        "draws",
        "verdict",
        "effect",
        "control",
    )
    assert {name: getattr(found, name) for name in numbers} == {
        name: getattr(of_csv, name) for name in numbers
    }
    successes = [sum(row["score"] for row in results(*arm)) for arm in (("before", 0.4), ("after", 0.6))]
    assert [found.before and found.before.value, found.after and found.after.value] == pytest.approx(
        [n / 120 for n in successes]
    )


def test_better_results_without_rivals_show_no_skill_and_it_is_said_why(
    better: tuple[Path, Path], tmp_path: Path
) -> None:
    found = judge_whole(*better, out=tmp_path / "out")
    assert (
        found.verdict == "NO SKILL SHOWN" and found.effect is not None and found.effect.direction == "better"
    )
    assert found.sentence.endswith("Results made elsewhere and judged afterwards; no baselines were given.")
    assert "but no baselines were given (--baseline NAME=FILE)" in found.reason
    assert remark("plan_afterwards", first=True) in found.warnings
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "No baselines were given" in page and "was not fixed before the results" in page
    summary = (tmp_path / "out/summary.md").read_text(encoding="utf-8")
    assert "**NO SKILL SHOWN (a gain that matters).**" in summary and "NO SKILL SHOWN" in page


@pytest.mark.parametrize(
    ("rival", "after", "verdict"), [(0.1, 0.8, "BETTER"), (0.78, 0.8, "NO SKILL SHOWN"), (0.1, 0.05, "WORSE")]
)
def test_the_word_improved_takes_rivals_that_are_beaten(
    rival: float, after: float, verdict: str, tmp_path: Path
) -> None:
    files = [
        as_csv(tmp_path / f"{name}.csv", results(name, rate))
        for name, rate in (("before", 0.4), ("after", after), ("same", rival))
    ]
    found = judge(*files[:2], rival=[f"always the same={files[2]}"])
    assert verdict != "BETTER" or found.reason.endswith(
        "and it beats the baselines that were brought: always the same"
    )
    assert found.verdict == verdict and list(found.rivals) == ["always the same"]
    assert "baselines were brought by whoever judged: always the same" in found.sentence


def test_scores_between_zero_and_one_are_judged_as_they_are(tmp_path: Path) -> None:
    for name, shift in (("before", 0.0), ("after", 0.3)):
        rows = [{"item": k, "score": round(0.6 * rng("f1", k).random() + shift, 3)} for k in range(80)]
        as_jsonl(tmp_path / f"{name}.jsonl", rows)
    found = judge(tmp_path / "before.jsonl", tmp_path / "after.jsonl")
    assert found.plan.primary == "score" and found.difference is not None and found.difference.value == 0.3
    assert found.items_changed is None and found.gain_split is None and found.tokens_per_completion is None


def test_scores_with_other_bounds_need_them_said(tmp_path: Path) -> None:
    for name, shift in (("before", 0), ("after", 3)):
        as_csv(tmp_path / f"{name}.csv", [{"item": k, "score": k % 5 + shift} for k in range(80)])
    files = (tmp_path / "before.csv", tmp_path / "after.csv")
    with pytest.raises(DataError, match=r"expected scores from 0 to 1, found 2(.|\n)*--bounds"):
        judge(*files)
    found = judge(*files, bounds="0,10")
    assert found.difference is not None and found.difference.value == 0.3


def test_before_itself_is_no_rival(better: tuple[Path, Path]) -> None:
    with pytest.raises(DataError, match="expected a baseline with results of its own, found those of before"):
        judge(*better, rival=[f"base={better[0]}"])


Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda rows: rows[2:], "1 item only in before ('q000')"),
        (lambda rows: rows[1:], "--draws 1 takes the first 1 of each"),
        (
            lambda rows: [{**row, "prompt": "Say 1."} for row in rows[:2]] + rows[2:],
            "1 item of 60 have another question",
        ),
        (
            lambda rows: [{**row, "target": "7"} for row in rows[:2]] + rows[2:],
            "have another question or target",
        ),
        (
            lambda rows: [{**rows[0], "score": None}, *rows[1:]],
            "1 of 120 results after have no score: item 'q000'",
        ),
        (lambda rows: [{**row, "cluster": "all"} for row in rows], "60 items are in another cluster"),
    ],
    ids=["an item", "a draw", "a prompt", "a target", "a score", "clusters"],
)
def test_what_differs_between_the_arms_bars_the_verdict_and_is_counted(
    change: Change, told: str, tmp_path: Path
) -> None:
    before = as_csv(tmp_path / "before.csv", results("before", 0.3))
    after = as_csv(tmp_path / "after.csv", change(results("after", 0.8)))
    found = judge(before, after)
    assert found.verdict == "NOT EVALUABLE" and told in found.reason


def test_what_cannot_be_compared_still_gets_its_page_and_package_and_an_exit_code(tmp_path: Path) -> None:
    before = as_csv(tmp_path / "before.csv", results("before", 0.3))
    after = as_csv(tmp_path / "after.csv", results("after", 0.8)[4:])
    found = judge_whole(before, after, out=tmp_path / "out", code=5)
    assert found.verdict == "NOT EVALUABLE" and "2 items only in before" in found.reason
    assert "2 items only in before" in (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert _checked(tmp_path / "out/assay-package.tar", tmp_path / "checks.json")[0] == 9


def test_draws_that_one_arm_has_more_of_can_be_left_out_and_that_is_said(tmp_path: Path) -> None:
    before = as_csv(tmp_path / "before.csv", results("before", 0.3, draws=4))
    after = as_csv(tmp_path / "after.csv", results("after", 0.8))
    found = judge(before, after, draws=2)
    assert found.draws == 2
    assert "120 results before beyond the first 2 draws of an item were left out." in map(str, found.warnings)


def test_items_with_other_ids_are_matched_by_their_content(better: tuple[Path, Path], tmp_path: Path) -> None:
    wanted = judge(*better)
    renamed = [{**row, "item": f"x{99 - int(row['item'][1:])}"} for row in results("after", 0.8)]
    found = judge(better[0], as_csv(tmp_path / "other.csv", renamed))
    assert found.difference == wanted.difference and "were matched by their content" in " ".join(
        map(str, found.warnings)
    )


def test_another_template_or_temperature_is_a_warning(tmp_path: Path) -> None:
    files = []
    for name, rate, plan in (("before", 0.3, {"temperature": 0}), ("after", 0.5, {"temperature": 1.0})):
        path = as_inspect_json(tmp_path / f"{name}.json", results(name, rate), plan={"config": plan})
        log = json.loads(path.read_text(encoding="utf-8"))
        if name == "after":
            for sample in log["samples"]:
                sample["messages"].insert(0, {"role": "system", "content": "Think."})
                sample["output"]["choices"][0]["stop_reason"] = "max_tokens"
            path.write_text(json.dumps(log), encoding="utf-8")
        files.append(path)
    found = judge(*files)
    warned = " ".join(map(str, found.warnings))
    assert (
        "asked in two ways: temperature (0, then 1)" in warned
        and "The prompt of 60 of 60 items differs" in warned
    )
    assert "100.0 % after were cut off" in warned


def test_a_log_that_was_not_finished_bars_the_verdict(tmp_path: Path) -> None:
    files = [
        as_inspect_json(tmp_path / f"{name}.json", results(name, 0.5), status=status)
        for name, status in (("before", "success"), ("after", "error"))
    ]
    found = judge(*files)
    assert "its status is error" in found.reason


def test_a_rollout_of_verifiers_that_failed_is_no_score_of_zero(tmp_path: Path) -> None:
    files = []
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        files.append(as_verifiers(tmp_path / name / "results.jsonl", results(name, 0.5)))
        told = {
            "model": f"org/{name}",
            "env_id": "sums",
            "sampling_args": {"temperature": 1.0, "max_tokens": None},
        }
        (tmp_path / name / "metadata.json").write_text(json.dumps(told), encoding="utf-8")
    rows = [json.loads(line) for line in files[1].read_text(encoding="utf-8").splitlines()]
    rows[3] |= {"reward": 0.0, "error": {"error": "ModelError", "error_chain_str": "ModelError -> Timeout"}}
    told, _, _ = command.judge_files(files[0].parent, files[0].parent, command.JudgeRequest())
    assert (told.before.files[0].model, told.title) == ("org/before", "org/before against org/before")
    as_jsonl(files[1], rows)
    found = judge(files[0], files[1])
    assert (
        found.verdict == "NOT EVALUABLE" and "no score: item 'q001' (ModelError -> Timeout)" in found.reason
    )


def test_one_question_under_many_ids_is_one_cluster(tmp_path: Path) -> None:
    files = []
    for name, right in (("before", 2), ("after", 4)):
        asked = [(k % 5, k) for k in range(300)]
        rows = [
            {"item": k, "score": int(question < right), "prompt": f"What is {question}?", "target": question}
            for question, k in asked
        ]
        files.append(as_csv(tmp_path / f"{name}.csv", rows))
    found = judge(*files)
    assert found.n_items == 300 and found.n_clusters == 5 and found.verdict == "NO EVIDENCE"
    (said,) = (each for each in found.warnings if each.code == "items_ask_the_same")
    apart = float(str(said.values["p"]))
    assert said.values["n"] == 300 and apart < 1e-9 and "are one cluster. As separate items: " in str(said)


def test_of_many_clusters_no_p_depends_on_names_or_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = {name: results(name, rate, items=120) for name, rate in (("before", 0.4), ("after", 0.5))}
    monkeypatch.setattr(intervals, "MOST_RESAMPLED", 50)
    found = set()
    for form, step in (("q{}", 1), ("{:b}", 1), ("z{:04d}", -1), ("{}.0", -1)):
        named = [
            [{**row, "item": form.format(7 * int(row["item"][1:]) % 121)} for row in rows[::step]]
            for rows in arms.values()
        ]
        files = [as_csv(tmp_path / f"{k}.csv", rows) for k, rows in enumerate(named)]
        told = judge(*files)
        assert told.p is not None and told.n_clusters == 120 and told.difference is not None
        found.add((round(told.p, 13), told.difference.low, told.smallest_detectable_points))
    assert len(found) == 1


def _checked(package: Path, out: Path) -> tuple[int, list[dict[str, str]]]:
    done = CliRunner().invoke(app, ["verify", str(package), "--out", str(out)])
    return done.exit_code, json.loads(out.read_text(encoding="utf-8"))["checks"]


def test_a_package_can_be_verified_and_what_is_changed_in_it_is_found(
    better: tuple[Path, Path], tmp_path: Path
) -> None:
    worst = as_csv(tmp_path / "worst.csv", results("worst", 0.1))
    judge_whole(*better, "--rival", f"always the same={worst}", out=tmp_path / "out")
    package = tmp_path / "out/assay-package.tar"
    code, checks = _checked(package, tmp_path / "checks.json")
    outcomes = {check["name"]: check["outcome"] for check in checks}
    assert (
        code == 9
        and outcomes["the verdict, from the rows"] == "passed"
        and outcomes["grading"] == "not shown"
    )
    folder = tmp_path / "assay-package"
    unpack(package, folder)
    for name, old, new in (
        ("claim.json", '"n_items": 60', '"n_items": 61'),
        ("report.html", "BETTER", "WORSE"),
        ("rows/after.csv", ",0.0,0.0,0,", ",1.0,1.0,1,"),
        ("judged.json", '"kind":"assay-judge/4"', '"kind":"assay-judge/3"'),  # of an earlier version
    ):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        text = (copy / name).read_text(encoding="utf-8")
        assert old in text, name
        (copy / name).write_text(text.replace(old, new, 1), encoding="utf-8")
        members = {
            path.relative_to(copy).as_posix(): path
            for path in copy.rglob("*")
            if path.is_file() and path.name != "SHA256SUMS"
        }
        write_tar(tmp_path / "changed.tar", sealed(members))
        code, checks = _checked(tmp_path / "changed.tar", tmp_path / "checks.json")
        failed = [check["found"] for check in checks if check["outcome"] == "failed"]
        assert code == 1 and len(failed) == 1 and name in failed[0], failed


@pytest.mark.long
def test_several_sets_of_results_are_called_better_by_holms_steps_over_all(tmp_path: Path) -> None:
    rates = {"before": 0.4, "strong": 0.9, "weak": 0.55, "same": 0.4}
    files = [as_csv(tmp_path / f"{name}.csv", results(name, rate)) for name, rate in rates.items()]
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["judge", *map(str, files), "--out", str(out)])
    assert done.exit_code == 0, done.exception
    with (out / "compared.csv").open(encoding="utf-8", newline="") as stream:
        rows = {row["name"]: row for row in csv.DictReader(stream)}
    assert list(rows) == ["strong.csv", "weak.csv", "same.csv"]
    p = {name: float(row["p"]) for name, row in rows.items()}
    found = {name: read_record(out / name / "claim.json", Claim, fix="").effect for name in rows}
    assert {name for name, effect in found.items() if effect and effect.direction == "better"} == {
        name for name, corrected in holm(p).items() if corrected <= 0.05
    }
    assert float(rows["strong.csv"]["level"]) == pytest.approx(0.05 / 3)
    assert "| strong.csv | NO SKILL SHOWN (a gain that matters)" in (out / "compared.md").read_text(
        encoding="utf-8"
    )
    code, _ = _checked(out / "weak.csv/assay-package.tar", tmp_path / "checks.json")
    assert code == 9 and "One of 3 sets of results" in (out / "weak.csv/report.html").read_text(
        encoding="utf-8"
    )


def test_a_rival_may_have_played_fewer_draws(better: tuple[Path, Path], tmp_path: Path) -> None:
    once = as_csv(tmp_path / "once.csv", results("once", 0.1, draws=1))
    assert judge(*better, rival=[f"always the same={once}"]).verdict == "BETTER"
