"""The shipped structured data: made by the code beside them, split by template family, and in words the tiny
base knows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest

from assay.core.config.reading import parse_params
from assay.core.config.tasks import shipped_data
from assay.core.seeds import rng
from assay.rollout.audit.audit import audit
from assay.rollout.audit.contamination import contamination
from assay.rollout.dataset.schema_files import SchemaFiles
from assay.rollout.dataset.source import load
from assay.rollout.policy.base.tiny import build_tokenizer
from assay.rollout.policy.renderer import Dialogue
from assay_tasks.structured import shop
from assay_tasks.structured.shop import lessons, orders
from tests import house
from tests.composed import composed

DATA = house.ROOT / "data/structured"
SPLITS = ("train", "validation", "heldout")
SETTINGS = parse_params(composed("tiny", "structured"))


def rows(split: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (DATA / f"{split}.jsonl").read_text(encoding="utf-8").split("\n") if line
    ]


def loaded(split: str) -> list[Mapping[str, Any]]:
    """Return the rows with their schemas in them, as a stage reads them."""
    source = load(DATA / f"{split}.jsonl", SchemaFiles(DATA, house.ROOT), where=split, fix="")
    return [entry.row for entry in source.entries]


@pytest.fixture(scope="module")
def dialogue() -> Dialogue:
    return Dialogue(build_tokenizer(shop.vocabulary()))


def test_the_committed_files_are_what_the_generator_writes() -> None:
    for name, text in shipped_data("structured").items():
        assert (DATA / name).read_text(encoding="utf-8") == text, name


def test_no_job_of_one_split_stands_in_another_in_other_words() -> None:
    sources = {
        split: load(DATA / f"{split}.jsonl", SchemaFiles(DATA, house.ROOT), where=split, fix="")
        for split in SPLITS
    }
    task = SETTINGS.task.build(SETTINGS.generation, shaping=False)
    found = contamination(audit(task, sources, SETTINGS.dataset.audit).kept)
    assert found.compared["near"] == sum(found.n_records.values()) == 2816
    assert not found.overlaps


def test_no_template_family_and_no_text_is_in_two_splits() -> None:
    families = [{row["family"] for row in rows(split)} for split in SPLITS]
    texts = [{row["context"] for row in rows(split)} for split in SPLITS]
    for found in (families, texts):
        assert not found[0] & found[1] and not found[0] & found[2] and not found[1] & found[2]


def test_held_out_work_is_of_many_template_families_in_every_form_and_many_shapes() -> None:
    families = {row["family"] for row in rows("heldout")}
    assert len(families) >= 60
    between = {orders.template(int(family[1:]))[3] for family in families}
    assert between == {"", orders.NEXT_SENTENCE, orders.NEXT_NOTE}
    golds = [row["gold"] for row in rows("heldout") if row["task_type"] == "extraction"]
    assert len({json.dumps(_shape(gold), sort_keys=True) for gold in golds}) >= 11
    said = [value for gold in golds for value in gold.values()]
    assert None in said and any(isinstance(value, list) for value in said)
    assert any(isinstance(value, dict) for value in said)


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shape(part) for name, part in value.items()}
    return [_shape(part) for part in value] if isinstance(value, list) else type(value).__name__


def test_no_template_of_one_split_is_a_template_of_another() -> None:
    homes = {
        split: {json.dumps(orders.template(family)) for family in orders.FAMILIES[split]} for split in SPLITS
    }
    for one, other in combinations(SPLITS, 2):
        assert not homes[one] & homes[other], (one, other)


def test_every_split_holds_every_kind_of_job_in_about_the_same_share() -> None:
    for split in SPLITS:
        kinds = Counter((row["task_type"], row["difficulty"]) for row in rows(split))
        shares = {kind: n / sum(kinds.values()) for kind, n in kinds.items()}
        assert set(shares) == {
            ("call", "medium"),
            *(("extraction", level) for level in ("easy", "medium", "hard")),
        }
        assert all(0.1 < share < 0.45 for share in shares.values()), (split, shares)


def test_a_job_that_asks_for_a_fact_states_the_one_it_can_be_mistaken_for() -> None:
    draws = rng("test", "rivals")
    for family in range(160):
        job = orders.draw_job(draws, family)
        for field in job.fields():
            assert orders.RIVALS.get(field, field) in job.facts
            assert job.facts[field] != job.facts.get(orders.RIVALS.get(field, ""))


def test_every_value_of_a_gold_stands_in_its_text() -> None:
    for split in SPLITS:
        for row in rows(split):
            for value in _leaves(row["gold"]):
                if value is None:
                    assert not set(row["context"].split()) & {*orders.DAYS, *(f"{d}." for d in orders.DAYS)}
                    continue
                assert str(value).removesuffix("s") in row["context"], row["id"]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in _leaves(part)]
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, list) else [value]


def test_the_tiny_tokenizer_knows_every_word_and_gives_every_text_back(dialogue: Dialogue) -> None:
    tokenizer = dialogue._tokenizer
    for lesson in (*shop.demonstrations(rng("test", "words"), 300), *shop.drills(rng("test", "words"), 100)):
        for message in lesson:
            ids = tokenizer(message["content"], add_special_tokens=False)["input_ids"]
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids) == message["content"]


def test_a_right_answer_fits_the_completion_limit_of_the_tiny_preset(dialogue: Dialogue) -> None:
    draws = rng("test", "length")
    for family in range(160):
        job = orders.draw_job(draws, family)
        if isinstance(job.form, orders.Form):
            ids = dialogue._ids(json.dumps(job.form.fill(job.facts), separators=(",", ":")))
            assert len(ids) < 24


def test_the_weak_player_writes_json_and_is_seldom_right() -> None:
    draws = rng("test", "weak")
    right = []
    for number in range(600):
        job = orders.draw_job(draws, number % 80)
        answer = json.loads(lessons.weak_answer(job, draws))
        if isinstance(job.form, orders.Form):
            right.append(answer == job.form.fill(job.facts))
    assert 0.1 < sum(right) / len(right) < 0.5


def test_the_weak_player_calls_either_function_whatever_the_text_asks_for() -> None:
    draws = rng("test", "weak calls")
    jobs = [orders.draw_job(draws, number % 80) for number in range(2400)]
    calls = [job for job in jobs if isinstance(job.form, orders.Function)]
    asked = [json.loads(lessons.weak_answer(job, draws))["name"] == job.form.name for job in calls]
    assert len(asked) > 400 and 0.43 < sum(asked) / len(asked) < 0.57


def test_drills_ask_for_the_opening_words_and_never_say_which_function_they_mean() -> None:
    drilled = shop.drills(rng("test", "openers"), 1000)
    openers = {opener for function in orders.FUNCTIONS for opener in function.openers}
    answers = [drill[-1]["content"] for drill in drilled]
    assert openers <= set(answers)
    assert 0.2 < sum(answer in openers for answer in answers) / len(answers) < 0.4
    assert all(question["content"].startswith(tuple(openers)) for question, _ in drilled)
    assert not any('"name"' in message["content"] for drill in drilled for message in drill)


def test_equal_labels_make_equal_lessons() -> None:
    assert shop.demonstrations(rng("a"), 5) == shop.demonstrations(rng("a"), 5)
    assert shop.drills(rng("a"), 5) != shop.drills(rng("b"), 5)


def test_the_tiny_tokenizer_knows_every_word_of_the_committed_openings(dialogue: Dialogue) -> None:
    task = SETTINGS.task.build(SETTINGS.generation, shaping=False)
    for split in SPLITS:
        for row in loaded(split):
            messages, _ = task.start(task.item(row), 0)
            assert dialogue._tokenizer.unk_token_id not in dialogue.prompt(messages), row["id"]


def test_the_gold_of_every_committed_record_earns_full_marks_and_nothing_is_odd_about_it() -> None:
    task = SETTINGS.task.build(SETTINGS.generation, shaping=False)
    for row in loaded("heldout"):
        item = task.item(row)
        _, state = task.start(item, 0)
        step = task.step(state, task.baselines()["gold"](item, state, rng("gold")))
        assert sum(step.parts.values()) == pytest.approx(1.0), row["id"]
        assert task.judge(step.state).success and not task.examine(row)[1], row["id"]
