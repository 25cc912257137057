"""Players of reasoning-gym's rotate_matrix; the questions and the grader are the package's."""


def matrix_of(prompt):
    """Return the rows of the matrix that a prompt ends with."""
    lines = prompt.strip().split("\n")
    start = next(place for place, line in enumerate(lines) if line.endswith("clockwise:"))
    return [line.split() for line in lines[start + 1 :]]


def written(rows):
    """Return a matrix as it is asked for."""
    return "\n".join(" ".join(row) for row in rows)


def dizzy(prompt, rng):
    """Rotate the other way half of the time, the right way a quarter of it, and else not at all."""
    rows, chance = matrix_of(prompt), rng.uniform()
    if chance < 0.5:
        return written(list(zip(*rows, strict=True))[::-1])
    return written(zip(*rows[::-1], strict=True)) if chance < 0.75 else written(rows)


def still(prompt):
    """Copy the matrix."""
    return written(matrix_of(prompt))
