"""Whether tokenizer, chat template and our own assembly of a conversation say the same, and whether a
completion can end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.errors import PolicyError
from assay.policy.model import Policy
from assay.policy.renderer import Message, unthought
from assay.tools.doctor.findings import Check, Finding

TEMPLATE, TOKENIZER = "chat_template.jinja of the base", "tokenizer_config.json of the base"
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
    findings += [_end_of_sequence(policy), _reasoning(policy, params, opening)]
    try:
        if conversation is not None:
            findings += [_assembly(policy, conversation), _history(policy, conversation)]
    except PolicyError as error:
        check = Check("chat template", "one that renders user and assistant in turn", TEMPLATE)
        findings.append(check.fault(error.found, "use an instruct model, or correct chat_template.jinja"))
    return findings


def ids_of(policy: Policy, text: str) -> list[int]:
    """Return the token ids of a text, nothing added."""
    return [int(i) for i in policy.tokenizer(text, add_special_tokens=False)["input_ids"]]


def _padding(policy: Policy) -> Finding:
    tokenizer = policy.tokenizer
    check = Check("padding", "a token of its own", f"{TOKENIZER}, pad_token")
    if tokenizer.pad_token_id is None:
        return check.warning(
            "none: end-of-sequence stands in for it", "set pad_token to a token that is never written"
        )
    return check.ok(str(tokenizer.pad_token))


def _generation_config(policy: Policy) -> Finding:
    told: Any = getattr(getattr(policy.model, "generation_config", None), "eos_token_id", None)
    ends, ours = [told] if isinstance(told, int) else list(told or []), policy.dialogue.eos_id
    check = Check(
        "generation config", f"the end that stands behind an answer ({ours})", "generation_config.json"
    )
    if ends and ours not in ends:
        found = (
            f"eos_token_id {', '.join(map(str, ends))}: if the base writes {ours} within an answer, it is cut"
            " off there"
        )
        return check.warning(found, f"add {ours} to eos_token_id, or correct eos_token in {TOKENIZER}")
    return check.ok(", ".join(map(str, ends)) or "says nothing")


def _opening(policy: Policy, messages: Sequence[Message]) -> Finding:
    roles = " and ".join(dict.fromkeys(message["role"] for message in messages))
    check = Check("opening", f"a template that shows every message ({roles})", TEMPLATE)
    fix = (
        f"use a template that knows the roles {roles}, or move what is said elsewhere into the user's message"
    )
    try:
        text = policy.dialogue.render(messages, open_turn=True)
    except PolicyError as error:
        return check.fault(error.found, fix)
    missing = [message["role"] for message in messages if message["content"].strip() not in text]
    if missing:
        return check.fault(f"one that leaves out or rewrites what the {missing[0]} says", fix)
    return check.ok("it does")


def _end_of_sequence(policy: Policy) -> Finding:
    """Name the tokens that end an answer, and warn where the base may never have seen one end."""
    dialogue = policy.dialogue
    names = [str(policy.tokenizer.convert_ids_to_tokens(end)) for end in dialogue.end_ids]
    check = Check("end of sequence", "a token that the chat template writes behind an answer", TEMPLATE)
    if not dialogue.closes:
        found = f"{names[0]}, while the template writes none: the base may never have seen an answer end"
        return check.warning(
            found, f"let chat_template.jinja write {names[0]} behind an answer, or use an instruct model"
        )
    return check.ok(", ".join(names))


def _reasoning(policy: Policy, params: Params, opening: Sequence[Message]) -> Finding:
    room = params.task.max_new_tokens[params.generation.surface]
    where = setting(f"task.max_new_tokens.{params.generation.surface}")
    check = Check("reasoning", f"{LITTLE_ROOM} tokens or more for a base that thinks aloud", where)
    if _thinks(policy, opening) and room < LITTLE_ROOM:
        found = f"{room}, and a chat template with <think>: most completions may end before the answer begins"
        fix = f"raise task.max_new_tokens.{params.generation.surface}, or use a base without reasoning"
        if "enable_thinking" in str(policy.tokenizer.chat_template):
            fix = f"set base.template: {{enable_thinking: false}}, or {fix}"
        return check.warning(found, fix)
    return check.ok(f"{room}")


def _thinks(policy: Policy, opening: Sequence[Message]) -> bool:
    """Return whether a base may think aloud: its template knows thoughts, and no opening says that they are
    over."""
    over = policy.dialogue.render(opening, open_turn=True).rstrip().endswith("</think>")
    return "think>" in str(policy.tokenizer.chat_template) and not over


def _assembly(policy: Policy, conversation: Sequence[Message]) -> Finding:
    ours = _comparable(policy, policy.dialogue.whole(conversation)[0])
    text = policy.dialogue.render(conversation, open_turn=False)
    # Through the tokenizer as well, so that words it does not know look alike on both sides.
    theirs = _comparable(policy, ids_of(policy, text))
    check = Check("conversation", "the same from the template and from our assembly, turn by turn", TEMPLATE)
    if ours != theirs:
        at = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
            min(len(ours), len(theirs)),
        )
        found = (
            f"{theirs[at : at + 40]!r} from the template, {ours[at : at + 40]!r} from us, after {at}"
            " characters"
        )
        return check.fault(
            found, "use a template that renders each message by itself, whatever comes before and after it"
        )
    return check.ok(f"the same over {len(conversation)} messages")


def _history(policy: Policy, conversation: Sequence[Message]) -> Finding:
    """Look whether a turn, once written, stays as it was written; templates of reasoning models strip it."""
    check = Check("history", "a template that keeps earlier answers as they were written", TEMPLATE)
    first = next(i for i, message in enumerate(conversation) if message["role"] == "assistant")
    thought = {"role": "assistant", "content": f"<think>\n.\n</think>\n\n{conversation[first]['content']}"}
    text = policy.dialogue.render([*conversation[:first], thought, conversation[first + 1]], open_turn=True)
    if _thinks(policy, conversation[:first]) and thought["content"] not in text:
        found = (
            "one that strips reasoning from earlier answers, where the policy goes on reading what it wrote"
        )
        return check.warning(
            found, "nothing, if the base copes; else a base without reasoning, or a template that keeps it"
        )
    return check.ok("it does")


def _comparable(policy: Policy, ids: Sequence[int]) -> str:
    """Return a conversation without what may differ: reasoning blocks, ends that we write ourselves, white
    space."""
    text = str(policy.tokenizer.decode(list(ids), skip_special_tokens=False))
    for end in policy.dialogue.end_ids:
        text = text.replace(str(policy.tokenizer.convert_ids_to_tokens(end)), "")
    return "".join(unthought(text).split())
