"""What in two sets of results may make a gain of something else than the model, as far as they show it: each
is a warning with a code of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from assay.verdict.evidence.claim.warnings import OFTEN_CUT
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.judge.conditions import ANSWERS, ITSELF
from assay.verdict.judge.rows import JudgedRow
from assay.verdict.judge.sources import Judgement

ONE_SIDED = 0.01  # of the results of an arm, from which a fault of one arm alone is said
TIMES = 2.0  # as often as in the other arm
FEWEST = 2  # results
HALF = 0.5  # of the bounds, which scores should reach; of prompts, that show short targets in one arm alone
FEWEST_RIGHT, REPEATED = 5, 0.1  # right answers of an arm, and more of them that repeat a long target


def doubts(told: Judgement, arms: Mapping[str, Sequence[JudgedRow]]) -> list[Remark]:
    """Return what a reader must know of how the results came about.

    Args:
        told: What was asked, and what reading found.
        arms: Rows of before, after and each rival.
    """
    before, after = arms["before"], arms["after"]
    return [
        *_one_sided(told, before, after),
        *_cut(before, after),
        *_of_many_answers(told),
        *_some_items(told, arms),
        *_one_model(told),
        *_graded_by_itself(told),
        *_same_results(before, after),
        *_of_targets(told, (len(before), len(after))),
        *(each for name in told.rivals for each in _no_result(name, arms[name], (before, after))),
        *_bounds(told, arms),
        *_clusters(told, arms),
    ]


def _right(row: JudgedRow, lower: bool) -> bool:
    """Return whether a row has the best score there is."""
    if row.share is None:
        return row.success != lower
    return row.share == (0.0 if lower else 1.0)


def _one_sided(told: Judgement, before: Sequence[JudgedRow], after: Sequence[JudgedRow]) -> list[Remark]:
    """Return which faults count as wrong, or as right, in one arm and hardly in the other."""
    found = []
    for code, right in (("failed_in_one_arm", False), ("failed_counts_as_right", True)):
        counts = [
            Counter(row.fault for row in rows if row.fault and _right(row, told.lower_is_better) == right)
            for rows in (before, after)
        ]
        for fault in sorted({*counts[0], *counts[1]}):
            n = [each[fault] for each in counts]
            shares = [k / len(rows) for k, rows in zip(n, (before, after), strict=True)]
            if max(n) >= FEWEST and _apart(shares):
                of = [len(before), len(after)]
                points = 100 * abs(shares[0] - shares[1])
                found.append(remark(code, fault=fault, counts=n, of=of, points=points))
    return found


def _apart(shares: Sequence[float]) -> bool:
    return max(shares) - min(shares) >= ONE_SIDED and max(shares) >= TIMES * min(shares)


def _cut(before: Sequence[JudgedRow], after: Sequence[JudgedRow]) -> list[Remark]:
    """Return that one arm was cut off more often than the other, or that either was often."""
    known = [[bool(row.truncated) for row in rows if row.truncated is not None] for rows in (before, after)]
    if not all(known):
        return []
    shares = [sum(each) / len(each) for each in known]
    if _apart(shares):
        return [remark("cut_off_in_one_arm", shares=shares)]
    return [remark("cut_off_in_both", shares=shares)] if max(shares) > OFTEN_CUT else []


def _of_many_answers(told: Judgement) -> list[Remark]:
    """Return which arms' files say that a score is one of several answers, where no row shows it."""
    found = []
    for name, record in {"before": told.before, "after": told.after}.items():
        if any(each.code == "answers_not_scored" for each in record.notes):
            continue
        many = sorted({file.measured.get(ANSWERS, "1") for file in record.files} - {"1"})
        if many:
            found.append(remark("best_of_answers", arm=name, answers=many))
    return found


def _some_items(told: Judgement, arms: Mapping[str, Sequence[JudgedRow]]) -> list[Remark]:
    """Return that the files' tasks have more items than were played."""
    for name, record in {"before": told.before, "after": told.after}.items():
        of = [file.items for file in record.files if file.items is not None]
        n = len({row.item_id for row in arms[name]})
        if len(of) == len(record.files) and n < sum(of):
            return [remark("some_items", arm=name, n=n, of=sum(of))]
    return []


def _one_model(told: Judgement) -> list[Remark]:
    """Return that both arms name one model, so that nothing shows that they are two policies."""
    names = [{file.model for file in record.files} for record in (told.before, told.after)]
    if None in names[0] | names[1] or names[0] != names[1]:
        return []
    return [remark("one_model", model=", ".join(sorted(filter(None, names[0]))))]


def _graded_by_itself(told: Judgement) -> list[Remark]:
    """Return which arms were graded by the very model that wrote the answers."""
    found = []
    for name, record in {"before": told.before, "after": told.after}.items():
        for file in record.files:
            grader, model = file.measured.get("grader", ""), file.model
            if model and (_plain(grader) == _plain(model) or grader.startswith(ITSELF)):
                found.append(remark("graded_by_itself", arm=name, model=model))
                break
    return found


