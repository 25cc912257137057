"""Episodes that the environment loses teach nothing and spoil nothing: what is learned from is exactly what
was played."""

from __future__ import annotations

import inspect
import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from trl import GRPOTrainer  # type: ignore[attr-defined,unused-ignore]

from assay.core.config.settings import Params
from assay.core.errors import EnvironmentLost, TrainingStopped
from assay.core.seeds import derive_seed
from assay.rollout.dataset.suite import choose
from assay.rollout.evaluation import retries as calls_again
from assay.rollout.evaluation.retries import GivenUp, tried
from assay.rollout.evaluation.rollout import Lost
from assay.training.adapter import attach_adapter, tensors_digest, trainable
from assay.training.recipe import item_order
from assay.training.rollouts import GroupRollouts, SideRollouts
from assay.training.trainer import NO_REWARD, TRL_LOGGER, Trainer
from tests.evaluation.failing_environment import Call, Failing, Timeout
from tests.training.crash_harness import ITEMS, Left, differences, policy, settings, training
from tests.training.toy_task import Letters


@pytest.fixture(autouse=True)
def no_waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environments of these tests fail without a wait between two calls, but for the test of
    waiting."""
    if "really_waits" not in request.node.name:
        monkeypatch.setattr(calls_again, "pause", lambda seconds: None)


TRIES = 3  # health.retries is 2
GROUP = 4
EPSILON = 1e-4  # TRL adds it to the deviation


class Crash(BaseException):
    """The end of the process."""


class Crashing(Failing):
    """Fails as told, and takes the process with it at one call."""

    def __init__(self, failures: Mapping[Call, int], at: Call) -> None:
        super().__init__(Letters(), failures)
        self._at = at

    def _fail(self, call: Call) -> None:
        if call == self._at:
            raise Crash
        super()._fail(call)


class Everywhere(dict[Call, int]):
    """Every call fails once or twice before it succeeds."""

    def get(self, call: Call, default: Any = None) -> int:
        return 1 + derive_seed("failures", *call) % 2


def met(params: Params, step: int, place: int = 0) -> tuple[str, int]:
    """Return item and world seed of a group: the place-th one of a training step."""
    per_step = params.train.items_per_step
    item = item_order(ITEMS, params.train.steps * per_step, params.seed)[(step - 1) * per_step + place]
    return item.id, derive_seed("world", "train", params.seed, step, item.id)


def losing(params: Params, *lost: tuple[int, int, int], call: str = "step 0") -> dict[Call, int]:
    """Return failures with which the first n members of groups are lost, for (step, place of the group,
    n)."""
    return {(call, *met(params, step, place)): TRIES * n for step, place, n in lost}


def rows(left: Left) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(left["ledger train_log"])
    return found


def trained(root: Path, params: Params, failures: Mapping[Call, int]) -> Left:
    """Train in an environment that fails as told, and return all that is left."""
    task: Any = Failing(Letters(), failures)
    return training(root, params, task)


class LookResult:
    """What the trainer was given and made of it in its first step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.played: list[Any] = []
        self.scored: dict[str, torch.Tensor] = {}
        self.gradients: dict[str, torch.Tensor] = {}
        play, score = GroupRollouts.__call__, Trainer._generate_and_score_completions
        clip = Trainer._clip_grad_norm

        def called(rollouts: GroupRollouts, *given: Any) -> Any:
            fields = play(rollouts, *given)
            self.played = self.played or list(rollouts.latest)
            return fields

        def scored(trainer: Trainer, inputs: Any) -> Any:
            found = score(trainer, inputs)
            self.scored = self.scored or {
                name: torch.as_tensor(value).clone() for name, value in found.items()
            }
            return found

        def clipped(trainer: Trainer, model: Any) -> Any:
            named = [
                (name, p.grad.clone()) for name, p in trainer.model.named_parameters() if p.grad is not None
            ]
            self.gradients = self.gradients or dict(named)
            return clip(trainer, model)

        monkeypatch.setattr(GroupRollouts, "__call__", called)
        monkeypatch.setattr(Trainer, "_generate_and_score_completions", scored)
        monkeypatch.setattr(Trainer, "_clip_grad_norm", clipped)


