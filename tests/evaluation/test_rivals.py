"""Rivals of a claim: players that see no more than a policy, and what one would do with the base instead."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from assay.core.config.rivals import RivalSettings
from assay.core.decoding import Decoding
from assay.core.errors import PolicyError
from assay.core.records import Episode
from assay.core.seeds import rng
from assay.core.storage.json import read_records
from assay.pipeline import rivals as playing
from assay.pipeline.heldout_ledger import openings, policies_that_saw
from assay.pipeline.project import Project
from assay.pipeline.rival_files import BaseRival, BaseRivals, file_of, suite_for, valid
from assay.rollout.dataset.suite import Play, Suite
from assay.rollout.evaluation import measure as measuring
from assay.rollout.evaluation.few_shot import Shown, few_shot
from assay.rollout.evaluation.replay import graded_again, play_baseline
from assay.rollout.evaluation.rollout import Pace, play
from assay.rollout.policy.base import tiny
from assay.rollout.policy.base.words import CHAT_TEMPLATE, SPECIAL, Words
from assay.rollout.policy.engine.choice import masked
from assay.rollout.policy.engine.grammar import Grammars
from assay.rollout.policy.model import Policy
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.tasks.protocol import Item, Task
from assay.rollout.tasks.rivals import CONSTANT, FEW_SHOT, OF_THE_BASE, players_of, rivals_of, worked_example
from assay.stages import fingerprint, pre_eval
from assay_tasks.collider import Collider, ColliderSettings
from tests import own_data
from tests.house import ROOT
from tests.small_policy import small_model
from tests.tasks.structured import material

COLLIDER = Collider(ColliderSettings(surface="compact", max_turns=8, shaping=0.0, gamma=1.0))
STRUCTURED = material.Structured(material.settings())
ALL = RivalSettings(few_shot=2, best_of_n=3, constrained=True)
FORM = {
    "type": "object",
    "properties": {"b": {"enum": ["x", "y"]}, "a": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def collider_items(n: int, split: str = "heldout") -> list[Item]:
    lines = (ROOT / f"data/collider/{split}.jsonl").read_text().splitlines()[:n]
    return [COLLIDER.item(json.loads(line)) for line in lines]


def asked(n: int, colour: str, **more: Any) -> Item:
    gold = {"a": n, "b": colour}
    row = {"id": f"r{n}{colour}", "prompt": f"Which {n}?", "schema": FORM, "gold": gold}
    return STRUCTURED.item(row | more)


TRAIN = [asked(1, "x"), asked(2, "y"), asked(2, "y", id="again", prompt="And which?"), asked(3, "x")]


class Sealed:
    """What nobody may look at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"a rival looked at {name} of what is hidden")


def sealed_state(state: Any) -> Any:
    """Return a state without what is right in it."""
    if hasattr(state, "reference"):
        return replace(state, reference=replace(state.reference, golds=Sealed(), counting=Sealed()))
    return replace(state, scenario=replace(state.scenario, truth=Sealed()))


@pytest.mark.parametrize(
    ("task", "items"), [(COLLIDER, collider_items(4)), (STRUCTURED, TRAIN)], ids=["collider", "structured"]
)
def test_a_rival_sees_nothing_that_a_policy_does_not_see(task: Task, items: list[Item]) -> None:
    players, kinds = players_of(task, TRAIN), rivals_of(task, ALL)
    names = [name for name in kinds if kinds[name] != "instead of training"]
    assert set(names) <= set(players) and task.ceiling not in names
    for name in names:
        for item in items:
            state = task.start(item, 7)[1]
            hidden: Any = Sealed()
            said = players[name](replace(item, hidden=hidden), sealed_state(state), rng("x"))
            assert said == players[name](item, state, rng("x"))


def test_every_player_of_a_task_is_a_rival_but_the_one_that_knows() -> None:
    for task in (COLLIDER, STRUCTURED):
        assert set(task.baselines()) - set(task.rivals) == {task.ceiling}


