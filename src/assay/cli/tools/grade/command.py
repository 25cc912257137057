"""`assay episodes grade`: completions that somebody has become episodes, graded by the task's own grader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from assay.cli.tools.evaluate import EvaluationRequest, prepare
from assay.cli.tools.grade.completions import FIX, Answered, Form, named, numbered, one_model
from assay.cli.tools.grade.replaying import matched, play_texts
from assay.cli.tools.tasks_file import note_asked
from assay.core.console import complain, progress, say
from assay.core.counting import counted
from assay.core.errors import ConfigError
from assay.core.records import Episode, Interval, Record
from assay.core.seeds import rng
from assay.core.storage.json import digest, write_json, write_jsonl
from assay.core.storage.untrusted import sha256_capped
from assay.rollout.evaluation.alarms import alarm_said, alarms
from assay.rollout.evaluation.clusters import cluster_sums
from assay.rollout.evaluation.doubts import find_disagreement, find_empty_golds
from assay.rollout.evaluation.written import Written, count_written, find_written_cautions, said_of_written
from assay.rollout.tables.columns import Columns
from assay.rollout.tables.lines import ANY_SIZE
from assay.verdict.evidence.formatting import interval_text
from assay.verdict.judge.reading import rows_in
from assay.verdict.statistics.intervals import mean_interval, rate_interval

EPISODES = "episodes.jsonl"


@dataclass(frozen=True, slots=True)
class GradeRequest:
    """What the command line says; None leaves a matter to the settings, or to what the file has.

    `model` says whose completions these are; `items` and `seed` which plays of the tasks file, as in
    `assay evaluate`; `columns` which column is what; `out` the folder to write.
    """

    task: str | None = None
    model: str | None = None
    items: int | None = None
    seed: int | None = None
    surface: str | None = None
    cut: str | None = None
    columns: str | None = None
    out: Path = Path("graded")


class Grade(Record):
    """What grade.json holds: what was graded by what, and what nobody can know of it."""

    kind: Literal["assay-grade/1"] = "assay-grade/1"
    tasks_file: str
    tasks_sha256: str
    completions_file: str
    completions_sha256: str
    form: Form
    model: str | None = Field(
        description="whose completions these are, as somebody named it; null: nobody did"
    )
    task: str
    suite_digest: str = Field(description="of the items, draws, data and rules that were graded by")
    items: int = Field(ge=1)
    draws: int = Field(ge=1)
    prompts_other: int | None = Field(
        description="transcripts that open with another text than the task does; null: no file has prompts"
    )
    unknown: tuple[str, ...] = Field(
        description="what the episodes cannot say, though their form has a place"
    )
    written: Written
    success_rate: Interval
    mean_reward: Interval


def run(root: Path, tasks: Path, completions: Path, asked: GradeRequest) -> None:
    """Write episodes.jsonl and grade.json, and say what they show.

    Raises:
        AssayError: A file cannot be read, or completions are not those of the items.
    """
    if asked.out.exists() and not asked.out.is_dir():
        fix = "--out with another name"
        raise ConfigError("a folder to write in", found="a file", where=f"--out {asked.out}", fix=fix)
    form, answers = numbered(rows_in(completions), str(completions), Columns.read(asked.columns))
    model = one_model(answers, asked.model, str(completions))
    played = EvaluationRequest(
        tasks,
        task=asked.task,
        draws=1 + max(each.draw or 0 for each in answers),
        items=asked.items,
        seed=asked.seed,
        surface=asked.surface,
        cut=asked.cut,
    )
    ready = prepare(root, played)
    project, task, suite = ready.project, ready.task, ready.suite
    plays = suite.plays()
    texts = matched(plays, named(answers, ready.items), str(completions), str(tasks))
    file_sha256 = sha256_capped(completions, max_bytes=ANY_SIZE, fix=FIX)
    policy = _policy_of(texts) or digest(["graded", model or file_sha256])
    with progress("grade: episodes", len(plays)) as advance:
        episodes, other = play_texts(task, plays, texts, project.params.health.retries, advance)
    note_asked(project, suite, policy, policy)  # before anybody is told a score
    episodes = [each.model_copy(update={"policy": model}) for each in episodes]
    written = count_written(
        task,
        plays,
        episodes,
        project.params.task.cut,
        hidden=sum(each.hidden for each in texts),
        knows_truncated=all(each.truncated is not None for each in texts),
        retries=project.params.health.retries,
    )
    clusters, luck = [each.cluster for each in episodes], rng("grade", suite.digest)
    found = Grade(
        tasks_file=str(tasks),
        tasks_sha256=ready.tasks_sha256,
        completions_file=str(completions),
        completions_sha256=file_sha256,
        form=form,
        model=model,
        task=task.name,
        suite_digest=suite.digest,
        items=len(suite.items),
        draws=suite.draws,
        prompts_other=other if any(each.asked is not None for each in texts) else None,
        unknown=_unknown(texts, model),
        written=written,
        success_rate=rate_interval(cluster_sums([float(each.success) for each in episodes], clusters)),
        mean_reward=mean_interval(cluster_sums([each.reward for each in episodes], clusters), luck),
    )
    write_jsonl(asked.out / EPISODES, episodes)
    write_json(asked.out / "grade.json", found)
    doubts = (*find_empty_golds(task, plays, episodes), *find_disagreement(task, episodes))
    _report(found, episodes, doubts, asked.out)
    for alarm in alarms(task, episodes):
        complain(alarm_said(alarm, "episodes"))


def _policy_of(texts: Sequence[Answered]) -> str | None:
    """Return the policy's digest, where these are episodes that assay played."""
    first = texts[0]
    return first.model if first.prompts is not None and first.model and len(first.model) == 64 else None


def _unknown(texts: Sequence[Answered], model: str | None) -> tuple[str, ...]:
    found = ["sampling settings (temperature, limit of tokens): no file has them"]
    if any(each.tokens is None for each in texts):
        found.append("tokens: n_tokens is 0 where nobody counted")
    if any(each.truncated is None for each in texts):
        found.append("whether completions were cut off: truncated is false where nobody says")
    if any(each.prompts is None for each in texts):
        found.append("the prompt in tokens: prompt_digest is empty")
    if any(each.seed is None for each in texts):
        found.append("sampling seeds: seed is the draw")
    if model is None:
        found.append("which model wrote them: policy is null, and --model NAME would name it")
    elif _policy_of(texts) is None:
        found.append("which weights wrote them: policy is a name that somebody gave")
    return tuple(found)


def _report(found: Grade, episodes: Sequence[Episode], doubts: Sequence[str], out: Path) -> None:
    for caution in (*find_written_cautions(found.written), *doubts):
        say(f"WARNING: {caution}")
    what = f"{counted(found.items, 'items')}, {counted(found.draws, 'draws')}"
    say(f"{found.completions_file} on {found.tasks_file}: {what}, model {found.model or 'not said'}")
    for name, value, rate in (
        ("success_rate", found.success_rate, True),
        ("mean_reward", found.mean_reward, False),
    ):
        say(f"{name:12}  {interval_text(value, rate=rate)}  n = {value.n}")
    say(said_of_written(found.written))
    if found.prompts_other:
        n = counted(found.prompts_other, "transcripts")
        complain(
            f"{n} of {len(episodes)} open with another text than the task does: the model was asked otherwise"
        )
    say(f"not known: {'; '.join(each.partition(':')[0] for each in found.unknown)}")
    say(f"wrote {EPISODES} and grade.json to {out}; with a second such file: assay judge BEFORE AFTER")
