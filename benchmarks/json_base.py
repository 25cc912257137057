"""A tiny policy that speaks the collider's JSON surface, for measurements of speed alone.

The shape is that of the tiny preset, the words are pieces of the JSON texts (names with the blank before
them, runs of punctuation, single digits), and the warm start is the task's own demonstrations: actions by
themselves until they are spelt well, which is cheap as they are short, then whole dialogues and actions by
turns. It reads no number off an observation, and need not: what is measured is how fast long prompts, JSON
actions and JSON observations are played. The settings refuse this surface for a base made from scratch, so
the copies that `speaking` returns are good for a benchmark and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch
from benchmarks.common import ROOT, changed
from tests.training.whole_project import copied_project, run

from assay.core.config.settings import Params, ScratchBase
from assay.core.decoding import Decoding
from assay.core.seeds import derive_seed, rng
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import choose
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.policy.base import tiny
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.tasks.protocol import Message, Task

PIECES = re.compile(r" ?[A-Za-z_]+|[0-9]|[^A-Za-z_0-9\s]+ ?")
EVERYTHING_ELSE = ["\n", *map(chr, range(32, 127))]
POSITIONS = 4096  # a prompt, eight completions of 256 tokens and what is told between them
DIALOGUES = 2000
ACTIONS = tiny.Phase(steps=300, batch_size=64, learning_rate=5e-3)
TALKS = tiny.Phase(steps=500, batch_size=8, learning_rate=6e-3)  # each second batch is actions
PARSED, TRIED = 0.9, 64
FACTS = "json_base.json"
JSON = "collider_json"
# What a base is made from; a change elsewhere makes no other base.
MAKERS = (
    "configs",
    "data/{task}/SHA256SUMS",
    "src/assay/rollout/policy/base/tiny.py",
    "src/assay/rollout/tasks",
    "tasks/{task}",
)


def base_project(name: str) -> Project:
    """Return a project of a task with a warm-started tiny base: this one, or a copy made once and kept in
    .scratch/bench.

    `collider_json` is the collider with a base that speaks JSON, which only a benchmark has.
    """
    spoken, task = name == JSON, name.removesuffix("_json")
    here = Project.open(ROOT)
    if not spoken and here.params.task.name == task and (ROOT / "models/base/config.json").is_file():
        return here
    made = hashlib.sha256()
    for maker in (*MAKERS, *(["benchmarks/json_base.py"] if spoken else [])):
        path = ROOT / maker.format(task=task)
        if not path.exists():
            raise FileNotFoundError(path)
        for file in sorted(path.rglob("*") if path.is_dir() else [path]):
            if file.is_file() and file.suffix != ".pyc":
                made.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    folder = ROOT / f".scratch/bench/{name}-{made.hexdigest()[:16]}"
    last = FACTS if spoken else "evidence/results/base/base.json"  # the last thing that is written
    if not (folder / last).is_file():
        with tempfile.TemporaryDirectory(prefix="assay-bench-") as scratch:
            project = copied_project(Path(scratch) / task, "tiny", task, {})
            print(f"{name}: making its base, once", file=sys.stderr, flush=True)
            if spoken:
                make(project)
            else:
                run(project, "base")
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(project, folder)
    found = Project.open(folder)
    return Project(found.root, speaking(found.params)) if spoken else found


def speaking(params: Params) -> Params:
    """Return the settings with the JSON surface."""
    return changed(params, generation={"surface": "json"})


def make(root: Path) -> None:
    """Write models/base of a collider project and, last, what came of it: parameters, seconds, and the share
    that parses."""
    opened = Project.open(root)
    project = Project(root, speaking(opened.params))
    task, base = project.task(), project.params.base
    assert isinstance(base, ScratchBase)
    torch.set_num_threads(1)
    began = time.process_time()
    policy = warm_started(base, task)
    spent = time.process_time() - began
    policy.model.eval()
    items = choose(project.items("train"), TRIED // 4, split="train", draws=4, seed=2)
    decoding = Decoding(project.params.generation.temperature, project.params.task.max_new_tokens["json"])
    played = measure(policy, task, items.plays(), decoding, pace=Pace(TRIED))
    outcomes = [turn.outcome != "failed" for one in played for turn in one.turns]
    folder = root / "models/base"
    folder.mkdir(parents=True, exist_ok=True)
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    facts = {
        "parameters": sum(p.numel() for p in policy.model.parameters()),
        "vocabulary": len(policy.tokenizer),
        "parsed_rate": sum(outcomes) / len(outcomes),
        "actions": len(outcomes),
        "warm_start_cpu_seconds": round(spent, 1),
    }
    if facts["parsed_rate"] < PARSED:
        print(
            f"only {facts['parsed_rate']:.0%} of its actions parse; the record says so",
            file=sys.stderr,
            flush=True,
        )
    (root / FACTS).write_text(json.dumps(facts) + "\n", encoding="utf-8")


def words(dialogues: list[list[Message]]) -> list[str]:
    """Return the pieces of some dialogues, and every character, so that no text is unknown."""
    found = {piece for talk in dialogues for said in talk for piece in PIECES.findall(said["content"])}
    return sorted(found.union(EVERYTHING_ELSE))


def warm_started(base: ScratchBase, task: Task) -> Policy:
    """Return a policy of this shape that was shown weak play on the JSON surface."""
    shown = [list(talk) for talk in task.demonstrations(rng("json base", "demonstrations", 0), DIALOGUES)]
    tokenizer = tiny.build_tokenizer(words(shown))
    shape = base.architecture.model_copy(update={"max_positions": POSITIONS})
    policy = Policy(
        tiny.build_model(shape, tokenizer, derive_seed("json base", 0)),
        tokenizer,
        Dialogue(tokenizer),
        "unsaved",
    )
    order, asked = rng("json base", "order", 0), {"role": "user", "content": ""}
    short = [
        policy.dialogue.whole([asked, said]) for talk in shown for said in talk if said["role"] == "assistant"
    ]
    actions = tiny.batches(short, ACTIONS.batch_size, order)
    talks = tiny.batches([policy.dialogue.whole(talk) for talk in shown], TALKS.batch_size, order)
    for phase, material in ((ACTIONS, actions), (TALKS, tiny.alternating(talks, actions, 2))):
        tiny.imitate(
            policy, material, phase, every=phase.steps, stop=lambda _: False, progress=lambda step, loss: None
        )
    return policy
