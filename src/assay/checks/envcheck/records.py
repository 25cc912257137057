"""What the records give away: answers in what is asked, held-out worlds among those of train, golds that do
not survive being written down."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence

from assay.checks.envcheck.case import World
from assay.checks.envcheck.episodes import Episode, always, open_episode, shown
from assay.checks.envcheck.evidence import Evidence, check, not_looked_at
from assay.checks.findings import Finding
from assay.core.counting import counted
from assay.core.storage.json import digest
from assay.rollout.dataset.wording import content_of

DATA = "the records"
LEAKS, SOME_LEAK = 0.5, 0.1
ASKED = ("prompt", "context", "schema", "schema_path", "functions")  # what a record asks for
_NAMED = re.compile(
    r"(?:answer|solution|gold|target|label|expected|correct|result|key|truth|secret|hidden|right|output)\w*"
    r"[\"']?\s*(?:is|are|was|be|=|:|->|>|\[|\(|\s)*\s*[\"'`*<\[({]*\s*$",
    re.IGNORECASE,
)


def gold_in_prompt(seen: Evidence) -> Finding:
    """Return whether what is told holds the right answer where it can be picked up without understanding."""
    look = check("gold in prompt", "no answer given away by what is asked", "the prompts")
    tops = [each for each in seen.sound if each.said]
    pairs = [(each, *pair) for each in tops for pair in _before(each)]
    if not pairs or len(seen.pool) < 2:
        return not_looked_at("gold in prompt", "no answers, or one to all")
    own = [each for each in pairs if _holds(each[1], each[2])]
    others = 0.0
    for k, (episode, told, gold) in enumerate(pairs):
        wrong = [text for text in seen.pool if text.strip().casefold() != gold.strip().casefold()][
            k % 7 :: 7
        ] or [""]
        others += sum(_holds(told, text) for text in wrong[:20]) / len(wrong[:20]) / len(pairs)
        del episode
    share = len(own) / len(pairs)
    told = f"in {share:.0%} of {counted(len(pairs), 'prompts')}, another item's in {others:.0%}"
    fix = "leave the answer out of what is told, or say in the task's README that it is to be copied"
    named = [each for each in own if _is_named(each[1], each[2])]
    placed = _placed(own) if len(own) >= LEAKS * len(pairs) else 0.0
    excess = share - others
    if len(named) / len(pairs) - others >= LEAKS / 2 and excess > LEAKS / 2:
        return look.fault(f"{told}; it stands behind a word like answer: {_around(*named[0][1:])}", fix)
    if placed * share >= LEAKS and excess >= LEAKS:
        return look.warning(f"{told}; always in one and the same place: {_around(*own[0][1:])}", fix)
    if _encoded(pairs):
        return look.warning(f"in another spelling (reversed, base64, hex or rot13): {_encoded(pairs)}", fix)
    return look.note(f"{told}: it has to be picked out") if excess >= LEAKS else look.ok(told)


def _before(episode: Episode) -> list[tuple[str, str]]:
    told = [episode.prompt, *[text or "" for text in episode.told]]
    return [(told[k], said) for k, said in enumerate(episode.said) if said.strip()]


def _holds(told: str, gold: str) -> bool:
    plain = gold.strip()
    if not plain:
        return False
    edge = r"(?<![A-Za-z0-9])" if plain[0].isalnum() else ""
    tail = r"(?![A-Za-z0-9])" if plain[-1].isalnum() else ""
    return re.search(f"{edge}{re.escape(plain)}{tail}", told, re.IGNORECASE) is not None


def _is_named(told: str, gold: str) -> bool:
    return any(
        _NAMED.search(told[max(0, found.start() - 40) : found.start()])
        for found in re.finditer(re.escape(gold.strip()), told, re.IGNORECASE)
    )


def _placed(own: Sequence[tuple[Episode, str, str]]) -> float:
    """Return the share of prompts in which the answer stands at the commonest of simple places."""
    places: dict[str, int] = {}
    for _, told, gold in own:
        words, plain = told.split(), gold.strip()
        size = len(plain.split())
        found = {
            f"first {k}" for k in range(6) if " ".join(words[k : k + size]).strip("\"'.,:;()[]") == plain
        }
        ends = [len(words) - k - size for k in range(6)]
        found |= {
            f"last {k}"
            for k, at in enumerate(ends)
            if at >= 0 and " ".join(words[at : at + size]).strip("\"'.,:;()[]") == plain
        }
        for place in found:
            places[place] = places.get(place, 0) + 1
    return max(places.values(), default=0) / max(1, len(own))


def _encoded(pairs: Sequence[tuple[Episode, str, str]]) -> str | None:
    import base64
    import codecs

    hits, first = 0, ""
    for _, told, gold in pairs:
        plain = gold.strip()
        if len(plain) < 4:
            return None
        ways = [
            base64.b64encode(plain.encode()).decode().rstrip("="),
            plain.encode().hex(),
            codecs.encode(plain, "rot13"),
        ]
        found = [way for way in ways if way.casefold() != plain.casefold() and way in told]
        hits, first = hits + bool(found), first or (shown(found[0]) if found else "")
    return first if hits >= 0.8 * len(pairs) else None


def _around(told: str, gold: str) -> str:
    at = max(0, told.casefold().find(gold.strip().casefold()))
    return shown(" ".join(told[max(0, at - 30) : at + len(gold) + 10].split()))


def contradicting_golds(seen: Evidence) -> Finding:
    """Return whether records that ask the same have different right answers: one of them punishes what is
    right by the other."""
    look = check("contradicting golds", "one right answer to a question", DATA)
    asked: dict[str, dict[str, str]] = {}
    n = 0
    for items in seen.case.splits.values():
        for item in items:
            if item.row is not None and "prompt" in item.row and (gold := seen.gold(item)) is not None:
                n += 1
                # One prompt about two schemas may well have two right answers.
                question = digest([item.row.get(name) for name in ASKED])
                asked.setdefault(question, {}).setdefault(gold, item.id)
    if not n:
        return not_looked_at("contradicting golds", "no prompts with a known answer")
    odd = [golds for golds in asked.values() if len(golds) > 1]
    told = f"{len(odd)} of {counted(len(asked), 'questions')} have several"
    if odd:
        (one, first), (other, second) = list(odd[0].items())[:2]
        told += f"; {shown(one)} in {first}, {shown(other)} in {second}"
    fix = "./run assay task audit FILE --task NAME lists them: correct or leave out"
    return look.judge(told, fix, fault=len(odd) > SOME_LEAK * len(asked), doubtful=bool(odd))


def heldout_overlap(seen: Evidence) -> Finding:
    """Return whether worlds of held-out are among those of train."""
    look = check("held-out overlap", "worlds that train has not", DATA)
    splits = seen.case.splits
    train, heldout = splits["train"], splits["heldout"]
    if not heldout:
        return look.fault("no held-out records", "write heldout.jsonl")

    def asked(items: Sequence[object]) -> list[str]:
        return [
            digest({k: v for k, v in (item.row or {}).items() if k != "id"})  # type: ignore[attr-defined]
            for item in items
        ]

    rows = set(asked(train))
    same = sum(each in rows for each in asked(heldout)) / len(heldout)
    worded = {content_of(item.row) for item in train if item.row is not None and "prompt" in item.row}
    alike = [item for item in heldout if item.row is not None and "prompt" in item.row]
    words = (
        sum(content_of(item.row or {}) in worded for item in alike) / max(1, len(alike)) if worded else 0.0
    )
    # A prompt may be one of several texts that a record is told by
    prompts = {repr(item.public) for item in train if item.row is not None and "prompt" in item.row}
    again_asked = [repr(item.public) in prompts for item in alike]
    share = max(same, sum(again_asked) / max(1, len(alike)))
    told = (
        f"{max(share, words):.0%} of {counted(len(heldout), 'held-out records')} are among"
        f" {len(train)} of train"
    )
    fix = "draw held-out from other seeds or sources, or split by prompt: ./run assay task audit --fix-splits"
    if share > SOME_LEAK:
        return look.fault(told, fix)
    one, again = _worlds(seen)
    if one is not None:
        return look.fault(one, "let reset read the record, or its seed")
    if again > 0.5:
        return look.warning(f"{again:.0%} of held-out worlds open with the words of one of train", fix)
    return look.judge(told, fix, doubtful=max(share, words) > 0, ok=told)


def _worlds(seen: Evidence) -> tuple[str | None, float]:
    """Return that there is but one world, in words; and the share of held-out worlds that open like one of
    train."""
    over = seen.timed(3.0)

    def met(worlds: Sequence[World]) -> list[str]:
        found: list[str] = []
        for world in worlds:
            if over() and len(found) >= 8:
                break
            episode = open_episode(seen.case, world)
            if episode.trouble is None:
                found.append(episode.prompt)
        return found

    if seen.case.max_turns == 1 and all("prompt" in (each.world.item.row or {}) for each in seen.sound):
        return None, 0.0  # prompts were compared
    solved = {(each.prompt, tuple(each.said), repr(each.told)) for each in seen.sound}
    rows = {repr(each.world.item.hidden) for each in seen.sound}
    if len(seen.sound) >= 4 and len(solved) == 1 and len(rows) > 1 and len(seen.sound[0].prompt) > 0:
        return f"{counted(len(seen.sound), 'records')} open, and are solved, alike: one world for all", 0.0
    train, heldout = met(seen.case.worlds(400)), met(seen.case.worlds(100, "heldout"))
    if len(set(train)) < 0.5 * len(train):  # prompts do not tell worlds apart
        return None, 0.0
    return None, sum(each in set(train) for each in heldout) / max(1, len(heldout))


def gold_through_json(seen: Evidence) -> Finding:
    """Return whether records and right answers survive being written as JSON, and are still right."""
    look = check("gold through JSON", "golds that are right after being written and read", DATA)
    case = seen.case
    for split, reason in case.unread.items():
        return look.fault(f"records of {split} that the task cannot read: {reason}", "correct these records")
    wrong = []
    for top in seen.sound:
        item = top.world.item
        own = case.own
        column = None if own is None else own.settings.answer_column
        raw = item.hidden.get(column) if column is not None and isinstance(item.hidden, dict) else None
        if raw is not None and not isinstance(raw, str | int | float):
            spelt = json.dumps(raw, ensure_ascii=False)
            again = seen.play(top.world, always(spelt))
            if not again.success or again.reward < 0.95 * top.reward:
                wrong.append(f"item {item.id}: {shown(spelt)}, as JSON writes the gold, is not right")
            elif not top.success:
                wrong.append(f"item {item.id}: {shown(str(raw))}, as Python writes the gold, is no JSON")
        elif not top.success and (gold := seen.gold(item)) is not None and _structured(gold):
            wrong.append(f"item {item.id}: the gold {shown(gold)} is not right by its own grader")
        elif any(text != json.loads(json.dumps(text)) or not _utf8(text) for text in top.said):
            wrong.append(f"item {item.id}: {shown(top.said[-1])} cannot be written as UTF-8")
    n = counted(len(seen.sound), "golds")
    if (odd := _oddly_written(seen)) is not None:
        return look.warning(odd, "compare both after unicodedata.normalize('NFKC', text).strip()")
    fix = "compare what both are after JSON (lists for tuples), or set task.answer to a column of texts"
    return look.judge(
        f"{len(wrong)} of {n}; {wrong[0] if wrong else ''}", fix, fault=len(wrong) > 0.1 * len(seen.sound),
        doubtful=bool(wrong), ok=n,
    )  # fmt: skip


def _oddly_written(seen: Evidence) -> str | None:
    """Return that golds hold letters or spaces that nobody would type so, and are right with them alone."""
    for top in seen.sound if seen.case.max_turns == 1 else []:
        gold = top.said[-1] if top.said else ""
        plain = unicodedata.normalize("NFC", gold.replace("\u00a0", " ").replace("\u200b", "")).strip()
        if plain != gold and seen.play(top.world, always(plain)).reward < 0.95 * top.reward:
            return f"item {top.world.item.id}: {plain!a}, as {gold!a} is typed, is not right"
    return None


def _structured(text: str) -> bool:
    plain = text.strip()
    return plain[:1] in ("[", "{", "(") and plain[-1:] in ("]", "}", ")")


def _utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
