"""Under which conditions results came about: what was measured, and how the model was asked, as the files of
each tool say it.

A value is the text of a setting. A setting that a file has no value for is not set, where the tool writes all
that are set (`says`), and not known elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

from assay.rollout.tables.columns import simplify
from assay.verdict.judge.contents import text_of
from assay.verdict.judge.sources import WORDS, is_number

# Results that differ in one of these do not measure the same.
ANSWERS = "answers of one score"
MEASURED = (
    *("metric", "filter", "scorer", "scorer options", "grader", "task version"),
    *("dataset", "dataset version", "split", ANSWERS),
)
# Which way a score is better, where a file says so or its name does.
DIRECTION, HIGHER, LOWER = "direction", "higher is better", "lower is better"
ERRORS = frozenset(
    map(
        simplify,
        (
            *("wer", "cer", "ter", "mer", "loss", "nll", "error", "error_rate", "brier", "brier_score"),
            *("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "mae", "mse", "rmse"),
            *("edit_distance", "edit_dist", "levenshtein_distance", "levenshtein", "calibration_error"),
            *("ece", "ppl", "errors", "n_errors", "num_errors", "error_count", "mistakes", "n_mistakes"),
            *("wrong", "is_wrong", "incorrect", "is_incorrect", "failed", "is_failed", "n_failed", "failure"),
            "failures",
            *("failure_rate", "fail_rate", "hallucination", "hallucinated", "hallucination_rate", "toxicity"),
            *("toxic", "violation", "violations", "violation_rate", "regret", "cost", "latency", "unsafe"),
            *("harmful", "harmfulness", "distance"),
        ),
    )
)
# How the model was asked; more of it by the names that tools have.
SYSTEM, EXAMPLES, TEMPLATE = "system message", "examples", "chat template"
IN_PROMPT = (SYSTEM, EXAMPLES, TEMPLATE)
ASKED = (*IN_PROMPT, "temperature", "top_p", "top_k", "max_tokens", "stop")
LIMITS = ("max_tokens", "token_limit", "message_limit", "time_limit", "working_limit", "max_length")
NOT_SET = "not set"
ITSELF = "the model itself"  # as a grader
EVERY = "*"  # among what a file says: whatever else its tool would write
LONGEST = 80  # characters of a value; of a longer one the beginning and its digest
MOST_VALUES = 4  # of one column: more are a value of each row, and none of the file
# Who or what scores, and what of it is an option that changes scores: judge_version, rubric_template …
_SCORES = (
    *("judge", "grader", "scorer", "evaluator", "verifier", "autorater", "rubric", "metric", "extractor"),
    *("extraction", "parser", "checker", "grading", "scoring"),
)
_OPTIONS = (
    *("version", "revision", "commit", "hash", "sha", "sha256", "prompt", "prompt_id", "prompt_version"),
    *("template", "instructions", "config", "options", "args", "kwargs", "settings", "system_prompt"),
    *("temperature", "threshold", "tolerance", "mode", "regex", "pattern", "criteria", "rubric"),
)
# What columns and settings of other tools are called, by what they say; names are compared as columns are.
NAMES: Mapping[str, tuple[str, ...]] = {
    "metric": ("metric", "metric_name", "measure"),
    "filter": (
        *("filter", "filter_name", "answer_filter", "extraction_method", "answer_extraction", "extractor"),
        *("answer_parser", "answer_extractor", "answer_regex", "answer_pattern"),
    ),
    "scorer": (
        *("scorer", "scorer_name", "scoring", "scoring_method", "evaluator", "grading_method", "rubric"),
        *("verifier", "verifier_name", "checker", "reward_function", "reward_fn", "reward_func"),
    ),
    "scorer options": (
        *("threshold", "tolerance", "case_sensitive", "normalization", "criteria", "pass_threshold"),
        *("pass_mark", "passing_score", "strictness"),
        *(f"{who}_{what}" for who in _SCORES for what in _OPTIONS),
    ),
    "grader": (
        *("grader", "judge", "autorater", "llm_judge", "judge_llm", "reward_model", "reward_model_name"),
        *("graded_by", "judged_by", "scored_by", "evaluated_by", "verified_by", "checked_by"),
        *("grader_name", "judge_name"),
        *(f"{who}_{what}" for who in _SCORES for what in ("model", "model_name", "model_id", "llm")),
    ),
    "task version": ("task_version", "benchmark_version", "eval_version", "env_version"),
    "dataset": ("dataset", "dataset_name", "dataset_path", "benchmark"),
    "dataset version": ("dataset_version", "dataset_revision", "dataset_sha256"),
    "split": ("split", "dataset_split", "data_split"),
    ANSWERS: (
        *("best_of", "best_of_n", "n_samples", "num_samples", "num_return_sequences", "num_generations"),
        *("n_completions", "num_completions", "num_choices", "n_candidates", "num_candidates", "pass_at"),
        *("num_return", "n_votes", "num_votes", "samples_per_item", "votes"),
    ),
    SYSTEM: ("system_message", "system_prompt", "system_instruction", "system"),
    EXAMPLES: (
        *("num_fewshot", "num_few_shot", "n_shot", "n_shots", "num_shots", "shots", "few_shot", "fewshot"),
        *("k_shot", "fewshot_k"),
    ),
    TEMPLATE: (
        *("chat_template", "apply_chat_template", "prompt_template", "chat_template_sha", "prompt_version"),
        *("prompt_name", "eval_prompt"),
    ),
    "temperature": ("temperature", "temp", "sampling_temperature"),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "min_p": ("min_p",),
    "max_tokens": (
        *("max_tokens", "max_new_tokens", "max_completion_tokens", "max_gen_toks", "max_output_tokens"),
        *("max_tokens_to_sample", "max_gen_tokens"),
    ),
    "stop": ("stop", "stop_sequences", "stop_seqs", "until"),
    "seed": ("seed", "sampling_seed", "random_seed"),
    "reasoning effort": ("reasoning_effort", "enable_thinking", "thinking", "thinking_budget"),
}
_MEANS = {simplify(name): what for what, names in NAMES.items() for name in names}
# Where rows keep such settings.
INSIDE = (
    *("metadata", "config", "settings", "params", "parameters", "sampling_params", "sampling_args"),
    *("generation_config", "generation_kwargs", "gen_kwargs", "model_args", "eval_config"),
)
_INSIDE = frozenset(map(simplify, INSIDE))
# Names of scores that say nothing of what was measured, and such as are said in two ways.
PLAIN = frozenset(
    map(
        simplify,
        (
            *("score", "reward", "total_reward", "success", "passed", "pass", "solved", "correct"),
            *("is_correct", "correctness", "result", "resolved", "value", "ok", "is_success"),
        ),
    )
)
_SAME = {"em": "exact_match", "exactmatch": "exact_match", "accuracy": "acc", "f1score": "f1"}
# A score of so many answers, as its metric or its filter is called: pass@8, maj@k, best_of_4, cons@64.
_OF_MANY = re.compile(
    r"\b(?:pass|maj|majority|best|cons|consensus|any|oracle|vote|sc|self[_ -]?consistency|max|top)"
    r"(?:[@^]|[_ -]?(?:at|of)[_ -]?)(\d+|k|n)\b",
    re.IGNORECASE,
)
_GRADES = ("grader", "judge", "scorer", "metric", "rubric", "score", "autorater")


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a file says of how its results came about.

    `items` is how many its task has, played or not; `made` the day on which they were made.
    """

    measured: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)
    says: frozenset[str] = frozenset()
    items: int | None = None
    made: str | None = None
    model: str | None = None
    task: str | None = None

    def with_metric(self, metric: str | None, answers: int) -> Self:
        """Return the same with the score that was read, and of how many answers it is one; 0: not known."""
        measured = dict(self.measured)
        if metric is not None and simplify(metric) not in PLAIN:
            measured.setdefault("metric", _SAME.get(simplify(metric), metric))
        named = max((_of_many(measured.get(name, "")) for name in ("metric", "filter", "scorer")), default=0)
        if (most := max(answers, named)) and ANSWERS not in measured:
            measured[ANSWERS] = str(most)
        return replace(self, measured=measured)


