"""Two sides of one measurement, each in processes of its own, asked in turn: ours and stock on the same work.

A process a side makes the peak of memory that side's own, and its imports are made once. Seconds are those of
the steps (or the evaluation) alone; building a trainer, validations and checks lie outside of them.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import resource
import socket
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from benchmarks import json_base, logging_cost, stock
from benchmarks.common import changed
from benchmarks.floors import Shape, Talk, least_work, product_rate
from transformers.utils.logging import disable_progress_bar

from assay.core.config.settings import Params
from assay.core.decoding import Decoding
from assay.core.records import Episode
from assay.core.seeds import derive_seed
from assay.pipeline.inputs import decoding_of
from assay.pipeline.policies import open_policy
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Play, Suite, choose
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.rollout import Pace, play
from assay.rollout.policy.processes import Processes

NEVER = 10**6
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
MIB = 2**20
MANY = 4096  # rows of a product as wide as it gets when prompts are read or learned from


def short(params: Params, steps: int, seed: int, processes: int = 1) -> Params:
    """Return the settings with a seed, so many processes and few steps, looked at and saved at both ends."""
    return changed(
        params.model_copy(update={"seed": seed}),
        train={"steps": steps},
        validation={"items": 4, "draws": 1, "interval": NEVER},
        checkpoint={"every": NEVER},
        claim={"checkpoint_rule": "last"},
        health={"preflight": False},
        distributed={"processes": processes},
    )


class Side:
    """What both sides are asked for. A training begins from the base each time."""

    threads = 1

    def __init__(self, task: str) -> None:
        warnings.filterwarnings("ignore", category=FutureWarning)
        disable_progress_bar()
        self.project = json_base.base_project(task)
        self.params, self.task = self.project.params, self.project.task()
        self.items = {item.id: item for item in self.project.items("train")}
        generation = self.params.generation
        self.decoding = Decoding(generation.temperature, self.params.task.max_new_tokens[generation.surface])
        torch.set_num_threads(self.threads)
        self.policy: Any = None

    def about(self) -> dict[str, Any]:
        """Return what is known of the JSON base; nothing of any other, which has passed its gates."""
        facts = self.project.root / json_base.FACTS
        return dict(json.loads(facts.read_text(encoding="utf-8"))) if facts.is_file() else {}

    def rates(self, rows: int) -> dict[str, float]:
        """Return operations a second of products as wide as a batch that is read, and of one token of each of
        `rows`."""
        shape = Shape.of(self.policy.model.config)
        return {"read": product_rate(shape, MANY), "written": product_rate(shape, rows)}

    def suite(self, episodes: int) -> Suite:
        """Return a suite of training items, four draws each: a measurement of speed opens no held-out
        item."""
        return choose(list(self.items.values()), episodes // 4, split="train", draws=4, seed=1)

    def memory(self) -> dict[str, float]:
        """Return the most memory this process ever took, in MiB."""
        return {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB}

    def idle(self) -> dict[str, float]:
        """Return the peak so far: with libraries and base loaded, before any work."""
        import trl  # type: ignore[import-untyped,unused-ignore]  # noqa: F401

        self.policy = open_policy(self.project.params, self.project.root / "models/base")
        return self.memory()

    def tallied(
        self, talks: Sequence[Talk], rewards: Sequence[float], wall: float, cpu: float, *, learned: bool
    ) -> dict[str, float]:
        """Return what came of a measurement, and the FLOPs that it takes at least."""
        rank = self.params.train.lora.r if learned else 0
        least = least_work(Shape.of(self.policy.model.config), talks, rank)
        return {
            "episodes": len(talks),
            "turns": sum(talk.turns for talk in talks),
            "tokens": sum(talk.written for talk in talks),
            "reward": statistics.fmean(rewards) if rewards else 0.0,
            "wall": wall,
            "cpu": cpu,
            **{f"flops_{kind}": flops for kind, flops in least.items()},
        }


class Ours(Side):
    """assay as it is used, with all it logs; on several cores by as many processes."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        world = int(os.environ.get("WORLD_SIZE", "1"))
        self.params = changed(self.params, distributed={"processes": world})
        self.processes = Processes.joined(self.params.distributed)
        self.decoding = decoding_of(self.params, rollout=True)

    def train(
        self, warm_up: int, steps: int, seed: int, checked: bool = True, logged: bool = True
    ) -> dict[str, Any]:
        """Train warm_up + steps steps and return what came of the last `steps` of them, and the digest of the
        weights.

        Without a warm-up the clock begins as the first episode does, for validation comes before it.

        Args:
            warm_up: Steps before the clock begins; `steps` are timed behind them.
            steps: See above.
            seed: Of the training.
            checked: Whether log-probabilities of the first step are held against a plain forward pass.
            logged: Whether with digests, rows, alarms, clocks, events and live tables.
        """
        from assay.training.adapter import tensors_digest
        from assay.training.checkpoints.store import Checkpoints
        from assay.training.grpo import train
        from assay.training.log.history import History, Watch
        from assay.training.rollouts import GroupRollouts
        from assay.training.setup import Setup

        params = short(self.params, warm_up + steps, seed, self.processes.world_size)
        policy, history, watch = (
            open_policy(self.project.params, self.project.root / "models/base"),
            History(),
            Watch(self.task),
        )
        suite = Project(self.project.root, params).inputs("validation").validation
        begun, found, worst = dict[str, float](), dict[str, float](), [0.0]
        talks, rewards = list[Talk](), list[float]()
        original, playing = GroupRollouts.__call__, [0.0]

        def start() -> None:
            begun.update({name: clock() for name, clock in CLOCKS.items()})

        def kept(rollouts: GroupRollouts, item_ids: Sequence[str], step: int) -> dict[str, Any]:
            if not warm_up and step == 1:
                start()
            began = time.perf_counter()
            fields = original(rollouts, item_ids, step)
            playing[0] += (time.perf_counter() - began) if step > warm_up else 0.0
            if step == 1 and checked:  # before any clock runs
                worst[0] = max(self._apart(rollouts._policy.model, one) for one in rollouts.latest)
            if step > warm_up:
                talks.extend(talks_of(step, fields["prompt_ids"], fields["env_mask"]))
                rewards.extend(fields["episode_reward"])
            return fields

        with (
            tempfile.TemporaryDirectory(prefix="assay-speed-") as folder,
            mock.patch.object(GroupRollouts, "__call__", kept),
            contextlib.nullcontext() if logged else logging_cost.without(),
        ):
            live = logging_cost.live(Path(folder), params, history, watch, suite)

            def on_step(step: int) -> None:
                if logged:
                    live.step(step, lambda *_: None)
                if step == warm_up:
                    if logged:
                        logging_cost.lengthen(history)
                    start()
                if step == warm_up + steps:
                    found.update({name: clock() - begun[name] for name, clock in CLOCKS.items()})

            trained = train(
                policy,
                Setup(self.project.task(shaping=True), self.task, list(self.items.values()), suite, params),
                checkpoints=Checkpoints(Path(folder, "run"), "bench", 1),
                start=None,
                history=history,
                watch=watch,
                on_step=on_step,
                tell=live.tell if logged else lambda event, facts: None,
            )
        told = self.tallied(talks, rewards, **found, learned=True)
        told |= {"playing": playing[0], "logprob_difference": worst[0]}
        return told | {"weights": tensors_digest(sorted(trained.adapter.items()))}

    def evaluate(self, episodes: int, batch_size: int | None = None) -> dict[str, float]:
        """Measure the base on a suite, as a stage does."""
        wall, cpu = time.perf_counter(), time.process_time()
        size = batch_size or self.params.generation.batch_size
        plays, together = self.suite(episodes).plays(), self.processes
        played = measure(self.policy, self.task, plays, self.decoding, pace=Pace(size), processes=together)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        talks = [self._talk(one) for one in played]
        return self.tallied(talks, [one.reward for one in played], wall, cpu, learned=False)

    def _talk(self, one: Episode) -> Talk:
        dialogue, opened = self.policy.dialogue, self.task.start(self.items[one.item_id], 0)[0]
        told = [turn.observation for turn in one.turns if turn.observation is not None]
        after = one.n_tokens + sum(len(dialogue.reply(each, last_id=dialogue.eos_id)) for each in told)
        # The prompt is the same in every world.
        return Talk(one.item_id, len(dialogue.prompt(opened)), after, one.n_tokens, len(one.turns))

    def _apart(self, model: Any, one: Any) -> float:
        row = (one.prompt_ids, one.completion_ids, one.logprobs, one.mask)
        return stock.apart(model, *row, self.decoding.temperature)

    def check(self, episodes: int) -> dict[str, Any]:
        """Return the largest log-probability difference of some episodes, and the greedy answers to their
        openings."""
        plays = self.suite(episodes).plays()
        size, worst = self.params.generation.batch_size, 0.0
        for one in play(self.policy, self.task, plays, self.decoding, pace=Pace(size)):
            worst = max(worst, self._apart(self.policy.model, one))
        greedy = play(self.policy, self.task, plays, replace(self.decoding, temperature=0.0), pace=Pace(size))
        return {"logprob_difference": worst, "greedy": [one.episode.turns[0].completion for one in greedy]}


