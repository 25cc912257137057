"""evidence/README.md: what a reader of a git host meets first: verdict, one figure, what every file is, how
to check it."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.config.training import ELSEWHERE
from assay.core.evidence_files import FILES, LOGS, NAMED_DATA, OBSERVED_FILES, RESULTS
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.verdict import DRAFT
from assay.verdict.evidence.tables.markdown import MARKDOWN
from assay.verdict.evidence.words.sentences import controls_said

VERIFY: tuple[tuple[str, str], ...] = (
    (
        (
            "In a checkout, from the data on: build the base, measure, train, measure again, and compare with"
            " what was published. No difference means that all bytes are the same. Without --force only what"
            " is missing or changed is made, and what git holds is taken as it is:"
        ),
        "./run repro --force && git diff --exit-code evidence/results evidence/README.md",
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
            " plays again, with --retrain it is trained again. The sha256 has to be one that you trust:"
        ),
        "./run assay verify dist/assay-package.tar --sha256 dist/assay-package.sha256",
    ),
    (
        (
            "With Python and nothing else, by the verify.py of this repository, never by that of a package:"
            " whether all files are there, as listed, and no other:"
        ),
        "python3 src/assay/stages/packing/verify.py dist/assay-package.tar",
    ),
)


def landing_page(
    claim: Claim, key_figure: tuple[str, str] | None, limits: Sequence[str], *, data: str
) -> str:
    """Return evidence/README.md; links are relative.

    A page cannot know the settings at hand when it is read, so it says which data, plan and policies it is
    about.

    Args:
        claim: One that is not evaluable shows no figure: a figure is numbers too.
        key_figure: (name, caption) of the figure that tells most.
        limits: What is not claimed, one sentence each.
        data: What the data are called.
    """
    page = MARKDOWN.get_template("evidence_readme.md")
    return page.render(claim=claim, key_figure=key_figure, limits=limits, data=data)


def written(folder: str, name: str, claim: Claim) -> bool:
    """Return whether a run with such a claim has a file: rivals, secondary suites and a log of the training
    are not in every one."""
    if name.startswith("rival_"):
        return name[6:-6] in claim.plan.rivals
    if name == "sft.csv":
        return any(each.code == "base_fine_tuned" for each in claim.warnings)
    if name.endswith("_secondary"):
        return bool(claim.plan.secondary_suites)
    elsewhere = claim.plan.checkpoint_rule == ELSEWHERE
    if name == "openings.json":
        return claim.verdict != DRAFT
    if name == NAMED_DATA:
        return elsewhere
    return not elsewhere or name == "train.json" or folder not in (f"{RESULTS}/train", f"{LOGS}/train")


MARKDOWN.globals |= {
    "written": written,
    "FILES": FILES,
    "LOGS": LOGS,
    "OBSERVED_FILES": OBSERVED_FILES,
    "VERIFY": VERIFY,
    "controls_said": controls_said,
}
