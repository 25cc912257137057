"""Whether tokenizer, chat template and our own assembly of a conversation say the same, and whether a
completion can end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from assay.checks.findings import DoctorCheck, Finding
from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.counting import counted
from assay.core.errors import PolicyError, TaskError
from assay.core.records import Episode
from assay.rollout.dataset.suite import Play
from assay.rollout.evaluation.retries import GivenUp, tried
from assay.rollout.evaluation.trajectory import open_item
from assay.rollout.policy.engine.context import positions_of
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Message, unthought
from assay.rollout.tasks.protocol import Task

TEMPLATE, TOKENIZER = "chat_template.jinja of the base", "tokenizer_config.json of the base"
LITTLE_ROOM = 512  # tokens, for a model that thinks aloud before it answers


def text_findings(
    policy: Policy, params: Params, first: Sequence[Message], conversation: Sequence[Message] | None
) -> list[Finding]:
    """Return what is wrong with the words between task and model.

    Args:
        policy: Its tokenizer, template and dialogue are looked at; no forward pass is made.
        params: Says how long a completion may get.
        first: What a real episode of the task begins with.
        conversation: A real dialogue of several turns, an assistant's last; None where the task has one turn.
    """
    findings = [_padding(policy), _generation_config(policy), _first_messages(policy, first)]
    if findings[-1].level == "fault":
        return findings
    findings += [_end_of_sequence(policy), _reasoning(policy, params, first)]
    try:
        if conversation is not None:
            findings += [_assembly(policy, conversation), _history(policy, conversation)]
    except PolicyError as error:
        check = DoctorCheck("chat template", "one that renders user and assistant in turn", TEMPLATE)
        findings.append(check.fault(error.found, "use an instruct model, or correct chat_template.jinja"))
    return findings


def ids_of(policy: Policy, text: str) -> list[int]:
    """Return the token ids of a text, nothing added."""
    return [int(i) for i in policy.tokenizer(text, add_special_tokens=False)["input_ids"]]


def _padding(policy: Policy) -> Finding:
    token = policy.tokenizer.pad_token if policy.tokenizer.pad_token_id is not None else None
    check = DoctorCheck("padding", "a token of its own", f"{TOKENIZER}, pad_token")
    found, fix = "none: end-of-sequence stands in for it", "set pad_token to a token that is never written"
    return check.judge(found, fix, doubtful=token is None, ok=str(token))


def _generation_config(policy: Policy) -> Finding:
    told: Any = getattr(getattr(policy.model, "generation_config", None), "eos_token_id", None)
    ends, ours = [told] if isinstance(told, int) else list(told or []), policy.dialogue.eos_id
    check = DoctorCheck(
        "generation config", f"the end that stands behind an answer ({ours})", "generation_config.json"
    )
    if ends and ours not in ends:
        found = (
            f"eos_token_id {', '.join(map(str, ends))}: if the base writes {ours} within an answer, it is cut"
            " off there"
        )
        return check.warning(found, f"add {ours} to eos_token_id, or correct eos_token in {TOKENIZER}")
    return check.ok(", ".join(map(str, ends)) or "says nothing")


def _first_messages(policy: Policy, messages: Sequence[Message]) -> Finding:
    roles = " and ".join(dict.fromkeys(message["role"] for message in messages))
    check = DoctorCheck("first messages", f"a template that shows every message ({roles})", TEMPLATE)
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
    check = DoctorCheck("end of sequence", "a token that the chat template writes behind an answer", TEMPLATE)
    if not dialogue.closes:
        found = f"{names[0]}, while the template writes none: the base may never have seen an answer end"
        return check.warning(
            found, f"let chat_template.jinja write {names[0]} behind an answer, or use an instruct model"
        )
    return check.ok(", ".join(names))


def _reasoning(policy: Policy, params: Params, first: Sequence[Message]) -> Finding:
    room = params.task.max_new_tokens[params.generation.surface]
    where = setting(f"task.max_new_tokens.{params.generation.surface}")
    check = DoctorCheck("reasoning", f"{LITTLE_ROOM} tokens or more for a base that thinks aloud", where)
    if _thinks(policy, first) and room < LITTLE_ROOM:
        found = f"{room}, and a chat template with <think>: most completions may end before the answer begins"
        fix = f"raise task.max_new_tokens.{params.generation.surface}, or use a base without reasoning"
        if "enable_thinking" in str(policy.tokenizer.chat_template):
            fix = f"set base.template: {{enable_thinking: false}}, or {fix}"
        return check.warning(found, fix)
    return check.ok(f"{room}")


def _thinks(policy: Policy, first: Sequence[Message]) -> bool:
    """Return whether a base may think aloud: its template knows thoughts, and no prompt says that they are
    over."""
    over = policy.dialogue.render(first, open_turn=True).rstrip().endswith("</think>")
    return "think>" in str(policy.tokenizer.chat_template) and not over


def _assembly(policy: Policy, conversation: Sequence[Message]) -> Finding:
    ours = _comparable(policy, policy.dialogue.whole(conversation)[0])
    text = policy.dialogue.render(conversation, open_turn=False)
    # Through the tokenizer as well, so that words it does not know look alike on both sides.
    theirs = _comparable(policy, ids_of(policy, text))
    check = DoctorCheck(
        "conversation", "the same from the template and from our assembly, turn by turn", TEMPLATE
    )
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
    check = DoctorCheck("history", "a template that keeps earlier answers as they were written", TEMPLATE)
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


UNKNOWN_SHARE, MOSTLY = 0.01, 0.5
# What is right can often be spelt in several ways (the keys of an object in another order), and one may be
# writable.
UNWRITABLE_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of training items as token ids, and how many were refused as too long or had to be cut."""

    prompts: list[list[int]]
    refused: list[str]
    cut: int

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max((len(ids) for ids in self.prompts), default=0)


