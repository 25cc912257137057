"""The front door: one command a stage, in pipeline order, then the tools. Heavy imports wait until they are needed."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.console import complain, say
from assay.errors import AssayError, ConfigError, EnvironmentFailure, Interrupted, TrainingStopped
from assay.parent import end_with_parent

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
config_app = typer.Typer(no_args_is_help=True, help="Choose and check presets.")
app.add_typer(config_app, name="config")


def _run_stage(name: str, root: Path | None = None, **options: Any) -> None:
    from assay.composition import check_unless_experiment
    from assay.stages.project import Project

    end_with_parent()
    if root is None:
        root = Path.cwd()
        check_unless_experiment(root)
    elif not (root / "params.yaml").is_file():
        fix = "name the folder of a project that was run"
        raise ConfigError("the folder of a finished run", found="no params.yaml in it", where=f"--run {root}", fix=fix)
    project = Project.open(root)
    if name in ("train", "control"):
        _become_several(name, project.params, **options)
    importlib.import_module(f"assay.stages.{name}").run(project, **options)


def _become_several(stage: str, params: Any, resume_from: Path | None = None) -> None:
    """Start all processes of a training where there are several, before one imports what each of them will."""
    from assay.training.launching import launch, must_launch

    if must_launch(params.distributed) and (stage == "train" or "random_reward" in params.claim.controls):
        launch(params.distributed, [stage, *([] if resume_from is None else ["--resume-from", str(resume_from)])])


@app.command()
def fingerprint() -> None:
    """Verify, fingerprint and audit the data; fix the claim."""
    _run_stage("fingerprint")


@app.command()
def base() -> None:
    """Pin the base policy: build the tiny one, or resolve a pretrained model."""
    _run_stage("base")


@app.command()
def pre_eval() -> None:
    """Play the held-out suite with the base policy."""
    _run_stage("pre_eval")


@app.command()
def train(
    resume_from: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A checkpoint or run folder; the newest of this run if not given.")
    ] = None,
) -> None:
    """Train an adapter with GRPO, or go on where an interrupted training stopped."""
    _run_stage("train", resume_from=resume_from)


@app.command()
def control() -> None:
    """Train for random rewards and play the held-out suite with that policy, where claim.controls asks for it."""
    _run_stage("control")


@app.command()
def post_eval() -> None:
    """Play the held-out suite with the trained policy."""
    _run_stage("post_eval")


@app.command()
def render_evidence() -> None:
    """Write claim, tables, figures and report."""
    _run_stage("render_evidence")


@app.command()
def package(
    folder: Annotated[
        Path | None, typer.Option("--run", metavar="DIR", help="Folder of another finished run; its package goes to DIR/dist.")
    ] = None,
) -> None:
    """Write one archive that anyone can verify, after a search for secrets."""
    _run_stage("package", folder)


@app.command()
def verify(
    package: Annotated[Path, typer.Argument(metavar="PACKAGE", help="A .tar, a .tar.gz or an unpacked folder.")],
    sha256: Annotated[str | None, typer.Option(metavar="HEX", help="Of the tar, as it was published.")] = None,
    other_code: Annotated[
        bool, typer.Option("--other-code", help="Accept that another version made it; agreement to 9 digits will do.")
    ] = False,
    regenerate: Annotated[int | None, typer.Option(min=1, metavar="N", help="V4: play N batches of each file again.")] = None,
    key: Annotated[str | None, typer.Option(metavar="WORD", help="What they are drawn by; a word of your own.")] = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="V5: do the training again.")] = False,
    base: Annotated[Path | None, typer.Option(metavar="DIR", help="A pretrained base, which is in no package.")] = None,
    allow: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Leave this out of an unpacked folder.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all checks there, as JSON.")] = None,
    signature: Annotated[Path | None, typer.Option(metavar="FILE", help="Of assay sign; needs --public-key.")] = None,
    public_key: Annotated[Path | None, typer.Option(metavar="PUB.pem", help="Whose the signature has to be.")] = None,
) -> None:
    """Check a package from itself alone: files, every number, every grade, consistency; exit code 0 if nothing failed."""
    from assay.tools import verify as tool

    asked = tool.Asked(
        sha256=sha256, other_code=other_code, regenerate=regenerate, key=key, retrain=retrain, base=base, allow=allow or (),
        signature=signature, public_key=public_key,
    )  # fmt: skip
    raise typer.Exit(tool.run(package, asked, out))


@app.command()
def verdict() -> None:
    """Say the last verdict again, its warnings, its task, and where the report is; exit code 5 for NOT EVALUABLE."""
    from assay.dataset.fingerprint import Fingerprint
    from assay.evidence.claim import Claim
    from assay.stages.claim_inputs import opened_said
    from assay.stages.project import RESULTS, Project
    from assay.storage.json import read_record

    project = Project.open(Path.cwd())
    claim = read_record(Path(RESULTS) / "claim.json", Claim, fix="./run repro")
    task = read_record(Path(RESULTS) / "fingerprint.json", Fingerprint, fix="./run repro").task
    asked = project.params.task.name
    if asked != task:
        complain(f"params.yaml asks for task {asked}; the last run was of {task}. Fix: ./run repro")
    say(f"{task}: {claim.verdict}: {claim.sentence}")
    for warning in (*claim.warnings, *filter(None, [opened_said(project, claim)])):
        say(f"warning: {warning}")
    say(f"report: {RESULTS}/report.html")
    if claim.verdict == "NOT EVALUABLE":
        raise typer.Exit(5)


@app.command()
def health(
    file: Annotated[Path | None, typer.Argument(metavar="health.jsonl", help="That of the last run if not given.")] = None,
) -> None:
    """Show the alarms of a training; exit code 0 if all stayed green, 3 for AMBER, 4 for RED."""
    from assay.tools import health as tool

    raise typer.Exit(tool.run(Path.cwd(), file))


@app.command()
def watch(
    path: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A project, its evidence folder, or a run of .scratch/train.")
    ] = Path(),
    once: Annotated[bool, typer.Option("--once", help="Print where it stands and end, as without a terminal.")] = False,
) -> None:
    """Show how a training goes, again every second: step, reward, validation, alarms, time left. Ctrl-C leaves, with code 0."""
    from assay.tools import watch as tool

    tool.run(path, once=once)


@app.command()
def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8765,
    folder: Annotated[Path, typer.Option(help="What to serve.")] = Path("evidence"),
) -> None:
    """Serve the evidence folder and its live page to this machine, read-only. Ctrl-C ends it, with code 0."""
    from assay.tools import serve as tool

    tool.run(folder, port)


@app.command()
def merge(
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="In .scratch/merged if not given.")] = None,
    run: Annotated[Path | None, typer.Option(metavar="DIR", help="Another project's folder, or an unpacked package.")] = None,
) -> None:
    """Write base and adapter as one plain model, if it says what they say: logits and greedy tokens within package.parity."""
    from assay.tools import merge as tool

    tool.run(Path.cwd(), out=out, run=run)


@app.command()
def push(
    repo_id: Annotated[str, typer.Argument(metavar="REPO_ID", help="owner/name of a model repository on the hub.")],
    package: Annotated[Path, typer.Option(metavar="FILE", help="The archive.")] = Path("dist/assay-package.tar"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be sent; ask no network.")] = False,
    private: Annotated[bool | None, typer.Option("--private/--public", help="If not given, a new one is private.")] = None,
    revision: Annotated[str, typer.Option(help="Branch to commit to; made if it is not there.")] = "main",
    replace: Annotated[bool, typer.Option("--replace", help="Remove what else lies in the repository.")] = False,
) -> None:
    """Send a verified package to a Hugging Face repository in one commit, and look at what arrived."""
    from assay.tools import push as tool

    tool.run(package, repo_id, dry_run=dry_run, private=private, revision=revision, replace=replace)


@app.command()
def push_wandb(
    package: Annotated[Path, typer.Option(metavar="FILE", help="The .tar.")] = Path("dist/assay-package.tar"),
) -> None:
    """Log a verified package as an artifact of Weights & Biases; only if WANDB_PROJECT is set."""
    from assay.tools import push_wandb as tool

    tool.run(package)


@app.command()
def sign(
    package: Annotated[Path, typer.Argument(metavar="PACKAGE", help="A .tar or .tar.gz.")],
    key: Annotated[Path, typer.Option(metavar="KEY.pem", help="Private elliptic-curve key.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="<package>.sig in this folder if not given.")] = None,
) -> None:
    """Sign a package with a key of your own; the signature lies beside it, and verify --signature checks it."""
    from assay.tools import sign as tool

    tool.run(package, key, out)


@app.command()
def doctor() -> None:
    """Look, before a training, for what would make it useless or break it hours later; exit code 1 for a fault."""
    from assay.tools import doctor as tool

    raise typer.Exit(tool.run(Path.cwd()))


@app.command()
def diff_runs(
    a: Annotated[Path, typer.Argument(metavar="A", help="train_log.jsonl, or a folder that has one.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
) -> None:
    """Name the first step, and the first link in it, at which two trainings part; exit code 1 if they do."""
    from assay.tools import diff_runs as tool

    raise typer.Exit(tool.run(a, b))


@app.command()
def compare(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Folders, DVC experiments, git revisions; if none, all experiments of this commit and the workspace.",
        ),
    ] = None,
    one_sided: Annotated[
        bool, typer.Option("--one-sided", help="Ask only whether it improves: 5 seeds are enough; two-sided needs 6.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write record, table, text and figures there.")] = None,
) -> None:
    """Say whether a recipe improves, from trainings with several seeds; and which of several recipes is better."""
    from assay.tools import compare as tool

    tool.run(Path.cwd(), runs or [], one_sided=one_sided, out=out)


@app.command()
def summarize(
    logs: Annotated[
        list[Path],
        typer.Argument(metavar="LOG...", help="Train logs, files of episodes, any mix; health.jsonl beside one is read too."),
    ],
    form: Annotated[
        str | None, typer.Option("--format", metavar="table|csv|markdown", help="By the name of --out if not given.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write there instead: .csv or .md.")] = None,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave damaged lines out and count them, instead of refusing the file.")
    ] = False,
) -> None:
    """Show logs in short: means with intervals, percentiles of timings, rates, endings, alarms."""
    from assay.tools import summarize as tool

    tool.run(logs, form=tool.format_of(form), out=out, skip_damaged=skip_damaged)


@app.command()
def readme() -> None:
    """Write the generated tables of README.md anew from the last run."""
    from assay.errors import RecordError
    from assay.stages.project import RESULTS
    from assay.storage.files import read_text, write_text

    text = read_text(Path("README.md"), fix="run this in the project's folder")
    blocks = {"claim": f"{RESULTS}/summary.md"}
    blocks |= {f"{task} seeds": f"benchmarks/results/seeds_{task}.md" for task in ("collider", "structured")}
    for name, source in blocks.items():
        start, end = f"<!-- {name}: generated, do not edit -->\n", f"<!-- end of {name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise RecordError(f"one pair of marks {start.strip()} … {end}", found="none", where="README.md", fix="restore it")
        head, rest = text.split(start)
        text = (
            head
            + start
            + read_text(Path(source), fix="./run repro, ./run python benchmarks/seeds.py")
            + end
            + rest.split(end, 1)[1]
        )
    write_text(Path("README.md"), text)
    say("README.md shows the last run")


@app.command()
def make_data(
    task: Annotated[str, typer.Option(help="collider or structured.")] = "collider",
    out: Annotated[Path | None, typer.Option(help="Folder to write; data/<task> if not given.")] = None,
) -> None:
    """Generate a task's shipped data and their SHA256SUMS; equal code gives equal bytes."""
    from assay.dataset.checksums import SUMS, sums_text
    from assay.storage.files import sha256_bytes, write_text
    from assay.tasks.catalogue import shipped_data

    files = shipped_data(task)
    folder = Path("data") / task if out is None else out
    for name, text in files.items():
        write_text(folder / name, text)
    write_text(folder / SUMS, sums_text({name: sha256_bytes(text.encode()) for name, text in files.items()}))
    say(f"wrote {len(files)} files to {folder}")


