"""A base and a tuned model behind addresses, through the real stages: measured, kept, refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from assay.core.config.reading import parse_params
from assay.core.console import quietly
from assay.core.errors import AssayError
from assay.core.records import Episode
from assay.core.storage.json import read_record, read_records
from assay.evidence.claim.claim import Claim
from assay.evidence.claim.served import SERVED
from assay.pipeline.project import Project
from tests.stages.served_run import BEFORE_PACKAGE, run_stages, says, served_settings, write_project
from tests.tools.served.stand_in import StandIn, serving, status

KEYS = {"BASE_KEY": "sk-of-the-base-83hd72", "TUNED_KEY": "sk-of-the-tuned-0s8dhw"}


class Served:
    """A whole run at two addresses, each with a key of its own."""

    def __init__(self, root: Path, base: StandIn, tuned: StandIn) -> None:
        self.root, self.base, self.tuned, self.project = root, base, tuned, Project.open(root)

    def told(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.project.results(name).read_text())
        return found

    def episodes(self, name: str) -> list[Episode]:
        return read_records(self.project.results(f"{name}.jsonl"), Episode, fix="")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as held, pytest.MonkeyPatch.context() as patched:
        base, tuned = (held.enter_context(serving(says)) for _ in range(2))
        base.key, tuned.key = KEYS.values()
        for name, key in KEYS.items():
            patched.setenv(name, key)
        values = served_settings(f"{base.url}/v1", f"{tuned.url}/v1", key_variable="BASE_KEY")
        values["train"]["served"]["key_variable"] = "TUNED_KEY"
        root = write_project(tmp_path_factory.mktemp("served") / "run", values)
        run_stages(root, BEFORE_PACKAGE)
        yield Served(root, base, tuned)


@pytest.fixture
def server() -> Iterator[StandIn]:
    with serving(says) as found:
        yield found


@pytest.fixture
def ready(server: StandIn, tmp_path: Path) -> Path:
    """A project up to where the base is measured."""
    root = write_project(tmp_path / "run", served_settings(f"{server.url}/v1"))
    run_stages(root, ("fingerprint", "base"))
    return root


def test_base_and_tuned_model_are_compared_and_the_claim_says_what_cannot_be_known(run: Served) -> None:
    claim = read_record(run.project.results("claim.json"), Claim, fix="")
    assert claim.verdict == "IMPROVED" and SERVED in claim.warnings
    assert claim.before_policy == run.told("base.json")["digest"] != claim.after_policy
    assert {each.policy for each in run.episodes("post_eval")} == {claim.after_policy}
    assert {each.policy for each in run.episodes("base_again")} == {claim.before_policy}
    assert {"few_shot", "best_of_n"} == set(run.told("rivals.json")["rivals"])
    page = run.project.results("report.html").read_text()
    assert "served, my-base" in page and "cannot be pinned" in page


def test_each_server_is_asked_for_its_own_model_once_and_shown_its_own_key_alone(run: Served) -> None:
    for server, model, key in zip((run.base, run.tuned), ("my-base", "my-tuned"), KEYS.values(), strict=True):
        asked = [json.dumps(body) for _, body in server.asked]
        assert len(set(asked)) == len(asked) and {body["model"] for _, body in server.asked} == {model}
        assert {sent["Authorization"] for sent in server.headers} == {f"Bearer {key}"}
    assert len(run.tuned.asked) == 24 * 2 + 24


def test_the_keys_are_in_no_file(run: Served) -> None:
    files = [path for path in run.root.rglob("*") if path.is_file()]
    assert any(path.name == "answers.jsonl" for path in files)
    assert not [path for path in files for key in KEYS.values() if key.encode() in path.read_bytes()]


def test_tokens_and_cost_of_every_file_of_episodes_are_counted(run: Served) -> None:
    for stage in ("pre_eval", "post_eval"):
        for name, arm in run.told(f"{stage}_served.json")["arms"].items():
            if name.startswith("rival_best_of_n"):
                continue
            episodes = run.episodes(name)
            assert arm["answers"] == sum(len(each.turns) for each in episodes)
            assert arm["completion_tokens"] == sum(each.n_tokens for each in episodes) > 0
            cost = (arm["prompt_tokens"] + 2 * arm["completion_tokens"]) / 1e6
            assert arm["cost"] == pytest.approx(cost, abs=1e-6)


def test_a_stage_that_fails_at_its_second_model_does_not_ask_the_first_again(
    server: StandIn, ready: Path
) -> None:
    _with(ready, retries=0)
    run_stages(ready, ("train",))
    server.spoil = lambda reply: {} if reply["model"].startswith("my-base") else reply
    assert "expected an answer" in _refused(ready, "post_eval")
    of_tuned = sum(body["model"] == "my-tuned" for _, body in server.asked)
    server.spoil = lambda reply: reply
    run_stages(ready, ("post_eval",))
    assert sum(body["model"] == "my-tuned" for _, body in server.asked) == of_tuned > 0


def _with(root: Path, **base: Any) -> None:
    values = json.loads((root / "params.yaml").read_text())
    values["base"] |= base
    (root / "params.yaml").write_text(json.dumps(values))


def test_a_stage_called_again_asks_anew_and_not_where_only_the_pace_is_another(
    server: StandIn, ready: Path
) -> None:
    run_stages(ready, ("pre_eval",))
    once, first = len(server.asked), Project.open(ready).results("pre_eval.jsonl").read_bytes()
    _with(ready, in_flight=1, retries=9)
    run_stages(ready, ("base", "pre_eval"))
    assert len(server.asked) == once
    run_stages(ready, ("pre_eval",))
    assert len(server.asked) == 2 * once
    assert Project.open(ready).results("pre_eval.jsonl").read_bytes() == first


def test_no_answer_of_one_training_is_taken_for_another_of_the_same_name(
    server: StandIn, ready: Path
) -> None:
    run_stages(ready, ("train", "post_eval"))
    values = json.loads((ready / "params.yaml").read_text())
    values["train"]["how"] = "trained again, served under the same name"
    (ready / "params.yaml").write_text(json.dumps(values))
    of_tuned = sum(body["model"] == "my-tuned" for _, body in server.asked)
    run_stages(ready, ("train", "post_eval"))
    assert sum(body["model"] == "my-tuned" for _, body in server.asked) == 2 * of_tuned


def test_another_model_behind_the_same_name_is_refused_where_the_server_shows_it(
    server: StandIn, ready: Path
) -> None:
    server.cards = [{"id": "my-base", "object": "model", "max_model_len": 77}]
    assert "--force base" in _refused(ready, "pre_eval") and not server.asked


def _refused(root: Path, stage: str) -> str:
    with pytest.raises(AssayError) as refused, quietly():
        run_stages(root, (stage,))
    assert "Fix: " in str(refused.value)
    return str(refused.value)


def test_a_server_that_is_not_there_is_one_message_that_names_the_setting(ready: Path) -> None:
    with serving(says) as gone:
        _with(ready, url=f"{gone.url}/v1")
    said = _refused(ready, "base")
    assert "expected an answer" in said and "base.url" in said


def test_a_name_that_the_server_does_not_know_is_one_message(server: StandIn, ready: Path) -> None:
    server.faults.extend([status(404, "The model `my-base` does not exist.")] * 8)
    said = _refused(ready, "pre_eval")
    assert "does not exist" in said and "base.model" in said


def test_a_key_that_is_not_exported_is_one_message(ready: Path) -> None:
    _with(ready, key_variable="NOT_EXPORTED_KEY")
    assert "NOT_EXPORTED_KEY" in _refused(ready, "base")


def _set(values: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for dotted, value in changes.items():
        *path, last = dotted.split(".")
        section = values
        for name in path:
            section = section[name]
        section[last] = value


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"evaluation.rivals.constrained": True}, "constrained: false"),
        ({"device": "cuda"}, "device: cpu"),
        ({"distributed.processes": 2}, "base.in_flight"),
        ({"base.url": "https://me:secret@host/v1"}, "which is not shown"),
        ({"base.url": "127.0.0.1:8000"}, "a URL such as"),
        ({"train.served.url": "ftp://host"}, "train.served.url"),
        ({"base.extra": {"stream": True}}, "base.extra.stream"),
        ({"base.extra": {"temperature": None}}, "assay evaluate --served"),
        ({"base.extra": {"max_completion_tokens": 99}}, "task.max_new_tokens"),
        ({"base.price_out": None}, "both prices"),
        ({"train.served.model": "my-base"}, "name the tuned one"),
        ({"train.served.model": "my-base", "train.served.url": "http://127.0.0.1:8000"},
         "name the tuned one"),
        ({"train": {"kind": "external", "how": "x", "data": [], "folder": "a",
                    "sha256": "0" * 64}}, "served.md"),
        ({"base": {"kind": "pretrained", "model": "m", "revision": None, "dtype": "float32",
                   "quantization": None, "template": {}}}, "base.kind: served"),
        ({"base.in_fligth": 3}, "in_flight"),
    ],
)  # fmt: skip
def test_settings_that_nobody_could_follow_are_refused_in_one_message(
    changes: dict[str, Any], said: str
) -> None:
    values = served_settings("http://127.0.0.1:8000/v1")
    _set(values, changes)
    with pytest.raises(AssayError) as refused:
        parse_params(values, "params.yaml")
    assert said in str(refused.value) and "secret" not in str(refused.value).replace("a secret", "")
