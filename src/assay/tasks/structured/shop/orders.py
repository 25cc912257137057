"""A generator of small jobs about orders in a shop: extraction into a schema, and calls of one of two
functions.

What makes a job hard is telling facts of one kind apart by the little word before them: two cities (from,
to), two people (for, by), two colours (in, not in), two numbers. Splits use different template families:
other orders of the facts.
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
EXTRACT, CALL = "Extract the order.", "Call the right function."

N_FAMILIES = {"train": range(20), "validation": range(20, 26), "heldout": range(26, 36)}
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

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the form."""
        nested = {key: _object(list(value)) for key, value in self.layout.items() if isinstance(value, tuple)}
        flat = [key for key, value in self.layout.items() if not isinstance(value, tuple)]
        found: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | _object(
            flat, nested
        )
        return found

    def fields(self) -> list[str]:
        """Return the facts asked for, in the order of the answer."""
        return [
            f for key, value in self.layout.items() for f in (value if isinstance(value, tuple) else (key,))
        ]

    def fill(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer that these facts make; a fact without a value is left out."""
        answer: dict[str, Any] = {}
        for key, value in self.layout.items():
            if isinstance(value, tuple):
                answer[key] = {field: values[field] for field in value if field in values}
            elif key in values:
                answer[key] = values[key]
        return answer


def _flat(name: str, difficulty: str, *fields: str) -> Form:
    return Form(name, difficulty, dict.fromkeys(fields, ""))


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
class ShopJob:
    """One job: what it asks, the facts it states, and its text. `offered` are the functions to choose
    from."""

    form: Form | Function
    offered: tuple[Function, ...]
    facts: Mapping[str, str | int]
    context: str

    def fields(self) -> list[str]:
        """Return the facts that a right answer states."""
        if isinstance(self.form, Form):
            return self.form.fields()
        return [field for field in self.form.arguments if field in self.facts]


def family_order(family: int) -> tuple[list[str], str, str]:
    """Return a template family: the order of the facts, an opener and a closer."""
    rng = labelled_rng("shop", "family", family)
    facts = ["goods", *MARKERS]
    order = [facts[i] for i in rng.permutation(len(facts))]
    return order, OPENERS[int(rng.integers(len(OPENERS)))], CLOSERS[int(rng.integers(len(CLOSERS)))]


def _text(facts: Mapping[str, str | int], family: int, opener: str | None) -> str:
    order, usual, closer = family_order(family)
    words = [usual if opener is None else opener]
    for name in order:
        if name == "goods":
            count = f" {facts['quantity']}" if "quantity" in facts else " the"
            words.append(f"{count} {facts['item']}{'s' if 'quantity' in facts else ''}")
        elif name in facts:
            words.append(f"{MARKERS[name]}{facts[name]}{CURRENCY if name == 'price' else ''}")
    return "".join(words) + closer


def draw_job(rng: np.random.Generator, family: int) -> ShopJob:
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
        wanted = form.fields()
    further = [
        name for name in ("destination", "recipient", "colour", "price") if rng.uniform() < FURTHER_FACT_ODDS
    ]
    stated = {"item", *wanted, *further}
    stated |= {RIVALS[name] for name in (*wanted,) if name in RIVALS}
    facts: dict[str, str | int] = {}
    for name, kind in KINDS.items():
        if name in stated:
            taken = facts.get(RIVALS.get(name, ""))
            open_values = [value for value in kind if value != taken]
            facts[name] = open_values[int(rng.integers(len(open_values)))]
    opener = None if isinstance(form, Form) else form.openers[int(rng.integers(len(form.openers)))]
    return ShopJob(form, offered, facts, _text(facts, family, opener))


def record(job: ShopJob, family: int, name: str) -> dict[str, Any]:
    """Return the job as one line of a tasks file."""
    common = {
        "id": name,
        "context": job.context,
        "family": f"f{family:02d}",
        "source": "assay shop generator 1",
    }
    if isinstance(job.form, Form):
        schema = {"schema_path": f"schemas/{job.form.name}.json", "gold": job.form.fill(job.facts)}
        return (
            {"prompt": EXTRACT, "difficulty": job.form.difficulty, "task_type": "extraction"}
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


def generate(labels: Sequence[Label]) -> dict[str, list[dict[str, Any]]]:
    """Return the records of every split; equal labels give equal records, and no text is met twice."""
    seen: set[str] = set()
    return {split: list(_split(split, size, labels, seen)) for split, size in SIZES.items()}


def files(labels: Sequence[Label]) -> dict[str, str]:
    """Return the shipped data set: the text of each file by its name, schemas included."""
    texts = {
        f"{split}.jsonl": "".join(dumps(row) + "\n" for row in rows)
        for split, rows in generate(labels).items()
    }
    # The properties of a schema in a file keep their order, and the model is shown them so.
    return texts | {f"schemas/{form.name}.json": json.dumps(form.schema, indent=2) + "\n" for form in FORMS}


def _split(split: str, size: int, labels: Sequence[Label], seen: set[str]) -> Iterator[dict[str, Any]]:
    rng, families = labelled_rng("shop", *labels, split), list(N_FAMILIES[split])
    made = 0
    while made < size:
        family = families[int(rng.integers(len(families)))]
        job = draw_job(rng, family)
        if job.context not in seen:
            seen.add(job.context)
            made += 1
            yield record(job, family, f"{split}-{made:04d}")
