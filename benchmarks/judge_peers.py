"""`assay judge` beside other packages that compare two sets of results, each run on the same data.

    for name in evalsig evalconfidence paired-eval evalci; do
        ./run python -m pip install --target .scratch/peers/$name $name; done
    ./run bench judge_peers    (ten minutes; writes results/judge_peers.md; PEERS=DIR names another folder)

Every cell of the tables is what a call gave, in a process of its own with that package's own dependencies.
What is not installed is said. A feature is "no" where a call failed or nothing public has such a name: it may
be there under another.

"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
PEERS = {
    "evalsig": "evalsig",
    "evalconfidence": "evalconfidence",
    "paired-eval": "paired_eval",
    "evalci": "evalci",
    "rewardspy": "rewardspy",
}
FEATURES = (
    "pairing",
    "clusters",
    "draws",
    "test",
    "equivalence",
    "multiple comparison",
    "plan",
    "power",
    "gate",
    "report",
    "package",
    "verify",
)
FORMS = ("inspect .eval", "inspect .json", "lm-eval samples", "verifiers results", "CSV", "JSONL", "Parquet")
NULLS, ALPHA = 400, 0.05
Arms = dict[str, Any]  # item, cluster: names [items]; before, after: scores [items, draws]
Numbers = dict[str, tuple[float, float, float, float | None]]  # how: difference, low, high, p


def make_arms(seed: int, *, clusters: int, size: int, draws: int, gain: float, spread: float) -> Arms:
    """Return two arms of yes and no; what a cluster gains differs by `spread` (sd) around `gain`."""
    luck = np.random.default_rng([20, seed])
    home = np.repeat(np.arange(clusters), size)
    rates = np.clip(0.5 + 0.15 * luck.normal(size=clusters)[home], 0.05, 0.95)
    after = np.clip(rates + (gain + spread * luck.normal(size=clusters))[home], 0.0, 1.0)
    return {
        "item": [f"q{k:04d}" for k in range(len(home))],
        "cluster": [f"c{k:03d}" for k in home],
        "before": luck.binomial(1, rates[:, None], (len(home), draws)).tolist(),
        "after": luck.binomial(1, after[:, None], (len(home), draws)).tolist(),
    }


def make_one() -> Arms:
    """Return the data set that all give their numbers on: 200 items in 50 clusters, four draws."""
    return make_arms(0, clusters=50, size=4, draws=4, gain=0.06, spread=0.2)


def make_null(seed: int) -> Arms:
    """Return a data set without a mean gain: 180 items in 30 clusters, which gain or lose as one."""
    arms = make_arms(seed + 1, clusters=30, size=6, draws=1, gain=0.0, spread=0.25)
    if seed % 2:  # either arm may be the first, so that no clipping at 0 or 1 makes a mean gain
        arms["before"], arms["after"] = arms["after"], arms["before"]
    return arms


def means(arms: Arms, name: str) -> list[float]:
    """Return the mean over draws of every item."""
    return [float(np.mean(row)) for row in arms[name]]


# Each peer: its numbers on a data set, and what it does when it is asked for a feature.


def numbers_of_evalsig(arms: Arms, quick: bool) -> Numbers:
    import evalsig  # type: ignore[import-not-found,unused-ignore]

    def frame(name: str) -> Any:
        rows = zip(arms["item"], means(arms, name), arms["cluster"], strict=True)
        items = [evalsig.ItemResult(item, score, cluster) for item, score, cluster in rows]
        return evalsig.RunFrame(name, name, "task", "accuracy", items)

    found: Numbers = {}
    for how, more in (("compare", {}), ("compare, cluster=", {"cluster": "cluster"})):
        got = evalsig.compare(frame("before"), frame("after"), n_resamples=2000 if quick else 10_000, **more)
        found[f"{how} ({got.method})"] = (got.delta, *got.ci, got.p_value)
    return found


def numbers_of_evalconfidence(arms: Arms, quick: bool) -> Numbers:
    import evalconfidence  # type: ignore[import-not-found,unused-ignore]

    def rows(name: str) -> list[Any]:
        return [
            evalconfidence.ItemResult(item, name, float(score), epoch, cluster)
            for item, cluster, scores in zip(arms["item"], arms["cluster"], arms[name], strict=True)
            for epoch, score in enumerate(scores)
        ]

    got = evalconfidence.compare(rows("after"), rows("before"))
    return {f"compare ({got.method})": (got.diff, *got.ci_diff, got.p_value)}


def numbers_of_paired_eval(arms: Arms, quick: bool) -> Numbers:
    import paired_eval  # type: ignore[import-not-found,unused-ignore]

    got = paired_eval.paired_compare(
        means(arms, "after"), means(arms, "before"), n_resamples=1000 if quick else 10_000
    )
    return {"paired_compare": (got["mean_diff"], *got["diff_ci"], got["p_value"])}


def numbers_of_evalci(arms: Arms, quick: bool) -> Numbers:
    import evalci  # type: ignore[import-not-found,unused-ignore]

    after, before, n = means(arms, "after"), means(arms, "before"), 2000 if quick else 9999
    got = evalci.compare(after, before, n_resamples=n, random_state=0)
    gaps = np.array(after) - np.array(before)
    by = evalci.cluster_ci(gaps, arms["cluster"], n_resamples=n, random_state=0)
    low, high = got.ci
    return {
        "compare (permutation)": (got.delta, low, high, got.p_value),
        "cluster_ci of differences": (by.estimate, by.lower, by.upper, None),
    }


def numbers_of_assay(arms: Arms, quick: bool) -> Numbers:
    from assay.core.records import Episode
    from assay.evidence.claim.differences import compare_measure
    from assay.tools.judge.rows import JudgedRow, as_episodes

    def rows(name: str) -> list[Episode]:
        found = [
            JudgedRow(item, draw, cluster, float(score), float(score), bool(score))
            for item, cluster, scores in zip(arms["item"], arms["cluster"], arms[name], strict=True)
            for draw, score in enumerate(scores)
        ]
        return list(as_episodes(found))

    got = compare_measure(rows("before"), rows("after"), "success_rate", np.random.default_rng(0))
    gap = got.difference
    assert gap.value is not None and gap.low is not None and gap.high is not None
    return {"judge (bounded mean, by cluster)": (gap.value, gap.low, gap.high, got.p)}


def tried(call: Callable[[], str]) -> str:
    """Return what a call says, or that it failed."""
    try:
        return call()
    except (Exception, SystemExit) as error:  # noqa: BLE001 a peer may raise anything
        return f"no ({type(error).__name__}: {' '.join(str(error).split())[:90]})"


def absent(module: str, *words: str) -> str:
    """Return that no public name of a package holds one of the words, or which do."""
    package = importlib.import_module(module)
    found = set()
    for info in [None, *pkgutil.walk_packages(package.__path__, f"{module}.")]:
        if info is not None and "__main__" in info.name:
            continue
        try:
            each = package if info is None else importlib.import_module(info.name)
        except Exception:  # noqa: BLE001 an optional dependency that is not there
            continue
        found |= {name for name in vars(each) if not name.startswith("_")}
    said = sorted(name for name in found if any(word in name.lower() for word in words))
    return f"by name: {', '.join(said[:4])}" if said else "no"


def features_of(name: str, arms: Arms, folder: Path) -> dict[str, str]:
    """Return what a peer does for each feature and each form of results."""
    module, count = PEERS[name], len(arms["item"])
    numbers = globals()[f"numbers_of_{module}"]
    one = numbers(arms, True)
    order = np.random.default_rng(0).permutation(count)
    mixed = {key: [values[k] for k in order] for key, values in arms.items()}
    unpaired = {**arms, "after": mixed["after"]}
    homes = make_null(0)  # in which clusters matter much
    alone = {**homes, "cluster": homes["item"]}

    def width(found: Numbers) -> float:
        _, low, high, _ = next(iter(found.values()))
        return high - low

    def changed(first: Numbers, second: Numbers) -> bool:
        return any(
            abs(a - b) > 0.004
            for one_, two in zip(first.values(), second.values(), strict=True)
            for a, b in zip(one_[1:3], two[1:3], strict=True)
        )

    found = {
        "pairing": tried(lambda: "yes" if width(numbers(unpaired, True)) > 1.05 * width(one) else "no"),
        "clusters": tried(
            lambda: "yes, where asked" if changed(numbers(homes, True), numbers(alone, True)) else "no"
        ),
        "draws": "item means, made by the caller",
        "test": "; ".join(one),
        "equivalence": absent(module, "equivalen", "tost", "noninferior", "non_inferior"),
        "plan": absent(module, "prereg", "plan_", "make_plan", "freeze"),
        "report": absent(module, "report", "markdown", "html"),
        "package": absent(module, "archive", "manifest", "tarball"),
        "verify": absent(module, "verify", "sha256", "recheck"),
    }
    found |= globals()[f"calls_of_{module}"](arms)
    readers: dict[str, Callable[[Path], Any]] = globals()[f"readers_of_{module}"]()
    for form in FORMS:
        path = folder / json.loads((folder / "forms.json").read_text(encoding="utf-8"))[form]
        reader = readers.get(form)
        found[form] = "no" if reader is None else tried(lambda: f"yes, {count_of(reader(path))} rows")  # noqa: B023
        found[form] = found[form].replace(f"{folder}/", "")
    return found


def count_of(read: Any) -> int:
    """Return how many results were read."""
    return len(getattr(read, "items", read)) if not hasattr(read, "columns") else len(read.index)


def calls_of_evalsig(arms: Arms) -> dict[str, str]:
    import evalsig

    def drawn(name: str, first: float) -> Any:
        items = [
            evalsig.ItemResult(i, 0.0 if e else first, epoch=e) for i in arms["item"][:20] for e in (0, 1)
        ]
        return evalsig.RunFrame(name, name, "t", "accuracy", items)

    frame, got = drawn("a", 0.0), evalsig.compare(drawn("a", 0.0), drawn("b", 1.0))
    many = evalsig.holm(np.array([0.01, 0.04]))

    return {
        "multiple comparison": f"holm: {many.p_adjusted.tolist()}",
        "report": tried(lambda: f"to_markdown, {len(evalsig.to_markdown(got))} characters"),
        "draws": "epochs, averaged" if got.delta == 0.5 else "only the first of the epochs",
        "power": tried(lambda: f"mde {evalsig.mde(0.5, 200).mde:.3f} (closed form)"),
        "gate": tried(
            lambda: f"gate: {evalsig.gate(frame, frame, min_delta=0.01).verdict.name}, exit codes 0, 1, 2"
        ),
    }


def calls_of_evalconfidence(arms: Arms) -> dict[str, str]:
    import evalconfidence

    homes = make_null(0)
    moved = {**homes, "cluster": homes["item"]}
    same = numbers_of_evalconfidence(homes, True) == numbers_of_evalconfidence(moved, True)
    rows = zip(homes["item"], homes["cluster"], means(homes, "after"), strict=True)
    one = [evalconfidence.ItemResult(item, "m", score, 0, cluster) for item, cluster, score in rows]
    twice = [evalconfidence.ItemResult(f"q{k}", "m", float(e), e) for k in range(20) for e in (0, 1)]
    never = [evalconfidence.ItemResult(f"q{k}", "n", 0.0, e) for k in range(20) for e in (0, 1)]
    drawn = evalconfidence.compare(twice, never).diff
    return {
        "draws": "epochs, averaged" if drawn == 0.5 else f"epochs, but {drawn}",
        "clusters": tried(
            lambda: (
                f"{'not ' if same else ''}in compare; standard_error:"
                f" {evalconfidence.standard_error(one).summary()}"
            )
        ),
        "multiple comparison": absent("evalconfidence", "holm", "bonferroni", "benjamini"),
        "power": tried(lambda: evalconfidence.power(mde=0.06, baseline_var=0.25).summary()[:90]),
        "report": tried(lambda: f"summary, {len(evalconfidence.compare(twice, never).summary())} characters"),
        "gate": absent("evalconfidence", "gate", "exit"),
    }


def calls_of_paired_eval(arms: Arms) -> dict[str, str]:
    import paired_eval

    got = paired_eval.paired_compare([1, 1, 1, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 0])
    return {
        "multiple comparison": tried(lambda: f"holm_adjust: {paired_eval.holm_adjust([0.01, 0.04])}"),
        "power": tried(lambda: f"required_tasks: {paired_eval.required_tasks(0.3, 0.1, sims=100)}"[:80]),
        "report": tried(lambda: paired_eval.interpret(got, lang="en")["text"][:90]),
        "gate": absent("paired_eval", "ci_gate", "exit_code"),
    }


def calls_of_evalci(arms: Arms) -> dict[str, str]:
    import evalci
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]

    rows = [(item, name, float(item > name)) for item in arms["item"][:20] for name in ("a", "b", "r")]
    table = pd.DataFrame(rows, columns=["item_id", "model", "score"])

    return {
        "multiple comparison": tried(lambda: f"multi_compare: {len(evalci.multi_compare(table))} rows, holm"),
        "report": tried(lambda: evalci.report(evalci.compare([1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]))),
        "power": tried(lambda: f"power(delta=0.06): n = {evalci.power(delta=0.06).n}"),
        "gate": absent("evalci", "gate", "exit_code"),
    }


def readers_of_evalsig() -> dict[str, Callable[[Path], Any]]:
    from evalsig.io import inspect_log, lm_eval, parquet  # type: ignore[import-not-found,unused-ignore]

    return {
        "inspect .eval": inspect_log.read_inspect_log,
        "inspect .json": inspect_log.read_inspect_log,
        "lm-eval samples": lambda path: lm_eval.read_lm_eval_json(
            path, model_id="m", task_id="t", metric_name="exact_match"
        ),
        "Parquet": parquet.read_runframe_parquet,
    }


def readers_of_evalconfidence() -> dict[str, Callable[[Path], Any]]:
    import evalconfidence
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]

    def frame(path: Path) -> Any:
        return evalconfidence.from_dataframe(
            pd.read_csv(path).assign(model="m"), item_id="item", model_id="model"
        )

    return {
        "inspect .eval": lambda path: evalconfidence.from_inspect(str(path)),
        "inspect .json": lambda path: evalconfidence.from_inspect(str(path)),
        "CSV": frame,
    }


def readers_of_paired_eval() -> dict[str, Callable[[Path], Any]]:
    return {}


def readers_of_evalci() -> dict[str, Callable[[Path], Any]]:
    from evalci import adapters  # type: ignore[import-not-found,unused-ignore]

    return {"lm-eval samples": adapters.load_lm_eval_harness, "CSV": adapters.load_csv}


def child(name: str, folder: Path) -> dict[str, Any]:
    """Return everything of one package, in the process that has it."""
    numbers = numbers_of_assay if name == "assay" else globals()[f"numbers_of_{PEERS[name]}"]
    rejected: dict[str, int] = {}
    for seed in range(NULLS):
        for how, (_, low, high, p) in numbers(make_null(seed), True).items():
            rejected[how] = rejected.get(how, 0) + int(not low <= 0.0 <= high if p is None else p <= ALPHA)
    arms = make_one()
    told = {"numbers": numbers(arms, False), "rejected": rejected, "version": "here"}
    if name != "assay":
        told |= {"features": features_of(name, arms, folder), "version": version(name)}
    return told


def write_forms(folder: Path) -> None:
    """Write the same 60 results in every form that assay reads, and forms.json with the name of each."""
    from tests.tools import judged_files as files

    rows = [{**row, "item_id": row["item"]} for row in files.results("after", 0.5, draws=1)]
    files.as_inspect_eval(folder / "log.eval", rows)
    files.as_inspect_json(folder / "log.json", rows)
    files.as_verifiers(folder / "results.jsonl", rows)
    files.as_csv(folder / "table.csv", rows)
    files.as_jsonl(folder / "table.jsonl", rows)
    files.as_parquet(folder / "table.parquet", rows)
    samples = [
        {
            "doc_id": k,
            "doc": {"question": row["prompt"]},
            "target": row["target"],
            "arguments": [[row["prompt"], {}]],
            "resps": [[row["completion"]]],
            "filtered_resps": [row["completion"]],
            "filter": "none",
            "metrics": ["exact_match"],
            "exact_match": row["score"],
        }
        for k, row in enumerate(rows)
    ]
    files.as_jsonl(folder / "samples_sums_2026-01-01T00-00-00.000000.jsonl", samples)
    names = ("log.eval", "log.json", "samples_sums_2026-01-01T00-00-00.000000.jsonl", "results.jsonl")
    names += ("table.csv", "table.jsonl", "table.parquet")
    text = json.dumps(dict(zip(FORMS, names, strict=True)))
    (folder / "forms.json").write_text(text, encoding="utf-8")


def commands_of_assay(arms: Arms, folder: Path) -> tuple[dict[str, str], Numbers]:
    """Return what the command line does for each feature and each form, and the numbers of its claim."""

    def write(name: str, scores: list[list[int]], homes: list[str]) -> str:
        path = folder / f"{name}.csv"
        lines = [
            f"{item},{draw},{cluster},{score}\n"
            for item, cluster, row in zip(arms["item"], homes, scores, strict=True)
            for draw, score in enumerate(row)
        ]
        path.write_text("item,draw,cluster,score\n" + "".join(lines), encoding="utf-8")
        return str(path)

    def call(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "assay.cli", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{words}: {done.returncode} {done.stdout[-300:]}{done.stderr[-300:]}"
        return done.stdout

    def claim_of(out: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((out / "claim.json").read_text(encoding="utf-8"))
        return found

    before, after = (write(name, arms[name], arms["cluster"]) for name in ("before", "after"))
    out, plan = folder / "judged", str(folder / "plan.yaml")
    planned = call("plan", before, "--out", plan)
    call("judge", before, after, "--out", str(out))
    claim = claim_of(out)
    call("judge", before, before, "--effect", "40", "--out", str(folder / "same"))
    several = [write(f"after{k}", arms["after"], arms["cluster"]) for k in range(2)]
    call("judge", before, *several, "--out", str(folder / "several"))
    gated = subprocess.run(
        [
            sys.executable,
            "-m",
            "assay.cli",
            "judge",
            "--plan",
            plan,
            before,
            after,
            "--out",
            str(folder / "gated"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    checked = call("verify", str(out / "assay-package.tar"))
    found = {
        "pairing": f"yes, {claim['n_items']} items",
        "clusters": f"yes, {claim['n_clusters']}, from the file",
        "draws": f"yes, K = {claim['draws']}",
        "test": "bounded mean over clusters (Gaffke); bootstrap beside it",
        "equivalence": claim_of(folder / "same")["effect"]["size"],
        "multiple comparison": "Holm over all sets after"
        if (folder / "several/compared.md").is_file()
        else "no",
        "plan": f"plan.yaml with its sha256: {planned.splitlines()[-1].split('sha256 ')[1][:12]}",
        "power": next(line for line in planned.splitlines() if line.startswith("smallest")).split(";")[0],
        "gate": f"judge --plan: exit code {gated.returncode}, of 0, 5, 7, 8",
        "report": f"report.html, {(out / 'report.html').stat().st_size // 1024} KiB; summary.md; JUnit",
        "package": f"assay-package.tar, {(out / 'assay-package.tar').stat().st_size // 1024} KiB",
        "verify": re.sub(r" \(.*", "", checked.splitlines()[-1]),
    }
    names = json.loads((folder / "forms.json").read_text(encoding="utf-8"))
    for k, form in enumerate(FORMS):
        path = str(folder / names[form])
        call("judge", path, path, "--out", str(folder / f"form{k}"))
        found[form] = f"yes, {claim_of(folder / f'form{k}')['n_items']} rows"
    gap = claim["difference"]
    return found, {"judge (bounded mean, by cluster)": (gap["value"], gap["low"], gap["high"], claim["p"])}


def wilson(k: int, n: int) -> str:
    """Return a share with its 95 % interval, per cent."""
    from assay.statistics.intervals import wilson as share_of

    found = share_of(k, n)
    return f"{100 * (k / n):.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def table_of(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    short = [[" ".join(cell.split())[:140] for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *short]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def main() -> None:
    peers = Path(os.environ.get("PEERS", ".scratch/peers")).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_forms(folder)
        there = ["assay", *(name for name in PEERS if (peers / name / PEERS[name]).is_dir())]

        def run(name: str) -> dict[str, Any]:
            paths = ([] if name == "assay" else [str(peers / name)]) + [os.environ.get("PYTHONPATH", "src")]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
            command = [sys.executable, __file__, name, scratch]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"{name}: {done.stderr[-2000:]}")
            found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return found

        with ThreadPoolExecutor(len(there)) as pool:
            told = dict(zip(there, pool.map(run, there), strict=True))
        told["assay"]["features"], told["assay"]["numbers"] = commands_of_assay(make_one(), folder)
    missing = [name for name in PEERS if name not in told]
    names = list(told)
    versions = [name if name == "assay" else f"{name} {told[name]['version']}" for name in names]
    rows = [[f, *(told[name]["features"].get(f, "no") for name in names)] for f in (*FEATURES, *FORMS)]
    numbers = [
        [
            versions[k],
            how,
            f"{100 * value:+.2f}",
            f"{100 * low:+.2f} to {100 * high:+.2f}",
            "none" if p is None else f"{p:.4f}",
            wilson(told[name]["rejected"][null], NULLS),
        ]
        for k, name in enumerate(names)
        for (how, (value, low, high, p)), null in zip(
            told[name]["numbers"].items(), told[name]["rejected"], strict=True
        )
    ]
    absent_ = ", ".join(missing)
    text = f"""# `assay judge` beside other packages

