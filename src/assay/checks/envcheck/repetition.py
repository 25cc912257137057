"""Whether equal worlds and completions give equal episodes: again, in another order, side by side, from an
old state, in threads, and as a copy."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.checks.envcheck.case import Case, World
from assay.checks.envcheck.episodes import (
    Episode,
    factory,
    following,
    open_episode,
    play,
    row_of,
    shown,
    step,
)
from assay.checks.envcheck.evidence import LOST, Evidence, check, not_looked_at
from assay.checks.envcheck.form import reward_of
from assay.checks.findings import Finding
from assay.core.counting import counted
from assay.core.errors import AssayError, EnvironmentFailure
from assay.rollout.tasks.own.api import Environment
from assay.rollout.tasks.own.loading import RewardFunction, parts_of, rewards_of

CODE = "the task's code"
MOST_SCRIPTS = 32
THREADS = 4
BATCH = 8
FIX = "draw from the seed that reset is given, and keep what an episode needs in its instance"


@dataclass(frozen=True, slots=True)
class Script:
    """Completions on a world, and the digest of what they led to."""

    world: World
    said: tuple[str, ...]
    digest: str

    def again(self, case: Case) -> Episode:
        """Play it again."""
        return play(case, self.world, following(self.said or ("",)), max(1, len(self.said)))


def scripts_of(seen: Evidence) -> list[Script]:
    """Return scripts of all kinds of players, recorded one after the other: none that time broke off."""
    found: list[Script] = []
    over = seen.timed(1.5)
    for k, world in enumerate(seen.worlds):
        tops = [each.said for each in seen.sound[k : k + 1]]
        wrong = seen.pool[(7 * k + 3) % len(seen.pool)] if seen.pool else "0"
        for said in (*tops, [wrong] * min(seen.case.max_turns, 6), ["-1 7 x"]):
            if not over() and len(found) < MOST_SCRIPTS:
                script = Script(world, tuple(said), "")
                found.append(Script(world, script.said, script.again(seen.case).digest))
    return found


def differing(case: Case, scripts: Sequence[Script]) -> str | None:
    """Return what differs when scripts are played again, in words; None if nothing does."""
    odd = []
    for script in scripts:
        again = script.again(case)
        if again.digest != script.digest:
            odd.append((script, again))
    return None if not odd else explain(odd[0][0], odd[0][1], len(odd), len(scripts))


def explain(script: Script, again: Episode, odd: int, n: int) -> str:
    """Return a difference in words."""
    what = "other than before"
    if again.trouble is not None:
        what = f"{again.trouble.reason}"
    elif again.parts:
        what = f"reward {again.reward:.6g}, success {again.success}, now; {what}"
    said = shown(script.said[-1]) if script.said else "the prompt"
    return f"{odd} of {counted(n, 'episodes')} differ; item {script.world.item.id}, {said}: {what}"


def replay(seen: Evidence, scripts: Sequence[Script]) -> Finding:
    """Return whether the same world and completions tell and pay the same again, also in an instance that is
    reset."""
    look = check("replay", "equal episodes from equal worlds and completions", CODE)
    if not scripts:
        return not_looked_at("replay", "nothing could be played")
    if (ordered := _other_columns(seen, scripts)) is not None:
        return look.fault(ordered, "read the columns of a record by their names")
    odd = (
        _first_time(seen, scripts)
        or differing(seen.case, scripts)
        or _two_openings(seen)
        or _reset_again(seen, scripts)
    )
    return (
        look.ok(f"{counted(len(scripts), 'episodes')} played twice") if odd is None else look.fault(odd, FIX)
    )


def _first_time(seen: Evidence, scripts: Sequence[Script]) -> str | None:
    """Compare with what the ceiling player was told and paid when its completions were played for the first
    time."""
    first = {each.world.item.id: each for each in seen.sound}
    for script in scripts:
        top = first.get(script.world.item.id)
        if top is not None and tuple(top.said) == script.said and top.digest != script.digest:
            return f"{explain(script, top, 1, len(scripts))}, the first time"
    return None


def _other_columns(seen: Evidence, scripts: Sequence[Script]) -> str | None:
    """Compare with records that are equal, and have their columns in another order."""
    if seen.case.own is None:
        return None
    turned = []
    for script in scripts[:12]:
        item = script.world.item
        row = dict(reversed(dict(item.hidden).items()))
        turned.append(replace(script, world=replace(script.world, item=replace(item, hidden=row))))
    odd = differing(seen.case, turned)
    same = differing(seen.case, scripts[:12])
    return None if odd is None or same is not None else f"{odd}, with the columns in another order"


def _two_openings(seen: Evidence) -> str | None:
    for world in seen.worlds:
        first, other = open_episode(seen.case, world), open_episode(seen.case, world)
        if first.digest != other.digest:
            return f"item {world.item.id}: opened twice, {shown(first.prompt)} and {shown(other.prompt)}"
    return None


def _reset_again(seen: Evidence, scripts: Sequence[Script]) -> str | None:
    """Play several episodes in one instance, as `reset` promises."""
    if seen.case.own is None:
        return None
    live: Environment | None = None
    for script in scripts[:12]:
        episode = open_episode(seen.case, script.world)
        if live is not None and episode.trouble is None and episode.live is not None:
            try:
                prompt = live.reset(row_of(script.world), script.world.seed)
            except Exception as error:  # noqa: BLE001 - somebody's code
                return f"item {script.world.item.id}: a second reset raises {type(error).__name__}: {error}"
            if prompt != episode.live.reset(row_of(script.world), script.world.seed):
                return f"item {script.world.item.id}: another prompt in an instance that played before"
            episode.live = live
        for text in script.said:
            step(episode, text)
        if episode.digest != script.digest:
            return f"{explain(script, episode, 1, 1)}, in an instance that played other episodes before"
        live = episode.live
    return None


def other_order(seen: Evidence, scripts: Sequence[Script]) -> Finding:
    """Return whether it matters what was played before."""
    look = check("other order", "the same whatever was played before", CODE)
    if len(scripts) < 2:
        return not_looked_at("other order", "nothing could be played")
    orders = (
        list(reversed(scripts)),
        [*scripts[1::2], *scripts[::2]],
        [s for s in scripts[:8] for _ in range(3)],
    )
    odd = next((found for order in orders if (found := differing(seen.case, order)) is not None), None)
    return look.ok(f"{len(orders)} orders") if odd is None else look.fault(odd, FIX)


def interleaved(seen: Evidence, scripts: Sequence[Script]) -> Finding:
    """Return whether episodes under way at once know nothing of each other."""
    look = check("interleaved", "episodes that know nothing of each other", CODE)
    if len(scripts) < 2:
        return not_looked_at("interleaved", "nothing could be played")
    many = list(scripts[:16])
    under_way = [open_episode(seen.case, script.world) for script in many]
    for turn in range(max(len(script.said) for script in many)):
        for script, episode in zip(reversed(many), reversed(under_way), strict=True):
            if turn < len(script.said):
                step(episode, script.said[turn])
    pairs = [(s, e) for s, e in zip(many, under_way, strict=True) if s.digest != e.digest]
    if pairs:
        return look.fault(explain(*pairs[0], len(pairs), len(many)), FIX)
    return look.ok(f"{len(many)} under way at once")


def old_state(seen: Evidence, scripts: Sequence[Script]) -> Finding:
    """Return whether a state can be gone on from twice, and records stay as they are."""
    look = check("old state", "the same from an old state, and records left as they are", CODE)
    fix = "copy what a step changes: records and earlier states belong to whoever holds them"
    case = seen.case
    try:
        for script in scripts[:12]:
            if (found := _mutated(case, script)) is not None:
                return look.fault(found, fix)
            state = case.task.start(script.world.item, script.world.seed)[1]
            for text in script.said:
                first = case.task.step(state, text)
                case.task.step(state, "0 other")
                again = case.task.step(state, text)
                if _plain(first) != _plain(again):
                    return look.fault(
                        f"item {script.world.item.id}, {shown(text)}: told or paid other than before", fix
                    )
                if first.ending is not None:
                    break
                state = first.state
    except EnvironmentFailure as error:
        return look.warning(f"lost: {error}", LOST)
    except AssayError as error:
        if "repeat" in error.expected:
            return look.fault(error.found, FIX)
        return not_looked_at("old state", error.found)
    except Exception as error:  # noqa: BLE001 - somebody's code raises anything
        return look.fault(f"{type(error).__name__}: {error}", fix)
    return look.ok(f"{counted(min(12, len(scripts)), 'episodes')} gone on from twice")


def _plain(found: object) -> object:
    names = ("observation", "ending", "outcome", "failure", "action")
    parts = sorted((n, float(v)) for n, v in getattr(found, "parts", {}).items() if v)
    return [getattr(found, name) for name in names], parts


def _mutated(case: Case, script: Script) -> str | None:
    """Return whether the code changes the record it is given."""
    if case.own is None:
        before = repr((script.world.item.public, script.world.item.hidden))
        script.again(case)
        after = repr((script.world.item.public, script.world.item.hidden))
        return None if before == after else f"item {script.world.item.id}: the item is changed by playing it"
    live, row = factory(case)(), row_of(script.world)
    kept = copy.deepcopy(row)
    given, as_given = _watched(live) if isinstance(live, RewardFunction) else ({}, {})
    try:
        live.reset(row, script.world.seed)
        for text in script.said:
            live.step(text)
    except Exception:  # noqa: BLE001 - told by another check
        return None
    changed = [name for name in {*row, *kept} if row.get(name, live) != kept.get(name, live)]
    changed = changed or [f"the list {name}" for name in given if given[name] != as_given[name]]
    if not changed:
        return None
    return f"item {script.world.item.id}: its record is changed by playing it ({', '.join(sorted(changed))})"


def _watched(reward: RewardFunction) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a reward function is given from now on, and copies of how it was given."""
    function, given, as_given = reward.function, dict[str, Any](), dict[str, Any]()

    def noting(**columns: Any) -> Any:
        given.update(columns)
        as_given.update(copy.deepcopy(columns))
        return function(**columns)

    reward.function = noting
    return given, as_given


