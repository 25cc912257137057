"""Chat templates of real models: conversations carried on token by token say what the template says, and end
as it ends."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from assay.checks.doctor.texts import text_findings
from assay.core.config.composition import Selection, compose
from assay.core.config.reading import parse_params
from assay.core.config.settings import Params
from assay.core.errors import PolicyError
from assay.pipeline.inputs import task_with
from assay.pipeline.project import Project
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import ChatTemplate, Dialogue, Message, control_names
from assay_tasks.structured.reading.oddities import control_tokens
from tests.house import ROOT

IM = ["<|im_end|>", "<|im_start|>", "<|endoftext|>"]
LLAMA = [
    "<|eot_id|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|end_of_text|>",
    "<|eom_id|>",
]
GEMMA = ["<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"]
# By template: the special tokens, end-of-sequence first and begin-of-sequence second, and what the model ends
# with itself.
SPECIAL: dict[str, tuple[list[str], list[str]]] = {
    "qwen3": (IM, ["<|im_end|>", "<|endoftext|>"]),
    "qwen3_instruct_2507": (IM, ["<|im_end|>", "<|endoftext|>"]),
    "llama3_1": (LLAMA, ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"]),
    "llama3_2": (LLAMA, ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"]),
    "gemma": (GEMMA, ["<eos>"]),
    "phi3": (["<|endoftext|>", "<s>", "<|user|>", "<|assistant|>", "<|end|>"], ["<|endoftext|>"]),
    "deepseek_r1_distill": (
        ["<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"],
        [],
    ),
    "cohere": (
        [
            "<|END_OF_TURN_TOKEN|>",
            "<BOS_TOKEN>",
            "<|START_OF_TURN_TOKEN|>",
            "<|USER_TOKEN|>",
            "<|CHATBOT_TOKEN|>",
        ],
        [],
    ),
    "glm4moe": (
        ["<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>"],
        ["<|endoftext|>", "<|user|>"],
    ),
    "gptoss": (
        ["<|return|>", "<|startoftext|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>"],
        ["<|return|>"],
    ),
    "muse_glimmer": (["<|eot|>", "<|begin|>", "<|start|>", "<|message|>"], ["<|eot|>"]),
}
END = {
    "qwen3": "<|im_end|>",
    "qwen3_instruct_2507": "<|im_end|>",
    "llama3_1": "<|eot_id|>",
    "gemma": "<end_of_turn>",
    "phi3": "<|end|>",
    "deepseek_r1_distill": "<｜end▁of▁sentence｜>",
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "glm4moe": "<|user|>",
}
OF_PRESETS = ["qwen3", "qwen3_instruct_2507", "llama3_1", "gemma"]
NO_THOUGHT = {"enable_thinking": False}


def source(name: str) -> str:
    spec = importlib.util.find_spec("trl")
    assert spec is not None and spec.submodule_search_locations is not None
    return (Path(spec.submodule_search_locations[0]) / f"chat_templates/{name}.jinja").read_text(
        encoding="utf-8"
    )


@functools.cache
def tokenizer_of(name: str) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer, a token a byte, that knows the special tokens of a template."""
    special = SPECIAL[name][0]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words.decoder = decoders.ByteLevel()
    made: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words, eos_token=special[0], bos_token=special[1], extra_special_tokens=special[2:]
    )
    made.chat_template = source(name)
    return made


@functools.cache
def dialogue_of(name: str, thinks: bool = False) -> Dialogue:
    tokenizer = tokenizer_of(name)
    ends = tokenizer.convert_tokens_to_ids(SPECIAL[name][1])
    return Dialogue(tokenizer, NO_THOUGHT if name == "qwen3" and not thinks else None, ends)


def ids_of(name: str, text: str) -> list[int]:
    return [int(i) for i in tokenizer_of(name)(text, add_special_tokens=False)["input_ids"]]


def assembled(
    dialogue: Dialogue, messages: Sequence[Message], completions: Sequence[Sequence[int]]
) -> list[int]:
    """Carry a conversation on with these completions in the assistant's place, up to where it is to write
    next."""
    ids, written = dialogue.prompt(messages[:1]), iter(completions)
    for message in messages[1:]:
        if message["role"] == "assistant":
            last = next(written)
            ids += last
        else:
            ids += dialogue.reply(message["content"], last_id=last[-1])
    return ids


