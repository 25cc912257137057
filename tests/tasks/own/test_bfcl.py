"""Function calls of a public benchmark: graded as its own checker does, split by function, nothing executed.

`PYTHONPATH=sets`, into which docs/public-tasks.md installs bfcl-eval, lets the tests of the package run.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import random
import sys
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.house import ROOT

FOLDER = ROOT / "tasks/bfcl"
PACKAGE = importlib.util.find_spec("bfcl_eval")
installed = pytest.mark.skipif(PACKAGE is None, reason="bfcl-eval is not installed")
Row = dict[str, Any]


@pytest.fixture(scope="module")
def task() -> types.ModuleType:
    """Return the file of the task."""
    return loaded("task")


def loaded(name: str) -> types.ModuleType:
    """Return a file of the task's folder, as a script there imports it."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def making(task: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Return the script that writes the records."""
    monkeypatch.setitem(sys.modules, "task", task)
    return loaded("make_data")


# --- a function of our own


def function(name: str, *required: str, **properties: Row) -> Row:
    """Return a description of a function as the benchmark has them."""
    schema = {"type": "dict", "properties": properties, "required": list(required)}
    return {"name": name, "description": "Does it.", "parameters": schema}


TEXT, WHOLE, TEXTS = {"type": "string"}, {"type": "integer"}, {"type": "array", "items": {"type": "string"}}
PAGES = {"type": "array", "items": {"type": "integer"}}
FURTHER: dict[str, Any] = {"tags": TEXTS, "note": {"type": "dict"}, "pages": PAGES}
BOOK = function("shop.book", "title", "copies", title=TEXT, copies=WHOLE, **FURTHER)
GOLD = {
    "shop.book": {
        "title": ["St. Ives", "Saint Ives"],
        "copies": [2],
        "tags": ["", ["a", "b"]],
        "note": ["", {"to": ["Ann"], "by": ["", "air"]}],
        "pages": ["", [1]],
    }
}
OURS: Row = {"function": [BOOK], "ground_truth": GOLD, "category": "simple_python"}
RIGHT = 'shop.book(title="St. Ives", copies=2)'


@pytest.mark.parametrize(
    ("said", "pays"),
    [
        (RIGHT, (0.1, 0.2, 0.2, 0.5)),
        ("[shop.book(copies=2, title='SAINT-IVES')]", (0.1, 0.2, 0.2, 0.5)),
        (RIGHT[:-1] + ", tags=['A', 'b.'], note={'to': 'ann'})", (0.1, 0.2, 0.2, 0.5)),
        (RIGHT[:-1] + ", note={'by': 'air'})", (0.1, 0.2, 0.2 * 2 / 3, 0.0)),
        (RIGHT[:-1] + ", tags=[])", (0.1, 0.2, 0.2, 0.5)),  # as the checker has it, where "" is accepted
        (RIGHT[:-1] + ", colour='red')", (0.1, 0.2, 0.2 * 2 / 3, 0.0)),
        ("shop.book(title='St. Ives', copies='2')", (0.1, 0.2, 0.1, 0.0)),
        ("shop.book(title='St. Ives')", (0.1, 0.2, 0.1, 0.0)),
        ("shop.book('St. Ives', 2)", (0.1, 0.2, 0.0, 0.0)),
        ("book(title='St. Ives', copies=2)", (0.1, 0.0, 0.0, 0.0)),
        (f"{RIGHT}, {RIGHT}", (0.0,) * 4),
        (f"I would call {RIGHT}.", (0.0,) * 4),
        ("", (0.0,) * 4),
        ("shop.book(" * 5000, (0.0,) * 4),
        ("[" * 5000 + "]" * 5000, (0.0,) * 4),
    ],
)
def test_a_call_is_paid_for_its_form_its_function_its_arguments_and_for_all_of_it(
    task: types.ModuleType, said: str, pays: tuple[float, ...]
) -> None:
    (found,) = task.reward(["?"], [said], function=[[BOOK]], ground_truth=[GOLD])
    assert tuple(found.values()) == pytest.approx(pays)


def test_nothing_of_a_completion_is_executed(task: types.ModuleType, tmp_path: Path) -> None:
    opened = f"open({str(tmp_path / 'made')!r}, 'w')"
    for said in (f"shop.book(title={opened}.name + '', copies=1 + 1)", f"shop.book(title=[{opened}][0])"):
        assert task.paid(said, [BOOK], GOLD)["right"] == 0
    assert not any(tmp_path.iterdir())


def test_the_answer_that_is_shown_is_right_and_the_shortest(task: types.ModuleType) -> None:
    row = {"function": [function("other"), BOOK], "ground_truth": GOLD}
    assert task.solution(row) == RIGHT
    assert task.answer(row, "shop.book(copies=2, title='st ives')") == RIGHT
    assert task.answer(row, "shop.book()") == "shop.book()"


def test_players_without_a_model_say_calls_and_copy_from_the_question(task: types.ModuleType) -> None:
    prompt = "Answer with one call of a function.\n\nshop.book: Does it.\n\nTwo, I mean 2, of 'St. Ives'."
    assert task.bare([BOOK]) == "shop.book()"
    assert task.copier([BOOK], prompt) == 'shop.book(title="Two", copies=2)'
    assert task.called(task.copier([function("f", "on", on={"type": "boolean"})], "?")) == ("f", {"on": True})


