"""What DVC does that bites, each in a copy of this project with the commands a user types; only `fingerprint`
runs, in seconds.

The same traps under a training, killed and gone on with, are in the table of tests/week. Clocks of another
training than the one DVC took from its run cache: tests/stages/test_package.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from dvc_render.html import HTML
from dvc_render.vega import VegaRenderer

from assay.core.config.composition import Selection, compose, use
from assay.core.evidence_files import place_of
from assay.core.storage.yaml import read_yaml
from assay.verdict.evidence.figures.drawing import AFTER, BEFORE, PALETTE
from tests.few_presets import leave_few
from tests.house import ROOT
from tests.own_data import keep_first
from tests.smoke import NO_SCM, copy_project
from tests.training.whole_project import TAKEN, environment
from tests.verification.made_run import made_run
from tests.warm import warm_python

PLAN, TRACKED = (
    "evidence/results/data/claim_plan.json",
    (".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore", "evidence/logs/.gitignore"),
)
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "gate_proj")


class Walked(set[str]):
    """A set that is walked through in the order of its names or the other way round, whatever their hashes
    are."""

    backwards = False

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__(), reverse=self.backwards))


class WalkedBack(Walked):
    """The same, the other way round."""

    backwards = True


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this project, small settings, its data fingerprinted, all of it committed; nobody writes in
    it."""
    root = tmp_path_factory.mktemp("traps") / "a project"
    root.mkdir()
    for name in (*TAKEN, *TRACKED):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / name)
    leave_few(root)
    keep_first(root / "data/collider", 64)  # read a dozen times
    assay(root, "config", "use", "grpo=tiny_smoke", "task=collider", "seed=0")
    git(root, "init", "-q", "-b", "main")
    dvc(root, "repro", "-q", "fingerprint")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    assert git(root, "status", "--porcelain") == ""
    return root


@pytest.fixture
def project(committed: Path, tmp_path: Path) -> Path:
    """A copy of it to work in."""
    return Path(shutil.copytree(committed, tmp_path / "a project"))


