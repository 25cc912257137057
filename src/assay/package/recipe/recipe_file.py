"""evidence/results/recipe.json: put together from finished runs, one entry a task, written by no stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from assay.core.config.composition import selected
from assay.core.errors import AssayError, ConfigError
from assay.core.evidence_files import RESULTS, place_of
from assay.core.records import Episode, TrainFacts
from assay.core.storage.files import read_bytes, read_text, sha256_bytes
from assay.core.storage.json import digest, dumps, loads, parse_records, read_record, read_records, write_json
from assay.core.storage.yaml import read_yaml
from assay.package.recipe.compare import (
    APART,
    LOCK,
    SETTINGS,
    drop_unknown_code,
    flatten_settings,
    read_lock,
    read_run,
)
from assay.pipeline.project import Project
from assay.rollout.evaluation.measures import mean_of
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.differences import measure_of_primary
from assay.verdict.evidence.details.details import Details
from assay.verdict.evidence.recipe.records import (
    BaseBuilt,
    RecipeClaim,
    Recipes,
    SeedRun,
    SeedsTogether,
    record_finished,
)
from assay.verdict.evidence.recipe.tables import compare_runs
from assay.verdict.evidence.words.over_seeds import NOT_EVALUABLE
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.statistics.report import Reports

FILE = f"{RESULTS}/recipe.json"
LAST = "render_evidence"  # the stage that ends a run
# The stages whose code decides the numbers of a run; how they are drawn changes none.
DECIDE = ("fingerprint", "base", "pre_eval", "train", "control", "post_eval")
_FIX = "git checkout -- evidence/results/recipe.json, or remove it and call assay seeds again"
_AGAIN = "call assay seeds again; if it stays so, remove the folder first"


def read_recipes(root: Path) -> dict[str, SeedsTogether]:
    """Return what recipe.json holds, by task; nothing where there is none.

    Raises:
        RecordError: It is damaged, or of another version.
    """
    if not (root / FILE).is_file():
        return {}
    found = loads(read_text(root / FILE, fix=_FIX), where=FILE, fix=_FIX)
    with suppress(TypeError, AttributeError, LookupError):  # of another form altogether, which is refused
        found = {"recipes": {task: _of_today(entry) for task, entry in found["recipes"].items()}}
    (read,) = parse_records(dumps(found), Recipes, where=FILE, fix=_FIX)
    return dict(read.recipes)


def _of_today(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of recipe.json in which texts, as earlier versions had them, are quoted as remarks."""
    if "sentence" not in entry:
        return entry
    runs, bases = ([_quoting(each) for each in entry[name]] for name in ("runs", "bases"))
    recipe = entry["recipe"]
    if recipe is not None:  # what was measured, and of what, stood in its sentence alone
        recipe = {"primary": "primary metric", "cluster_name": "clusters"} | _quoting(recipe)
    return _quoting(entry) | {"recipe": recipe, "runs": runs, "bases": bases}


def _quoting(record: dict[str, Any]) -> dict[str, Any]:
    def quoted(texts: Sequence[str]) -> list[dict[str, Any]]:
        return [{"code": "earlier_words", "values": {"text": text}} for text in texts if text]

    told = {name: quoted(record[name]) for name in ("warnings", "notes") if name in record}
    kept = {name: each for name, each in record.items() if name not in ("reason", "sentence", "registered")}
    if "registration" in record:
        kept["registration"] = next(iter(quoted([record["registration"]])), None)
    return kept | told | {"reasons": quoted([record["reason"]])}


def write_recipe(root: Path, found: SeedsTogether) -> None:
    """Write one task's entry beside those of other tasks."""
    recipes = read_recipes(root) | {found.task: found}
    write_json(root / FILE, Recipes(recipes=dict(sorted(recipes.items()))))


def read_stages(project: Path) -> dict[str, Any]:
    """Return the stages of a dvc.lock; none where there is no such file, or it is not whole, as after a kill.

    Raises:
        ConfigError: It is no YAML at all.
    """
    if not (project / LOCK).is_file():
        return {}
    stages = read_lock(project / LOCK, fix="git checkout -- dvc.lock, or ./run repro").get("stages")
    if not isinstance(stages, dict) or not all(isinstance(stage, dict) for stage in stages.values()):
        return {}
    return stages


def digest_deps(stages: Mapping[str, Any]) -> tuple[str, str]:
    """Return the digests of the code, which is one for every task, and of the data that stages ran on."""
    listed = [dep for name in DECIDE for dep in stages.get(name, {}).get("deps", [])]
    deps = {str(dep["path"]): dep.get("md5") for dep in listed}
    own = {path: md5 for path, md5 in deps.items() if not path.startswith(("models/", "evidence/"))}
    code = {path: md5 for path, md5 in own.items() if path.startswith("src/") or path == "constraints.txt"}
    return digest(code), digest({path: md5 for path, md5 in own.items() if path not in code})


def digest_last_code(root: Path) -> str | None:
    """Return the digest of the code that made the project's last run; None where dvc.lock does not say."""
    stages = read_stages(root)
    return digest_deps(stages)[0] if set(DECIDE) <= set(stages) else None


def digest_run(copy: Path) -> tuple[str, str, str]:
    """Return the digests of the code, the data and the settings of a run, the training seed left out."""
    settings = flatten_settings(read_yaml(copy / SETTINGS, fix=_AGAIN))
    kept = {name: value for name, value in settings.items() if name.split(".")[0] not in APART}
    return *digest_deps(read_stages(copy)), digest(kept)


