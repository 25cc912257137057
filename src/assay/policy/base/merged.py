"""Base and adapter as one plain model, and what a model says at every place of given texts."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import torch

from assay.core.decoding import Decoding
from assay.core.storage.files import sync_folder
from assay.policy.backends.select import converse
from assay.policy.base.model_files import refuse_odd_files
from assay.policy.border import refuse_unreadable
from assay.policy.digests import adapted_digest
from assay.policy.eval_mode import evaluating
from assay.policy.model import Policy, load

IN_MEMORY_BYTES = 256 * 2**20
FIX = "./run dvc repro base train"


@dataclass(frozen=True, slots=True)
class Weights:
    """Where a base and an adapter lie, and how a base is loaded; the fields are the arguments of `load`."""

    base: Path
    adapter: Path
    device: str
    dtype: str
    quantization: str | None
    template: Mapping[str, bool | int | str] = field(default_factory=dict)

    def policy(self) -> Policy:
        """Return the base under its adapter, as the pipeline plays it."""
        return self.load(self.base, self.adapter, self.quantization)

    def load(self, base: Path, adapter: Path | None, quantization: str | None) -> Policy:
        """Return another model in this one's place, on the same device, spoken to in the same way."""
        return load(
            base,
            adapter=adapter,
            device=self.device,
            dtype=self.dtype,
            quantization=quantization,
            template=self.template,
        )


def merge(weights: Weights) -> Policy:
    """Return base and adapter as one model without an adapter.

    A 4-bit base is first turned into weights of the compute dtype, the very numbers its 4-bit layers compute
    with, since what is added to weights that stay 4-bit would be rounded to 4 bits as well. So the merged
    model is not 4-bit any more and takes the memory of a plain one. In bfloat16 each merged weight is rounded
    once.

    Raises:
        ConfigError: The device does not exist.
        PolicyError: Base or adapter cannot be read, do not fit each other, or give weights that are not
            finite.
    """
    if weights.adapter.is_dir():
        refuse_odd_files(weights.adapter)
    plain = weights.load(weights.base, None, weights.quantization)
    from peft import PeftModel

    with refuse_unreadable(
        "an adapter that merges", where=f"{weights.base.name} + {weights.adapter.name}", fix=FIX
    ):
        model = plain.model if weights.quantization is None else plain.model.dequantize()
        model = PeftModel.from_pretrained(model, str(weights.adapter)).merge_and_unload(safe_merge=True)
    return Policy(model, plain.tokenizer, plain.dialogue, adapted_digest(plain.digest, weights.adapter))


def write_model(policy: Policy, folder: Path, *, base: Path) -> None:
    """Write a model without an adapter as a folder that `from_pretrained` reads: safetensors, config,
    tokenizer.

    The tokenizer's files are those of the base, byte for byte: transformers would add how it was opened here.
    Equal weights give equal bytes with equal versions of transformers and safetensors.
    """
    policy.model.save_pretrained(folder)
    for name in {Path(path).name for path in policy.tokenizer.save_pretrained(folder)}:
        if (base / name).is_file():
            shutil.copyfile(base / name, folder / name)
    for path in sorted(folder.iterdir()):
        path.chmod(0o644)
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
    sync_folder(folder)


def greedy(
    policy: Policy, openings: Sequence[Sequence[int]], decoding: Decoding, *, batch_size: int
) -> list[list[int]]:
    """Return the ids of one completion an opening, played by the engine that plays everything else.

    Args:
        policy: Who writes.
        openings: Token ids, up to where the policy starts to write.
        decoding: Temperature 0, and the limit of a completion in tokens.
        batch_size: Conversations held at once.
    """
    written: list[list[int]] = []
    with evaluating(policy.model):
        for start in range(0, len(openings), batch_size):
            batch = openings[start : start + batch_size]
            session = converse(policy, batch, [0] * len(batch), decoding)
            written += [completion.ids for completion in session.complete()]
    return written


def logits_of(policy: Policy, ids: Sequence[int]) -> torch.Tensor:
    """Return the logits of the next token at every place of a text, [len(ids), vocabulary], in the model's
    own dtype."""
    device = next(policy.model.parameters()).device
    with evaluating(policy.model):
        out = policy.model(input_ids=torch.tensor([list(ids)], device=device), use_cache=False)
    found: torch.Tensor = out.logits[0].detach().cpu().contiguous()
    return found


class KeptLogits:
    """Logits that one model gave, kept until another is loaded in its place; beyond 256 MiB on disk, in a
    nameless file.

    They are read in the order in which they were put. A file of a 4-bit 4B model with 32 texts of 1,000
    tokens is 10 GB.
    """

    def __init__(self) -> None:
        # Closed, and with that gone, by `close`; a process that dies leaves nothing either.
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115
        self._kinds: list[tuple[torch.Size, torch.dtype]] = []

    def put(self, logits: torch.Tensor) -> None:
        """Keep a tensor, bit by bit."""
        self._kinds.append((logits.shape, logits.dtype))
        self._file.write(logits.contiguous().view(torch.uint8).numpy().tobytes())

    def rewind(self) -> None:
        """Go back to the first."""
        self._file.seek(0)

    def take(self, index: int) -> torch.Tensor:
        """Return the next tensor; its index is given since shapes are looked up by it."""
        shape, dtype = self._kinds[index]
        size = shape.numel() * torch.empty((), dtype=dtype).element_size()
        return torch.frombuffer(bytearray(self._file.read(size)), dtype=dtype).reshape(shape)

    def close(self) -> None:
        """Drop everything."""
        self._file.close()
