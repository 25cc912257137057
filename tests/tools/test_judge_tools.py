"""`assay judge` reads what inspect, lm-evaluation-harness and verifiers really write: they run here, where
they are installed (tests/peers.py). verifiers 0.4.0 writes traces.jsonl, 0.3.1 results.jsonl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.judge.command import JudgeRequest, judge_files
from tests.peers import PEER, has

INSPECT = """
import json, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate
epochs = 3
for arm, every, form in (("before", 5, "eval"), ("after", 2, "json")):
    said = [f"{k if (k + e) % every == 0 else 'no'}" for e in range(epochs) for k in range(10, 40)]
    outs = [ModelOutput.from_content("mockllm/model", text) for text in said]
    for out in outs:
        out.usage = ModelUsage(input_tokens=5, output_tokens=4, total_tokens=9)
    task = Task(dataset=[Sample(id=f"q{k}", input=f"What is {k}?" + " Think." * 30, target=str(k))
                         for k in range(10, 40)],
                solver=generate(), scorer=match(location="exact"), epochs=epochs, name="sums")
    log = eval(task, model=get_model("mockllm/model", custom_outputs=outs), log_dir=arm, log_format=form,
               display="none", max_samples=1, max_connections=1, temperature=0.5)[0]
    assert log.status == "success", log.error
    print(json.dumps({"at": log.location, "accuracy": log.results.scores[0].metrics["accuracy"].value}))
"""
LM_EVAL = """
import json, sys
from lm_eval.models.dummy import DummyLM
from lm_eval.evaluator import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager
class Sums(DummyLM):
    def generate_until(self, requests, disable_tqdm=False):
        return [each.doc["answer"] if k % every == 0 else "lol" for k, each in enumerate(requests)]
for arm, every in (("before", 5), ("after", 2)):
    tracker = EvaluationTracker(output_path=arm)
    found = simple_evaluate(model=Sums(), tasks=["sums"],
                            task_manager=TaskManager(include_path="task", include_defaults=False),
                            log_samples=True, evaluation_tracker=tracker, bootstrap_iters=0)
    samples = found.pop("samples")
    tracker.save_results_aggregated(results=found, samples=samples)
    tracker.save_results_samples(task_name="sums", samples=samples["sums"])
    print(json.dumps({"at": arm, "accuracy": found["results"]["sums"]["exact_match,none"]}))
"""
TRACES = """
import verifiers.v1 as vf
class Data(vf.TaskData):
    answer: str
class Task(vf.Task[Data]):
    @vf.reward(weight=0.5)
    async def exact(self, trace: vf.Trace) -> float:
        return 2.0 * (trace.last_reply == self.data.answer)
class Sums(vf.Taskset[Task, vf.TasksetConfig]):
    def load(self):
        for k in range(10, 20):
            yield Task(Data(prompt=f"What is {k}?", system_prompt="Add.", answer=str(k)), self.config.task)
__all__ = ["Sums"]
"""
RESULTS = """
import verifiers as vf
from datasets import Dataset
def load_environment():
    rows = [{"question": f"What is {k}?", "answer": str(k)} for k in range(10, 20)]
    async def exact(completion, answer):
        return 2.0 * (completion[-1]["content"] == answer)
    rubric = vf.Rubric(funcs=[exact], weights=[0.5])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), system_prompt="Add.", rubric=rubric)
"""
# The command of that name, once for each list of words, each time in a process as it was after the imports.
VF_EVAL = """
import json, os, sys
from importlib.metadata import entry_points
main = next(iter(entry_points(group="console_scripts", name="vf-eval"))).load()
for words in json.loads(sys.argv[1]):
    if not (child := os.fork()):
        sys.argv = ["vf-eval", *words]
        sys.exit(main())
    assert os.waitpid(child, 0)[1] == 0
"""
TASK = """task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: task/data.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "Q: {{question}} A:"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n"]}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""


def is_v1() -> bool:
    """Return whether verifiers is 0.4.0 or later, which plays by uv and writes traces.jsonl."""
    return not has("verifiers.envs.singleturn_env") and not has("verifiers.legacy.envs.singleturn_env")


VERIFIERS = pytest.mark.skipif(
    not has("verifiers") or (is_v1() and shutil.which("uv") is None),
    reason="verifiers is not installed here, or calls uv, which is not",
)


