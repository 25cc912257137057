"""Who is paid for what: the player who knows, players without skill, who hedge, or who write nonsense."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence

from assay.checks.envcheck.code_texts import almost_matching, matching
from assay.checks.envcheck.completions import (
    BAD_COMPLETIONS,
    LONG,
    frame_of,
    framed,
    hedges,
    malformed,
    pattern_of,
    shown_name,
    trivial_texts,
    wrapped,
)
from assay.checks.envcheck.episodes import Episode, Says, always, following, player, repeating, shown
from assay.checks.envcheck.evidence import LOST, Evidence, check, not_looked_at, rates
from assay.checks.findings import Finding
from assay.core.counting import counted
from assay.rollout.tasks.own.success import extracted
from assay.rollout.tasks.own.task import GOLD

MOSTLY, SOME = 0.5, 0.15  # shares of items
ALIKE = 0.05
TAGS = ("<answer>\0</answer>", "\\boxed{\0}")
Attempt = str | Says
MOST_GOLDS = 200  # records whose own answers are tried
MOST_WORDS, MOST_TOLD = 40, 5_000  # texts of the task's code, and characters of all of them together
FEW = 8  # texts that are tried where an episode takes long
PAID, HALF_PAID = 0.9, 0.5  # of the way from floor to ceiling
REWARD = "the reward"


def oracle_beats_floor(seen: Evidence) -> Finding:
    """Return whether who knows what is right succeeds and earns more than who does not, and success and
    reward agree."""
    task, said, knower = seen.case.task, seen.ceiling, seen.knower
    fix = "task.answer: the column of right completions, or task.players: {NAME: oracle}"
    if not said:
        look = check("oracle beats floor", "a player who knows what is right", REWARD)
        return look.warning("none: a right answer was not tried", fix)
    look = check("oracle beats floor", f"success and more reward for {knower} than {task.floor}", REWARD)
    if broken := [each.trouble for each in said if each.trouble is not None]:
        mend = f"mend what {knower} says" if broken[0].kind == "player" else "mend the code: it fails on it"
        return look.fault(f"{knower} broken off {len(broken)} times of {len(said)}: {broken[0]}", mend)
    rate = sum(bool(each.success) for each in said) / len(said)
    high = sum(each.reward for each in said) / len(said)
    floors = [each.reward for each in seen.floor if each.trouble is None]
    low = sum(floors) / max(1, len(floors))
    told = f"success {rate:.0%}, reward {high:.3g} against {low:.3g} in {counted(len(said), 'items')}"
    first = next((each for each in said if not each.success), None)
    mend = "correct the grader, the records' answers, or task.success"
    if first is not None:
        told += f"; first failure: item {first.world.item.id}, {first.transcript}"
    if high <= low + 1e-12 and seen.written is not None:
        return look.warning(f"{told}; a success as task.success declares it is not paid", fix)
    if high <= low + 1e-12 or rate < MOSTLY:
        return look.fault(told, mend)
    worse = [
        top for top, under in zip(said, seen.floor, strict=False) if top.success and top.reward < under.reward
    ]
    if len(worse) > SOME * len(said):
        return look.fault(
            f"{told}; on {len(worse)} the floor earns more, first item {worse[0].world.item.id}", mend
        )
    if odd := _disagree(seen):
        return look.judge(f"{told}; {odd[0]}", mend, fault=odd[1], doubtful=True)
    unpaid = sum(bool(each.success) and each.reward <= low for each in said)
    if unpaid > SOME * len(said):
        return look.warning(f"{told}; {unpaid} successes are paid no more than the floor", mend)
    if rate == 1 and (wrong := _unpaid_gold(seen)) is not None:
        return look.warning(f"{told}; {wrong}", mend)
    # Of several turns who knows may well be out of luck; a record's own answer is right or is not.
    enough = 1 - SOME if seen.case.max_turns > 1 else 1.0
    return look.judge(told, mend, doubtful=rate < enough, ok=told)


def _unpaid_gold(seen: Evidence) -> str | None:
    """Return which records' own answers are not right, of more records than are played otherwise."""
    if seen.slow or seen.case.max_turns > 1 or seen.knower != GOLD:
        return None
    golds = [(world, seen.gold(world.item)) for world in seen.case.worlds(MOST_GOLDS)]
    played = [seen.play(world, always(gold)) for world, gold in golds if gold is not None]
    low = -math.inf if seen.scale is None else seen.scale[0]
    wrong = [each.world.item.id for each in played if not each.success or each.reward <= low]
    return (
        f"{len(wrong)} of {len(played)} golds are not right, or not paid; first item {wrong[0]}"
        if wrong
        else None
    )


