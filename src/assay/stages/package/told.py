"""What a task's own code says to all that a check of the package asks of it: none of it is run there."""

from __future__ import annotations

from assay.core.config.settings import PretrainedBase, ScratchBase
from assay.core.storage.json import dumps
from assay.evaluation.few_shot import few_shot
from assay.evaluation.replay import play_baseline
from assay.package.layout import BASE
from assay.pipeline.inputs import heldout_suite, items_of, secondary_suites, validation_suite
from assay.pipeline.project import Project
from assay.pipeline.rival_files import suite_for
from assay.policy.base.bpe import words_of
from assay.tasks.own.recorded import Recorded, Recorder
from assay.tasks.own.task import own_task, runner_of
from assay.tasks.rivals import FEW_SHOT, players_of
from assay.tasks.settings.own import OwnTask
from assay.training.health.honest_play import honest_play
from assay.training.recipe import item_order

FIX = "./run dvc repro base"


def told_of(project: Project) -> bytes | None:
    """Return the lines of told.jsonl; None where the task is part of assay.

    Beside the episodes, which hold themselves what was said of them, a check opens every suite, reads the
    words that players say, lets those players play, and the honest one as it did before training.
    """
    params, settings = project.params, project.params.task
    if not isinstance(settings, OwnTask):
        return None
    recorder = Recorder(project.recorded or runner_of(settings, str(project.root)))
    task = own_task(settings, None, recorder)
    task.learn_from(items_of(project, "train"))
    heldout, train = heldout_suite(project), task.train
    for suite in (validation_suite(project), *secondary_suites(project).values()):
        for play in suite.plays():
            task.start(play.item, play.world_seed)
    for name, player in players_of(task, train).items():
        play_baseline(task, player, heldout.plays(), name, retries=params.health.retries)
    if params.external is None:
        order = item_order(train, params.train.steps * params.train.items_per_step, params.seed)
        honest_play(task, order, params, keyed=False)
    if not isinstance(params.base, PretrainedBase):
        scratch = params.base if isinstance(params.base, ScratchBase) else None
        few_shot(
            task,
            train,
            suite_for(heldout, FEW_SHOT),
            params.evaluation.rivals.few_shot,
            dialogue=None
            if scratch is None
            else words_of(scratch, task.vocabulary(), project.root / BASE, fix=FIX),
            positions=None if scratch is None else scratch.architecture.max_positions,
            max_new_tokens=settings.max_new_tokens[params.generation.surface],
        )
    return "".join(f"{dumps(line)}\n" for line in recorder.lines(Recorded())).encode()
