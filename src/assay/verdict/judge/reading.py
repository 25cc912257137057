"""An arm from what somebody names: a file, or a folder of files, of any form that is read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from scipy.stats import binomtest  # type: ignore[import-untyped,unused-ignore]

from assay.core.errors import ConfigError, DataError
from assay.core.storage.files import sha256_bytes
from assay.core.storage.untrusted import open_regular, sha256_capped
from assay.rollout.tables.columns import OPTION, Columns, Meaning, list_names
from assay.rollout.tables.lines import (
    ANY_SIZE,
    FIX,
    Row,
    csv_rows,
    json_file,
    json_rows,
    parquet_rows,
    refuse,
    rows_of_columns,
    whole_text,
)
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.judge.beside import conditions_beside
from assay.verdict.judge.conditions import Conditions, RowConditions, of_inspect, sorted_out
from assay.verdict.judge.contents import (
    Prints,
    content_of,
    parts_of,
    passages,
    prints_of,
    short_digest,
    spelled,
    trimmed,
)
from assay.verdict.judge.forms import Asked, counts_repeats, of_known_shape, readings, scores_in
from assay.verdict.judge.inspect_logs import InspectLog
from assay.verdict.judge.rows import NO_STRATA, JudgedRow, rows_text
from assay.verdict.judge.sources import ArmRecord, Form, Reading, SeenTargets, SourceFile
from assay.verdict.judge.suite import LABEL, Metrics
from assay.verdict.judge.written import WrittenTexts

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".eval", ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")


TABLES: tuple[Form, ...] = ("table", "evalplus samples")
GIVEN = "given"  # the name of results that no comparison has named yet
SHORT, LONG = 4, 12  # characters of a target that a prompt may hold by chance; words of one that none repeats
FEWEST_ITEMS, BY_LUCK = 10, 0.001  # that tell which draws were chosen; p of an order that luck may make
EPISODES = "episodes.jsonl"  # of a folder that evaluate or grade wrote


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: what it is, its rows as the package holds them, the rows, which may change in place, and which
    columns were read under other names than the documented ones, in words and by meaning."""

    record: ArmRecord
    text: str
    rows: list[JudgedRow]
    columns: str = ""
    chosen: Mapping[Meaning, str] = field(default_factory=dict)


def read_arm(path: Path, name: str, asked: Asked, draws: int | None) -> Arm:
    """Return the results in a file, or in all files of a folder, whose items then carry the task's name.

    Args:
        path: The file or folder.
        name: Of the arm.
        asked: What is read of every row.
        draws: How many of each item, the first ones; None: all.

    Raises:
        DataError: A file cannot be read, holds an item twice, or results of more than one model.
    """
    files = files_of(path)
    several = len(files) > 1
    known = {file: (_task_of(file), _scores_of(file, asked) if several else ()) for file in files}
    metrics = Metrics(asked.metric)
    if several or metrics.by_task:
        metrics.check(known, path)
    reader, sources = _ArmReader(name, asked), tuple[SourceFile, ...]()
    for file, (task, scores) in known.items():
        try:
            sources += (reader.read(file, metrics.of(task, scores), several=several),)
        except DataError as error:
            raise (metrics.led(error, task) if several else error) from None
    arm = reader.finish(str(path), sources, draws)
    models = sorted({each.model for each in sources if each.model} | reader.models)
    if len(models) > 1:
        found, fix = ", ".join(models[:4]), "judge the results of one model at a time"
        raise refuse("the results of one model in each arm", found, str(path), fix)
    return arm


def read_frame(frame: pd.DataFrame, asked: Asked, draws: int | None) -> Arm:
    """Return the results in a data frame, one row a draw of an item; arguments as of `read_arm`. Levels of
    its index that have a name are columns.

    Raises:
        DataError: A row cannot be read, or two columns have one name.
    """
    named = (name for name in frame.index.names if name is not None)
    frame = frame.reset_index([name for name in named if name not in frame.columns])
    if not frame.columns.is_unique:
        twice = list_names(frame.columns[frame.columns.duplicated()])
        raise refuse("columns of different names", f"{twice} twice", "the frame", "rename one of them")
    text = frame.to_csv(index=False).encode("utf-8", "surrogatepass")
    plain = frame.astype(object).where(frame.notna(), None).to_dict("records")
    rows = ((f"row {k}", {str(name): value for name, value in row.items()}) for k, row in enumerate(plain))
    reader = _ArmReader(GIVEN, asked)
    source = reader.read_table(rows, len(text), sha256_bytes(text))
    return reader.finish("the frame", (source,), draws)


