"""README.md and docs/ show the committed evidence, and name nothing that is not there: no file, no command,
no option."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from assay.checks.envcheck.command import SKIPPED
from assay.cli import app
from assay.cli.moved import NO_SUCH_COMMAND
from assay.cli.reference import reference
from assay.core import errors
from assay.core.storage.yaml import read_yaml
from assay.package.publish import readme
from assay.package.verification.checks import CODES
from tests.calling import called
from tests.house import ROOT
from tests.pages import (
    MARK,
    PAGES,
    Command,
    anchors,
    blocks,
    commands,
    commands_of,
    is_shown,
    mentions,
    text_of,
    without_blocks,
)
from tests.week.table import WEEK

GPU = text_of("docs/gpu.md")
# What a `Needs:` line may speak of, so that all pages say it in the same words.
NEEDS = (
    "minutes",
    "an hour",
    "time",
    "a network",
    "a GPU",
    "GPUs",
    "a cluster",
    "a Slurm cluster",
    "a package",
    "a finished run",
    "finished training",
    "a training",
    "the experiments above",
    "a git remote",
    "a git checkout",
    "a browser",
    "a base",
    "a pretrained base",
    "a shared folder",
    "the downloaded model",
    "vLLM",
    "Python",
)
ROOMS = "|".join(sorted(path.parent.name for path in ROOT.glob("src/assay/*/__init__.py")))
BRINGING = ("docs/external.md", "docs/own-data.md")  # pages that show a script which they have run
VERBS = ("repro", "test", "smoke", "week", "exps", "report")
# Programs that are not part of the environment; a page has to say that they are needed.
OTHERS = ("git", "cd", "export", "sbatch", "sky", "python3", "sha256sum", "uvx", "chromium")
TASKS_OF_ONES_OWN = "".join(
    json.dumps({"prompt": f"How many? {n}", "schema": {"type": "object"}, "gold": {"n": n}}) + "\n"
    for n in range(60)  # fewer leave no suite that a test can use
)


@pytest.mark.parametrize(
    ("page", "name"), [(page, name) for page, names in readme.PAGES.items() for name in names]
)
def test_a_generated_block_is_the_one_of_the_last_run(page: str, name: str) -> None:
    start, end = readme.marks(name)
    assert text_of(page).split(start)[1].split(end)[0] == readme.make_blocks(ROOT)[name], (
        "./run assay publish readme renews it"
    )


def test_the_page_of_commands_is_what_the_command_line_says() -> None:
    assert text_of(readme.CLI) == reference(app), "./run assay publish readme renews it"


def test_readme_is_short_and_its_first_screen_has_a_door_for_each_visitor() -> None:
    """Somebody with results, somebody with a reward, somebody who looks; what comes out stands below."""
    text = text_of("README.md")
    assert len(text.encode()) <= 7 * 1024
    assert len(text_of("ARCHITECTURE.md").encode()) <= 8 * 1024
    screen = text.encode()[: 5 * 512].decode(errors="ignore")
    for wanted in ("./run assay judge", "NO EVIDENCE", "def reward(", "./run assay task new", "./run repro"):
        assert wanted in screen, wanted
    block = text.split(readme.marks("headline")[0])[1].split(readme.marks("headline")[1])[0]
    assert "](docs/pictures/report-" in block, "CONTRIBUTING.md says how a picture of the report is taken"


def test_the_reward_on_the_first_screen_is_one() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", text_of("README.md"), re.M | re.S)
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["reward"](["?", "?"], [" 4\n", "5"], answer=["4", "4"], other=[1, 2]) == [1.0, 0.0]


def test_the_picture_of_the_pipeline_has_its_stages_and_what_each_of_them_waits_for() -> None:
    """Arrows that follow from others may be left out; none may be there that DVC does not have."""
    (chart,) = re.findall(r"^```mermaid\n(.*?)^```$", text_of("README.md"), re.M | re.S)
    drawn = {
        (before, after)
        for left, after in re.findall(r"^  (.+) --> (\w+)", re.sub(r"\[.*?\]", "", chart), re.M)
        for before in left.split(" & ")
    }
    stages = read_yaml(ROOT / "dvc.yaml", fix="")["stages"]
    made = {
        out if isinstance(out, str) else next(iter(out)): name
        for name, at in stages.items()
        for out in at["outs"]
    }
    real = {
        (maker, name)
        for name, stage in stages.items()
        for dep in stage["deps"]
        for out, maker in made.items()
        if f"{dep}/".startswith(f"{out}/")
    }
    assert {name for pair in drawn for name in pair} == set(stages)
    reached = set(drawn)
    for _ in stages:
        reached |= {(a, d) for a, b in reached for c, d in reached if b == c}
    assert drawn <= real <= reached


@pytest.mark.parametrize("page", PAGES)
def test_no_line_is_long(page: str) -> None:
    generated = {name: readme.marks(name) for name in readme.PAGES.get(page, ())}
    text = text_of(page)
    for start, end in generated.values():  # rows of measured tables are as long as their numbers
        head, _, rest = text.partition(start)
        block, _, tail = rest.partition(end)
        text = head + "".join(line + "\n" for line in block.splitlines() if not line.startswith("|")) + tail
    assert [line for line in text.splitlines() if len(line) > 110] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_and_every_path_of_ours_leads_somewhere(page: str) -> None:
    text, here = text_of(page), ROOT / page
    for link in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in link or link.startswith(
            "../../actions/"
        ):  # a host of git serves its runs beside the tree
            continue
        name, _, anchor = link.partition("#")
        target = here.parent / name if name else here
        assert target.exists(), f"{page} links {link}"
        assert not anchor or anchor in anchors(target), f"{page} links {link}"
    for name in re.findall(
        rf"`((?:src|tasks|tests|configs|benchmarks|{ROOMS})/[\w/.-]+\.(?:py|yaml|sh|ipynb))`", text
    ):
        assert (ROOT / name).exists() or (ROOT / "src/assay" / name).exists(), f"{page} names {name}"
    for name in re.findall(r"`(\w+\.py)`", text):
        found = any(any((ROOT / room).rglob(name)) for room in ("src", "tasks", "tests"))
        assert found, f"{page} names {name}"


def test_every_page_is_in_an_index() -> None:
    assert "](docs/README.md)" in text_of("README.md")
    for index in ("docs/README.md", "docs/internals/README.md", "docs/decisions/README.md"):
        folder = ROOT / Path(index).parent
        linked = {
            ((ROOT / index).parent / link).resolve() for link in re.findall(r"\]\(([^)#]+)\)", text_of(index))
        }
        assert {path.resolve() for path in folder.glob("*.md")} - {(ROOT / index).resolve()} <= linked, index


@pytest.mark.parametrize("page", PAGES)
def test_what_a_command_needs_is_said_in_one_way(page: str) -> None:
    text = text_of(page)
    for line in re.findall(rf"^{MARK}.*(?:\n.+)*", text, re.M):
        assert re.search(re.escape(line) + r"\n\n```sh\n", text), f"{page}: no commands below: {line}"
        assert line.endswith("."), line
        assert any(need in line for need in NEEDS), f"{page}: {line}"
    assert not re.search(r"^```(?!sh$|json$|text$|mermaid$|python$|$)", text, re.M), (
        f"{page}: a block is sh, json, text, mermaid or python"
    )


def _parsed(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words)


def _asked_of_dvc(words: list[str]) -> None:
    from dvc.cli import parse_args

    parse_args(words)


def _is_known(words: list[str]) -> None:
    """Fail where a command is not one of ours, or is given what it does not take; nothing is run."""
    match words:
        case ["./run", "assay", *rest] | ["judging/bin/assay", *rest]:
            _parsed(rest)
        case ["./run", "dvc", *rest]:
            _asked_of_dvc(rest)
        case ["./run", "bench", name]:
            assert (ROOT / f"benchmarks/{name}.py").is_file(), name
        case ["./run", "python", "-m", "pip", "install", *rest] | ["judging/bin/pip", "install", *rest]:
            extras = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]
            asked = [name for word in rest if word.startswith(".[") for name in word[2:-1].split(",")]
            assert set(asked) <= set(extras), asked
            files = [file for option, file in pairwise(rest) if option == "-r"]
            assert all((ROOT / file).is_file() for file in files), files
            assert not files or {"--require-hashes", "--no-deps"} <= set(rest)
        case ["./run", "python", script] if script.endswith(".py"):
            assert Path(script).is_file() or any(script in text_of(page) for page in BRINGING), script
        case ["./run", "jupyter" | "accelerate" | "gto" | "hf", *rest]:
            for word in rest:
                assert not word.startswith(("configs/", "notebooks/")) or (ROOT / word).is_file(), word
        case ["./run", verb, *_]:
            assert verb in VERBS, verb
        case [program, *rest]:
            assert program in OTHERS, program
            for word in rest:
                assert not word.startswith("configs/") or (ROOT / word).is_file(), word


@pytest.mark.parametrize("command", [each for page in PAGES for each in commands(page)], ids=str)
def test_every_command_exists_with_its_options(command: Command) -> None:
    _is_known(list(command.words))
    assert command.needs is not None or command.words[0] == "./run", "a program of another's needs saying"


@pytest.mark.parametrize("page", PAGES)
def test_every_command_in_a_sentence_exists(page: str) -> None:
    for said in sorted(mentions(page)):
        words = said.split()
        if words[0] == "dvc":
            _asked_of_dvc(words[1:])
            continue
        command: Any = typer.main.get_command(app)
        for word in words[1:]:
            if hasattr(command, "commands"):
                assert word in command.commands, f"{page}: {said}"
                command = command.commands[word]
            elif word.startswith("--"):
                assert word in {
                    name for each in command.params for name in (*each.opts, *each.secondary_opts)
                }, said


def _write_exam(folder: Path) -> None:
    """Write what pages grade: a tasks file with answers."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    files: dict[str, list[dict[str, Any]]] = {"exam": [], "answers": []}
    for n in range(12):
        record = {"id": f"q{n}", "prompt": f"How many? {n}", "schema": schema, "gold": {"n": n}}
        files["exam"].append({**record, "difficulty": "easy", "task_type": "count", "family": f"f{n}"})
        files["answers"].append({"item": f"q{n}", "completion": json.dumps({"n": n % 8})})
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(each.needs is None for each in commands(page))]
)
def test_a_command_that_needs_nothing_is_run(page: str, tmp_path: Path) -> None:
    """In a project that has settings and nothing else, as they stand on the page, and says what the page
    shows; or `./run week` runs it."""
    week = {step.command for steps in WEEK.values() for step in steps}
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "tasks.jsonl").write_text(TASKS_OF_ONES_OWN, encoding="utf-8")
    for arm, every in (("before", 3), ("after", 2), ("another", 4), ("tuned", 1)):
        rows = "".join(f"q{n},{int(n % every == 0)}\n" for n in range(40))
        (tmp_path / f"{arm}.csv").write_text(f"item,score\n{rows}", encoding="utf-8")
    _write_exam(tmp_path)
    shutil.copytree(ROOT / "docs/examples", tmp_path / "docs/examples")
    for block in blocks(page):
        told = [] if block.needs else list(commands_of(page, block))
        said = ""
        for command in told:
            if " ".join(command.words[1:]) in week:
                continue
            assert command.words[:2] == ("./run", "assay"), f"{command}: say what it needs"
            done = called(tmp_path, *command.words[2:])
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
            said += done.stdout
        assert not told or block.shown is None or is_shown(block.shown, said), (
            f"{page} shows otherwise: {said}"
        )


