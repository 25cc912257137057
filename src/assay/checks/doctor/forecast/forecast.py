"""What a training will take, said before any weight is loaded: from config.json and tokenizer, a rehearsal,
and arithmetic."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from assay.checks.doctor.forecast.memory import MemoryForecast, Scales, most, rows_at_once, scales
from assay.checks.doctor.forecast.pace import Pace, pace
from assay.checks.doctor.forecast.passes import GIB
from assay.checks.doctor.forecast.rehearsal import Lengths
from assay.checks.doctor.texts import render_prompts, turns_of
from assay.checks.doctor.worlds import play_scripted
from assay.checks.findings import Deadline, DoctorCheck, Finding, TooSlow, duration
from assay.core.config.places import setting
from assay.core.config.settings import Params, PretrainedBase, is_gguf
from assay.core.counting import counted
from assay.core.errors import AssayError, PolicyError
from assay.rollout.policy.base.model_files import refuse_odd_files, refuse_unreadable
from assay.rollout.policy.base.pretrained import find
from assay.rollout.policy.memory import memory_limit
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.training.rollouts import untouched
from assay.training.setup import Setup

# Beside tensors: a CUDA context, its libraries and their workspaces; on a CPU the interpreter with what it
# has loaded. Allowances, not measurements: what they are depends on driver and versions.
BESIDE = {"cuda": int(0.8 * GIB), "cpu": int(1.0 * GIB)}
USABLE = 0.95  # of a device's memory, the rest being lost between blocks
N_SCRIPTED, N_PROMPTS, SHARE = 32, 128, 0.1  # items looked at, and of the time for rendering them
MEMORY, TIME = "memory (forecast)", "step time (forecast)"


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is known of a base before its weights are there."""

    config: Any
    policy: Policy  # with no model: tokenizer and dialogue alone


def look_ahead(folder: Path, params: Params) -> Ahead:
    """Read configuration and tokenizer of a base; weights need not be there.

    Raises:
        PolicyError: They cannot be read, or the chat template cannot be served.
    """
    from transformers import AutoConfig, AutoTokenizer

    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    refuse_odd_files(folder)
    with refuse_unreadable(
        "a readable configuration and tokenizer", where=folder.name, fix="./run dvc repro base"
    ):
        config, tokenizer = (
            AutoConfig.from_pretrained(folder, **local),
            AutoTokenizer.from_pretrained(folder, **local),
        )
        dialogue = Dialogue(tokenizer, params.base.template)
    return Ahead(config, Policy(cast(Any, None), tokenizer, dialogue, ""))


