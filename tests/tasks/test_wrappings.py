"""What models write around an answer is cut off where the settings say so, alike for every task; else not."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.cli.tools.tasks_file import items_of, open_project, suite_from
from assay.core.config.tasks import Wrapping
from assay.core.records import Episode
from assay.pipeline.inputs import task_with
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Play, rules_of
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.evaluation.written import count_written
from assay.rollout.tasks.own.recorded import Recorded
from assay.rollout.tasks.own.task import own_task
from assay.rollout.tasks.protocol import Item, Task
from assay.rollout.tasks.tool_calls import calls_as_text
from assay.rollout.tasks.wrappings import EVERY, cut_off, found_around, only_reasons, read_message
from tests.house import ROOT
from tests.tasks.own.test_recorded import recorded
from tests.tasks.own.test_task import HALF, ROW

J = '{"a": 1}'
CALL = '{"name": "f", "arguments": {"a": 1}}'
TWO = f"[{CALL}, {CALL}]"
CALL_B, CALL_P = (f'{{"name": "f", "arguments": {{"a": 1, "b": "{b}"}}}}' for b in ("1", "(1)"))
# Around J, unless another answer is named: what stands around it, and what is left.
WRAPPED: dict[str, tuple[tuple[Wrapping, ...], str, str]] = {
    "think block": (("think",), f"<think>\nOslo? {{}}\n</think>\n\n{J}", J),
    "its opening in the prompt": (("think",), f"Oslo? {{}}\n</think>\n\n{J}", J),
    "two thoughts": (("think",), f"<think>x</think>{J}<think>y</think>", J),
    "a tag that is thought of": (("think",), f"<think>close with </think>, I know</think>{J}", J),
    "never closed": (("think",), f"<think>{J}", ""),
    "thinking": (("think",), f"<thinking>x</thinking>{J}", J),
    "piped": (("think",), f"<|thinking|>x<|/thinking|>{J}", J),
    "Command A": (("think",), f"<|START_THINKING|>x<|END_THINKING|>{J}", J),
    "begin of thought": (("think",), f"<|begin_of_thought|>x<|end_of_thought|>{J}", J),
    "Magistral": (("think",), f"[THINK]x[/THINK]{J}", J),
    "Kimi": (("think",), f"◁think▷x◁/think▷{J}", J),
    "Seed": (("think",), f"<seed:think>x</seed:think>{J}", J),
    "think and answer": (("think", "answer"), f"<think>x</think>\n<answer>\n{J}\n</answer>", J),
    "fence": (("fence",), f"```json\n{J}\n```\n", J),
    "fence without language": (("fence",), f"```\n{J}\n```", J),
    "fence of tildes": (("fence",), f"~~~json\n{J}\n~~~", J),
    "fence without end": (("fence",), f"```json\r\n{J}", J),
    "fence of several lines": (("fence",), "```c++\nint a;\n\nint b;\n```", "int a;\n\nint b;"),
    "fence of one line": (("fence",), f"```json {J}```", J),
    "backticks": (("fence",), f"`{J}`", J),
    "thought, then fence": (("think", "fence"), f"<think>x</think>\n```json\n{J}\n```", J),
    "Hermes": (("tool_call",), f"<tool_call>\n{CALL}\n</tool_call>", CALL),
    "Hermes, with words": (("tool_call",), f"I will look.\n<tool_call>{CALL}</tool_call>", CALL),
    "Hermes, two": (("tool_call",), f"<tool_call>{J}</tool_call><tool_call>{J}</tool_call>", f"[{J}, {J}]"),
    "Mistral": (("tool_call",), f"[TOOL_CALLS] [{CALL}]</s>", CALL),
    "Mistral by name": (("tool_call",), f"[TOOL_CALLS]f[ARGS]{J}", CALL),
    "Llama": (("tool_call",), f"<|python_tag|>{CALL}<|eom_id|>", CALL),
    "Granite": (("tool_call",), f"<|tool_call|>[{CALL}, {J}]", f"[{CALL}, {J}]"),
    "Granite, closed": (("tool_call",), f"<|tool_call|>[{CALL}]<|/tool_call|>", CALL),
    "Mistral, ids": (("tool_call",), f'[TOOL_CALLS][{{"name": "f", "arguments": {J}, "id": "x"}}]', CALL),
    "Mistral, two by name": (
        ("tool_call",), f"[TOOL_CALLS]f[CALL_ID]x1[ARGS]{J}[TOOL_CALLS]f[ARGS]{J}</s>", TWO,
    ),
    "Mistral, bare id": (("tool_call",), f"[TOOL_CALLS]f[CALL_ID]x1[ARGS]{J}", CALL),
    "DeepSeek V3": (
        ("tool_call",),
        "I will look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
        f"{J}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        CALL,
    ),
    "DeepSeek V3.1": (
        ("tool_call",),
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{J}<｜tool▁call▁end｜>"
        f"<｜tool▁call▁begin｜>f<｜tool▁sep｜>{J}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        TWO,
    ),
    "DeepSeek, thin bars": (
        ("tool_call",), f"<|tool▁calls▁begin|><|tool▁call▁begin|>f<|tool▁sep|>{J}<|tool▁call▁end|>", CALL,
    ),
    "DeepSeek, never closed": (
        ("tool_call",), f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{J}", CALL,
    ),
    "DeepSeek V3.2": (
        ("tool_call",),
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="false">1'
        '</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="true">1</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        CALL_B,
    ),
    "Kimi K2": (
        ("tool_call",),
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
        f"{J}<|tool_call_end|><|tool_calls_section_end|><|im_end|>",
        CALL,
    ),
    "Kimi K2, two": (
        ("tool_call",),
        "".join(
            f"<|tool_call_begin|>functions.f:{n}<|tool_call_argument_begin|>{J}<|tool_call_end|>"
            for n in range(2)
        ),
        TWO,
    ),
    "Kimi K2 without its tokens": (("tool_call",), f"functions.f:0{J}", CALL),
    "GLM": (
        ("tool_call",),
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>b</arg_key>\n"
        "<arg_value>x</arg_value>\n</tool_call>",
        '{"name": "f", "arguments": {"a": 1, "b": "x"}}',
    ),
    "GLM on one line": (
        ("tool_call",), "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>", CALL,
    ),
    "GLM, never closed": (("tool_call",), "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1", CALL),
    "GLM without arguments": (("tool_call",), "<tool_call>f</tool_call>", '{"name": "f", "arguments": {}}'),
    "Hunyuan": (
        ("tool_call",),
        "<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n"
        "</tool_call>\n</tool_calls>",
        CALL,
    ),
    "Qwen-Coder": (
        ("tool_call",),
        "Let me see.\n<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
        CALL,
    ),
    "Qwen-Coder, a text of lines": (
        ("tool_call",),
        "<tool_call>\n<function=f>\n<parameter=a>\n  if x:\n\n    </p>\n\n</parameter>\n<parameter=b>\nTrue\n"
        "</parameter>\n</function>\n</tool_call>",
        r'{"name": "f", "arguments": {"a": "  if x:\n\n    </p>\n", "b": true}}',
    ),
    "Qwen-Coder, never closed": (("tool_call",), "<function=f>\n<parameter=a>\n1", CALL),
    "Seed, a call": (
        ("tool_call",),
        "<seed:tool_call><function=f><parameter=a>1</parameter></function></seed:tool_call>",
        CALL,
    ),
    "MiniMax": (
        ("tool_call",),
        '<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">1</parameter>\n</invoke>\n'
        '<invoke name="f">\n<parameter name="a">1</parameter>\n</invoke>\n</minimax:tool_call>',
        TWO,
    ),
    "Llama, a function": (("tool_call",), f"<function=f>{J}</function><|eom_id|>", CALL),
    "Llama, two functions": (("tool_call",), f"<function=f>{J}</function>\n<function=f>{J}</function>", TWO),
    "Llama, parameters": (
        ("tool_call",), f'<|python_tag|>{{"name": "f", "parameters": {J}}}<|eom_id|>', CALL,
    ),
    "Llama, parameters, two": (
        ("tool_call",), "; ".join([f'{{"type": "function", "name": "f", "parameters": {J}}}'] * 2), TWO,
    ),
    "Llama, a tool it knows": (("tool_call",), "<|python_tag|>f.call(a=1)<|eom_id|>", CALL),
    "Llama 4": (("tool_call",), "<|python_start|>[f(a=1), f(a=1)]<|python_end|><|eot|>", TWO),
    "Llama, as a program": (("tool_call",), '[f(a=1, b="(1)")]', CALL_P),
    "Olmo": (("tool_call",), "<function_calls>\nf(a=1)\nf(a=1)\n</function_calls>", TWO),
    "LFM": (("tool_call",), "<|tool_call_start|>[f(a=1, b='(1)')]<|tool_call_end|>", CALL_P),
    "functionary": (("tool_call",), f">>>f\n{J}", CALL),
    "functionary, its sign in the prompt": (("tool_call",), f"f\n{J}", CALL),
    "functionary, words and two": (("tool_call",), f"all\nLet me see.>>>f\n{J}>>>f\n{J}<|eot_id|>", TWO),
    "functionary 2": (
        ("tool_call",),
        f"<|from|>assistant\n<|recipient|>all\n<|content|>So.\n<|from|>assistant\n<|recipient|>f\n<|content|>{J}"
        "<|stop|>",
        CALL,
    ),
    "Gemma 3": (("tool_call",), "```tool_code\nprint(f(a=1))\n```", CALL),
    "FunctionGemma": (
        ("tool_call",),
        "<start_function_call>call:f{a:1,b:<escape>(1)<escape>}<end_function_call>",
        CALL_P,
    ),
    "Gemma 4": (("tool_call",), '<|tool_call>call:f{a:1,b:<|"|>(1)<|"|>}<tool_call|><turn|>', CALL_P),
    "Gemma 4, nested": (
        ("tool_call",),
        '<|tool_call>call:f{a:{b:[true,null]}}<tool_call|>',
        '{"name": "f", "arguments": {"a": {"b": [true, null]}}}',
    ),
    "Gemma 4, thought": (("channels",), f"<|channel>thought\nOslo?<channel|>{J}", J),
    "Gemma 4, thought alone": (("channels",), f"<|channel>thought\n{J}", ""),
    "Gemma 4, thought and a call": (
        ("channels", "tool_call"),
        "<|channel>thought\nOslo?<channel|><|tool_call>call:f{a:1}<tool_call|>",
        CALL,
    ),
    "Command": (
        ("think", "tool_call"),
        "<|START_THINKING|>x<|END_THINKING|><|START_ACTION|>[\n"
        f'{{"tool_call_id": "0", "tool_name": "f", "parameters": {J}}}\n]<|END_ACTION|>',
        CALL,
    ),
    "InternLM": (
        ("tool_call",),
        f'Yes.<|action_start|><|plugin|>\n{{"name": "f", "parameters": {J}}}<|action_end|><|im_end|>',
        CALL,
    ),
    "Nemotron": (("tool_call",), f"<TOOLCALL>[{CALL}]</TOOLCALL>", CALL),
    "Phi": (("tool_call",), f"functools[{CALL}]", CALL),
    "ReAct": (("tool_call",), f"Thought: x\nAction: f\nAction Input: {J}", CALL),
    "a call in a fence in tags": (("tool_call",), f"<tool_call>\n```json\n{CALL}\n```\n</tool_call>", CALL),
    "tags in tags": (("tool_call",), f"<tool_calls><tool_call>{CALL}</tool_call></tool_calls>", CALL),
    "a call that holds tags": (
        ("tool_call",),
        '<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}</tool_call>',
        '{"name": "f", "arguments": {"a": "</tool_call>"}}',
    ),
    "arguments as a text": (
        ("tool_call",), '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', CALL,
    ),
    "words behind a call": (("tool_call",), f"<tool_call>{CALL}\nNow I wait.", CALL),
    "several lines of calls": (("tool_call",), f"<tool_calls>\n{CALL}\n{CALL}\n</tool_calls>", TWO),
    "a box": (("boxed",), r"So $x = \boxed{\frac{1}{2}}$.", r"\frac{1}{2}"),
    "the last box": (("boxed",), r"\boxed{1}, no: \boxed{2}", "2"),
    "a box without end": (("boxed",), r"So \boxed{42", "42"),
    "a box in answer tags": (("answer", "boxed"), r"<answer>$\boxed{4}$</answer>", "4"),
    "Granite, without tags": (
        ("think",), f"Here is my thought process:\n\nOslo?\n\nHere is my response:\n\n{J}", J,
    ),
    "Apertus": (("think",), f"<|inner_prefix|>x<|inner_suffix|>{J}", J),
    "Apriel": (("answer",), f"So it is.\n[BEGIN FINAL RESPONSE]\n{J}\n[END FINAL RESPONSE]", J),
    "Hermes, scratch pad": (("think",), f"<scratch_pad>x</scratch_pad>{J}", J),
    "thought in thought": (("think",), f"<think>a<think>b</think>c</think>{J}", J),
    "answer in answer": (("answer",), f"<answer><answer>{J}</answer></answer>", J),
    "harmony": (
        ("channels",),
        f"<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>{J}<|return|>",
        J,
    ),
    "harmony, as JSON": (("channels",), f"<|channel|>final <|constrain|>json<|message|>{J}", J),
    "harmony, a call": (
        ("channels",),
        "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>commentary to=functions.f"
        f" <|constrain|>json<|message|>{J}<|call|>",
        CALL,
    ),
    "harmony, no answer": (("channels",), f"<|channel|>analysis<|message|>{J}", ""),
    "harmony without its tokens": (("channels",), f"analysisWe need a.assistantfinal{J}", J),
    "so a call": (("channels",), f"analysisWe need a.assistantcommentary to=functions.f json{J}", CALL),
    "so no answer": (("channels",), "analysisWe need a", ""),
    "words": (("prose",), f"Here is the JSON:\n{J}\nAnything else?", J),
    "words around a fence on one line": (("prose",), "The query is ```SELECT 1``` as asked.", "SELECT 1"),
    "words around a fence of no JSON": (("prose",), "Here:\n\n```sql\nSELECT 1\n```\n\nDone.", "SELECT 1"),
    "words around a fence without end": (("prose",), f"Here: ```json\n{J}", J),
    "words around a fence": (("prose",), f"Here it is:\n```json\n{J}\n```\nAnything else?", J),
}  # fmt: skip
BARE = [
    "",
    " 4 ",
    J,
    "finally 4",
    "analysis of a",
    "a `b` c",
    "a <b and c> d",
    "I think: 4",
    "[1] and [2]",
    ">>> f(a=1)",
    "f(a=1)",
    '{"name": "f", "value": 1}',
    'json {"a"',
    "Action: run",
]


@pytest.mark.parametrize("name", WRAPPED)
def test_what_stands_around_an_answer_is_found_and_cut(name: str) -> None:
    around, text, answer = WRAPPED[name]
    assert cut_off(text, around) == answer and found_around(text) == around
    assert cut_off(text, []) == text
    assert only_reasons(text) == (answer == "")


BARE += ["analysis_df = load()\nprint(analysis_df)", "final_answer = 3"]


@pytest.mark.parametrize("text", BARE)
def test_a_bare_answer_is_left_as_it_is(text: str) -> None:
    assert cut_off(text, EVERY) == text and found_around(text) == () and not only_reasons(text)


def test_wrappings_are_cut_in_the_order_that_is_stated() -> None:
    text = f"```\n<think>x</think>{J}\n```"
    assert cut_off(text, ["fence", "think"]) == J
    assert cut_off(text, ["think", "fence"]) == J
    outside = f"<think>x</think>```\n{J}\n```"
    assert cut_off(outside, ["think", "fence"]) == J
    assert cut_off(outside, ["fence", "think"]) == f"```\n{J}\n```"


LONG = ["<think>", "</think>", "[", "{", '{"a": [', "`", "```\n", "~~~\nx\n", "<|", "<tool_call>", "< "]
LONG += [
    "<function=f>",
    "<tool_call>f<arg_key>",
    "<tool_call>f(a='",
    "call:f{",
    ">>>f\n{",
    "\\boxed{",
    "<|x|>",
]


@pytest.mark.parametrize("part", LONG)
def test_no_text_takes_long(part: str) -> None:
    text, before = part * (120_000 // len(part)), time.process_time()
    found_around(text)
    assert time.process_time() - before < 2.0


@pytest.mark.parametrize("text", ["```" + " " * 120_000 + "x", '<tool_call>f(a="' + '\\"' * 60_000])
def test_no_text_without_its_end_takes_long(text: str) -> None:
    before = time.process_time()
    found_around(text)
    assert time.process_time() - before < 2.0


def test_texts_of_a_program_say_what_a_program_reads() -> None:
    for text, value in (
        (r"'x\ny'", "x\ny"),
        (r"'it\'s'", "it's"),
        ("'say \"x\"'", 'say "x"'),
        (r"'\q'", "\\q"),
    ):
        assert json.loads(cut_off(f"[f(a={text})]", ["tool_call"]))["arguments"] == {"a": value}


CALLS: dict[str, tuple[Any, str]] = {
    "of OpenAI": ([{"type": "function", "id": "1", "function": {"name": "f", "arguments": J}}], CALL),
    "arguments as they are": ([{"function": {"name": "f", "arguments": {"a": 1}}}], CALL),
    "of Anthropic": ([{"type": "tool_use", "name": "f", "input": {"a": 1}}], CALL),
    "arguments that are no JSON": (
        [{"function": {"name": "f", "arguments": "{a"}}],
        '{"name": "f", "arguments": "{a"}',
    ),
    "two": ([{"name": "f", "arguments": J}] * 2, f"[{CALL}, {CALL}]"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_tools_are_what_a_model_writes_and_what_a_task_grades(name: str) -> None:
    calls, left = CALLS[name]
    assert cut_off(calls_as_text(calls), ["tool_call"]) == left
    said, thought = read_message({"content": "I will look.", "tool_calls": calls})
    assert cut_off(str(said), ["tool_call"]) == left and thought == ""


SAID: dict[str, tuple[dict[str, Any], tuple[str | None, str]]] = {
    "text": ({"content": "Rome", "tool_calls": []}, ("Rome", "")),
    "nothing": ({"content": None, "refusal": "no"}, (None, "")),
    "an empty text": ({"content": ""}, ("", "")),
    "thought": ({"content": None, "reasoning_content": "?"}, ("", "?")),
    "thought, by another name": ({"content": "", "reasoning": "?", "thinking": "!"}, ("", "?")),
    "both": ({"content": "Rome", "reasoning_content": "?"}, ("Rome", "?")),
    "parts": ({"content": [{"type": "text", "text": "Ro"}, {"type": "text", "text": "me"}]}, ("Rome", "")),
    "thought in parts": (
        {"content": [{"type": "thinking", "thinking": [{"text": "?"}]}, {"type": "text", "text": "Rome"}]},
        ("Rome", '[{"text": "?"}]'),
    ),
    "thought of Gemini": ({"content": [{"text": "?", "thought": True}, {"text": "Rome"}]}, ("Rome", "?")),
    "a call of Gemini": (
        {"content": [{"functionCall": {"name": "f", "args": {"a": 1}}}]},
        (f"<tool_call>\n{CALL}\n</tool_call>", ""),
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_a_message_says_its_text_and_keeps_thought_apart(name: str) -> None:
    message, told = SAID[name]
    assert read_message(message) == told


def built(name: str, cut: Sequence[str], *, shaping: bool) -> tuple[Project, Task]:
    """Return a shipped task with something cut off, as training and as evaluation make it."""
    project = open_project(ROOT, name, cut=",".join(cut) or "none")
    return project, task_with(project.root, project.params, None, shaping=shaping)


def wrapped(project: Project, task: Task) -> tuple[list[Play], list[Episode], list[list[str]]]:
    """Return plays, how the best player fares in them, and what it said, behind a thought and in a fence."""
    tasks = ROOT / project.params.dataset.root / "validation.jsonl"
    items, _ = items_of(project, task, tasks)
    plays = suite_from(project, items, tasks, 4, None, 1, "").plays()
    bare = play_baseline(task, task.baselines()[task.ceiling], plays, task.ceiling)
    return plays, bare, [[f"<think>rg4? rg5?</think>```\n{t.completion}\n```" for t in e.turns] for e in bare]


def played(task: Task, play: Play, texts: Sequence[str]) -> tuple[bool, float, str | None]:
    """Return success, reward, and the ending of a play with these completions."""
    state, reward, ending = task.start(play.item, play.world_seed)[1], 0.0, None
    for text in texts:
        step = task.step(state, text)
        state, ending = step.state, step.ending
        reward += sum(step.parts.values())
        if ending is not None:
            return task.judge(state).success, reward, ending
    return False, reward, None


@pytest.mark.parametrize("name", ["structured", "words", "collider"])
def test_every_task_cuts_alike_in_training_and_evaluation(name: str) -> None:
    project, plain = built(name, [], shaping=False)
    both = [built(name, ["think", "fence"], shaping=shaping)[1] for shaping in (False, True)]
    plays, bare, texts = wrapped(project, plain)
    assert all(episode.success for episode in bare)
    # Where no particle is to be found, who is never understood is right.
    assert sum(played(plain, play, said)[0] for play, said in zip(plays, texts, strict=True)) <= 1
    for play, episode, said in zip(plays, bare, texts, strict=True):
        for cutting in both:
            success, reward, ending = played(cutting, play, said)
            assert (success, ending) == (episode.success, episode.ending)
            assert reward == pytest.approx(episode.reward)


@pytest.mark.parametrize("name", ["structured", "words", "collider"])
def test_a_setting_that_cuts_nothing_leaves_every_digest_as_it_was(name: str) -> None:
    project, _ = built(name, [], shaping=False)
    task, generation = project.params.task, project.params.generation
    assert "cut" not in task.model_dump(mode="json")
    other = task.model_copy(update={"cut": ["think"]})
    assert rules_of(task, generation, None) != rules_of(other, generation, None)
    assert other.model_dump(mode="json")["cut"] == ["think"]


def test_what_code_was_told_is_found_again_under_the_text_as_it_was_written(tmp_path: Path) -> None:
    task, _ = recorded(tmp_path, HALF, cut=["think"], players={"wild": "scripted"})
    item, said = task.item(ROW), "<think>a or b</think>a"
    play = Play(item, 0, 0, 7)
    step = task.step(task.start(item, 7)[1], said)
    assert step.action == "a" and task.judge(step.state).success
    (episode,) = play_baseline(task, lambda item, state, rng: said, [play], "thinker")
    assert episode.turns[0].completion == said and episode.success
    known = Recorded()
    known.add(item.hidden, 7, episode, task.settings)
    assert played(own_task(task.settings, None, known), play, [said]) == (True, 1.0, "answered")


class Reads:
    """A player that says some texts one after the other, then what nobody can read."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._left = list(texts)

    def __call__(self, item: Item, state: object, rng: object) -> str:
        return self._left.pop(0) if self._left else "no"


