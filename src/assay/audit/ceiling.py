"""The best that any policy can do on records of which some ask the same and call different answers right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from assay.core.storage.json import digest
from assay.dataset.audit_records import Ceiling
from assay.dataset.source import KeptRecord
from assay.tasks.protocol import Task


def ceiling_of(task: Task, members: Sequence[KeptRecord]) -> Ceiling | None:
    """Return what contradicting golds leave to be reached, None where they leave everything.

    A policy that reads one text answers by one distribution, so it succeeds at most as often as with the
    single answer that is right for most of the records with that text. Which golds an answer can satisfy
    together, the task's own grader says.
    """
    sizes = Counter(member.item.cluster for member in members)
    groups: defaultdict[str, list[KeptRecord]] = defaultdict(list)
    for member in members:
        if sizes[member.item.cluster] > 1:
            groups[digest(task.start(member.item, 0)[0])].append(member)
    lost = {
        prompt: len(group) - task.most_right([member.item for member in group])
        for prompt, group in groups.items()
    }
    odd = [prompt for prompt, n in lost.items() if n]
    if not odd:
        return None
    return Ceiling(
        n_records=len(members),
        n_prompts=len(odd),
        n_contradicting=sum(len(groups[prompt]) for prompt in odd),
        most_success=1.0 - sum(lost.values()) / len(members),
    )


def ceiling_said(found: Ceiling, split: str) -> str:
    """Return a ceiling as a sentence.

    >>> ceiling_said(Ceiling(n_records=100, n_prompts=3, n_contradicting=7, most_success=0.96), "heldout")
    'heldout: no policy can exceed 96.0 % success: 3 prompts have contradicting golds (7 of 100 records)'
    """
    prompts = "1 prompt has" if found.n_prompts == 1 else f"{found.n_prompts} prompts have"
    of = f"{found.n_contradicting} of {found.n_records} records"
    # Rounded up, so that what is said is never less than what can be reached.
    share = np.ceil(1000 * round(found.most_success, 12)) / 10
    return f"{split}: no policy can exceed {share:.1f} % success: {prompts} contradicting golds ({of})"