def folder_ahead(base: PretrainedBase, root: Path) -> Path | None:
    """Return where config.json of a pretrained base lies, a folder or a place in a cache; None if nowhere."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    folder = (root / Path(base.model).expanduser()).absolute()
    if folder.is_dir():
        return folder if (folder / "config.json").is_file() else None
    if is_gguf(base.model):
        with suppress(PolicyError):
            return find(base.model, None, root, base.sha256).folder
        return None
    try:
        found = try_to_load_from_cache(base.model, "config.json", revision=base.revision)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def longest_episode(ahead: Ahead, training: Setup, deadline: Deadline) -> Lengths:
    """Return how long an episode may get: prompts and observations of a sample, completions at their limit.

    Raises:
        AssayError: Nothing can be rendered.
    """
    task, params, suite = training.task, training.params, training.validation
    sample = training.sample(N_PROMPTS).plays()
    plays = [*sample, *suite.plays()[:: max(1, suite.draws)][:N_PROMPTS]]
    prompts = render_prompts(
        ahead.policy, task, plays, retries=params.health.retries, until=SHARE * deadline.left
    )
    both, _ = play_scripted(task, sample[:N_SCRIPTED], params)
    episodes, dialogue = [*(both.ceiling or ()), *(both.floor or ())], ahead.policy.dialogue
    told = {
        turn.observation for episode in episodes for turn in episode.turns if turn.observation is not None
    }
    reply = max((len(dialogue.reply(text, last_id=dialogue.eos_id)) for text in told), default=0)
    turns, new = turns_of(params, episodes), params.task.max_new_tokens[params.generation.surface]
    return Lengths(max(1, prompts.longest), turns, new, reply)


def forecast(
    ahead: Ahead, training: Setup, deadline: Deadline, *, device_bytes: int | None = None
) -> list[Finding]:
    """Return what memory and time a training will take, against what there is; arguments as for
    `memory_ahead`."""
    told, lengths = memory_ahead(ahead, training, deadline, device_bytes=device_bytes)
    if lengths is None:
        return [told]
    fits, elsewhere = told.level == "ok", device_bytes is not None
    return [told, time_finding(ahead, lengths, training.params, deadline, fits=fits, elsewhere=elsewhere)]


def memory_ahead(
    ahead: Ahead, training: Setup, deadline: Deadline, *, device_bytes: int | None = None
) -> tuple[Finding, Lengths | None]:
    """Return what memory a training will take, and for episodes of which lengths; None where that cannot be
    told.

    It needs a processor for some 15 s, nothing of a GPU, and leaves random generators as they were.

    Args:
        ahead: The base.
        training: What it is to be trained on.
        deadline: By which to be done.
        device_bytes: Memory of a device that is not here; None: of the one that is.
    """
    params = training.params
    try:
        lengths = longest_episode(ahead, training, deadline)
        here = _bytes_here(params.device) if device_bytes is None else device_bytes
        with untouched(), scales(ahead.config, params, lengths, deadline) as weighed:
            return memory_finding(weighed.memory(), weighed, lengths, params, here), lengths
    except TooSlow as error:
        check = DoctorCheck(MEMORY, "a training weighed within the time", "this machine, with this base")
        fix = "./run assay doctor --device-memory GIB, which has more time for it"
        return check.warning(f"missing: {error}", fix), None
    except (AssayError, RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
        first = str(error).split("\n")[0]
        check = DoctorCheck(MEMORY, "a base that can be rehearsed", "config.json and tokenizer of the base")
        fix = "./run assay doctor, once the base is there, plays and learns with it"
        return check.warning(f"{type(error).__name__}: {first}", fix), None


def memory_finding(
    memory: MemoryForecast, weighed: Scales, lengths: Lengths, params: Params, there_is: int | None
) -> Finding:
    """Return how much memory a training takes at its peak, against what there is, and what to lower by how
    much."""
    beside = BESIDE[params.device]
    check = DoctorCheck(
        MEMORY,
        "a peak that fits",
        f"{setting('train.micro_batch_size')} and {setting('generation.batch_size')}",
    )
    found = f"{in_gib(memory.peak + beside)} at most{'' if there_is is None else f' of {in_gib(there_is)}'}: "
    found += ", ".join(f"{name} {in_gib(size)}" for name, size in terms(memory, params).items())
    found += f"; for episodes of up to {lengths.whole} tokens"
    other = [
        name
        for name in (params.generation.backend, params.distributed.engine)
        if name not in ("cached", "ddp")
    ]
    if other:
        return check.ok(
            f"{found}; so with backend cached and engine ddp, while {' and '.join(other)} may take less or"
            " more"
        )
    if there_is is None:
        return check.ok(f"{found}; of how much is not known here (--device-memory GIB)")
    room = int(USABLE * there_is) - beside - memory.stays
    if memory.peak - memory.stays <= room:
        return check.ok(found)
    fixes = what_to_lower(memory, weighed, params, room)
    return check.fault(found, "; ".join(fixes)) if room < 0 else check.warning(found, "; ".join(fixes))


def terms(memory: MemoryForecast, params: Params) -> dict[str, int]:
    """Return the bytes of a training by what takes them, in words; playing, learning and the KL come one
    after another."""
    return {
        "base": memory.base,
        "adapter and its moments": memory.adapter,
        "kept for the KL": memory.probe,
        f"then playing {rows_at_once(params)} at once": memory.play,
        f"or learning from {params.train.micro_batch_size}": memory.gradient + memory.learn,
        "or the KL": memory.look,
        "beside tensors": BESIDE[params.device],
    }


def what_to_lower(memory: MemoryForecast, weighed: Scales, params: Params, room: int) -> list[str]:
    """Return which settings to lower to which values so that a training fits, each weighed and not guessed.

    What the deadline of the scales leaves no time for is named without a value.

    Args:
        memory: What it takes now.
        weighed: To weigh other values on.
        params: As they are.
        room: Bytes above what stays.
    """
    train = params.train
    if room < 0:
        quantised = [] if params.base.quantization is not None else ["base.quantization: nf4"]
        smaller = [*quantised, "a smaller base.model"] if room + memory.base > 0 else []
        return [", or ".join([*smaller, "a device with more memory"])]
    shorter = f"lower task.max_new_tokens.{params.generation.surface}"

    def played() -> str:
        rows = most(lambda rows: weighed.play(rows)[0], room, range(1, rows_at_once(params) + 1))
        return f"{shorter}, or task.max_turns" if rows is None else f"generation.batch_size: {rows}"

    def learned() -> str:
        episodes = train.items_per_step * train.group_size // params.distributed.processes
        sizes = [n for n in range(1, train.micro_batch_size + 1) if episodes % n == 0]
        left = room - memory.gradient
        plain = most(weighed.learn, left, sizes)
        ways = [] if plain is None else [f"train.micro_batch_size: {plain}"]
        if not train.gradient_checkpointing:
            more = most(lambda rows: weighed.learn(rows, checkpointing=True), left, sizes)
            if more is not None and more > (plain or 0):
                ways.append(f"train.gradient_checkpointing: true with train.micro_batch_size: {more}")
        return ", or ".join(ways) or f"{shorter}: one episode in train.micro_batch_size is too long already"

    def looked() -> str:
        return f"train.kl_probe_episodes: {max(1, train.kl_probe_episodes * room // memory.look)}"

    ways = {
        "generation.batch_size": (memory.play, played),
        "train.micro_batch_size": (memory.gradient + memory.learn, learned),
        "train.kl_probe_episodes": (memory.look, looked),
    }
    fixes = []
    for name, (weight, lower) in ways.items():
        if weight > room:
            try:
                fixes.append(lower())
            except TooSlow:
                fixes.append(f"lower {name} (to how many was not weighed: the time was up)")
    return fixes


def time_finding(
    ahead: Ahead, lengths: Lengths, params: Params, deadline: Deadline, *, fits: bool, elsewhere: bool
) -> Finding:
    """Return how long a step takes at most, timed on this very device; missing where it cannot be timed
    here."""
    check = DoctorCheck(TIME, "a time you have", setting("train.steps"))
    plain = params.generation.backend == "cached" and not params.generation.cuda_graphs
    if elsewhere or (params.device == "cuda" and not torch.cuda.is_available()):
        return check.ok("missing: it is timed on the device itself, which is not here")
    if not fits or not plain:
        return check.ok(
            "missing:"
            f" {'it would not fit' if not fits else 'timed for backend cached without cuda_graphs alone'}"
        )
    try:
        told = pace(ahead.config, params, lengths, params.device, deadline)
    except TooSlow as error:
        return check.warning(f"missing: {error}", "use a faster device or a smaller base")
    return check.ok(in_seconds(told, params))


def in_seconds(told: Pace, params: Params) -> str:
    """Return a pace in words."""
    parts = f"playing {told.play:.2g}, learning {told.learn:.2g}, the rest {told.settle + told.look:.2g}"
    whole = f"{duration(params.train.steps * told.step)} for {counted(params.train.steps, 'steps')}"
    return f"about {told.step:.3g} s at most ({parts}), {whole}, validations not counted"


def in_gib(size: int) -> str:
    """Return bytes in words.

    >>> in_gib(2**30), in_gib(5 * 2**20)
    ('1 GiB', '5 MiB')
    """
    return f"{size / GIB:.3g} GiB" if size >= GIB / 10 else f"{size / 2**20:.3g} MiB"


def _bytes_here(device: str) -> int | None:
    if device == "cpu":
        return memory_limit()
    return int(torch.cuda.mem_get_info()[1]) if torch.cuda.is_available() else None
