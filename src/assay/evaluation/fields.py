"""What answers say in each field beside what is right there: how often nothing, one and the same, and what is
right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from assay.core.records import Episode
from assay.tasks.protocol import AnswerKey, FieldAnswer, Item

MAX_FIELDS = 32  # of one table: those that most answers are graded in, then by name
# Of a suite: so many answers at least, so many more empty than right ones, one value in so many while golds
# have it in fewer.
MIN_ANSWERS, EMPTIED, CONSTANT, VARIES = 20, 0.3, 0.99, 0.9
SHARES = ("n", "empty", "gold_empty", "top", "gold_top", "right")
Shares = dict[str, float]


def field_answers(key: AnswerKey, items: Mapping[str, Item], episode: Episode) -> Mapping[str, FieldAnswer]:
    """Return what the answer of an episode says by field; nothing where it could not be read."""
    action, item = episode.turns[-1].action if episode.turns else None, items.get(episode.item_id)
    return {} if action is None or item is None else key.fields(item, action)


def field_shares(
    key: AnswerKey | None, items: Mapping[str, Item], episodes: Sequence[Episode]
) -> dict[str, Shares]:
    """Return by field, over the answers that could be read and have it in their gold: n, and shares in [0,
    1].

    `empty` says nothing there, `top` says what most of them say, `right` is right; `gold_empty` and
    `gold_top` are what the same answers would show if all were right. No field where the task knows no right
    answers.
    """
    told: defaultdict[str, list[FieldAnswer]] = defaultdict(list)
    if key is None:
        return {}
    for episode in episodes:
        for place, said in field_answers(key, items, episode).items():
            told[place].append(said)
    kept = sorted(told, key=lambda place: (-len(told[place]), place))[:MAX_FIELDS]
    return {place: _shares(told[place]) for place in sorted(kept)}


def _shares(told: Sequence[FieldAnswer]) -> Shares:
    n = len(told)
    found, gold = (
        Counter(values) for values in zip(*((said.found, said.gold) for said in told), strict=True)
    )
    counts = (found[""], gold[""], max(found.values()), max(gold.values()), sum(said.right for said in told))
    return {"n": n} | {name: count / n for name, count in zip(SHARES[1:], counts, strict=True)}


def collapsed_said(shares: Mapping[str, Shares], where: str) -> list[str]:
    """Return, as sentences, which fields of a suite's answers say nothing, or one and the same, though the
    golds do not.

    >>> shares = {"n": 40, "empty": 0.9, "gold_empty": 0.0, "top": 0.9, "gold_top": 0.2, "right": 0.1}
    >>> collapsed_said({"city": shares}, "held-out answers")
    ['ALARM field city: says nothing in 90 % of 40 held-out answers; in 0 % that would be right.']
    """
    said = []
    for place, known in shares.items():
        head = f"ALARM field {place}: says"
        if known["n"] >= MIN_ANSWERS and known["empty"] - known["gold_empty"] > EMPTIED:
            told = (
                f"nothing in {100 * known['empty']:.0f} % of {known['n']:.0f} {where}; in"
                f" {100 * known['gold_empty']:.0f} %"
            )
            said.append(f"{head} {told} that would be right.")
        elif known["n"] >= MIN_ANSWERS and known["top"] >= CONSTANT and known["gold_top"] < VARIES:
            told = f"one and the same in {100 * known['top']:.0f} % of {known['n']:.0f} {where}"
            said.append(f"{head} {told}; the golds do so in {100 * known['gold_top']:.0f} %.")
    return said


def flat(shares: Mapping[str, Shares]) -> dict[str, float]:
    """Return shares by `<field>.<share>`, as a row of the log holds them."""
    return {f"{place}.{name}": value for place, known in shares.items() for name, value in known.items()}


def nested(row: Mapping[str, float]) -> dict[str, Shares]:
    """Return what `flat` made flat.

    >>> nested(flat({"a.b": {"n": 2, "top": 0.5}}))
    {'a.b': {'n': 2, 'top': 0.5}}
    """
    found: dict[str, Shares] = {}
    for key, value in row.items():
        place, _, name = key.rpartition(".")
        found.setdefault(place, {})[name] = value
    return found


def field_rows(step: int, source: str, shares: Mapping[str, Shares]) -> Iterator[dict[str, object]]:
    """Yield rows of fields.csv: one a field."""
    for place, known in shares.items():
        yield {"step": step, "source": source, "field": place} | known


COLUMNS = ("step", "source", "field", *SHARES)