def files_of(path: Path) -> list[Path]:
    """Return the file, or those of a folder that may hold results; what lm-eval and verifiers write beside is
    left out.

    Raises:
        DataError: There is none.
    """
    try:
        if path.is_file():
            return [path]
        there = path.exists()
    except OSError as error:  # of a name that no file system takes
        raise refuse("a file or folder of results", str(error.strerror), f"{str(path)[:80]} ...") from None
    if not there:
        raise refuse("a file or folder of results", "nothing", str(path))
    if not path.is_dir():
        _check_regular(path)
    if (path / EPISODES).is_file():
        return [path / EPISODES]
    found = sorted(each for each in path.rglob("*") if each.is_file() and each.suffix.lower() in SUFFIXES)
    samples = [each for each in found if each.name.startswith("samples_") and each.suffix == ".jsonl"]
    logs = [each for each in found if each.suffix == ".eval"]
    tables = [each for each in found if each.suffix != ".json"]
    chosen = samples or logs or tables or found
    if not chosen:
        raise refuse(f"a file that ends in {', '.join(SUFFIXES)}", "none", str(path))
    return chosen


def _task_of(path: Path) -> str:
    """Return what the task of a file is called, by its head or its name."""
    if path.suffix.lower() == ".eval":
        return InspectLog(path).task or path.stem
    if path.name.startswith("samples_") and path.suffix == ".jsonl":
        return path.stem.removeprefix("samples_").rpartition("_")[0] or path.stem
    return path.stem


def _scores_of(path: Path, asked: Asked) -> tuple[str, ...]:
    """Return the names of the scores of a file, by its first row; none where they have no names."""
    if path.suffix.lower() in (".eval", ".json"):
        return InspectLog(path).scorers if path.suffix.lower() == ".eval" else ()
    first = next(rows_in(path), None)
    return () if first is None else scores_in(first[1], first[0], asked)


