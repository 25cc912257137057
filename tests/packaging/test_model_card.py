"""The model card says what the claim says, in numbers of the files, and holds no markup of a stranger."""

from __future__ import annotations

import re
from typing import Any

import pytest
from huggingface_hub import ModelCard
from ruamel.yaml import YAML

from assay.core.config.reading import parse_params
from assay.core.config.settings import PretrainedBase, Waiver
from assay.core.errors import EvidenceError
from assay.core.evidence_files import place_of
from assay.core.installed import Required
from assay.core.records import Interval, Origin, TrainFacts
from assay.core.storage.json import read_record
from assay.pipeline.project import Project
from assay.rollout.dataset.fingerprint import Fingerprint
from assay.stages.packing.card import CardNumbers, model_card
from assay.stages.packing.layout import ADAPTER, BASE, MADE, strangers
from assay.verdict.evidence.claim.base_facts import BaseFacts, base_said
from assay.verdict.evidence.claim.claim import Claim, Compared, not_evaluable
from assay.verdict.evidence.claim.effect import Effect
from assay.verdict.evidence.formatting import difference_text, interval_text
from assay.verdict.evidence.tables.claim_tables import BeforeAfter
from assay.verdict.evidence.words.remarks import remark
from assay.verdict.statistics.report import Reports
from tests.house import ROOT
from tests.training.healthy_setup import composed

BAD = (
    "<script>x()</script>",
    "![x](http://evil.invalid/x.png)",
    "[click](http://evil.invalid)",
    "a\n---\nlicense: mit\n---\n",
    "| a | b |\n# Head",
    "`` ` ``",
    "\u202egnp.exe",
    "\x1b[31mred",
    "*bold* _it_",
)


def read(name: str, kind: Any) -> Any:
    return read_record(ROOT / place_of(name), kind, fix="")


NOT_SHOWN = Effect(direction="not shown", size="not shown", fall_that_matters=0.1, rise_that_matters=0.1)


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    """Return what a card of the committed run is made from."""
    reports = [read("reports.json", Reports).arms[name] for name in ("pre_eval", "post_eval")]
    return {
        "claim": read("claim.json", Claim),
        "measured": CardNumbers(*reports, read("before_after_metrics.json", BeforeAfter)),
        "trained": read("train.json", TrainFacts),
        "base": read("base.json", BaseFacts),
        "fingerprint": read("fingerprint.json", Fingerprint),
        "params": Project.open(ROOT).params,
        "limits": ["One run."],
    }


def card(given: dict[str, Any], **changes: Any) -> str:
    known = given | changes
    return model_card(known.pop("claim"), **known)


def test_a_hub_reads_it_and_its_yaml_says_the_same_again(given: dict[str, Any]) -> None:
    text = card(given)
    read_back = ModelCard(text)
    assert read_back.data.library_name == "peft" and "base_model" not in read_back.data.to_dict()
    plain = YAML(typ="safe", pure=True).load(text.split("---\n")[1])
    assert plain == read_back.data.to_dict()
    again = ModelCard(str(read_back))
    assert again.data.to_dict() == plain


def test_the_model_index_holds_the_numbers_of_the_claim_and_its_verdict(given: dict[str, Any]) -> None:
    claim = given["claim"]
    (entry,) = ModelCard(card(given)).data.to_dict()["model-index"]
    (result,) = entry["results"]
    found = {metric["type"]: metric for metric in result["metrics"]}
    assert found["success_rate"]["value"] == claim.after.value
    assert found["success_rate_before"]["value"] == claim.before.value
    gap = found["success_rate_difference"]
    assert (gap["value"], gap["args"]["low"], gap["args"]["high"]) == (
        claim.difference.value,
        claim.difference.low,
        claim.difference.high,
    )
    assert (
        gap["args"]["verdict"] == f"{claim.verdict} (a gain that matters)"
        and result["dataset"]["split"] == "heldout"
    )
    assert found["mean_reward"]["value"] == given["measured"].after.measures["mean_reward"].value


def test_the_table_holds_the_numbers_of_the_files_in_the_words_of_the_report(given: dict[str, Any]) -> None:
    measured, text = given["measured"], card(given)
    row = next(line for line in text.split("\n") if line.startswith("| success_rate |"))
    delta = measured.metrics.delta
    gap = Interval(
        value=delta["success_rate"], low=delta["success_rate_low"], high=delta["success_rate_high"], n=0
    )
    arms = [report.measures["success_rate"] for report in (measured.before, measured.after)]
    cells = [*(interval_text(arm, rate=True) for arm in arms), difference_text(gap, rate=True)]
    assert row == f"| success_rate | {' | '.join(cells)} | {arms[0].n}, {arms[1].n} |"


def test_a_metrics_file_that_says_other_than_the_report_is_refused(given: dict[str, Any]) -> None:
    measured = given["measured"]
    metrics = measured.metrics.model_copy(update={"post": measured.metrics.post | {"success_rate": 0.99}})
    with pytest.raises(EvidenceError, match="success_rate"):
        card(given, measured=CardNumbers(measured.before, measured.after, metrics))


