"""docs/internals/claim.md and its schemas: what claim.json and recipe.json may say, as the code knows it."""

from __future__ import annotations

import textwrap

from assay.core.records import Record
from assay.core.storage.json import json_text
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.recipe.records import Recipes
from assay.verdict.evidence.words.english import GROUPS
from assay.verdict.evidence.words.remarks import values_of

PAGE = "docs/internals/claim.md"
SCHEMAS: dict[str, type[Record]] = {
    "docs/internals/claim.schema.json": Claim,
    "docs/internals/recipe.schema.json": Recipes,
}
_HEAD = """# What a claim says

`claim.json` holds numbers. What is said of them is a list of remarks, each a code with its values:
`reasons` has those of the verdict, or all that bars a claim, and `warnings` has what to read beside it. Of
`assay.verdict`, `claim.reasons` and `claim.warnings` are the same, and `str` of one says it in English.
`recipe.json` does so of training seeds together: each seed has the remarks of its claim, and `recipe` its
own reasons, warnings, and in `registration` why the seeds count as hand-picked (null: they do not).
[claim.schema.json](claim.schema.json) and [recipe.schema.json](recipe.schema.json) are the forms of the files
as JSON Schema. A program compares codes: texts may change with any version, and a code that goes is said in
CHANGELOG.md.

Below: code, values, and its text, which is a template of Jinja.
"""


def codes_page() -> str:
    """Return the text of the page: every code with its values and its text, by what it is about."""
    blocks = [_HEAD]
    for about, texts in GROUPS.items():
        lines = []
        for code, text in texts.items():
            values = ", ".join(sorted(values_of(code)))
            told = f"* `{code}`{f' ({values})' if values else ''}: `{text}`"
            lines += textwrap.wrap(told, 108, subsequent_indent="  ", break_on_hyphens=False)
        blocks.append(f"## {about}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(blocks)


def schema_of(kind: type[Record]) -> str:
    """Return the JSON Schema of a record, as text."""
    return json_text(kind.model_json_schema())
