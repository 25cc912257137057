"""Completions that somebody has, of any table: whose item, which draw, and every turn as it was written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from assay.core.errors import DataError
from assay.rollout.tables.batches import answer_of, spread_answers
from assay.rollout.tables.columns import IN_ORDER, Columns, Meaning, look_up, simplify
from assay.rollout.tables.lines import Row, refuse
from assay.rollout.tasks.protocol import Item
from assay.rollout.tasks.wrappings import read_message
from assay.verdict.judge.contents import text_of
from assay.verdict.judge.forms import cut_off
from assay.verdict.judge.sources import truth_of, whole_of

Form = Literal["assay episodes", "table of completions", "transcripts"]
# Of verifiers, and of evalplus beside a solution: an item that is there again is its next draw.
EXAMPLE, SOLVED = "exampleid", {"task_id", "solution"}
BESIDE: tuple[Meaning, ...] = ("tokens", "model")
TEXTS = ("messages", "completions", "completion")
PROMPTED = "\0"  # before a prompt that stands for an item until its record is found
FIX = "docs/judge.md has the columns: an item, and completion, completions or messages"


@dataclass(frozen=True, slots=True)
class Answered:
    """One episode as it was written: its completions, and what stands between them where the file has it.

    `observations` has as many places as `completions`; None is not known. `tokens` and `truncated` are those
    of each completion; None: nobody counted.
    """

    place: str
    item: str
    draw: int | None
    completions: tuple[str, ...]
    observations: tuple[str | None, ...]
    asked: str | None = None
    tokens: tuple[int, ...] | None = None
    truncated: tuple[bool, ...] | None = None
    prompts: tuple[str, ...] | None = None
    seed: int | None = None
    chars_cut: int = 0
    model: str | None = None
    hidden: int = 0  # completions without a text behind which there is reasoning


def documented(where: str, row: Row, columns: Columns) -> Row:
    """Return a row under the names that docs/judge.md has, from whatever names it has.

    Raises:
        DataError: It names no item and no prompt, has no completion, or two columns may be either; or it is
            of a request that failed.
    """
    if isinstance(row.get("turns"), list) and "item_id" in row:
        return row
    answer = None if "completion" in columns.named else answer_of(row)
    if answer is not None:
        if answer.message is None:
            fix = "ask again what failed, and write its answer in this line's place"
            raise refuse("an answer to each request", f"none to {answer.item!a}: {answer.why}", where, fix)
        if answer.answers > 1:
            fix = "write each answer to a line of its own: item, draw (0, 1, ...), completion"
            several = f"{answer.answers} to {answer.item!a}"
            raise refuse("one answer to each request", several, where, fix)
        told = {"tokens": answer.tokens, "truncated": answer.truncated, "model": answer.model}
        return {"item": answer.item, "completion": [{**answer.message, "role": "assistant"}], **told}
    item = columns.find("item", row, where)
    prompt = columns.find("prompt", row, where) if item is None else None
    if item is None and prompt is None:
        error = columns.missing((("item", "prompt"),), row, where)
        if "=NAME" in error.fix:
            error.fix = "write the id of its record as item into each row, or the record's prompt as prompt"
        raise error
    found = {**row, "item": None if item is None else look_up(row, item)}
    if prompt is not None:
        found["prompt"] = look_up(row, prompt)
    if "completion" in columns.named or not {"messages", "completions"} & row.keys():
        name = columns.find("completion", row, where)
        if name is None:
            raise columns.missing((("completion",),), row, where)
        found["completion"] = look_up(row, name)
        found = {name: value for name, value in found.items() if name not in ("messages", "completions")}
    found |= {meaning: columns.beside(meaning, row) for meaning in BESIDE}
    found["draw"] = columns.value("draw", row, where)
    found["truncated"] = cut_off(columns, row, where)
    return found


def read_row(where: str, row: Row) -> tuple[Form, Answered]:
    """Return one row under the documented names as an episode's texts.

    Raises:
        DataError: It names no item, holds no completion, or one that is no text.
    """
    if isinstance(row.get("turns"), list) and "item_id" in row:
        return "assay episodes", of_episode(where, row)
    item = "item" if row.get("item") not in (None, "") else None
    prompt = row.get("prompt")
    if item is None and not (isinstance(prompt, str) and prompt):
        raise refuse("an item, or the record's prompt, on every row", "neither", where, FIX)
    name = next(name for name in TEXTS if name in row)
    value = row[name]
    if isinstance(value, str) and name != "completion":
        value = _list_in(value, where, name)
    if name == "completion" and (
        isinstance(value, Mapping)
        or (value is None and read_message({**row, "content": None})[0] is not None)
    ):
        value = [{**(row if value is None else value), "role": "assistant"}]
    spoken = isinstance(value, list) and (name == "messages" or any(isinstance(e, dict) for e in value))
    hidden = 0
    if spoken:
        asked, texts, told, hidden = _transcript(value, where)
    elif name == "completions":
        if not isinstance(value, list):
            raise refuse("a list of texts as completions", repr(value), where, FIX)
        asked, texts = None, [_text(each, f"{where}, turn {n}") for n, each in enumerate(value, start=1)]
        told = [None] * len(texts)
    else:
        asked, texts, told = None, [_text(value, where)], [None]
    if not texts:
        raise refuse("at least one completion", "none", where, FIX)
    tokens, cut = (
        whole_of(row.get("tokens"), where, "tokens"),
        truth_of(row.get("truncated"), where, "truncated"),
    )
    alone = len(texts) == 1
    draw = row.get("draw")
    return "transcripts" if len(texts) > 1 or spoken else "table of completions", Answered(
        where,
        f"{PROMPTED}{prompt}" if item is None else text_of(row[item]),
        whole_of(draw, where, "draw"),
        tuple(texts),
        tuple(told),
        asked,
        # Of several turns a sum cannot be told apart again.
        (tokens,) if alone and tokens is not None else None,
        (cut,) if alone and cut is not None else None,
        model=None if row.get("model") is None else text_of(row["model"]),
        hidden=hidden,
    )


def of_episode(where: str, row: Row) -> Answered:
    """Return what an episode of assay says of its texts.

    Raises:
        DataError: It has no turn, or one without a text.
    """
    turns = row["turns"]
    if not turns or not all(isinstance(turn, dict) for turn in turns):
        raise refuse("the turns of an episode", f"{len(turns)} turns" if not turns else "no objects", where)
    texts = tuple(
        _text(each.get("completion"), f"{where}, turn {n}") for n, each in enumerate(turns, start=1)
    )
    prompts = tuple(text_of(each.get("prompt_digest")) for each in turns)
    tokens = tuple(whole_of(each.get("n_tokens"), where, "n_tokens") or 0 for each in turns)
    counted = any(prompts) or any(tokens)
    policy = row.get("policy")
    return Answered(
        where,
        text_of(row["item_id"]),
        whole_of(row.get("draw"), where, "draw"),
        texts,
        tuple(
            None if each.get("observation") is None else _text(each["observation"], where) for each in turns
        ),
        None,
        tokens if counted else None,
        tuple(bool(each.get("truncated")) for each in turns) if counted else None,
        prompts if counted else None,
        whole_of_any(row.get("seed")),
        whole_of(row.get("prompt_chars_cut"), where, "prompt_chars_cut") or 0,
        policy if isinstance(policy, str) else None,
    )


def whole_of_any(value: Any) -> int | None:
    """Return a whole number of any size, None for anything else: seeds have 64 bits."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        fix = 'where the model said nothing write "" (in JSONL); run again what is lost'
        raise refuse("a text as completion", "none" if value is None else repr(value), where, fix)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"half a character (\\u{ord(value[error.start]):04x})"
        raise refuse("whole characters in a completion", found, where, "write the texts out again") from None
    return value


