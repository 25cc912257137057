"""Which column of somebody's file holds what: one list of known names for each meaning, and the names that
somebody gave instead.

Names are compared without regard to case, spaces, `_` and `-`. A name with dots is looked for inside nested
values where there is no column of that name: `response.body.choices.0.message.content`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from assay.core.errors import ConfigError, DataError
from assay.core.storage.yaml import read_yaml

# Columns that may hold a transcript with the completion in it.
TALKS = ("messages", "conversation", "conversations", "transcript", "dialogue", "chat", "trajectory")
Meaning = Literal[
    "item",
    "score",
    "success",
    "draw",
    "step",
    "cluster",
    "completion",
    "prompt",
    "reference",
    "tokens",
    "truncated",
    "model",
]
MEANINGS: tuple[Meaning, ...] = get_args(Meaning)
OPTION = "--columns"
# The first name of a meaning is the one that docs/judge.md has: where it is there, others do not count. A
# name in two lists belongs to the first meaning that has no other name in the file.
NAMES: Mapping[Meaning, tuple[str, ...]] = {
    "item": (
        *("item", "item_id", "id", "task_id", "problem_id", "question_id", "example_id", "doc_id"),
        *("custom_id", "sample_id", "instance_id", "prompt_id", "qid", "test_idx"),
    ),
    "score": (
        *("score", "reward", "total_reward", "acc", "acc_norm", "exact_match", "em", "f1", "f1_score"),
        *("pass@1", "bleu", "rouge_l", "rougeL", "chrf"),
    ),
    "success": (
        *("success", "passed", "pass", "solved", "correct", "is_correct", "correctness", "accuracy"),
        *("result", "resolved", "base_status", "plus_status"),
    ),
    "draw": (
        *("draw", "candidate_index", "sample", "sample_index", "repeat", "repeat_index", "epoch", "trial"),
        *("attempt", "rollout", "rollout_index", "generation_index"),
    ),
    "step": (
        *("step", "global_step", "training_step", "train_step", "training/global_step"),
        *("trainer/global_step", "_step", "update", "iteration", "iter", "global_step/max_steps"),
        *("training_iteration", "total_timesteps", "time/total_timesteps"),
    ),
    "cluster": ("cluster", "cluster_id"),
    "completion": (
        *("completion", "output_text", "output", "response", "generation", "completion_text", "solution"),
        *("response_text", "generated_text", "model_output", "model_response", "prediction"),
        *TALKS,
    ),
    "prompt": ("prompt", "question", "input", "query", "instruction", "problem", "prompt_text"),
    "reference": (
        *("reference", "target", "gold", "gts", "ground_truth", "answer", "expected", "label", "solution"),
        *("reference_answer", "gold_answer", "expected_output"),
    ),
    "tokens": (
        *("tokens", "n_tokens", "completion_tokens", "output_tokens", "tokens_out", "response_length"),
        "completion_length",
    ),
    "truncated": ("truncated", "is_truncated", "finish_reason", "stop_reason"),
    "model": ("model", "model_name", "model_id"),
}
# How an API, a framework or a log says that a completion was cut off, and that it was not; other words, and
# the ids of tokens that vLLM gives, say neither.
CUT_OFF = (
    *("length", "max_tokens", "model_length", "max_output_tokens", "max_turns", "max_input_tokens"),
    *("max_total_tokens", "compaction_failed"),
)
FINISHED = (
    *("stop", "eos", "end_turn", "stop_sequence", "tool_calls", "tool_use", "eos_token", "content_filter"),
    *("function_call", "refusal", "pause_turn"),
)
IN_ORDER = "#"  # as the column of draws: an item that is there again is its next draw
LAST = frozenset({"result", *TALKS})  # count only where no other name of their meaning is there
REPEATS = frozenset(  # words in the name of a column that may number draws, or else trainings or settings
    ("seed", "run", "rep", "repetition", "replicate", "replica", "try", "iteration", "round", "k")
)
_SIGNS = re.compile(r"[\s_-]+")
_PAIRS = re.compile(r",\s*(?=[A-Za-z_]+\s*=)")
# How pandas calls an index without a name, and what it is called once it is reset.
_INDEX = re.compile(r"(?:Unnamed: ?\d+|__index_level_\d+__)(?:\.\d+)*|")
_ENDS = (["id"], ["key"], ["name"], ["index"], ["idx"])
_WORDS = re.compile(r"[a-z0-9]+")
MOST_NAMED = 12
MOST_KEPT = 1000  # heads of rows that are remembered: rows of one file mostly share theirs


def simplify(name: str) -> str:
    """Return a name without case, spaces, `_` and `-`: what is left is what names are compared by.

    >>> simplify("Question ID") == simplify("question_id")
    True
    """
    return _SIGNS.sub("", name.casefold())


def is_index(name: object) -> bool:
    """Return whether a column is an index that has no name, which nobody meant to write.

    >>> [is_index(name) for name in ("Unnamed: 0", "__index_level_0__", "", "index", "unnamed")]
    [True, True, True, False, False]
    """
    return _INDEX.fullmatch(str(name)) is not None


def is_cut_off(ending: object) -> bool | None:
    """Return whether a completion that ended so was cut off; None for an ending that does not say.

    >>> is_cut_off("MAX_TOKENS"), is_cut_off("stop"), is_cut_off(128009)
    (True, False, None)
    """
    word = ending.casefold() if isinstance(ending, str) else ""
    return True if word in CUT_OFF else False if word in FINISHED else None


def list_names(names: Iterable[object]) -> str:
    """Return names for a message, the first of many.

    >>> list_names(["a", "b"])
    'a, b'
    """
    told = [str(name)[:60] for name in names]
    more = f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
    return (", ".join(told[:MOST_NAMED]) or "none") + more


def look_up(row: Mapping[str, Any], name: str) -> Any:
    """Return what a row holds under a column's name, or inside its nested values; None where it has none.

    >>> look_up({"response": {"choices": [{"text": "4"}]}}, "response.choices.0.text")
    '4'
    """
    if name in row:
        return row[name]
    value: Any = row
    for step in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def read_step(value: object) -> int | None:
    """Return a step from 3, 3.0, "3" or "3/60"; None for what is none.

    >>> read_step("3/60"), read_step(4.0), read_step("x")
    (3, 4, None)
    """
    text = str(value).partition("/")[0].strip() if isinstance(value, str) else value
    if isinstance(text, bool) or not isinstance(text, int | float | str):
        return None
    try:
        number = float(text)
    except (ValueError, OverflowError):
        return None
    return int(number) if 0 <= number <= 1 << 53 and number == int(number) else None


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that somebody named by their meaning; where none is, known names do."""

    named: Mapping[Meaning, str] = field(default_factory=dict)
    first: Mapping[Meaning, tuple[str, ...]] = field(default_factory=dict)  # as the first row has them
    _kept: dict[tuple[str, ...], dict[Meaning, tuple[str, ...]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def read(cls, text: str | Mapping[str, str] | Columns | None) -> Columns:
        """Return what --columns says: MEANING=COLUMN,..., a YAML file of them, or a mapping; none where it is
        not given. What was read already is returned as it is.

        >>> Columns.read("item=task_id, reward=exact_match,flexible-extract").named
        {'item': 'task_id', 'score': 'exact_match,flexible-extract'}

        Raises:
            ConfigError: It is neither, names a meaning that there is not, or one twice.
        """
        if text is None or isinstance(text, Columns):
            return text or cls()
        fix = f"{OPTION} item=task_id,score=passed or {OPTION} names.yaml; meanings: {', '.join(MEANINGS)}"
        if isinstance(text, Mapping):
            pairs = list(text.items())
        elif os.path.isfile(text):  # also of a folder with `=` in its name; Path refuses what is too long
            pairs = list(read_yaml(Path(text), fix=fix).items())
        elif "=" in text:
            pairs = [(each.partition("=")[0], each.partition("=")[2]) for each in _PAIRS.split(text)]
        else:
            expected = "MEANING=COLUMN,..., or a YAML file of them"
            raise ConfigError(expected, found=repr(text), where=OPTION, fix=fix)
        named: dict[Meaning, str] = {}
        for word, name in pairs:
            meaning = _meaning_of(str(word))
            if meaning is None or meaning in named or not isinstance(name, str) or not name.strip():
                expected = "each meaning once, with a column"
                raise ConfigError(expected, found=f"{word}={name}", where=OPTION, fix=fix)
            named[meaning] = name.strip()
        return cls(named)

    def settled(self, row: Mapping[str, Any], *meanings: Meaning) -> Columns:
        """Return the same for the rest of a file, with these meanings where its first row has them."""
        there = self.candidates(row)
        return Columns(self.named, {meaning: there[meaning] for meaning in meanings if there[meaning]})

    def candidates(self, row: Mapping[str, Any]) -> Mapping[Meaning, tuple[str, ...]]:
        """Return by meaning the columns of a row that may hold it: the one that was named for it, or else all
        of known names, the documented one alone where it is there."""
        head = tuple(row)
        found = self._kept.get(head)
        if found is None:
            found = self._search(head)
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[head] = found
        return found

    def find(self, meaning: Meaning, row: Mapping[str, Any], where: str) -> str | None:
        """Return the column that holds what is meant; None where no known name is there.

        Raises:
            DataError: Several known names are there and nobody says which one, or the named one is not.
        """
        found = self.candidates(row).get(meaning, ())
        if not found and self.named.get(meaning, IN_ORDER) != IN_ORDER:
            fix = f"{OPTION} {meaning}=NAME with one that is there"
            raise DataError(f"the column {self.named[meaning]}", found=list_names(row), where=where, fix=fix)
        if len(found) > 1:
            fix = " or ".join(_option(f"{meaning}={name}") for name in found[:3])
            raise DataError(f"one column as {meaning}", found=list_names(found), where=where, fix=fix)
        return found[0] if found else None

    def value(self, meaning: Meaning, row: Mapping[str, Any], where: str) -> Any:
        """Return what a row holds of a meaning; None where it holds nothing.

        Raises:
            DataError: As `find`.
        """
        name = self.find(meaning, row, where)
        return None if name is None else look_up(row, name)

    def beside(self, meaning: Meaning, row: Mapping[str, Any]) -> Any:
        """Return what a row holds of a meaning that nothing depends on: None also where several known names
        are there, which `unsure` says."""
        found = self.candidates(row).get(meaning, ())
        return look_up(row, found[0]) if len(found) == 1 else None

    def unsure(self, row: Mapping[str, Any]) -> str:
        """Return which meanings several columns of a row have, none of which is read; "" for none."""
        told = [(meaning, names) for meaning, names in self.candidates(row).items() if len(names) > 1]
        return "; ".join(f"{' and '.join(names)} may be the {meaning}" for meaning, names in told)

    def missing(self, lacking: Sequence[Sequence[Meaning]], row: Mapping[str, Any], where: str) -> DataError:
        """Return the error of a row that lacks a column of each of these meanings, or of one of several: the
        columns it has, and the option that would name what is lacking."""
        expected = " and ".join(f"a column for the {' or '.join(meanings)}" for meanings in lacking)
        guesses = [[pair for m in meanings if (pair := _guess(m, row))] for meanings in lacking]
        if len(lacking) == 1 and guesses[0]:
            fix = " or ".join(map(_option, guesses[0])) + ", if that is it"
        else:
            pairs = [(*told, f"{m[0]}=NAME")[0] for told, m in zip(guesses, lacking, strict=True)]
            fix = _option(",".join(pairs)) + (", if that is it" if all(guesses) else " with a name of these")
        shown = [name for name in row if not is_index(name) or str(name) in fix]
        found = f"the columns {list_names(shown)}"
        return DataError(expected, found=found, where=where, fix=fix)

    def fix_repeated(self, row: Mapping[str, Any]) -> str:
        """Return what to do about an item that is there again without the number of its draw."""
        names = [str(each) for each in row if REPEATS & set(_WORDS.findall(str(each).casefold()))]
        told = "".join(
            f"{_option(f'draw={each}')} if it numbers draws of one model; or " for each in names[:1]
        )
        return (
            f"{told}leave out what is there twice; or number the draws of an item in a column draw, from 0;"
            f" or {OPTION} draw={IN_ORDER} if each is one more draw"
        )

    def text(self) -> str:
        """Return the columns that were named as the YAML that `read` takes."""
        return "".join(f"{meaning}: {json.dumps(name)}\n" for meaning, name in self.named.items())

    @property
    def listed(self) -> str:
        """The columns that were named, as the option takes them."""
        return ",".join(f"{meaning}={name}" for meaning, name in self.named.items())

    def chosen(self, row: Mapping[str, Any]) -> Columns:
        """Return which columns of a row are read under other names than the documented ones."""
        pairs = [(meaning, names) for meaning, names in self.candidates(row).items() if len(names) == 1]
        return Columns({meaning: names[0] for meaning, names in pairs if names[0] != meaning})

    def _search(self, head: tuple[str, ...]) -> dict[Meaning, tuple[str, ...]]:
        taken = set(self.named.values())
        plain: dict[str, list[str]] = {}
        for name in head:
            plain.setdefault(simplify(str(name)), []).append(str(name))
        found: dict[Meaning, tuple[str, ...]] = {}
        for meaning in MEANINGS:
            if meaning in self.first:
                found[meaning] = _present(self.first[meaning], head, plain)
                continue
            if (asked := self.named.get(meaning)) is not None:
                found[meaning] = () if asked == IN_ORDER else _present((asked,), head, plain)
                continue
            here = [name for name in _present(NAMES[meaning], head, plain) if name not in taken]
            here = [name for name in here if simplify(name) not in LAST] or here
            found[meaning] = tuple(here[:1] if here and simplify(here[0]) == meaning else here)
        return _settled(found, {*self.named, *self.first})


def _present(names: Sequence[str], head: Sequence[str], plain: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Return those of these names that a head has; a name with dots is there if its first part is."""
    here: dict[str, None] = {}
    for name in names:
        if name in head:
            here[name] = None
        elif simplify(name) in plain:
            here.update(dict.fromkeys(plain[simplify(name)]))
        elif "." in name and name.partition(".")[0] in head:
            here[name] = None
    return tuple(here)


def _settled(found: dict[Meaning, tuple[str, ...]], sure: Set[Meaning]) -> dict[Meaning, tuple[str, ...]]:
    """Give a name that has two meanings to the first of them that has no other name here."""
    used = dict[str, Meaning]()
    for meaning, names in found.items():
        if meaning in sure:
            continue
        own = [
            name
            for name in names
            if sum(name in others for others in found.values()) == 1 or (len(names) == 1 and name not in used)
        ]
        for name in own:
            used[name] = meaning
        found[meaning] = tuple(own)
    return found


def _option(pairs: str) -> str:
    return f"{OPTION} {shlex.quote(pairs)}"


def _meaning_of(word: str) -> Meaning | None:
    plain = simplify(word)
    for meaning in MEANINGS:
        if plain == meaning or plain in map(simplify, NAMES[meaning]):
            return meaning
    return None


def _guess(meaning: Meaning, row: Mapping[str, Any]) -> str | None:
    """Return a pair that may be meant: a column whose name has a known one as a word; of the item also one
    that ends as ids do, or the prompt, and the number of the row where there is nothing else."""
    numbers = [str(name) for name in row if is_index(name) or simplify(str(name)) == "index"]
    names = [str(name) for name in row if str(name) not in numbers]
    guesses = [name for name in names if _sounds_like(meaning, name)]
    if meaning == "item":
        guesses += [name for name in names if _WORDS.findall(name.casefold())[-1:] in _ENDS]
        guesses += [name for name in names if simplify(name) in map(simplify, NAMES["prompt"])]
        guesses += numbers
    return f"{meaning}={guesses[0]}" if guesses else None


def _sounds_like(meaning: Meaning, name: str) -> bool:
    known = {simplify(each) for each in NAMES[meaning] if "." not in each and len(each) > 2}
    return bool(known & set(_WORDS.findall(name.casefold())))
