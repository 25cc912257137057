"""What a user would do with the base instead of training it, played on the held-out suite beside the base."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from assay.core.console import complain, say
from assay.core.counting import counted
from assay.core.errors import PolicyError
from assay.core.evidence_files import place_of
from assay.core.records import Episode
from assay.core.seeds import derive_seed
from assay.core.storage.files import write_folder
from assay.core.storage.json import write_json
from assay.pipeline.heldout import Measurement, open_suites
from assay.pipeline.inputs import decoding_of
from assay.pipeline.note_openings import CONTROL_STAGE
from assay.pipeline.policies import BASE, open_policy
from assay.pipeline.rival_files import BaseRival, BaseRivals, facts_of, file_of, suite_for, valid
from assay.rollout.dataset.suite import Play, Suite
from assay.rollout.evaluation.few_shot import few_shot
from assay.rollout.evaluation.measures import mean_of
from assay.rollout.policy.base.adapter_files import write_model
from assay.rollout.policy.base.pretrained import locate
from assay.rollout.policy.base.sft import fine_tune, lessons_of, tokens_of
from assay.rollout.policy.engine.context import positions_of, windows_of
from assay.rollout.tasks.protocol import schematic
from assay.rollout.tasks.rivals import BEST_OF_N, CONSTRAINED, FEW_SHOT, IN_PRE_EVAL, MORE_SFT, rivals_of


def play_rivals(measurement: Measurement) -> None:
    """Play every rival that the settings ask for and write `rival_<name>.jsonl` of each, and rivals.json.

    One that cannot play with this base is told with its reason, and written down.

    Args:
        measurement: Where they play, with the base.
    """
    inputs, main = measurement.inputs, measurement.processes.main
    asked, found = rivals_of(inputs.task, inputs.params.evaluation.rivals), dict[str, BaseRival]()
    players: dict[str, Callable[[Measurement, Suite], tuple[list[Episode], BaseRival]]] = {
        FEW_SHOT: _few_shot,
        BEST_OF_N: _best_of_n,
        CONSTRAINED: _constrained,
        MORE_SFT: _more_sft,
    }
    for name in (name for name in IN_PRE_EVAL if name in asked):
        episodes, found[name] = players[name](measurement, suite_for(inputs.heldout, name))
        if main:
            _tell(name, found[name], episodes)
            if episodes and name != MORE_SFT:  # which another policy played, and wrote
                measurement.write(file_of(name), episodes)
    if main:
        write_json(measurement.root / place_of("rivals.json"), BaseRivals(rivals=found))


def _tell(name: str, facts: BaseRival, episodes: Sequence[Episode]) -> None:
    if facts.note is not None:
        complain(f"rival {name}: {facts.note}")
    if episodes:
        say(
            f"rival {name}: success {mean_of(episodes, 'success_rate'):.1%}"
            f" ({counted(len(episodes), 'episodes')})"
        )


def _few_shot(table: Measurement, suite: Suite) -> tuple[list[Episode], BaseRival]:
    inputs, policy = table.inputs, table.policy
    task, asked = inputs.task, inputs.params.evaluation.rivals.few_shot
    positions = positions_of(policy.model.config)
    shown, used = few_shot(
        task,
        inputs.train,
        suite,
        asked,
        dialogue=policy.dialogue,
        positions=positions,
        max_new_tokens=decoding_of(inputs.params).max_new_tokens,
    )
    if used == 0:
        why = f"not even one example with a right answer fits the {positions} positions of this base"
        why = "no example with a right answer is there" if positions is None else why
        return [], facts_of(task, [], asked, 0, why)
    note = None if used == asked else f"{counted(used, 'examples')} of {asked} are there and fit"
    episodes = table.played(file_of(FEW_SHOT), shown, suite.plays())[0]
    return episodes, facts_of(task, episodes, asked, used, note)


def _best_of_n(table: Measurement, suite: Suite) -> tuple[list[Episode], BaseRival]:
    """Draw again where a draw is not valid, which is the first valid one of n at the price of no more."""
    task, plays, tokens = table.inputs.task, suite.plays(), 0
    n = table.inputs.params.evaluation.rivals.best_of_n
    chosen: list[Episode | None] = [None] * len(plays)
    left = list(range(len(plays)))
    for number in range(n):
        again = [_another(plays[place], number) for place in left]
        drawn = table.played(f"{file_of(BEST_OF_N)}-{number}", task, again)[0] if left else []
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


def _constrained(table: Measurement, suite: Suite) -> tuple[list[Episode], BaseRival]:
    from assay.rollout.policy.engine.grammar import Grammars

    task, policy = table.inputs.task, table.policy
    written = schematic(task)
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
    episodes, _ = table.played(
        file_of(CONSTRAINED),
        task,
        suite.plays(),
        bound=lambda item: grammars.bound(written.answer_schema(item)),
    )
    return episodes, facts_of(task, episodes, 1, 1, note if unbound else None, unbound=unbound)


def _more_sft(table: Measurement, suite: Suite) -> tuple[list[Episode], BaseRival]:
    """Let the base go on learning as it was taught, from right answers, on the very items that GRPO trains
    on, and play what comes of it.

    It is noted among those who opened the suite as a control is: nobody claims anything of it.
    """
    inputs, root, processes = table.inputs, table.root, table.processes
    params, sft = inputs.params, inputs.params.sft
    assert sft is not None, "the settings are refused without one"
    steps, made = params.evaluation.rivals.more_sft, table.folder / MORE_SFT
    with processes.as_one():
        if processes.main:
            base = open_policy(params, root / BASE)
            lessons = tokens_of(
                lessons_of(inputs.task, inputs.train, MORE_SFT, sft.seed), base, sft.batch_size
            )
            taught, _ = fine_tune(
                base, lessons, sft, steps, MORE_SFT, table.folder / "fine-tuning", table.key
            )
            write_folder(made, {}, check=lambda folder: write_model(taught, folder, base=locate(root / BASE)))
            del base, taught
    with processes.as_one():
        policy = replace(open_policy(params, made), base_digest=table.policy.base_digest)
    with open_suites(root, inputs, policy, CONTROL_STAGE, (), suites=[suite], processes=processes) as opened:
        episodes = opened.played(file_of(MORE_SFT), inputs.task, suite.plays())[0]
        if processes.main:
            opened.write(file_of(MORE_SFT), episodes)
    return episodes, facts_of(inputs.task, episodes, steps, steps)
