"""Stage 2: pin the base policy. Build and warm-start the tiny one and check it, or resolve a pretrained
model."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.config.settings import Params, PretrainedBase, ScratchBase
from assay.core.console import complain, progress, say
from assay.core.errors import ConfigError, PolicyError
from assay.core.evidence_files import folder_of, place_of
from assay.core.provenance import usable_cores
from assay.core.seeds import derive_seed, rng
from assay.core.storage.json import write_json
from assay.pipeline.inputs import Inputs, decoding_of
from assay.pipeline.policies import BASE, tell_control_tokens, tokenizer_of
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import choose
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.measures import mean_of
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.policy.base import pretrained, tiny
from assay.rollout.policy.base.limits import refuse_too_large
from assay.rollout.policy.digests import digest_folder
from assay.rollout.policy.model import Policy, load, open_tokenizer, pin, require_device
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.tasks.protocol import Item, Task, learner

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

READS = ("${task.code}", place_of("fingerprint.json"), "${dataset.root}/train.jsonl")
WRITES = (BASE, folder_of("base"))
MANY = 5000  # demonstrations; fewer are made before another process has started
READ_BEFORE = 256  # dialogues, to see whether a tiny base can hold them
# Where lessons are derived, copying is learned a little better than the gate asks, as it is asked again after
# the demonstrations; and greedy decoding that is right so much more often than sampling is said.
MARGIN, SHARPER = 0.03, 0.25


def run(project: Project) -> None:
    """Write models/base and base.json; refuse a base that does not speak the task."""
    inputs, params = project.inputs("train"), project.params  # so that changed data are refused at once
    if isinstance(params.base, PretrainedBase):
        tell_control_tokens(inputs, pin_pretrained(project, params.base), "train")
        return
    require_device(params.device)
    pin(params.threads, deterministic=params.deterministic, device=params.device)
    folder = project.root / BASE
    teach(params, inputs.task, inputs.train)
    with shown_beside(project, params.base) as shown:
        policy = warm_started(params.base, inputs.task, shown)
    tell_control_tokens(inputs, policy.tokenizer, "train")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    facts: dict[str, Any] = {"kind": "scratch", "seed": params.base.seed, "digest": digest_folder(folder)}
    facts["parameters"] = sum(p.numel() for p in policy.model.parameters())
    facts |= check(folder, inputs, params.base)
    write_json(project.results("base.json"), facts)
    say(
        f"base {facts['digest'][:12]}: {facts['parameters']:,} parameters, reads off"
        f" {facts['copy_accuracy']:.1%}, parses {facts['parsed_rate']:.1%}, success"
        f" {facts['success_rate']:.1%} (train items, sampled)"
    )


def pin_pretrained(project: Project, settings: PretrainedBase) -> PreTrainedTokenizerBase:
    """Write which model it is, and return its tokenizer.

    That needs no GPU, so a machine that only downloads can do it, and is told what follows.

    Raises:
        PolicyError: The model is not there, or not fit to be loaded.
    """
    try:
        require_device(project.params.device)
    except ConfigError as error:
        complain(f"the stages after base cannot run here: {error}")
    source = pretrained.resolve(settings.model, settings.revision, project.root)
    # Else it would be told where all weights have been loaded
    tokenizer = open_tokenizer(source.folder, settings.template)
    folder = project.root / BASE
    shutil.rmtree(folder, ignore_errors=True)
    pretrained.write_pointer(folder, source)
    pinned = {
        "kind": "pretrained",
        "model": source.name,
        "revision": source.revision,
        "digest": source.digest,
    }
    write_json(project.results("base.json"), pinned)
    say(f"base {source.name} at {source.revision}, digest {source.digest[:12]}")
    for note in source.notes:
        complain(note)
    if Path(settings.model).is_absolute():
        complain(
            "base.model is an absolute path; params.yaml is part of the package, which is refused where that"
            " path lies below your home or the project. Fix: write it relative to the project, or with ~"
        )
    return tokenizer


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


Shown = Callable[[], list[tiny.Masked] | None]


@contextmanager
def shown_beside(project: Project, settings: ScratchBase) -> Iterator[Shown | None]:
    """Let another process make the demonstrations, as they would be made here, while the drills are learned.

    What is given waits for them, and returns None if nothing came of it: they are then made here, where an
    error is told.
    """
    if usable_cores() < 2 or settings.warm_start.demonstration_pool < MANY:
        yield None
        return
    # Not forked: a task's environment is not to be shared.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    beside = context.Process(target=_show, args=(there, project, settings), daemon=True)
    beside.start()
    there.close()

    def shown() -> list[tiny.Masked] | None:
        try:
            found: list[tiny.Masked] | None = here.recv()
        except EOFError:
            return None
        return found

    try:
        yield shown
    finally:
        beside.kill()
        beside.join()
        here.close()


def _show(there: Connection, project: Project, settings: ScratchBase) -> None:
    """Send the demonstrations, or None if they cannot be made."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked for them is told, and ends this process
    found = None
    with suppress(Exception):
        inputs = project.inputs("train")
        teach(inputs.params, inputs.task, inputs.train)
        found = demonstrated(settings, inputs.task, Dialogue(tokenizer_of(settings, inputs.task)))
    with suppress(OSError):
        there.send(found)


