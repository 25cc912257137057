"""The other side of every speed measurement: TRL's GRPOTrainer and transformers' generate, as a user would
run them.

Nothing here plays through assay's engine. What both sides share is the work: model, adapter, items, worlds,
prompts, limits, learning rate and loss, by the very same settings (`grpo_config`). `same_conversation` checks
token by token that stock's prompts and observations are ours, and ends the measurement where they are not.

Multi-turn is TRL's `environment_factory`: an action is a call of the tool `act`; a claim is an answer without
a call, which is how TRL lets an episode end. A tokenizer that says how a completion becomes a call is a
user's business there; ours reads the surface as the task does, which costs less than TRL's own parser. TRL
has no limit of tokens a turn; it is given one by `generation_kwargs`. Where a completion runs into it, TRL
writes no end-of-sequence before the observation and ours does: one token less for stock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from transformers import TrainerCallback

from assay.core.decoding import Decoding
from assay.rollout.dataset.suite import Play
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.tasks.protocol import Task
from assay_tasks.collider.task import Collider

# The project's template, with what TRL asks of one: calls and results of tools are rendered, results as the
# user's turn.
TOOL_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + ('user' if message['role'] == 'tool' else message['role']) + '|>'"
    " }}{{ message['content'] }}{% for call in message.get('tool_calls') or [] %}{% set told ="
    " call['function'] %}{% if 'text' in told['arguments'] %}{{ told['arguments']['text'] }}{% else %}{{"
    " told['name'] }}{{ told['arguments'] }}{% endif %}{% endfor %}{{ '<|end|>' }}{% endfor %}{% if"
    " add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
VERDICTS = ("claim", "no_signal")
# Tokens after the prompt, by surface: more than eight turns can come to.
CONVERSATION = {"compact": 640, "json": 4000}
Tally = dict[str, float]


def free_of_determinism() -> None:
    """Undo what costs time for the sake of repeatable bits: stock is as fast as it can be."""
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = False


class Environment:
    """One collider episode as TRL's environment: `act` is its only tool."""

    def __init__(self, task: Collider, items: dict[str, Any]) -> None:
        self._task, self._items = task, items

    def reset(self, item_id: str, world_seed: int, **_: Any) -> None:
        """Begin an episode; the prompt is in the row already."""
        _, self.state = self._task.start(self._items[item_id], world_seed)
        self.earned, self.turns = 0.0, 0

    def act(self, text: str) -> str:
        """Do something and see what comes of it.

        Args:
            text: The action: rg4, or one JSON object.
        """
        self._played(text)
        return self._step.observation or ""

    def _played(self, text: str) -> None:
        self._step = self._task.step(self.state, text)
        self.state, self.turns = self._step.state, self.turns + 1
        self.earned += sum(self._step.parts.values())

    def _reward(self, answer: str) -> float:
        if self.state.ending is None:
            self._played(answer)
        return self.earned


