"""Single looks of `assay task check`, in this process: what each names, and that what it says to do leads on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from assay.checks.envcheck import evidence, pay, records, repetition, teaching, watching
from assay.checks.envcheck.case import Case
from assay.checks.envcheck.code_texts import almost_matching, matching
from assay.checks.envcheck.command import examine
from assay.checks.envcheck.completions import frame_of, wrapped
from assay.checks.envcheck.episodes import repeating
from assay.checks.envcheck.evidence import CHECKS, OUT_OF_TIME, Evidence, spent
from assay.checks.findings import Deadline, Finding
from assay.checks.own_data.audit import project_for
from assay.core.errors import ConfigError
from tests import own_data
from tests.tools.envcheck.broken import DEEPER, MORE, PLAIN, TURNS, WALK, paid, reward
from tests.tools.envcheck.making import Made, number, sums
from tests.tools.envcheck.sound import SOUND, chat

SMALL = {"train": 40, "validation": 12, "heldout": 12}
WORLDS = 6
Look = Callable[[Evidence], Finding]
EXACT_CODE = reward("return [float(c.strip() == a) for c, a in zip(completions, answer)]")
LOOKS: dict[str, Look] = {
    "hedging": pay.hedging,
    "trivial players": pay.trivial_players,
    "contradicting golds": records.contradicting_golds,
    "in a batch": repetition.in_a_batch,
    "old state": lambda seen: repetition.old_state(seen, repetition.scripts_of(seen)),
    "replay": lambda seen: repetition.replay(seen, repetition.scripts_of(seen)),
    "gold through JSON": records.gold_through_json,
    "oracle beats floor": pay.oracle_beats_floor,
    "signal": teaching.signal,
    "reward parts": pay.reward_parts,
}


QUICK = {
    "one bonus word is paid",
    "everything gets at least half",
    "strips in place",
    "order of the columns",
    "golds in decomposed letters",
    "a tenth of the golds is wrong",
}


@pytest.fixture(autouse=True)
def _few_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as show a share."""
    monkeypatch.setattr(evidence, "MOST_WORLDS", WORLDS)


def seen_of(made: Made, folder: Path, seconds: float = 60.0) -> Evidence:
    """Return an examination that has begun."""
    made = replace(made, sizes=SMALL)
    return Evidence(Case.of(made.project(folder)), Deadline(seconds, spent))


@pytest.mark.parametrize(
    "made",
    [
        each if each in MORE or each.name in QUICK else pytest.param(each, marks=pytest.mark.long)
        for each in (*MORE, *DEEPER)
        if each.check.split("|")[0] in LOOKS
    ],
    ids=lambda made: made.name,
)  # the looks that take another process: ./run bench envcheck
def test_what_is_broken_is_named(made: Made, tmp_path: Path) -> None:
    names = made.check.split("|")
    if made.name in ("as verl calls it", "not installed"):
        with pytest.raises(ConfigError):
            seen_of(made, tmp_path)
        return
    seen = seen_of(made, tmp_path)
    if seen.unplayable is not None:
        assert names == ["reward parts"] and seen.unplayable.kind in ("column", "reward")
        return
    assert any(LOOKS[name](seen).level in ("warning", "fault") for name in names if name in LOOKS)


@pytest.mark.parametrize(
    "made",
    [*SOUND[30:44], *(pytest.param(made, marks=pytest.mark.long) for made in SOUND[44:])],
    ids=lambda made: made.name,
)
def test_a_sound_task_is_called_faulty_by_no_look(made: Made, tmp_path: Path) -> None:
    seen = seen_of(made, tmp_path)
    assert seen.unplayable is None
    for look in LOOKS.values():
        assert look(seen).level != "fault", look(seen).found


@pytest.mark.parametrize("form", ["messages", "texts"])
def test_completions_of_the_other_form_are_named_and_the_fix_leads_on(form: str, tmp_path: Path) -> None:
    broken = next(each for each in MORE if each.name.startswith(f"{form}, where"))
    found = list(examine(Case.of(replace(broken, sizes=SMALL).project(tmp_path / "a")), tmp_path, 8.0))
    (fault,) = [each for each in found if each.level == "fault"]
    assert {each.check for each in found} == set(CHECKS) and "prompt: " in fault.fix
    mended = replace(broken, rows=chat if "list of messages, [" in fault.fix else sums)
    seen = seen_of(mended, tmp_path / "b")
    assert seen.unplayable is None and pay.oracle_beats_floor(seen).level == "ok"