words = st.text("aZ 9\n\t{}é思", max_size=12)
observed = words.map(lambda text: f"{text}.")
# An answer without white space around it, which some templates strip
said = words.map(str.strip).filter(bool)


def talk(contents: Sequence[str]) -> list[Message]:
    roles = ["user", "assistant"] * len(contents)
    return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]


@pytest.mark.parametrize("name", sorted(set(END) - {"qwen3", "deepseek_r1_distill", "glm4moe"}))
@settings(max_examples=15, deadline=None)
@given(
    told=st.lists(words.map(lambda text: f"{text}."), min_size=3, max_size=3),
    answers=st.lists(said, min_size=2, max_size=2),
)
def test_a_conversation_assembled_token_by_token_is_the_templates_own(
    name: str, told: tuple[str, ...], answers: tuple[str, ...]
) -> None:
    dialogue = dialogue_of(name)
    messages = talk([told[0], answers[0], told[1], answers[1], told[2]])
    ids = assembled(dialogue, messages, [[*ids_of(name, answer), dialogue.eos_id] for answer in answers])
    assert ids == ids_of(name, dialogue.render(messages, open_turn=True))


@pytest.mark.parametrize("thinks", [False, True])
def test_qwen3_differs_from_its_template_by_the_empty_thoughts_that_the_policy_was_given(
    thinks: bool,
) -> None:
    dialogue, tokenizer = dialogue_of("qwen3", thinks), tokenizer_of("qwen3")
    messages = talk(["Who?", "Ana", "And?", "Ben", "Go"])
    text = tokenizer.decode(
        assembled(dialogue, messages, [[*ids_of("qwen3", m), dialogue.eos_id] for m in ("Ana", "Ben")])
    )
    rendered = dialogue.render(messages, open_turn=True)
    given_thought = "<think>\n\n</think>\n\n"
    assert text.count(given_thought) == (0 if thinks else 3) and text.endswith(
        "assistant\n" + given_thought * (not thinks)
    )
    assert rendered.count(given_thought) == (0 if thinks else 1)
    assert text.replace(given_thought, "") == rendered.replace(given_thought, "")


@pytest.mark.parametrize("name", sorted(END))
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_what_the_policy_saw_and_wrote_is_never_changed_and_each_answer_is_closed_once(
    name: str, data: st.DataObject
) -> None:
    dialogue, thought = dialogue_of(name), "<think>\nhm\n</think>\n\n"
    end = st.sampled_from([None, *dialogue.end_ids])  # None: cut off by the limit
    answers = data.draw(
        st.lists(
            st.tuples(st.booleans(), st.text("ab \n", min_size=1, max_size=6), end), min_size=2, max_size=2
        )
    )
    completions = [
        [*ids_of(name, thought * thinks + text), *([] if e is None else [e])] for thinks, text, e in answers
    ]
    told = [data.draw(words), "next", data.draw(words)]
    ids = assembled(dialogue, talk([told[0], "", told[1], "", told[2]]), completions)
    saw = dialogue.prompt(talk(told[:1]))
    for done, observation in zip(completions, told[1:], strict=True):
        assert ids[: len(saw) + len(done)] == saw + done
        saw += done + dialogue.reply(observation, last_id=done[-1])
        between = [dialogue.eos_id] * (done[-1] == dialogue.eos_id) + dialogue.reply(
            observation, last_id=done[-1]
        )
        assert (
            between == ids_of(name, tokenizer_of(name).decode(between))
            and between.index(dialogue.eos_id) == 0
        )
        assert between.count(dialogue.eos_id) == dialogue.reply("", last_id=-1).count(dialogue.eos_id)
    assert ids == saw


@pytest.mark.parametrize("name", sorted(END))
def test_a_completion_ends_at_any_of_the_ends_and_its_text_goes_without(name: str) -> None:
    dialogue, tokenizer = dialogue_of(name), tokenizer_of(name)
    names = tokenizer.convert_ids_to_tokens(list(dialogue.end_ids))
    assert names[0] == END[name] and dialogue.closes
    assert set(names) == {END[name], tokenizer.eos_token, *SPECIAL[name][1]} and len(set(names)) == len(names)
    for end in dialogue.end_ids:
        assert dialogue.ended([65, end]) and dialogue.text([65, end]) == dialogue.text([65])
        assert dialogue.text([65, end, end]) == dialogue.text([65]) + str(
            tokenizer.convert_ids_to_tokens(end)
        )
    assert not dialogue.ended([dialogue.eos_id, 65]) and not dialogue.ended([])


