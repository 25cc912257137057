"""A claim is shown for the settings and data that it is about, and for no others: by every command, page and
figure."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from omegaconf import OmegaConf

from assay.cli import results
from assay.cli.tools.watch import redraw, serve
from assay.cli.tools.watch.command import format_lines
from assay.cli.tools.watch.serve import ClaimShown
from assay.cli.tools.watch.snapshot import SnapshotReader, find_place
from assay.core.config.composition import use
from assay.core.config.settings import DatasetSettings
from assay.core.errors import NO_VERDICT, NoVerdictYet, RecordError
from assay.core.evidence_files import folder_of, place_of
from assay.package.publish import push, readme
from assay.package.recipe.compare import WORKSPACE, read_run
from assay.pipeline.project import Project
from assay.stages import fingerprint, package, render_evidence
from assay.stages.packing.archive import unpack
from assay.stages.render_evidence import no_claim, render
from assay.stages.render_evidence.at_hand import changed_settings, claim_at_hand, differences
from assay.stages.render_evidence.claim_at import claim_at
from assay.stages.render_evidence.no_claim import SHOWN, withdraw_if_other
from assay.verdict.evidence.claim.claim import UNREAD
from tests.calling import called
from tests.house import ROOT
from tests.training.whole_project import environment
from tests.verification.made_lock import lock
from tests.verification.made_run import copied, made_run, packaged
from tests.warm import warm_python

# What follows from a suite and the bytes of files follows from the same bytes in every copy.
KNOWN: dict[tuple[str, ...], Any] = {}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A finished run with what a user's project has beside it; nobody writes in it."""
    project = made_run(tmp_path_factory.mktemp("at hand") / "a project")
    shutil.copytree(ROOT / "configs", project.root / "configs")
    shutil.copy(ROOT / "README.md", project.root)
    (project.root / "docs").mkdir()
    for page in ("results.md", "read-a-claim.md"):
        shutil.copy(ROOT / "docs" / page, project.root / "docs")
    return project


