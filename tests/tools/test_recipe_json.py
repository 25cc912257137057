"""recipe.json and the block of docs/results.md: what every training seed of a recipe showed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from assay.core.errors import RecordError
from assay.core.evidence_files import place_of
from assay.core.records import Interval
from assay.core.storage.files import write_text
from assay.core.storage.json import read_record, write_json, write_jsonl
from assay.package.publish import readme
from assay.package.recipe import recipe_file
from assay.package.recipe.compare import read_all
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.formatting import difference_text
from assay.verdict.evidence.recipe.records import BaseBuilt, SeedRun, SeedsTogether, record_failed
from assay.verdict.evidence.recipe.tables import compare_runs, seeds_block, skill_frame
from assay.verdict.evidence.words.remarks import remark
from tests.house import STAGES, reads_and_writes
from tests.tools.test_compare import BEFORE, RESULTS, write_lock, write_run

NO_NUMBERS: dict[str, None] = dict.fromkeys(("copy_accuracy", "parsed_rate", "success_rate"))


def test_the_code_shown_is_that_of_a_finished_seed_not_of_one_that_failed(
    six: dict[str, Path], tmp_path: Path
) -> None:
    stale = tmp_path / "seed9"
    shutil.copytree(six["seed0"], stale)
    lock = {"stages": recipe_file.read_stages(stale)}
    lock["stages"]["train"]["deps"] = [{"path": "src/assay/training", "md5": "0" * 32}]
    write_json(stale / "dvc.lock", lock)
    runs = [record_failed("seed9", 9, "a disk"), *(recipe_file.read_seed(copy) for copy in six.values())]
    found = recipe_file.combine_seeds("collider", "tiny", [stale, *six.values()], runs, (), one_sided=False)
    assert found.code_digest == entry_of(six).code_digest


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Six finished runs with greedy episodes and metrics, not to be changed."""
    root = tmp_path_factory.mktemp("six")
    found = {}
    for seed in range(6):
        copy = found[f"seed{seed}"] = write_run(root / f"seed{seed}", seed)
        for name in ("pre_eval_greedy", "post_eval_greedy"):
            write_jsonl(copy / place_of(f"{name}.jsonl"), BEFORE)
        write_json(copy / place_of("metrics.json"), {"score": None})
        lock_again(copy)
    return found


def lock_again(copy: Path) -> None:
    """Record a run anew, after files were added to it."""
    write_lock(copy, YAML(typ="safe").load((copy / "params.yaml").read_text()))


def entry_of(copies: dict[str, Path], bases: Sequence[BaseBuilt] = ()) -> SeedsTogether:
    """Return the entry of finished runs."""
    runs = [recipe_file.read_seed(copy) for copy in copies.values()]
    return recipe_file.combine_seeds("collider", "tiny", list(copies.values()), runs, bases, one_sided=False)


def test_the_verdict_over_seeds_is_that_of_compare(six: dict[str, Path], tmp_path: Path) -> None:
    (expected,) = compare_runs(
        read_all(tmp_path, [str(copy) for copy in six.values()]), one_sided=False
    ).recipes
    entry = entry_of(six)
    assert entry.recipe is not None and entry.verdict == expected.verdict == "IMPROVED"
    for name in ("difference", "p", "probability_of_improvement", "sentence", "error_of_items_points"):
        assert getattr(entry.recipe, name) == getattr(expected, name)


def test_each_task_keeps_its_entry_when_the_other_is_run(six: dict[str, Path], tmp_path: Path) -> None:
    one = entry_of(six)
    recipe_file.write_recipe(tmp_path, one)
    recipe_file.write_recipe(tmp_path, one.model_copy(update={"task": "structured", "preset": "other"}))
    assert {task: entry.preset for task, entry in recipe_file.read_recipes(tmp_path).items()} == {
        "collider": "tiny",
        "structured": "other",
    }
    assert set(json.loads((tmp_path / recipe_file.FILE).read_text())["recipes"]) == {"collider", "structured"}


def test_a_damaged_recipe_json_is_refused_and_stays(six: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / RESULTS).mkdir(parents=True)
    (tmp_path / recipe_file.FILE).write_text('{"recipes": {"collider": {}}}')
    with pytest.raises(RecordError):
        recipe_file.write_recipe(tmp_path, entry_of(six))
    assert (tmp_path / recipe_file.FILE).read_text() == '{"recipes": {"collider": {}}}'


