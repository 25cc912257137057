"""What forgeries are made of: changes of a package's files, and how a forger covers them up."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from benchmarks.resealing import Files, episode_in, pretty, put_rows, rows_of, write
from safetensors.numpy import load, save

from assay.core.evidence_files import place_of as path
from assay.core.storage.json import dumps, read_record
from assay.package.verification.content.weights import read_safetensors, weights_digest
from assay.package.verification.unpacked import Unpacked
from assay.rollout.policy.digests import adapted_digest, digest_folder
from assay.stages.packing.layout import ADAPTER, BASE
from assay.training.log.step_chain import START, chain_of
from assay.verdict.statistics.report import Reports, report_on

Forge = Callable[[Files], None]
WEIGHTS = f"{ADAPTER}/adapter_model.safetensors"


def added(name: str, content: bytes = b"x = 1\n") -> Forge:
    """Add a file."""
    return lambda files: files.update({name: content})


def with_settings(name: str, **values: Any) -> Forge:
    """Change settings of a JSON file of the model."""

    def forge(files: Files) -> None:
        files[name] = pretty(json.loads(files[name]) | values)

    return forge


def both(*forges: Forge) -> Forge:
    """Do one after the other."""

    def forge(files: Files) -> None:
        for each in forges:
            each(files)

    return forge


def text(name: str, old: str, new: str, count: int = 1) -> Forge:
    """Replace by an expression in a text."""

    def forge(files: Files) -> None:
        found, n = re.subn(old, new, files[name].decode(), count=count)
        assert n, f"{old} is not in {name}"
        files[name] = found.encode()

    return forge


def weights(name: str, change: Callable[[dict[str, Any]], None], *, chain: bool = False) -> Forge:
    """Change the arrays of a model, and where `chain` says so, what the log and its chain say of them."""

    def forge(files: Files) -> None:
        arrays = {each: array.copy() for each, array in load(files[name]).items()}
        change(arrays)
        files[name] = save(arrays, metadata={"format": "pt"})
        if chain:
            chained_anew(files)

    return forge


def chained_anew(files: Files) -> None:
    """Let the log name the adapter's weights at the chosen step, and make the chain anew; validations name
    them as well."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.safetensors").write_bytes(files[WEIGHTS])
        made = weights_digest(read_safetensors(Path(folder, "a.safetensors"), "a"))
    facts, rows, chain = json.loads(files[path("train.json")]), rows_of(files, path("train_log.jsonl")), START
    old = rows[facts["chosen_step"] - 1]["digests"]["weights"]
    rows[facts["chosen_step"] - 1]["digests"]["weights"] = made
    for row in rows:
        chain = row["chain"] = chain_of(chain, row)
    files[path("train_log.jsonl")] = "".join(f"{dumps(row)}\n" for row in rows).encode()
    files[path("train.json")] = pretty(facts | {"chain": chain})
    files[path("validation.jsonl")] = files[path("validation.jsonl")].replace(old.encode(), made.encode())