class _ArmReader:
    """Puts the results of one arm together, row by row."""

    def __init__(self, name: str, asked: Asked) -> None:
        self._name, self._asked, self._bounds = name, asked, asked.bounds
        self._answers: dict[int, int] = {}  # how many results have so many answers for one score
        self._conditions, self._answers_here = RowConditions(), set[int]()  # of the file that is read
        self._columns = ""
        self._chosen: Mapping[Meaning, str] = {}
        self._rows: list[JudgedRow] = []
        self._kept: dict[str, str] = {}  # texts and digests that many rows share, once
        self._digests: dict[str, str] = {}
        self._shared: dict[str, Mapping[str, str]] = {}
        self._contents: dict[str, str] = {}
        self._prints: dict[str, dict[str, Prints]] = {}  # by task and question
        self._targets = _Targets()
        self._drawn: dict[str, int] = {}
        self._homes: dict[str, int] = {}  # of how many tasks an item's id is
        self._without: list[dict[str, str]] = []
        self._successes = self._clustered = self._edited = 0
        self._written = WrittenTexts()
        self._blockers: list[Remark] = []
        self.models: set[str] = set()
        self._told: str | None = None  # the model that the rows of this file name
        self._head: Row = {}  # the first row of it

    def read(self, path: Path, metric: str | None, *, several: bool) -> SourceFile:
        """Take up one file by one of its scores, None for the only one; return what it is."""
        suffix = path.suffix.lower()
        self._asked = replace(self._asked, metric=metric)
        about = Conditions()
        form: Form | None
        self._conditions, self._answers_here = RowConditions(), set()
        log = _inspect_log(path) if suffix in (".eval", ".json") else None
        if log is not None:
            form = "inspect log"
            named = self._asked.columns
            metric = log.metric(metric) if metric is not None or "success" not in named.named else None
            self._blockers += log.obstacles
            found = log.readings(metric, named)
            with of_known_shape("a head as inspect writes it", str(path)):
                about = replace(of_inspect(log.head, metric or named.named.get("success")), task=log.task)
            self._chosen, self._head = dict(named.named), {}
        else:
            form, found, self._head = readings(rows_in(path), self._asked, self._look)
            if form in TABLES:
                noted = self._note_columns(self._head)
                metric = metric or noted
            if form is not None:
                with of_known_shape(f"{form} as its tool writes them", str(path)):
                    about = conditions_beside(path, form, self._head, metric)
        task = about.task
        before, self._told = len(self._rows), None
        prefix = f"{task or path.stem}/" if several else ""
        labels = {LABEL: task or path.stem} if several else None
        for reading in found:
            assert form is not None
            self._take(reading, form, prefix, labels)
        if form is None or (len(self._rows) == before and not self._without):
            raise refuse("at least one result", "none", str(path))
        sha256 = sha256_capped(path, max_bytes=ANY_SIZE, fix=FIX)
        return self._source(path.name, sha256, path.stat().st_size, form, metric, about)

    def _source(
        self, name: str, sha256: str, size: int, form: Form, metric: str | None, about: Conditions
    ) -> SourceFile:
        """Return what was read, with what its rows say of it beside what stands in its head."""
        measured, asked = sorted_out(self._conditions.found())
        about = replace(about, measured=measured | {**about.measured}, asked=asked | {**about.asked})
        about = about.with_metric(metric, max(self._answers_here, default=0))
        told = (about.model or "", about.task or "", metric or "", *about.measured, *about.measured.values())
        for text in (*told, *about.asked, *about.asked.values()):
            whole_text(text, name)
        return SourceFile(
            name=name,
            sha256=sha256,
            bytes=size,
            form=form,
            model=about.model or self._told,
            task=about.task,
            metric=metric,
            measured={**about.measured},
            settings={**about.asked},
            says=tuple(sorted(about.says)),
            items=about.items,
            made=about.made,
        )

    def _look(self, form: Form, row: Row) -> None:
        """Note what a row of a table says of its conditions."""
        if form in TABLES:
            taken = {*self._asked.columns.named.values(), self._asked.metric or ""}
            task = row.get("task")
            self._conditions.add(row, task if isinstance(task, str) else "", taken)

    def read_table(self, rows: Iterator[tuple[str, Row]], size: int, sha256: str) -> SourceFile:
        """Take up rows that were never a file, of so many bytes as CSV; return what they are."""
        self._conditions, self._answers_here = RowConditions(), set()
        form, found, self._head = readings(rows, self._asked, self._look)
        if form is None:
            raise refuse("at least one result", "none", "the frame")
        metric = self._asked.metric or (self._note_columns(self._head) if form in TABLES else None)
        for reading in found:
            self._take(reading, form, "", None)
        return self._source("frame", sha256, size, form, metric, Conditions())

    def _note_columns(self, head: Row) -> str | None:
        """Note which columns are read under other names than the documented ones; return the score's."""
        columns = self._asked.columns
        if self._asked.metric is not None:  # then a success counts only where it is named, as in table_row
            head = {name: each for name, each in head.items() if name not in self._passed_over(head)}
            columns = Columns({**columns.named, "score": self._asked.metric})
        told, unsure = columns.chosen(head), columns.unsure(head)
        both = [told.listed] * bool(told.named) + [f"not read: {unsure}, which {OPTION} says"] * bool(unsure)
        self._columns = self._columns or "; ".join(both)
        self._chosen = self._chosen or {**told.named, **columns.named}
        return told.named.get("score") or told.named.get("success")

    def _passed_over(self, head: Row) -> tuple[str, ...]:
        columns = self._asked.columns
        return () if "success" in columns.named else columns.candidates(head)["success"]

    def _take(self, each: Reading, form: Form, prefix: str, labels: dict[str, str] | None) -> None:
        for text in (each.item, each.cluster or "", each.model or "", *each.strata, *each.strata.values()):
            whole_text(text, each.place)
        item = self._once(prefix + each.item)
        if not each.item:
            raise refuse("an item on every row", "none", each.place)
        if each.model:
            self.models.add(each.model)
            self._told = each.model
        # Tasks of one table may number their items alike: `finish` then puts the task before each.
        own = each.strata.get(LABEL, "") if form in TABLES and not labels else ""
        place = f"{own}\0{item}"
        seen = self._drawn.get(place, 0)
        if not seen:
            self._homes[item] = self._homes.get(item, 0) + 1
        if seen and each.draw is None and not counts_repeats(form, self._asked):
            fix = self._asked.columns.fix_repeated(self._head)
            raise refuse("each item once, or a column draw", f"{item!a} again", each.place, fix)
        self._drawn[place] = seen + 1
        self._answers[each.answers] = self._answers.get(each.answers, 0) + 1
        if form not in TABLES or each.answers > 1:  # a row of a table may hold one answer of those it had
            self._answers_here.add(each.answers)
        if each.score is None:
            self._without.append({"item": item, "why": each.why})
            return
        low, high = self._bounds
        share: float | None = (each.score - low) / (high - low)
        if not -1e-9 <= (share or 0.0) <= 1 + 1e-9:
            if each.success is None:
                fix = "--bounds LOW,HIGH if scores have others; or a column success, which then decides"
                raise refuse(f"scores from {low:g} to {high:g}", f"{each.score:g}", each.place, fix)
            share = None
        else:
            share = min(1.0, max(0.0, share or 0.0))
        self._successes += each.success is not None
        self._edited += each.edited
        self._clustered += each.cluster is not None and form in (*TABLES, "inspect log")
        success = share == 1.0 if each.success is None else each.success
        self._written.add(each.wrote, success)
        self._targets.add(each, success, wrong=not success if share is None else share == 0.0)
        strata = {**each.strata, **labels} if labels else each.strata
        self._rows.append(
            JudgedRow(
                item,
                seen if each.draw is None else each.draw,
                item if each.cluster is None else self._once(prefix + each.cluster),
                each.score,
                share,
                success,
                each.n_turns,
                each.tokens,
                each.truncated,
                each.unparsed,
                self._labels(strata),
                self._content_of(each, strata.get(LABEL, "")),
                self._digest_of(trimmed(each.prompt)),
                short_digest(each.completion),
                each.fault or ("empty" if each.wrote and not "".join(each.wrote).strip() else ""),
            )
        )

    def _once(self, text: str) -> str:
        return self._kept.setdefault(text, text)

    def _labels(self, strata: Mapping[str, str]) -> Mapping[str, str]:
        return self._shared.setdefault(repr(strata), strata) if strata else NO_STRATA

    def _content_of(self, each: Reading, task: str) -> str:
        """Return what an item asks; a question that comes again with every draw is looked at once."""
        key = short_digest("\0".join((task, each.question, each.target)))
        if key not in self._contents:
            found = content_of(each.question, each.target, each.wording)
            self._contents[key] = str(found)
            if found.question:
                self._prints.setdefault(task, {})[found.question] = prints_of(each.wording or each.question)
        return self._contents[key]

    def _note_passages(self) -> None:
        """Give the rows of items that share a passage that passage, where nobody named clusters."""
        homes = {} if self._clustered else {task: passages(found) for task, found in self._prints.items()}
        for row in self._rows if any(homes.values()) else ():
            asked = parts_of(row.content)
            if passage := homes.get(row.strata.get(LABEL, ""), {}).get(asked.question, ""):
                row.content = self._once(str(asked._replace(passage=passage)))

    def _digest_of(self, text: str) -> str:
        """Return a digest that many rows share: questions come again with every draw."""
        if not text:
            return ""
        found = short_digest(text)
        return self._digests.setdefault(found, found)

    def finish(self, where: str, sources: tuple[SourceFile, ...], most: int | None) -> Arm:
        """Return the arm: draws from 0 on, of `most` an item the first."""
        n = len(self._rows)
        if max(self._homes.values(), default=0) > 1:
            for row in self._rows:
                task = row.strata.get(LABEL, "")
                row.cluster, row.item_id = (
                    self._once(f"{task}/{each}") for each in (row.cluster, row.item_id)
                )
        if 0 < self._successes < n:
            raise refuse("a success on every row, or on none", f"{self._successes} of {n}", where)
        if self._without:
            lost, items = len(self._without), self._without[:3]
            self._blockers.append(remark("no_score", arm=self._name, n=lost, of=n + lost, items=items))
        self._note_passages()
        if most is not None and most < 1:
            fix = "--draws 1, or leave it out"
            raise ConfigError("a number of draws from 1 on", found=str(most), where="--draws", fix=fix)
        picked = _picked(self._rows)
        rows, notes = _numbered(self._rows, most, self._name), list[Remark]()
        if len(rows) < n:
            notes.append(remark("draws_left_out", arm=self._name, n=n - len(rows), most=most))
            self._blockers += _in_order_of_scores(self._rows, rows, self._name, most)
        if picked:
            notes.append(remark("draws_picked", arm=self._name, examples=picked))
        if self._edited:
            notes.append(remark("scores_edited", arm=self._name, n=self._edited, of=n))
        if many := {answers: count for answers, count in self._answers.items() if answers > 1}:
            count, answers = sum(many.values()), max(many)
            notes.append(remark("answers_not_scored", arm=self._name, n=count, answers=answers))
        text = rows_text(rows)
        record = ArmRecord(
            name=self._name,
            files=sources,
            rows_sha256=sha256_bytes(text.encode("utf-8")),
            rows=len(rows),
            clustered=min(self._clustered, len(rows)),
            has_success=n > 0 and self._successes == n,
            targets=self._targets.found(),
            blockers=tuple(self._blockers),
            notes=tuple(notes),
            written=self._written.said(),
        )
        return Arm(record, text, rows, self._columns, self._chosen)


