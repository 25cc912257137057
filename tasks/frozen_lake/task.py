"""Over the ice to the goal: what the walker is told of gymnasium's FrozenLake, and players of it."""

from collections import deque

import numpy as np

SIZE, HOLES, NEAREST, FARTHEST = 5, 6, 2, 4
MOVES = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}


def describe(environment, observation, row, turn):
    """Tell what lies in each direction: an edge, a hole, ice nearer to the goal or ice farther from it."""
    lake = row["kwargs"]["desc"]
    steps, size = distances(lake), len(lake)
    line, column = divmod(int(observation), size)
    told = []
    for word, (down, right) in MOVES.items():
        place = line + down, column + right
        mark = "edge"
        if 0 <= place[0] < size and 0 <= place[1] < size:
            mark = "hole" if lake[place[0]][place[1]] == "H" else "far"
            if place in steps and steps[place] < steps[line, column]:
                mark = "near"
        told.append(f"{mark} {word}")
    return " ".join([*([*lake, "walk:"] if turn == 0 else []), *told])


def distances(lake):
    """Return how many steps over ice each place is from the goal."""
    size = len(lake)
    start = next((i, j) for i in range(size) for j in range(size) if lake[i][j] == "G")
    found, waiting = {start: 0}, deque([start])
    while waiting:
        i, j = waiting.popleft()
        for down, right in MOVES.values():
            place = i + down, j + right
            inside = 0 <= place[0] < size and 0 <= place[1] < size
            if inside and place not in found and lake[place[0]][place[1]] != "H":
                found[place] = found[i, j] + 1
                waiting.append(place)
    return found


def generate(rng, n):
    """Return lakes whose goal is a few steps from the start."""
    found = []
    while len(found) < n:
        letters = np.full(SIZE * SIZE, "F")
        places = rng.permutation(SIZE * SIZE)
        letters[places[:HOLES]] = "H"
        letters[places[HOLES]], letters[places[HOLES + 1]] = "S", "G"
        lake = ["".join(letters[start : start + SIZE]) for start in range(0, SIZE * SIZE, SIZE)]
        steps = distances(lake).get(divmod(int(places[HOLES]), SIZE), 0)
        if NEAREST <= steps <= FARTHEST:
            found.append({"kwargs": {"desc": lake}, "lake": " ".join(lake), "steps": str(steps)})
    return found


def marked(observation):
    """Return each mark that was told with its direction."""
    words = observation.split("walk:")[-1].split()
    return list(zip(words[::2], words[1::2], strict=True))


def shy(observation, rng):
    """Turn away from the goal more often than go to it."""
    told, chance = marked(observation), rng.uniform()
    wanted = "far" if chance < 0.5 else "near" if chance < 0.8 else ""
    ways = [word for mark, word in told if mark == wanted] or [word for _, word in told]
    return ways[rng.integers(len(ways))]


def astray(rng):
    """Walk anywhere."""
    return list(MOVES)[rng.integers(4)]


def guide(observation):
    """Walk nearer at every step."""
    return next(word for mark, word in marked(observation) if mark == "near")
