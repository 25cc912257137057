"""`assay judge`: from results that were made elsewhere to a verdict, a report and a package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.core.console import complain, say
from assay.core.counting import counted
from assay.core.errors import AssayError, ConfigError
from assay.core.garbage import uncollected
from assay.core.storage.files import write_text
from assay.package.judgements import PACKAGE, pack_judgement
from assay.pipeline.judged_openings import look_at
from assay.pipeline.project import Project
from assay.rollout.tables.columns import OPTION, Columns
from assay.rollout.tables.lines import refuse
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.verdict import NO_GAIN
from assay.verdict.evidence.claim.voids import gate_code, voided
from assay.verdict.evidence.words.sentences import heading, warned
from assay.verdict.judge.command import WHERE, JudgeRequest, judge_files
from assay.verdict.judge.gate import code_of, gate_of, write_junit
from assay.verdict.judge.page import counts_said, write_pages
from assay.verdict.judge.reading import Arm
from assay.verdict.judge.rows import JudgedRow
from assay.verdict.judge.several import TABLE, judge_several, write_table
from assay.verdict.judge.sources import ArmRecord, JudgedLook, Judgement
from assay.verdict.judge.suite import rows_by_task
from assay.verdict.judge.verdict import Judged

NAMED = "columns.yaml"


def run(before: Path, afters: Sequence[Path], asked: JudgeRequest) -> int:
    """Write report.html, claim.json, summary.md and assay-package.tar; say the verdict.

    Of several `afters` each is compared with `before` in a folder of its own, Holm-corrected over them.

    Returns:
        0, or 5 where results cannot be compared; with --gate as the word has it; with a plan 0 only where
        what it plans was shown, 7 where it was not, 8 where the results got worse; of several 5 before 8
        before 7.

    Raises:
        AssayError: A file cannot be read, nothing can be written, or what was asked is not what was planned.
    """
    if asked.out.exists() and not asked.out.is_dir():
        raise refuse("a folder to write in", "a file", f"--out {asked.out}", "--out with another name")
    if asked.plan is None and asked.junit is not None:
        raise ConfigError(
            "a plan to report on", found="none", where=f"{WHERE} --junit", fix="--plan plan.yaml"
        )
    if len(afters) > 1:
        return _run_several(before, afters, asked)
    with uncollected():
        told, texts, judged = judge_files(before, afters[0], asked, looking=_looking)
    write_all(told, texts, judged, asked.out)
    keep_columns(asked)
    if told.plan is None:
        return _gated(judged.claim, asked)
    gate = gate_of(judged.claim, told.plan)
    if asked.junit is not None:
        write_junit(asked.junit, {told.title: judged.claim}, told.plan)
    say(f"plan: {gate.word}: {gate.why}; exit code {gate.code}")
    return gate.code


def _run_several(before: Path, afters: Sequence[Path], asked: JudgeRequest) -> int:
    """Write a folder for each set of results, and compared.csv and compared.md over them."""
    claims, plan = dict[str, Claim](), None
    for name, told, texts, judged in judge_several(before, afters, asked, looking=_looking):
        say(f"== {name}")
        write_all(told, texts, judged, asked.out / name)
        claims[name], plan = judged.claim, told.plan
    gates = {} if plan is None else {name: gate_of(claim, plan) for name, claim in claims.items()}
    write_table(asked.out, claims, {name: gate.word for name, gate in gates.items()})
    say(f"all: {asked.out / TABLE}.md")
    keep_columns(asked)
    if plan is not None:
        if asked.junit is not None:
            write_junit(asked.junit, claims, plan)
        for name, gate in gates.items():
            say(f"plan: {name}: {gate.word}: {gate.why}")
        code = code_of(gate.code for gate in gates.values())
        say(f"plan: exit code {code}")
        return code
    return code_of(_gated(claim, asked) for claim in claims.values())


def _gated(claim: Claim, asked: JudgeRequest) -> int:
    """Return the exit code of a claim without a plan; say what voids it for a gate."""
    code = gate_code(claim, strict=asked.gate)
    if asked.gate and code == NO_GAIN and (voids := voided(claim)):
        say(f"gate: {claim.verdict}, and voided: {', '.join(each.code for each in voids)}; exit code {code}")
    return code


def _looking(arms: Mapping[str, Arm]) -> JudgedLook | None:
    """Return which look at held-out records it is, where this is the folder of a project that has some."""
    try:
        project = Project.open(Path.cwd())
    except AssayError:
        return None
    before, after = arms["before"], arms["after"]
    look = look_at(project.root, project.params, before.record, after.record, before.rows)
    if look is not None:
        complain(
            f"{counted(look.n_records, 'held-out records')} of this project are judged; it is noted as such"
        )
    return look


def keep_columns(asked: JudgeRequest) -> None:
    """Write the columns that were named beside the results, as the file that the option takes."""
    if asked.columns is not None:
        place = asked.out / NAMED
        write_text(place, Columns.read(asked.columns).text())
        say(f"columns are kept: {OPTION} {place} names the same again")


def write_all(told: Judgement, texts: Mapping[str, str], judged: Judged, out: Path) -> None:
    """Write pages and package of one comparison, and say what they show."""
    write_pages(out, told, judged)
    archive = out / PACKAGE
    identity = pack_judgement(archive, out, told, texts, judged)
    rows = dict(zip(("before", "after"), judged.arms, strict=True)) | judged.rivals
    records = {"before": told.before, "after": told.after, **told.rivals}
    for name, record in records.items():
        for caution in record.written[1:]:
            say(f"WARNING: {name}: {caution}")
    for name, record in records.items():
        say(f"{name}: {_said(rows[name], record)}")
    say(f"{heading(judged.claim)}: {judged.claim.sentence}")
    if judged.claim.first_said:
        say(judged.claim.first_said)
    for row in rows_by_task(told, judged.claim):
        moved = f"{row['before, %']} → {row['after, %']} %: {row['difference, points']} points"
        say(f"task {row['task']} ({row['measured']}): {moved}, {row['items']} items, shown: {row['shown']}")
    say(f"reason: {judged.claim.reason}")
    for text in warned(judged.claim):
        say(f"warning: {text}")
    say(f"report: {out / 'report.html'}")
    say(f"package: {archive}, sha256 {identity}; to check it: assay verify {archive} --sha256 {identity}")


def _said(rows: Sequence[JudgedRow], record: ArmRecord) -> str:
    first = record.files[0]
    more = f" and {len(record.files) - 1} more" if len(record.files) > 1 else ""
    written = "".join(f"; {line}" for line in record.written[:1])
    return f"{counts_said(rows)}{written}; {first.form} {first.name}{more}, model {first.model or 'not said'}"
