"""Numbers and verdicts as words, in one form everywhere."""

from __future__ import annotations

from assay.core.records import Interval
from assay.rollout.dataset.suite import FEWEST_CLUSTERS
from assay.verdict.statistics.tests import FEWEST_OPEN

MISSING = "missing"
NO_INTERVAL = "[interval missing]"


def percent(share: float | None, places: int = 1) -> str:
    """Return a share as a percentage without its sign.

    >>> percent(0.412), percent(None)
    ('41.2', 'missing')
    """
    return MISSING if share is None else f"{100 * share:.{places}f}"


def signed(number: float | None, scale: float = 1.0, places: int = 1) -> str:
    r"""Return a number with its sign; a true minus sign for negative ones.

    >>> [ascii(signed(x, 100)) for x in (0.086, -0.005, -0.00001)]
    ["'+8.6'", "'\\u22120.5'", "'+0.0'"]
    """
    if number is None:
        return MISSING
    text = f"{abs(scale * number):.{places}f}"
    negative = number < 0 and float(text) != 0.0
    return ("\u2212" if negative else "+") + text


def p_text(p: float | None) -> str:
    """Return "p = .0006" as journals write it: no zero before the point, four places at most.

    >>> p_text(0.0006), p_text(0.00002), p_text(1.0), p_text(0.31245)
    ('p = .0006', 'p < .0001', 'p = 1', 'p = .312')
    """
    if p is None:
        return "no p"
    number = p_number(p)
    return f"p {number}" if number.startswith("<") else f"p = {number}"


def p_number(p: float | None) -> str:
    """Return the same for a place whose head already says p.

    What would be rounded to a level that it does not meet, or does, gets the places that tell the two apart.

    >>> p_number(0.0006), p_number(0.00002), p_number(1.0), p_number(None)
    ('.0006', '< .0001', '1', 'no p')
    >>> p_number(0.0502), p_number(0.04996), p_number(0.05), p_number(0.3)
    ('.0502', '.04996', '.050', '.300')
    """
    if p is None:
        return "no p"
    if p < 0.0001:
        return "< .0001"
    usual = f"{p:.{3 if p >= 0.01 else 4}f}"
    texts = (usual, *(f"{p:.{places}f}" for places in range(4, 7)))
    text = next((text for text in texts if text[-1] != "0" or float(text) in (p, 1.0)), usual)
    return "1" if text.startswith("1") else text.lstrip("0")


def ordinal(n: int) -> str:
    """Return a place as a word.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '13th', '21st', '102nd', '111th']
    """
    teens = 11 <= n % 100 <= 13
    return f"{n}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def interval_text(found: Interval | None, *, rate: bool) -> str:
    """Return a value with its interval in brackets, rates in per cent.

    >>> interval_text(Interval(value=0.5, low=0.25, high=0.75, n=8), rate=True)
    '50.0 [25.0, 75.0]'
    """
    if found is None or found.value is None:
        return MISSING
    scale, places = (100.0, 1) if rate else (1.0, 3)
    value = f"{scale * found.value:.{places}f}"
    if found.low is None or found.high is None:
        return f"{value} {NO_INTERVAL}"
    return f"{value} [{scale * found.low:.{places}f}, {scale * found.high:.{places}f}]"


def difference_text(found: Interval | None, *, rate: bool) -> str:
    """Return a signed difference with its interval in brackets, rates in points.

    >>> difference_text(Interval(value=0.086, low=0.041, high=0.13, n=8), rate=True)
    '+8.6 [+4.1, +13.0]'
    """
    if found is None or found.value is None:
        return MISSING
    scale, places = (100.0, 1) if rate else (1.0, 3)
    value = signed(found.value, scale, places)
    if found.low is None or found.high is None:
        return f"{value} {NO_INTERVAL}"
    return f"{value} [{signed(found.low, scale, places)}, {signed(found.high, scale, places)}]"


def missing_interval_said(cluster_name: str) -> str:
    """Return why an interval may be missing, for the foot of tables that hold such a cell.

    >>> print(missing_interval_said("scenarios"))  # doctest: +NORMALIZE_WHITESPACE
    [interval missing]: too few scenarios for their sizes (of one size 6, of means without bounds 30),
    or all alike.
    """
    return (
        f"{NO_INTERVAL}: too few {cluster_name} for their sizes (of one size {FEWEST_CLUSTERS}, of means"
        f" without bounds {FEWEST_OPEN}), or all alike."
    )


def split_word(split: str) -> str:
    """Return a split as it is written in text.

    >>> split_word("heldout")
    'held-out'
    """
    return "held-out" if split == "heldout" else split
