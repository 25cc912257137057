"""The files of evidence/, each named here and nowhere else: what a stage writes lies in the folder of that
stage.

Names are unique over all folders, so a file that was copied away still says what it is.
"""

from __future__ import annotations

import os
from pathlib import Path

RESULTS, LOGS, OBSERVED = "evidence/results", "evidence/logs", "evidence/observed"
NAMED_DATA = "named_data.json"
# Folder → file → what it is, as the landing page says it.
FILES: dict[str, dict[str, str]] = {
    f"{RESULTS}/report": {
        "report.html": "the whole report as one page without a network: download it and open it in a browser",
        "summary.md": "verdict and main tables as Markdown",
        "sample_trajectories.md": "episodes before and after, side by side, chosen by rule",
        "figures": "every figure, PNG and SVG",
        "claim.json": "the claim: verdict, numbers, intervals, p, controls, warnings",
        "metrics.json": "the few numbers that `dvc metrics` shows",
        "before_after_metrics.json": (
            "every measure before and after, and the paired difference, each with its interval"
        ),
        "reports.json": "every measure of every arm and of the scripted players, by stratum too",
        "scripted": (
            "every episode of the scripted players (`policy` says which), a gzip of JSON lines for each suite"
        ),
        "details.json": (
            "beside the claim: success in k draws, who answered, what collapsed, gain by difficulty, items"
            " that broke"
        ),
        "plan_power.json": "the smallest gain that could be found, planned from the base's own draws",
        "plots": "what `dvc plots` draws: rates, differences, rewards, and checkpoints with their intervals",
    },
    f"{RESULTS}/data": {
        "fingerprint.json": "digests and counts of the data",
        "audit.json": "what the audit found in the data",
        "contamination.json": "what the splits share that they should not",
        "claim_plan.json": "what was to be called an improvement, fixed before training",
    },
    f"{RESULTS}/base": {
        "base.json": "which base: how it was built, or which revision of which model; its digest",
        "sft.csv": "loss of every step of its supervised fine-tuning",
    },
    f"{RESULTS}/pre_eval": {
        "pre_eval.jsonl": "every held-out episode of the base, sampled, one a line",
        "pre_eval_greedy.jsonl": "the same with greedy decoding",
        "pre_eval_secondary": "every episode of the base on the secondary suites, a file a suite",
        "rival_few_shot.jsonl": "the same with examples from train in the prompt",
        "rival_best_of_n.jsonl": "the same, drawn again where a draw was not valid",
        "rival_constrained.jsonl": "the same under decoding that follows the record's JSON schema",
        "rival_more_sft.jsonl": "the same of the base after further supervised fine-tuning",
        "rivals.json": "what became of those three: examples, draws, tokens, and why one did not play",
    },
    f"{RESULTS}/train": {
        "train.json": "the training in short: seed, steps, chosen checkpoint, alarms, digest of every step",
        "health.jsonl": "alarms of the training",
        "training_log.csv": "reward, loss, KL and more of every optimizer step",
        "reward_components.csv": "reward parts and rates of every step",
        "checkpoint_evals.csv": "the validation suite at every checkpoint",
        "validation_scores.csv": "what every episode of every validation came to, one a row",
        "fields.csv": (
            "how often each field of an answer said nothing, one and the same, and what is right, beside the"
            " golds"
        ),
    },
    # Large, so in DVC's cache and not in git.
    f"{LOGS}/train": {
        "train_log.jsonl": (
            "all the trainer knows of every step (not in git: `./run repro` makes it, the package holds it)"
        ),
        "validation.jsonl": "every episode of every validation (not in git, as the last one)",
    },
    f"{RESULTS}/control": {
        "control.json": "the control training for random rewards, where the plan asks for one",
        "control_eval.jsonl": "every held-out episode of that policy",
    },
    f"{RESULTS}/post_eval": {
        "post_eval.jsonl": "every held-out episode of the chosen checkpoint, sampled, one a line",
        "post_eval_greedy.jsonl": "the same with greedy decoding",
        "post_eval_secondary": (
            "every episode of the chosen checkpoint on the secondary suites, a file a suite"
        ),
        "openings.json": "every other policy that saw these held-out records before, and which try this is",
        "base_again.jsonl": (
            "every held-out episode of the base after the training, with other sampling seeds"
        ),
        NAMED_DATA: "what the data that an external training saw share with those here, as far as named",
    },
}
OBSERVED_FILES = {
    "manifest.json": "who trained what on what: commit, packages, hardware, allowed environment",
    "heldout_openings.json": "every policy that was let loose on a held-out suite here, and how often",
    "run_log.jsonl": "events of the training with their times",
    "training_clock.csv": "where the seconds of every step went, tokens a second, memory",
    "training_clock.json": "the same in short, with intervals",
    "provenance.json": "who packaged what when, at which commit, on what: a statement about the archive",
}
FOLDERS = {name: folder for folder, names in FILES.items() for name in names}


def place_of(name: str) -> str:
    """Return the path of a file of evidence/results/ or evidence/logs/, relative to the project.

    Args:
        name: Of the file; of what lies in a folder of it, such as `figures`, with that folder before it.

    Raises:
        KeyError: No stage writes such a file.

    >>> place_of("claim.json"), place_of("plots/rates.csv")
    ('evidence/results/report/claim.json', 'evidence/results/report/plots/rates.csv')
    """
    return f"{FOLDERS[name.split('/')[0]]}/{name}"


def folder_of(stage: str) -> str:
    """Return the folder of evidence/results/ that a stage writes.

    >>> folder_of("train")
    'evidence/results/train'
    """
    return f"{RESULTS}/{stage}"


def scratch_of(root: Path) -> Path:
    """Return the folder of everything that a project keeps for later calls.

    Under DVC that of the repository it was called in: `dvc exp run --temp` and the queue run stages in a copy
    that is thrown away, and name the repository in DVC_ROOT.
    """
    return Path(os.environ.get("DVC_ROOT") or root) / ".scratch"
