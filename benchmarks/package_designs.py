"""Forgeries of packages of runs and of judgements, thought out one by one, and which level finds each.

    ./run python benchmarks/package_designs.py

A forger changes files of a package and makes all lists anew: of a run dvc.lock, card, provenance and
SHA256SUMS (`resealing.py`), of a judgement provenance and SHA256SUMS. Where it is said, he derives everything
else again with assay's own code. `due` is the level that was predicted before the first run, or "none" where
nothing in the package says otherwise: those are the rows of the table in docs/internals/verification.md of
what only a published digest shows. Of a run V1 to V3 are tried; `designs.py` has forgeries for V4 and V5. The
run is made by scripted players (`tests/verification/made_run.py`).

Writes its part of benchmarks/results/tamper.json, and exits with 1 unless all are found that were due, and
the honest packages pass.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, options, written
from benchmarks.forging import Forge, added, both, rows, text
from benchmarks.resealing import (
    Files,
    files_in,
    pretty,
    put_rows,
    rederived,
    relocked,
    resealed,
    rows_of,
    write,
)

from assay.core.console import quietly
from assay.core.evidence_files import place_of as path
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import digest, dumps
from assay.core.storage.untrusted import listing
from assay.package import judgements
from assay.package.verification.checks import Check, Level
from assay.package.verification.content import rendered
from assay.package.verification.content.regraded import regraded
from assay.package.verification.content.rendered import files_again, pages_again, tables_again, written_names
from assay.package.verification.levels import consistent, settings
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.project import Project
from assay.stages import render_evidence
from assay.stages.packing.archive import unpack
from assay.stages.packing.layout import OPENINGS, PROVENANCE, SUMS
from assay.stages.packing.verify import check
from assay.training.log.step_chain import START, chain_of
from assay.verdict.judge import sources
from assay.verdict.judge.page import write_pages
from assay.verdict.judge.plan import PlannedItems, plan_text, read_plan
from assay.verdict.judge.rows import read_rows
from assay.verdict.judge.sources import Judgement
from assay.verdict.judge.verdict import judge

RESULT = RESULTS / "tamper.json"
LEVELS: tuple[Level, ...] = ("V0", "V1", "V2", "V3")
NOTHING = "none"
# What is made after the pages, and read for none of them.
COVERED = ("README.md", "provenance.json", "dvc.lock", "SHA256SUMS", "verify.py", "evidence/README.md")
LAB = "An independent laboratory measured 98.9 %."


class Design(NamedTuple):
    """One forgery: its kind, what it changes, the level that is due to find it, whether all else is derived
    again, and of a run its task."""

    kind: str
    forge: Forge
    due: str
    derived: bool = False
    task: str = "collider"


RUNS: dict[str, Design] = {}
JUDGEMENTS: dict[str, Design] = {}


OF_CORE = r"(path: src/assay/core\n +hash: md5\n +md5: )\w{6}"


def _design(
    of: dict[str, Design],
    kind: str,
    due: str,
    *,
    derived: bool = False,
    task: str = "collider",
    **forges: Forge,
) -> None:
    for name, forge in forges.items():
        of[f"{kind}: {name.replace('_', ' ')}"] = Design(kind, forge, due, derived, task)


def record(name: str, change: Callable[[Any], None]) -> Forge:
    """Change a record, written as assay writes it."""

    def forge(files: Files) -> None:
        value = json.loads(files[name])
        change(value)
        files[name] = pretty(value) if files[name].startswith(b"{\n") else f"{dumps(value)}\n".encode()

    return forge


def told(name: str, **values: Any) -> Forge:
    """Set values of a record."""
    return record(name, lambda value: value.update(values))


def appended(name: str, more: str) -> Forge:
    """Write something behind a file."""
    return lambda files: files.update({name: files[name] + more.encode()})


def logged(change: Callable[[Any], None]) -> Forge:
    """Change the first row of the training's log, and chain it anew."""

    def forge(files: Files) -> None:
        found, chain = rows_of(files, path("train_log.jsonl")), START
        change(found[0])
        for row in found:
            chain = row["chain"] = chain_of(chain, row)
        put_rows(files, path("train_log.jsonl"), found)
        told(path("train.json"), chain=chain)(files)

    return forge


def noted(change: Callable[[Any], None], stage: str | None = None) -> Forge:
    """Change the notes of openings: the first, or each of one stage."""

    def forge(found: Any) -> None:
        of_stage = [each for each in found["openings"] if each["stage"] == stage]
        for each in of_stage or found["openings"][:1]:
            change(each)

    return record(OPENINGS, forge)


def graded(name: str, **values: Any) -> Forge:
    """Set values of an episode that did not succeed."""

    def change(found: list[Any]) -> None:
        told = [row.get("episode", row) for row in found]
        next(each for each in told if not each["success"]).update(values)

    return rows(name, change)


