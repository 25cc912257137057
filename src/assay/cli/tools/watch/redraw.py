"""Draws the curves of a training while it runs, in a process: `python -m assay.cli.tools.watch.redraw ROOT
SECONDS`.

The trainer holds the other end of standard input. It writes "end" there when it is done: then everything is
drawn a last time. If the pipe closes without that word the trainer was killed, the page says so, and this
process ends.
"""

from __future__ import annotations

import faulthandler
import io
import math
import os
import select
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.console import complain
from assay.core.errors import AssayError
from assay.core.evidence_files import OBSERVED, place_of
from assay.core.storage.files import read_bytes, remove, write_bytes
from assay.core.storage.json import dumps

if TYPE_CHECKING:  # what is slow to import waits until this process has stepped back behind all others
    from assay.cli.tools.watch.serve import ClaimShown
    from assay.cli.tools.watch.snapshot import Snapshot

FOLDER = "live"  # in evidence/observed/, in no stage's outputs and not in git
LONGEST_S = 900.0  # a drawing that takes longer, also on a busy machine, is stuck: the process ends
SHARE_OF_TIME = 0.2  # of one core: after a slow drawing the next one waits
STYLE = (
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{color:var(--faint)}dd{margin:0}"
    "img{max-width:100%;min-width:38rem;background:#fff}"
)


def follow(root: Path, seconds: float, pipe: int) -> None:
    """Draw whenever something changed, at most every so many seconds, until the pipe ends."""
    from assay.cli.tools.watch.serve import ClaimShown
    from assay.cli.tools.watch.snapshot import SnapshotReader, find_place

    reader, wait = SnapshotReader(find_place(root)), 0.0
    claim = ClaimShown(root) if (root / "params.yaml").is_file() else None
    before: object = None
    word: str | None = None
    while word is None:
        word = wait_for_word(pipe, wait)
        snapshot = reader.read()
        marks: object = (reader.marks(), snapshot.state)
        began = time.monotonic()
        if marks != before or word is not None:
            faulthandler.dump_traceback_later(LONGEST_S, exit=True)
            try:
                draw(root, snapshot, seconds, lost=word == "", claim=claim)
            except FileNotFoundError:
                marks = None  # somebody removed the folder meanwhile: the next time then
            faulthandler.cancel_dump_traceback_later()
        before, wait = marks, max(seconds, (time.monotonic() - began) * (1 - SHARE_OF_TIME) / SHARE_OF_TIME)


def wait_for_word(pipe: int, seconds: float) -> str | None:
    """Wait for a word of the trainer: None if it said nothing, "" if it is gone without one."""
    readable, _, _ = select.select([pipe], [], [], seconds)
    return os.read(pipe, 64).decode("ascii", "replace").strip() if readable else None


def draw(
    root: Path, snapshot: Snapshot, seconds: float, *, lost: bool = False, claim: ClaimShown | None = None
) -> None:
    """Write the figures and the page of a training as it stands; each file is replaced whole.

    The page leads to no report about other settings: `claim` says whether the one that stands is.
    """
    folder = root / OBSERVED / FOLDER
    drawn, failed = {}, None
    try:
        drawn = draw_figures(snapshot)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        failed = f"{type(error).__name__}: {error}"  # the numbers of the page are still worth having
    for name, (svg, _) in drawn.items():
        path = folder / f"{name}.svg"
        if not path.is_file() or read_bytes(path, fix="") != svg:
            write_bytes(path, svg)
    for path in folder.glob("*.svg"):
        if failed is None and path.stem not in drawn:
            remove(path)
    has_report = (root / place_of("report.html")).is_file() and (claim is None or not claim.differences())
    captions = {name: caption for name, (_, caption) in drawn.items()}
    page = make_page(snapshot, captions, seconds, failed=failed, lost=lost, has_report=has_report)
    write_bytes(folder / "index.html", page.encode())


