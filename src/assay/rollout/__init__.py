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
    from assay.core.config.tasks import TaskSettings
    from assay.core.records import Episode
    from assay.rollout.playing import Engine, play, to_frame
    from assay.rollout.tasks.own.api import (
        AnswerKey,
        Batched,
        Environment,
        FieldAnswer,
        Generated,
        Illustrated,
        JsonAnswers,
        Mark,
        Oddity,
        Panel,
        Picture,
        Records,
        Shaped,
        Taught,
        Told,
    )
    from assay.rollout.tasks.own.for_trl import as_trl
    from assay.rollout.tasks.protocol import Baseline, Item, Step, Task, Verdict

__all__ = [
    "AnswerKey",
    "Baseline",
    "Batched",
    "Engine",
    "Environment",
    "Episode",
    "FieldAnswer",
    "Generated",
    "Illustrated",
    "Item",
    "JsonAnswers",
    "Mark",
    "Oddity",
    "Panel",
    "Picture",
    "Records",
    "Shaped",
    "Step",
    "Task",
    "TaskSettings",
    "Taught",
    "Told",
    "Verdict",
    "as_trl",
    "play",
    "to_frame",
]
__getattr__ = load_lazily(
    __name__,
    # What a task of one's own may import: an environment, and mix-ins for what else it can do;
    # or the whole protocol, with settings of its own.
    {
        "AnswerKey": "assay.rollout.tasks.own.api:AnswerKey",
        "Baseline": "assay.rollout.tasks.protocol:Baseline",
        "Batched": "assay.rollout.tasks.own.api:Batched",
        "Engine": "assay.rollout.playing:Engine",
        "Environment": "assay.rollout.tasks.own.api:Environment",
        "Episode": "assay.core.records:Episode",
        "FieldAnswer": "assay.rollout.tasks.own.api:FieldAnswer",
        "Generated": "assay.rollout.tasks.own.api:Generated",
        "Illustrated": "assay.rollout.tasks.own.api:Illustrated",
        "Item": "assay.rollout.tasks.protocol:Item",
        "JsonAnswers": "assay.rollout.tasks.own.api:JsonAnswers",
        "Mark": "assay.rollout.tasks.own.api:Mark",
        "Oddity": "assay.rollout.tasks.own.api:Oddity",
        "Panel": "assay.rollout.tasks.own.api:Panel",
        "Picture": "assay.rollout.tasks.own.api:Picture",
        "Records": "assay.rollout.tasks.own.api:Records",
        "Shaped": "assay.rollout.tasks.own.api:Shaped",
        "Step": "assay.rollout.tasks.protocol:Step",
        "Task": "assay.rollout.tasks.protocol:Task",
        "TaskSettings": "assay.core.config.tasks:TaskSettings",
        "Taught": "assay.rollout.tasks.own.api:Taught",
        "Told": "assay.rollout.tasks.own.api:Told",
        "Verdict": "assay.rollout.tasks.protocol:Verdict",
        "as_trl": "assay.rollout.tasks.own.for_trl:as_trl",
        "play": "assay.rollout.playing:play",
        "to_frame": "assay.rollout.playing:to_frame",
    },
)