def test_a_recipe_json_of_an_earlier_version_is_read_and_its_texts_are_quoted(
    six: dict[str, Path], tmp_path: Path
) -> None:
    refused = BaseBuilt(base_seed=3, passed=False, reasons=(remark("failed", found="x"),), **NO_NUMBERS)
    entry = entry_of(six, [refused])
    old = json.loads(entry.model_dump_json())
    one = old["recipe"]
    for told in (old, one, *old["runs"], *old["bases"]):
        del told["reasons"]
        told |= {"reason": "as it was"} | ({"warnings": []} if "warnings" in told else {})
    del one["primary"], one["cluster_name"]
    old |= {"sentence": "It improves.", "notes": ["a note"]}
    one |= {"sentence": "It improves.", "registered": False, "registration": "why", "warnings": ["a", "b"]}
    write_json(tmp_path / recipe_file.FILE, {"recipes": {"collider": old}})
    read = recipe_file.read_recipes(tmp_path)["collider"]
    assert read.recipe is not None
    quoted = {text: remark("earlier_words", text=text) for text in ("as it was", "a note", "why", "a", "b")}
    assert read.reasons == read.recipe.reasons == read.runs[5].reasons == (quoted["as it was"],)
    assert read.bases[0].reasons == (quoted["as it was"],)
    assert (read.recipe.registration, read.remarks) == (
        quoted["why"],
        (quoted["a"], quoted["b"], quoted["a note"]),
    )
    assert "improves held-out primary metric: +" in read.sentence and "24 clusters" in read.sentence
    recipe_file.write_recipe(tmp_path, read)
    assert recipe_file.read_recipes(tmp_path) == {"collider": read}


@pytest.mark.parametrize(
    ("place", "value"), [("runs", 3), ("recipe", "x"), ("notes", [4]), ("reason", None), ("bases", [[]])]
)
def test_what_has_the_form_of_no_version_is_refused(
    six: dict[str, Path], tmp_path: Path, place: str, value: object
) -> None:
    old = json.loads(entry_of(six).model_dump_json()) | {"reason": "", "sentence": ""}
    write_json(tmp_path / recipe_file.FILE, {"recipes": {"collider": old | {place: value}}})
    with pytest.raises(RecordError, match=r"recipe\.json"):
        recipe_file.read_recipes(tmp_path)


def test_runs_that_are_not_one_recipe_make_no_claim(six: dict[str, Path], tmp_path: Path) -> None:
    other = write_run(tmp_path / "seed5", 5, rate_of_learning=0.01)
    for name in ("pre_eval_greedy.jsonl", "post_eval_greedy.jsonl", "metrics.json"):
        shutil.copy(six["seed5"] / place_of(name), other / place_of(name))
    lock_again(other)
    entry = entry_of(six | {"seed5": other})
    assert entry.recipe is None and entry.reasons == (remark("several_recipes", n=2),)


def test_a_block_says_when_it_is_of_other_code_than_the_last_run(six: dict[str, Path]) -> None:
    entry = entry_of(six)
    same = seeds_block(entry, "collider", entry.code_digest)
    assert "Made by code" not in same and same.startswith("**IMPROVED**, 6 training seeds, preset `tiny`.")
    assert f"Made by code {entry.code_digest[:12]}, not by" in seeds_block(entry, "collider", "f" * 64)
    again = seeds_block(entry, "collider", "f" * 64, entry.runs[3].policy_digest)
    assert "came to the policy of training seed" in again and "older or newer" not in again
    assert "older or newer" in seeds_block(entry, "collider", "f" * 64, "e" * 64)
    assert "is not known" in seeds_block(entry, "collider", None)
    assert seeds_block(None, "structured", None).startswith(
        "Not measured: `./run assay seeds --task structured`"
    )


def test_a_block_shows_every_seed_and_every_base(six: dict[str, Path]) -> None:
    refused = BaseBuilt(
        base_seed=3, passed=False, reasons=(remark("failed", found="copy_accuracy | 0.2"),), **NO_NUMBERS
    )
    rows = [
        line
        for line in seeds_block(entry_of(six, [refused]), "collider", None).split("\n")
        if line.startswith("| ")
    ]
    first = ["| training seed", "| ---", *(f"| {k}" for k in range(6)), "| base seed", "| ---", "| 3"]
    assert [row.split(" | ")[0] for row in rows] == first
    assert "no: \u201ccopy_accuracy \\| 0.2\u201d | missing" in rows[-1]


