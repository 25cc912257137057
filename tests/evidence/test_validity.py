"""Validity and field F1 stand side by side for every stratum, with intervals, and only where there is a
schema."""

from __future__ import annotations

from assay.core.records import Episode
from assay.evidence.figures.verdict_figures import validity_frame
from assay.evidence.formatting import interval_text
from conftest import make_report
from synthetic_structured import STRATA, structured_arm

BEFORE, AFTER = structured_arm("base", 0.3), structured_arm("trained", 0.85)


def test_all_items_come_first_then_every_stratum_of_every_label() -> None:
    before, after = make_report(BEFORE), make_report(AFTER)
    frame = validity_frame(before, after)
    assert frame is not None
    named = [f"{label}={value}" for label, values in sorted(STRATA.items()) for value in sorted(values)]
    assert list(frame["stratum"]) == ["all", *named]
    assert list(frame["items"])[:4] == [48, 16, 16, 16]


def test_each_cell_is_the_measure_of_its_arm_with_its_interval() -> None:
    before, after = make_report(BEFORE), make_report(AFTER)
    frame = validity_frame(before, after)
    assert frame is not None
    hard = frame.set_index("stratum").loc["difficulty=hard"]
    for column, report, measure, rate in (
        ("valid before, %", before, "schema_valid_rate", True),
        ("valid after, %", after, "schema_valid_rate", True),
        ("field F1 before", before, "metric.field_f1", False),
        ("field F1 after", after, "metric.field_f1", False),
    ):
        found = report.strata["difficulty"]["hard"].measures[measure]
        assert hard[column] == interval_text(found, rate=rate)
        assert "[" in hard[column]


def test_without_any_gold_the_f1_is_missing_and_not_zero() -> None:
    bare = [e.model_copy(update={"metrics": e.metrics | {"field_f1": None}}) for e in AFTER]
    frame = validity_frame(make_report(BEFORE), make_report(bare))
    assert frame is not None
    assert set(frame["field F1 after"]) == {"missing"} and "missing" not in set(frame["valid after, %"])


def test_a_task_without_schemas_has_no_such_table(before: list[Episode], after: list[Episode]) -> None:
    assert validity_frame(make_report(before), make_report(after)) is None
