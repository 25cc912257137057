"""What CONTRIBUTING.md says is enough: each thing is added once, by exactly those steps, in a copy of the
source tree, which is tried with all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.evidence_files import place_of
from tests.copied_house import (
    changed_code,
    copied,
    insert,
    keeps_the_rules,
    named,
    ran,
    steps,
    touched,
    written,
)

ECHO = '''"""A task of one turn: say the word again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.rollout import Baseline, Item, Step, Task, Verdict


class Echo(Task):
    """One word is told and has to be said again."""

    name, cluster_name = "echo", "words"
    parts = {"said": "outcome"}
    flags, metrics = ("empty",), ("chars",)
    ceiling = "parrot"
    alarms = {"empty": 0.9}

    def __init__(self, pay: float) -> None:
        """Hold what a right word earns."""
        self._pay = pay

    def item(self, row: Mapping[str, Any]) -> Item:
        """Read one row."""
        return Item(str(row["id"]), str(row["id"]), {}, str(row["word"]), None)

    def truth(self, item: Item) -> str:
        """Return the word."""
        return str(item.public)

    def start(self, item: Item, world_seed: int) -> tuple[list[dict[str, str]], Any]:
        """Tell the word."""
        return [{"role": "user", "content": f"Say {item.public}"}], (item.public, None)

    def step(self, state: Any, completion: str) -> Step:
        """Grade the one completion."""
        said = completion.strip()
        earned = {"said": self._pay * (said == state[0])}
        return Step((state[0], said), None, "done", "ok", None, said, earned)

    def judge(self, state: Any) -> Verdict:
        """Say whether it was the word."""
        return Verdict(state[0] == state[1], {"empty": not state[1]}, {"chars": float(len(state[1]))})

    def baselines(self) -> Mapping[str, Baseline]:
        """Who says nothing, and who says it again."""
        return {**super().baselines(), "parrot": lambda item, state, rng: str(state[0])}

    def vocabulary(self) -> Sequence[str]:
        """What can be printed, for the base of a made run."""
        return [chr(code) for code in range(32, 127)]
'''
ECHO_SETTINGS = '''"""What configs/task/echo.yaml sets."""

from __future__ import annotations

from typing import Any, Literal

from assay.rollout import TaskSettings


class EchoTask(TaskSettings):
    """Say the word again."""

    name: Literal["echo"]
    pay: float

    def build(self, generation: Any, **_: Any) -> Any:
        """Return the task."""
        from .task import Echo

        return Echo(self.pay)
'''
# A run from data to claim by scripted players, and one episode by an untrained model, through the engine
# itself.
ECHO_PLAYED = """
import json
from dataclasses import replace
from pathlib import Path
from assay.core.config.settings import TinyArchitecture
from assay.stages.render_evidence import render
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.policy.base import tiny
from assay.core.decoding import Decoding
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.policy.model import Policy
from tests.verification.made_run import made_run

# Figures are made and not drawn
render._rendered = lambda gallery: {each.name: {"png": b"", "svg": b"<svg/>"} for each in gallery}
project = made_run(Path("run"), task="echo")
words = tiny.build_tokenizer([chr(code) for code in range(32, 127)])
shape = TinyArchitecture(
    hidden_size=8, intermediate_size=8, layers=1, heads=1, max_positions=64, initializer_range=0.02
)
policy = Policy(tiny.build_model(shape, words, 0).eval(), words, Dialogue(words), "untrained")
inputs = project.inputs("heldout")
plays = replace(inputs.heldout, draws=1).plays()
episodes = measure(policy, inputs.task, plays, Decoding(1.0, 4), pace=Pace(32))
claim = json.loads(project.results("claim.json").read_text())
print(json.dumps([claim["verdict"], len(episodes), sorted(episodes[0].parts)]))
"""
BRIEF = '"brief": weights.brief * (strict and len(completion) <= 80),'
MADE = (
    "from pathlib import Path\nfrom tests.verification.made_run import made_run\n"
    "made_run(Path('.scratch/made'), task='structured')"
)
CAPTION = "Turns of an episode, before and after."
LENGTHS = '''"""How long the answers are, before and after."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from assay.core.records import Episode


def lengths(before: Sequence[Episode], after: Sequence[Episode]) -> Figure:
    """Return the mean number of turns of both arms as two bars."""
    figure = Figure(figsize=(4, 3))
    figure.subplots().bar(["before", "after"], lengths_frame(before, after)["turns"])
    return figure


def lengths_frame(before: Sequence[Episode], after: Sequence[Episode]) -> pd.DataFrame:
    """Return the numbers that are drawn."""
    arms = {"before": before, "after": after}
    turns = [sum(len(each.turns) for each in arm) / len(arm) for arm in arms.values()]
    return pd.DataFrame({"arm": list(arms), "turns": turns})
'''


@pytest.mark.parametrize("thing", ["task", "reward part", "figure", "preset"])
def test_what_is_added_takes_ten_lines_at_most(thing: str) -> None:
    assert steps(f"Add a {thing}")


def add_task(root: Path) -> None:
    written(root / "tasks/echo/__init__.py", "")
    written(root / "tasks/echo/task.py", ECHO)
    written(root / "tasks/echo/settings.py", ECHO_SETTINGS)
    preset = (root / "configs/task/collider.yaml").read_text()
    audit = preset[preset.index("  cache:") :].replace("[heldout_ood, traps]", "[]")
    own = (
        "task: {name: echo, code: tasks/echo, pay: 1.0,\n"
        "  max_new_tokens: {compact: 8, json: 8}}\n"
        "dataset:\n  root: data/echo\n"
    )
    written(root / "configs/task/echo.yaml", f"# @package _global_\n{own}{audit}")
    sums = ""
    for split, n in (("train", 40), ("validation", 20), ("heldout", 30)):
        lines = "".join(
            json.dumps({"id": f"{split}{k}", "word": f"{split[0]}{k:03}"}) + "\n" for k in range(n)
        )
        written(root / f"data/echo/{split}.jsonl", lines)
        sums += f"{hashlib.sha256(lines.encode()).hexdigest()}  {split}.jsonl\n"
    written(root / "data/echo/SHA256SUMS", sums)


def add_part(root: Path) -> None:
    rewards = root / "tasks/structured/grading/rewards.py"
    insert(rewards, '        "schema_valid": share', f"        {BRIEF}\n")
    insert(rewards, "weights.schema_valid + has_gold", "weights.brief + ")
    insert(
        root / "tasks/structured/settings.py",
        '    schema_valid: Fraction = _part("outcome")\n',
        '    brief: Fraction = _part("shaping")\n',
    )
    insert(root / "configs/task/structured.yaml", "schema_valid: ", "brief: 0.1, ")


def add_figure(root: Path) -> None:
    written(root / "src/assay/verdict/evidence/figures/lengths_figure.py", LENGTHS)
    gallery = root / "src/assay/verdict/evidence/figures/gallery.py"
    line = "from assay.verdict.evidence.figures.lengths_figure import lengths, lengths_frame\n"
    insert(gallery, "from assay.verdict.evidence.figures.paired_rows", line)
    drawn = f'Drawn("lengths", lengths(*arms), "{CAPTION}", lengths_frame(*arms), "Episodes have few turns.")'
    insert(gallery, "    if not paired:\n        return drawn\n", f"    drawn.append({drawn})\n")


ADDED: dict[str, tuple[Callable[[Path], None], dict[str, str]]] = {
    "task": (add_task, {"name": "echo"}),
    "reward part": (add_part, {}),
    "figure": (add_figure, {"name": "lengths"}),
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which a task, a reward part and a figure were added, each by the files its steps name."""
    root, before = copied(tmp_path_factory.mktemp("added")), set[str]()
    for thing, (add, names) in ADDED.items():
        add(root)
        assert touched(root) - before == named(f"Add a {thing}", **names), thing
        before = touched(root)
    return root