@pytest.mark.parametrize("whole", [True, False], ids=["barred by a finding", "nothing could be read"])
def test_what_is_not_evaluable_shows_no_number_in_headline_or_index(
    given: dict[str, Any], whole: bool
) -> None:
    old = given["claim"]
    claim = not_evaluable(
        old.plan,
        [remark("misgraded", found="3 items are shared")],
        policies=("b", "a"),
        compared=Compared("heldout", "sampled", (0,)),
    )
    if whole:  # as `compare` leaves it: the numbers stay in the record, and a reader must not meet them here
        told = {"verdict": "NOT EVALUABLE", "effect": None, "reasons": claim.reasons}
        claim = old.model_copy(update=told)
    text = card(given, claim=claim, measured=given["measured"] if whole else None)
    assert "model-index" not in ModelCard(text).data.to_dict()
    _, rest = text.split("**NOT EVALUABLE.**")
    assert not re.search(r"\d", rest.split("\n")[0]) and "3 items are shared" in rest
    assert "## Before and after" not in text and "figures/" not in text
    before, after = (f"{100 * arm.value:.1f}" for arm in (old.before, old.after))
    assert not any(said in text.split("## The base")[0] for said in (f"{before} \u2192", f"\u2192 {after}"))


def test_no_evidence_is_said_as_such_at_the_top_and_in_the_index(given: dict[str, Any]) -> None:
    changed = {"verdict": "NO EVIDENCE", "effect": NOT_SHOWN}
    text = card(given, claim=given["claim"].model_copy(update=changed))
    assert "**NO EVIDENCE.** held-out success rose" in text and "No evidence of a change" in text
    (result,) = ModelCard(text).data.to_dict()["model-index"][0]["results"]
    assert "NO EVIDENCE (no change shown)" in [metric["args"].get("verdict") for metric in result["metrics"]]


def test_what_is_missing_is_no_number_of_the_index(given: dict[str, Any]) -> None:
    gone = Interval(value=None, low=None, high=None, n=0)
    claim = given["claim"].model_copy(update={"before": gone})
    (result,) = ModelCard(card(given, claim=claim)).data.to_dict()["model-index"][0]["results"]
    assert "success_rate_before" not in [metric["type"] for metric in result["metrics"]]


@pytest.mark.parametrize(
    ("model", "revision", "named"),
    [
        ("Qwen/Qwen3-4B", "1cfa9a7208912126459214e8b04321603b3df60c", True),
        ("/home/someone/models/qwen", "local", False),
        ("models/own", "local", False),
        ("../etc/passwd", "abc", False),
        ('a/b"); evil("', "abc", False),
    ],
)
def test_a_base_is_named_only_if_it_is_one_of_a_hub(
    given: dict[str, Any], model: str, revision: str, named: bool
) -> None:
    base = BaseFacts(kind="pretrained", digest="d" * 64, model=model, revision=revision)
    text = card(given, base=base)
    data = ModelCard(text).data.to_dict()
    assert (model in text) is named and (data.get("base_model") == model) is named
    assert "/home/someone" not in text and "models/base" not in text


ORIGIN = {
    "file": "some.gguf",
    "sha256": "5" * 64,
    "package": "some-model==1.0",
    "name": "Some",
    "weights": "4-bit (Q4_1), dequantised",
    "licence": "apache-2.0",
    "package_licence": None,
}


def test_converted_weights_are_named_with_their_file_their_bits_and_their_licence(
    given: dict[str, Any],
) -> None:
    facts = {
        "kind": "pretrained",
        "digest": "d" * 64,
        "model": "package:some-model==1.0",
        "revision": "local",
    }
    base = BaseFacts.model_validate(facts | {"origin": Origin(**ORIGIN)})
    text = card(given, base=base).replace("\\", "")
    for said in (
        "some.gguf",
        "some-model==1.0",
        "5" * 64,
        "4-bit (Q4_1), dequantised",
        "apache-2.0, as the file",
    ):
        assert said in text
    assert "No licence of the weights" not in text and "base_model" not in ModelCard(text).data.to_dict()
    assert "4-bit (Q4_1), dequantised, licence apache-2.0, as the file says" in base_said(base)
    assert "No licence of the weights" in card(given)


def test_what_the_chat_template_was_given_is_said_with_how_to_use_the_policy(given: dict[str, Any]) -> None:
    base = PretrainedBase(
        kind="pretrained",
        model="a/b",
        revision=None,
        dtype="float32",
        quantization=None,
        template={"enable_thinking": False},
    )
    text = card(given, params=given["params"].model_copy(update={"base": base}))
    assert "`apply_chat_template` was given" in text and "enable_thinking=False" in text.replace("\\", "")
    assert "**SETTINGS\n)" in text and "was given" not in card(given)