def draw_figures(snapshot: Snapshot) -> dict[str, tuple[bytes, str]]:
    """Return the figures of a training as SVG with captions, by name; none before the first step."""
    import matplotlib as mpl
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    from assay.core.records import HEALTH_RULES, TrainFacts
    from assay.verdict.evidence.figures.drawing import STYLE as FIGURE_STYLE
    from assay.verdict.evidence.figures.gallery import of_training

    if not snapshot.log.get("step"):
        return {}
    # Before the end the facts would be those of an earlier training.
    is_done = snapshot.state == "finished" and bool(snapshot.facts)
    facts = TrainFacts.model_validate_json(dumps(dict(snapshot.facts))) if is_done else None
    tables = (snapshot.log, snapshot.components, snapshot.checkpoints)
    log, components, checkpoints = (
        pd.DataFrame(dict(columns or {"step": []}), dtype=float) for columns in tables
    )
    gallery = of_training(
        log,
        components,
        checkpoints,
        snapshot.alarms,
        steps=snapshot.steps or snapshot.step or 1,
        unmeasured=[rule for rule in HEALTH_RULES if facts is not None and rule in facts.health.unmeasured],
        chosen_step=None if facts is None else facts.chosen_step,
        reached=snapshot.step or 0 if facts is None else None,
    )
    found = {}
    for each in gallery:
        content = io.BytesIO()
        with mpl.rc_context(FIGURE_STYLE):  # a quarter of the work of `evidence.figures.render`
            FigureCanvasSVG(each.figure)
            each.figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
        found[each.name] = (content.getvalue(), each.caption)
    return found


def make_page(
    snapshot: Snapshot,
    captions: Mapping[str, str],
    seconds: float,
    *,
    failed: str | None,
    lost: bool,
    has_report: bool,
) -> str:
    """Return the page: how it goes, alarms, curves; a browser loads it again by itself while it trains.

    Args:
        snapshot: The training.
        captions: Of each figure beside the page, by its name without .svg.
        seconds: Between two drawings, and so between two loads.
        failed: Why figures could not be drawn.
        lost: Whether the trainer is gone without a word.
        has_report: Whether a report stands that may be shown.
    """
    from assay.cli.tools.watch.command import ALARM_COLUMNS, describe, list_alarms
    from assay.core.provenance import now
    from assay.verdict.evidence.page.shell import escaped, paragraph, rows_table, shell

    is_running = snapshot.state in ("running", "silent")
    facts = describe(snapshot, width=0, ages=False)
    if lost and is_running:
        is_running = False
        gone = "the training process is gone without a word (killed?)"
        facts[0] = ("state", f"{gone}; the same command goes on")
    listed = "".join(f"<dt>{escaped(label)}</dt><dd>{escaped(text)}</dd>" for label, text in facts)
    parts = [f'<main id="main"><h1>{escaped(snapshot.name)}: training</h1><dl>{listed}</dl>']
    if alarms := list_alarms(snapshot):
        parts.append(rows_table(ALARM_COLUMNS, alarms, "Alarms"))
    if failed is not None:
        parts.append(paragraph(f"The curves could not be drawn: {failed}"))
    if captions and is_running:
        parts.append(paragraph("A rule of health that had nothing to read so far counts as green here."))
    for name, caption in captions.items():
        image = f'<img src="{escaped(name)}.svg" alt="{escaped(caption)}">'
        text = f"<figcaption>{escaped(caption)}</figcaption>"
        parts.append(f'<figure><div class="scroll" tabindex="0">{image}</div>{text}</figure>')
    if has_report:
        older = " (of an earlier run, until this one is rendered)" if snapshot.state != "finished" else ""
        parts.append(f'<p><a href="../../results/report/report.html">Report</a>{older}</p>')
    refresh = math.ceil(seconds) if is_running else None
    often = f"; loaded again every {refresh} s while training" if refresh else ""
    parts.append(paragraph(f"Drawn {now()}{often}.") + "</main>")
    title = f"{snapshot.name}: step {snapshot.step or 0}"
    return shell(title=title, body="\n".join(parts), style=STYLE, refresh_seconds=refresh, served=True)


def main(arguments: Sequence[str]) -> None:
    """Be the process that draws, behind everything else on this machine."""
    os.nice(19)
    try:
        follow(Path(arguments[0]), float(arguments[1]), sys.stdin.fileno())
    except (AssayError, OSError) as error:
        complain(str(error))
        raise SystemExit(1) from None


if __name__ == "__main__":
    main(sys.argv[1:])