def test_what_is_added_keeps_the_rules_and_only_a_figure_renders_again(house: Path) -> None:
    keeps_the_rules(house)
    # A task is found by its name, a part is in code that ran before, and a figure trains and plays nothing.
    assert set(changed_code(house)) == {"render_evidence", "package"}


def test_a_new_task_goes_from_its_data_to_a_claim(house: Path) -> None:
    preset = house / "configs/grpo/tiny.yaml"  # twenty items show nothing at a fiftieth of alpha
    told = preset.read_text(encoding="utf-8")
    assert "  looks: 50" in told
    preset.write_text(told.replace("  looks: 50", "  looks: 1"), encoding="utf-8")
    ran(house, "-m", "assay.cli", "config", "use", "task=echo", "grpo=pretrained")
    verdict, n, parts = json.loads(ran(house, "-c", ECHO_PLAYED).splitlines()[-1])
    assert (verdict, n, parts) == ("IMPROVED", 20, ["said"])


def test_a_new_reward_part_is_in_every_table_by_its_name_and_a_new_figure_in_the_report(house: Path) -> None:
    ran(house, "-m", "assay.cli", "config", "use", "task=structured")
    assert "brief: 0.1" in (house / "params.yaml").read_text()
    ran(house, "-c", MADE)
    run = house / ".scratch/made"
    columns = (run / place_of("reward_components.csv")).read_text().splitlines()
    earned = [float(line.split(",")[columns[0].split(",").index("mean_brief")]) for line in columns[1:]]
    assert len(earned) == 6 and 0 < max(earned) <= 0.1
    assert '"brief":0.1' in (run / place_of("post_eval.jsonl")).read_text().replace(" ", "")
    assert {"lengths.svg", "lengths.png"} <= {path.name for path in (run / place_of("figures")).iterdir()}
    assert CAPTION in (run / place_of("report.html")).read_text()


def test_a_new_preset_composes_is_checked_and_may_leave_nothing_out(tmp_path: Path) -> None:
    root = copied(tmp_path)
    preset = (root / "configs/grpo/tiny.yaml").read_text()
    written(root / "configs/grpo/patient.yaml", preset.replace("  steps: 100\n", "  steps: 300\n"))
    assert touched(root) == named("Add a preset", name="patient")
    assert "params.yaml: written from configs/" in ran(
        root, "-m", "assay.cli", "config", "use", "grpo=patient"
    )
    assert "params.yaml is what" in ran(root, "-m", "assay.cli", "config", "check")
    assert "  steps: 300\n" in (root / "params.yaml").read_text()
    (root / "configs/grpo/patient.yaml").write_text(preset.replace("  micro_batch_size: 64\n", ""))
    with pytest.raises(AssertionError, match=r"train\.micro_batch_size"):
        ran(root, "-m", "assay.cli", "config", "use", "grpo=patient")