def pickled(seen: Evidence, scripts: Sequence[Script]) -> Finding:
    """Return whether states, and the environments behind them, can be copied."""
    look = check("pickle", "states and environments that can be pickled", CODE)
    fix = "keep only plain values in it: open files, locks, generators and lambdas are made where needed"
    case = seen.case
    for script in scripts[:6]:
        episode = open_episode(case, script.world)
        for text in script.said[:-1]:
            step(episode, text)
        if episode.trouble is not None:
            continue
        held = episode.live if case.own is not None else episode.state
        try:
            other = pickle.loads(pickle.dumps(held))
        except Exception as error:  # noqa: BLE001 - pickle and somebody's code raise anything
            said = f"{type(held).__name__}: {type(error).__name__}: {error}"[:200]
            if case.own is None:
                return look.fault(said, fix)
            return look.warning(f"{said}; assay plays it again instead, others copy", fix)
        if case.own is not None:
            episode.live = other
        else:
            episode.state = other
        for text in script.said[-1:]:
            step(episode, text)
        if episode.digest != script.digest:
            return look.warning(f"a copy goes on otherwise: {explain(script, episode, 1, 1)}", fix)
    return look.ok(f"{counted(min(6, len(scripts)), 'states')}")


def four_threads(seen: Evidence, scripts: Sequence[Script]) -> Finding:
    """Return whether threads at work side by side change anything; of one thread, whether a thread that is
    not the main one does."""
    own = seen.case.own
    n = THREADS if own is None else min(THREADS, own.settings.threads)
    look = check("four threads", f"the same in {counted(n, 'threads')} at once", CODE)
    if not scripts:
        return not_looked_at("four threads", "nothing could be played")
    if n == 1 and isolation() == "worker":  # plays in the main thread of that process
        return look.ok("calls come one at a time, to a process of their own")
    odd = _differing_in_threads(seen, scripts, n)
    if odd is None:
        return look.ok(f"{len(scripts)} episodes in each")
    fix = "keep nothing in the module that calls share (task.threads of them run at once), or task.threads: 1"
    if _differing_in_threads(seen, scripts, 1) is not None:
        fix = "task.isolation: worker and task.threads: 1, both: it works in a main thread alone"
    return look.fault(odd, fix)


