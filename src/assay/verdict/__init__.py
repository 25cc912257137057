"""Is one set of results better than another? Read two, compare them, write the report.

    >>> import pandas as pd
    >>> from assay.verdict import compare, read
    >>> examples = [f"q{n}" for n in range(40)]
    >>> before = read(pd.DataFrame({"item": examples, "score": [0, 0, 1, 0] * 10}))
    >>> after = read(pd.DataFrame({"item": examples, "score": [1, 0, 1, 1] * 10}))
    >>> rival = read(pd.DataFrame({"item": examples, "score": [0, 1, 0, 0] * 10}))
    >>> claim = compare(before, after, rivals={"always B": rival})
    >>> claim.verdict, claim.gain
    ('BETTER', 50.0)

No torch, and no project: what `assay judge` does, for notebooks and scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.faces import load_lazily

if TYPE_CHECKING:
    from assay.verdict.claims import Claim, compare, report
    from assay.verdict.plans import plan, read_plan
    from assay.verdict.results import Results, read

__all__ = ["Claim", "Results", "compare", "plan", "read", "read_plan", "report"]
__getattr__ = load_lazily(
    __name__,
    {
        "Claim": "assay.verdict.claims:Claim",
        "Results": "assay.verdict.results:Results",
        "compare": "assay.verdict.claims:compare",
        "plan": "assay.verdict.plans:plan",
        "read": "assay.verdict.results:read",
        "read_plan": "assay.verdict.plans:read_plan",
        "report": "assay.verdict.claims:report",
    },
)
