"""Draws the curves of a training while it runs, as a process of its own: `python -m assay.tools.redraw ROOT SECONDS`.

The trainer holds the other end of standard input. It writes "end" there when it is done: then everything is drawn a last
time. If the pipe closes without that word the trainer was killed, which the page then says, and this process ends too.
"""

from __future__ import annotations

import faulthandler
import io
import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.console import complain
from assay.errors import AssayError
from assay.stages.project import OBSERVED, RESULTS
from assay.storage.files import read_bytes, remove, write_bytes
from assay.storage.json import dumps

if TYPE_CHECKING:  # what is slow to import waits until this process has stepped back behind all others
    from matplotlib.figure import Figure

    from assay.tools.claim_shown import ClaimShown
    from assay.tools.following import Snapshot

FOLDER = "live"  # in evidence/observed/, in no stage's outputs and not in git
PAGE = "index.html"
LONGEST_S = 900.0  # a drawing that takes longer, also behind others on a busy machine, is stuck: the process ends
SHARE_OF_TIME = 0.2  # of one core: after a slow drawing the next one waits


def follow(root: Path, seconds: float, pipe: int) -> None:
    """Draw whenever something changed, at most every so many seconds, until the pipe ends."""
    from assay.tools.claim_shown import ClaimShown
    from assay.tools.following import Follower, locate

    follower, wait = Follower(locate(root)), 0.0
    claim = ClaimShown(root) if (root / "params.yaml").is_file() else None
    before: object = None
    while True:
        word = heard(pipe, wait)
        snapshot = follower.look()
        marks: object = (follower.marks(), snapshot.state)
        began = time.monotonic()
        if marks != before or word is not None:
            faulthandler.dump_traceback_later(LONGEST_S, exit=True)
            try:
                draw(root, snapshot, seconds, lost=word == "", claim=claim)
            except FileNotFoundError:
                marks = None  # somebody removed the folder meanwhile: the next time then
            faulthandler.cancel_dump_traceback_later()
        if word is not None:
            return
        before, wait = marks, max(seconds, (time.monotonic() - began) * (1 - SHARE_OF_TIME) / SHARE_OF_TIME)


def heard(pipe: int, seconds: float) -> str | None:
    """Wait for a word of the trainer: None if it said nothing, "" if it is gone without one."""
    readable, _, _ = select.select([pipe], [], [], seconds)
    return os.read(pipe, 64).decode("ascii", "replace").strip() if readable else None


def draw(
    root: Path, snapshot: Snapshot, seconds: float, *, lost: bool = False, claim: ClaimShown | None = None
) -> None:  # fmt: skip
    """Write the figures and the page of a training as it stands; each file is replaced whole.

    The page leads to no report about other settings: `claim` says whether that which stands is; None: there are no settings.
    """
    from assay.tools.live_page import live_page

    folder = root / OBSERVED / FOLDER
    drawn, failed = {}, None
    try:
        drawn = figures(snapshot)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        failed = f"{type(error).__name__}: {error}"  # the numbers of the page are still worth having
    for name, (svg, _) in drawn.items():
        path = folder / f"{name}.svg"
        if not path.is_file() or read_bytes(path, fix="") != svg:
            write_bytes(path, svg)
    for path in folder.glob("*.svg"):
        if failed is None and path.stem not in drawn:
            remove(path)
    captions = {name: caption for name, (_, caption) in drawn.items()}
    report = (root / RESULTS / "report.html").is_file() and (claim is None or not claim.differences())
    page = live_page(snapshot, captions, seconds=seconds, failed=failed, lost=lost, report=report)
    write_bytes(folder / PAGE, page.encode())


def figures(snapshot: Snapshot) -> dict[str, tuple[bytes, str]]:
    """Return the figures of a training as SVG with their captions, by name; of nothing that no step has measured yet."""
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]

    from assay.evidence.gallery import of_training
    from assay.records import HEALTH_RULES, TrainFacts

    if not snapshot.log.get("step"):
        return {}
    ended = snapshot.state == "finished" and bool(snapshot.facts)  # before, these facts would be an earlier training's
    done = TrainFacts.model_validate_json(dumps(dict(snapshot.facts))) if ended else None
    tables = (snapshot.log, snapshot.components, snapshot.checkpoints)
    log, components, checkpoints = (pd.DataFrame(dict(columns or {"step": []}), dtype=float) for columns in tables)
    gallery = of_training(
        log, components, checkpoints, snapshot.alarms, steps=snapshot.steps or snapshot.step or 1,
        unmeasured=[rule for rule in HEALTH_RULES if done is not None and rule in done.health.unmeasured],
        chosen_step=None if done is None else done.chosen_step,
        reached=snapshot.step or 0 if done is None else None,
    )  # fmt: skip
    return {each.name: (svg_of(each.figure), each.caption) for each in gallery}


def svg_of(figure: Figure) -> bytes:
    """Return a figure as SVG; a quarter of the work of `evidence.figures.render`, which also makes the PNG."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    from assay.evidence.figures import STYLE

    with mpl.rc_context(STYLE):
        content = io.BytesIO()
        FigureCanvasSVG(figure)
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    return content.getvalue()


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