class _Targets:
    """Counts what the results of one arm have to do with what is right."""

    def __init__(self) -> None:
        self._counts, self._other, self._last = Counter[str](), "", ""

    def add(self, each: Reading, success: bool, *, wrong: bool) -> None:
        """Count one result."""
        target = each.target.strip()
        if not target:
            return
        counts, plain = self._counts, spelled(target)
        if target != self._last:
            self._other, self._last = self._last, target
        if prompt := each.wording or each.prompt:
            # Labels, and what examples hold, stand there beside other targets; a leak is of its own.
            own = len(target) >= SHORT and target in prompt
            counts["prompts"] += 1
            counts["shown"] += own and bool(self._other) and self._other not in prompt
            # A short one may stand there by chance, as a word: it is a leak where most prompts show theirs.
            # By its value, since the other arm may spell it otherwise: 42 is 42.0.
            short = len(plain) < SHORT and bool(self._other) and _has_word(prompt, plain)
            counts["short"] += short and not _has_word(prompt, spelled(self._other))
        said = "\n".join(each.wrote or (each.completion,)).strip()
        if said and len(said) <= 2 * len(target) + 40 and spelled(said) == plain:
            counts["exact"] += 1
            counts["missed"] += wrong
        if success and len(plain.split()) >= LONG:
            counts["right"] += 1
            counts["repeated"] += plain in " ".join(said.split())

    def found(self) -> SeenTargets | None:
        """Return the counts; None where no target is known."""
        if not self._last:
            return None
        return SeenTargets(**{name: self._counts[name] for name in SeenTargets.model_fields})


