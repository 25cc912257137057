"""A policy that was trained elsewhere: taken, judged, packed and checked; and what is refused of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from assay.core.config.settings import Params
from assay.core.errors import AssayError
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import dumps, read_record, write_json
from assay.package.verification.checks import Check
from assay.package.verification.levels import all_levels
from assay.pipeline import external
from assay.pipeline.external import take
from assay.pipeline.project import Project
from assay.rollout.dataset.external import ExternalFacts, NamedFound
from assay.stages.packing.archive import unpack
from assay.stages.post_eval import search_named
from assay.stages.render_evidence.claim_at import claim_at
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.warnings import of_external
from tests.verification.external_run import FOLDER, HOW, before_taking, brought, external_run, settings
from tests.verification.made_run import copied, looked_without_drawing, packaged

# Of peft, which looks at a property of transformers by its old name.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A whole run that names the train split as what the policy saw."""
    named = {"data/structured/train.jsonl": None}
    return external_run(tmp_path_factory.mktemp("external") / "run", named=named)


@pytest.fixture(scope="module")
def tar(run: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its package."""
    return packaged(run, tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run up to where an adapter is taken."""
    return before_taking(tmp_path_factory.mktemp("external") / "run").root


@pytest.fixture
def copy(ready: Path, tmp_path: Path) -> Path:
    """A copy of that but for the code, most of its files, to do with as a test likes."""
    return copied(ready, tmp_path / "copy")


def _claim(project: Project) -> Claim:
    return read_record(project.results("claim.json"), Claim, fix="")


def _taken(root: Path, **train: Any) -> None:
    settings(root, {"sha256": brought(root) if (root / FOLDER).is_dir() else "0" * 64, **train})
    project = Project.open(root)
    assert project.params.external is not None
    take(project.root, project.inputs("train"), project.params.external)


def _checks(tar: Path, work: Path) -> dict[tuple[str, str], Check]:
    root = work / "unpacked"
    unpack(tar, root)
    return {(each.level, each.name): each for each in all_levels(root, work / "work", processes=1)}


def test_the_claim_says_what_nobody_can_know_and_judges_all_the_same(run: Project) -> None:
    claim = _claim(run)
    assert claim.verdict == "NO EVIDENCE"  # of 20 items no more can be shown
    assert claim.training_seeds == () and claim.sentence.endswith(
        "Trained elsewhere; this checkpoint against this base."
    )
    assert {"trained_elsewhere", "plan_before_measuring"} <= {each.code for each in claim.warnings}
    assert any(HOW.split(",")[0] in each for each in map(str, claim.warnings))
    assert any("data/structured/train.jsonl" in each for each in map(str, claim.warnings))
    facts = json.loads(run.results("train.json").read_text())
    assert not {"steps", "seed", "chosen_step", "alarms", "health", "chain"} & set(facts)
    assert json.loads(run.results("metrics.json").read_text()).keys().isdisjoint({"step"})


def test_the_report_shows_no_training_and_quotes_its_maker_as_text(run: Project) -> None:
    page = run.results("report.html").read_text()
    assert "not known" in page and "&lt;b&gt;60&lt;/b&gt;" in page and "<b>60</b>" not in page
    assert "GRPO, 6 steps" not in page and not run.results("figures/training_curve.png").exists()
    landing = (run.root / "evidence/README.md").read_text()
    assert "training_log.csv" not in landing and "named_data.json" in landing


def test_every_check_of_its_package_passes_but_those_of_a_training(tar: Path, tmp_path: Path) -> None:
    found = _checks(tar, tmp_path)
    assert not [each for each in found.values() if each.outcome == "failed"]
    idle = {name for (_, name), each in found.items() if each.outcome == "not shown"}
    assert idle == {"draws", "steps", "training items", "checkpoint", "alarms"}


def _another_adapter(root: Path) -> None:
    path = root / "models/adapter/adapter_model.safetensors"
    arrays = load(path.read_bytes())
    path.write_bytes(save({name: 2 * array for name, array in arrays.items()}, metadata={"format": "pt"}))


def _another_reward(root: Path) -> None:
    path = root / "evidence/results/post_eval/post_eval.jsonl"
    lines = path.read_text().splitlines()
    told = json.loads(lines[0])
    told["success"] = not told["success"]
    path.write_text("\n".join([dumps(told), *lines[1:]]) + "\n")


def _another_story(root: Path) -> None:
    path = root / "evidence/results/train/train.json"
    facts = json.loads(path.read_text())
    write_json(path, facts | {"how": "by a model of ours"})


def _a_log(root: Path) -> None:
    (root / "evidence/logs/train/train_log.jsonl").write_text('{"step":1}\n')


@pytest.mark.parametrize(
    ("changes", "caught"),
    [
        (
            (_another_adapter, _another_reward, _a_log),  # each is caught by checks of its own
            {
                *(("V3", "adapter"), ("V3", "base and adapter")),
                ("V2", "post_eval.jsonl"),
                ("V1", "training tables"),
            },
        ),
        ((_another_story,), {("V3", "adapter"), ("V1", "claim")}),
    ],
)
def test_what_was_changed_is_caught(
    changes: Sequence[Any],
    caught: set[tuple[str, str]],
    tar: Path,
    tmp_path: Path,
    figures_of: Callable[[Path], None],
) -> None:
    root = tmp_path / "unpacked"
    unpack(tar, root)
    figures_of(root)
    for change in changes:
        change(root)
    if any(name == "claim" for _, name in caught):
        found = list(all_levels(root, tmp_path / "work", processes=1))
    else:  # what draws nothing is enough
        found = looked_without_drawing(root, tmp_path / "work")
    assert caught <= {(each.level, each.name) for each in found if each.outcome == "failed"}


def test_heldout_records_among_the_named_data_bar_the_claim(run: Project, tmp_path: Path) -> None:
    lines = run.data("heldout.jsonl").read_text().splitlines()[:20]
    rows = [{"messages": [{"role": "user", "content": text}]} for text in map(_asked, lines)]
    leaky = "\n".join([*lines[:10], *map(json.dumps, rows[10:])])
    project = external_run(tmp_path / "run", named={"elsewhere/leaky.jsonl": leaky}, rendered=False)
    claim = claim_at(project).claim
    assert claim.verdict == "NOT EVALUABLE" and "In the training data that were named" in claim.reason
    found = read_record(project.results("named_data.json"), NamedFound, fix="")
    assert found.files[0].n_records == 20
    assert "prompt" in {each.kind for each in found.shared.overlaps}


def _asked(line: str) -> str:
    row = json.loads(line)
    return f"{row['prompt']} {row['context']}"


def test_data_that_nobody_named_are_said_to_be_unknown(ready: Path, copy: Path) -> None:
    project = Project.open(copy)
    search_named(project, project.inputs("heldout", "secondary"))
    found = read_record(project.results("named_data.json"), NamedFound, fix="")
    assert found.files == () and found.shared.overlaps == ()
    assert "no_data_named" in {each.code for each in of_external("", [])}


def test_what_is_taken_is_a_copy_of_the_very_files(copy: Path) -> None:
    _taken(copy)
    for path in (copy / FOLDER).iterdir():
        assert (copy / "models/adapter" / path.name).read_bytes() == path.read_bytes()
    facts = read_record(copy / "evidence/results/train/train.json", ExternalFacts, fix="")
    assert facts.sha256 == brought(copy) and facts.how == HOW


def _of_another_base(root: Path) -> None:
    path = root / FOLDER / "adapter_model.safetensors"
    arrays = load(path.read_bytes())
    wider = {
        name: np.concatenate([array, array], axis=1) if ".lora_A." in name else array
        for name, array in arrays.items()
    }
    path.write_bytes(save(wider, metadata={"format": "pt"}))


def _no_folder(root: Path) -> None:
    shutil.rmtree(root / FOLDER)


def _no_weights(root: Path) -> None:
    (root / FOLDER / "adapter_model.safetensors").unlink()


def _a_link_out(root: Path) -> None:
    path = root / FOLDER / "adapter_model.safetensors"
    path.rename(root / "elsewhere/weights")
    path.symlink_to("../weights")


def _not_a_number(root: Path) -> None:
    path = root / FOLDER / "adapter_model.safetensors"
    arrays = {name: np.full_like(array, np.nan) for name, array in load(path.read_bytes()).items()}
    path.write_bytes(save(arrays, metadata={"format": "pt"}))


def _no_lora(root: Path) -> None:
    path = root / FOLDER / "adapter_config.json"
    write_json(path, json.loads(path.read_text()) | {"peft_type": "IA3"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_no_folder, "a folder with an adapter or a model"),
        (_no_weights, "a readable file"),
        (_a_link_out, "a link that leaves"),
        (_of_another_base, "an adapter of this base"),
        (_not_a_number, "NaN or Inf"),
        (_no_lora, "peft_type LORA"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_one_message_and_nothing_is_lost(
    change: Any, said: str, copy: Path
) -> None:
    (copy / "models/adapter").mkdir()
    (copy / "models/adapter/kept").write_text("of before")
    change(copy)
    with pytest.raises(AssayError) as refused:
        _taken(copy)
    assert said in str(refused.value) and "Fix: " in str(refused.value)
    assert (copy / "models/adapter/kept").read_text() == "of before"


def test_other_files_than_those_that_were_meant_are_refused_with_their_digest(copy: Path) -> None:
    with pytest.raises(AssayError, match=brought(copy)):
        _taken(copy, sha256="0" * 64)


@pytest.mark.parametrize(
    ("text", "sha256", "said"),
    [
        (None, "0" * 64, "a readable file"),
        ("{}\n", "0" * 64, "a file of sha256"),
        ("no JSON\n", None, "a JSON object a line"),
    ],
)
def test_named_data_that_cannot_be_searched_are_refused(
    text: str | None, sha256: str | None, said: str, copy: Path
) -> None:
    path = copy / "elsewhere/seen.jsonl"
    if text is not None:
        path.write_text(text)
    found = sha256 or sha256_bytes(path.read_bytes())
    settings(copy, {"sha256": brought(copy), "data": [{"file": "elsewhere/seen.jsonl", "sha256": found}]})
    with pytest.raises(AssayError, match=said):
        again = Project.open(copy)
        search_named(again, again.inputs("heldout", "secondary"))


@pytest.mark.parametrize(
    ("claim", "fix"),
    [
        ({"checkpoint_rule": "last"}, "checkpoint_rule: chosen elsewhere"),
        ({"controls": ["aa", "random_reward"]}, "controls: [aa]"),
        ({"seeds": [0, 1]}, "seeds: [0]"),
    ],
)
def test_settings_that_ask_what_nobody_can_do_are_refused(
    claim: dict[str, Any], fix: str, copy: Path
) -> None:
    settings(copy, {"sha256": "0" * 64}, **claim)
    with pytest.raises(AssayError) as refused:
        Project.open(copy)
    assert fix in str(refused.value)


def test_who_asks_for_the_steps_of_it_is_told_that_there_are_none(copy: Path) -> None:
    params: Params = Project.open(copy).params
    with pytest.raises(AssayError, match=r"train\.kind: external"):
        params.train.steps  # noqa: B018


def test_an_adapter_with_a_template_of_its_own_is_told_that_it_is_not_used(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(external, "complain", said.append)
    sha256, template = brought(copy), copy / FOLDER / "chat_template.jinja"
    template.write_text((copy / "models/base/chat_template.jinja").read_text() + "\n")
    _taken(copy, sha256=sha256)
    assert not any("chat_template.jinja" in each for each in said)
    template.write_text("{{ messages[0].content }}")
    _taken(copy, sha256=sha256)
    assert any("chat_template.jinja beside the adapter is not the base's" in each for each in said)
