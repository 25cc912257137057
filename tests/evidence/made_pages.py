"""Whole pages for tests, with any text in every place where a stranger's text can come to stand."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import fields
from html.parser import HTMLParser
from typing import Any

import pandas as pd

from assay.core.records import Episode, HealthSummary, TrainFacts
from assay.rollout.tasks.protocol import Panel, Picture
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.figures.comparison_figures import before_after_summary, reward_distribution
from assay.verdict.evidence.figures.drawing import render
from assay.verdict.evidence.page.report import Basis, Comparison, Shows, report_html
from assay.verdict.evidence.page.shell import Shown, Tick
from assay.verdict.evidence.tables.trajectories import KINDS, Pair, Stepped
from assay.verdict.evidence.words.remarks import remark
from conftest import make_claim, make_report
from synthetic_episodes import arm, episode

# The rest of these elements is text until their end, so no tag inside of them counts.
VOID = ("meta", "br", "img", "link", "input", "path", "use", "rect")
FACTS = TrainFacts(
    seed=7,
    steps=200,
    chosen_step=150,
    claim_plan_sha256="c" * 64,
    base_digest="b" * 64,
    policy_digest="a" * 64,
    validation_suite="v",
    chain="",
    alarms=(),
    health=HealthSummary(worst="GREEN", rules=(), unmeasured=("clip",)),
)


class Tags(HTMLParser):
    """Collects elements with the names of their attributes, and checks that they nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, ...]] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element, and that it is open."""
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that it is the one opened last."""
        assert tag in VOID or self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element."""
        self.seen.append((tag, *(name for name, _ in attrs)))
        self.attributes += attrs

    def handle_comment(self, data: str) -> None:
        """Note that there is a comment, of which a page of ours has none."""
        self.seen.append(("comment",))


@functools.cache
def arms() -> tuple[list[Episode], list[Episode]]:
    """Return a weak and a strong arm on the same items."""
    return arm("base", 0.35), arm("trained", 0.65)


@functools.cache
def plain_claim() -> Claim:
    """Return the claim on the two arms."""
    return make_claim(*arms())


@functools.cache
def figures() -> tuple[Shown, ...]:
    """Return two figures of the comparison."""
    before, after = arms()
    reports = make_report(before), make_report(after)
    drawn = {
        "summary": before_after_summary(plain_claim(), *reports),
        "rewards": reward_distribution(before, after),
    }
    frame = pd.DataFrame({"step": range(200), "reward": [0.5] * 200})
    return tuple(
        Shown(name, render(each)["svg"], f"figure {name}", frame, "log.csv") for name, each in drawn.items()
    )


def hostile_pair(text: str, kind: str, number: int) -> Pair:
    """Return a pair that says the text everywhere; its item id begins with it."""

    def one(success: bool) -> Episode:
        found = episode(number, 0, success=success, completion=text)
        first = found.turns[0].model_copy(
            update={"completion": text, "observation": text, "failure": text, "action": text}
        )
        last = found.turns[1].model_copy(update={"parts": {text: 0.5}})
        changes = {
            "item_id": f"{text}{number}",
            "strata": {"tier": text, text: "x"},
            "ending": text,
            "flags": {text: None},
        }
        return found.model_copy(update={"turns": (first, last), **changes})

    return Pair(kind, one(False), one(True), f", of {text}")


def hostile_pictures(text: str, n: int) -> list[Picture]:
    """Return a picture a state of so many turns, whose names and words are the text."""
    panels = [
        Panel(text, [0.0, 1.0, 2.0], [3.0, 0.0], [1.0, 1.0], (0.5, 0.9), 1.5),
        Panel(text, [0, 1], [0], [0]),
    ]
    return [Picture(text, text, panels, text) for _ in range(n + 1)]


def made_page(text: str | Sequence[str] = "plain", **changes: Any) -> str:
    """Return a whole page that says the text, or each of several, in every place."""
    texts = [text] if isinstance(text, str) else list(text)
    pairs = [hostile_pair(each, KINDS[k % len(KINDS)], k) for k, each in enumerate(texts)]
    said = texts[0]
    claim = plain_claim().model_copy(
        update={
            "warnings": tuple(remark("how_trained", how=whole(each)) for each in texts),
            "reasons": (remark("rival_not_played", rival=whole(said)),),
            "plan": plain_claim().plan.model_copy(
                update={"primary": said, "checkpoint_rule": said, "cluster_name": said}
            ),
        }
    )
    # pandas and records take no half of a surrogate pair; everything else does.
    cells = [whole(each) for each in texts]
    frame = pd.DataFrame({"name": [*cells, "last"], cells[0]: [None, *cells]})
    shown = [Shown(said, each.svg, said, each.table, said, said) for each in figures()]
    held = (True, False, None)
    settings: dict[str, Any] = {
        "digests": {said: said},
        "run": frame,
        "checked": [Tick(each, held[k % 3], each) for k, each in enumerate(texts)],
        "findings": claim.warnings,
        "data": {said: frame},
        "limits": texts,
        "verify": [(said, said)],
        "arms": arms(),
        "figures": shown,
        "tables": {said: frame},
        "baselines": frame,
        "rivals": shown[:1],
        "stepped": [
            Stepped(pair, (hostile_pictures(said, 2), hostile_pictures(said, 2))) for pair in pairs[:2]
        ],
        "pairs": pairs,
        "prompts": {pair.before.item_id: said for pair in pairs},
        "truths": {pair.before.item_id: said for pair in pairs},
        "trained": FACTS,
        "training": shown[:1],
    }
    return page_of(changes.pop("claim", claim), said, **(settings | changes))


def page_of(claim: Claim, title: str = "t", **told: Any) -> str:
    """Return the page of a claim; what else it shows is named as the parts of a page name it."""
    basis, comparison, shows = (
        kind(**{each.name: told.pop(each.name) for each in fields(kind) if each.name in told})
        for kind in (Basis, Comparison, Shows)
    )
    return report_html(claim, title, basis=basis, comparison=comparison, shows=shows, **told)


def whole(text: str) -> str:
    """Return a text without halves of surrogate pairs, which no record takes."""
    return text.encode("utf-8", "replace").decode()