def _list_in(text: str, where: str, name: str) -> Any:
    """Return the list that a cell of CSV holds as JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise refuse(f"a list, as JSON, in {name}", repr(text[:60]), where, FIX)
    return found


def _transcript(messages: Sequence[Any], where: str) -> tuple[str | None, list[str], list[str | None], int]:
    """Return what was asked, what the model wrote turn by turn, what it was told after each, and how many
    turns are reasoning without an answer."""
    hidden = 0
    before: list[str] = []
    texts: list[str] = []
    told: list[list[str]] = []
    for number, each in enumerate(messages, start=1):
        at = f"{where}, message {number}"
        if not isinstance(each, Mapping) or not isinstance(each.get("role"), str):
            raise refuse("messages with role and content", repr(each), at, FIX)
        if each["role"] != "assistant":
            (told[-1] if told else before).append(_content(each.get("content"), at))
            continue
        if texts and not told[-1]:
            raise refuse("what the model was told between two completions", "nothing", at, FIX)
        text, thought = _read_said(each, at)
        texts.append(text)
        told.append([])
        hidden += thought and not text.strip()
    # A file of completions alone begins with one: then nothing is known of what was asked.
    between = ["\n".join(each) if each else None for each in told]
    return "\n".join(before) if before else None, texts, between, hidden


def _read_said(message: Mapping[str, Any], where: str) -> tuple[str, bool]:
    """Return what a message says, its calls of tools behind the text, and whether there is thought beside
    it."""
    text, thought = read_message(message)
    if text is None and message.get("content") is None and isinstance(message.get("refusal"), str):
        text = message["refusal"]  # of OpenAI: said in place of a content
    return _content(message.get("content"), where) if text is None else _text(text, where), bool(thought)


def _content(value: Any, where: str) -> str:
    if isinstance(value, list) and all(isinstance(each, Mapping) and "text" in each for each in value):
        return "".join(_text(each["text"], where) for each in value)
    return _text(value, where)


def numbered(
    rows: Iterable[tuple[str, Row]], path: str, columns: Columns | None = None
) -> tuple[Form, list[Answered]]:
    """Return all rows of a file with their draws numbered from 0, in the order of items and draws.

    Args:
        rows: As the file has them, each with its place.
        path: The file, for messages.
        columns: Which column is what; None: known names say.

    Raises:
        DataError: A row cannot be read, an item is there twice without a draw, or a draw of it is.
    """
    found: list[Answered] = []
    form: Form | None = None
    places: dict[tuple[str, int], str] = {}
    seen: dict[str, int] = {}
    columns = columns or Columns()
    for where, row in ((place, each) for place, whole in rows for each in spread_answers(place, whole)):
        kind, each = read_row(where, documented(where, row, columns))
        form = form if form in ("transcripts", "assay episodes") else kind
        if each.draw is None and each.item in seen and not _repeats(row, columns, where):
            expected = "each item once, or a column draw"
            raise refuse(expected, f"{each.item!a} again", where, columns.fix_repeated(row))
        draw = seen.get(each.item, 0) if each.draw is None else each.draw
        if (each.item, draw) in places:
            fix = f"leave out what is there twice: it is also at {places[each.item, draw]}"
            raise refuse("each draw of an item once", f"draw {draw} of {each.item!a} again", where, fix)
        places[each.item, draw] = where.rpartition(", ")[2]
        seen[each.item] = seen.get(each.item, 0) + 1
        found.append(_with_draw(each, draw))
    if form is None:
        raise refuse("at least one completion", "none", path, FIX)
    found.sort(key=lambda each: (each.item, each.draw or 0))
    last, n, kept = "", 0, []
    for each in found:
        n = n + 1 if each.item == last else 0
        last = each.item
        kept.append(_with_draw(each, n))
    return form, kept


def _repeats(row: Row, columns: Columns, where: str) -> bool:
    name = columns.find("item", row, where)
    told = columns.named.get("draw") == IN_ORDER
    return told or row.keys() >= SOLVED or (name is not None and simplify(name) == EXAMPLE)


def _with_draw(each: Answered, draw: int) -> Answered:
    return replace(each, draw=draw)


def one_model(answers: Sequence[Answered], named: str | None, path: str) -> str | None:
    """Return whose completions these are: as somebody named it, or as the file does; None where nobody says.

    Raises:
        DataError: They are of several models.
    """
    models = sorted({each.model for each in answers if each.model})
    if len(models) > 1:
        raise DataError(
            "the completions of one model",
            found=", ".join(models[:4]),
            where=path,
            fix="grade those of one model at a time",
        )
    return named or (models[0] if models else None)


def named(answers: Sequence[Answered], items: Sequence[Item]) -> list[Answered]:
    """Return the answers by item, where a row has its record's prompt instead.

    Raises:
        DataError: Two records have that prompt, or none.
    """
    asked: dict[str, list[str]] = {}
    for item in items if any(each.item.startswith(PROMPTED) for each in answers) else ():
        asked.setdefault(str((item.row or {}).get("prompt")), []).append(item.id)
    found = []
    for each in answers:
        if each.item.startswith(PROMPTED):
            ids = asked.get(each.item.removeprefix(PROMPTED), [])
            if len(ids) != 1:
                told = f"{len(ids) or 'none'} with {each.item.removeprefix(PROMPTED)[:60]!r}"
                raise refuse("one record of each prompt", told, each.place, "give every row a column item")
            each = replace(each, item=ids[0])
        found.append(each)
    return found
