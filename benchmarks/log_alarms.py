"""How many logs of gamed rewards ring `assay runs health LOG`, how many sound ones do, and how many ring
rewardspy.

The logs are those of hack_logs.py and sound_logs.py, in the forms that trainers write. The levels of the
rules were set on other logs before (tests/tools/log_shapes.py), and nothing was moved for these. A log rings
if a rule does: AMBER counts.

`later` has 24 logs more, written when all of this was done; nothing was moved for them either. Rewardspy saw
neither these nor the 24 of `TODAY`.

`by_step` has means alone, in eleven forms (step_logs.py): a log is `found` if the rule that names its illness
rang, and `amber` and `red` count the sound ones that rang at all; `by_step_later` was written when that was
done.

Each log is judged twice, as it is and with its column of success taken out (`without_success`): few trainers
log success by another measure than what they reward. What is still told from a name then is a reward part
that is called accuracy, solved or the like.

rewardspy (github.com/AvAdiii/rewardspy, MIT) is on no package index that this was run with: pip found no
version. Its five detectors and their engine were taken from a public copy (HarperZ9/rewardspy, commit below)
without texts and dashboard, and play each log as `rewardspy audit` does, where `--rewardspy FOLDER` names a
folder with the package (without it what it said before is kept): default window and sensitivity, every
completion a record with its parts and its length in words, every row of a log of means one record. `found`
and `false_alarms` count logs at whose end a detector still warns, which is its exit code; `ever` counts logs
that had any alert.

Usage: ./run bench log_alarms (some minutes on one core). Writes results/log_alarms.json.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import pandas as pd
from benchmarks import hack_logs, sound_logs, step_logs
from benchmarks.common import RESULTS, options, written
from benchmarks.made_logs import MadeLog
from benchmarks.step_logs import StepLog

from assay.health.logs.judging import judge_log
from assay.health.logs.reading import read_foreign

HACKS = (*hack_logs.HACKS, *hack_logs.TODAY)
CLEAN = (*sound_logs.CLEAN, *sound_logs.TODAY)
RESULT = RESULTS / "log_alarms.json"
REWARDSPY_COMMIT = "5bfd03e739b04296df195ee3d93d0c743e4b59aa"
LEVELS = ("NOT MEASURED", "AMBER", "RED")
COUNTED = {"hacks": "found", "clean": "false_alarms"}
Records = Sequence[dict[str, Any]]


def columns_of(log: MadeLog, record: dict[str, Any]) -> dict[str, Any]:
    """Return what a log of this form has of a completion beside step, item, text and reward."""
    known: dict[str, Any] = {"success": record["success"]} if log.success else {}
    return known | ({"gold": record["gold"]} if log.gold else {})


def write_log(log: MadeLog, records: Records, folder: Path) -> Path:
    """Write a log in its form and return what is to be named on the command line."""
    if log.form in ("state", "csv"):
        return _write_means(log, records, folder)
    if log.form == "jsonl":
        lines = []
        for each in records:
            line = {name: each[name] for name in ("step", "item", "completion", "reward")}
            lines.append(line | columns_of(log, each) | ({"parts": each["parts"]} if log.parts else {}))
        return _write_lines(folder / "log.jsonl", lines)
    if log.form == "trl":
        return _write_trl(log, records, folder)
    if log.form == "stream":
        return _write_stream(log, records, folder)
    for step in sorted({each["step"] for each in records}):
        here = [each for each in records if each["step"] == step]
        if log.form in ("verl", "verl today"):
            lines = [_of_verl(log, each) for each in here]
            if (
                log.form == "verl today"
            ):  # {sample}_{rollout}_{output}; what a reward function left out is null
                for k, line in enumerate(lines):
                    line |= {
                        "uid": f"b{line['step']}x{k // log.draws}_{k % log.draws}_0",
                        "request_id": f"r{k}",
                    }
                    line |= {"pred": None} if k % 3 else {"pred": "said", "turns": float(k % 2)}
            _write_lines(folder / f"{step}.jsonl", lines)
        else:
            path = folder / f"rollouts/step_{step}/train/effective/traces.jsonl"
            path.parent.mkdir(parents=True)
            _write_lines(path, [_of_prime(log, each) for each in here])
    return folder


def _write_lines(path: Path, lines: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def _of_verl(log: MadeLog, each: dict[str, Any]) -> dict[str, Any]:
    line = {"input": f"question {each['item']}", "output": each["completion"], "score": each["reward"]}
    line |= {"step": each["step"]} | ({"acc": each["success"]} if log.success else {})
    return line | ({"gts": each["gold"]} if log.gold else {}) | (each["parts"] if log.parts else {})


def _of_prime(log: MadeLog, each: dict[str, Any]) -> dict[str, Any]:
    nodes = [
        {"message": {"role": "user", "content": f"question {each['item']}"}, "sampled": False},
        {"message": {"role": "assistant", "content": each["completion"]}, "sampled": True},
    ]
    rewards = {name: {"score": value, "weight": 1.0} for name, value in each["parts"].items()}
    metrics = {"correct": each["success"]} if log.success else {}
    task = {"data": {"prompt": f"question {each['item']}"}, "hash": str(each["item"])}
    return {"nodes": nodes, "rewards": rewards, "metrics": metrics, "task": task, "ok": True, "errors": []}


def _write_trl(log: MadeLog, records: Records, folder: Path) -> Path:
    (folder / "completions").mkdir()
    for step in sorted({each["step"] for each in records}):
        here = [each for each in records if each["step"] == step]
        table = [
            {"step": step, "prompt": f"question {each['item']}", "completion": each["completion"]}
            | each["parts"]
            | {"advantage": 0.0}
            | columns_of(log, each)
            for each in here
        ]
        if log.form == "trl" and log.seed >= 9:  # what a reward function logs beside, by log_extra
            for k, row in enumerate(table):
                row |= {"n_seen": 3.0 * row["step"] + k, "parsed_answer": row["completion"][-9:]}
        pd.DataFrame(table).to_parquet(folder / f"completions/completions_{step:05d}.parquet")
    rows = [
        _of_trl(row) | ({"accuracy": row["success"]} if log.success else {}) for row in means_of(log, records)
    ]
    (folder / "checkpoint-9").mkdir()
    (folder / "checkpoint-9/trainer_state.json").write_text(
        json.dumps({"log_history": rows}), encoding="utf-8"
    )
    return folder


def _of_trl(row: dict[str, float]) -> dict[str, float]:
    told = {"step": int(row["step"]), "reward": row["reward"], "completions/mean_length": row["length"]}
    return told | {
        f"rewards/{name[5:]}/mean": value for name, value in row.items() if name.startswith("part ")
    }


def _write_stream(log: MadeLog, records: Records, folder: Path) -> Path:
    """Write what prime-rl monitors: an episode a line with its step inside, and means by step."""
    (folder / "monitors/file/traces").mkdir(parents=True)
    lines = []
    for k, each in enumerate(records):
        work = {"type": "train", "step": each["step"], "policy": {"start": each["step"], "end": each["step"]}}
        episode = {"id": f"e{k}", "run": {"type": "train", "id": "r", "work": work}, "ok": True, "errors": []}
        lines.append(episode | {"traces": [_of_prime(log, each) | {"info": {"kind": "train"}}]})
    _write_lines(folder / "monitors/file/traces/stream.jsonl", lines)
    _write_lines(folder / "monitors/file/traces/stream.index.jsonl", [{"line": k} for k in range(len(lines))])
    means = [{"step": row["step"], "reward/all/mean": row["reward"]} for row in means_of(log, records)]
    _write_lines(folder / "monitors/file/metrics.jsonl", means)
    return folder


def means_of(log: MadeLog, records: Records) -> list[dict[str, float]]:
    """Return the means of each step."""
    made = []
    for step in sorted({each["step"] for each in records}):
        here = [each for each in records if each["step"] == step]
        n = len(here)
        row = {"step": float(step), "reward": sum(each["reward"] for each in here) / n}
        row |= {f"part {name}": sum(each["parts"][name] for each in here) / n for name in here[0]["parts"]}
        row["length"] = sum(len(each["completion"].split()) for each in here) / n
        row["success"] = sum(each["success"] for each in here) / n
        if log.entropy is not None:
            low, high = log.entropy
            row["entropy"] = low + (high - low) * log.curve(step / (log.steps - 1))
        made.append(row)
    return made


def _write_means(log: MadeLog, records: Records, folder: Path) -> Path:
    rows = means_of(log, records)
    if log.form == "csv":
        names = {"step": "training/global_step", "reward": "critic/score/mean"}
        names |= {"length": "response_length/mean"} | ({"success": "accuracy"} if log.success else {})
        table = pd.DataFrame([{name: row[key] for key, name in names.items()} for row in rows])
        table.to_csv(folder / "metrics.csv", index=False)
        return folder / "metrics.csv"
    history = []
    for row in rows:
        told: dict[str, Any] = _of_trl(row) | ({"accuracy": row["success"]} if log.success else {})
        history.append(told | ({"entropy": row["entropy"]} if "entropy" in row else {}))
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"log_history": history}), encoding="utf-8")
    return path


def audit_by_rewardspy(log: MadeLog, records: Records) -> dict[str, Any]:
    """Return what rewardspy's five detectors say of a log: those that warn at its end, and all alerts."""
    known = importlib.import_module("rewardspy.records")
    engine_of = importlib.import_module("rewardspy.detectors.engine").DetectionEngine
    store = importlib.import_module("rewardspy.store").MetricStore(log.name)
    engine = engine_of(store)
    told = [
        (each["step"], each["reward"], each["parts"] if log.parts else {}, len(each["completion"].split()))
        for each in records
    ]
    if log.form in ("state", "csv"):
        told = [
            (
                int(row["step"]),
                row["reward"],
                {n[5:]: v for n, v in row.items() if n.startswith("part ") and log.form == "state"},
                round(row["length"]),
            )
            for row in means_of(log, records)
        ]
    for k, (step, reward, parts, length) in enumerate(told):
        record = known.RolloutRecord(str(k), float(k), step, reward, dict(parts), output_length=length)
        store.append(record)
        engine.process(record)
    at_end = [name for name, result in engine.latest.items() if result.actionable]
    return {"at_end": at_end, "ever": sorted({alert.detector for alert in store.alerts})}


