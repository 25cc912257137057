"""The table of the week: what a user types, day by day, and what each command may leave behind.

A preset that means almost nothing (`tiny_smoke`) keeps it short; every stage runs in earnest.
"""

from __future__ import annotations

from tests.week.playing import Step

ORIGIN, STORE = "origin.git", "store"
# What a training alone leaves to be committed, and a whole run: the record of it, and the evidence.
TRAINED = (" M dvc.lock", " M evidence/observed/*", " M evidence/results/*")
RUN = (*TRAINED, " M evidence/README.md")
SETTINGS = (" M configs/config.yaml", " M params.yaml")
EXPERIMENT = (" M params.yaml", *RUN)
# A killed training has written its curves so far, and no train.json: DVC removed that one when the stage
# began. And the claim about other settings was taken away before that.
WITHDRAWN = (" M evidence/README.md", " D evidence/results/*")
HALF = (" M evidence/observed/*", " M evidence/results/*", *WITHDRAWN)
PRESET = " M configs/grpo/tiny_smoke.yaml"
# The first run: the control that the committed evidence has is not asked for.
FIRST = (PRESET, *SETTINGS, *RUN, " D evidence/results/control/*")
# Six steps are over before the plug is pulled in the middle of them.
LONG = "-S train.steps=16"
BACK = "git checkout -q . && dvc checkout -q"


def mine(command: str, *changes: str, says: tuple[str, ...] = (), **more: object) -> Step:
    return Step("mine", command, changes, says, **more)  # type: ignore[arg-type]


def theirs(command: str, *changes: str, says: tuple[str, ...] = (), **more: object) -> Step:
    return Step("theirs", command, changes, says, **more)  # type: ignore[arg-type]