def demonstrated(settings: ScratchBase, task: Task, dialogue: Dialogue) -> list[tiny.Masked]:
    """Return the demonstrations of a base as tokens."""
    generator = rng("base", "demonstrations", settings.seed)
    found = task.demonstrations(generator, settings.warm_start.demonstration_pool)
    return [dialogue.whole(each) for each in found]


def warm_started(settings: ScratchBase, task: Task, shown: Shown | None = None) -> Policy:
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


def check(folder: Path, inputs: Inputs, settings: ScratchBase) -> dict[str, float]:
    """Return what the saved base can do, as it will be loaded from now on.

    Raises:
        PolicyError: It cannot read values off, or does not speak the syntax.
    """
    params, gates, task, items = inputs.params, settings.gates, inputs.task, inputs.train
    policy = load(folder, adapter=None, device=params.device, dtype="float32", quantization=None)
    probe = task.drills(rng("base", "final probe", settings.seed), settings.warm_start.probe_items)
    copied = tiny.copy_accuracy(policy, probe)
    plays = choose(items, min(gates.episodes, len(items)), split="train", draws=1, seed=0).plays()
    batch_size, retries = params.generation.batch_size, params.health.retries
    sampled = decoding_of(params, rollout=True)  # as training will begin: cooler, it would look better
    episodes = measure(policy, task, plays, sampled, pace=Pace(batch_size, retries=retries))
    if learner(task):
        greedy = decoding_of(params, greedy=True)
        likeliest = measure(policy, task, plays, greedy, pace=Pace(batch_size, retries=retries))
        gap = (mean_of(likeliest, "success_rate") or 0.0) - (mean_of(episodes, "success_rate") or 0.0)
        if gap > SHARPER:
            complain(
                f"the base's likeliest answers are right {gap:.0%} more often than sampled ones, so that a"
                " training may gain by less chance alone, which is no skill. Fix: a weak player whose"
                " likeliest answer is wrong (task.players)"
            )
    facts = {"copy_accuracy": copied}
    facts |= {name: mean_of(episodes, name) or 0.0 for name in ("parsed_rate", "success_rate", "mean_reward")}
    for name, least in (("copy_accuracy", gates.copy_accuracy), ("parsed_rate", gates.parsed_rate)):
        if facts[name] < least:
            raise PolicyError(
                f"{name} of at least {least}",
                found=f"{facts[name]:.3f}",
                where=f"the base of base.seed={settings.seed}",
                fix=(
                    "raise the steps of base.warm_start, or choose another base.seed; nothing is measured on"
                    " this base"
                ),
            )
    return facts
