"""The whole examination before a training: what the settings say, then task, text and weights, then a
probe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from assay.checks.doctor.forecast.passes import disk_finding, pass_findings, time_finding
from assay.checks.doctor.observed import Observed
from assay.checks.doctor.probe import MOST_ITEMS, play_probe, probe_findings
from assay.checks.doctor.settings import counts_findings, settings_findings
from assay.checks.doctor.texts import length_findings, render_prompts, text_findings, turns_of
from assay.checks.doctor.weights import adapter_bytes, weight_findings
from assay.checks.doctor.worlds import (
    Scripted,
    play_scripted,
    put_bad_completions,
    repetition,
    reward_size,
    trouble_findings,
)
from assay.checks.findings import MOST_SECONDS, Deadline, DoctorCheck, Finding, TooSlow
from assay.core.records import Episode
from assay.rollout.dataset.suite import Play
from assay.rollout.policy.model import Policy
from assay.rollout.tasks.protocol import Message, Task
from assay.training.rollouts import untouched
from assay.training.setup import Setup


@contextmanager
def as_it_was(model: Any) -> Iterator[None]:
    """Put a model back as it is now when the block ends, whatever was attached to it, and every random
    generator.

    Base weights are not copied: nothing in the block may write to them. An adapter that is attached replaces
    modules, freezes parameters and leaves attributes behind; all of this is undone.
    """
    modules = [(module, dict(module._modules), module.training) for module in model.modules()]
    gradients = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    hooks = [
        (module, dict(module._forward_hooks), dict(module._forward_pre_hooks)) for module in model.modules()
    ]
    attributes, use_cache = set(vars(model)), getattr(model.config, "use_cache", None)
    try:
        with untouched():
            yield
    finally:
        for module, children, training in modules:
            module._modules.clear()
            module._modules.update(children)
            module.training = training
        for module, after, before in hooks:
            _restore(module._forward_hooks, after)
            _restore(module._forward_pre_hooks, before)
        for parameter, wanted, gradient in gradients:
            parameter.requires_grad_(wanted)
            parameter.grad = gradient
        for name in set(vars(model)) - attributes:
            delattr(model, name)
        if use_cache is not None:
            model.config.use_cache = use_cache
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _restore(hooks: Any, before: dict[int, Any]) -> None:
    for name in [name for name in hooks if name not in before]:
        del hooks[name]


N_SCRIPTED, N_PROMPTS, N_REPEATED = 32, 256, 12
SHARE_OF_PROMPTS = 0.25  # of the time, where rendering or starting an episode is slow
# An episode of the policy may take so many times the turns that scripted players took, or that the settings
# name.
PATIENCE, LEAST_TURNS = 4, 4
# Faults that would end the probe, or make all that it shows a consequence of what is known already.
FATAL = {"first messages", "prompts", "context", "base weights", "embedding rows", "task code", "endings"}


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything that is examined, and what scripted players did with it."""

    training: Setup
    observed: Observed
    plays: tuple[Play, ...]
    both: Scripted

    @property
    def as_task(self) -> Task:
        """The observed task, as whoever plays it sees it."""
        return cast(Task, self.observed)


def examine(policy: Policy, training: Setup, *, folder: Path, seconds: float = MOST_SECONDS) -> list[Finding]:
    """Return all that was found, in the order in which it was looked at; what is well is a finding too.

    The policy and all random generators are left as they were. The time is bounded: eight groups at most, and
    of a large model on a slow machine as many of them, completions as long, and as much of a learning pass as
    there is time for. What there was none for is a warning.

    Args:
        policy: The base, without an adapter.
        training: What it is to be trained on.
        folder: Where checkpoints will be written.
        seconds: That it may take.
    """
    deadline = Deadline(seconds)
    with as_it_was(policy.model):
        findings, case = _without_model(training)
        if case is None:
            return findings
        findings += _with_model(policy, case, folder, deadline)
        faults = [finding.check for finding in findings if finding.level == "fault"]
        if fatal := [check for check in faults if check in FATAL]:
            check = DoctorCheck("probe", "a few groups played with the base", "the examination itself")
            fix = "correct what is named there, then ./run assay doctor looks further"
            return [*findings, check.warning(f"none, because of {', '.join(fatal)}", fix)]
        return findings + _probe(policy, case, set(faults), deadline)


def examine_ahead(policy: Policy, training: Setup, *, folder: Path) -> list[Finding]:
    """Return what can be said of a base that is not built or loaded yet: as `examine`, without its weights
    and a probe."""
    findings, case = _without_model(training)
    return (
        findings if case is None else findings + _with_model(policy, case, folder, Deadline(), weights=False)
    )


def examine_without_model(training: Setup) -> list[Finding]:
    """Return what can be said before there is a base: settings, data, grader, reward, worlds."""
    return _without_model(training)[0]


