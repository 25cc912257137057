"""Look at any tasks file before it is used: read it as the pipeline would, show what is odd, and say if it is usable."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from assay.composition import Selection, compose, selected
from assay.config.reading import parse_params
from assay.config.settings import Params
from assay.console import say, say_table
from assay.counting import counted
from assay.dataset.audit import Audit, Audited, audit
from assay.dataset.refusal import refuse_unusable, require_records
from assay.dataset.schema_files import SchemaFiles
from assay.dataset.source import load
from assay.stages.inputs import blocklist_of, task_with
from assay.stages.project import Project
from assay.storage.json import write_json

RECORD = "audit.json"


def project_for(root: Path, task: str) -> Project:
    """Return the project as it is with another task preset.

    Raises:
        ConfigError: There is no such preset, or it is broken.
    """
    now = selected(root)
    values = compose(root, Selection(now.grpo, task, now.seed)).values
    try:
        # Whether these data suit the chosen base is no matter of looking at them, so settings are not checked together.
        return Project(root, Params.model_validate(values))
    except ValidationError:
        return Project(root, parse_params(values, where="configs/"))


def run(project: Project, tasks: Path, out: Path) -> Audited:
    """Audit a tasks file: write audit.json, show it, and return what remains.

    Args:
        project: Says how rows are read and which oddities are refused.
        tasks: The JSONL file.
        out: Folder for audit.json.

    Raises:
        DataError: The file cannot be used; audit.json is written all the same, unless it cannot even be read.
    """
    task = task_with(project, blocklist_of(project))
    schemas = SchemaFiles(tasks.parent, project.root)
    source = load(tasks, schemas, where=str(tasks), fix="name a JSONL file: one JSON object a line, UTF-8")
    audited = audit(task, {tasks.stem: source}, project.params.dataset.audit)
    write_json(out / RECORD, audited.report)
    _show(audited.report, tasks)
    say(f"all counts: {out / RECORD}")
    refuse_unusable(audited.report, str(tasks))
    require_records(audited.report, [tasks.stem], str(tasks.parent))
    return audited


def _show(checked: Audit, tasks: Path) -> None:
    rows = []
    for name, kind in checked.kinds.items():
        for index, finding in enumerate(kind.first):
            head = (name, str(kind.count), kind.action) if index == 0 else ("", "", "")
            rows.append((*head, "" if finding.line is None else str(finding.line), finding.id or "", finding.detail))
    if rows:
        say_table(("kind", "count", "action", "line", "id", "detail"), rows)
    kept, dropped = checked.kept[tasks.stem], checked.dropped[tasks.stem]
    broken = checked.n_records - kept - dropped
    counts = {"usable": kept, "left out": dropped, "unreadable": broken}
    told = [f"{n} {what}" for what, n in counts.items() if n or what == "usable"]
    say(f"{tasks}: {counted(checked.n_records, 'records')}: {', '.join(told)}{'' if rows else '; nothing odd'}")