def test_the_table_of_exit_codes_has_all_of_ours() -> None:
    table = text_of("docs/recovery.md").split("## Exit codes")[1].split("\n## ")[0]
    listed = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.M) for code in row.split(",")}
    ours = {
        each.exit_code
        for each in vars(errors).values()
        if isinstance(each, type) and hasattr(each, "exit_code")
    }
    assert ours <= listed
    assert listed == {0, 1, NO_SUCH_COMMAND, *range(3, 9), SKIPPED, 130, 143, *CODES.values()}


def test_the_readme_names_the_stages_that_a_clone_makes_and_how_many_it_skips() -> None:
    """Those with an output that is not in git; what DVC itself skips is asked in test_dvc_traps.py."""
    stages = read_yaml(ROOT / "dvc.yaml", fix="")["stages"]
    made = [name for name, stage in stages.items() if any(isinstance(out, str) for out in stage["outs"])]
    told = " ".join(text_of("README.md").split())
    assert f"runs `{made[0]}`, `{made[1]}` and `{made[2]}`, skips the other" in told and len(made) == 3
    words = ("three", "four", "five", "six")
    assert f"skips the other {words[len(stages) - len(made) - 3]} stages" in told


def test_the_levels_of_verify_are_all_explained() -> None:
    text = without_blocks("docs/verify.md")
    assert re.findall(r"^\| (V\d|none) \|", text, re.M) == ["V0", "V1", "V2", "V3", "V4", "V5", "none"]


