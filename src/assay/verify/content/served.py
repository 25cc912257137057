"""V3, what was asked over an address: every prompt in messages follows from task and answers, and every
answer is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from assay.core.config.training import ServedTraining
from assay.core.counting import counted
from assay.core.records import Episode
from assay.core.storage.json import dumps, read_record
from assay.dataset.external import ExternalFacts
from assay.dataset.served import ServedArm, ServedArms, ServedPin
from assay.dataset.suite import Suite
from assay.evaluation.trajectory import asked_digest
from assay.pipeline.rival_files import file_of
from assay.policy.served.request import Address
from assay.tasks.protocol import Message, Task
from assay.tasks.rivals import BEST_OF_N, FEW_SHOT
from assay.verify.checks import SHOWN, LookResult
from assay.verify.unpacked import FIX, Unpacked


def pins_hold(package: Unpacked) -> LookResult:
    """Check that what is pinned of base and tuned model is of the settings, and has the digests that are
    stored."""
    params, wrong = package.project.params, list[str]()
    base, told, tuned = params.served, package.told, params.train
    assert base is not None and isinstance(tuned, ServedTraining)
    pins = {
        "base.json": (
            ServedPin.model_validate_json(dumps(package.base.get("served"))),
            base,
            package.base.get("digest"),
        ),
        "train.json": (
            told.served if isinstance(told, ExternalFacts) else None,
            tuned.served,
            told.policy_digest,
        ),
    }
    for name, (pin, asked, stored) in pins.items():
        if pin is None or pin.digest != stored:
            wrong.append(f"{name}: the digest is not that of what is pinned")
        elif (pin.url, pin.identity.model, pin.identity.settings) != (
            Address.of(asked.url).url,
            asked.model,
            base.extra,
        ):
            wrong.append(f"{name}: address, name or fields are not those of params.yaml")
    if package.base.get("digest") != told.base_digest:
        wrong.append("base.json and train.json name different bases")
    if isinstance(told, ExternalFacts) and (told.sha256, told.how) != (tuned.told_digest, tuned.how):
        wrong.append("train.json: not of what params.yaml names")
    said = "base and tuned model have the digests of what is known of them; who answered, nobody can show"
    return LookResult(said, wrong)


def answers_follow(package: Unpacked) -> LookResult:
    """Check the messages behind every answer, and that every answer of an episode is counted."""
    wrong, n, turns = list[str](), 0, 0
    told: dict[str, ServedArm] = {}
    for stage in ("pre_eval", "post_eval"):
        told |= read_record(package.results(f"{stage}_served.json"), ServedArms, fix=FIX).arms
    for name in package.arms:
        episodes = package.episodes(name)
        n, turns = n + len(episodes), turns + sum(len(each.turns) for each in episodes)
        task = package.shown[0] if name == file_of(FEW_SHOT) else package.task
        wrong += (
            f"{name}.jsonl, {fault}" for fault in _otherwise_asked(task, package.suite_of(name), episodes)
        )
        wrong += _miscounted(name, episodes, told)
        if len(wrong) > SHOWN:
            break
    said = (
        f"{counted(turns, 'completions')} of {counted(n, 'episodes')} follow the messages"
        " whose digests are stored"
    )
    return LookResult(f"{said}; tokens are the server's word", wrong)


def _otherwise_asked(task: Task, suite: Suite, episodes: Sequence[Episode]) -> Iterator[str]:
    openings: dict[tuple[str, int], list[Message]] = {}
    for play, episode in zip(suite.plays(), episodes, strict=False):
        key = (play.item.id, play.world_seed)
        if key not in openings:
            openings[key] = task.start(play.item, play.world_seed)[0]
        messages = list(openings[key])
        for number, turn in enumerate(episode.turns, start=1):
            if turn.prompt_digest != asked_digest(messages):
                yield f"item {episode.item_id}, draw {episode.draw}: turn {number} was asked otherwise"
                break
            messages.append({"role": "assistant", "content": turn.completion})
            messages.append({"role": "user", "content": turn.observation or ""})


def _miscounted(name: str, episodes: Sequence[Episode], told: Mapping[str, ServedArm]) -> Iterator[str]:
    best = name == file_of(BEST_OF_N)  # where draws that did not count were answers too
    found = [arm for label, arm in told.items() if label == name or (best and label.startswith(f"{name}-"))]
    turns = [turn for episode in episodes for turn in episode.turns]
    answers, tokens = sum(arm.answers for arm in found), [arm.completion_tokens for arm in found]
    written, cut = sum(turn.n_tokens for turn in turns), sum(turn.truncated for turn in turns)
    ends = Counter[str]()
    for arm in found:
        ends.update(arm.finish_reasons)
    if {arm.policy_digest for arm in found} != {episode.policy for episode in episodes}:
        yield f"{name}.jsonl: of another policy than its answers"
    elif answers < len(turns) or (answers > len(turns) and not best):
        yield (
            f"{name}.jsonl: {counted(len(turns), 'completions')}, and {counted(answers, 'answers')}"
            " are counted"
        )
    elif None not in tokens and not best and written != sum(each or 0 for each in tokens):
        yield f"{name}.jsonl: {written} tokens, and the answers have others"
    # An answer without a reason may have ended at the limit or before it
    if ends.total() != answers or not (best or ends["length"] <= cut <= ends["length"] + ends[""]):
        yield f"{name}.jsonl: {counted(cut, 'turns')} cut, which is not why the answers ended"
