"""An unpacked package as its checks read it: every file once, strictly, and nothing outside of its folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from assay.core.config.settings import ScratchBase
from assay.core.errors import AssayError, RecordError
from assay.core.records import (
    ControlFacts,
    Episode,
    HealthEvent,
    OpenedRecords,
    TrainFacts,
    ValidationEpisode,
)
from assay.core.storage.files import read_text
from assay.core.storage.json import loads, read_jsonl, read_record, read_records
from assay.core.storage.untrusted import inside, listing
from assay.core.storage.yaml import read_yaml
from assay.package.verification.own_code import OwnCopy
from assay.pipeline.inputs import secondary_file
from assay.pipeline.project import Project
from assay.pipeline.rival_files import BaseRival, BaseRivals, file_of
from assay.rollout.dataset.external import Training, read_training
from assay.rollout.dataset.fingerprint import Fingerprint
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.few_shot import few_shot
from assay.rollout.policy.base.bpe import words_of
from assay.rollout.policy.base.words import Words
from assay.rollout.tasks.own.recorded import Recorded, ToldLine
from assay.rollout.tasks.own.settings import OwnTask
from assay.rollout.tasks.protocol import Item, Task, learner
from assay.rollout.tasks.rivals import FEW_SHOT
from assay.stages.packing.layout import BASE, TOLD
from assay.stages.render_evidence.arms import AGAIN, CONTROL, suite_of
from assay.stages.render_evidence.remembered import remembered
from assay.training.log.history import Validation
from assay.verdict.evidence.claim.plan import ClaimPlan
from assay.verdict.statistics.report import Report, Reports

FIX = "get the package again from where it was published"
ARMS = ("pre_eval", "pre_eval_greedy", "post_eval", "post_eval_greedy", AGAIN)


class Unpacked:
    """A package in a folder of its own. What is read is kept; what cannot be read is refused by whoever asks
    for it.

    Args:
        root: The folder; nobody writes in it but a stage that keeps a copy of its data there.
        names: Its files as they were unpacked; those that are there if not given.
        task_code: The checker's own copy of the task's folder, which is run; None: nobody's code is.
    """

    def __init__(
        self, root: Path, names: frozenset[str] | None = None, task_code: Path | None = None
    ) -> None:
        self.root, self.task_code = root, task_code
        self.names = frozenset(listing(root)) if names is None else names
        self._episodes: dict[str, list[Episode]] = {}
        self._suites: dict[str, Suite] = {}
        self._refusal: AssayError | None = None

    @cached_property
    def project(self) -> Project:
        """The package as a project.

        Raises:
            ConfigError: params.yaml is missing or wrong.
            DataError: It names data outside of the package.
        """
        if self._refusal is not None:  # every check asks, and hostile settings take long to be refused
            raise self._refusal
        try:
            project = Project.open(self.root)
            inside(project.data(""), [self.root], where="params.yaml, dataset.root", fix=FIX)
            if project.params.task.brings_code:
                project = self.__dict__["project"] = replace(project, recorded=self._runner(project))
                self._learn(project)
        except AssayError as error:
            self.__dict__.pop("project", None)
            self._refusal = error
            raise
        return project

    def _runner(self, project: Project) -> Recorded:
        """Return what answers for the task's own code."""
        if self.task_code is not None:
            return OwnCopy(project.params.task, self.task_code)
        lines = read_records(self.root / TOLD, ToldLine, fix=FIX)
        keys = [line.key for line in lines]
        if keys != sorted({*keys}) or any((line.says is None) is (line.reply is None) for line in lines):
            expected = "lines by key, each once, and with a reply or a text"
            raise RecordError(expected, found="others", where=TOLD, fix=FIX)
        found = read_record(project.results("fingerprint.json"), Fingerprint, fix=FIX)
        return Recorded(lines, found.requires)

    def _learn(self, project: Project) -> None:
        """Let every stored episode say what its completions led to."""
        recorded, single = project.recorded, replace(self.validation, draws=1)
        settings = project.params.task
        assert recorded is not None
        assert isinstance(settings, OwnTask)
        told = [(self.suite_of(name), self.episodes(name)) for name in self.arms]
        for _, sampled, greedy in self.validations:
            told += [(self.validation, sampled), (single, greedy)]
        for suite, episodes in told:
            plays = {(play.item.id, play.draw): play for play in suite.plays()}
            for episode in episodes:
                if (play := plays.get((episode.item_id, episode.draw))) is not None:
                    recorded.add(play.item.hidden, play.world_seed, episode, settings)

    @cached_property
    def task(self) -> Task:
        """The task, without shaping."""
        task = self.project.task()
        if (learning := learner(task)) is not None:
            learning.learn_from(self.train)
        return task

    @cached_property
    def replayed(self) -> Task:
        """The task as one that plays everything once, where its code is assay's own."""
        return remembered(self.task, self.project.params.task)

    @cached_property
    def heldout(self) -> Suite:
        """The held-out suite."""
        return self.project.inputs("heldout").heldout

    @cached_property
    def validation(self) -> Suite:
        """The suite that chooses the checkpoint."""
        return self.project.inputs("validation").validation

    @cached_property
    def secondary(self) -> Mapping[str, Suite]:
        """The suites on which policies are compared beside the held-out one, by data file."""
        return self.project.inputs("secondary").secondary

    @cached_property
    def train(self) -> list[Item]:
        """Every item of the train data, those whose answers a base was shown included."""
        return self.project.items("train")

    def suite_of(self, arm: str) -> Suite:
        """Return the suite that an arm was to play."""
        if arm not in self._suites:
            beyond = self.secondary if "/" in arm else None
            self._suites[arm] = suite_of(self.project, arm, self.heldout, beyond)
        return self._suites[arm]

    def item_ids(self, split: str) -> frozenset[str]:
        """Return the ids of all items of a split."""
        items = self.train if split == "train" else self.project.items(split)
        return frozenset(item.id for item in items)

    def results(self, name: str) -> Path:
        """Return the path of a file that a stage wrote."""
        return self.project.results(name)

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms that were played."""
        secondary = [
            secondary_file(stage, suite)
            for stage in ("pre_eval", "post_eval")
            for suite in self.project.params.played[1:]
        ]
        played = (*ARMS, *secondary, *(file_of(name) for name, facts in self.rivals.items() if facts.used))
        return (*played, CONTROL) if self.control.asked and self.control.stopped is None else played

    def episodes(self, name: str) -> list[Episode]:
        """Return the episodes of an arm as stored, parsed once."""
        if name not in self._episodes:
            self._episodes[name] = read_records(self.results(f"{name}.jsonl"), Episode, fix=FIX)
        return self._episodes[name]

    def forget_episodes(self) -> None:
        """Let go of the episodes of all arms, and of what they led to."""
        self._episodes.clear()
        self.__dict__.pop("replayed", None)

    @cached_property
    def reports(self) -> Mapping[str, Report]:
        """The reports as stored, by the arm's name."""
        return read_record(self.results("reports.json"), Reports, fix=FIX).arms

    @cached_property
    def rivals(self) -> Mapping[str, BaseRival]:
        """What became of the rivals that the base played, by name."""
        return read_record(self.results("rivals.json"), BaseRivals, fix=FIX).rivals

    @cached_property
    def words(self) -> Words:
        """How the tokenizer of a base that was built here reads."""
        base = self.project.params.base
        assert isinstance(base, ScratchBase), "the tokenizer of another base is not in the package"
        return words_of(base, self.task.vocabulary(), self.root / BASE, fix=FIX)

    @cached_property
    def shown(self) -> tuple[Task, int]:
        """The task behind the examples of the few-shot rival, and how many those are, for a tiny base."""
        params, base = self.project.params, self.project.params.base
        assert isinstance(base, ScratchBase), "the tokenizer of another base is not in the package"
        return few_shot(
            self.task,
            self.train,
            self.suite_of(file_of(FEW_SHOT)),
            params.evaluation.rivals.few_shot,
            dialogue=self.words,
            positions=base.architecture.max_positions,
            max_new_tokens=params.task.max_new_tokens[params.generation.surface],
        )

    @cached_property
    def control(self) -> ControlFacts:
        """The facts of the control training."""
        return read_record(self.results("control.json"), ControlFacts, fix=FIX)

    @cached_property
    def opened(self) -> OpenedRecords:
        """What was known of the held-out records when they were opened."""
        return read_record(self.results("openings.json"), OpenedRecords, fix=FIX)

    @cached_property
    def told(self) -> Training:
        """What train.json tells, of whichever kind of training."""
        return read_training(self.results("train.json"), fix=FIX)

    @property
    def trained(self) -> TrainFacts:
        """The facts of a training by assay.

        Raises:
            RecordError: It was done elsewhere, by train.json or by the settings.
        """
        if not isinstance(self.told, TrainFacts) or self.elsewhere:
            raise RecordError(
                "train.json of the training that the settings ask for",
                found="another",
                where="train.json",
                fix=FIX,
            )
        return self.told

    @property
    def elsewhere(self) -> bool:
        """Whether the settings say that it was trained elsewhere, so that there is no log of it; of settings
        that cannot be read, which a check of their own tells, they do not."""
        try:
            return self.project.params.external is not None
        except AssayError:
            return False

    @cached_property
    def plan(self) -> ClaimPlan:
        """The plan of the claim."""
        return read_record(self.results("claim_plan.json"), ClaimPlan, fix=FIX)

    @cached_property
    def events(self) -> list[HealthEvent]:
        """The alarms of the training, that none rang included."""
        if self.elsewhere:
            return []
        return read_records(self.results("health.jsonl"), HealthEvent, fix=FIX)

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """The rows of train_log.jsonl, each a mapping with a whole step."""
        rows = list(read_jsonl(self.results("train_log.jsonl"), fix=FIX))
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, dict) or type(row.get("step")) is not int:
                where = f"train_log.jsonl, row {number}"
                raise RecordError("a mapping with a step", found=repr(row)[:60], where=where, fix=FIX)
        return rows

    @cached_property
    def validation_lines(self) -> list[ValidationEpisode]:
        """Every line of validation.jsonl."""
        if self.elsewhere:
            return []
        return read_records(self.results("validation.jsonl"), ValidationEpisode, fix=FIX)

    @cached_property
    def validations(self) -> list[Validation]:
        """Every validation, as lines of one step follow each other."""
        found = []
        for step, lines in groupby(self.validation_lines, key=lambda line: line.step):
            told = list(lines)
            sampled = [line.episode for line in told if not line.greedy]
            found.append(Validation(step, sampled, [line.episode for line in told if line.greedy]))
        return found

    @cached_property
    def base(self) -> Mapping[str, Any]:
        """Return base.json."""
        return self._mapping("base.json")

    @cached_property
    def claim(self) -> Mapping[str, Any]:
        """Return claim.json."""
        return self._mapping("claim.json")

    @cached_property
    def lock(self) -> Mapping[str, Any]:
        """Return the stages of dvc.lock."""
        stages = read_yaml(self.root / "dvc.lock", fix=FIX).get("stages")
        if not isinstance(stages, dict) or not all(isinstance(each, dict) for each in stages.values()):
            raise RecordError(
                "a mapping of stages", found=type(stages).__name__, where="dvc.lock, stages", fix=FIX
            )
        return stages

    def _mapping(self, name: str) -> Mapping[str, Any]:
        value = loads(read_text(self.results(name), fix=FIX), where=name, fix=FIX)
        if not isinstance(value, dict):
            raise RecordError("one mapping", found=type(value).__name__, where=name, fix=FIX)
        return value


def link(source: str | Path, target: str | Path) -> None:
    """Let a file stand in a second place; as a copy, where the file system has no links.

    What is written in either place later has to replace the file, and not its content.
    """
    Path(target).unlink(missing_ok=True)
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copyfile(source, target, follow_symlinks=False)
