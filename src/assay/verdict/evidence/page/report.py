"""report.html: one offline page, verdict first. Every text is escaped; our own script only filters and
sorts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.core.counting import counted
from assay.core.records import Episode, TrainFacts
from assay.rollout.evaluation.alarms import training_alarm_said
from assay.rollout.evaluation.measures import is_rate
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.effect import effect_words
from assay.verdict.evidence.claim.secondary_suites import direction_said
from assay.verdict.evidence.claim.verdict import DRAFT
from assay.verdict.evidence.figures.findings import moved
from assay.verdict.evidence.formatting import (
    MISSING,
    NO_INTERVAL,
    difference_text,
    interval_text,
    missing_interval_said,
    p_number,
    p_text,
    percent,
    split_word,
)
from assay.verdict.evidence.labels import labelled
from assay.verdict.evidence.page.item_index import index_of_items
from assay.verdict.evidence.page.shell import ENVIRONMENT, SCRIPT, Shown, Tick, fill, shell
from assay.verdict.evidence.page.stepping import HEIGHT, WIDTH, moments
from assay.verdict.evidence.page.viewer import all_pairs
from assay.verdict.evidence.tables.trajectories import (
    KINDS,
    RIGHT,
    Pair,
    Stepped,
    parts_text,
    prompt_head,
    shortened,
    summary_rows,
)
from assay.verdict.evidence.words.remarks import Remark, say_all
from assay.verdict.evidence.words.sentences import control_said, heading, left_out_said

HEADINGS = {
    "verdict": "Verdict and scope",
    "integrity": "Integrity",
    "rivals": "Baselines",
    "episodes": "Episodes",
    "compared": "Before and after",
    "controls": "Controls and guardrails",
    "training": "Training",
    "data": "Data",
    "verify": "Verify",
}
# A sign stands before the word, so that the colour is never all that tells verdicts and levels apart.
_TONES = {
    "IMPROVED": ("\u25b2", "good"),
    "IMPROVED WITH REGRESSIONS": ("\u25b2\u25bc", "wait"),
    "IMPROVED, BUT PROMPTING IS BETTER": ("\u25b2?", "wait"),
    "BETTER": ("\u25b2", "good"),
    "BETTER WITH REGRESSIONS": ("\u25b2\u25bc", "wait"),
    "BETTER, BUT PROMPTING IS BETTER": ("\u25b2?", "wait"),
    "NO SKILL SHOWN": ("\u25b2?", "wait"),
    "NO CHANGE THAT MATTERS": ("=", "wait"),
    "NO EVIDENCE": ("=", "wait"),
    "REGRESSED": ("\u25bc", "bad"),
    "WORSE": ("\u25bc", "bad"),
    "NOT EVALUABLE": ("\u2715", "bad"),
    "DRAFT": ("\u2026", "wait"),
}
_LEVELS = {"GREEN": "\u25cf GREEN", "AMBER": "\u25b2 AMBER", "RED": "\u25a0 RED"}
# Whether a check held: sign, tone and word.
_TICKS = {
    True: ("\u2713", "good", "passed"),
    False: ("\u2717", "bad", "failed"),
    None: ("\u2013", "wait", "not checked"),
}
LONGEST_GIVEN = 2000  # characters of a prompt or a truth
MOST_CHARACTERS = 400_000  # of all episodes of a page together


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a claim rests on.

    `about` says in a line or two what the task is, what was trained and how; `digests` are further rows of
    the table of what was measured, by their labels; `run` is what was run, and `run_said` heads that table;
    `checked` what was checked, with what came of it; `findings` why nothing may be claimed, None where nobody
    looked; `data` tables about the data, by caption; `limits` what is not claimed, a sentence each; `verify`
    (what it does, command) of each way to check the page; `links` (text, place) of what lies in the same
    project.
    """

    about: Sequence[str] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    run: pd.DataFrame | None = None
    run_said: str = "What was run, from settings and the records of the stages"
    checked: Sequence[Tick] = ()
    findings: Sequence[Remark] | None = None
    data: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    limits: Sequence[str] = ()
    verify: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What both arms show.

    `arms` are all episodes before and after, for what is paired, and `lines_of` the files that they are the
    lines of; `figures` stand in the order of reading, the first beside the verdict; `tables` are by caption;
    `baselines` are the scripted players beside both policies; `rivals` figures of the trained policy against
    what it has to beat.
    """

    arms: tuple[Sequence[Episode], Sequence[Episode]] | None = None
    lines_of: str = "pre_eval.jsonl and post_eval.jsonl"
    figures: Sequence[Shown] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    baselines: pd.DataFrame | None = None
    rivals: Sequence[Shown] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shows:
    """Episodes to look at.

    `stepped` are pairs to step through, `pairs` pairs to show, as many as fit; `prompts` is what was asked,
    `truths` what is right, by item id.
    """

    stepped: Sequence[Stepped] = ()
    pairs: Sequence[Pair] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    truths: Mapping[str, str] = field(default_factory=dict)


def report_html(
    claim: Claim,
    title: str,
    *,
    basis: Basis,
    comparison: Comparison = Comparison(),
    shows: Shows = Shows(),
    trained: TrainFacts | None = None,
    training: Sequence[Shown] = (),
) -> str:
    """Return the whole page; it opens from disk without a network and asks for nothing.

    Args:
        claim: the comparison; one that is not evaluable shows no number at the top.
        title: head of the page.
        basis: what it rests on.
        comparison: of both arms.
        shows: episodes of theirs.
        trained: facts of the training.
        training: its figures.
    """
    arms, fitting = comparison.arms, pairs_that_fit(shows.pairs)
    empty = {
        "rivals": not comparison.rivals and comparison.baselines is None,
        "controls": claim.difference is None or claim.verdict == DRAFT,
        "training": trained is None and not training,
        "episodes": not fitting and not shows.stepped and arms is None,
        "data": not basis.data,
    }
    sign, tone = _TONES[claim.verdict]
    body = fill(
        "report.html",
        title=title,
        shown=[name for name in HEADINGS if not empty.get(name)],
        claim=claim,
        basis=basis,
        comparison=comparison,
        shows=shows,
        sign=sign,
        tone=tone,
        lead=_lead(claim),
        # What a check says stands beside its tick.
        limits=[each for each in basis.limits if all(each != tick.said for tick in basis.checked)],
        numbers=_headline(claim),
        digests=_digests(claim, basis.digests),
        claim_rows=_claim_rows(claim),
        by_item=None if arms is None else item_by_item(*arms, claim.draws),
        checks=_checks(claim),
        items=None if arms is None else index_of_items(*arms, fitting),
        trained=trained,
        rules=[] if trained is None else _rules(trained),
        training_figures=training,
        stepped=[(each, moments(each)) for each in shows.stepped],
        pairs=fitting,
        total=max(0 if arms is None else len(arms[0]), len(shows.pairs)),
        # A judgement holds digests of texts alone.
        viewed=None if arms is None or claim.made_elsewhere else all_pairs(arms, shows.prompts, shows.truths),
    )
    return shell(title=title, body=body, script=SCRIPT)


def _outcome_text(pair: Pair) -> str:
    words = {True: "success", False: "no success"}
    rewards = f"reward {pair.before.reward:.3g} \u2192 {pair.after.reward:.3g}"
    return f"{words[pair.before.success]} \u2192 {words[pair.after.success]}, {rewards}"


ENVIRONMENT.globals |= {
    "HEADINGS": HEADINGS,
    "LEVELS": _LEVELS,
    "LONGEST_GIVEN": LONGEST_GIVEN,
    "NO_INTERVAL": NO_INTERVAL,
    "RIGHT": RIGHT,
    "SMALL": (WIDTH, HEIGHT),
    "TICKS": _TICKS,
    "missing_interval_said": missing_interval_said,
    "split_word": split_word,
    "heading": heading,
}
ENVIRONMENT.filters |= {
    "outcome_text": _outcome_text,
    "parts_text": parts_text,
    "prompt_head": prompt_head,
    "shortened": shortened,
    "summary_rows": summary_rows,
    "training_alarm_said": training_alarm_said,
}


def _points(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"


def _lead(claim: Claim) -> str:
    """Return what came of it in one short sentence; the whole claim where there is nothing to shorten."""
    if claim.verdict in ("NOT EVALUABLE", DRAFT) or claim.difference is None:
        return claim.sentence
    split = "" if claim.made_elsewhere else f"{split_word(claim.split)} "
    name = f"{split}{labelled(claim.plan.primary)}"
    n = counted(claim.n_clusters, claim.plan.cluster_name)
    return f"{moved(name, claim.before, claim.after, claim.difference, n, rate=True)}, {p_text(claim.p)}."


def _headline(claim: Claim) -> list[tuple[str, str]]:
    rows = [
        ("measured on", _counts(claim)),
        ("smallest change that matters, points", f"{claim.plan.smallest_effect_points:g}"),
        ("smallest detectable, points", _points(claim.smallest_detectable_points)),
    ]
    if (found := claim.random_reward) is not None and found.comparable:
        rows.append(("gain from random rewards, points", difference_text(found.difference, rate=True)))
    if claim.control is not None and claim.control.passed is not None:
        rows.append(("base against itself, points", difference_text(claim.control.difference, rate=True)))
    return rows


def _counts(claim: Claim) -> str:
    clusters = counted(claim.n_clusters, claim.plan.cluster_name)
    return f"{clusters}, {counted(claim.n_items, 'items')}, K = {claim.draws}"


def _digests(claim: Claim, further: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        ("plan (digest of its content; sha256sum of the file gives another)", claim.plan_digest),
        *further.items(),
        ("suite", claim.plan.suite_digest),
        ("policy before", claim.before_policy),
        ("policy after", claim.after_policy),
    ]


def _claim_rows(claim: Claim) -> list[tuple[str, str]]:
    """Return the claim in numbers as text: (quantity, value). Rates in %, differences in points, 95 %
    intervals."""
    seeds = ", ".join(map(str, claim.training_seeds))
    rows = [
        ("before, %", interval_text(claim.before, rate=True)),
        ("after, %", interval_text(claim.after, rate=True)),
        ("difference, points", difference_text(claim.difference, rate=True)),
        ("p, two-sided test of a bounded mean over clusters", p_number(claim.p)),
        ("cross-check, studentised cluster bootstrap, points", difference_text(claim.cross_check, rate=True)),
        ("counts", _counts(claim)),
        ("training seeds" if len(claim.training_seeds) > 1 else "training seed", seeds or "none"),
        ("smallest effect that matters, points", f"{claim.plan.smallest_effect_points:g}"),
        ("smallest detectable effect, points", _points(claim.smallest_detectable_points)),
        ("the same as planned before training, points", _points(claim.planned_detectable_points)),
    ]
    if (split := claim.gain_split) is not None:
        parsed = f"{percent(split.parsed_before)} to {percent(split.parsed_after)}"
        right = f"{percent(split.correct_given_parsed_before)} to {percent(split.correct_given_parsed_after)}"
        gains = [difference_text(part, rate=True) for part in (split.parse_part, split.correct_part)]
        rows += [
            ("gain from parsing, points", f"{gains[0]} ({parsed} % of episodes parse throughout)"),
            ("gain from being right, points", f"{gains[1]} (of those {right} % succeed)"),
        ]
    if (tokens := claim.tokens_per_completion) is not None:
        change = difference_text(tokens.difference, rate=False)
        rows.append(
            ("tokens per completion", f"{_points(tokens.before)} to {_points(tokens.after)}, {change}")
        )
    if claim.leave_one_out is not None:
        rows.append(("leave one out", left_out_said(claim.leave_one_out, claim.plan.cluster_name)))
    if claim.items_changed is not None:
        rows.append(("items", ", ".join(f"{n} {name}" for name, n in claim.items_changed.items())))
    return rows


def item_by_item(before: Sequence[Episode], after: Sequence[Episode], draws: int) -> pd.DataFrame:
    """Return how many items went from so many successes in `draws` draws (rows) to so many (columns)."""
    wins: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for k, arm in enumerate((before, after)):
        for episode in arm:
            wins[episode.item_id][k] += episode.success
    counts = Counter((b, a) for b, a in wins.values())
    steps = range(draws + 1)
    rows = [[f"{b} of {draws} before", *(counts[b, a] for a in steps)] for b in steps]
    return pd.DataFrame(rows, columns=["items with", *(f"{a} of {draws} after" for a in steps)])


def _checks(claim: Claim) -> list[tuple[str, str, str, str]]:
    """Return controls, guardrails and further confirmatory metrics; a control not asked for is not run."""
    rows = []
    if (control := claim.control) is None:
        rows.append(("base against base", "control", MISSING, "not run"))
    else:
        gap = "not run" if control.passed is None else difference_text(control.difference, rate=True)
        rows.append(("base against base", control.kind, gap, control_said(control)))
    if (found := claim.random_reward) is None:
        asked = "asked for, not played" if "random_reward" in claim.plan.controls else "not asked for"
        rows.append(("random rewards against base", "control", "not run", f"not run: {asked}"))
    else:
        gap, ahead = (difference_text(each, rate=True) for each in (found.difference, found.ahead))
        counts = f"{counted(found.n_clusters, claim.plan.cluster_name)}, {counted(found.n_items, 'items')}"
        outcome = {True: "ahead", False: "not shown to be ahead", None: "not tested"}[found.trained_is_ahead]
        known = effect_words(found.direction, found.size) if found.comparable else say_all(found.reason or ())
        said = f"{known}; {p_text(found.p)}; {counts}"
        rows += [
            ("random rewards against base", "control", gap, said),
            ("training against random rewards", "control", ahead, f"{outcome}, {p_text(found.ahead_p)}"),
        ]
        if found.red is None:
            rows.append(("alarms with random rewards", "control", MISSING, "nobody watched that training"))
        else:
            idle = f"; not measured: {', '.join(found.unmeasured)}" if found.unmeasured else ""
            none = "none reached RED"
            rows.append(
                (
                    "alarms with random rewards",
                    "control",
                    f"{len(found.red)} RED",
                    (", ".join(found.red) or none) + idle,
                )
            )
    for guard in claim.guardrails:
        gap = difference_text(guard.difference, rate=is_rate(guard.measure))
        rows.append((guard.measure, f"guardrail, loss under {guard.margin:g}", gap, guard.outcome))
    for name, each in claim.secondary.items():
        gap = difference_text(each.difference, rate=is_rate(name))
        rows.append((name, "confirmatory, Holm", gap, p_text(each.p_holm)))
    for name, suite in claim.secondary_suites.items():
        gap = difference_text(suite.difference, rate=True)
        rows.append((name, "secondary suite, Holm", gap, f"{direction_said(suite)}, {p_text(suite.p_holm)}"))
    return rows


def _rules(trained: TrainFacts) -> list[tuple[str, str, int, int, int]]:
    return [(r.rule, _LEVELS[r.level], r.first_step, r.worst_step, r.times) for r in trained.health.rules]


def pairs_that_fit(pairs: Sequence[Pair], most: int = MOST_CHARACTERS) -> list[Pair]:
    """Return as many pairs as fit a page, taken in turn from every kind, in the order given; at least one of
    each kind."""
    kept, room = set(), most
    queues = [[k for k, pair in enumerate(pairs) if pair.kind == kind] for kind in KINDS]
    for turn in range(max((len(queue) for queue in queues), default=0)):
        for queue in queues:
            if turn < len(queue):
                pair = pairs[queue[turn]]
                turns = (*pair.before.turns, *pair.after.turns)
                size = 3000 + sum(len(each.completion) + len(each.observation or "") for each in turns)
                if turn == 0 or size <= room:
                    kept.add(queue[turn])
                    room -= size
    return [pair for k, pair in enumerate(pairs) if k in kept]
