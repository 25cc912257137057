"""V4: units of the held-out suite, drawn by what nobody can foresee, are played again and compared.

Forged completions that are graded rightly and counted rightly pass everything before. They do not follow from
base, adapter and seeds, so playing their unit (`evaluation.suite.units`) again shows them. On the processor
and with the packages of the run, a unit played again gives the same episodes to the last character. Elsewhere
last bits may differ, and once in a while a token that hangs on them; an episode that is not the same passes
if each of its stored tokens is one that rounding alone could have chosen (`explained`), which no stack has to
be believed for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Literal

from assay.core.errors import ConfigError, Interrupted, RecordError
from assay.core.records import Episode
from assay.core.seeds import rng
from assay.core.storage.files import read_bytes
from assay.core.storage.json import loads, read_records
from assay.package.verification.checks import UNUSABLE, Check, Outcome, error_said
from assay.package.verification.code import stack_said
from assay.pipeline.inputs import decoding_of, secondary_file
from assay.pipeline.project import Project
from assay.rollout.dataset.external import read_training, whole_of
from assay.rollout.dataset.suite import units
from assay.stages.package import whole_in
from assay.stages.render_evidence.arms import AGAIN, suite_of

if TYPE_CHECKING:
    from assay.rollout.dataset.suite import Play
    from assay.rollout.policy.model import Policy

ARMS = (("pre_eval", "base"), ("post_eval", "trained"))
FIX = "take the package again"


def regenerated(
    project: Project,
    *,
    batches: int,
    key: str | None = None,
    base: Path | None = None,
    policy: Path | None = None,
) -> list[Check]:
    """Play whole units again and return what was found: one check for the weights, then one a file of
    episodes.

    Args:
        project: The unpacked package.
        batches: So many of each file; all, where it has fewer.
        key: What the units are drawn by. None: a word made at random, which each check names, so that the
            same are drawn again by it. Nothing in the package may decide: its maker could pack again and
            again until the draw is convenient.
        base: Folder of a pretrained base, which a package does not hold.
        policy: Folder of a whole model that was trained elsewhere, which a package does not hold either.
    """
    checks: list[Check] = []
    try:
        chosen = key or token_hex(8)
        if (no_device := without_device(project, "V4")) is not None:
            return [no_device]
        folder, check = base_of(project, base, "V4")
        checks.append(check)
        folders, whole = {"base": folder, "trained": folder}, whole_in(project)
        if whole is not None:
            folders["trained"], check = _whole_of(project, policy, folder)
            checks.append(check)
        for name, who in ARMS:
            if (weights := folders[who]) is not None:
                checks.extend(_arm(project, weights, name, who, whole is not None, batches, chosen))
    except Interrupted:
        raise
    except UNUSABLE as error:
        checks.append(Check(level="V4", name="play again", outcome="failed", found=error_said(error)))
    return checks


def base_of(project: Project, given: Path | None, level: str) -> tuple[Path | None, Check]:
    """Return the folder of the base, None where there is none to trust, and what to say of it.

    Args:
        project: The unpacked package.
        given: A folder that somebody named, for bases that are not packed.
        level: V4 or V5, for the check.
    """
    from assay.rollout.policy.digests import digest_folder

    pinned = loads(read_bytes(project.results("base.json"), fix=FIX).decode(), where="base.json", fix=FIX)
    expected = str(pinned.get("digest")) if isinstance(pinned, dict) else ""
    folder = project.root / "models/base"

    def told(outcome: Outcome, found: str) -> Check:
        return Check(level="V4" if level == "V4" else "V5", name="base", outcome=outcome, found=found)

    if not (folder / "config.json").is_file():
        if given is None:
            model = pinned.get("model") if isinstance(pinned, dict) else None
            return None, told(
                "not checked",
                f"the pretrained base {model} is not in the package; --base DIR names its folder",
            )
        folder = given
    found = digest_folder(folder) if folder.is_dir() else "nothing"
    if found != expected:
        return None, told("failed", f"{folder.name}: digest {found[:16]}, and {expected[:16]} in base.json")
    return folder, told("passed", f"digest {found[:16]}, as in base.json")


def _whole_of(project: Project, given: Path | None, base: Path | None) -> tuple[Path | None, Check]:
    """Return the folder of the whole model that was measured, None where nobody named it or it is another,
    and what to say of it.

    Raises:
        AssayError: It is no model that can be loaded.
    """
    from assay.pipeline.external import beside_base
    from assay.rollout.policy.base.whole_model import look_at

    def told(outcome: Outcome, found: str) -> Check:
        return Check(level="V4", name="whole model", outcome=outcome, found=found)

    trained = read_training(project.results("train.json"), fix=FIX)
    if given is None:
        return None, told("not checked", "it is not in the package; --policy DIR names its folder")
    folder, expected = given.absolute(), trained.policy_digest
    model = look_at(folder)  # a stranger's
    if model.digest != expected:
        return None, told(
            "failed", f"{given.name}: digest {model.digest[:16]}, and {expected[:16]} in train.json"
        )
    # What the claim says of it beside the base is taken from train.json, which nothing else could contradict
    if base is not None and beside_base(project.inputs("train"), model, folder, base) != whole_of(trained):
        return folder, told("failed", f"{given.name}: beside the base it is not what train.json says of it")
    return folder, told("passed", f"digest {expected[:16]}, as in train.json")


def without_device(project: Project, level: Literal["V4", "V5"]) -> Check | None:
    """Return that nothing can be played here for want of the device, which says nothing of the package; None
    if it is there."""
    from assay.rollout.policy.model import require_device

    try:
        require_device(project.params.device)
    except ConfigError as error:
        return Check(level=level, name="device", outcome="not checked", found=error_said(error))
    return None


def _arm(
    project: Project, weights: Path, name: str, who: str, whole: bool, batches: int, key: str
) -> Iterator[Check]:
    from assay.rollout.policy.base.adapter_files import read_adapter
    from assay.rollout.policy.model import load, pin, require_device

    params, adapted = project.params, who == "trained" and not whole
    if adapted:
        read_adapter(
            project.root / "models/adapter", project.root
        )  # a stranger's: nothing but a plain LoRA is opened
    require_device(params.device)
    pin(params.threads, deterministic=params.deterministic, device=params.device)
    policy = load(
        weights,
        adapter=project.root / "models/adapter" if adapted else None,
        device=params.device,
        dtype=params.base.dtype,
        quantization=params.base.quantization,
        template=params.base.template,
    )
    labels = [(name, False), (f"{name}_greedy", True)]
    labels += [(secondary_file(name, suite), False) for suite in params.played[1:]]
    if who == "base":
        labels.append((AGAIN, False))
    for label, greedy in labels:
        yield _played(project, policy, label, who, greedy, batches, key)


def _played(
    project: Project, policy: Policy, label: str, who: str, greedy: bool, batches: int, key: str
) -> Check:
    def told(outcome: Outcome, found: str) -> Check:
        return Check(level="V4", name=f"play {label} again", outcome=outcome, found=found)

    try:
        stored = read_records(project.results(f"{label}.jsonl"), Episode, fix=FIX)
    except RecordError as error:
        return told("failed", error_said(error))
    if others := {str(episode.policy)[:16] for episode in stored if episode.policy != policy.digest}:
        return told(
            "failed", f"{label}.jsonl is of policy {min(others)}, the {who} one is {policy.digest[:16]}"
        )
    suite = suite_of(project, label)
    plays, size = suite.plays(), project.params.generation.batch_size
    if [(e.item_id, e.draw, e.seed) for e in stored] != [(p.item.id, p.draw, p.seed) for p in plays]:
        return told(
            "failed", f"{label}.jsonl does not hold the {len(plays)} plays of the suite in their order"
        )
    parts, written = units(plays, size), iter(stored)
    pairs = [(part, list(islice(written, len(part)))) for part in parts]
    drawn = sorted(int(i) for i in rng("regenerate", key, label).permutation(len(parts))[:batches])
    found = _PlayedAgain()
    for index in drawn:
        found.add(project, policy, *pairs[index], greedy)
    which = f"unit{'s' if len(drawn) > 1 else ''} {', '.join(str(i + 1) for i in drawn)} of {len(parts)}"
    return told(*found.told(f"{which}, drawn by --key {key}", f"{label}.jsonl", project.root))


class _PlayedAgain:
    """What playing again showed so far."""

    def __init__(self) -> None:
        self.n = self.same = self.explained = 0
        self.parted: list[str] = []
        self.nearest = 0.0

    def add(
        self, project: Project, policy: Policy, plays: Sequence[Play], stored: Sequence[Episode], greedy: bool
    ) -> None:
        """Play one unit as the stage did and compare."""
        from assay.package.verification.rerun.explained import slack
        from assay.rollout.evaluation.rollout import Pace, play

        params, task, decoding = project.params, project.task(), decoding_of(project.params, greedy=greedy)
        size, retries = params.generation.batch_size, params.health.retries
        played = play(policy, task, plays, decoding, pace=Pace(size, retries=retries))
        for each, old, rollout in zip(plays, stored, played, strict=True):
            self.n += 1
            parting = first_parting(old, rollout.episode)
            if parting is None:
                self.same += 1
                continue
            found = slack(policy, task, each, old, decoding, dtype=params.base.dtype)
            if found.explained:
                self.explained += 1
                self.nearest = max(self.nearest, found.share)
            else:
                self.parted.append(
                    f"item {old.item_id}, draw {old.draw}, {parting}; in turn {found.turn} {found.why}"
                )

    def told(self, which: str, where: str, root: Path) -> tuple[Outcome, str]:
        """Return the outcome and what was seen."""
        seen = f"{self.same} of {self.n} episodes of {which} are the same to the last character"
        if self.explained:
            seen += (
                f"; {self.explained} differ where rounding decides ({self.nearest:.2g} of what is allowed at"
                f" most): {stack_said(root)}"
            )
        if not self.parted:
            return "passed", seen
        first = (
            f"{len(self.parted)} were not written by this policy with these seeds. First: {where},"
            f" {self.parted[0]}"
        )
        return "failed", f"{seen}; {first}. {stack_said(root)}"


def first_parting(stored: Episode, played: Episode) -> str | None:
    """Return in words the first thing in which two episodes of one play differ as texts, None if in nothing.

    How they were graded is not looked at: that is V2's, and needs no policy.
    """
    for number, (one, other) in enumerate(zip(stored.turns, played.turns, strict=False), start=1):
        for name in ("prompt_digest", "completion", "n_tokens", "truncated"):
            if getattr(one, name) != getattr(other, name):
                return _parting(number, name, getattr(one, name), getattr(other, name))
    counts = len(stored.turns), len(played.turns)
    return None if counts[0] == counts[1] else _parting(min(counts) + 1, "number of turns", *counts)


def _parting(turn: int, field: str, stored: object, played: object) -> str:
    return f"turn {turn}, {field}: {str(stored)[:80]!r} is stored, {str(played)[:80]!r} was played"