def ran(folder: Path, code: str, *words: str, **more: str) -> list[str]:
    """Return the lines that a script of a tool prints; its imports take seconds, so it plays all arms."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "home")} | more
    command = [PEER, "-c", code, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def written(code: str, folder: Path) -> list[tuple[Path, float]]:
    """Return where a tool wrote its results of both arms, and what it says that they come to."""
    told = [json.loads(line) for line in ran(folder, code)[-2:]]
    return [(folder / str(arm["at"]).removeprefix("file://"), float(arm["accuracy"])) for arm in told]


def judged(before: Path, after: Path) -> Claim:
    """Return the claim about what two runs of a tool wrote."""
    return judge_files(before, after, JudgeRequest())[2].claim


@pytest.mark.skipif(
    not has("inspect_ai"), reason="inspect_ai is not installed here, and not among assay's pins"
)
def test_logs_that_inspect_wrote_come_to_what_inspect_says_in_either_form(tmp_path: Path) -> None:
    (before, low), (after, high) = written(INSPECT, tmp_path)
    found = judged(before, after)
    assert found.before is not None and found.before.value == pytest.approx(low)
    assert found.after is not None and found.after.value == pytest.approx(high) and high > low
    assert (found.n_items, found.draws) == (30, 3) and found.effect is not None
    assert found.tokens_per_completion is not None and found.tokens_per_completion.after == 4.0
    assert not [
        text
        for text in map(str, found.warnings)
        if "on trust" in text or "differs" in text or "decoded" in text
    ]


@pytest.mark.skipif(not has("lm_eval"), reason="lm_eval is not installed here, and not among assay's pins")
def test_samples_that_lm_eval_wrote_come_to_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task/sums.yaml").write_text(TASK, encoding="utf-8")
    rows = [{"question": f"What is {k}+1?", "answer": str(k + 1)} for k in range(40)]
    (tmp_path / "task/data.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    (before, low), (after, high) = written(LM_EVAL, tmp_path)
    found = judged(before, after)
    assert found.before is not None and found.before.value == pytest.approx(low) and low == 0.2
    assert found.after is not None and found.after.value == pytest.approx(high) and found.n_items == 40
    odd = {"prompts_not_held", "other_prompts", "other_score"}
    assert not odd & {each.code for each in found.warnings}


@contextmanager
def answering(every: int, refused: int | None = None) -> Iterator[str]:
    """Yield the address of a server that speaks as OpenAI's: to every n-th question it says what is right.

    Args:
        every: Which questions and draws are answered right.
        refused: The question that it has no answer to; None: it answers all.
    """
    asked: Counter[int] = Counter()

    class Answering(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            k = int(body["messages"][-1]["content"].split()[-1].rstrip("?"))
            said = str(k) if (k + asked[k]) % every == 0 else "no"
            asked[k] += 1
            if k == refused:
                return self.send(400, "application/json", '{"error": {"message": "no"}}')
            about = {"id": "x", "created": 0, "model": body["model"]}
            usage = {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
            last = {"index": 0, "finish_reason": "stop"}
            message = {"role": "assistant", "content": said}
            if not body.get("stream"):
                whole = about | {"object": "chat.completion", "usage": usage}
                whole |= {"choices": [last | {"message": message}]}
                return self.send(200, "application/json", json.dumps(whole))
            about |= {"object": "chat.completion.chunk"}
            pieces = [{"choices": [{"index": 0, "delta": message, "finish_reason": None}]}]
            pieces += [{"choices": [last | {"delta": {}}]}, {"choices": [], "usage": usage}]
            lines = [*(json.dumps(about | piece) for piece in pieces), "[DONE]"]
            return self.send(200, "text/event-stream", "".join(f"data: {line}\n\n" for line in lines))

        def send(self, code: int, kind: str, text: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def words_of(url: str, arm: str) -> list[str]:
    """Return what vf-eval is called with to ask ten questions, two draws each."""
    words = ["sums", "-m", f"org/{arm}", "-n", "10", "-r", "2"]
    if not is_v1():
        words += ["-b", url, "-k", "KEY", "-S", '{"temperature": 0.5}', "-s", "-d", "-o", arm]
        # A server in two more processes plays by default; without it messages have fewer fields.
        return words if arm == "base" else [*words, "--disable-env-server"]
    words += ["--client.base-url", url, "--client.api-key-var", "KEY", "--sampling.temperature", "0.5"]
    words += ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess", "-c", "4"]
    return [*words, "--no-push", "--no-rich", "-o", ".", "--run.name", arm]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What verifiers wrote of three models: base is right in four of twenty answers, tuned in ten, and so is
    broken, which has no answer to one question."""
    folder = tmp_path_factory.mktemp("verifiers")
    (folder / "sums.py").write_text(TRACES if is_v1() else RESULTS, encoding="utf-8")
    with answering(5) as base, answering(2) as tuned, answering(2, refused=13) as broken:
        arms = {"base": base, "tuned": tuned, "broken": broken}
        words = json.dumps([words_of(url, arm) for arm, url in arms.items()])
        ran(folder, VF_EVAL, words, PYTHONPATH=str(folder), KEY="none")
    return folder


@VERIFIERS
def test_rollouts_that_verifiers_wrote_come_to_the_answers_that_were_given(evaluated: Path) -> None:
    told, _, found = judge_files(evaluated / "base", evaluated / "tuned", JudgeRequest())
    claim = found.claim
    # 10 to 19, each with the next number as its second draw: four are divided by five, ten by two.
    assert claim.before is not None and claim.before.value == 4 / 20
    assert claim.after is not None and claim.after.value == 10 / 20
    assert (claim.n_items, claim.draws) == (10, 2)
    assert told.title == "org/tuned against org/base" and told.before.files[0].task == "sums"
    assert told.before.files[0].settings["temperature"] == "0.5"
    odd = {"prompts_not_held", "other_prompts", "other_score"}
    assert not odd & {each.code for each in claim.warnings}


@VERIFIERS
def test_a_rollout_that_verifiers_could_not_finish_has_no_score(evaluated: Path) -> None:
    claim = judged(evaluated / "base", evaluated / "broken")
    assert claim.verdict == "NOT EVALUABLE" and "2 of 20 results after have no score" in claim.reason
