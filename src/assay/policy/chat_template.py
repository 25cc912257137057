"""A tokenizer's chat template: what it is given, rendered without a clock, and cut into what stands around an
answer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
            PolicyError: It drops or repeats messages, or its openings do not end where an answer begins.
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
                "a chat template whose openings end where an answer begins",
                found=f"an opening that ends in {opened[-40:]!r}, and an answer behind {behind[-40:]!r}",
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
