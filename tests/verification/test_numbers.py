"""V1 computes every number, page and figure again and says where a stored one is another; also how near it
is."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import matplotlib as mpl
import pytest

from assay.core.errors import RecordError
from assay.core.evidence_files import place_of
from assay.package.verification.checks import Check
from assay.package.verification.compared import NEARLY, compare, difference
from assay.package.verification.content.rendered import files_again, pages_again, tables_again
from assay.package.verification.levels import all_levels
from assay.package.verification.unpacked import Unpacked, link
from assay.stages.render_evidence import arms

RESULTS = "evidence/results"


def again(root: Path, work: Path, *, other_drawings: bool = False) -> dict[str, Check]:
    package = Unpacked(root)
    data, documents = files_again(package, work, other_code=False)
    pages = pages_again(package, work, other_drawings=other_drawings, other_code=False)
    found = [data(), *pages, documents()]
    return {check.name: check for check in found}


def edited(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text(encoding="utf-8")
    assert old in text
    (root / name).write_text(text.replace(old, new, 1), encoding="utf-8")


def test_an_edited_claim_page_and_figure_are_found_each_by_its_check_whatever_stack_the_package_names(
    unpacked: Path, tmp_path: Path
) -> None:
    edited(unpacked, place_of("claim.json"), '"n_items": ', '"n_items": 1')
    edited(unpacked, place_of("report.html"), "</h1>", "!</h1>")
    edited(unpacked, place_of("figures/training_curve.svg"), "<g>", "<g >")
    edited(unpacked, "constraints.txt", f"matplotlib=={mpl.__version__}", "matplotlib==3.0.0")
    (unpacked / place_of("plots/more.csv")).write_text("step\n1\n", encoding="utf-8")
    found = again(unpacked, tmp_path / "work")
    assert {name: check.outcome for name, check in found.items()} == {
        "data": "passed",
        "claim": "failed",
        "pages": "failed",
        "figures": "failed",
        "documents": "failed",
    }
    assert "claim.json, n_items: 1" in found["claim"].found
    assert "plots/more.csv cannot be computed from the package" in found["claim"].found
    assert "report.html, line" in found["pages"].found
    assert "theirs 3.0.0" in found["figures"].found


@pytest.mark.usefixtures("figures_as_stored")
def test_what_is_graded_beside_says_what_one_process_says_and_bars_the_claim(
    unpacked: Path, tmp_path: Path
) -> None:
    edited(unpacked, place_of("post_eval.jsonl"), '"success":false', '"success":true')
    found = {n: list(all_levels(unpacked, tmp_path / f"{n}", processes=n)) for n in (1, 2)}
    assert found[1] == found[2]
    outcomes = {(each.level, each.name): each.outcome for each in found[2]}
    assert (outcomes["V2", "post_eval.jsonl"], outcomes["V2", "pre_eval.jsonl"]) == ("failed", "passed")
    assert [each.outcome for each in found[2] if each.name == "claim"] == ["failed"]


@pytest.mark.usefixtures("figures_as_stored")
def test_what_is_right_when_it_is_graded_beside_is_not_played_again_for_the_claim(
    unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> list[str]:
        raise AssertionError("graded twice")

    monkeypatch.setattr(arms, "graded_again", refused)
    found = {each.name: each.outcome for each in all_levels(unpacked, tmp_path, processes=2)}
    assert found["claim"] == "passed"


@pytest.mark.parametrize("processes", [1, 2])
def test_a_file_that_cannot_be_read_is_named_whoever_reads_it(
    unpacked: Path, tmp_path: Path, processes: int
) -> None:
    (unpacked / place_of("rivals.json")).write_text("{\n", encoding="utf-8")
    with pytest.raises(RecordError, match=r"rivals\.json: expected strict JSON"):
        list(all_levels(unpacked, tmp_path, processes=processes))


def test_evidence_that_cannot_be_rendered_fails_and_leaves_the_package_as_it_was(
    unpacked: Path, tmp_path: Path
) -> None:
    (unpacked / place_of("post_eval.jsonl")).write_text("{}\n", encoding="utf-8")
    before = {path: path.read_bytes() for path in unpacked.rglob("*") if path.is_file()}
    found = again(unpacked, tmp_path / "work")
    assert found["claim"].outcome == "failed"
    assert "post_eval.jsonl" in found["claim"].found
    assert {path: path.read_bytes() for path in unpacked.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("name", "old", "new", "check"),
    [
        ("training_log.csv", "\n2,", "\n3,", "training tables"),
        ("reward_components.csv", "\n1,16,", "\n1,17,", "training tables"),
        ("checkpoint_evals.csv", "\n0,0.0,24,", "\n0,0.0,25,", "training tables"),
        ("validation_scores.csv", "\n0,0,", "\n0,1,", "training tables"),
        ("post_eval.jsonl", '","', '", "', "episodes"),
        ("control_eval.jsonl", '","', '", "', "episodes"),
        ("train_log.jsonl", ',"', ', "', "training tables"),
        ("validation.jsonl", ',"', ', "', "training tables"),
    ],
)
def test_an_edited_table_is_found_and_named(
    unpacked: Path, tmp_path: Path, name: str, old: str, new: str, check: str
) -> None:
    edited(unpacked, place_of(name), old, new)
    found = {each.name: each for each in tables_again(Unpacked(unpacked), tmp_path / "work")}
    assert found.pop(check).outcome == "failed"
    assert {each.outcome for each in found.values()} == {"passed"}


NUMBERS = (
    ("reports.json", ("arms", "pre_eval", "measures", "success_rate", "value")),
    ("plan_power.json", ("power",)),
    ("details.json", ("components", "standard_error")),
    ("reports.json", ("arms", "post_eval_greedy", "measures", "mean_reward", "high")),
    ("reports.json", ("arms", "control_eval", "measures", "success_rate", "low")),
    ("reports.json", ("baselines", "random", "measures", "mean_reward", "low")),
    ("details.json", ("confidence", "after", "brier")),
)


@pytest.mark.usefixtures("figures_as_stored")
def test_an_edited_number_of_a_report_of_a_scripted_player_or_of_the_planned_power_is_found_and_named(
    unpacked: Path, pristine: Path, tmp_path: Path
) -> None:
    def raised(name: str, where: tuple[str, ...]) -> None:
        value = json.loads((pristine / place_of(name)).read_text(encoding="utf-8"))
        inner = value
        for key in where[:-1]:
            inner = inner[key]
        inner[where[-1]] += 0.0625
        (unpacked / place_of(name)).write_text(
            json.dumps(value, sort_keys=True, indent=2) + "\n", encoding="utf-8"
        )

    for name, where in NUMBERS[:3]:  # one in each of three files, which is as many faults as a check names
        raised(name, where)
    (unpacked / place_of("figures/more.svg")).write_text("<svg/>", encoding="utf-8")
    edited(unpacked, place_of("summary.md"), "| ", "| better, 98.9 %, ")
    package = Unpacked(unpacked)
    looks = pages_again(package, tmp_path / "work", other_drawings=False, other_code=True)
    found = {check.name: check for check in looks}
    for name, where in NUMBERS[:3]:
        assert f"{name}, {'.'.join(where)}: " in found["claim"].found
    assert "more.svg is no figure of this evidence" in found["figures"].found
    # A page that other code may have worded otherwise is left open by name; numbers and files are not.
    outcomes = [found[name].outcome for name in ("claim", "figures", "pages")]
    assert outcomes == ["failed", "failed", "not checked"]
    assert "summary.md has 98.9 where nothing follows" in found["pages"].found
    assert found["pages"].left == (place_of("summary.md"),)
    # What was computed again is still there, and no other number of these files is another.
    for name, where in NUMBERS[3:]:
        raised(name, where)
        (wrong,) = compare(unpacked, tmp_path / "work", [place_of(name)], said="").wrong
        assert wrong.startswith(f"{place_of(name)}, {'.'.join(where)}: ")


def test_a_difference_says_where_and_both_values_and_whether_it_is_rounding() -> None:
    text, near = difference("a.json", b'{"x": {"p": 0.25}}', b'{"x": {"p": 0.5}}')
    assert (text, near) == ("a.json, x.p: 0.25 is stored, 0.5 follows from the package", False)
    text, near = difference("a.json", b'{"x": [1.0, 0.1]}', b'{"x": [1.0, 0.10000000000000002]}')
    assert near
    assert text.endswith(f"({NEARLY})")
    assert difference("a.csv", b"step,loss\n1,0.5\n", b"step,loss\n1,0.50000000000001\n")[1]
    assert not difference("a.csv", b"step,loss\n1,0.5\n2,1.0\n", b"step,loss\n1,0.50000000000001\n2,3.0\n")[1]
    assert not difference("a.json", b'{"n": 1}', b'{"n": 1.0}')[1]
    assert "line 2" in difference("a.md", b"one\ntwo\n", b"one\nthree\n")[0]
    assert "3 lines are stored, 2" in difference("a.md", b"one\n\n", b"one\n")[0]
    assert "byte 2" in difference("a.png", b"\0\1\2", b"\0\1\3")[0]
    assert difference("a.json", b'{"x": 1 }', b'{"x": 1}')[0].startswith("a.json, line 1")


def test_numbers_that_agree_to_nine_digits_pass_and_are_named(tmp_path: Path) -> None:
    for folder, value in (("one", "0.1"), ("other", "0.10000000000000002"), ("third", "0.1000001")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.json").write_text(f'{{"x": {value}}}', encoding="utf-8")
    same, near, far = (
        compare(tmp_path / "one", tmp_path / other, ["a.json"], said="a number")
        for other in ("one", "other", "third")
    )
    assert not same.wrong and "equal to the last byte" in same.said
    assert not near.wrong and NEARLY in near.said
    assert far.wrong


@pytest.mark.usefixtures("figures_as_stored")
def test_other_drawings_are_not_judged_where_the_verifier_lets_them_pass_unchecked(
    unpacked: Path, tmp_path: Path
) -> None:
    edited(unpacked, place_of("figures/training_curve.svg"), "<g>", "<g >")
    page = (unpacked / place_of("report.html")).read_text(encoding="utf-8")
    assert "svg+xml;base64," in page
    edited(unpacked, place_of("report.html"), "svg+xml;base64,", "svg+xml;base64,AAAA")
    lenient = again(unpacked, tmp_path / "lenient", other_drawings=True)
    assert {name: lenient[name].outcome for name in ("figures", "pages")} == dict.fromkeys(
        ("figures", "pages"), "not checked"
    )
    assert "but for the drawings" in lenient["pages"].found


def test_a_card_that_other_code_words_otherwise_is_not_judged(unpacked: Path, tmp_path: Path) -> None:
    edited(unpacked, "README.md", "## Check it", "## Checking it")
    _, documents = files_again(Unpacked(unpacked), tmp_path / "work", other_code=True)
    check = documents()
    assert check.outcome == "not checked" and "README.md, line" in check.found
    assert check.left == ("README.md",)
    edited(unpacked, "verify.py", "import zlib", "import  zlib")
    # That of another version is another, and nobody can tell by it.
    assert documents().left == ("README.md", "verify.py")
    edited(unpacked, "dvc.lock", "schema:", "# read on\nschema:")
    assert documents().outcome == "failed"  # nothing else is left open


def test_a_file_that_no_run_has_is_found_and_a_card_of_another_run(unpacked: Path, tmp_path: Path) -> None:
    def documents() -> str:
        _, made = files_again(Unpacked(unpacked), tmp_path / "work", other_code=False)
        return made().found

    (unpacked / "more.txt").write_text("x", encoding="utf-8")
    assert "more.txt has no place" in documents()
    (unpacked / "more.txt").unlink()
    edited(unpacked, "README.md", "#", "##")
    assert "README.md, line" in documents()


def test_a_file_stands_in_a_second_place_without_links_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").write_text("whole", encoding="utf-8")
    link(tmp_path / "one", tmp_path / "linked")
    assert os.path.samefile(tmp_path / "one", tmp_path / "linked")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    link(tmp_path / "one", tmp_path / "linked")
    assert not os.path.samefile(tmp_path / "one", tmp_path / "linked")
    assert (tmp_path / "linked").read_text(encoding="utf-8") == "whole"


def test_an_order_of_keys_of_an_earlier_version_is_no_difference_and_a_value_is(tmp_path: Path) -> None:
    for name, text in (("a", '{"p": 0.5, "gain": 1}'), ("b", '{"gain": 1, "p": 0.5}'), ("c", '{"gain": 1}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.json").write_text(text, encoding="utf-8")
    first, other, less = (tmp_path / name for name in "abc")
    assert not compare(first, other, ["m.json"], said="", in_any_order=["m.json"]).wrong
    assert compare(first, other, ["m.json"], said="").wrong
    assert compare(first, less, ["m.json"], said="", in_any_order=["m.json"]).wrong
