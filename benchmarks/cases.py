"""How many inputs as people report them in public are read, or refused with what leads on.

Each input stands for a class of reports: results of evaluations (`judge`), logs of trainings (`health`),
answers to be graded (`grade`), data (`audit`), and rewards (`check`). What is right follows from the reports:
an exit code, and words that the command has to say or must not; rates were counted from the inputs. The
inputs are no part of the repo; a folder with them is named. tests/tools/test_judge_forms.py, test_grade.py
and test_foreign_logs.py have small ones of the same classes.

Usage: ./run python benchmarks/cases.py FOLDER [--only WORD] (some minutes on one core).
Writes results/cases.json: by input what was expected and what came; `cases` and `right` count them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, ROOT, options, written

TAIL = 400  # characters of an output that the record keeps


@dataclass(frozen=True, slots=True)
class Case:
    """One command on one input; `says` and `never` are patterns of its output, `code` its exit code."""

    name: str
    words: str
    code: int
    says: str
    never: str = r"Traceback"


def _judge(name: str, words: str, code: int, says: str, never: str = r"Traceback") -> Case:
    return Case(name, f"judge {words} --out OUT", code, says, never)


def _health(name: str, code: int, says: str, never: str = r"Traceback", words: str = "") -> Case:
    return Case(name, f"runs health IN/{name} {words}".strip(), code, says, never)


def _audit(name: str, says: str) -> Case:
    # Read as it is, or the first message names what converts it.
    return Case(name, f"task audit IN/{name} --task structured", 1, says, r"Traceback|not UTF-8")


def _pair(name: str, ending: str, *, before: str = "base", after: str = "tuned") -> str:
    return f"IN/{name}.{before}{ending} IN/{name}.{after}{ending}"


_RISE = r"Success rose 35\.0 → 67\.5 %"
_CONVERTS = r"task import"
CASES: tuple[Case, ...] = (
    _judge(
        "11 error for good",
        _pair("11", ".json"),
        5,
        r"reason: 2 of 24 results after have no score: item '5' \(Rate",
    ),
    _judge("12 several values", _pair("12", ".json"), 1, r"helpful, safe(.|\n)*--metric rubric\.helpful"),
    _judge(
        "12 null",
        f"{_pair('12', '.json')} --metric rubric.helpful",
        5,
        r"reason: 1 of 24 .* no score: item '7'",
    ),
    _judge(
        "14b filter",
        f"{_pair('15', '.jsonl')} --metric exact_match,get-answer",
        1,
        r"found none\.(.|\n)*match,none",
    ),
    _judge("15 repeats", _pair("15", ".jsonl"), 0, r"one score for 4 answers"),
    _judge("17 evalplus", _pair("17", ".jsonl"), 0, r"Success rose 25\.0 → 60\.0 %.*K = 2"),
    _judge(
        "17 summary",
        _pair("17", "_eval_results.json"),
        1,
        r"base_status, plus_status(.|\n)*--columns success=",
    ),
    _judge(
        "17 plus",
        f"{_pair('17', '_eval_results.json')} --metric plus_status",
        0,
        r"Success rose 23\.3 → 43\.3 %",
    ),
    _judge("18 bounds", _pair("18", "_traces.jsonl"), 1, r"Fix: --bounds"),
    _judge(
        "18 lost",
        "IN/18.base_traces.jsonl IN/18.tuned_one_lost_traces.jsonl --bounds 0,1.2",
        5,
        r"no score: item 'mend/03' \(TimeoutError",
    ),
    _judge(
        "20 own script",
        _pair("20", ".jsonl"),
        1,
        r"canonical_correct(.|\n)*--columns success=canonical_correct",
    ),
    _judge(
        "20 named",
        f"{_pair('20', '.jsonl')} --columns success=canonical_correct",
        0,
        r"Success rose 32\.5 → 55\.8 %",
    ),
    _judge(
        "21 not scored", "IN/21.batch_output.jsonl IN/21.batch_output.jsonl", 1, r"assay episodes grade TASKS"
    ),
    _judge("31 torn", "IN/31.judge_before.jsonl IN/31.torn_after.jsonl", 1, r"the file is torn"),
    _judge("31 half a character", "IN/31.judge_before.jsonl IN/31.judge_after.jsonl", 0, r"Success rose"),
    *(
        _judge(f"32 {name}", f"IN/32.{name}_before.csv IN/32.{name}_after.csv", 0, _RISE)
        for name in ("PF", "ci", "co", "pf", "tf", "yn")
    ),
    _judge("32 passfail", "IN/32.passfail_before.csv IN/32.passfail_after.csv", 0, r"rose 50\.0 → 100\.0 %"),
    _judge("36 two scores", "IN/36.em_f1_before.csv IN/36.em_f1_after.csv", 1, r"em, f1(.|\n)*score=em"),
    _judge("36 em", "IN/36.em_f1_before.csv IN/36.em_f1_after.csv --metric em", 0, _RISE),
    _judge(
        "36 f1", "IN/36.em_f1_before.csv IN/36.em_f1_after.csv --metric f1", 0, r"Score rose 37\.5 → 57\.5 %"
    ),
    _judge("38 means", "IN/38.results_base.json IN/38.results_tuned.json", 1, r"samples_\*\.jsonl"),
    _judge(
        "39 lighteval", "IN/39.details_base.parquet IN/39.details_tuned.parquet", 0, r"rose 30\.0 → 62\.5 %"
    ),
    _judge(
        "51 suite", "IN/51.base IN/51.tuned", 1, r"file alone: assay judge \S+arc\S+ \S+arc\S+ --metric acc"
    ),
    _judge(
        "51 one metric",
        "IN/51.base IN/51.tuned --metric acc",
        1,
        r"judge each file alone",
        r"--metric exact_match",
    ),
    _health("22.train.log", 4, r"reward_vs_success"),
    _health("22b.as_state", 4, r"reward_vs_success"),
    _health("22c.as_jsonl_without_step.jsonl", 1, r"step(.|\n)*--columns step="),
    _health("24.wandb_export.csv", 4, r"reward_vs_success"),
    _health("24b.wandb_no_run_name.csv", 4, r"reward_vs_success"),
    _health("24c.wandb_Step.csv", 4, r"reward_vs_success"),
    _health("24d.tensorboard_reward.csv", 5, r"NOT MEASURED", r"GREEN"),
    _health("25.dead_part", 3, r"think_format_reward", r"GREEN"),
    _health("26.nan_step", 3, r"non_finite .*31"),
    _health("26b.nan_reward", 4, r"non_finite .*31"),
    _health("26c.one_nan_grad", 3, r"non_finite .*31"),
    _health("26f.eight_nan_grad", 4, r"non_finite .*29"),
    _health("26g.nan_to_end", 4, r"non_finite .*31"),
    _health("26h.six_nan_two_blocks", 4, r"non_finite .*31"),
    _health("26i.nan_last_step", 4, r"non_finite .*60"),
    _health("27.verl", 0, r"GREEN"),
    _health("27b.verl_uid", 0, r"GREEN", r"not measured: zero_variance"),
    _health("27c.verl_no_uid", 0, r"GREEN", r"not measured: zero_variance"),
    _health("28.logging.jsonl", 4, r"reward_vs_success"),
    _health("28b.with_step.jsonl", 4, r"reward_vs_success"),
    _health("30.trl", 0, r"sum of accuracy_reward, brier_reward"),
    _health("30b.trl_extra_number", 0, r"not read: n_steps", r"RED"),
    _health("31.verl_surrogate", 5, r"66 completions"),
    _health("45.prime_rl_run", 0, r"GREEN.*completions"),
    _health("46.resumed.jsonl", 0, r"GREEN"),
    _health("56.clipped", 4, r"truncated"),
    _health("57a.reward_is_accuracy_50_62", 0, r"GREEN"),
    _health("57b.reward_is_accuracy_50_62_noise", 0, r"GREEN"),
    _health("57d.reward_is_accuracy_20_70_noise", 0, r"GREEN"),
    Case(
        "21 batch",
        "episodes grade IN/21.tasks.jsonl IN/21.batch_output.jsonl --task words --out OUT",
        1,
        r"an answer to each request, found none to 'heldout-0005'",
    ),
    Case(
        "34 bare",
        "episodes grade data/structured/cases.jsonl IN/34.answers.jsonl --task structured --out OUT",
        0,
        r"120 episodes right but wrapped",
    ),
    Case(
        "34 cut",
        "episodes grade data/structured/cases.jsonl IN/34.answers.jsonl --task structured"
        " --cut think,fence,prose --out OUT",
        0,
        r"success_rate +(100|8\d|9\d)",
    ),
    Case(
        "35 numbers",
        "episodes grade IN/35.tasks.jsonl IN/35.answers.jsonl --task b35num --out OUT",
        0,
        r"disagree on 60 of 120",
    ),
    _audit("06.messages_with_answer.jsonl", _CONVERTS),
    _audit("06.sharegpt.jsonl", _CONVERTS),
    _audit("07a.tools_json_string.jsonl", _CONVERTS),
    _audit("07b.tools_list.jsonl", _CONVERTS),
    Case("07d", "task audit IN/07d.openai_wrapped_functions.jsonl --task structured", 0, r"30 usable"),
    _audit("08a.null_in_enum_not_in_type.jsonl", r"null.*type"),
    _audit("08b.openapi_nullable.jsonl", r"nullable|null.*enum"),
    _audit("08c.null_in_type_not_in_enum.jsonl", r"null.*enum"),
    _audit("43.verl_train.parquet", _CONVERTS),
    Case("01 plain prompts", "task check b01plain", 1, r"conversation|list of messages"),
    Case("01b conversation", "task check b01chat", 0, r"0 faults", r"FAULT"),
    Case("05 column", "task check b05col", 1, r"answer, id, prompt"),
    Case("43 compute_score", "task check b43verl", 1, r"completions", r"a faster grader"),
)


def make_project(folder: Path, given: Path) -> Path:
    """Return a copy of the project without results, with the tasks that the inputs have."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in listed:
        if not name.startswith(("evidence/", "tests/", "benchmarks/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    subprocess.run([sys.executable, given / "make_tasks.py", folder], check=True, capture_output=True)
    shutil.copy(given / "34.tasks.jsonl", folder / "data/structured/cases.jsonl")
    return folder


def try_cases(given: Path, only: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each case with what came of it."""
    settings = {
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "DVC_NO_ANALYTICS": "1",
        "COLUMNS": "200",
    }
    with tempfile.TemporaryDirectory() as made:
        project, out = make_project(Path(made) / "project", given), Path(made) / "out"
        for case in CASES:
            if only not in case.words and only not in case.name:
                continue
            words = [each.replace("IN/", f"{given}/").replace("OUT", str(out)) for each in case.words.split()]
            done = subprocess.run(
                [sys.executable, "-c", "from assay.cli import main; main()", *words],
                cwd=project,
                env=os.environ | settings,
                capture_output=True,
                text=True,
            )
            shutil.rmtree(out, ignore_errors=True)
            said = (
                (done.stdout + done.stderr)
                .replace(str(given), "IN")
                .replace(str(out), "OUT")
                .replace(made, "HERE")
            )
            right = done.returncode == case.code
            right = right and re.search(case.says, said) is not None and re.search(case.never, said) is None
            got = {"code": done.returncode, "said": said.strip()[-TAIL:]}
            expected = {"code": case.code, "says": case.says, "never": case.never}
            print(f"{'right' if right else 'WRONG'}: {case.name}", flush=True)
            yield case.name, {"asked": case.words, "expected": expected, "got": got, "right": right}


def main() -> None:
    """Try all cases and write the record; with --only nothing is written."""
    parser = options(__doc__)
    parser.add_argument("folder", type=Path, help="The inputs.")
    parser.add_argument("--only", default="", metavar="WORD", help="Only cases that have it; writes nothing.")
    asked = parser.parse_args()
    found = dict(try_cases(asked.folder.resolve(), asked.only))
    counts = {"cases": len(found), "right": sum(each["right"] for each in found.values())}
    print(counts)
    if not asked.only:
        written(RESULTS / "cases.json", counts | {"of": found})


if __name__ == "__main__":
    main()
