"""Results that were made elsewhere, in the one form that the verdict reads: an arm of rows, each one draw of
an item; and whether two arms are about the same items, matched by id and by content.

A row answers what the statistics ask of an episode, in a tenth of its memory, so that a million of them fit.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from assay.core.errors import DataError
from assay.core.records import Episode, ParseOutcome
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.judge.contents import differ, identity_of, parts_of, question_of

SCORE = "score"  # the flag under which a score in [0, 1] is measured: score_rate
NO_STRATA: Mapping[str, str] = {}
SHOWN = 3
SHARED = 0.1  # of the items, from which shared passages are said
NEARLY_ALL = 0.9  # of items: where answers are short, draws of many agree that were sampled
UNLIKELY = 0.01


def no_strata() -> Mapping[str, str]:
    """Return the one empty mapping that all rows without labels share."""
    return NO_STRATA


_COLUMNS = (
    "item",
    "draw",
    "cluster",
    "score",
    "share",
    "success",
    "turns",
    "tokens",
    "truncated",
    "unparsed",
    "strata",
    "content",
    "prompt",
    "completion",
    "fault",
)


@dataclass(frozen=True, slots=True)
class JudgedTurn:
    """What is known of one completion."""

    outcome: ParseOutcome
    truncated: bool


@lru_cache(maxsize=4096)
def _turns_of(n: int, truncated: int, unparsed: int) -> tuple[JudgedTurn, ...]:
    return tuple(JudgedTurn("failed" if k < unparsed else "ok", k < truncated) for k in range(n))


@dataclass(slots=True)
class JudgedRow:
    """One draw of one item. None is not known; texts are there as digests only."""

    item_id: str
    draw: int
    cluster: str
    reward: float  # the score as it was given
    share: float | None  # the same within its bounds, 0 to 1; None: the success decides
    success: bool
    n_turns: int | None = None
    tokens: int | None = None
    truncated: int | None = None  # completions that hit the limit of tokens
    unparsed: int | None = None
    strata: Mapping[str, str] = field(default_factory=no_strata)
    content: str = ""  # of the question and what is right, as contents.py has it
    prompt: str = ""  # of the prompt as the model saw it
    completion: str = ""
    fault: str = ""  # error, timeout or empty: how it ended, where that is known

    @property
    def seed(self) -> int:
        """The draw: which seeds were used elsewhere is not known."""
        return self.draw

    @property
    def n_tokens(self) -> int:
        """Tokens of all completions; 0 where they are not known."""
        return self.tokens or 0

    @property
    def turns(self) -> tuple[JudgedTurn, ...]:
        """The completions; none where nothing is known of them."""
        return (
            () if self.n_turns is None else _turns_of(self.n_turns, self.truncated or 0, self.unparsed or 0)
        )

    @property
    def flags(self) -> Mapping[str, float]:
        """The score as a share."""
        return {} if self.share is None else {SCORE: self.share}

    @property
    def parts(self) -> Mapping[str, float]:
        """None: reward parts are not read."""
        return NO_STRATA  # type: ignore[return-value]

    @property
    def metrics(self) -> Mapping[str, float]:
        """None, as parts."""
        return NO_STRATA  # type: ignore[return-value]

    def model_copy(self, *, update: Mapping[str, int]) -> JudgedRow:
        """Return a copy with another draw, as the control asks of a record."""
        rest = [getattr(self, name) for name in _BEHIND_DRAW]
        return JudgedRow(self.item_id, update["draw"], *rest)


_BEHIND_DRAW = JudgedRow.__slots__[2:]


def as_episodes(rows: Sequence[JudgedRow]) -> Sequence[Episode]:
    """Return rows as what the statistics take: they read nothing of an episode that a row does not have."""
    return cast("Sequence[Episode]", rows)


def all_know(rows: Iterable[JudgedRow], name: str) -> bool:
    """Return whether a field is known of every row."""
    return all(getattr(row, name) is not None for row in rows)


def rows_text(rows: Sequence[JudgedRow]) -> str:
    """Return rows as the CSV that a package holds; what is not known is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        strata = json.dumps(dict(row.strata), sort_keys=True, ensure_ascii=False) if row.strata else ""
        share = None if row.share is None else repr(row.share)
        writer.writerow(
            (
                row.item_id,
                row.draw,
                "" if row.cluster == row.item_id else row.cluster,
                repr(row.reward),
                share,
                int(row.success),
                row.n_turns,
                row.tokens,
                row.truncated,
                row.unparsed,
                strata,
                row.content,
                row.prompt,
                row.completion,
                row.fault,
            )
        )
    return buffer.getvalue()


