"""Whether two arms measured the same, and asked the model in the same way: what differs, and what is not
known, as their files say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assay.core.errors import DataError
from assay.rollout.tables.columns import simplify
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.judge.conditions import (
    ASKED,
    DIRECTION,
    ERRORS,
    EVERY,
    HIGHER,
    IN_PROMPT,
    LIMITS,
    LOWER,
    MEASURED,
    NOT_SET,
)
from assay.verdict.judge.rows import JudgedRow
from assay.verdict.judge.sources import ArmRecord, Form, Judgement, SourceFile

# What the content of items shows where it is held; prompts show IN_PROMPT.
_BY_CONTENT = ("dataset", "dataset version", "split")
# Forms whose prompts are what the model read, and not the question alone.
_WHOLE_PROMPTS: frozenset[Form] = frozenset(
    {"inspect log", "lm-eval samples", "verifiers results", "verifiers traces", "assay episodes"}
)
_SEEDS = ("seed", "seed of examples")
_CUT = 0.01  # share of completions from which another limit decides


def require_direction(told: Judgement) -> None:
    """Refuse scores that would be judged against the way that their file, or their name, says is better.

    Raises:
        DataError: Says which, and what to type.
    """
    files = [file for arm in (told.before, told.after) for file in arm.files]
    ways = {file.name: _way_of(file) for file in files}
    wanted = LOWER if told.lower_is_better else HIGHER
    for file in files:
        way = ways[file.name]
        if way in (None, wanted):
            continue
        fix = "--lower-is-better" if way == LOWER else "leave --lower-is-better out"
        if len({each for each in ways.values() if each}) > 1:
            fix = "judge the tasks of which lower is better apart, with --lower-is-better"
        metric = file.measured.get("metric") or file.metric
        raise DataError(f"a score of which {wanted}", found=f"{metric}: {way}", where=file.name, fix=fix)


def _way_of(file: SourceFile) -> str | None:
    """Return which way a file's score is better: as the file says, or a name of an error; None: not known."""
    names = filter(None, (file.metric, file.measured.get("metric")))
    error = any(simplify(name.partition(",")[0]) in ERRORS for name in names)
    return file.measured.get(DIRECTION) or (LOWER if error else None)


def measured_otherwise(told: Judgement) -> list[Remark]:
    """Return which arms did not measure what the results before did."""
    found = []
    for name, arm in {"after": told.after, **told.rivals}.items():
        for task, pair in _pairs(told.before, arm):
            if odd := [*_different(*pair, "measured")]:
                found.append(remark("measured_otherwise", arm=name, task=task, differences=odd))
    return found


def scored_otherwise(told: Judgement, arms: Mapping[str, Sequence[JudgedRow]]) -> list[Remark]:
    """Return which arms have scores that are no yes or no, where the results before say only what succeeded,
    or the other way round: the mean of the one is no rate of the other."""
    records = {"before": told.before, "after": told.after, **told.rivals}
    kinds = {}
    for name, record in records.items():
        known = [row for row in arms[name] if row.share is not None]
        if record.has_success and all(row.share == float(row.success) for row in known):
            kinds[name] = "success"
        elif not record.has_success and any(row.share not in (0.0, 1.0) for row in known):
            kinds[name] = "a score"
    found = []
    for name in records.keys() & kinds.keys() if "before" in kinds else ():
        if kinds[name] != kinds["before"]:
            odd = {"name": "what is read", "before": kinds["before"], "arm": kinds[name]}
            found.append(remark("measured_otherwise", arm=name, task="", differences=[odd]))
    return sorted(found, key=lambda each: str(each.values["arm"]))


def asked_otherwise(told: Judgement) -> list[Remark]:
    """Return in what the model was asked otherwise after than before."""
    odd = list[dict[str, str]]()
    for task, pair in _pairs(told.before, told.after):
        found = [*_different(*pair, "settings")]
        one, two = (file.task for file in pair)
        if one and two and one != two:
            found.append({"name": "task", "before": one, "arm": two})
        odd += [{**each, "name": f"{each['name']} of {task}" if task else each["name"]} for each in found]
    told_of = [{"name": each["name"], "before": each["before"], "after": each["arm"]} for each in odd]
    return [remark("decoded_differently", settings=told_of)] if told_of else []


