"""params.yaml is composed from configs/ exactly as DVC composes it, and a difference is told with its way
out."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

import pytest

from assay.core.config import composition
from assay.core.config.composition import (
    Selection,
    check,
    check_overrides,
    check_unless_experiment,
    compose,
    files_of,
    leaves,
    origins,
    place_of,
    presets,
    selected,
    shown,
    use,
)
from assay.core.errors import ConfigError
from assay.core.storage.json import dumps
from assay.core.storage.yaml import read_yaml
from tests.composed import composed
from tests.few_presets import leave_few

REPOSITORY = Path(__file__).parents[1]


def written(root: Path) -> Path:
    """Write a project with nothing but configs/ and params.yaml, selecting tiny, collider and seed 0."""
    shutil.copytree(REPOSITORY / "configs", root / "configs")
    use(root, grpo="tiny", task="collider", seed=0)
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a few of the presets; nobody writes in it."""
    root = written(tmp_path_factory.mktemp("composition") / "a project")
    leave_few(root)
    return root


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A copy of it to change, in a path with a space."""
    return Path(shutil.copytree(made, tmp_path / "a project"))


def change(root: Path, old: str, new: str) -> None:
    """Replace a text that params.yaml has once."""
    text = (root / "params.yaml").read_text()
    assert text.count(old) == 1
    (root / "params.yaml").write_text(text.replace(old, new))


def refusal(root: Path) -> ConfigError:
    """Return what check says."""
    with pytest.raises(ConfigError) as caught:
        check(root)
    return caught.value


@pytest.mark.long
def test_the_bytes_are_those_of_dvc(tmp_path: Path) -> None:
    from dvc.utils.hydra import compose_and_dump

    project = written(tmp_path / "a project")
    for grpo in presets(project, "grpo"):
        use(project, grpo=grpo, task=None, seed=3)
        assert read_yaml(project / "params.yaml", fix="none") == {**composed(grpo), "seed": 3}
        theirs = project / "theirs.yaml"
        compose_and_dump(
            theirs, str(project / "configs"), None, "config", str(project / ".dvc" / "hydra_plugins"), []
        )
        assert (project / "params.yaml").read_bytes() == theirs.read_bytes()


BOTH = [tuple(name.rsplit("-", 1)) for name in presets(REPOSITORY, "both")]


@pytest.mark.parametrize(
    ("grpo", "task"), [*(("pretrained", task) for task in presets(REPOSITORY, "task")), *BOTH]
)
def test_what_tests_put_together_is_what_hydra_composes(grpo: str, task: str) -> None:
    theirs = compose(REPOSITORY, Selection(grpo, task, 0)).values
    assert dumps(composed(grpo, task)) == dumps(theirs)


@pytest.mark.long
def test_a_preset_can_set_something_otherwise_for_one_task_alone(project: Path) -> None:
    def steps(grpo: str, task: str) -> object:
        return compose(project, Selection(grpo, task, 0)).values["train"]["steps"]

    leave_few(project, ["tiny", "tiny_smoke"])
    both = "configs/both/tiny-structured.yaml"
    assert steps("tiny", "structured") == 700 != steps("tiny", "collider")
    assert steps("tiny_smoke", "structured") == steps("tiny_smoke", "collider") == 6
    chosen = Selection("tiny", "structured", 0)
    assert place_of(project, "train.steps", chosen).startswith(f"{both}, line")
    assert place_of(project, "train.epsilon_low", chosen).startswith("configs/grpo/_defaults.yaml, line")
    use(project, grpo=None, task="structured", seed=None)
    change(project, "  steps: 700\n", "  steps: 701\n")
    assert f"set train.steps in {both}" in refusal(project).fix
    shutil.rmtree(project / "configs/both")
    assert steps("tiny", "structured") == steps("tiny", "collider")


def test_the_committed_params_yaml_is_the_composition() -> None:
    if not (REPOSITORY / "params.yaml").exists() or os.environ.get(composition.IN_EXPERIMENT):
        pytest.skip("no params.yaml, or an experiment is changing it")
    check(REPOSITORY)


def test_use_rewrites_the_selection_and_keeps_the_rest_of_the_file(project: Path) -> None:
    config = project / "configs" / "config.yaml"
    config.write_text("# chosen by hand\n" + config.read_text().replace("grpo: tiny", "grpo: tiny  # small"))
    lines = use(project, grpo="tiny_smoke", task=None, seed=7)
    assert lines == [
        "configs/config.yaml: grpo=tiny -> grpo=tiny_smoke",
        "configs/config.yaml: seed=0 -> seed=7",
        "params.yaml: written from configs/",
    ]
    assert selected(project) == Selection("tiny_smoke", "collider", 7)
    text = config.read_text()
    assert text.startswith("# chosen by hand\n")
    assert "grpo: tiny_smoke  # small" in text
    check(project)


def test_use_without_a_change_changes_nothing(project: Path) -> None:
    before = (project / "params.yaml").stat().st_mtime_ns
    assert use(project, grpo=None, task=None, seed=None) == []
    assert (project / "params.yaml").stat().st_mtime_ns == before


def test_use_makes_a_missing_params_yaml(project: Path) -> None:
    (project / "params.yaml").unlink()
    assert use(project, grpo=None, task=None, seed=None) == ["params.yaml: written from configs/"]


def test_an_unknown_preset_names_the_known_ones_and_the_nearest(project: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"tiny, tiny_json, tiny_smoke(?s:.*)did you mean grpo=tiny_smoke\?"
    ):
        use(project, grpo="tiny_smok", task=None, seed=None)
    with pytest.raises(ConfigError, match="did you mean task=collider"):
        use(project, grpo=None, task="colider", seed=None)


@pytest.mark.parametrize("name", ["../config", "", "tiny,tiny_smoke", "tiny grpo=x", "${task}"])
def test_a_preset_is_a_name_and_nothing_else(project: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="expected a preset"):
        use(project, grpo=name, task=None, seed=None)


def test_nothing_is_written_when_the_composed_settings_are_wrong(project: Path) -> None:
    broken = project / "configs" / "grpo" / "broken.yaml"
    tiny = (project / "configs/grpo/tiny.yaml").read_text()
    broken.write_text(tiny.replace("items: 512", "draws: some"))
    files = [project / "params.yaml", project / "configs" / "config.yaml"]
    before = [file.read_bytes() for file in files]
    with pytest.raises(ConfigError, match=r"evaluation\.draws"):
        use(project, grpo="broken", task=None, seed=4)
    assert [file.read_bytes() for file in files] == before


def test_a_broken_preset_is_told_with_its_line(project: Path) -> None:
    (project / "configs" / "grpo" / "broken.yaml").write_text("device: cpu\ntrain: {steps: 1\n")
    with pytest.raises(ConfigError, match=r"broken.yaml, line \d+"):
        use(project, grpo="broken", task=None, seed=None)


def test_a_setting_left_open_in_a_preset_is_refused(project: Path) -> None:
    text = (project / "configs" / "grpo" / "tiny.yaml").read_text()
    (project / "configs" / "grpo" / "open.yaml").write_text(text.replace("device: cpu", "device: ???"))
    with pytest.raises(ConfigError, match="device"):
        use(project, grpo="open", task=None, seed=None)


def test_an_interpolation_of_nothing_is_refused(project: Path) -> None:
    text = (project / "configs" / "grpo" / "tiny.yaml").read_text()
    (project / "configs" / "grpo" / "astray.yaml").write_text(
        text.replace("device: cpu", 'device: "${machine.kind}"')
    )
    with pytest.raises(ConfigError, match=r"machine\.kind"):
        use(project, grpo="astray", task=None, seed=None)


def test_a_config_without_a_selection_is_refused(project: Path) -> None:
    (project / "configs" / "config.yaml").write_text(
        "defaults:\n  - task: collider\n  - _self_\nversion: 1\nseed: 0\n"
    )
    with pytest.raises(ConfigError, match=r"- grpo: <preset>(?s:.*)known: .*pretrained, tiny"):
        selected(project)


def test_a_seed_left_by_an_experiment_can_be_kept_or_dropped(project: Path) -> None:
    change(project, "\nseed: 0", "\nseed: 1")
    error = refusal(project)
    assert (error.expected, error.found) == ("seed: 0, as configs/ has it", "seed: 1")
    assert "./run assay config use seed=1   (keeps it)" in error.fix
    assert "./run assay config use   (goes back" in error.fix
    use(project, grpo=None, task=None, seed=1)
    check(project)


@pytest.mark.long
def test_a_preset_left_by_an_experiment_is_recognised(project: Path) -> None:
    (project / "params.yaml").write_text(compose(project, Selection("tiny_smoke", "collider", 2)).text)
    assert "./run assay config use grpo=tiny_smoke seed=2   (keeps it)" in refusal(project).fix


@pytest.mark.long
def test_an_edited_setting_is_named_with_the_file_it_belongs_in(project: Path) -> None:
    leave_few(project, ["tiny"])
    change(project, "alpha: 0.05", "alpha: 0.1")
    error = refusal(project)
    assert (error.expected, error.found) == ("claim.alpha: 0.05, as configs/ has it", "claim.alpha: 0.1")
    assert "set claim.alpha in configs/grpo/tiny.yaml" in error.fix


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("device: cpu\n", "", "device: nothing"),
        ("device: cpu\n", "device: cpu\ndevise: cpu\n", 'devise: "cpu"'),
        ("\nseed: 0", "\nseed: 0.0", "seed: 0.0"),
        ("512\n  draws: 2", "512\n  draws: 5", "evaluation.draws: 5"),
        (
            "expected_dataset_sha256: null",
            "expected_dataset_sha256: {}",
            "dataset.expected_dataset_sha256: {}",
        ),
    ],
)
def test_a_missing_an_added_and_a_retyped_setting_are_differences(
    project: Path, old: str, new: str, found: str
) -> None:
    leave_few(project, ["tiny"])
    change(project, old, new)
    assert refusal(project).found == found


def test_comments_and_order_are_free(project: Path) -> None:
    change(project, "device: cpu\n", "")
    with (project / "params.yaml").open("a") as file:
        file.write("# mine\ndevice: cpu\n")
    check(project)


def test_a_missing_params_yaml_tells_how_to_make_it(project: Path) -> None:
    (project / "params.yaml").unlink()
    assert refusal(project).fix == "./run assay config use"


def test_an_experiment_may_differ(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(project, "\nseed: 0", "\nseed: 1")
    monkeypatch.setenv(composition.IN_EXPERIMENT, "abc")
    check_unless_experiment(project)
    monkeypatch.delenv(composition.IN_EXPERIMENT)
    with pytest.raises(ConfigError):
        check_unless_experiment(project)


@pytest.mark.parametrize(
    ("given", "expected", "fix"),
    [
        (["seed=abc"], "a valid integer for seed", "another value of -S"),
        (["seed=[0"], "a value that can be read", "close its brackets"),
        (["seed=0,abc"], "a valid integer for seed", "another value of -S"),
        (["train.learning_rate=choice(0.1,abc)"], "a valid number for train.learning_rate", "another value"),
        (["train.lerning_rate=0.1"], "a setting that there is", "-S train.learning_rate=…"),
        (
            ["seed=1", "evaluation.draws=1"],
            "greater than or equal to 2 for evaluation.draws",
            "another value",
        ),
        (["grpo=tinny"], "a preset", "did you mean grpo=tiny?"),
        (["train.lerning_rate=0.1,0.2"], "a setting that there is", "-S train.learning_rate=…"),
        (["task.cut=[think]"], "a setting that there is", "-S '+task.cut=[think]'"),
    ],
)
def test_what_an_experiment_is_given_is_looked_at_before_anything_runs(
    project: Path, given: list[str], expected: str, fix: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_overrides(project, given)
    assert expected in refused.value.expected and fix in refused.value.fix


@pytest.mark.parametrize(
    "given",
    [
        ["seed=1", "evaluation.open=false"],
        ["grpo=tiny_smoke", "task=structured"],
        ["train.learning_rate=0.001,0.002", "seed=range(3)"],
        ["claim.seeds=[0,1,2]"],
        ["+further=1", "~package", "other.yaml:seed=x"],
        ["task=structured", "task.cut=[think]"],
        ["task=collider,structured", "task.cut=[think]"],
        ["+task.cut=[think]"],
        [],
    ],
)
def test_what_dvc_takes_is_let_through(project: Path, given: list[str]) -> None:
    check_overrides(project, given)


def test_where_a_value_comes_from_is_said_file_by_file_and_the_last_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(REPOSITORY / "configs", tmp_path / "configs")
    # The same files compose to the same settings, however many of them are asked for.
    monkeypatch.setattr(composition, "compose", functools.cache(composition.compose))
    use(tmp_path, grpo="tiny_json", task="structured", seed=None)
    now = selected(tmp_path)
    values = compose(tmp_path, now).values
    found = origins(tmp_path, "train.micro_batch_size")
    assert [place.partition(",")[0] for place, _ in found] == [
        "configs/grpo/tiny.yaml",
        "configs/grpo/tiny_json.yaml",
        "configs/both/tiny_json-structured.yaml",
    ]
    assert found[-1][1] == values["train"]["micro_batch_size"]
    for name, value in shown(tmp_path):
        places = origins(tmp_path, name)
        assert dumps(places[-1][1]) == value, name
        file, _, line = places[-1][0].partition(", line ")
        assert name.rpartition(".")[2] in (tmp_path / file).read_text().splitlines()[int(line) - 1], name
    for odd, fix in (("train.lora", "train.lora.r"), ("train.step", "train.steps")):
        with pytest.raises(ConfigError, match=fix):
            origins(tmp_path, odd)


def test_a_preset_holds_nothing_that_it_starts_from_already_has() -> None:
    for name in presets(REPOSITORY, "grpo"):
        *before, own = files_of(REPOSITORY, "grpo", name)
        known: dict[str, object] = {}
        for file in before:
            known |= dict(leaves(read_yaml(REPOSITORY / file, fix="")))
        odd = [
            key
            for key, value in leaves(read_yaml(REPOSITORY / own, fix=""))
            if key in known and repr(known[key]) == repr(value)
        ]
        assert odd == [], name
        assert len((REPOSITORY / own).read_text().splitlines()) <= 40, name