def surroundings(root: Path, **further: str) -> dict[str, str]:
    who = {
        f"GIT_{role}_{what}": "x@example.org"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    return environment(
        DVC_SITE_CACHE_DIR=str(root.parent / "site"),
        HOME=str(root.parent),
        GIT_CONFIG_NOSYSTEM="1",
        **who,
        **further,
    )


def call(root: Path, *command: str, code: int = 0, **further: str) -> str:
    known = surroundings(root, **further)
    # Of the stages that DVC starts, too.
    known["PATH"] = f"{Path(warm_python()).parent}{os.pathsep}{known['PATH']}"
    done = subprocess.run(command, cwd=root, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def git(root: Path, *arguments: str) -> str:
    return call(root, "git", *arguments)


def dvc(root: Path, *arguments: str, code: int = 0) -> str:
    return call(root, warm_python(), "-m", "dvc", *arguments, code=code)


def assay(root: Path, *arguments: str, code: int = 0) -> str:
    return call(root, "assay", *arguments, code=code)


def killed(root: Path, *arguments: str) -> None:
    """Call DVC and kill it, and not what it started, while the stage runs; return when nothing of it is
    left."""
    running = psutil.Popen(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=root,
        env=surroundings(root),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (started := [each for each in running.children(recursive=True) if _is_stage(each)]):
        assert running.poll() is None, "it ended before its stage began"
        time.sleep(0.05)  # a look at all processes is work, and the stage takes a second to begin
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert not psutil.wait_procs(started, timeout=60)[1]


def _is_stage(process: psutil.Process) -> bool:
    try:
        return "assay" in " ".join(process.cmdline()) and "fingerprint" in process.cmdline()[-1]
    except (psutil.NoSuchProcess, psutil.ZombieProcess, IndexError):
        return False


def test_a_hand_edit_is_in_no_experiment_and_what_an_experiment_leaves_is_told_and_neither_used_nor_lost(
    project: Path,
) -> None:
    edited = (
        (project / "params.yaml")
        .read_text()
        .replace("smallest_effect_points: 10.0", "smallest_effect_points: 1.0")
    )
    (project / "params.yaml").write_text(edited)
    assert "smallest_effect_points: 10.0, as configs/ has it" in dvc(
        project, "repro", "fingerprint", code=255
    )
    dvc(project, "exp", "run", "-S", "evaluation.items=20", "--name", "edited", "fingerprint")
    settings = read_yaml(project / "params.yaml", fix="")
    assert (settings["claim"]["smallest_effect_points"], settings["evaluation"]["items"]) == (10.0, 20)
    assert json.loads((project / PLAN).read_text())["smallest_effect_points"] == 10.0
    assert "evaluation.items" in assay(project, "config", "check", code=1)
    refused = dvc(project, "repro", "-f", "fingerprint", code=255)
    assert "evaluation.items: 24, as configs/ has it" in refused and "./run assay config use" in refused
    git(project, "checkout", "-q", ".")
    assert "up to date" in dvc(project, "repro", "fingerprint")


def test_a_preset_of_an_experiment_is_whole_and_ends_with_it(project: Path) -> None:
    dvc(project, "exp", "run", "-S", "grpo=tiny", "-S", "task=structured", "fingerprint")
    chosen = compose(ROOT, Selection("tiny", "structured", 0)).values
    assert read_yaml(project / "params.yaml", fix="") == chosen
    dvc(project, "exp", "run", "-S", "seed=8", "fingerprint")
    chosen = compose(ROOT, Selection("tiny_smoke", "collider", 8)).values
    assert read_yaml(project / "params.yaml", fix="") == chosen


def test_an_experiment_of_what_cannot_be_set_is_refused_in_one_message_and_nothing_is_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "a secret of this machine")
    told = dvc(project, "exp", "run", "-S", "seed=${oc.env:KEY}", code=255)
    assert "no interpolation" in told and "Fix:" in told and "a secret of this machine" not in told
    for wrong, fix in (("seed=abc", "another value of -S"), ("train.step=3", "-S train.steps=…")):
        told = dvc(project, "exp", "run", "--temp", f"--set-param={wrong}", code=255)
        assert told.count("ERROR") == 1 and f"\nFix: {fix}" in told and "support" not in told
    preset = project / "configs/grpo/tiny_smoke.yaml"
    before, kept = (project / "params.yaml").read_bytes(), preset.read_text()
    preset.write_text(f"{kept}note: ${{oc.env:KEY}}\n")
    assert "configs/grpo/tiny_smoke.yaml, line " in dvc(project, "exp", "run", code=255)
    assert (project / "params.yaml").read_bytes() == before
    preset.write_text(kept)
    assert git(project, "status", "--porcelain") == ""


def test_the_narrow_table_holds_the_outcome_and_what_differs_in_120_columns(project: Path) -> None:
    """That of `./run exps`; `dvc exp show` itself has a column for each setting and each dependency."""
    metrics = project / place_of("metrics.json")
    metrics.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / place_of("metrics.json"), metrics)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "two")
    use(project, grpo=None, task=None, seed=12)
    script = (ROOT / "run").read_text(encoding="utf-8").replace("\\\n", "")
    (command,) = re.findall(r"exec (dvc exp show .*) \"\$@\"", script)
    table = call(project, sys.executable, "-m", *shlex.split(command), COLUMNS="120")
    head, *rows = (line.split() for line in table.splitlines() if "\u2500" not in line)
    assert head[:2] == ["Experiment", "Created"] and head[-1] == "seed"
    assert set(head[2:-1]) == {"verdict", "success", "gain", "gain_low", "gain_high", "step"}
    assert [row[-1] for row in rows] == ["12", "0"] and "\u2026" not in table
    assert max(map(len, table.splitlines())) <= 120