def by_hand(seen: LookResult, params: Params) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Return advantages of all members, and the gradients of the episodes that were played out, as if no
    other were."""
    advantages: list[float] = []
    for start in range(0, len(seen.played), GROUP):
        group = seen.played[start : start + GROUP]
        rewards = torch.tensor([each.episode.reward for each in group if not isinstance(each, Lost)])
        spread = rewards.std() if len(rewards) > 1 else torch.tensor(0.0)
        advantages += [
            (
                0.0
                if isinstance(each, Lost)
                else float((each.episode.reward - rewards.mean()) / (spread + EPSILON))
            )
            for each in group
        ]
    model = attach_adapter(policy(), params).model
    loss, tokens = torch.tensor(0.0), 0
    for each, advantage in zip(seen.played, advantages, strict=True):
        if isinstance(each, Lost):
            continue
        ids = torch.tensor([each.prompt_ids + each.completion_ids])
        logits = model(ids).logits[0, len(each.prompt_ids) - 1 : -1]
        chosen = logits.log_softmax(-1).gather(-1, torch.tensor(each.completion_ids)[:, None])[:, 0]
        mask = torch.tensor(each.mask)
        loss, tokens = loss - advantage * (chosen * mask).sum(), tokens + int(mask.sum())
    (loss / tokens).backward()
    return advantages, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    ("lost", "call"), [((1, 0), "judge"), ((2, 1), "step 0"), ((3, 0), "step 0"), ((4, 0), "judge")]
)
def test_a_group_teaches_what_it_would_without_its_lost_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: tuple[int, int], call: str
) -> None:
    plain: dict[str, Any] = {"lora": {"r": 4, "alpha": 8, "dropout": 0.0, "target_modules": "all-linear"}}
    # One micro-batch: what TRL scored is then the whole step, in the order in which it was played.
    plain |= {"beta": 0.0, "lr_scheduler": "constant", "warmup_steps": 0, "micro_batch_size": 2 * GROUP}
    plain["scale_rewards"] = "group"  # as `by_hand` does
    params = settings(1, train=plain, health={"max_lost_share": 1.0})
    failures = losing(params, (1, 0, lost[0]), (1, 1, lost[1]), call=call)
    seen = LookResult(monkeypatch)
    trained(tmp_path, params, failures)
    gone = [isinstance(each, Lost) for each in seen.played]
    assert gone == [place % GROUP < lost[place // GROUP] for place in range(2 * GROUP)]
    advantages, gradients = by_hand(seen, params)
    assert seen.scored["advantages"].tolist() == pytest.approx(advantages, abs=1e-5)
    assert any(advantages) and not seen.scored["advantages"][gone].any()
    counting = seen.scored["tool_mask"] * seen.scored["completion_mask"]
    assert not counting[gone].any() and counting[[not each for each in gone]].any(dim=1).all()
    tokens = sum(sum(each.mask) for each in seen.played if not isinstance(each, Lost))
    assert int(seen.scored["num_items_in_batch"]) == tokens
    assert set(seen.gradients) == set(gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(seen.gradients[name], gradient, rtol=1e-4, atol=1e-6)
    assert any(gradient.any() for gradient in gradients.values())


def test_a_step_of_which_nothing_is_left_moves_nothing_and_the_next_one_does(tmp_path: Path) -> None:
    params = settings(
        2, health={"max_lost_share": 1.0}, train={"beta": 0.0, "lr_scheduler": "constant", "warmup_steps": 0}
    )
    left = trained(tmp_path, params, losing(params, (1, 0, GROUP), (1, 1, GROUP)))
    first, second = rows(left)
    assert (first["lost"], first["reward"], first["grad_norm"]) == (2 * GROUP, None, 0.0)
    assert second["lost"] == 0 and second["grad_norm"] > 0.0
    untouched = tensors_digest(trainable(attach_adapter(policy(), params).model))
    assert first["digests"]["weights"] == untouched != second["digests"]["weights"]


def test_what_was_lost_and_what_was_tried_again_is_in_the_log_of_each_step(tmp_path: Path) -> None:
    params = settings(3)
    failures = losing(params, (1, 0, 1), (1, 1, 2)) | {
        ("judge", *met(params, 2)): 2,
        ("start", *met(params, 2, 1)): 1,
    }
    left = trained(tmp_path, params, failures)
    again = TRIES - 1
    assert [(row["lost"], row["retries"]) for row in rows(left)] == [(3, 3 * again), (0, 3), (0, 0)]
    components = json.loads(left["ledger reward_components"])
    assert [row["n"] for row in components] == [2 * GROUP - 3, 2 * GROUP, 2 * GROUP]


def test_more_losses_than_allowed_stop_the_training_and_name_item_and_reason(tmp_path: Path) -> None:
    params = settings(3, health={"max_lost_share": 0.25})
    within = losing(params, (2, 0, 2))
    trained(tmp_path / "within", params, within)
    with pytest.raises(TrainingStopped, match="3 of 8") as stop:
        trained(tmp_path / "beyond", params, losing(params, (2, 0, 3)))
    assert stop.value.exit_code == 4
    assert stop.value.where == f"step 2, item {met(params, 2)[0]}"
    assert (
        "Timeout: no answer to step 0 after 30 s" in stop.value.found and "long trace" not in stop.value.found
    )
    assert "health.max_lost_share" in stop.value.fix
    # The environment is well again: the training goes on, and ends as one that nothing had happened to.
    healed = training(tmp_path / "beyond", params, Letters())
    assert not differences(training(tmp_path / "clean", params, Letters()), healed)


def test_failures_that_a_retry_cures_change_no_bit_of_the_training(tmp_path: Path) -> None:
    params = settings(2)
    clean = training(tmp_path / "clean", params, Letters())
    cured = trained(tmp_path / "cured", params, Everywhere())
    assert all(row["retries"] > 0 and row["lost"] == 0 for row in rows(cured))
    assert differences(clean, cured) == ["ledger train_log", "train_log.jsonl"]
    assert [row | {"retries": 0} for row in rows(cured)] == rows(clean)
    assert len({row["digests"]["weights"] for row in rows(clean)}) == 2


def test_a_training_with_lost_episodes_goes_on_after_a_crash_as_if_there_had_been_none(
    tmp_path: Path,
) -> None:
    params = settings(5)
    failures = losing(params, (1, 0, 1), (2, 1, 2), (4, 0, 3), (5, 1, 1)) | {("judge", *met(params, 5)): 1}
    whole = trained(tmp_path / "whole", params, failures)
    assert [row["lost"] for row in rows(whole)] == [1, 2, 0, 3, 1]
    # Saved every second step: what was lost in step 4 is played, lost and counted once more
    for step in (4, 5):
        crashing: Any = Crashing(failures, ("judge", *met(params, step, 1)))
        with pytest.raises(Crash):
            training(tmp_path / "crashed", params, crashing)
    resumed = trained(tmp_path / "crashed", params, failures)
    assert not differences(whole, resumed)


def of_validation(params: Params, item_id: str, times: int, call: str = "judge") -> dict[Call, int]:
    return {(call, item_id, derive_seed("world", "validation", params.validation.seed, item_id)): times}


def test_a_first_validation_with_a_lost_episode_ends_the_training_before_it_has_begun(tmp_path: Path) -> None:
    params = settings(2)
    with pytest.raises(EnvironmentLost, match=ITEMS[0].id):
        trained(tmp_path, params, of_validation(params, ITEMS[0].id, TRIES))


def lost_in(params: Params, validations: Sequence[int], monkeypatch: pytest.MonkeyPatch, root: Path) -> Left:
    """Train with one episode of some validations lost, as if nothing else had failed."""
    played, made = SideRollouts.played, [0]

    def losing_one(player: SideRollouts, task: Any, suite: Any, temperature: float) -> Any:
        found = played(player, task, suite, temperature)
        made[0] += 1
        if (made[0] - 1) // 2 in validations and made[0] % 2:
            play = suite.plays()[0]
            found[0] = Lost(play, "Timeout: no answer", [0], [0], [0], [0.0], TRIES, TRIES - 1)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(SideRollouts, "played", losing_one)
        return training(root, params, Letters())


def facts(left: Left) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(left["train.json"])
    return found


def test_a_validation_that_loses_an_episode_measures_nothing_and_the_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = settings(6, validation={"interval": 1})
    whole = training(tmp_path / "whole", params, Letters())
    best = facts(whole)["chosen_step"]
    assert best > 0, "for this test, validation should choose a later step than the first"
    left = lost_in(params, [best], monkeypatch, tmp_path / "lost")
    assert json.loads(left["ledger validated"]) == [step for step in range(7) if step != best]
    assert facts(left)["chosen_step"] != best, "what was measured on fewer episodes chooses nothing"
    assert facts(left)["chain"] == facts(whole)["chain"], "and what is learned does not depend on it"
    alarms = [event for event in json.loads(left["ledger health"]) if event["rule"] == "infrastructure"]
    assert [(event["step"], event["level"]) for event in alarms] == [
        (best, "RED"),
        (best, "GREEN"),
    ]  # 1 of 6 is much
    assert alarms[0]["message"].startswith(
        "1 of the 6 episodes of a validation were lost, so that it measured nothing"
    )
    assert [e["rule"] for e in facts(left)["health"]["rules"]].count("infrastructure") == 1
    assert (
        f"\n{best}," not in left["checkpoint_evals.csv"].decode()
        and "\n0," in left["checkpoint_evals.csv"].decode()
    )


def test_the_last_checkpoint_is_published_where_the_rule_asks_for_it_whatever_its_validation_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = settings(2, validation={"interval": 1}, claim={"checkpoint_rule": "last"})
    whole = training(tmp_path / "whole", params, Letters())
    left = lost_in(params, [2], monkeypatch, tmp_path / "lost")
    assert facts(left)["chosen_step"] == facts(whole)["chosen_step"] == 2
    adapter = "models/adapter/adapter_model.safetensors"
    assert left[adapter] == whole[adapter]


def test_the_texts_the_kl_is_measured_on_stay_the_same_when_a_training_is_taken_up(tmp_path: Path) -> None:
    params = settings(3, train={"kl_probe_episodes": 4})
    suite = choose(ITEMS, 4, split="train", draws=1, seed=0)
    gone = {("step 0", each.item.id, each.world_seed): TRIES for each in suite.plays()[:2]}
    whole = trained(tmp_path / "whole", params, gone)
    assert len(json.loads(whole["ledger probe"])) == 2, "half of them were lost, and left out"
    crash = ("judge", *met(params, 3, 1))
    with pytest.raises(Crash):
        training(tmp_path / "crashed", params, Crashing(gone, crash))  # type: ignore[arg-type]
    # The environment is well when it goes on: other texts would be played now, and the KL would be of another
    # scale.
    assert not differences(whole, training(tmp_path / "crashed", params, Letters()))


def test_a_probe_of_which_most_is_lost_ends_the_training_before_it_has_begun(tmp_path: Path) -> None:
    params = settings(2, train={"kl_probe_episodes": 4})
    suite = choose(ITEMS, 4, split="train", draws=1, seed=0)
    gone = {("step 0", each.item.id, each.world_seed): TRIES for each in suite.plays()[:3]}
    with pytest.raises(EnvironmentLost, match="no answer to step 0"):
        trained(tmp_path, params, gone)


def test_a_prompt_is_looked_at_again_where_the_environment_fails_for_a_moment(tmp_path: Path) -> None:
    params = settings(1)
    opening = {("start", item.id, 0): TRIES - 1 for item in ITEMS}
    task: Any = Failing(Letters(max_prompt_tokens=64), opening)
    training(tmp_path / "well", params, task)
    looked_at = [task.calls[call] for call in opening if call in task.calls]
    assert looked_at == [TRIES] * len(looked_at) and len(looked_at) >= 2, "of the items that will be played"
    gone: Any = Failing(Letters(max_prompt_tokens=64), {("start", ITEMS[0].id, 0): TRIES})
    with pytest.raises(EnvironmentLost, match=ITEMS[0].id):
        training(tmp_path / "gone", params, gone)


def test_trl_says_nothing_of_an_episode_that_was_lost_and_all_else(caplog: pytest.LogCaptureFixture) -> None:
    for line in (
        "All reward functions returned None for the following kwargs:\n{'prompt': 'long'}",
        "Something else",
    ):
        logging.getLogger(TRL_LOGGER).warning(line)
    assert [record.getMessage() for record in caplog.records] == ["Something else"]
    source = inspect.getsource(inspect.getmodule(GRPOTrainer))  # type: ignore[arg-type]
    assert (
        f'logger.warning(\n                f"{NO_REWARD}' in source and GRPOTrainer.__module__ == TRL_LOGGER
    )


# The wait before a further call.


def test_the_wait_grows_from_call_to_call_and_only_failures_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(calls_again, "pause", waited.append)
    calls = [0]

    def call() -> str:
        calls[0] += 1
        if calls[0] <= 3:
            raise Timeout("busy")
        return "well"

    assert tried(5, call) == ("well", 3)
    assert waited == [0.05, 0.2, 0.8]
    assert tried(5, call) == ("well", 0) and len(waited) == 3
    calls[0] = -10
    with pytest.raises(GivenUp):
        tried(2, call)
    assert waited[3:] == [0.05, 0.2], "there is nothing to wait for after the last"


def test_a_wait_really_waits() -> None:
    begun = time.monotonic()
    calls_again.pause(0.02)
    assert time.monotonic() - begun >= 0.02