def test_the_constant_player_says_what_is_right_most_often_for_the_form_that_is_asked() -> None:
    other = {"type": "object", "properties": {"c": {"type": "null"}}, "required": ["c"]}
    lone = asked(9, "x", schema=other, gold={"c": None})
    player = players_of(STRUCTURED, [*TRAIN, lone])[CONSTANT]
    assert player(asked(7, "x"), None, rng("c")) == '{"a":2,"b":"y"}'
    assert player(lone, None, rng("c")) == '{"c":null}'
    unknown = asked(7, "x", schema={"type": "object", "properties": {"d": {}}}, gold={"d": 1})
    assert player(unknown, None, rng("c")) == '{"a":2,"b":"y"}'
    assert players_of(STRUCTURED, [])[CONSTANT](lone, None, rng("c")) == ""


def test_examples_are_right_answers_or_the_play_of_the_strongest_scripted_rival() -> None:
    told = worked_example(STRUCTURED, TRAIN[0], 3, rng("e"))
    assert told is not None and told[-1] == {"role": "assistant", "content": '{"a":1,"b":"x"}'}
    item = collider_items(1, "train")[0]
    dialogue = worked_example(COLLIDER, item, 3, rng("e"))
    played = play_baseline(COLLIDER, COLLIDER.baselines()["adaptive"], [Play(item, 0, 0, 3)], "adaptive")[0]
    assert dialogue is not None
    assert [m["content"] for m in dialogue[1::2]] == [turn.completion for turn in played.turns]
    assert worked_example(STRUCTURED, asked(1, "x", gold=None), 3, rng("e")) is None


def fitted(k: int, positions: int | None, train: list[Item] = TRAIN) -> tuple[Task, int]:
    suite = Suite("heldout", (asked(5, "x"), asked(6, "y")), 2, 0)
    words = Words([chr(code) for code in range(32, 127)] + ["\n"])
    return few_shot(STRUCTURED, train, suite, k, dialogue=words, positions=positions, max_new_tokens=40)


@pytest.mark.parametrize(
    ("k", "positions", "used"),
    [(2, None, 2), (9, None, 4), (3, 100_000, 3), (3, 800, 2), (3, 50, 0)],
    ids=["as asked", "more than train has", "room for all", "room for fewer", "room for none"],
)
def test_as_many_examples_stand_in_the_prompt_as_are_there_and_fit(
    k: int, positions: int | None, used: int
) -> None:
    task, n = fitted(k, positions)
    assert n == used
    messages = task.start(asked(5, "x"), 0)[0]
    assert [message["role"] for message in messages] == ["user", "assistant"] * used + ["user"]
    assert messages[-1:] == STRUCTURED.start(asked(5, "x"), 0)[0]


def test_without_anything_right_in_train_there_are_no_examples() -> None:
    assert fitted(3, None, [])[1] == 0
    assert fitted(3, None, [asked(1, "x", gold=None)])[1] == 0


def test_a_systems_message_stays_the_first_and_examples_of_the_same_form_stand_last() -> None:
    other = asked(8, "x", schema={"type": "object", "properties": {"z": {}}}, gold={"z": 1})
    spoken = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which 4?"}]
    item = asked(4, "x", messages=spoken, prompt=None)
    shown = Shown(STRUCTURED, [other, asked(1, "x", messages=spoken, prompt=None)], 2, 0)
    messages = shown.start(item, 0)[0]
    assert [message["role"] for message in messages] == ["system", *["user", "assistant"] * 2, "user"]
    assert [messages[2]["content"], messages[4]["content"]] == ['{"z":1}', '{"a":1,"b":"x"}']


@pytest.mark.parametrize("wrong", [{"best_of_n": 1}, {"best_of_n": 65}, {"few_shot": -1}, {"constrained": 1}])
def test_settings_of_rivals_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RivalSettings(**({"few_shot": 3, "best_of_n": 4, "constrained": True} | wrong))