@app.command()
def audit(
    tasks: Annotated[Path, typer.Argument(metavar="TASKS.jsonl", help="One JSON object a line.")],
    task: Annotated[str, typer.Option(help="Preset of configs/task/ that says how to read it.")] = "structured",
    out: Annotated[Path, typer.Option(help="Folder for audit.json.")] = Path(),
    fix_splits: Annotated[bool, typer.Option("--fix-splits", help="Write splits by prompt group, and a preset.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder for the splits; data/<name of the file> if not given.")] = None,
    fractions: Annotated[str, typer.Option(help="Shares of train, validation and heldout.")] = "0.8,0.1,0.1",
    seed: Annotated[int, typer.Option(help="Another seed, another split.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite data in the folder for the splits.")] = False,
) -> None:
    """Say what is odd about a tasks file of your own; with --fix-splits make a dataset of it."""
    from assay.tools import audit as tool
    from assay.tools import splits

    root = Path.cwd()
    project = tool.project_for(root, task)
    plan = splits.plan(project, tasks, data, fractions, seed, force=force) if fix_splits else None
    audited = tool.run(project, tasks, out)
    if plan is not None:
        splits.write(project, task, audited, plan)


@app.command()
def evaluate(
    tasks: Annotated[Path, typer.Option(metavar="FILE", help="One record a line.")],
    policy: Annotated[Path, typer.Option(metavar="FOLDER", help="A model folder, models/base, or an adapter folder.")],
    draws: Annotated[int | None, typer.Option(min=1, help="Episodes an item.")] = None,
    best_of: Annotated[int | None, typer.Option(min=1, help="Also the best of so many draws; all if not given.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="One draw at temperature 0.")] = False,
    task: Annotated[str | None, typer.Option(help="Preset of configs/task/; that of params.yaml if not given.")] = None,
    items: Annotated[int | None, typer.Option(min=1, help="So many, strata in proportion; all if not given.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of sampling and worlds.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Above 0.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens a completion.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Episodes held at once; changes no result.")] = None,
    surface: Annotated[str | None, typer.Option(help="compact for a from-scratch policy, json for others.")] = None,
    blocklist: Annotated[Path | None, typer.Option(help="One term a line; instead of the task's own.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="In .scratch/evaluate/ if not given.")] = None,
) -> None:
    """Measure any policy on any tasks file, as the stages do; what is not given is as in the settings."""
    from assay.tools import evaluate as tool

    tool.run(
        Path.cwd(),
        tool.Asked(
            tasks=tasks, policy=policy, task=task, draws=draws, best_of=best_of, greedy=greedy, items=items, seed=seed,
            temperature=temperature, max_new_tokens=max_new_tokens, batch_size=batch_size, surface=surface,
            blocklist=blocklist, out=out,
        ),
    )  # fmt: skip


@app.command()
def sweep(
    path: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run of .scratch/train, a project, or a folder of adapters checkpoint-N.")
    ],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="In .scratch/sweep/ if not given.")] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="On the held-out suite: logged as an opening, and never a claim.")
    ] = False,
    draws: Annotated[int | None, typer.Option(min=1, help="Episodes an item; as in the settings if not given.")] = None,
    items: Annotated[int | None, typer.Option(min=1, help="So many of the suite's file, strata in proportion.")] = None,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Go on without damaged checkpoints, and say in the table which.")
    ] = False,
) -> None:
    """Measure every checkpoint of a run on the validation suite, each beside step 0: a table and a figure."""
    from assay.tools import sweep as tool
    from assay.tools.sweep_settings import Asked

    tool.run(
        Path.cwd(),
        Asked(path=path, out=out, heldout=held_out, draws=draws, items=items, skip_damaged=skip_damaged),
    )


