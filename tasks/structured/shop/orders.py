"""A generator of small jobs about orders in a shop: extraction into a schema, and calls of one of two
functions.

What makes a job hard is telling facts of one kind apart by the little word before them: two cities (from,
to), two people (for, by), two colours (in, not in), two numbers, two goods; and saying null where nothing is
stated. Splits use different template families: other orders of the facts, in one sentence, in two or as
notes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core.seeds import Label
from assay.core.seeds import rng as labelled_rng
from assay.core.storage.json import dumps

ITEMS = (
    "basket",
    "candle",
    "chair",
    "clock",
    "desk",
    "kettle",
    "lamp",
    "mirror",
    "rug",
    "stool",
    "table",
    "vase",
)
COLOURS = ("black", "blue", "green", "grey", "red", "white", "yellow", "brown")
CITIES = (
    "Athens",
    "Berlin",
    "Cairo",
    "Dublin",
    "Geneva",
    "Lima",
    "Madrid",
    "Oslo",
    "Paris",
    "Rome",
    "Tokyo",
    "Vienna",
)
PEOPLE = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jon", "Kim", "Lea")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
NUMBERS = tuple(range(2, 10))

KINDS: Mapping[str, tuple[str | int, ...]] = {
    "item": ITEMS,
    "quantity": NUMBERS,
    "price": NUMBERS,
    "colour": COLOURS,
    "unwanted": COLOURS,
    "origin": CITIES,
    "destination": CITIES,
    "recipient": PEOPLE,
    "sender": PEOPLE,
    "day": DAYS,
    "other_item": ITEMS,
    "other_quantity": NUMBERS,
}
# A fact and the one it can be mistaken for; a job that asks for one of them always states both.
RIVALS = {
    "quantity": "price",
    "price": "quantity",
    "colour": "unwanted",
    "unwanted": "colour",
    "origin": "destination",
    "destination": "origin",
    "recipient": "sender",
    "sender": "recipient",
}
CONFUSED = {**RIVALS, "item": "other_item", "other_item": "item", "other_quantity": "quantity"}
MARKERS = {
    "price": " at ",
    "colour": " in ",
    "unwanted": " not in ",
    "origin": " from ",
    "destination": " to ",
    "recipient": " for ",
    "sender": " by ",
    "day": " on ",
}
CURRENCY = " euro"
OPENERS = ("Hello,", "New order:", "Dear team,", "Note:", "Good morning,", "As agreed,")
CLOSERS = (".", ". Thanks.", ". Best wishes.", " please.")
AND, NEXT_SENTENCE, NEXT_NOTE = " and", ". That is", "\n-"
EXTRACT, LIST, CALL = "Extract the order.", "List the goods.", "Call the right function."

FAMILIES = {"train": range(80), "validation": range(80, 96), "heldout": range(96, 160)}
SOURCE = "assay shop generator 2"
SIZES = {"heldout": 512, "validation": 256, "train": 2048}
CALL_ODDS, OPTIONAL_DAY_ODDS, FURTHER_FACT_ODDS = 0.25, 0.5, 0.25


def _typed(field: str) -> dict[str, Any]:
    if field in ("quantity", "price"):
        return {"type": "integer", "minimum": 1}
    return {"enum": list(COLOURS)} if field == "colour" else {"type": "string"}


def _object(
    fields: Sequence[str], parts: Mapping[str, Any] | None = None, required: Sequence[str] | None = None
) -> Any:
    properties = {field: _typed(field) for field in fields} | dict(parts or {})
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else list(required),
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Form:
    """What an extraction job asks for: a schema, by the name of its file, and which facts go where in the
    answer."""

    name: str
    difficulty: str
    layout: Mapping[str, Any]
    nullable: frozenset[str] = frozenset()

    @property
    def instruction(self) -> str:
        """What the record's prompt says."""
        return LIST if self.name == GOODS else EXTRACT

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the form."""
        parts = {key: _part(value) for key, value in self.layout.items() if value}
        flat = [key for key, value in self.layout.items() if not value]
        whole: dict[str, Any] = _object(flat, parts)
        for field in self.nullable:
            whole["properties"][field]["type"] = ["string", "null"]
        return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | whole

    def fields(self) -> list[str]:
        """Return the facts asked for, in the order of the answer."""
        found: list[str] = []
        for key, value in self.layout.items():
            rows = value if isinstance(value, list) else [value or (key,)]
            found += [field for row in rows for field in row]
        return found

    def fill(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer that these facts make; a fact without a value is null where it may be, else left
        out."""
        answer: dict[str, Any] = {}
        for key, value in self.layout.items():
            if isinstance(value, list):
                answer[key] = [_filled(row, values) for row in value]
            elif value:
                answer[key] = _filled(value, values)
            elif key in values or key in self.nullable:
                answer[key] = values.get(key)
        return answer