WEEK: dict[str, tuple[Step, ...]] = {
    "Monday: a clone, a preset, a run": (
        Step(".", f"git clone -q {ORIGIN} mine", reaches=("mine",)),
        # An edit: the second training that serves as a control would double the time of every run.
        # And one that ends with a verdict, which a draft does not.
        mine(
            "sed -i 's/seeds.*/&\\n  controls: [aa]/; s/n: false/n: true/' configs/grpo/tiny_smoke.yaml",
            PRESET,
        ),
        mine("assay config use grpo=tiny_smoke", PRESET, *SETTINGS, says=("grpo=tiny -> grpo=tiny_smoke",)),
        mine("assay config check", PRESET, *SETTINGS),
        mine("dvc params diff", PRESET, *SETTINGS, says=("train.steps", "200", "6")),
        mine("dvc repro", *FIRST, says=("Running stage 'base'", "Running stage 'package'")),
        mine("assay verdict", *FIRST, says=("collider: ",)),
        mine("dvc metrics diff", *FIRST, says=("success",)),
        mine("git commit -qam 'the smoke preset'"),
        mine("dvc repro", says=("up to date",)),
        mine("dvc status", says=("up to date",)),
        mine(
            f'mkdir ../{STORE} && dvc remote add -q -d store "$(cd ../{STORE} && pwd)"',
            " M .dvc/config",
            reaches=(STORE,),
        ),
        mine("git commit -qam 'a store for large files'"),
        mine("dvc push", says=("pushed",), reaches=(STORE,)),
        mine("git push -q", reaches=(ORIGIN,)),
    ),
    "Tuesday: a colleague takes it up": (
        Step(".", f"git clone -q {ORIGIN} theirs", reaches=("theirs",)),
        theirs("dvc status --quiet", code=1),
        theirs("dvc fetch", says=("fetched",)),
        theirs("dvc checkout", says=("models/adapter",)),
        theirs("dvc pull", says=("Everything is up to date",)),
        theirs("dvc status", says=("up to date",)),
        theirs("dvc repro", says=("up to date",)),
        theirs(
            "assay verify dist/assay-package.tar --sha256 dist/assay-package.sha256", says=("PASSED", "V3")
        ),
    ),
    "Wednesday: experiments": (
        mine(
            "dvc exp run -S seed=1 --name seed-1",
            *EXPERIMENT,
            says=("Stage 'pre_eval' didn't change", "seed-1"),
        ),
        mine("assay config check", *EXPERIMENT, code=1, says=("./run assay config use seed=1",)),
        mine("dvc params diff", *EXPERIMENT, says=("seed",)),
        mine("dvc metrics diff", *EXPERIMENT, says=("score",)),
        mine(BACK),
        mine("dvc status", says=("up to date",)),
        mine(
            "dvc exp run --queue -S train.learning_rate=0.002 --name hot", says=("Queued experiment 'hot'",)
        ),
        mine("dvc queue status", says=("hot", "Queued")),
        mine("dvc exp run --run-all", says=("hot",)),
        mine(
            "dvc exp run --temp -S grpo=tiny -S task=structured --name other-task fingerprint",
            says=("other-task",),
        ),
        mine(
            "dvc exp show --only-changed --no-pager --drop '.*(chain|digest|seed)'",
            says=("seed-1", "hot", "other-task"),
        ),
        mine("dvc exp diff seed-1 hot", says=("train.learning_rate", "0.002")),
        mine("dvc params diff seed-1 hot", says=("0.002",)),
        mine("dvc metrics diff main hot", says=("reward", "success")),
        mine("dvc plots diff main hot -q -o dvc_plots"),
        mine("assay runs compare", says=("expected the files of a finished run",), code=1),
        mine("dvc exp remove other-task", says=("other-task",)),
        mine("assay runs compare"),
    ),
    "Thursday: an experiment becomes a branch": (
        mine("dvc exp apply seed-1", *EXPERIMENT),
        mine("dvc status", *EXPERIMENT, says=("up to date",)),
        mine(BACK),
        mine("dvc exp branch hot hotter", says=("hotter",)),
        mine("git switch -q hotter && dvc checkout", says=("models/adapter",)),
        mine("dvc status", says=("up to date",)),
        mine("git switch -q main && dvc checkout -q"),
        mine("dvc status", says=("up to date",)),
    ),
    "Friday: the power fails": (
        mine(
            f"dvc exp run -S seed=4 {LONG} --name seed-4 train",
            *HALF,
            "M  params.yaml",
            code=-9,
            killed_at=".scratch/train/*/step-000002",
        ),
        mine("git status", *HALF, "M  params.yaml", says=("HEAD detached",)),
        mine("git switch -q -f main"),
        mine(
            f"dvc exp run -S seed=4 {LONG} --name seed-4 train",
            " M params.yaml",
            *TRAINED,
            *WITHDRAWN,
            says=("going on after step",),
        ),
        mine(BACK),
        mine(
            f"dvc exp run --temp -S seed=5 {LONG} --name seed-5 train",
            code=-9,
            killed_at=".scratch/train/*/step-000002",
        ),
        mine(f"dvc exp run --temp -S seed=5 {LONG} --name seed-5 train", says=("going on after step",)),
        mine("assay config use seed=6", *SETTINGS),
        mine("dvc repro", *SETTINGS, *HALF, code=-9, killed_at=".scratch/train/*/step-000000"),
        mine("dvc repro", *SETTINGS, *RUN, says=("going on after step", "Running stage 'package'")),
        mine("assay verdict", *SETTINGS, *RUN),
        mine("git commit -qam 'seed 6'"),
    ),
    "Saturday: experiments travel": (
        mine("dvc exp push origin seed-1", says=("seed-1",), reaches=(ORIGIN, STORE)),
        mine("dvc push -q && git push -q", reaches=(ORIGIN, STORE)),
        theirs("git pull -q && dvc pull", says=("models/adapter",)),
        theirs("dvc status", says=("up to date",)),
        theirs("dvc exp list --all-commits origin", says=("seed-1",)),
        theirs("dvc exp pull origin seed-1", says=("seed-1",)),
        theirs("git switch -q --detach HEAD~1"),
        theirs("dvc exp apply seed-1", *EXPERIMENT),
        theirs("dvc status", *EXPERIMENT, says=("up to date",)),
        mine("gto register adapter --version v0.1.0 && git push -q origin adapter@v0.1.0", reaches=(ORIGIN,)),
        Step(
            ".",
            # By a bare path DVC would take a .dvc of any folder above for the project.
            f'dvc artifacts get "file://$PWD/{ORIGIN}" adapter --out got',
            says=("Downloaded 2 file(s)",),
            reaches=("got",),
        ),
    ),
    "Sunday: tidying up": (
        mine("dvc exp remove seed-4 seed-5", says=("seed-5",)),
        mine("dvc gc --all-branches --all-experiments --force"),
        mine("dvc status", says=("up to date",)),
    ),
}
