"""Pack a run, runs of several seeds or a judgement, and check a package that anybody packed.

    >>> import pandas as pd
    >>> from assay.package import pack, verify
    >>> from assay.verdict import compare, read
    >>> examples = [f"q{n}" for n in range(40)]
    >>> before = read(pd.DataFrame({"item": examples, "score": [0, 0, 1, 0] * 10}))
    >>> after = read(pd.DataFrame({"item": examples, "score": [1, 0, 1, 1] * 10}))
    >>> packed = pack(compare(before, after), getfixture("tmp_path") / "mine.tar")
    >>> verify(packed.path, packed.sha256).passed
    True

What `assay package`, `assay seeds`, `assay judge` and `assay verify` do, for notebooks and scripts. Nothing
that came in a package is run, and torch is loaded by V4 and V5 alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.faces import load_lazily

if TYPE_CHECKING:
    from assay.package.checking import verify
    from assay.package.packed import Packed, pack
    from assay.package.verification.checks import Check, Verification

__all__ = ["Check", "Packed", "Verification", "pack", "verify"]
__getattr__ = load_lazily(
    __name__,
    {
        "Check": "assay.package.verification.checks:Check",
        "Packed": "assay.package.packed:Packed",
        "Verification": "assay.package.verification.checks:Verification",
        "pack": "assay.package.packed:pack",
        "verify": "assay.package.checking:verify",
    },
)
