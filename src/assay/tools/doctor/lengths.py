"""Whether what has to be read and written fits: words the tokenizer knows, prompts, completions, and the
whole context."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.config.places import setting
from assay.core.config.settings import Params
from assay.core.counting import counted
from assay.core.errors import TaskError
from assay.core.records import Episode
from assay.dataset.suite import Play
from assay.evaluation.trajectory import GivenUp, open_item, tried
from assay.policy.model import Policy
from assay.tasks.protocol import Task
from assay.tools.doctor.findings import Check, Finding
from assay.tools.doctor.texts import ids_of

UNKNOWN_SHARE, MOSTLY = 0.01, 0.5
# What is right can often be spelt in several ways (the keys of an object in another order), and one may be
# writable.
UNWRITABLE_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Openings:
    """Prompts of training items as token ids, and how many were refused as too long or had to be cut."""

    prompts: list[list[int]]
    refused: list[str]
    cut: int

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max((len(ids) for ids in self.prompts), default=0)


def opened(
    policy: Policy, task: Task, plays: Sequence[Play], *, retries: int = 0, until: float = math.inf
) -> Openings:
    """Render openings as playing does, for so many seconds; of those not rendered nothing is known.

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
            opening, _ = tried(retries, open_item, task, policy.dialogue, each.item, each.world_seed)
        except GivenUp as gone:
            raise gone.of(each) from gone
        except TaskError:
            refused.append(each.item.id)
            continue
        prompts.append(opening.prompt_ids)
        cut += opening.chars_cut > 0
    return Openings(prompts, refused, cut)


def length_findings(
    policy: Policy, params: Params, openings: Openings, ceiling: Sequence[Episode] | None, turns: int
) -> list[Finding]:
    """Return what does not fit.

    Args:
        policy: Whose tokenizer and context are looked at.
        params: Limits of prompt and completion.
        openings: Of a sample of items.
        ceiling: Episodes of the player who knows what is right; its completions have to fit and to be
            writable.
        turns: Completions that an episode may take.
    """
    findings = [
        _prompts(params, openings),
        _words(policy, openings),
        _context(policy, params, openings, turns),
    ]
    texts = [turn.completion for episode in ceiling or () for turn in episode.turns]
    return findings + ([_budget(policy, params, texts), _writable(policy, texts)] if texts else [])


def turns_of(params: Params, scripted: Sequence[Episode]) -> int:
    """Return how many completions an episode may take: as the settings say, else the most that was seen."""
    return params.task.most_turns or max((len(episode.turns) for episode in scripted), default=1)


def context_limit(model: Any) -> int | None:
    """Return the positions a model was made for, None where it does not say."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    limit = getattr(config, "max_position_embeddings", None)
    return int(limit) if isinstance(limit, int) and limit > 0 else None


def _prompts(params: Params, openings: Openings) -> Finding:
    n = len(openings.prompts) + len(openings.refused)
    check = Check("prompts", "prompts within task.max_prompt_tokens", setting("task.max_prompt_tokens"))
    if openings.refused:
        found = f"{len(openings.refused)} of {n} too long (first: item {openings.refused[0]})"
        return check.fault(
            found, "raise task.max_prompt_tokens, set task.truncate_prompts: true, or drop the records"
        )
    if openings.cut:
        found = f"{openings.cut} of {n} {'is' if openings.cut == 1 else 'are'} cut to fit"
        return check.warning(found, "raise task.max_prompt_tokens if the base has room")
    return check.ok(f"up to {counted(openings.longest, 'tokens')} in {n}")


def _words(policy: Policy, openings: Openings) -> Finding:
    check = Check("vocabulary", "prompts in words that the tokenizer knows", "tokenizer.json of the base")
    unknown = policy.tokenizer.unk_token_id
    if unknown is None:
        return check.ok("it knows every text")
    marks = set(policy.tokenizer.all_special_ids) - {int(unknown)}
    words = [i for ids in openings.prompts for i in ids if i not in marks]
    share = words.count(int(unknown)) / max(1, len(words))
    fix = "./run dvc repro base (it was made for another task), or another generation.surface"
    if share > MOSTLY:
        return check.fault(f"{share:.0%} of the prompts' words unknown", fix)
    if share > UNKNOWN_SHARE:
        return check.warning(f"{share:.0%} of the prompts' words unknown", fix)
    return check.ok(f"{share:.1%} unknown")


def _context(policy: Policy, params: Params, openings: Openings, turns: int) -> Finding:
    limit, room = context_limit(policy.model), params.task.max_new_tokens[params.generation.surface]
    check = Check(
        "context", f"episodes within {limit} positions", "config.json of the base, max_position_embeddings"
    )
    needed = openings.longest + turns * room
    found = (
        f"a prompt of {openings.longest} tokens and {turns} x {room} of completions, before any observation"
    )
    if limit is None:
        return check.ok("no limit given")
    if openings.longest + room > limit:
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
    check = Check(
        "completion limit", "room for every right completion", setting(f"task.max_new_tokens.{surface}")
    )
    takes = "takes" if over == 1 else "take"
    found = (
        f"{room}, while {over} of {counted(len(texts), 'right completions')} {takes} more (up to"
        f" {max(needed)})"
    )
    fix = f"task.max_new_tokens.{surface}: {max(needed)} or more"
    if over > MOSTLY * len(texts):
        return check.fault(found, fix)
    return (
        check.warning(found, fix) if over else check.ok(f"{room}; right completions take up to {max(needed)}")
    )


def _writable(policy: Policy, texts: Sequence[str]) -> Finding:
    lost = [text for text in texts if policy.dialogue.text(ids_of(policy, text)) != text]
    check = Check("writing", "right completions that the tokenizer can write", "tokenizer.json of the base")
    found = (
        f"{len(lost)} of {len(texts)} come back changed from the tokenizer (first: {lost[0][:40]!r})"
        if lost
        else ""
    )
    fix = "./run dvc repro base (it was made for another task), or another generation.surface"
    if len(lost) > MOSTLY * len(texts):
        return check.fault(found, fix)
    if len(lost) > UNWRITABLE_SHARE * len(texts):
        return check.warning(found, fix)
    return check.ok(f"{len(texts) - len(lost)} of {len(texts)} as they are spelt")
