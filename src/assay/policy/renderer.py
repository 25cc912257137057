"""How messages become token ids, once: opened by the chat template, carried on token by token, never
re-tokenised."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from assay.core.errors import PolicyError
from assay.policy.chat_template import ChatTemplate, Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MOST_TOLD = 4096  # texts whose ids are remembered
MOST_WRITTEN, SHORT = 1024, 64  # completions whose texts are, where they are no longer than so many tokens
_MARK = re.compile(r"[<\[].*[>\]]", re.DOTALL)
MOST_OPENED = 64  # openings whose ids are: at first many worlds look alike


class Dialogue:
    """Turns messages into token ids by a tokenizer's chat template.

    A template is applied to whole conversations; re-rendering the history after each turn may change tokens
    the policy has already written (templates that strip earlier reasoning do). So only the opening is
    rendered; what stands between one completion and the next is cut from the template once, as text around
    two marks.

    `eos_id` is the special token that the template writes right behind an answer, else the tokenizer's
    end-of-sequence. `end_ids` are all tokens that end a completion: that one first, the tokenizer's, and
    those that the model names.

    Args:
        tokenizer: One with a chat template that knows the roles user and assistant.
        settings: What the template is given (`base.template`).
        ends: Further tokens that end a completion, as of a model's generation_config.json.

    Raises:
        PolicyError: The tokenizer has no template, no end-of-sequence token, or a template that cannot be
            carried on token by token.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        settings: Mapping[str, bool | int | str] | None = None,
        ends: int | Iterable[int] | None = None,
    ) -> None:
        self._tokenizer, self._template = tokenizer, ChatTemplate(tokenizer, settings or {})
        self._decoded, self._opened = (
            lru_cache(MOST_WRITTEN)(self._decode),
            lru_cache(MOST_OPENED)(self._open),
        )
        if tokenizer.eos_token_id is None:
            raise PolicyError(
                "an end-of-sequence token", found="none", where=self._template.where, fix="set eos_token"
            )
        between = self._template.between()
        self._around, self._told = between.around, dict[str, list[int]]()
        named = [int(tokenizer.eos_token_id), *([ends] if isinstance(ends, int) else ends or [])]
        if not all(isinstance(end, int) for end in named):
            where = f"{self._template.where}, generation_config.json, eos_token_id"
            raise PolicyError(
                "numbers of tokens", found=str(ends), where=where, fix="put the model's own file back"
            )
        closing = _special_at(tokenizer, between.before)
        # Behind a last answer as well, else it is the next message's header: that ends an answer only if the
        # model says so.
        if closing not in named and closing != _special_at(tokenizer, between.last):
            closing = None
        self.eos_id = named[0] if closing is None else closing
        self.end_ids = tuple(dict.fromkeys([self.eos_id, *named]))
        # How many of the tokens between two answers close the first: 0 where the template writes nothing of
        # the kind.
        self._closing = 0 if closing is None else self._ids(between.before).index(closing) + 1

    def _ids(self, text: str) -> list[int]:
        return [int(i) for i in self._tokenizer(text, add_special_tokens=False)["input_ids"]]

    @property
    def closes(self) -> bool:
        """Whether the template itself writes an end behind an answer."""
        return self._closing > 0

    def render(self, messages: Sequence[Message], *, open_turn: bool) -> str:
        """Return a whole conversation as the template writes it; `open_turn` ends it where the assistant is
        to write.

        Raises:
            PolicyError: The template cannot render these messages.
        """
        return self._template.render(messages, open_turn=open_turn)

    def opening(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of an opening, up to where the policy starts to write.

        Raises:
            PolicyError: The template cannot render these messages, such as a system's where it knows none.
        """
        said = tuple(tuple(message.items()) for message in messages)
        try:
            hash(said)
        except TypeError:  # no text: templates refuse it in words, or take it
            return self._open(*said)
        return list(self._opened(*said))

    def _open(self, *messages: tuple[tuple[str, str], ...]) -> list[int]:
        return self._ids(self.render([dict(message) for message in messages], open_turn=True))

    def ended(self, completion_ids: Sequence[int]) -> bool:
        """Return whether a completion was ended by the policy and not by the limit."""
        return bool(completion_ids) and completion_ids[-1] in self.end_ids

    def replies(self, observations: Sequence[str], last_ids: Sequence[int]) -> list[list[int]]:
        """Return the token ids between completions and the next ones, a row each; see `reply`."""
        # A tokenizer reads many texts in little more time than one, and copies of a group are often told the
        # same.
        new = [each for each in dict.fromkeys(observations) if each not in self._told]
        if len(self._told) + len(new) > MOST_TOLD:
            self._told.clear()
            new = list(dict.fromkeys(observations))
        if new:
            read = self._tokenizer([self._around(each) for each in new], add_special_tokens=False)[
                "input_ids"
            ]
            self._told.update(zip(new, read, strict=True))
        return [
            self._behind(self._told[each], last) for each, last in zip(observations, last_ids, strict=True)
        ]

    def reply(self, observation: str, *, last_id: int) -> list[int]:
        """Return the token ids between a completion and the next one.

        The template's own end stands behind each answer exactly once: it is written here unless the policy
        wrote it. It is written behind another end too (`<eos><end_of_turn>`), since what the policy wrote
        stays as it is and the next turn was never read in training without that token before it.

        Args:
            observation: What the policy is told.
            last_id: The last token of the completion.
        """
        return self.replies([observation], [last_id])[0]

    def _behind(self, ids: Sequence[int], last_id: int) -> list[int]:
        if self._closing:
            return list(ids[self._closing :] if last_id == self.eos_id else ids)
        return list(ids) if last_id in self.end_ids else [self.eos_id, *ids]

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
                new, written = self.reply(message["content"], last_id=self.eos_id), 0
            ids += new
            mask += [written] * len(new)
        return ids, mask

    def text(self, completion_ids: Sequence[int]) -> str:
        """Return a completion's text exactly as decoded, without the end that closed it."""
        ids = tuple(completion_ids[:-1] if self.ended(completion_ids) else completion_ids)
        return self._decoded(ids) if len(ids) <= SHORT else self._decode(ids)

    def _decode(self, ids: tuple[int, ...]) -> str:
        return str(
            self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )


def control_names(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Return the texts that a tokenizer reads as tokens wherever they stand: the special ones, and marks in
    brackets."""
    found = [(number, str(token), token.special) for number, token in tokenizer.added_tokens_decoder.items()]
    return [name for _, name, special in sorted(found) if name.strip() and (special or _MARK.fullmatch(name))]


def _special_at(tokenizer: PreTrainedTokenizerBase, text: str) -> int | None:
    """Return the special token that a text begins with, but for white space; the longest if several."""
    text = text.lstrip()
    names = {str(token): number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    found = max((name for name in names if name and text.startswith(name)), key=len, default=None)
    return None if found is None else int(names[found])
