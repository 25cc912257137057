"""Measurements are run by hand, and must still find what they measure, compare equal work and count it
rightly."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import (
    cost,
    filler,
    floors,
    json_base,
    lean,
    pages,
    presets,
    real,
    speed_cpu,
    speed_page,
    stock,
)
from benchmarks.common import RESULTS

from assay.core.decoding import Decoding
from assay.rollout.dataset.suite import choose
from assay.rollout.evaluation.rollout import Pace, play
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay_tasks.collider import Collider, ColliderSettings, generate
from tests.house import ROOT
from tests.small_policy import small_model, small_policy
from tests.warm import warm_python

TASK = Collider(ColliderSettings(surface="compact", max_turns=4, shaping=0.0, gamma=1.0))
PLAYS = choose(
    [TASK.item(row) for row in generate("validation", 6, max_turns=8, labels=("benchmark test",))],
    6,
    split="validation",
    draws=2,
    seed=0,
).plays()
SPOKEN = Collider(ColliderSettings(surface="json", max_turns=4, shaping=0.0, gamma=1.0))
SHAPE = floors.Shape(32, 64, 2, 2, 1, 16, 1005)
NUMBER = re.compile(r"(\d+) clusters")
FORBIDDEN = re.compile(r"error: .*\[(operator|call-arg|call-overload|attr-defined|name-defined|index)\]$")
WORK = floors.Work(prompts=2, group=3, prompt=12, turns=3, new=4, reply=9)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return small_policy(TASK.vocabulary(), layers=2, heads=4, initializer_range=0.3)


@pytest.fixture(scope="module")
def spoken() -> Policy:
    shown = [list(talk) for talk in SPOKEN.demonstrations(np.random.default_rng(0), 20)]
    words = json_base.words(shown)
    return small_policy(words, layers=2, heads=4, max_positions=2048, initializer_range=0.3)


# Runs a script's imports, and looks whether what it names of a module of ours is there; each in a child that
# is forked from one process, which has what nearly all of them import.
IMPORTED = """
import ast, os, runpy, sys, traceback, types
import jsonschema, matplotlib.pyplot, pandas, peft, ruamel.yaml, scipy.stats, torch, transformers, trl
import transformers.models.qwen3.modeling_qwen3, trl.trainer.grpo_trainer
import assay.core.config.settings, assay.core.records
import assay.package.verification.content.rendered, assay.pipeline.project, assay.rollout.policy.model

OURS = ("assay", "benchmarks", "tests")

def look(script):
    sys.argv = [script]
    known = runpy.run_path(script, run_name="imported")
    for node in ast.walk(ast.parse(open(script, encoding="utf-8").read())):
        of = getattr(node, "value", None) if isinstance(node, ast.Attribute) else None
        module = known.get(of.id) if isinstance(of, ast.Name) else None
        if isinstance(module, types.ModuleType) and module.__name__.partition(".")[0] in OURS:
            assert hasattr(module, node.attr), f"line {node.lineno}: {module.__name__} has no {node.attr}"

for script in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            look(script)
            code = 0
        except BaseException:
            print(script, traceback.format_exc(), file=sys.stderr, flush=True)
        os._exit(code)
    if os.waitpid(child, 0)[1]:
        print(script)