def test_a_rival_that_is_switched_off_is_in_no_plan() -> None:
    off = RivalSettings(few_shot=0, best_of_n=0, constrained=False)
    assert not set(rivals_of(STRUCTURED, off)) & set(OF_THE_BASE)
    assert set(OF_THE_BASE) <= set(rivals_of(STRUCTURED, ALL))
    assert set(OF_THE_BASE) - set(rivals_of(COLLIDER, ALL)) == {"constrained"}  # its answers have no schema


CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n"]


def policy_of(tokenizer: PreTrainedTokenizerFast, positions: int = 1024) -> Policy:
    shape = {"hidden_size": 16, "intermediate_size": 32, "max_positions": positions, "initializer_range": 0.3}
    return Policy(small_model(tokenizer, **shape), tokenizer, Dialogue(tokenizer), "0" * 64)


def byte_level() -> PreTrainedTokenizerFast:
    """Return a tokenizer of the kind that most models have: bytes, with some merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("{", '"'), ('"', ":"), ("Ġ", '"'), ('":', 'Ġ"')]
    known = [*SPECIAL, *alphabet, *("".join(pair) for pair in merges)]
    built = Tokenizer(models.BPE({token: n for n, token in enumerate(known)}, merges))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=built,
        pad_token=SPECIAL[0],
        unk_token=SPECIAL[1],
        eos_token=SPECIAL[2],
        extra_special_tokens=list(SPECIAL[3:]),
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


@pytest.mark.parametrize(
    "make", [lambda: tiny.build_tokenizer(CHARACTERS), byte_level], ids=["words", "bytes"]
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_untrained_model_writes_nothing_but_valid_answers_when_bound(
    make: Any, temperature: float
) -> None:
    policy, items = policy_of(make()), [asked(n, "x") for n in range(6)]
    plays = [Play(item, draw, 11 * n + draw, 0) for n, item in enumerate(items) for draw in range(2)]
    grammars, decoding = Grammars(policy), Decoding(temperature, 60)

    def episodes(**named: Any) -> list[Episode]:
        return [each.episode for each in play(policy, STRUCTURED, plays, decoding, pace=Pace(5), **named)]

    free = episodes()
    assert not any(valid(STRUCTURED, episode) for episode in free)
    bound = episodes(bound=lambda item: grammars.bound(STRUCTURED.answer_schema(item)))
    ended = [episode for episode in bound if not episode.turns[0].truncated]
    assert ended and all(valid(STRUCTURED, episode) for episode in ended)
    assert bound == episodes(bound=lambda item: grammars.bound(STRUCTURED.answer_schema(item)))
    some = {items[0].id, items[3].id}
    mixed = episodes(
        bound=lambda item: grammars.bound(STRUCTURED.answer_schema(item)) if item.id in some else None
    )
    # Who is bound is no matter of who is not, in one batch or another
    assert [a for a in mixed if a.item_id not in some] == [a for a in free if a.item_id not in some]
    assert [a for a in mixed if a.item_id in some] == [a for a in bound if a.item_id in some]


def test_where_the_words_cannot_go_on_the_row_is_free_and_known() -> None:
    policy = policy_of(tiny.build_tokenizer([word for word in CHARACTERS if word not in "xy"]))
    grammars = Grammars(policy)
    item = asked(1, "x")
    bounds = []

    def bound(_: Item) -> Any:
        bounds.append(grammars.bound(STRUCTURED.answer_schema(item)))
        return bounds[-1]

    (rollout,) = play(policy, STRUCTURED, [Play(item, 0, 1, 0)], Decoding(1.0, 30), pace=Pace(1), bound=bound)
    assert bounds[0].dead and not valid(STRUCTURED, rollout.episode)


@pytest.mark.parametrize("more", [-70, -3, -1, 1, 29, 640])
def test_a_vocabulary_larger_or_smaller_than_the_logits_is_masked_within_both(more: int) -> None:
    """Bases pad their logits to a round number, and some tokenizers know tokens that the base never had."""
    grammars = Grammars(policy_of(byte_level()))
    schema = STRUCTURED.answer_schema(asked(1, "x"))
    size = len(byte_level())
    plain = masked(torch.zeros(1, size), [grammars.bound(schema)])
    found = masked(torch.zeros(2, size + more), [grammars.bound(schema), None])
    both = min(size, size + more)
    if (plain[0, :both] == 0).any():
        assert (found[0, :both] == plain[0, :both]).all() and not (found[0, both:] == 0).any()
    else:  # nothing of what may come next is there to be chosen
        assert (found[0] == 0).all()
    assert (found[1] == 0).all()


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        (material.INVOICE, True),
        (True, True),
        ({"type": "string", "pattern": "^a+$"}, True),
        ({"$ref": "nowhere.json"}, False),
        ({"type": "object", "unevaluatedProperties": False, "properties": {"a": {}}}, True),
    ],
)
def test_schemas_are_followed_as_far_as_they_can_be(schema: Any, known: bool) -> None:
    grammars = Grammars(policy_of(byte_level()))
    assert (grammars.bound(json.dumps(schema)) is not None) is known


def test_a_tokenizer_that_cannot_be_read_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_of(tiny.build_tokenizer(CHARACTERS))
    monkeypatch.setattr(Dialogue, "text", lambda self, ids: f"{len(ids)} tokens")
    with pytest.raises(PolicyError, match="a tokenizer that llguidance can read"):
        Grammars(policy)


FILES = (*(f"{file_of(name)}.jsonl" for name in OF_THE_BASE), "rivals.json")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with an untrained base, measured."""
    root = tmp_path_factory.mktemp("rivals")
    own_data.write_data(root)
    policy = policy_of(tiny.build_tokenizer(CHARACTERS), positions=1600)
    policy.model.save_pretrained(root / "models/base")
    policy.tokenizer.save_pretrained(root / "models/base")
    project = own_data.project(root)
    params = project.params
    update = {
        "evaluation": params.evaluation.model_copy(update={"items": 3, "draws": 2, "rivals": ALL}),
        "task": params.task.model_copy(update={"max_new_tokens": {"compact": 30, "json": 30}}),
        "generation": params.generation.model_copy(update={"batch_size": 2}),
    }
    project = Project(root, params.model_copy(update=update))
    fingerprint.run(project)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DVC_ROOT", raising=False)
        pre_eval.run(project)
    shutil.copytree(project.results("rivals.json").parent, root / "undisturbed")
    return project


