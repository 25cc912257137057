"""A copy of the source tree in which something is added as CONTRIBUTING.md says, and tried in a process of
its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.house import ROOT, SRC, STAGES, code_of
from tests.warm import warm_python

TAKEN = (
    "src",
    "tasks",
    "configs",
    "params.yaml",
    "dvc.yaml",
    "constraints.txt",
    "requirements.txt",
    "pyproject.toml",
    "LICENSE",
    "tests/__init__.py",
    "tests/house.py",
    "tests/kept.py",
    "tests/own_data.py",
    "tests/test_house.py",
    "tests/verification/__init__.py",
    "tests/verification/made_lock.py",
    "tests/verification/made_run.py",
)
DATA = tuple(sorted(f"data/{path.name}" for path in (ROOT / "data").iterdir() if path.is_dir()))
LITTER = shutil.ignore_patterns("__pycache__", "*.egg-info")
# What holds of any tree.
RULES = (
    "point_down or rooms_it_declares or fifteen or no_file or named_after or nothing_prints or trl_is_known"
    " or setting_is_read"
)


def copied(folder: Path) -> Path:
    """Return a copy of the tree, data as links, in a folder of its own."""
    root = folder / "assay"
    for name in TAKEN:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=LITTER)
        else:
            shutil.copy(ROOT / name, root / name)
    for name in DATA:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(ROOT / name)
    return root


def insert(path: Path, before: str, text: str) -> None:
    """Put text in front of a text that a file has once."""
    content = path.read_text(encoding="utf-8")
    assert content.count(before) == 1, f"{path.name}: {content.count(before)} times {before!r}"
    path.write_text(content.replace(before, text + before), encoding="utf-8")


def written(path: Path, text: str) -> None:
    """Write a new file, with its folders."""
    assert not path.exists(), path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def touched(root: Path) -> set[str]:
    """Return the files of a copy that are new, gone or other than those of the tree."""

    def files(tree: Path) -> dict[str, bytes]:
        every = (
            path
            for name in ("src", "tasks", "configs", "data", "dvc.yaml")
            for path in [tree / name, *(tree / name).rglob("*")]
        )
        return {
            path.relative_to(tree).as_posix(): path.read_bytes()
            for path in every
            if path.is_file()
            and not {"__pycache__", *DATA} & {*path.parts, *map(str, path.relative_to(tree).parents)}
            and ".egg-info" not in str(path)
        }

    here, there = files(root), files(ROOT)
    return {name for name in here.keys() | there.keys() if here.get(name) != there.get(name)}


def steps(section: str) -> list[str]:
    """Return the numbered steps of a section of CONTRIBUTING.md, of ten lines at most."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    body = text.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0].strip().split("\n\n")[0]
    assert body.count("\n") < 10, f"{section}: more than ten lines"
    return re.split(r"\n(?=\d+\. )", body)


def named(section: str, **values: str) -> set[str]:
    """Return the files that the steps of a section name, with <names> filled in."""
    found = set(
        re.findall(
            r"`((?:src|tasks|configs|data|dvc)[\w/.<>]*\.\w+|data/[\w/<>]*SHA256SUMS)`",
            "\n".join(steps(section)),
        )
    )
    return {re.sub(r"<(\w+)>", lambda match: values[match[1]], name) for name in found}


def ran(root: Path, *arguments: str) -> str:
    """Run Python in a copy, by the copy's own code, and return what it said; a failure is one of the test."""
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTEST_CURRENT_TEST", None)
    done = subprocess.run(
        [warm_python(), *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def keeps_the_rules(root: Path) -> None:
    """Run the house tests of a copy, on the copy."""
    rules = (
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "-o",
        "testpaths=tests",
        "tests/test_house.py",
        "-k",
        RULES,
    )
    ran(root, "-m", "pytest", "-q", *rules)


def changed_code(root: Path) -> dict[str, set[str]]:
    """Return for each stage the files that it can run in a copy and not in the tree, or the other way
    round."""
    script = (
        "from tests.house import *\nfor stage in STAGES:\n    print(stage, *sorted(p.relative_to(SRC) for p"
        " in code_of(stage)))"
    )
    there = dict(line.split(" ", 1) for line in ran(root, "-c", script).splitlines())
    changed = {
        stage: {f"{path.relative_to(SRC)}" for path in code_of(stage)} ^ set(there[stage].split())
        for stage in STAGES
    }
    return {stage: names for stage, names in changed.items() if names}