Written by `./run bench judge_peers`; every cell is what a call gave. Not compared: {absent_ or "none"}{
        " (no such package could be installed from the index at hand)" if absent_ else ""
    }.

## The same data, and the level on null data with clusters

Numbers: 200 items in 50 clusters of 4, four draws, points (after - before). Level: of {
        NULLS
    } data sets of 180
items in 30 clusters of 6 that gain or lose as one, by nothing in the mean, how many are called different at
{ALPHA} (per cent, 95 % interval); a way without p counts where its interval excludes 0. Resamplings are fewer
there (1,000 to 2,000). Of assay it is the deciding test alone, which `judge` calls.

{table_of(["package", "way", "difference", "95 % interval", "p", "level, %"], numbers)}

Of the null data, which have one draw, evalsig and evalconfidence choose McNemar's test by themselves. A way
that takes no clusters is told of none: its level is what somebody gets who does not ask for them. The test of
assay keeps its level whatever the differences are distributed like, and pays for it: its interval is the
widest, and its level on these data is far below {ALPHA}.

## Features

"by name": something public is called so, and was not run. "no": a call failed, as it says, or nothing is
called so. Forms: the same 60 results, written for this in the form of each tool.

{table_of(["feature", *versions], rows)}
"""
    (HERE / "results/judge_peers.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(child(sys.argv[1], Path(sys.argv[2]))))
    else:
        main()
