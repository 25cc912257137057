"""`assay evaluate`: the evaluation loop alone, for any tasks file and any policy folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from assay.cli.tools.tasks_file import items_of, note_asked, open_project, suite_from
from assay.core.config.settings import COOLEST
from assay.core.console import complain, progress, say
from assay.core.counting import counted
from assay.core.decoding import Decoding
from assay.core.errors import AssayError, ConfigError
from assay.core.records import Episode, Interval, Record
from assay.core.storage.files import real, sha256_bytes
from assay.core.storage.json import digest, write_json, write_jsonl
from assay.core.storage.untrusted import read_capped
from assay.pipeline.inputs import MAX_BLOCKLIST_BYTES, blocklist_of, code_of, task_with
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Suite, rules_of
from assay.rollout.evaluation.alarms import alarm_said, alarms, cuts_said
from assay.rollout.evaluation.measures import is_rate
from assay.rollout.evaluation.phases import Latency, Stopwatch, latency
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.evaluation.trajectory import open_item
from assay.rollout.evaluation.written import Written, count_written, find_written_cautions, said_of_written
from assay.rollout.tables.columns import Columns
from assay.rollout.tasks.protocol import Item, Task
from assay.rollout.tasks.rivals import players_of
from assay.verdict.evidence.formatting import interval_text
from assay.verdict.statistics.checkpoint_rows import BestOf, best_of_items
from assay.verdict.statistics.report import Report, report_on

TOKENS = ("mean_tokens", "mean_tokens_per_completion")

if TYPE_CHECKING:
    from assay.rollout.policy.model import Policy


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What the command line says; None leaves a matter to the settings."""

    tasks: Path
    policy: Path | None = None  # None: a scripted player, or a served model
    player: str | None = None
    task: str | None = None
    draws: int | None = None
    best_of: int | None = None
    greedy: bool = False
    items: int | None = None
    seed: int | None = None
    temperature: float | None = None
    max_new_tokens: int | None = None
    batch_size: int | None = None
    surface: str | None = None
    blocklist: Path | None = None
    columns: str | None = None
    cut: str | None = None
    out: Path | None = None


