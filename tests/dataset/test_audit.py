"""The audit counts each kind of oddity, names the first few, and keeps, drops or refuses as the settings
say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.checks.own_data.splits import make_files, split_by_group, split_of_groups
from assay.core.config.settings import AuditSettings
from assay.core.errors import DataError
from assay.core.storage.json import dumps
from assay.pipeline.inputs import task_with
from assay.rollout.audit.audit import (
    ALWAYS_REFUSED,
    REPORTED,
    Audited,
    audit,
    cure,
    refuse_unusable,
    require_records,
)
from assay.rollout.audit.drift import changes, index_of
from assay.rollout.dataset.schema_files import SchemaFiles
from assay.rollout.dataset.source import load
from tests import own_data
from tests.own_data import jsonl, row

KEEPING = dict.fromkeys(AuditSettings.model_fields, "keep") | {
    "unreadable": "drop",
    "duplicate_record": "drop",
}
INLINE = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return own_data.write_data(tmp_path)


def audited(folder: Path, content: bytes, *, terms: bytes | None = None, **actions: str) -> Audited:
    """Return the audit of a tasks file beside the dataset's schema files."""
    (folder / "tasks.jsonl").write_bytes(content)
    project = own_data.project(folder.parent.parent, blocklist=None if terms is None else "terms.txt")
    source = load(folder / "tasks.jsonl", SchemaFiles(folder, project.root), where="tasks.jsonl", fix="")
    return audit(
        task_with(project.root, project.params, terms),
        {"tasks": source},
        AuditSettings.model_validate(KEEPING | actions),
    )


def lines(found: Audited, kind: str) -> list[int | None]:
    return [finding.line for finding in found.report.kinds[kind].first]


def kept(found: Audited) -> list[int]:
    return [member.entry.line for member in found.kept["tasks"]]


def test_sound_records_are_not_odd(folder: Path) -> None:
    found = audited(folder, jsonl([row(number) for number in range(20)]))
    assert {name for name, kind in found.report.kinds.items() if kind.count} == set()
    assert found.report.kept == {"tasks": 20}
    assert found.dropped == {"tasks": []}


def test_thousands_of_records_are_read(folder: Path) -> None:
    assert audited(folder, jsonl([row(number) for number in range(3000)])).report.kept == {"tasks": 3000}


WILD: list[tuple[str, Sequence[dict[str, Any]], list[int]]] = [
    ("derived_id", [row(1), row(2, id=None)], [2]),
    ("no_gold", [row(1), row(2, gold=None)], [2]),
    ("duplicate_record", [row(1), row(2), row(1)], [3]),
    ("duplicate_prompt", [row(1), row(2), row(1, id="again")], [3]),
    ("conflicting_gold", [row(1), row(1, id="b", gold={"name": "Ana 1"}), row(2)], [1, 2]),
    ("gold_breaks_schema", [row(1), row(2, gold={"name": ""})], [2]),
    ("unstated_value", [row(1), row(2, gold={"name": "Berta"})], [2]),
    ("long_prompt", [row(1), row(2, prompt="Ana 2, 22 " * 6500)], [2]),
    ("type_spelling", [row(1), row(2, schema_path=None, schema=INLINE | {"type": "dict"})], [2]),
    ("duplicate_id", [row(1), row(2, id="r1")], [2]),
    ("unreadable", [row(1), row(2, prompt=None)], [2]),
    ("unreadable", [row(1), row(2, schema_path=None)], [2]),
    ("unreadable", [row(1), row(2, schema_path="schemas/none.json")], [2]),
    ("unreadable", [row(1), row(2, schema_path=5)], [2]),
    ("unreadable", [row(1), row(2, schema=INLINE)], [2]),
    ("unreadable", [row(1), row(2, schema_uri="file:///x")], [2]),
    ("unreadable", [row(1), row(2, schema_resources={})], [2]),
    ("unreadable", [row(1), row(2, gold=[])], [2]),
    ("unreadable", [row(1), row(2, schema_path=None, schema={"type": "nonsense"})], [2]),
    ("unreadable", [row(1), row(2, schema_path=None, schema={"$ref": "schemas/person.json"})], [2]),
    ("unreadable", [row(1), row(2, schema_path=None, schema={"$ref": "https://example.com/x.json"})], [2]),
]


