"""A pretrained model before it is trained for reward: shown right answers to part of the train items, by the
loop that teaches a tiny base, and what it learned merged into its weights.

What is kept on the way decides nothing: a call that was killed and one that was not end in the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from assay.core.config.places import setting
from assay.core.config.settings import SftSettings
from assay.core.console import complain, progress, say
from assay.core.errors import ConfigError, PolicyError, TaskError, TrainingError
from assay.core.seeds import derive_seed, rng
from assay.core.storage.files import sha256_bytes, write_bytes
from assay.rollout.policy.base import tiny
from assay.rollout.policy.engine.context import positions_of
from assay.rollout.policy.model import Policy
from assay.rollout.tasks.protocol import Item, Message, Task, learner
from assay.rollout.tasks.rivals import worked_example

WHERE = setting("base.warm_start")
KEPT = "kept.safetensors"


@dataclass(frozen=True, slots=True)
class Sft:
    """What came of it.

    Attributes:
        losses: Of each step, in nats per token of an answer.
        rows: Lessons that were shown at least once.
        tokens: Of answers that were shown, each as often as it was.
    """

    losses: list[float]
    rows: int
    tokens: int


def lessons_of(task: Task, items: Sequence[Item], label: str, seed: int) -> list[list[Message]]:
    """Return a dialogue for each item that somebody can show how to solve: its right answer, else the play of
    the strongest scripted player that sees what a policy sees; else the task's own lessons on these items.

    Raises:
        TaskError: Nobody can show anything.
    """
    found = []
    for item in items:
        world = derive_seed(label, seed, item.id)
        shown = worked_example(task, item, world, rng(label, world))
        if shown is not None:
            found.append(shown)
    learning = learner(task)
    if not found and learning is not None:
        learning.learn_from(items)
        found = [list(each) for each in task.demonstrations(rng(label, seed), len(items))]
    if not found:
        raise TaskError(
            "train items with a right answer, or a scripted player, to show a model",
            found="neither",
            where=WHERE,
            fix="base.warm_start: null; or give the task an answer key or a player",
        )
    return found


def tokens_of(lessons: Sequence[Sequence[Message]], policy: Policy, batch_size: int) -> list[tiny.Masked]:
    """Return lessons as tokens.

    Raises:
        ConfigError: They are fewer than one batch.
        PolicyError: One is longer than the model reads.
    """
    if len(lessons) < batch_size:
        raise ConfigError(
            f"at least one batch of lessons ({batch_size})",
            found=str(len(lessons)),
            where=setting("base.warm_start.batch_size"),
            fix="lower it, raise base.warm_start.share, or add data",
        )
    found, most = [policy.dialogue.whole(each) for each in lessons], positions_of(policy.model.config)
    longest = max(len(ids) for ids, _ in found)
    if most is not None and longest > most:
        raise PolicyError(
            f"lessons of at most {most} tokens, which this base reads",
            found=f"one of {longest}",
            where=WHERE,
            fix="shorten the records (task.max_prompt_chars), or choose another base",
        )
    return found


def fine_tune(
    policy: Policy,
    lessons: Sequence[tiny.Masked],
    settings: SftSettings,
    steps: int,
    label: str,
    folder: Path,
    key: str,
) -> tuple[Policy, Sft]:
    """Return the policy after supervised fine-tuning, in memory and merged, and what came of it.

    Args:
        policy: The model as it is loaded; its weights are changed.
        lessons: To be imitated, in an order that the seed decides.
        settings: How.
        steps: How long.
        label: Of all seeds.
        folder: Keeps what it needs to go on after an interruption.
        key: Of all that decides the result; what another key kept is not taken.

    Raises:
        ConfigError: LoRA's targets are not there.
        TrainingError: A loss is not finite.
    """
    model: Any = policy.model
    torch.manual_seed(derive_seed(label, "adapter", settings.seed))
    adapted = _adapted(model, settings)
    kept = _Kept(
        folder / KEPT, key, settings, label, steps, [p for p in model.parameters() if p.requires_grad]
    )
    rows, tokens = set[int](), 0

    def told() -> Iterator[Sequence[tiny.Masked]]:
        nonlocal tokens
        places = {id(lesson): place for place, lesson in enumerate(lessons)}
        for batch in tiny.batches(lessons, settings.batch_size, rng(label, "order", settings.seed)):
            rows.update(places[id(lesson)] for lesson in batch)
            tokens += sum(sum(mask) for _, mask in batch)
            yield batch

    with progress(f"{label}: steps", steps, done=kept.found()) as advance:
        tiny.imitate(
            policy,
            told(),
            tiny.Phase(steps, settings.batch_size, settings.learning_rate),
            every=steps,
            stop=lambda _: False,
            progress=lambda _, loss: advance(1, f"loss {loss:.3f}"),
            kept=kept,
        )
    merged = model if adapted is None else adapted.merge_and_unload(safe_merge=True)
    for parameter in merged.parameters():
        parameter.requires_grad_(False)
    merged.eval()
    return replace(policy, model=merged), Sft(kept.losses, len(rows), tokens)


def _adapted(model: Any, settings: SftSettings) -> Any | None:
    """Put a LoRA adapter in float32 into the model, or let all of its weights learn (None)."""
    if settings.lora is None:
        return None
    from peft import LoraConfig, get_peft_model

    lora = settings.lora
    try:
        return get_peft_model(
            model,
            LoraConfig(
                r=lora.r,
                lora_alpha=lora.alpha,
                lora_dropout=lora.dropout,
                target_modules=lora.target_modules,
                task_type="CAUSAL_LM",
            ),
        )
    except ValueError as error:
        raise ConfigError(
            "names of linear modules of the base",
            found=str(error).split("\n")[0][:120],
            where=setting("base.warm_start.lora.target_modules"),
            fix="all-linear",
        ) from None


@dataclass
class _Kept:
    """Weights, moments and losses after the newest multiple of `keep_every` steps, in one file."""

    path: Path
    key: str
    settings: SftSettings
    label: str
    steps: int
    weights: list[torch.nn.Parameter]
    losses: list[float] = field(default_factory=list)

    def found(self) -> int:
        """Return after which step there is something to go on from, 0 for nothing."""
        return len(self._read().get("losses", ()))

    def _read(self) -> dict[str, torch.Tensor]:
        if not self.path.is_file():
            return {}
        head, _, body = self.path.read_bytes().partition(b"\n")
        if head.decode("ascii", "replace") != f"{self.key} {sha256_bytes(body)}":
            complain(f"{self.path} is damaged or of another run: {self.label} begins anew")
            return {}
        return load(body)

    def load(self, optimizer: torch.optim.Optimizer) -> int:
        """Put back what was kept, and return after which step."""
        told = self._read()
        self.losses = told["losses"].tolist() if told else []
        self._draw_from(len(self.losses))
        if not told:
            return 0
        with torch.no_grad():
            for n, weight in enumerate(self.weights):
                weight.copy_(told[f"{n}.weight"])
        names = ("step", "exp_avg", "exp_avg_sq")
        state = {n: {name: told[f"{n}.{name}"] for name in names} for n in range(len(self.weights))}
        optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
        say(f"{self.label}: going on after step {len(self.losses)}")
        return len(self.losses)

    def save(self, step: int, loss: float, optimizer: torch.optim.Optimizer) -> None:
        """Take note of a step, and keep all where it is time.

        Raises:
            TrainingError: The loss is not finite.
        """
        if not torch.isfinite(torch.tensor(loss)):
            raise TrainingError(
                "a finite loss",
                found=str(loss),
                where=f"{self.label}, step {step}",
                fix="a lower learning_rate",
            )
        self.losses.append(loss)
        self._draw_from(step)
        if step % self.settings.keep_every and step != self.steps:
            return
        tensors = {"losses": torch.tensor(self.losses, dtype=torch.float64)}
        for n, (weight, state) in enumerate(
            zip(self.weights, map(optimizer.state.__getitem__, self.weights), strict=True)
        ):
            tensors[f"{n}.weight"] = weight.detach().cpu().contiguous()
            tensors |= {f"{n}.{name}": value.cpu().contiguous() for name, value in state.items()}
        body = save(tensors)
        write_bytes(self.path, f"{self.key} {sha256_bytes(body)}\n".encode() + body)

    def _draw_from(self, step: int) -> None:
        """Let what is drawn in a step, such as dropout, hang on the step alone."""
        torch.manual_seed(derive_seed(self.label, "step", self.settings.seed, step))
