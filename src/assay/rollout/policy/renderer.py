"""How messages become token ids, once: opened by the chat template, carried on token by token, never
re-tokenised."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.meta

from assay.core.config.places import setting
from assay.core.errors import PolicyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


Message = dict[str, str]

# What `strftime_now` says in every prompt, so that a prompt is a function of data and settings. It is the day
# that Llama's templates fall back on themselves; one that reads date_string can be given another by
# base.template.
TODAY = datetime(2024, 7, 26)
# Two letters that no template writes by itself, used to find where it puts a message's content.
_ASSISTANT_MARK, _USER_MARK = "\u0416\u0416", "\u0429\u0429"
_REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_TRACKED = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")  # a tag of transformers'
# What every template is given by us; a setting of these names would take its place.
_OURS = {"messages", "tools", "documents", "add_generation_prompt", "strftime_now", "raise_exception"}
SYSTEM_FIX = (
    "say what the system's message says in the data's first user message, or use a base whose template"
    " takes one"
)
FIX = "use an instruct model with a template for conversations, or correct its chat_template.jinja"


@dataclass(frozen=True, slots=True)
class Between:
    """What a template writes between an answer and the next one: before and after what the user says.

    `trimmed` says that white space around the user's words is dropped; `last` is what it writes behind the
    last answer.
    """

    before: str
    after: str
    trimmed: bool
    last: str

    def around(self, observation: str) -> str:
        """Return what stands between two answers where the user says this."""
        return f"{self.before}{observation.strip() if self.trimmed else observation}{self.after}"


class ChatTemplate:
    """The chat template of a tokenizer with the settings of `base.template`.

    Args:
        tokenizer: One with a chat template.
        settings: Variables of the template, such as `enable_thinking`.

    Raises:
        PolicyError: There is no template, or it does not read a name that is set.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, settings: Mapping[str, bool | int | str]) -> None:
        self.where = str(getattr(tokenizer, "name_or_path", "") or "the tokenizer")
        self._tokenizer = tokenizer
        self._settings: dict[str, Any] = dict(settings)
        if not tokenizer.chat_template:
            raise PolicyError(
                "a chat template",
                found="none",
                where=self.where,
                fix="use an instruct model, or add chat_template.jinja",
            )
        source = tokenizer.get_chat_template()
        if settings:
            _refuse_unread(source, settings)
        self._source = _without_clock(source)

    def render(self, messages: Sequence[Message], *, open_turn: bool) -> str:
        """Return a conversation as text; `open_turn` ends it where the assistant is to write.

        Raises:
            PolicyError: The template cannot render these messages; says what it says.
        """
        try:
            text = self._tokenizer.apply_chat_template(
                list(messages),
                chat_template=self._source,
                tokenize=False,
                add_generation_prompt=open_turn,
                **self._settings,
            )
        except (jinja2.TemplateError, ValueError, TypeError, KeyError, IndexError) as error:
            roles = ", ".join(message["role"] for message in messages)
            said = f"{type(error).__name__}: {str(error).split(chr(10))[0]}"
            expected = f"a chat template that renders messages of {roles}"
            fix = SYSTEM_FIX if any(message["role"] == "system" for message in messages) else FIX
            raise PolicyError(expected, found=said, where=self.where, fix=fix) from error
        for message in messages:
            # Some templates raise where they know no such role, others pass the message over.
            if message["role"] == "system" and message["content"].strip() not in str(text):
                expected = "a chat template that renders a system's message"
                raise PolicyError(
                    expected, found="one that drops or rewrites it", where=self.where, fix=SYSTEM_FIX
                )
        return str(text)

    def between(self) -> Between:
        """Cut from the template what it writes between two answers.

        Raises:
            PolicyError: It drops or repeats messages, or its prompts do not end where an answer begins.
        """
        asked, answer = {"role": "user", "content": "."}, {"role": "assistant", "content": _ASSISTANT_MARK}
        opened = unthought(self.render([asked], open_turn=True))
        answered = unthought(self.render([asked, answer], open_turn=False))
        # A tab is white space that no template writes by itself.
        told = self.render([asked, answer, {"role": "user", "content": f"\t{_USER_MARK}\t"}], open_turn=True)
        if told.count(_ASSISTANT_MARK) != 1 or told.count(_USER_MARK) != 1:
            raise PolicyError(
                "a chat template that keeps every message",
                found="one that drops or repeats messages",
                where=self.where,
                fix="use a template for multi-turn conversations",
            )
        if not (
            answered.startswith(opened) and answered.removeprefix(opened).lstrip().startswith(_ASSISTANT_MARK)
        ):
            behind = answered.split(_ASSISTANT_MARK)[0]
            raise PolicyError(
                "a chat template whose prompts end where an answer begins",
                found=f"a prompt that ends in {opened[-40:]!r}, and an answer behind {behind[-40:]!r}",
                where=self.where,
                fix=(
                    "write the assistant's header under `if add_generation_prompt` in chat_template.jinja; a"
                    " base that writes headers itself (channels, recipients) cannot be played"
                ),
            )
        before, after = told.split(_ASSISTANT_MARK)[1].split(_USER_MARK)
        kept = before.endswith("\t") and after.startswith("\t")
        last = answered.split(_ASSISTANT_MARK)[1]
        return Between(before.removesuffix("\t"), after.removeprefix("\t"), not kept, last)


