"""Equal seeds give equal digests, whatever the hash seed, the validations and the logs; the switches are
verified."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from assay.core.errors import ConfigError
from assay.rollout.policy import model
from assay.rollout.policy.model import pin
from assay.training.grpo import Attempt
from assay.training.log.step_chain import LINKS, START, chain_of, first_difference
from tests.house import ROOT, SRC
from tests.training.test_training import params, run, with_last_checkpoint

ONE_RUN = """
import logging, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from assay.rollout.policy.model import pin
from tests.training.test_training import params, run
pin(1, deterministic=True, device="cpu")
print(run(params())[1].train_log[-1]["chain"])
"""


@pytest.fixture(autouse=True)
def switches_as_they_were() -> Iterator[None]:
    """Put the switches of the process back."""
    threads, on = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(on)
    torch.utils.deterministic.fill_uninitialized_memory = filled


def started_under(hash_seed: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{SRC}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", ONE_RUN]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def test_three_hash_seeds_give_one_chain() -> None:
    others = [started_under(seed) for seed in ("1", "4294967295")]
    pin(1, deterministic=True, device="cpu")
    chain = run(params())[1].train_log[-1]["chain"]
    assert [other.communicate(timeout=120)[0].split()[-1] for other in others] == [chain, chain]


def test_each_row_has_five_digests_and_a_chain_that_follows_from_them() -> None:
    _, history = run(params())
    previous = START
    for row in history.train_log:
        assert set(row["digests"]) == set(LINKS)
        previous = chain_of(previous, row)
        assert row["chain"] == previous


def test_validating_seldom_and_measuring_no_kl_change_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    _, often = run(with_last_checkpoint(params(every=1)))
    monkeypatch.setattr(Attempt, "_kl", lambda self, step: 0.0)
    _, seldom = run(with_last_checkpoint(params(every=2)))
    assert [row["digests"] for row in often.train_log] == [row["digests"] for row in seldom.train_log]


def test_another_learning_rate_parts_the_runs_at_the_weights_and_nowhere_before() -> None:
    _, one = run(params())
    _, other = run(params(learning_rate=0.02))
    found = first_difference(one.train_log, other.train_log)
    assert found is not None
    assert (found.step, found.link) == (1, "weights")


def test_the_switches_are_set_and_hold() -> None:
    pin(1, deterministic=True, device="cpu")
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == 1
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] in (":4096:8", ":16:8")
    pin(1, deterministic=False, device="cpu")
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_switch_that_does_not_hold_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda _: None)
    torch._C._set_deterministic_algorithms(False)
    with pytest.raises(ConfigError, match=r"torch\.use_deterministic_algorithms"):
        pin(1, deterministic=True, device="cpu")


def test_a_product_that_does_not_repeat_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_repeats", lambda _: False)
    with pytest.raises(ConfigError, match="matrix product"):
        pin(1, deterministic=True, device="cpu")