# Of a run.
REPORT, SUMMARY, CLAIM = path("report.html"), path("summary.md"), path("claim.json")
BASE, CONTROL, TRAIN = path("base.json"), path("control.json"), path("train.json")
README = "data/collider/README.md"
WAIVER = f"waivers:\n  - file: LICENSE\n    sha256: {'a' * 64}\n    reason: {LAB[:-1]}"
_design(
    RUNS,
    "words and numbers on pages",
    "V1",
    sentence_in_the_report=text(REPORT, "</h1>", f"</h1><p>{LAB}</p>"),
    number_in_the_report=text(REPORT, r"(\d)\.(\d) points", r"9\1.\2 points"),
    script_in_the_report=text(REPORT, "<style>", "<script>document.title='98.9 %'</script><style>"),
    words_by_a_style=text(REPORT, "<style>", "<style>h1::after{content:' 98.9 %'}"),
    picture_exchanged=text(REPORT, r"svg\+xml;base64,.{40}", "svg+xml;base64,AAAA"),
    sentence_in_the_summary=appended(SUMMARY, f"{LAB}\n"),
    number_in_the_summary=text(SUMMARY, r"\| -?0\.", "| 0.9"),
    line_left_out_of_the_summary=text(SUMMARY, r"\n[^\n]+\n\Z", "\n"),
    sentence_in_the_card=appended("README.md", f"{LAB}\n"),
    card_tells_to_run_code=appended("README.md", "```sh\npython3 verify.py\n```\n"),
    sentence_on_the_landing_page=appended("evidence/README.md", f"{LAB}\n"),
    words_in_a_figure=text(path("figures/health.svg"), "</svg>", f"<text>{LAB}</text></svg>"),
    comment_in_a_figure=text(path("figures/health.svg"), "</svg>", f"<!-- {LAB} --></svg>"),
)
_design(
    RUNS,
    "numbers",
    "V1",
    claim_value=record(CLAIM, lambda claim: claim["difference"].update(value=0.989)),
    claim_p=told(CLAIM, p=1e-6),
    claim_verdict=told(CLAIM, verdict="IMPROVED WITH REGRESSIONS"),
    claim_sentence=told(CLAIM, sentence=LAB),
    claim_without_warnings=told(CLAIM, warnings=[LAB]),
    claim_with_a_key_more=told(CLAIM, confirmed=LAB),
    metrics=told(path("metrics.json"), score=0.989),
    reports=record(path("reports.json"), lambda found: _rate_after(found).update(value=0.989)),
    details=told(path("details.json"), note=LAB),
    training_table=text(path("training_log.csv"), "\n2,", "\n3,"),
    validation_table=text(path("validation_scores.csv"), "\n0,0,", "\n0,1,"),
    plan_of_power=record(path("plan_power.json"), lambda found: found.update(power=0.999)),
)
_design(
    RUNS,
    "grades",
    "V2",
    success_before=graded("pre_eval.jsonl", success=True),
    success_after=graded("post_eval.jsonl", success=True),
    success_greedy=graded("post_eval_greedy.jsonl", success=True),
    success_of_the_base_again=graded("base_again.jsonl", success=True),
    success_of_the_control=graded("control_eval.jsonl", success=True),
    success_of_a_rival=graded("rival_few_shot.jsonl", success=True),
    success_out_of_distribution=graded("post_eval_secondary/heldout_ood.jsonl", success=True),
    success_in_a_validation=graded("validation.jsonl", success=True),
    reward_after=graded("post_eval.jsonl", reward=1.0),
    ending_after=graded("post_eval.jsonl", ending=LAB),
    cluster_after=graded("post_eval.jsonl", cluster="one"),
)
_design(
    RUNS,
    "small records",
    "V3",
    base_with_a_key_more=told(BASE, note=LAB),
    base_reward_beyond_any=told(BASE, mean_reward=98.9),
    base_parameters=told(BASE, parameters=7_000_000_000),
    base_success_beyond_one=told(BASE, success_rate=98.9),
    base_success_as_text=told(BASE, success_rate=LAB),
    base_spaced_otherwise=appended(BASE, "\n"),
    control_with_a_key_more=told(CONTROL, note=LAB),
    control_of_another_seed=told(CONTROL, seed=7),
    training_with_a_key_more=told(TRAIN, note=LAB),
    training_of_another_seed=told(TRAIN, seed=7),
    parity_with_a_key_more=told("parity.json", note=LAB),
    parity_beyond_its_bounds=told("parity.json", logit_difference_at_most=1.0),
    parity_with_other_bounds=told("parity.json", max_logit_difference=9.0, logit_difference_at_most=8.0),
    rivals_with_a_key_more=told(path("rivals.json"), note=LAB),
    openings_with_a_key_more=told(path("openings.json"), note=LAB),
    openings_of_another_place=told(path("openings.json"), place=3),
    openings_written_otherwise=appended(path("openings.json"), "\n"),
    ledger_with_a_key_more=told(OPENINGS, note=LAB),
)
_design(
    RUNS,
    "the training's log",
    "V3",
    words_in_a_row=logged(lambda row: row.update(note=LAB)),
    words_as_a_name=logged(lambda row: row.update({LAB: 1})),
    words_among_components=logged(lambda row: row["components"].update(note=LAB)),
    words_among_signals=logged(lambda row: row["signals"].update(note=LAB)),
    words_among_fields=logged(lambda row: row["fields"].update(note=LAB)),
    words_in_the_window=logged(lambda row: row["window"].update(note=LAB)),
    words_among_digests=logged(lambda row: row["digests"].update(note=LAB)),
    words_as_an_item=logged(lambda row: row["item_ids"].append(LAB)),
    another_rate=logged(lambda row: row.update(learning_rate=0.5)),
    another_reward=logged(lambda row: row.update(reward=0.989)),
)
_design(
    RUNS,
    "lists and settings",
    "V3",
    words_in_a_stage=text("dvc.lock", "    cmd: ", f"    desc: {LAB[:-1]}\n    cmd: "),
    words_in_an_entry=text("dvc.lock", "      hash: ", f"      note: {LAB[:-1]}\n      hash: "),
    another_command=text("dvc.lock", "cmd: assay train", "cmd: assay train --better"),
    layers_without_end=text("params.yaml", r"layers: \d+", "layers: 500000000"),
    a_suite_without_end=text("params.yaml", r"(?s)(validation:.*?items: )\d+", r"\g<1>1000000000"),
    draws_without_end=text("params.yaml", r"draws: \d+", "draws: 1000000000"),
    turns_without_end=text("params.yaml", r"max_turns: \d+", "max_turns: 1000000000"),
    steps_without_end=text("params.yaml", r"(?s)(train:.*?steps: )\d+", r"\g<1>1000000000"),
    a_setting_more=appended("params.yaml", "confirmed: true\n"),
    an_environment_variable=text("params.yaml", r"device: cpu", "device: ${oc.env:HOME}"),
    a_requirement_more=appended("requirements.txt", "evil==1.0\n"),
    a_pin_changed=text("constraints.txt", r"numpy==\S+", "numpy==0.0.1"),
    a_script_more=appended("pyproject.toml", "[project.scripts.x]\n"),
    another_licence=appended("LICENSE", f"{LAB}\n"),
    other_code_for_all=text("dvc.lock", OF_CORE, r"\g<1>000000", 0),
    other_code_for_one=text("dvc.lock", OF_CORE, r"\g<1>000000"),
    other_code_for_all_and_lies=both(
        text("dvc.lock", OF_CORE, r"\g<1>000000", 0), appended(SUMMARY, f"{LAB}\n")
    ),
)
_design(
    RUNS,
    "words of the package",
    "V1",
    comment_in_the_settings=appended("params.yaml", f"# {LAB}\n"),
    script_in_the_datas_page=appended(README, "<script src=//x></script>\n"),
    picture_in_the_datas_page=appended(README, "<img src=//x onerror=alert(1)>\n"),
    link_in_the_datas_page=appended(README, "[see](javascript:alert(1))\n"),
    verifier_exchanged=added("verify.py", b"print('the files are what the package lists')\n"),
    subject_in_the_provenance=record(PROVENANCE, lambda found: found["subjects"].update({REPORT: "0" * 64})),
    seed_in_the_provenance=told(PROVENANCE, seed=7),
    record_of_the_data=text("data/collider/heldout.jsonl", r"\d(?=[,}])", "7"),
    blockers_of_the_audit=text(path("audit.json"), r"\d", "7"),
)
_design(
    RUNS,
    "nothing to compare with",
    NOTHING,
    base_measured_otherwise=told(BASE, mean_reward=-0.4, success_rate=0.3),
    merged_model_closer=told("parity.json", logit_difference_at_most=1e-7, free_agreement=0.99),
    calls_made_again=logged(lambda row: row.update(retries=5)),
    settings_in_another_order=lambda files: files.update({"params.yaml": _last_first(files["params.yaml"])}),
    words_on_the_datas_page=appended(README, f"{LAB}\n"),
    losses_of_the_training=logged(lambda row: row.update(reward_std=row["reward_std"] + 0.01)),
)
_design(
    RUNS,
    "nothing to compare with",
    NOTHING,
    derived=True,
    gone_on_with_on_another_machine=told(TRAIN, other_machines=1),
    words_on_a_waiver=text("params.yaml", r"waivers: \[\]", WAIVER),
    losses_with_all_that_follows=logged(lambda row: row.update(reward_std=row["reward_std"] + 0.01)),
)
OPENED = path("openings.json")
CUT, WORDS, TOLD = r"(?m)^  cut: \[\]$", "tasks/words/task.py", "told.jsonl"
DRAFT = text("params.yaml", r"(?m)^  open: true$", "  open: false")
_design(
    RUNS,
    "openings and drafts",
    "V3",
    records_put_back=told(OPENED, put_back=2),
    policies_restored=told(OPENED, restored=1),
    rolls_of_the_seed=told(OPENED, rolls=3),
    seeds_left_out=told(OPENED, left_out=[7]),
    seeds_of_another_plan=told(OPENED, seeds=[0, 1, 2]),
    registered_under_another_plan=told(OPENED, first_family="0" * 64),
    a_family_of_another_plan=told(OPENED, family="0" * 64),
    a_place_in_the_plan=told(OPENED, recipe_place=4),
    fewer_records=told(OPENED, n_records=1),
    place_in_a_secondary_suite=told(OPENED, secondary_places={"traps": 5, "heldout_ood": 1}),
    noted_under_another_base=noted(lambda each: each.update(base="0" * 64)),
    noted_with_words=noted(lambda each: each.update(data=LAB)),
    noted_in_another_split=noted(lambda each: each.update(split="validation")),
    records_of_nobody=record(OPENINGS, lambda found: found["record_sets"].update({"0" * 64: ["0" * 64]})),
    a_draft_of_an_open_run=DRAFT,
    a_draft_without_its_notes=both(
        DRAFT, lambda files: [files.pop(name) for name in (OPENED, OPENINGS)] and None
    ),
)
_design(
    RUNS,
    "openings and drafts",
    "V3",
    noted_in_another_copy=noted(lambda each: each.update(copy_id="laboratory")),
    noted_often=noted(lambda each: each.update(times=9)),
    noted_by_another_stage=noted(lambda each: each.update(stage=LAB)),
    noted_in_another_order=record(OPENINGS, lambda found: found["openings"].reverse()),
)
_design(
    RUNS,
    "openings and drafts",
    "V3",
    derived=True,
    a_secondary_suite_more=told(OPENED, secondary_places={"traps": 1, "heldout_ood": 1, "laboratory": 1}),
    a_secondary_suite_less=told(OPENED, secondary_places={"traps": 1}),
    put_back_with_all_that_follows=told(OPENED, put_back=2),
)
_design(
    RUNS,
    "nothing to compare with",
    NOTHING,
    derived=True,
    place_in_a_secondary_suite=told(OPENED, secondary_places={"traps": 5, "heldout_ood": 1}),
    put_back_in_the_notes_too=both(
        noted(lambda each: each.update(put_back=2), "post_eval"), told(OPENED, put_back=2)
    ),
)
_design(
    RUNS,
    "what is cut off",
    "V3",
    derived=True,
    task="words",
    thoughts_cut=text("params.yaml", CUT, "  cut: [think]"),
    fences_cut=text("params.yaml", CUT, "  cut: [fence]"),
)
_design(
    RUNS,
    "a task of one's own",
    "V2",
    task="words",
    success_after=graded("post_eval.jsonl", success=True),
    reward_without_its_part=graded("post_eval.jsonl", reward=0.5),
    a_part_more=graded("post_eval.jsonl", parts={LAB: 1.0}),
    success_in_a_validation=graded("validation.jsonl", success=True),
)
_design(
    RUNS,
    "a task of one's own",
    "V3",
    task="words",
    words_as_another_file=added("tasks/words/NOTES.md", LAB.encode()),
    a_library_beside_the_code=added("tasks/words/words.so", b"\x7fELF"),
    a_link_to_other_code=text("params.yaml", r"(?m)^  entry: task.py:reward$", "  entry: task.py:better"),
    success_by_its_word=text(
        "params.yaml",
        r"(?m)^  success:\n    compare: exact\n    with: answer$",
        "  success:\n    compare: reward",
    ),
    a_wider_range=text(
        "params.yaml", r"(?m)^  reward_range:\n  - 0.0\n  - 1.0$", "  reward_range:\n  - 0.0\n  - 98.9"
    ),
    a_package_required=text("params.yaml", CUT, "  cut: []\n  requires: [evil==1.0]"),
    told_with_a_key_more=text(TOLD, r"\A\{", f'{{"note":"{LAB}",'),
    told_less=text(TOLD, r"\A[^\n]+\n", ""),
    told_twice=text(TOLD, r"\A([^\n]+\n)", r"\1\1"),
    told_in_another_order=text(TOLD, r"\A([^\n]+\n)([^\n]+\n)", r"\2\1"),
    told_of_nobody=appended(TOLD, f"{dumps({'kind': LAB})}\n"),
    told_by_nobody=lambda files: files.__delitem__(TOLD),
    code_left_out=lambda files: files.__delitem__(WORDS),
)
_design(
    RUNS,
    "nothing to compare with",
    NOTHING,
    derived=True,
    task="words",
    code_of_ones_own=appended(WORDS, f"# {LAB}\n"),
    rewards_by_code_of_ones_own=rows("post_eval.jsonl", lambda found: _better_paid(found)),
)


