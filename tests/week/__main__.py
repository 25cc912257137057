"""A week of a user's work with this project, command by command, in a folder of its own that is removed at
the end.

./run week                    play it
./run week --log FILE         and write what every command said, as Markdown
./run week --show             only print the table
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from assay.core.console import complain, say
from tests.house import ROOT
from tests.smoke import committable
from tests.warm import warm
from tests.week.playing import Desk, Unexpected
from tests.week.table import WEEK

ORIGIN = "origin.git"


def main() -> int:
    """Play the week; return 0 if every command did what the table says and nothing else."""
    parser = argparse.ArgumentParser(
        prog="./run week", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="write what every command said")
    parser.add_argument("--show", action="store_true", help="print the table and end")
    asked = parser.parse_args()
    if asked.show:
        show()
        return 0
    if not (ROOT / ".git").exists():
        complain(f"week: {ROOT}: expected a git repository, found none. Fix: git init, git add ., git commit")
        return 1
    said = [f"# {__doc__.splitlines()[0]}\n"]
    try:
        with (
            tempfile.TemporaryDirectory(prefix="assay week ") as folder,
            tempfile.TemporaryDirectory(prefix="assay warm ") as commands,
        ):
            return play(Path(folder).resolve(), said, Path(commands) / "bin")
    except KeyboardInterrupt:
        complain("week: ended by Ctrl-C; its folder is removed")
        return 130
    finally:
        if asked.log is not None:
            asked.log.write_text("\n".join(said), encoding="utf-8")


def show() -> None:
    """Print the table as documentation: day, command, how it ends if not well, what git sees afterwards."""
    for day, steps in WEEK.items():
        say(f"\n{day}")
        for step in steps:
            say(f"  {step.at}$ {step.command}{'   # SIGKILL' if step.killed_at else ''}")
            for line in step.changes:
                say(f"      {line}")


def play(root: Path, said: list[str], commands: Path) -> int:
    """Play the week in a folder, a line each on the terminal, and all that was said into a list."""
    desk, begun, n = Desk(root), time.monotonic(), 0
    serve(desk)
    # Stages are forked with their libraries, but for those that are killed; ./run smoke plays each as it is.
    with warm(commands, desk.environment()) as environment:
        desk.path = environment["PATH"]
        for day, steps in WEEK.items():
            say(f"week: {day}")
            said.append(f"## {day}\n")
            for step in steps:
                try:
                    done = desk.play(step)
                except Unexpected as error:
                    said.append(f"```\n{error}\n```\n")
                    complain(f"week: after {n} commands:\n{error}")
                    return 1
                n += 1
                said.append(f"```\n{step.at}$ {step.command}\n{done.output.rstrip()}\n```\n")
                say(f"{done.seconds:6.1f} s  {step.at}$ {step.command}")
    say(
        f"week: {n} commands, {time.monotonic() - begun:.0f} s; nothing was left that the table does not name"
    )
    return 0


def serve(desk: Desk) -> None:
    """Put what git would commit of this project on a git server of the user's."""
    first = desk.root / "first"
    for name in committable():
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, first / name)
    typed = f"git init -q && git add -A && git commit -qm 'the project' && git clone -q --bare . ../{ORIGIN}"
    subprocess.run(["sh", "-c", typed], cwd=first, check=True, env=desk.environment())
    shutil.rmtree(first)


if __name__ == "__main__":
    sys.exit(main())