def judge(log: MadeLog, records: Records) -> dict[str, str]:
    """Return the levels of the rules that ring on a log, written and read."""
    with tempfile.TemporaryDirectory() as folder:
        judged = judge_log(read_foreign(write_log(log, records, Path(folder))))
    return {each.rule: each.level for each in judged.findings}


def rung(logs: Mapping[str, Sequence[MadeLog]]) -> dict[str, Any]:
    """Return what rings on gamed and on sound logs, as they are and without their column of success."""
    result: dict[str, Any] = {}
    for kind, counted in COUNTED.items():
        rang, without = {}, {}
        for log in logs[kind]:
            records = log.records()
            rang[log.name] = judge(log, records)
            without[log.name] = judge(replace(log, success=False), records)
            print(f"{kind}: {log.name}: {rang[log.name]}; {without[log.name]}")
        result |= {kind: len(logs[kind]), counted: sum(map(bool, rang.values()))}
        result[f"{counted}_red"] = sum("RED" in levels.values() for levels in rang.values())
        result[f"{counted}_without_success"] = sum(map(bool, without.values()))
        result |= {f"{kind}_rang": rang, f"{kind}_rang_without_success": without}
    return result


def judge_steps(log: StepLog) -> dict[str, str]:
    """Return the levels of the rules that ring on a log of means, written and read; what was not measured is
    no silence."""
    with tempfile.TemporaryDirectory() as folder:
        judged = judge_log(read_foreign(step_logs.write_log(log, Path(folder))))
    nothing = {} if judged.findings or judged.worst == "GREEN" else {"nothing": judged.worst}
    return {each.rule: each.level for each in judged.findings} | nothing