def _filled(fields: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {field.removeprefix("other_"): values[field] for field in fields if field in values}


def _part(value: Any) -> Any:
    if isinstance(value, list):
        return {"type": "array", "items": _object(value[0])}
    return _object(list(value))


def _flat(name: str, difficulty: str, *fields: str) -> Form:
    return Form(name, difficulty, dict.fromkeys(fields, ()))


GOODS = "goods"
FORMS = (
    _flat("delivery", "easy", "item", "destination"),
    _flat("paint", "easy", "item", "colour"),
    _flat("gift", "easy", "item", "recipient"),
    _flat("stock", "easy", "quantity", "item"),
    _flat("shipment", "medium", "item", "quantity", "colour", "day"),
    _flat("transfer", "medium", "item", "origin", "destination"),
    _flat("handover", "medium", "sender", "recipient", "item", "day"),
    Form("order", "hard", {"goods": ("item", "colour"), "route": ("origin", "destination")}),
    Form("invoice", "hard", {"people": ("recipient", "sender"), "goods": ("quantity", "item")}),
    Form(GOODS, "hard", {"lines": [("quantity", "item"), ("other_quantity", "other_item")]}),
    Form("visit", "medium", dict.fromkeys(("item", "destination", "day"), ()), frozenset({"day"})),
)


@dataclass(frozen=True, slots=True)
class Function:
    """Something that can be called: its arguments, and the words that ask for it; `day` may be left out."""

    name: str
    openers: tuple[str, ...]
    arguments: tuple[str, ...]

    @property
    def declaration(self) -> dict[str, Any]:
        """The record's entry in `functions`."""
        required = [field for field in self.arguments if field != "day"]
        return {"name": self.name, "parameters": _object(self.arguments, required=required)}


FUNCTIONS = (
    Function("ship", ("Please ship", "Send out"), ("item", "destination", "day")),
    Function("collect", ("Please collect", "Pick up"), ("item", "origin", "day")),
    Function("cancel", ("Please cancel", "Call off"), ("item", "recipient")),
    Function("refund", ("Please refund", "Pay back"), ("price", "recipient")),
    Function("repaint", ("Please repaint", "Paint again"), ("item", "colour", "day")),
)


@dataclass(frozen=True, slots=True)
class Job:
    """One job: what it asks, the facts it states, and its text. `offered` are the functions to choose
    from."""

    form: Form | Function
    offered: tuple[Function, ...]
    facts: Mapping[str, str | int]
    context: str

    def fields(self) -> list[str]:
        """Return the facts that a right answer states."""
        asked = self.form.fields() if isinstance(self.form, Form) else self.form.arguments
        return [field for field in asked if field in self.facts]


def template(family: int) -> tuple[list[str], str, str, str]:
    """Return a template family: the order of the facts, an opener, a closer, and what stands between its
    halves or its facts."""
    rng = labelled_rng("shop", "family", family)
    facts = ["goods", *MARKERS]
    order = [facts[i] for i in rng.permutation(len(facts))]
    opener, closer = OPENERS[int(rng.integers(len(OPENERS)))], CLOSERS[int(rng.integers(len(CLOSERS)))]
    return order, opener, closer, ("", NEXT_SENTENCE, NEXT_NOTE)[family % 3]


def _goods(facts: Mapping[str, str | int], form: Form | Function) -> str:
    first = f" {facts['quantity']} {facts['item']}s" if "quantity" in facts else f" the {facts['item']}"
    listed = isinstance(form, Form) and form.name == GOODS
    return f"{first}{AND} {facts['other_quantity']} {facts['other_item']}s" if listed else first


def _text(facts: Mapping[str, str | int], family: int, opener: str | None, form: Form | Function) -> str:
    order, usual, closer, between = template(family)
    said = {name: f"{marker}{facts[name]}" for name, marker in MARKERS.items() if name in facts}
    said |= {"goods": _goods(facts, form)}
    if "price" in said:
        said["price"] += CURRENCY
    parts = [said[name] for name in order if name in said]
    text = usual if opener is None else opener
    if between == NEXT_NOTE:
        return text + "".join(NEXT_NOTE + part for part in parts) + closer
    # Of two sentences the first one names the goods.
    half = max(len(parts) // 2, parts.index(said["goods"]) + 1) if between else len(parts)
    second = "".join(parts[half:])
    return text + "".join(parts[:half]) + (f"{NEXT_SENTENCE}{second}" if second else "") + closer


def draw_job(rng: np.random.Generator, family: int) -> Job:
    """Return a random job of one template family."""
    form: Form | Function
    offered: tuple[Function, ...] = ()
    if rng.uniform() < CALL_ODDS:
        first, second = (FUNCTIONS[i] for i in rng.permutation(len(FUNCTIONS))[:2])
        form = first if rng.uniform() < 0.5 else second
        offered, wanted = (first, second), list(form.arguments)
        if "day" in wanted and rng.uniform() < OPTIONAL_DAY_ODDS:
            wanted.remove("day")
    else:
        form = FORMS[int(rng.integers(len(FORMS)))]
        wanted = [
            name for name in form.fields() if name not in form.nullable or rng.uniform() < OPTIONAL_DAY_ODDS
        ]
    further = [
        name for name in ("destination", "recipient", "colour", "price") if rng.uniform() < FURTHER_FACT_ODDS
    ]
    stated = {"item", *wanted, *further}
    stated |= {RIVALS[name] for name in (*wanted,) if name in RIVALS}
    facts: dict[str, str | int] = {}
    for name, kind in KINDS.items():
        if name in stated:
            taken = facts.get(CONFUSED.get(name, ""))
            open_values = [value for value in kind if value != taken]
            facts[name] = open_values[int(rng.integers(len(open_values)))]
    opener = None if isinstance(form, Form) else form.openers[int(rng.integers(len(form.openers)))]
    return Job(form, offered, facts, _text(facts, family, opener, form))


def record(job: Job, family: int, name: str) -> dict[str, Any]:
    """Return the job as one line of a tasks file."""
    common = {"id": name, "context": job.context, "family": f"f{family:03d}", "source": SOURCE}
    if isinstance(job.form, Form):
        schema = {"schema_path": f"schemas/{job.form.name}.json", "gold": job.form.fill(job.facts)}
        return (
            {"prompt": job.form.instruction, "difficulty": job.form.difficulty, "task_type": "extraction"}
            | common
            | schema
        )
    accepted: dict[str, list[Any]] = {}
    for field in job.form.arguments:
        if field in job.facts:
            accepted[field] = [job.facts[field]]
            if field == "item":
                accepted[field].append(f"{job.facts[field]}s")
    call = {"functions": [each.declaration for each in job.offered], "gold": {job.form.name: accepted}}
    return {"prompt": CALL, "difficulty": "medium", "task_type": "call"} | common | call


def _weighed(job: Job) -> list[str]:
    asked = job.form.fields() if isinstance(job.form, Form) else job.form.arguments
    return sorted({*asked, *(RIVALS[name] for name in asked if name in RIVALS)})


def generate(labels: Sequence[Label]) -> dict[str, list[dict[str, Any]]]:
    """Return the records of every split; equal labels give equal records, no text is met twice, and no split
    asks what another one asks."""
    texts: set[str] = set()
    homes: dict[tuple[Any, ...], str] = {}
    return {split: list(_split(split, size, labels, texts, homes)) for split, size in SIZES.items()}


def files(labels: Sequence[Label]) -> dict[str, str]:
    """Return the shipped data set: the text of each file by its name, schemas included."""
    texts = {
        f"{split}.jsonl": "".join(dumps(row) + "\n" for row in rows)
        for split, rows in generate(labels).items()
    }
    # The properties of a schema in a file keep their order, and the model is shown them so.
    return texts | {f"schemas/{form.name}.json": json.dumps(form.schema, indent=2) + "\n" for form in FORMS}


def generate_more(labels: Sequence[Label], rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
    """Return n records more of the held-out families; none asks what one of `labels` asks, the shipped
    ones."""
    texts: set[str] = set()
    homes: dict[tuple[Any, ...], str] = {}
    for split, size in SIZES.items():
        for _ in _split(split, size, labels, texts, homes):
            pass
    return list(_drawn("fresh", n, rng, list(FAMILIES["heldout"]), texts, homes))


def _split(
    split: str, size: int, labels: Sequence[Label], texts: set[str], homes: dict[tuple[Any, ...], str]
) -> Iterator[dict[str, Any]]:
    rng = labelled_rng("shop", *labels, split)
    return _drawn(split, size, rng, list(FAMILIES[split]), texts, homes)


def _drawn(
    split: str,
    size: int,
    rng: np.random.Generator,
    families: Sequence[int],
    texts: set[str],
    homes: dict[tuple[Any, ...], str],
) -> Iterator[dict[str, Any]]:
    made = 0
    while made < size:
        family = families[int(rng.integers(len(families)))]
        job = draw_job(rng, family)
        # What is asked, and what it may be mistaken for: alike in two splits, it is one job in other words.
        key = (job.form.name, *(job.facts.get(name) for name in _weighed(job)))
        if job.context not in texts and homes.setdefault(key, split) == split:
            texts.add(job.context)
            made += 1
            yield record(job, family, f"{split}-{made:04d}")
