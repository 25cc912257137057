"""V2 and V3 find what does not hold together, say where, and never fall over a file that is no file of
ours."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assay.core.evidence_files import place_of
from assay.core.storage.json import dumps
from assay.package.verification import code, locked, stated, suites
from assay.package.verification.checks import Check, LookResult, looked
from assay.package.verification.content import training, weights
from assay.package.verification.content.regraded import regraded
from assay.package.verification.levels import CONSISTENT, consistent, settings
from assay.package.verification.unpacked import Unpacked

RESULTS = "evidence/results"
Tamper = Callable[[Path], None]


def edit(name: str, old: str, new: str, count: int = 1) -> Tamper:
    def tamper(root: Path) -> None:
        path = root / name
        text = path.read_text(encoding="utf-8")
        assert re.search(old, text), f"{old} is not in {name}"
        path.write_text(re.sub(old, new, text, count=count), encoding="utf-8")

    return tamper


def lines(name: str, change: Callable[[list[str]], Iterable[str]]) -> Tamper:
    def tamper(root: Path) -> None:
        path = root / place_of(name)
        path.write_text(
            "".join(f"{line}\n" for line in change(path.read_text(encoding="utf-8").split("\n")[:-1])),
            encoding="utf-8",
        )

    return tamper


def record(name: str, change: Callable[[Any], None]) -> Tamper:
    def tamper(root: Path) -> None:
        path = root / place_of(name)
        value = json.loads(path.read_text(encoding="utf-8"))
        change(value)
        path.write_text(json.dumps(value, sort_keys=True, indent=2) + "\n", encoding="utf-8")

    return tamper


def swap(one: str, other: str) -> Tamper:
    def tamper(root: Path) -> None:
        a, b = root / one, root / other
        left, right = a.read_bytes(), b.read_bytes()
        a.write_bytes(right)
        b.write_bytes(left)

    return tamper


def poisoned(root: Path) -> None:
    path = root / "models/adapter/adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + b"\x00\x00\xc0\x7f")


def second_validation_lost(all_lines: list[str]) -> list[str]:
    return [line for line in all_lines if json.loads(line)["step"] != 2]


def scale_one(value: Any) -> None:
    value["chosen_step"] = 0


def without_base(root: Path) -> None:
    shutil.rmtree(root / RESULTS / "base")


def added(name: str) -> Tamper:
    def tamper(root: Path) -> None:
        (root / name).write_text("x", encoding="utf-8")

    return tamper


LOCKED = f"^{RESULTS}/report: render_evidence of dvc.lock"
FOUND: list[tuple[str, Tamper, Callable[[Unpacked], LookResult], str]] = [
    ("an edited file", edit(place_of("summary.md"), "a", "b"), locked.lock_holds, LOCKED),
    (
        "a missing file of a folder",
        lambda root: (root / place_of("summary.md")).unlink(),
        locked.lock_holds,
        LOCKED,
    ),
    (
        "a missing file",
        lambda root: (root / "evidence/README.md").unlink(),
        locked.lock_holds,
        "README.md: not in the package",
    ),
    ("a missing folder", without_base, locked.lock_holds, f"{RESULTS}/base: not in the package"),
    ("an added file of a folder", added(f"{RESULTS}/report/more.txt"), locked.lock_holds, LOCKED),
    (
        "an added file",
        added(f"{RESULTS}/more.txt"),
        locked.lock_whole,
        "more.txt: no stage of dvc.lock wrote",
    ),
    (
        "another setting",
        edit("params.yaml", "steps: 6", "steps: 7"),
        locked.lock_whole,
        "train.steps|params.yaml, train",
    ),
    (
        "a stage without the plan",
        edit("dvc.lock", f"- path: {place_of('claim_plan.json')}", "- path: other.json", 9),
        locked.lock_whole,
        "claim_plan.json",
    ),
    ("another adapter", poisoned, weights.digests_hold, "models/adapter on its base: digest"),
    ("NaN in the adapter", poisoned, weights.weights_sane, "NaN or Inf"),
    (
        "a pickle",
        lambda root: (root / "models/adapter/more.bin").write_bytes(b"\x80\x04."),
        weights.weights_sane,
        "can run code",
    ),  # type: ignore[list-item]
    (
        "an absolute base",
        edit("models/adapter/adapter_config.json", "models/base", "/home/x/base"),
        weights.weights_sane,
        "base_model_name_or_path",
    ),
    (
        "another number of parameters",
        record("base.json", lambda v: v.update(parameters=49)),
        weights.weights_sane,
        "parameters: 49",
    ),
    (
        "a base below its gate",
        record("base.json", lambda v: v.update(parsed_rate=0.5)),
        stated.facts_within_bounds,
        "parsed_rate: 0.5",
    ),
    (
        "a lowered bar",
        edit(place_of("claim_plan.json"), "10.0", "1.0"),
        training.plan_precedes,
        "when training began",
    ),
    (
        "a claim by another plan",
        edit(place_of("claim.json"), '"alpha": 0.05', '"alpha": 0.1'),
        training.plan_precedes,
        "claim.json, plan",
    ),
    (
        "another suite",
        record("reports.json", lambda v: v["arms"]["post_eval"].update(suite_digest="0" * 64)),
        suites.suites_equal,
        "reports.json, post_eval, suite_digest",
    ),
    (
        "a dropped row",
        lines("post_eval.jsonl", lambda all_: all_[1:]),
        suites.draws_complete,
        "39 episodes, 40 are planned",
    ),
    (
        "a repeated row",
        lines("post_eval.jsonl", lambda all_: [all_[0], *all_[:-1]]),
        suites.draws_complete,
        "post_eval.jsonl, episode 2",
    ),
    (
        "rows in another order",
        lines("pre_eval.jsonl", lambda all_: all_[::-1]),
        suites.draws_complete,
        "pre_eval.jsonl, episode 1",
    ),
    (
        "another seed",
        edit(place_of("post_eval.jsonl"), '"seed":\\d+', '"seed":7'),
        suites.draws_complete,
        "7",
    ),
    (
        "another prompt",
        edit(place_of("post_eval.jsonl"), '"prompt_digest":"\\w{16}', '"prompt_digest":"' + "0" * 16),
        suites.openings_equal,
        "opened otherwise",
    ),
    (
        "swapped arms",
        swap(place_of("pre_eval.jsonl"), place_of("post_eval.jsonl")),
        suites.policies_named,
        "pre_eval.jsonl: 40 episodes of another policy",
    ),
    (
        "swapped reports",
        record(
            "reports.json",
            lambda v: v["arms"].update(pre_eval=v["arms"]["post_eval"], post_eval=v["arms"]["pre_eval"]),
        ),
        suites.policies_named,
        "reports.json, pre_eval, policy_digest",
    ),
    (
        "a secondary suite's arms swapped",
        swap(place_of("pre_eval_secondary/traps.jsonl"), place_of("post_eval_secondary/traps.jsonl")),
        suites.policies_named,
        "pre_eval_secondary/traps.jsonl: 20 episodes of another policy",
    ),
    (
        "secondary suites swapped",
        swap(place_of("pre_eval_secondary/traps.jsonl"), place_of("pre_eval_secondary/heldout_ood.jsonl")),
        suites.draws_complete,
        "pre_eval_secondary/heldout_ood.jsonl, episode 1",
    ),
    (
        "a rival's episodes swapped",
        swap(place_of("rival_few_shot.jsonl"), place_of("rival_best_of_n.jsonl")),
        suites.draws_complete,
        "rival_best_of_n.jsonl, episode 1",
    ),
    (
        "a rival without its examples",
        edit(place_of("rival_few_shot.jsonl"), '"prompt_digest":"\\w{4}', '"prompt_digest":"0000'),
        suites.tokens_counted,
        "rival_few_shot.jsonl, .*after another prompt",
    ),
    (
        "a rival that is said not to have played",
        record("rivals.json", lambda v: v["rivals"]["few_shot"].update(used=0)),
        stated.rivals_told,
        "rivals.json, few_shot",
    ),
    (
        "a rival fewer",
        record("rivals.json", lambda v: v["rivals"].pop("best_of_n")),
        stated.rivals_told,
        "ask for",
    ),
    (
        "a rival's tokens",
        record("rivals.json", lambda v: v["rivals"]["best_of_n"].update(tokens=1)),
        stated.rivals_told,
        "rivals.json, best_of_n",
    ),
    ("no control", record("control.json", lambda v: v.update(asked=False)), suites.policies_named, "asked"),
    (
        "a dropped step",
        lines("train_log.jsonl", lambda all_: [*all_[:2], *all_[3:]]),
        training.log_whole,
        "row 3 of train_log",
    ),
    (
        "an edited loss",
        edit(place_of("train_log.jsonl"), '"loss":0\\.\\d', '"loss":0.99'),
        training.log_whole,
        "does not follow",
    ),
    (
        "another schedule of the KL",
        edit("params.yaml", "kl_probe_every: 5", "kl_probe_every: 4"),
        training.log_whole,
        "step 4, kl_probe: None",
    ),
    (
        "another chain",
        record("train.json", lambda v: v.update(chain="0" * 64)),
        training.log_whole,
        "train.json, chain",
    ),
    (
        "another item",
        edit(place_of("train_log.jsonl"), '"item_ids":\\["\\w+', '"item_ids":["0000'),
        training.items_in_order,
        "none of the train data",
    ),
    ("another checkpoint", record("train.json", scale_one), training.checkpoint_follows, "chosen_step: 0"),
    (
        "an alarm removed",
        lines("health.jsonl", lambda all_: all_[1:]),
        training.alarms_ring_again,
        "health.jsonl",
    ),
    (
        "an alarm invented",
        lines("health.jsonl", lambda all_: [*all_, all_[-1]]),
        training.alarms_ring_again,
        "does not ring",
    ),
    (
        "an alarm softened",
        edit(place_of("health.jsonl"), '"threshold":[\\d.]+', '"threshold":0.123'),
        training.alarms_ring_again,
        "threshold 0.123",
    ),
    (
        "other code",
        edit("dvc.lock", r"(path: src/assay/core\n +hash: md5\n +md5: )\w{6}", r"\g<1>000000", 0),
        lambda p: code.code_equal(p, other_code=False),
        "src/assay/core",
    ),
    (
        "other code in one stage",
        edit("dvc.lock", r"(path: src/assay/core\n +hash: md5\n +md5: )\w{6}", r"\g<1>000000"),
        lambda p: code.code_equal(p, other_code=True),
        "one code for all stages",
    ),
    (
        "code left out of dvc.lock",
        edit("dvc.lock", "path: src/assay/training\n", "path: src/other\n", 0),
        lambda p: code.code_equal(p, other_code=False),
        "src/assay/training",
    ),
    (
        "other code of the task",
        edit("dvc.lock", r"(path: tasks/\w+\n +hash: md5\n +md5: )\w{6}", r"\g<1>000000", 0),
        lambda p: code.code_equal(p, other_code=False),
        "first tasks/",
    ),
    (
        "code of the task left out of dvc.lock",
        edit("dvc.lock", r"path: tasks/\w+\n", "path: src/other\n", 0),
        lambda p: code.code_equal(p, other_code=False),
        "first tasks/",
    ),
    *(
        (
            f"code at {path}",
            edit("dvc.lock", "path: src/assay/core\n", f"path: {path}\n"),
            lambda p: code.code_equal(p, other_code=False),
            re.escape(path),
        )
        for path in ("src/assay//etc", "src/assay/../../../..", "src/assay/./core")
    ),
]


@pytest.fixture(scope="module")
def wrong_as_made(pristine: Path) -> Callable[[Callable[[Unpacked], LookResult]], Sequence[str]]:
    """What a look finds wrong with the package as it was made; asked once for all tests that change it."""
    package = Unpacked(pristine)
    return cache(lambda look: look(package).wrong)


@pytest.mark.parametrize(
    ("tamper", "look", "said"), [case[1:] for case in FOUND], ids=[case[0] for case in FOUND]
)
def test_what_was_changed_is_found_and_named(
    unpacked: Path,
    wrong_as_made: Callable[[Callable[[Unpacked], LookResult]], Sequence[str]],
    tamper: Tamper,
    look: Callable[[Unpacked], LookResult],
    said: str,
) -> None:
    assert not wrong_as_made(look)
    tamper(unpacked)
    check = looked("V3", "x", lambda: look(Unpacked(unpacked)))
    assert check.outcome == "failed"
    assert re.search(said, check.found), check.found


@pytest.mark.parametrize(
    ("tamper", "name"),
    [
        (edit(place_of("post_eval.jsonl"), '"success":false', '"success":true'), "post_eval.jsonl"),
        (
            edit(place_of("pre_eval_greedy.jsonl"), '"reward":(-?)[\\d.]+', '"reward":\\g<1>0.123'),
            "pre_eval_greedy.jsonl",
        ),
        (edit(place_of("validation.jsonl"), '"ending":"\\w+"', '"ending":"given up"'), "validation.jsonl"),
        (edit(place_of("control_eval.jsonl"), '"completion":"\\w', '"completion":"?'), "control_eval.jsonl"),
        (
            edit(place_of("post_eval_secondary/traps.jsonl"), '"success":false', '"success":true'),
            "post_eval_secondary/traps.jsonl",
        ),
    ],
)
def test_every_stored_completion_is_graded_again(unpacked: Path, tamper: Tamper, name: str) -> None:
    tamper(unpacked)
    found = {check.name: check.outcome for check in regraded(Unpacked(unpacked))}
    assert found.pop(name) == "failed"
    assert set(found.values()) == {"passed"}


def test_numbers_that_differ_in_their_last_bits_pass_and_are_named_and_those_off_by_more_fail(
    unpacked: Path,
) -> None:
    path = unpacked / place_of("post_eval.jsonl")
    first, rest = path.read_text(encoding="utf-8").split("\n", 1)
    row = json.loads(first)
    name = next(name for name, value in row["metrics"].items() if isinstance(value, float) and value)

    def check(reward: float, metric: float = 0.0) -> Check:
        metrics = row["metrics"] | {name: row["metrics"][name] * (1 + metric)}
        changed = row | {"reward": row["reward"] * (1 + reward), "metrics": metrics}
        path.write_text(f"{dumps(changed)}\n{rest}", encoding="utf-8")
        return {each.name: each for each in regraded(Unpacked(unpacked))}["post_eval.jsonl"]

    near = check(1e-13, 1e-10)
    assert near.outcome == "passed" and "not to the last" in near.found
    assert "not to the last" not in check(0.0).found
    assert check(1e-11).outcome == check(0.0, 1e-8).outcome == "failed"


def test_a_lost_validation_leaves_the_alarm_that_counts_losses_unjudged(unpacked: Path) -> None:
    lines("validation.jsonl", second_validation_lost)(unpacked)
    seen = training.alarms_ring_again(Unpacked(unpacked))
    assert "infrastructure left out" in seen.said


def test_a_validation_that_is_missing_is_not_called_checked(unpacked: Path) -> None:
    lines("validation.jsonl", second_validation_lost)(unpacked)
    seen = training.log_whole(Unpacked(unpacked))
    assert seen.outcome == "not shown" and "maker's word" in seen.said


MALFORMED = {
    "empty": b"",
    "half": b'{"a": ',
    "no JSON": b"\x00\xff\xfe",
    "NaN": b'{"step": NaN}',
    "another shape": b"[1, 2, 3]",
    "a record of nothing": b"{}",
    "deep": b"[" * 5000,
    "null": b"null",
    "numbers": b"1\n2\n",
}
FILES = (
    "params.yaml",
    "dvc.lock",
    "parity.json",
    "models/base/model.safetensors",
    "models/adapter/adapter_config.json",
    *(
        place_of(name)
        for name in (
            "train_log.jsonl",
            "validation.jsonl",
            "health.jsonl",
            "train.json",
            "post_eval.jsonl",
            "reports.json",
            "control.json",
            "claim.json",
            "claim_plan.json",
            "base.json",
            "fingerprint.json",
        )
    ),
)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_such_file_fails_a_check_and_ends_nothing(unpacked: Path, name: str) -> None:
    for number, (kind, content) in enumerate(MALFORMED.items()):
        # A fifth of the kinds for each file, all of them over all files
        if number % 5 != FILES.index(name) % 5:
            continue
        (unpacked / name).write_bytes(content)
        checks = [*settings(Unpacked(unpacked), other_code=False), *consistent(Unpacked(unpacked))]
        assert len(checks) == len(CONSISTENT) + 3
        failed = [check for check in checks if check.outcome == "failed"]
        assert failed, f"{name} is {kind}"
        assert all(check.found.isprintable() for check in checks)