def render_prompts(
    policy: Policy, task: Task, plays: Sequence[Play], *, retries: int = 0, until: float = math.inf
) -> Prompts:
    """Render prompts as playing does, for so many seconds; of those not rendered nothing is known.

    Raises:
        EnvironmentLost: The environment failed for good.
    """
    prompts: list[list[int]] = []
    refused: list[str] = []
    cut, begun = 0, time.monotonic()
    for each in plays:
        if prompts and time.monotonic() - begun > until:
            break
        try:
            prompt, _ = tried(retries, open_item, task, policy.dialogue, each.item, each.world_seed)
        except GivenUp as gone:
            raise gone.of(each) from gone
        except TaskError:
            refused.append(each.item.id)
            continue
        prompts.append(prompt.prompt_ids)
        cut += prompt.chars_cut > 0
    return Prompts(prompts, refused, cut)


def length_findings(
    policy: Policy, params: Params, rendered: Prompts, ceiling: Sequence[Episode] | None, turns: int
) -> list[Finding]:
    """Return what does not fit.

    Args:
        policy: Whose tokenizer and context are looked at.
        params: Limits of prompt and completion.
        rendered: Prompts of a sample of items.
        ceiling: Episodes of the player who knows what is right; its completions have to fit and to be
            writable.
        turns: Completions that an episode may take.
    """
    findings = [
        _prompts(params, rendered),
        _words(policy, rendered),
        _context(policy, params, rendered, turns),
    ]
    texts = [turn.completion for episode in ceiling or () for turn in episode.turns]
    return findings + ([_budget(policy, params, texts), _writable(policy, texts)] if texts else [])


def turns_of(params: Params, scripted: Sequence[Episode]) -> int:
    """Return how many completions an episode may take: as the settings say, else the most that was seen."""
    return params.task.most_turns or max((len(episode.turns) for episode in scripted), default=1)


def _prompts(params: Params, rendered: Prompts) -> Finding:
    n = len(rendered.prompts) + len(rendered.refused)
    check = DoctorCheck("prompts", "prompts within task.max_prompt_tokens", setting("task.max_prompt_tokens"))
    if rendered.refused:
        found = f"{len(rendered.refused)} of {n} too long (first: item {rendered.refused[0]})"
        return check.fault(
            found, "raise task.max_prompt_tokens, set task.truncate_prompts: true, or drop the records"
        )
    if rendered.cut:
        found = f"{rendered.cut} of {n} {'is' if rendered.cut == 1 else 'are'} cut to fit"
        return check.warning(found, "raise task.max_prompt_tokens if the base has room")
    return check.ok(f"up to {counted(rendered.longest, 'tokens')} in {n}")


