"""V3, the rivals that the base played: those of the settings, and what rivals.json says of each."""

from __future__ import annotations

from assay.core.config.settings import PretrainedBase
from assay.core.counting import counted
from assay.pipeline.rival_files import facts_of, file_of
from assay.tasks.rivals import BEST_OF_N, CONSTRAINED, FEW_SHOT, OF_THE_BASE, rivals_of
from assay.verify.checks import LookResult
from assay.verify.unpacked import Unpacked


def rivals_told(package: Unpacked) -> LookResult:
    """Check that rivals.json is about the rivals that the settings ask for, and counts what they played."""
    asked, wrong = package.project.params.evaluation.rivals, []
    settings = {FEW_SHOT: asked.few_shot, BEST_OF_N: asked.best_of_n, CONSTRAINED: 1}
    expected = [name for name in OF_THE_BASE if name in rivals_of(package.task, asked)]
    if sorted(package.rivals) != sorted(expected):
        wrong.append(f"rivals.json: {', '.join(package.rivals)}; the settings ask for {', '.join(expected)}")
    for name in expected:
        if (told := package.rivals.get(name)) is None:
            continue
        episodes = package.episodes(file_of(name)) if told.used else []
        again = facts_of(
            package.task,
            episodes,
            settings[name],
            told.used,
            told.note,
            tokens=max(told.tokens, sum(episode.n_tokens for episode in episodes)),
            unbound=told.unbound_items,
        )
        if name != BEST_OF_N:  # where draws that did not count cost tokens too
            again = again.model_copy(update={"tokens": sum(episode.n_tokens for episode in episodes)})
        if again != told:
            wrong.append(f"rivals.json, {name}: not what its settings and {file_of(name)}.jsonl say")
        if name == FEW_SHOT and not isinstance(package.project.params.base, PretrainedBase):
            fit = package.shown[1]
            if fit != told.used:
                wrong.append(f"rivals.json, {name}, used: {told.used}; {fit} are there and fit")
        if not told.used and told.note is None:
            wrong.append(f"rivals.json, {name}: did not play, and does not say why")
    played = sum(bool(told.used) for told in package.rivals.values())
    return LookResult(
        f"{counted(played, 'rivals')} of {len(expected)} that the settings ask for played", wrong
    )
