"""Episodes made up for tests: two arms on the same items, with the success rates a test asks for."""

from __future__ import annotations

from assay.core.records import Episode, Turn
from assay.core.seeds import derive_seed, rng

SUITE = "5" * 64


def episode(
    item: int,
    draw: int,
    *,
    success: bool,
    cluster: int | None = None,
    tier: str = "easy",
    parsed: bool = True,
    arm: str = "base",
    completion: str = '{"claim": 125}',
    reward: float | None = None,
) -> Episode:
    """Return one episode of two turns, or of one turn if it did not parse."""
    name = f"item-{item:03d}"
    first = Turn(
        prompt_digest="0" * 64,
        completion='{"measure": "mass"}',
        n_tokens=9,
        truncated=False,
        outcome="ok",
        failure=None,
        action="measure mass",
        observation="mass about 125",
        parts={"shaping": 0.1},
    )
    last = Turn(
        prompt_digest="1" * 64,
        completion=completion,
        n_tokens=12,
        truncated=not parsed,
        outcome="ok" if parsed else "failed",
        failure=None if parsed else "not JSON",
        action="claim" if parsed else None,
        observation=None,
        parts={"terminal": 1.0 if success else -0.2},
    )
    total = 0.1 + last.parts["terminal"] if reward is None else reward
    return Episode(
        item_id=name,
        cluster=f"scenario-{item if cluster is None else cluster:03d}",
        strata={"tier": tier},
        draw=draw,
        seed=derive_seed(arm, name, draw),
        turns=(first, last),
        prompt_chars_cut=0,
        ending="claimed" if parsed else "failed",
        reward=total,
        parts={"shaping": 0.1, "terminal": last.parts["terminal"]},
        success=success,
        flags={
            "discovered": success,
            "channel_correct": success if parsed else None,
            "mass_correct": success,
        },
        metrics={"mass_error_gev": 0.5 if success else None},
    )


def arm(
    name: str,
    rate: float,
    *,
    clusters: int = 20,
    items_per_cluster: int = 2,
    draws: int = 4,
    parse_rate: float = 0.95,
    first_draw: int = 0,
) -> list[Episode]:
    """Return one arm: success by item difficulty shared by all arms, parse failures at random, never
    successful."""
    episodes = []
    for item in range(clusters * items_per_cluster):
        cluster = item // items_per_cluster
        shift = 0.3 * (rng("difficulty", cluster).random() - 0.5)
        for draw in range(first_draw, first_draw + draws):
            chance = rng(name, item, draw)
            parsed = bool(chance.random() < parse_rate)
            won = parsed and bool(chance.random() < rate + shift)
            tier = "easy" if cluster % 2 else "hard"
            episodes.append(
                episode(item, draw, success=won, cluster=cluster, tier=tier, parsed=parsed, arm=name)
            )
    return episodes
