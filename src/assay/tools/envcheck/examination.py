"""All checks of a task, in a process that may be killed: `examination PLAN OUT`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from assay.core.errors import AssayError
from assay.tools.envcheck import cost, pay, records, repetition, teaching, watching
from assay.tools.envcheck.case import Case, folder_of
from assay.tools.envcheck.elsewhere import Elsewhere
from assay.tools.envcheck.episodes import Watch
from assay.tools.envcheck.evidence import CHECKS, Evidence, check, not_looked_at, out_of_time
from assay.tools.envcheck.repetition import Script
from assay.tools.findings import Deadline, Finding, error_finding

QUICK = 8.0  # seconds in which only what bars a training is looked at
IN_HAND = ("network", "bad completions", "reward parts", "other process")  # from what was seen till then
Look = Callable[[], Finding | Sequence[Finding]]


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
    seen = Evidence(case, Deadline(seconds), at_start=watching.state_of_process())
    quick = seconds <= QUICK
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
        ("time", lambda: cost.duration(seen)),
        ("replay", recorded),
        ("global state", lambda: watching.global_state(seen, scripts)),
        ("trivial players", lambda: pay.trivial_players(seen)),
        ("hedging", lambda: pay.hedging(seen)),
        ("bad completions", lambda: pay.play_nonsense(seen)),
        ("execution", lambda: watching.execution(seen, folder)),
        ("gold in prompt", lambda: records.gold_in_prompt(seen)),
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
            ("memory", lambda: cost.memory(seen, scripts)),
            ("headroom", lambda: teaching.headroom(seen)),
            ("alarms", lambda: teaching.alarms(seen)),
            ("shaping", lambda: teaching.shaping(seen)),
            ("sharpening", lambda: teaching.sharpening(seen)),
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


def main(plan_file: str, out: str) -> None:
    """Examine what a plan names, a finding a line; the process ends itself where a call does not return."""
    from assay.core.config.settings import Params
    from assay.pipeline.project import Project

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

        parent, alive = os.getppid(), Path(f"{out}.alive")
        alive.touch()

        def guard() -> None:
            while True:
                if os.getppid() != parent:  # nobody is left to read what is found
                    os._exit(4)
                time.sleep(0.2)
                alive.touch()
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