@pytest.mark.parametrize(("kind", "rows", "expected"), WILD)
def test_each_kind_is_counted_with_its_lines(
    folder: Path, kind: str, rows: Sequence[dict[str, Any]], expected: list[int]
) -> None:
    found = audited(folder, jsonl(rows))
    assert found.report.kinds[kind].count == len(expected)
    assert lines(found, kind) == expected


def test_a_gold_field_that_pays_for_nothing_is_told_and_can_be_refused(folder: Path) -> None:
    rows = [row(number, gold={"name": "Ana", "age": number}) for number in range(12)]
    found = audited(folder, jsonl(rows))
    kind = found.report.kinds["constant_field"]
    assert (kind.count, kind.action) == (1, "keep") and kept(found) == list(range(1, 13))
    (first,) = kind.first
    assert (first.line, first.id) == (None, None) and first.detail.startswith("gold.name: ")
    assert audited(folder, jsonl(rows), constant_field="refuse").report.refusals() == ["constant_field"]
    empty = [row(number, gold={"name": f"Ana {number}", "age": None}) for number in range(12)]
    assert audited(folder, jsonl(empty)).report.kinds["empty_field"].count == 1


@pytest.mark.parametrize("spelling", ["dict", "float", "tuple", "any"])
def test_types_as_python_spells_them_are_read_and_counted(folder: Path, spelling: str) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "more": {"type": spelling}}}
    found = audited(folder, jsonl([row(1, schema_path=None, schema=schema)]))
    assert lines(found, "type_spelling") == [1]
    assert kept(found) == [1]


def test_a_blocked_term_in_a_prompt_is_counted(folder: Path) -> None:
    found = audited(
        folder, jsonl([row(1), row(2, prompt="Who is ＣＵＲＳＥ? Ana 2, 22")]), terms=b"# no\ncurse\n"
    )
    assert lines(found, "blocked_prompt") == [2]


def test_a_file_of_windows_with_mark_and_blank_lines_is_read_and_told(folder: Path) -> None:
    content = b"\xef\xbb\xbf\r\n" + jsonl([row(1), row(2)]).replace(b"\n", b"\r\n\r\n")
    found = audited(folder, content)
    assert kept(found) == [2, 4]
    assert found.report.kinds["byte_order_mark"].count == 1
    assert found.report.kinds["blank_line"].count == 3
    assert found.report.n_records == 2


def test_a_line_separator_in_a_prompt_is_part_of_it(folder: Path) -> None:
    found = audited(folder, jsonl([row(1, prompt="Who?\u2028Ana 1, aged 21.")]))
    assert "\u2028" in found.kept["tasks"][0].entry.record["prompt"]


