"""What all tests share."""

from __future__ import annotations

import compileall
import functools
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from assay.core.config.tasks import folder_of_tasks
from tests import kept

# A machine that others use too is slow now and then, which is no fault of what is tested.
settings.register_profile("assay", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)
settings.load_profile("assay")
# Until the first test begins there are only imports, and a third of their time would be a search for garbage.
gc.disable()
folder_of_tasks()  # so that tests can import from it, as assay_tasks
# No curves are drawn beside the trainings of tests, except where a test asks for it.
os.environ.setdefault("ASSAY_REDRAW_SECONDS", "0")
# In models as small as those of tests several threads only wait for each other; set before torch is imported,
# and for the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

TESTS = Path(__file__).resolve().parent
# Files whose tests train, start processes or kill them, or check whole packages: pipelines, kills, DVC traps,
# notebooks. `--all` runs them too.
LONG = {
    "evidence/test_page_hostile.py",
    "evidence/test_recipe_verdict.py",
    "fuzz/test_fuzz.py",
    "packaging/test_canaries.py",
    "policy/test_pretrained.py",
    "presets/test_presets.py",
    "stages/test_at_hand.py",
    "stages/test_claim_inputs.py",
    "stages/test_refused_early.py",
    "stages/test_tampering.py",
    "stages/test_two_processes.py",
    "tasks/collider/test_collider_players.py",
    "tasks/own/test_isolation.py",
    "test_benchmarks.py",
    "test_contributing.py",
    "test_dvc_traps.py",
    "test_named_places.py",
    "test_notebook.py",
    "test_parameters_way.py",
    "test_reasoning_gym.py",
    "test_run_script.py",
    "test_warm.py",
    "test_workflows.py",
    "tools/envcheck/test_envcheck.py",
    "tools/served/test_faults.py",
    "tools/served/test_served.py",
    "tools/test_compare.py",
    "tools/test_merge.py",
    "tools/test_published_seeds.py",
    "tools/test_push.py",
    "tools/test_redraw.py",
    "tools/test_seed_designs.py",
    "tools/test_seeds.py",
    "tools/test_sweep.py",
    "tools/test_sweep_adapters.py",
    "training/test_alarm_shapes.py",
    "training/test_crash.py",
    "training/test_determinism.py",
    "training/test_disk_full.py",
    "training/test_distributed.py",
    "training/test_forecast.py",
    "training/test_interruption.py",
    "training/test_lost_episodes.py",
    "training/test_own_labels.py",
    "training/test_poison.py",
    "training/test_sharded.py",
    "verification/test_consistency.py",
    "verification/test_every_member.py",
    "verification/test_external.py",
    "verification/test_external_example.py",
    "verification/test_free_text.py",
    "verification/test_holdings.py",
    "verification/test_learned_tokens.py",
    "verification/test_numbers.py",
    "verification/test_openings_follow.py",
    "verification/test_own_packages.py",
    "verification/test_regenerated.py",
    "verification/test_retrained.py",
    "verification/test_whole_model.py",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --all and --update-golden."""
    parser.addoption(
        "--all", action="store_true", help="also run what takes minutes: tests that are marked long"
    )
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples of a property unless all is asked for, or the file or test itself."""
    if not config.getoption("--all") and not any(path.is_file() for path in _named(config)):
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that are long, and what they import, unless all is asked for or the file itself."""
    if _name_of(collection_path) not in LONG or config.getoption("--all"):
        return None
    return collection_path not in _named(config) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that are long, unless all is asked for, and run the dearest files first: one of
    them at the end would keep one process busy alone."""
    counts = Counter(map(_file_of, items))
    dear = LONG.union(_file_of(item) for item in items if item.get_closest_marker("long"))
    items.sort(key=lambda item: (_file_of(item) not in dear, -counts[_file_of(item)], _file_of(item)))
    if config.getoption("--all"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def _named(config: pytest.Config) -> set[Path]:
    return {Path(argument.partition("::")[0]).resolve() for argument in config.args}


def _file_of(item: pytest.Item) -> str:
    return _name_of(item.path)


@functools.cache
def _name_of(path: Path) -> str:
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Hold a text to the file of this name in the folder `golden` beside the test."""

    def check(name: str, text: str) -> None:
        path = request.path.with_name("golden") / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), "pytest --update-golden writes it anew"

    return check


@pytest.fixture(scope="session", autouse=True)
def _kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have all processes of this session keep what is made once in one folder, which pytest removes."""
    mine = tmp_path_factory.getbasetemp()
    kept.FOLDER = (mine.parent if hasattr(request.config, "workerinput") else mine) / "kept"
    kept.FOLDER.mkdir(exist_ok=True)


@pytest.fixture(autouse=True)
def _default_products() -> Iterator[None]:
    """Have a test multiply by the default library, whatever models were loaded before it."""
    yield
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_float32_matmul_precision("highest")


@pytest.fixture(scope="session", autouse=True)
def _compiled(_kept: None) -> None:
    """Compile the sources once for the hundreds of processes that import them, also where none of them may
    keep what it compiles."""

    def compiled(folder: Path) -> None:
        folder.mkdir()
        compileall.compile_dir(TESTS.parent / "src/assay", quiet=2)

    kept.kept("compiled", compiled)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Compute on one thread again, whatever the test before has set; before any fixture begins.

    What was imported and what earlier tests have left is no garbage, and is taken out of the search for it:
    trainers order one at every start and end, and it takes longer than a training as small as those of tests.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    gc.collect()  # what is garbage by now would stay for good
    gc.freeze()
    gc.enable()