def read_rows(text: str, where: str) -> list[JudgedRow]:
    """Return the rows of such a CSV.

    Raises:
        DataError: It is not one that `rows_text` wrote.
    """
    try:
        return list(_rows_of(text))
    except (ValueError, IndexError, KeyError, TypeError, csv.Error, RecursionError) as error:
        found = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        fix = "get the package again from where it was published"
        raise DataError("rows as assay judge writes them", found=found, where=where, fix=fix) from None


def _rows_of(text: str) -> Iterator[JudgedRow]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    if tuple(next(lines, ())) != _COLUMNS:
        raise ValueError("another head")
    strata: dict[str, Mapping[str, str]] = {"": NO_STRATA}
    names: dict[str, str] = {}
    for item, draw, cluster, score, share, success, *counts, labels, content, prompt, said, fault in lines:
        if labels not in strata:
            strata[labels] = {str(key): str(value) for key, value in json.loads(labels).items()}
        turns, tokens, truncated, unparsed = (int(each) if each else None for each in counts)
        item = names.setdefault(item, item)
        row = JudgedRow(
            item,
            int(draw),
            names.setdefault(cluster, cluster) if cluster else item,
            float(score),
            float(share) if share else None,
            success == "1",
            turns,
            tokens,
            truncated,
            unparsed,
            strata[labels],
            names.setdefault(content, content),
            names.setdefault(prompt, prompt),
            said,
            names.setdefault(fault, fault),
        )
        if (
            not math.isfinite(row.reward)
            or not (row.share is None or 0.0 <= row.share <= 1.0)
            or success not in "01"
        ):
            raise ValueError(f"item {item}: no score that could have been read")
        parts_of(content)
        yield row


def by_content(before: Sequence[JudgedRow], after: Sequence[JudgedRow]) -> bool:
    """Give the items of the second arm the ids of the first, where only their contents agree; return whether.

    Every item has to have a question and target of its own, or else a question, and both arms the same.
    """
    homes = [_contents(rows) for rows in (before, after)]
    if not homes[0] or homes[0].keys() == homes[1].keys():
        return False
    clusters = {row.item_id: row.cluster for row in before}
    alone = all(row.cluster == row.item_id for row in after)
    for known in (identity_of, question_of):
        names = [{known(content): item for item, content in home.items()} for home in homes]
        if any(len(by) != len(home) or "" in by for by, home in zip(names, homes, strict=True)):
            continue
        if names[0].keys() == names[1].keys():
            for row in after:
                item = names[0][known(row.content)]
                row.cluster = clusters[item] if alone else row.cluster
                row.item_id = item
            return True
    return False


def _contents(rows: Sequence[JudgedRow]) -> dict[str, str]:
    return {row.item_id: row.content for row in rows}


def obstacles(
    before: Sequence[JudgedRow], after: Sequence[JudgedRow], name: str, *, draws: bool = True
) -> list[Remark]:
    """Return why an arm is not about the items of the first; `draws`: also where it has more or fewer of an
    item."""
    first, other = _contents(before), _contents(after)
    found = []
    only = {"before": first.keys() - other.keys(), name: other.keys() - first.keys()}
    if any(only.values()):
        arms = [{"arm": arm, "n": len(ids), "items": _some(ids)} for arm, ids in only.items() if ids]
        found.append(remark("items_in_one_arm", arms=arms))
    shared = first.keys() & other.keys()
    odd = [item for item in shared if differ(first[item], other[item])]
    if odd:
        found.append(remark("other_questions", arm=name, n=len(odd), of=len(shared), items=_some(odd)))
    drawn = {arm: Counter(row.item_id for row in rows) for arm, rows in (("before", before), (name, after))}
    if draws and len({n for each in drawn.values() for n in each.values()}) > 1:
        counts = {arm: tuple(each.values()) or (0,) for arm, each in drawn.items()}
        arms = [{"arm": arm, "fewest": min(each), "most": max(each)} for arm, each in counts.items()]
        fewest = min((n for each in drawn.values() for n in each.values()), default=1)
        found.append(remark("other_draws", arms=arms, fewest=fewest))
    homes = [{row.item_id: row.cluster for row in rows} for rows in (before, after)]
    moved = [item for item in shared if homes[0][item] != homes[1][item]]
    if moved:
        found.append(remark("other_clusters", arm=name, n=len(moved), items=_some(moved)))
    return found


