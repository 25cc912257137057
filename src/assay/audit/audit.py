"""What is odd about data: counted by kind, each finding named, and kept, dropped or refused as the task
decides."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.audit.ceiling import ceiling_of
from assay.core.config.settings import AuditSettings
from assay.core.errors import DataError, RecordError, TaskError
from assay.core.storage.json import digest
from assay.dataset.audit_records import Audit, AuditFinding, Kind
from assay.dataset.reading import SHOWN
from assay.dataset.source import DataFile, KeptRecord, reason
from assay.tasks.protocol import Task, answer_key

# Two records with one id, or one prompt in two splits, make every number wrong; no setting may allow them.
ALWAYS_REFUSED = ("duplicate_id", "leak")
REPORTED = ("derived_id", "blank_line", "byte_order_mark", "same_schema_basename")
DETAIL_CHARS = 300
MOST_LISTED = 100_000  # findings of a kind; of more it is said how many are left out


@dataclass(frozen=True, slots=True)
class Audited:
    """The audit, the records that remain, and the numbers of the lines that are left out."""

    report: Audit
    kept: Mapping[str, list[KeptRecord]]
    dropped: Mapping[str, list[int]]


class _Findings:
    """Counts, the findings, and the lines to leave out."""

    def __init__(self, settings: AuditSettings) -> None:
        self.actions: dict[str, str] = dict(settings) | dict.fromkeys(ALWAYS_REFUSED, "refuse")
        self.actions |= dict.fromkeys(REPORTED, "report")
        self.counts: Counter[str] = Counter()
        self.first: defaultdict[str, list[AuditFinding]] = defaultdict(list)
        self.dropped: defaultdict[str, set[int]] = defaultdict(set)
        self.refused: defaultdict[str, set[int]] = defaultdict(set)

    def add(self, kind: str, split: str, line: int | None, name: str | None, detail: str) -> bool:
        """Note one; return whether its record remains."""
        action = self.actions[kind]
        self.counts[kind] += 1
        if self.counts[kind] <= MOST_LISTED:
            self.first[kind].append(
                AuditFinding(split=split, line=line, id=name, detail=detail[:DETAIL_CHARS])
            )
        if action in ("drop", "refuse") and line is not None:
            (self.dropped if action == "drop" else self.refused)[split].add(line)
        return action != "drop"

    def kind(self, name: str) -> Kind:
        """Return all of one kind."""
        count, first = self.counts[name], self.first[name]
        return Kind.model_validate(
            {"count": count, "action": self.actions[name], "first": first, "unlisted": count - len(first)}
        )


def audit(task: Task, sources: Mapping[str, DataFile], settings: AuditSettings) -> Audited:
    """Audit a dataset. What is left out depends on the data alone: always the later of two, or all that
    contradict.

    Args:
        task: Reads rows and says what is odd about each.
        sources: The data files by split.
        settings: What to do with each kind.
    """
    findings = _Findings(settings)
    kept: dict[str, list[KeptRecord]] = {}
    for split, source in sorted(sources.items()):
        for number in source.reading.first_blank:
            findings.add("blank_line", split, number, None, "nothing on it")
        findings.counts["blank_line"] += source.reading.n_blank - len(source.reading.first_blank)
        if source.reading.byte_order_mark:
            findings.add("byte_order_mark", split, 1, None, "passed over")
        members = list(_readable(task, split, source, findings))
        members = list(_distinct(split, members, findings))
        kept[split] = list(_without_contradiction(task, split, members, findings))
        _unique_ids(split, kept[split], findings)
    _apart(kept, findings)
    _basenames(sources, findings)
    key = answer_key(task)
    for odd in (
        key.survey([member.item for members in kept.values() for member in members])
        if key is not None
        else ()
    ):
        findings.add(odd.kind, "", None, None, odd.detail)
    report = Audit(
        n_records=sum(len(source.entries) + len(source.refused) for source in sources.values()),
        kept={split: len(members) for split, members in kept.items()},
        dropped={split: len(findings.dropped[split]) for split in kept},
        refused={split: len(findings.refused[split]) for split in kept},
        usable={
            split: sum(m.entry.line not in findings.refused[split] for m in members)
            for split, members in kept.items()
        },
        ceilings={
            split: found
            for split, members in kept.items()
            if (found := ceiling_of(task, members)) is not None
        },
        kinds={kind: findings.kind(kind) for kind in findings.actions},
    )
    return Audited(report, kept, {split: sorted(findings.dropped[split]) for split in kept})


def _readable(task: Task, split: str, source: DataFile, findings: _Findings) -> Iterator[KeptRecord]:
    for refused in source.refused:
        findings.add("unreadable", split, refused.number, None, refused.reason)
    for entry in source.entries:
        try:
            item, oddities = task.examine(entry.row)
        except (TaskError, DataError, RecordError) as error:
            findings.add("unreadable", split, entry.line, entry.id, reason(error))
            continue
        if entry.record.get("id") is None:
            findings.add("derived_id", split, entry.line, item.id, "made from the record's content")
        remains = [findings.add(odd.kind, split, entry.line, item.id, odd.detail) for odd in oddities]
        if all(remains):
            yield KeptRecord(entry, replace(item, record=entry.digest))


def _distinct(split: str, members: Sequence[KeptRecord], findings: _Findings) -> Iterator[KeptRecord]:
    lines: dict[str, int] = {}
    for member in members:
        first = lines.setdefault(member.entry.digest, member.entry.line)
        if first == member.entry.line:
            yield member
        else:
            findings.add(
                "duplicate_record", split, member.entry.line, member.item.id, f"the same as line {first}"
            )


def _question(member: KeptRecord) -> str:
    """Return what was asked: one prompt about two schemas may well have two golds."""
    entry = member.entry
    asked = entry.record.get("schema") if entry.closure is None else entry.closure.digest
    return digest([member.item.cluster, asked, entry.record.get("functions")])


def _contradicted(task: Task, members: Sequence[KeptRecord]) -> dict[int, list[int]]:
    """Return, by line, the lines with whose golds it cannot stand together; the task compares them as it
    grades answers."""
    sizes = Counter(member.item.cluster for member in members)
    questions: defaultdict[str, list[KeptRecord]] = defaultdict(list)
    for member in members:
        if sizes[member.item.cluster] > 1:
            questions[_question(member)].append(member)
    found: dict[int, list[int]] = {}
    for asked in questions.values():
        if len(asked) > 1:
            lines = [
                asked[place].entry.line for place in task.contradictory([member.item for member in asked])
            ]
            found |= dict.fromkeys(lines, lines)
    return found


def _without_contradiction(
    task: Task, split: str, members: Sequence[KeptRecord], findings: _Findings
) -> Iterator[KeptRecord]:
    """Yield what remains of records with one prompt: those whose golds differ are told apart from mere
    repetition."""
    contradicted = _contradicted(task, members)
    prompts: dict[str, int] = {}
    for member in members:
        line, remains = member.entry.line, True
        if line in contradicted:
            others = [str(other) for other in contradicted[line][: SHOWN + 1] if other != line]
            detail = f"another gold than line {', '.join(others[:SHOWN])}"
            remains = findings.add("conflicting_gold", split, line, member.item.id, detail)
        elif (first := prompts.setdefault(member.item.cluster, line)) != line:
            remains = findings.add(
                "duplicate_prompt", split, line, member.item.id, f"the prompt of line {first}"
            )
        if remains:
            yield member


def _unique_ids(split: str, members: Sequence[KeptRecord], findings: _Findings) -> None:
    lines: dict[str, int] = {}
    for member in members:
        first = lines.setdefault(member.item.id, member.entry.line)
        if first != member.entry.line:
            findings.add(
                "duplicate_id",
                split,
                member.entry.line,
                member.item.id,
                f"the id of line {first}, another record",
            )


def _apart(kept: Mapping[str, Sequence[KeptRecord]], findings: _Findings) -> None:
    homes: dict[str, tuple[str, int]] = {}
    told: set[tuple[str, str]] = set()
    for split, members in kept.items():
        for member in members:
            home, line = homes.setdefault(member.item.cluster, (split, member.entry.line))
            if home != split and (member.item.cluster, split) not in told:
                told.add((member.item.cluster, split))
                findings.add("leak", split, member.entry.line, member.item.id, f"also in {home}, line {line}")


def _basenames(sources: Mapping[str, DataFile], findings: _Findings) -> None:
    homes: defaultdict[str, set[str]] = defaultdict(set)
    closures = {
        id(e.closure): e.closure
        for source in sources.values()
        for e in source.entries
        if e.closure is not None
    }
    for closure in closures.values():
        for file in closure.files:
            homes[file.path.name].add(file.label)
    for name, labels in sorted(homes.items()):
        if len(labels) > 1:
            findings.add("same_schema_basename", "", None, None, f"{name}: {', '.join(sorted(labels))}")