def test_a_killed_experiment_leaves_the_branch_and_one_command_goes_back(project: Path) -> None:
    killed(project, "exp", "run", "-S", "evaluation.items=20", "--name", "again", "fingerprint")
    call(project, "git", "symbolic-ref", "-q", "HEAD", code=1)  # the trap: no branch
    git(project, "switch", "-q", "-f", "main")
    assert git(project, "status", "--porcelain") == ""
    dvc(project, "exp", "run", "-S", "evaluation.items=20", "--name", "again", "fingerprint")
    assert git(project, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert git(project, "log", "--format=%s", "main").split() == ["one"]
    git(project, "checkout", "-q", ".")
    assert "up to date" in dvc(project, "status", "fingerprint")


def test_a_killed_experiment_in_a_temporary_folder_leaves_the_workspace_alone(project: Path) -> None:
    killed(project, "exp", "run", "--temp", "-S", "evaluation.items=20", "--name", "again", "fingerprint")
    assert git(project, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert git(project, "status", "--porcelain") == ""
    dvc(project, "exp", "run", "--temp", "-S", "evaluation.items=20", "--name", "again", "fingerprint")
    assert git(project, "status", "--porcelain") == ""
    assert "again" in dvc(project, "exp", "list", "--name-only")


def test_what_the_run_cache_gives_back_is_what_was_there(project: Path) -> None:
    before = (project / PLAN).read_bytes()
    use(project, grpo=None, task="structured", seed=None)
    dvc(project, "repro", "-q", "fingerprint")
    assert (project / PLAN).read_bytes() != before
    use(project, grpo=None, task="collider", seed=None)
    dvc(project, "repro", "-q", "fingerprint")
    assert (project / PLAN).read_bytes() == before and git(project, "status", "--porcelain") == ""


def test_no_clock_is_an_output_and_no_output_is_kept_over_a_run() -> None:
    for name, stage in read_yaml(ROOT / "dvc.yaml", fix="")["stages"].items():
        for entry in [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]:
            path, options = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
            assert not path.startswith("evidence/observed") and not "evidence/observed".startswith(path), (
                name,
                path,
            )
            assert not options.get("persist"), f"{name}: {path} would outlive a changed setting"


def test_a_stage_that_fails_leaves_what_git_ignores_as_it_was(project: Path) -> None:
    (project / "data/collider/train.jsonl").write_text("{}\n")
    dvc(project, "repro", "fingerprint", code=255)
    git(project, "checkout", "-q", "data")
    config = project / "configs/grpo/tiny_smoke.yaml"
    config.write_text(
        config.read_text()
        .replace("copy_accuracy: 0.0", "copy_accuracy: 1.0")
        .replace("steps: 100,", "steps: 1,")
        .replace("steps: 300,", "steps: 1,")
        .replace("drill_pool: 2000", "drill_pool: 50")
    )
    use(project, grpo=None, task=None, seed=None)
    # A base that reads nothing off is refused, after models/ was there
    assert "expected copy_accuracy of at least 1.0" in dvc(project, "repro", "base", code=255)
    assert (project / "models/base").is_dir()
    for name in (
        "models/base",
        "models/adapter",
        "dist/x",
        ".scratch/train",
        "evidence/logs/train/train_log.jsonl",
    ):
        call(project, "git", "check-ignore", "-q", name)
    assert git(project, "status", "--porcelain", "--", ".gitignore", "evidence/logs/.gitignore") == ""
    assert "??" not in git(project, "status", "--porcelain")


def test_two_orders_of_a_set_give_one_adapter_config() -> None:
    from peft import LoraConfig

    from assay.training.adapter import adapter_config

    walked, written = list[list[str]](), list[str]()
    for kind in (Walked, WalkedBack):
        config = LoraConfig(target_modules=kind(TARGETS))
        policy: Any = SimpleNamespace(model=SimpleNamespace(peft_config={"default": config}))
        walked.append(list(config.target_modules or ()))
        written.append(json.dumps(adapter_config(policy), sort_keys=True))
    assert walked[0] != walked[1] and written[0] == written[1] and "gate_proj" in written[0]


def test_the_artifacts_name_what_the_pipeline_writes() -> None:
    pipeline = read_yaml(ROOT / "dvc.yaml", fix="")
    outs = [
        out if isinstance(out, str) else next(iter(out))
        for stage in pipeline["stages"].values()
        for out in stage["outs"]
    ]
    assert {"adapter", "evidence"} <= set(pipeline["artifacts"])
    for name, artifact in pipeline["artifacts"].items():
        assert any(out == artifact["path"] or out.startswith(f"{artifact['path']}/") for out in outs), name
        assert artifact["desc"] and artifact["type"] and artifact["labels"]


PLOTS = ROOT / ".dvc" / "plots"
PAGE = (PLOTS / "offline.html").read_text(encoding="utf-8")


def stage_plots() -> dict[str, dict[str, Any]]:
    stages: Any = read_yaml(ROOT / "dvc.yaml", fix="git checkout dvc.yaml")
    found = [entry for entry in stages["plots"] if isinstance(entry, dict)]
    return {Path(name).stem: options for entry in found for name, options in entry.items()}


ROWS = {
    "rates": [{"measure": "success_rate", "arm": "before", "value": "12.5", "low": "", "high": "", "n": "8"}],
    "differences": [{"measure": "success_rate", "value": "", "low": "", "high": "", "n": "0"}],
    "rewards": [{"low": "-1.0", "high": "0.0", "arm": "after", "n": "3", "share": "37.5"}],
    "training_log": [{"step": "1", "reward": "-0.5"}],
}


def _walked(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping in a value."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
    for each in inside:
        yield from _walked(each)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_table_fills_its_template_and_leaves_no_anchor(name: str) -> None:
    options = stage_plots()[name]
    rows = [row | {"rev": rev} for rev in ("HEAD", "workspace") for row in ROWS[name]]
    shown = {key: options.get(key, key) for key in ("template", "x", "y", "title", "x_label", "y_label")}
    filled = json.loads(VegaRenderer(rows, name, template_dir=str(PLOTS), **shown).partial_html())
    text = json.dumps(filled)
    assert "<DVC_METRIC" not in text and options["title"] in text
    assert filled["data"]["values"] == rows
    # Revisions are told apart, and a colour means what it means in the report.
    fields = {each["field"] for each in _walked(filled) if isinstance(each.get("field"), str)}
    colours = [each["color"] for each in _walked(filled) if "field" in each.get("color", "")]
    assert "rev" in fields and colours
    for each in colours:
        of_arms = each["field"] == "arm" and each["scale"]["domain"] == ["before", "after"]
        assert each["scale"]["range"] == ([BEFORE, AFTER] if of_arms else [AFTER, BEFORE, *PALETTE[2:]])


def test_the_page_holds_its_scripts_unchanged_and_asks_no_server() -> None:
    inside = re.findall(
        r'<script data-package="([^"]+)" data-version="([^"]+)">\n(.*?)\n</script>', PAGE, re.DOTALL
    )
    assert [name for name, *_ in inside] == ["vega", "vega-lite", "vega-embed"]
    for name, version, script in inside:
        assert f"{name} {version}  sha256 {hashlib.sha256(script.encode()).hexdigest()}" in PAGE
    assert "src=" not in re.sub(r"<script data.*?</script>", "", PAGE, flags=re.DOTALL)
    assert "default-src 'none'" in PAGE


def test_dvc_puts_the_plots_and_none_of_its_own_scripts_into_the_page() -> None:
    page = HTML(PAGE).with_scripts(VegaRenderer.SCRIPTS).with_element("<p>a plot</p>").embed()
    assert "<p>a plot</p>" in page and VegaRenderer.SCRIPTS.strip() not in page and "{plot_divs}" not in page
    assert "html_template = plots/offline.html" in (ROOT / ".dvc" / "config").read_text()


def test_no_figure_is_shown_twice() -> None:
    listed = re.findall(
        r"^  - (evidence/results/report/figures/\S+)$", (ROOT / "dvc.yaml").read_text(), re.MULTILINE
    )
    assert listed and all(name.endswith(".svg") for name in listed) and len(set(listed)) == len(listed)


@pytest.mark.long
def test_in_a_clone_dvc_misses_what_is_not_in_git_of_three_stages_and_nothing_of_five(tmp_path: Path) -> None:
    """README says so. What changed since the committed run is left out: code, and what hangs on it."""
    clone = tmp_path / "clone"
    copy_project(clone)
    (clone / ".dvc/config.local").write_text(NO_SCM)
    told = json.loads(dvc(clone, "status", "--json"))
    missing = {
        name: [path for each in changed if isinstance(each, dict) for path in each.get("changed outs", ())]
        for name, changed in told.items()
    }
    assert {name: paths for name, paths in missing.items() if paths} == {
        "base": ["models/base"],
        "train": ["models/adapter", "evidence/logs/train"],
        "package": ["dist"],
    }


def test_base_and_policy_are_kept_for_a_fresh_suite_and_nothing_else_is_passed_over(tmp_path: Path) -> None:
    root = made_run(tmp_path / "run").root
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text(NO_SCM)
    task = _as_presets(root)
    assay(root, "data", "fresh")
    task.write_text(task.read_text().replace("data/collider", "data/collider-fresh-1"))
    preset = root / "configs/grpo/tiny.yaml"
    usual = preset.read_text()
    changed = usual.replace('"learning_rate": ', '"learning_rate": 1')
    assert changed != usual
    preset.write_text(changed)
    assay(root, "config", "use")
    assert "found changed: base" in assay(root, "data", "fresh", code=1)
    preset.write_text(usual)
    assay(root, "config", "use")
    for _ in range(2):
        assert "base and policy are kept" in assay(root, "data", "fresh")
        told = dvc(root, "status", "--json")
        assert not {"fingerprint", "base", "train"} & json.loads(told).keys()
        assert {"pre_eval", "post_eval"} <= json.loads(told).keys()


def _as_presets(root: Path) -> Path:
    """Write the settings of a run as presets that compose to them; return that of the task."""
    shutil.copytree(ROOT / "configs", root / "configs")
    (root / "configs/both/tiny-collider.yaml").unlink(missing_ok=True)
    values = read_yaml(root / "params.yaml", fix="")
    parts = {"task/collider": {"task", "dataset"}, "grpo/tiny": values.keys() - {"task", "dataset", "seed"}}
    for name, keys in parts.items():
        text = json.dumps({key: values[key] for key in sorted(keys)})
        (root / f"configs/{name}.yaml").write_text(f"# @package _global_\n{text}\n")
    assay(root, "config", "use", "grpo=tiny", "task=collider", "seed=0")
    assert read_yaml(root / "params.yaml", fix="") == values
    return root / "configs/task/collider.yaml"