def test_the_code_digest_is_that_of_what_decides_numbers() -> None:
    def lock(**changes: str) -> dict[str, object]:
        known = {
            "src/assay/rollout/tasks": "a",
            "constraints.txt": "b",
            "data/collider/train.jsonl": "c",
            "models/base": "d",
        } | changes
        deps = [{"path": path, "md5": md5} for path, md5 in known.items()]
        return {
            "train": {"deps": deps},
            "render_evidence": {"deps": [{"path": "src/x", "md5": known.get("src/x")}]},
        }

    code, data = recipe_file.digest_deps(lock())
    assert recipe_file.digest_deps(lock(**{"models/base": "e"})) == (code, data)
    assert recipe_file.digest_deps(lock(**{"src/assay/rollout/tasks": "e"}))[0] != code
    changed = recipe_file.digest_deps(lock(**{"data/collider/train.jsonl": "e"}))
    assert changed[0] == code and changed[1] != data


def test_no_stage_reads_or_writes_recipe_json_so_a_package_is_a_function_of_the_run() -> None:
    parents = {recipe_file.FILE, *(str(folder) for folder in Path(recipe_file.FILE).parents)}
    for stage in STAGES:
        reads, writes = reads_and_writes(stage)
        assert not parents & {*reads, *writes}, stage


def test_readme_gets_its_blocks_and_keeps_the_rest(
    six: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readme.Project, "open", lambda root: root)
    claim = read_record(six["seed0"] / place_of("claim.json"), Claim, fix="-")
    # Whose claim it is, test_at_hand asks.
    monkeypatch.setattr(readme, "claim_at_hand", lambda project: claim)
    write_text(tmp_path / place_of("summary.md"), "the claim\n\nBefore and after (held-out):\n")
    recipe_file.write_recipe(tmp_path, entry_of(six))
    (tmp_path / "docs").mkdir()
    for page, names in readme.PAGES.items():
        blocks = "".join(f"{name}\n{'old'.join(readme.marks(name))}\n" for name in names)
        (tmp_path / page).write_text(f"top\n{blocks}")
    readme.run(tmp_path, "# Commands\n")
    assert (tmp_path / readme.CLI).read_text() == "# Commands\n"
    beside = f"* {len(claim.warnings)} warnings, the controls and every table: [docs/results.md]"
    start, end = readme.marks("headline")
    shown = (tmp_path / "README.md").read_text()
    assert shown.startswith(f"top\nheadline\n{start}**{claim.verdict}:** ")
    assert f"\n{beside}(docs/results.md).\n{end}\n" in shown
    page = tmp_path / "docs/results.md"
    text = page.read_text()
    assert text.startswith("top\nclaim\n") and "old" not in text.replace("older", "")
    assert "the claim\n\nBefore and after (held-out):\n" in text
    assert (
        "**IMPROVED**, 6 training seeds" in text
        and "Not measured: `./run assay seeds --task structured`" in text
    )
    readme.run(tmp_path, "# Commands\n")
    assert page.read_text() == text
    page.write_text(text.replace("<!-- end of claim -->", ""))
    with pytest.raises(RecordError):
        readme.run(tmp_path, "# Commands\n")


def test_a_failed_run_has_no_number_at_all() -> None:
    run = record_failed("a-seed3", 3, "the disk was full")
    numbers = {
        name: value for name, value in run if name not in ("name", "seed", "state", "reasons", "warnings")
    }
    assert not any(numbers.values()) and 0 not in numbers.values() and isinstance(run, SeedRun)


def test_where_a_seed_is_warned_of_silence_its_table_counts_no_answer_as_wrong(six: dict[str, Path]) -> None:
    change = Interval(value=-0.02, low=-0.06, high=0.02, n=372)
    told = {"flags": ["spin_correct"], "among": None, "before": 0.7, "after": 0.5, "changes": [change]}
    entry = entry_of(six)
    runs = [run.model_copy(update={"warnings": (remark("answered_only", **told),)}) for run in entry.runs[:1]]
    (row,) = skill_frame([*runs, *entry.runs[1:]]).to_dict("records")
    assert row == {
        "training seed": 0,
        "spin_acc, no answer as wrong: gain, points": difference_text(change, rate=True),
    }
