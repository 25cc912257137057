"""The same episodes in another process: other hash seed, time zone, locale, folder and variables, and 41 days
later. `python -m assay.checks.envcheck.elsewhere PLAN` is that process."""

from __future__ import annotations

import datetime as real_datetime
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from assay.checks.envcheck.evidence import PATIENCE, Evidence, check, not_looked_at
from assay.checks.envcheck.repetition import Script
from assay.checks.envcheck.watching import Noticed
from assay.checks.findings import Finding
from assay.core.counting import counted

CODE = "the task's code"
LATER = 41 * 86400 + 5 * 3600 + 17 * 60 + 31.0
MUCH_LATER = LATER + 459 * 86400  # another year, month and day of the week
LATE = "no answer in time"
SECONDS = 20.0  # of one such process at most
HASH_SEED = "the hash seed (PYTHONHASHSEED)"
MACHINE = "the machine (its name, its cores)"
SEEDS = ("1", "7", "42", "1001", "31337")  # beside 0, and the one of the process that changes everything
SAME = "let only record, seed and completion decide: sort sets, give whole paths"
KEPT = (
    "PATH", "HOME", "LD_", "PYTHON", "VIRTUAL_ENV", "TMP", "TEMP", "HF_", "XDG_", "ASSAY_", "SSL_", "OMP_",
    "CONDA", "CUDA", "MKL_", "SYSTEMROOT", "NUMBA", "MPLCONFIGDIR",
)  # fmt: skip


def plan_of(seen: Evidence, scripts: Sequence[Script]) -> dict[str, Any]:
    """Return what another process has to play, as JSON."""
    return {
        "root": str(seen.case.project.root),
        "params": seen.case.params.model_dump(mode="json"),
        "scripts": [[each.world.item.id, list(each.said), each.digest] for each in scripts],
    }