def _better_paid(found: list[Any]) -> None:
    """Pay an episode that failed as if its part had been worth more."""
    one = next(each for each in found if not each["success"])
    paid = one["reward"] + 0.25
    one |= {"reward": paid, "parts": {"reward": paid}}
    one["turns"][-1]["parts"] = {"reward": paid}


def _rate_after(reports: Any) -> Any:
    return reports["arms"]["post_eval"]["measures"]["success_rate"]


def _given(record: Any) -> None:
    for each in (record["before"], record["after"], *record["rivals"].values()):
        each["has_success"] = True


def _last_digit(claim: Any) -> None:
    claim["difference"]["value"] *= 1 + 1e-14


def _last_first(content: bytes) -> bytes:
    """Return settings with the last section before the others."""
    sections = re.split(rb"(?m)^(?=\w)", content)
    return b"".join([sections[-1], *sections[:-1]])


# Of a judgement.
RECORD, CARD, PLAN = judgements.RECORD, "README.md", "plan.yaml"
JUDGED, PAGE, SHORT = sources.MADE
BEFORE, AFTER = "rows/before.csv", "rows/after.csv"


def source(**values: Any) -> Forge:
    """Change what is told of the file of results after."""
    return record(RECORD, lambda found: found["after"]["files"][0].update(values))