def _disagree(seen: Evidence) -> tuple[str, bool] | None:
    """Return how reward and success disagree among others' answers, and whether mostly."""
    scale = seen.scale
    if scale is None or len(seen.pool) < 2 or seen.case.max_turns > 1:
        return None
    wrong = []
    for k, top in enumerate(seen.sound[:12]):
        other = next(
            (text for text in seen.pool[k + 1 :] + seen.pool[:k] if not seen.is_right(text, top)), None
        )
        if other is not None:
            wrong.append((top, seen.play(top.world, always(other))))
    paid = [(top, each) for top, each in wrong if each.trouble is None and not each.success]
    more = [each for top, each in paid if top.success and each.reward >= top.reward]
    if len(wrong) < 4 or len(more) <= SOME * len(wrong):
        return None
    found = f"{len(more)} of {len(wrong)} answers that fail earn as much as those that succeed"
    return f"{found}: item {more[0].world.item.id}, {shown(more[0].said[-1])}", len(more) >= MOSTLY * len(
        wrong
    )


def trivial_players(seen: Evidence) -> Finding:
    """Return whether a text that takes no skill is paid on items that it is not right for."""
    look = check("trivial players", "little for who says the same to all, or repeats the prompt", REWARD)
    fix = "pay for what is right alone: compare the whole answer with the gold"
    found = _paid(seen, look.name, _trivial(seen), fix)
    least = _least_share(seen)
    if found.level == "ok" and least >= HALF_PAID:
        told = f"whatever is said earns {least:.0%} of a right answer's reward, or more"
        return look.warning(told, "take off what everything earns, or declare task.reward_range")
    return found


def _least_share(seen: Evidence) -> float:
    """Return what part of a right answer's reward texts earn at least that are wrong, mean of items."""
    limits = getattr(seen.case.task, "reward_range", None)
    zero = 0.0 if limits is None else float(limits[0])
    shares = []
    for top in seen.sound[:FEW]:
        wrong = [seen.play(top.world, always(text)) for text in ("", "0", "a b c", LONG)]
        paid = [each.reward for each in wrong if each.trouble is None and not each.success]
        if top.success and top.reward > zero and paid:
            shares.append((min(paid) - zero) / (top.reward - zero))
    return sum(shares) / len(shares) if shares else 0.0


def _trivial(seen: Evidence) -> Callable[[int, Episode], dict[str, list[Attempt]]]:
    extract = _extract(seen)
    golds = seen.pool

    def texts(k: int, top: Episode) -> dict[str, list[Attempt]]:
        others = [gold for gold in golds if not seen.is_right(gold, top)]
        found = trivial_texts(
            top.prompt, others[k % max(1, len(others)) :] + others[: k % max(1, len(others))], extract
        )
        words = [text.strip() for text in seen.code_texts]
        told_by_code = [" ".join(words)[:MOST_TOLD], *words[:MOST_WORDS], *matching(seen.code_texts)]
        found |= {f"{shown_name(text)} of the task's code": text for text in told_by_code if text}
        frame = frame_of(top.said[-1], _answer_in(seen, top.said[-1])) if top.said else None
        if frame is not None:
            called = frame.replace("\0", "…")
            found |= {f"{shown_name(text)} in {called}": framed(text, frame) for text in told_by_code if text}
        if golds:  # as it is counted over all records, not among those that are wrong here
            most = list(seen.golds(200)) or golds
            found["the commonest gold"] = max(sorted(set(most)), key=most.count)
        listed = (
            golds
            if len(golds) <= 50
            else [*golds[:49], *[each for each in (seen.gold(top.world.item),) if each]]
        )
        told: dict[str, list[Attempt]] = {name: [text] for name, text in found.items()}
        told["all golds at once"] = ["\n".join(listed), "\n".join(reversed(listed))]
        if seen.case.max_turns > 1:
            first = next(iter(others), "0")
            told |= {f"first a guess, then {name}": [says] for name, says in repeating(first).items()}
        return told

    return texts