def read_seed(copy: Path) -> SeedRun:
    """Return what a finished run showed; one that is NOT EVALUABLE has its reason and may lack numbers."""
    claim = read_record(copy / place_of("claim.json"), Claim, fix=_AGAIN)
    trained = read_record(copy / place_of("train.json"), TrainFacts, fix=_AGAIN)
    files = [place_of(f"{arm}_eval_greedy.jsonl") for arm in ("pre", "post")]
    measure = measure_of_primary(claim.plan.primary)
    before, after = (mean_of(read_records(copy / file, Episode, fix=_AGAIN), measure) for file in files)
    metrics = _read_json(copy / place_of("metrics.json"))
    told = copy / place_of("details.json"), copy / place_of("reports.json")
    if not all(path.is_file() for path in told):  # a run that is not evaluable lacks them
        return record_finished(copy.name, claim, trained, (before, after), metrics)
    details = read_record(told[0], Details, fix=_AGAIN)
    reports = read_record(told[1], Reports, fix=_AGAIN)
    own = reports.arms["post_eval"].measures
    return record_finished(
        copy.name, claim, trained, (before, after), metrics, own, details.confidence.get("after")
    )


def read_base(copy: Path, seed: int | None, failure: str | None) -> BaseBuilt:
    """Return what the gates said of a base, or why it was refused."""
    facts = _read_json(copy / place_of("base.json")) if failure is None else {}
    names = ("copy_accuracy", "parsed_rate", "success_rate")
    numbers: dict[str, Any] = {name: facts.get(name) for name in names}
    why = () if failure is None else (remark("failed", found=failure),)
    return BaseBuilt(base_seed=seed or 0, passed=failure is None, reasons=why, **numbers)


def _read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = loads(read_text(path, fix=_AGAIN), where=str(path), fix=_AGAIN)
    return found


def combine_seeds(
    task: str,
    preset: str,
    copies: Sequence[Path],
    runs: Sequence[SeedRun],
    bases: Sequence[BaseBuilt],
    *,
    one_sided: bool,
) -> SeedsTogether:
    """Return one recipe over its seeds: not evaluable where `runs compare` refuses, or a seed has no verdict.

    Among the runs and their copies are those that failed: leaving one out would flatter the rest.
    """
    claim, stops, notes = _claim_together(copies, runs, one_sided=one_sided)
    locked = [copy for copy in copies if (copy / LOCK).is_file()]
    # A seed that failed can have a dvc.lock of an earlier run, by other code.
    done = {run.name for run in runs if run.state == "finished"}
    whole = [copy for copy in locked if copy.name in done]
    code, data, settings = digest_run((whole or locked or list(copies))[0])
    return SeedsTogether(
        task=task,
        preset=preset,
        verdict=claim.verdict if claim else NOT_EVALUABLE,
        reasons=claim.reasons if claim else tuple(stops),
        code_digest=code,
        data_digest=data,
        settings_digest=settings,
        lock_sha256={copy.name: sha256_bytes(read_bytes(copy / LOCK, fix=_AGAIN)) for copy in locked},
        seeds=tuple(run.seed for run in runs),
        runs=tuple(runs),
        bases=tuple(bases),
        recipe=claim,
        notes=tuple(notes),
    )


def read_together(copies: Sequence[Path]) -> SeedsTogether:
    """Return what finished runs of one recipe, a training seed each, say together.

    Raises:
        ConfigError: There are none, or two with one name.
        AssayError: One is not finished, or cannot be read.
    """
    names = [copy.name for copy in copies]
    if not copies or len({*names}) != len(names):
        found = ", ".join(names) or "none"
        fix = 'pack([".scratch/seeds/a-seed0", ".scratch/seeds/a-seed1"], …)'
        raise ConfigError("folders of runs, each with a name of its own", found=found, where="pack", fix=fix)
    params = Project.open(copies[0]).params
    return combine_seeds(
        PurePath(params.dataset.root).name,
        selected(copies[0]).grpo,
        copies,
        [read_seed(copy) for copy in copies],
        (),
        one_sided=params.claim.sided == "one-sided",
    )


def _claim_together(
    copies: Sequence[Path], runs: Sequence[SeedRun], *, one_sided: bool
) -> tuple[RecipeClaim | None, Sequence[Remark], Sequence[Remark]]:
    """Return what the runs show together, or None with why they show nothing; and notes."""
    code = {None: "seed_failed", NOT_EVALUABLE: "seed_not_evaluable"}
    bad = [run for run in runs if run.verdict in code]
    if bad:
        return None, [remark(code[run.verdict], training=run.name, reasons=run.reasons) for run in bad], ()
    try:
        # A folder is read where it lies; the scratch folder is for runs out of git.
        read = [replace(read_run(copy, str(copy), copy), name=copy.name) for copy in copies]
        read, notes = drop_unknown_code(read)
        found = compare_runs(read, one_sided=one_sided)
    except AssayError as error:
        return None, [remark("not_together", found=describe(error, *copies))], ()
    if len(found.recipes) != 1:
        return None, [remark("several_recipes", n=len(found.recipes))], ()
    return found.recipes[0], (), [*found.notes, *notes]


def describe(failure: AssayError | str, *copies: Path) -> str:
    """Return a failure in one line, without the places of copies on this machine: they are nobody's business.

    >>> describe("/here/run/evidence: expected a, found b", Path("/here/run"))
    'evidence: expected a, found b'
    """
    text = failure
    if isinstance(text, AssayError):
        text = f"{text.where}: expected {text.expected}, found {text.found}"
    for place in {str(each) for copy in copies for each in (copy, copy.resolve())}:
        text = text.replace(f"{place}/", "").replace(place, Path(place).name)
    return text