def _of_many(name: str) -> int:
    """Return of how many answers a score of this name is one; 0 where it does not say, 2 for an open k.

    >>> [_of_many(name) for name in ("pass@8", "maj@k", "pass@1", "best-of-16", "exact_match")]
    [8, 2, 1, 16, 0]
    """
    found = _OF_MANY.search(name.replace("_", "-"))
    return 0 if found is None else int(found[1]) if found[1].isdecimal() else 2


def told(value: object) -> str | None:
    """Return a setting as text, a number as the shortest that is equal; None for none.

    >>> told(0.0), told("0"), told("  "), told(["a"]), told(True), told("True")
    ('0', '0', None, '["a"]', 'true', 'true')
    """
    if value is None or value in ("", [], {}):
        return None
    if isinstance(value, bool) or value in ("True", "False"):
        return str(value).lower()
    text = f"{value:.12g}" if isinstance(value, float) else text_of(value).strip()
    if re.fullmatch(r"[+-]?\d+\.\d*", text):
        text = f"{float(text):.12g}"
    if len(text) > LONGEST:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        text = f"{' '.join(text[:LONGEST].split())} … (sha256 {digest})"
    return text or None


def settings_of(*sources: object) -> dict[str, str]:
    """Return the settings that are set, by the names that assay knows or else by their own; of one that is
    set twice the last."""
    found = dict[str, str]()
    for source in sources:
        for name, value in source.items() if isinstance(source, Mapping) else ():
            if (text := told(value)) is not None:
                found[_MEANS.get(simplify(str(name)), str(name))] = text
    return found


