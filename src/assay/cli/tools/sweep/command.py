"""`assay runs sweep`: every checkpoint of a run on the validation suite, each beside step 0, as a table and a
figure."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import assay
from assay.cli.tools.sweep.sources import (
    PLAYING,
    Candidate,
    SweepRequest,
    SweepSource,
    check_published,
    open_source,
    settings_notes,
    suite_of,
)
from assay.core.beside import beside
from assay.core.console import Advance, complain, progress, say, say_table
from assay.core.counting import counted
from assay.core.errors import AssayError, ConfigError, DataError, Interrupted, PolicyError, RecordError
from assay.core.provenance import hardware, packages
from assay.core.records import Episode
from assay.core.storage.files import real, write_bytes, write_text
from assay.core.storage.json import digest, write_json
from assay.core.storage.tables import write_csv
from assay.core.storage.untrusted import sha256_contents
from assay.pipeline.inputs import decoding_of, read_fingerprint
from assay.pipeline.note_openings import note_opening
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.pipeline.resume import KeptEpisodes, locked, machine_of
from assay.rollout.dataset.suite import Suite
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.measures import Row
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.policy.base.adapter_files import check_fits, checked_tensors, read_adapter
from assay.rollout.policy.model import Policy
from assay.rollout.tasks.protocol import reward_range
from assay.training.adapter import Tensors, adapter_config, adapter_tensors, attach_adapter
from assay.training.checkpoints.of_run import ADAPTER, adapter_files, checkpoint_of
from assay.training.checkpoints.store import Checkpoint
from assay.verdict.evidence.figures.drawing import render
from assay.verdict.evidence.figures.sweep_figure import sweep_figure
from assay.verdict.evidence.tables.sweep_table import (
    EXPLORATORY,
    OPTIMISTIC,
    Sweep,
    SweptCheckpoint,
    against_base,
    caption,
    correct_for_many,
    sweep_frame,
    sweep_markdown,
    sweep_rows,
)
from assay.verdict.statistics.checkpoint_rows import row_of_validation

STAGE = "sweep"  # its name in the log of openings
MEASURES = ("mean_reward", "success_rate")
DECIDING = ("task", "generation", "device", "threads", "deterministic", "base")
NOT_HERE = ("evidence/results", "models", "data", "dist", "src", "tasks", "configs")


def run(root: Path, asked: SweepRequest) -> None:
    """Play every checkpoint, print the table, and write sweep.csv, sweep.md, sweep.json, sweep.png and
    sweep.svg.

    Raises:
        AssayError: What was named cannot be swept, or only in part; Interrupted where a signal came.
    """
    project, source = open_source(root, asked.path)
    out = _find_out(project, source, asked)
    source.notes += settings_notes(project, source, asked)
    suite = suite_of(project, asked)
    _refuse_damaged(source, asked)
    found = SuitePlayer(project, source, suite, asked).sweep()
    rows, columns = sweep_rows(found)
    write_json(out / "sweep.json", found)
    write_csv(out / "sweep.csv", rows, columns)
    write_text(out / "sweep.md", sweep_markdown(found))
    for kind, content in render(sweep_figure(found)).items():
        write_bytes(out / f"sweep.{kind}", content)
    say(f"{found.run}: {found.label}")
    frame = sweep_frame(found)
    say_table(list(frame.columns), [[str(cell) for cell in row] for row in frame.itertuples(index=False)])
    say(caption(found))
    say(f"note: {OPTIMISTIC}")
    if found.left_out:
        say(f"left out, damaged: {len(found.left_out)}")
    say(f"wrote sweep.csv, sweep.md, sweep.json and figures to {out}")


class SuitePlayer:
    """Plays the base and every checkpoint of a source on one suite; what was finished before is not played
    again."""

    def __init__(self, project: Project, source: SweepSource, suite: Suite, asked: SweepRequest) -> None:
        self._project, self._source, self._suite, self._asked = project, source, suite, asked
        self._task = project.task()
        self._home = project.scratch / STAGE / "episodes"
        code = {name: sha256_contents(Path(assay.__file__).parent / name) for name in PLAYING}
        if (task := project.params.task.told_code) is not None:
            code[task] = sha256_contents(beside(task) or Path(task))
        assert None not in code.values(), code
        how = [
            code,
            packages(),
            hardware(),
            machine_of(project.params.device),
            project.params.model_dump(mode="json", include=set(DECIDING)),
            read_fingerprint(project.root).model_dump(mode="json"),
            suite.digest,
        ]
        self._how = digest(how)

    def sweep(self) -> Sweep:
        """Return the sweep of all candidates.

        Raises:
            Interrupted: Somebody asked to stop; batches that had ended are kept.
            RunningAlready: Another process sweeps.
        """
        scratch = self._home.parent / "adapters"
        with locked(self._home):
            shutil.rmtree(scratch, ignore_errors=True)  # of a call that was killed
            base = open_policy(self._project.params, self._project.root / "models/base")
            check_published(self._project, self._source, self._suite, self._asked, base.digest)
            adapters = Adapters(self._project, self._source, scratch)
            self._leave_out(adapters.find_unfit(base.model))
            adapters.check_beginning()
            for note in self._source.notes:
                complain(f"note: {note}")
            if self._asked.heldout:
                complain(
                    f"WARNING: this opens the held-out suite for {len(self._source.candidates) + 1} policies."
                    " A checkpoint that is chosen by it can no longer be reported on it. Tables and figures"
                    f" are marked: {EXPLORATORY}"
                )
            try:
                checkpoints = self._play_all(base, adapters)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        return self._sum_up(checkpoints)

    def _play_all(self, base: Policy, adapters: Adapters) -> list[SweptCheckpoint]:
        suite, candidates = self._suite, self._source.candidates
        total = (len(candidates) + 1) * len(suite.items) * (suite.draws + 1)
        done = 0

        def count(n: int, note: str) -> None:
            nonlocal done
            done += n
            advance(n, note)

        checkpoints: list[SweptCheckpoint] = []

        def add(policy: Policy, step: int, name: str, before: list[Episode] | None) -> list[Episode]:
            if self._asked.heldout:  # written down before it happens, record by record
                note_opening(
                    self._project.root,
                    self._project.params,
                    STAGE,
                    suite,
                    policy.digest,
                    base=policy.base_digest,
                )
            after, row = self._play(policy, step, count)
            bounds = reward_range(self._task)
            gaps = {} if before is None else against_base(before, after, MEASURES, suite.digest, bounds)
            checkpoints.append(
                SweptCheckpoint(step=step, name=name, policy_digest=policy.digest, row=row, against_base=gaps)
            )
            return after

        try:
            with progress(f"sweep: {self._asked.split} episodes", total) as advance:
                before = add(base, 0, "base", None)
                adapters.learn_shape(base)
                del base
                for candidate in candidates:
                    add(adapters.open(candidate), candidate.step, candidate.name, before)
        except KeyboardInterrupt:
            where = f"after {done} of {counted(total, 'episodes')}"
            raise Interrupted("SIGINT", where=where, exit_code=130) from None
        return checkpoints

    def _sum_up(self, checkpoints: list[SweptCheckpoint]) -> Sweep:
        project, source, suite = self._project, self._source, self._suite
        chosen, chosen_by = _find_chosen(source, checkpoints, self._asked)
        return Sweep(
            format="assay-sweep/1",
            run=source.name,
            task=project.params.dataset.name,
            split=self._asked.split,
            suite_digest=suite.digest,
            n_items=len(suite.items),
            n_clusters=len({item.cluster for item in suite.items}),
            cluster_name=self._task.cluster_name,
            draws=suite.draws,
            temperature=decoding_of(project.params).temperature,
            checkpoints=correct_for_many(checkpoints),
            chosen_step=chosen,
            chosen_by=chosen_by,
            left_out=tuple(source.damaged),
            notes=(OPTIMISTIC, *source.notes),
        )

    def _leave_out(self, unfit: Sequence[tuple[Candidate, AssayError]]) -> None:
        """Take out what cannot be played, where that was asked for; say what is left out and why."""
        source, odd = self._source, [candidate for candidate, _ in unfit]
        if unfit and len(unfit) == len(source.candidates):
            raise unfit[0][1]
        source.candidates = [each for each in source.candidates if each not in odd]
        source.damaged += [f"{c.name}: expected {error.expected}, found {error.found}" for c, error in unfit]
        _refuse_damaged(source, self._asked)
        for said in source.damaged:
            complain(f"left out: {said}")
        if not source.candidates:
            fix = "let the training go on, or name a run that has some;"
            fix += " ./run assay runs watch shows how far one is"
            where = str(self._asked.path)
            raise ConfigError("checkpoints after step 0", found="none", where=where, fix=fix)

    def _play(self, policy: Policy, step: int, count: Advance) -> tuple[list[Episode], Row]:
        """Play the suite as a validation does, sampled and once greedily, and return the row it gives."""
        params, suite = self._project.params, self._suite
        played: dict[bool, list[Episode]] = {}
        for greedy in (False, True):
            part = replace(suite, draws=1) if greedy else suite
            key = digest([self._how, policy.digest, part.digest, greedy])
            played[greedy] = measure(
                policy,
                self._task,
                part.plays(),
                decoding_of(self._project.params, greedy=greedy),
                pace=Pace(
                    params.generation.batch_size,
                    progress=lambda n: count(n, f"step {step}"),
                    retries=params.health.retries,
                ),
                kept=KeptEpisodes(self._home / key[:16], key),
            )
        steps = 1 if step == 0 else self._source.steps
        row = row_of_validation(played[False], played[True], suite.digest, step=step, steps=steps or 1)
        return played[False], row if steps is not None else row | {"fraction_done": None}


def _find_chosen(
    source: SweepSource, checkpoints: list[SweptCheckpoint], asked: SweepRequest
) -> tuple[int | None, str | None]:
    if source.trained is not None:
        return source.trained.chosen_step, "chosen by the training"
    if asked.heldout:  # the best on held-out work must not even be pointed at
        return None, None
    best = max(checkpoints, key=lambda each: float(each.row["mean_reward"] or 0.0))
    return best.step, "the highest mean reward of this table"


def _refuse_damaged(source: SweepSource, asked: SweepRequest) -> None:
    if not source.damaged or asked.skip_damaged:
        return
    n, more = len(source.damaged), len(source.damaged) - 3
    found = f"{n} damaged: {'; '.join(source.damaged[:3])}" + (f" (and {more} more)" if more > 0 else "")
    fix = "restore them, or --skip-damaged sweeps the others and says in the table what was left out"
    raise RecordError("whole checkpoints", found=found, where=str(asked.path), fix=fix)


def _find_out(project: Project, source: SweepSource, asked: SweepRequest) -> Path:
    """Return where to write; ConfigError for a file, and for a place of the pipeline."""
    question = digest([str(real(source.folder)), source.name, asked.split, asked.draws, asked.items])
    out = asked.out or project.scratch / STAGE / f"{source.name}-{asked.split}-{question[:8]}"
    where = f"--out {out}"
    if out.exists() and not out.is_dir():
        fix = "--out with another name"
        raise ConfigError("a folder to write in", found="a file", where=where, fix=fix)
    for name in NOT_HERE:
        if real(out).is_relative_to(real(project.root / name)):
            expected, fix = "a folder that is no part of the pipeline", "leave --out out, or name another"
            raise ConfigError(expected, found=f"one in {name}/", where=where, fix=fix)
    return out


BASE = "models/base"  # how an adapter of the pipeline calls its base


class Adapters:
    """Opens one checkpoint after another on the base of a project.

    Args:
        project: Whose base it is.
        source: Where they come from.
        scratch: A folder for the adapter at work. Only what was read and found fit lies there, so nothing
            else of a foreign folder (optimizer states are pickles) is ever opened, and nothing changes
            between check and load.
    """

    def __init__(self, project: Project, source: SweepSource, scratch: Path) -> None:
        self._project, self._source, self._scratch = project, source, scratch
        self._config: dict[str, Any] = {}
        self._pattern: Tensors = {}
        # Names of the base that need no note: the pipeline's, what it was pinned from, and those noted.
        self._named = {BASE, getattr(project.params.base, "model", BASE), None}

    def find_unfit(self, model: Any) -> list[tuple[Candidate, AssayError]]:
        """Return the candidates that cannot be played on a base, each with the reason. Nothing is changed."""
        found: list[tuple[Candidate, AssayError]] = []
        for candidate in self._source.candidates:
            where = str(candidate.folder)
            try:
                if candidate.ours:  # the run's key says that the base is the same, and `open` compares shapes
                    checked_tensors(self._checkpoint(candidate.folder).read(ADAPTER), where)
                    continue
                files = read_adapter(candidate.folder, candidate.root)
                check_fits(model, files, where)
            except (PolicyError, DataError, RecordError) as error:
                found.append((candidate, error))
                continue
            if files.base_name not in self._named:  # shapes alone do not tell whose base it is
                self._named.add(files.base_name)
                named = f"{candidate.name} names the base {str(files.base_name)[:120]!r}"
                note = f"{named}; it is played on {BASE} of this project, whose layers fit."
                self._source.notes.append(note)
        return found

    def learn_shape(self, base: Policy) -> None:
        """Take the shape of a run's adapters from its base, which is not to be played again: it gets one."""
        facts, params = self._source.facts, self._project.params
        if facts is not None:
            settings = params.train.model_copy(update={"lora": facts.lora()})
            attached = attach_adapter(base, params.model_copy(update={"train": settings}))
            self._config, self._pattern = adapter_config(attached), adapter_tensors(attached)

    def check_beginning(self) -> None:
        """Refuse a run whose step 0 is kept and is not the base itself, with a PolicyError."""
        if self._source.beginning is None:
            return
        begun = self._checkpoint(self._source.beginning)
        tensors = checked_tensors(begun.read(ADAPTER), str(begun.folder))
        if any(bool(torch.count_nonzero(tensor)) for name, tensor in tensors.items() if ".lora_B." in name):
            found, fix = "an adapter that changes it", "take another run folder"
            raise PolicyError("the base itself at step 0", found=found, where=str(begun.folder), fix=fix)

    def _checkpoint(self, folder: Path) -> Checkpoint:
        assert self._source.facts is not None, "a checkpoint of ours lies in a run folder, which has a key"
        return checkpoint_of(folder, self._source.facts.digest)

    def open(self, candidate: Candidate) -> Policy:
        """Return the base under one checkpoint.

        Raises:
            AssayError: The checkpoint changed since it was looked at, or does not fit.
        """
        if candidate.ours:
            files = adapter_files(self._checkpoint(candidate.folder), self._config, self._pattern)
        else:
            files = read_adapter(candidate.folder, candidate.root).named()
        shutil.rmtree(self._scratch, ignore_errors=True)
        for name, content in files.items():
            write_bytes(self._scratch / name, content)
        return open_policy(self._project.params, self._project.root / "models/base", self._scratch)