# --- the package


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Return rows of the benchmark, with their category."""
    making = loaded_making()
    return [row for name in making.LONGEST for row in making.rows_of(making.installed(), name)]


def loaded_making() -> types.ModuleType:
    """Return the script that writes the records, where no fixture of one test is at hand."""
    sys.modules["task"] = loaded("task")
    try:
        return loaded("make_data")
    finally:
        del sys.modules["task"]


@pytest.fixture(scope="module")
def checker() -> Callable[[str, Row], bool]:
    """Return what the benchmark says of a completion: its own reading of calls and its own AST checker.

    It asks its list of models whether one writes dots in names, and that list imports the libraries of a
    dozen services; here it says that dots are written. Its reading of calls is taken out of a file that
    imports as much.
    """
    assert PACKAGE is not None and PACKAGE.origin is not None
    config: Any = types.ModuleType("bfcl_eval.constants.model_config")
    config.MODEL_CONFIG_MAPPING = {"any": types.SimpleNamespace(underscore_to_dot=False)}
    sys.modules[config.__name__] = config
    from bfcl_eval.constants.enums import Language, ReturnFormat  # type: ignore[import-not-found,unused-ignore]
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # type: ignore[import-not-found,unused-ignore]

    source = ast.parse((Path(PACKAGE.origin).parent / "model_handler/utils.py").read_text(encoding="utf-8"))
    names = ("ast_parse", "resolve_ast_call", "resolve_ast_by_type")
    source.body = [each for each in source.body if isinstance(each, ast.FunctionDef) and each.name in names]
    reading: dict[str, Any] = {"ast": ast, "ReturnFormat": ReturnFormat}
    exec(compile(source, "utils.py", "exec"), reading)

    def says(completion: str, row: Row) -> bool:
        try:
            calls = reading["ast_parse"](completion)
            found = ast_checker(
                row["function"], calls, [row["ground_truth"]], Language.PYTHON, row["category"], "any"
            )
        except Exception:  # noqa: BLE001  a completion on which it ends is not right
            return False
        return bool(found["valid"])

    return says


def misspelt(text: str, draw: random.Random) -> str:
    """Return what stands for a value in place of this text."""
    changed = [text.replace(*pair) for pair in CHANGES]
    wrapped = [each.replace("{}", text) for each in AROUND]
    return draw.choice([*changed, *wrapped, *INSTEAD, repr(text), text.upper(), text.lower()])


CHANGES = (
    (" ", "_"),
    (" ", ";"),
    ('"', ""),
    (",", ", "),
    (".0", ""),
    ("]", ".0]"),
    ("[", "("),
    ("True", "1"),
)
AROUND = ("[{}]", "({},)", "{'a': {}}", "{}.0", "-{}", "not {}", "lambda x: {}", "({})")
INSTEAD = ("None", "True", "''", "[]", "{}", "x", "f(1)", "f(a=1)", "a[0]", "...", "b'x'", "()", "7")
FORMS = (*("{}",) * 12, "[{}]", "'{}'", " {} ", "({})", "[{}, {}]", "{}.", "{{}}", "`{}`", "print({})")


def graded(completion: str, row: Row) -> tuple[str, list[Row], Row]:
    """Return what a grade is made of."""
    return completion, row["function"], row["ground_truth"]


def made_up(task: types.ModuleType, row: Row, draw: random.Random) -> str:
    """Return a completion near a right one, in ways that models and checkers have."""
    ((name, wanted),) = row["ground_truth"].items()
    given: dict[str, str] = {}
    for key, accepted in wanted.items():
        values = [each for each in accepted if each != ""]
        if values and (draw.random() < 0.8 or "" not in accepted):
            text = task.literal(task.first_of([draw.choice(values)]))
            given[key] = misspelt(text, draw) if draw.random() < 0.3 else text
    given = {key: text.replace("[", "(").replace("]", ")") if draw.random() < 0.05 else text
             for key, text in given.items() if draw.random() < 0.95}  # fmt: skip
    if draw.random() < 0.05:
        given["more"] = "1"
    name = draw.choice([name] * 12 + [name.replace(".", "_"), name.upper(), row["function"][-1]["name"]])
    first = ["1"] if draw.random() < 0.05 else []
    call = f"{name}({', '.join([*first, *(f'{key}={value}' for key, value in given.items())])})"
    return draw.choice(FORMS).replace("{}", call)


@installed
def test_a_grade_is_the_one_of_the_benchmark_s_own_checker(
    task: types.ModuleType, rows: list[Row], checker: Callable[[str, Row], bool]
) -> None:
    draw, found = random.Random(0), Counter[tuple[bool, bool]]()
    for row in [*rows, OURS]:
        many = 60 if '"items"' in json.dumps(row["function"]) else 12  # lists and tuples, which few have
        for completion in [task.solution(row), *(made_up(task, row, draw) for _ in range(many))]:
            ours, theirs = bool(task.paid(*graded(completion, row))["right"]), checker(completion, row)
            found[ours, theirs] += 1
            assert ours == theirs, (completion, row["ground_truth"])
    assert min(found[True, True], found[False, False]) > 3000


@installed
def test_only_arithmetic_is_not_read_which_the_benchmark_computes(
    task: types.ModuleType, checker: Callable[[str, Row], bool]
) -> None:
    said = "shop.book(title='St. Ives', copies=1 + 1)"
    assert checker(said, OURS) and not task.paid(said, [BOOK], GOLD)["right"]


@installed
def test_no_function_is_in_two_splits_and_the_further_suite_asks_for_unseen_ones(
    making: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    splits = making.make_splits(making.installed())
    functions = {name: {row["family"] for row in found} for name, found in splits.items()}
    assert not functions["train"] & (functions["validation"] | functions["heldout"] | functions["multiple"])
    assert not functions["validation"] & (functions["heldout"] | functions["multiple"])
    assert all(len(row["function"]) > 1 for row in splits["multiple"])
    assert len(functions["heldout"]) >= 100 and len(functions["validation"]) >= 40
    assert sum(map(len, splits.values())) >= 700
    capsys.readouterr()
