"""Two sets of results that were made elsewhere, read and judged: nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from assay.core.console import say
from assay.core.errors import ConfigError
from assay.rollout.tables.columns import Columns
from assay.rollout.tables.lines import refuse
from assay.verdict.judge.forms import Asked
from assay.verdict.judge.plan import JudgePlan, Missing, read_plan
from assay.verdict.judge.reading import Arm, read_arm
from assay.verdict.judge.rows import JudgedRow
from assay.verdict.judge.sources import ArmRecord, JudgedLook, Judgement

if TYPE_CHECKING:
    from assay.verdict.judge.verdict import Judged

EFFECT = 10.0
MANY = 20  # results that two players have not all alike by chance
WHERE = "assay judge"


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """What somebody wants to be judged.

    `rival` are NAME=FILE; `metric` the score to read, `columns` which column of a table is what, as
    MEANING=COLUMN,... or a file of them, `bounds` LOW,HIGH of the score; `draws` how many of each item;
    `effect` the smallest change that matters, points; `lower` whether less is better; `missing` what becomes
    of results that are missing; `plan` a plan made beforehand, which has all of these but the rivals' files;
    `gate` whether the exit code follows the word; `junit` a file to write; `out` the folder to write. None:
    not given.
    """

    rival: Sequence[str] = ()
    metric: str | None = None
    columns: str | Columns | None = None
    bounds: str | None = None
    draws: int | None = None
    effect: float | None = None
    lower: bool | None = None
    missing: str | None = None
    title: str | None = None
    plan: Path | None = None
    gate: bool = False
    junit: Path | None = None
    out: Path = Path("judged")


# Says which look at held-out records of a project some arms are; None: at none.
Looking = Callable[[Mapping[str, Arm]], JudgedLook | None]


def judge_files(
    before: Path, after: Path, asked: JudgeRequest, *, looking: Looking = lambda _: None
) -> tuple[Judgement, dict[str, str], Judged]:
    """Return what was judged, the text of each arm's rows, and what came of it; nothing is written.

    Raises:
        AssayError: A file cannot be read.
    """
    asked, plan = as_planned(asked)
    arms = read_arms({"before": before, "after": after}, asked)
    return judge_arms(arms, asked, plan=plan, look=looking(arms))


def as_planned(asked: JudgeRequest) -> tuple[JudgeRequest, JudgePlan | None]:
    """Return the request with what its plan says of it, and the plan; None where there is none.

    Raises:
        ConfigError: It is no plan, or an option says something else.
    """
    if asked.plan is None:
        return asked, None
    plan = read_plan(asked.plan)
    given = Columns.read(asked.columns).named
    bounds = "{!r},{!r}".format(*plan.bounds)
    pairs = {
        "--metric": (asked.metric, plan.metric),
        "--bounds": (None if asked.bounds is None else read_bounds(asked.bounds), plan.bounds),
        "--draws": (asked.draws, plan.draws),
        "--effect": (asked.effect, plan.smallest_effect_points),
        "--lower-is-better": (asked.lower, plan.lower_is_better),
        "--missing": (asked.missing, plan.missing),
        "--baseline": (tuple(sorted(_rivals(asked.rival))), plan.rivals),
        "--columns score": (given.get("score"), plan.metric),
        "--columns success": (given.get("success"), plan.columns.get("success")),
    }
    odd = [
        f"{name} {told}, where the plan has {planned}"
        for name, (told, planned) in pairs.items()
        if told is not None and told != planned
    ]
    if odd:
        fix = "leave the option out, as the plan has it; baselines need a file each: --baseline NAME=FILE"
        raise ConfigError("what was planned", found="; ".join(odd), where=str(asked.plan), fix=fix)
    settled = replace(
        asked,
        metric=plan.metric,
        columns=Columns({**plan.columns, **given}),
        bounds=bounds,
        draws=plan.draws,
        effect=plan.smallest_effect_points,
        lower=plan.lower_is_better,
        missing=plan.missing,
    )
    return settled, plan


def read_arms(paths: Mapping[str, Path], asked: JudgeRequest) -> dict[str, Arm]:
    """Return the arms with these names and the rivals that were brought.

    Raises:
        AssayError: A file cannot be read, or a rival is another arm.
    """
    wanted, every = read_asked(asked.metric, asked.columns, asked.bounds), {**paths, **_rivals(asked.rival)}
    arms = {name: read_arm(path, name, wanted, asked.draws) for name, path in every.items()}
    for columns in dict.fromkeys(arm.columns for arm in arms.values() if arm.columns):
        say(f"columns: {columns}")
    refuse_same(arms, set(paths))
    return arms


def refuse_same(arms: Mapping[str, Arm], compared: Set[str]) -> None:
    """Refuse a rival that is one of the arms that are compared.

    Raises:
        DataError: Names both.
    """
    for name in arms.keys() - compared:
        for arm in sorted(compared):
            if arms[name].text == arms[arm].text or _same_player(arms[name].rows, arms[arm].rows):
                fix = "bring a player that needs no skill, such as one that always answers the same"
                raise refuse(
                    "a baseline with results of its own", f"those of {arm}", f"--baseline {name}", fix
                )


def _same_player(one: Sequence[JudgedRow], other: Sequence[JudgedRow]) -> bool:
    """Return whether two arms have all scores in common, of which there are many and more than one, and no
    text that tells them apart."""
    if len(one) != len(other) or len(one) < MANY or len({row.reward for row in one}) == 1:
        return False
    told = {(row.item_id, row.draw): row for row in other}
    for row in one:
        same = told.get((row.item_id, row.draw))
        if same is None or (same.reward, same.success) != (row.reward, row.success):
            return False
        if row.completion and same.completion and row.completion != same.completion:
            return False
    return True


def judge_arms(
    arms: Mapping[str, Arm],
    asked: JudgeRequest,
    *,
    level: float | None = None,
    compared: int = 1,
    plan: JudgePlan | None = None,
    look: JudgedLook | None = None,
) -> tuple[Judgement, dict[str, str], Judged]:
    """Return what was judged of the arms before, after and rivals, their texts, and what came of it.

    Args:
        arms: Their rows may change in place.
        asked: How.
        level: At which better is said; None: the plan's.
        compared: How many sets of results were compared with before.
        plan: Made beforehand; None: assay's default.
        look: Which one at held-out records of a project it is; None: at none.

    Raises:
        AssayError: Scores have no bounds in common, or an option makes no sense.
    """
    from assay.verdict.judge.verdict import judge, version_here  # the statistics, which take a second to load

    before, after = arms["before"].record, arms["after"].record
    told = Judgement(
        assay=version_here(),
        before=before,
        after=after,
        rivals={name: arm.record for name, arm in arms.items() if name not in ("before", "after")},
        bounds=read_bounds(asked.bounds),
        smallest_effect_points=read_effect(asked.effect),
        lower_is_better=bool(asked.lower),
        missing=read_missing(asked.missing),
        level=level,
        compared=compared,
        title=asked.title or f"{called(after)} against {called(before)}",
        look=look,
        plan=plan,
    )
    texts = {name: arm.text for name, arm in arms.items()}
    return told, texts, judge(told, {name: arm.rows for name, arm in arms.items()})


def called(record: ArmRecord) -> str:
    """Return the model whose results an arm holds, or else the file's name."""
    return record.files[0].model or record.files[0].name