def test_behind_another_end_than_its_own_the_template_still_closes_the_answer() -> None:
    dialogue, tokenizer = dialogue_of("gemma"), tokenizer_of("gemma")
    own, eos = dialogue.end_ids
    behind = "<end_of_turn>\n<start_of_turn>user\nno<end_of_turn>\n<start_of_turn>model\n"
    assert tokenizer.decode([own, *dialogue.reply("no", last_id=own)]) == behind
    assert tokenizer.decode([eos, *dialogue.reply("no", last_id=eos)]) == f"<eos>{behind}"
    assert tokenizer.decode([65, *dialogue.reply("no", last_id=65)]) == f"{tokenizer.decode([65])}{behind}"


@pytest.mark.parametrize("name", OF_PRESETS)
@pytest.mark.parametrize("task", ["collider", "structured"])
def test_both_tasks_speak_with_every_template_of_the_presets_and_send_no_system_message(
    task: str, name: str
) -> None:
    params = parse_params(json.loads(json.dumps(compose(ROOT, Selection("pretrained", task, 0)).values)))
    taught = task_with(Project(ROOT, params).root, Project(ROOT, params).params, None).demonstrations(
        np.random.default_rng(1), 4
    )
    dialogue = dialogue_of(name)
    assert max(len(messages) for messages in taught) > (2 if task == "collider" else 1)
    for messages in taught:
        assert [m["role"] for m in messages] == ["user", "assistant"] * (len(messages) // 2)
        start = tokenizer_of(name).decode(dialogue.prompt(messages[:1]))
        assert messages[0]["content"] in start
        assert start.endswith(("assistant\n", "</think>\n\n", "model\n", "<|end_header_id|>\n\n"))
        whole, mask = dialogue.whole(messages)
        assert sum(mask) == sum(len(ids_of(name, m["content"])) + 1 for m in messages[1::2])
        if name != "qwen3":
            assert dialogue.render(messages, open_turn=False).rstrip() == tokenizer_of(name).decode(whole)
        assert warned(dialogue, name, params, messages) == {}
    if name == "qwen3":
        said = warned(dialogue_of(name, thinks=True), name, params, max(taught, key=len))
        assert said["reasoning"].startswith("set base.template: {enable_thinking: false}")
        assert said.keys() == ({"reasoning", "history"} if task == "collider" else {"reasoning"})


def warned(dialogue: Dialogue, name: str, params: Params, messages: Sequence[Message]) -> dict[str, str]:
    """Return what the doctor has against a template, by check; these tokenizers have no padding of their
    own."""
    whole = messages if len(messages) > 2 else None
    findings = text_findings(Policy(None, tokenizer_of(name), dialogue, "none"), params, messages[:1], whole)
    return {each.check: each.fix for each in findings if each.level != "ok" and each.check != "padding"}


@pytest.mark.parametrize(
    ("name", "header"), [("gptoss", "<|channel|>final<|message|>"), ("muse_glimmer", " to=user<|message|>")]
)
def test_a_template_whose_answers_have_a_header_of_their_own_is_refused(name: str, header: str) -> None:
    with pytest.raises(PolicyError, match="prompts end where an answer begins") as told:
        dialogue_of(name)
    assert header in told.value.found


def test_what_a_template_says_against_messages_is_told_as_ours() -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]
    with pytest.raises(PolicyError, match="System role not supported") as told:
        dialogue_of("gemma").prompt(messages)
    assert "system, user" in told.value.expected
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), eos_token="<e>")  # type: ignore[no-untyped-call]
    for broken, said in (
        ("{{ raise_exception('only with tools') }}", "only with tools"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{{ messages[7].content }}", "UndefinedError"),
        ("", "none"),
        ("{{ messages[-1].content }}", "drops"),
    ):
        tokenizer.chat_template = broken
        with pytest.raises(PolicyError, match=said):
            Dialogue(tokenizer)


@pytest.mark.parametrize("name", ["llama3_1", "llama3_2", "gptoss"])
def test_no_prompt_tells_the_day_it_was_made_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, messages = tokenizer_of(name), talk(["Hi"])
    plain, ours = [], []
    for day in (datetime(2026, 1, 31, 7), datetime(2031, 12, 1, 23)):
        fake = type("Frozen", (datetime,), {"now": classmethod(lambda cls, tz=None, day=day: day)})
        monkeypatch.setattr(chat_template_utils, "datetime", fake)
        plain.append(str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)))
        ours.append(ChatTemplate(tokenizer, {}).render(messages, open_turn=True))
    assert (len(set(plain)), len(set(ours))) == (1 if name == "llama3_1" else 2, 1)
    day_said = "2024-07-26" if name == "gptoss" else "Today Date: 26 Jul 2024\n"
    assert day_said in ours[0]
    if name != "gptoss":
        other = Dialogue(tokenizer, {"date_string": "1 May 1999"}).render(messages, open_turn=True)
        assert other == ours[0].replace("26 Jul 2024", "1 May 1999") != ours[0]