@pytest.fixture
def project(made: Project, tmp_path: Path) -> Project:
    """A copy of it to change, all but its code, which is most of its files."""
    return Project.open(copied(made.root, tmp_path / "a project"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made and not drawn, which is most of the work of rendering: tests/evidence looks at how
    they are drawn, tests/verification draws them again from the episodes."""

    def drawn(figure: Any, finding: str) -> dict[str, bytes]:
        return {"png": finding.encode(), "svg": f"<svg><text>{len(figure.axes)}</text></svg>".encode()}

    monkeypatch.setattr(render, "render", drawn)


def changed(project: Project, **changes: Any) -> Project:
    """Change settings by dotted names (with __ for the dots), as `config use` with another preset does."""
    path = project.root / "params.yaml"
    values = OmegaConf.load(path)
    for name, value in changes.items():
        OmegaConf.update(values, name.replace("__", "."), value, force_add=True)
    path.write_text(OmegaConf.to_yaml(values), encoding="utf-8")
    return Project.open(project.root)


def edited(project: Project, name: str, **changes: Any) -> None:
    """Change a record, or every line of a file of records."""
    path = project.results(name)
    lines = (
        path.read_text(encoding="utf-8").splitlines()
        if name.endswith(".jsonl")
        else [path.read_text(encoding="utf-8")]
    )
    path.write_text(
        "".join(json.dumps(json.loads(line) | changes) + "\n" for line in lines), encoding="utf-8"
    )


def in_a_process(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    where = environment(
        DVC_SITE_CACHE_DIR=str(root.parent / "site"), HOME=str(root.parent), DVC_NO_ANALYTICS="1"
    )
    return subprocess.run(
        [warm_python(), "-m", *command], cwd=root, env=where, capture_output=True, text=True, check=False
    )


def said_by_verdict(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Return the exit code of `verdict` and what it says, without starting a process."""
    said = list[str]()
    with monkeypatch.context() as patched:
        patched.chdir(root)
        patched.setattr(results, "say", said.append)
        try:
            results.verdict()
        except NoVerdictYet as error:
            return error.exit_code, str(error)
        except typer.Exit as end:
            return end.exit_code, "\n".join(said)
    return 0, "\n".join(said)


def test_a_run_stands_for_its_own_settings_and_is_called_by_its_data(made: Project) -> None:
    assert differences(made) == []
    done = in_a_process(made.root, "assay.cli", "verdict")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"collider: {claim_at_hand(made).verdict}: ")


def test_the_colliders_numbers_are_no_verdict_of_another_task_whose_data_were_only_fingerprinted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, sentence = project.root, claim_at_hand(project).sentence
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\n    no_scm = true\n")
    use(root, grpo="tiny_smoke", task="structured", seed=None)
    code, said = said_by_verdict(root, monkeypatch)
    assert code == 6 and f"structured: {NO_VERDICT}" in said and sentence not in said
    done = in_a_process(root, "dvc", "repro", "-s", "fingerprint")
    assert done.returncode == 0, done.stderr
    done = called(root, "verdict")
    assert done.returncode == 6 and not done.stdout, done.stdout
    assert f"structured: {NO_VERDICT}" in done.stderr and "Fix: ./run repro" in done.stderr
    assert "IMPROVED" not in done.stdout + done.stderr
    for path in (each for each in (root / "evidence").rglob("*") if each.is_file()):
        assert sentence not in path.read_text("utf-8", "replace"), path
    assert f"structured: {NO_VERDICT}" in (root / "evidence/README.md").read_text()
    assert NO_VERDICT in (root / place_of("report.html")).read_text()
    assert json.loads((root / place_of("metrics.json")).read_text()) == {"verdict": None, "p": None}
    assert not (root / place_of("figures")).exists() and not (root / place_of("claim.json")).exists()
    assert in_a_process(root, "dvc", "metrics", "show").returncode == 0


SETTINGS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"train__learning_rate": 0.5}, "train.learning_rate is 0.5"),
    ({"seed": 7}, "seed is 7, and 0 is what"),
    ({"train__lora__r": 8}, "train.lora.r is 8"),
    ({"claim__smallest_effect_points": 3.0}, "smallest_effect_points"),
    ({"claim__controls": ["aa"]}, "controls"),
    ({"evaluation__items": 19}, "evaluation.items is 19"),
    ({"evaluation__draws": 3}, "evaluation.draws is 3"),
    ({"base__seed": 5}, "base.seed is 5"),
    ({"base__warm_start__drills__steps": 3}, "base.warm_start.drills.steps is 3"),
    ({"task__max_turns": 7}, "task.max_turns is 7"),
    ({"generation__temperature": 0.7}, "generation.temperature is 0.7"),
    ({"validation__items": 11}, "validation.items is 11"),
    ({"dataset__audit__no_gold": "drop"}, "dataset.audit.no_gold is drop"),
    ({"health__kl__red": 2.0}, "health.kl.red is 2.0"),
)


def test_each_setting_that_decided_the_claim_takes_it_away_when_it_is_changed(project: Project) -> None:
    path = project.root / "params.yaml"
    was = path.read_bytes()
    for changes, said in SETTINGS:
        with pytest.raises(NoVerdictYet, match=NO_VERDICT) as caught:
            claim_at_hand(changed(project, **changes))
        assert said in str(caught.value) and caught.value.exit_code == 6, said
        path.write_bytes(was)
    assert differences(Project.open(project.root)) == []


def test_a_setting_of_packing_alone_takes_no_claim_away(project: Project) -> None:
    assert differences(changed(project, package__parity__prompts=5)) == []


@pytest.mark.parametrize("split", ["train", "validation", "heldout"])
def test_data_that_changed_since_have_no_verdict(project: Project, split: str) -> None:
    path = project.data(f"{split}.jsonl")
    path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))
    assert differences(project) == [f"data/collider/{split}.jsonl: not the data that were fingerprinted"]
    path.unlink()
    assert f"data/collider/{split}.jsonl" in differences(project)[0]


def test_another_file_among_the_data_has_no_verdict_yet(project: Project) -> None:
    shutil.copy(project.data("train.jsonl"), project.data("more.jsonl"))
    assert differences(project) == ["data/collider/more.jsonl: not among the fingerprinted data"]


