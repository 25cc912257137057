"""What is read for a claim: the arms of the comparison, with the reports they give, and the tables of the
training, of which a bad line fails the reader and is not skipped."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from assay.core.errors import RecordError
from assay.core.records import Episode, TrainFacts
from assay.core.storage.files import read_bytes, read_text, sha256_bytes
from assay.core.storage.json import read_records
from assay.pipeline.project import Project
from assay.pipeline.rival_files import rival_of, suite_for
from assay.rollout.dataset.suite import SAMPLING_AGAIN, Suite
from assay.rollout.evaluation.replay import graded_again
from assay.rollout.tasks.protocol import Item
from assay.stages.render_evidence.remembered import remembered
from assay.verdict.statistics.checkpoint_rows import LABELS, rows_of_scores
from assay.verdict.statistics.report import Decoding, Report, report_on

if TYPE_CHECKING:
    import pandas as pd  # takes half a second to load, and most commands make no table

FIX = "./run dvc repro train"
LARGEST = 1e100  # beyond it sums of squares overflow, and no log of a training has such a number


def log_table(project: Project, name: str, *needed: str, texts: Sequence[str] = ()) -> pd.DataFrame:
    """Return a table of a training whose every cell is a finite number or empty, in the order of its steps.

    One row a step; of a table with texts, such as ids, many.

    Args:
        project: Where it lies.
        name: Of the file.
        needed: Columns it has to have.
        texts: Columns that hold text.

    Raises:
        RecordError: It is anything else; names the line.
    """
    import pandas as pd

    text = read_text(project.results(name), fix=FIX)
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise RecordError("a table", found=str(error), where=name, fix=FIX) from None
    missing = [column for column in needed if not rows or column not in rows[0]]
    if missing or len(rows) < 2:
        found = f"no {', '.join(missing)}" if missing else "no rows"
        raise RecordError(f"columns {', '.join(needed)} and rows", found=found, where=name, fix=FIX)
    for k, row in enumerate(rows[1:], 2):
        numbers = [cell for cell, column in zip(row, rows[0], strict=False) if column not in texts]
        if len(row) != len(rows[0]) or not all(cell == "" or _is_number(cell) for cell in numbers):
            found, where = ",".join(row)[:60], f"{name}, line {k}"
            raise RecordError(f"{len(rows[0])} cells, numbers or empty", found=found, where=where, fix=FIX)
    if not text.endswith("\n"):
        raise RecordError("a whole last line", found="one that is cut off", where=name, fix=FIX)
    frame = pd.read_csv(
        io.StringIO(text), dtype=dict.fromkeys(texts, str), keep_default_na=False, na_values=[""]
    )
    apart = frame["step"].diff().dropna()
    if frame["step"].isna().any() or not (apart >= 0 if texts else apart > 0).all():
        raise RecordError("steps in order, each once", found="others", where=f"{name}, column step", fix=FIX)
    return frame


def _is_number(cell: str) -> bool:
    try:
        return abs(float(cell)) < LARGEST
    except ValueError:
        return False


Arm = tuple[Report, list[Episode]]
CONTROL, AGAIN = "control_eval", "base_again"
STAGES = {"pre_eval": "pre_eval", "post_eval": "post_eval", AGAIN: "post_eval", CONTROL: "control"}


def suite_of(
    project: Project, name: str, heldout: Suite | None = None, secondary: Mapping[str, Suite] | None = None
) -> Suite:
    """Return the suite that an arm plays: a secondary one, or of the held-out one all draws, one that is
    greedy, or draws of its own for the base's second time and for rivals; `heldout` and `secondary` where
    these are at hand."""
    if other := name.partition("/")[2]:
        return (secondary or project.inputs("secondary").secondary)[other]
    heldout = heldout or project.inputs("heldout").heldout
    if (rival := rival_of(name)) is not None:
        return suite_for(heldout, rival)
    if name == AGAIN:
        return replace(heldout, sampling=SAMPLING_AGAIN)
    return replace(heldout, draws=1) if name.endswith("_greedy") else heldout


T = TypeVar("T")


class ArmReader:
    """The arms of a run, as they were played; what several runs have in common is worked out once for all.

    Args:
        project: The run.
        known: What was worked out for other runs, by what it follows from; it grows. None: nothing is kept.
        graded: Returns the files of episodes that were graded again already, in these bytes, and are right;
            asked when it is needed. None: there are none.

    Raises:
        DataError: The data are not those that were fingerprinted.
    """

    def __init__(
        self,
        project: Project,
        known: dict[tuple[str, ...], Any] | None = None,
        graded: Callable[[], Set[str]] | None = None,
    ) -> None:
        self.project, self.task = project, project.task()
        self.inputs = project.inputs("heldout", "validation", "secondary")
        self.suite = self.inputs.heldout
        self.replayed = remembered(self.task, project.params.task)
        self._known, self._graded = known, graded
        self._suites, self._arms = dict[str, Suite](), dict[str, Arm]()

    @cached_property
    def train(self) -> list[Item]:
        """Every item of the train data, which scripted players may learn from."""
        return self.project.items("train")

    def once(self, make: Callable[[], T], what: str, suite: Suite, *files: str) -> T:
        """Return what follows from a suite, its task and some files, looked up if it is known already."""
        if self._known is None:
            return make()
        contents = [sha256_bytes(read_bytes(self.project.results(name), fix=FIX)) for name in files]
        key = (what, suite.digest, str(self.project.params.health.retries), *files, *contents)
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    def arm(self, name: str) -> Arm:
        """Return an arm by the name of its file, such as pre_eval or post_eval_greedy.

        Raises:
            RecordError: The file is missing or damaged, or its episodes are not of one policy.
            EvidenceError: The episodes are not a whole suite.
        """
        if name not in self._arms:
            suite = self._suite(name)
            self._arms[name] = self.once(partial(self._read, name, suite), "arm", suite, f"{name}.jsonl")
        return self._arms[name]

    def misgraded(self, name: str) -> list[str]:
        """Return what the episodes of an arm say of themselves that the task does not."""
        if self._graded is not None and f"{name}.jsonl" in self._graded():
            return []
        suite = self._suite(name)
        make = partial(graded_again, self.replayed, suite, self.arm(name)[1], name)
        return self.once(make, "graded again", suite, f"{name}.jsonl")

    def _suite(self, name: str) -> Suite:
        if name not in self._suites:
            self._suites[name] = suite_of(self.project, name, self.suite, self.inputs.secondary)
        return self._suites[name]

    def _read(self, name: str, suite: Suite) -> Arm:
        known = name.partition("_secondary/")[0].removesuffix("_greedy")
        fix = f"./run dvc repro {'pre_eval' if rival_of(name) else STAGES[known]}"
        episodes = read_records(self.project.results(f"{name}.jsonl"), Episode, fix=fix)
        return _report_of(suite, name, episodes, fix), episodes


def _report_of(suite: Suite, name: str, episodes: list[Episode], fix: str) -> Report:
    """Return what the episodes of an arm give."""
    policies = {episode.policy for episode in episodes}
    if len(policies) != 1 or None in policies:
        found = f"{len(policies)} of them" if None not in policies else "episodes without one"
        raise RecordError("episodes of one policy", found=found, where=f"{name}.jsonl", fix=fix)
    n = len(suite.items) * suite.draws
    if len(episodes) != n or len({(episode.item_id, episode.draw) for episode in episodes}) != n:
        raise RecordError(
            f"the {n} plays of the suite", found=f"{len(episodes)} episodes", where=f"{name}.jsonl", fix=fix
        )
    decoding: Decoding = "greedy" if name.endswith("_greedy") and "/" not in name else "sampled"
    return report_on(episodes, suite, str(policies.pop()), decoding)


def checkpoint_frame(project: Project, trained: TrainFacts) -> pd.DataFrame:
    """Return every validation as checkpoint_evals.csv has it, with the intervals that its episodes give.

    Raises:
        RecordError: validation_scores.csv is missing or damaged, or holds a row twice or not at all.
    """
    import pandas as pd

    scores = log_table(
        project, "validation_scores.csv", *LABELS, "mean_reward", "success_rate", texts=("item_id", "cluster")
    )
    plays = scores[["greedy", "item_id", "draw"]].drop_duplicates()
    repeated = int(scores.duplicated(["step", "greedy", "item_id", "draw"]).sum())
    missing = len(plays) * scores["step"].nunique() - (len(scores) - repeated)
    if repeated or missing:
        raise RecordError(
            f"each of the {len(plays)} plays once in every validation",
            found=f"{repeated} rows repeated, {missing} missing",
            where="validation_scores.csv",
            fix=FIX,
        )
    return pd.DataFrame(rows_of_scores(scores, trained.validation_suite, trained.steps))
