"""The same items before and after, whole episodes side by side, as Markdown that model text cannot break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.core.counting import counted
from assay.core.records import Episode, Turn
from assay.rollout.tasks.protocol import Picture
from assay.verdict.evidence.tables.markdown import MARKDOWN

LONGEST = 4000
RIGHT = "Right (never shown to the model):"
KINDS = ("random", "worst", "median", "best", "fixed", "broken")


@dataclass(frozen=True, slots=True)
class Pair:
    """One item and draw in both arms, and why it is shown."""

    kind: str  # one of KINDS
    before: Episode
    after: Episode
    chosen: str = ""  # how, as it goes on from the kind

    @property
    def reason(self) -> str:
        """Why it is shown, in words."""
        return f"{self.kind}{self.chosen}"


@dataclass(frozen=True, slots=True)
class Stepped:
    """A pair of whole episodes to step through, with the pictures of every state of both; none where its task
    draws none."""

    pair: Pair
    pictures: tuple[Sequence[Picture], Sequence[Picture]] | None = None


def choose_pairs(
    before: Sequence[Episode],
    after: Sequence[Episode],
    rng: np.random.Generator,
    *,
    n_random: int = 3,
    n_each: int = 1,
) -> list[Pair]:
    """Return pairs of episodes to show: seeded random first, then worst, median and best, then fixed and
    broken.

    Both arms hold the same items and draws. Worst, median and best are by reward after training. Fixed:
    failed before, succeeded after; broken: the other way round; both drawn at random among all such pairs,
    with their number in the reason. A pair is shown once.
    """
    arms = [{(e.item_id, e.draw): e for e in arm} for arm in (before, after)]
    keys = sorted(arms[0])
    ranked = sorted(keys, key=lambda key: (arms[1][key].reward, key))
    fixed = [key for key in keys if not arms[0][key].success and arms[1][key].success]
    broken = [key for key in keys if arms[0][key].success and not arms[1][key].success]
    middle, total = (len(ranked) - 1) // 2, len(keys)
    wanted: list[tuple[str, str, list[tuple[str, int]], int]] = [
        ("random", f", of {total}", _shuffled(keys, rng), n_random),
        ("worst", " reward after", ranked, n_each),
        ("median", " reward after", ranked[middle:] + ranked[:middle][::-1], n_each),
        ("best", " reward after", ranked[::-1], n_each),
        ("fixed", f", one of {len(fixed)} of {total}", _shuffled(fixed, rng), n_each),
        ("broken", f", one of {len(broken)} of {total}", _shuffled(broken, rng), n_each),
    ]
    pairs, seen = [], set()
    for kind, chosen, candidates, n in wanted:
        fresh = [key for key in candidates if key not in seen][:n]
        seen.update(fresh)
        pairs += [Pair(kind, arms[0][key], arms[1][key], chosen) for key in fresh]
    return pairs


def _shuffled(keys: Sequence[tuple[str, int]], rng: np.random.Generator) -> list[tuple[str, int]]:
    return [keys[k] for k in rng.permutation(len(keys))]


def shortened(text: str, limit: int = LONGEST) -> str:
    """Return the text with its middle replaced by the number of characters left out, if longer than the
    limit.

    >>> shortened("abcdefgh", 4)
    'ab\\n[... 4 characters left out ...]\\ngh'
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def parts_text(turn: Turn) -> str:
    """Return what a turn earned, by reward part; nothing where it earned none."""
    return ", ".join(f"{name} {value:+.3g}" for name, value in sorted(turn.parts.items()) if value)


def summary_rows(pair: Pair) -> list[tuple[str, str, str]]:
    """Return (fact, before, after) of a pair: success, reward, ending, turns, tokens and each flag."""

    def word(flag: bool | None) -> str:
        return "missing" if flag is None else "yes" if flag else "no"

    b, a = pair.before, pair.after
    rows = [
        ("success", word(b.success), word(a.success)),
        ("reward", f"{b.reward:.4g}", f"{a.reward:.4g}"),
        ("ending", b.ending, a.ending),
        ("turns", str(len(b.turns)), str(len(a.turns))),
        ("tokens", str(b.n_tokens), str(a.n_tokens)),
    ]
    flags = sorted(set(b.flags) | set(a.flags))
    return rows + [(flag, word(b.flags.get(flag)), word(a.flags.get(flag))) for flag in flags]


def prompt_head(pair: Pair) -> str:
    """Return what stands above the prompt of a pair."""
    cut = pair.before.prompt_chars_cut
    return (
        f"Prompt (of which {counted(cut, 'characters')} {'was' if cut == 1 else 'were'} cut to fit):"
        if cut
        else "Prompt:"
    )


def sample_trajectories(
    pairs: Sequence[Pair],
    *,
    prompts: Mapping[str, str] | None = None,
    truths: Mapping[str, str] | None = None,
) -> str:
    """Return sample_trajectories.md: chosen pairs with a table of facts, then every turn of both episodes.

    `prompts` and `truths` give the whole opening prompt and what is right by item id; where one is not given
    the page says that it is not shown. Only prompts, truths and turns that did not decide an episode are ever
    shortened, beyond 4,000 characters, and say so.
    """
    page = MARKDOWN.get_template("sample_trajectories.md")
    return page.render(pairs=pairs, prompts=prompts or {}, truths=truths or {})


def _strata_text(pair: Pair) -> str:
    return ", ".join(f"{label} {value}" for label, value in sorted(pair.before.strata.items()))


MARKDOWN.globals |= {"RIGHT": RIGHT, "counted": counted}
MARKDOWN.filters |= {
    "parts_text": parts_text,
    "prompt_head": prompt_head,
    "shortened": shortened,
    "strata_text": _strata_text,
    "summary_rows": summary_rows,
}