def unthought(text: str) -> str:
    """Return a text without reasoning, which a template may strip, or open for the policy to go on with."""
    return _REASONING.sub("", text).rstrip()


def _refuse_unread(source: str, settings: Mapping[str, bool | int | str]) -> None:
    """Refuse a setting that the template would ignore: Jinja takes any name."""
    try:
        parsed = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(_TRACKED.sub("", source))
    except jinja2.TemplateSyntaxError:
        return  # rendering says what is wrong
    read = jinja2.meta.find_undeclared_variables(parsed) - _OURS
    for name in settings:
        if name not in read:
            near = difflib.get_close_matches(name, sorted(read), n=1)
            fix = f"did you mean {near[0]}?" if near else "remove it, or choose another base"
            raise PolicyError(
                "names that the chat template reads", found=name, where=setting("base.template"), fix=fix
            )


def _without_clock(source: str) -> str:
    """Return a template in which `strftime_now` gives TODAY in any format; one without it as it is."""
    if "strftime_now" not in source:
        return source
    # As a macro, since transformers hands no functions to a template.
    said = "".join(
        f" | replace('%{letter}', '{TODAY.strftime('%' + letter)}')" for letter in "aAbBdmyYjHIMSpUwW"
    )
    return f"{{% macro strftime_now(format) %}}{{{{ format{said} }}}}{{% endmacro %}}{{{{ '' }}}}{source}"


MOST_TOLD = 4096  # texts whose ids are remembered
MOST_WRITTEN, SHORT = 1024, 64  # completions whose texts are, where they are no longer than so many tokens
_MARK = re.compile(r"[<\[].*[>\]]", re.DOTALL)
# Characters of prompts whose ids are: more than a tiny preset's task has in all, so that an epoch does not
# read what the one before has read.
MOST_OPENED = 2**20


class Dialogue:
    """Turns messages into token ids by a tokenizer's chat template.

    A template is applied to whole conversations; re-rendering the history after each turn may change tokens
    the policy has already written (templates that strip earlier reasoning do). So only the prompt is
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
        self._decoded = lru_cache(MOST_WRITTEN)(self._decode)
        self._opened, self._characters = dict[tuple[tuple[tuple[str, str], ...], ...], list[int]](), 0
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

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of a prompt, up to where the policy starts to write.

        Raises:
            PolicyError: The template cannot render these messages, such as a system's where it knows none.
        """
        said = tuple(tuple(message.items()) for message in messages)
        try:
            size = sum(len(text) for message in said for _, text in message)
            known = said in self._opened
        except TypeError:  # no text: templates refuse it in words, or take it
            return self._open(messages)
        if not known:
            if self._characters + size > MOST_OPENED:
                self._opened.clear()
                self._characters = 0
            self._opened[said] = self._open(messages)
            self._characters += size
        return list(self._opened[said])

    def _open(self, messages: Sequence[Message]) -> list[int]:
        return self._ids(self.render(messages, open_turn=True))

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
            messages: User messages that open it, then assistant and user in turn, an assistant's last.
        """
        first = next(i for i, message in enumerate(messages) if message["role"] == "assistant")
        ids = self.prompt(messages[:first])
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
