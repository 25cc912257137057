"""A tiny base before it is trained for reward: built from the words of its task, and taught to speak it.

Drills are learned first, demonstrations then; another process can make the demonstrations meanwhile.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from assay.core.config.settings import Params, ScratchBase
from assay.core.console import progress
from assay.core.provenance import usable_cores
from assay.core.seeds import derive_seed, rng
from assay.rollout.policy.base import tiny
from assay.rollout.policy.base.limits import refuse_too_large
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.tasks.protocol import Item, Task, learner

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MANY = 5000  # demonstrations; fewer are made before another process has started
READ_BEFORE = 256  # dialogues, to see whether a tiny base can hold them
READ_FROM = 2000  # lessons of each kind, to learn a tokenizer from
MARGIN = (
    0.03  # where lessons are derived, copying is learned a little better than the gate asks: it asks again
)

Lessons = list[tiny.Masked]


def teach(params: Params, task: Task, items: Sequence[Item]) -> None:
    """Give the train items to a task that derives its lessons from them.

    Raises:
        ConfigError: It says of nobody how to play it.
        PolicyError: It is too large for a tiny base.
    """
    learning = learner(task)
    if learning is None or not isinstance(params.base, ScratchBase):
        return
    learning.learn_from(items)
    if params.base.bpe_vocabulary is not None:
        return  # it has no words to count
    shown = task.demonstrations(rng("base", "limits", params.base.seed), READ_BEFORE)
    room = params.task.max_new_tokens[params.generation.surface]
    refuse_too_large(task.vocabulary(), shown, params.base, room)


def tokenizer_of(base: ScratchBase, task: Task) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a base that is built here: of the task's words, or learned from its lessons."""
    if base.bpe_vocabulary is None:
        return tiny.build_tokenizer(task.vocabulary())
    lessons = [
        talk
        for name, make in (("drills", task.drills), ("demonstrations", task.demonstrations))
        for talk in make(rng("base", name, base.seed), READ_FROM)
    ]
    return tiny.train_tokenizer((said["content"] for talk in lessons for said in talk), base.bpe_vocabulary)


def demonstrated(settings: ScratchBase, task: Task, dialogue: Dialogue) -> Lessons:
    """Return the demonstrations of a base as tokens."""
    generator = rng("base", "demonstrations", settings.seed)
    found = task.demonstrations(generator, settings.warm_start.demonstration_pool)
    return [dialogue.whole(each) for each in found]


def warm_started(
    settings: ScratchBase, task: Task, shown: Callable[[], Lessons | None] | None = None
) -> Policy:
    """Return a tiny policy trained on drills and demonstrations, in memory.

    `shown` waits for demonstrations made elsewhere.
    """
    plan = settings.warm_start
    tokenizer = tokenizer_of(settings, task)
    model = tiny.build_model(settings.architecture, tokenizer, derive_seed("base", settings.seed))
    policy = Policy(model, tokenizer, Dialogue(tokenizer), "unsaved")
    drills = [
        policy.dialogue.whole(drill)
        for drill in task.drills(rng("base", "drills", settings.seed), plan.drill_pool)
    ]
    probe = task.drills(rng("base", "probe", settings.seed), plan.probe_items)
    enough = min(1.0, settings.gates.copy_accuracy + (MARGIN if learner(task) else 0.0))
    drill_batches = tiny.batches(drills, plan.drills.batch_size, rng("base", "drill order", settings.seed))
    with progress("base: drills", plan.drills.steps) as advance:
        tiny.imitate(
            policy,
            drill_batches,
            tiny.phase(plan.drills),
            every=plan.probe_every,
            stop=lambda _: tiny.copy_accuracy(policy, probe) >= enough,
            progress=lambda _, loss: advance(1, f"loss {loss:.3f}"),
        )
    made = (None if shown is None else shown()) or demonstrated(settings, task, policy.dialogue)
    order = rng("base", "show order", settings.seed)
    shown_batches = tiny.batches(made, plan.demonstrations.batch_size, order)
    mixed = tiny.alternating(shown_batches, drill_batches, plan.drill_every)
    with progress("base: demonstrations", plan.demonstrations.steps) as advance:
        tiny.imitate(
            policy,
            mixed,
            tiny.phase(plan.demonstrations),
            every=plan.demonstrations.steps,
            stop=lambda _: False,
            progress=lambda _, loss: advance(1, f"loss {loss:.3f}"),
        )
    return policy


@contextmanager
def made_beside(
    settings: ScratchBase, make: Callable[[], Lessons]
) -> Iterator[Callable[[], Lessons | None] | None]:
    """Let another process make the demonstrations, as they would be made here, while the drills are learned.

    What is given waits for them, and returns None if nothing came of it: they are then made here, where an
    error is told. None: there are too few of them, or of cores.
    """
    if usable_cores() < 2 or settings.warm_start.demonstration_pool < MANY:
        yield None
        return
    # Not forked: a task's environment is not to be shared.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    beside = context.Process(target=_send, args=(there, make), daemon=True)
    beside.start()
    there.close()

    def shown() -> Lessons | None:
        try:
            found: Lessons | None = here.recv()
        except EOFError:
            return None
        return found

    try:
        yield shown
    finally:
        beside.kill()
        beside.join()
        here.close()


def _send(there: Connection, make: Callable[[], Lessons]) -> None:
    """Send the demonstrations, or None if they cannot be made."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked for them is told, and ends this process
    found = None
    with suppress(Exception):
        found = make()
    with suppress(OSError):
        there.send(found)
