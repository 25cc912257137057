"""Play a Hugging Face model on an environment or a reward function, and get episodes, without a project.

    engine = Engine(model, tokenizer, max_new_tokens=64)
    episodes = play(engine, reward, [{"prompt": "2 + 2?", "answer": "4"}], draws=8)
    frame = to_frame(episodes)                 # what assay.verdict.read takes

Equal seeds give equal episodes on one machine, whatever the batch size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.faces import load_lazily

if TYPE_CHECKING:
    from assay.core.records import Episode
    from assay.rollout.playing import Engine, play, to_frame
    from assay.tasks.own.api import Environment, Told

__all__ = ["Engine", "Environment", "Episode", "Told", "play", "to_frame"]
__getattr__ = load_lazily(
    __name__,
    {
        "Engine": "assay.rollout.playing:Engine",
        "Environment": "assay.tasks.own.api:Environment",
        "Episode": "assay.core.records:Episode",
        "Told": "assay.tasks.own.api:Told",
        "play": "assay.rollout.playing:play",
        "to_frame": "assay.rollout.playing:to_frame",
    },
)
