"""Rollouts: a policy plays items of a task, and what happened becomes episodes. Training plays through here too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.evaluation.openings import Opening, open_item
from assay.evaluation.phases import Phases, Timed, untimed
from assay.evaluation.rows import GivenUp, Lost, Rollout, Row, tried, turn_of
from assay.evaluation.scripted import play_baseline
from assay.evaluation.suite import Play
from assay.policy.decoding import Decoding
from assay.policy.engine import Completion, Session, evaluating
from assay.policy.model import Policy
from assay.tasks.protocol import Task

__all__ = ["Lost", "Progress", "Rollout", "attempt", "play", "play_baseline"]

Progress = Callable[[int], None]


def play(
    policy: Policy, task: Task, plays: Sequence[Play], decoding: Decoding,
    *, batch_size: int, progress: Progress | None = None, phases: Phases | None = None, retries: int = 0,
) -> list[Rollout]:  # fmt: skip
    """Play every play once and return the rollouts in the same order: all of them, or an error.

    Args:
        policy: Who plays; it is put in evaluation mode meanwhile (no dropout).
        task: What is played.
        plays: Items with their seeds.
        decoding: How tokens are chosen.
        batch_size: Conversations held at once; changes speed and memory, not results.
        progress: Told how many episodes have just ended.
        phases: Told where the time goes: encode, generate, environment, reward.
        retries: How often a call to the environment that failed is made again.

    Raises:
        EnvironmentLost: The environment failed for good; names the item. Raised at once, since nothing may be left out.
    """
    batches = _Batches(policy, task, decoding, untimed if phases is None else phases, retries, strict=True)
    rollouts = [one for one in batches.play(plays, batch_size, progress) if isinstance(one, Rollout)]
    assert len(rollouts) == len(plays)
    return rollouts


def attempt(
    policy: Policy, task: Task, plays: Sequence[Play], decoding: Decoding,
    *, batch_size: int, progress: Progress | None = None, phases: Phases | None = None, retries: int = 0,
) -> list[Rollout | Lost]:  # fmt: skip
    """Play as `play` does, and return a `Lost` in the place of each play whose environment failed for good.

    The others go on as if nothing had happened. For training, where a lost episode is masked out of its group; what is
    measured must be complete.
    """
    batches = _Batches(policy, task, decoding, untimed if phases is None else phases, retries, strict=False)
    return batches.play(plays, batch_size, progress)


class _Batches:
    """Plays batch after batch; when strict, the first loss is raised instead of returned."""

    def __init__(self, policy: Policy, task: Task, decoding: Decoding, timed: Timed, retries: int, *, strict: bool) -> None:
        self._policy, self._task, self._decoding = policy, task, decoding
        self._timed, self._retries, self._strict = timed, retries, strict

    def play(self, plays: Sequence[Play], batch_size: int, progress: Progress | None) -> list[Rollout | Lost]:
        played: list[Rollout | Lost] = []
        with evaluating(self._policy.model):
            for start in range(0, len(plays), batch_size):
                batch = self._play_batch(plays[start : start + batch_size])
                played += batch
                if progress is not None:
                    progress(len(batch))
        return played

    def _play_batch(self, plays: Sequence[Play]) -> list[Rollout | Lost]:
        policy, timed = self._policy, self._timed
        rows = self._opened(plays)
        if active := [one for one in rows if not one.over]:
            with timed("generate"):
                session = Session(
                    policy.model, [r.prompt_ids for r in active], [r.play.seed for r in active], self._decoding,
                    eos_id=policy.dialogue.eos_id, pad_id=policy.pad_id,
                )  # fmt: skip
        while active:
            with timed("generate"):
                completions = session.complete()
            replies = [self._answered(one, completion) for one, completion in zip(active, completions, strict=True)]
            kept = [row for row, one in enumerate(active) if not one.over]
            active = [active[row] for row in kept]
            if active:
                with timed("generate"):
                    session.keep(kept)
                    session.tell([completions[row].ids[-1] for row in kept], [replies[row] for row in kept])
                for one, row in zip(active, kept, strict=True):
                    one.hear(replies[row])
        return [self._finished(one) for one in rows]

    def _opened(self, plays: Sequence[Play]) -> list[Row]:
        rows: list[Row] = []
        task, dialogue, timed = self._task, self._policy.dialogue, self._timed
        # Copies of a group share an opening, and its failure; only the first of them counts what was tried again.
        openings: dict[tuple[str, int], Opening | GivenUp] = {}
        for each in plays:
            key, again = (each.item.id, each.world_seed), 0
            if key not in openings:
                try:
                    with timed("encode"):
                        openings[key], again = tried(
                            self._retries, open_item, task, dialogue, each.item, each.world_seed, timed=timed
                        )
                except GivenUp as gone:
                    openings[key], again = gone, gone.attempts - 1
            opened = openings[key]
            if isinstance(opened, GivenUp):
                self._refuse(each, opened)
                rows.append(Row(each, None, [], 0, again, gone=opened))
            else:
                rows.append(Row(each, opened.state, opened.prompt_ids, opened.chars_cut, again))
        return rows

    def _answered(self, one: Row, completion: Completion) -> list[int]:
        """Put a completion to the task and return the ids of what the policy reads next, none where the row is over."""
        dialogue, timed = self._policy.dialogue, self._timed
        with timed("encode"):
            ended = completion.ids[-1] == dialogue.eos_id
            text, context = dialogue.text(completion.ids), one.write(completion)
        try:
            with timed("environment"):
                step = one.step(self._task, text, self._retries)
        except GivenUp as gone:
            self._refuse(one.play, gone)
            one.lose(gone)
            return []
        with timed("encode"):
            one.record(step, turn_of(step, text, len(completion.ids), not ended, context))
            return [] if step.observation is None else dialogue.reply(step.observation, ended=ended)

    def _finished(self, one: Row) -> Rollout | Lost:
        if one.gone is None:
            try:
                with self._timed("reward"):
                    return one.finish(self._task, self._retries)
            except GivenUp as gone:
                self._refuse(one.play, gone)
                one.lose(gone)
        assert one.gone is not None
        return one.lost(one.gone, self._policy.dialogue.eos_id)

    def _refuse(self, each: Play, gone: GivenUp) -> None:
        if self._strict:
            raise gone.of(each) from gone
