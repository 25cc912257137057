"""Rollouts: a policy plays items of a task, and what happened becomes episodes. Training plays through here
too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.core.decoding import Completion, Decoding
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.phases import Phases, Timed, untimed
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.evaluation.retries import GivenUp, tried
from assay.rollout.evaluation.trajectory import (
    Lost,
    Prompt,
    Rollout,
    Row,
    open_item,
    start_all,
    step_all,
    turn_of,
)
from assay.rollout.policy.backends.select import OURS, Conversations, converse
from assay.rollout.policy.engine.choice import Bound
from assay.rollout.policy.model import Policy, playing
from assay.rollout.tasks.protocol import Item, Step, Task, side_by_side

__all__ = ["Lost", "Pace", "Progress", "Rollout", "attempt", "play", "play_baseline"]

Progress = Callable[[int], None]
# Of the places, how many must be free before new conversations are admitted beside those that go on. Long and
# short ones together compute at the length of the longest: on one CPU core a quarter cost 20 % of generation
# against whole batches, a half 10 %, three quarters nothing.
ADMIT_SHARE = 0.75
Bounding = Callable[[Item], Bound | None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How episodes are played side by side: it changes speed and memory, and no result.

    Attributes:
        batch_size: Conversations held at once; as some end, further ones are admitted.
        retries: How often a call to the environment that failed is made again.
        progress: Told how many episodes have just ended.
        phases: Told where the time goes: encode, generate, environment, reward.
    """

    batch_size: int
    retries: int = 0
    progress: Progress | None = None
    phases: Phases | None = None


Placed = tuple[int, Row]  # a conversation, and the place of its play among all
World = tuple[str, int]  # an item and the seed of its world


def play(
    policy: Policy,
    task: Task,
    plays: Sequence[Play],
    decoding: Decoding,
    *,
    pace: Pace,
    bound: Bounding | None = None,
) -> list[Rollout]:
    """Play every play once and return the rollouts in the same order: all of them, or an error.

    Args:
        policy: Who plays; it is put in evaluation mode meanwhile (no dropout).
        task: What is played.
        plays: Items with their seeds.
        decoding: How tokens are chosen.
        pace: How many at once, and who is told.
        bound: Says of an item what may be written; None: anything.

    Raises:
        EnvironmentLost: The environment failed for good; names the item. Raised at once, since nothing may be
            left out.
    """
    players = _Players(policy, task, decoding, pace, strict=True, bound=bound)
    rollouts = [one for one in players.play(plays) if isinstance(one, Rollout)]
    assert len(rollouts) == len(plays)
    return rollouts


def attempt(
    policy: Policy, task: Task, plays: Sequence[Play], decoding: Decoding, *, pace: Pace
) -> list[Rollout | Lost]:
    """Play as `play` does, and return a `Lost` in the place of each play whose environment failed for good.

    The others go on as if nothing had happened. For training, where a lost episode is masked out of its
    group; what is measured must be complete.
    """
    return _Players(policy, task, decoding, pace, strict=False).play(plays)


