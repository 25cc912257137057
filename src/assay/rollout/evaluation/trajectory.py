"""One conversation of a batch: its prompt within the task's limit, its turns, and what becomes of it: a
rollout, or a loss to the environment."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from assay.core.errors import AssayError, EnvironmentFailure, TaskError
from assay.core.records import Episode, Turn
from assay.core.storage.json import digest
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.phases import Timed, untimed
from assay.rollout.evaluation.retries import GivenUp, NotFinite, tried, tried_together
from assay.rollout.tasks.protocol import Item, Message, Step, Task, side_by_side

if TYPE_CHECKING:
    from assay.core.decoding import Completion

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rollout:
    """An episode and the exact tokens behind it.

    `completion_ids` holds everything after the prompt: the policy's tokens (mask 1, with log-probabilities)
    and the environment's (mask 0, log-probability 0). `retries` counts calls to the environment that had to
    be made again.
    """

    episode: Episode
    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """A play whose environment failed for good: no episode and so no score, only the tokens there were by
    then.

    Neither list of ids is ever empty: one end-of-sequence (mask 0) stands for what was never read or written.
    `attempts` counts the tries of the call that failed, `retries` all calls of this play that were made
    again.
    """

    play: Play
    reason: str
    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    attempts: int
    retries: int = 0
    # What a broken grader gave instead of a number; None where the environment failed
    reward: float | None = None

    @property
    def error(self) -> AssayError:
        """This as the end of what cannot do without it."""
        gone = (
            GivenUp(self.reason, self.attempts)
            if self.reward is None
            else NotFinite("", self.reward, self.reason)
        )
        return gone.of(self.play)


@dataclass(slots=True)
class Row:
    """A conversation under way. It is over once it has an ending, or once its environment was given up."""

    play: Play
    state: Any
    prompt_ids: list[int]
    chars_cut: int
    retries: int = 0
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    ending: str | None = None
    gone: GivenUp | None = None
    read: hashlib._Hash = field(default_factory=hashlib.sha256)  # of all tokens so far

    def __post_init__(self) -> None:
        """Begin with the prompt."""
        self.read.update(_bytes(self.prompt_ids))

    @property
    def over(self) -> bool:
        """Whether nothing more is to be written."""
        return self.ending is not None or self.gone is not None

    def write(self, completion: Completion) -> str:
        """Take the tokens of a completion and return the digest of what they were conditioned on."""
        context = self.read.hexdigest()[:16]
        self._append(completion.ids, 1, completion.logprobs)
        return context

    def stepped(self, step: Step | GivenUp, again: int) -> Step:
        """Take a step that was tried so often again.

        Raises:
            GivenUp: The environment failed for good, or a part of the reward is not finite.
        """
        if isinstance(step, GivenUp):
            raise step
        self.retries += again
        for name, value in step.parts.items():
            if not math.isfinite(value):
                raise NotFinite(name, float(value))
        return step

    def record(self, step: Step, turn: Turn) -> None:
        """Go on to the state that a step led to."""
        self.turns.append(turn)
        self.state, self.ending = step.state, step.ending

    def hear(self, reply: Sequence[int]) -> None:
        """Take the tokens that stand between a completion and the next one."""
        self._append(reply, 0, [0.0] * len(reply))

    def _append(self, ids: Sequence[int], written: int, logprobs: Sequence[float]) -> None:
        self.ids += ids
        self.mask += [written] * len(ids)
        self.logprobs += logprobs
        self.read.update(_bytes(ids))

    def lose(self, gone: GivenUp) -> None:
        """End here, without an episode."""
        self.gone = gone
        self.retries += gone.attempts - 1

    def finish(self, task: Task, retries: int) -> Rollout:
        """Return what was played, judged.

        Raises:
            GivenUp: The environment failed for good.
        """
        episode, again = tried(
            retries, episode_of, task, self.play, self.state, self.turns, str(self.ending), self.chars_cut
        )
        return Rollout(episode, self.prompt_ids, self.ids, self.mask, self.logprobs, self.retries + again)

    def lost(self, gone: GivenUp, eos_id: int) -> Lost:
        """Return the tokens of a play that has no episode."""
        return Lost(
            self.play,
            gone.reason,
            self.prompt_ids or [eos_id],
            self.ids or [eos_id],
            self.mask or [0],
            self.logprobs or [0.0],
            gone.attempts,
            self.retries,
            gone.reward,
        )


def start_all(
    task: Task, plays: Sequence[Play], retries: int
) -> Iterator[tuple[tuple[list[Message], Any] | GivenUp, int]]:
    """Yield what a task's start returns for each play, and how often it was called again: at once where the
    task can, else one play after another."""

    def start(places: Sequence[int]) -> Sequence[tuple[list[Message], Any] | EnvironmentFailure]:
        assert together is not None
        return together.starts([plays[n].item for n in places], [plays[n].world_seed for n in places])

    if (together := side_by_side(task)) is not None:
        yield from tried_together(retries, start, len(plays))
        return
    for play in plays:
        yield _or_given_up(retries, task.start, play.item, play.world_seed)


def step_all(
    task: Task, rows: Sequence[Row], texts: Sequence[str], retries: int
) -> Iterator[tuple[Step | GivenUp, int]]:
    """Yield what a task's step returns for each row and the text of its completion, as `start_all` does;
    every state stays as it is."""

    def step(places: Sequence[int]) -> Sequence[Step | EnvironmentFailure]:
        assert together is not None
        return together.steps([rows[n].state for n in places], [texts[n] for n in places])

    if (together := side_by_side(task)) is not None:
        yield from tried_together(retries, step, len(rows))
        return
    for row, text in zip(rows, texts, strict=True):
        yield _or_given_up(retries, task.step, row.state, text)


def _or_given_up(retries: int, call: Callable[..., T], *args: Any) -> tuple[T | GivenUp, int]:
    try:
        return tried(retries, call, *args)
    except GivenUp as gone:
        return gone, gone.attempts - 1


def _bytes(ids: Sequence[int]) -> bytes:
    return array("q", ids).tobytes()


def asked_digest(messages: Sequence[Message]) -> str:
    """Return what stands for the prompt of one who is asked in messages, since the ids that it read are not
    known.

    >>> asked_digest([{"role": "user", "content": "Who?"}])
    'messages:9d5508866ce18ff3'
    """
    return f"messages:{digest(messages)[:16]}"


def turn_of(step: Step, text: str, n_tokens: int, truncated: bool, prompt_digest: str) -> Turn:
    """Return the record of one exchange."""
    return Turn(
        prompt_digest=prompt_digest,
        completion=text,
        n_tokens=n_tokens,
        truncated=truncated,
        outcome=step.outcome,
        failure=step.failure,
        action=step.action,
        observation=step.observation,
        parts={name: float(value) for name, value in step.parts.items() if value},
    )


def episode_of(
    task: Task, play: Play, state: Any, turns: Sequence[Turn], ending: str, chars_cut: int
) -> Episode:
    """Return the record of a finished episode, judged by its task."""
    verdict = task.judge(state)
    parts = {name: sum(turn.parts.get(name, 0.0) for turn in turns) for name in task.parts}
    return Episode(
        item_id=play.item.id,
        cluster=play.item.cluster,
        strata=dict(play.item.strata),
        draw=play.draw,
        seed=play.seed,
        turns=tuple(turns),
        prompt_chars_cut=chars_cut,
        ending=ending,
        reward=sum(parts.values()),
        parts=parts,
        success=verdict.success,
        flags=dict(verdict.flags),
        metrics=dict(verdict.metrics),
    )


class Opens(Protocol):
    """Renders and tokenises: `policy.dialogue.Dialogue`, or `policy.words.Words` where there is no
    tokenizer."""

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of a prompt, up to where the policy starts to write."""
        ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the policy reads first, the state it plays from, and how many characters were left out to fit."""

    prompt_ids: list[int]
    state: Any
    chars_cut: int


def open_item(
    task: Task,
    dialogue: Opens,
    item: Item,
    world_seed: int,
    *,
    timed: Timed = untimed,
    started: tuple[list[Message], Any] | None = None,
) -> Prompt:
    """Return the prompt of an item, rendered by the chat template and no longer than
    `task.max_prompt_tokens`.

    Only what is read may be cut: the state is that of the whole item, so that stored completions are graded
    again without knowing what was cut. The task's own time is told to `timed` as environment. `started` is
    what `task.start` returned, where it has been called.

    Raises:
        TaskError: It is too long and the task does not allow to cut so much; names item, tokens, limit and
            fix.
        EnvironmentFailure: The environment crashed or timed out.
    """
    with timed("environment"):
        messages, state = task.start(item, world_seed) if started is None else started
    ids = dialogue.prompt(messages)
    limit = task.max_prompt_tokens
    if limit is None or len(ids) <= limit:
        return Prompt(ids, state, item.chars_cut)
    fitted = _fitted(
        task, dialogue, item, world_seed, excess=len(ids) - limit, chars=_chars(messages), timed=timed
    )
    if fitted is None:
        raise TaskError(
            f"at most {limit} tokens in the rendered prompt (task.max_prompt_tokens)",
            found=f"{len(ids)}, and the task does not allow to cut enough",
            where=f"item {item.id}",
            fix=(
                "raise task.max_prompt_tokens, set task.truncate_prompts: true if the task has it, or drop"
                " the record"
            ),
        )
    return Prompt(fitted[0], state, fitted[1])


def _chars(messages: Sequence[Message]) -> int:
    return sum(len(message["content"]) for message in messages)


def _fitted(
    task: Task, dialogue: Opens, item: Item, world_seed: int, *, excess: int, chars: int, timed: Timed
) -> tuple[list[int], int] | None:
    """Return the ids of the shortened prompt that fits and what it lacks in characters; None if none
    fits."""
    limit = task.max_prompt_tokens or 0
    too_few, enough = 0, chars + 1
    best: tuple[list[int], int] | None = None
    # Doubled from one character a token, then halved. Each try renders and tokenises a whole prompt, so the
    # search ends once no more than 3 % of the limit is left unused.
    while enough - too_few > 1 and (best is None or len(best[0]) < limit - limit // 32):
        cut = max(excess, 2 * too_few) if best is None else (too_few + enough) // 2
        if cut >= enough:
            cut = (too_few + enough) // 2
        shorter = task.shortened(item, cut)
        if shorter is None:
            enough = cut
            continue
        with timed("environment"):
            messages, _ = task.start(shorter, world_seed)
        ids = dialogue.prompt(messages)
        if len(ids) <= limit:
            best, enough = (ids, shorter.chars_cut), cut
        else:
            too_few = cut
    return best
