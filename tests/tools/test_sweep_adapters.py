"""`assay runs sweep` on adapter folders of somebody else: LoRA of this base is played, anything else is
refused in words."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from assay.cli.tools.sweep import command as tool
from assay.cli.tools.sweep.sources import SweepRequest
from assay.core.config.reading import parse_params
from assay.core.errors import AssayError
from assay.pipeline.heldout_ledger import openings
from assay.pipeline.project import Project
from assay.rollout.policy.base import tiny
from assay.stages import fingerprint
from tests.house import ROOT
from tests.own_data import keep_first
from tests.small_policy import small_model
from tests.training.healthy_setup import composed

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def base_model(project: Project, hidden: int = 32) -> tuple[Any, Any]:
    tokenizer = tiny.build_tokenizer(project.task().vocabulary())
    return small_model(tokenizer, hidden_size=hidden), tokenizer


def saved_adapter(project: Project, folder: Path, seed: int, hidden: int = 32, **settings: Any) -> None:
    """Save a LoRA that is not the identity, as another trainer would."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    chosen: dict[str, Any] = {"target_modules": ["q_proj", "v_proj"], "init_lora_weights": False} | settings
    adapted = get_peft_model(base_model(project, hidden)[0], LoraConfig(r=2, task_type="CAUSAL_LM", **chosen))
    adapted.save_pretrained(str(folder))
    path = folder / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": "models/base"}))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with an untrained base and, beside it, two adapters in the folders of another trainer; swept
    once: what was played then is kept."""
    root = tmp_path_factory.mktemp("adapters") / "project"
    shutil.copytree(ROOT / "data/collider", root / "data/collider")
    keep_first(root / "data/collider", 64)  # each look at the run reads them
    values = json.loads(json.dumps(composed("tiny_smoke", "collider")))
    values["validation"] |= {"items": 6, "draws": 1}
    values["evaluation"]["open"] = True
    (root / "params.yaml").write_text(json.dumps(values))
    project = Project(root, parse_params(values))
    fingerprint.run(project)
    model, tokenizer = base_model(project)
    model.save_pretrained(root / "models/base")
    tokenizer.save_pretrained(root / "models/base")
    for step in (100, 20):
        saved_adapter(project, root.parent / f"run/checkpoint-{step}", step)
    tool.run(root, SweepRequest(path=root.parent / "run", out=root.parent / "out"))
    shutil.rmtree(root.parent / "out")
    return root.parent


@pytest.fixture
def place(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them that a test may break."""
    monkeypatch.delenv("DVC_ROOT", raising=False)
    return Path(shutil.copytree(built, tmp_path / "place"))


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a person is told."""
    lines: list[str] = []
    monkeypatch.setattr(tool, "say", lines.append)
    monkeypatch.setattr(tool, "complain", lines.append)
    return lines


def swept(place: Path, *, drawn: bool = False, **more: Any) -> dict[str, Any]:
    """Sweep and return the record; the figure is drawn where a test looks at it."""
    out = place / "out"
    with pytest.MonkeyPatch.context() as patched:
        if not drawn:
            patched.setattr(tool, "render", lambda figure: {"png": b"", "svg": b""})
        tool.run(place / "project", SweepRequest(path=place / "run", out=out, **more))
    found: dict[str, Any] = json.loads((out / "sweep.json").read_text())
    return found


def refused(place: Path, **more: Any) -> str:
    with pytest.raises(AssayError) as caught:
        swept(place, **more)
    assert not (place / "out").exists()
    return str(caught.value)


def test_adapters_of_another_trainer_are_played_in_the_order_of_their_steps(place: Path) -> None:
    found = swept(place)
    assert [(each["step"], each["name"]) for each in found["checkpoints"]] == [
        (0, "base"),
        (20, "checkpoint-20"),
        (100, "checkpoint-100"),
    ]
    assert len({each["policy_digest"] for each in found["checkpoints"]}) == 3
    assert [each["row"]["fraction_done"] for each in found["checkpoints"]] == [0.0, None, None]
    assert found["chosen_by"] == "the highest mean reward of this table"


def test_only_configuration_and_weights_decide_who_a_policy_is(place: Path) -> None:
    before = swept(place)
    (place / "run/checkpoint-20/optimizer.pt").write_bytes(b"a pickle that is never opened")
    assert swept(place)["checkpoints"] == before["checkpoints"]


def test_what_has_no_step_is_left_out_and_named(place: Path) -> None:
    shutil.copytree(place / "run/checkpoint-20", place / "run/best")
    for name in (CONFIG, WEIGHTS):
        shutil.copy(place / "run/checkpoint-20" / name, place / "run")
    notes = " ".join(swept(place)["notes"])
    assert "best is left out" in notes and "run itself has no step" in notes


def test_two_folders_of_one_step_are_refused(place: Path) -> None:
    shutil.copytree(place / "run/checkpoint-20", place / "run/other-020")
    assert "each step once, found checkpoint-20 and other-020" in refused(place)


def test_an_adapter_alone_is_sent_to_evaluate(place: Path) -> None:
    with pytest.raises(AssayError, match="assay evaluate"):
        tool.run(place / "project", SweepRequest(path=place / "run/checkpoint-20"))


def test_another_name_of_the_base_is_played_and_said(place: Path, said: list[str]) -> None:
    path = place / "run/checkpoint-20" / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": "someone/else"}))
    assert any("names the base 'someone/else'" in note for note in swept(place)["notes"])
    assert any("names the base 'someone/else'" in line for line in said)


def test_a_link_inside_the_folder_is_followed_as_a_hub_cache_needs_it(place: Path) -> None:
    before = swept(place)
    weights = place / "run/checkpoint-20" / WEIGHTS
    (place / "run/blobs").mkdir()
    weights.rename(place / "run/blobs/1")
    weights.symlink_to("../blobs/1")
    assert swept(place)["checkpoints"] == before["checkpoints"]


def _link_out(folder: Path) -> None:
    weights = folder / WEIGHTS
    weights.rename(folder.parent.parent / "elsewhere")
    weights.symlink_to("../../elsewhere")


def _pipe(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)


def _bytes(content: bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / WEIGHTS).write_bytes(content)


def _cut(folder: Path) -> None:
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:-8])


def _changed(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[Path], None]:
    def breaks(folder: Path) -> None:
        save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS, metadata={"format": "pt"})

    return breaks


def _poisoned(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    name = sorted(tensors)[0]
    tensors[name].view(-1)[0] = float("nan")
    return tensors


def _without_one(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensors[name] for name in sorted(tensors)[1:]}


def _set(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / CONFIG
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def _header(told: dict[str, Any], size: int = 8) -> bytes:
    text = json.dumps(told).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


def _each(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    return _changed(lambda tensors: {name: change(tensor) for name, tensor in tensors.items()})


def _renamed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.replace("layers.0", "layers.7"): tensor for name, tensor in tensors.items()}


NO_FILE, MEGATRON = "a safetensors file", {"megatron_config": {"a": 1}, "megatron_core": "antigravity"}
TERABYTES = _header({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}})
UNKNOWN = _header({"a": {"dtype": "Q7", "shape": [2], "data_offsets": [0, 8]}})
HOSTILE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a link that leaves": (_link_out, "a link that leaves"),
    "a pipe": (_pipe, "a pipe, socket or device"),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "No such file"),
    "a huge header": (_bytes(struct.pack("<Q", 2**62) + b"{}"), NO_FILE),
    "a header that promises terabytes": (_bytes(TERABYTES), NO_FILE),
    "a type nobody knows": (_bytes(UNKNOWN), NO_FILE),
    "empty": (_bytes(b""), NO_FILE),
    "no tensors": (_bytes(_header({}, 0)), "weights, found none"),
    "cut short": (_cut, NO_FILE),
    "whole numbers": (_each(lambda tensor: tensor.to(torch.int8)), "torch.int8"),
    "double precision": (_each(lambda tensor: tensor.double()), "torch.float64"),
    "NaN": (_changed(_poisoned), "NaN or Inf in"),
    "a weight is missing": (_changed(_without_one), "found nothing where this base takes"),
    "a layer that is not there": (_changed(_renamed), "an adapter of this base"),
    "a configuration that is none": (lambda folder: (folder / CONFIG).write_text("["), "strict JSON"),
    "another kind of adapter": (_set(peft_type="PREFIX_TUNING"), "PREFIX_TUNING"),
    "a module to import": (_set(**MEGATRON), "megatron_config set"),
    "a start that changes the base": (_set(init_lora_weights="pissa"), "which changes the base"),
    "another rank than the weights": (_set(r=4), "an adapter of this base"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_adapter_is_refused_by_name(place: Path, name: str) -> None:
    breaks, told = HOSTILE[name]
    breaks(place / "run/checkpoint-20")
    text = refused(place)
    assert told in text and "checkpoint-20" in text and "Fix:" in text


@pytest.mark.parametrize("name", ["a link that leaves", "NaN"])  # by its files, by its weights
def test_a_hostile_adapter_is_left_out_with_its_reason_where_that_is_asked_for(
    place: Path, name: str
) -> None:
    HOSTILE[name][0](place / "run/checkpoint-20")
    found = swept(place, skip_damaged=True)
    assert [each["step"] for each in found["checkpoints"]] == [0, 100]
    assert len(found["left_out"]) == 1 and "checkpoint-20" in found["left_out"][0]


def test_adapters_of_another_base_are_refused_before_held_out_work_is_opened(place: Path) -> None:
    project = Project.open(place / "project")
    shutil.rmtree(place / "run")
    saved_adapter(project, place / "run/checkpoint-5", 5, hidden=64)
    text = refused(place, heldout=True)
    assert (
        "expected an adapter of this base, found" in text and "(2, 64) where this base takes (2, 32)" in text
    )
    assert openings(project.root) is None


def test_names_that_steer_a_terminal_or_a_page_mean_nothing(place: Path) -> None:
    (place / "run/checkpoint-20").rename(place / "run/<b>|\x1b[31m`x`-20")
    swept(place, drawn=True)
    text = (place / "out/sweep.md").read_text()
    assert "\x1b" not in text and "<b>" not in text and "\\|" in text
    assert b"\x1b" not in (place / "out/sweep.svg").read_bytes()
