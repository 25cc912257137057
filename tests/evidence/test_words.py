"""What a claim says is a code with values; its English stands in one place, and in golden files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from tests.house import ROOT

from assay.core.records import Alarm, Interval, RuleSummary, TrainAlarm
from assay.rollout.dataset.audit_records import Overlap
from assay.rollout.dataset.external import WholeFacts
from assay.verdict.evidence.words import reference
from assay.verdict.evidence.words.english import KINDS, TEXTS
from assay.verdict.evidence.words.remarks import Remark, remark, values_of
from assay.verdict.evidence.words.sentences import controls_said, heading
from conftest import make_claim, make_plan
from synthetic_episodes import arm

GAP = Interval(value=0.086, low=0.041, high=0.13, n=40)
RULE = RuleSummary(rule="kl", level="RED", first_step=3, worst_step=9, times=1)
RUNG = Alarm(flag="empty_fields", rate=0.125, threshold=0.05, n=64)
SHARED = Overlap(kind="scenario", splits=("heldout", "train"), count=2, first=("a", "b"))
WHOLE = WholeFacts(
    architecture="Other",
    parameters=2_000_000,
    base_architecture="Base",
    base_parameters=1_000_000,
    other_tokenizer=True,
    n_prompts=8,
    n_other_prompts=2,
)
SEEDS = [{"name": "null", "points": 1.25, "beaten": 2}, {"name": None, "points": -1.25, "beaten": 0}]
RIVALS = [{"name": "null", "difference": GAP}, {"name": "few_shot", "difference": GAP}]
INNER, CAUSE = remark("leak", overlap=SHARED), remark("aa_failed", level=0.01)
# By name, since values of one name are of one kind but where a code says otherwise.
VALUES: dict[str, Any] = {
    "all_after": 0.5, "all_before": 0.125, "any_after": 0.75, "any_before": 0.25, "better": 295,
    "by_luck": 0.11, "draws": 4, "gain": 0.4, "k": 2, "solved": 2, "steps": 5, "stratum": "tier=few",
    "suites": [{"name": "traps", "difference": GAP}],
    "tokens_after": 33.1, "tokens_before": 31.8, "turns_after": 8.5, "turns_before": 8.0, "worse": 7,
    "again": 40, "drawn": 3, "higher": 12, "lower": 1, "passages": 6, "points": 2.5, "other": "after",
    "other_most": 60.0, "texts": True,
    "after": 0.25, "alarm": RULE, "among": None, "answers": 4, "arm": "after", "before": 0.5, "brier":
    0.2, "changes": [GAP, GAP], "clusters": "scenarios", "constant": 0.25, "cut": ["think", "fence"],
    "detectable": 12.34, "difference": GAP, "elsewhere": 2, "expected": "4 draws", "fewest": 2, "file":
    "a.jsonl", "files": ["a.jsonl"], "first": "before", "fixed": 3, "found": "3 draws", "flags": ["a",
    "b"], "greedy": 40.0, "here": 1, "how": "by\nhand", "items": ["q1", "q2"],
    "items_fixed": False, "last": 9, "level": 0.05, "looks": 20,
    "lost": [CAUSE], "limits": [{"name": "health.retries", "set": 9.0, "usual": 2}],
    "made": "2026-01-02", "margin": 0.05, "margins": [{"change": "fall", "points": 2.5}],
    "matters": 10.0, "measure": "parsed_rate", "measured": 0.7, "measures": ["parsed_rate"], "model":
    WHOLE, "most": 7, "n": 3, "n_clusters": 2, "needed": 6, "note": "odd", "of": 12, "of_plan": 1,
    "overlap": SHARED, "p": 0.0006, "parsed": GAP, "place": 4, "planned": "plan", "played": "held-out",
    "power": 0.8, "reason": "looked at", "right": 0.75, "rival": "null", "rivals": ["null", "other"],
    "rule": "kl", "rules": ["kl from step 9"], "runs": 5, "sampled": 30.0, "seed": 7, "seeds": [7, 8],
    "settings": [{"name": "t", "before": 0, "after": 1}], "sha256": "ab12", "share": 0.75, "status":
    "error", "step": 3, "stopped": "step 3", "strata": ["tier=few"], "suite": "cd" * 32, "times": 2,
    "trained": 50.0, "what": "draws", "where": "a.jsonl, line 3", "worst": 50.0,
    "alpha": 0.05, "asked": "two-sided", "missing": [5], "more": [6, 7], "pairs": 3, "reasons": [CAUSE],
    "sided": "two-sided", "text": "as it\nwas", "training": "seed3", "trainings": ["seed3", "seed4"],
}  # fmt: skip
OF_CODE: dict[str, dict[str, Any]] = {
    "alarm": {"alarm": RUNG},
    "base_fine_tuned": {"model": "small", "rows": 40, "of": 80, "steps": 5},
    "alarm_in_training": {
        "alarm": TrainAlarm(source="batch", first_step=3, times=2, worst_step=9, worst=RUNG)
    },
    "collapsed": {
        "answers": [
            {"name": "city", "value": "Rome", "share_before": 0.1, "share_after": 0.99, "n_after": 40}
        ]
    },
    "control_failed": {"reason": CAUSE},
    "control_not_run": {"reason": remark("aa_one_draw")},
    "empty": {"arms": [{"arm": "before", "n": 3, "of": 12}]},
    "form_only": {"right": GAP},
    "items_in_one_arm": {
        "arms": [{"arm": "before", "n": 1, "items": ["q1"]}, {"arm": "after", "n": 2, "items": ["q2", "q3"]}]
    },
    "best_of_answers": {"answers": ["8"]},
    "bounds_not_reached": {"bounds": [0.0, 100.0], "least": 0.0, "most": 4.0},
    "clusters_not_held": {"alone": False, "rows": 4},
    "cut_off_in_both": {"shares": [0.2, 0.19]},
    "cut_off_in_one_arm": {"shares": [0.08, 0.0]},
    "clusters_spelled_alike": {"names": 30, "n": 5},
    "draws_in_order": {"n": 60, "higher": 40, "lower": 0, "most": 1},
    "draws_picked": {"examples": ["q1: 0, 3", "q2: 1, 7"]},
    "failed_counts_as_right": {"fault": "empty", "counts": [0, 12], "of": [120, 120], "points": 10.0},
    "graded_by_itself": {"model": "org/tuned"},
    "graded_otherwise": {"k": 13, "n": 60},
    "scored_twice": {"n": 60},
    "target_counts_as_wrong": {"counts": [24, 0], "of": [24, 30]},
    "target_in_prompt": {"counts": [0, 119], "of": [120, 120]},
    "target_repeated": {"counts": [1, 80], "of": [33, 87]},
    "recipe_place": {"level": 0.0025},
    "same_run": {"other": "seed4"},
    "failed_in_one_arm": {"fault": "timeout", "counts": [12, 0], "of": [120, 120], "points": 10.0},
    "limit_decides": {"setting": "max_tokens", "before": "64", "after": "4096", "shares": [0.25, 0.0]},
    "too_few_in_common": {"level": None},
    "measured_otherwise": {
        "task": "sums",
        "differences": [{"name": "filter", "before": "strict-match", "arm": "flexible-extract"}],
    },
    "not_known_alike": {"unknown": [{"arms": ["before", "after"], "names": ["filter", "grader"]}]},
    "missing_counted_worst": {"arms": [{"arm": "before", "n": 3, "of": 60, "failed": 2, "unscored": 1}]},
    "missing_left_out": {"arms": [{"arm": "before", "n": 3}, {"arm": "after", "n": 1}]},
    "one_model": {"model": "org/base"},
    "rival_no_result": {"silent": False, "scores": [0.0], "n": 11},
    "no_score": {"items": [{"item": "q1", "why": ""}, {"item": "q2", "why": "Timeout"}]},
    "of_named_data": {"found": INNER},
    "of_secondary_suite": {"found": INNER},
    "other_draws": {
        "arms": [{"arm": "before", "fewest": 2, "most": 2}, {"arm": "after", "fewest": 2, "most": 7}]
    },
    "other_sides": {"planned": "one-sided"},
    "prompting_as_good": {"rivals": RIVALS[1:]},
    "prompting_better": {"rivals": RIVALS},
    "rivals_not_beaten": {"rivals": RIVALS},
    "seeds_not_beaten": {"rivals": SEEDS},
    "worse_on_suite": {"suite": "traps"},
    "would_bar": {"found": INNER},
}


def example(code: str) -> Remark:
    """Return a remark of this code."""
    known = VALUES | OF_CODE.get(code, {})
    assert not (new := set(values_of(code)) - known.keys()), f"add an example of {sorted(new)} to VALUES"
    return remark(code, **{name: known[name] for name in values_of(code)})


def test_the_english_of_every_code_is_that_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    lines = []
    for code in TEXTS:
        found = example(code)
        assert Remark.model_validate_json(found.model_dump_json()) == found
        lines += [f"{code}: {found}", *([f"    {found.kind}"] if code in KINDS else [])]
    golden("english.txt", "\n".join(lines) + "\n")


def test_claims_in_english_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    base = arm("base", 0.35, clusters=40)
    better = arm("trained", 0.65, clusters=40)
    alone = {"rivals": {}}
    cases: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
        "better": (better, {}, {}),
        "better, by less than matters": (better, {"smallest_effect_points": 30.0}, {}),
        "better, and worse beside": (arm("rash", 1.2, parse_rate=0.6, clusters=40), {}, {}),
        "worse": (arm("worse", 0.05, clusters=40), {}, {}),
        "equivalent": (arm("same", 0.35, clusters=40), {"smallest_effect_points": 40.0}, {}),
        "nothing shown": (arm("same", 0.35, clusters=40), {}, {"level": 0.001}),
        "barred": (better[:-1], {}, {"stops": [remark("log_not_whole")]}),
        "a draft": (better, {}, {"split": "validation"}),
        "made elsewhere": (better, {}, {"split": "tasks", "training_seeds": ()}),
        "made elsewhere, without rivals": (better, alone, {"split": "tasks", **alone}),
        "made elsewhere, by a plan": (better, {}, {"split": "tasks", "notes": [example("planned")]}),
    }
    blocks = []
    for name, (after, plan, changes) in cases.items():
        found = make_claim(base, after, make_plan(**plan), **changes)
        said = [
            heading(found),
            found.sentence,
            found.first_said,
            found.reason,
            *map(str, found.warnings),
            controls_said(found),
        ]
        blocks.append("\n".join([f"# {name}", *filter(None, said)]) + "\n")
    golden("claims.txt", "\n".join(blocks))


def test_the_page_of_codes_and_the_schemas_are_those_of_the_code() -> None:
    renew = "./run assay publish readme renews it"
    assert (ROOT / reference.PAGE).read_text(encoding="utf-8") == reference.codes_page(), renew
    for name, kind in reference.SCHEMAS.items():
        assert (ROOT / name).read_text(encoding="utf-8") == reference.schema_of(kind), renew


def test_every_code_is_said_somewhere() -> None:
    files = (ROOT / "src/assay").rglob("*.py")
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert not [code for code in TEXTS if f'"{code}"' not in source]


@pytest.mark.parametrize(
    ("code", "values", "why"),
    [
        ("no_such", {}, "no code of this version"),
        ("few_clusters", {"n": 3}, "has the values"),
        ("few_clusters", {"n": 3, "clusters": "x", "more": 1}, "has the values"),
        ("not_shown", {"level": "x", "detectable": None}, "cannot be said"),
        ("more_tokens", {"before": 0, "after": 1}, "cannot be said"),
        ("leak", {"overlap": {"kind": "scenario"}}, "cannot be said"),
        ("would_bar", {"found": {"code": "no_such", "values": {}}}, "cannot be said"),
        ("rivals_not_beaten", {"level": 0.05, "rivals": [{}]}, "cannot be said"),
    ],
)
def test_what_cannot_be_said_is_no_remark(code: str, values: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Remark.model_validate({"code": code, "values": values})
