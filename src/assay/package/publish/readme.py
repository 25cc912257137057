"""`assay publish readme`: generated blocks of README.md and docs/results.md, each made of committed files."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from assay.core.config.tasks import tasks_with_data
from assay.core.console import say
from assay.core.errors import RecordError
from assay.core.evidence_files import place_of
from assay.core.storage.files import read_text, write_text
from assay.package.publish.headline import headline
from assay.package.recipe.recipe_file import digest_last_code, read_recipes
from assay.pipeline.project import Project
from assay.stages.render_evidence.at_hand import claim_at_hand
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.escape import visible
from assay.verdict.evidence.recipe.tables import seeds_block
from assay.verdict.evidence.words.reference import PAGE, SCHEMAS, codes_page, schema_of

CLI = "docs/cli.md"
TASKS = tasks_with_data()
# Which page has which blocks.
PAGES = {
    "README.md": ("headline",),
    "docs/read-a-claim.md": ("first words",),
    "docs/results.md": ("claim", *(f"{task} seeds" for task in TASKS)),
}
WIDTH = 108


def make_blocks(root: Path) -> dict[str, str]:
    """Return the text of every generated block, by its name.

    Raises:
        NoVerdictYet: The last run was of other settings.
        AssayError: There is no finished run, or recipe.json or dvc.lock is damaged.
    """
    recipes, code = read_recipes(root), digest_last_code(root)
    claim = claim_at_hand(Project.open(root))
    policy, summary = claim.after_policy, read_text(root / place_of("summary.md"), fix="./run repro")
    blocks = {f"{task} seeds": seeds_block(recipes.get(task), task, code, policy) for task in TASKS}
    seeds = {name: wrap_lines(block) for name, block in blocks.items()}
    said = _said(claim)
    shown = f"{headline(claim)}{_picture(root, policy)}"
    found = {"headline": wrap_lines(shown), "first words": said, "claim": wrap_lines(summary)}
    return found | seeds


def _said(claim: Claim) -> str:
    """Return the verdict with its sentence."""
    verdict = wrap_lines(f"**{claim.verdict}.** {visible(claim.sentence)}")
    return f"{verdict}\n"


def _picture(root: Path, policy: str) -> str:
    """Return the picture of the report that is about this policy; "" where none was taken of it."""
    name = f"docs/pictures/report-{policy[:8]}.png"
    report = place_of("report.html")
    return f"\n[![The first screen of the report]({name})]({report})\n" if (root / name).is_file() else ""


def wrap_lines(text: str) -> str:
    """Return Markdown with long lines broken, except rows of tables; none begins with what would be a mark.

    >>> print(wrap_lines("- " + "word " * 25 + "> 1\\n"), end="")
    - word word word word word word word word word word word word word word word word word word word word word
      word word word word > 1
    """
    lines = []
    for line in text.split("\n"):
        if line.startswith("|") or len(line) <= WIDTH:
            lines.append(line)
            continue
        kept = re.sub(r"(?<= [=<>]) | (?=([^\w\s]{1,6}|\d+[.)])( |$))", "\0", line)
        wrapper = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False)
        wrapper.subsequent_indent = "  " if line.startswith(("- ", "* ")) else ""
        lines += [each.replace("\0", " ") for each in wrapper.wrap(kept)]
    return "\n".join(lines)


def marks(name: str) -> tuple[str, str]:
    """Return what stands before and behind a generated block."""
    return f"<!-- {name}: generated, do not edit -->\n", f"<!-- end of {name} -->"


def run(root: Path, reference: str) -> None:
    """Write docs/cli.md, the page of claims with its schemas, and the generated blocks of PAGES; the rest
    stays.

    Raises:
        AssayError: A block has no place there, or its source cannot be read.
    """
    texts = {page: read_text(root / page, fix="run this in the project's folder") for page in PAGES}
    write_text(root / CLI, reference)
    write_text(root / PAGE, codes_page())
    for name, kind in SCHEMAS.items():
        write_text(root / name, schema_of(kind))
    found = make_blocks(root)
    for page, names in PAGES.items():
        text = texts[page]
        for name in names:
            start, end = marks(name)
            if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
                expected = f"one pair of marks {start.strip()} … {end}"
                raise RecordError(expected, found="none", where=page, fix="restore it")
            head, _, rest = text.partition(start)
            text = head + start + found[name] + end + rest.partition(end)[2]
        texts[page] = text
    for page, text in texts.items():
        write_text(root / page, text)
    say("README.md and docs/results.md show the last run, and the seeds of recipe.json")