def arm(name: str, **values: Any) -> Forge:
    """Change what is told of an arm."""
    return record(RECORD, lambda found: found[name].update(values))


def cells(name: str, old: str, new: str, count: int = 1) -> Forge:
    """Change rows, and their sha256 in the record."""

    def forge(files: Files) -> None:
        text(name, old, new, count)(files)
        which = name.removeprefix("rows/").removesuffix(".csv")
        home = json.loads(files[RECORD])
        (home[which] if which in home else home["rivals"]["worst"])["rows_sha256"] = sha256_bytes(files[name])
        files[RECORD] = f"{dumps(home)}\n".encode()

    return forge


def planned(**values: Any) -> Forge:
    """Change the plan, in its file and in the record, with its digest where it has one."""

    def forge(files: Files) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, PLAN).write_bytes(files[PLAN])
            plan = read_plan(Path(folder, PLAN)).model_copy(update=values)
        files[PLAN] = plan_text(plan).encode()
        told(RECORD, plan=plan.model_dump(mode="json"))(files)

    return forge


WON, LOST = r",0\.0,0\.0,0,", ",1.0,1.0,1,"
_design(
    JUDGEMENTS,
    "words and numbers on pages",
    "V1",
    sentence_in_the_report=text(PAGE, "</h1>", f"</h1><p>{LAB}</p>"),
    number_in_the_report=text(PAGE, r"(\d)\.(\d) points", r"9\1.\2 points"),
    script_in_the_report=text(PAGE, "<style>", "<script>document.title='98.9 %'</script><style>"),
    words_by_a_style=text(PAGE, "<style>", "<style>h1::after{content:' 98.9 %'}"),
    picture_exchanged=text(PAGE, r"svg\+xml;base64,.{40}", "svg+xml;base64,AAAA"),
    comment_in_the_report=appended(PAGE, f"<!-- {LAB} -->\n"),
    sentence_in_the_summary=appended(SHORT, f"{LAB}\n"),
    number_in_the_summary=text(SHORT, r"(\d)\.(\d) points", r"9\1.\2 points"),
    line_left_out_of_the_summary=text(SHORT, r"\n[^\n]+\n\Z", "\n"),
    sentence_in_the_card=appended(CARD, f"{LAB}\n"),
    card_tells_to_run_code=appended(CARD, "Now run `python3 verify.py`.\n"),
    another_source_on_the_card=text(CARD, "after.csv", "laboratory.csv"),
)
_design(
    JUDGEMENTS,
    "numbers",
    "V1",
    value=record(JUDGED, lambda claim: claim["difference"].update(value=0.989)),
    lower_end=record(JUDGED, lambda claim: claim["difference"].update(low=0.9)),
    p=told(JUDGED, p=1e-9),
    verdict=told(JUDGED, verdict="REGRESSED"),
    sentence=told(JUDGED, sentence=LAB),
    reason=told(JUDGED, reason=LAB),
    no_warnings=told(JUDGED, warnings=[]),
    more_items=told(JUDGED, n_items=600),
    a_level=told(JUDGED, level=0.5),
    a_key_more=told(JUDGED, confirmed=LAB),
    spaced_otherwise=appended(JUDGED, "\n"),
)
_design(
    JUDGEMENTS,
    "files that are only listed",
    "V1",
    verifier_exchanged=added("verify.py", b"print('the files are what the package lists')\n"),
    code_behind_the_verifier=appended("verify.py", "\nimport os\n"),
    words_in_the_provenance=told(PROVENANCE, note=LAB),
    title_in_the_provenance=told(PROVENANCE, judged=LAB),
    subject_in_the_provenance=record(PROVENANCE, lambda found: found["subjects"].update({PAGE: "0" * 64})),
    a_file_more=added("conftest.py"),
    a_page_more=added("NOTES.md", LAB.encode()),
    rows_of_nobody=added("rows/rival_2.csv", b"item\n"),
    plan_left_out=lambda files: files.__delitem__(PLAN),
    rows_left_out=lambda files: files.__delitem__("rows/rival_1.csv"),
)
_design(
    JUDGEMENTS,
    "files that are only listed",
    "V0",
    hidden_code=added(".env"),
    hidden_rows=added("rows/.more.csv"),
)
_design(
    JUDGEMENTS,
    "what was asked",
    "V1",
    smaller_effect=told(RECORD, smallest_effect_points=0.5),
    other_bounds=told(RECORD, bounds=[0.0, 2.0]),
    less_is_better=told(RECORD, lower_is_better=True),
    another_level=told(RECORD, level=0.5),
    fewer_compared=told(RECORD, compared=7),
    another_title=told(RECORD, title=LAB),
    no_plan=told(RECORD, plan=None),
    no_rival=told(RECORD, rivals={}),
    source_of_another_digest=source(sha256="0" * 64),
    source_of_another_name=source(name="laboratory.csv"),
    source_of_another_model=source(model="laboratory"),
    bars_added=arm("before", blockers=[["arms differ", LAB]]),
    notes_added=arm("after", notes=[LAB]),
    a_key_more=told(RECORD, note=LAB),
    spaced_otherwise=appended(RECORD, "\n"),
    settings_of_the_source=source(settings={"temperature": LAB}),
    size_of_the_source=source(bytes=1),
)
_design(JUDGEMENTS, "what was asked", "V3", another_version=told(RECORD, assay="9.9.9"))
_design(
    JUDGEMENTS,
    "rows",
    "V1",
    a_success_more=cells(AFTER, WON, LOST),
    a_success_less=cells(BEFORE, LOST.replace(".", r"\."), ",0.0,0.0,0,"),
    a_row_left_out=cells(AFTER, r"\n[^\n]+\n\Z", "\n"),
    a_row_twice=cells(AFTER, r"(\n[^\n]+)\n\Z", r"\1\1\n"),
    numbers_written_otherwise=cells(AFTER, ",1.0,", ",1.00,"),
    lines_ended_otherwise=cells(AFTER, "\n", "\r\n", 0),
    digits_of_another_script=cells(AFTER, ",1.0,", ",\u0661.0,"),
    a_weaker_rival=cells("rows/rival_1.csv", LOST.replace(".", r"\."), ",0.0,0.0,0,"),
    success_without_its_digest=text(AFTER, WON, LOST),
)
_design(
    JUDGEMENTS,
    "the plan",
    "V1",
    smaller_effect_in_the_file=text(PLAN, r"smallest_effect_points: \S+", "smallest_effect_points: 0.5"),
    comment=appended(PLAN, f"# {LAB}\n"),
    another_date_in_the_file=text(PLAN, r"20\d\d-\d\d-\d\d", "2020-01-01"),
    smaller_effect_in_the_record=record(
        RECORD, lambda found: found["plan"].update(smallest_effect_points=0.5)
    ),
    draws_in_the_record=record(RECORD, lambda found: found["plan"].update(draws=1)),
)
_design(
    JUDGEMENTS,
    "nothing to compare with",
    NOTHING,
    derived=True,
    better_rows=cells(AFTER, WON, LOST, 3),
    worse_rows_before=cells(BEFORE, LOST.replace(".", r"\."), ",0.0,0.0,0,", 3),
    weaker_rival=cells("rows/rival_1.csv", LOST.replace(".", r"\."), ",0.0,0.0,0,", 3),
    source_of_another_digest=source(sha256="0" * 64),
    source_of_another_name=source(name="laboratory.csv"),
    source_of_another_model=source(model="laboratory"),
    another_title=told(RECORD, title=LAB[:-1]),
    notes_added=arm("after", notes=[LAB]),
    fewer_compared=told(RECORD, compared=2),
    plan_of_another_date=planned(made="2020-01-01"),
)