def sorted_out(found: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return of settings those that say what was measured, and those of how the model was asked.

    One whose name speaks of a grader, a judge or a score is of the first kind, as arguments of tasks are.
    """
    measured = {
        name: value
        for name, value in found.items()
        if name in MEASURED or any(each in simplify(name) for each in _GRADES)
    }
    return measured, {name: value for name, value in found.items() if name not in measured}


class RowConditions:
    """Gathers what the rows of a file say in columns of known names, or in settings that they hold."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, set[str]]] = {}  # by what it says, by task
        self._first: dict[str, tuple[str, ...]] = {}  # by what it says the column that says so first
        self._heads: dict[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]] = {}
        self._several = set[str]()

    def add(self, row: Mapping[str, Any], task: str, taken: Iterable[str]) -> None:
        """Take up a row of a task; `taken` are columns that hold something else."""
        head = tuple(row)
        places = self._heads.get(head)
        if places is None:
            places = self._heads[head] = tuple(sorted(_search(row, frozenset(taken)), key=_rank))
        for what, way in places:
            value: Any = row
            for name in way:
                value = value.get(name) if isinstance(value, Mapping) else None
            if way != self._first.setdefault(what, way):
                what = f"{what}: {'.'.join(way)}"  # a column more says more, and nothing else than the first
            if what in self._several or (text := told(value)) is None:
                continue
            if what.partition(":")[0] in ("grader", "scorer", "filter") and (
                text.casefold() in WORDS or is_number(text)
            ):
                self._several.add(what)  # its verdict, not who it is
                continue
            values = self._found.setdefault(what, {}).setdefault(task, set())
            values.add(text)
            if len(values) > MOST_VALUES:
                self._several.add(what)

    def found(self) -> dict[str, str]:
        """Return what was found: one value, or those of each task where they differ."""
        said = dict[str, str]()
        for what, by_task in self._found.items():
            if what in self._several:
                continue
            values = {task: " and ".join(sorted(each)) for task, each in sorted(by_task.items())}
            same = set(values.values())
            said[what] = (
                same.pop() if len(same) == 1 else "; ".join(f"{k}: {value}" for k, value in values.items())
            )
        return said


