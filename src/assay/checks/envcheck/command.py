"""`assay task check`: look at a task before it is trained on, in a process of its own that may fail; called
as `command PLAN OUT` it is that process, which makes all checks.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from assay.checks.envcheck import abilities, pay, records, repetition, teaching, watching
from assay.checks.envcheck.case import Case, folder_of
from assay.checks.envcheck.elsewhere import Elsewhere
from assay.checks.envcheck.episodes import Trouble, Watch
from assay.checks.envcheck.evidence import (
    CHECKS,
    OUT_OF_TIME,
    PATIENCE,
    Evidence,
    check,
    not_looked_at,
    out_of_time,
    spent,
)
from assay.checks.envcheck.form import in_form
from assay.checks.envcheck.repetition import Script
from assay.checks.findings import Deadline, Finding, error_finding, explain, verdict_of
from assay.core.config.settings import Params
from assay.core.console import progress, say, say_table
from assay.core.counting import counted
from assay.core.errors import AssayError
from assay.core.records import Record
from assay.core.storage.json import write_json
from assay.pipeline.project import Project

SECONDS = 55.0
QUICK_SECONDS = 8.0  # in which only what bars a training is looked at
SKIPPED = 11  # exit code
ENDLESS = "Timeout ("  # as faulthandler begins its trace
LEAST = 10.0  # beyond its time, before the process is ended
IN_HAND = ("network", "bad completions", "reward parts", "other process")  # from what was seen till then
Look = Callable[[], Finding | Sequence[Finding]]


class Report(Record):
    """What `assay task check` found."""

    task: str
    seconds: float
    verdict: str
    findings: tuple[Finding, ...]


def run(root: Path, name: str | None = None, seconds: float = SECONDS, out: Path | None = None) -> int:
    """Print a line for each check, write them as JSON, and return the exit code: 1 for a fault, SKIPPED where
    there was no time for a look, else 0.

    Args:
        root: Of the project.
        name: Preset of configs/task/; None: the chosen one.
        seconds: Of the processor that it may take.
        out: File to write; None: .scratch/envcheck/NAME.json.

    Raises:
        ConfigError: There is no such preset, or it is broken.
    """
    from assay.checks.own_data.audit import project_for, selection_for
    from assay.core.config.composition import selected

    name = name or selected(root).task
    project, judged_with = project_for(root, name), selection_for(root, name).presets
    begun = time.monotonic()
    with progress(f"task check {name}", 1) as advance:
        findings = examined(project, seconds)
        advance(1)
    took = time.monotonic() - begun
    say_table(("level", "check", "found"), [(f.level.upper(), f.check, f.found) for f in findings])
    for told in explain([each for each in findings if each.level in ("warning", "fault")]):
        say(f"\n{told}")
    path = out or project.scratch / "envcheck" / f"{name}.json"
    report = Report(task=name, seconds=round(took, 1), verdict=verdict_of(findings), findings=tuple(findings))
    write_json(path, report)
    counts = [
        counted(sum(f.level == level for f in findings), f"{level}s")
        for level in ("fault", "warning", "note")
    ]
    total = f"{counted(len(findings), 'checks')}: {', '.join(counts)}"
    say(f"\n{total} ({took:.0f} s, by {judged_with}). Written: {path}")
    if verdict_of(findings) == "fault":
        return 1
    return SKIPPED if any(finding.found == OUT_OF_TIME for finding in findings) else 0


def examined(project: Project, seconds: float = SECONDS) -> list[Finding]:
    """Return what each check found; the process that looks is ended where it goes on for too long."""
    with tempfile.TemporaryDirectory(prefix="assay-envcheck-") as folder:
        plan, out = Path(folder) / "plan.json", Path(folder) / "found.jsonl"
        limit = PATIENCE * seconds + LEAST
        asked = {
            "root": str(project.root.resolve()),
            "params": project.params.model_dump(mode="json"),
            "seconds": seconds,
        }
        plan.write_text(json.dumps(asked), encoding="utf-8")
        command = [sys.executable, "-m", "assay.checks.envcheck.command", str(plan), str(out)]
        there = os.pathsep.join(str(Path(each).resolve()) for each in sys.path if each)
        process = subprocess.Popen(
            command,
            env={"PYTHONHASHSEED": "0", **os.environ, "PYTHONPATH": there},
            cwd=project.root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            _, said = process.communicate(timeout=limit)
            ended = "" if process.returncode == 0 else f"its process ended (exit code {process.returncode})"
        except subprocess.TimeoutExpired:
            alive = Path(f"{out}.alive")  # nothing else runs while a call holds Python's lock
            hangs = alive.exists() and time.time() - alive.stat().st_mtime > LEAST
            process.send_signal(signal.SIGUSR1)  # faulthandler says where it is, whoever holds Python's lock
            time.sleep(0.5)
            process.kill()
            _, said = process.communicate()
            ended = f"its process was ended after {limit:g} s" if hangs else ""
        lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    told = [json.loads(line) for line in lines if line.endswith("}")]
    findings = [Finding.model_validate(each["finding"]) for each in told if "finding" in each]
    if not any("done" in each for each in told):
        under_way = next(
            (each["begun"] for each in reversed(told) if "begun" in each), "the import of its code"
        )
        if not any(each.check == "ending" and each.level == "fault" for each in findings) and ended:
            last = (said.strip().splitlines() or [""])[-1][:300]
            hung = ENDLESS in said or "was ended" in ended
            if hung:
                ended, last = "a call did not come back", _line_of(said, project)
            name = "ending" if hung else "bad completions"
            expected = check(name, "a process that goes on", "the task's code")
            fix = (
                "no exit, no crash and no endless call in the task's code; task.isolation: worker survives it"
            )
            findings.append(expected.fault(f"{ended} during the check {under_way}; {last}", fix))
        if ended:
            told.append({"unread": "the task's code ended the process that looks"})
    findings = in_order(findings)
    missing = [name for name in CHECKS if name not in {each.check for each in findings}]
    why = next((each["unread"] for each in told if "unread" in each), None)
    if why is None and seconds > QUICK_SECONDS:
        return in_order([*findings, *map(out_of_time, missing)])
    why = why or "only what bars a training is looked at"
    return in_order([*findings, *[not_looked_at(name, why) for name in missing]])


def examine(
    case: Case, folder: Path, seconds: float, begun: Callable[[str], object] = str
) -> Iterator[Finding]:
    """Yield what each check found.

    Args:
        case: The task.
        folder: For files of the examination.
        seconds: That it may take.
        begun: Told which check begins.
    """
    seen = Evidence(case, Deadline(seconds, spent), at_start=watching.state_of_process())
    begun("the first episodes")
    if (trouble := seen.unplayable) is not None:
        yield _unplayable(seen, trouble)
        for name in CHECKS:
            yield not_looked_at(name, "no episode can be played")
        return
    quick = seconds <= QUICK_SECONDS
    scripts: list[Script] = []
    elsewhere: Elsewhere | None = None

    def players() -> Finding:
        return pay.oracle_beats_floor(seen)

    def recorded() -> Finding:
        nonlocal elsewhere
        scripts.extend(repetition.scripts_of(seen))
        found = repetition.replay(seen, scripts)
        if not quick:
            elsewhere = Elsewhere(seen, scripts, folder)
        return found

    repeats = True
    looks: list[tuple[str, Look]] = [
        ("oracle beats floor", players),
        ("time", lambda: watching.duration(seen)),
        ("replay", recorded),
        ("global state", lambda: watching.global_state(seen, scripts)),
        ("trivial players", lambda: pay.trivial_players(seen)),
        ("hedging", lambda: pay.hedging(seen)),
        ("bad completions", lambda: pay.play_nonsense(seen)),
        ("execution", lambda: watching.execution(seen, folder)),
        ("gold in prompt", lambda: records.gold_in_prompt(seen)),
        ("contradicting golds", lambda: records.contradicting_golds(seen)),
        ("in a batch", lambda: repetition.in_a_batch(seen)),
        ("held-out overlap", lambda: records.heldout_overlap(seen)),
        ("gold through JSON", lambda: records.gold_through_json(seen)),
        ("ending", lambda: pay.ending(seen)),
        ("signal", lambda: teaching.signal(seen)),
    ]
    if not quick:
        looks += [
            ("other order", lambda: repetition.other_order(seen, scripts)),
            ("interleaved", lambda: repetition.interleaved(seen, scripts)),
            ("old state", lambda: repetition.old_state(seen, scripts)),
            ("pickle", lambda: repetition.pickled(seen, scripts)),
            ("four threads", lambda: repetition.four_threads(seen, scripts)),
            ("memory", lambda: watching.memory(seen, scripts)),
            ("headroom", lambda: teaching.headroom(seen)),
            ("alarms", lambda: teaching.alarms(seen)),
            ("shaping", lambda: teaching.shaping(seen)),
            ("sharpening", lambda: teaching.sharpening(seen)),
            ("abilities", lambda: abilities.abilities(seen)),
            ("secondary suites", lambda: abilities.secondary_suites(seen)),
            ("other process", lambda: elsewhere.findings(repeats) if elsewhere is not None else ()),
        ]
    looks += [
        ("network", lambda: watching.network(seen)),
        ("bad completions", lambda: pay.bad_completions(seen)),
        ("reward parts", lambda: pay.reward_parts(seen)),
    ]
    for name, look in looks:
        begun(name)
        if seen.deadline.left <= 0 and name not in IN_HAND:
            yield out_of_time(name)
            continue
        try:
            found = look()
        except AssayError as error:
            found = error_finding(name, error)
        except Exception as error:  # noqa: BLE001 - nothing that one check does keeps the others from being made
            found = not_looked_at(name, f"{type(error).__name__}: {error}")
        for each in [found] if isinstance(found, Finding) else found:
            repeats = repeats and (each.check, each.level) != ("replay", "fault")
            yield each
    if elsewhere is not None:
        elsewhere.close()


def _line_of(said: str, project: Project) -> str:
    """Return the line of the task's code that a trace of threads shows under way."""
    code = str((project.root / str(getattr(project.params.task, "code", "src"))).resolve())
    found = re.findall(rf'File "{re.escape(code)}{os.sep}(.*?)", line (\d+) in (\w+)', said)
    return f"{found[0][0]}, line {found[0][1]}, in {found[0][2]}" if found else "in a library"


