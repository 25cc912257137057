"""What other settings have shown is taken away before a stage of these settings runs: no page may name the one by the other.

A page is a file, and cannot look whether the settings were changed. So whoever begins to make another claim first puts pages
that say so in the place of the last one's: the raw episodes stay, and the same settings and `./run repro` bring it back.
"""

from __future__ import annotations

import html
import shutil

from assay.console import complain
from assay.errors import NO_VERDICT, AssayError
from assay.evidence.hostile_text import visible
from assay.stages.at_hand import claim_stands, others_settings
from assay.stages.project import RESULTS, Project
from assay.storage.files import remove, write_text
from assay.storage.json import write_json

# What render_evidence writes; tests hold the two lists together, for that module is slow to import.
SHOWN = (
    "evidence/README.md",
    *(
        f"{RESULTS}/{name}"
        for name in (
            "before_after_metrics.json", "claim.json", "metrics.json", "figures", "report.html", "sample_trajectories.md",
            "summary.md", "plots/rates.csv", "plots/differences.csv", "plots/rewards.csv",
        )
    ),
)  # fmt: skip
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>assay: {title}</title>
<style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto}}
body{{max-width:50rem;padding:0 1rem}}li{{overflow-wrap:anywhere}}</style></head><body><main>
<h1>{title}</h1><ul>{listed}</ul><p>Fix: ./run repro</p>
</main></body></html>
"""


def withdraw_if_other(project: Project) -> None:
    """Take a claim about other settings, data or plan away, with every page and figure of it; what is damaged is left."""
    if not claim_stands(project):
        return
    try:
        found = others_settings(project)
    except AssayError as error:
        complain(f"{error.where}: expected {error.expected}, found {error.found}; it was left as it is")
        return
    if found:
        _withdraw(project, found)


def page(data: str, found: list[str]) -> str:
    """Return a page without a claim that says why there is none."""
    listed = "".join(f"<li>{html.escape(visible(each))}</li>" for each in found)
    return _PAGE.format(title=html.escape(visible(f"{data}: {NO_VERDICT}")), listed=listed)


def _withdraw(project: Project, found: list[str]) -> None:
    data = project.params.dataset.name
    for name in SHOWN:
        path = project.root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            remove(path)
    said = f"{visible(data)}: {NO_VERDICT}.\n\n" + "".join(f"- {visible(each)}\n" for each in found)
    write_text(project.root / SHOWN[0], f"# Evidence\n\n{said}\n`./run repro` makes the claim about them.\n")
    write_text(project.results("summary.md"), said)
    write_text(project.results("report.html"), page(data, found))
    write_json(project.results("metrics.json"), {"verdict": None, "p": None})
    complain(f"the claim about other settings was taken away: {found[0]}")
