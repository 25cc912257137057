"""How processes that may hold a base in parts are started: the flags and settings that are taken, and those
that are refused. What they learn is in test_distributed.py."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env

from assay.core.config.reading import parse_params
from assay.core.config.settings import DistributedSettings
from assay.core.errors import ConfigError
from assay.core.storage.yaml import read_yaml
from assay.pipeline.launching import (
    LAUNCH_VARIABLE,
    NODES_VARIABLE,
    TOLD,
    USES,
    heed_launcher,
    launch,
    refuse_unfit,
)
from tests.house import ROOT
from tests.training.distributed_worker import WORLD

FILES = ROOT / "configs/launch/accelerate"


def settings(engine: str) -> DistributedSettings:
    """Return the settings of two processes on a CPU."""
    return DistributedSettings.model_validate({"processes": 2, "backend": "gloo", "engine": engine})


def told_by(monkeypatch: pytest.MonkeyPatch, engine: str, *more: str) -> None:
    """Set the environment as `accelerate launch` does for the processes it starts with our file."""
    for name in (*TOLD, *USES.values()):
        monkeypatch.delenv(name, raising=False)
    words = ["--config_file", str(FILES / f"{engine}.yaml"), *more, "-m", "assay.cli", "train"]
    arguments: argparse.Namespace = launch_command_parser().parse_args(words)
    arguments, _, _ = _validate_launch_command(arguments)
    assert arguments.num_processes == WORLD
    for name, value in prepare_multi_gpu_env(arguments).items():
        if name in (*TOLD, *USES.values()):
            monkeypatch.setenv(name, value)


@pytest.mark.parametrize("engine", ["ddp", "fsdp"])
def test_the_shipped_accelerate_files_start_what_the_settings_say_and_nothing_else(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_by(monkeypatch, engine)
    assert (os.environ.get(USES["fsdp"]) == "true") is (engine == "fsdp")
    if engine == "fsdp":  # every setting that counts is said by the file, none left to accelerate's choice
        assert {name for name in TOLD if name in os.environ} == set(TOLD)
    heed_launcher(settings(engine))
    assert USES["fsdp"] not in os.environ  # or accelerate would shard once more


@pytest.mark.parametrize(
    ("file", "engine", "more", "words"),
    [
        ("fsdp", "ddp", [], ["engine ddp", "found fsdp", "configs/launch/accelerate/ddp.yaml"]),
        ("ddp", "ddp", ["--mixed_precision", "bf16"], ["expected no", "found bf16", "mixed_precision"]),
        (
            "fsdp",
            "fsdp",
            ["--fsdp_offload_params", "true"],
            ["expected false", "found true", "fsdp_offload_params"],
        ),
        ("fsdp", "fsdp", ["--fsdp_version", "1"], ["expected 2", "found 1", "fsdp_version"]),
    ],
)
def test_an_accelerate_launch_that_would_train_otherwise_is_refused(
    file: str, engine: str, more: list[str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told_by(monkeypatch, file, *more)
    with pytest.raises(ConfigError) as refused:
        heed_launcher(settings(engine))
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("engine", ["ddp", "fsdp"])
def test_deepspeed_is_refused_with_the_reason(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USES["deepspeed"], "true")
    with pytest.raises(ConfigError, match=r"found deepspeed[^$]*poisoned step"):
        heed_launcher(settings(engine))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"distributed": {"processes": 1}}, ["ddp for one process"]),
        ({"device": "cuda"}, ["nccl", "gloo"]),
        (
            {"device": "cuda", "distributed": {"backend": "nccl"}, "generation": {"cuda_graphs": True}},
            ["cuda_graphs"],
        ),
        ({"distributed": {"engine": "megatron"}}, ["distributed.engine", "megatron"]),
    ],
)
def test_what_a_base_in_parts_cannot_do_is_refused(changes: dict[str, Any], words: list[str]) -> None:
    raw = read_yaml(ROOT / "params.yaml", fix="")
    raw["train"] |= {"items_per_step": 4, "group_size": 4, "micro_batch_size": 4}
    raw["distributed"] = {"processes": 2, "backend": "gloo", "engine": "fsdp"}
    parse_params(raw)
    for name, value in changes.items():
        raw[name] = raw[name] | value if isinstance(value, dict) else value
    with pytest.raises(ConfigError) as refused:
        parse_params(raw)
    for word in words:
        assert word in str(refused.value)


def test_a_model_without_named_layers_is_refused_before_anything_is_cut() -> None:
    from assay.training.sharded import _layers

    class Plain(torch.nn.Module):
        def get_base_model(self) -> torch.nn.Module:
            return self

    with pytest.raises(ConfigError, match=r"set distributed\.engine: ddp"):
        _layers(Plain())


@pytest.mark.parametrize(
    ("on_nodes", "found"), [("no-such-srun -n1", "no-such-srun"), ("srun 'half", "closing quotation")]
)
def test_a_launch_that_cannot_be_read_or_started_is_refused_by_its_variable(
    on_nodes: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LAUNCH_VARIABLE, "--nnodes=2")
    monkeypatch.setenv(NODES_VARIABLE, on_nodes)
    with pytest.raises(ConfigError, match=f"{NODES_VARIABLE}: .*{found}"):
        launch(DistributedSettings(processes=2, backend="gloo", engine="ddp"), ["train"])


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("--nnodes=2 --moster-addr=here", "--moster-addr=here"),
        ("--nproc=1", "ambiguous option: --nproc=1"),
        ("--node-rank=$SLURM_NODEID", r"--node-rank.*\$SLURM_NODEID"),
        ("--nproc-per-node", "--nproc-per-node.*expected one argument"),
        ("--nproc-per-node=many", "--nproc-per-node=many"),
        ("--nproc-per-node=0", "--nproc-per-node=0"),
        ("--nnodes=two", "--nnodes=two"),
        ("--nnodes=1:2:3", "--nnodes=1:2:3"),
        ("--nnodes=2 --node-rank=2 --master-addr=HOST", "--node-rank=2 with --nnodes=2"),
        ("--help", "--help"),
        ("-m json.tool", "'json.tool', by which another program would be started"),
        ("stray", "'stray', by which another program would be started"),
        ("--run-path", "--run-path"),
    ],
)
def test_flags_that_torchrun_does_not_take_are_refused_by_the_variable_they_stand_in(
    flags: str, found: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=f"{LAUNCH_VARIABLE}: .*found .*{found}"):
        refuse_unfit([*flags.split(), "-m", "assay.cli", "train"])
    assert capfd.readouterr() == ("", ""), "torchrun's usage is not shown"


@pytest.mark.parametrize(
    "flags",
    ["--standalone --nproc-per-node=2", "--nnodes=2 --node-rank=1 --nproc_per_node=1 --master-addr=HOST"],
)
def test_flags_that_torchrun_takes_are_let_pass(flags: str) -> None:
    refuse_unfit([*flags.split(), "-m", "assay.cli", "train", "--resume-from", "--nnodes"])


# The latter it finds later
@pytest.mark.parametrize("flags", ["--foo", "--rdzv-backend=none --rdzv-endpoint=127.0.0.1:1"])
def test_a_launch_by_wrong_flags_ends_as_any_wrong_setting_does(flags: str) -> None:
    command = [sys.executable, "-m", "assay.pipeline.launching", *flags.split(), "-m", "assay.cli", "train"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"assay: {LAUNCH_VARIABLE}: expected ") and done.stderr.count("\n") == 2, (
        done.stderr
    )