def _unplayable(seen: Evidence, trouble: Trouble) -> Finding:
    name = "bad completions" if trouble.kind == "raised" else "reward parts"
    look = check(name, "episodes that can be played", "the task's code")
    told = f"each fails, whatever is said; {trouble}"
    if trouble.kind == "column":
        return look.fault(told, "call the parameter as the column is called, or the column as the parameter")
    form = seen.in_other_form
    return look.fault(told, "mend the code" if form is None else in_form(form))


def main(plan_file: str, out: str) -> None:
    """Examine what a plan names, a finding a line; the process ends itself where a call does not return."""
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    project = Project(Path(plan["root"]), Params.model_validate(plan["params"]))
    os.environ["ASSAY_ENVCHECK_ISOLATION"] = str(getattr(project.params.task, "isolation", "inline"))
    limit = float(getattr(project.params.task, "timeout_s", 5.0)) + 1.0
    current = ["the import of its code"]
    with open(out, "a", encoding="utf-8", buffering=1) as stream:

        def write(finding: Finding) -> None:
            stream.write(json.dumps({"finding": finding.model_dump(mode="json")}) + "\n")

        def begun(name: str) -> None:
            current[0] = name
            stream.write(json.dumps({"begun": name}) + "\n")

        faulthandler.register(signal.SIGUSR1, file=2)
        parent, alive = os.getppid(), Path(f"{out}.alive")
        alive.touch()

        def guard() -> None:
            while True:
                if os.getppid() != parent:  # nobody is left to read what is found
                    os._exit(4)
                time.sleep(0.2)
                alive.touch()
                # A search in a text holds Python's lock, and this thread with it: then that ends the process
                faulthandler.dump_traceback_later(limit + LEAST, exit=True, file=2)
                since = Watch.since
                took = 0.0 if since is None else time.monotonic() - since
                # A call that holds Python's lock is only seen once it is over
                if max(took, Watch.longest) > limit:
                    which = Watch.what if took > limit else Watch.slowest
                    told = f"a call did not come back in {limit - 1:g} s: {which}"
                    fix = "end every call: no loop or wait that a completion can keep going (task.timeout_s)"
                    write(check("ending", "calls that come back", "the task's code").fault(told, fix))
                    os._exit(3)

        folder_code = (project.root / str(getattr(project.params.task, "code", "src"))).resolve()
        watching.install(folder_code)
        threading.Thread(target=guard, daemon=True).start()
        Watch.what = "the import of its code"
        with tempfile.TemporaryDirectory(prefix="assay-envcheck-") as folder:
            try:
                case = Case.of(project)
            except AssayError as error:
                write(error_finding("reward parts", error))
                stream.write(json.dumps({"done": True, "unread": "the task could not be loaded"}) + "\n")
                return
            assert folder_of(case) == folder_code
            for finding in examine(case, Path(folder), float(plan["seconds"]), begun):
                write(finding)
        stream.write(json.dumps({"done": True}) + "\n")


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Return one finding of each check, the worst, in the order of CHECKS."""
    levels = ("ok", "note", "warning", "fault")
    by_name: dict[str, Finding] = {}
    for each in findings:
        before = by_name.get(each.check)
        if before is None or levels.index(each.level) > levels.index(before.level):
            by_name[each.check] = each
    return [by_name[name] for name in CHECKS if name in by_name]


if __name__ == "__main__":
    main(*sys.argv[1:3])
    sys.stdout.flush()
    os._exit(0)  # threads of somebody's code would keep the process