def read_asked(metric: str | None, columns: str | Columns | None, bounds: str | None) -> Asked:
    """Return what is read of every row; of a table the metric is the column of the score.

    Raises:
        ConfigError: An option makes no sense, or two name another score.
    """
    named = Columns.read(columns)
    score = named.named.get("score")
    if metric is not None and score not in (None, metric):
        found, fix = f"{metric} and {score}", f"leave --metric or score={score} out"
        raise ConfigError("one score", found=found, where=f"{WHERE} --metric", fix=fix)
    return Asked(metric or score, named, read_bounds(bounds))


def read_bounds(text: str | None) -> tuple[float, float]:
    """Return the bounds of a score from LOW,HIGH; 0 and 1 where none are given.

    Raises:
        ConfigError: They are no two numbers in order.
    """
    if text is None:
        return 0.0, 1.0
    low, _, high = text.partition(",")
    try:
        found = (float(low), float(high)) if text.isascii() and "_" not in text else (0.0, 0.0)
    except ValueError:
        found = (0.0, 0.0)
    if not -1e12 < found[0] < found[1] < 1e12:
        raise ConfigError("LOW,HIGH", found=repr(text), where=f"{WHERE} --bounds", fix="--bounds 0,10")
    return found


def read_effect(points: float | None) -> float:
    """Return the smallest change that matters; the default where none is given.

    Raises:
        ConfigError: It is no share of the score's bounds.
    """
    if points is not None and not 0 < points <= 100:
        expected = "percentage points above 0, 100 at most"
        raise ConfigError(expected, found=str(points), where=f"{WHERE} --effect", fix="--effect 10")
    return EFFECT if points is None else float(points)


def read_missing(word: str | None) -> Missing:
    """Return what becomes of results that are missing; no verdict where nothing is said.

    Raises:
        ConfigError: It is no such word.
    """
    found = next((each for each in get_args(Missing) if each == word), None)
    if word is not None and found is None:
        expected = " or ".join(get_args(Missing))
        raise ConfigError(expected, found=repr(word), where=f"{WHERE} --missing", fix="--missing worst")
    return found or "refuse"


def _rivals(given: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for each in given:
        name, _, path = each.partition("=")
        if not name or not path or name in ("before", "after", *found):
            fix = "--baseline majority=majority.csv, each with a name of its own"
            raise ConfigError("NAME=FILE", found=repr(each), where=f"{WHERE} --baseline", fix=fix)
        found[name] = Path(path)
    return found
