"""What a user would do with the base instead of training it, played on the held-out suite beside the base."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.core.console import complain, say
from assay.core.counting import counted
from assay.core.errors import PolicyError
from assay.core.records import Episode
from assay.core.seeds import derive_seed
from assay.core.storage.json import digest, write_json, write_jsonl
from assay.dataset.suite import Play, Suite
from assay.evaluation.few_shot import few_shot
from assay.evaluation.measures import mean_of
from assay.evaluation.rollout import Bounding
from assay.pipeline.heldout import play_kept
from assay.pipeline.inputs import decoding_of, heldout_suite, items_of, task_of
from assay.pipeline.project import Project
from assay.pipeline.resume import KeptEpisodes
from assay.pipeline.rival_files import BaseRival, BaseRivals, facts_of, file_of, suite_for, valid
from assay.policy.engine.context import positions_of, windows_of
from assay.policy.model import Policy
from assay.policy.processes import ALONE, Processes
from assay.tasks.protocol import Task, schematic
from assay.tasks.rivals import BEST_OF_N, CONSTRAINED, FEW_SHOT, OF_THE_BASE, rivals_of


@dataclass(frozen=True, slots=True)
class _Table:
    """Where rivals play: everything that one of them shares with the others."""

    project: Project
    policy: Policy
    folder: Path
    key: str
    processes: Processes

    def play(
        self, label: str, task: Task, plays: Sequence[Play], bound: Bounding | None = None
    ) -> list[Episode]:
        """Play, and keep what was played in case of an interruption."""
        seeds = [(play.item.id, play.draw, play.seed) for play in plays]
        kept = KeptEpisodes(self.folder / label, digest([self.key, label, seeds]))
        return play_kept(
            self.project, self.policy, label, task, plays, kept, processes=self.processes, bound=bound
        )[0]


def play_rivals(
    project: Project, policy: Policy, processes: Processes = ALONE, *, folder: Path, key: str
) -> None:
    """Play every rival that the settings ask for and write `rival_<name>.jsonl` of each, and rivals.json.

    One that cannot play with this base is told with its reason, and written down.

    Args:
        project: Where everything lies.
        policy: The base.
        processes: Everyone who plays.
        folder: Keeps what was played before an interruption.
        key: Digest of all that decides the episodes.
    """
    task, heldout = task_of(project), heldout_suite(project)
    asked = rivals_of(task, project.params.evaluation.rivals)
    table, found = _Table(project, policy, folder, key, processes), dict[str, BaseRival]()
    players: dict[str, Callable[[_Table, Task, Suite], tuple[list[Episode], BaseRival]]] = {
        FEW_SHOT: _few_shot,
        BEST_OF_N: _best_of_n,
        CONSTRAINED: _constrained,
    }
    for name in (name for name in OF_THE_BASE if name in asked):
        episodes, found[name] = players[name](table, task, suite_for(heldout, name))
        if processes.main:
            _tell(name, found[name], episodes)
            if episodes:
                told = [each.model_copy(update={"policy": policy.digest}) for each in episodes]
                write_jsonl(project.results(f"{file_of(name)}.jsonl"), told)
    if processes.main:
        write_json(project.results("rivals.json"), BaseRivals(rivals=found))


def _tell(name: str, facts: BaseRival, episodes: Sequence[Episode]) -> None:
    if facts.note is not None:
        complain(f"rival {name}: {facts.note}")
    if episodes:
        say(
            f"rival {name}: success {mean_of(episodes, 'success_rate'):.1%}"
            f" ({counted(len(episodes), 'episodes')})"
        )


def _few_shot(table: _Table, task: Task, suite: Suite) -> tuple[list[Episode], BaseRival]:
    params, policy = table.project.params, table.policy
    asked = params.evaluation.rivals.few_shot
    positions = positions_of(policy.model.config)
    shown, used = few_shot(
        task,
        items_of(table.project, "train"),
        suite,
        asked,
        dialogue=policy.dialogue,
        positions=positions,
        max_new_tokens=decoding_of(table.project).max_new_tokens,
    )
    if used == 0:
        why = f"not even one example with a right answer fits the {positions} positions of this base"
        why = "no example with a right answer is there" if positions is None else why
        return [], facts_of(task, [], asked, 0, why)
    note = None if used == asked else f"{counted(used, 'examples')} of {asked} are there and fit"
    episodes = table.play(file_of(FEW_SHOT), shown, suite.plays())
    return episodes, facts_of(task, episodes, asked, used, note)


def _best_of_n(table: _Table, task: Task, suite: Suite) -> tuple[list[Episode], BaseRival]:
    """Draw again where a draw is not valid, which is the first valid one of n at the price of no more."""
    n, plays, tokens = table.project.params.evaluation.rivals.best_of_n, suite.plays(), 0
    chosen: list[Episode | None] = [None] * len(plays)
    left = list(range(len(plays)))
    for number in range(n):
        again = [_another(plays[place], number) for place in left]
        drawn = table.play(f"{file_of(BEST_OF_N)}-{number}", task, again) if left else []
        tokens += sum(episode.n_tokens for episode in drawn)
        for place, episode in zip(left, drawn, strict=True):
            if number == 0 or valid(task, episode):
                chosen[place] = episode.model_copy(update={"seed": plays[place].seed})
        left = [place for place, episode in zip(left, drawn, strict=True) if not valid(task, episode)]
    episodes = [episode for episode in chosen if episode is not None]
    return episodes, facts_of(task, episodes, n, n, tokens=tokens)


def _another(play: Play, number: int) -> Play:
    """Return the play for another draw; the first is the play itself, whose seed stands in the record."""
    return play if number == 0 else replace(play, seed=derive_seed("draw again", number, play.seed))


def _constrained(table: _Table, task: Task, suite: Suite) -> tuple[list[Episode], BaseRival]:
    from assay.policy.engine.grammar import Grammars

    policy, written = table.policy, schematic(task)
    assert written is not None, "only answers with a schema are constrained"
    model = policy.model
    try:
        windows_of(model.config, recurrent=bool(getattr(model, "_is_stateful", False)))
        grammars = Grammars(policy)
    except PolicyError as error:
        note = (
            f"decoding cannot be constrained with this base: expected {error.expected}, found {error.found}"
        )
        return [], facts_of(task, [], 1, 0, note)
    schemas = [written.answer_schema(item) for item in suite.items]
    unbound = sum(grammars.bound(schema) is None for schema in schemas)
    note = f"{counted(unbound, 'items')} of {len(schemas)} have a schema that llguidance cannot follow"
    if unbound == len(schemas):
        return [], facts_of(task, [], 1, 0, note, unbound=unbound)
    episodes = table.play(
        file_of(CONSTRAINED), task, suite.plays(), lambda item: grammars.bound(written.answer_schema(item))
    )
    return episodes, facts_of(task, episodes, 1, 1, note if unbound else None, unbound=unbound)
