"""Stage 7: from episodes and logs to claims, tables, figures and the report; needs neither torch nor a
GPU."""

from __future__ import annotations

from collections.abc import Callable, Set

from assay.core.evidence_files import folder_of
from assay.pipeline.project import Project

README = "evidence/README.md"
READS = (
    "${task.code}",
    "${dataset.root}",
    *(folder_of(stage) for stage in ("data", "base", "pre_eval", "train", "control", "post_eval")),
)
WRITES = (folder_of("report"), README)


def run(project: Project, graded: Callable[[], Set[str]] | None = None, *, processes: int = 2) -> None:
    """Write claim, tables, figures and report.

    Args:
        project: The run.
        graded: As of `ArmReader`.
        processes: 2: part of the work is done by a process beside, where there is a core for it.

    Raises:
        AssayError: A file is missing, damaged or not what it should be; a claim that says NOT EVALUABLE is
            written first.
    """
    # Figures are slow to import, and every command asks this folder whether there is a claim.
    from assay.stages.render_evidence.render import render_evidence

    render_evidence(project, graded, processes)
