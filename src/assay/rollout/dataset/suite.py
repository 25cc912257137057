"""A suite: a fixed list of items of one split with draws and a seed; its digest says what was measured, and
by which rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from assay.core.config.places import setting
from assay.core.config.settings import GenerationSettings
from assay.core.config.tasks import TaskSettings
from assay.core.errors import ConfigError
from assay.core.records import Split
from assay.core.seeds import derive_seed, rng
from assay.core.storage.json import digest
from assay.rollout.dataset.clusters import united
from assay.rollout.dataset.wording import content_of
from assay.rollout.tasks.protocol import Item

SAMPLING, SAMPLING_AGAIN = "sampling", "sampling again"  # labels of the seeds of draws
SECONDARY_ITEMS = 256  # of a secondary suite at most, each played once: it costs little, and decides nothing
FEWEST_CLUSTERS = 6  # below, no p of a test over clusters can reach 0.05
MORE_HELD_OUT = "--fractions 0.5,0.1,0.4"  # of `assay task audit --fix-splits`, in place of a tenth


class Unseen(NamedTuple):
    """The cluster that nobody saw, as tests over clusters reckon with it.

    `size` in items, where larger ones are known than those compared; `loss` is how much of what it could lose
    it loses, as a share: 1 is all.
    """

    size: float = 0.0
    loss: float = 1.0


WORST = Unseen()  # as bad as can be, and no larger than those that are compared


@dataclass(frozen=True, slots=True)
class Play:
    """One episode to be played: which item, which draw, and the seeds of its sampling and of its world."""

    item: Item
    draw: int
    seed: int
    world_seed: int


@dataclass(frozen=True)
class Suite:
    """Items of one split, draws per item, the seed all plays are derived from, the rules of `rules_of`, and
    the label of its draws' seeds: with another label the same worlds are met by other draws."""

    split: Split
    items: tuple[Item, ...]
    draws: int
    seed: int
    rules: str = ""
    sampling: str = SAMPLING

    @property
    def digest(self) -> str:
        """The sha256 of what is asked and graded: rules, split, ids and records of the items in order, draws,
        seed.

        An id can be given by whoever wrote the data, so it says nothing of what is asked or right; the record
        does.
        """
        asked = [[item.id, item.record] for item in self.items]
        other = [] if self.sampling == SAMPLING else [self.sampling]
        return digest([self.rules, self.split, asked, self.draws, self.seed, *other])

    @cached_property
    def contents(self) -> tuple[str, ...]:
        """What the records ask, in order, whatever their ids; of what came from no file, its digest."""
        return tuple(item.record if item.row is None else content_of(item.row) for item in self.items)

    def plays(self) -> list[Play]:
        """Return every play of the suite; all draws of an item meet the same world."""
        return list(self._plays)

    @cached_property
    def _plays(self) -> tuple[Play, ...]:
        return tuple(
            Play(
                item,
                draw,
                seed=derive_seed(self.sampling, self.split, self.seed, item.id, draw),
                world_seed=derive_seed("world", self.split, self.seed, item.id),
            )
            for item in self.items
            for draw in range(self.draws)
        )


def rules_of(
    task: TaskSettings, generation: GenerationSettings, blocklist: str | None, code: str | None = None
) -> str:
    """Return the sha256 of what decides, besides its record, what an item asks and how an answer is graded.

    Args:
        task: Its settings; what only training or the making of a base reads is left out.
        generation: How the policy speaks; and at which temperature it is measured, if not at 1: the same
            weights could else be tried at one after the other, as if on one suite.
        blocklist: sha256 of the file of blocked terms, None for none.
        code: sha256 of the task's own folder of code, None for a task that is part of assay.
    """
    asked = task.model_dump(mode="json", exclude=set(task.not_measured))
    temperature = [{"temperature": generation.measured_at}] if generation.measured_at != 1 else []
    return digest([asked, generation.surface, blocklist, *([] if code is None else [code]), *temperature])


# At most so many times the conversations held at once: what has ended makes room for others of the same unit,
# and only its last conversations run with places to spare. At least as many units a suite, so that little is
# lost by an interruption.
UNIT = 4


