"""Whether tokenizer, chat template and our own assembly of a conversation say the same, and whether a completion can end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jinja2.exceptions import TemplateError

from assay.config.settings import Params
from assay.policy.dialogue import Message
from assay.policy.model import Policy
from assay.training.doctor.findings import Check, Finding

TEMPLATE, TOKENIZER = "chat_template.jinja of the base", "tokenizer_config.json of the base"
# What rendering raises on: a template's own refusal, a message it cannot read, no template at all.
UNRENDERABLE = (TemplateError, ValueError, TypeError, KeyError)
_MARK = "\u0416\u0416"
_REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
LITTLE_ROOM = 512  # tokens, for a model that thinks aloud before it answers


def text_findings(
    policy: Policy, params: Params, opening: Sequence[Message], conversation: Sequence[Message] | None
) -> list[Finding]:
    """Return what is wrong with the words between task and model.

    Args:
        policy: Its tokenizer, template and dialogue are looked at; no forward pass is made.
        params: Says how long a completion may get.
        opening: A real opening of the task.
        conversation: A real dialogue of several turns, an assistant's last; None where the task has one turn.
    """
    findings = [_padding(policy), _generation_config(policy), _opening(policy, opening)]
    if findings[-1].level == "fault":
        return findings
    try:
        findings += [_end_of_sequence(policy), _prompt_for_answer(policy), _reasoning(policy, params)]
        if conversation is not None:
            findings += [_assembly(policy, conversation), _history(policy, conversation)]
    except UNRENDERABLE as error:
        check = Check("chat template", "one that renders user and assistant in turn", TEMPLATE)
        findings.append(check.fault(_first_line(error), "use an instruct model, or correct chat_template.jinja"))
    return findings


def rendered(policy: Policy, messages: Sequence[Message], *, open_turn: bool) -> str:
    """Return a conversation as the chat template writes it."""
    text = policy.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=open_turn)
    return str(text)


def ids_of(policy: Policy, text: str) -> list[int]:
    """Return the token ids of a text, nothing added."""
    return [int(i) for i in policy.tokenizer(text, add_special_tokens=False)["input_ids"]]


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).split(chr(10))[0]}"


def _padding(policy: Policy) -> Finding:
    tokenizer = policy.tokenizer
    check = Check("padding", "a token of its own", f"{TOKENIZER}, pad_token")
    if tokenizer.pad_token_id is None:
        return check.warning("none: end-of-sequence stands in for it", "set pad_token to a token that is never written")
    return check.ok(str(tokenizer.pad_token))


def _generation_config(policy: Policy) -> Finding:
    told: Any = getattr(getattr(policy.model, "generation_config", None), "eos_token_id", None)
    ends = [told] if isinstance(told, int) else list(told or [])
    check = Check("generation config", f"the tokenizer's end-of-sequence ({policy.dialogue.eos_id})", "generation_config.json")
    if ends and policy.dialogue.eos_id not in ends:
        found = f"eos_token_id {', '.join(map(str, ends))}"
        return check.warning(found, f"set eos_token in {TOKENIZER} to the token that the model ends with")
    return check.ok(", ".join(map(str, ends)) or "says nothing")


def _opening(policy: Policy, messages: Sequence[Message]) -> Finding:
    roles = " and ".join(dict.fromkeys(message["role"] for message in messages))
    check = Check("opening", f"a template that shows every message ({roles})", TEMPLATE)
    fix = f"use a template that knows the roles {roles}, or move what is said elsewhere into the user's message"
    try:
        text = rendered(policy, messages, open_turn=True)
    except UNRENDERABLE as error:
        return check.fault(_first_line(error), fix)
    missing = [message["role"] for message in messages if message["content"].strip() not in text]
    if missing:
        return check.fault(f"one that leaves out or rewrites what the {missing[0]} says", fix)
    return check.ok("it does")


def _end_of_sequence(policy: Policy) -> Finding:
    """Compare end-of-sequence with the first special token that the template writes behind an answer."""
    eos, tokenizer = policy.dialogue.eos_id, policy.tokenizer
    text = rendered(policy, [{"role": "user", "content": "."}, {"role": "assistant", "content": _MARK}], open_turn=False)
    special = set(tokenizer.all_special_ids)
    special |= {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    behind = next((i for i in ids_of(policy, text.rsplit(_MARK, 1)[-1]) if i in special), None)
    check = Check("end of sequence", "the token that the chat template writes behind an answer", f"{TOKENIZER}, eos_token")
    name = tokenizer.convert_ids_to_tokens(eos)
    if behind is None:
        found = f"{name}, while the template writes none: the base may never have seen an answer end"
        return check.warning(found, f"let chat_template.jinja write {name} behind an answer, or use an instruct model")
    if behind != eos:
        written = tokenizer.convert_ids_to_tokens(behind)
        return check.fault(f"{name}, while the template writes {written}: completions would never end", f"eos_token: {written}")
    return check.ok(str(name))


def _prompt_for_answer(policy: Policy) -> Finding:
    asked, answer = {"role": "user", "content": "."}, {"role": "assistant", "content": _MARK}
    opened = _unthought(rendered(policy, [asked], open_turn=True))
    whole = _unthought(rendered(policy, [asked, answer], open_turn=False))
    check = Check("generation prompt", "an opening that ends where the answer begins", f"{TEMPLATE}, add_generation_prompt")
    if not (whole.startswith(opened) and whole.removeprefix(opened).lstrip().startswith(_MARK)):
        found = f"an opening that ends in {opened[-40:]!r}, an answer behind {whole.split(_MARK)[0][-40:]!r}"
        return check.fault(found, "write the assistant's header under `if add_generation_prompt` in chat_template.jinja")
    return check.ok("it does")


def _reasoning(policy: Policy, params: Params) -> Finding:
    room = params.task.max_new_tokens[params.generation.surface]
    where = f"params.yaml, task.max_new_tokens.{params.generation.surface}"
    check = Check("reasoning", f"{LITTLE_ROOM} tokens or more for a base that thinks aloud", where)
    if "<think>" in str(policy.tokenizer.chat_template) and room < LITTLE_ROOM:
        found = f"{room}, and a chat template with <think>: most completions may end before the answer begins"
        return check.warning(found, f"raise task.max_new_tokens.{params.generation.surface}, or use a base without reasoning")
    return check.ok(f"{room}")


def _assembly(policy: Policy, conversation: Sequence[Message]) -> Finding:
    ours = _comparable(policy, policy.dialogue.whole(conversation)[0])
    text = rendered(policy, conversation, open_turn=False)
    # Through the tokenizer as well, so that words it does not know look alike on both sides.
    theirs = _comparable(policy, ids_of(policy, text))
    check = Check("conversation", "the same from the template and from our assembly, turn by turn", TEMPLATE)
    if ours != theirs:
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
        found = f"{theirs[at : at + 40]!r} from the template, {ours[at : at + 40]!r} from us, after {at} characters"
        return check.fault(found, "use a template that renders each message by itself, whatever comes before and after it")
    return check.ok(f"the same over {len(conversation)} messages")


def _history(policy: Policy, conversation: Sequence[Message]) -> Finding:
    """Look whether a turn, once written, stays as it was written; templates of reasoning models strip it."""
    check = Check("history", "a template that keeps earlier answers as they were written", TEMPLATE)
    first = next(i for i, message in enumerate(conversation) if message["role"] == "assistant")
    thought = {"role": "assistant", "content": f"<think>\n.\n</think>\n\n{conversation[first]['content']}"}
    text = rendered(policy, [*conversation[:first], thought, conversation[first + 1]], open_turn=True)
    if "think>" in str(policy.tokenizer.chat_template) and thought["content"] not in text:
        found = "one that strips reasoning from earlier answers, where the policy goes on reading what it wrote"
        return check.warning(found, "nothing, if the base copes; else a base without reasoning, or a template that keeps it")
    return check.ok("it does")


def _unthought(text: str) -> str:
    return _REASONING.sub("", text).rstrip()


def _comparable(policy: Policy, ids: Sequence[int]) -> str:
    """Return a conversation without what may differ: reasoning blocks, ends that we write ourselves, white space."""
    text = str(policy.tokenizer.decode(list(ids), skip_special_tokens=False))
    end = str(policy.tokenizer.convert_ids_to_tokens(policy.dialogue.eos_id))
    return "".join(_unthought(text).replace(end, "").split())
