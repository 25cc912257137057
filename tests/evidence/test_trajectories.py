"""Sample trajectories show whole episodes, chosen by rule, and model text cannot break out of them.

evidence/README.md says the verdict, names every file there is, and holds no markup of a stranger.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.house import ROOT

from assay.core.evidence_files import FILES, NAMED_DATA, RESULTS
from assay.core.records import Episode
from assay.core.seeds import rng
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.escape import fenced, inline, visible
from assay.verdict.evidence.tables.evidence_readme import VERIFY, landing_page
from assay.verdict.evidence.tables.trajectories import RIGHT, Pair, choose_pairs, sample_trajectories
from assay.verdict.evidence.words.remarks import remark
from conftest import make_claim
from hostile import PAYLOADS
from synthetic_episodes import episode


def test_every_reason_is_shown(before: list[Episode], after: list[Episode]) -> None:
    reasons = [pair.reason for pair in choose_pairs(before, after, rng(0))]
    for word in ("random", "worst", "median", "best", "fixed", "broken"):
        assert any(reason.startswith(word) for reason in reasons)


def test_pairs_are_the_same_item_and_draw_and_shown_once(before: list[Episode], after: list[Episode]) -> None:
    pairs = choose_pairs(before, after, rng(0), n_each=3)
    keys = [(pair.before.item_id, pair.before.draw) for pair in pairs]
    assert keys == [(pair.after.item_id, pair.after.draw) for pair in pairs]
    assert len(set(keys)) == len(keys)


def test_fixed_and_broken_are_what_they_say(before: list[Episode], after: list[Episode]) -> None:
    for pair in choose_pairs(before, after, rng(0)):
        if pair.reason.startswith("fixed"):
            assert (pair.before.success, pair.after.success) == (False, True)
        if pair.reason.startswith("broken"):
            assert (pair.before.success, pair.after.success) == (True, False)


def test_equal_seeds_choose_equal_pairs(before: list[Episode], after: list[Episode]) -> None:
    found = choose_pairs(before, after, rng(5))
    assert found == choose_pairs(before[::-1], after[::-1], rng(5))
    assert found != choose_pairs(before, after, rng(6))


def test_the_deciding_turn_is_never_shortened_and_others_say_so() -> None:
    long = "x" * 9000 + "END"
    one = episode(0, 0, success=True, completion=long)
    first = one.turns[0].model_copy(update={"completion": "y" * 9000})
    one = one.model_copy(update={"turns": (first, one.turns[1])})
    text = sample_trajectories([Pair("random", one, one)])
    assert long in text and "characters left out" in text and "**deciding**" in text
    assert text.count("**deciding**") == 2 and "Turn 2 of 2, **deciding**" in text


def test_an_episode_without_turns_says_so() -> None:
    empty = episode(0, 0, success=False).model_copy(update={"turns": ()})
    assert "No turn was played." in sample_trajectories([Pair("random", empty, empty)])


def test_a_missing_prompt_or_truth_is_named(before: list[Episode], after: list[Episode]) -> None:
    text = sample_trajectories(choose_pairs(before, after, rng(0)))
    assert "Prompt: not shown." in text and "Right: not shown." in text


def test_what_is_right_stands_between_prompt_and_answers_and_cannot_break_out() -> None:
    one = episode(0, 0, success=False)
    truth = "```\n# no heading \u202e"
    text = sample_trajectories(
        [Pair("random", one, one)], prompts={one.item_id: "Who?"}, truths={one.item_id: truth}
    )
    assert text.index("Who?") < text.index(f"{RIGHT}\n\n{fenced(truth)}") < text.index("#### Before")


@given(st.text())
def test_no_text_can_close_its_block(text: str) -> None:
    lines = fenced(text).split("\n")
    fence = re.match(r"`+", lines[0])
    assert fence is not None
    for line in lines[1:-1]:
        assert not re.fullmatch(r" {0,3}" + fence[0] + r"`*\s*", line)


@given(st.text())
def test_no_control_or_direction_character_survives(text: str) -> None:
    shown = visible(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", shown)


@given(st.text())
def test_inline_text_stays_on_one_line(text: str) -> None:
    assert "\n" not in inline(text)


def test_a_lone_surrogate_becomes_writable() -> None:
    assert visible("\ud800").encode() == rb"\ud800"


def test_a_cut_prompt_says_so_and_a_very_long_one_is_shortened() -> None:
    whole, cut = (episode(0, 0, success=True).model_copy(update={"prompt_chars_cut": n}) for n in (0, 120))
    name = whole.item_id
    assert "Prompt:\n" in sample_trajectories([Pair("random", whole, whole)], prompts={name: "Who?"})
    assert "120 characters were cut to fit" in sample_trajectories(
        [Pair("random", cut, cut)], prompts={name: "Who?"}
    )
    long = sample_trajectories([Pair("random", whole, whole)], prompts={name: "x" * 65_000})
    assert "61000 characters left out" in long and len(long) < 20_000


FIGURE = ("before_after_summary", "Before and after.")


@pytest.mark.parametrize("folder", [folder for folder in FILES if folder.startswith(RESULTS)])
def test_a_folder_of_the_evidence_holds_the_files_that_are_named_and_explained_and_no_other(
    folder: str,
) -> None:
    # Of tasks whose answers have a JSON schema, of bases that were fine-tuned, of policies trained elsewhere
    optional = {"rival_constrained.jsonl", "rival_more_sft.jsonl", "sft.csv", NAMED_DATA}
    assert {path.name for path in (ROOT / folder).iterdir()} | optional == set(FILES[folder]) | optional


def test_every_name_of_a_file_is_in_one_folder_alone_and_on_the_page(claim: Claim) -> None:
    names = [name for found in FILES.values() for name in found]
    assert len(names) == len(set(names))
    text = landing_page(claim, FIGURE, [], data="mine")
    played = {f"rival_{name}.jsonl" for name in claim.plan.rivals}
    missing = [name for name in names if f"/{name}" not in text]
    # Of what this claim has none of the page says nothing.
    without = {name for name in names if name.startswith("rival_") and name not in played}
    without |= {NAMED_DATA, "sft.csv"}  # of a training that was external, of a base that was fine-tuned
    if not claim.plan.secondary_suites:
        without |= {"pre_eval_secondary", "post_eval_secondary"}
    assert set(missing) <= without


def test_the_page_says_verdict_figure_files_checks_and_limits(claim: Claim) -> None:
    text = landing_page(claim, FIGURE, ["One run."], data="mine")
    figure = "](results/report/figures/before_after_summary.png)"
    words = ("**IMPROVED.** " + claim.sentence, figure, "(results/report/claim.json)")
    places = [text.index(word) for word in (*words, "## Check it", VERIFY[0][1], "## Limits", "One run.")]
    assert places == sorted(places)
    assert all(target.startswith(("results/", "observed/")) for target in re.findall(r"\]\(([^)]*)\)", text))


def test_what_is_not_evaluable_shows_its_reason_and_no_figure(
    before: list[Episode], after: list[Episode]
) -> None:
    text = landing_page(make_claim(before, after, stops=[remark("plan_changed")]), FIGURE, [], data="mine")
    assert text.startswith("# Evidence: mine\n\n**NOT EVALUABLE.**")
    assert "was changed after training" in text and "figures/" not in text.split("##")[0]


def test_text_of_a_stranger_is_neither_markup_nor_a_link(claim: Claim) -> None:
    bad = [
        *PAYLOADS,
        "[click](http://evil.invalid)",
        "![x](http://evil.invalid/x.png)",
        "# Head\n\n| a |",
        "`code`",
    ]

    def page(texts: Sequence[str]) -> str:
        said = tuple(remark("rival_noted", rival=each, note="") for each in texts)
        return landing_page(claim.model_copy(update={"warnings": said}), FIGURE, texts, data=texts[0])

    text, harmless = page(bad), page(["plain"] * len(bad))
    assert len(text.splitlines()) == len(harmless.splitlines())
    assert "<" not in text.replace("&lt;", "") or not re.search(r"<[a-zA-Z/!?]", text)
    assert not re.search(r"(?<!\\)\]\(http", text)
