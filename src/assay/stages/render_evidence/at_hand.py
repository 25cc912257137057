"""Whether the claim in evidence/ is about the settings and the data at hand: asked wherever a claim is shown.

A claim belongs to a work tree if its plan is the one that the settings make of the data that lie there now,
if its policies are those of base.json and train.json, and if dvc.lock, which holds the settings and the files
of every stage that ran, tells of these settings and these files: no claim, and no file of a training, names
its learning rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from assay.core.errors import AssayError, NoVerdictYet, RecordError
from assay.core.evidence_files import LOGS, RESULTS
from assay.core.storage.json import read_record
from assay.core.storage.untrusted import listing, sha256_capped
from assay.core.storage.yaml import read_yaml
from assay.pipeline.dvc_lock import md5_at
from assay.pipeline.inputs import read_fingerprint
from assay.pipeline.project import Project
from assay.rollout.dataset.external import read_training
from assay.rollout.dataset.source import MAX_FILE_BYTES
from assay.stages.render_evidence.claim_inputs import Suites, plan_asked
from assay.verdict.evidence.claim.base_facts import BaseFacts
from assay.verdict.evidence.claim.claim import UNREAD, Claim
from assay.verdict.evidence.claim.plan import ClaimPlan

PARAMS, LOCK = "params.yaml", "dvc.lock"
ABSENT = object()
# The stages behind a claim: all but the one that packs it.
STAGES = ("fingerprint", "base", "pre_eval", "train", "control", "post_eval", "render_evidence")
FIX = "./run repro"


def claim_at_hand(project: Project, read: Callable[[], Suites] | None = None) -> Claim:
    """Return the claim about the settings and data at hand.

    Args:
        project: The run.
        read: Reads the data at hand, for who needs them as well. None: they are read here.

    Raises:
        NoVerdictYet: There is none; says in what the one that stands is another's.
        RecordError: The claim is damaged.
    """
    if found := differences(project, read):
        raise NoVerdictYet(found, data=project.params.dataset.name)
    return _claim(project)


def claim_stands(project: Project) -> bool:
    """Return whether there is a claim at all, about whatever settings."""
    return project.results("claim.json").is_file()


def differences(project: Project, read: Callable[[], Suites] | None = None) -> list[str]:
    """Return in what the claim that stands is not about the settings and data at hand, a line each; none: it
    is. Arguments as of `claim_at_hand`.

    Raises:
        RecordError: The claim is damaged.
    """
    if not claim_stands(project):
        return ["no claim was made yet"]
    claim = _claim(project)
    if (claim.before_policy, claim.after_policy) == (UNREAD, UNREAD):
        return _of_the_plan(project, claim, read)
    try:
        lock = _lock(project)
        found = [
            *_of_the_settings(project, lock),
            *_of_the_plan(project, claim, read),
            *_of_the_policies(project, claim),
        ]
        return [*found, *_of_the_files(project, lock)]
    except AssayError as error:
        return [f"{error.where}: expected {error.expected}, found {error.found}"]


def others_settings(project: Project) -> list[str]:
    """Return the same as `differences`, of settings, data and plan alone: what is being made anew may be
    missing meanwhile.

    Raises:
        RecordError: The claim is damaged.
    """
    claim, settings = _claim(project), list[str]()
    with suppress(AssayError):  # where no lock tells of settings, the plan still tells of most of them
        settings = _of_the_settings(project, _lock(project))
    return [*settings, *_of_the_plan(project, claim)]


def changed_settings(
    stages: Mapping[str, Any], values: Mapping[str, Any], *, others: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the settings that stages ran with and that are others now, a line each.

    Args:
        stages: Those of a dvc.lock.
        values: params.yaml.
        others: Those of them that are not as by default: a setting that nothing ran with came with a later
            version, and changes nothing where it is as by default. None: not known.

    >>> ran = {"train": {"params": {"params.yaml": {"train": {"learning_rate": 0.1}}}}}
    >>> changed_settings(ran, {"train": {"learning_rate": 0.2}})
    ['train.learning_rate is 0.2, and 0.1 is what train ran with']
    """
    told: dict[str, str] = {}
    for name in STAGES:
        for setting, value in _mapping(
            _mapping(_mapping(stages.get(name)).get("params")).get(PARAMS)
        ).items():
            for leaf, ran, now in _unequal(setting, value, _value(values, setting)):
                if ran is ABSENT and others is not None and _value(others, leaf) is None:
                    continue
                told.setdefault(leaf, f"{leaf} is {_shown(now)}, and {_shown(ran)} is what {name} ran with")
    return list(told.values())


def _claim(project: Project) -> Claim:
    return read_record(project.results("claim.json"), Claim, fix=FIX)