def _without_model(training: Setup) -> tuple[list[Finding], _Case | None]:
    params, items = training.params, training.items
    findings = settings_findings(params) + counts_findings(params, items, training.validation.items)
    if not items:
        check = DoctorCheck("training items", "some", "train.jsonl")
        return [*findings, check.fault("none", "add records to train.jsonl")], None
    observed = Observed(training.task)
    plays = tuple(training.sample(N_SCRIPTED).plays())
    both, said = play_scripted(cast(Task, observed), plays, params)
    for each in (observed, Observed(training.judged, observed.problems)):
        put_bad_completions(each, plays)
    played, case = _played(plays, both), _Case(training, observed, plays, both)
    findings += [*said, *trouble_findings(observed).values()]
    findings.append(reward_size([episode.reward for _, episode in played], params))
    return findings + _repeated(case, played, "repetition"), case


def _played(plays: Sequence[Play], both: Scripted) -> list[tuple[Play, Episode]]:
    return [
        pair for episodes in (both.ceiling, both.floor) for pair in zip(plays, episodes or (), strict=False)
    ]


def _repeated(case: _Case, played: Sequence[tuple[Play, Episode]], name: str) -> list[Finding]:
    if not played or case.observed.problems.keys() & {"raised", "form", "endless"}:
        return []
    again = Observed(case.training.task)
    finding = repetition(cast(Task, again), played[:: max(1, len(played) // N_REPEATED)])
    return [finding.model_copy(update={"check": name})]


def _with_model(
    policy: Policy, case: _Case, folder: Path, deadline: Deadline, *, weights: bool = True
) -> list[Finding]:
    training, played = case.training, _played(case.plays, case.both)
    params, suite = training.params, training.validation
    first = case.as_task.start(case.plays[0].item, case.plays[0].world_seed)[0]
    findings = text_findings(policy, params, first, _conversation(case.as_task, played))
    findings.append(disk_finding(params, adapter_bytes(policy.model, params), folder))
    if any((finding.check, finding.level) == ("first messages", "fault") for finding in findings):
        return findings
    turns = turns_of(params, [episode for _, episode in played])
    case.observed.most_steps = PATIENCE * max(turns, LEAST_TURNS)
    plays = [*training.sample(N_PROMPTS).plays(), *suite.plays()[: N_PROMPTS * suite.draws]]
    once = list({each.item.id: each for each in plays}.values())
    rendered = render_prompts(
        policy, case.as_task, once, retries=params.health.retries, until=SHARE_OF_PROMPTS * deadline.left
    )
    findings += length_findings(policy, params, rendered, case.both.ceiling, turns)
    return findings + weight_findings(policy, params, rendered, loaded=weights)


def _probe(policy: Policy, case: _Case, faulty: set[str], deadline: Deadline) -> list[Finding]:
    """Return what playing and learning show; what scripted play showed to be faulty is not told again."""
    observed, params, known = case.observed, case.training.params, set(case.observed.problems)
    try:
        probe = play_probe(policy, observed, case.training.sample(MOST_ITEMS).items, params, deadline)
    except TooSlow as error:
        return [_left_out(error)]
    except (RuntimeError, IndexError, ValueError) as error:
        return [_playing_failed(error)]
    findings = _brought_to_light(observed, known) + probe_findings(probe, policy, params)
    if "repetition" not in faulty:
        findings += _repeated(
            case, list(zip(probe.plays, probe.episodes, strict=True)), "repetition of the probe"
        )
    learned_from = probe.rollouts or probe.unfinished
    passes: list[Finding] = []
    cost = None
    if learned_from and "LoRA targets" not in faulty:
        passes, cost = pass_findings(policy, learned_from, params, reading=probe.reading, deadline=deadline)
    findings += passes
    if probe.rollouts:
        findings.append(time_finding(params, probe.seconds_per_episode, cost))
    return findings


def _brought_to_light(observed: Observed, known: set[str]) -> list[Finding]:
    """Return what only the policy's own completions brought to light."""
    told = [finding for kind, finding in trouble_findings(observed).items() if kind not in known]
    return [
        finding.model_copy(update={"check": f"{finding.check} in the probe"})
        for finding in told
        if finding.level != "ok"
    ]


def _left_out(error: TooSlow) -> Finding:
    check = DoctorCheck(
        "probe",
        "a few groups played, and a pass that learns, within the time",
        "this machine, with this base",
    )
    fix = (
        "use a faster device or a smaller base; rewards, log-probabilities, gradients and time were not"
        " looked at"
    )
    return check.warning(f"none: {error}", fix)


def _playing_failed(error: Exception) -> Finding:
    check = DoctorCheck("playing", "a base that plays", "the base, on this device")
    fix = (
        "deterministic: false"
        if "deterministic" in str(error)
        else "lower generation.batch_size, or use another base.model"
    )
    return check.fault(f"{type(error).__name__}: {str(error).split(chr(10))[0]}", fix)


def _conversation(task: Task, played: Sequence[tuple[Play, Episode]]) -> list[Message] | None:
    """Return the longest scripted episode as messages, an assistant's last; None where all have one turn."""
    longest = max(played, key=lambda pair: len(pair[1].turns), default=None)
    if longest is None or len(longest[1].turns) < 2:
        return None
    each, episode = longest
    messages: list[Any] = list(task.start(each.item, each.world_seed)[0])
    for turn in episode.turns:
        messages.append({"role": "assistant", "content": turn.completion})
        if turn.observation is not None:
            messages.append({"role": "user", "content": turn.observation})
    return messages