def test_new_data_that_were_fingerprinted_have_no_verdict(project: Project) -> None:
    sums, path = project.data("SHA256SUMS"), project.data("train.jsonl")
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[1:]))
    kept = [line for line in sums.read_text().split("\n") if line and not line.endswith("  train.jsonl")]
    sums.write_text("\n".join([*kept, f"{hashlib.sha256(path.read_bytes()).hexdigest()}  train.jsonl", ""]))
    fingerprint.run(project)
    lock(project)  # as if everything had been recorded, the claim still says which data it is about
    found = differences(project)
    assert len(found) == 1 and found[0].startswith("the claim is about the dataset ")


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("base.json", {"digest": "b" * 64}, "the claim is about the base"),
        ("train.json", {"base_digest": "b" * 64}, "the claim is about the base"),
        ("train.json", {"policy_digest": "c" * 64}, "the claim is about the policy"),
        ("claim.json", {"before_policy": "d" * 64}, "the claim is about the base"),
        ("claim.json", {"after_policy": "d" * 64}, "the claim is about the policy"),
    ],
)
def test_a_base_or_policy_that_is_another_has_no_verdict_even_where_all_was_recorded(
    project: Project, name: str, changes: dict[str, Any], said: str
) -> None:
    edited(project, name, **changes)
    lock(project)
    found = differences(project)
    assert found and all(each.startswith(said) for each in found)


def test_a_plan_that_was_edited_everywhere_is_not_that_of_the_settings(project: Project) -> None:
    plan = json.loads(project.results("claim_plan.json").read_text()) | {"alpha": 0.2}
    edited(project, "claim_plan.json", alpha=0.2)
    edited(project, "claim.json", plan=plan)
    lock(project)
    assert differences(project) == ["the plan of the claim has alpha 0.2, and the settings ask for 0.05"]


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("claim_plan.json", {"alpha": 0.2}, "the claim's plan is not the one that the settings ask for"),
        (
            "fingerprint.json",
            {"dataset_sha256": "e" * 64},
            "the claim's plan is about other data than fingerprint.json",
        ),
        ("base.json", {"digest": "b" * 64}, "base.json describes another base than the one that was trained"),
        ("pre_eval.jsonl", {"policy": "b" * 64}, "the base that was measured before is not the one"),
        (
            "post_eval.jsonl",
            {"policy": "c" * 64},
            "the policy measured after is not the one that was trained",
        ),
        (
            "train.json",
            {"policy_digest": "c" * 64},
            "the policy measured after is not the one that was trained",
        ),
    ],
)
def test_mixed_inputs_make_no_claim_and_rendering_by_hand_writes_so(
    undrawn: None, project: Project, name: str, changes: dict[str, Any], reason: str
) -> None:
    edited(project, name, **changes)
    claim = claim_at(project, KNOWN).claim
    assert claim.verdict == "NOT EVALUABLE" and reason in claim.reason
    if name == "claim_plan.json":  # for one of them: pages take their time
        render_evidence.run(project)
        assert json.loads(project.results("claim.json").read_text()) == claim.model_dump(mode="json")


def test_a_file_that_no_stage_wrote_has_no_verdict(project: Project) -> None:
    edited(project, "claim.json", n_items=1)
    assert differences(project) == [f"{folder_of('report')} is not what render_evidence wrote"]


def test_without_a_lock_nobody_knows_the_settings_of_the_training(project: Project) -> None:
    (project.root / "dvc.lock").unlink()
    assert "dvc.lock" in differences(project)[0]
    (project.root / "dvc.lock").write_text("schema: '2.0'\nstages: {}\n")
    assert "no fingerprint, base" in differences(project)[0]