def units(plays: Sequence[Play], batch_size: int) -> list[Sequence[Play]]:
    """Return plays in the parts that are played, kept and played again as a whole: at most 4 times
    `batch_size` of them, as equal as can be, so that no process waits long for another.

    >>> [len(unit)
    ... for unit in units([Play(None, draw, 0, 0) for draw in range(10)], 2)]  # type: ignore[arg-type]
    [2, 2, 2, 2, 2]
    >>> [len(unit)
    ... for unit in units([Play(None, draw, 0, 0) for draw in range(35)], 2)]  # type: ignore[arg-type]
    [7, 7, 7, 7, 7]
    """
    size = batch_size * max(1, min(UNIT, len(plays) // (UNIT * batch_size)))
    n = -(-len(plays) // size)
    ends = [len(plays) * k // max(n, 1) for k in range(n + 1)]
    return [plays[start:end] for start, end in pairwise(ends)]


def choose(
    items: Sequence[Item],
    n: int,
    *,
    split: Split,
    draws: int,
    seed: int,
    rules: str = "",
    similarity: float | None = None,
) -> Suite:
    """Return a suite of n items with the strata in the proportions of the whole split, in the order of the
    file.

    Args:
        items: All items of the split.
        n: How many to take.
        split: Name of the split.
        draws: Episodes per item.
        seed: Root of all sampling and world seeds of the suite.
        rules: Those of `rules_of`; "" for a suite that nothing is compared by.
        similarity: From what share of common words two items are one cluster (`dataset.near_duplicates`);
            None leaves each in its task's, for a suite that nothing is concluded from.

    Raises:
        ConfigError: The split holds fewer items.
    """
    if n > len(items):
        raise ConfigError(
            f"at most {len(items)} items (all of {split})",
            found=str(n),
            where=setting(f"{'evaluation' if split == 'heldout' else split}.items"),
            fix="lower the number, or add data",
        )
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for index, item in enumerate(items):
        groups.setdefault(tuple(sorted(item.strata.items())), []).append(index)
    # By relative rank inside its stratum, so that a part of the file has the proportions of the whole.
    ranked = sorted(
        ((rank + 0.5) / len(group), key, index)
        for key, group in groups.items()
        for rank, index in enumerate(group)
    )
    chosen = sorted(index for _, _, index in ranked[:n])
    taken = [items[index] for index in chosen]
    if similarity is not None:
        taken = united(taken, similarity)
    return Suite(split, tuple(taken), draws, seed, rules)


def parted(
    items: Sequence[Item], share: float, seed: int, similarity: float
) -> tuple[list[Item], list[Item]]:
    """Return items in two parts that share no cluster, each in the order of the file.

    Args:
        items: All items of the split.
        share: Of the items, in the first part; the last cluster there may go beyond it.
        seed: Which clusters those are hangs on it.
        similarity: As of `choose`.

    Raises:
        ConfigError: One part would be empty.
    """
    homes = [item.cluster for item in united(items, similarity)]
    sizes, first, n = Counter(homes), set[str](), 0
    names = sorted(sizes)
    for place in rng("base", "share", seed).permutation(len(names)).tolist():
        if n >= share * len(items):
            break
        first.add(names[place])
        n += sizes[names[place]]
    if not 0 < n < len(items):
        raise ConfigError(
            "train items for both supervised fine-tuning and GRPO, whole clusters of them",
            found=f"{n} of {len(items)} for the first, in {len(sizes)} clusters",
            where=setting("base.warm_start.share"),
            fix="change the share, add data, or set base.warm_start: null",
        )
    parts = [
        [item for item, home in zip(items, homes, strict=True) if (home in first) is own]
        for own in (True, False)
    ]
    return parts[0], parts[1]


def choose_secondary(items: Sequence[Item], most: int, *, seed: int, rules: str, similarity: float) -> Suite:
    """Return the suite of a further data file, each item drawn once: SECONDARY_ITEMS of them, or `most`, or
    all of fewer; other arguments as of `choose`."""
    n = min(SECONDARY_ITEMS, most, len(items))
    return choose(items, n, split="secondary", draws=1, seed=seed, rules=rules, similarity=similarity)
