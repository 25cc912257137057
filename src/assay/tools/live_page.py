"""The page of a training that runs: where it stands, its alarms, its curves; a browser loads it again by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from assay.evidence.page.shell import escaped, shell
from assay.provenance import now
from assay.tools.following import Snapshot
from assay.tools.standing import ALARM_COLUMNS, alarm_rows, facts_of

REPORT = "../../results/report.html"
STYLE = (
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{color:var(--faint)}dd{margin:0}"
    "img{max-width:100%;min-width:38rem;background:#fff}"
)


def live_page(
    snapshot: Snapshot, captions: Mapping[str, str], *, seconds: float, failed: str | None, lost: bool, report: bool
) -> str:
    """Return the page.

    Args:
        snapshot: The training.
        captions: Of each figure beside the page, by its name without .svg.
        seconds: Between two drawings, and so between two loads.
        failed: Why figures could not be drawn.
        lost: Whether the trainer is gone without a word.
        report: Whether report.html stands.
    """
    running = snapshot.state in ("running", "silent") and not lost
    facts = facts_of(snapshot, width=0, ages=False)
    if lost and snapshot.state in ("running", "silent"):
        facts = [("state", "the training process is gone without a word (killed?); the same command goes on"), *facts[1:]]
    listed = "".join(f"<dt>{escaped(label)}</dt><dd>{escaped(text)}</dd>" for label, text in facts)
    parts = [f'<main id="main"><h1>{escaped(snapshot.name)}: training</h1><dl>{listed}</dl>']
    if rows := alarm_rows(snapshot):
        head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in ALARM_COLUMNS)
        body = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        parts.append(f"<h2>Alarms</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    if failed is not None:
        parts.append(f"<p>The curves could not be drawn: {escaped(failed)}</p>")
    if captions:
        parts.append("<h2>Curves</h2>")
        if running:
            parts.append("<p>A rule of health that had nothing to read so far counts as green here.</p>")
    for name, caption in captions.items():
        parts.append(
            f'<figure><div class="scroll" tabindex="0"><img src="{escaped(name)}.svg" alt="{escaped(caption)}"></div>'
            f"<figcaption>{escaped(caption)}</figcaption></figure>"
        )
    if report:
        older = " (of an earlier run, until this one is rendered)" if snapshot.state != "finished" else ""
        parts.append(f'<p><a href="{REPORT}">Report</a>{older}</p>')
    refresh = math.ceil(seconds) if running else None
    often = f"; loaded again every {refresh} s while training" if refresh else ""
    parts.append(f"<p>Drawn {escaped(now())}{often}.</p></main>")
    title = f"{snapshot.name}: step {snapshot.step or 0}"
    return shell(title=title, body="\n".join(parts), style=STYLE, refresh_seconds=refresh, served=True)