def speaking(policy: Policy, task: Collider) -> Any:
    """Give the tokenizer what TRL's tool loop needs: a template that renders tools, and how a completion
    becomes a call."""
    tokenizer, dialogue = policy.tokenizer, policy.dialogue
    # Which mass a claim means depends on where the episode stands; that it is a claim does not.
    somewhere: Any = SimpleNamespace(briefing=SimpleNamespace(m0_gev=100.0))

    def parse_response(ids: list[int], **_: Any) -> dict[str, Any]:
        text = dialogue.text(ids)
        action = task.parse(text, somewhere).action
        if action is not None and action.kind in VERDICTS:
            return {"role": "assistant", "content": text}
        call = {"type": "function", "function": {"name": "act", "arguments": {"text": text}}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    tokenizer.chat_template = TOOL_TEMPLATE
    tokenizer.response_template = {"defaults": {"role": "assistant"}, "fields": {"content": {}}}
    tokenizer.parse_response = parse_response
    return tokenizer


class Clock(TrainerCallback):  # type: ignore[misc]
    """Takes the time from the end of the last step of warm-up to the end of the last step."""

    def __init__(self, warm_up: int, begin: Callable[[], None]) -> None:
        self._warm_up, self._begin = warm_up, begin
        self.wall = self.cpu = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin at once where there is no warm-up."""
        if not self._warm_up:
            self._start()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin, or look."""
        if state.global_step == self._warm_up:
            self._start()
        self.wall, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu

    def _start(self) -> None:
        self._begin()
        self._wall, self._cpu = time.perf_counter(), time.process_time()


def same_conversation(
    task: Task, dialogue: Dialogue, play: Play, prompt: Sequence[int], ids: Sequence[int], mask: Sequence[int]
) -> int:
    """Hold an episode of stock's against what our dialogue makes of the same completions; return the turns
    cut short.

    Raises:
        SystemExit: A prompt or an observation has other tokens.
    """
    messages, state = task.start(play.item, play.world_seed)
    if list(prompt) != dialogue.prompt(messages):
        raise SystemExit(f"stock's prompt of {play.item.id} has other tokens than ours: {prompt[:12]} ...")
    at = cut = 0
    while at < len(ids):
        end = at
        while end < len(ids) and mask[end]:
            end += 1
            if ids[end - 1] in dialogue.end_ids:
                break
        step = task.step(state, dialogue.text(ids[at:end]))
        state, at = step.state, end
        if at == len(ids):
            return cut
        told = at
        while told < len(ids) and not mask[told]:
            told += 1
        if list(ids[at:told]) != dialogue.reply(step.observation or "", last_id=dialogue.eos_id):
            raise SystemExit(
                f"stock's observation in {play.item.id} has other tokens than ours: {ids[at:told]}"
            )
        cut, at = cut + (ids[end - 1] not in dialogue.end_ids), told
    return cut


def turns_of(mask: Sequence[int]) -> int:
    """Return how many stretches of an episode the policy wrote; `mask` is 1 for its tokens."""
    return sum(1 for k, one in enumerate(mask) if one and (k == 0 or not mask[k - 1]))


def last_turn(mask: Sequence[int]) -> int:
    """Return where the last stretch that the policy wrote begins."""
    return max(k for k, one in enumerate(mask) if one and (k == 0 or not mask[k - 1]))


def plain_logprobs(model: Any, prompt: Sequence[int], ids: Sequence[int], temperature: float) -> torch.Tensor:
    """Return the log-probability of each of `ids` after `prompt` by one forward pass over all of them, as
    training takes."""
    device = next(model.parameters()).device
    whole = torch.tensor([[*prompt, *ids]], device=device)
    with torch.no_grad():
        logits = model(input_ids=whole, use_cache=False).logits[0, len(prompt) - 1 : -1].float() / temperature
    return torch.log_softmax(logits, -1).gather(1, whole[0, len(prompt) :, None]).squeeze(1)


def apart(
    model: Any,
    prompt: Sequence[int],
    ids: Sequence[int],
    logprobs: Sequence[float],
    mask: Sequence[int],
    temperature: float,
) -> float:
    """Return the largest difference between captured log-probabilities of an episode and those of a plain
    forward pass."""
    plain = plain_logprobs(model, prompt, ids, temperature)
    return float(((plain.cpu() - torch.tensor(logprobs)).abs() * torch.tensor(mask)).max())


def left_padded(rows: Sequence[Sequence[int]], pad: int, device: Any) -> dict[str, torch.Tensor]:
    """Return ids and mask [rows, longest], padded on the left as generate wants them."""
    width = max(map(len, rows))
    ids = torch.tensor([[pad] * (width - len(row)) + list(row) for row in rows], device=device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    return {"input_ids": ids, "attention_mask": mask}


def sampling(decoding: Decoding, policy: Policy) -> dict[str, Any]:
    """Return generate's arguments for a decoding."""
    chosen: dict[str, Any] = {
        "do_sample": decoding.temperature > 0,
        "max_new_tokens": decoding.max_new_tokens,
    }
    if decoding.temperature > 0:
        chosen |= {"temperature": decoding.temperature, "top_k": 0, "top_p": 1.0}
    return chosen | {"eos_token_id": list(policy.dialogue.end_ids), "pad_token_id": policy.pad_id}


def ended(ids: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return what a row wrote, up to and with what ended it."""
    return list(ids[: next((n for n, one in enumerate(ids, start=1) if one in ends), len(ids))])


def difference(policy: Policy, contexts: Sequence[Sequence[int]], decoding: Decoding) -> float:
    """Return the largest difference between generate's log-probabilities of what it samples and those of a
    plain forward."""
    model, device = policy.model, next(policy.model.parameters()).device
    inputs = left_padded(contexts, policy.pad_id, device)
    with torch.no_grad():
        out = model.generate(
            **inputs, **sampling(decoding, policy), return_dict_in_generate=True, output_logits=True
        )
    worst, width = 0.0, inputs["input_ids"].shape[1]
    for row, context in enumerate(contexts):
        ids = ended(out.sequences[row, width:].tolist(), policy.dialogue.end_ids)
        said = torch.stack(
            [
                torch.log_softmax(out.logits[k][row].float() / (decoding.temperature or 1.0), -1)[token]
                for k, token in enumerate(ids)
            ]
        )
        plain = plain_logprobs(model, context, ids, decoding.temperature or 1.0)
        worst = max(worst, float((said - plain).abs().max()))
    return worst


def trainer_of(
    policy: Policy,
    task: Task,
    rows: Sequence[dict[str, Any]],
    items: dict[str, Any],
    config: Any,
    clock: Clock,
    decoding: Decoding,
) -> Any:
    """Return TRL's trainer of this task: with an environment for the collider, with a reward function for one
    turn."""
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import GRPOTrainer  # type: ignore[attr-defined,unused-ignore]

    more: dict[str, Any] = {}
    if isinstance(task, Collider):
        config.max_completion_length = CONVERSATION[task.settings.surface]
        config.max_tool_calling_iterations = task.settings.max_turns - 1
        config.generation_kwargs = {"max_new_tokens": decoding.max_new_tokens}
        more["environment_factory"] = lambda: Environment(task, items)
        tokenizer = speaking(policy, task)

        def paid(completions: Any, environments: Any, **_: Any) -> list[float]:
            return [
                one._reward(answer(said[-1])) for one, said in zip(environments, completions, strict=True)
            ]

    else:
        config.max_completion_length, tokenizer = decoding.max_new_tokens, policy.tokenizer
        states = {
            key: task.start(item, 0)[1]
            for key, item in items.items()
            if any(row["item_id"] == key for row in rows)
        }

        def paid(completion_ids: Any, item_id: Any, **_: Any) -> list[float]:
            texts = [policy.dialogue.text(ids) for ids in completion_ids]
            return [
                sum(task.step(states[key], text).parts.values())
                for key, text in zip(item_id, texts, strict=True)
            ]

    trainer = GRPOTrainer(
        model=policy.model,
        reward_funcs=[paid],
        args=config,
        train_dataset=Dataset.from_list(list(rows)),
        processing_class=tokenizer,
        callbacks=[clock],
        **more,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def answer(message: dict[str, Any]) -> str:
    """Return what a parsed completion says: the text of its call, or its content."""
    calls = message.get("tool_calls")
    return str(calls[0]["function"]["arguments"]["text"] if calls else message["content"])


def play_naturally(
    policy: Policy, task: Task, plays: Sequence[Play], decoding: Decoding, batch_size: int
) -> list[Tally]:
    """Play as one does with transformers alone: each turn the whole conversation is rendered and read again.

    Returns the turns, policy tokens, reward, tokens read, tokens of the prompt and tokens behind it of each
    episode.
    """
    tokenizer, model, ends = policy.tokenizer, policy.model, policy.dialogue.end_ids
    device, found = next(model.parameters()).device, list[Tally]()
    model.eval()
    for start in range(0, len(plays), batch_size):
        opened = [task.start(play.item, play.world_seed) for play in plays[start : start + batch_size]]
        talks, states = [list(messages) for messages, _ in opened], [state for _, state in opened]
        tallies = [
            dict.fromkeys(("turns", "tokens", "reward", "read", "prompt", "after"), 0.0) for _ in opened
        ]
        active = list(range(len(opened)))
        while active:
            texts = [
                tokenizer.apply_chat_template(talks[k], tokenize=False, add_generation_prompt=True)
                for k in active
            ]
            inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False).to(device)
            inputs.pop("token_type_ids", None)
            with torch.no_grad():
                out = model.generate(**inputs, **sampling(decoding, policy))
            written = out[:, inputs["input_ids"].shape[1] :].tolist()
            read, going = inputs["attention_mask"].sum(1).tolist(), []
            for k, ids, n in zip(active, written, read, strict=True):
                own = ended(ids, ends)
                text = policy.dialogue.text(own)
                step = task.step(states[k], text)
                states[k], tally = step.state, tallies[k]
                came = {"turns": 1, "tokens": len(own), "read": n, "reward": sum(step.parts.values())}
                for name, value in came.items():
                    tally[name] += value
                tally["prompt"] = tally["prompt"] or n
                tally["after"] = n + len(own) - tally["prompt"]
                if step.ending is None:
                    going.append(k)
                    talks[k] += [
                        {"role": "assistant", "content": text},
                        {"role": "user", "content": step.observation or ""},
                    ]
            active = going
        found += tallies
    return found
