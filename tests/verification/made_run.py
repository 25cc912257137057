"""A whole run of the pipeline in a second, without a model: scripted players stand in for policies, nothing
is trained.

Everything that follows from episodes is made by the code that makes it in earnest. So a package of it passes
whatever needs no model, and a number changed in it can be caught or missed like that of any other run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf
from safetensors.numpy import save

from assay.core.config.composition import Selection, compose
from assay.core.config.settings import PretrainedBase, ScratchBase
from assay.core.console import quietly
from assay.core.records import ControlFacts, Episode, HealthSummary, TrainFacts
from assay.core.seeds import derive_seed, rng
from assay.core.storage.files import sha256_bytes
from assay.core.storage.json import write_json, write_jsonl
from assay.health.rules.commonest import Honest
from assay.health.rules.rules import Monitor
from assay.health.rules.signals import StepSignals
from assay.package.verification.checks import Check
from assay.package.verification.content.training import learning_rates
from assay.package.verification.content.weights import base_shapes, read_safetensors, weights_digest
from assay.package.verification.folders import _FREE, adapter_expected, base_expected
from assay.package.verification.levels import data_and_consistency, tables_and_grading
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.inputs import secondary_file
from assay.pipeline.live_log import Tables
from assay.pipeline.note_openings import note_opening, opened_records
from assay.pipeline.project import Project
from assay.pipeline.rival_files import BaseRivals, facts_of, file_of, suite_for
from assay.rollout.dataset.external import Training, read_training
from assay.rollout.dataset.suite import SAMPLING_AGAIN, Play, Suite
from assay.rollout.evaluation.alarms import flat
from assay.rollout.evaluation.few_shot import few_shot
from assay.rollout.evaluation.replay import play_baseline
from assay.rollout.evaluation.trajectory import open_item
from assay.rollout.policy.base.bpe import Merged
from assay.rollout.policy.base.words import CHAT_TEMPLATE, Words
from assay.rollout.policy.digests import adapted_digest, digest_folder
from assay.rollout.tasks.protocol import Task, learner
from assay.rollout.tasks.rivals import BEST_OF_N, CONSTRAINED, FEW_SHOT, OF_THE_BASE, rivals_of
from assay.stages import fingerprint, render_evidence
from assay.stages.package import members_of
from assay.stages.packing.archive import sealed, write_tar
from assay.stages.packing.layout import NAME
from assay.stages.packing.parity import Parity
from assay.stages.render_evidence.arms import AGAIN, CONTROL
from assay.training.honest_play import honest_play
from assay.training.log.history import History, Validation, Watch, component_row
from assay.training.log.step_chain import LINKS, START, chain_of
from assay.training.recipe import chosen_step, item_order
from tests import house
from tests.house import ROOT
from tests.kept import kept
from tests.own_data import keep_first
from tests.verification.made_lock import lock

TAKEN = (
    "constraints.txt",
    "requirements.txt",
    "pyproject.toml",
    "LICENSE",
    "dvc.yaml",
    "data",
    "src",
    "tasks",
)
PARITY = Parity(
    policy_digest="",
    base_was_4bit=False,
    prompts=32,
    positions=400,
    tokens=200,
    greedy_agreement=1.0,
    free_agreement=1.0,
    logit_difference_at_most=1e-5,
    max_logit_difference=1e-3,
    min_greedy_agreement=0.99,
)
MERGES = (("{", '"'), ("a", "c"), ("ac", "t"))  # of a base whose tokenizer was learned
RECORDS = 128  # of a split at most: no made run plays more, and each look at data takes all of them
SMALL = {
    "evaluation.items": 20,
    "evaluation.draws": 2,
    "validation.items": 12,
    "validation.draws": 2,
    "validation.interval": 2,
    "train.steps": 6,
    "train.items_per_step": 4,
    "train.group_size": 4,
    "train.micro_batch_size": 16,
    "distributed.processes": 1,
    "base.architecture.hidden_size": 8,
    "base.architecture.intermediate_size": 6,
    "base.architecture.layers": 1,
    "base.architecture.heads": 2,
    "train.lora.r": 2,
    "health.top_share_window": 3,
    "health.baseline_steps": 2,
    "health.top_share.red": 1.0,
}


def made_run(
    folder: Path,
    *,
    task: str = "collider",
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
    rendered: bool = True,
    data: Callable[[Path], object] = lambda _: None,
) -> Project:
    """Write a run into a new folder and return it.

    Args:
        folder: To make.
        task: Preset of the task.
        seed: Of the training, and of who plays how well: another seed is another run.
        changes: Settings by dotted names, beyond SMALL.
        rendered: With its evidence, which takes most of the time, where it is made anew.
        data: Changes the folder of data before anything is made of it; may do so where there are changes.
    """
    # What a test session asks for again and again is made once; not what a test makes of another tree.
    if not changes and ROOT is house.ROOT:
        make = partial(_made, task=task, seed=seed, changes={}, rendered=True)
        if (known := kept(f"run {task} {seed}", make)) is not None:
            shutil.copytree(known, folder)
            return Project.open(folder)
    return _made(folder, task=task, seed=seed, changes=changes or {}, rendered=rendered, data=data)


def _made(
    folder: Path,
    *,
    task: str,
    seed: int,
    changes: Mapping[str, Any],
    rendered: bool,
    data: Callable[[Path], object] = lambda _: None,
) -> Project:
    folder.mkdir(parents=True)
    take(folder)
    values = OmegaConf.create(dict(compose(ROOT, Selection("tiny", task, seed)).values))
    for name, value in {**SMALL, **changes}.items():
        OmegaConf.update(values, name, value, merge=False)
    (folder / "params.yaml").write_text(OmegaConf.to_yaml(values), encoding="utf-8")
    keep_first(folder / values.dataset.root, RECORDS)
    data(folder / values.dataset.root)
    with quietly():
        project = Project.open(folder)
        fingerprint.run(project)
        base = _base(project)
        _before(project, base)
        trained = _trained(project, base)
        _after(project, trained)
        if rendered:
            render_evidence.run(project)
    lock(project)
    return project


def take(folder: Path) -> None:
    """Copy what a run needs of this tree into a folder."""
    for name in TAKEN:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)


def copied(run: Path, folder: Path) -> Path:
    """Copy a run to a new folder but for its code, most of its files, which is shared: nobody may edit it."""
    shutil.copytree(run, folder, symlinks=True, ignore=shutil.ignore_patterns("src"))
    (folder / "src").symlink_to(run / "src")
    return folder


def looked_without_drawing(root: Path, work: Path, task_code: Path | None = None) -> list[Check]:
    """Return what all checks of V1 to V3 say of an unpacked package but those of claim, pages and figures."""
    package = Unpacked(root, task_code=task_code)
    found = tables_and_grading(package, work=work)
    return found + data_and_consistency(package, work=work, other_code=False)


def packaged(project: Project, folder: Path) -> Path:
    """Write the package of a run into a folder and return the tar."""
    digest = read_training(project.results("train.json"), fix="").policy_digest
    members = sealed(members_of(project, PARITY.model_copy(update={"policy_digest": digest})))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{NAME}.tar"
    write_tar(path, members, root=NAME)
    return path


def players(task: Task) -> list[str]:
    """Return the names of the scripted players that are no cheats of a floor or ceiling, weakest first."""
    return list(task.baselines())


def played(
    task: Task, plays: Sequence[Play], skill: float, label: str, words: Words | None = None
) -> list[Episode]:
    """Return the episodes of a policy that plays a share of its plays as the best player would, the rest as
    the weakest.

    Args:
        task: What is played.
        plays: Which.
        skill: The share.
        label: Another label, other luck.
        words: Of the base: prompts and numbers of tokens are what they make of the texts; without them made
            up.
    """
    names, found = players(task), []
    for play in plays:
        lucky = rng("skill", label, play.seed).random() < skill
        for name in names[-1:] if lucky else names:
            episode = play_baseline(task, task.baselines()[name], [play], name)[0]
            # Some players say what a tiny base has no words for, and so can never have written.
            if words is None or all(words.can_write(turn.completion) for turn in episode.turns):
                break
        if words is not None:
            found.append(spelled(task, play, episode, words))
            continue
        turns = [
            turn.model_copy(
                update={"n_tokens": 3, "prompt_digest": sha256_bytes(f"{play.item.id} {k}".encode())[:16]}
            )
            for k, turn in enumerate(episode.turns)
        ]
        found.append(episode.model_copy(update={"turns": tuple(turns)}))
    return found


def spelled(task: Task, play: Play, episode: Episode, words: Words) -> Episode:
    """Return an episode with the prompts and numbers of tokens that its texts have in the words of a tiny
    base."""
    ids, turns = list(open_item(task, words, play.item, play.world_seed).prompt_ids), []
    for turn in episode.turns:
        written = [*words.ids(turn.completion), words.eos_id]
        prompt = sha256_bytes(np.asarray(ids, np.int64).tobytes())[:16]
        turns.append(
            turn.model_copy(update={"n_tokens": len(written), "prompt_digest": prompt, "truncated": False})
        )
        ids += [*written, *words.reply(str(turn.observation), last_id=words.eos_id)]
    return episode.model_copy(update={"turns": tuple(turns)})


def words_of(project: Project) -> Words | None:
    """Return the words of the base, where the package holds it."""
    if isinstance(project.params.base, PretrainedBase):
        return None
    task = project.task()
    if (learning := learner(task)) is not None:
        learning.learn_from(project.items("train"))
    learned = getattr(project.params.base, "bpe_vocabulary", None) is not None
    return Merged(MERGES) if learned else Words(task.vocabulary())


def _arm(
    project: Project, name: str, suite: Suite, skill: float, policy: str, *, trained: bool = False
) -> None:
    """Write an arm; of what was trained, another seed is another player."""
    seed = project.params.seed if trained else 0
    label = f"{name} {seed}" if seed else name
    episodes = played(project.task(), suite.plays(), skill, label, words_of(project))
    write_jsonl(
        project.results(f"{name}.jsonl"), [each.model_copy(update={"policy": policy}) for each in episodes]
    )


def _base(project: Project) -> str:
    folder, base = project.root / "models/base", project.params.base
    folder.mkdir(parents=True)
    if isinstance(base, PretrainedBase):
        facts = {
            "kind": "pretrained",
            "model": "some/model",
            "revision": "0" * 40,
            "digest": sha256_bytes(b"some/model"),
        }
        write_json(project.results("base.json"), facts)
        return str(facts["digest"])
    words = words_of(project)
    assert words is not None
    shapes = base_shapes(base, len(words.vocabulary))
    weights = {
        name: rng("weights", base.seed, name).normal(size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    for name, values in base_expected(base, words).items():
        write_json(folder / name, _with_versions(values))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    facts = {"kind": "scratch", "seed": base.seed, "digest": digest_folder(folder)}
    facts["parameters"] = sum(array.size for array in weights.values())
    facts |= {"copy_accuracy": 1.0, "parsed_rate": 1.0, "success_rate": 0.2, "mean_reward": 0.0}
    write_json(project.results("base.json"), facts)
    return str(facts["digest"])


def _with_versions(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: "5.0.0" if value is _FREE else value for name, value in values.items()}


def _before(project: Project, base: str) -> None:
    inputs = project.inputs("heldout", "secondary")
    _arm(project, "pre_eval", inputs.heldout, 0.2, base)
    _arm(project, "pre_eval_greedy", replace(inputs.heldout, draws=1), 0.2, base)
    for name, suite in inputs.secondary.items():
        _arm(project, secondary_file("pre_eval", name), suite, 0.2, base)
    _rivals(project, base)


def _rivals(project: Project, base: str) -> None:
    """Write what the base played as a rival of what is trained on it."""
    inputs = project.inputs("train", "heldout")
    params, plain, found = project.params, inputs.task, {}
    asked, words = params.evaluation.rivals, words_of(project)
    settings = {FEW_SHOT: asked.few_shot, BEST_OF_N: asked.best_of_n, CONSTRAINED: 1}
    for name in (name for name in OF_THE_BASE if name in rivals_of(plain, asked)):
        suite, task, used = suite_for(inputs.heldout, name), plain, settings[name]
        if name == FEW_SHOT and words is not None:
            assert isinstance(params.base, ScratchBase)
            task, used = few_shot(
                plain,
                inputs.train,
                suite,
                asked.few_shot,
                dialogue=words,
                positions=params.base.architecture.max_positions,
                max_new_tokens=params.task.max_new_tokens[params.generation.surface],
            )
        episodes = played(task, suite.plays(), 0.2, name, words)
        told = [each.model_copy(update={"policy": base}) for each in episodes]
        write_jsonl(project.results(f"{file_of(name)}.jsonl"), told)
        found[name] = facts_of(plain, told, settings[name], used)
    write_json(project.results("rivals.json"), BaseRivals(rivals=found))


def _trained(project: Project, base: str) -> TrainFacts:
    inputs = project.inputs("train", "validation")
    params, task, suite = project.params, inputs.task, inputs.validation
    size, steps = params.train.items_per_step, params.train.steps
    order = item_order(inputs.train, steps * size, params.seed)
    history, watch, chain, words = History(), Watch(task), START, words_of(project)
    honest = Honest(task, inputs.train)
    play = honest_play(task, order, params, keyed=honest.facts is not None)
    monitor = Monitor(params.health, task, honest, play)
    adapter = _adapter(project)
    made = weights_digest(read_safetensors(adapter / "adapter_model.safetensors", "adapter"))

    def validate(step: int) -> None:
        skill = 0.2 + 0.6 * step / steps
        sampled = played(task, suite.plays(), skill, f"validation {step} {params.seed}", words)
        greedy = played(task, replace(suite, draws=1).plays(), skill, f"greedy {step} {params.seed}", words)
        history.validations.append(Validation(step, sampled, greedy))
        watch.look(step, "validation", sampled)
        watch.look(step, "greedy validation", greedy)
        history.health.extend(monitor.validation(step, sampled))

    validate(0)
    for step in range(1, steps + 1):
        if step % params.validation.interval == 0 or step == steps:
            validate(step)
        items = order[(step - 1) * size : step * size]
        plays = [
            Play(
                item,
                member,
                derive_seed("rollout", params.seed, step, item.id, member),
                derive_seed("w", step, item.id),
            )
            for item in items
            for member in range(params.train.group_size)
        ]
        episodes = played(task, plays, 0.2 + 0.6 * step / steps, f"train {params.seed}")
        watch.look(step, "batch", episodes)
        row = _row(project, task, step, episodes, monitor, history)
        history.train_log.append(row)
    chosen = chosen_step(history.validations, params.claim.checkpoint_rule, steps)
    assert chosen, "a made run has an adapter that learned"
    history.train_log[chosen - 1]["digests"]["weights"] = made
    for row in history.train_log:
        chain = row["chain"] = chain_of(chain, row)
    Tables(project.root, project.params.train.steps, history, suite, task).write()
    write_jsonl(project.results("validation.jsonl"), history.validation_episodes())
    facts = TrainFacts(
        seed=params.seed,
        steps=steps,
        chosen_step=chosen,
        claim_plan_sha256=sha256_bytes(project.results("claim_plan.json").read_bytes()),
        base_digest=base,
        policy_digest=adapted_digest(base, adapter),
        validation_suite=suite.digest,
        chain=chain,
        alarms=watch.facts(),
        health=HealthSummary.of(history.health, monitor.unmeasured),
        honest=honest.facts,
        honest_play=play,
    )
    write_json(project.results("train.json"), facts)
    return facts


def _row(
    project: Project, task: Task, step: int, episodes: list[Episode], monitor: Monitor, history: History
) -> dict[str, Any]:
    """Return a row of the log as the recorder writes it, and take the step into history and monitor."""
    components = component_row(step, episodes, task)
    numbers, done = rng("trainer", project.params.seed, step).random(4), step / project.params.train.steps
    logged = {
        "step": step,
        "epoch": done,
        "loss": float(numbers[0]),
        "reward": components["mean_cumulative"],
        "reward_std": float(numbers[1]),
        "kl": 0.2 * done if project.params.train.measures_kl(step) else None,
        "grad_norm": float(numbers[3]),
        "learning_rate": learning_rates(project.params.train)[step - 1],
    }
    history.training_log.append(logged)
    history.reward_components.append(components)
    signals = replace(
        StepSignals.of(step, episodes, monitor.honest, monitor.few),
        entropy=1.0 - 0.2 * done,
        kl=logged["kl"],
        grad_norm=logged["grad_norm"],
        lost=0.0,
    )
    history.health.extend(monitor.step(signals))
    links = {link: sha256_bytes(f"{link} {step} {project.params.seed}".encode()) for link in LINKS}
    facts = {
        "step": step,
        "kl_probe": logged["kl"],
        "item_ids": sorted({e.item_id for e in episodes}),
        "digests": links,
    }
    facts |= {"components": components, "skipped": None, "lost": 0, "retries": 0, "entropy": 1.0 - 0.2 * done}
    whole, parts = monitor.heard.logged()
    facts["signals"] = signals.numbers() | whole
    facts |= {"fields": flat(signals.shares()), "window": parts}
    return facts | {name: value for name, value in logged.items() if name not in (*facts, "kl")}


def _adapter(project: Project) -> Path:
    params, folder = project.params, project.root / "models/adapter"
    folder.mkdir(parents=True)
    lora, n = params.train.lora, rng("adapter", params.seed)
    far = sum(
        learning_rates(params.train)[: params.validation.interval]
    )  # no further than the first checkpoint can be
    shapes = {"model.layers.0.self_attn.q_proj.weight": (8, 6)}
    if not isinstance(params.base, PretrainedBase):
        shapes = {
            name: shape
            for name, shape in base_shapes(params.base, 1).items()
            if name.endswith("_proj.weight")
        }
    weights = {}
    for name, (rows, columns) in shapes.items():
        module = f"base_model.model.{name.removesuffix('.weight')}"
        weights[f"{module}.lora_A.weight"] = n.uniform(-1, 1, size=(lora.r, columns)) * columns**-0.5
        weights[f"{module}.lora_B.weight"] = n.uniform(-far, far, size=(rows, lora.r))
    content = save(
        {name: array.astype(np.float32) for name, array in weights.items()}, metadata={"format": "pt"}
    )
    (folder / "adapter_model.safetensors").write_bytes(content)
    config = _with_versions(adapter_expected(params)) | {"use_rslora": False, "rank_pattern": {}}
    config |= {
        "target_modules": sorted(name.removesuffix(".weight") for name in shapes),
        "fan_in_fan_out": False,
    }
    write_json(folder / "adapter_config.json", config)
    return folder


def _after(project: Project, trained: Training) -> None:
    inputs = project.inputs("heldout", "secondary")
    heldout, secondary, base = inputs.heldout, inputs.secondary, trained.base_digest
    _arm(project, "post_eval", heldout, 0.8, trained.policy_digest, trained=True)
    _arm(project, "post_eval_greedy", replace(heldout, draws=1), 0.8, trained.policy_digest, trained=True)
    _arm(project, AGAIN, replace(heldout, sampling=SAMPLING_AGAIN), 0.2, base)
    for name, suite in secondary.items():
        _arm(project, secondary_file("post_eval", name), suite, 0.8, trained.policy_digest, trained=True)
    for suite in (heldout, *secondary.values()):
        note_opening(project.root, project.params, "pre_eval", suite, base, base=base)
        note_opening(project.root, project.params, "post_eval", suite, trained.policy_digest, base=base)
    known = opened_records(
        project.root, project.params, heldout, trained.policy_digest, base, secondary=secondary
    )
    write_json(project.results("openings.json"), known)
    if "random_reward" not in project.params.claim.controls:
        write_json(project.results("control.json"), ControlFacts(asked=False))
        return
    assert isinstance(trained, TrainFacts), "nobody can repeat for random rewards what was done elsewhere"
    paid_by_a_coin = sha256_bytes(f"coin {trained.seed}".encode())
    _arm(project, CONTROL, heldout, 0.2, paid_by_a_coin, trained=True)
    facts = ControlFacts(
        asked=True,
        base_digest=trained.base_digest,
        seed=trained.seed,
        steps=trained.steps,
        chosen_step=trained.steps,
        policy_digest=paid_by_a_coin,
        chain=paid_by_a_coin,
        health=trained.health,
    )
    write_json(project.results("control.json"), facts)