def test_right_but_wrapped_is_told_from_wrong_in_a_task_of_several_turns() -> None:
    project, task = built("collider", [], shaping=False)
    plays, bare, right = wrapped(project, task)
    texts = [*right, *[[text.replace("```", "rg4 rg5") for text in said] for said in right]]
    pairs = list(zip([*plays, *plays], texts, strict=True))
    episodes = [play_baseline(task, Reads(said), [play], "reads")[0] for play, said in pairs]
    found = count_written(task, [play for play, _ in pairs], episodes, [])
    inside = sum(one.success > other.success for one, other in zip(bare, episodes, strict=False))
    assert inside >= 3 and not all(episode.success for episode in episodes[4:])
    assert found.right_but_wrapped == inside and found.wrapped_in == {"think": inside}


def test_a_right_call_is_right_in_every_form_that_models_write(tmp_path: Path) -> None:
    project, task = built("structured", [], shaping=False)
    function = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(
        json.dumps({"prompt": "Call f.", "functions": [function], "gold": {"f": {"a": [1]}}}) + "\n"
    )
    items, _ = items_of(project, task, tasks)
    (play,) = suite_from(project, items, tasks, 1, None, 1, "").plays()
    forms = [
        (around, text)
        for around, text, answer in WRAPPED.values()
        if answer == CALL and around[0] != "channels"
    ]
    said = [play_baseline(task, Reads([text]), [play], "r")[0] for _, text in forms]
    found = count_written(task, [play] * len(said), said, [])
    assert len(said) > 30 and found.right_but_wrapped == len(said)
    wrong = [play_baseline(task, Reads([text.replace("1", "2")]), [play], "r")[0] for _, text in forms]
    assert count_written(task, [play] * len(wrong), wrong, []).right_but_wrapped == 0


def test_code_that_fails_on_what_is_inside_is_no_success_and_hides_none(tmp_path: Path) -> None:
    code = HALF.replace("return [", "assert completions != ['boom']\n    return [")
    task, _ = recorded(tmp_path, code, players={})
    item = task.item(ROW)
    plays = [Play(item, draw, 0, 7) for draw in range(3)]
    said = ["<think>x</think>boom", "<think>x</think>a", "<think>only"]
    episodes = [
        play_baseline(task, Reads([text]), [play], "r")[0] for play, text in zip(plays, said, strict=True)
    ]
    found = count_written(task, plays, episodes, [])
    assert (found.right_but_wrapped, found.empty, found.only_reasoning) == (1, 1, 1)
