"""The fine-tuning of a pinned base on right answers, before it is trained for reward."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay.core.config.settings import SftSettings
from assay.core.console import say
from assay.pipeline.inputs import Inputs, decoding_of
from assay.pipeline.policies import BASE, open_policy
from assay.pipeline.resume import kept_meanwhile
from assay.rollout.evaluation.base_gates import check_fine_tuned
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.policy.base.adapter_files import write_model
from assay.rollout.policy.base.pretrained import locate
from assay.rollout.policy.base.sft import fine_tune, tokens_of
from assay.rollout.tasks.protocol import Message

SFT = "sft"
GATES = ("base.warm_start.gates",)  # which are asked once all has been learned


@contextmanager
def fine_tuned(
    root: Path, inputs: Inputs, sft: SftSettings, lessons: Sequence[Sequence[Message]], reads: Sequence[str]
) -> Iterator[tuple[dict[str, Any], list[float]]]:
    """Fine-tune the pinned model on lessons, put the result in its place, and give what base.json says of it,
    and the loss of each step. What an interrupted call kept is there until these were written.

    Raises:
        ConfigError: The device is not there, or a share is too small.
        PolicyError: What came of it does not speak the task.
    """
    params, folder = inputs.params, root / BASE
    source, policy = locate(folder), open_policy(params, folder)
    with kept_meanwhile(root, params, "base", reads, GATES) as (scratch, key):
        tokens = tokens_of(lessons, policy, sft.batch_size)
        taught, found = fine_tune(policy, tokens, sft, sft.steps, SFT, scratch, key)
        shutil.rmtree(folder)
        folder.mkdir()
        write_model(taught, folder, base=source)
        saved = open_policy(params, folder)
        told: dict[str, Any] = {
            "of": policy.digest,
            "rows": found.rows,
            "train_rows": len(inputs.items["train"]),
            "steps": sft.steps,
            "tokens": found.tokens,
            "first_loss": found.losses[0],
            "last_loss": found.losses[-1],
        }
        sampled = decoding_of(params, rollout=True)
        pace = Pace(params.generation.batch_size, retries=params.health.retries)
        told |= check_fine_tuned(saved, inputs.task, inputs.train, sft.gates, sampled, pace)
        yield {"digest": saved.digest, "sft": told}, found.losses
    say(
        f"sft: {told['rows']} of {told['train_rows']} train rows, loss {found.losses[0]:.2f} to"
        f" {found.losses[-1]:.2f}; parses {told['parsed_rate']:.1%}, success {told['success_rate']:.1%}"
        " (items not shown, sampled)"
    )
