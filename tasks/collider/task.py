"""The collider as a Task: the one class that training and evaluation hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core.config.tasks import PartKind, Wrapping
from assay.core.errors import ConfigError, TaskError
from assay.rollout.tasks.protocol import (
    Baseline,
    Item,
    Mark,
    Message,
    Picture,
    ScriptedRival,
    Step,
    Task,
    Verdict,
    already_ended,
    not_ended,
)
from assay.rollout.tasks.wrappings import cut_off

from . import baselines, illustrations, lessons, prompts, rewards
from .baselines import ATTACKS, Attack
from .settings import RELEASE
from .surfaces import (
    Action,
    ParsedAction,
    compact_vocabulary,
    parse_compact,
    parse_json,
    write_compact,
    write_json,
)
from .world.generation import generate
from .world.scenario import Scenario, from_row
from .world.simulator import ColliderState, apply, begin


@dataclass(frozen=True, slots=True)
class ColliderSettings:
    """The fields of configs/task/collider.yaml; nothing has a default but `cut`, which came later."""

    surface: prompts.Surface
    max_turns: int
    shaping: float
    gamma: float
    cut: tuple[Wrapping, ...] = ()

    def __post_init__(self) -> None:
        """Refuse impossible settings; ConfigError names the field."""
        for field, good in (
            ("surface", self.surface in ("compact", "json")),
            ("max_turns", 1 <= self.max_turns <= 10),
            ("shaping", 0.0 <= self.shaping <= 1.0),
            ("gamma", 0.0 <= self.gamma <= 1.0),
        ):
            if not good:
                found = ascii(getattr(self, field))
                raise ConfigError(
                    "a possible value",
                    found=found,
                    where=f"task.{field}",
                    fix="see configs/task/collider.yaml",
                )


class Collider(Task):
    """A bump hunt under a luminosity budget."""

    name = "collider"
    about = (
        "A hunt for particles with a budget: the model decides which data to take, then claims a particle or"
        " says that there is none. Success: the right particle, claimed on enough evidence, or none where"
        " there is none."
    )
    cluster_name = "scenarios"
    parts: Mapping[str, PartKind] = {"terminal": "outcome", "step_shaping": "shaping", "format": "format"}
    flags = rewards.FLAGS
    metrics = rewards.METRICS
    floor, ceiling = "random", "oracle_channel"
    rivals: Mapping[str, ScriptedRival] = {
        "random": "trivial",
        "always_null": "trivial",
        "uniform": "scripted",
        "adaptive": "scripted",
    }
    plane, marks = illustrations.PLANE, illustrations.MARKS

    def __init__(self, settings: ColliderSettings) -> None:
        """Hold the settings; a task has no other state."""
        self.settings = settings

    @property
    def reward_range(self) -> tuple[float, float]:
        """Return the smallest and the largest reward of an episode without shaping."""
        return rewards.reward_range(self.settings.max_turns)

    def item(self, row: Mapping[str, Any]) -> Item:
        """Read one row; TaskError names the field that is broken."""
        scenario = from_row(row)
        strata = {"tier": scenario.tier, "kind": scenario.kind}
        return Item(scenario.id, scenario.id, strata, scenario.briefing, scenario)

    def truth(self, item: Item) -> str:
        """Return "no particle", or the particle's channel, mass and spin."""
        truth = item.hidden.truth
        if truth.channel is None:
            return "no particle"
        return f"{truth.channel}, {truth.mass_gev:.1f} GeV, spin {truth.spin}"

    def generate(
        self, rows: Sequence[Mapping[str, Any]], rng: np.random.Generator, n: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return scenarios of the held-out kind, with the turns that the rows have."""
        turns = from_row(rows[0]).briefing.max_turns
        label = int(rng.integers(2**62))
        return generate("heldout", n, max_turns=turns, labels=(*RELEASE, "fresh", label))

    def start(self, item: Item, world_seed: int) -> tuple[list[Message], ColliderState]:
        """Open an episode: one user message, no system message."""
        if not isinstance(item.hidden, Scenario) or not 0 <= world_seed < 2**64:
            found = f"{type(item.hidden).__name__}, world seed {world_seed}"
            raise TaskError(
                "a collider item and a 64-bit seed",
                found=found,
                where=item.id,
                fix="make items with Collider.item",
            )
        state = begin(item.hidden, world_seed, self.settings.max_turns)
        return [{"role": "user", "content": prompts.opening(state, self.settings.surface)}], state

    def step(self, state: ColliderState, completion: str) -> Step:
        """Play one completion; a bad one costs its turn and the format part, and never raises."""
        if state.ending is not None:
            raise already_ended(state.ending, "Collider.step")
        parsed = self.parse(cut_off(completion, self.settings.cut), state)
        after = apply(state, parsed.action, parsed.reason)
        parts = {"terminal": rewards.terminal_reward(after)}
        if self.settings.shaping != 0.0:
            parts["step_shaping"] = rewards.shaping(state, after, self.settings.shaping, self.settings.gamma)
        parts["format"] = rewards.FORMAT_PENALTY if parsed.outcome == "failed" else 0.0
        action = None if parsed.action is None else self.write(parsed.action, state)
        told = None if after.ending is not None else prompts.observation(after, self.settings.surface)
        return Step(after, told, after.ending, parsed.outcome, parsed.reason, action, parts)

    def judge(self, state: ColliderState) -> Verdict:
        """Judge a finished episode."""
        if state.ending is None:
            raise not_ended("Collider.judge")
        return rewards.judge(state)

    def parse(self, completion: str, state: ColliderState) -> ParsedAction:
        """Read a completion on the surface in use."""
        if self.settings.surface == "compact":
            return parse_compact(completion, state.briefing.m0_gev)
        return parse_json(completion)

    def write(self, action: Action, state: ColliderState) -> str:
        """Return the canonical text of an action on the surface in use."""
        if self.settings.surface == "compact":
            return write_compact(action, state.briefing.m0_gev)
        return write_json(action)

    def baselines(self) -> Mapping[str, Baseline]:
        """Scripted players by name, weakest first."""
        return {name: self._written(player) for name, player in baselines.PLAYERS.items()}

    def attacks(self) -> Mapping[str, Baseline]:
        """Players that try to cheat the reward, by name."""
        return {name: self._written(player) for name, player in ATTACKS.items()}

    def _written(self, player: Attack) -> Baseline:
        def play(item: Item, state: ColliderState, rng: np.random.Generator) -> str:
            move = player(state, rng)
            return move if isinstance(move, str) else self.write(move, state)

        return play

    def demonstrations(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        """Whole dialogues of noisy, weak players on worlds made on the fly: good syntax, poor play."""
        return [self._demonstration(rng) for _ in range(n)]

    def _demonstration(self, rng: np.random.Generator) -> list[Message]:
        scenario = lessons.scenario_for_lesson(rng, self.settings.max_turns)
        state = begin(scenario, int(rng.integers(2**63)), self.settings.max_turns)
        style = lessons.pick_style(rng)
        dialogue: list[Message] = [{"role": "user", "content": prompts.opening(state, self.settings.surface)}]
        while True:
            action = lessons.weak_action(state, style, rng)
            said = action if self.settings.surface == "compact" else lessons.as_told(action)
            dialogue.append({"role": "assistant", "content": self.write(said, state)})
            state = apply(state, action, None)
            if state.ending is not None:
                return dialogue
            dialogue.append({"role": "user", "content": prompts.observation(state, self.settings.surface)})

    def drills(self, rng: np.random.Generator, n: int) -> Sequence[Sequence[Message]]:
        """Short dialogues whose answers copy a channel and its bin, or its mass, from the question."""
        make = lessons.drill if self.settings.surface == "compact" else lessons.json_drill
        return [make(rng) for _ in range(n)]

    def vocabulary(self) -> Sequence[str]:
        """Every token of the compact surface."""
        return compact_vocabulary()

    def pictures(self, states: Sequence[ColliderState]) -> Sequence[Picture]:
        """Return the spectra in hand at every state."""
        return illustrations.pictures(states)

    def mark(self, states: Sequence[ColliderState]) -> Mark | None:
        """Return where the claim lies, or the particle that was missed."""
        return illustrations.mark(states)

    def spent(self, states: Sequence[ColliderState]) -> Mapping[str, Mapping[str, float]]:
        """Return where blocks and turns went."""
        return illustrations.spent(states)
