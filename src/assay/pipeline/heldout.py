"""What pre_eval and post_eval have in common: the held-out suite, opened once with one policy."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from assay.core.console import complain, progress, say
from assay.core.counting import counted
from assay.core.provenance import hardware
from assay.core.records import Episode
from assay.core.storage.files import remove
from assay.core.storage.json import digest, write_json, write_jsonl
from assay.dataset.suite import Play, Suite
from assay.evaluation.alarms import alarm_said, alarms, collapsed_said, cuts_said, field_shares
from assay.evaluation.measure import measure
from assay.evaluation.measures import mean_of
from assay.evaluation.phases import Phases, latency
from assay.evaluation.rollout import Bounding
from assay.pipeline.inputs import decoding_of, heldout_suite, secondary_file, secondary_suites, task_of
from assay.pipeline.note_openings import note_opening
from assay.pipeline.project import Project
from assay.pipeline.resume import KeptEpisodes, locked, machine_of, run_key, say_other_machine
from assay.policy.model import Policy
from assay.policy.processes import ALONE, Processes
from assay.tasks.protocol import Task, answer_key


class Beside(Protocol):
    """What else is played in the same call: `rivals.play_rivals`."""

    def __call__(self, *, folder: Path, key: str) -> None:
        """Play; what was played before an interruption is kept in the folder, under a digest of all that
        decides it."""
        ...


def evaluate(
    project: Project,
    policy: Policy,
    name: str,
    *,
    reads: Sequence[str] = (),
    stage: str | None = None,
    greedy: bool = True,
    again: bool = False,
    secondary: bool = False,
    processes: Processes = ALONE,
    beside: Beside | None = None,
) -> None:
    """Play the held-out suite and write the raw episodes: `<name>.jsonl` and `<name>_greedy.jsonl`.

    An interrupted call is gone on with: batches that had ended are kept in .scratch/ until all of this is
    written, and taken up by the next call with the same inputs, policy and machine. How long playing took
    goes to evidence/observed/, since a clock never gives the same result twice. Several processes share the
    suite out; the main one writes.

    Args:
        project: Where everything lies.
        policy: Who plays.
        name: Of the files.
        reads: READS of the stage.
        stage: Its name in dvc.yaml; that of the files if not given.
        greedy: Whether to play greedily as well.
        again: Whether with other sampling seeds than everybody's, which is for the base's second time.
        secondary: Whether to play the secondary suites as well: `<name>_secondary/<suite>.jsonl`.
        processes: Everyone who plays.
        beside: Plays on with the same policy before anything kept is forgotten.

    Raises:
        RunningAlready: Another call is at the same evaluation.
        ConfigError: The processes do not see the same inputs, or compute on different machines.
        EnvironmentLost: The environment failed for good.
    """
    parts = [(name, heldout_suite(project, again=again), False)]
    if greedy:
        parts.append((f"{name}_greedy", heldout_suite(project, draws=1), True))
    opened = [parts[0][1]]
    for other, suite in (secondary_suites(project) if secondary else {}).items():
        parts.append((secondary_file(name, other), suite, False))
        opened.append(suite)
    run = run_key(project, stage or name, reads).digest
    processes.agree("run and policy", (run, policy.digest))
    # Another processor may round otherwise, and the episodes of one evaluation come from machines of one
    # kind.
    machine = machine_of(project)
    processes.agree("kind of machine", (hardware(), machine))
    key = digest([run, policy.digest, hardware(), machine])
    folder = project.scratch / (stage or name) / key[:16]
    with ExitStack() as held:
        with processes.as_one():
            if processes.main:
                held.enter_context(locked(folder))
                say_other_machine(folder, digest([run, policy.digest]), machine)
                for suite in opened:
                    note_opening(project, stage or name, suite, policy.digest, base=policy.base_digest)
        for label, suite, is_greedy in parts:
            kept = KeptEpisodes(folder / label, digest([key, label, suite.digest]))
            _one(project, policy, label, suite, is_greedy, kept, processes)
        if beside is not None:
            beside(folder=folder, key=key)
        processes.gather(None)  # nobody forgets what the main process has not written yet
        shutil.rmtree(folder, ignore_errors=True)


def play_kept(
    project: Project,
    policy: Policy,
    label: str,
    task: Task,
    plays: Sequence[Play],
    kept: KeptEpisodes,
    *,
    greedy: bool = False,
    processes: Processes = ALONE,
    bound: Bounding | None = None,
) -> tuple[list[Episode], float]:
    """Play under a bar and return the episodes, in the order of the plays, and the seconds that this process
    played.

    Args:
        project: Whose settings hold.
        policy: Who plays.
        label: What the bar says.
        task: What is played.
        plays: Items with their draws and seeds.
        kept: Keeps what was played before an interruption, and knows what was played now.
        greedy: Whether the likeliest token is taken.
        processes: Everyone who plays.
        bound: Says of an item what may be written; None: anything.

    Raises:
        EnvironmentLost: The environment failed for good.
    """
    params, phases, decoding = project.params, Phases(), decoding_of(project, greedy=greedy)
    if bound is not None:  # not every engine can be bound
        decoding = replace(decoding, backend="cached", cuda_graphs=False, drafts=0)
    with progress(f"{label}: episodes", len(plays)) as advance:
        episodes = measure(
            policy,
            task,
            plays,
            decoding,
            batch_size=params.generation.batch_size,
            progress=advance,
            phases=phases,
            retries=params.health.retries,
            kept=kept,
            processes=processes,
            bound=bound,
        )
    return episodes, sum(phases.take().values())


def _one(
    project: Project,
    policy: Policy,
    label: str,
    suite: Suite,
    greedy: bool,
    kept: KeptEpisodes,
    processes: Processes,
) -> None:
    task = task_of(project)
    episodes, seconds = play_kept(
        project, policy, label, task, suite.plays(), kept, greedy=greedy, processes=processes
    )
    seconds = max(processes.gather(seconds))
    if not processes.main:
        return
    write_jsonl(
        project.results(f"{label}.jsonl"),
        [each.model_copy(update={"policy": policy.digest}) for each in episodes],
    )
    n_kept = len(episodes) - len(kept.played)
    clock = project.observed(f"{label.replace('/', '_')}_clock.json")
    if kept.played:
        write_json(clock, latency(kept.played, seconds, kept=n_kept, processes=processes.world_size))
    else:
        remove(clock)  # nothing was measured, and an older clock is not of this
    if n_kept:
        were = "was" if n_kept == 1 else "were"
        say(f"{label}: {n_kept} of {counted(len(episodes), 'episodes')} {were} kept from an interrupted call")
    for alarm in alarms(task, episodes):
        complain(alarm_said(alarm, f"episodes of {label}"))
    told = field_shares(answer_key(task), {item.id: item for item in suite.items}, episodes)
    for said in collapsed_said(told, f"answers of {label}"):
        complain(said)
    if cut := cuts_said(episodes):
        say(f"{label}: {cut}")
    success = mean_of(episodes, "success_rate")
    say(
        f"{label}: success {success:.1%} ({counted(len(suite.items), 'items')} x"
        f" {counted(suite.draws, 'draws')})"
    )