def isolation() -> str:
    """Return where the task's settings have its code run; the process that looks runs it inline."""
    return os.environ.get("ASSAY_ENVCHECK_ISOLATION", "inline")


def _differing_in_threads(seen: Evidence, scripts: Sequence[Script], n: int) -> str | None:
    odd: list[tuple[Script, Episode]] = []
    over, begun = seen.timed(1.5), threading.Barrier(n)

    def work(number: int) -> None:
        begun.wait()
        for _ in range(3):
            for k in range(len(scripts)):
                script = scripts[(k + number * 5) % len(scripts)]
                if over() or odd:
                    return
                again = script.again(seen.case)
                if again.digest != script.digest:
                    odd.append((script, again))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return explain(*odd[0], len(odd), len(scripts)) if odd else None


def in_a_batch(seen: Evidence) -> Finding:
    """Return whether a reward function pays a completion alone, as it is called here, what it pays it among
    eight, as TRL calls it: of eight records, and of one."""
    look = check("in a batch", "the same reward alone as in a call of eight", CODE)
    reward = reward_of(seen.case)
    if reward is None:
        return not_looked_at("in a batch", "no reward function")
    fix = "let no reward depend on the other completions of a call: each is graded by itself here"
    rows = [row_of(world) for world in seen.worlds[:BATCH]]
    lacking = dict.fromkeys(name for row in rows for name in row)  # None where a record has none, as in TRL
    golds = [
        (seen.gold(world.item) or "7", lacking | row) for world, row in zip(seen.worlds, rows, strict=False)
    ]
    compared = 0
    row, others = golds[0][1], [gold for gold, _ in golds[1:4]]
    texts = [golds[0][0], "", "a b c", *others, "7", golds[0][0]][:BATCH]
    mixed = [(gold if k % 2 else texts[k % len(texts)], row) for k, (gold, row) in enumerate(golds)]
    for pairs in (mixed, [(text, row) for text in texts]):
        try:
            alone = [parts_of(reward.called([row], [text])) for text, row in pairs]
        except Exception:  # noqa: BLE001 - somebody's code; told by another check
            continue
        try:
            of_call = [copy.deepcopy(row) for _, row in pairs]
            batch = rewards_of(reward.called(of_call, [text for text, _ in pairs]), len(pairs))
        except Exception as error:  # noqa: BLE001 - somebody's code
            return look.fault(f"a call of {len(pairs)} fails: {type(error).__name__}: {error}"[:300], fix)
        for (text, _), one, among in zip(pairs, alone, batch, strict=True):
            if _total(one) != _total(among):
                paid = f"{shown(text)} earns {_total(one):.6g} alone, {_total(among):.6g} among {len(pairs)}"
                return look.fault(paid, fix)
        compared += len(pairs)
    if not compared:
        return not_looked_at("in a batch", "some completion of each call has no reward alone")
    return look.ok(counted(compared, "completions"))


def _total(parts: Mapping[str, float] | float) -> float:
    return round(parts if isinstance(parts, float) else sum(parts.values()), 9)
