"""How messages become token ids, once: opened by the chat template, carried on token by token, never re-tokenised."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from assay.errors import PolicyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = dict[str, str]

# Two letters that no template writes by itself, used to find where a template puts a message's content.
_ASSISTANT_MARK, _USER_MARK = "\u0416\u0416", "\u0429\u0429"


class Dialogue:
    """Turns messages into token ids by a tokenizer's chat template.

    A template is applied to whole conversations; re-rendering the history after each turn may change tokens the
    policy has already written (templates that strip earlier reasoning do). So only the opening is rendered; what
    stands between one completion and the next is cut from the template once, as text around two marks.

    Args:
        tokenizer: One with a chat template that knows the roles user and assistant.

    Raises:
        PolicyError: The tokenizer has no template, no end-of-sequence token, or a template that drops messages.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        # Copies of a group are often told the same, and reading a text takes longer than looking it up.
        self._told = lru_cache(maxsize=512)(lambda observation: tuple(self._ids(self._before + observation + self._after)))
        where = str(getattr(tokenizer, "name_or_path", "") or "the tokenizer")
        if not getattr(tokenizer, "chat_template", None):
            raise PolicyError(
                "a chat template", found="none", where=where, fix="use an instruct model, or add chat_template.jinja"
            )
        if tokenizer.eos_token_id is None:
            raise PolicyError("an end-of-sequence token", found="none", where=where, fix="set eos_token")
        self.eos_id = int(tokenizer.eos_token_id)
        rendered = self._render(
            [
                {"role": "user", "content": "."},
                {"role": "assistant", "content": _ASSISTANT_MARK},
                {"role": "user", "content": _USER_MARK},
            ],
            open_turn=True,
        )
        if rendered.count(_ASSISTANT_MARK) != 1 or rendered.count(_USER_MARK) != 1:
            raise PolicyError(
                "a chat template that keeps every message",
                found="one that drops or repeats messages",
                where=where,
                fix="use a template for multi-turn conversations",
            )
        self._before, self._after = rendered.split(_ASSISTANT_MARK)[1].split(_USER_MARK)

    def _render(self, messages: Sequence[Message], *, open_turn: bool) -> str:
        text = self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=open_turn)
        assert isinstance(text, str)
        return text

    def _ids(self, text: str) -> list[int]:
        return [int(i) for i in self._tokenizer(text, add_special_tokens=False)["input_ids"]]

    def opening(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of an opening, up to where the policy starts to write."""
        return self._ids(self._render(messages, open_turn=True))

    def reply(self, observation: str, *, ended: bool) -> list[int]:
        """Return the token ids between a completion and the next one.

        Args:
            observation: What the policy is told.
            ended: Whether the completion already wrote end-of-sequence, which is then not repeated.
        """
        ids = list(self._told(observation))
        has_eos = bool(ids) and ids[0] == self.eos_id
        if ended and has_eos:
            return ids[1:]
        return ids if ended or has_eos else [self.eos_id, *ids]

    def whole(self, messages: Sequence[Message]) -> tuple[list[int], list[int]]:
        """Return ids and mask (1 = written by the assistant) of a finished dialogue, assembled as in play.

        Args:
            messages: Opening user messages, then assistant and user in turn, an assistant's last.
        """
        first = next(i for i, message in enumerate(messages) if message["role"] == "assistant")
        ids = self.opening(messages[:first])
        mask = [0] * len(ids)
        for message in messages[first:]:
            if message["role"] == "assistant":
                new, written = [*self._ids(message["content"]), self.eos_id], 1
            else:
                new, written = self.reply(message["content"], ended=True), 0
            ids += new
            mask += [written] * len(new)
        return ids, mask

    def text(self, completion_ids: Sequence[int]) -> str:
        """Return a completion's text exactly as decoded, without the end-of-sequence that closed it."""
        ids = list(completion_ids[:-1] if completion_ids and completion_ids[-1] == self.eos_id else completion_ids)
        return str(self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
