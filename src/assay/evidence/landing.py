"""evidence/README.md: what a reader of a git host meets first: verdict, one figure, what every file is, how to check it."""

from __future__ import annotations

from collections.abc import Sequence

from assay.evidence.claim import Claim, controls_said
from assay.evidence.hostile_text import one_line, visible

# (file of evidence/results, meaning). The files are a contract; tests check that every stage's files stand here.
RESULT_FILES: tuple[tuple[str, str], ...] = (
    ("report.html", "the whole report as one page without a network: download it and open it in a browser"),
    ("summary.md", "verdict and main tables as Markdown"),
    ("sample_trajectories.md", "episodes before and after, side by side, chosen by rule"),
    ("figures", "every figure, PNG and SVG"),
    ("claim.json", "the claim: verdict, numbers, intervals, p, controls, warnings"),
    ("claim_plan.json", "what was to be called an improvement, fixed before training"),
    ("plan_power.json", "the smallest gain that could be found, planned before training from the base's own draws"),
    ("before_after_metrics.json", "every measure before and after, and the paired difference, each with its interval"),
    ("metrics.json", "the few numbers that `dvc metrics` shows"),
    ("plots/rates.csv", "what `dvc plots` draws: rates before and after"),
    ("plots/differences.csv", "the same: paired differences"),
    ("plots/rewards.csv", "the same: rewards per episode"),
    ("pre_eval.jsonl", "every held-out episode of the base, sampled, one a line"),
    ("pre_eval.json", "the report on them"),
    ("pre_eval_greedy.jsonl", "the same with greedy decoding"),
    ("pre_eval_greedy.json", "the report on them"),
    ("post_eval.jsonl", "every held-out episode of the chosen checkpoint, sampled, one a line"),
    ("post_eval.json", "the report on them"),
    ("post_eval_greedy.jsonl", "the same with greedy decoding"),
    ("post_eval_greedy.json", "the report on them"),
    ("baselines.json", "scripted players on the same suite"),
    ("control", "the control training for random rewards, where the plan asks for one"),
    ("training_log.csv", "reward, loss, KL and more of every optimizer step"),
    ("reward_components.csv", "reward parts and rates of every step"),
    ("checkpoint_evals.csv", "the validation suite at every checkpoint"),
    ("fields.csv", "how often each field of an answer said nothing, one and the same, and what is right, beside the golds"),
    ("train_log.jsonl", "all the trainer knows of every step (not in git: `./run repro` makes it, the package holds it)"),
    ("validation.jsonl", "every episode of every validation (not in git, as the last one)"),
    ("health.jsonl", "alarms of the training"),
    ("train.json", "the training in short: seed, steps, chosen checkpoint, alarms, digest of every step"),
    ("base.json", "which base: how it was built, or which revision of which model; its digest"),
    ("fingerprint.json", "digests and counts of the data"),
    ("audit.json", "what the audit found in the data"),
    ("contamination.json", "what the splits share that they should not"),
)
OBSERVED_FILES: tuple[tuple[str, str], ...] = (
    ("manifest.json", "who trained what on what: commit, packages, hardware, allowed environment"),
    ("heldout_openings.json", "every policy that was let loose on a held-out suite here, and how often"),
    ("run_log.jsonl", "events of the training with their times"),
    ("training_clock.csv", "where the seconds of every step went, tokens a second, memory"),
    ("training_clock.json", "the same in short, with intervals"),
    ("provenance.json", "who packaged what when, at which commit, on what: a statement about the archive"),
)
VERIFY: tuple[tuple[str, str], ...] = (
    (
        "In a checkout, from the data on: build the base, measure, train, measure again, and compare with what was published. "
        "No difference means that all bytes are the same:",
        "./run repro && git diff --exit-code evidence/results evidence/README.md",
    ),
    (
        "In a checkout, without training: grade every stored completion again, compute every number, figure and page again "
        "from the episodes, and compare:",
        "./run assay render-evidence && git diff --exit-code evidence/results evidence/README.md",
    ),
    (
        "From the package alone, wherever it is: every file, every number from the raw episodes, every completion graded "
        "again, and whether all of it holds together. With --regenerate 1 the model plays again, with --retrain it is trained "
        "again:",
        "./run assay verify dist/assay-package.tar",
    ),
    (
        "With Python and nothing else, in an unpacked package: whether all files are there, as listed, and no other:",
        "python3 verify.py",
    ),
)
_OWN_STORE = ("train_log.jsonl", "validation.jsonl")


def landing_page(claim: Claim, key_figure: tuple[str, str] | None, limits: Sequence[str], *, data: str) -> str:
    """Return evidence/README.md; `key_figure` is (name, caption) of the figure that tells most. Links are relative.

    It says which data, plan and policies it is about, `data` being what the data are called: a page cannot know the settings
    at hand when it is read.

    A claim that is not evaluable shows no figure: a figure is numbers too.
    """
    split = "Measurements are in `results/`: a function of data, settings and code, the same bytes each time. Clocks and "
    split += "hardware are in `observed/` and enter no number."
    blocks = [f"# Evidence: {one_line(data)}", f"**{claim.verdict}.** {visible(claim.sentence)}"]
    if claim.verdict == "NOT EVALUABLE":
        blocks.append(f"Reason: {one_line(claim.reason)}.")
    else:
        blocks.append(controls_said(claim))
    about = f"plan `{claim.plan_digest[:12]}`, base `{one_line(claim.before_policy[:12])}`, policy "
    about += f"`{one_line(claim.after_policy[:12])}`"
    if claim.plan.dataset_sha256 is not None:
        about = f"dataset `{claim.plan.dataset_sha256[:12]}`, {about}"
    blocks.append(f"This is about {about}. `./run assay verdict` says whether these are the settings and data at hand.")
    if claim.warnings:
        blocks += ["Warnings:", "\n".join(f"- {one_line(text)}" for text in claim.warnings)]
    if key_figure is not None and claim.verdict != "NOT EVALUABLE":
        name, caption = key_figure
        blocks += [f"![{one_line(caption)}](results/figures/{name}.png)", one_line(caption)]
    rows = [f"| {_link(name)} | {meaning} |" for name, meaning in RESULT_FILES]
    blocks += ["## Files", split, "\n".join(["| file of `results/` | what it is |", "| --- | --- |", *rows])]
    rows = [f"| [{name}](observed/{name}) | {meaning} |" for name, meaning in OBSERVED_FILES]
    blocks.append("\n".join(["| file of `observed/` | what it is |", "| --- | --- |", *rows]))
    blocks += ["## Check it", *(f"{said}\n\n```sh\n{command}\n```" for said, command in VERIFY)]
    blocks += ["## Limits", "\n".join(f"- {one_line(text)}" for text in limits)]
    blocks.append("This page is written by `assay render-evidence`; an edit by hand would not last.")
    return "\n\n".join(blocks) + "\n"


def _link(name: str) -> str:
    return f"`{name}`" if name in _OWN_STORE else f"[{name}](results/{name})"