def test_the_errors_of_the_forecast_are_those_that_were_measured() -> None:
    found = json.loads((ROOT / "benchmarks/results/presets.json").read_text(encoding="utf-8"))
    for kind, part, digits in (
        ("memory", "accuracy", 1),
        ("time", "accuracy", 1),
        ("memory", "published", 1),
        ("time", "published", 0),
    ):
        worst = max(abs(row[f"{kind}_error"]) for row in found[part].values())
        assert f"{worst:.{digits}%}".replace("%", " %") in GPU


def test_what_a_judgement_takes_and_how_often_set_up_was_killed_are_as_measured() -> None:
    judge, recovery = (
        " ".join((ROOT / f"docs/{name}.md").read_text(encoding="utf-8").split())
        for name in ("judge", "recovery")
    )
    large = json.loads((ROOT / "benchmarks/results/judge.json").read_text(encoding="utf-8"))
    small = large["smaller"][-1]
    assert (large["rows"], small["rows"]) == (1_000_000, 100_000)
    first, second = (f"{each['cpu_seconds']:.0f}" for each in (large, small))
    assert f"A million rows take {first} CPU seconds and {large['peak_mib']} MiB" in judge
    assert f"a hundred thousand {second} and {small['peak_mib']}" in judge
    killed = json.loads((ROOT / "benchmarks/results/setup_kills.json").read_text(encoding="utf-8"))
    assert (killed["outside"], killed["wrong_next"]) == (0, 0)
    assert f"After {killed['kills']} SIGKILLs of all its processes" in recovery


def test_the_bound_of_the_collider_is_the_one_that_was_measured() -> None:
    found = json.loads((ROOT / "benchmarks/results/collider_bound.json").read_text(encoding="utf-8"))
    told = " ".join((ROOT / "docs/decisions/recipe.md").read_text(encoding="utf-8").split())
    train, heldout = (found[part]["players"][found["best"]] for part in ("train", "heldout"))
    reward, success = heldout["mean_reward"], heldout["success_rate"]
    assert f"scores {train['score']:.2f} there and {heldout['score']:.2f} on the held-out suite" in told
    assert f"reward {reward['value']:.3f} [{reward['low']:.3f}, {reward['high']:.3f}]" in told
    assert f"success {success['value']:.1%}".replace("%", " %") in told and f"n = {success['n']}" in told
