"""What a planned judgement comes to for whoever waits for a yes or no: a word, an exit code, JUnit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from assay.core.storage.files import write_text
from assay.core.storage.json import digest
from assay.verdict.evidence.claim.claim import Claim
from assay.verdict.evidence.claim.verdict import losses_of
from assay.verdict.evidence.claim.voids import voided
from assay.verdict.evidence.escape import one_line, visible
from assay.verdict.evidence.words.remarks import remark, say_all
from assay.verdict.judge.plan import JudgePlan, planned_said

NOT_EVALUABLE, NOT_SHOWN, WORSE = 5, 7, 8
SHOWN = "SHOWN AS PLANNED"


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether what was planned was shown: a word, the exit code, and why."""

    word: str
    code: int
    why: str


def gate_of(claim: Claim, plan: JudgePlan) -> Gate:
    """Return what a claim comes to under its plan; a warning that voids it makes what would be shown not
    shown."""
    found, margin = _word_of(claim, plan), 0.0
    if plan.show == "no worse" and claim.effect is not None:
        margin = claim.effect.rise_that_matters if plan.lower_is_better else claim.effect.fall_that_matters
    if found.code == 0 and (voids := voided(claim, margin)):
        return Gate("NOT SHOWN", NOT_SHOWN, say_all(voids))
    return found


def _word_of(claim: Claim, plan: JudgePlan) -> Gate:
    """Return what the numbers of a claim come to under its plan.

    A loss that is shown is WORSE, whatever its size. Better takes that nothing else got worse, and that
    every rival of the plan is beaten.
    """
    effect, gap = claim.effect, claim.difference
    if claim.verdict == "NOT EVALUABLE" or effect is None or gap is None:
        return Gate("NOT EVALUABLE", NOT_EVALUABLE, claim.reason)
    if effect.direction == "worse":
        return Gate("WORSE", WORSE, claim.reason)
    if plan.show == "no worse":
        end, margin = gap.low, effect.fall_that_matters
        if plan.lower_is_better:
            end, margin = None if gap.high is None else -gap.high, effect.rise_that_matters
        said = f"a loss of {100 * margin:.3g} points"
        if end is not None and end > -margin:
            return Gate(SHOWN, 0, f"the interval excludes {said}")
        return Gate("NOT SHOWN", NOT_SHOWN, f"the interval does not exclude {said}")
    if effect.direction != "better":
        return Gate("NOT SHOWN", NOT_SHOWN, claim.reason)
    worse = losses_of(claim.guardrails, claim.secondary, claim.secondary_suites, claim.plan, claim.strata)
    if worse or (plan.rivals and claim.verdict != "BETTER"):
        return Gate("NOT SHOWN", NOT_SHOWN, say_all(worse) if worse else claim.reason)
    if plan.rivals:
        return Gate(SHOWN, 0, claim.reason)
    better = remark("better", level=claim.level)
    return Gate(SHOWN, 0, f"{better}; no baselines are planned, so whether it takes skill was not asked")


def gate_block(title: str, claim: Claim, plan: JudgePlan) -> str:
    """Return the head of summary.md: what came of the plan, in Markdown."""
    gate = gate_of(claim, plan)
    return (
        f"### {gate.word}: {one_line(title)}\n\nPlanned: {one_line(planned_said(plan))}. Found:"
        f" {one_line(gate.why)}.\n\nPlan of {plan.made}, sha256 `{digest(plan)}`.\n\n"
    )


def code_of(codes: Iterable[int]) -> int:
    """Return the exit code of several comparisons: what cannot be compared before a loss before nothing
    shown.

    >>> code_of([0, 7, 8]), code_of([8, 5]), code_of([0, 0])
    (8, 5, 0)
    """
    found = set(codes)
    return next((code for code in (NOT_EVALUABLE, WORSE, NOT_SHOWN) if code in found), 0)


def write_junit(path: Path, claims: Mapping[str, Claim], plan: JudgePlan) -> None:
    """Write three tests of each claim as JUnit: the results are the planned ones, no loss, what was planned
    is shown."""
    suites = [_suite(title, claim, plan) for title, claim in claims.items()]
    root = suites[0]
    if len(suites) > 1:
        root = Element("testsuites", name="assay judge")
        root.extend(suites)
    indent(root)
    write_text(path, f"{tostring(root, encoding='unicode', xml_declaration=True)}\n")


def _suite(title: str, claim: Claim, plan: JudgePlan) -> Element:
    gate = gate_of(claim, plan)
    names = ("the results are those of the plan", "no loss is shown", f"planned: {planned_said(plan)}")
    failed = {NOT_EVALUABLE: 0, WORSE: 1, NOT_SHOWN: 2}.get(gate.code, len(names))
    skipped = {NOT_EVALUABLE: (1, 2), WORSE: (2,)}.get(gate.code, ())
    suite = Element(
        "testsuite",
        name="assay judge",
        tests=str(len(names)),
        failures=str(int(failed < len(names))),
        errors="0",
        skipped=str(len(skipped)),
    )
    for k, name in enumerate(names):
        case = SubElement(suite, "testcase", classname=f"assay.judge.{visible(title)}", name=visible(name))
        if k == failed:
            SubElement(case, "failure", message=visible(f"{gate.word}: {gate.why}"), type=gate.word)
        elif k in skipped:
            SubElement(case, "skipped", message=visible(f"{gate.word}, so this was not looked at"))
    SubElement(suite, "system-out").text = visible(f"{claim.verdict}: {claim.sentence}")
    return suite
