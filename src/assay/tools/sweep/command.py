"""`assay runs sweep`: every checkpoint of a run on the validation suite, each beside step 0, as a table and a
figure."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import assay
from assay.core.console import Advance, complain, progress, say, say_table
from assay.core.counting import counted
from assay.core.errors import AssayError, ConfigError, Interrupted, RecordError
from assay.core.provenance import hardware, packages
from assay.core.records import Episode
from assay.core.storage.files import real, write_bytes, write_text
from assay.core.storage.hashing import sha256_contents
from assay.core.storage.json import digest, write_json
from assay.core.storage.tables import write_csv
from assay.dataset.suite import Suite
from assay.evaluation.measure import measure
from assay.evaluation.validation_tables import Row
from assay.evidence.figures.drawing import render
from assay.evidence.figures.sweep_figure import sweep_figure
from assay.evidence.tables.sweep_table import (
    EXPLORATORY,
    OPTIMISTIC,
    Checkpoint,
    Sweep,
    against_base,
    caption,
    corrected,
    sweep_frame,
    sweep_markdown,
    sweep_rows,
)
from assay.pipeline.heldout_ledger import note_opening
from assay.pipeline.inputs import decoding_of, fingerprint_of, task_of
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.pipeline.resume import KeptEpisodes, locked, machine_of
from assay.policy.model import Policy
from assay.statistics.checkpoint_rows import row_of_validation
from assay.tasks.protocol import Task
from assay.tools.sweep.adapters import Adapters
from assay.tools.sweep.settings import PLAYING, Asked, check_published, settings_notes, suite_of
from assay.tools.sweep.sources import Candidate, Source, open_source

STAGE = "sweep"  # its name in the log of openings
MEASURES = ("mean_reward", "success_rate")
DECIDING = ("task", "generation", "device", "threads", "deterministic", "base")
NOT_HERE = ("evidence/results", "models", "data", "dist", "src", "configs")


def run(root: Path, asked: Asked) -> None:
    """Play every checkpoint, print the table, and write sweep.csv, sweep.md, sweep.json, sweep.png and
    sweep.svg.

    Args:
        root: The project one stands in.
        asked: What the command line says.

    Raises:
        AssayError: What was named cannot be swept, or only in part; Interrupted where a signal came.
    """
    project, source = open_source(root, asked.path)
    out = _out(project, source, asked)
    source.notes += settings_notes(project, source, asked)
    suite = suite_of(project, asked)
    _refuse_damaged(source, asked)
    found = Player(project, source, suite, asked).swept()
    write(out, found)
    tell(found)
    say(f"wrote sweep.csv, sweep.md, sweep.json and figures to {out}")


class Player:
    """Plays the base and every checkpoint of a source on one suite; what was finished before is not played
    again."""

    def __init__(self, project: Project, source: Source, suite: Suite, asked: Asked) -> None:
        self._project, self._source, self._suite, self._asked = project, source, suite, asked
        self._task: Task = task_of(project)
        self._home = project.scratch / STAGE / "episodes"
        self._how = digest(
            [
                {name: sha256_contents(Path(assay.__file__).parent / name) for name in PLAYING},
                packages(),
                hardware(),
                machine_of(project),
                project.params.model_dump(mode="json", include=set(DECIDING)),
                fingerprint_of(project).model_dump(mode="json"),
                suite.digest,
            ]
        )

    def swept(self) -> Sweep:
        """Return the sweep of all candidates.

        Raises:
            Interrupted: Somebody asked to stop; batches that had ended are kept.
            RunningAlready: Another process sweeps.
        """
        project, source, suite = self._project, self._source, self._suite
        with locked(self._home):
            shutil.rmtree(self._home.parent / "adapters", ignore_errors=True)  # of a call that was killed
            base = open_policy(project, None)
            check_published(project, source, suite, self._asked, base.digest)
            adapters = Adapters(project, source, self._home.parent / "adapters")
            self._leave_out(adapters.unfit(base.model))
            adapters.check_beginning()
            for note in source.notes:
                complain(f"note: {note}")
            if self._asked.heldout:
                complain(
                    f"WARNING: this opens the held-out suite for {len(source.candidates) + 1} policies. A"
                    " checkpoint that is chosen by it can no longer be reported on it. Tables and figures"
                    f" are marked: {EXPLORATORY}"
                )
            total = (len(source.candidates) + 1) * len(suite.items) * (suite.draws + 1)
            done = 0

            def count(n: int, note: str) -> None:
                nonlocal done
                done += n
                advance(n, note)

            try:
                with progress(f"sweep: {self._asked.split} episodes", total) as advance:
                    self._open(base.digest)
                    before, row = self._played(base, 0, count)
                    checkpoints = [
                        Checkpoint(step=0, name="base", policy_digest=base.digest, row=row, against_base={})
                    ]
                    adapters.learn(base)
                    del base  # one model at a time
                    for candidate in source.candidates:
                        policy = adapters.open(candidate)
                        self._open(policy.digest)
                        after, row = self._played(policy, candidate.step, count)
                        gaps = against_base(before, after, MEASURES, suite.digest)
                        name, policy_digest = candidate.name, policy.digest
                        del policy
                        checkpoints.append(
                            Checkpoint(
                                step=candidate.step,
                                name=name,
                                policy_digest=policy_digest,
                                row=row,
                                against_base=gaps,
                            )
                        )
            except KeyboardInterrupt:
                raise Interrupted(
                    "SIGINT", where=f"after {done} of {counted(total, 'episodes')}", exit_code=130
                ) from None
            finally:
                shutil.rmtree(self._home.parent / "adapters", ignore_errors=True)
        chosen, chosen_by = _chosen(source, checkpoints, self._asked)
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
            temperature=decoding_of(project).temperature,
            checkpoints=corrected(checkpoints),
            chosen_step=chosen,
            chosen_by=chosen_by,
            left_out=tuple(source.damaged),
            notes=(OPTIMISTIC, *source.notes),
        )

    def _leave_out(self, unfit: Sequence[tuple[Candidate, AssayError]]) -> None:
        """Take out what cannot be played, where that was asked for; say what is left out and why."""
        source = self._source
        if unfit and len(unfit) == len(source.candidates):
            raise unfit[0][1]
        source.candidates = [
            each for each in source.candidates if each not in [candidate for candidate, _ in unfit]
        ]
        source.damaged += [
            f"{each.name}: expected {error.expected}, found {error.found}" for each, error in unfit
        ]
        _refuse_damaged(source, self._asked)
        for said in source.damaged:
            complain(f"left out: {said}")
        if not source.candidates:
            fix = (
                "let the training go on, or name a run that has some; ./run assay runs watch shows how far"
                " one is"
            )
            raise ConfigError("checkpoints after step 0", found="none", where=str(self._asked.path), fix=fix)

    def _open(self, policy_digest: str) -> None:
        """Write down, before it happens, that a policy is let loose on held-out work, record by record."""
        if self._asked.heldout:
            note_opening(self._project, STAGE, self._suite, policy_digest)

    def _played(self, policy: Policy, step: int, count: Advance) -> tuple[list[Episode], Row]:
        """Play the suite as a validation does, sampled and once greedily, and return the row it gives."""
        params, suite = self._project.params, self._suite
        played: dict[bool, list[Episode]] = {}
        for greedy in (False, True):
            part = replace(suite, draws=1) if greedy else suite
            key = digest([self._how, policy.digest, part.digest, greedy])
            played[greedy] = measure(
                policy,
                self._task,
                part,
                decoding_of(self._project, greedy=greedy),
                batch_size=params.generation.batch_size,
                progress=lambda n: count(n, f"step {step}"),
                retries=params.health.retries,
                kept=KeptEpisodes(self._home / key[:16], key),
            )
        steps = 1 if step == 0 else self._source.steps
        row = row_of_validation(played[False], played[True], suite.digest, step=step, steps=steps or 1)
        return played[False], row if steps is not None else row | {"fraction_done": None}


def _chosen(source: Source, checkpoints: list[Checkpoint], asked: Asked) -> tuple[int | None, str | None]:
    if source.trained is not None:
        return source.trained.chosen_step, "chosen by the training"
    if asked.heldout:  # the best on held-out work must not even be pointed at
        return None, None
    rewards = [float(each.row["mean_reward"] or 0.0) for each in checkpoints]
    return checkpoints[rewards.index(max(rewards))].step, "the highest mean reward of this table"


def _refuse_damaged(source: Source, asked: Asked) -> None:
    if not source.damaged:
        return
    named = "; ".join(source.damaged[:3]) + (
        f" (and {len(source.damaged) - 3} more)" if len(source.damaged) > 3 else ""
    )
    if not asked.skip_damaged:
        fix = "restore them, or --skip-damaged sweeps the others and says in the table what was left out"
        raise RecordError(
            "whole checkpoints",
            found=f"{len(source.damaged)} damaged: {named}",
            where=str(asked.path),
            fix=fix,
        )


def _out(project: Project, source: Source, asked: Asked) -> Path:
    """Return where to write: nothing that a stage reads or writes, and nothing of a claim.

    Raises:
        ConfigError: --out is such a place, or a file.
    """
    question = digest([str(real(source.folder)), source.name, asked.split, asked.draws, asked.items])
    out = asked.out or project.scratch / STAGE / f"{source.name}-{asked.split}-{question[:8]}"
    if out.exists() and not out.is_dir():
        raise ConfigError(
            "a folder to write in", found="a file", where=f"--out {out}", fix="--out with another name"
        )
    for name in NOT_HERE:
        if real(out).is_relative_to(real(project.root / name)):
            expected = "a folder that is no part of the pipeline"
            raise ConfigError(
                expected,
                found=f"one in {name}/",
                where=f"--out {out}",
                fix="leave --out out, or name another",
            )
    return out


def write(out: Path, found: Sweep) -> None:
    """Write a sweep as record, tables and figure; equal sweeps give equal bytes."""
    rows, columns = sweep_rows(found)
    write_json(out / "sweep.json", found)
    write_csv(out / "sweep.csv", rows, columns)
    write_text(out / "sweep.md", sweep_markdown(found))
    for kind, content in render(sweep_figure(found)).items():
        write_bytes(out / f"sweep.{kind}", content)


def tell(found: Sweep) -> None:
    """Print the table, what its numbers are, and what may not be concluded from them."""
    say(f"{found.run}: {found.label}")
    frame = sweep_frame(found)
    say_table(list(frame.columns), [[str(cell) for cell in row] for row in frame.itertuples(index=False)])
    say(caption(found))
    say(f"note: {OPTIMISTIC}")
    if found.left_out:
        say(f"left out, damaged: {len(found.left_out)}")
