"""Whether there is something to learn, and room to show it: signal in a group, headroom, alarms that honest
play would ring, shaping that can be farmed, skill or mere sharpening."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np

from assay.checks.envcheck.episodes import Episode, Says, always, following
from assay.checks.envcheck.evidence import Evidence, check, not_looked_at
from assay.checks.envcheck.form import in_form
from assay.checks.envcheck.pay import weak_draws
from assay.checks.findings import Finding
from assay.core.counting import counted
from assay.core.records import Episode as Recorded
from assay.core.storage.json import read_records
from assay.verdict.statistics.power import smallest_gain

REWARD = "the reward"
LITTLE_SIGNAL = 0.2
MOSTLY_ONE = 0.5
DRAWS = 6


def signal(seen: Evidence) -> Finding:
    """Return on how many items answers of different kinds are paid differently."""
    look = check("signal", "rewards that differ within a group", REWARD)
    if seen.weak is not None:
        groups = weak_draws(seen, seen.weak, 16, DRAWS)
        who = f"{DRAWS} draws of {seen.weak}"
    else:
        groups, who = [], ""
    mixed = []
    over = seen.timed(3.0)
    for k, top in enumerate(seen.sound or seen.floor):
        if over() and k >= 3:
            break
        texts = [*seen.pool[k : k + 3], "0", "-", "a b c"]
        mixed.append([top, *[seen.play(top.world, always(text)) for text in texts]])
    told = [sum(_differ(group) for group in found) / len(found) for found in (mixed, groups) if found]
    fix = "pay for what some completions get right and others do not, or take items of another difficulty"
    if not told:
        return not_looked_at("signal", "nothing could be played")
    if told[0] < LITTLE_SIGNAL and (form := seen.in_other_form) is not None:
        return look.fault("the same for all completions, for it reads those of another form", in_form(form))
    said = f"on {told[0]:.0%} of {counted(len(mixed), 'items')} (right, wrong and trivial answers)"
    said += f"; {told[-1]:.0%} for {who}" if groups else ""
    if told[0] >= 0.8 and groups:  # then the reward tells answers apart, and only the player is to blame
        fix = f"let {seen.weak} be right more often, on a fifth to two fifths of the records"
    return look.judge(
        said,
        fix if seen.sound else f"name who knows what is right, task.players: {{NAME: oracle}}; or {fix}",
        fault=told[0] < LITTLE_SIGNAL and bool(seen.sound),
        doubtful=min(told) < LITTLE_SIGNAL or told[0] < 0.8,
        ok=said,
    )


def _differ(group: list[Episode]) -> bool:
    return len({round(each.reward, 9) for each in group if each.trouble is None}) > 1


def headroom(seen: Evidence) -> Finding:
    """Return whether what there is to gain is more than what the held-out suite can show."""
    params, case = seen.case.params, seen.case
    look = check("headroom", "more to gain than the held-out suite can show", "dataset and evaluation.items")
    top = [bool(each.success) for each in seen.sound]
    if not top:
        return not_looked_at("headroom", "no player who knows")
    base, who = _base_rate(seen)
    items = case.splits["heldout"][: params.evaluation.items]
    clusters = sorted({item.cluster for item in items})
    index = np.array([clusters.index(item.cluster) for item in items], np.int64)
    needed = _gain(
        len(items),
        tuple(index.tolist()),
        round(min(base, 0.99), 2),
        params.evaluation.draws,
        params.claim.alpha,
    )
    room = sum(top) / len(top) - base
    told = f"{100 * room:.0f} points between {who} ({base:.0%}) and who knows;"
    told += f" {counted(len(clusters), case.task.cluster_name)}"
    if needed is None:
        told += " show no gain that is possible"
        return look.fault(told, "more held-out records, or harder ones")
    told += f" show {100 * needed:.0f} or more"
    fault = room <= needed or base >= 0.95
    return look.judge(told, "harder records, more held-out records, or a weaker player", fault=fault, ok=told)


@cache
def _gain(n: int, clusters: tuple[int, ...], rate: float, draws: int, alpha: float) -> float | None:
    if n == 0:
        return None
    rates = np.full(n, rate)
    return smallest_gain(rates, np.array(clusters, np.int64), draws, spread=0.2, alpha=alpha)


def _base_rate(seen: Evidence) -> tuple[float, str]:
    weak = seen.weak
    if weak is not None:
        played = [each for group in weak_draws(seen, weak, 16, DRAWS) for each in group]
        return sum(bool(each.success) for each in played) / max(1, len(played)), weak
    floor = [bool(each.success) for each in seen.floor]
    return sum(floor) / max(1, len(floor)), seen.case.task.floor


def alarms(seen: Evidence) -> Finding:
    """Return which alarms a policy that is always right would ring, and whether training knows it by then."""
    health, case = seen.case.params.health, seen.case
    look = check("alarms", "no alarm for who is right", "health")
    if not seen.sound:
        return not_looked_at("alarms", "no player who knows")
    rung = []
    answers = Counter(seen.golds(400))
    known = bool(answers)
    if not known:
        answers = Counter(each.said[-1] for each in seen.sound if each.said)
    top = max(answers.values()) / max(1, answers.total())
    if top > health.top_share.red and len(seen.sound) > 4:
        rung.append((f"top_share ({top:.0%} of answers are one)", known or top < MOSTLY_ONE))
    failed = [failure for each in seen.sound for failure in each.failures]
    unread = sum(failure is not None for failure in failed) / max(1, len(failed))
    if 1 - unread < health.parsed.red:
        rung.append((f"parsed ({1 - unread:.0%} of right completions can be read)", False))
    limit = case.params.task.max_new_tokens[case.params.generation.surface]
    long = [max((len(text) for text in each.said), default=0) for each in seen.sound]
    if sum(size > 12 * limit for size in long) > health.truncated.red * len(long):
        rung.append(
            (
                f"truncated (right answers have up to {max(long)} characters, {limit} tokens are allowed)",
                False,
            )
        )
    if not rung:
        return look.ok("none of top_share, parsed, truncated")
    told = "; ".join(name for name, _ in rung)
    if all(excused for _, excused in rung):
        return look.note(f"{told}; less than rings, or judged beyond what is right")
    return look.warning(told, "set the levels of health by what an honest player shows, or correct the task")


def shaping(seen: Evidence) -> Finding:
    """Return whether shaping rewards can be collected without success: going round, or going on."""
    task = seen.case.task
    shaped = [name for name, kind in task.parts.items() if kind == "shaping"]
    look = check(
        "shaping", "no more than success earns, however long one goes round", "the parts of kind shaping"
    )
    if not shaped:
        return look.ok("no part is shaping")
    if not seen.sound or seen.case.max_turns < 2:
        return _single(seen, shaped)
    best = float(np.mean([each.reward for each in seen.sound]))
    pool = seen.pool[:6]
    over = seen.timed(4.0)
    ways: list[Says] = [always(text) for text in pool]
    ways += [_turning(a, b) for a in pool for b in pool if a < b]
    farmed: tuple[float, str] | None = None
    loop: tuple[float, str] | None = None
    for top in seen.sound[:6]:
        tries = [*ways, following([*top.said[:1], *pool]), *[_late(top, text) for text in pool[:2]]]
        for says in tries:
            if over():
                break
            each = seen.play(top.world, says)
            if not each.success and each.trouble is None:
                gain = sum(part.get(name, 0.0) for part in each.parts for name in shaped)
                if farmed is None or gain > farmed[0]:
                    farmed = (gain, top.world.item.id)
            if (paid := _loop(each, shaped)) > 1e-9 and (loop is None or paid > loop[0]):
                loop = (paid, top.world.item.id)
    fix = "pay differences of a potential of the state, F = phi(after) - phi(before), and nothing for staying"
    if farmed is not None and farmed[0] >= 0.9 * best and best > 0:
        return look.fault(
            f"{farmed[0]:.3g} without success on item {farmed[1]}; success earns {best:.3g}", fix
        )
    if loop is not None:
        return look.warning(f"{loop[0]:.3g} for going round to what was told before, on item {loop[1]}", fix)
    return look.ok(f"{', '.join(shaped)}: at most {farmed[0] if farmed else 0.0:.3g} without success")


def _single(seen: Evidence, shaped: list[str]) -> Finding:
    look = check(
        "shaping", "no more than success earns, however long one goes round", "the parts of kind shaping"
    )
    failing = [each for each in seen.floor if not each.success]
    most = max(
        (sum(part.get(n, 0.0) for part in each.parts for n in shaped) for each in failing), default=0.0
    )
    return look.ok(f"one turn; {most:.3g} without success")


def _turning(one: str, other: str) -> Says:
    return lambda episode: one if len(episode.said) % 2 == 0 else other


def _late(top: Episode, text: str) -> Says:
    return lambda episode: top.said[len(episode.said)] if len(episode.said) < len(top.said) - 1 else text


def _loop(episode: Episode, shaped: list[str]) -> float:
    """Return the shaping earned between two moments at which the same was told."""
    told = [episode.prompt, *[text or "" for text in episode.told]]
    if len(set(told)) < 3:
        return 0.0
    sums = np.cumsum([0.0, *[sum(part.get(name, 0.0) for name in shaped) for part in episode.parts]])
    paid = [
        sums[k] - sums[j]
        for j in range(1, len(told))
        for k in range(j + 1, len(told))
        if told[j] == told[k] != ""
    ]
    return float(max(paid, default=0.0))


def sharpening(seen: Evidence) -> Finding:
    """Return whether the likeliest answer of what is to be trained is right far more often than its draws."""
    look = check(
        "sharpening",
        "a base whose likeliest answer is no better than its draws",
        "the base, or the weak player",
    )
    greedy, sampled, who = _of_base(seen)
    if who is None and seen.weak is not None and seen.case.max_turns == 1:
        groups = weak_draws(seen, seen.weak, 20, 12)
        hits, n = 0.0, 0
        for group in groups:
            said = Counter(tuple(each.said) for each in group)
            most = max(sorted(said), key=lambda text: said[text])
            hits += any(each.success for each in group if tuple(each.said) == most)
            n += 1
        rate = [bool(each.success) for group in groups for each in group]
        greedy, sampled, who = (
            hits / max(1, n),
            sum(rate) / max(1, len(rate)),
            f"{seen.weak} (the likeliest of 12 draws)",
        )
    if who is None:
        return not_looked_at("sharpening", "there is no weak player of one turn, and no base was played yet")
    told = f"{who}: {greedy:.0%} by the likeliest answer, {sampled:.0%} by draws"
    fix = (
        "let the weak player make one mistake oftener than it is right (0.5 and 0.2 of its draws, say), not"
        " many rare ones: else its likeliest answer is right, and GRPO only sharpens"
    )
    return look.judge(told, fix, doubtful=greedy - sampled > 0.25, ok=told)


def _of_base(seen: Evidence) -> tuple[float, float, str | None]:
    """Return greedy and sampled success of the base, where it was played on this task."""
    paths = [seen.case.project.results(name) for name in ("pre_eval_greedy.jsonl", "pre_eval.jsonl")]
    if not all(path.is_file() for path in paths):
        return 0.0, 0.0, None
    known = {item.id for item in seen.case.splits["heldout"]}
    found = []
    for path in paths:
        episodes = read_records(path, Recorded, fix="./run dvc repro pre_eval")
        if not episodes or not all(each.item_id in known for each in episodes):
            return 0.0, 0.0, None
        found.append(sum(each.success for each in episodes) / len(episodes))
    return found[0], found[1], "the base"
