"""Reading and writing actions on both surfaces."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.rollout.tasks.protocol import Item, Step
from assay_tasks.collider import COMPACT_TOKEN_PATTERN, Collider
from assay_tasks.collider.surfaces import (
    Action,
    compact_vocabulary,
    parse_compact,
    parse_json,
    write_compact,
    write_json,
    z_token,
)
from assay_tasks.collider.world.physics import LETTERS, NAMES, bin_centre_gev, global_z

M0 = 437.251
CHANNELS = st.sampled_from(NAMES)
TENTHS = st.integers(0, 9).map(lambda i: i / 10)
MASSES = st.integers(0, 63).map(lambda i: float(bin_centre_gev(M0, i)))
SPINS = st.sampled_from([None, 0, 1, 2])


def actions(
    confidence: st.SearchStrategy[float], mass: st.SearchStrategy[float]
) -> st.SearchStrategy[Action]:
    return st.one_of(
        st.builds(lambda c, b: Action("take_data", c, blocks=b), CHANNELS, st.integers(1, 10)),
        st.builds(Action, st.sampled_from(["calibrate", "fit", "angles"]), CHANNELS),
        st.just(Action("scan")),
        st.builds(lambda c, m, s, p: Action("claim", c, None, m, s, p), CHANNELS, mass, SPINS, confidence),
        st.builds(lambda p: Action("no_signal", confidence=p), confidence),
    )


@given(actions(TENTHS, MASSES))
def test_every_compact_action_is_read_back_as_written(action: Action) -> None:
    text = write_compact(action, M0)
    parsed = parse_compact(text, M0)
    assert (parsed.outcome, parsed.action) == ("ok", action)
    assert write_compact(parsed.action, M0) == text


@given(actions(st.floats(0.0, 1.0), st.floats(1e-3, 9e5)))
def test_every_json_action_is_read_back_as_written(action: Action) -> None:
    text = write_json(action)
    parsed = parse_json(text)
    assert (parsed.outcome, parsed.action) == ("ok", action)
    assert write_json(parsed.action) == text


@given(actions(TENTHS, MASSES))
def test_both_surfaces_read_the_same_action(action: Action) -> None:
    assert parse_json(write_json(action)).action == parse_compact(write_compact(action, M0), M0).action


@given(actions(TENTHS, MASSES))
def test_every_compact_action_is_made_of_known_tokens(action: Action) -> None:
    text = write_compact(action, M0)
    tokens = re.findall(COMPACT_TOKEN_PATTERN, text)
    assert "".join(tokens) == text and set(tokens) <= set(compact_vocabulary())


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("ygb072c9", ["y", "gb07", "2", "c9"]),
        ("yqb63-c0", ["y", "qb63", "-", "c0"]),
        ("L6 gb07z103 eb12+z121", ["L", "6", " ", "gb07", "z10", "3", " ", "eb12", "+", "z12", "1"]),
        ("L0 lb30+z9910k m0k", ["L", "0", " ", "lb30", "+", "z99", "10", "k", " ", "m", "0", "k"]),
        ("! L10", ["!", " ", "L", "10"]),
        ("rg10", ["r", "g", "10"]),
    ],
)
def test_a_channel_and_its_bin_are_one_token(text: str, tokens: list[str]) -> None:
    assert re.findall(COMPACT_TOKEN_PATTERN, text) == tokens
    assert set(tokens) <= set(compact_vocabulary())


def test_the_vocabulary_is_nothing_but_single_tokens() -> None:
    words = compact_vocabulary()
    assert len(words) == len(set(words)) == 9 + 13 + 11 + 100 + 6 * 64 + 10
    assert all(re.findall(COMPACT_TOKEN_PATTERN, word) == [word] for word in words)


def test_a_claim_names_channel_bin_spin_and_confidence_in_this_order() -> None:
    parsed = parse_compact("ygb072c9", 100.0)
    mass = float(bin_centre_gev(100.0, 7))
    assert parsed.action == Action("claim", "diphoton", mass_gev=mass, spin=2, confidence=0.9)
    assert parse_compact("yeb63-c0", 100.0).action == Action(
        "claim", "dielectron", mass_gev=float(bin_centre_gev(100.0, 63)), spin=None, confidence=0.0
    )


def _played(task: Collider, item: Item, texts: list[str]) -> list[Step]:
    _, state = task.start(item, 7)
    steps: list[Step] = []
    for text in texts:
        action = parse_compact(text, M0).action
        assert action is not None
        steps.append(task.step(state, task.write(action, state)))
        state = steps[-1].state
    return steps


TAKES = ["rg1", "re2", "kl", "rm3", "rl1", "km"]
STATE_LINE = re.compile(
    r"(?P<letter>[gemljq])(b(?P<bin>\d\d)(?P<proof>\+?)(?P<z>z\d\d))?(?P<blocks>10|\d)(?P<known>k?)"
)


def test_the_state_line_tells_bin_proof_strength_blocks_and_calibration(
    compact: Collider, items: list[Item]
) -> None:
    proofs = []
    for item in items[:150]:
        for step in _played(compact, item, TAKES):
            state = step.state
            first, *words = str(step.observation).split(" ")
            assert first == f"L{state.blocks_left}"
            told = [STATE_LINE.fullmatch(word) for word in words]
            strengths = []
            for word in told:
                assert word is not None
                place = item.public.channels.index(NAMES[LETTERS.index(word["letter"])])
                data = state.data[place]
                assert int(word["blocks"]) == data.blocks and (word["known"] == "k") == data.calibrated
                strengths.append(data.local_z)
                if data.blocks:
                    assert int(word["bin"]) == data.peak_bin and word["z"] == z_token(data.local_z)
                    assert (word["proof"] == "+") == state.is_significant(place)
                    proofs.append(word["proof"])
                else:
                    assert word["bin"] is None and data.calibrated
            assert strengths == sorted(strengths, reverse=True)
            assert len(told) == sum(data.blocks > 0 or data.calibrated for data in state.data)
    assert proofs.count("+") > 20 and proofs.count("") > 100


def test_significant_means_the_required_global_significance(json_task: Collider, items: list[Item]) -> None:
    answers = []
    for item in items[:150]:
        for step in _played(json_task, item, TAKES):
            told = json.loads(step.observation or "")["channels"]
            looked = len(step.state.looked_at())
            for place, name in enumerate(item.public.channels):
                data = step.state.data[place]
                assert ("significant" in told.get(name, {})) == (data.blocks > 0)
                if data.blocks:
                    expected = bool(global_z(data.local_z, looked) >= item.public.required_z)
                    assert told[name]["significant"] is expected is step.state.is_significant(place)
                    answers.append(expected)
    assert {True, False} == set(answers)


def test_both_surfaces_tell_the_same_channels_significant(
    compact: Collider, json_task: Collider, items: list[Item]
) -> None:
    for item in items[:60]:
        short = str(_played(compact, item, TAKES)[-1].observation)
        long = json.loads(_played(json_task, item, TAKES)[-1].observation or "")["channels"]
        plus = {NAMES[LETTERS.index(letter)] for letter in re.findall(r"([gemljq])b\d\d\+", short)}
        assert plus == {name for name, told in long.items() if told.get("significant")}


@given(st.text(max_size=600))
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for parsed in (parse_compact(text, M0), parse_json(text)):
        assert (parsed.action is None) == (parsed.outcome == "failed") == (parsed.reason is not None)


@given(st.text(alphabet="rksfaynLgemljq0123456789bc-+z? \n", max_size=20))
def test_no_compact_babble_makes_the_parser_raise(text: str) -> None:
    parse_compact(text, M0)


def nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    keys = st.sampled_from(["action_type", "channel", "blocks", "x"])
    return st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


@given(st.recursive(LEAVES, nested, max_leaves=6))
def test_no_json_value_makes_the_parser_raise(value: object) -> None:
    parse_json(json.dumps(value))


HOSTILE = [
    "{" * 100_000,
    "[" * 100_000,
    '{"action_type":' + "[" * 400 + "}",
    '{"action_type":"take_data","channel":"diphoton","blocks":' + "9" * 450 + "}",
    '{"action_type":"take_data","channel":"diphoton","blocks":' + "9" * 6000 + "}",
    '{"action_type":"claim","channel":"diphoton","mass_gev":NaN,"spin":0,"confidence":0.5}',
    '{"action_type":"claim","channel":"diphoton","mass_gev":1e999,"spin":0,"confidence":0.5}',
    '{"action_type":"claim","channel":"diphoton","mass_gev":' + "9" * 400 + ',"spin":0,"confidence":0.5}',
    '{"action_type":"claim","channel":"diphoton","mass_gev":300,"spin":0,"confidence":-Infinity}',
    '{"action_type":"claim","channel":"diphoton","mass_gev":300,"spin":true,"confidence":0.5}',
    '{"action_type":"claim","channel":"diphoton","mass_gev":300,"spin":0,"confidence":1.5}',
    '{"action_type":"claim","channel":"diphoton","mass_gev":300,"confidence":0.5}',
    '{"action_type":"scan","action_type":"scan"}',
    '{"action_type":"take_data","channel":"\\ud800","blocks":1}',
    '{"action_type":"take_data","channel":"diphoton","blocks":true}',
    '{"action_type":"take_data","channel":"diphoton","blocks":2.0}',
    '{"action_type":"take_data","channel":"diphoton","blocks":0}',
    '{"action_type":"take_data","channel":"diphoton"}',
    '{"action_type":"take_data","channel":null,"blocks":1}',
    '{"action_type":"scan","why":"curious"}',
    '{"action_type":["scan"]}',
    '{"action_type":"scan"} {"action_type":"scan"}',
    "{}",
    "\ud800",
    "null",
    "",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_fails_with_a_reason_that_can_be_told(
    text: str, json_task: Collider, items: list[Item]
) -> None:
    parsed = parse_json(text)
    assert parsed.outcome == "failed" and parsed.reason
    assert len(parsed.reason) < 300
    _, state = json_task.start(items[0], 1)
    step = json_task.step(state, text)
    assert (
        step.outcome == "failed"
        and step.action is None
        and parsed.reason in json.loads(step.observation or "")["failed"]
    )
    step.observation.encode() if step.observation else None


@pytest.mark.parametrize(
    "text",
    ['```json\n{"action_type":"scan"}\n```', 'Sure: {"action_type":"scan"}', '{"action_type":"scan"}.'],
)
def test_an_object_inside_prose_is_repaired(text: str) -> None:
    assert (parse_json(text).outcome, parse_json(text).action) == ("repaired", Action("scan"))


def test_whitespace_around_strict_json_is_no_repair() -> None:
    assert parse_json('\n {"action_type": "scan"}\n').outcome == "ok"


@pytest.mark.parametrize("text", ["rg4 .", "play rg4", " rg4", "rg4\n"])
def test_one_compact_action_among_other_words_is_repaired(text: str) -> None:
    assert parse_compact(text, M0).outcome == "repaired"


@pytest.mark.parametrize(
    "text",
    [
        "rg4 re4",
        "rg",
        "rg0",
        "rg11",
        "rz4",
        "ygb642c9",
        "ygb103c1",
        "ygb102",
        "yg2b10c9",
        "ygb10c9",
        "n7",
        "rg4re4",
        "s" * 500,
    ],
)
def test_compact_text_without_exactly_one_action_fails(text: str) -> None:
    assert parse_compact(text, M0).outcome == "failed"


@pytest.mark.parametrize("kind", ["take_data", "claim", "no_signal", "fit"])
def test_an_impossible_action_cannot_be_built(kind: str) -> None:
    with pytest.raises(ValueError):
        Action(kind)  # type: ignore[arg-type]