def test_an_alarm_works_with_the_settings_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarm = next(each for each in MORE if each.name == "an alarm")
    seen = seen_of(alarm, tmp_path)
    fault = repetition.four_threads(seen, repetition.scripts_of(seen))
    assert fault.level == "fault" and "task.isolation: worker and task.threads: 1" in fault.fix
    monkeypatch.setenv("ASSAY_ENVCHECK_ISOLATION", "worker")  # as the process that looks is told
    assert repetition.four_threads(seen, repetition.scripts_of(seen)).level == "ok"


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    seen = seen_of(next(each for each in MORE if each.name == "a column that is not there"), tmp_path)
    assert seen.unplayable is not None
    assert "assistant" in seen.unplayable.reason and "answer" in seen.unplayable.reason


def test_what_is_to_be_written_around_a_reward_of_verl_is_a_reward(tmp_path: Path) -> None:
    broken = next(each for each in MORE if each.name == "as verl calls it")
    code = broken.code.replace("def reward", "def compute_score")
    made = replace(broken, code=code, task={"entry": "task.py:compute_score"})
    with pytest.raises(ConfigError) as refused:
        Case.of(made.project(tmp_path / "a"))
    line = re.search(r"def reward.*", str(refused.value.fix))
    assert line is not None
    mended = replace(broken, code=f"{code}\n\n{line.group()}\n")
    for rows in (sums, chat):
        seen = seen_of(replace(mended, rows=rows), tmp_path / rows.__name__)
        assert pay.oracle_beats_floor(seen).level == "ok"


def test_a_failure_of_several_turns_is_told_whole(tmp_path: Path) -> None:
    stops = WALK.format(**{**PLAIN, "oracle": "return 'stop' if self.turn else 'up'"})
    told = pay.oracle_beats_floor(seen_of(Made("stops", stops, "", number, TURNS), tmp_path)).found
    assert "'up' → 'at " in told and "'stop'" in told


def test_who_knows_nothing_is_a_warning_and_who_can_be_named_clears_it(tmp_path: Path) -> None:
    rule = {"success": {"compare": "reward", "at_least": 1.0}, "players": {}}
    code = reward(
        "return [float(c == str(x)[::-1]) for c, x in zip(completions, a)]", "", "completions, a, **kwargs"
    )
    unknown = pay.oracle_beats_floor(seen_of(Made("backwards", code, task=rule), tmp_path / "a"))
    assert unknown.level == "warning" and "task.players: {NAME: oracle}" in unknown.fix
    named = Made(
        "backwards",
        f"{code}\n\ndef knows(a):\n    return str(a)[::-1]\n",
        task=rule | {"players": {"knows": "oracle"}},
    )
    assert pay.oracle_beats_floor(seen_of(named, tmp_path / "b")).level == "ok"


def test_what_the_task_cuts_off_is_cut_off_here_too(tmp_path: Path) -> None:
    code = f"{EXACT_CODE}\n\ndef thinks(answer):\n    return f'<think>so</think>{{answer}}'\n"
    made = Made("thinks", code, task={"cut": ["think"], "players": {"thinks": "oracle"}})
    assert pay.oracle_beats_floor(seen_of(made, tmp_path)).level == "ok"


def test_a_column_that_some_records_lack_is_no_fault_of_the_reward(tmp_path: Path) -> None:
    hinted = lambda rng, n: sums(rng, n) | ({"hint": "add"} if n % 2 else {})  # noqa: E731
    found = repetition.in_a_batch(seen_of(Made("hinted", EXACT_CODE, rows=hinted), tmp_path))
    assert (found.level, found.found) == ("ok", f"{WORLDS + repetition.BATCH} completions")


def test_calls_of_which_nothing_could_be_compared_are_not_called_well(tmp_path: Path) -> None:
    code = reward("return [float(c == a) if c.isdigit() else None for c, a in zip(completions, answer)]")
    found = repetition.in_a_batch(seen_of(Made("None for words", code), tmp_path))
    assert found.level == "note" and "has no reward alone" in found.found


def test_one_prompt_about_two_schemas_or_two_texts_is_no_contradiction(tmp_path: Path) -> None:
    own_data.copy_project(tmp_path)
    project = project_for(tmp_path, "structured")
    rows = [
        {
            "prompt": f"Send {k} lamps",
            "schema": {"type": "object", "properties": {name: {"type": "integer"}}},
            "gold": {name: k},
        }
        for k in range(4)
        for name in ("n", "lamps")
    ]
    texts = [{**rows[0], "context": f"{k} lamps", "gold": {"n": k}} for k in range(4)]
    same = [rows[0], {**rows[0], "gold": {"n": 7}}]
    for records_, level in ((rows, "ok"), (texts, "ok"), (same, "fault")):
        for split in ("train", project.params.validation.suite, "heldout"):
            path = project.data(f"{split}.jsonl")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(own_data.jsonl(records_))
        assert records.contradicting_golds(Evidence(Case.of(project), Deadline(60.0, spent))).level == level