class _Players:
    """Plays many conversations at once; when strict, the first loss is raised instead of returned."""

    def __init__(
        self,
        policy: Policy,
        task: Task,
        decoding: Decoding,
        pace: Pace,
        *,
        strict: bool,
        bound: Bounding | None = None,
    ) -> None:
        self._policy, self._task, self._decoding = policy, task, decoding
        self._pace, self._strict, self._bound = pace, strict, bound
        self._timed: Timed = untimed if pace.phases is None else pace.phases

    def play(self, plays: Sequence[Play]) -> list[Rollout | Lost]:
        """Play every play once and return what came of each, in the same order."""
        batch_size, progress = self._pace.batch_size, self._pace.progress
        ended: dict[int, Rollout | Lost] = {}
        waiting, talking = list(enumerate(plays))[::-1], list[tuple[int, Row]]()
        session: Conversations | None = None
        with playing(
            self._policy.model, add=self._decoding.backend in OURS and not self._decoding.cuda_graphs
        ):
            while waiting or talking:
                # A few at a time are not worth a reading of their own; whoever plays on meanwhile would wait
                # for each.
                if waiting and (
                    not talking
                    or batch_size - len(talking) >= min(len(waiting), max(1, int(batch_size * ADMIT_SHARE)))
                ):
                    places = [waiting.pop() for _ in range(min(len(waiting), batch_size - len(talking)))]
                    opened = list(
                        zip((place for place, _ in places), self._opened([p for _, p in places]), strict=True)
                    )
                    new = [(place, one) for place, one in opened if not one.over]
                    session = self._admitted(session, [one for _, one in new])
                    talking += new
                    self._end(ended, [(place, one) for place, one in opened if one.over], progress)
                if session is not None and talking:
                    talking, over = self._turn(session, talking)
                    self._end(ended, over, progress)
        return [ended[place] for place in range(len(plays))]

    def _admitted(self, session: Conversations | None, new: Sequence[Row]) -> Conversations | None:
        prompts, seeds = [one.prompt_ids for one in new], [one.play.seed for one in new]
        if not new:
            return session
        bounds = [] if self._bound is None else [self._bound(one.play.item) for one in new]
        with self._timed("generate"):
            if session is None:
                return converse(self._policy, prompts, seeds, self._decoding, bounds)
            session.admit(prompts, seeds, bounds)
            return session

    def _turn(self, session: Conversations, talking: Sequence[Placed]) -> tuple[list[Placed], list[Placed]]:
        """Let all write, and return who goes on and who is over."""
        with self._timed("generate"):
            completions = session.complete()
        observed = self._answered([one for _, one in talking], completions)
        kept = [row for row, (_, one) in enumerate(talking) if not one.over]
        last = [completions[row].ids[-1] for row in kept]
        with self._timed("encode"):
            replies = self._policy.dialogue.replies([observed[row] for row in kept], last)
        with self._timed("generate"):
            session.keep(kept)
            if kept:
                session.tell(last, replies)
        for row, reply in zip(kept, replies, strict=True):
            talking[row][1].hear(reply)
        return [talking[row] for row in kept], [each for each in talking if each[1].over]

    def _end(
        self, ended: dict[int, Rollout | Lost], over: Sequence[Placed], progress: Progress | None
    ) -> None:
        with self._timed("reward"):
            for place, one in over:
                ended[place] = self._finished(one)
        if over and progress is not None:
            progress(len(over))

    def _opened(self, plays: Sequence[Play]) -> list[Row]:
        rows: list[Row] = []
        task, dialogue, timed = self._task, self._policy.dialogue, self._timed
        # Copies of a group share a prompt, and its failure; only the first of them counts what was tried
        # again.
        prompts: dict[World, Prompt | GivenUp] = {}
        worlds = {(each.item.id, each.world_seed): each for each in plays}
        begun = {}
        if side_by_side(task) is not None:
            with timed("environment"):
                started_all = start_all(task, list(worlds.values()), self._pace.retries)
                begun = dict(zip(worlds, started_all, strict=True))
        for each in plays:
            key, again = (each.item.id, each.world_seed), 0
            if key not in prompts:
                started, before = begun.get(key, (None, 0))
                try:
                    if isinstance(started, GivenUp):
                        raise started
                    with timed("encode"):
                        prompts[key], again = tried(
                            self._pace.retries,
                            open_item,
                            task,
                            dialogue,
                            each.item,
                            each.world_seed,
                            timed=timed,
                            started=started,
                        )
                    again += before
                except GivenUp as gone:
                    prompts[key], again = gone, gone.attempts - 1
            opened = prompts[key]
            if isinstance(opened, GivenUp):
                self._refuse(each, opened)
                rows.append(Row(each, None, [], 0, again, gone=opened))
            else:
                rows.append(Row(each, opened.state, opened.prompt_ids, opened.chars_cut, again))
        return rows

    def _answered(self, rows: Sequence[Row], completions: Sequence[Completion]) -> list[str]:
        """Put completions to the task and return what the policy is told, nothing where a row is over."""
        dialogue, steps = self._policy.dialogue, list[Step | None]()
        with self._timed("encode"):
            texts = [dialogue.text(done.ids) for done in completions]
            contexts = [one.write(done) for one, done in zip(rows, completions, strict=True)]
        with self._timed("environment"):
            for one, made in zip(rows, step_all(self._task, rows, texts, self._pace.retries), strict=True):
                try:
                    steps.append(one.stepped(*made))
                except GivenUp as gone:
                    self._refuse(one.play, gone)
                    one.lose(gone)
                    steps.append(None)
        with self._timed("encode"):
            for one, step, text, done, context in zip(rows, steps, texts, completions, contexts, strict=True):
                if step is not None:
                    one.record(
                        step, turn_of(step, text, len(done.ids), not dialogue.ended(done.ids), context)
                    )
        return ["" if step is None else step.observation or "" for step in steps]

    def _finished(self, one: Row) -> Rollout | Lost:
        if one.gone is None:
            try:
                return one.finish(self._task, self._pace.retries)
            except GivenUp as gone:
                self._refuse(one.play, gone)
                one.lose(gone)
        assert one.gone is not None
        return one.lost(one.gone, self._policy.dialogue.eos_id)

    def _refuse(self, each: Play, gone: GivenUp) -> None:
        if self._strict:
            raise gone.of(each) from gone
