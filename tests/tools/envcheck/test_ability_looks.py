"""`assay task check` looks at every ability of a task, and names the one that is not as it is used."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from assay.checks.envcheck import evidence
from assay.checks.envcheck.abilities import abilities, secondary_suites
from assay.checks.envcheck.case import Case
from assay.checks.envcheck.evidence import Evidence, spent
from assay.checks.findings import Deadline
from assay.core.config.composition import Selection, compose
from assay.core.config.settings import Params
from assay.pipeline.project import Project
from tests.house import ROOT

BROKEN = {
    "answer_key: solution of item": ('written("dig", row["lode"])', 'written("dig", 0)'),
    "answer_key: item": ("return action.split()[-1]", "return action"),
    "answer_key: solution knows": ('return written("dig", row["lode"])', "return None"),
    "answer_key: what fields returns": ('FieldAnswer(plot, str(row["lode"]), plot == str(row["lode"]))', "plot"),
    "schema: item": ('["probe", "dig"]}', '["probe"]}'),
    "teach: demonstrations: the vocabulary cannot write": ("*WORDS, *NOTES", "*WORDS[1:], *NOTES"),
    "teach: openings: the vocabulary cannot write": ("*WORDS, *NOTES,", "*WORDS,"),
    "teach: 32 dialogues": ("for act, plot in zip(rng", "for act, plot in [] and zip(rng"),
    "illustrate: item": ("list(range(self.plots + 1)),", "list(range(self.plots)),"),
    "illustrate: one of": ("GOLD if self.dug == self.lode else RUBBLE", '"found"'),
    "illustrate: item train-0001: spent": ('"digging": self.moves.count("dig")', '"digging": 9'),
    "batch_step: item": ("+ rubble\n", "+ rubble + 3 * (len(environments) > 1)\n"),
    "batch_step: IndexError": ("each._moved(*found, specks) for", "[each][len(reads) > 1]._moved(*found, specks) for"),
    "shape: the potential is": ("return max((1 - abs(plot - self.lode)", "return 1.0 or max((1 - abs(plot - self.lode)"),
    "records: oddity": ('[Oddity("type_spelling", "plots is a text")] if isinstance(row["plots"], str)',
                        '[Oddity("odd", "")] if row'),
    "records: item": ('row["note"][: -chars or None]', 'row["note"] + "!"'),
    "generate: equal chances": ("rng.integers(least, most)", "np.random.default_rng().integers(least, most)"),
    "generate: other chances": ("for _ in range(n)]\n", "for rng in [np.random.default_rng(7)] for _ in range(n)]\n"),
    "generate: it makes none": ("return [record(rng, *drawn(rng, *PLOTS)) for _ in range(n)]", "return None"),
    "flags and metrics: never said by Told: near": ('"near": off <= 1, ', ""),
    "flags and metrics: the alarm again rings": ("probes > len(self.probed)", "off == 0"),
    "flags and metrics: item": ('"in_field": True', '"in_field": False'),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _few_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "MOST_WORLDS", 6)


def seen_of(root: Path, old: str = "", new: str = "", *secondary: str) -> Evidence:
    """Return an examination of the example, with a piece of its code changed."""
    shutil.copytree(ROOT / "tasks/lode", root / "tasks/lode")
    shutil.copytree(ROOT / "data/lode", root / "data/lode")
    path = root / "tasks/lode/task.py"
    code = path.read_text()
    assert old in code
    path.write_text(code.replace(old, new, 1) if old else code)
    values = dict(compose(ROOT, Selection("tiny", "lode", 0)).values)
    values["dataset"] = values["dataset"] | {"cache": None, "secondary": list(secondary or ("wide",))}
    return Evidence(Case.of(Project(root, Params.model_validate(values))), Deadline(60.0, spent))


def test_the_example_has_every_ability_and_all_are_well(tmp_path: Path) -> None:
    seen = seen_of(tmp_path)
    found = abilities(seen)
    every = "answer_key, schema, teach, illustrate, batch_step, shape, records, generate, flags and metrics"
    assert (found.level, found.found) == ("ok", every)
    assert secondary_suites(seen).level == "ok"


@pytest.mark.parametrize("said", BROKEN)
def test_an_ability_that_is_not_as_it_is_used_is_named(said: str, tmp_path: Path) -> None:
    old, new = BROKEN[said]
    found = abilities(seen_of(tmp_path, old, new))
    assert found.level == "fault" and said in found.found


@pytest.mark.parametrize(
    ("names", "level", "said"),
    [
        (("train",), "fault", "512 of 512 records among train"),
        (("gone",), "fault", "gone"),
        (("heldout",), "ok", ""),
    ],
)
def test_a_secondary_suite_of_train_records_or_without_a_file_is_a_fault(
    names: tuple[str, ...], level: str, said: str, tmp_path: Path
) -> None:
    found = secondary_suites(seen_of(tmp_path, "", "", *names))
    assert found.level == level and said in found.found


@pytest.mark.parametrize("task", ["collider", "structured"])
def test_the_shipped_tasks_pass_the_same_looks(task: str) -> None:
    values = dict(compose(ROOT, Selection("tiny", task, 0)).values)
    found = abilities(Evidence(Case.of(Project(ROOT, Params.model_validate(values))), Deadline(60.0, spent)))
    had = {"collider": "teach, illustrate", "structured": "answer_key, schema, teach"}
    assert (found.level, found.found) == ("ok", had[task])