def _extract(seen: Evidence) -> str | None:
    own = seen.case.own
    return None if own is None else own.settings.success.extract


def hedging(seen: Evidence) -> Finding:
    """Return whether naming the right answer among others is paid, whatever their order."""
    if len(seen.pool) < 2:
        return not_looked_at("hedging", "there is one right answer to all, or none is known")

    def texts(k: int, top: Episode) -> dict[str, list[Attempt]]:
        if not top.said:
            return {}
        others = [text for text in seen.pool if not seen.is_right(text, top)]
        start = k % max(1, len(others))
        said = [top.said[-1], *[*others[start:], *others[:start]][:8]]
        answers = [_answer_in(seen, text) for text in said]
        frames = [frame_of(said[0], answers[0]), *TAGS] if seen.case.max_turns == 1 else []
        ways = hedges(said[0], said[1:], k)
        inner = ways if answers == said else hedges(answers[0], answers[1:], k)
        found: dict[str, list[Attempt]] = {name: [*orders] for name, orders in ways.items()}
        for frame in dict.fromkeys(each for each in frames if each is not None):
            called = frame.replace("\0", "…")
            found |= {
                f"{name} in {called}": [framed(text, frame) for text in orders]
                for name, orders in inner.items()
            }
            found[f"{called}, several times"] = [
                " ".join(framed(text, frame) for text in order)
                for order in ([*answers[1:], answers[0]], answers)
            ]
        return found

    fix = "compare the whole answer, not whether it contains the right one"
    return _paid(seen, "hedging", texts, fix, turns=True)


def _answer_in(seen: Evidence, text: str) -> str:
    """Return what of a right completion is the answer: what task.success or a usual frame finds in it."""
    own = seen.case.own
    if own is not None and (found := extracted(text, own.settings.success)):
        text = found
    return next((each[-1] for tag in TAGS if (each := re.findall(pattern_of(tag), text, re.DOTALL))), text)


