"""What V0 to V3 cannot find, tried on purpose: forgeries that are consistent, and numbers that only a model
can give.

Everything that follows from what is forged is computed anew, every list of digests is made anew. Each says
what would find it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.resealing import pretty, rederived, relocked, resealed, tar_of, write
from benchmarks.tamperings import Files, episode_in, path, put_rows, rows_of

from assay.core.storage.json import dumps
from assay.evaluation.replay import play_baseline
from assay.pipeline.inputs import heldout_suite, task_of
from assay.pipeline.project import Project
from assay.training.log.step_chain import START, chain_of

PLAY, TRAIN, NOTHING = ("V4 (--regenerate)", "V5 (--retrain)", "only the published sha256 of the package")
Attempt = Callable[[Files, Path], Files]


def record(name: str, change: Callable[[Any], None]) -> Attempt:
    """Change a record of the results and compute anew what readers see."""

    def attempt(files: Files, folder: Path) -> Files:
        value = json.loads(files[path(name)])
        change(value)
        return rederived(files | {path(name): pretty(value)}, folder)

    return attempt


def forged_completions(files: Files, folder: Path) -> Files:
    """Put the scripted ceiling's play in the place of a fifth of what the trained policy wrote; all of it
    graded honestly."""
    write(files, folder)
    project = Project.open(folder)
    task, suite, name = task_of(project), heldout_suite(project), path("post_eval.jsonl")
    rows = rows_of(files, name)
    for number, play in enumerate(suite.plays()):
        if number % 5 == 0:
            (episode,) = play_baseline(task, task.baselines()[task.ceiling], [play], task.ceiling)
            better = episode.model_dump(mode="json")
            first = rows[number]["turns"][0]
            for turn in better["turns"]:
                turn |= {"n_tokens": first["n_tokens"], "prompt_digest": first["prompt_digest"]}
            rows[number] = better | {name: rows[number][name] for name in ("prompt_chars_cut", "policy")}
    forged = dict(files)
    put_rows(forged, name, rows)
    return rederived(forged, folder)


def made_up_log(files: Files, folder: Path) -> Files:
    """Tell another story of the training: every loss halved, the chain and its end made anew."""
    rows, chain = rows_of(files, path("train_log.jsonl")), START
    for row in rows:
        row["loss"] = row["loss"] and row["loss"] / 2
        chain = row["chain"] = chain_of(chain, row)
    facts = json.loads(files[path("train.json")]) | {"chain": chain}
    log = "".join(f"{dumps(row)}\n" for row in rows).encode()
    return rederived(files | {path("train_log.jsonl"): log, path("train.json"): pretty(facts)}, folder)


def other_settings(files: Files, folder: Path) -> Files:
    """Say that another gradient norm was allowed than the training had."""
    text = files["params.yaml"].decode()
    assert "max_grad_norm: 1.0" in text
    return files | {"params.yaml": text.replace("max_grad_norm: 1.0", "max_grad_norm: 0.5").encode()}


def later_prompt(files: Files, folder: Path) -> Files:
    """Change the digest of what a later turn was written after, which takes the tokenizer to compute."""
    name = path("post_eval.jsonl")
    rows = rows_of(files, name)
    long = [row for row in rows if len(row["turns"]) > 1] or rows
    turn = episode_in(long[0])["turns"][-1]
    turn["prompt_digest"] = f"{Random(0).getrandbits(64):016x}"
    changed = dict(files)
    put_rows(changed, name, rows)
    return changed


def other_concerned(files: Files, folder: Path) -> Files:
    """Name another train item in an alarm, where that follows from episodes that are not kept."""
    rows = rows_of(files, path("health.jsonl"))
    known = rows_of(files, path("train_log.jsonl"))[0]["item_ids"]
    row = next((row for row in rows if row["item_ids"]), None)
    if row is None:
        return files
    row["item_ids"][0] = next(each for each in known if each not in row["item_ids"])
    changed = dict(files)
    put_rows(changed, path("health.jsonl"), rows)
    return rederived(changed, folder)


def datasheet(files: Files, folder: Path) -> Files:
    """Say something else of the data in words."""
    name = next(name for name in files if name.startswith("data/") and name.endswith("README.md"))
    return files | {name: files[name] + b"\nEverybody likes these data.\n"}


def tried_again(files: Files, folder: Path) -> Files:
    """Say that calls to the environment had to be made again, which is no part of the chain."""
    rows = rows_of(files, path("train_log.jsonl"))
    rows[0]["retries"] += 1
    return files | {path("train_log.jsonl"): "".join(f"{dumps(row)}\n" for row in rows).encode()}


def parity(files: Files, folder: Path) -> Files:
    """Say that the merged model is closer than was measured."""
    value = json.loads(files["parity.json"])
    value["logit_difference_at_most"] /= 10
    return files | {"parity.json": f"{dumps(value)}\n".encode()}


ATTEMPTS: dict[str, tuple[Attempt, str]] = {
    "completions forged and graded honestly": (forged_completions, PLAY),
    "a training log made up": (made_up_log, TRAIN),
    "a setting that only the training shows": (other_settings, TRAIN),
    "the digest of a later prompt": (later_prompt, PLAY),
    "which item an alarm concerns": (other_concerned, TRAIN),
    "what the base measured of itself": (
        record("base.json", lambda v: v.update(mean_reward=0.123)),
        "`assay base` again",
    ),
    "the chain of the control training": (
        record("control.json", lambda v: v.update(chain="0" * 64)),
        "`assay control` again",
    ),
    "calls that were made again": (tried_again, NOTHING),
    "adapter against merged model": (parity, "`assay publish merge` again"),
    "the words of the datasheet": (datasheet, NOTHING),
}


def attempt(given: tuple[str, Files]) -> dict[str, Any]:
    """Forge one thing as well as can be, and look whether it is found."""
    from benchmarks.tamper import first_failure

    (forge, by), files = ATTEMPTS[given[0]], given[1]
    with tempfile.TemporaryDirectory(prefix="assay-beyond-") as scratch:
        folder = Path(scratch, "work")
        forged = forge(dict(files), folder)
        touched = {name for name in forged.keys() | files.keys() if forged.get(name) != files.get(name)}
        assert touched, given[0]
        documents = {"README.md", "provenance.json"}
        keep = {name for name in touched if name in documents or name.startswith("data/")}
        whole = resealed(relocked(forged, keep, folder, settings=True))
        found = first_failure(tar_of(whole, Path(scratch)))
    return {
        "kind": given[0],
        "caught": found is not None,
        "found": found and f"{found.level} {found.name}: {found.found[:160]}",
        "found_by": by,
    }
