"""Look at what a run has shown, or shows while it runs, and hand it on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.naming import make_request, name_settings_of, takes
from assay.core.console import say
from assay.core.errors import ConfigError

# What `plan` fixes and `judge` takes as well.
METRIC = typer.Option(metavar="NAME", help="Score to read: any column, metric or scorer of the files.")
COLUMNS = typer.Option(
    metavar="MEANING=COLUMN,...",
    help="Which column of a table is item, score, success, draw, ...; or a YAML file of them.",
)
BOUNDS = typer.Option(metavar="LOW,HIGH", show_default="0,1", help="Least and greatest score there can be.")
EFFECT = typer.Option(
    min=0.001, max=100, metavar="POINTS", show_default="10", help="The smallest change that matters."
)
MISSING = typer.Option(
    metavar="refuse|worst|common",
    help="Results that are missing: no verdict; each the worst for who gains by it; or the items all have.",
)
LOWER = typer.Option("--lower-is-better", help="Less of the score is better.")


@dataclass(frozen=True)
class VerifyOptions:
    """Options of `assay verify`."""

    sha256: Annotated[
        str | None,
        typer.Option(
            metavar="HEX",
            help="The sha256 of the package as its maker published it, or a file that begins with it.",
        ),
    ] = None
    other_code: Annotated[
        bool,
        typer.Option(
            "--other-code",
            help="Accept a package of another version: what it drew or worded otherwise is NOT CHECKED.",
        ),
    ] = False
    regenerate: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="V4: play N batches of each file again.")
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="Draw the batches of V4 by this word; by a random one, which is printed, if not given.",
        ),
    ] = None
    retrain: Annotated[bool, typer.Option("--retrain", help="V5: train again, the control too.")] = False
    base: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of a pretrained base, which no package holds.")
    ] = None
    policy: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of a whole model that was brought, which no package holds."),
    ] = None
    allow: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Ignore this file of an unpacked folder.")
    ] = None
    task_code: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Your own copy of the task's folder: run it and grade everything again."
        ),
    ] = None
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all checks there, as JSON.")] = None
    signature: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A signature to check; needs --public-key.")
    ] = None
    public_key: Annotated[
        Path | None, typer.Option(metavar="PUB.pem", help="The public key that the signature has to fit.")
    ] = None


@takes
def verify(
    package: Annotated[
        Path, typer.Argument(metavar="PACKAGE", help="A .tar, a .tar.gz or an unpacked folder.")
    ],
    options: VerifyOptions,
) -> None:
    """Check a package: files, every number, every grade, consistency; exit code 0 if all holds and --sha256
    or --signature shows whose it is, 9 if it holds and nothing shows that, 10 if something was not
    checked.

    Example: assay verify dist/assay-package.tar --sha256 dist/assay-package.sha256
    """
    from assay.package import checking as tool

    raise typer.Exit(tool.run(package, make_request(tool.VerifyRequest, vars(options)), options.out))


def verdict(
    gate: Annotated[bool, typer.Option(help="Let the exit code follow the word: 0, 7 or 8.")] = False,
) -> None:
    """Print the verdict for these settings, and its warnings; exit code 5 for NOT EVALUABLE, 6 if there is
    none: nothing was run yet, or these are the settings of a draft. With --gate 0 for IMPROVED, 8 for
    REGRESSED, 7 for any other word.

    Example: assay verdict --gate
    """
    from assay.core.evidence_files import place_of
    from assay.pipeline.project import Project
    from assay.stages.render_evidence.at_hand import claim_at_hand
    from assay.stages.render_evidence.claim_inputs import opened_since
    from assay.verdict.evidence.claim.voids import gate_code

    project = Project.open(Path.cwd())
    read = cache(partial(project.inputs, "heldout", "validation", "secondary"))
    claim = claim_at_hand(project, read)
    say(f"{project.params.dataset.name}: {claim.verdict}: {claim.sentence}")
    if claim.first_said:
        say(claim.first_said)
    for kind, said in (
        *(("warning", each) for each in claim.warnings),
        *opened_since(project, claim, read().heldout),
    ):
        say(f"{kind}: {said}")
    say(f"report: {place_of('report.html')}")
    raise typer.Exit(gate_code(claim, strict=gate))


@dataclass(frozen=True)
class JudgeOptions:
    """Options of `assay judge`."""

    rival: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            "--rival",
            metavar="NAME=FILE",
            help="Results of a baseline without skill on the same items.",
        ),
    ] = None
    metric: Annotated[str | None, METRIC] = None
    columns: Annotated[str | None, COLUMNS] = None
    bounds: Annotated[str | None, BOUNDS] = None
    draws: Annotated[int | None, typer.Option(min=1, help="Take only the first draws of each item.")] = None
    effect: Annotated[float | None, EFFECT] = None
    lower: Annotated[bool | None, LOWER] = None
    missing: Annotated[str | None, MISSING] = None
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A plan of assay plan: judge by it, and let the exit code say what came of it.",
        ),
    ] = None
    gate: Annotated[bool, typer.Option(help="Let the exit code follow the word: 0, 7 or 8.")] = False
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what came of the plan there, as JUnit.")
    ] = None
    title: Annotated[str | None, typer.Option(help="Head of the report; the models' names if not given.")] = (
        None
    )
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")] = Path("judged")


@takes
def judge(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help="Results before: a file, or a folder of files.")
    ],
    after: Annotated[
        list[Path],
        typer.Argument(
            metavar="AFTER...",
            help="Results after, on the same items; of several each is compared with BEFORE.",
        ),
    ],
    options: JudgeOptions,
) -> None:
    """Judge two sets of results that were made elsewhere (inspect, lm-eval, verifiers, CSV, ...): verdict,
    report, package; exit code 5 for NOT EVALUABLE; with --plan 7 if what it plans is not shown, 8 for
    WORSE; with --gate 0 for BETTER, 8 for WORSE, 7 for any other word.

    Example: assay judge before.csv after.csv --metric exact_match
    """
    from assay.cli.judging import run
    from assay.verdict.judge.command import JudgeRequest

    raise typer.Exit(run(before, after, make_request(JudgeRequest, vars(options))))


@dataclass(frozen=True)
class PlanOptions:
    """Argument and options of `assay plan`."""

    pilot: Annotated[
        Path | None,
        typer.Argument(
            metavar="BEFORE",
            help="Results before: their items are planned, and their rates say what is found.",
        ),
    ] = None
    items: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|N", help="A list of the items (CSV, JSONL), or how many; BEFORE's if not given."
        ),
    ] = None
    clusters: Annotated[
        int | None,
        typer.Option(min=1, help="With --items N: how many clusters; as many as items if not given."),
    ] = None
    rate: Annotated[
        float | None, typer.Option(min=0, max=1, help="Without BEFORE: mean score, as a share of its bounds.")
    ] = None
    within: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.25,
            help="Variance of one draw within an item, with --rate; the largest if not given.",
        ),
    ] = None
    spread: Annotated[
        float,
        typer.Option(
            min=0, max=100, metavar="POINTS", help="How much true gains of clusters differ (sd), assumed."
        ),
    ] = 20.0
    draws: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Draws of each item; BEFORE's if not given.")
    ] = None
    metric: Annotated[str | None, METRIC] = None
    columns: Annotated[str | None, COLUMNS] = None
    bounds: Annotated[str | None, BOUNDS] = None
    effect: Annotated[float | None, EFFECT] = None
    lower: Annotated[bool | None, LOWER] = None
    alpha: Annotated[float, typer.Option(min=1e-6, max=0.1, help="Level of the test.")] = 0.05
    missing: Annotated[str | None, MISSING] = None
    one_sided: Annotated[
        bool, typer.Option("--one-sided", help="Better and worse are each tested at the whole level.")
    ] = False
    worst: Annotated[
        float | None,
        typer.Option(
            "--worst-cluster",
            min=1,
            max=100,
            metavar="POINTS",
            help="How much a cluster that nobody saw may lose; by the draws of a cluster if not given.",
        ),
    ] = None
    no_worse: Annotated[
        bool, typer.Option("--no-worse", help="Plan to show no loss of --effect points, in place of a gain.")
    ] = False
    rival: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            "--rival",
            metavar="NAME",
            help="A baseline without skill that will have to be beaten too.",
        ),
    ] = None
    made: Annotated[
        str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="The day; today if not given.")
    ] = None
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write.")] = Path("plan.yaml")


@takes
def plan(options: PlanOptions) -> None:
    """Plan a judgement before its results are there: items, draws, metric, level, what has to be shown, and
    which effect that finds.

    Example: assay plan before.csv --effect 5 --out plan.yaml
    """
    from assay.verdict.judge import planning as tool

    tool.run(make_request(tool.PlanRequest, vars(options)))


def health(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="LOG",
            help=(
                "health.jsonl; or a log of another trainer, or its folder (TRL, verl, prime-rl, ms-swift,"
                " OpenRLHF, charts as CSV, JSONL, what was printed); the last run if not given."
            ),
        ),
    ] = None,
    success: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of another trainer's log: the column or reward part that says what is right.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="MEANING=COLUMN,...",
            help="Which column is step, item, completion, score (the reward), ...; or a YAML file of them.",
        ),
    ] = None,
) -> None:
    """Show the alarms of a training, of any trainer; exit code 0 if all stayed green, 3 for AMBER, 4 for
    RED, 5 for NOT MEASURED.

    Example: assay runs health train.log --success accuracy
    """
    plain = success is None and columns is None
    if file is None and not plain:
        fix = "./run assay runs health LOG with the options, or without them for the last run"
        raise ConfigError("a log of another trainer", found="none", where="assay runs health", fix=fix)
    if file is None or (file.name == "health.jsonl" and plain):
        from assay.cli.tools.watch import health as tool

        raise typer.Exit(tool.run(Path.cwd(), file))
    from assay.cli.tools.watch import foreign
    from assay.rollout.tables.columns import Columns

    asked = Columns.read(columns)
    asked = asked if success is None else Columns({**asked.named, "success": success})
    raise typer.Exit(foreign.run(file, asked))


def watch(
    path: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="A project, its evidence folder, or a run of .scratch/train."),
    ] = Path(),
    once: Annotated[
        bool, typer.Option("--once", help="Print where it stands and end, as without a terminal.")
    ] = False,
) -> None:
    """Show how a training goes, again every second: step, reward, validation, alarms, time left. Ctrl-C
    leaves, with code 0.

    Example: assay runs watch --once
    """
    from assay.cli.tools.watch import command as tool

    tool.run(path, once=once)


def serve(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = 8765,
    folder: Annotated[Path, typer.Option(help="Folder to serve.")] = Path("evidence"),
) -> None:
    """Serve the evidence folder and its live page to this machine, read-only. Ctrl-C ends it, with code 0.

    Example: assay runs serve --port 8765
    """
    from assay.cli.tools.watch import serve as tool

    tool.run(folder, port)


def readme() -> None:
    """Write docs/cli.md, and the tables of README.md and docs/results.md from the last run and
    recipe.json.

    Example: assay publish readme
    """
    from assay.cli import app
    from assay.cli.reference import reference
    from assay.package.publish import readme as tool

    tool.run(Path.cwd(), reference(app))


def merge(
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to write; .scratch/merged if not given.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Another project's folder, or an unpacked package.")
    ] = None,
) -> None:
    """Write base and adapter as one plain model, if its logits and greedy tokens agree with theirs
    (package.parity).

    Example: assay publish merge --out merged
    """
    from assay.package.publish import merge as tool

    if run is not None:
        name_settings_of(run)
    tool.run(Path.cwd(), out=out, run=run)


def push(
    repo_id: Annotated[
        str, typer.Argument(metavar="REPO_ID", help="owner/name of a model repository on the hub.")
    ],
    package: Annotated[Path, typer.Option(metavar="FILE", help="Package to send.")] = Path(
        "dist/assay-package.tar"
    ),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be sent; use no network.")
    ] = False,
    private: Annotated[
        bool | None,
        typer.Option("--private/--public", help="Visibility; a new repository is private if not given."),
    ] = None,
    revision: Annotated[str, typer.Option(help="Branch to commit to; made if it is not there.")] = "main",
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove all other files of the repository.")
    ] = False,
) -> None:
    """Send a verified package to a Hugging Face repository in one commit, and look at what arrived.

    Example: assay publish push owner/name --dry-run
    """
    from assay.package.publish import push as tool

    tool.run(package, repo_id, dry_run=dry_run, private=private, revision=revision, replace=replace)


def wandb(
    package: Annotated[Path, typer.Option(metavar="FILE", help="Package to send, a .tar.")] = Path(
        "dist/assay-package.tar"
    ),
) -> None:
    """Log a verified package as an artifact of Weights & Biases; only if WANDB_PROJECT is set.

    Example: assay publish wandb
    """
    from assay.package.publish import push_wandb as tool

    tool.run(package)


def sign(
    package: Annotated[Path, typer.Argument(metavar="PACKAGE", help="A .tar or .tar.gz.")],
    key: Annotated[Path, typer.Option(metavar="KEY.pem", help="Your private elliptic-curve key.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="<package>.sig in this folder if not given.")
    ] = None,
) -> None:
    """Sign a package with a key of your own; the signature lies beside it, and verify --signature checks
    it.

    Example: assay publish sign dist/assay-package.tar --key key.pem
    """
    from assay.package.publish import sign as tool

    tool.run(package, key, out)
