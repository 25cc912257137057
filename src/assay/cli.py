"""The front door: one command a stage, in pipeline order, then the tools. Heavy imports wait until they are needed."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from pathlib import Path
from typing import Annotated

import typer

from assay.console import complain, say
from assay.errors import AssayError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
config_app = typer.Typer(no_args_is_help=True, help="Choose and check presets.")
app.add_typer(config_app, name="config")

STAGES = ("fingerprint", "base", "pre_eval", "train", "post_eval", "render_evidence", "package")


def _run_stage(name: str) -> None:
    from assay.composition import check_unless_experiment
    from assay.stages.project import Project

    root = Path.cwd()
    check_unless_experiment(root)
    importlib.import_module(f"assay.stages.{name}").run(Project.open(root))


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
def train() -> None:
    """Train an adapter with GRPO."""
    _run_stage("train")


@app.command()
def post_eval() -> None:
    """Play the held-out suite with the trained policy."""
    _run_stage("post_eval")


@app.command()
def render_evidence() -> None:
    """Write claim, tables, figures and report."""
    _run_stage("render_evidence")


@app.command()
def package() -> None:
    """Write one archive with checksums."""
    _run_stage("package")


@app.command()
def verdict() -> None:
    """Say the verdict of the last run again, and where the report is."""
    from assay.evidence.claim import Claim
    from assay.stages.project import RESULTS
    from assay.storage.json import read_record

    claim = read_record(Path(RESULTS) / "claim.json", Claim, fix="./run repro")
    say(f"{claim.verdict}: {claim.sentence}")
    say(f"report: {RESULTS}/report.html")


@app.command()
def readme() -> None:
    """Write the generated tables of README.md anew from the last run."""
    from assay.errors import RecordError
    from assay.stages.project import RESULTS
    from assay.storage.files import read_text, write_text

    text = read_text(Path("README.md"), fix="run this in the project's folder")
    for name, source in {"claim": f"{RESULTS}/summary.md", "seeds": "benchmarks/results/seeds.md"}.items():
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
def make_data(out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("data/collider")) -> None:
    """Generate the collider's suites and their SHA256SUMS; equal code gives equal bytes."""
    from assay.storage.files import sha256_bytes, write_text
    from assay.storage.json import dumps
    from assay.tasks.collider import SUITES, generate

    sums = []
    for name, size in SUITES.items():
        text = "".join(dumps(row) + "\n" for row in generate(name, size, max_turns=8, labels=("release", 1)))
        write_text(out / f"{name}.jsonl", text)
        sums.append(f"{sha256_bytes(text.encode())}  {name}.jsonl\n")
    write_text(out / "SHA256SUMS", "".join(sorted(sums, key=lambda line: line[66:])))
    say(f"wrote {len(sums)} suites to {out}")


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
        complain(f"assay: {error}")
        raise SystemExit(1) from None
    except OSError as error:
        where = error.filename or "the disk"
        complain(f"assay: {where}: expected a file system that can be read and written, found {error.strerror}.")
        complain("Fix: make room or set the permissions right, then call again; files are replaced whole or not at all")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