def test_text_of_a_stranger_is_neither_markup_nor_yaml(given: dict[str, Any]) -> None:
    plain = ["plain"] * len(BAD)

    def of(texts: list[str]) -> str:
        waivers = [Waiver(file=text, sha256="a" * 64, reason=text) for text in texts[:1]]
        params = given["params"]
        params = params.model_copy(update={"package": params.package.model_copy(update={"waivers": waivers})})
        claim = given["claim"].model_copy(
            update={
                "warnings": tuple(remark("rival_noted", rival=each, note="") for each in texts),
                "reasons": (remark("misgraded", found=texts[3 % len(texts)]),),
            }
        )
        return card(given, claim=claim, params=params, limits=texts)

    bad, good = of(list(BAD)), of(plain)
    assert len(bad.split("\n")) == len(good.split("\n"))
    assert not re.search(r"<[a-zA-Z/!?]", bad) and not re.search(r"(?<!\\)\]\(http", bad)
    assert not re.search(r"[\u202e\x1b]", bad)
    assert set(ModelCard(bad).data.to_dict()) == set(ModelCard(good).data.to_dict())


def test_waived_findings_stand_there_with_their_reasons(given: dict[str, Any]) -> None:
    waiver = Waiver(file="evidence/results/x.jsonl", sha256="c" * 64, reason="a made-up key of the task")
    params = given["params"]
    params = params.model_copy(update={"package": params.package.model_copy(update={"waivers": [waiver]})})
    text = card(given, params=params)
    assert f"| {waiver.file} | {waiver.sha256} | {waiver.reason} |" in text
    assert "None: the secret scan" not in text and "None: the secret scan" in card(given)


def test_alarms_controls_checks_and_the_way_to_use_it_stand_there(given: dict[str, Any]) -> None:
    text = card(given)
    for rule in given["trained"].health.rules:
        assert f"ALARM {rule.rule} in training" in text.replace("\\_", "_")
    assert "Controls. Base against base" in text
    for command in ("sha256sum -c SHA256SUMS", "assay verify assay-package.tar --sha256 HEX"):
        assert f"\n{command}\n" in text
    assert 'subfolder="models/adapter"' in text and all(f"| V{level} |" in text for level in range(6))
    assert "No licence of the weights is stated." in text and "license" not in ModelCard(text).data.to_dict()


def test_equal_records_give_equal_bytes(given: dict[str, Any]) -> None:
    assert card(given) == card(given)


def targets_of(text: str) -> set[str]:
    """Return every path that a card links to, shows, or names as a file or folder of the package."""
    linked = re.findall(r"(?<!\\)\]\(([^)]+)\)", text)
    named = re.findall(r"`([\w.-]+(?:/[\w.-]*)+|[\w-]+\.(?:json|md|py|txt)|LICENSE|SHA256SUMS)`", text)
    loaded = re.findall(r'"(models/\w+)"', text)
    called = re.findall(r"^(?:python3|sha256sum -c) (\S+)$", text, re.MULTILINE)
    return {*linked, *named, *loaded, *called}


def test_every_link_of_a_card_leads_to_what_a_package_holds(given: dict[str, Any]) -> None:
    found = targets_of(card(given))
    assert place_of("figures/before_after_summary.png") in found and "models/adapter" in found
    assert len(found) > 12
    lost = {
        name
        for name in found
        if name not in (*MADE, BASE, ADAPTER) and not (ROOT / name.rstrip("/")).exists()
    }
    assert lost == set()
    assert (
        list(strangers((n for n in found if (ROOT / n).is_file()), data="data/collider", scratch=True)) == []
    )


def test_a_task_that_was_brought_along_is_told_of_with_its_code_and_packages(given: dict[str, Any]) -> None:
    params = parse_params(composed("tiny", "words"))
    needed = Required(name="reasoning-gym", version="0.1.25", sha256="ab" * 32)
    data = given["fingerprint"].model_copy(update={"requires": (needed,)})
    text = card(given, params=params, fingerprint=data, task_code="cd" * 32)
    for said in ("`tasks/words`", "`task.py:reward`", f"`{'cd' * 32}`", "`compare: exact, with: answer`"):
        assert said in text
    assert f"`reasoning-gym` `0.1.25` (installed files: sha256 `{'ab' * 32}`)" in text
    assert "rewards are graded again with `--task-code DIR`" in text
    assert "Somebody's own" not in card(given) and "read and graded again |" in card(given)


def test_its_lines_are_python_that_prints_an_answer(given: dict[str, Any]) -> None:
    code, _ = re.findall(r"```python\n(.*?)```", card(given).split("## Use it")[1], re.S)
    compile(code, "card", "exec")
    assert code.rstrip().split("\n")[-1].startswith("print(tokenizer.decode(answer")
    params = given["params"]
    assert f"max_new_tokens={params.task.max_new_tokens[params.generation.surface]}" in code
    assert "**SETTINGS" not in code