class Stock(Side):
    """TRL's trainer and transformers' generate; see stock.py."""

    def train(self, warm_up: int, steps: int, seed: int, checked: bool = True) -> dict[str, float]:
        """Train warm_up + steps steps and return what came of the last `steps` of them; the first is checked
        if asked for."""
        from assay.training.adapter import attach_adapter
        from assay.training.recipe import grpo_config, item_order

        params = short(self.params, warm_up + steps, seed)
        policy = attach_adapter(open_policy(self.project.params, self.project.root / "models/base"), params)
        stock.free_of_determinism()
        rows, at_once = [], params.train.items_per_step
        for k, item in enumerate(
            item_order(list(self.items.values()), params.train.steps * at_once, params.seed)
        ):
            world = derive_seed("world", "train", params.seed, k // at_once + 1, item.id)
            rows.append({"prompt": self.task.start(item, world)[0], "item_id": item.id, "world_seed": world})
        talks, rewards, cut, worst, playing = list[Talk](), list[float](), 0, 0.0, 0.0
        with tempfile.TemporaryDirectory(prefix="assay-stock-") as folder:
            config = grpo_config(params, folder)
            config.logging_strategy = "no"
            clock = stock.Clock(warm_up, lambda: (talks.clear(), rewards.clear()))
            task = self.project.task(shaping=True)
            trainer = stock.trainer_of(policy, task, rows, self.items, config, clock, self.decoding)
            generate, score, batch = trainer._generate, trainer._calculate_rewards, list[dict[str, Any]]()

            def kept(prompts: Any) -> Any:
                nonlocal cut, worst, playing
                began = time.perf_counter()
                out = generate(prompts)
                playing += (time.perf_counter() - began) if trainer.state.global_step >= warm_up else 0.0
                masks = out[2] or [[1] * len(ids) for ids in out[1]]
                if trainer.state.global_step == 0 and checked:
                    for row, prompt, ids, mask in zip(batch, *out[:2], masks, strict=True):
                        one = Play(self.items[row["item_id"]], 0, seed=0, world_seed=row["world_seed"])
                        cut += stock.same_conversation(task, policy.dialogue, one, prompt, ids, mask)
                    last = [stock.last_turn(mask) for mask in masks]
                    contexts = [
                        [*prompt, *ids[:end]] for prompt, ids, end in zip(*out[:2], last, strict=True)
                    ]
                    worst = max(worst, stock.difference(policy, contexts[::4], self.decoding))
                    trainer.model.train()
                talks.extend(talks_of(trainer.state.global_step, out[0], masks))
                return out

            def scored(inputs: Any, *rest: Any) -> Any:
                out = score(inputs, *rest)
                rewards.extend(out[:, 0].tolist())
                return out

            original = trainer._generate_and_score_completions

            def begun(inputs: Any) -> Any:
                batch[:] = inputs
                return original(inputs)

            trainer._generate, trainer._calculate_rewards, trainer._generate_and_score_completions = (
                kept,
                scored,
                begun,
            )
            trainer.train()
        return self.tallied(talks, rewards, clock.wall, clock.cpu, learned=True) | {
            "playing": playing,
            "logprob_difference": worst,
            "turns_cut": cut,
        }

    def evaluate(self, episodes: int, batch_size: int) -> dict[str, float]:
        """Play a suite the natural way."""
        stock.free_of_determinism()
        plays, wall, cpu = self.suite(episodes).plays(), time.perf_counter(), time.process_time()
        found = stock.play_naturally(self.policy, self.task, plays, self.decoding, batch_size)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        talks = [
            Talk(play.item.id, *(int(one[name]) for name in ("prompt", "after", "tokens", "turns")))
            for play, one in zip(plays, found, strict=True)
        ]
        told = self.tallied(talks, [one["reward"] for one in found], wall, cpu, learned=False)
        return told | {"read": sum(one["read"] for one in found)}

    def check(self, episodes: int) -> dict[str, Any]:
        """Return the largest log-probability difference at some openings, and generate's greedy answers to
        them."""
        plays = self.suite(episodes).plays()
        openings = [
            self.policy.dialogue.prompt(self.task.start(one.item, one.world_seed)[0]) for one in plays
        ]
        inputs = stock.left_padded(openings, self.policy.pad_id, "cpu")
        out = self.policy.model.generate(
            **inputs, **stock.sampling(Decoding(0.0, self.decoding.max_new_tokens), self.policy)
        )
        written = out[:, inputs["input_ids"].shape[1] :].tolist()
        ends = self.policy.dialogue.end_ids
        said = [self.policy.dialogue.text(stock.ended(ids, ends)) for ids in written]
        return {
            "logprob_difference": stock.difference(self.policy, openings[::8], self.decoding),
            "greedy": said,
        }


def talks_of(step: int, prompts: Sequence[Sequence[int]], masks: Sequence[Sequence[int]]) -> list[Talk]:
    """Return the episodes of a step in tokens; `masks` are 1 for the policy's. Weights change, so no step
    shares a prompt."""
    return [
        Talk((step, tuple(prompt)), len(prompt), len(mask), sum(mask), stock.turns_of(mask))
        for prompt, mask in zip(prompts, masks, strict=True)
    ]


class StockOnTwo(Stock):
    """The same on two threads."""

    threads = 2


SIDES: dict[str, Callable[[str], Side]] = {"ours": Ours, "stock": Stock, "stock_on_two": StockOnTwo}


def _serve(side: str, task: str, pipe: Any, place: Mapping[str, str]) -> None:
    os.environ.update(place)
    serving: Side | None = None
    while (asked := pipe.recv()) is not None:
        name, arguments = asked
        try:
            serving = serving or SIDES[side](task)
            pipe.send(("ok", getattr(serving, name)(**arguments)))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (told to who asked, where it is raised again or recorded)
            pipe.send(("error", f"{type(error).__name__}: {error}"))


class Worker:
    """One side in a process of its own; `place` is its place among several, as torchrun would tell it."""

    def __init__(self, side: str, task: str, place: Mapping[str, str] | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(side, task, theirs, place or {}), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, name: str, **arguments: Any) -> Any:
        """Return what the side returns.

        Raises:
            RuntimeError: It failed; says how.
        """
        self.send(name, arguments)
        return self.receive(name)

    def send(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Ask without waiting."""
        self._pipe.send((name, arguments))

    def receive(self, name: str) -> Any:
        """Return what the side returns to what it was asked last; raises as `ask` does."""
        try:
            kind, value = self._pipe.recv()
        except EOFError:
            raise RuntimeError(f"the process ended while at {name}") from None
        if kind == "error":
            raise RuntimeError(value)
        return value

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # it is gone already
            self._pipe.send(None)
            self._process.join(20)
        if self._process.is_alive():
            self._process.terminate()


class Together:
    """Ours in several processes that work together, asked as one."""

    def __init__(self, task: str, processes: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        place = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        ranks = [{**place, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]
        self._workers = [Worker("ours", task, rank) for rank in ranks]

    def ask(self, name: str, **arguments: Any) -> Any:
        """Return what they return: the longest of their times, the sum of their memory and of what each did.

        Raises:
            RuntimeError: One of them failed; says how.
        """
        for worker in self._workers:
            worker.send(name, arguments)
        found = [worker.receive(name) for worker in self._workers]
        told = dict(found[0])
        # In a training each plays episodes of its own; after a measurement each has all of them.
        own = ("episodes", "turns", "tokens", "flops_read", "flops_written", "flops_learned")
        for field in {"cpu", "peak_mib", *(own if name == "train" else ())} & set(told):
            told[field] = sum(each[field] for each in found)
        for field in {"wall", "playing", "logprob_difference"} & set(told):
            told[field] = max(each[field] for each in found)
        if name == "train":
            told["reward"] = statistics.fmean(each["reward"] for each in found)
        return told

    def __enter__(self) -> Together:
        return self

    def __exit__(self, *failure: Any) -> None:
        for worker in self._workers:
            worker.__exit__(*failure)
