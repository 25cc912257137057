"""What measures, players, suites, rules and files are called where people read of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Whatever is not among them is said with blanks, and without what only its name needs.
LABELS = {
    "base_again": "base again",
    "best_of_n": "best of n",
    "best_validation_reward": "highest validation reward",
    "control_eval": "random rewards",
    "few_shot": "few-shot prompt",
    "grad_norm": "gradient norm",
    "heldout": "held-out",
    "heldout_ood": "other distribution",
    "kl": "KL",
    "mean_cumulative": "whole reward",
    "mean_n_steps": "turns",
    "more_sft": "more SFT",
    "n_steps": "turns",
    "post_eval": "after",
    "pre_eval": "before",
    "reward_std": "sd of reward",
    "rivals": "baselines",
}
LOWER_IS_BETTER = frozenset({"false_claim_rate", "truncated_rate"})
# What has an order of its own; else numbers come by size, and names by the alphabet.
_ORDER = {
    word: k
    for k, word in enumerate(
        ("none", "tiny", "easy", "small", "low", "short", "medium", "hard", "large", "high", "long")
    )
}
# A name as code writes it; no path, file, setting, option or call.
_NAME = re.compile(r"(?<![\w./=\-`])(?:metric\.)?[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w/(`=]|[.-]\w)")


def labelled(name: str) -> str:
    """Return what a name is called.

    >>> [labelled(name) for name in ("mass_correct_rate", "metric.field_f1", "mean_reward", "heldout_ood")]
    ['mass correct', 'field f1', 'mean reward', 'other distribution']
    """
    short = name.removeprefix("metric.")
    return LABELS.get(short) or re.sub(r"_(rate|acc)$", "", short).replace("_", " ")


def in_order(values: Iterable[str]) -> list[str]:
    """Return values of a stratum, each perhaps behind its label and `=`, as a reader expects them.

    >>> in_order(["tier=hard", "tier=easy", "kind=b", "tier=medium", "size=10", "size=9"])
    ['kind=b', 'size=9', 'size=10', 'tier=easy', 'tier=medium', 'tier=hard']
    """

    def place(value: str) -> tuple[str, int, float, str]:
        name, _, own = value.rpartition("=")
        number = float(own) if re.fullmatch(r"-?\d+(\.\d+)?", own) else 0.0
        return name, _ORDER.get(own, len(_ORDER)), number, own

    return sorted(values, key=place)


def with_labels(text: str) -> str:
    """Return a text in which names are called what they are called; paths, files and settings stay.

    >>> with_labels("parsed_rate, best_of_n: see pre_eval.jsonl, tasks/own_task and evaluation.few_shot.")
    'parsed, best of n: see pre_eval.jsonl, tasks/own_task and evaluation.few_shot.'
    """
    return _NAME.sub(lambda found: labelled(found[0]), text)