def sides(side: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    """Change all A, all B, or both."""

    def forge(arrays: dict[str, Any]) -> None:
        for name in arrays:
            if f".lora_{side}." in name or side == "AB":
                arrays[name] = change(arrays[name]).astype(np.float32)

    return forge


def blind(arrays: dict[str, Any]) -> None:
    """Let every B read directions only that its A never writes: neither is 0, and their product is."""
    for name in [each for each in arrays if ".lora_A." in each]:
        a, b = arrays[name], arrays[name.replace("lora_A", "lora_B")]
        a[1::2], b[:, 0::2] = a[0::2], -b[:, 1::2]


def first_module(arrays: dict[str, Any]) -> None:
    """Let one module of many learn nothing."""
    arrays[min(each for each in arrays if ".lora_B." in each)][:] = 0


def noise(size: float, seed: int = 0) -> Callable[[Any], Any]:
    """Add a little to every number."""
    return lambda array: array + np.random.default_rng(seed).normal(scale=size, size=array.shape)


def rows(name: str, change: Callable[[list[Any]], None]) -> Forge:
    """Change the rows of a file of episodes."""

    def forge(files: Files) -> None:
        found = rows_of(files, path(name))
        change(found)
        put_rows(files, path(name), found)

    return forge


def turns(name: str, change: Callable[[Any], None], first: int | None = None) -> Forge:
    """Change turns of a file of episodes, all or the first so many."""

    def each(found: list[Any]) -> None:
        for turn in [turn for row in found for turn in episode_in(row)["turns"]][:first]:
            change(turn)

    return rows(name, each)


def other_prompt(turn: Any) -> None:
    """Let a turn have been written after something else."""
    turn["prompt_digest"] = f"{Random(turn['completion']).getrandbits(64):016x}"


def shuffled_draws(found: list[Any]) -> None:
    """Give each draw of an item the texts of another, with seed and number where they were."""
    for one, other in zip(found[::2], found[1::2], strict=True):
        places = [{name: row[name] for name in ("draw", "seed")} for row in (one, other)]
        mine, yours = dict(one), dict(other)
        one.update(yours | places[0])
        other.update(mine | places[1])


def taken(
    target: str,
    source: str,
    *,
    share: float = 1.0,
    named: bool = True,
    after: Callable[[list[Any]], None] | None = None,
) -> Forge:
    """Put the rows of one arm in the place of another's, with the other's policy where `named` says so."""

    def forge(files: Files) -> None:
        old, new = rows_of(files, path(f"{target}.jsonl")), rows_of(files, path(f"{source}.jsonl"))
        policy = old[0]["policy"]
        for k in range(round(share * len(old))):
            old[k] = new[k] | ({"policy": policy} if named else {})
        if after is not None:
            after(old)
        put_rows(files, path(f"{target}.jsonl"), old)

    return forge


def exchanged(one: str, other: str, *, named: bool) -> Forge:
    """Exchange the rows of two arms."""

    def forge(files: Files) -> None:
        ours, theirs, before = path(f"{one}.jsonl"), path(f"{other}.jsonl"), dict(files)
        taken(one, other, named=named)(files)
        taken(other, one, named=named)(before)
        files[theirs] = before[theirs]
        assert files[ours] != files[theirs]

    return forge


def validations_exchanged(*, named: bool) -> Forge:
    """Exchange what two validations showed."""

    def change(found: list[Any]) -> None:
        steps = sorted({row["step"] for row in found})
        one, other = ([row for row in found if row["step"] == step] for step in (steps[1], steps[-1]))
        for a, b in zip(one, other, strict=True):
            a["episode"], b["episode"] = b["episode"], a["episode"]
            if named:
                policies = a["episode"]["policy"], b["episode"]["policy"]
                b["episode"]["policy"], a["episode"]["policy"] = policies

    return rows("validation.jsonl", change)


def quieted(files: Files) -> None:
    """Say that no alarm rang, in the log of them and in what sums it up."""
    facts, n = json.loads(files[path("train.json")]), len(rows_of(files, path("train_log.jsonl")))
    quiet = dict.fromkeys(("value", "threshold", "baseline"))
    quiet |= {"rule": "non_finite", "level": "GREEN", "stop": False, "step": n, "first_step": 0}
    quiet |= {"item_ids": [], "message": f"No alarm in {n} steps."}
    put_rows(files, path("health.jsonl"), [quiet])
    facts["health"] |= {"worst": "GREEN", "rules": []}
    files[path("train.json")] = pretty(facts)


def without_rule(name: str, rule: str) -> Forge:
    """Leave an alarm out of the facts of a training."""

    def forge(files: Files) -> None:
        facts = json.loads(files[name])
        kept = [each for each in facts["health"]["rules"] if each["rule"] != rule]
        worst = max((each["level"] for each in kept), key=("GREEN", "AMBER", "RED").index, default="GREEN")
        facts["health"] |= {"rules": kept, "worst": worst}
        files[name] = pretty(facts)

    return forge


def planned_anew(files: Files) -> None:
    """Let the plan name the alarms of params.yaml as they are now, and train.json the sha256 of the plan."""
    from assay.core.config.reading import parse_params
    from assay.core.storage.yaml import read_yaml
    from assay.verdict.evidence.claim.plan import alarms_digest

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "params.yaml").write_bytes(files["params.yaml"])
        health = parse_params(read_yaml(Path(folder, "params.yaml"), fix="")).health
    files[path("claim_plan.json")] = pretty(
        json.loads(files[path("claim_plan.json")]) | {"alarms": alarms_digest(health)}
    )


def noted_anew(files: Files) -> None:
    """Let train.json note the plan as it is now."""
    sha256 = hashlib.sha256(files[path("claim_plan.json")]).hexdigest()
    files[path("train.json")] = pretty(json.loads(files[path("train.json")]) | {"claim_plan_sha256": sha256})


def with_digests(files: Files, before: Files, folder: Path) -> Files:
    """Return the files with the digests of base and policy made anew wherever they stand."""
    old = [json.loads(before[path("train.json")])[name] for name in ("base_digest", "policy_digest")]
    write({name: content for name, content in files.items() if name.startswith("models/")}, folder)
    base = digest_folder(folder / BASE)
    new = [base, adapted_digest(base, folder / ADAPTER)]
    found = dict(files)
    for name, content in files.items():
        if name.endswith((".json", ".jsonl")) and not name.startswith(("data/", "models/")):
            for one, other in zip(old, new, strict=True):
                content = content.replace(one.encode(), other.encode())
            found[name] = content
    return found


def rung_anew(files: Files, folder: Path) -> Files:
    """Return the files with the alarms that log, validations and thresholds, as they are now, raise."""
    from assay.core.records import HealthSummary
    from assay.package.verification.content.training import rung_again
    from assay.pipeline.live_log import quiet

    write(files, folder)
    package = Unpacked(folder)
    events, monitor = rung_again(package)
    events = events or [quiet(len(package.log))]
    facts = package.trained.model_copy(update={"health": HealthSummary.of(events, monitor.unmeasured)})
    found = files | {path("train.json"): pretty(facts.model_dump(mode="json"))}
    put_rows(found, path("health.jsonl"), [event.model_dump(mode="json") for event in events])
    return found


def reported_anew(package: Unpacked) -> bytes:
    """Return reports.json with the reports of all arms made anew from their episodes as they are now."""
    stored = read_record(package.results("reports.json"), Reports, fix="")
    again = {
        name: report_on(package.episodes(name), package.suite_of(name), old.policy_digest, old.decoding)
        for name, old in stored.arms.items()
    }
    return pretty(Reports(arms=again, baselines=stored.baselines).model_dump(mode="json"))