def _plain(model: str) -> str:
    """Return a model's name without who serves it: "openai/gpt-x" and "GPT-X" are one."""
    return model.rpartition("/")[2].casefold()


def _same_results(before: Sequence[JudgedRow], after: Sequence[JudgedRow]) -> list[Remark]:
    """Return that both arms hold the same results, in whatever order; nothing where only scores are known,
    and all of them are equal."""
    arms = [Counter((row.item_id, row.success, row.share, row.completion, row.tokens) for row in rows)
            for rows in (before, after)]  # fmt: skip
    texts = any(row.completion for row in before)
    if arms[0] != arms[1] or not (texts or len({row.reward for row in before}) > 1):
        return []
    return [remark("same_results", n=len(before), texts=texts)]


def _of_targets(told: Judgement, rows: Sequence[int]) -> list[Remark]:
    """Return what in the texts of one arm, and hardly in the other, is no sign of being right."""
    arms = [told.before.targets, told.after.targets]
    if None in arms:
        return []
    both = [each for each in arms if each is not None]
    found = []

    def shares(part: str, whole: str) -> list[float]:
        return [getattr(each, part) / max(1, getattr(each, whole)) for each in both]

    def apart(part: str, odd: Sequence[float]) -> bool:
        return max(getattr(each, part) for each in both) >= FEWEST and _apart(odd)

    def counts(part: str, whole: str) -> dict[str, list[int]]:
        return {"counts": [getattr(e, part) for e in both], "of": [getattr(e, whole) for e in both]}

    if min(each.prompts for each in both) and apart("shown", shares("shown", "prompts")):
        found.append(remark("target_in_prompt", **counts("shown", "prompts")))
    elif min(each.prompts for each in both) >= FEWEST_RIGHT:
        short = shares("short", "prompts")
        if abs(short[1] - short[0]) >= HALF:
            found.append(remark("target_in_prompt", **counts("short", "prompts")))
    repeated = shares("repeated", "right")
    if min(each.right for each in both) >= FEWEST_RIGHT and repeated[1] - repeated[0] >= REPEATED:
        found.append(remark("target_repeated", **counts("repeated", "right")))
    missed = [each.missed / max(1, n) for each, n in zip(both, rows, strict=True)]
    if not told.lower_is_better and apart("missed", missed):
        points = round(100 * (missed[0] - missed[1]), 10)
        found.append(remark("target_counts_as_wrong", **counts("missed", "exact"), points=points))
    return found


def _no_result(name: str, rows: Sequence[JudgedRow], others: Sequence[Sequence[JudgedRow]]) -> list[Remark]:
    """Return why a rival does not look like what a player would get."""
    counts = Counter(row.reward for row in rows)
    silent = not any(row.completion for row in rows) and all(row.completion for arm in others for row in arm)
    usual = counts.most_common(1)[0] if rows else (0.0, 0)
    if not rows or (len(rows) - usual[1] > ONE_SIDED * len(rows) and not silent):
        return []
    return [remark("rival_no_result", rival=name, silent=silent, scores=[usual[0]], n=usual[1], of=len(rows))]


def _bounds(told: Judgement, arms: Mapping[str, Sequence[JudgedRow]]) -> list[Remark]:
    """Return that scores reach no half of the bounds that somebody named: every change looks small by
    them."""
    low, high = told.bounds
    scores = [row.reward for rows in arms.values() for row in rows if row.share is not None]
    if (low, high) == (0.0, 1.0) or not scores or max(scores) - min(scores) >= HALF * (high - low):
        return []
    return [remark("bounds_not_reached", bounds=[low, high], least=min(scores), most=max(scores))]


def other_units(told: Judgement, arms: Mapping[str, Sequence[JudgedRow]]) -> list[Remark]:
    """Return which arms hold scores that look like shares where others are on the whole scale."""
    low, high = told.bounds
    tops = {
        name: max((row.reward for row in rows if row.share is not None), default=None)
        for name, rows in arms.items()
    }
    known = {name: top for name, top in tops.items() if top is not None and not told.before.has_success}
    found = []
    for name, top in known.items():
        scores = [row.reward for row in arms[name]]
        other = max(known, key=lambda each: known[each])
        shares = high >= 100 or any(0 < each < 1 for each in scores)
        # Of few marks only whole ones are known to be no shares.
        whole = high >= 10 or all(row.reward == int(row.reward) for row in arms[other])
        if low >= 0 and high > 1 and top <= 1 and shares and whole and known[other] > max(1, high / 10 + 1):
            found.append(remark("other_units", arm=name, most=top, other=other, other_most=known[other]))
    return found


def _clusters(told: Judgement, arms: Mapping[str, Sequence[JudgedRow]]) -> list[Remark]:
    """Return where clusters that were read hold one item each, or are not there for every row."""
    for name, record in {"before": told.before, "after": told.after}.items():
        if not record.clustered:
            continue
        homes = {row.item_id: row.cluster for row in arms[name]}
        alone = len(set(homes.values())) == len(homes)
        if alone or record.clustered < record.rows:
            rows = record.rows - record.clustered
            return [remark("clusters_not_held", arm=name, alone=alone, rows=rows, n=len(homes))]
    return []
