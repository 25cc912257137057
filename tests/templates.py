"""Records as people make them of a template with many slots: other values, other answers, the same words."""

from __future__ import annotations

import itertools
import random
from typing import Any

TABLES = {
    "orders": ("customer", "total", "placed", "city", "weight"),
    "flights": ("airline", "price", "leaves", "airport", "seats"),
    "books": ("author", "pages", "printed", "shelf", "price"),
    "patients": ("name", "weight", "born", "ward", "doctor"),
    "songs": ("singer", "length", "released", "label", "album"),
    "houses": ("owner", "rooms", "built", "street", "rent"),
}
COMPARED = {">": "more than", "<": "less than", "=": "exactly"}
SORTED = {"ASC": "rising", "DESC": "falling"}


def queries(n: int, *, answer: bool = True, polite: bool = False) -> list[dict[str, Any]]:
    """Return n different questions about six tables with the query that answers each; polite: in other
    words."""
    slots = [
        (table, *columns, sign, number, order)
        for table, named in TABLES.items()
        for columns in list(itertools.permutations(named, 3))[:24]
        for sign in COMPARED
        for number in range(10, 100, 10)
        for order in SORTED
    ]
    rows = []
    for table, one, other, third, sign, number, order in random.Random(0).sample(slots, n):
        columns = ", ".join(TABLES[table])
        asked = (
            f"Table {table} has the columns {columns}. Write one SQL query: {one} and {other}"
            f" of all {table} where {third} is {COMPARED[sign]} {number}, sorted by {one} {SORTED[order]}."
        )
        right = f"SELECT {one}, {other} FROM {table} WHERE {third} {sign} {number} ORDER BY {one} {order}"
        rows.append({"prompt": f"Hello! {asked} Many thanks." if polite else asked})
        if answer:
            rows[-1]["answer"] = right
    return rows


def calls(n: int) -> list[dict[str, Any]]:
    """Return n different requests to three offices, each with the call that carries it out."""
    offices = {
        "transfer": "The customer {who} of the bank in the old town writes: please move {k} euro from my"
        " savings to the account for {what} on day {day} of the coming month, and confirm by mail.",
        "order_books": "The reader {who} of our library beside the station asks for {k} copies of every new"
        " volume about {what}, to be put aside until day {day} of next month under that name.",
        "book_room": "A mail to the desk of the small hotel at the lake: {who} takes {k} rooms with a view of"
        " the {what} from day {day} on, breakfast for all guests included, and pays on arrival.",
    }
    slots = itertools.product(
        offices, ("Anna", "Ben", "Carla", "David"), range(2, 22), "ABCDEF", range(1, 13)
    )
    return [
        {
            "prompt": offices[name].format(who=who, k=k, what=what, day=day),
            "gold": {name: {"who": who, "what": what, "k": k, "day": day}},
        }
        for name, who, k, what, day in random.Random(1).sample(list(slots), n)
    ]
