"""What is damaged, and which commands are called on it: each target prepares a copy of the project and gives
a command line."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import typer

from assay.cli import app
from assay.core.evidence_files import place_of
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import digest, dumps
from assay.stages.packing.archive import sealed, write_tar
from assay.stages.packing.layout import NAME
from tests.fuzz.mutations import VALUES, YAML, displaced_folder, other_bytes, other_file, rewrite
from tests.fuzz.project import TAR
from tests.own_data import write_sums

Prepared = list[str]
EXPERIMENT = "DVC_EXP_BASELINE_REV"  # under which a stage takes params.yaml as it stands
PUSHED = ["publish", "push", "owner/name", "--dry-run"]
STRUCTURED = "data/structured"


def params(rng: Random, root: Path) -> Prepared:
    """Damage params.yaml."""
    _variant(rng, root)
    other_file(rng, root / "params.yaml")
    if rng.random() < 0.6:
        os.environ[EXPERIMENT] = "1"
    return rng.choice(
        [
            ["config", "check"],
            ["config", "use", "grpo=fuzz"],
            ["doctor"],
            ["verdict"],
            ["fingerprint"],
            ["render-evidence"],
            ["evaluate", *_played(root), "--items", "1", "--draws", "1"],
            ["base"],
            ["runs", "sweep", "."],
            ["runs", "compare", "."],
            ["doctor", "--device-memory", "24"],
            ["train"],
            ["runs", "watch", "--once"],
        ]
    )


def presets(rng: Random, root: Path) -> Prepared:
    """Damage a file of configs/."""
    _variant(rng, root)
    name = rng.choice(["config", "grpo/fuzz", "grpo/fuzz", "task/collider", "task/structured"])
    other_file(rng, root / f"configs/{name}.yaml")
    return rng.choice(
        [
            ["config", "check"],
            ["config", "use", "grpo=fuzz"],
            ["config", "use", "task=structured"],
            ["config", "use", "seed=1"],
            ["task", "audit", f"{STRUCTURED}/train.jsonl", "--task", "structured"],
            ["doctor"],
            ["fingerprint"],
            ["evaluate", *_played(root), "--items", "1", "--task", "collider"],
        ]
    )


def lock(rng: Random, root: Path) -> Prepared:
    """Damage dvc.lock or dvc.yaml."""
    other_file(rng, root / rng.choice(["dvc.lock", "dvc.lock", "dvc.yaml"]))
    return rng.choice(
        [
            ["runs", "compare", "."],
            ["runs", "compare", "workspace"],
            ["train"],
            ["seeds", "0..1"],
            ["runs", "sweep", ".", "--items", "1"],
            ["post-eval"],
            ["runs", "watch", "--once"],
            ["package"],
        ]
    )


def data(rng: Random, root: Path) -> Prepared:
    """Damage records, schemas or checksums; mostly the checksums are made anew."""
    task = rng.choice(["collider", "structured", "structured"])
    folder = root / "data" / task
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
    damaged = rng.choice(files)
    other_file(rng, damaged)
    if rng.random() < 0.8:
        _sums(folder)
    if task == "structured":
        shutil.copy(root / "fuzz-structured.yaml", root / "params.yaml")
    os.environ[EXPERIMENT] = "1"
    split = f"data/{task}/{rng.choice(['train', 'validation', 'heldout'])}.jsonl"
    if damaged.suffix == ".jsonl":
        split = str(damaged.relative_to(root))
    return rng.choice(
        [
            ["fingerprint"],
            ["fingerprint"],
            ["task", "audit", split, "--task", task],
            ["doctor"],
            ["task", "audit", split, "--task", task, "--fix-splits", "--data", "data/mine"],
            ["render-evidence"],
            [
                "evaluate",
                "--tasks",
                split,
                "--policy",
                "models/base",
                "--items",
                "1",
                "--draws",
                "1",
                "--task",
                task,
            ],
        ]
    )


def evidence(rng: Random, root: Path) -> Prepared:
    """Damage a file of evidence/."""
    files = sorted(
        path
        for path in (root / "evidence").rglob("*")
        if path.is_file() and path.suffix in (".json", ".jsonl", ".csv")
    )
    damaged = rng.choice(files)
    name = damaged.relative_to(root).as_posix()
    other_file(rng, damaged)
    # Figures take seconds to draw, so few of the trials that would draw them are made.
    return rng.choice(
        [
            *[["verdict"], ["runs", "health"], ["runs", "watch", "--once"], ["publish", "readme"]] * 2,
            *[["runs", "compare", "."], ["runs", "diff", name, name], ["runs", "health", name]] * 2,
            ["render-evidence"],
            ["render-evidence"],
            ["doctor"],
            ["runs", "sweep", "."],
            ["post-eval"],
            ["train"],
            ["package"],
            ["pre-eval"],
        ]
    )


def bases(rng: Random, root: Path) -> Prepared:
    """Damage a file of a base: what describes it, its tokenizer, its template, its weights."""
    own = rng.random() < 0.4
    folder = root / ("own-base" if own else "models/base")
    names = sorted(path.name for path in folder.iterdir())
    for _ in range(rng.choice([1, 1, 1, 2])):
        path = folder / rng.choice([*names, "config.json", "tokenizer_config.json", "generation_config.json"])
        if path.is_file():
            other_file(rng, path)
    if rng.random() < 0.03:
        displaced_folder(rng, folder)
    os.environ[EXPERIMENT] = "1"
    if own:
        shutil.copy(root / "fuzz_pretrained-collider.yaml", root / "params.yaml")
        return rng.choice([["base"], ["base"], ["doctor"], ["doctor", "--device-memory", "24"]])
    return rng.choice(
        [
            ["evaluate", *_played(root), "--items", "1", "--draws", "1"],
            ["evaluate", *_played(root), "--items", "1", "--greedy"],
            ["doctor"],
            ["publish", "merge"],
            ["pre-eval"],
            ["runs", "sweep", ".", "--items", "1"],
        ]
    )


def adapters(rng: Random, root: Path) -> Prepared:
    """Damage a file of an adapter."""
    folder = root / "models/adapter"
    shutil.copytree(folder, root / "adapters/checkpoint-3")
    if rng.random() < 0.5:
        folder = root / "adapters/checkpoint-3"
    other_file(rng, rng.choice(sorted(folder.iterdir())))
    playing = [
        "evaluate",
        "--tasks",
        "data/collider/heldout.jsonl",
        "--items",
        "1",
        "--draws",
        "1",
        "--policy",
    ]
    if folder.name == "adapter":
        return rng.choice([[*playing, "models/adapter"], ["post-eval"], ["publish", "merge"], ["package"]])
    return rng.choice(
        [[*playing, "adapters/checkpoint-3"], ["runs", "sweep", "adapters", "--items", "1", "--draws", "1"]]
    )


def checkpoints(rng: Random, root: Path) -> Prepared:
    """Damage a file of a checkpoint or of its run; mostly its manifest is made anew, as one does who can
    write the folder."""
    run = next(path.parent for path in (root / ".scratch/train").glob("*/key.json"))
    (root / "dvc.lock").unlink()
    (run / "done.json").unlink()
    steps = sorted(run.glob("step-*"))
    folder = rng.choice(steps[1:])
    for later in steps[steps.index(folder) + 1 :]:
        shutil.rmtree(later)
    if rng.random() < 0.15:
        other_file(
            rng,
            rng.choice([run / "key.json", run / "run_log.jsonl", *sorted((run / "validations").iterdir())]),
        )
    else:
        damaged = rng.choice(sorted(folder.iterdir()))
        other_file(rng, damaged)
        if damaged.name != "MANIFEST.json" and rng.random() < 0.85:
            sign_again(folder)
    where = run.relative_to(root).as_posix()
    return rng.choice(
        [
            ["train"],
            ["train"],
            ["train", "--resume-from", f"{where}/{folder.name}"],
            ["train", "--resume-from", where],
            ["runs", "sweep", where, "--items", "1", "--draws", "1"],
            ["runs", "watch", where, "--once"],
        ]
    )


def packages(rng: Random, root: Path) -> Prepared:
    """Damage a package: its bytes, or a member with all lists made anew."""
    tar = root / TAR
    if rng.random() < 0.3:
        rewrite(tar, other_bytes(rng, tar.read_bytes()))
        return rng.choice([["verify", TAR], PUSHED, ["verify", TAR, "--sha256", "0" * 64]])
    with tarfile.open(tar) as archive:
        archive.extractall(root / "dist")
    folder = root / "dist" / NAME
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_relative_to(folder / "src")]
    # The base and the data are seen by targets of their own: settings and evidence come first here.
    first = [path for path in files if path.suffix in (".json", ".jsonl", ".csv", ".yaml", ".lock")]
    other_file(rng, rng.choice(sorted(first if rng.random() < 0.8 else files)))
    if rng.random() < 0.75:
        members = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK)
        }
        members = {name: content for name, content in members.items() if name != "SHA256SUMS"}
        whole = sealed(members)
        shutil.rmtree(folder)
        tar.unlink()
        write_tar(tar, whole, root=NAME)
        looked = [["verify", TAR], ["verify", TAR], ["verify", TAR, "--other-code"], PUSHED]
        return rng.choice(looked)
    return ["verify", f"dist/{NAME}"]


def arguments(rng: Random, root: Path) -> Prepared:
    """Call any command with any options."""
    _variant(rng, root)
    words, command = _some_command(rng)
    for parameter in command.params:
        if parameter.name == "help" or rng.random() < 0.35:
            continue
        told = _told(rng, parameter)
        if parameter.param_type_name == "option":
            flag = rng.choice([*parameter.opts, *parameter.secondary_opts])
            words += [flag] if getattr(parameter, "is_flag", False) else [flag, told]
        else:
            words += [told] * rng.choice([1, 1, 1, 2])
    if rng.random() < 0.1:
        words += [rng.choice(["--help", "--nothing", "-", "--", "extra", ""])]
    if words[:2] == ["runs", "serve"]:  # which serves until it is told to stop
        words += ["--folder", "nowhere"]
    if words[:2] == ["publish", "push"]:
        words += ["--dry-run"]
    if words[:2] == ["runs", "watch"]:
        words += ["--once"]
    return words


def _some_command(rng: Random) -> tuple[list[str], Any]:
    group: Any = typer.main.get_command(app)
    name = rng.choice(sorted(group.commands))
    command = group.commands[name]
    if hasattr(command, "commands"):
        below = rng.choice(sorted(command.commands))
        return [name, below], command.commands[below]
    return [name], command


PLACES = (
    ".",
    "models/base",
    "models/adapter",
    "data/collider/train.jsonl",
    "data/structured/train.jsonl",
    TAR,
    "evidence",
    place_of("train_log.jsonl"),
    place_of("health.jsonl"),
    place_of("post_eval.jsonl"),
    "nowhere",
    "",
    "params.yaml",
    "/",
    "..",
    "/dev/null",
    "a\nb",
    "\udcff",
    "x" * 300,
    "~",
    "own-base",
    ".scratch",
    "configs",
    "é",
    "out.csv",
    "out",
    "data",
    "dist",
)
WORDS = (
    "0",
    "1",
    "-1",
    "1.5",
    "nan",
    "inf",
    "-inf",
    "1e309",
    "1e-400",
    "10000000000000000000000",
    "",
    " ",
    "0..1",
    "0..",
    "1..0",
    "a,b",
    "0,0",
    "0.8,0.1,0.1",
    "1,1,1",
    "nan,0,1",
    "inf,0,0",
    "0.5,0.5",
    "collider",
    "structured",
    "nothing",
    "table",
    "csv",
    "markdown",
    "compact",
    "json",
    "grpo=fuzz",
    "seed=1",
    "seed=-1",
    "seed=" + "9" * 5000,
    "seed=٣",
    "seed=²",
    "grpo=",
    "task=structured",
    "owner/name",
    "/",
    "٣",
    "²",
    "0x10",
    "1_000",
    "HEAD",
    "workspace",
    "../x",
    "a/b/c",
    "main",
)


def _told(rng: Random, parameter: Any) -> str:
    kind = str(parameter.type_descriptor).split("parameter_info")[0].lower()
    if (
        "path" in kind
        or "file" in kind
        or (parameter.name in ("runs", "logs", "a", "b") and rng.random() < 0.8)
    ):
        # Who says so may write anywhere; a trial says so only below its copy.
        writes = parameter.name in ("out", "data", "folder")
        places = [place for place in PLACES if not writes or place not in ("/", "..")]
        return (
            rng.choice(places)
            if rng.random() < 0.9
            else rng.choice([word for word in WORDS if word not in ("/", "../x")])
        )
    if ("int" in kind or "float" in kind) and rng.random() < 0.5:
        return rng.choice(["1", "2", "3"])
    return (
        rng.choice(WORDS)
        if rng.random() < 0.9
        else str(rng.choice([*VALUES, *YAML]))[:2000].replace("\x00", "")
    )


def sign_again(folder: Path) -> None:
    """Write the manifest of a checkpoint anew over the files it has now, so that every byte verifies."""
    told: dict[str, Any] = json.loads((folder / "MANIFEST.json").read_bytes())
    body = {name: value for name, value in told.items() if name != "sha256"}
    body["files"] = {
        path.name: {"sha256": sha256_bytes(path.read_bytes()), "bytes": path.stat().st_size}
        for path in sorted(folder.iterdir())
        if path.name != "MANIFEST.json"
        and path.is_file()
        and not path.is_symlink()
        and os.access(path, os.R_OK)
    }
    rewrite(folder / "MANIFEST.json", dumps(body | {"sha256": digest(body)}).encode())


def _sums(folder: Path) -> None:
    readable = [
        path for path in folder.rglob("*") if path.is_symlink() or (path.exists() and not path.is_dir())
    ]
    if all(path.is_file() and not path.is_symlink() and os.access(path, os.R_OK) for path in readable):
        write_sums(folder)


def _played(root: Path) -> list[str]:
    return ["--tasks", "data/collider/heldout.jsonl", "--policy", "models/base"]


def _variant(rng: Random, root: Path) -> None:
    chosen = rng.choice([None, None, "fuzz-structured.yaml", "fuzz_pretrained-collider.yaml"])
    if chosen is not None:
        shutil.copy(root / chosen, root / "params.yaml")


TARGETS: dict[str, tuple[int, Callable[[Random, Path], Sequence[str]]]] = {
    "params": (18, params),
    "presets": (14, presets),
    "lock": (5, lock),
    "data": (17, data),
    "evidence": (15, evidence),
    "bases": (12, bases),
    "adapters": (4, adapters),
    "checkpoints": (5, checkpoints),
    "packages": (3, packages),
    "arguments": (7, arguments),
}