def test_a_claim_that_says_why_nothing_can_be_read_is_shown(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited(project, "claim.json", verdict="NOT EVALUABLE", before_policy=UNREAD, after_policy=UNREAD)
    code, said = said_by_verdict(project.root, monkeypatch)
    assert differences(project) == [] and code == 5 and said.startswith("collider: NOT EVALUABLE: ")
    assert differences(changed(project, claim__smallest_effect_points=3.0)) != []


def test_a_damaged_claim_is_an_error_and_not_a_claim_that_is_missing(project: Project) -> None:
    project.results("claim.json").write_text("{")
    with pytest.raises(RecordError, match=r"claim\.json"):
        claim_at_hand(project)


@contextmanager
def served(folder: Path) -> Iterator[Callable[[str], tuple[int, str]]]:
    server = serve.open_server(folder, 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()

    def get(path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode("utf-8", "replace")
        connection.close()
        return found

    try:
        yield get
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


PAGES = (
    "/README.md",
    "/results/report/report.html",
    "/results/report/claim.json",
    "/results/report/metrics.json",
    "/results/report/summary.md",
    "/results/report/reports.json",
    "/results/report/plan_power.json",
    "/results/report/plots/rates.csv",
    "/results/report/figures/before_after_summary.png",
    "/results/report/sample_trajectories.md",
)


def test_a_served_folder_shows_no_claim_as_long_as_the_settings_are_others(project: Project) -> None:
    was = (project.root / "params.yaml").read_bytes()
    with served(project.root / "evidence") as get:
        assert [get(page)[0] for page in PAGES] == [200] * len(PAGES)
        assert NO_VERDICT not in get("/?files")[1] and "results/report/report.html" in get("/?files")[1]
        changed(project, seed=9)
        for page in PAGES:
            status, text = get(page)
            assert status == 409 and f"collider: {NO_VERDICT}" in text and "IMPROVED" not in text, page
        assert get("/results/report/REPORT.html")[0] in (404, 409)
        assert get("/results/REPORT/report.html")[0] in (404, 409)
        assert NO_VERDICT in get("/?files")[1] and "results/report/report.html" not in get("/?files")[1]
        assert get("/results/train/train.json")[0] == 200
        (project.root / "params.yaml").write_bytes(was)
        os.utime(project.root / "params.yaml", ns=(1, 1))
        assert get("/results/report/report.html")[0] == 200
    with served(project.root / "evidence/results") as get:
        assert get("/report/report.html")[0] == 200
        changed(project, train__steps=5)
        assert get("/report/report.html")[0] == 409


def test_the_live_page_leads_to_no_report_of_other_settings(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redraw, "draw_figures", lambda snapshot: {})  # nothing is asked of its curves
    page = project.root / "evidence/observed/live/index.html"
    for seed, leads in ((0, True), (3, False)):
        changed(project, seed=seed)
        redraw.draw(
            project.root, SnapshotReader(find_place(project.root)).read(), 5.0, claim=ClaimShown(project.root)
        )
        assert ("results/report/report.html" in page.read_text()) is leads


def test_watch_says_that_a_finished_training_had_other_settings(project: Project) -> None:
    def watched() -> str:
        return "\n".join(format_lines(SnapshotReader(find_place(project.root)).read()))

    manifest = {"params": project.params.model_dump(mode="json"), "finished": "2026-01-01T00:00:00Z"}
    project.observed("manifest.json").parent.mkdir(parents=True, exist_ok=True)
    project.observed("manifest.json").write_text(json.dumps(manifest))
    said = watched()
    assert "other settings" not in said and "data          collider" in said
    changed(project, train__learning_rate=0.5)
    assert "with other settings than those at hand (train)" in watched()


@pytest.mark.parametrize(
    "shown",
    [
        lambda project: readme.run(project.root, "# Commands\n"),
        lambda project: read_run(project.root, WORKSPACE, project.root / ".none"),
        lambda project: package.run(project),
    ],
    ids=["readme", "compare", "package"],
)
def test_readme_compare_and_package_refuse_a_claim_about_other_settings(
    project: Project, shown: Callable[[Project], Any]
) -> None:
    pages = [project.root / name for name in readme.PAGES]
    before = [page.read_bytes() for page in pages]
    with pytest.raises(NoVerdictYet, match=r"train\.learning_rate is 0\.5"):
        shown(changed(project, train__learning_rate=0.5))
    assert [page.read_bytes() for page in pages] == before and not (project.root / "dist").exists()


def test_the_own_package_is_pushed_only_with_the_claim_at_hand_and_any_other_speaks_for_itself(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tar = packaged(project, project.root / "dist")
    unpack(tar, tmp_path / "unpacked")
    monkeypatch.chdir(project.root)
    push.check_at_hand(tar, tmp_path / "unpacked")
    changed(project, seed=4)
    with pytest.raises(NoVerdictYet):
        push.check_at_hand(tar, tmp_path / "unpacked")
    push.check_at_hand(Path(shutil.copy(tar, tmp_path / "other.tar")), tmp_path / "unpacked")


def test_what_is_withdrawn_is_what_render_evidence_shows_and_comes_back_with_the_settings(
    undrawn: None, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(SHOWN) == set(render_evidence.WRITES)

    def shown() -> dict[str, bytes]:
        """Return every file that shows the claim, whole folders of them included."""
        found = [
            path for name in SHOWN for path in ((project.root / name), *(project.root / name).rglob("*"))
        ]
        return {
            path.relative_to(project.root).as_posix(): path.read_bytes() for path in found if path.is_file()
        }

    render_evidence.run(project)
    lock(project)
    was = shown()
    assert {place_of("claim.json"), place_of("figures/forest.svg"), "evidence/README.md"} <= was.keys()
    withdraw_if_other(project)
    assert shown() == was
    text = (project.root / "params.yaml").read_bytes()
    said: list[str] = []
    monkeypatch.setattr(no_claim, "complain", said.append)
    withdraw_if_other(changed(project, seed=9))
    assert len(said) == 1 and "git checkout -- evidence" in said[0]
    assert not project.results("claim.json").exists() and project.results("pre_eval.jsonl").exists()
    (project.root / "params.yaml").write_bytes(text)
    assert said_by_verdict(project.root, monkeypatch)[0] == 6
    render_evidence.run(Project.open(project.root))
    assert shown() == was and differences(project) == []


def test_a_task_is_called_by_its_data_wherever_a_person_reads_it(
    undrawn: None, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = project.inputs("heldout").heldout.digest
    project.data("").rename(project.root / "data/t3_tools")
    project = changed(project, dataset__root="data/t3_tools")
    fingerprint.run(project)
    assert project.inputs("heldout").heldout.digest == digest  # where data lie is not what they are
    render_evidence.run(project)
    lock(project)
    code, said = said_by_verdict(project.root, monkeypatch)
    assert code == 0 and said.startswith("t3_tools: "), said
    report = project.results("report.html").read_text()
    assert (
        "<h1>assay: t3_tools, before and after GRPO</h1>" in report and "t3_tools (a collider task)" in report
    )
    assert (project.root / "evidence/README.md").read_text().startswith("# Evidence: t3\\_tools\n")
    unpack(packaged(project, tmp_path / "dist"), tmp_path / "unpacked")
    card = (tmp_path / "unpacked/README.md").read_text().replace("\\_", "_")
    assert (
        "# GRPO adapter for the task t3_tools" in card
        and "assay-t3_tools" in card
        and "assay-collider" not in card
    )


@pytest.mark.parametrize("root", ["data/t3_tools", "data/t3_tools/", "./data/t3_tools/.", "t3_tools"])
def test_a_folder_has_one_name_however_it_is_written(made: Project, root: str) -> None:
    settings = made.params.dataset.model_dump() | {"root": root}
    assert DatasetSettings.model_validate(settings).name == "t3_tools"


@pytest.mark.parametrize(("now", "n"), [(True, 0), (False, 1)])
def test_a_setting_that_came_later_and_is_as_by_default_makes_no_other_settings(now: bool, n: int) -> None:
    ran = {"pre_eval": {"params": {"params.yaml": {"evaluation": {"items": 3}}}}}
    others = {"evaluation": {"items": 3} | ({} if now else {"open": now})}
    values = {"evaluation": {"items": 3, "open": now}}
    assert len(changed_settings(ran, values, others=others)) == n
    assert len(changed_settings(ran, values)) == 1, "where nobody knows what is the default"


def test_what_ran_with_null_ran_with_something() -> None:
    ran = {"base": {"params": {"params.yaml": {"generation": {"drafts": None}}}}}
    assert changed_settings(ran, {"generation": {"drafts": 0}}, others={}) != []
