"""What is odd about data: counted by kind, each finding named, and kept, dropped or refused as the task
decides."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.core.config.settings import AuditSettings
from assay.core.errors import DataError, RecordError, TaskError
from assay.core.storage.json import digest
from assay.rollout.dataset.audit_records import Audit, AuditFinding, Ceiling, Kind
from assay.rollout.dataset.source import SHOWN, DataFile, KeptRecord, reason
from assay.rollout.tasks.protocol import Task, answer_key


def ceiling_of(task: Task, members: Sequence[KeptRecord]) -> Ceiling | None:
    """Return what contradicting golds leave to be reached, None where they leave everything.

    A policy that reads one text answers by one distribution, so it succeeds at most as often as with the
    single answer that is right for most of the records with that text. Which golds an answer can satisfy
    together, the task's own grader says.
    """
    sizes = Counter(_prompt(member) for member in members)
    groups: defaultdict[str, list[KeptRecord]] = defaultdict(list)
    for member in members:
        if sizes[_prompt(member)] > 1:
            told = _prompt(member) if _is_told(member) else digest(task.start(member.item, 0)[0])
            groups[told].append(member)
    lost = {
        prompt: len(group) - task.most_right([member.item for member in group])
        for prompt, group in groups.items()
    }
    odd = [prompt for prompt, n in lost.items() if n]
    if not odd:
        return None
    return Ceiling(
        n_records=len(members),
        n_prompts=len(odd),
        n_contradicting=sum(len(groups[prompt]) for prompt in odd),
        most_success=1.0 - sum(lost.values()) / len(members),
    )


def ceiling_said(found: Ceiling, split: str) -> str:
    """Return a ceiling as a sentence.

    >>> ceiling_said(Ceiling(n_records=100, n_prompts=3, n_contradicting=7, most_success=0.96), "heldout")
    'heldout: no policy can exceed 96.0 % success: 3 prompts have contradicting golds (7 of 100 records)'
    """
    prompts = "1 prompt has" if found.n_prompts == 1 else f"{found.n_prompts} prompts have"
    of = f"{found.n_contradicting} of {found.n_records} records"
    # Rounded up, so that what is said is never less than what can be reached.
    share = np.ceil(1000 * round(found.most_success, 12)) / 10
    return f"{split}: no policy can exceed {share:.1f} % success: {prompts} contradicting golds ({of})"


MOST_DROPPED = 0.5  # share of the records
_CURES = {
    "duplicate_id": "give each record of a file its own id",
    "leak": "make the splits by prompt, never by row: ./run assay task audit TASKS.jsonl --fix-splits does",
}


def refuse_unusable(checked: Audit, where: str, *, told: bool = False) -> None:
    """Refuse data with a kind that must not be there.

    Args:
        checked: Of the data.
        where: What they are called.
        told: Whether the findings were told already, so that the first is not said again.

    Raises:
        DataError: Names the kinds, their counts, the first line, and how to go on.
    """
    kinds = checked.refusals()
    if not kinds:
        return
    kind = checked.kinds[kinds[0]]
    first = kind.first[0]
    # An id is data: a line break in it must not look like a line of ours.
    named = (first.split, f"line {first.line}" if first.line else "", ascii(first.id) if first.id else "")
    place = ", ".join(filter(None, named))
    also = "".join(f"; {checked.kinds[name].count} {name}" for name in kinds[1:])
    raise DataError(
        f"no record of kind {kinds[0]}",
        found=f"{kind.count} (first: {place}{'' if told else f': {first.detail}'}){also}",
        where=where,
        fix="\n  and ".join(
            dict.fromkeys(
                cure(name, mostly=checked.kinds[name].count > MOST_DROPPED * checked.n_records)
                for name in kinds
            )
        ),
    )


def cure(kind: str, *, mostly: bool = False) -> str:
    """Return what to do about a kind that is refused; to drop what most records are would leave little."""
    if kind in _CURES:
        return _CURES[kind]
    keeps = "keep" in str(AuditSettings.model_fields[kind].annotation)
    actions = [*([] if mostly else ["drop"]), *(["keep"] if keeps else [])]
    if not actions:
        return "edit the data: most records are so, and to leave them out would leave little"
    set_so = f"dataset.audit.{kind}: {' or '.join(actions)}"
    return f"edit the data, or set {set_so} in the task's preset in configs/task/"


def require_records(checked: Audit, splits: Collection[str], where: str) -> None:
    """Refuse a dataset that lacks records in a split that is needed.

    Raises:
        DataError: Names the file, and how many records were left out of it.
    """
    for split in splits:
        if split not in checked.kept:
            raise DataError(
                f"{split}.jsonl", found="no such file", where=where, fix="add it, and its line in SHA256SUMS"
            )
        if not checked.kept[split]:
            dropped = checked.dropped[split]
            found = (
                f"none; {dropped} were left out by dataset.audit" if dropped else "none, the file is empty"
            )
            raise DataError("records", found=found, where=f"{where}/{split}.jsonl", fix="add records to it")


# Whose id the finding has, so that equal ones are equal.
_NAMED = re.compile(r"""^record (?:'[^']*'|"[^"]*"|\d+|without id), """)
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
            findings.add("unreadable", split, entry.line, entry.id, _NAMED.sub("", reason(error)))
            continue
        if entry.record.get("id") is None:
            findings.add("derived_id", split, entry.line, item.id, "made from the record's content")
        remains = [findings.add(odd.kind, split, entry.line, item.id, odd.detail) for odd in oddities]
        if all(remains):
            yield KeptRecord(entry, replace(item, record=entry.digest, row=entry.record))


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


def _is_told(member: KeptRecord) -> bool:
    """Return whether all that a record tells is one text, or one list of messages."""
    return isinstance(member.item.public, str | list)


def _prompt(member: KeptRecord) -> str:
    """Return by what records of one prompt are known: what is told, or else the cluster that the task puts
    them in."""
    return digest(member.item.public) if _is_told(member) else member.item.cluster


def _question(member: KeptRecord) -> str:
    """Return what was asked: one prompt about two schemas may well have two golds."""
    entry = member.entry
    asked = entry.record.get("schema") if entry.closure is None else entry.closure.digest
    return digest([_prompt(member), asked, entry.record.get("functions")])


def _contradicted(task: Task, members: Sequence[KeptRecord]) -> dict[int, list[int]]:
    """Return, by line, the lines with whose golds it cannot stand together; the task compares them as it
    grades answers."""
    sizes = Counter(_prompt(member) for member in members)
    questions: defaultdict[str, list[KeptRecord]] = defaultdict(list)
    for member in members:
        if sizes[_prompt(member)] > 1:
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
        elif (first := prompts.setdefault(_prompt(member), line)) != line:
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
    ids: dict[str, tuple[str, int]] = {}
    told: set[tuple[str, str]] = set()
    for split, members in kept.items():
        for member in members:
            name, prompt = member.item.id, _prompt(member)
            first, at = ids.setdefault(name, (split, member.entry.line))
            if first != split:
                findings.add(
                    "duplicate_id", split, member.entry.line, name, f"the id of line {at} of {first}"
                )
            home, line = homes.setdefault(prompt, (split, member.entry.line))
            if home != split and (prompt, split) not in told:
                told.add((prompt, split))
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