"""


def test_every_benchmark_names_what_is_there() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    scripts = [str(path) for path in sorted((ROOT / "benchmarks").glob("*.py"))]
    assert len(scripts) > 40
    command = [warm_python(), "-c", IMPORTED, *scripts]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_no_benchmark_combines_what_its_types_forbid(tmp_path: Path) -> None:
    # What a name of ours means is not followed, which is quick; text divided by text is found all the same.
    options = "--follow-imports=skip --ignore-missing-imports --explicit-package-bases --check-untyped-defs"
    command = [
        sys.executable,
        "-m",
        "mypy",
        *options.split(),
        "--config-file=",
        f"--cache-dir={tmp_path}",
        "benchmarks",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode in (0, 1), done.stderr
    found = [line for line in done.stdout.splitlines() if FORBIDDEN.search(line) and "Array?" not in line]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    ("name", "write_page"),
    [
        ("presets", presets.write_page),
        ("speed_cpu", speed_cpu.write_page),
        ("cost_cpu", cost.write_page),
        ("lean", lean.write_page),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_page_says_what_was_found(name: str, write_page: Any, tmp_path: Path) -> None:
    recorded = RESULTS / f"{name}.json"
    write_page(tmp_path / "page.json", json.loads(recorded.read_text(encoding="utf-8")))
    made = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert made == recorded.with_suffix(".md").read_text(encoding="utf-8")


def test_the_tables_on_speed_are_those_of_the_records() -> None:
    text = speed_page.PAGE.read_text(encoding="utf-8")
    assert speed_page.filled(text) == text
    assert all(f"<!-- {name} -->\n|" in text for name in speed_page.TABLES)


def test_both_sides_of_a_speed_measurement_write_the_same_greedy_tokens() -> None:
    bench = filler.Bench(filler.policy_of(SHAPE, "cpu", torch.float32), WORK, "cpu")
    bench._decoding = Decoding(0.0, WORK.new)
    ours, theirs = bench.ours()[0], bench.stock()
    assert ours == theirs
    assert bench.written(ours) <= WORK.rows * WORK.turns * WORK.new
    assert max(map(len, ours)) == WORK.longest - WORK.prompt


def test_log_probabilities_of_both_sides_are_those_of_a_plain_forward_pass() -> None:
    bench = filler.Bench(filler.policy_of(SHAPE, "cpu", torch.float32), WORK, "cpu")
    found = bench.difference()
    assert 0.0 < found["ours"] < 1e-4
    assert 0.0 < found["stock"] < 1e-4


def test_playing_the_natural_way_is_the_same_greedy_play(policy: Policy) -> None:
    greedy = Decoding(0.0, 6)
    played = list(play(policy, TASK, PLAYS, greedy, pace=Pace(5)))
    ours = [one.episode for one in played]
    theirs = stock.play_naturally(policy, TASK, PLAYS, greedy, 5)
    assert [one["prompt"] for one in theirs] == [len(one.prompt_ids) for one in played]
    # What is re-rendered ends each turn by end-of-sequence, as ours does where a completion is cut short.
    assert [one["after"] for one in theirs] == [len(one.completion_ids) for one in played]
    assert [one["turns"] for one in theirs] == [len(one.turns) for one in ours]
    assert [one["reward"] for one in theirs] == pytest.approx([one.reward for one in ours])
    assert [one["tokens"] for one in theirs] == [sum(turn.n_tokens for turn in one.turns) for one in ours]


def test_a_stock_episode_with_another_prompt_or_observation_ends_the_measurement(policy: Policy) -> None:
    dialogue = policy.dialogue
    messages, state = TASK.start(PLAYS[0].item, PLAYS[0].world_seed)
    prompt, ids, mask = dialogue.prompt(messages), list[int](), list[int]()
    for text in ("s", "s", "nc3"):
        step = TASK.step(state, text)
        state, written = step.state, [*dialogue._ids(text), dialogue.eos_id]
        told = [] if step.observation is None else dialogue.reply(step.observation, last_id=dialogue.eos_id)
        ids, mask = ids + written + told, mask + [1] * len(written) + [0] * len(told)
    assert stock.turns_of(mask) == 3
    assert stock.same_conversation(TASK, dialogue, PLAYS[0], prompt, ids, mask) == 0
    with pytest.raises(SystemExit, match="prompt"):
        stock.same_conversation(TASK, dialogue, PLAYS[0], [*prompt, 5], ids, mask)
    ids[mask.index(0)] += 1
    with pytest.raises(SystemExit, match="observation"):
        stock.same_conversation(TASK, dialogue, PLAYS[0], prompt, ids, mask)


def test_only_a_verdict_is_an_answer_to_trl_and_all_else_is_a_call(policy: Policy) -> None:
    parse = stock.speaking(policy, TASK).parse_response
    for text, verdict in (("nc3", True), ("s", False), ("ggg", False)):
        message = parse([*policy.dialogue._ids(text), policy.dialogue.eos_id])
        assert ("tool_calls" not in message, stock.answer(message)) == (verdict, text)


def test_the_words_of_the_json_base_write_any_text_of_the_surface_and_give_it_back(spoken: Policy) -> None:
    for talk in SPOKEN.demonstrations(np.random.default_rng(9), 5):
        for said in talk:
            ids = spoken.dialogue._ids(said["content"])
            assert spoken.tokenizer.unk_token_id not in ids
            assert spoken.dialogue.text(ids) == said["content"]
    assert spoken.dialogue.text(spoken.dialogue._ids('{"failed": "~?"}\n')) == '{"failed": "~?"}\n'


def test_trl_is_spoken_to_in_json_with_the_tokens_that_our_dialogue_has(spoken: Policy) -> None:
    messages, state = SPOKEN.start(PLAYS[0].item, PLAYS[0].world_seed)
    text = '{"action_type":"take_data","channel":"diphoton","blocks":2}'
    told = SPOKEN.step(state, text).observation
    assert told is not None
    dialogue = Dialogue(spoken.tokenizer)
    ours = [
        *dialogue.prompt(messages),
        *dialogue._ids(text),
        dialogue.eos_id,
        *dialogue.reply(told, last_id=dialogue.eos_id),
    ]
    before, spoken.tokenizer.chat_template = spoken.tokenizer.chat_template, stock.TOOL_TEMPLATE
    try:
        parse = stock.speaking(spoken, SPOKEN).parse_response
        call = parse([*dialogue._ids(text), dialogue.eos_id])
        talk = [*messages, call, {"role": "tool", "name": "act", "content": told}]
        theirs = spoken.tokenizer.apply_chat_template(talk, tokenize=True, add_generation_prompt=True)[
            "input_ids"
        ]
        for said, verdict in (
            ('{"action_type":"no_signal","confidence":0.5}', True),
            ("{", False),
            (text, False),
        ):
            message = parse(dialogue._ids(said))
            assert ("tool_calls" not in message, stock.answer(message)) == (verdict, said)
    finally:
        spoken.tokenizer.chat_template = before
    assert theirs == ours


def test_the_least_work_of_episodes_reads_a_shared_prompt_once() -> None:
    shape = floors.Shape(8, 16, 1, 2, 1, 4, 100)
    body, head, look, adapter = shape.body, 800, 4 * 2 * 4, shape.adapter(3)
    assert adapter == 3 * ((8 + 8) + 2 * (8 + 4) + (8 + 8) + 3 * (8 + 16))
    one, other = floors.Talk("a", 10, 3, 3, 1), floors.Talk("b", 10, 3, 3, 1)
    prompt = 2 * body * 10 + look * 55
    behind = 2 * body * 2 + look * (11 + 12)
    alone = floors.least_work(shape, [one], 0)
    assert alone == {"read": prompt, "written": behind + 3 * 2 * head, "learned": 0.0}
    assert floors.least_work(shape, [one, one], 0)["read"] == prompt
    assert floors.least_work(shape, [one, other], 0)["read"] == 2 * prompt
    learned = floors.least_work(shape, [one], 3)["learned"]
    assert learned == 12 * (4 * body + 6 * adapter) + 3 * look * (55 + 11 + 12) + 3 * 4 * head
    told = floors.least_work(
        shape, [floors.Talk("a", 10, 5, 3, 2)], 0
    )  # two of the tokens are an observation
    assert told["read"] - prompt == pytest.approx(told["written"] - 3 * 2 * head)


@pytest.mark.filterwarnings(
    "ignore:.is_gradient_checkpointing:FutureWarning"
)  # peft still asks for the old name
def test_the_adapter_counted_is_the_one_that_is_trained(policy: Policy) -> None:
    from peft import LoraConfig, get_peft_model

    shape = floors.Shape.of(policy.model.config)
    assert shape.body + shape.head == sum(
        p.numel() for name, p in policy.model.named_parameters() if "norm" not in name
    )
    model = get_peft_model(
        small_model(policy.tokenizer, layers=2, heads=4, initializer_range=0.3),
        LoraConfig(r=5, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    assert shape.adapter(5) == sum(p.numel() for p in model.parameters() if p.requires_grad)


def test_a_floor_is_operations_at_the_rate_of_their_products() -> None:
    runs = [
        {
            "wall": 8.0,
            "cpu": 8.0,
            "tokens": 4.0,
            "turns": 2.0,
            "episodes": 2.0,
            "reward": 0.0,
            "flops_read": 20.0,
            "flops_written": 6.0,
            "flops_learned": 30.0,
        }
    ]
    row = speed_cpu.one_side(runs, 2.0, {}, {"read": 10.0, "written": 3.0})
    assert (row["floor_playing_seconds"], row["floor_seconds"]) == (2.0, 3.5)


def test_a_row_without_a_goal_says_so_and_has_not_failed_one() -> None:
    pair = tuple({"wall": s, "cpu": s, "tokens": 1.0} for s in (3.0, 1.0))
    found = speed_cpu.compared([pair], goal=None)  # type: ignore[list-item]
    assert (found["median"], found["goal"], found["reached"]) == (3.0, None, None)


def test_a_ratio_is_of_pairs_and_says_whether_the_goal_is_reached() -> None:
    def pair(stock_seconds: float, ours_seconds: float) -> tuple[dict[str, float], dict[str, float]]:
        return tuple(
            {"wall": s, "cpu": s, "tokens": n} for s, n in ((stock_seconds, 100.0), (ours_seconds, 50.0))
        )  # type: ignore[return-value]

    found = speed_cpu.compared([pair(8.0, 2.0), pair(9.0, 1.0), pair(6.0, 2.0)], goal=4.0)
    assert (found["median"], found["low"], found["high"], found["n"]) == (4.0, 3.0, 9.0, 3)
    assert found["reached"]
    assert not speed_cpu.compared([pair(3.9, 1.0)], goal=4.0)["reached"]
    assert found["median_by_token"] == pytest.approx(2.0)  # ours wrote half the tokens
    assert found["range_holds_the_median_with_probability"] == 0.75


def test_the_floor_counts_each_token_once() -> None:
    shape, slow = floors.Shape(8, 16, 1, 2, 1, 4, 100), floors.Machine(bandwidth=1.0, flops=float("inf"))
    body = 8 * 4 * (2 * 2 + 2) + 3 * 8 * 16
    assert (shape.body, shape.head, shape.kv) == (body, 800, 8)
    one = floors.floor(shape, floors.Work(1, 1, 10, 1, 1, 0), slow, 4)
    assert one["bytes"] == one["seconds"] == 4 * (body + 800) + 4 * 8 * 10
    assert one["flops"] == 2 * body * 10 + 2 * 800 + 4 * 2 * 4 * 10 * (10 - 5)
    group = floors.floor(
        shape, floors.Work(1, 8, 10, 1, 2, 0), slow, 4
    )  # the prompt is read once for all eight
    assert group["bytes"] - one["bytes"] == 4 * (body + 800) + 8 * 4 * 8 * 11


def test_the_level_is_held_in_every_layout_that_was_tried_and_promised_power_is_found() -> None:
    tables = json.loads((ROOT / "benchmarks/results/verdict_levels.json").read_text(encoding="utf-8"))
    layouts = [each for each in tables["layouts"] if each["usual"]]
    assert len(layouts) >= 25 and len({each["name"] for each in layouts}) == len(layouts)
    for kind in ("deterministic base", "size tied to effect", "rare heavy losers", "tie", "families"):
        assert any(kind in each["name"] for each in layouts), kind
    assert {8, 10, 12, 16, 20, 40} <= {int(n) for each in layouts for n in NUMBER.findall(each["name"])}
    for each in tables["layouts"]:
        # Clusters that lose more than the plan says are what it does not reckon with.
        assert each["false_better"] <= 0.025 or each["excluded"], each["name"]
        assert (each["refused"] > 0) is (each["needed"] is not None), each["name"]
    for each in layouts:
        assert each["replications"] >= 3000 and each["false_better"] <= 0.035, each["name"]
        assert each["upper"] <= 0.06 and each["coverage"] >= 0.94, each["name"]
    beyond = {each["name"] for each in layouts if each["false_better"] > 0.025}
    assert all("break by 60 points" in name for name in beyond)
    for table in ("at_random", "means"):
        assert all(each["upper"] <= 0.06 and each["coverage"] >= 0.94 for each in tables[table]), table
    # Each mean without bounds stands among the layouts once more, as a reward whose bounds are known.
    assert {f"reward within bounds, {each['name']}" for each in tables["means"]} <= {
        each["name"] for each in layouts
    }
    assert all(abs(each["got"] - each["promised"]) <= 0.05 for each in tables["power"])
    assert any("10 clusters" in each["name"] and "all or nothing" in each["name"] for each in tables["power"])
    assert all(abs(each["got"] - each["promised"]) <= 0.05 for each in tables["seldom"])


def test_clustered_results_take_hardly_more_items_than_a_t_test_would() -> None:
    table = json.loads((ROOT / "benchmarks/results/power.json").read_text(encoding="utf-8"))
    counted = [row for row in table["rows"] if row["clusters"] >= 40]
    assert {(row["cluster_size"], row["draws"]) for row in counted} == set(
        itertools.product((1, 4, 8, 16), (1, 4))
    )
    assert table["worst_ratio"] == max(row["ratio"] for row in counted) <= 1.15
    single = [row for row in counted if row["mcnemar"]]
    assert single and all(row["items"] == row["mcnemar"] for row in single)


def test_no_published_test_of_few_clusters_keeps_the_level_at_a_lower_price() -> None:
    results = ROOT / "benchmarks/results"
    rows = json.loads((results / "power.json").read_text(encoding="utf-8"))["rows"]
    levels = json.loads((results / "verdict_levels.json").read_text(encoding="utf-8"))["layouts"]
    layouts = [each for each in levels if each["usual"]]
    own = sum(each["false_better"] > 0.025 for each in layouts)
    for name in layouts[0]["published"]:
        beyond = sum(each["published"][name] > 0.025 for each in layouts)
        prices = [(row["published"][name], row["items"]) for row in rows if row["published"].get(name)]
        assert beyond > own or (prices and all(theirs > ours for theirs, ours in prices)), name


def test_p_is_the_same_under_every_name_in_every_order_with_every_seed() -> None:
    table = json.loads((ROOT / "benchmarks/results/exact.json").read_text(encoding="utf-8"))
    assert table["spread"] <= 1e-12 and table["ms"] <= 50 and all(row["names"] >= 12 for row in table["sets"])
    exact = [row for row in table["agreement"] if "weightings" not in row["against"] and row["cases"]]
    assert len(exact) >= 2 and all(row["error"] <= 1e-10 for row in exact)


def test_the_bytes_of_a_page_are_counted_once_each(tmp_path: Path) -> None:
    page, parts = (
        tmp_path / "p.html",
        ("<style>a{}</style>", "<img src='x'>", "<svg><b/></svg>", "<script>1</script>"),
    )
    page.write_text(f"<p>\u00e4</p>{''.join(parts)}<script>22</script>", encoding="utf-8")
    found = pages.weigh_file(page)
    assert found == {"total": 92, "fonts": 0, "images": 28, "scripts": 37, "styles": 18, "rest": 9}
    kept = json.loads((RESULTS / "pages.json").read_text())["report"]
    assert sum(kept["bytes"].values()) == 2 * kept["bytes"]["total"] and kept["rules_broken"] == 0


def test_what_came_of_a_real_run_is_read_from_claim_and_reports_and_is_numbers() -> None:
    results = ROOT / "evidence/results"
    places = {"claim": "report", "reports": "report", "base": "base"}
    read = {
        name: json.loads((results / folder / f"{name}.json").read_text()) for name, folder in places.items()
    }
    assert set(real.READ) == set(places)
    found = real.came_of(read)
    assert found["success"]["after"] == read["claim"]["after"] and found["baselines"].keys() >= {"greedy"}
    assert found["arms"]["pre_eval"]["success_rate"] == read["claim"]["before"]
    assert {name for name in found["arms"]["post_eval"] if name.startswith("part.")}
    assert len(json.dumps(found)) < 60_000


def test_a_stage_is_measured_with_its_children_and_what_was_killed_counts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DVC is one that burns processor time in a child, and ends once with an error."""
    burn = "import time\nwhile time.process_time() < 0.3: pass\nx = b'1' * 2**26"
    (tmp_path / "dvc.py").write_text(
        f"import pathlib, subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}], check=True)\n"
        "lock = pathlib.Path('dvc.lock')\nif lock.exists(): sys.exit()\n"
        "if not pathlib.Path('tried').exists():\n    pathlib.Path('tried').touch()\n    sys.exit(3)\n"
        "lock.touch()\nlock.write_text('made')\n"
    )
    monkeypatch.setattr(real, "ROOT", tmp_path)
    kept: dict[str, Any] = {}
    with pytest.raises(SystemExit, match="3"):
        real.run_stage("train", kept)
    first = dict(kept["train"])
    real.run_stage("train", kept)
    assert first["cpu_s"] >= 0.3 and kept["train"]["cpu_s"] >= first["cpu_s"] + 0.3
    assert kept["train"]["largest_mib"] >= 64
    counted = dict(kept["train"])
    real.run_stage("train", kept)
    assert kept["train"] == counted


def test_a_measurement_of_a_real_model_lacks_one_where_the_base_is_built_from_scratch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["real.py"])
    with pytest.raises(SystemExit, match="2"):
        real.main()
    assert "grpo=cpu_smollm2" in capsys.readouterr().out
