"""`assay judge` beside other packages that compare two sets of results, each run on the same data.

    for name in evalsig evalconfidence paired-eval evalci; do
        ./run python -m pip install --target .scratch/peers/$name $name; done
    ./run bench judge_peers    (ten minutes; writes results/judge_peers.md; PEERS=DIR names another folder)

Every cell is what a call gave, in a process of its own with that package's own dependencies. What is not
installed is said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, page

from assay.verdict.statistics.intervals import wilson

PEERS = {name: name.replace("-", "_") for name in ("evalsig", "evalconfidence", "paired-eval", "evalci")}
NULLS, ALPHA = 400, 0.05
ABOUT = """Written by `./run bench judge_peers`. Not compared, since it was not installed: {missing}.

Numbers: 200 items in 50 clusters of 4, four draws, points (after - before). Level: of {nulls} data sets of
180 items in 30 clusters of 6 that gain or lose as one, by nothing in the mean, how many are called different
at {alpha} (per cent, 95 % interval); a way without p counts where its interval excludes 0. Resamplings are
fewer there (1,000 to 2,000). Of assay it is the deciding test alone, which `judge` calls.

Of the null data, which have one draw, evalsig and evalconfidence choose McNemar's test by themselves. A way
that takes no clusters is told of none: its level is what somebody gets who does not ask for them. The test of
assay reckons with a cluster that nobody saw, which loses what the plan says (here what follows from the
draws of a cluster), and pays for it with a level below {alpha} on data that hold no such cluster."""
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
    from assay.rollout.dataset.suite import Unseen
    from assay.verdict.evidence.claim.differences import compare_measure
    from assay.verdict.evidence.claim.plan import usual_worst
    from assay.verdict.judge.rows import JudgedRow, as_episodes

    def rows(name: str) -> list[JudgedRow]:
        return [
            JudgedRow(item, draw, cluster, float(score), float(score), bool(score))
            for item, cluster, scores in zip(arms["item"], arms["cluster"], arms[name], strict=True)
            for draw, score in enumerate(scores)
        ]

    def episodes(name: str) -> list[Episode]:
        return list(as_episodes(rows(name)))

    way = "judge (bounded mean, by cluster)"
    if quick:
        played = [episodes(name) for name in ("before", "after")]
        unseen = Unseen(loss=usual_worst(len(played[0]) / len(set(arms["cluster"]))) / 100)  # as judge has it
        got = compare_measure(*played, "success_rate", np.random.default_rng(0), unseen=unseen)
        assert got.difference.value is not None and got.difference.low is not None
        return {way: (got.difference.value, got.difference.low, got.difference.high or 0.0, got.p)}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{name}.csv") for name in ("before", "after")]
        for path in paths:
            lines = [f"{r.item_id},{r.draw},{r.cluster},{int(r.success)}" for r in rows(path.stem)]
            path.write_text("\n".join(["item,draw,cluster,score", *lines, ""]), encoding="utf-8")
        command = [sys.executable, "-m", "assay.cli", "judge", *map(str, paths), "--out", f"{folder}/judged"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        claim = json.loads(Path(folder, "judged/claim.json").read_text(encoding="utf-8"))
    gap = claim["difference"]
    return {way: (gap["value"], gap["low"], gap["high"], claim["p"])}


def child(name: str) -> dict[str, Any]:
    """Return everything of one package, in the process that has it."""
    numbers: Callable[[Arms, bool], Numbers] = globals()[f"numbers_of_{PEERS.get(name, name)}"]
    rejected: Counter[str] = Counter()
    for seed in range(NULLS):
        for how, (_, low, high, p) in numbers(make_null(seed), True).items():
            rejected[how] += int(not low <= 0.0 <= high if p is None else p <= ALPHA)
    called = name if name == "assay" else f"{name} {version(name)}"
    return {"called": called, "numbers": numbers(make_one(), False), "rejected": list(rejected.values())}


def told_by(name: str, peers: Path) -> dict[str, Any]:
    """Return what the process of one package says."""
    paths = ([] if name == "assay" else [str(peers / name)]) + [os.environ.get("PYTHONPATH", "src")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, __file__, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows_of(told: dict[str, Any]) -> list[dict[str, str]]:
    """Return a row for each way in which a package compares."""
    rows = []
    # A way may have another name on the data of many draws than on those of one, hence in order.
    for (how, (value, low, high, p)), times in zip(told["numbers"].items(), told["rejected"], strict=True):
        share = wilson(times, NULLS)
        level = f"{100 * times / NULLS:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"
        row = {"package": told["called"], "way": how, "difference": f"{100 * value:+.2f}"}
        row |= {"95 % interval": f"{100 * low:+.2f} to {100 * high:+.2f}"}
        rows.append(row | {"p": "none" if p is None else f"{p:.4f}", "level, %": level})
    return rows


def main() -> None:
    """Ask every package that is there, and write the page."""
    peers = Path(os.environ.get("PEERS", ".scratch/peers")).resolve()
    there = ["assay", *(name for name in PEERS if (peers / name / PEERS[name]).is_dir())]
    with ThreadPoolExecutor(len(there)) as pool:
        told = list(pool.map(lambda name: told_by(name, peers), there))
    missing = ", ".join(name for name in PEERS if name not in there) or "none"
    rows = [row for each in told for row in rows_of(each)]
    tables = {"The same data, and the level on null data with clusters": rows}
    about = ABOUT.format(missing=missing, nulls=NULLS, alpha=ALPHA)
    page(RESULTS / "judge_peers.md", "`assay judge` beside other packages", tables, about)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in ("assay", *PEERS):
        print(json.dumps(child(sys.argv[1])))
    else:
        main()
