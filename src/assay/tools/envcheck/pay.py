"""Who is paid for what: the player who knows, players without skill, who hedge, or who write nonsense."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from assay.core.counting import counted
from assay.tasks.own.success import extracted
from assay.tools.envcheck.completions import BAD_COMPLETIONS, hedges, malformed, trivial_texts, wrapped
from assay.tools.envcheck.episodes import Episode, always, following, player, shown
from assay.tools.envcheck.evidence import Evidence, check, not_looked_at, rates
from assay.tools.findings import Finding

MOSTLY, SOME = 0.5, 0.15  # shares of items
FEW = 8  # texts that are tried where an episode takes long
PAID, HALF_PAID = 0.9, 0.5  # of the way from floor to ceiling
REWARD = "the reward"


def oracle_beats_floor(seen: Evidence) -> Finding:
    """Return whether who knows what is right succeeds and earns more than who does not, and success and
    reward agree."""
    task, said = seen.case.task, seen.ceiling
    look = check(
        "oracle beats floor", f"success and more reward for {task.ceiling} than {task.floor}", REWARD
    )
    fix = "task.answer: the column of right completions, or task.players: {NAME: oracle}"
    if not said:
        return look.warning("no player who knows what is right", fix)
    if broken := [each.trouble for each in said if each.trouble is not None]:
        return look.fault(
            f"{task.ceiling} broken off {len(broken)} times of {len(said)}: {broken[0]}", "see there"
        )
    rate = sum(bool(each.success) for each in said) / len(said)
    high = sum(each.reward for each in said) / len(said)
    floors = [each.reward for each in seen.floor if each.trouble is None]
    low = sum(floors) / max(1, len(floors))
    told = f"success {rate:.0%}, reward {high:.3g} against {low:.3g} in {counted(len(said), 'items')}"
    first = next((each for each in said if not each.success), None)
    mend = "correct the grader, the records' answers, or task.success"
    if first is not None:
        told += f"; first failure: item {first.world.item.id}, {shown((first.said or [''])[-1])}"
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
    return look.judge(told, mend, doubtful=rate < 1 - SOME, ok=told)


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
    return _paid(
        seen, look.name, _trivial(seen), "pay for what is right alone: compare the whole answer with the gold"
    )


def _trivial(seen: Evidence) -> Callable[[int, Episode], dict[str, list[str]]]:
    extract = _extract(seen)
    golds = seen.pool

    def texts(k: int, top: Episode) -> dict[str, list[str]]:
        others = [gold for gold in golds if not seen.is_right(gold, top)]
        found = trivial_texts(
            top.prompt, others[k % max(1, len(others)) :] + others[: k % max(1, len(others))], extract
        )
        if golds:  # as it is counted over all records, not among those that are wrong here
            common = [seen.case.gold(world.item) for world in seen.case.worlds(200)]
            most = [gold for gold in common if gold is not None] or golds
            found["the commonest gold"] = max(sorted(set(most)), key=most.count)
        listed = (
            golds
            if len(golds) <= 50
            else [*golds[:49], *[each for each in (seen.case.gold(top.world.item),) if each]]
        )
        told = {name: [text] for name, text in found.items()}
        return told | {"all golds at once": ["\n".join(listed), "\n".join(reversed(listed))]}

    return texts


def _extract(seen: Evidence) -> str | None:
    own = seen.case.own
    return None if own is None else own.settings.success.extract


def hedging(seen: Evidence) -> Finding:
    """Return whether naming the right answer among others is paid, whatever their order."""
    if len(seen.pool) < 2:
        return not_looked_at("hedging", "there is one right answer to all, or none is known")
    extract = _extract(seen)

    def texts(k: int, top: Episode) -> dict[str, list[str]]:
        if not top.said:
            return {}
        others = [text for text in seen.pool if not seen.is_right(text, top)]
        gold, start = top.said[-1], k % max(1, len(others))
        own = seen.case.own
        if extract is not None and own is not None:
            inner = [extracted(each, own.settings.success) for each in (gold, *others[start : start + 8])]
            plain = [each for each in inner if each]
            found = hedges(plain[0], plain[1:], k) if plain else {}
            both = {
                f"{name}, as task.success finds it": [wrapped(t, extract) for t in all_]
                for name, all_ in found.items()
            }
            return found | both
        return hedges(gold, [*others[start:], *others[:start]][:8], k)

    fix = "compare the whole answer, not whether it contains the right one"
    return _paid(seen, "hedging", texts, fix, turns=True)


def _paid(
    seen: Evidence,
    name: str,
    texts: Callable[[int, Episode], dict[str, list[str]]],
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
            if not turns and not blind and any(seen.is_right(text, top) for text in orders):
                continue  # right for this one
            row = [_said(seen, top, text, turns) for text in orders]
            found[called].append((top, row))
    scale, worst = seen.scale, (0.0, "nothing", 0.0)
    for called, rows in found.items():
        if len(rows) < 3:
            continue
        rate, gap = rates([top for top, _ in rows], [row for _, row in rows])
        if blind:
            rate = sum(all(each.success for each in row) for _, row in rows) / len(rows)
        part = 0.0 if scale is None else 1.0 + gap / (scale[1] - scale[0])
        worst = max(worst, (max(rate, 0.0 if blind else part), called, rate))
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


def _said(seen: Evidence, top: Episode, text: str, turns: bool) -> Episode:
    if turns and len(top.said) > 1:  # what was right before stays, so that the last answer is looked at
        return seen.play(top.world, following([*top.said[:-1], text]))
    return seen.play(top.world, always(text))


def _commonest(seen: Evidence) -> str | None:
    golds = [gold for world in seen.case.worlds(200) if (gold := seen.case.gold(world.item)) is not None]
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
    for world in (top.world for top in tops[:3]):
        extract = _extract(seen)
        for text in (
            "abc",
            "-1",
            "3.5",
            "1/0",
            "[1, 2]",
            '{"answer": null}',
            "1e400",
            "٣",
            "a,b",
            "()",
            "9" * 400,
        ):
            if not over():
                seen.play(world, always(wrapped(text, extract)))
    return ()


def bad_completions(seen: Evidence) -> Finding:
    """Return whether any completion made the code raise."""
    look = check("bad completions", "a reward for every text, and no exception", "the task's code")
    raised = [each for each in seen.troubles if each.kind == "raised"]
    lost = [each for each in seen.troubles if each.kind == "lost"]
    fix = "a bad completion earns little and does not raise: catch what parsing it raises"
    if raised:
        return look.fault(
            f"{counted(len(raised), 'times')} in {counted(seen.played, 'episodes')}; {raised[0]}", fix
        )
    if lost:
        told = f"{len(lost)} of {counted(seen.played, 'episodes')} lost; {lost[0]}"
        return look.judge(
            told, "see to what it waits for", fault=len(lost) > MOSTLY * seen.played, doubtful=True
        )
    return look.ok(f"none in {counted(seen.played, 'episodes')}")


def reward_parts(seen: Evidence) -> Finding:
    """Return whether all rewards are finite numbers of declared parts, within the declared range."""
    look = check("reward parts", "finite numbers, of parts that task.parts declares", "task.parts")
    odd = [each for each in seen.troubles if each.kind == "reward"]
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
    return look.ok(f"{', '.join(parts)} in {counted(seen.played, 'episodes')}")


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