@pytest.mark.parametrize(("share", "level"), [(0.0, "warning"), (0.2, "ok"), (0.4, "ok")])
def test_where_only_the_weak_player_shows_no_signal_the_fix_is_about_the_player_and_leads_on(
    tmp_path: Path, share: float, level: str
) -> None:
    hasty = f"\n\ndef hasty(answer, rng):\n    return answer if rng.uniform() < {share} else 'x'\n"
    found = teaching.signal(seen_of(Made("weak", EXACT_CODE + hasty), tmp_path))
    assert (found.level, "let hasty be right more often" in found.fix) == (level, level == "warning"), found


def test_looks_for_which_there_is_no_time_say_so(tmp_path: Path) -> None:
    case = Case.of(replace(SOUND[0], sizes=SMALL).project(tmp_path))
    assert sum(each.found == OUT_OF_TIME for each in examine(case, tmp_path, 1e-6)) > 10


def test_of_the_patterns_in_the_code_texts_are_made_that_match_and_that_all_but_match() -> None:
    assert [len(text) for text in matching([r"a{4000000000}", r"(?:ab{1000000}){9}"])] == [200, 200]
    patterns = [r"^Step \d+: \w+ => ", r"<answer>(.*?)</answer>", r"[^\s\d]{2}(?:x|y)z?", "(?>ab)+c"]
    for pattern, text in zip(patterns, matching(patterns), strict=True):
        assert re.search(pattern, text), (pattern, text)
    assert almost_matching([r"^(\w+\s?)*$", "no pattern", "(", r"\$(\d+,?)+\."]) == [
        "a" * 40 + "!",
        "$" + "1" * 40 + "!",
    ]


@pytest.mark.parametrize(("code", "level"), [("NONE = float('nan')", "ok"), ("CALLS = [0]", "warning")])
def test_what_counts_its_calls_is_named_and_a_number_that_is_none_is_not(
    code: str, level: str, tmp_path: Path
) -> None:
    counting = "CALLS.__setitem__(0, CALLS[0] + 1) or " if level == "warning" else ""
    made = Made("numbers beside", paid(f"{counting}float(c.strip() == a)", code))
    seen = seen_of(made, tmp_path)
    found = watching.global_state(seen, repetition.scripts_of(seen))
    assert found.level == level, found.found


def test_an_answer_is_written_as_the_expression_finds_it_in_any_of_the_usual_frames() -> None:
    for pattern in (
        "<answer>(.*?)</answer>",
        r"\\boxed\{(.*?)\}",
        "####(.*)",
        r"answer is[: ]*(\w+)",
        r"</think>\s*(.*)",
    ):
        assert (re.findall(pattern, wrapped("7", pattern), re.DOTALL) or [""])[-1].strip() == "7", pattern
    assert frame_of("7", "7") is None and frame_of("7 of 7", "7") is None


def test_a_player_repeats_what_it_was_told_in_several_ways() -> None:
    class Told:
        told = ("It was '12', not 3.",)

    said = {name: says(Told) for name, says in repeating("0").items()}  # type: ignore[arg-type]
    assert said["the last number it is told"] == "3" and said["the first number it is told"] == "12"
    assert said["what it is told in quotes"] == "12" and said["the last word it is told"] == "3"


NUMBER_OF = "def of(c):\n    try:\n        return float(c)\n    except ValueError:\n        return None"
PATTERN_OF = (
    "import re\ndef found(c, a):\n    try:\n        return bool(c.strip()) and bool(re.search(c, a))\n"
    "    except re.error:\n        return False"
)


@pytest.mark.parametrize(
    ("expression", "before", "named"),
    [
        ("float(of(c) is not None and not abs(of(c) - float(a)) > 0.01)", NUMBER_OF, "'nan'"),
        ("min(1.0, max(0.0, of(c) or 0.0) / float(a))", NUMBER_OF, "'inf'"),
        ("float(found(c, a))", PATTERN_OF, "'.*'"),
        ("float(c.strip() == a) + 0.3 * c.count('<think>')", "", "'<think>so</t…'"),
        ("0.5 * (c.strip() == a) + 0.05 * min(20, c.count('\\n- '))", "", "'\\n- so\\n- so"),
    ],
    ids=["not a number", "beyond all", "a pattern", "counts thoughts", "counts list items"],
)
def test_a_text_that_a_careless_comparison_pays_is_named(
    expression: str, before: str, named: str, tmp_path: Path
) -> None:
    code = reward(f"return [{expression} for c, a in zip(completions, answer)]", before)
    found = pay.trivial_players(seen_of(Made("careless", code), tmp_path))
    assert found.level == "fault" and named in found.found