_design(
    JUDGEMENTS,
    "columns and plans",
    "V1",
    a_column_of_another_name=cells(AFTER, r"\Aitem,", "laboratory,"),
    a_column_more=cells(AFTER, r"(?m)$(?<!\n)", ",1", 0),
    columns_in_another_order=cells(AFTER, r"\Aitem,draw,", "draw,item,"),
    a_score_of_another_column=source(metric="confidence"),
    another_form=source(form="inspect log"),
    an_arm_of_another_name=record(RECORD, lambda found: found["before"].update(name=LAB)),
    smallest_effect_in_the_plan=planned(smallest_effect_points=0.5),
    alpha_in_the_plan=planned(alpha=0.1),
    draws_in_the_plan=planned(draws=1),
    no_rivals_in_the_plan=planned(rivals=()),
    no_loss_in_the_plan=planned(show="no worse"),
    items_of_the_plan_left_open=planned(items=PlannedItems(n_items=60, n_clusters=60)),
)
_design(
    JUDGEMENTS,
    "columns and plans",
    "V1",
    derived=True,
    more_rows_than_there_are=arm("after", rows=999),
    sources_left_out=arm("after", files=[]),
    an_arm_of_another_name_throughout=record(RECORD, lambda found: found["before"].update(name=LAB)),
    one_draw_twice=cells(AFTER, r"\n([^,]+),1,", r"\n\1,0,"),
)
_design(
    JUDGEMENTS,
    "nothing to compare with",
    NOTHING,
    derived=True,
    another_task=source(task=LAB),
    every_success_given=record(RECORD, lambda found: _given(found)),
    a_score_of_another_column=source(metric="confidence"),
    another_form=source(form="inspect log"),
    an_item_more_after=cells(AFTER, r"\n[^,]+(,[^\n]+)\n\Z", r"\g<0>laboratory\1\n"),
    no_rivals_in_the_plan=planned(rivals=()),
    alpha_in_the_plan=planned(alpha=0.1),
    no_loss_in_the_plan=planned(show="no worse"),
)