def test_two_schema_files_of_one_name_are_told_and_not_mixed_up(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other/person.json").write_text('{"type": "object", "title": "other"}')
    found = audited(folder, jsonl([row(1), row(2, schema_path="other/person.json")]))
    kind = found.report.kinds["same_schema_basename"]
    assert kind.count == 1
    assert "other/person.json" in kind.first[0].detail and "schemas/person.json" in kind.first[0].detail
    titles = [member.entry.row["schema"].get("title") for member in found.kept["tasks"]]
    assert titles == [None, "other"]


def test_a_prompt_in_two_splits_is_a_leak_even_in_other_words_of_space_and_case(folder: Path) -> None:
    (folder / "heldout.jsonl").write_bytes(
        jsonl([row(1, id="other", prompt=str(row(1)["prompt"]).upper() + "  ")])
    )
    (folder / "train.jsonl").write_bytes(jsonl([row(1), row(2)]))
    project = own_data.project(folder.parent.parent)
    schemas = SchemaFiles(folder, project.root)
    sources = {
        name: load(folder / f"{name}.jsonl", schemas, where=name, fix="") for name in ("train", "heldout")
    }
    found = audit(
        task_with(project.root, project.params, None), sources, AuditSettings.model_validate(KEEPING)
    )
    assert found.report.kinds["leak"].count == 1
    with pytest.raises(DataError, match="--fix-splits"):
        refuse_unusable(found.report, "data/mine")


def test_one_prompt_about_two_schemas_does_not_contradict_itself(folder: Path) -> None:
    second = row(1, id="b", schema_path=None, schema=INLINE, gold={"name": "Ana"})
    found = audited(folder, jsonl([row(1), second]))
    assert found.report.kinds["conflicting_gold"].count == 0
    assert lines(found, "duplicate_prompt") == [2]


def test_a_record_without_gold_contradicts_none(folder: Path) -> None:
    found = audited(folder, jsonl([row(1), row(1, id="b", gold=None)]))
    assert found.report.kinds["conflicting_gold"].count == 0


def test_of_contradicting_golds_none_is_believed(folder: Path) -> None:
    rows = [row(1), row(1, id="b", gold={"name": "Ana 1"}), row(2)]
    assert kept(audited(folder, jsonl(rows), conflicting_gold="drop")) == [3]


def test_of_repeated_records_and_prompts_the_first_stays(folder: Path) -> None:
    rows = [row(1), row(1, id="b"), row(1), row(2)]
    assert kept(audited(folder, jsonl(rows), duplicate_prompt="drop")) == [1, 4]


def test_what_is_dropped_for_another_reason_takes_no_sound_record_with_it(folder: Path) -> None:
    rows = [row(1, gold={"name": ""}), row(1, id="b"), row(2)]
    found = audited(
        folder, jsonl(rows), gold_breaks_schema="drop", duplicate_prompt="drop", conflicting_gold="refuse"
    )
    assert kept(found) == [2, 3]
    assert found.report.refusals() == []


def test_dropping_is_the_same_each_time_and_its_lines_are_recorded(folder: Path) -> None:
    rows = [row(1), row(2, gold=None), row(1), row(3, prompt=None)]
    one, two = (audited(folder, jsonl(rows), no_gold="drop") for _ in range(2))
    assert one.dropped == two.dropped == {"tasks": [2, 3, 4]}
    assert dumps(one.report) == dumps(two.report)
    assert one.report.dropped == {"tasks": 3}


@pytest.mark.parametrize("kind", [*AuditSettings.model_fields, *ALWAYS_REFUSED])
def test_a_refusal_names_kind_count_first_line_and_cure(folder: Path, kind: str) -> None:
    found = audited(folder, jsonl([row(1)])).report
    finding = {"split": "tasks", "line": 7, "id": "r7", "detail": "so"}
    odd = found.kinds[kind].model_validate(
        {"count": 12, "action": "refuse", "first": [finding], "unlisted": 11}
    )
    with pytest.raises(DataError) as caught:
        refuse_unusable(found.model_copy(update={"kinds": {kind: odd}}), "data/mine")
    for word in (kind, "12", "line 7", "r7", "data/mine"):
        assert word in str(caught.value)
    assert (f"dataset.audit.{kind}: drop" in cure(kind)) == (kind not in ALWAYS_REFUSED)
    assert (" or keep" in cure(kind)) == (
        "keep" in str(getattr(AuditSettings.model_fields.get(kind), "annotation", ""))
    )


def test_every_kind_is_a_setting_or_has_a_fixed_fate(folder: Path) -> None:
    found = audited(folder, b"").report
    assert set(found.kinds) == set(AuditSettings.model_fields) | set(ALWAYS_REFUSED) | set(REPORTED)


def test_an_empty_file_is_refused_in_plain_words(folder: Path) -> None:
    with pytest.raises(DataError, match="the file is empty"):
        require_records(audited(folder, b"").report, ["tasks"], "data/mine")
    with pytest.raises(DataError, match="1 were left out"):
        require_records(audited(folder, b"{}\n").report, ["tasks"], "data/mine")
    with pytest.raises(DataError, match="no such file"):
        require_records(audited(folder, b"").report, ["other"], "data/mine")


def test_every_finding_is_listed_and_beyond_a_bound_how_many_are_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"\n" * 30 + b"NaN\n" * 50 + jsonl([row(n, gold=None) for n in range(40)])
    kinds = audited(folder, content).report.kinds
    assert lines(audited(folder, content), "no_gold") == list(range(81, 121))
    for name, count in (("blank_line", 30), ("unreadable", 50), ("no_gold", 40)):
        assert (kinds[name].count, len(kinds[name].first), kinds[name].unlisted) == (count, count, 0)
    monkeypatch.setattr("assay.rollout.audit.audit.MOST_LISTED", 7)
    cut = audited(folder, content).report.kinds["no_gold"]
    assert (cut.count, len(cut.first), cut.unlisted) == (40, 7, 33)


def test_a_detail_of_any_length_is_cut(folder: Path) -> None:
    found = audited(folder, jsonl([row(1, schema_path="x" * 100_000)])).report.kinds["unreadable"]
    assert len(found.first[0].detail) <= 300


def test_the_order_of_the_records_does_not_decide_their_split(folder: Path) -> None:
    homes = []
    for numbers in (range(100), reversed(range(100))):
        members = audited(folder, jsonl([row(number) for number in numbers])).kept["tasks"]
        homes.append(
            {
                m.item.id: name
                for name, ms in split_by_group(members, (0.6, 0.2, 0.2), 0, "x", 0.6).items()
                for m in ms
            }
        )
    assert homes[0] == homes[1]


def test_records_of_one_prompt_go_to_one_split(folder: Path) -> None:
    members = audited(folder, jsonl([row(n % 40, id=f"x{n}") for n in range(120)])).kept["tasks"]
    homes: dict[str, set[str]] = {}
    for name, chosen in split_by_group(members, (0.5, 0.25, 0.25), 0, "x", 0.6).items():
        for member in chosen:
            homes.setdefault(member.item.cluster, set()).add(name)
    assert all(len(names) == 1 for names in homes.values())


@pytest.mark.parametrize("n", [10, 59, 5000])
def test_the_splits_have_the_sizes_asked_for_also_of_few_records(n: int) -> None:
    found = Counter(split_of_groups({str(number): 1 for number in range(n)}, (0.8, 0.1, 0.1), 0).values())
    for name, share in (("train", 0.8), ("validation", 0.1), ("heldout", 0.1)):
        assert abs(found[name] - share * n) <= 1


@given(st.lists(st.integers(1, 20), min_size=30, max_size=60), st.integers(0, 3))
def test_groups_of_many_records_cost_at_most_a_group_of_accuracy(sizes: list[int], seed: int) -> None:
    groups = {str(number): size for number, size in enumerate(sizes)}
    homes = split_of_groups(groups, (0.6, 0.2, 0.2), seed)
    for name, share in (("train", 0.6), ("validation", 0.2), ("heldout", 0.2)):
        records = sum(size for group, size in groups.items() if homes[group] == name)
        assert abs(records - share * sum(sizes)) <= max(sizes)


def test_an_empty_split_is_refused(folder: Path) -> None:
    members = audited(folder, jsonl([row(1), row(2)])).kept["tasks"]
    with pytest.raises(DataError, match="of 2 prompts"):
        split_by_group(members, (0.98, 0.01, 0.01), 0, "x", 0.6)


def test_schema_files_of_one_name_stay_apart_in_a_dataset_made_of_a_tasks_file(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other/person.json").write_text('{"type": "object"}')
    rows = [row(n, schema_path="other/person.json" if n % 2 else "schemas/person.json") for n in range(40)]
    members = audited(folder, jsonl(rows)).kept["tasks"]
    files = make_files(split_by_group(members, (0.5, 0.25, 0.25), 0, "x", 0.6))
    assert files["schemas/other/person.json"] != files["schemas/schemas/person.json"]
    named = {
        json.loads(line)["schema_path"]
        for name in files
        if name.endswith(".jsonl")
        for line in files[name].splitlines()
    }
    assert named == {"schemas/other/person.json", "schemas/schemas/person.json"}


def test_drift_is_told_by_record_and_by_schema(folder: Path) -> None:
    rows = [row(number) for number in range(10)]
    before = audited(folder, jsonl(rows))
    after = audited(folder, jsonl([*rows[2:8], row(8, gold={"name": "Ana 8"}), row(11)]))
    told = changes(
        index_of(before.kept, {"a.json": "1", "b.json": "1"}),
        index_of(after.kept, {"a.json": "2", "c.json": "1"}),
    )
    assert told == [
        "tasks: 1 record added (r11)",
        "tasks: 3 records removed (r0, r1, r9)",
        "tasks: 1 record edited (r8)",
        "schema a.json edited",
        "schema b.json no longer used",
        "schema c.json added",
    ]
    assert changes(index_of(before.kept, {}), index_of(before.kept, {})) == []


@pytest.mark.parametrize(
    ("one", "other", "contradict"),
    [
        ({"age": 1}, {"age": 1.0}, False),
        ({"name": "Jos\u00e9"}, {"name": "Jose\u0301"}, False),
        ({"name": "Ana  1"}, {"name": "Ana 1"}, False),
        ({"age": 1}, {"age": True}, True),
        ({"age": 1}, {"age": "1"}, True),
        ({"age": -0.0}, {"age": 0}, False),
        ({"age": 1e22}, {"age": 10**22}, False),
        ({"age": None}, {}, True),
    ],
)
def test_golds_contradict_where_the_grader_would_call_one_wrong(
    folder: Path, one: Any, other: Any, contradict: bool
) -> None:
    found = audited(folder, jsonl([row(1, id="a", gold=one), row(1, id="b", gold=other)]))
    assert lines(found, "conflicting_gold") == ([1, 2] if contradict else [])
    assert lines(found, "duplicate_prompt") == ([] if contradict else [2])


def test_several_golds_and_conversations_are_audited_like_others(folder: Path) -> None:
    said = [{"role": "user", "content": row(1)["prompt"]}]
    gold, golds = {"name": "Ana 1"}, [{"name": "Ana 1", "age": 21}, {"name": "Ana 1"}]
    both = [
        row(1, gold=None, golds=golds),
        row(1, id="b", prompt=None, messages=said, gold=None, golds=golds[::-1]),
    ]
    found = audited(folder, jsonl([*both, row(2, golds=[]), row(3, golds=[gold])]))
    assert lines(found, "duplicate_prompt") == [2] and lines(found, "conflicting_gold") == []
    assert lines(found, "unreadable") == [3, 4]
    assert lines(audited(folder, jsonl([*both, row(1, id="c", gold=gold)])), "conflicting_gold") == [1, 2, 3]


def test_a_control_token_is_counted_and_refused_where_that_is_asked_for(folder: Path) -> None:
    content = jsonl([row(1), row(2, prompt="Who?<|im_end|> Ana 2, 22")])
    found = audited(folder, content)
    assert lines(found, "control_token") == [2] and kept(found) == [1, 2]
    assert kept(audited(folder, content, control_token="drop")) == [1]
    with pytest.raises(DataError, match="control_token"):
        refuse_unusable(audited(folder, content, control_token="refuse").report, "data/mine")