def _has_word(text: str, word: str) -> bool:
    """Return whether a text has a word that stands alone.

    >>> [_has_word("Add 12 to 3.5.", word) for word in ("12", "1", "3", "3.5")]
    [True, False, False, True]
    """
    return word in text and re.search(rf"(?<![\w.]){re.escape(word)}(?!\w|\.\w)", text) is not None


def _numbered(rows: list[JudgedRow], most: int | None, name: str) -> list[JudgedRow]:
    """Return rows in order with draws numbered from 0 by item; of `most` draws the first.

    Raises:
        DataError: A draw is there twice.
    """
    rows.sort(key=lambda row: (row.item_id, row.draw))
    kept, item, place, draw = list[JudgedRow](), None, 0, -1
    for row in rows:
        if row.item_id != item:
            item, place = row.item_id, 0
        elif row.draw == draw:
            fix = "leave out what is there twice"
            raise refuse("each draw of an item once", f"draw {draw} of {item!a} twice", name, fix)
        draw = row.draw
        if most is None or place < most:
            row.draw = place
            kept.append(row)
        place += 1
    return kept


def _picked(rows: Sequence[JudgedRow]) -> list[str]:
    """Return of two items which draws they have, where numbers show that draws were chosen or dropped item by
    item; nothing where draws are numbered alike, or are seeds or numbers of rows.

    Args:
        rows: With the numbers that the file has.
    """
    drawn: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        drawn[row.item_id].append(row.draw)
    if len({row.draw for row in rows}) > len(rows) / 2 or len(drawn) < FEWEST_ITEMS:
        return []
    one = all(len(draws) == 1 for draws in drawn.values())  # then it is the number itself that differs
    patterns = dict[tuple[int, ...], str]()
    for item, draws in sorted(drawn.items()):
        first = 0 if one else min(draws)
        patterns.setdefault(tuple(draw - first for draw in sorted(draws)), item)
    if len(patterns) == 1 or len({len(draws) for draws in drawn.values()}) > 1:
        return []
    two = list(patterns.values())[:2]
    return [f"{item}: {', '.join(map(str, sorted(drawn[item])[:8]))}" for item in two]