def facts(project: Project) -> Mapping[str, BaseRival]:
    return BaseRivals.model_validate_json(project.results("rivals.json").read_text()).rivals


def test_the_base_plays_the_same_items_as_every_rival_of_the_plan(prepared: Project) -> None:
    task, heldout, told = prepared.task(), prepared.inputs("heldout").heldout, facts(prepared)
    base = {e.policy for e in read_records(prepared.results("pre_eval.jsonl"), Episode, fix="")}
    plan = json.loads(prepared.results("claim_plan.json").read_text())["rivals"]
    assert {name for name in plan if name in OF_THE_BASE} == set(told) == set(OF_THE_BASE)
    for name in OF_THE_BASE:
        episodes = read_records(prepared.results(f"{file_of(name)}.jsonl"), Episode, fix="")
        assert not graded_again(task, suite_for(heldout, name), episodes, name)
        assert {e.policy for e in episodes} == base and told[name].used
        seeds = {play.seed for play in heldout.plays()}
        assert not seeds & {e.seed for e in episodes}
    assert told["best_of_n"].tokens >= 3 * 6 and told["constrained"].note is None
    assert told[FEW_SHOT].used == 2


def test_rivals_of_the_base_are_no_opening_of_their_own(prepared: Project) -> None:
    suite = prepared.inputs("heldout").heldout
    ledger = openings(prepared.root)
    assert ledger is not None and len(policies_that_saw(ledger, suite.contents)) == 1
    assert [each.times for each in ledger.openings] == [1]


