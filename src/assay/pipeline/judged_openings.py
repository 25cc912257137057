"""Results that are judged inside a project may be of its own held-out records: then judging them is a look at
these, which is noted and pays like any other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from assay.core.config.settings import Params
from assay.core.records import Split
from assay.core.storage.json import digest
from assay.pipeline.heldout_ledger import (
    NOTHING,
    HeldoutOpening,
    copy_id,
    key_of,
    opened,
    openings,
    policies_noted,
)
from assay.pipeline.note_openings import adopt, placed, tries
from assay.rollout.dataset.schema_files import SchemaFiles
from assay.rollout.dataset.source import load
from assay.rollout.dataset.wording import content_of, texts_of
from assay.verdict.judge.contents import short_digest, trimmed
from assay.verdict.judge.rows import JudgedRow
from assay.verdict.judge.sources import ArmRecord, JudgedLook
from assay.verdict.statistics.openings import Look, share_of_look

STAGE = "judge"
LEAST = 0.5  # of the judged items are held-out ones, or that some ids are the same is chance


def look_at(
    root: Path, params: Params, before: ArmRecord, after: ArmRecord, rows: Sequence[JudgedRow]
) -> JudgedLook | None:
    """Note that results of held-out records of a project are judged, and return what look it is; None where
    its records are not what was played.

    A policy that is noted at these records keeps its place.

    Args:
        root: Of the project whose records they may be.
        params: Its settings.
        before: The arm of the base.
        after: That of the policy.
        rows: Results of the base.

    Raises:
        RecordError: The ledger is damaged.
    """
    asked = _asked(root, params, rows)
    if asked is None:
        return None
    known = openings(root) or NOTHING
    base, policy = _policy(before), _policy(after)
    noted = [each for each in policies_noted(known, asked, policy) if each.place]
    if noted:
        own = min(noted, key=lambda each: (each.place or 0, each.stage != "post_eval"))
    else:
        split: Split = "heldout"
        suite = digest([STAGE, sorted(asked)])
        one = opened(
            STAGE,
            policy,
            suite,
            asked,
            data=params.dataset.name,
            split=split,
            copy_id=copy_id(root),
            base=base,
        )
        named = one.openings[0].model_copy(update={"looks": params.claim.looks})
        one = placed(known, one.model_copy(update={"openings": (named,)}), None)
        adopt(root, one)
        (own,) = one.openings
    return _look(own, tries(known, asked, base, own.suite_digest), params.claim.looks, asked)


def _look(own: HeldoutOpening, known: list[HeldoutOpening], looks: int | None, asked: set[str]) -> JudgedLook:
    before = [each for each in known if (each.place or 0) < (own.place or 0)]
    place = max(own.place or 1, 1 + len(before))
    told = [Look(each.place or 0, each.looks, each.called) for each in before]
    share = None if looks is None else share_of_look(place, max(looks, own.looks or 0), told)
    return JudgedLook(place=place, looks=looks, share=share, n_records=len(asked), records=key_of(asked))


def _policy(arm: ArmRecord) -> str:
    """Return the digest of whoever played, as assay's own episodes name it; else that of the results."""
    named = arm.files[0].model or ""
    return named if re.fullmatch(r"[0-9a-f]{64}", named) else arm.rows_sha256


def _asked(root: Path, params: Params, rows: Sequence[JudgedRow]) -> set[str] | None:
    """Return which held-out records were asked, by their content; None where that is not what was played."""
    ids, prompts = dict[str, str](), dict[str, str]()
    schemas = SchemaFiles(root / params.dataset.root, root)
    for name in ("heldout", *params.dataset.secondary):
        path = root / params.dataset.root / f"{name}.jsonl"
        if not path.is_file():
            continue
        for entry in load(path, schemas, where=str(path), fix="restore the data").entries:
            content, texts = content_of(entry.row), texts_of(entry.row)
            ids[str(entry.row.get("id"))] = content
            prompts |= {
                short_digest(trimmed(text)): content
                for text in (*texts, "\n".join(texts), "\n\n".join(texts))
            }
    prompts.pop("", None)
    items = {row.item_id: ids.get(row.item_id) or prompts.get(row.prompt) for row in rows}
    found = {content for content in items.values() if content is not None}
    return found if found and sum(map(bool, items.values())) >= LEAST * len(items) else None