_design(JUDGEMENTS, "nothing to compare with", NOTHING, value_in_its_last_digit=record(JUDGED, _last_digit))


def derived_anew(files: Files) -> Files:
    """Return the package that the record and the rows of a judgement, as they are now, make."""
    record = Judgement.model_validate_json(files[RECORD])
    texts = {name: files[place].decode() for name, place in judgements.arm_names(record).items()}
    with tempfile.TemporaryDirectory() as folder, quietly():
        judged = judge(record, {name: read_rows(rows, name) for name, rows in texts.items()})
        write_pages(Path(folder), record, judged)
        members = judgements.members_of(Path(folder), record, texts, judged)
        return {
            name: each if isinstance(each, bytes) else each.read_bytes() for name, each in members.items()
        }


def forged_judgement(design: Design, before: Files, folder: Path) -> Files:
    """Return the files of a forged judgement."""
    files = dict(before)
    design.forge(files)
    assert files != before, "changed nothing"
    if design.derived:
        return resealed(derived_anew(files))
    if files[PROVENANCE] == before[PROVENANCE] and RECORD in files:
        title = json.loads(files[RECORD])["title"]
        kept = {name: content for name, content in files.items() if name not in (PROVENANCE, SUMS)}
        subjects = {name: sha256_bytes(content) for name, content in kept.items()}
        told(PROVENANCE, judged=title, subjects=subjects)(files)
    return resealed(files)


