"""Players of reasoning-gym's chain_sum; the questions and the grader are the package's."""

import re


def first(prompt):
    """Say the first number."""
    return re.findall(r"\d+", prompt)[0]


def two_terms(prompt):
    """Add up the first two numbers, whatever follows."""
    one, sign, other = re.findall(r"\d+|[+-]", prompt)[:3]
    return str(int(one) + int(sign + other))