class Evaluation(Record):
    """What report.json holds: who was measured on what, and the numbers."""

    tasks_file: str
    tasks_sha256: str
    policy_folder: str
    temperature: float = Field(description="0 is greedy")
    max_new_tokens: int
    written: Written
    report: Report
    best_of: BestOf


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be played and how, whoever plays."""

    project: Project
    task: Task
    suite: Suite
    decoding: Decoding
    best_of: int
    tasks_sha256: str
    items: Sequence[Item]  # all of the file, of which the suite may be a part


def prepare(root: Path, asked: EvaluationRequest) -> Prepared:
    """Read settings and tasks file.

    Raises:
        ConfigError: Settings that cannot be.
        DataError: A tasks file that cannot be played.
    """
    project = open_project(root, asked.task, asked.surface, asked.blocklist, asked.cut)
    draws, k = draws_of(project, asked)
    decoding = decoding_of(project, asked)
    if asked.blocklist is None:
        terms = blocklist_of(project.root, project.params)
    else:
        terms = read_capped(asked.blocklist, max_bytes=MAX_BLOCKLIST_BYTES, fix="--blocklist FILE")
    task = task_with(project.root, project.params, terms)
    items, sha256 = items_of(project, task, asked.tasks, Columns.read(asked.columns))
    told = None if terms is None else sha256_bytes(terms)
    rules = rules_of(
        project.params.task, project.params.generation, told, code_of(project.root, project.params.task)
    )
    suite = suite_from(project, items, asked.tasks, asked.items, asked.seed, draws, rules)
    return Prepared(project, task, suite, decoding, k, sha256, items)


def run(root: Path, asked: EvaluationRequest) -> None:
    """Play, print a table, and write episodes.jsonl, report.json and, apart from them, how long it took."""
    from assay.cli.tools.policy_folder import open_folder
    from assay.rollout.evaluation.measure import measure  # torch, which a served model does not need
    from assay.rollout.evaluation.rollout import Pace

    if asked.policy is None:
        fix = "--policy FOLDER, --player NAME, or --served URL --model NAME"
        raise ConfigError("a policy", found="none", where="assay evaluate", fix=fix)
    ready = prepare(root, asked)
    project, task, suite = ready.project, ready.task, ready.suite
    policy = open_folder(project, asked.policy)
    for caution in find_cautions(project, task, policy, suite):
        complain(caution)
    note_asked(project, suite, policy.digest, policy.base_digest)
    plays = suite.plays()
    with progress("evaluate: episodes", len(plays)) as advance:
        stopwatch = Stopwatch(advance)
        batch_size = asked.batch_size or project.params.generation.batch_size
        episodes = measure(
            policy,
            task,
            plays,
            ready.decoding,
            pace=Pace(batch_size, progress=stopwatch, retries=project.params.health.retries),
        )
    report = report_of(ready, episodes, policy.digest)
    evaluation = evaluation_of(ready, asked.tasks, str(asked.policy), report, episodes)
    question = [report.policy_digest, repr(replace(asked, out=None))]
    out = asked.out or default_folder(root, ready, asked.tasks, real(asked.policy).name, question)
    conclude(out, ready, evaluation, episodes, latency(episodes, stopwatch.seconds))


def run_player(root: Path, asked: EvaluationRequest, name: str) -> None:
    """Let a scripted player of the task play, and write what `run` does: a rival for `assay judge`.

    Raises:
        ConfigError: The task has no such player, or another policy is named too.
    """
    if asked.policy is not None:
        fix = "leave one of the two out"
        raise ConfigError("one policy", found="--policy too", where="--player", fix=fix)
    ready = prepare(root, asked)
    project, task, plays = ready.project, ready.task, ready.suite.plays()
    train, _ = items_of(project, task, project.data("train.jsonl"))  # of which a constant answer is made
    players = players_of(task, train)
    if name not in players:
        fix = f"--player {next(iter(players), 'NAME')}"
        raise ConfigError(" or ".join(sorted(players)), found=repr(name), where="--player", fix=fix)
    episodes = play_baseline(task, players[name], plays, name, retries=project.params.health.retries)
    report = without_tokens(report_of(ready, episodes, f"scripted:{name}"))
    evaluation = evaluation_of(ready, asked.tasks, f"player {name}", report, episodes)
    question = [report.policy_digest, repr(replace(asked, out=None))]
    out = asked.out or default_folder(root, ready, asked.tasks, name, question)
    conclude(out, ready, evaluation, episodes, None)


def report_of(ready: Prepared, episodes: Sequence[Episode], policy_digest: str) -> Report:
    """Return the measures of what was played."""
    greedy = ready.decoding.temperature == 0
    return report_on(episodes, ready.suite, policy_digest, "greedy" if greedy else "sampled")


def evaluation_of(
    ready: Prepared, tasks: Path, name: str, report: Report, episodes: Sequence[Episode], *, hidden: int = 0
) -> Evaluation:
    """Return what report.json holds; `name` says who played, `hidden` is that of `count_written`."""
    params = ready.project.params
    written = count_written(
        ready.task,
        ready.suite.plays(),
        episodes,
        params.task.cut,
        hidden=hidden,
        retries=params.health.retries,
    )
    return Evaluation(
        tasks_file=str(tasks),
        tasks_sha256=ready.tasks_sha256,
        policy_folder=name,
        temperature=ready.decoding.temperature,
        max_new_tokens=ready.decoding.max_new_tokens,
        written=written,
        report=report,
        best_of=best_of_items(episodes, ready.best_of, ready.suite.digest),
    )


def conclude(
    out: Path,
    ready: Prepared,
    evaluation: Evaluation,
    episodes: Sequence[Episode],
    took: Latency | None,
    *,
    billed: int | None = None,
) -> None:
    """Write and say what was found; `took` is None where nothing was played now, `billed` what a server
    counted."""
    digest_of = evaluation.report.policy_digest
    write_jsonl(out / "episodes.jsonl", [each.model_copy(update={"policy": digest_of}) for each in episodes])
    write_json(out / "report.json", evaluation)
    if took is not None:
        write_json(out / "clock.json", took)
    for caution in find_written_cautions(evaluation.written, billed, f" --out {out}"):
        say(f"WARNING: {caution}")
    for line in table(evaluation, ready.task, took):
        say(line)
    for alarm in alarms(ready.task, episodes):
        complain(alarm_said(alarm, "episodes"))
    if cut := cuts_said(episodes):
        say(cut)
    say(f"wrote episodes.jsonl, report.json{' and clock.json' * (took is not None)} to {out}")


def find_cautions(project: Project, task: Task, policy: Policy, suite: Suite) -> list[str]:
    """Return what a reader should know before trusting that a policy plays a suite, a sentence each."""
    from assay.checks.doctor.texts import UNKNOWN_SHARE, unknown_share  # torch, as policies have it

    found = find_suite_cautions(project, suite)
    prompts = (open_item(task, policy.dialogue, item, 0).prompt_ids for item in suite.items)
    share = unknown_share(policy, prompts)
    if share > UNKNOWN_SHARE:
        unknown = f"{share:.0%} of the prompts' tokens are unknown to this policy's tokenizer"
        found.append(f"{unknown}: it was made for other texts")
    return found


def find_suite_cautions(project: Project, suite: Suite) -> list[str]:
    """Return what a reader should know of a suite, whoever plays it."""
    found = []
    if suite.split == "heldout":
        once = "this opens the held-out suite once more"
        found.append(f"{once}: nothing that is chosen by it may be claimed on it")
    if suite.split == "tasks" and (seen := _count_trained_on(project, suite)):
        have = "has a prompt" if seen == 1 else "have prompts"
        items = counted(len(suite.items), "items")
        found.append(f"{seen} of {items} {have} of {project.params.dataset.root}/train.jsonl")
    return found


def _count_trained_on(project: Project, suite: Suite) -> int:
    try:
        trained = {item.cluster for item in project.items("train")}
    except AssayError:
        return 0  # nothing of this task was fingerprinted here, so nothing was trained on
    return sum(item.cluster in trained for item in suite.items)


def draws_of(project: Project, asked: EvaluationRequest) -> tuple[int, int]:
    """Return draws an item and k of best-of-k.

    Raises:
        ConfigError: Greedy draws would all be the same, or there are fewer draws than k.
    """
    if asked.greedy and asked.draws not in (None, 1):
        found, fix = str(asked.draws), "leave one of the two out"
        raise ConfigError("one draw with --greedy", found=found, where="--draws", fix=fix)
    draws = 1 if asked.greedy else asked.draws or project.params.evaluation.draws
    k = asked.best_of or draws
    if k > draws:
        fix = "leave --best-of out" if asked.greedy else f"--draws {k}"
        raise ConfigError(f"at most the {draws} draws of an item", found=str(k), where="--best-of", fix=fix)
    return draws, k


def decoding_of(project: Project, asked: EvaluationRequest) -> Decoding:
    """Return how tokens are chosen.

    Raises:
        ConfigError: A temperature that no sampling has, or one beside --greedy.
    """
    generation = project.params.generation
    if asked.temperature is not None and (asked.greedy or not COOLEST <= asked.temperature < float("inf")):
        expected = "no temperature beside --greedy" if asked.greedy else f"a temperature of {COOLEST} or more"
        found, fix = str(asked.temperature), "--greedy alone decodes at 0"
        raise ConfigError(expected, found=found, where="--temperature", fix=fix)
    temperature = 0.0 if asked.greedy else asked.temperature or generation.measured_at
    limit = asked.max_new_tokens or project.params.task.max_new_tokens[generation.surface]
    return Decoding(temperature, limit, generation.backend, generation.cuda_graphs, generation.drafts)


def table(evaluation: Evaluation, task: Task, took: Latency | None) -> list[str]:
    """Return the lines to print: rates in %, 95 % intervals in brackets, and what each number rests on."""
    report, best = evaluation.report, evaluation.best_of
    sampled = f"{counted(report.draws, 'draws')} at temperature {evaluation.temperature:g}"
    how = "greedy" if report.decoding == "greedy" else sampled
    rows: list[tuple[str, Interval, bool]] = []
    own = [f"{flag}_rate" for flag in task.flags] + [f"metric.{name}" for name in task.metrics]
    first = ("success_rate", "mean_reward", "parsed_rate")
    for name in (*first, *own, "truncated_rate", "mean_tokens_per_completion"):
        if name in report.measures:
            rows.append((name, report.measures[name], is_rate(name)))
        if name == "mean_reward" and best.k > 1:
            rows.append((f"best of {best.k}: success_rate", best.success_rate, True))
            rows.append((f"best of {best.k}: mean_reward", best.mean_reward, False))
    width = max(len(name) for name, _, _ in rows)
    what = f"{evaluation.policy_folder} on {evaluation.tasks_file}: {counted(report.n_items, 'items')}, {how}"
    what += f"; {counted(report.n_clusters, task.cluster_name)}"
    lines = [what, f"{'measure':{width}}  value [95 % interval], rates in %"]
    lines += [
        f"{name:{width}}  {interval_text(found, rate=rate)}  n = {found.n}" for name, found, rate in rows
    ]
    lines.append(said_of_written(evaluation.written))
    if took is None:
        return lines
    speed = "" if took.tokens_per_second is None else f", {took.tokens_per_second:.0f} tokens a second"
    return [*lines, f"measured: {took.seconds_per_episode:.4f} s an episode{speed}"]


def default_folder(root: Path, ready: Prepared, tasks: Path, name: str, question: Sequence[str]) -> Path:
    """Return a folder whose name says what was measured and is another for every other question."""
    how = "greedy" if ready.decoding.temperature == 0 else f"k{ready.suite.draws}"
    asked = digest([ready.suite.digest, ready.tasks_sha256, *question])
    return root / ".scratch/evaluate" / f"{ready.task.name}-{tasks.stem}-{name}-{how}-{asked[:8]}"


def without_tokens(report: Report) -> Report:
    """Return a report without means of tokens, which nobody counted."""
    strata = {
        label: {
            value: each.model_copy(update={"measures": _rest(each.measures)}) for value, each in found.items()
        }
        for label, found in report.strata.items()
    }
    return report.model_copy(update={"measures": _rest(report.measures), "strata": strata})


def _rest(measures: dict[str, Interval]) -> dict[str, Interval]:
    return {name: value for name, value in measures.items() if name not in TOKENS}