def _search(row: Mapping[str, Any], taken: frozenset[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield where a row says which setting, as the names on the way to it: judge_model, settings.judge_model
    and judge.model are one."""
    for outer, value in row.items():
        if outer in taken:
            continue
        if not isinstance(value, Mapping):
            if (what := _MEANS.get(simplify(str(outer)))) is not None:
                yield what, (outer,)
        elif simplify(str(outer)) in _INSIDE:
            yield from ((what, (outer, *way)) for what, way in _search(value, frozenset()))
        else:
            for name in value:
                if (what := _MEANS.get(simplify(f"{outer}_{name}"))) is not None:
                    yield what, (outer, name)


def _rank(place: tuple[str, tuple[str, ...]]) -> tuple[str, int, tuple[str, ...]]:
    """Return by what columns that say the same thing are put in order: the names that assay knows first."""
    what, way = place
    names = [*map(simplify, NAMES[what])]
    known = [names.index(name) for k in range(len(way)) if (name := simplify("_".join(way[k:]))) in names]
    return what, min(known, default=len(names)), way


def of_inspect(head: Mapping[str, Any], scorer: str | None) -> Conditions:
    """Return what the head of a log of inspect says, of one of its scorers."""
    about, plan = _mapping(head.get("eval")), _mapping(head.get("plan"))
    config = _mapping(about.get("config"))
    steps = [each for each in plan.get("steps") or () if isinstance(each, Mapping)]
    systems = [
        _mapping(each.get("params")).get("template")
        for each in steps
        if "system_message" in text_of(each.get("solver"))
    ]
    args_measured, args_asked = sorted_out(settings_of(about.get("task_args")))
    asked = settings_of(about.get("model_generate_config"), plan.get("config"))
    if systems:
        asked[SYSTEM] = told("\n".join(map(text_of, (*filter(None, [asked.get(SYSTEM)]), *systems)))) or ""
    asked |= {f"task argument {name}": value for name, value in args_asked.items()}
    asked |= {name: text for name in LIMITS if (text := told(config.get(name))) is not None}
    solvers = [[each.get("solver"), each.get("params") or {}] for each in steps]
    if (text := told(solvers)) is not None:
        asked["solver"] = text
    roles = {name: _model_of(each) for name, each in _mapping(about.get("model_roles")).items()}
    if (text := told({name: each for name, each in roles.items() if name != "grader"})) is not None:
        asked["model roles"] = text
    packages = _mapping(about.get("packages"))
    if (text := told(packages.get("inspect_ai"))) is not None:
        asked["version of inspect"] = text
    measured = {f"task argument {name}": value for name, value in args_measured.items()}
    measured |= _scorer_of(about, scorer, roles)
    used = {*_mapping(_mapping(head.get("stats")).get("model_usage"))} - {about.get("model")}
    if used:  # by a scorer that asks a model of its own choice, or by a solver
        by_scorer = "grader" not in measured and measured.get("scorer", "") not in _BY_RULE
        (measured if by_scorer else asked)["other models used"] = ", ".join(sorted(map(str, used)))
    data = _mapping(about.get("dataset"))
    for name, value in (("task version", about.get("task_version")), ("dataset", data.get("name"))):
        if (text := told(value)) is not None:
            measured[name] = text
    if int(asked.get("num_choices", asked.get(ANSWERS, "1")) or 1) > 1:
        measured[ANSWERS] = asked.pop(ANSWERS, asked.pop("num_choices", "1"))
    asked.pop(ANSWERS, None)
    items = data.get("samples")
    return Conditions(
        measured,
        asked,
        frozenset({EVERY, *MEASURED[:6], *ASKED} - {"scorer"}),
        items if isinstance(items, int) else None,
        _day_in(about.get("created")),
        _with_adapter(about.get("model"), about.get("model_args")),
    )


def _scorer_of(about: Mapping[str, Any], scorer: str | None, roles: Mapping[str, object]) -> dict[str, str]:
    scorers = [each for each in about.get("scorers") or () if isinstance(each, Mapping)]
    name, _, key = (scorer or "").partition(".")
    names = [text_of(each.get("name")) for each in scorers]
    if scorer in names:
        name, key = scorer or "", ""
    found = next((each for each in scorers if name == each.get("name")), None)
    found = scorers[0] if found is None and not name and len(scorers) == 1 else found
    if found is None:
        return {"metric": scorer} if scorer else {}
    options = dict(_mapping(found.get("options")))
    model = options.pop("model", None)
    called = text_of(found.get("name"))
    if model is None and called.rpartition("/")[2] not in _BY_RULE:
        model = roles.get(text_of(options.get("model_role") or "grader"))
    if model is None and "model_graded" in called:
        model = f"{ITSELF} ({text_of(about.get('model'))})"
    said = {"scorer": called, "scorer options": told(options), "grader": told(model), "metric": key}
    return {name: text for name, text in said.items() if text}


# Scorers of inspect that ask no model, whatever roles there are.
_BY_RULE = frozenset({"match", "includes", "pattern", "answer", "choice", "f1", "exact", "math"})


def _model_of(value: object) -> object:
    """Return what a role is played by: its name, and how it is sampled if that is set."""
    if not isinstance(value, Mapping):
        return value
    config = {k: v for k, v in _mapping(value.get("config")).items() if v is not None}
    more = {"config": config, "args": value.get("args")}
    kept = {name: each for name, each in more.items() if each}
    return {"model": value.get("model"), **kept} if kept else value.get("model")


def of_lm_eval(
    row: Mapping[str, Any], metric: str, task: str | None, beside: Mapping[str, Any] | None
) -> Conditions:
    """Return what a row of lm-eval's samples says, and the results beside them, where they are."""
    arguments = row.get("arguments")
    first = arguments.get("gen_args_0") if isinstance(arguments, Mapping) else None
    given = first.get("arg_1") if isinstance(first, Mapping) else None
    if first is None and isinstance(arguments, list) and arguments and isinstance(arguments[0], list):
        given = arguments[0][-1]
    asked, says = settings_of(given), {"metric", "filter"}
    if isinstance(given, Mapping):
        says |= {"temperature", "top_p", "top_k", "max_tokens", "stop"}
    measured = {"metric": metric, "filter": told(row.get("filter")) or "none"}
    if beside is None:
        return Conditions(measured, asked, frozenset(says), task=task)
    config, names = _mapping(beside.get("config")), _mapping(beside.get("configs"))
    about = _mapping(names.get(task or ""))
    asked = settings_of(about.get("generation_kwargs"), config.get("gen_kwargs"), given)
    shots = _mapping(beside.get("n-shot")).get(task or "")
    asked |= settings_of(
        {
            "num_fewshot": about.get("num_fewshot") if shots is None else shots,
            "system_message": beside.get("system_instruction"),
            "chat_template": beside.get("chat_template_sha") or beside.get("chat_template"),
            "max_length": beside.get("max_length"),
            "description": about.get("description"),
            "examples as turns": beside.get("fewshot_as_multiturn") or None,
            "version of lm_eval": beside.get("lm_eval_version"),
        }
    )
    if asked.get(EXAMPLES, "0") != "0":
        asked |= settings_of({"seed of examples": config.get("fewshot_seed")})
    kept = [f for f in about.get("filter_list") or () if _mapping(f).get("name") == row.get("filter")]
    options = {
        name: value
        for each in about.get("metric_list") or ()
        if _mapping(each).get("metric") == metric
        for name, value in _mapping(each).items()
        if name not in ("metric", "aggregation", "higher_is_better")
    }
    found = {
        "scorer": about.get("output_type"),
        "scorer options": {**({"filter": kept[0].get("filter")} if kept else {}), **options},
        "task version": _mapping(beside.get("versions")).get(task or ""),
        "dataset": ", ".join(
            filter(None, map(text_of, (about.get("dataset_path"), about.get("dataset_name"))))
        ),
        "dataset version": _mapping(about.get("dataset_kwargs")).get("revision"),
        "split": about.get("test_split") or about.get("validation_split"),
    }
    measured |= {name: text for name, value in found.items() if (text := told(value)) is not None}
    ways = [_mapping(_mapping(beside.get("higher_is_better")).get(task or "")).get(metric)]
    ways += [
        _mapping(each).get("higher_is_better")
        for each in about.get("metric_list") or ()
        if _mapping(each).get("metric") == metric
    ]
    if (way := next((each for each in ways if isinstance(each, bool)), None)) is not None:
        measured[DIRECTION] = HIGHER if way else LOWER
    steps = [_mapping(each).get("function") for f in kept for each in _mapping(f).get("filter") or ()]
    if steps == ["take_first"] or (steps[-1:] == ["take_first"] and not {*steps} & _OF_SEVERAL):
        measured[ANSWERS] = "1"  # of more that were drawn the first
    says |= {EVERY, *MEASURED, *ASKED} - {ANSWERS}
    n = _mapping(_mapping(beside.get("n-samples")).get(task or "")).get("original")
    return Conditions(
        measured,
        asked,
        frozenset(says) if about else frozenset({"metric", "filter"}),
        n if isinstance(n, int) else None,
        _day_in(beside.get("date")),
        _with_adapter(beside.get("model_name"), config.get("model_args")),
        task,
    )


# Arguments of a model that say which weights it is.
_WHICH = ("peft", "delta", "revision", "subfolder", "model_path", "adapter", "lora", "checkpoint")
_OF_SEVERAL = frozenset({"majority_vote", "take_first_k"})


def _with_adapter(name: object, given: object) -> str | None:
    """Return a model's name with the adapter or revision that its arguments name beside it."""
    if not isinstance(name, str) or not name:
        return None
    pairs = [*given.items()] if isinstance(given, Mapping) else []
    if isinstance(given, str):
        pairs = [(k, v) for k, _, v in (each.partition("=") for each in given.split(","))]
    more = [f"{key}={value}" for key, value in pairs if key in _WHICH]
    more = [each for each in more if not each.endswith(("=None", "=", "=main"))]
    return f"{name} ({', '.join(more)})" if more else name


def of_lighteval(metric: str, task: str | None, beside: Mapping[str, Any] | None) -> Conditions:
    """Return what lighteval's results say of one task, where they are kept beside its details."""
    measured, says = {"metric": metric}, frozenset({"metric"})
    if beside is None:
        return Conditions(measured, {}, says, task=task)
    general = _mapping(beside.get("config_general"))
    model = _mapping(general.get("model_config"))
    tasks = _mapping(beside.get("config_tasks"))
    name = next((each for each in tasks if task and (each == task or each.startswith(f"{task}|"))), "")
    about = _mapping(tasks.get(name))
    found = {
        "task version": about.get("version", _mapping(beside.get("versions")).get(name)),
        "dataset": ", ".join(filter(None, map(text_of, (about.get("hf_repo"), about.get("hf_subset"))))),
        "dataset version": about.get("hf_revision"),
        "split": about.get("evaluation_splits"),
    }
    measured |= {what: text for what, value in found.items() if (text := told(value)) is not None}
    asked = settings_of(
        model.get("generation_parameters"),
        {"system_prompt": model.get("system_prompt"), "num_fewshot": about.get("num_fewshots")},
        {"max_tokens": about.get("generation_size"), "stop": about.get("stop_sequence")},
        {"chat_template": model.get("override_chat_template")},
    )
    n = about.get("original_num_docs")
    made = model.get("model_name") or general.get("model_name")
    known = frozenset({EVERY, *says, "task version", "dataset", "dataset version", "split", *ASKED})
    return Conditions(
        measured,
        asked,
        known if about or model else says,
        n if isinstance(n, int) and n > 0 else None,
        model=made if isinstance(made, str) else None,
        task=task,
    )


def of_verifiers(about: Mapping[str, Any]) -> Conditions:
    """Return what metadata.json beside results of verifiers (to 0.3) says."""
    model, task = about.get("model"), about.get("env_id")
    args = settings_of(about.get("env_args"))
    measured, asked = sorted_out({f"environment argument {name}": value for name, value in args.items()})
    sampling = settings_of(about.get("sampling_args"))
    if (n := sampling.pop("n", None)) not in (None, "1"):
        asked["n"] = str(n)
    versions = _mapping(about.get("version_info"))
    if (text := told(versions.get("env_version"))) is not None:
        measured["task version"] = text
    return Conditions(
        measured,
        asked | sampling,
        frozenset({EVERY, *ASKED} - {*IN_PROMPT}) if "sampling_args" in about else frozenset(),
        made=_day_in(about.get("date")),
        model=model if isinstance(model, str) else None,
        task=task if isinstance(task, str) else None,
    )


def of_traces(about: Mapping[str, Any], row: Mapping[str, Any]) -> Conditions:
    """Return what the resolved settings beside traces of verifiers (0.4) say, and which rewards make up the
    score of a row."""
    taskset = _mapping(_mapping(about.get("env")).get("taskset"))
    args = {name: value for name, value in taskset.items() if name != "id"}
    measured, asked = sorted_out(
        {f"environment argument {name}": value for name, value in settings_of(args).items()}
    )
    weights = {
        name: each.get("weight")
        for trace in row.get("traces") or ()
        for name, each in _mapping(_mapping(trace).get("rewards")).items()
        if isinstance(each, Mapping)
    }
    if (text := told(weights)) is not None:
        measured["scorer"] = text
    task = taskset.get("id")
    sampling = about.get("sampling")
    return Conditions(
        measured,
        asked | settings_of(sampling),
        frozenset({EVERY, *ASKED} - {*IN_PROMPT}) if isinstance(sampling, Mapping) else frozenset(),
        task=task if isinstance(task, str) and task else None,
    )


def of_episodes(found: Mapping[str, Any], cut: str) -> Conditions:
    """Return what report.json or grade.json beside episodes says: the grader is the task's own."""
    asked = settings_of({name: found.get(name) for name in ("temperature", "max_new_tokens")})
    says = {"metric", "filter", "scorer", "scorer options", "grader", ANSWERS}
    if cut:
        asked["task.cut"] = cut
    if "temperature" in found:
        says |= {"temperature", "top_p", "top_k", "max_tokens", "stop"}
    return Conditions({}, asked, frozenset(says))


def of_whole_file(value: Mapping[str, Any]) -> Conditions:
    """Return what a JSON file says beside its list of results, at the top or in settings that stand there."""
    inside = [each for name, each in value.items() if simplify(name) in map(simplify, INSIDE)]
    told_of = [
        {k: v for k, v in _mapping(each).items() if simplify(str(k)) in _MEANS} for each in (*inside, value)
    ]
    measured, asked = sorted_out(settings_of(*told_of))
    named = (each.get(name) for each in (value, *map(_mapping, inside)) for name in ("model", "model_name"))
    return Conditions(
        measured, asked, model=next((name for name in named if isinstance(name, str) and name), None)
    )


def of_promptfoo(row: Mapping[str, Any]) -> dict[str, str]:
    """Return which assertions a result of promptfoo was held to, and who graded them."""
    parts = _mapping(row.get("gradingResult")).get("componentResults")
    held = [_mapping(_mapping(each).get("assertion")) for each in parts or () if isinstance(each, Mapping)]
    scorer = told(sorted({text_of(each.get("type")) for each in held if each.get("type")}))
    grader = told(sorted({text_of(each.get("provider")) for each in held if each.get("provider")}))
    return {name: text for name, text in (("scorer", scorer), ("grader", grader)) if text}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _day_in(value: object) -> str | None:
    """Return the day of a time, as ISO or in seconds since 1970.

    >>> _day_in("2026-01-31T10:00:00+00:00"), _day_in(1767225600.5), _day_in("soon")
    ('2026-01-31', '2026-01-01', None)
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC).date().isoformat()
        return datetime.fromisoformat(value).date().isoformat() if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None