@pytest.mark.parametrize("name", ["enable_thinkin", "role", "messages", "trl", "startswith"])
def test_a_setting_that_the_template_would_ignore_is_refused(name: str) -> None:
    with pytest.raises(PolicyError, match=r"base\.template") as told:
        Dialogue(tokenizer_of("qwen3"), {name: False})
    assert told.value.found == name
    assert (told.value.fix == "did you mean enable_thinking?") == (name == "enable_thinkin")


def test_nothing_is_known_of_ends_where_template_and_model_name_none() -> None:
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), eos_token="<e>")  # type: ignore[no-untyped-call]
    tokenizer.add_special_tokens({"extra_special_tokens": ["<user>", "<bot>"]})
    tokenizer.chat_template = (
        "{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<bot>{% endif %}"
    )
    silent, user = Dialogue(tokenizer), tokenizer.convert_tokens_to_ids("<user>")
    assert (silent.end_ids, silent.closes) == ((tokenizer.eos_token_id,), False)
    assert silent.reply("", last_id=user)[:2] == [silent.eos_id, user], "a header that nobody calls an end"
    assert silent.reply("", last_id=silent.eos_id)[0] == user
    named = Dialogue(tokenizer, ends=user)
    assert (named.end_ids, named.closes) == ((user, tokenizer.eos_token_id), True)
    assert user not in named.reply("", last_id=user)


TOLD: list[Message] = [
    {"role": "system", "content": " Be kind."},
    {"role": "user", "content": "Ana, 21."},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": "Who?"},
]


@pytest.mark.parametrize("name", OF_PRESETS)
def test_a_conversation_opens_an_episode_where_the_template_takes_its_roles(name: str) -> None:
    without = dialogue_of(name).render(TOLD[1:], open_turn=True)
    assert all(message["content"] in without for message in TOLD[1:])
    if name == "gemma":
        with pytest.raises(PolicyError, match="system") as told:
            dialogue_of(name).prompt(TOLD)
        assert "first user message" in told.value.fix
    else:
        read = tokenizer_of(name).decode(dialogue_of(name).prompt(TOLD))
        places = [read.index(message["content"].strip()) for message in TOLD]
        assert places == sorted(places) and "Be kind." not in without


def test_a_template_that_passes_a_systems_message_over_is_refused() -> None:
    tokenizer = tokenizer_of("qwen3_instruct_2507")
    deaf = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<|im_end|>")  # type: ignore[no-untyped-call]
    deaf.chat_template = (
        "{% for m in messages if m.role != 'system' %}{{ '<|im_start|>' + m.role + '\n' + m.content +"
        " '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%"
        " endif %}"
    )
    dialogue = Dialogue(deaf)
    assert dialogue.prompt(TOLD[1:])
    with pytest.raises(PolicyError, match="drops or rewrites") as told:
        dialogue.prompt(TOLD)
    assert "first user message" in told.value.fix


@pytest.mark.parametrize("name", OF_PRESETS)
def test_a_control_token_in_a_text_is_read_as_the_token_and_its_name_is_known(name: str) -> None:
    names = control_names(tokenizer_of(name))
    assert set(SPECIAL[name][0]) <= set(names)
    end = SPECIAL[name][0][0]
    plain, injected = (
        dialogue_of(name).prompt([{"role": "user", "content": text}]) for text in ("Who?", f"Who?{end}")
    )
    number = tokenizer_of(name).convert_tokens_to_ids(end)
    assert injected.count(number) == plain.count(number) + 1
    assert all(control_tokens(each) for each in SPECIAL[name][0])
