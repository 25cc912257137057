"""The first lines of README.md: a claim as a short table, with what has to be known beside it."""

from __future__ import annotations

from collections.abc import Iterator

from assay.core.counting import counted
from assay.core.records import Interval
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.rivals import Rival
from assay.verdict.evidence.claim.verdict import DRAFT
from assay.verdict.evidence.escape import visible
from assay.verdict.evidence.formatting import difference_text, interval_text, p_text, percent, signed
from assay.verdict.evidence.words.sentences import assumed, beware_said

# How the strongest baseline of each kind is called, in the order of the table.
CALLED = {
    "instead of training": "the same base used better, without training",
    "scripted": "best hand-written script",
    "trivial": "best answer that takes no skill",
}


def headline(claim: Claim) -> str:
    """Return verdict, table and caveats as Markdown; of a claim without a number its sentence alone."""
    gap = claim.difference
    if claim.verdict in ("NOT EVALUABLE", DRAFT) or gap is None or gap.low is None:
        return f"**{claim.verdict}.** {visible(claim.sentence)}\n"
    said = f"**{claim.verdict}:** {difference_text(gap, rate=True)} points ({p_text(claim.p)})."
    caveats = "\n".join(f"* {each}" for each in caveats_of(claim))
    return f"{said}\n\n{table_of(claim)}\n\n{caveats}\n"


def table_of(claim: Claim) -> str:
    """Return both arms and the strongest baseline of each kind, and the trained policy's lead over each."""
    rows = [
        ("**after training**", interval_text(claim.after, rate=True), None),
        ("before training", interval_text(claim.before, rate=True), claim.difference),
        *_baselines(claim),
    ]
    problems = counted(claim.n_items, "problems")
    head = (
        f"| {claim.plan.primary.replace('_', ' ')} on {problems} | % [95 % interval] | training is ahead by |"
    )
    body = (
        f"| {name} | {rate} | {difference_text(lead, rate=True) if lead else ''} |"
        for name, rate, lead in rows
    )
    return "\n".join([head, "|---|---|---|", *body])


def _baselines(claim: Claim) -> Iterator[tuple[str, str, Interval | None]]:
    sign = 1 if claim.plan.direction == "higher" else -1
    control = claim.random_reward
    if control is not None and control.comparable and not control.collapsed:
        yield "trained on random rewards", percent(control.after), control.ahead
    for kind, called in CALLED.items():
        own = {name: each for name, each in claim.rivals.items() if each.kind == kind}
        if own:
            name = min(own, key=lambda each: sign * (own[each].difference.value or 0.0))
            best: Rival = own[name]
            yield f"{called} (`{name}`)", percent(best.rate), best.difference


def caveats_of(claim: Claim) -> Iterator[str]:
    """Yield what a reader has to know before he repeats the number, most important first."""
    if said := beware_said(claim):
        yield said
    if len(claim.training_seeds) == 1:
        yield "One training run: it speaks of this checkpoint, not of every run of this recipe."
    opened, level, strict = claim.opened, claim.level, claim.difference_at_level
    if level != claim.plan.alpha:
        place = None if opened is None else opened.place
        models = "" if place is None else f"Model number {place} that was measured on these problems, so "
        bar = f"{models}p had to be at most {level:.2g}, not {claim.plan.alpha:g}"
        wide = (
            ""
            if strict is None or strict.low is None
            else f"; at that level the interval is {signed(strict.low, 100)} to {signed(strict.high, 100)}"
        )
        yield f"{bar[:1].upper()}{bar[1:]}{wide}."
    if said := assumed(claim):
        yield said
    told = f"{counted(len(claim.warnings), 'warnings')}, the controls" if claim.warnings else "The controls"
    yield f"{told} and every table: [docs/results.md](docs/results.md)."