def _lock(project: Project) -> Mapping[str, Any]:
    """Return the stages of dvc.lock.

    Raises:
        RecordError: There is none, or one without a stage.
    """
    if not (project.root / LOCK).is_file():
        raise RecordError("the settings that were run", found="no such file", where=LOCK, fix=FIX)
    stages = read_yaml(project.root / LOCK, fix=FIX).get("stages")
    missing = [name for name in STAGES if not isinstance((stages or {}).get(name), dict)]
    if not isinstance(stages, dict) or missing:
        raise RecordError("every stage of a run", found=f"no {', '.join(missing)}", where=LOCK, fix=FIX)
    return stages


def _of_the_settings(project: Project, stages: Mapping[str, Any]) -> list[str]:
    values = read_yaml(project.root / PARAMS, fix="./run assay config use")
    return changed_settings(stages, values, others=project.params.model_dump(exclude_defaults=True))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _value(values: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _unequal(name: str, ran: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(ran, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*ran, *now]):
            yield from _unequal(f"{name}.{key}", ran.get(key, ABSENT), now.get(key))
    elif (now if ran is ABSENT and now is None else ran) != now or isinstance(ran, bool) != isinstance(
        now, bool
    ):
        yield name, ran, now


def _shown(value: Any) -> str:
    text = "nothing" if value is None or value is ABSENT else str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _of_the_data(project: Project) -> list[str]:
    """Return the files of the data that are not the fingerprinted ones.

    Raises:
        AssayError: There is no fingerprint, or no data.
    """
    root, task, found = project.params.dataset.root, project.task(), read_fingerprint(project.root)
    if found.task != task.name:
        return [f"{root} was fingerprinted for task {found.task}, and {task.name} is asked for"]
    there = {name.removesuffix(".jsonl") for name in listing(project.data("")) if _is_split(name)}
    odd = [
        f"{root}/{name}.jsonl: not among the fingerprinted data"
        for name in sorted(there - found.splits.keys())
    ]
    files = {
        f"{root}/{name}.jsonl": split.file_sha256 for name, split in found.splits.items()
    } | found.schemas
    for name, sha256 in sorted(files.items()):
        path = project.root / name
        if not path.is_file() or sha256_capped(path, max_bytes=MAX_FILE_BYTES, fix=FIX) != sha256:
            odd.append(f"{name}: not the data that were fingerprinted")
    return odd


def _is_split(name: str) -> bool:
    return name.endswith(".jsonl") and "/" not in name and not name.startswith(".")


def _of_the_plan(project: Project, claim: Claim, read: Callable[[], Suites] | None = None) -> list[str]:
    """Return in what the plan of the claim is not what the settings make of the data as they lie there
    now."""
    try:
        if odd := _of_the_data(project):
            return odd
        asked = plan_asked(project, claim.plan.cluster_name, read() if read else None)
        written = read_record(project.results("claim_plan.json"), ClaimPlan, fix=FIX)
    except AssayError as error:
        return [f"{error.where}: expected {error.expected}, found {error.found}"]
    found = []
    for name in ClaimPlan.model_fields:
        now, then = getattr(asked, name), getattr(claim.plan, name)
        if name in ("suite_digest", "dataset_sha256") and now != then:
            what = "held-out suite" if name == "suite_digest" else "dataset"
            found.append(
                f"the claim is about the {what} {str(then)[:12]}, and the settings ask for {str(now)[:12]}"
            )
        elif now != then:
            found.append(
                f"the plan of the claim has {name} {_shown(then)}, and the settings ask for {_shown(now)}"
            )
    if not found and written != claim.plan:
        found.append("claim_plan.json is another plan than that of the claim")
    return found


def _of_the_policies(project: Project, claim: Claim) -> list[str]:
    """Return which of its two policies the claim does not share with the base and the training."""
    base = read_record(project.results("base.json"), BaseFacts, fix=FIX)
    trained = read_training(project.results("train.json"), fix=FIX)
    checks = (
        ("base", claim.before_policy, "base.json", base.digest),
        ("base", claim.before_policy, "train.json", trained.base_digest),
        ("policy", claim.after_policy, "train.json", trained.policy_digest),
    )
    return [
        f"the claim is about the {what} {said[:12]}, and {file} tells of {known[:12]}"
        for what, said, file, known in checks
        if said != known
    ]


def _of_the_files(project: Project, stages: Mapping[str, Any]) -> list[str]:
    """Return the files of the results that are others than a stage wrote or read; those that are not there
    show nothing."""
    known: dict[str, str | None] = {}
    told: dict[str, str] = {}
    for name in STAGES:
        for kind, did in (("outs", "wrote"), ("deps", "read")):
            for entry in stages[name].get(kind) or []:
                path = str(entry.get("path"))
                if not path.startswith((f"{RESULTS}/", f"{LOGS}/")):
                    continue
                here = project.root / path
                if path not in known:
                    known[path] = md5_at(here) if here.is_dir() or here.is_file() else None
                if known[path] not in (None, entry.get("md5")):
                    told.setdefault(path, f"{path} is not what {name} {did}")
    return list(told.values())
