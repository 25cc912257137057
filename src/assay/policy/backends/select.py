"""The one interface behind which episodes are played, and the choice of who plays them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from assay.core.config.places import setting
from assay.core.decoding import Completion, Decoding
from assay.core.errors import ConfigError
from assay.policy.model import Policy


class Conversations(Protocol):
    """Conversations under way, each a row; rows keep their order."""

    def complete(self) -> list[Completion]:
        """Let every row write until one of its ends or the token limit."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these, whose order is the new one."""
        ...

    def tell(self, last_ids: Sequence[int], replies: Sequence[Sequence[int]]) -> None:
        """Give each row what stands between its completion, whose last token is named, and its next one."""
        ...

    def admit(self, openings: Sequence[Sequence[int]], seeds: Sequence[int]) -> None:
        """Take in further conversations behind the rows there are, after `tell` and before `complete`."""
        ...


def converse(
    policy: Policy, openings: Sequence[Sequence[int]], seeds: Sequence[int], decoding: Decoding
) -> Conversations:
    """Begin conversations with a policy, by the backend that the decoding names.

    Args:
        policy: Who writes; inside `playing` or `evaluating`.
        openings: Token ids, up to where the policy starts to write.
        seeds: One sampling seed a row.
        decoding: How tokens are chosen, and by whom.

    Raises:
        ConfigError: The backend is not installed, or cannot do what is asked here.
        PolicyError: The backend cannot serve the model, or is not there.
    """
    ends: dict[str, Any] = {"end_ids": policy.dialogue.end_ids, "pad_id": policy.pad_id}
    if decoding.cuda_graphs and (
        decoding.backend != "cached" or next(policy.model.parameters()).device.type != "cuda"
    ):
        raise ConfigError(
            "backend cached on a CUDA device, for cuda_graphs: true",
            found=f"backend {decoding.backend} on {next(policy.model.parameters()).device.type}",
            where=setting("generation.cuda_graphs"),
            fix="set generation.cuda_graphs: false",
        )
    if decoding.backend == "transformers":
        from assay.policy.backends.by_transformers import Session as Stock

        return Stock(policy.model, openings, seeds, decoding, **ends)
    if decoding.backend == "vllm_server":
        from assay.policy.backends.by_server import Session as Served

        return Served(policy.model, openings, seeds, decoding, **ends)
    if decoding.backend == "vllm":
        from assay.policy.backends.by_vllm import Session as InProcess

        return InProcess(policy.model, openings, seeds, decoding, **ends)
    from assay.policy.engine.engine import Session

    return Session(policy.model, openings, seeds, decoding, **ends)