def unknown_share(policy: Policy, prompts: Iterable[Sequence[int]]) -> float:
    """Return the share of the tokenizer's unknown token among the prompts' words; 0 where it has none."""
    unknown = policy.tokenizer.unk_token_id
    if unknown is None:
        return 0.0
    marks = set(policy.tokenizer.all_special_ids) - {int(unknown)}
    words = [i for ids in prompts for i in ids if i not in marks]
    return words.count(int(unknown)) / max(1, len(words))


def _words(policy: Policy, rendered: Prompts) -> Finding:
    check = DoctorCheck(
        "vocabulary", "prompts in words that the tokenizer knows", "tokenizer.json of the base"
    )
    if policy.tokenizer.unk_token_id is None:
        return check.ok("it knows every text")
    share = unknown_share(policy, rendered.prompts)
    fix = "./run dvc repro base (it was made for another task), or another generation.surface"
    found, ok = f"{share:.0%} of the prompts' words unknown", f"{share:.1%} unknown"
    return check.judge(found, fix, fault=share > MOSTLY, doubtful=share > UNKNOWN_SHARE, ok=ok)


def _context(policy: Policy, params: Params, rendered: Prompts, turns: int) -> Finding:
    limit, room = positions_of(policy.model.config), params.task.max_new_tokens[params.generation.surface]
    check = DoctorCheck(
        "context", f"episodes within {limit} positions", "config.json of the base, max_position_embeddings"
    )
    needed = rendered.longest + turns * room
    found = (
        f"a prompt of {rendered.longest} tokens and {turns} x {room} of completions, before any observation"
    )
    if limit is None:
        return check.ok("no limit given")
    if rendered.longest + room > limit:
        surface = params.generation.surface
        fix = (
            f"lower task.max_prompt_tokens or task.max_new_tokens.{surface}, or use a base with more"
            " positions"
        )
        return check.fault(found, f"{fix} (base.architecture.max_positions)")
    if needed > limit:
        return check.warning(
            found, "lower task.max_turns or task.max_new_tokens, or use a base with more positions"
        )
    return check.ok(f"at most {needed} and observations")


def _budget(policy: Policy, params: Params, texts: Sequence[str]) -> Finding:
    """Compare the limit with what a right completion takes, its end-of-sequence included."""
    surface = params.generation.surface
    room, needed = params.task.max_new_tokens[surface], [len(ids_of(policy, text)) + 1 for text in texts]
    over = sum(each > room for each in needed)
    check = DoctorCheck(
        "completion limit", "room for every right completion", setting(f"task.max_new_tokens.{surface}")
    )
    takes = "takes" if over == 1 else "take"
    found = (
        f"{room}, while {over} of {counted(len(texts), 'right completions')} {takes} more (up to"
        f" {max(needed)})"
    )
    fix, ok = (
        f"task.max_new_tokens.{surface}: {max(needed)} or more",
        f"{room}; right completions take up to {max(needed)}",
    )
    return check.judge(found, fix, fault=over > MOSTLY * len(texts), doubtful=over > 0, ok=ok)


def _writable(policy: Policy, texts: Sequence[str]) -> Finding:
    lost = [text for text in texts if policy.dialogue.text(ids_of(policy, text)) != text]
    check = DoctorCheck(
        "writing", "right completions that the tokenizer can write", "tokenizer.json of the base"
    )
    first = f"(first: {lost[0][:40]!r})" if lost else ""
    found = f"{len(lost)} of {len(texts)} come back changed from the tokenizer {first}"
    fix = "./run dvc repro base (it was made for another task), or another generation.surface"
    ok = f"{len(texts) - len(lost)} of {len(texts)} as they are spelt"
    mostly, many = (len(lost) > share * len(texts) for share in (MOSTLY, UNWRITABLE_SHARE))
    return check.judge(found, fix, fault=mostly, doubtful=many, ok=ok)
