"""`assay evaluate` measures any policy on any tasks file, exactly as the stages would, and says clearly what
it cannot."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file
from typer.testing import CliRunner, Result

from assay.cli import app
from assay.cli.tools import evaluate as tool
from assay.core.decoding import Decoding
from assay.core.errors import AssayError
from assay.core.records import Episode
from assay.core.storage.json import read_records
from assay.rollout.dataset.suite import choose
from assay.rollout.evaluation.measure import measure
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.policy.base import pretrained, tiny
from assay.rollout.policy.model import load
from assay.verdict.statistics.report import report_on
from assay_tasks.collider import Collider, ColliderSettings
from tests.house import ROOT
from tests.small_policy import small_model

TASK = Collider(ColliderSettings(surface="compact", max_turns=10, shaping=0.0, gamma=1.0))
HELDOUT = "data/collider/heldout.jsonl"
MINE = ("--policy", "models/base", "--task", "structured")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SCHEMA |= {"additionalProperties": False}

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)


def evaluate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def done(*arguments: str | Path) -> str:
    """Evaluate and return what was said, which goes past a runner: the console holds on to the terminal it
    began with."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tool, "say", said.append)
        patched.setattr(tool, "complain", said.append)
        result = evaluate(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return "\n".join(said)


def refused(*arguments: str | Path) -> str:
    result = evaluate(*arguments)
    assert result.exit_code == 1 and isinstance(result.exception, AssayError), result.output
    return str(result.exception)


def written(out: Path) -> tuple[list[Episode], dict[str, Any]]:
    report = json.loads((out / "report.json").read_text())
    return read_records(out / "episodes.jsonl", Episode, fix=""), report


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a tiny untrained base, the same base behind a pointer, and an adapter that names it."""
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

    root = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "configs", root / "configs")
    shutil.copytree(ROOT / "data", root / "data")
    shutil.copy(ROOT / "params.yaml", root)
    tokenizer = tiny.build_tokenizer(TASK.vocabulary())
    model = small_model(tokenizer)
    model.save_pretrained(root / "models/base")
    tokenizer.save_pretrained(root / "models/base")
    pretrained.write_pointer(root / "models/pinned", pretrained.resolve(str(root / "models/base"), None))
    settings = LoraConfig(r=2, init_lora_weights=False, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(model, settings)
    adapter = root / "models/adapter"
    adapted.save_pretrained(adapter)
    save_file(
        get_peft_model_state_dict(adapted), adapter / "adapter_model.safetensors", metadata={"format": "pt"}
    )
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(
        json.dumps(config | {"base_model_name_or_path": "models/base"})
    )
    return root


@pytest.fixture(autouse=True)
def project(built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(built)
    return built


def test_a_split_of_the_project_is_played_as_the_stages_play_it(tmp_path: Path) -> None:
    text = done("--tasks", HELDOUT, "--policy", "models/base", "--items", 6, "--draws", 3, "--out", tmp_path)
    episodes, report = written(tmp_path)
    items = [TASK.item(json.loads(line)) for line in Path(HELDOUT).read_text().splitlines()]
    policy = load(Path("models/base"), adapter=None, device="cpu", dtype="float32", quantization=None)
    suite = choose(items, 6, split="heldout", draws=3, seed=0)
    expected = measure(policy, TASK, suite.plays(), Decoding(0.7, 8), pace=Pace(64))
    same = report_on(expected, suite, policy.digest, "sampled")
    assert episodes == [each.model_copy(update={"policy": policy.digest}) for each in expected]
    # Its suite knows the records of the file and the rules of the task, which the one made here does not; the
    # luck of intervals comes from its digest.
    found, known = report["report"], json.loads(same.model_dump_json())
    of_suite = {name: found[name] for name in ("suite_digest", "measures")}
    assert found == known | of_suite and found["measures"].keys() == known["measures"].keys()
    for name, each in found["measures"].items():
        assert (each["value"], each["n"]) == (known["measures"][name]["value"], known["measures"][name]["n"])
    assert report["best_of"]["k"] == 3 and report["best_of"]["success_rate"]["n"] == 6
    for word in (
        "success_rate",
        "mean_reward",
        "parsed_rate",
        "best of 3",
        "discovered_rate",
        "n = 18",
        "s an episode",
    ):
        assert word in text
    assert str(tmp_path) in text


def test_a_scripted_player_plays_as_in_a_claim_and_opens_nothing(tmp_path: Path, project: Path) -> None:
    ledger = project / "evidence/observed/heldout_openings.json"
    known = ledger.read_bytes() if ledger.exists() else b""
    text = done("--tasks", HELDOUT, "--player", "adaptive", "--items", 6, "--draws", 2, "--out", tmp_path)
    episodes, report = written(tmp_path)
    items = [TASK.item(json.loads(line)) for line in Path(HELDOUT).read_text().splitlines()]
    plays = choose(items, 6, split="heldout", draws=2, seed=0).plays()
    expected = play_baseline(TASK, TASK.baselines()["adaptive"], plays, "adaptive")
    assert episodes == [each.model_copy(update={"policy": "scripted:adaptive"}) for each in expected]
    assert "player adaptive on" in text and not [
        name for name in report["report"]["measures"] if "token" in name
    ]
    assert (ledger.read_bytes() if ledger.exists() else b"") == known


def test_time_is_written_apart_from_what_it_took(tmp_path: Path) -> None:
    done("--tasks", HELDOUT, "--policy", "models/base", "--items", 2, "--draws", 1, "--out", tmp_path)
    assert json.loads((tmp_path / "clock.json").read_text())["episodes"] == 2
    assert "seconds" not in (tmp_path / "report.json").read_text()


def test_an_adapter_is_played_on_the_base_it_names_and_a_pointer_is_followed(tmp_path: Path) -> None:
    for name in ("base", "pinned", "adapter"):
        policy = ("--policy", f"models/{name}", "--out", tmp_path / name)
        done("--tasks", HELDOUT, "--items", 4, "--draws", 2, *policy)
    base, pinned, adapter = (written(tmp_path / name)[0] for name in ("base", "pinned", "adapter"))
    assert base == pinned
    assert [e.seed for e in base] == [e.seed for e in adapter] and base != adapter


def test_greedy_is_one_draw_and_the_same_whatever_the_batch(tmp_path: Path) -> None:
    common = ("--tasks", HELDOUT, "--policy", "models/base", "--items", 4, "--greedy")
    text = done(*common, "--out", tmp_path / "one")
    done(*common, "--batch-size", 1, "--out", tmp_path / "two")
    assert (tmp_path / "one/episodes.jsonl").read_bytes() == (tmp_path / "two/episodes.jsonl").read_bytes()
    assert written(tmp_path / "one")[1]["report"]["decoding"] == "greedy"
    assert "greedy" in text and "best of" not in text


def test_seed_temperature_and_token_limit_are_those_that_were_asked_for(tmp_path: Path) -> None:
    common = ("--tasks", HELDOUT, "--policy", "models/base", "--items", 4, "--draws", 2)
    done(*common, "--out", tmp_path / "plain")
    plain, _ = written(tmp_path / "plain")
    asked = (
        ("seed", ("--seed", 5)),
        ("temperature", ("--temperature", 0.5)),
        ("limit", ("--max-new-tokens", 1)),
    )
    for name, more in asked:
        done(*common, *more, "--out", tmp_path / name)
        assert written(tmp_path / name)[0] != plain
    assert all(turn.n_tokens == 1 for episode in written(tmp_path / "limit")[0] for turn in episode.turns)


def test_without_out_each_question_has_a_folder_of_its_own_and_says_which(project: Path) -> None:
    common = ("--tasks", HELDOUT, "--policy", "models/base", "--items", 2, "--draws", 1)
    for more in ((), ("--temperature", 0.5)):
        text = done(*common, *more)
        assert ".scratch/evaluate/collider-heldout-base-k1-" in text
    assert len(list((project / ".scratch/evaluate").iterdir())) == 2


def test_rows_of_another_task_are_read_with_schemas_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/n.json").write_text(json.dumps(SCHEMA))
    rows = [{"prompt": f"Say {k}.", "schema_path": "schemas/n.json", "gold": {"n": k}} for k in range(3)]
    (tmp_path / "mine.jsonl").write_text("\n" + "".join(json.dumps(row) + "\n" for row in rows))
    asked = (*MINE, "--tasks", tmp_path / "mine.jsonl", "--draws", 2)
    text = done(*asked, "--out", tmp_path / "out")
    episodes, report = written(tmp_path / "out")
    assert len(episodes) == 6 and report["report"]["split"] == "tasks"
    assert "schema_valid_rate" in text and "metric.field_f1" in text
    assert len({episode.cluster for episode in episodes}) == 3


def test_a_blocklist_of_ones_own_is_matched(tmp_path: Path) -> None:
    row = {"prompt": "Say 1.", "schema": SCHEMA, "gold": {"n": 1}}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "terms.txt").write_text("# none of these\nword\n")
    asked = (*MINE, "--tasks", tmp_path / "mine.jsonl", "--draws", 1)
    done(*asked, "--blocklist", tmp_path / "terms.txt", "--out", tmp_path / "out")
    assert written(tmp_path / "out")[0][0].flags["blocked"] is False
    assert "missing.txt" in refused(*asked, "--blocklist", tmp_path / "missing.txt")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tasks", "missing.jsonl", "--policy", "models/base"], ["missing.jsonl", "No such file"]),
        (["--tasks", HELDOUT, "--policy", "models/none"], ["models/none", "nothing there", "./run repro"]),
        (["--tasks", HELDOUT, "--policy", "params.yaml"], ["params.yaml", "a file"]),
        (["--tasks", HELDOUT, "--policy", "configs"], ["configs", "config.json", "adapter_config.json"]),
        (
            ["--tasks", HELDOUT, "--policy", "models/base", "--draws", "2", "--best-of", "3"],
            ["--best-of", "2 draws"],
        ),
        (["--tasks", HELDOUT, "--policy", "models/base", "--items", "513"], ["--items", "512 items", "513"]),
        (
            ["--tasks", HELDOUT, "--policy", "models/base", "--greedy", "--draws", "2"],
            ["--draws", "one draw"],
        ),
        (
            ["--tasks", HELDOUT, "--policy", "models/base", "--greedy", "--best-of", "2"],
            ["--best-of", "leave"],
        ),
        (
            ["--tasks", HELDOUT, "--policy", "models/base", "--temperature", "0"],
            ["--temperature", "--greedy"],
        ),
        (
            ["--tasks", HELDOUT, "--policy", "models/base", "--task", "strucured"],
            ["structured", "did you mean"],
        ),
        (
            ["--tasks", HELDOUT, "--policy", "models/base", "--task", "structured"],
            ["structured", "512 lines", "--task"],
        ),
        (["--tasks", HELDOUT, "--policy", "models/base", "--blocklist", "x"], ["--blocklist", "collider"]),
        (["--tasks", HELDOUT, "--policy", "models/base", "--surface", "xml"], ["--surface", "xml"]),
        (["--tasks", HELDOUT, "--player", "constant"], ["--player", "adaptive or always_null"]),
        (["--tasks", HELDOUT, "--player", "random", "--policy", "models/base"], ["--player", "leave one"]),
    ],
)
def test_what_cannot_be_measured_is_refused_with_its_place_and_a_way_on(
    arguments: list[str], words: list[str]
) -> None:
    text = refused(*arguments)
    for word in [*words, "Fix: "]:
        assert word in text


def empty(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("{}")


def names_nothing(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "models/gone"}')


def is_broken(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("{")


@pytest.mark.parametrize("spoil", [empty, names_nothing, is_broken])
def test_an_adapter_without_a_base_is_refused_by_name(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(tmp_path)
    assert "adapter_config.json" in refused("--tasks", HELDOUT, "--policy", tmp_path, "--items", 1)


def test_an_empty_tasks_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    assert "found none" in refused("--tasks", tmp_path / "empty.jsonl", "--policy", "models/base")


def test_nothing_but_the_out_folder_and_the_ledger_of_openings_is_written(
    project: Path, tmp_path: Path
) -> None:
    def files() -> dict[str, float]:
        there = [path for path in project.rglob("*") if path.is_file() and "openings" not in str(path)]
        return {str(path): os.stat(path).st_mtime for path in there}

    before = files()
    done("--tasks", HELDOUT, "--policy", "models/base", "--items", 2, "--draws", 1, "--out", tmp_path)
    assert files() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clock.json", "episodes.jsonl", "report.json"]