def unite_same(before: Sequence[JudgedRow], others: Sequence[Sequence[JudgedRow]]) -> int:
    """Put items that ask the same into one cluster, in every arm; return how many have another that asks it.

    What asks the same is answered the same: as many items they would be no more evidence.
    """
    items = {row.item_id: row for rows in (*others, before) for row in rows if row.content}
    asked: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in items.values():
        found = parts_of(row.content)
        asked[found.wording or found.question, found.target].append(row.cluster)
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while name in root:
            name = root[name]
        return name

    same = 0
    for clusters in asked.values():
        same += len(clusters) if len(clusters) > 1 else 0
        for other in clusters[1:]:
            one, two = sorted((find(clusters[0]), find(other)))
            if one != two:
                root[two] = one
    for rows in (before, *others) if root else ():
        for row in rows:
            row.cluster = find(row.cluster)
    return same


def shared_passages(rows: Sequence[JudgedRow]) -> dict[str, str]:
    """Return by item the passage that it shares with another cluster; nothing where few do."""
    found = {row.item_id: (parts_of(row.content).passage, row.cluster) for row in rows if row.content}
    clusters: dict[str, set[str]] = defaultdict(set)
    for passage, cluster in found.values():
        clusters[passage].add(cluster)
    shared = {item: name for item, (name, _) in found.items() if name and len(clusters[name]) > 1}
    return shared if len(shared) >= SHARED * len(found) else {}


def _some(items: Iterable[str]) -> list[str]:
    return sorted(items)[:SHOWN]


def identical_draws(rows: Sequence[JudgedRow]) -> tuple[int, int, bool]:
    """Return of how many items with several draws all completions are one and the same, of how many they are
    known, and whether that is more than independent draws make likely.

    Where right answers are one text, and wrong ones another, draws that know nothing of each other agree as
    often as they are right or wrong together: at most a share q of items. That so many agree by chance has at
    most the probability exp(-n KL(same / n, q)). Source: H. Chernoff, Ann. Math. Stat. 23 (1952) 493.
    """
    drawn: dict[str, list[JudgedRow]] = defaultdict(list)
    for row in rows:
        if row.completion:
            drawn[row.item_id].append(row)
    several = [each for each in drawn.values() if len(each) > 1]
    same, n = sum(len({row.completion for row in each}) == 1 for each in several), len(several)
    if same <= NEARLY_ALL * n:
        return same, n, False
    right = sum(row.success for each in several for row in each) / sum(map(len, several))
    q = sum(right ** len(each) + (1 - right) ** len(each) for each in several) / n
    share = same / n
    if share in (1.0, q) or q >= 1.0:
        return same, n, share == 1.0
    surprise = n * (share * math.log(share / q) + (1 - share) * math.log((1 - share) / (1 - q)))
    return same, n, share > q and surprise > -math.log(UNLIKELY)


def warnings(before: Sequence[JudgedRow], after: Sequence[JudgedRow], name: str) -> list[Remark]:
    """Return what a reader must know of how an arm fits the first."""
    found = []
    contents = [_contents(rows) for rows in (before, after)]
    prompts = [{row.item_id: row.prompt for row in rows} for rows in (before, after)]
    shared = contents[0].keys() & contents[1].keys()
    unknown = [
        item
        for item in shared
        if not (contents[0][item] and contents[1][item]) and not (prompts[0][item] and prompts[1][item])
    ]
    if 0 < len(unknown) < len(shared):  # of none it is said with all that no file says
        found.append(remark("prompts_not_held", arm=name, n=len(unknown), of=len(shared)))
    other = [
        item
        for item in shared
        if prompts[0][item] and prompts[1][item] and prompts[0][item] != prompts[1][item]
    ]
    if other:
        found.append(remark("other_prompts", arm=name, n=len(other), of=len(shared)))
    for arm, rows in (("before", before), (name, after)):
        same, known, odd = identical_draws(rows)
        if odd:
            found.append(remark("same_draws", arm=arm, n=same, of=known))
    return found