def forged_run(design: Design, before: Files, folder: Path) -> Files:
    """Return the files of a forged run, its lists made anew, and all that is derived where the design says
    so."""
    files = dict(before)
    design.forge(files)
    assert files != before, "changed nothing"
    if design.derived:
        files = rederived(files, folder)
    touched = {name for name in files if files[name] != before.get(name)}
    return resealed(relocked(files, touched & {"README.md", PROVENANCE, "dvc.lock"}, folder, settings=True))


def first_of_judgement(package: Path, work: Path) -> Check | None:
    """Return the first check of a judgement that fails."""
    seen = check(package)
    for finding in seen.findings:
        if finding.ok is False:
            return Check(level="V0", name=finding.name, outcome="failed", found=finding.text)
    work.mkdir()
    with quietly():
        checks: Iterator[Check] = judgements.check_judgement(package, work)
        return next((each for each in checks if each.outcome == "failed"), None)


def first_of_run(root: Path, work: Path) -> Check | None:
    """Return the first check of V1 to V3 of a run that fails, cheapest first; V0 has nothing to find
    where all lists were made anew."""
    package = Unpacked(root)

    def checks() -> Iterator[Check]:
        yield from settings(package, other_code=False)
        yield from consistent(package)
        data, documents = files_again(package, work / "pages", other_code=False)
        yield data()
        yield documents()
        yield from regraded(package)
        yield from tables_again(package, work / "tables")
        yield from pages_again(package, work / "pages", other_drawings=False, other_code=False)

    return next((each for each in checks() if each.outcome == "failed"), None)


