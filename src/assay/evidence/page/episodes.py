"""Episodes side by side: chosen by rule, whole, to be filtered by kind, stratum and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.core.counting import counted
from assay.core.records import Episode, Turn
from assay.evidence.page.elements import paragraph, rows_table
from assay.evidence.page.shell import escaped
from assay.evidence.tables.trajectories import (
    KINDS,
    RIGHT,
    Pair,
    deciding_turn,
    prompt_head,
    shortened,
    summary_rows,
)

LONGEST_GIVEN = 2000  # characters of a prompt or a truth
MOST_CHARACTERS = 400_000  # of all episodes of a page together


def pairs_that_fit(pairs: Sequence[Pair], most: int = MOST_CHARACTERS) -> list[Pair]:
    """Return as many pairs as fit a page, taken in turn from every kind, in the order given; at least one of
    each kind."""
    kept, room = set(), most
    queues = [[k for k, pair in enumerate(pairs) if pair.kind == kind] for kind in KINDS]
    for turn in range(max((len(queue) for queue in queues), default=0)):
        for queue in queues:
            if turn < len(queue):
                size = _size(pairs[queue[turn]])
                if turn == 0 or size <= room:
                    kept.add(queue[turn])
                    room -= size
    return [pair for k, pair in enumerate(pairs) if k in kept]


def _size(pair: Pair) -> int:
    turns = (*pair.before.turns, *pair.after.turns)
    return 3000 + sum(len(turn.completion) + len(turn.observation or "") for turn in turns)


def _turn(turn: Turn, number: int, total: int, deciding: bool) -> str:
    words = f"Turn {number} of {total}: {counted(turn.n_tokens, 'tokens')}, {turn.outcome}"
    words += ", truncated" if turn.truncated else ""
    words += f", failure: {turn.failure}" if turn.failure is not None else ""
    parts = ", ".join(f"{name} {value:+.3g}" for name, value in sorted(turn.parts.items()) if value)
    words += f", reward {parts}" if parts else ""
    words += ", deciding" if deciding else ""
    block = f"<p>{escaped(words)}</p><pre>{escaped(turn.completion if deciding else shortened(turn.completion))}</pre>"
    if turn.observation is not None:
        block += f"<p>Observation</p><pre>{escaped(turn.observation if deciding else shortened(turn.observation))}</pre>"
    return f'<div class="turn{" deciding" if deciding else ""}">{block}</div>'


def _episode(name: str, episode: Episode) -> str:
    last = deciding_turn(episode)
    turns = [_turn(turn, k + 1, len(episode.turns), k == last) for k, turn in enumerate(episode.turns)]
    inside = "".join(turns) or "<p>No turn was played.</p>"
    return f"<div><h4>{name}</h4>{inside}<p>Ending: {escaped(episode.ending)}</p></div>"


def _given(pair: Pair, prompt: str | None, truth: str | None) -> str:
    """Return what both episodes were asked and what is right, where that is known."""
    known = [(head, text) for head, text in ((prompt_head(pair), prompt), (RIGHT, truth)) if text is not None]
    return "".join(
        f"<p>{escaped(head)}</p><pre>{escaped(shortened(text, LONGEST_GIVEN))}</pre>" for head, text in known
    )


def _outcome(pair: Pair) -> str:
    words = {True: "success", False: "no success"}
    rewards = f"reward {pair.before.reward:.3g} \u2192 {pair.after.reward:.3g}"
    return f"{words[pair.before.success]} \u2192 {words[pair.after.success]}, {rewards}"


def _pair(pair: Pair, numbers: Mapping[tuple[str, str], int], given: str, *, is_open: bool) -> str:
    strata = sorted(pair.before.strata.items())
    marks = " ".join(str(numbers[each]) for each in strata)
    said = ", ".join(f"{label} {value}" for label, value in strata)
    head = f"{pair.reason}: item {pair.before.item_id[:16]}, draw {pair.before.draw}. {_outcome(pair)}"
    table = rows_table(["fact", "before", "after"], summary_rows(pair), "Both episodes")
    both = _episode("Before", pair.before) + _episode("After", pair.after)
    start = (
        f'<article data-kind="{escaped(pair.kind)}"'
        f' data-strata="{marks}"><details{" open" if is_open else ""}>'
    )
    return (
        f"{start}<summary>{escaped(head)}</summary>"
        + (paragraph(f"Strata: {said}.", "faint") if said else "")
        + f'{given}{table}<div class="pair">{both}</div></details></article>'
    )


def _form(pairs: Sequence[Pair], numbers: Mapping[tuple[str, str], int]) -> str:
    # The values of the choices are words and numbers of ours; what a data set calls its strata is text only.
    present = [kind for kind in KINDS if any(pair.kind == kind for pair in pairs)]
    chosen = "random" if "random" in present else ""
    kinds = "".join(f'<option value="{k}"{" selected" if k == chosen else ""}>{k}</option>' for k in present)
    strata = "".join(
        f'<option value="{number}">{escaped(f"{label} {value}")}</option>'
        for (label, value), number in numbers.items()
    )
    return (
        '<form id="filter" hidden aria-label="Which episodes are shown"><label>Kind<select'
        f' name="kind"><option value="">all kinds</option>{kinds}</select></label><label>Stratum<select'
        f' name="stratum"><option value="">all strata</option>{strata}</select></label><label>Words<input'
        ' name="words" type="search" autocomplete="off" placeholder="in any text of a pair"></label><button'
        ' type="button" id="open-all">Open or close all</button><button type="reset">Start'
        ' again</button></form><p id="filtered" class="faint" aria-live="polite"></p>'
    )


def episodes(
    pairs: Sequence[Pair], total: int, *, prompts: Mapping[str, str] | None, truths: Mapping[str, str] | None
) -> list[str]:
    """Return the blocks of the section: what is shown of how many, the filter, then every pair; `total`
    counts all pairs."""
    every = sorted({each for pair in pairs for each in pair.before.strata.items()})
    numbers = {each: k for k, each in enumerate(every)}
    said = (
        f"The same item and draw before and after training: {len(pairs)} of {total} pairs, chosen by rule (at"
        " random from a seed; worst, median and best by reward after; at random among the fixed and among"
        " the broken). The random ones tell what is usual, the others do not. Draws are independent: one"
        " fixed or broken pair may be luck. All episodes: pre_eval.jsonl and post_eval.jsonl, matched by"
        " item_id and draw."
    )
    shown: list[str] = []
    for pair in pairs:
        prompt, truth = ((known or {}).get(pair.before.item_id) for known in (prompts, truths))
        shown.append(_pair(pair, numbers, _given(pair, prompt, truth), is_open=not shown))
    note = (
        "Text in blocks is what a model wrote or was told; control and direction-changing characters are"
        " shown as escapes."
    )
    return [paragraph(said), paragraph(note, "faint"), _form(pairs, numbers), *shown]
