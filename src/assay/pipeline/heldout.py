"""What pre_eval, post_eval and control have in common: the held-out suite, opened once with one policy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from assay.core.console import complain, progress, say
from assay.core.counting import counted
from assay.core.evidence_files import OBSERVED, place_of, scratch_of
from assay.core.provenance import hardware
from assay.core.records import Episode
from assay.core.storage.files import remove
from assay.core.storage.json import digest, write_json, write_jsonl
from assay.pipeline.inputs import Inputs, decoding_of
from assay.pipeline.note_openings import note_opening
from assay.pipeline.resume import KeptEpisodes, locked, machine_of, run_key, say_other_machine
from assay.rollout.dataset.suite import Play, Suite
from assay.rollout.evaluation.alarms import alarm_said, alarms, collapsed_said, cuts_said, field_shares
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.measures import mean_of
from assay.rollout.evaluation.phases import Phases, latency
from assay.rollout.evaluation.rollout import Bounding, Pace
from assay.rollout.policy.model import Policy
from assay.rollout.policy.processes import Processes
from assay.rollout.tasks.protocol import Task, answer_key


@dataclass(frozen=True, slots=True)
class Measurement:
    """One policy at the suites that were opened for it; what it has played outlasts an interruption.

    Attributes:
        root: Of the project.
        inputs: Task and settings.
        policy: Who plays.
        processes: Everyone who plays; they share each suite out, and the main one writes.
        folder: Keeps what was played before an interruption.
        key: Digest of all that decides the episodes.
    """

    root: Path
    inputs: Inputs
    policy: Policy
    processes: Processes
    folder: Path
    key: str

    def play(self, label: str, suite: Suite, *, greedy: bool = False) -> None:
        """Play a suite and write its raw episodes: `<label>.jsonl`, and the alarms that they raise.

        How long playing took goes to evidence/observed/, since a clock never gives the same result twice.

        Raises:
            EnvironmentLost: The environment failed for good.
        """
        task = self.inputs.task
        kept = KeptEpisodes(self.folder / label, digest([self.key, label, suite.digest]))
        episodes, seconds = self.played(label, task, suite.plays(), kept, greedy=greedy)
        seconds = max(self.processes.gather(seconds))
        if not self.processes.main:
            return
        self.write(label, episodes)
        n_kept = len(episodes) - len(kept.played)
        clock = self.root / OBSERVED / f"{label.replace('/', '_')}_clock.json"
        if kept.played:
            write_json(clock, latency(kept.played, seconds, kept=n_kept, processes=self.processes.world_size))
        else:
            remove(clock)  # nothing was measured, and an older clock is not of this
        if n_kept:
            were = "was" if n_kept == 1 else "were"
            said = f"{n_kept} of {counted(len(episodes), 'episodes')} {were} kept from an interrupted call"
            say(f"{label}: {said}")
        for alarm in alarms(task, episodes):
            complain(alarm_said(alarm, f"episodes of {label}"))
        told = field_shares(answer_key(task), {item.id: item for item in suite.items}, episodes)
        for said in collapsed_said(told, f"answers of {label}"):
            complain(said)
        if cut := cuts_said(episodes):
            say(f"{label}: {cut}")
        success = mean_of(episodes, "success_rate")
        items, draws = counted(len(suite.items), "items"), counted(suite.draws, "draws")
        say(f"{label}: success {success:.1%} ({items} x {draws})")

    def played(
        self,
        label: str,
        task: Task,
        plays: Sequence[Play],
        kept: KeptEpisodes | None = None,
        *,
        greedy: bool = False,
        bound: Bounding | None = None,
    ) -> tuple[list[Episode], float]:
        """Play under a bar and return the episodes, in the order of the plays, and the seconds that this
        process played.

        Args:
            label: What the bar says.
            task: What is played.
            plays: Items with their draws and seeds.
            kept: Keeps what was played before an interruption, and knows what was played now; None: a folder
                named by the label, for these very plays.
            greedy: Whether the likeliest token is taken.
            bound: Says of an item what may be written; None: anything.

        Raises:
            EnvironmentLost: The environment failed for good.
        """
        if kept is None:
            seeds = [(play.item.id, play.draw, play.seed) for play in plays]
            kept = KeptEpisodes(self.folder / label, digest([self.key, label, seeds]))
        params, phases = self.inputs.params, Phases()
        decoding = decoding_of(params, greedy=greedy)
        if bound is not None:  # not every engine can be bound
            decoding = replace(decoding, backend="cached", cuda_graphs=False, drafts=0)
        with progress(f"{label}: episodes", len(plays)) as advance:
            episodes = measure(
                self.policy,
                task,
                plays,
                decoding,
                pace=Pace(
                    params.generation.batch_size,
                    progress=advance,
                    phases=phases,
                    retries=params.health.retries,
                ),
                kept=kept,
                processes=self.processes,
                bound=bound,
            )
        return episodes, sum(phases.take().values())

    def write(self, label: str, episodes: Sequence[Episode]) -> None:
        """Write episodes as those of this policy."""
        told = [each.model_copy(update={"policy": self.policy.digest}) for each in episodes]
        write_jsonl(self.root / place_of(f"{label}.jsonl"), told)


@contextmanager
def open_suites(
    root: Path,
    inputs: Inputs,
    policy: Policy,
    stage: str,
    reads: Sequence[str],
    *,
    suites: Sequence[Suite],
    processes: Processes,
) -> Iterator[Measurement]:
    """Note that a policy is let loose on suites, and let it play them.

    An interrupted call is gone on with: batches that had ended are kept in .scratch/ until all of this is
    written, and taken up by the next call with the same inputs, policy and machine.

    Args:
        root: Of the project.
        inputs: What is played by which settings.
        policy: Who plays.
        stage: Its name in dvc.yaml.
        reads: READS of the stage.
        suites: What is opened.
        processes: Everyone who plays.

    Raises:
        RunningAlready: Another call is at the same evaluation.
        ConfigError: The processes do not see the same inputs, or compute on different machines.
    """
    params = inputs.params
    run = run_key(root, params, stage, reads).digest
    processes.agree("run and policy", (run, policy.digest))
    # Another processor may round otherwise, and the episodes of one evaluation come from machines of one
    # kind.
    machine = machine_of(params.device)
    processes.agree("kind of machine", (hardware(), machine))
    key = digest([run, policy.digest, hardware(), machine])
    folder = scratch_of(root) / stage / key[:16]
    with ExitStack() as held:
        with processes.as_one():
            if processes.main:
                held.enter_context(locked(folder))
                say_other_machine(folder, digest([run, policy.digest]), machine)
                for suite in suites:
                    note_opening(root, params, stage, suite, policy.digest, base=policy.base_digest)
        yield Measurement(root, inputs, policy, processes, folder, key)
        processes.gather(None)  # nobody forgets what the main process has not written yet
        shutil.rmtree(folder, ignore_errors=True)