def _in_order_of_scores(
    rows: Sequence[JudgedRow], kept: Sequence[JudgedRow], name: str, most: int | None
) -> list[Remark]:
    """Return that the first draws of items differ in their scores from those that are left out; by luck once
    in a thousand (a sign test over items)."""
    ids, found = set(map(id, kept)), dict[str, tuple[list[float], list[float]]]()
    for row in rows:
        here = found.setdefault(row.item_id, ([], []))
        here[id(row) not in ids].append(float(row.success) if row.share is None else row.share)
    gaps = [mean(first) - mean(rest) for first, rest in found.values() if rest]
    up, down = (sum(sign * gap > 0 for gap in gaps) for sign in (1, -1))
    if not up + down or binomtest(up, up + down).pvalue > BY_LUCK:
        return []
    return [remark("draws_in_order", arm=name, n=len(gaps), higher=up, lower=down, most=most)]


def rows_in(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a table or of JSON, each with its place.

    Raises:
        DataError: The file is of no such form, or damaged.
    """
    _check_regular(path)
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return csv_rows(path)
    if suffix == ".parquet":
        return parquet_rows(path)
    if suffix == ".json":
        rows = _rows_of(json_file(path.read_bytes(), path), path)
        return ((f"{path}, result {number}", row) for number, row in enumerate(rows, start=1))
    if suffix in (".jsonl", ".ndjson"):
        return json_rows(path)
    fix = "unpack it first" if suffix in PACKED else FIX
    raise refuse(f"a file that ends in {', '.join(SUFFIXES)}", path.suffix or "no ending", str(path), fix)


def _check_regular(path: Path) -> None:
    """Refuse what is no file that can be read, a pipe among it, before anything waits for it."""
    with open_regular(path, max_bytes=ANY_SIZE, fix=FIX):
        pass


def _rows_of(value: Any, path: Path) -> list[Row]:
    """Return the results that a JSON value holds: a list of objects, or the one such list inside.

    Raises:
        DataError: There is none, or several and none of them is called as tools call it.
    """
    means = value.get("results") if isinstance(value, dict) else None
    if isinstance(means, dict) and means and all(isinstance(each, dict) for each in means.values()):
        fix = "of lm-eval name samples_*.jsonl, which --log_samples writes beside; of lighteval"
        fix += " details_*.parquet, which --save-details writes"
        raise refuse("a result for each item", f"means of {list_names(means)}", str(path), fix)
    solutions = value.get("eval") if isinstance(value, dict) else None
    if isinstance(solutions, dict):  # of evalplus: by task, each with a list of solutions
        lists = [each if isinstance(each, list) else [each] for each in solutions.values()]
        rows = [row for each in lists for row in each]
        if rows and all(isinstance(row, dict) for row in rows):
            return rows
    lists_in = dict(_lists_in(value, ""))
    name = next((each for each in LISTS if each in lists_in), None)
    if name is None and len(lists_in) == 1:
        name = next(iter(lists_in))
    if name is not None:
        return lists_in[name]
    if lists_in:
        fix = "write one of these lists alone to a file, such as after.json"
        raise refuse("one list of results", list_names(lists_in), str(path), fix)
    if (table := rows_of_columns(value)) is not None:
        return table
    found = f"the names {list_names(value)}" if isinstance(value, dict) else type(value).__name__
    raise refuse("a log of inspect, or a list of results", found, str(path), FIX)


LISTS = ("", "results", "results.results", "samples", "test_cases", "testCases", "examples", "rows", "data")


def _lists_in(value: Any, place: str, depth: int = 0) -> Iterator[tuple[str, list[Row]]]:
    """Yield the lists of objects in a JSON value, each with its place as names with dots."""
    if isinstance(value, list):
        if value and all(isinstance(row, dict) for row in value):
            yield place, value
    elif isinstance(value, dict) and depth < 3:
        for name, each in value.items():
            yield from _lists_in(each, f"{place}.{name}" if place else str(name), depth + 1)


def _inspect_log(path: Path) -> InspectLog | None:
    """Return a log of inspect; None where a .json is something else."""
    if path.suffix.lower() == ".eval":
        return InspectLog(path)
    with path.open("rb") as stream:
        if b'"eval"' not in stream.read(4096):
            return None
    head = json_file(path.read_bytes(), path)
    about = head.get("eval") if isinstance(head, dict) else None
    return InspectLog(path, head) if isinstance(about, dict) and {"task", "model"} & about.keys() else None