@config_app.command("use")
def config_use(settings: Annotated[list[str] | None, typer.Argument(help="grpo=… task=… seed=…")] = None) -> None:
    """Select presets and write params.yaml from configs/."""
    from assay.composition import use
    from assay.errors import ConfigError

    chosen: dict[str, str] = {}
    for setting in settings or []:
        name, _, value = setting.partition("=")
        if name not in ("grpo", "task", "seed") or not value:
            raise ConfigError("grpo=…, task=… or seed=…", found=repr(setting), where="assay config use", fix="see --help")
        chosen[name] = value
    seed = chosen.get("seed")
    if seed is not None and not seed.isdecimal():
        raise ConfigError("a whole number", found=repr(seed), where="assay config use, seed", fix="seed=0")
    lines = use(Path.cwd(), grpo=chosen.get("grpo"), task=chosen.get("task"), seed=None if seed is None else int(seed))
    for line in lines or ["nothing changed: params.yaml already is what configs/ compose to"]:
        say(line)


@config_app.command("check")
def config_check() -> None:
    """Fail if params.yaml is not what configs/ compose to."""
    from assay.composition import check

    check(Path.cwd())
    say("params.yaml is what configs/ compose to")


def main() -> None:
    """Run the command line; our own errors become one message and exit code 1."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.getLogger("bitsandbytes").setLevel(logging.CRITICAL)  # it warns of a 4-bit CPU kernel that nobody asked for
    # transformers renames gradient_checkpointing while peft and TRL still ask for the old name.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    try:
        app()
    except AssayError as error:
        # What all processes of a training raise, one of them says.
        if os.environ.get("RANK", "0") == "0" or not isinstance(error, Interrupted | TrainingStopped):
            complain(f"assay: {error}")
        raise SystemExit(error.exit_code) from None
    except EnvironmentFailure as error:
        complain(f"assay: the environment failed: {type(error).__name__}: {error}")
        complain("Fix: see to the environment and call again; what is finished is kept")
        raise SystemExit(1) from None
    except OSError as error:
        where = error.filename or "the disk"
        complain(f"assay: {where}: expected a file system that can be read and written, found {error.strerror}.")
        complain("Fix: make room or set the permissions right, then call again; files are replaced whole or not at all")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
