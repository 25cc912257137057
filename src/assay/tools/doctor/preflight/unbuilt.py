"""A base before it is there: its tokenizer and its shape, with weights that mean nothing, for all that asks
for no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch

from assay.core.config.settings import Params, ScratchBase
from assay.core.errors import PolicyError
from assay.policy.base import tiny
from assay.policy.model import Policy
from assay.policy.renderer import Dialogue
from assay.tasks.protocol import Task
from assay.tools.doctor.forecast.forecast import folder_ahead, look_ahead
from assay.training.rollouts import untouched


def unbuilt(params: Params, task: Task, root: Path) -> Policy | None:
    """Return a base as far as it is known before it is built or loaded; None where a pretrained one is not
    here.

    Of a tiny base that is its whole vocabulary, of a pretrained one config.json and tokenizer: its weights,
    if they lie there, are not read, and its modules take no memory.

    Raises:
        PolicyError: Configuration or tokenizer cannot be read, or the chat template cannot be served.
    """
    if isinstance(params.base, ScratchBase):
        tokenizer = tiny.build_tokenizer(task.vocabulary())
        with untouched():
            model = tiny.build_model(params.base.architecture, tokenizer, 0)
        return Policy(model, tokenizer, Dialogue(tokenizer), "")
    folder = folder_ahead(params.base, root)
    if folder is None:
        return None
    from transformers import AutoModelForCausalLM

    try:
        ahead = look_ahead(folder, params)
        with untouched(), torch.device("meta"):
            shape = cast(Any, AutoModelForCausalLM).from_config(ahead.config, trust_remote_code=False)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        first, fix = str(error).split("\n")[0], "use a base that transformers can read: base.model"
        raise PolicyError(
            "config.json and tokenizer of a base", found=first, where=folder.name, fix=fix
        ) from None
    return Policy(shape, ahead.policy.tokenizer, ahead.policy.dialogue, "")
