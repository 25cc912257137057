"""A Slurm of one machine, for configs/launch/slurm.sh: its commands as small programs that play two nodes,
and nothing more.

srun starts a task a node here, exports the node's number, kills its tasks when it is sent SIGTERM (as the
real one does) and ends with the highest exit code. scancel signals the tasks, squeue lists the step at work
or says the job's state (a file called cancelled makes it COMPLETING), scontrol notes what was queued again.
"""

from __future__ import annotations

import sys
from pathlib import Path

COMMANDS = {
    "srun": (
        """
import os, signal, subprocess, sys
from pathlib import Path
told = sys.argv[1:]
command = told[next(k for k, word in enumerate(told) if not word.startswith("--")):]
folder = Path(__file__).parent
tasks = [
    subprocess.Popen(command, env=os.environ | {"SLURM_NODEID": str(node)})
    for node in range(int(os.environ["SLURM_JOB_NUM_NODES"]))
]
(folder / "step.new").write_text(" ".join(str(task.pid) for task in tasks))
(folder / "step.new").replace(folder / "step")
signal.signal(signal.SIGTERM, lambda *_: [task.kill() for task in tasks])
codes = [task.wait() for task in tasks]
(folder / "step").unlink()
sys.exit(max(code if code >= 0 else 128 - code for code in codes))
"""
    ),
    "scancel": (
        """
import os, signal, sys
from pathlib import Path
assert sys.argv[1:] == ["--signal=TERM", os.environ["SLURM_JOB_ID"]], sys.argv
for task in (Path(__file__).parent / "step").read_text().split():
    os.kill(int(task), signal.SIGTERM)
"""
    ),
    "squeue": (
        """
import os, sys
from pathlib import Path
if "--format=%T" in sys.argv:
    cancelled = (Path(__file__).parent / "cancelled").exists()
    print("COMPLETING" if cancelled else "RUNNING")
    sys.exit()
print(os.environ["SLURM_JOB_ID"] + ".batch")
if (Path(__file__).parent / "step").exists():
    print(os.environ["SLURM_JOB_ID"] + ".0")
"""
    ),
    "scontrol": (
        """
import os, sys
from pathlib import Path
if sys.argv[1:] == ["show", "hostnames", os.environ["SLURM_JOB_NODELIST"]]:
    os.write(1, b"127.0.0.1\\nother\\n")  # at once: whoever reads may want one line only
else:
    with (Path(__file__).parent / "requeued").open("a") as told:
        print(*sys.argv[1:], file=told)
"""
    ),
}


def write(folder: Path) -> Path:
    """Write the commands into a folder for PATH, which is returned."""
    folder.mkdir(parents=True)
    for name, code in COMMANDS.items():
        (folder / name).write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def job(project: Path, nodes: int, number: int) -> dict[str, str]:
    """Return what sbatch puts into the environment of the script, beside PATH."""
    return {
        "SLURM_SUBMIT_DIR": str(project),
        "SLURM_JOB_ID": str(number),
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_JOB_NODELIST": f"box[1-{nodes}]",
        "SLURM_CPUS_PER_TASK": "1",
    }
