"""The package of a judgement, and its checks: from its rows everything else in it has to follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.core.counting import counted
from assay.core.storage.files import read_bytes, read_text, sha256_bytes, write_bytes
from assay.core.storage.json import digest, dumps, loads, read_record
from assay.package.verification.checks import REMEDY, Check, LookResult, looked, unlooked
from assay.package.verification.compared import compare
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import sealed, sha256_of, write_tar
from assay.stages.packing.layout import CARD, PROVENANCE, SUMS, VERIFIER
from assay.stages.packing.secrets.search import cleared
from assay.stages.packing.verify import FORMAT
from assay.verdict.evidence.words.sentences import heading
from assay.verdict.judge.plan import FILE as PLAN
from assay.verdict.judge.plan import plan_text, planned_said, read_plan
from assay.verdict.judge.rows import JudgedRow, read_rows, rows_text
from assay.verdict.judge.sources import MADE, REPORT, SUMMARY, ArmRecord, Judgement, SourceFile
from assay.verdict.judge.verdict import Judged, judge, version_here

KIND = Judgement.model_fields["kind"].default
RECORD = "judged.json"
FIX = "get the package again from where it was published"
PACKAGE = "assay-package.tar"


def rows_name(arm: str) -> str:
    """Return the file of an arm's rows; a rival's name is in it.

    >>> rows_name("before"), rows_name("rival always B")
    ('rows/before.csv', 'rows/rival always B.csv')
    """
    return f"rows/{arm}.csv"


def arm_names(told: Judgement) -> dict[str, str]:
    """Return the file of each arm's rows by the arm's name."""
    rivals = {name: rows_name(f"rival_{k}") for k, name in enumerate(told.rivals, start=1)}
    return {"before": rows_name("before"), "after": rows_name("after"), **rivals}


def pack_judgement(path: Path, folder: Path, told: Judgement, rows: Mapping[str, str], judged: Judged) -> str:
    """Write the package; return its identity.

    Args:
        path: The archive.
        folder: Where the pages lie.
        told: The record.
        rows: Text of each arm's rows, by the arm's name.
        judged: What came of it.

    Raises:
        PackageError: There is a secret in it, or a file cannot be packed.
    """
    members = members_of(folder, told, rows, judged)
    cleared({name: each for name, each in members.items() if not name.startswith("rows/")}, (), ())
    return write_tar(path, sealed(members))


def members_of(
    folder: Path, told: Judgement, rows: Mapping[str, str], judged: Judged
) -> dict[str, bytes | Path]:
    """Return every file of the package by name, but for the list of them; arguments as of
    `pack_judgement`."""
    members: dict[str, bytes | Path] = {name: folder / name for name in MADE}
    members |= {place: rows[arm].encode() for arm, place in arm_names(told).items()}
    members[RECORD] = f"{dumps(told)}\n".encode()
    members[CARD] = _card(told, judged).encode()
    if told.plan is not None:
        members[PLAN] = plan_text(told.plan).encode()
    members[VERIFIER] = read_bytes(Path(plain.__file__), fix="install assay again")
    members[PROVENANCE] = _provenance(told, members)
    return members


def _provenance(told: Judgement, members: Mapping[str, bytes | Path]) -> bytes:
    """Return provenance.json, which has the sha256 of all else: of numbers too whose last digits another
    processor computes otherwise."""
    subjects = {name: sha256_of(members[name]) for name in sorted(members)}
    return f"{dumps({'format': FORMAT, 'judged': told.title, 'subjects': subjects})}\n".encode()


def _card(told: Judgement, judged: Judged) -> str:
    files = [
        f"{name}: {file.name}, {file.bytes} bytes, sha256 {file.sha256}" for name, file in _sources(told)
    ]
    listed = "\n".join(f"* {each}" for each in files)
    return (
        f"# {told.title}\n\n**{heading(judged.claim)}.** {judged.claim.sentence}\n\n"
        f"Reason: {judged.claim.reason}.\n\n"
        f"Compared with before: {counted(told.compared, 'sets')} of results.\n\n"
        "report.html has everything; rows/ has the results as they were read, texts as digests. They come"
        " from:\n\n"
        f"{listed}\n\n`assay verify` derives all of it from the rows again. verify.py checks the files"
        " alone: take it from assay's own repository, since the one in here is its maker's.\n"
    )


def _sources(told: Judgement) -> list[tuple[str, SourceFile]]:
    arms = {"before": told.before, "after": told.after, **told.rivals}
    return [(name, file) for name, record in arms.items() for file in record.files]


def holds_judgement(package: Path) -> bool:
    """Return whether an unpacked package is one of a judgement."""
    return (package / RECORD).is_file() and (package / "rows").is_dir()


def _otherwise(arm: str, place: str, told: ArmRecord, rows: list[JudgedRow]) -> Iterator[str]:
    """Yield in what an arm is not what its record says, or could not have been read from any file."""
    if told.name != arm:
        yield f"{RECORD}, {arm}: named {told.name!r:.40}"
    if told.rows != len(rows):
        yield f"{RECORD}, {arm}: {counted(told.rows, 'rows')}, and {len(rows)} in {place}"
    if not told.files:
        yield f"{RECORD}, {arm}: read from no file"
    if twice := [key for key, n in Counter((row.item_id, row.draw) for row in rows).items() if n > 1]:
        yield f"{place}: draw {twice[0][1]} of {twice[0][0]!r:.40} twice"


def check_judgement(package: Path, work: Path, *, other_code: bool = False) -> Iterator[Check]:
    """Yield what the rows of an unpacked package say again of everything else in it.

    Args:
        package: The folder of the package.
        work: An empty folder.
        other_code: Whether another version of the code may check; its own words are left open.
    """
    told: list[Judgement] = []

    def names() -> LookResult:
        head = loads(read_text(package / RECORD, fix=FIX), where=RECORD, fix=FIX)
        form, writer = (head.get("kind"), head.get("assay")) if isinstance(head, dict) else (None, None)
        if form != KIND:
            found = f"{form!r:.40}, written by assay {writer!r:.40}"
            here = f"this is {version_here()}, which reads {KIND}"
            return LookResult("", [f"{RECORD}: {found}; {here}. Fix: check with the version that wrote it"])
        record = read_record(package / RECORD, Judgement, fix=FIX)
        told.append(record)
        expected = {*MADE, RECORD, PROVENANCE, CARD, VERIFIER, SUMS, *arm_names(record).values()}
        expected |= set() if record.plan is None else {PLAN}
        there = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
        wrong = [f"{name}: has no place in a package of a judgement" for name in sorted(there - expected)]
        wrong += [f"{name}: missing" for name in sorted(expected - there)]
        return LookResult(f"{len(expected)} files, each in its place", wrong)

    first = looked("V1", "files of a judgement", names)
    yield first
    if first.outcome == "failed":
        return

    def same_code() -> LookResult:
        here, theirs = version_here(), told[0].assay
        said = f"judged by version {theirs}, this is {here}"
        if theirs == here:
            return LookResult(said)
        if other_code:
            return LookResult(f"{said}; accepted (--other-code)", outcome="not checked")
        return LookResult("", [f"{said}. Fix: {REMEDY}"])

    def again() -> LookResult:
        arms, texts = dict[str, list[JudgedRow]](), dict[str, str]()
        records = {"before": told[0].before, "after": told[0].after, **told[0].rivals}
        wrong = []
        for arm, place in arm_names(told[0]).items():
            text = texts[arm] = read_text(package / place, fix=FIX)
            if sha256_bytes(text.encode()) != records[arm].rows_sha256:
                wrong.append(f"{place}: not the rows that {RECORD} names")
            arms[arm] = read_rows(text, place)
            if rows_text(arms[arm]) != text:
                wrong.append(f"{place}: not as assay judge writes it")
            wrong += _otherwise(arm, place, records[arm], arms[arm])
        if wrong:
            return LookResult("", wrong)
        from assay.verdict.judge.page import write_pages  # pandas and matplotlib, which take a second

        judged = judge(told[0], arms)
        write_pages(work, told[0], judged)
        made = members_of(work, told[0], texts, judged)
        stored: dict[str, bytes | Path] = {name: package / name for name in made if name != PROVENANCE}
        made[PROVENANCE] = _provenance(told[0], stored)
        for name, content in made.items():
            if isinstance(content, bytes):
                write_bytes(work / name, content)
        said = f"all {len(made)} files but the list of them, from the rows and {RECORD}"
        if told[0].plan is not None:
            departed = any(each.code == "not_as_planned" for each in judged.findings)
            said += f"; what was judged is {'not ' if departed else ''}what was planned"
        worded = (REPORT, SUMMARY, CARD, VERIFIER) if other_code else ()
        return compare(package, work, made, said=said, pages=worded)

    def planned() -> LookResult:
        made = read_plan(package / PLAN)
        wrong = [] if made == told[0].plan else [f"{PLAN}: not the plan that {RECORD} was judged by"]
        if read_text(package / PLAN, fix=FIX) != plan_text(made):
            wrong.append(f"{PLAN}: not as assay plan writes it")
        said = (
            f"its digest is {digest(made)}, that of {planned_said(made)}; its date {made.made} is not checked"
        )
        return LookResult(said, wrong)

    yield looked("V3", "code", same_code)
    if told[0].plan is not None:
        yield looked("V1", "the plan, and its digest", planned)
    yield looked("V1", "the verdict, from the rows", again)
    why = "the results were graded elsewhere, and their texts are not in the package"
    yield unlooked("V2", "grading", why, "not shown")
    why = f"the files that were read are not in the package; {RECORD} has their sha256"
    yield unlooked("V3", "sources", why, "not shown")