def rung_by_step(ills: Sequence[StepLog], sounds: Sequence[StepLog]) -> dict[str, Any]:
    """Return what rings on ill and on sound means by step."""
    ill, sound = ({log.name: judge_steps(log) for log in logs} for logs in (ills, sounds))
    found = sum(log.rule in ill[log.name] for log in ills)
    worst = [max(levels.values(), key=LEVELS.index) for levels in sound.values() if levels]
    counts = {"amber": worst.count("AMBER"), "red": worst.count("RED"), "unmeasured": worst.count(LEVELS[0])}
    told = {"ill": len(ill), "found": found, "clean": len(sound)} | counts
    return told | {"ill_rang": ill, "clean_rang": sound}


def by_rewardspy(logs: Mapping[str, Sequence[MadeLog]]) -> dict[str, Any]:
    """Return what rewardspy says of the same logs."""
    theirs: dict[str, Any] = {"commit": REWARDSPY_COMMIT}
    for kind, counted in COUNTED.items():
        audited = {log.name: audit_by_rewardspy(log, log.records()) for log in logs[kind]}
        theirs |= {kind: len(audited), counted: sum(bool(each["at_end"]) for each in audited.values())}
        theirs[f"{counted}_ever"] = sum(bool(each["ever"]) for each in audited.values())
        theirs[f"{kind}_rang"] = audited
    return theirs


def main() -> None:
    """Write every log, judge it, and write what rang."""
    parser = options(__doc__)
    parser.add_argument("--rewardspy", type=Path, help="folder that has the package rewardspy")
    peer = parser.parse_args().rewardspy
    logs = {"hacks": HACKS, "clean": CLEAN}
    if peer is not None:
        sys.path.insert(0, str(peer))
        theirs = by_rewardspy({"hacks": hack_logs.HACKS, "clean": sound_logs.CLEAN})
    else:  # what it said when it was there: the same logs come out the same
        theirs = json.loads(RESULT.read_text("utf-8"))["rewardspy"]
    result = rung(logs)
    later = rung({"hacks": hack_logs.LATER, "clean": sound_logs.LATER})
    result["later"] = {name: told for name, told in later.items() if not name.endswith("_red")}
    result["by_step"] = rung_by_step(step_logs.ILL, step_logs.SOUND)
    result["by_step_later"] = rung_by_step(step_logs.LATER_ILL, step_logs.LATER_SOUND)
    written(RESULT, result | {"rewardspy": theirs}, indent=1, sort_keys=False)
    print({name: value for name, value in result.items() if isinstance(value, int)})


if __name__ == "__main__":
    main()
