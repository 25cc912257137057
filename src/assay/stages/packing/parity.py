"""Whether base and adapter side by side, and the one model they merge into, say the same: measured, bounded,
or refused."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import Field

from assay.core.config.settings import ParitySettings
from assay.core.decoding import Decoding
from assay.core.errors import PackageError
from assay.core.records import Record

if TYPE_CHECKING:
    # Whoever reads a record of this module needs no torch.
    from assay.rollout.policy.model import Policy

WHERE = "models/adapter merged into models/base"
IN_MEMORY_BYTES = 256 * 2**20  # of logits; beyond, they are on disk
PromptsOf = Callable[["Policy"], Sequence[Sequence[int]]]


class Parity(Record):
    """How closely a merged model follows base and adapter; only what holds is ever written."""

    policy_digest: str = Field(description="of the base under the adapter that was merged")
    base_was_4bit: bool = Field(
        description="if so, what was merged are its weights in the compute dtype, not 4-bit ones"
    )
    prompts: int = Field(ge=1, description="held-out prompts that both answered")
    positions: int = Field(
        ge=1, description="places of prompts and completions at which all logits were compared"
    )
    tokens: int = Field(ge=1, description="tokens of the adapter's own greedy completions")
    greedy_agreement: float = Field(
        ge=0,
        le=1,
        description="share of these tokens that the merged model would write next, rounded down to 3 digits",
    )
    free_agreement: float = Field(
        ge=0,
        le=1,
        description="share of equal places where each writes on by itself, rounded down; decides nothing",
    )
    logit_difference_at_most: float = Field(
        ge=0,
        description=(
            "largest absolute difference of any logit, rounded up to one digit, so that last bits do not show"
        ),
    )
    max_logit_difference: float = Field(gt=0, description="the bound it had to keep")
    min_greedy_agreement: float = Field(ge=0, le=1, description="the bound it had to keep")


@dataclass(frozen=True, slots=True)
class MergeComparison:
    """What was measured, unrounded."""

    prompts: int
    positions: int
    n_tokens: int
    n_agreed: int
    free_agreement: float
    difference: float

    @property
    def agreement(self) -> float:
        """Share of the adapter's greedy tokens that are the merged model's too."""
        return self.n_agreed / self.n_tokens

    def within(self, bounds: ParitySettings) -> bool:
        """Return whether the bounds hold; NaN holds to none."""
        return (
            self.difference <= bounds.max_logit_difference and self.agreement >= bounds.min_greedy_agreement
        )


class Side:
    """What base and adapter say, recorded before the merged model takes their place in memory.

    Logits are kept bit by bit; beyond 256 MiB in a nameless file, since those of a 4-bit 4B model with 32
    texts of 1,000 tokens are 10 GB.

    Args:
        policy: The base under its adapter.
        prompts: Token ids of the prompts.
        decoding: Greedy, with the token limit of the task.
        batch_size: Conversations held at once.
    """

    def __init__(
        self, policy: Policy, prompts: Sequence[Sequence[int]], decoding: Decoding, *, batch_size: int
    ) -> None:
        import torch

        from assay.rollout.policy.base.adapter_files import greedy, logits_of

        self._decoding, self._batch_size = decoding, batch_size
        self._prompts, self._digest = [list(ids) for ids in prompts], policy.digest
        self._completions = greedy(policy, self._prompts, decoding, batch_size=batch_size)
        # Closed, and with that gone, at the end of the block; a process that dies leaves nothing either.
        self._logits = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115
        for prompt, completion in zip(self._prompts, self._completions, strict=True):
            logits = logits_of(policy, prompt + completion)
            self._dtype = logits.dtype
            np.save(self._logits, logits.view(torch.uint8).numpy())

    def __enter__(self) -> Self:
        """Return this, to be dropped at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Drop what was recorded."""
        self._logits.close()

    def against(self, merged: Policy) -> MergeComparison:
        """Compare with the merged model: every logit of the same texts, the next tokens in them, and free
        writing."""
        import torch

        from assay.rollout.policy.base.adapter_files import greedy, logits_of

        positions = n_tokens = n_agreed = 0
        difference = 0.0
        self._logits.seek(0)
        for prompt, completion in zip(self._prompts, self._completions, strict=True):
            ours = torch.from_numpy(np.load(self._logits)).view(self._dtype)
            theirs = logits_of(merged, prompt + completion)
            positions += len(ours)
            n_tokens += len(completion)
            if ours.shape != theirs.shape:
                difference = math.inf
                continue
            largest = float((ours.float() - theirs.float()).abs().max())
            difference = max(difference, largest) if math.isfinite(largest) else math.inf
            # The logits before a token decide it.
            before = slice(len(prompt) - 1, len(prompt) + len(completion) - 1)
            n_agreed += int((theirs[before].argmax(-1) == torch.tensor(completion)).sum())
        free = greedy(merged, self._prompts, self._decoding, batch_size=self._batch_size)
        pairs = list(zip(self._completions, free, strict=True))
        same = sum(
            a == b for ours_ids, theirs_ids in pairs for a, b in zip(ours_ids, theirs_ids, strict=False)
        )
        longest = sum(max(len(ours_ids), len(theirs_ids)) for ours_ids, theirs_ids in pairs)
        return MergeComparison(len(self._prompts), positions, n_tokens, n_agreed, same / longest, difference)

    def parity(
        self, merged: Policy, bounds: ParitySettings, *, base_was_4bit: bool
    ) -> tuple[Parity, MergeComparison]:
        """Return the record of a comparison that keeps its bounds, and the numbers behind it.

        Raises:
            PackageError: It does not; says what was measured and what was allowed.
        """
        found = self.against(merged)
        if not found.within(bounds):
            raise refusal(found, bounds)
        record = Parity(
            policy_digest=self._digest,
            base_was_4bit=base_was_4bit,
            prompts=found.prompts,
            positions=found.positions,
            tokens=found.n_tokens,
            greedy_agreement=_down(found.agreement),
            free_agreement=_down(found.free_agreement),
            logit_difference_at_most=rounded_up(found.difference),
            max_logit_difference=bounds.max_logit_difference,
            min_greedy_agreement=bounds.min_greedy_agreement,
        )
        return record, found


def refusal(found: MergeComparison, bounds: ParitySettings) -> PackageError:
    """Return the error for a merged model that does not follow its adapter."""
    return PackageError(
        f"a merged model that follows its adapter: logits within {bounds.max_logit_difference:g}, "
        f"greedy tokens {bounds.min_greedy_agreement:.1%} the same",
        found=(
            f"logits up to {found.difference:.3g} apart at {found.positions} places, "
            f"{found.n_agreed} of {found.n_tokens} greedy tokens ({found.agreement:.2%}) the same"
        ),
        where=f"{WHERE}, {found.prompts} held-out prompts",
        fix=(
            "train again (./run dvc repro train) if adapter or base was changed; if the precision of"
            " base.dtype is the reason, a larger package.parity.max_logit_difference in your preset says so"
            " in the package"
        ),
    )


def rounded_up(value: float) -> float:
    """Return a number of at least 0 rounded up to one significant decimal digit.

    >>> [rounded_up(value) for value in (0.0, 1.19e-06, 3e-05, 0.951)]
    [0.0, 2e-06, 3e-05, 1.0]
    """
    if value == 0:
        return 0.0
    exponent = math.floor(math.log10(value))
    near = round(value / 10.0**exponent, 9)  # 3e-05 / 1e-05 is a little more than 3
    return float(f"{math.ceil(near)}e{exponent}")


def _down(share: float) -> float:
    return math.floor(share * 1000) / 1000