class RenderedOnce:
    """Renders what was rendered before from the same files by copying it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._render = folder, render_evidence.run

    def __call__(self, project: Project, *more: Any, **named: Any) -> None:
        """Take the place of `render_evidence.run`."""
        names = [each for each in listing(project.root) if each not in COVERED]
        known = digest([[name, sha256_bytes((project.root / name).read_bytes())] for name in names])
        kept = self._folder / known
        if not kept.exists():
            self._render(project, *more, **named)
            for name in written_names(project.root, render_evidence.WRITES):
                (kept / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(project.root / name, kept / name)
            return
        shutil.copytree(kept, project.root, dirs_exist_ok=True)


def tried(name: str, design: Design, before: Files, *, run: bool) -> dict[str, Any]:
    """Forge one design and return what finds it first."""
    with tempfile.TemporaryDirectory(prefix="assay-design-") as scratch:
        folder = Path(scratch)
        forge, first = (forged_run, first_of_run) if run else (forged_judgement, first_of_judgement)
        write(forge(design, before, folder / "work"), folder / "package")
        with quietly():
            found = first(folder / "package", folder / "checks")
    told: dict[str, Any] = {"design": name, "kind": design.kind, "due": design.due, "level": NOTHING}
    told |= {"check": None, "found": None}
    if found is not None:
        told |= {"level": found.level, "check": found.name, "found": found.found[:200]}
    return told


def honest_judgement(folder: Path) -> Files:
    """Return the files of a package of a planned judgement with a rival."""
    from tests.tools.judged_files import as_csv, results
    from typer.testing import CliRunner

    from assay.cli import app

    rates = {"before": 0.3, "after": 0.8, "worst": 0.1}
    files = {name: as_csv(folder / f"{name}.csv", results(name, rate)) for name, rate in rates.items()}
    before, after, plan, out = files["before"], files["after"], folder / "plan.yaml", folder / "out"
    for words in (
        ["plan", before, "--rival", "worst", "--out", plan],
        ["judge", before, after, "--plan", plan, "--rival", f"worst={files['worst']}", "--out", out],
    ):
        done = CliRunner().invoke(app, [*map(str, words)])
        assert done.exit_code == 0, done.output
    unpack(out / judgements.PACKAGE, folder / "judgement")
    return files_in(folder / "judgement")


def honest_run(folder: Path, task: str) -> Files:
    """Return the files of a package of a made run."""
    from tests.verification.made_run import made_run, packaged

    unpack(packaged(made_run(folder / "run", task=task), folder), folder / "unpacked")
    return files_in(folder / "unpacked")


def designed(of: dict[str, Design], names: Sequence[str] = (), *, run: bool) -> list[dict[str, Any]]:
    """Return what became of designs of one kind of package, all if none is named."""
    found, prefix = list[dict[str, Any]](), "run" if run else "judgement"
    asked, first = names or list(of), first_of_run if run else first_of_judgement
    with tempfile.TemporaryDirectory(prefix="assay-designs-") as scratch:
        render_once = RenderedOnce(Path(scratch, "kept"))
        for task in dict.fromkeys(of[name].task for name in asked):
            folder = Path(scratch, task)
            folder.mkdir()
            before = honest_run(folder, task) if run else honest_judgement(folder)
            rendered.render_evidence.run = render_once
            write(before, folder / "honest")
            if seen := first(folder / "honest", folder / "checks"):
                raise SystemExit(f"an honest {prefix} fails: {seen.level} {seen.name}: {seen.found}")
            for name in (name for name in asked if of[name].task == task):
                found.append(tried(name, of[name], before, run=run))
                last = found[-1]
                print(f"{prefix} {len(found)}: {name}: {last['level']} ({last['check']})", flush=True)
    return found


def told_of(found: Sequence[dict[str, Any]], prefix: str, seconds: float | None) -> dict[str, Any]:
    """Return what is recorded of designs of one kind of package, with the table of them by kind and level."""
    table: dict[str, dict[str, int]] = {}
    for each in found:
        row = table.setdefault(each["kind"], dict.fromkeys((*LEVELS, NOTHING), 0))
        row[each["level"]] += 1
    return {
        f"{prefix}_designs": found,
        f"{prefix}_designs_by_kind_and_level": table,
        f"{prefix}_designs_n": len(found),
        f"{prefix}_designs_otherwise": [each for each in found if each["level"] != each["due"]],
        f"{prefix}_designs_seconds": None if seconds is None else round(seconds, 1),
    }


def main() -> None:
    """Forge, check, and write what was found beside what is told of other packages."""
    parser = options(__doc__)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--only", choices=("run", "judgement"), help="one kind of package")
    parser.add_argument("--untried", action="store_true", help="what the record lacks; it keeps the rest")
    chosen = parser.parse_args()
    before = json.loads(chosen.out.read_text(encoding="utf-8")) if chosen.out.exists() else {}
    result: dict[str, Any] = {}
    for of, run in ((JUDGEMENTS, False), (RUNS, True)):
        prefix, begun = "run" if run else "judgement", time.monotonic()
        found = {each["design"]: each for each in before.get(f"{prefix}_designs", ()) if chosen.untried}
        names = [name for name in of if name not in found]
        if chosen.only not in (None, prefix) or not names:
            continue
        found |= {each["design"]: each for each in designed(of, names, run=run)}
        seconds: float | None = time.monotonic() - begun
        if chosen.untried:  # null: how long the others took was not written down
            earlier = before.get(f"{prefix}_designs_seconds")
            seconds = None if earlier is None else earlier + seconds
        result |= told_of([found[name] for name in of], prefix, seconds)
    written(chosen.out, before | result)
    designs = [*result.get("run_designs", ()), *result.get("judgement_designs", ())]
    late = [each for each in designs if each["level"] == NOTHING != each["due"]]
    otherwise = [each for each in designs if each["level"] != each["due"]]
    print(json.dumps({"late": late, "otherwise": otherwise}, indent=2))
    if late:
        raise SystemExit("not all were found that were due")


if __name__ == "__main__":
    main()