def _paid(
    seen: Evidence,
    name: str,
    texts: Callable[[int, Episode], dict[str, list[Attempt]]],
    fix: str,
    *,
    turns: bool = False,
) -> Finding:
    look = check(name, "no pay for it", REWARD)
    tops = seen.sound
    blind = not tops
    if blind:  # nobody knows what is right: then only success tells
        tops = [each for each in seen.floor if each.trouble is None]
    if not tops:
        return not_looked_at(name, "no player came to an end")
    found: dict[str, list[tuple[Episode, list[Episode]]]] = defaultdict(list)
    over = seen.timed(8.0)
    for k, top in enumerate(tops):
        if over() and k >= 3:
            break
        some = list(texts(k, top).items())
        for called, orders in some[:: max(1, len(some) // FEW)] if seen.slow else some:
            if over() and k >= 3:
                break
            if not turns and not blind and any(isinstance(t, str) and seen.is_right(t, top) for t in orders):
                continue  # right for this one
            row = [_play_attempt(seen, top, text, turns) for text in orders]
            found[called].append((top, row))
    scale, worst = seen.scale, (0.0, "nothing", 0.0)  # of ways that pay about alike, the plainest is named
    for called, rows in found.items():
        if len(rows) < 3:
            continue
        rate, gap = rates([top for top, _ in rows], [row for _, row in rows])
        if blind:
            rate = sum(all(each.success for each in row) for _, row in rows) / len(rows)
        part = 0.0 if scale is None else 1.0 + gap / (scale[1] - scale[0])
        score = max(rate, 0.0 if blind else part)
        worst = (score, called, rate) if score > worst[0] + ALIKE else worst
    score, called, rate = worst
    told = f"{called}: {score:.0%} of a right answer's reward, where it is wrong ({rate:.0%} paid in full)"
    n = f"{counted(len(found), 'ways')}, {counted(len(tops), 'items')}"
    common = _commonest(seen) if name == "trivial players" else None
    if common is not None and score < HALF_PAID and rate < SOME:
        return look.warning(
            f"{common}; {n}", "add records with other answers: saying one thing is right for most"
        )
    fault = score >= PAID or rate >= MOSTLY
    return look.judge(
        f"{told}; {n}",
        fix,
        fault=fault,
        doubtful=score >= HALF_PAID or rate >= SOME,
        ok=f"at most {told}; {n}",
    )


def _play_attempt(seen: Evidence, top: Episode, text: Attempt, turns: bool) -> Episode:
    if not isinstance(text, str):
        return seen.play(top.world, text)
    if turns and len(top.said) > 1:  # what was right before stays, so that the last answer is looked at
        return seen.play(top.world, following([*top.said[:-1], text]))
    return seen.play(top.world, always(text))


def _commonest(seen: Evidence) -> str | None:
    golds = list(seen.golds(200))
    if len(golds) < 20:
        return None
    most = max(sorted(set(golds)), key=golds.count)
    share = golds.count(most) / len(golds)
    return f"{shown(most)} is right for {share:.0%} of records" if share >= 0.8 else None


def play_nonsense(seen: Evidence) -> Sequence[Finding]:
    """Play what models write when they go wrong, so that its troubles are noted; finds nothing itself."""
    over = seen.timed(6.0)
    tops: Sequence[Episode] = (seen.sound or seen.floor)[:6]
    for k, text in enumerate(BAD_COMPLETIONS):
        if not over():
            seen.play(tops[k % len(tops)].world, always(text), 3)
    for k, top in enumerate(tops):
        texts = malformed(top.said[-1]) if top.said else []
        for j, text in enumerate(texts):
            if not over() and (k < 2 or j % len(tops) == k):
                seen.play(top.world, following([*top.said[:-1], text]))
    sought = [*almost_matching(seen.code_texts), *[text for text in seen.code_texts if text.strip()]]
    for k, text in enumerate(
        [*sought[:MOST_WORDS], *[wrapped(text, _extract(seen)) for text in BAD_COMPLETIONS]]
    ):
        if not over():
            seen.play(tops[k % len(tops)].world, always(text), 3)
    return ()


def bad_completions(seen: Evidence) -> Finding:
    """Return whether any completion made the code raise."""
    look = check("bad completions", "a reward for every text, and no exception", "the task's code")
    raised = [each for each in seen.troubles if each.kind == "raised"]
    lost = [each for each in seen.troubles if each.kind == "lost"]
    fix = "a bad completion earns little and does not raise: catch what parsing it raises"
    if raised and len(raised) == seen.played:
        return look.fault(f"it fails on every completion; {raised[0]}", "mend the code")
    if raised:
        return look.fault(
            f"{counted(len(raised), 'times')} in {counted(seen.played, 'episodes')}; {raised[0]}", fix
        )
    if lost:
        told = f"{len(lost)} of {counted(seen.played, 'episodes')} lost; {lost[0]}"
        return look.judge(told, LOST, fault=len(lost) > MOSTLY * seen.played, doubtful=True)
    return look.ok(f"none in {counted(seen.played, 'episodes')}")


def reward_parts(seen: Evidence) -> Finding:
    """Return whether all rewards are finite numbers of declared parts, within the declared range."""
    look = check("reward parts", "finite numbers, of parts that task.parts declares", "task.parts")
    odd = [each for each in seen.troubles if each.kind in ("reward", "column")]
    if odd:
        nothing = [each for each in odd if each.reason.startswith("NoReward")]
        told = f"{counted(len(odd), 'times')} in {counted(seen.played, 'episodes')}; {odd[0]}"
        some = len(nothing) == len(odd) and len(odd) < MOSTLY * seen.played
        fix = "return one finite number a completion, or a dict of them by the names in task.parts"
        return look.judge(told, fix, fault=not some, doubtful=True)
    limits = getattr(seen.case.task, "reward_range", None)
    everything = [*seen.ceiling, *seen.floor]
    if limits is not None:
        out = [each for each in everything if not limits[0] - 1e-9 <= each.reward <= limits[1] + 1e-9]
        if out:
            told = f"{out[0].reward:.4g} on item {out[0].world.item.id}, outside {list(limits)}"
            return look.fault(told, "task.reward_range: the smallest and largest reward of an episode")
    parts = seen.case.task.parts
    undeclared = sorted(
        {n for each in everything for p in each.parts for n, v in p.items() if v and n not in parts}
    )
    if undeclared:
        return look.fault(f"{', '.join(undeclared)} not declared", "name it in the task's parts")
    if limits is None and (odd_length := _without_bound(seen)) is not None:
        told, fault = odd_length
        return look.judge(
            told, "limit what length can earn or cost, as max(-1.0, …)", fault=fault, doubtful=True
        )
    return look.ok(f"{', '.join(parts)} in {counted(seen.played, 'episodes')}")


def _without_bound(seen: Evidence) -> tuple[str, bool] | None:
    """Return that the reward grows with the length of what is said, on and on, in words, and whether it
    outweighs what is right within the tokens of a completion."""
    top = next(iter(seen.sound or seen.floor), None)
    if top is None or seen.case.max_turns > 1:
        return None
    sizes = (100, 1_000, 10_000)
    own, params = seen.case.own, seen.case.params
    extract = None if own is None else own.settings.success.extract
    gold = (top.said or ["7"])[-1]
    low, high = seen.scale or (0.0, 1.0)
    scale = max(high - low, 1e-9)
    for unit in ("x", "a ", "1", gold + " ", "\n"):
        texts = [(unit * size)[:size] for size in sizes]
        played = [seen.play(top.world, always(wrapped(text, extract))) for text in texts]
        if any(each.trouble is not None for each in played):
            continue
        paid = [each.reward for each in played]
        steps = [paid[1] - paid[0], paid[2] - paid[1]]
        if steps[0] * steps[1] > 0 and abs(steps[1]) > max(3 * abs(steps[0]), scale):
            longest = 8 * params.task.max_new_tokens[params.generation.surface]  # characters, about
            within = abs(steps[0]) / (sizes[1] - sizes[0]) * longest
            told = f"no bound: {paid[1]:.3g} for {sizes[1]:,} characters, {paid[2]:.3g} for {sizes[2]:,}"
            return f"{told}; being right is worth {scale:.3g}", within > 10 * scale
    return None


def ending(seen: Evidence) -> Finding:
    """Return whether episodes end by themselves within the declared number of turns."""
    turns = seen.case.max_turns
    look = check("ending", f"episodes that end within {counted(turns, 'turns')}", "task.max_turns")
    said = [each for each in (seen.ceiling or seen.floor) if each.trouble is None]
    if not said:
        return not_looked_at("ending", "no player came to an end")
    late = [each for each in said if each.ending in (None, "out_of_turns")]
    longest = max(len(each.said) for each in said)
    if len(late) > MOSTLY * len(said):
        own = seen.case.own
        judged = own is not None and own.settings.success.compare == "environment"
        told = f"{len(late)} of {len(said)} of {seen.case.task.ceiling} go on after {counted(turns, 'turns')}"
        fix = "Told(None, …) where it is over, or raise task.max_turns"
        successful = any(each.success for each in late)
        return look.judge(
            told, fix, fault=((judged or turns == 1) and not successful) or own is None, doubtful=True
        )
    return look.judge(
        f"{len(late)} of {len(said)} of the player who knows are cut off", "raise task.max_turns",
        doubtful=len(late) > SOME * len(said), ok=f"after {counted(longest, 'turns')} at most",
    )  # fmt: skip


def weak_draws(seen: Evidence, name: str, worlds: int, draws: int) -> list[list[Episode]]:
    """Return several episodes of a player on each of some worlds."""
    over = seen.timed(4.0)
    found: list[list[Episode]] = []
    for world in seen.worlds[:worlds]:
        if over() and len(found) >= 3:
            break
        found.append([seen.play(world, player(seen.case, name, draw)) for draw in range(draws)])
    return found
