"""What somebody may do to a package: kinds of tampering, each a function of a seeded generator and the files
by name.

A function changes the files in place and says what it did. Every one of them changes at least a byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from benchmarks.resealing import LISTS, Files, episode_in, pretty, put_rows, rows_of

from assay.core.evidence_files import place_of as path

Tampering = Callable[[Random, Files], str]
RESULTS = "evidence/results"
ARMS = ("pre_eval", "post_eval", "pre_eval_greedy", "post_eval_greedy", "control_eval")
# What holds a number or a word that no other file determines, however it is computed.
UNDETERMINED = re.compile(
    r"data/[^/]+/README\.md|parity\.json|.*/(base|control|train)\.json|.*/(train_log|health)\.jsonl"
)


def some_arm(rng: Random, files: Mapping[str, bytes]) -> str:
    return rng.choice(
        [path(f"{arm}.jsonl") for arm in ARMS if path(f"{arm}.jsonl") in files] + [path("validation.jsonl")]
    )


def one_row(change: Callable[[Random, Any], str]) -> Tampering:
    """Change one episode of one file, written as assay writes it."""

    def tamper(rng: Random, files: Files) -> str:
        name = some_arm(rng, files)
        rows = rows_of(files, name)
        number = rng.randrange(len(rows))
        what = change(rng, episode_in(rows[number]))
        put_rows(files, name, rows)
        return f"{name}, row {number + 1}: {what}"

    return tamper


def flag(rng: Random, episode: Any) -> str:
    known = [name for name, value in episode["flags"].items() if value is not None]
    name = rng.choice(["success", *known])
    where = episode if name == "success" else episode["flags"]
    where[name] = not where[name]
    return f"{name} is {where[name]}"


def reward(rng: Random, episode: Any) -> str:
    episode["reward"] = round(episode["reward"] + rng.choice((-1, 1)) * rng.uniform(0.001, 0.5), 6)
    return f"reward {episode['reward']}"


def tiny_reward(rng: Random, episode: Any) -> str:
    episode["reward"] += rng.choice((-1, 1)) * 1e-11
    return f"reward {episode['reward']}"


def completion(rng: Random, episode: Any) -> str:
    turn = rng.choice(episode["turns"])
    text = turn["completion"]
    at = rng.randrange(len(text) + 1)
    turn["completion"] = (
        text[:at] + rng.choice("abcxyz0159 ") + text[at + 1 :] + ("!" if at < len(text) else "")
    )
    return f"completion {turn['completion']!r:.60}"


def seed(rng: Random, episode: Any) -> str:
    episode["seed"] = rng.randrange(2**62)
    return f"seed {episode['seed']}"


def tokens(rng: Random, episode: Any) -> str:
    turn = rng.choice(episode["turns"])
    turn["n_tokens"] += 1
    return f"{turn['n_tokens']} tokens"


def opening(rng: Random, episode: Any) -> str:
    episode["turns"][0]["prompt_digest"] = f"{rng.getrandbits(64):016x}"
    return "another first prompt"


def dropped(rng: Random, files: Files) -> str:
    name = rng.choice(
        [some_arm(rng, files), path("train_log.jsonl"), path("training_log.csv"), path("health.jsonl")]
    )
    lines = files[name].split(b"\n")
    at = rng.randrange(1 if name.endswith(".csv") else 0, len(lines) - 1)
    files[name] = b"\n".join(lines[:at] + lines[at + 1 :])
    return f"{name}: without line {at + 1}"


def repeated(rng: Random, files: Files) -> str:
    name = rng.choice([some_arm(rng, files), path("train_log.jsonl"), path("checkpoint_evals.csv")])
    lines = files[name].split(b"\n")
    at = rng.randrange(1 if name.endswith(".csv") else 0, len(lines) - 1)
    files[name] = b"\n".join([*lines[:at], lines[at], *lines[at:]])
    return f"{name}: line {at + 1} twice"


def reordered(rng: Random, files: Files) -> str:
    name = some_arm(rng, files)
    rows = files[name].split(b"\n")[:-1]
    at, to = rng.sample(range(len(rows)), 2)
    rows[at], rows[to] = rows[to], rows[at]
    files[name] = b"\n".join(rows) + b"\n"
    return f"{name}: rows {at + 1} and {to + 1} exchanged"


def seeds_exchanged(rng: Random, files: Files) -> str:
    name = some_arm(rng, files)
    rows = rows_of(files, name)
    at, to = rng.sample(range(len(rows)), 2)
    while (
        episode_in(rows[at])["seed"] == episode_in(rows[to])["seed"]
    ):  # a play of two validations has one seed
        at, to = rng.sample(range(len(rows)), 2)
    one, other = episode_in(rows[at]), episode_in(rows[to])
    one["seed"], other["seed"] = other["seed"], one["seed"]
    put_rows(files, name, rows)
    return f"{name}: seeds of rows {at + 1} and {to + 1} exchanged"


def arms_exchanged(rng: Random, files: Files) -> str:
    end = rng.choice(("", "_greedy"))
    whole = rng.random() < 0.5
    one, other = path(f"pre_eval{end}.jsonl"), path(f"post_eval{end}.jsonl")
    files[one], files[other] = files[other], files[one]
    if whole:
        reports = json.loads(files[path("reports.json")])
        arms = reports["arms"]
        arms[f"pre_eval{end}"], arms[f"post_eval{end}"] = arms[f"post_eval{end}"], arms[f"pre_eval{end}"]
        files[path("reports.json")] = pretty(reports)
    return f"pre_eval{end} and post_eval{end} exchanged, {'with' if whole else 'without'} their reports"


def another_number(rng: Random, text: str) -> str | None:
    """Return a text with one digit of one number made another, or None where it has none."""
    places = [found.start() for found in re.finditer(r"(?<![\w#.-])\d+(?:\.\d+)?(?![\w.])", text)]
    if not places:
        return None
    start = rng.choice(places)
    found = re.match(r"[\d.]+", text[start:])
    assert found is not None
    digits = [start + k for k, sign in enumerate(found[0].rstrip(".")) if sign.isdigit()]
    at = rng.choice(digits)
    other = rng.choice([d for d in "123456789" if d != text[at]])
    return text[:at] + other + text[at + 1 :]


def number_in(*names: str) -> Tampering:
    """Change one digit of one number of one of these files."""

    def tamper(rng: Random, files: Files) -> str:
        known = [name for name in names if name in files]
        for name in rng.sample(known, len(known)):
            lines = files[name].decode().split("\n")
            for at in rng.sample(range(len(lines)), len(lines)):
                changed = another_number(rng, lines[at])
                if changed is not None and (not name.endswith(".csv") or at):
                    lines[at] = changed
                    files[name] = "\n".join(lines).encode()
                    return f"{name}, line {at + 1}: another digit"
        raise ValueError(f"no number in {known}")

    return tamper


def field(name: str, change: Callable[[Random, Any], str]) -> Tampering:
    """Change a JSON record, written as assay writes it."""

    def tamper(rng: Random, files: Files) -> str:
        value = json.loads(files[path(name)])
        what = change(rng, value)
        files[path(name)] = pretty(value)
        return f"{name}: {what}"

    return tamper


def claim_value(rng: Random, claim: Any) -> str:
    end = rng.choice(("value", "low", "high"))
    claim["difference"][end] = round(claim["difference"][end] + rng.uniform(0.01, 0.2), 6)
    return f"difference.{end} is {claim['difference'][end]}"


def claim_p(rng: Random, claim: Any) -> str:
    claim["p"] = rng.choice((0.0001, 0.001, 0.049, 0.2))
    return f"p is {claim['p']}"


def claim_verdict(rng: Random, claim: Any) -> str:
    verdicts = ("IMPROVED", "IMPROVED WITH REGRESSIONS", "NO EVIDENCE", "REGRESSED", "NOT EVALUABLE")
    claim["verdict"] = rng.choice([each for each in verdicts if each != claim["verdict"]])
    return f"verdict {claim['verdict']}"


def claim_reason(rng: Random, claim: Any) -> str:
    claim["reasons"] = [{"code": rng.choice(("skilled", "better")), "values": {"level": 0.049}}]
    return f"reason {claim['reasons'][0]['code']}"


def claim_warning(rng: Random, claim: Any) -> str:
    if claim["warnings"]:
        return f"without the warning {claim['warnings'].pop(rng.randrange(len(claim['warnings'])))!r:.40}"
    claim["warnings"].append({"code": "untrained", "values": {}})
    return "a warning more"


def plan(rng: Random, value: Any) -> str:
    value["smallest_effect_points"] = rng.choice((0.5, 1.0, 2.0))
    return f"smallest effect {value['smallest_effect_points']}"


def chosen(rng: Random, value: Any) -> str:
    value["chosen_step"] = rng.choice(
        [step for step in range(0, value["steps"] + 1) if step != value["chosen_step"]]
    )
    return f"chosen step {value['chosen_step']}"


def figure(rng: Random, files: Files) -> str:
    name = rng.choice([name for name in files if name.startswith(f"{path('figures')}/")])
    if name.endswith(".svg"):
        return number_in(name)(rng, files)
    return flipped(rng, files, name)


def flipped(rng: Random, files: Files, name: str) -> str:
    content = bytearray(files[name])
    at = rng.randrange(len(content))
    content[at] ^= 1 << rng.randrange(8)
    files[name] = bytes(content)
    return f"{name}, byte {at}"


def byte_of(rng: Random, files: Files, *, determined: bool = False) -> str:
    return flipped(rng, files, some_file(rng, files, determined=determined))


def some_file(rng: Random, files: Files, *, determined: bool = False) -> str:
    """Return one file, any folder as likely as another, so that the many files of code are not nearly all of
    them."""
    known = [name for name in sorted(files) if files[name] and name not in LISTS]
    if determined:
        known = [name for name in known if not UNDETERMINED.fullmatch(name)]
    folder = rng.choice(sorted({name.rpartition("/")[0].split("/assay/")[0] for name in known}))
    return rng.choice([name for name in known if name.rpartition("/")[0].split("/assay/")[0] == folder])


def params(rng: Random, files: Files) -> str:
    names = {"steps", "draws", "learning_rate", "items", "temperature", "seed", "alpha", "amber", "r"}
    names.add("micro_batch_size")
    lines = files["params.yaml"].decode().split("\n")
    of_names = [k for k, line in enumerate(lines) if line.strip().split(":")[0] in names]
    at = rng.choice([k for k in of_names if re.search(r"\d", lines[k])])
    lines[at] = another_number(rng, lines[at]) or f"{lines[at]}1"
    files["params.yaml"] = "\n".join(lines).encode()
    return f"params.yaml, line {at + 1}: {lines[at].strip()}"


def added(rng: Random, files: Files) -> str:
    results = [f"{RESULTS}/{name}" for name in ("notes.txt", "report/notes.txt", "control/more.json")]
    results += [path(name) for name in ("figures/more.svg", "plots/more.csv")]
    others = ("models/adapter/more.json", "models/more.md", "run.py", "data/more.jsonl", "src/assay/json.py")
    name = rng.choice([*results, *others])
    files[name] = b"{}\n"
    return f"{name} added"


def missing(rng: Random, files: Files) -> str:
    name = some_file(rng, files)
    del files[name]
    return f"{name} removed"


def renamed(rng: Random, files: Files) -> str:
    name = some_file(rng, files)
    files[f"{name}.old"] = files.pop(name)
    return f"{name} is called {name}.old"


def weight(folder: str) -> Tampering:
    """Change one number of a model, behind the header of its file."""

    def tamper(rng: Random, files: Files) -> str:
        name = next(
            name for name in sorted(files) if name.startswith(folder) and name.endswith(".safetensors")
        )
        content = bytearray(files[name])
        start = 8 + int.from_bytes(content[:8], "little")
        at = rng.randrange(start, len(content))
        content[at] ^= 1 << rng.randrange(8)
        files[name] = bytes(content)
        return f"{name}, byte {at}"

    return tamper


def alarm(rng: Random, files: Files) -> str:
    name = path("health.jsonl")
    rows = rows_of(files, name)
    at, kind = rng.randrange(len(rows)), rng.choice(("removed", "level", "step", "value"))
    if kind == "removed" and len(rows) > 1:
        rows.pop(at)
    elif kind == "level":
        rows[at]["level"] = "GREEN" if rows[at]["level"] != "GREEN" else "RED"
    elif kind == "value":
        rows[at]["value"] = (rows[at]["value"] or 0.0) + 0.125
    else:
        rows[at]["step"] += 1
    put_rows(files, name, rows)
    return f"{name}, row {at + 1}: {kind}"


def log_number(rng: Random, files: Files) -> str:
    name = path("train_log.jsonl")
    rows = rows_of(files, name)
    row = rng.choice(rows)
    where = rng.choice((row, row["signals"], row["components"]))
    key = rng.choice(sorted(name for name, value in where.items() if isinstance(value, float)))
    where[key] = where[key] + rng.choice((-1, 1)) * rng.uniform(0.01, 0.3)
    put_rows(files, name, rows)
    return f"{name}, step {row['step']}: {key} is {where[key]:.4g}"


def record_of_data(rng: Random, files: Files) -> str:
    name = rng.choice(
        sorted(name for name in files if name.startswith("data/") and name.endswith((".jsonl", ".json")))
    )
    return number_in(name)(rng, files)


def scorer(rng: Random, files: Files) -> str:
    lock = files["dvc.lock"].decode()
    named = rng.choice(list(re.finditer(r"path: (src/assay/\S+)\n +hash: md5\n +md5: (\w{32})", lock)))
    other = f"{rng.getrandbits(128):032x}"
    files["dvc.lock"] = (lock[: named.start(2)] + other + lock[named.end(2) :]).encode()
    return f"dvc.lock, {named[1]}: other code"


TRAINING_TABLES = [
    path(f"{name}.csv")
    for name in ("training_log", "reward_components", "checkpoint_evals", "validation_scores")
]
KINDS: dict[str, Tampering] = {
    "byte": byte_of,
    "flag": one_row(flag),
    "reward": one_row(reward),
    "reward by 1e-11": one_row(tiny_reward),
    "completion": one_row(completion),
    "seed": one_row(seed),
    "tokens": one_row(tokens),
    "opening": one_row(opening),
    "dropped row": dropped,
    "repeated row": repeated,
    "rows in another order": reordered,
    "seeds exchanged": seeds_exchanged,
    "arms exchanged": arms_exchanged,
    "claim: a value": field("claim.json", claim_value),
    "claim: p": field("claim.json", claim_p),
    "claim: verdict": field("claim.json", claim_verdict),
    "claim: reason": field("claim.json", claim_reason),
    "claim: warning": field("claim.json", claim_warning),
    "plan of the claim": field("claim_plan.json", plan),
    "figure": figure,
    "report": number_in(path("report.html")),
    "model card": number_in("README.md"),
    "summary": number_in(path("summary.md"), path("sample_trajectories.md")),
    "metrics": number_in(path("metrics.json"), path("before_after_metrics.json")),
    "reports": number_in(path("reports.json"), path("plan_power.json")),
    "tables": number_in(*TRAINING_TABLES, path("plots/rates.csv"), path("plots/checkpoints.csv")),
    "provenance": number_in("provenance.json"),
    "settings": params,
    "added file": added,
    "missing file": missing,
    "renamed file": renamed,
    "adapter": weight("models/adapter/"),
    "base": weight("models/base/"),
    "alarm": alarm,
    "training log": log_number,
    "chosen step": field("train.json", chosen),
    "data": record_of_data,
    "code": scorer,
}