def limits_decide(told: Judgement, before: Sequence[JudgedRow], after: Sequence[JudgedRow]) -> list[Remark]:
    """Return where the arms had other limits, and the one with the lower was cut off at it more often.

    What was cut off counts as wrong, so that such a difference is one of the limits.
    """
    shares = [share for rows in (before, after) if (share := _cut(rows)) is not None]
    if len(shares) < 2:
        return []
    for _, (first, other) in _pairs(told.before, told.after):
        for each in _different(first, other, "settings"):
            if each["name"] not in LIMITS:
                continue
            limits = [_number(each[arm]) for arm in ("before", "arm")]
            lower = limits.index(min(limits))
            if limits[0] != limits[1] and shares[lower] - shares[1 - lower] >= _CUT:
                return [
                    remark(
                        "limit_decides",
                        setting=each["name"],
                        before=each["before"],
                        after=each["arm"],
                        shares=shares,
                    )
                ]
    return []


def not_known(told: Judgement, arms: Mapping[str, Sequence[JudgedRow]]) -> list[Remark]:
    """Return, in one remark, of what the files do not say that it was the same."""
    unknown = dict[str, list[str]]()
    for name, arm in {"after": told.after, **told.rivals}.items():
        wanted = (*MEASURED, *(ASKED if name == "after" else ()))
        held = _shown_by_items(told.before, arm, arms["before"], arms[name])
        lacking = dict[str, None]({} if _questions_held(arms["before"], arms[name]) else {"question": None})
        for _, (first, other) in _pairs(told.before, arm):
            for what in wanted:
                values = [_value(file, what) for file in (first, other)]
                if None in values and what not in held:
                    lacking[what] = None
        if lacking:
            unknown[name] = list(lacking)
    if not unknown:
        return []
    by_names = dict[tuple[str, ...], list[str]]()
    for name, names in unknown.items():
        by_names.setdefault(tuple(names), []).append(name)
    told_of = [{"arms": ["before", *others], "names": [*names]} for names, others in by_names.items()]
    return [remark("not_known_alike", unknown=told_of)]


def _questions_held(before: Sequence[JudgedRow], other: Sequence[JudgedRow]) -> bool:
    """Return whether both arms hold a question, a target or a prompt of any item."""
    one, two = ({row.item_id for row in rows if row.content or row.prompt} for rows in (before, other))
    return bool(one & two) or not before or not other


def _pairs(before: ArmRecord, other: ArmRecord) -> Iterator[tuple[str, tuple[SourceFile, SourceFile]]]:
    """Yield the files of two arms that hold one task, with the task's name where there are several."""
    if len(before.files) == len(other.files) == 1:
        yield "", (before.files[0], other.files[0])
        return
    by_task = {file.task or file.name: file for file in other.files}
    for file in before.files:
        task = file.task or file.name
        if (found := by_task.get(task)) is not None:
            yield task, (file, found)
        elif len(other.files) == 1:  # of one file that may hold all tasks
            yield task, (file, other.files[0])


def _value(file: SourceFile, name: str) -> str | None:
    """Return what a file says of something; None where that is not known."""
    found = file.measured.get(name) or file.settings.get(name)
    known = name in file.says or (EVERY in file.says and name not in (*MEASURED, *ASKED))
    return found or (NOT_SET if known else None)


def _different(first: SourceFile, other: SourceFile, kind: str) -> Iterator[dict[str, str]]:
    """Yield in what two files differ where both say it."""
    for name in sorted({*getattr(first, kind), *getattr(other, kind)}):
        if name in _SEEDS:
            continue
        one, two = _value(first, name), _value(other, name)
        same_tool = first.form == other.form or name in (*MEASURED, *ASKED)
        if one is not None and two is not None and one != two and same_tool:
            yield {"name": name, "before": one, "arm": two}


def _cut(rows: Sequence[JudgedRow]) -> float | None:
    known = [bool(row.truncated) for row in rows if row.truncated is not None]
    return sum(known) / len(known) if known and len(known) == len(rows) else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")  # not set: no limit


def _shown_by_items(
    before: ArmRecord, other: ArmRecord, rows: Sequence[JudgedRow], others: Sequence[JudgedRow]
) -> set[str]:
    """Return what the items themselves show to be the same, or to differ, where both arms hold them."""
    found = set[str]()
    if all(row.content for row in rows) and all(row.content for row in others):
        found |= {*_BY_CONTENT}
    whole = all(file.form in _WHOLE_PROMPTS for record in (before, other) for file in record.files)
    if whole and all(row.prompt for row in rows) and all(row.prompt for row in others):
        found |= {*IN_PROMPT}
    return found
