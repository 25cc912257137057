"""docs/internals/claim.md and its schema: what claim.json may say, as the code itself knows it."""

from __future__ import annotations

import textwrap

from assay.core.storage.json import json_text
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.words.english import GROUPS
from assay.verdict.evidence.words.remarks import values_of

PAGE, SCHEMA = "docs/internals/claim.md", "docs/internals/claim.schema.json"
_HEAD = """# What a claim says

`claim.json` holds numbers. What is said of them is a list of remarks, each a code with its values:
`reasons` has those of the verdict, or all that bars a claim, and `warnings` has what to read beside it. Of
`assay.verdict`, `claim.reasons` and `claim.warnings` are the same, and `str` of one says it in English.
[claim.schema.json](claim.schema.json) is the form of the file as JSON Schema. A program compares codes:
texts may change with any version, and a code that goes is said in CHANGELOG.md.

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


def claim_schema() -> str:
    """Return the JSON Schema of claim.json, as text."""
    return json_text(Claim.model_json_schema())