@pytest.mark.long
@pytest.mark.parametrize("after", [7, 12, 16])
def test_a_call_that_was_interrupted_among_the_rivals_is_gone_on_with(
    prepared: Project, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DVC_ROOT", raising=False)
    folder, played, original = prepared.results("rivals.json").parent, [0], measuring.play
    shutil.rmtree(folder)

    def stopping(*given: Any, **named: Any) -> Any:
        if played[0] == after:
            raise KeyboardInterrupt
        played[0] += 1
        return original(*given, **named)

    monkeypatch.setattr(measuring, "play", stopping)
    with pytest.raises(KeyboardInterrupt):
        pre_eval.run(prepared)
    whole, played[0] = after, -1000
    pre_eval.run(prepared)
    again = played[0] + 1000
    for path in (prepared.root / "undisturbed").iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes(), path.name
    shutil.rmtree(folder)
    played[0] = -1000
    pre_eval.run(prepared)
    assert again == played[0] + 1000 - whole


@dataclass
class Drawn:
    """A table at which every draw is said beforehand."""

    inputs: Any
    draws: dict[tuple[str, int], list[Episode]]
    policy: Any = None

    def played(self, label: str, task: Task, plays: Any) -> tuple[list[Episode], float]:
        number = int(label.rpartition("-")[2])
        return [
            self.draws[p.item.id, p.draw][number].model_copy(update={"seed": p.seed, "draw": p.draw})
            for p in plays
        ], 0.0


def test_the_best_of_n_is_the_first_valid_draw_and_the_first_of_all_where_none_is() -> None:
    suite = Suite("heldout", (asked(5, "x"), asked(6, "y")), 1, 0)

    def said(item: Item, text: str) -> Episode:
        player: Any = lambda item, state, rng: text  # noqa: E731
        return play_baseline(STRUCTURED, player, [Play(item, 0, 0, 0)], "said")[0]

    first, second = suite.items
    draws = {
        (first.id, 0): [said(first, text) for text in ("no", '{"a":5,"b":"y"}', '{"b":"x","a":5}')],
        (second.id, 0): [said(second, text) for text in ("nothing", "{}", '{"b":"z"}')],
    }
    settings = SimpleNamespace(evaluation=SimpleNamespace(rivals=ALL))
    table: Any = Drawn(SimpleNamespace(params=settings, task=STRUCTURED), draws)
    episodes, told = playing._best_of_n(table, suite)
    # The second draw of the first item is valid and wrong: the third, which is right, is never looked at
    assert [episode.turns[0].completion for episode in episodes] == ['{"a":5,"b":"y"}', "nothing"]
    assert [episode.seed for episode in episodes] == [play.seed for play in suite.plays()]
    assert (told.used, told.invalid) == (3, 1)


def test_a_base_that_cannot_be_bound_and_has_no_room_is_told_and_goes_on(
    prepared: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(policy: Policy) -> None:
        raise PolicyError("a tokenizer that llguidance can read", found="runes", where="x", fix="none")

    monkeypatch.setattr("assay.rollout.policy.engine.grammar.Grammars", refused)
    tokenizer = tiny.build_tokenizer(CHARACTERS)
    inputs = prepared.inputs("train", "heldout")
    table: Any = SimpleNamespace(inputs=inputs, policy=policy_of(tokenizer, positions=64))
    suite = suite_for(inputs.heldout, FEW_SHOT)
    episodes, told = playing._constrained(table, suite)
    assert not episodes and told.used == 0 and "found runes" in str(told.note)
    episodes, told = playing._few_shot(table, suite)
    assert not episodes and told.used == 0 and "64 positions" in str(told.note)
    assert len(inputs.train) == 6


def test_schemas_that_cannot_be_followed_are_counted(prepared: Project) -> None:
    inputs = prepared.inputs("heldout")
    table: Any = SimpleNamespace(inputs=inputs, policy=policy_of(tiny.build_tokenizer(CHARACTERS)))
    suite = suite_for(inputs.heldout, "constrained")
    items = [
        replace(item, public=replace(item.public, schema_text='{"$ref":"gone.json"}')) for item in suite.items
    ]
    episodes, told = playing._constrained(table, replace(suite, items=tuple(items)))
    assert not episodes and told.unbound_items == 3 and "3 items of 3" in str(told.note)
    assert not Path(prepared.root / "gone.json").exists()
