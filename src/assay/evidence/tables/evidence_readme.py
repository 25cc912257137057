"""evidence/README.md: what a reader of a git host meets first: verdict, one figure, what every file is, how
to check it."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.evidence_files import FILES, LOGS, OBSERVED_FILES
from assay.evidence.claim.claim import Claim, controls_said
from assay.evidence.escape import one_line, visible

VERIFY: tuple[tuple[str, str], ...] = (
    (
        (
            "In a checkout, from the data on: build the base, measure, train, measure again, and compare with"
            " what was published. No difference means that all bytes are the same:"
        ),
        "./run repro && git diff --exit-code evidence/results evidence/README.md",
    ),
    (
        (
            "In a checkout, without training: grade every stored completion again, compute every number,"
            " figure and page again from the episodes, and compare:"
        ),
        "./run assay render-evidence && git diff --exit-code evidence/results evidence/README.md",
    ),
    (
        (
            "From the package alone, wherever it is: every file, every number from the raw episodes, every"
            " completion graded again, and whether all of it holds together. With --regenerate 1 the model"
            " plays again, with --retrain it is trained again:"
        ),
        "./run assay verify dist/assay-package.tar",
    ),
    (
        (
            "With Python and nothing else, in an unpacked package: whether all files are there, as listed,"
            " and no other:"
        ),
        "python3 verify.py",
    ),
)


def landing_page(
    claim: Claim, key_figure: tuple[str, str] | None, limits: Sequence[str], *, data: str
) -> str:
    """Return evidence/README.md; `key_figure` is (name, caption) of the figure that tells most. Links are
    relative.

    It says which data, plan and policies it is about, `data` being what the data are called: a page cannot
    know the settings at hand when it is read.

    A claim that is not evaluable shows no figure: a figure is numbers too.
    """
    split = (
        "Measurements are in `results/`: a function of data, settings and code, the same bytes each time."
        " Clocks and "
    )
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
    blocks.append(
        f"This is about {about}. `./run assay verdict` says whether these are the settings and data at hand."
    )
    if claim.warnings:
        blocks += ["Warnings:", "\n".join(f"- {one_line(text)}" for text in claim.warnings)]
    if key_figure is not None and claim.verdict != "NOT EVALUABLE":
        name, caption = key_figure
        blocks += [f"![{one_line(caption)}](results/report/figures/{name}.png)", one_line(caption)]
    rows = [
        f"| {_link(folder, name)} | {meaning} |"
        for folder, names in FILES.items()
        for name, meaning in names.items()
    ]
    blocks += ["## Files", split, "\n".join(["| file | what it is |", "| --- | --- |", *rows])]
    rows = [f"| [{name}](observed/{name}) | {meaning} |" for name, meaning in OBSERVED_FILES.items()]
    blocks.append("\n".join(["| file of `observed/` | what it is |", "| --- | --- |", *rows]))
    blocks += ["## Check it", *(f"{said}\n\n```sh\n{command}\n```" for said, command in VERIFY)]
    blocks += ["## Limits", "\n".join(f"- {one_line(text)}" for text in limits)]
    blocks.append("This page is written by `assay render-evidence`; an edit by hand would not last.")
    return "\n\n".join(blocks) + "\n"


def _link(folder: str, name: str) -> str:
    path = f"{folder}/{name}".removeprefix("evidence/")
    return f"`{path}`" if folder.startswith(LOGS) else f"[{path}]({path})"
