"""What is odd about episodes, in words: flags that a task tolerates only so often, fields whose answers say
nothing or one and the same, prompts that were cut."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from assay.core.counting import counted
from assay.core.records import Alarm, Episode, RuleSummary, TrainAlarm
from assay.rollout.tasks.protocol import AnswerKey, FieldAnswer, Item, Task


def alarms(task: Task, episodes: Sequence[Episode]) -> list[Alarm]:
    """Return the alarms that these episodes raise; a flag whose question arises in none of them raises
    none."""
    found = []
    for flag, threshold in task.alarms.items():
        known = [value for value in (episode.flags.get(flag) for episode in episodes) if value is not None]
        if known and sum(known) / len(known) > threshold:
            found.append(Alarm(flag=flag, rate=sum(known) / len(known), threshold=threshold, n=len(known)))
    return found


def alarm_said(alarm: Alarm, where: str) -> str:
    """Return an alarm as one sentence.

    >>> alarm = Alarm(flag="empty_fields", rate=0.125, threshold=0.05, n=64)
    >>> alarm_said(alarm, "held-out episodes after training")
    'ALARM empty_fields: 12.5 % of 64 held-out episodes after training, tolerated are 5 %.'
    """
    return (
        f"ALARM {alarm.flag}: {100 * alarm.rate:.1f} % of {alarm.n} {where}, tolerated are"
        f" {100 * alarm.threshold:g} %."
    )


def training_alarm_said(found: TrainAlarm) -> str:
    """Return what rang during a training as one sentence: how often, since when, and at its worst.

    >>> worst = Alarm(flag="empty_fields", rate=0.25, threshold=0.05, n=64)
    >>> found = TrainAlarm(source="batch", first_step=3, times=2, worst_step=9, worst=worst)
    >>> training_alarm_said(found).partition("; ")[2]
    'at worst 25.0 % of 64 at step 9, tolerated are 5 %.'
    """
    worst = found.worst
    return (
        f"ALARM {worst.flag} in training: raised by {found.times} x {found.source}, first at step"
        f" {found.first_step}; at worst {100 * worst.rate:.1f} % of {worst.n} at step {found.worst_step},"
        f" tolerated are {100 * worst.threshold:g} %."
    )


def rule_said(found: RuleSummary) -> str:
    """Return what a rule of training health came to as one sentence.

    >>> rule_said(RuleSummary(rule="entropy", level="RED", first_step=40, worst_step=90, times=2))
    'ALARM entropy in training: RED from step 90, raised 2 times since step 40 (health.jsonl says more).'
    """
    times = "once" if found.times == 1 else f"{found.times} times"
    return (
        f"ALARM {found.rule} in training: {found.level} from step {found.worst_step}, raised {times} "
        f"since step {found.first_step} (health.jsonl says more)."
    )


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
    return shares_of(told)


def shares_of(told: Mapping[str, Sequence[FieldAnswer]]) -> dict[str, Shares]:
    """Return what `field_shares` does, of what answers say by field."""
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


def cuts_said(episodes: Sequence[Episode]) -> str | None:
    """Return how many prompts were cut, in words; None if none was."""
    cuts = {episode.item_id: episode.prompt_chars_cut for episode in episodes}
    return cuts_in_words({item: cut for item, cut in cuts.items() if cut}, len(cuts))


def cuts_in_words(cuts: Mapping[str, int], n: int) -> str | None:
    """Return how many of n prompts were cut and by how much, cuts by item id; None if none was.

    >>> cuts_in_words({"a": 120, "b": 7}, 10)
    '2 of 10 prompts were cut to fit the prompt limits of the task, by up to 120 characters'
    """
    if not cuts:
        return None
    said = f"{len(cuts)} of {counted(n, 'prompts')} {'was' if len(cuts) == 1 else 'were'} cut"
    return (
        f"{said} to fit the prompt limits of the task, by up to {counted(max(cuts.values()), 'characters')}"
    )