class Elsewhere:
    """Processes that play scripts again.

    Args:
        seen: The examination.
        scripts: What repeats itself in this process.
        folder: For files of this.
    """

    def __init__(self, seen: Evidence, scripts: Sequence[Script], folder: Path) -> None:
        self.seen, self.scripts, self.folder = seen, scripts, folder
        (folder / "plan.json").write_text(json.dumps(plan_of(seen, scripts)), encoding="utf-8")
        self._started = self._start("all", 1.0, everything=True)
        # One other seed shows half of what hangs on the order of a set of a few words at most, six nearly all
        seeds = () if seen.slow else SEEDS
        self._seeds = [self._start(f"seed-{seed}", 0.0, seed=seed) for seed in seeds]

    def _start(
        self, name: str, later: float, *, everything: bool = False, only: str = "", seed: str | None = None
    ) -> subprocess.Popen[bytes]:
        def changed(what: str) -> bool:
            return everything or only == what

        env = {k: v for k, v in os.environ.items() if not changed("variables") or k.startswith(KEPT)}
        env["PYTHONPATH"] = os.pathsep.join(str(Path(each).resolve()) for each in sys.path if each)
        env.setdefault("PYTHONHASHSEED", "0")
        if seed is not None:
            env["PYTHONHASHSEED"] = seed
        if changed(HASH_SEED):
            env["PYTHONHASHSEED"] = "4242" if os.environ.get("PYTHONHASHSEED") != "4242" else "1717"
        if changed("the time zone (TZ)"):
            env["TZ"] = "XXX-05:45" if os.environ.get("TZ") != "XXX-05:45" else "YYY+09:30"
        if changed("the locale (LANG)"):
            env |= {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"} if _is_c() else {"LANG": "C", "LC_ALL": "C"}
            env["LANGUAGE"] = "tr"
        if changed("variables"):
            env |= {"USER": "somebody", "LOGNAME": "somebody", "HOSTNAME": "elsewhere", "TERM": "dumb"}
            for key in Noticed.variables:
                if not key.startswith(("PATH", "HOME", "TMP", "PYTHON")):
                    if key in os.environ and key not in ("LANG", "LC_ALL", "TZ", "USER", "LOGNAME"):
                        env.pop(key, None)
                    elif key not in os.environ and key not in env:
                        env[key] = "1"
        if changed(MACHINE):
            env["ASSAY_ENVCHECK_MACHINE"] = "another"
        place = self.folder / ("elsewhere" if changed("the folder it is called in") else ".")
        place.mkdir(exist_ok=True)
        cwd = place if changed("the folder it is called in") else Path.cwd()
        out = self.folder / f"{name}.json"
        command = [sys.executable, "-m", __name__, str(self.folder / "plan.json"), str(out), str(later)]
        return subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def close(self) -> None:
        """End the processes that still run."""
        for process in (self._started, *self._seeds):
            if process.poll() is None:
                process.kill()
                process.communicate()

    def _result(self, name: str, process: subprocess.Popen[bytes]) -> Mapping[str, list[str]] | str:
        """Return digests by what was played, or why there are none."""
        try:
            limit = PATIENCE * max(1.0, min(SECONDS, self.seen.deadline.left))
            _, said = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return LATE
        out = self.folder / f"{name}.json"
        if process.returncode or not out.exists():
            return (
                said.decode("utf-8", "replace").strip().splitlines() or [f"exit code {process.returncode}"]
            )[-1]
        found: dict[str, list[str]] = json.loads(out.read_text(encoding="utf-8"))
        return found

    def findings(self, repeats: bool) -> list[Finding]:
        """Return what another process, and a later one, changed."""
        place = check("other process", "the same under another hash seed, time zone, locale, folder", CODE)
        clock = check("41 days later", "the same at any time", CODE)
        found = self._result("all", self._started)
        if not repeats:
            return self._unrepeated(found)
        expected = [each.digest for each in self.scripts]
        told = f"{counted(len(self.scripts), 'episodes')} the same"
        for seed, process in zip(SEEDS, self._seeds, strict=False):
            again = self._result(f"seed-{seed}", process)
            if not isinstance(again, str) and again["now"] != expected:
                why = f"another result with another {HASH_SEED}: {self._differ(again['now'])}"
                return [
                    place.fault(why, SAME),
                    not_looked_at("41 days later", "it differs in any other process"),
                ]
        if not isinstance(found, str) and found["later"] == found["much later"] == expected:
            return [place.ok(told), clock.ok(told)]
        if not isinstance(found, str) and found["later"] == expected:
            return [place.ok(told), clock.fault(self._differ(found["much later"]), _CLOCK)]
        late = found == LATE or self.seen.deadline.left < 5.0
        if not self.scripts or late:
            why = "there was no time left" if late else "nothing could be played"
            return [not_looked_at(name, why) for name in ("other process", "41 days later")]
        return self._attributed(found, expected)

    def _attributed(self, found: Mapping[str, list[str]] | str, expected: list[str]) -> list[Finding]:
        """Return what of all that was changed made the difference, each tried alone."""
        place = check("other process", "the same under another hash seed, time zone, locale, folder", CODE)
        clock = check("41 days later", "the same at any time", CODE)
        aspects = (
            "nothing but the process", HASH_SEED, "the time zone (TZ)",
            "the locale (LANG)", "the folder it is called in", "variables", MACHINE,
        )  # fmt: skip
        blamed: list[tuple[str, str]] = []
        later: str | None = None
        timed = self._result("clock", self._start("clock", 1.0))
        if isinstance(timed, str):
            later = None if timed == LATE else timed
        elif timed["later"] != expected or timed["much later"] != expected:
            later = self._differ(timed["later"] if timed["later"] != expected else timed["much later"])
        for k, name in enumerate(aspects):
            if self.seen.deadline.left < 2.0:
                break
            result = self._result(f"only-{k}", self._start(f"only-{k}", 0.0, only=name))
            if result not in ({"now": expected}, LATE):
                blamed.append((name, result if isinstance(result, str) else self._differ(result["now"])))
                break
        n = counted(len(self.scripts), "episodes")
        well = place.ok(f"{n} the same")
        if blamed:
            names = ", ".join(name for name, _ in blamed)
            read = ", ".join(f"{key} ({at})" for key, at in sorted(Noticed.variables.items()))
            names = names.replace("variables", f"variables{': it reads ' + read if read else ''}")
            well = place.fault(f"another result with another {names}: {blamed[0][1]}", SAME)
        fell = blamed and blamed[0][0] == aspects[0]
        if later is not None and not fell:
            return [well, clock.fault(later, _CLOCK)]
        if not blamed:  # all together only
            why = found if isinstance(found, str) else self._differ(found["later"])
            return [
                place.fault(why, "let only record, seed and completion decide"),
                clock.ok(f"{n} the same"),
            ]
        return [
            well,
            not_looked_at("41 days later", "it differs in any other process")
            if fell
            else clock.ok(f"{n} the same"),
        ]

    def _unrepeated(self, found: Mapping[str, list[str]] | str) -> list[Finding]:
        why = "it does not repeat itself in one process"
        read = None if isinstance(found, str) else found.get("clock")
        clock = check("41 days later", "the same at any time", CODE)
        other = not_looked_at("other process", why)
        if read:
            return [other, clock.fault(f"it reads the clock ({read[0]}), and {why}", _CLOCK)]
        return [other, not_looked_at("41 days later", why)]

    def _differ(self, digests: Sequence[str]) -> str:
        pairs = zip(self.scripts, digests, strict=True)
        odd = [script for script, digest in pairs if script.digest != digest]
        first = odd[0]
        return (
            f"{len(odd)} of {counted(len(self.scripts), 'episodes')} differ, first item {first.world.item.id}"
        )


_CLOCK = "let no clock decide what is told or paid"


def _is_c() -> bool:
    found = os.environ.get("LC_ALL") or os.environ.get("LANG") or "C"
    return found in ("C", "POSIX")


class _Shift:
    """The clock of a process that was set forward."""

    by = 0.0
    folder = ""
    read: ClassVar[list[str]] = []


def _fake_clock() -> None:
    """Set the clock of this process forward, for whoever asks Python; who asks for it is noted."""
    now, now_ns = time.time, time.time_ns
    local, gm, strf = time.localtime, time.gmtime, time.strftime

    def note() -> bool:
        frame = sys._getframe(2)
        if frame.f_code.co_filename.startswith(_Shift.folder):
            _Shift.read.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        return True

    def shifted() -> float:
        note()
        return now() + _Shift.by

    time.time = shifted
    time.time_ns = lambda: (note(), now_ns() + int(_Shift.by * 1e9))[1]
    time.localtime = lambda s=None: (note(), local(now() + _Shift.by if s is None else s))[1]
    time.gmtime = lambda s=None: (note(), gm(now() + _Shift.by if s is None else s))[1]
    time.strftime = lambda form, t=None: (note(), strf(form, local(now() + _Shift.by) if t is None else t))[1]
    plain, day = real_datetime.datetime, real_datetime.date

    class _Kind(type):
        def __instancecheck__(cls, other: Any) -> bool:
            return isinstance(other, cls.__mro__[1])

    class Moment(plain, metaclass=_Kind):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            note()
            return plain.fromtimestamp(now() + _Shift.by, tz)

        @classmethod
        def utcnow(cls) -> Any:
            note()
            return plain.fromtimestamp(now() + _Shift.by, real_datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            note()
            return plain.fromtimestamp(now() + _Shift.by)

    class Day(day, metaclass=_Kind):  # type: ignore[misc, valid-type]
        @classmethod
        def today(cls) -> Any:
            note()
            return plain.fromtimestamp(now() + _Shift.by).date()

    real_datetime.datetime, real_datetime.date = Moment, Day  # type: ignore[misc]


def _fake_machine() -> None:
    """Give this process another machine's name and number of cores, for whoever asks Python."""
    kind, _, *rest = os.uname()
    named, cores = os.uname_result((kind, "elsewhere", *rest)), (os.cpu_count() or 1) + 3
    os.uname = lambda: named
    os.cpu_count = lambda: cores
    socket.gethostname = platform.node = lambda: named.nodename


def main(plan_file: str, out: str, later: str) -> None:
    """Play a plan and write the digests; a `later` other than 0 plays it under two later clocks."""
    from assay.checks.envcheck.case import Case, World
    from assay.core.config.settings import Params
    from assay.core.seeds import derive_seed
    from assay.pipeline.project import Project

    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    project = Project(Path(plan["root"]), Params.model_validate(plan["params"]))
    if float(later):
        _Shift.by, _Shift.folder = (
            LATER,
            str((project.root / str(getattr(project.params.task, "code", "src"))).resolve()),
        )
        _fake_clock()
    if "ASSAY_ENVCHECK_MACHINE" in os.environ:
        _fake_machine()
    case = Case.of(project)
    items = {item.id: item for item in case.splits["train"]}
    scripts = [
        Script(World(items[name], derive_seed("envcheck", "train", name)), tuple(said), digest)
        for name, said, digest in plan["scripts"]
    ]

    def played() -> list[str]:
        return [script.again(case).digest for script in scripts]

    found = {"now": played()} if not float(later) else {"later": played()}
    if float(later):
        _Shift.by = MUCH_LATER
        found |= {"much later": played(), "clock": sorted(set(_Shift.read))}
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:4])
