"""The page is one offline file: verdict first, every number with its table, nothing from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise

import pandas as pd

from assay.core.records import Episode
from assay.core.seeds import rng
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.page.item_index import index_of_items
from assay.verdict.evidence.page.report import item_by_item, pairs_that_fit
from assay.verdict.evidence.page.shell import SCRIPT, Tick, few_rows
from assay.verdict.evidence.page.viewer import all_pairs
from assay.verdict.evidence.tables.trajectories import KINDS, Pair, choose_pairs
from assay.verdict.evidence.words.remarks import remark
from conftest import make_claim, make_plan
from made_pages import FACTS, Tags, figures, hostile_pair, made_page, page_of, plain_claim
from synthetic_episodes import SUITE, arm, episode

ORDER = (
    "Verdict and scope",
    "Integrity",
    "Baselines",
    "Episodes",
    "Before and after",
    "Controls and guardrails",
    "Training",
    "Data",
    "Verify",
)


def words(text: str) -> str:
    """Return what stands on the page, without tags."""
    return re.sub(r"\s+", " ", re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL))


def top(text: str) -> str:
    """Return the words of the first section."""
    return words(text.split('<section id="verdict"')[1].split(">", 1)[1].split("</section>")[0])


def test_the_sections_stand_in_the_order_of_reading_and_the_links_find_them() -> None:
    text = made_page("plain", claim=plain_claim())
    assert tuple(re.findall(r"<h2[^>]*>([^<]*)</h2>", text)) == ORDER
    targets = re.findall(r'<li><a href="#(\w+)">', text)
    assert [f'<section id="{name}"' in text for name in targets] == [True] * len(ORDER)


def test_the_verdict_comes_first_with_sentence_numbers_and_scope(claim: Claim) -> None:
    text = top(page_of(claim))
    places = [
        text.index(word) for word in ("▲ IMPROVED", "Held-out success rose", "measured on", "checkpoint rule")
    ]
    assert places == sorted(places)
    lead = re.findall(r'<p class="lead">(.*?)</p>', page_of(claim))
    assert len(lead) == 1 and len(lead[0].split()) <= 20
    assert "20 scenarios, 40 items, K = 4" in text and "highest validation success" in text


def test_headings_go_down_one_level_at_a_time_and_every_table_head_has_a_scope() -> None:
    tags = Tags(made_page("plain"))
    levels = [int(tag[1]) for tag, *_ in tags.seen if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    assert all(names == ["scope"] for tag, *names in tags.seen if tag == "th")
    assert all(names == ["alt", "src"] for tag, *names in tags.seen if tag == "img")


def test_the_page_loads_nothing_and_runs_only_its_own_script() -> None:
    text = made_page("plain")
    tags = Tags(text)
    assert tags.open == [] and text.count("<script>") == 1 and SCRIPT in text
    assert all(
        value.startswith("data:image/svg+xml;base64,") for name, value in tags.attributes if name == "src"
    )
    assert not {"link", "iframe", "object", "image", "comment"} & {tag for tag, *_ in tags.seen}
    for name, value in tags.attributes:
        assert not name.startswith("on") and name != "style"
        assert name != "href" or str(value).startswith("#")
        assert name != "tabindex" or value in ("0", "-1")


def test_ids_are_unique_and_references_resolve() -> None:
    tags = Tags(made_page("plain"))
    ids = [value for name, value in tags.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for name, value in tags.attributes:
        for target in re.findall(r"url\(#([^)]+)\)", value or ""):
            assert target in ids
        if name in ("href", "aria-labelledby") and value:
            assert value.removeprefix("#") in ids


def test_behind_every_figure_stands_its_table_and_where_all_of_it_is() -> None:
    text = made_page("plain", figures=figures(), training=[])
    assert text.count("<figure>") == 3 == text.count("The numbers of this figure")
    assert text.count("Every 4th of 200 rows, and the last; all of them: log.csv.</caption>") == 2


def test_few_rows_keeps_short_tables_whole_and_the_last_row_of_long_ones() -> None:
    short, said = few_rows(pd.DataFrame({"a": range(12)}), "f.csv")
    assert len(short) == 12 and said == "12 rows; source: f.csv."
    long, said = few_rows(pd.DataFrame({name: range(2001) for name in "abcdefghij"}), "f.csv")
    assert len(long) <= 43 and long["a"].iloc[-1] == 2000 and "of 2001 rows" in said


def test_items_are_counted_by_successes_before_and_after(before: list[Episode], after: list[Episode]) -> None:
    frame = item_by_item(before, after, 4)
    assert frame.drop(columns="items with").to_numpy().sum() == 40
    two = (
        [episode(0, draw, success=draw < 1) for draw in range(2)],
        [episode(0, draw, success=True) for draw in range(2)],
    )
    assert item_by_item(*two, 2).to_numpy().tolist()[1] == ["1 of 2 before", 0, 0, 1]


def test_a_claim_that_is_not_evaluable_carries_no_number_at_the_top(
    before: list[Episode], after: list[Episode]
) -> None:
    barred = make_claim(before, after, stops=[remark("plan_changed")])
    text = page_of(barred, arms=(before, after))
    headline = re.findall(r'<p class="(?:verdict bad|lead)">(.*?)(?:<a|</p>)', text)
    assert len(headline) == 2 and not re.search(r"\d", words(unescape("".join(headline))))
    assert "✕ NOT EVALUABLE" in top(text) and '<dl class="facts">' not in text
    assert "They support no claim" in words(text)
    unpaired = make_claim(before, after, suites=(SUITE, "x" * 64))
    text = page_of(unpaired)
    assert "The arms could not be compared" in words(text) and "Controls" not in text


def test_every_verdict_has_a_sign_beside_its_colour(before: list[Episode], after: list[Episode]) -> None:
    equal = make_claim(before, before, make_plan(draws=4))
    worse = make_claim(after, before)
    shown = [top(page_of(each)) for each in (equal, worse)]
    assert "= NO EVIDENCE" in shown[0] and "▼ REGRESSED" in shown[1]


def test_findings_bar_a_claim_and_their_absence_is_said(claim: Claim) -> None:
    text = words(page_of(claim, findings=[]))
    assert "Nothing was found that rules out a verdict." in text
    text = words(page_of(claim, findings=[remark("log_not_whole")]))
    assert "Nothing that bars" not in text and "does not have every step" in text
    assert "Nothing that bars" not in words(page_of(claim))


def test_every_check_has_a_sign_a_word_and_what_was_looked_at(claim: Claim) -> None:
    checks = [Tick("One", True, "all of it."), Tick("Two", False, "half."), Tick("Three", None, "no file.")]
    text = words(page_of(claim, checked=checks))
    for said in (
        "\u2713 One (passed) all of it.",
        "\u2717 Two (failed) half.",
        "\u2013 Three (not checked) no file.",
    ):
        assert said in text


def test_the_first_figure_and_the_limits_stand_before_every_table_and_no_check_is_told_twice() -> None:
    text = made_page("plain", claim=plain_claim(), limits=["Of one base.", "all of it."])
    figure, limits, table = (text.index(mark) for mark in ("<figure>", '<h3 id="limits"', "<table"))
    assert figure < table and text.index('class="verdict') < figure
    shown = re.sub(r"<details\b.*?</details>", "", text.replace("<details", "\n<details"), flags=re.DOTALL)
    assert "<table" not in shown[: shown.index('<h3 id="limits"')]
    assert limits < text.index('<section id="compared"')
    told = page_of(
        plain_claim(), limits=["Of one base.", "all of it."], checked=[Tick("A", True, "all of it.")]
    )
    assert "<li>Of one base.</li>" in told and "<li>all of it.</li>" not in told


def test_a_figure_is_headed_by_what_it_shows(claim: Claim) -> None:
    shown = [replace(each, finding="Success rose by +30.0 points, n = 40 items.") for each in figures()]
    text = page_of(claim, figures=shown)
    heads = re.findall(r"<figcaption><h3>(.*?)</h3>", text)
    assert heads == ["Success rose by +30.0 points, n = 40 items."]  # above the first stands the lead
    assert text.count('alt="Success rose by +30.0 points, n = 40 items. figure') == 2


def test_every_pair_is_found_by_its_item_and_its_lines_and_broken_items_come_first(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    pairs = choose_pairs(before, after, rng(0), n_random=4, n_each=2)
    index = index_of_items(before, after, pairs)
    assert len(index.rows) == 40 and index.said == "40 items, 160 pairs"
    gains = [int(cells[4].replace("\u2212", "-")) for cells, _ in index.rows]
    assert gains == sorted(gains)
    text = page_of(claim, arms=(before, after), pairs=pairs)
    for cells, places in index.rows:
        assert f'<th scope="row">{cells[0]}</th>' in text
        first, last = map(int, cells[7].split("\u2013"))
        assert {before[line - 1].item_id for line in range(first, last + 1)} == {cells[0]}
        assert last - first + 1 == 4 == len(cells[2])
        assert [pairs[place - 1].before.item_id for place in places] == [cells[0]] * len(places)
    assert sum(len(places) for _, places in index.rows) == len(pairs)
    few = index_of_items(before, after, most=3)
    assert len(few.rows) == 3 and few.said == "40 items, 160 pairs; the 3 that changed most"


def test_a_control_that_was_not_asked_for_is_not_run(claim: Claim) -> None:
    rows = words(page_of(claim.model_copy(update={"control": None})))
    assert "base against base control missing not run" in rows


def test_alarms_and_the_chosen_checkpoint_are_said_in_words(claim: Claim) -> None:
    text = words(page_of(claim, trained=FACTS))
    assert (
        "step 150" in text and "Worst alarm: ● GREEN." in text and "Not measured" in text and "clip" in text
    )


def test_it_is_said_how_many_episodes_of_how_many_are_shown(
    before: list[Episode], after: list[Episode], claim: Claim
) -> None:
    pairs = choose_pairs(before, after, rng(0), n_random=4, n_each=2)
    text = page_of(claim, arms=(before, after), pairs=pairs)
    assert f"{len(pairs)} of 160 pairs" in text and text.count("<article") == len(pairs)
    assert {pair.kind for pair in pairs} == set(KINDS)


def test_the_viewer_holds_every_pair_that_fits_and_says_how_many_that_are(
    before: list[Episode], after: list[Episode]
) -> None:
    found = all_pairs((before, after[1:]), {before[0].item_id: "ask</script>"}, {})
    pairs = json.loads(found.data)
    assert found.n == found.total == len(pairs) == 159 and "<" not in found.data
    one = next(e for e in after if (e.item_id, str(e.draw)) == tuple(pairs[-1][:2]))
    assert pairs[-1][6] == [
        int(one.success),
        f"{one.reward:.3g}",
        one.ending,
        [t.completion for t in one.turns],
    ]
    few = all_pairs((before, after), {}, {}, most=2000)
    assert 0 < few.n < 30 and few.total == 160 and len(few.data) <= 2000 + few.n + 2


def test_long_episodes_are_left_out_in_turn_but_one_of_each_kind_stays() -> None:
    pairs = [hostile_pair("x" * 20_000, kind, k) for k, kind in enumerate([*KINDS, *KINDS, *KINDS])]
    kept = pairs_that_fit(pairs, most=2_000_000)
    assert len(KINDS) < len(kept) < len(pairs) and [pair.kind for pair in kept[:6]] == list(KINDS)
    assert [pair.kind for pair in pairs_that_fit(pairs, most=0)] == list(KINDS)


def test_prompt_and_truth_stand_above_the_answers_of_their_item(claim: Claim) -> None:
    one, other = episode(0, 0, success=False), episode(1, 0, success=False)
    pairs = [Pair("random", one, one), Pair("best", other, other)]
    given = {"prompts": {"item-000": "ask " + "x" * 9000}, "truths": {"item-000": "right </pre>"}}
    shown = page_of(claim, pairs=pairs, **given).split('<section id="episodes"')[1]
    shown = shown.split("</main>")[0]
    places = [
        shown.index(word) for word in ("Prompt:", "characters left out", "right &lt;/pre&gt;", "<h3>Before")
    ]
    assert places == sorted(places)
    assert shown.count("Prompt:") == 1 and "x" * 3000 not in shown


def test_the_digest_of_the_plan_is_not_taken_for_that_of_its_file(claim: Claim) -> None:
    assert f"gives another)</th><td>{claim.plan_digest}" in page_of(claim)


def test_a_missing_interval_is_explained_once_and_only_where_there_is_one(
    before: list[Episode], after: list[Episode]
) -> None:
    said = "[interval missing]: too few scenarios for their sizes"
    barred = make_claim(before, after, suites=(SUITE, "x" * 64))
    for cell, n in (("0.0 [0.0, 1.0]", 0), ("0.0 [interval missing]", 1)):
        tables = {"rates": pd.DataFrame({"name": ["a", "b"], "rate": [cell, cell]})}
        assert page_of(barred, tables=tables).count(said) == n


def test_names_are_words_but_where_a_table_tells_what_was_run(claim: Claim) -> None:
    frame = pd.DataFrame({"measure": ["false_claim_rate"], "of": ["my_data, pre_eval.jsonl"]})
    text = words(page_of(claim, tables={"t": frame}))
    assert "false claim my data, pre_eval.jsonl" in text
    assert "false_claim_rate my_data, pre_eval.jsonl" in words(page_of(claim, run=frame))


def test_a_missing_cell_says_so(claim: Claim) -> None:
    frame = pd.DataFrame({"name": ["a"], "x": [None], "y": [float("nan")]})
    assert "<td>missing</td><td>missing</td>" in page_of(claim, tables={"t": frame})
    assert "<p>t: none.</p>" in page_of(claim, tables={"t": frame.iloc[:0]})


def test_the_script_and_the_page_without_episodes_stay_small() -> None:
    assert len(SCRIPT.encode()) < 30_000
    assert len(made_page("plain", pairs=[]).encode()) < 300_000


def test_equal_input_gives_equal_bytes() -> None:
    assert made_page("plain") == made_page("plain")


def test_few_items_in_few_clusters_still_make_a_page() -> None:
    arms = arm("base", 0.3, clusters=3), arm("trained", 0.7, clusters=3)
    text = page_of(make_claim(*arms), arms=arms)
    assert "descriptive only" in top(text) and "[interval missing]" in text
