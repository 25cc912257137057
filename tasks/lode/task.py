"""Dig for a lode: the example that uses every ability a task can have; docs/own-task.md speaks of each."""

import json
import re

import numpy as np

from assay.rollout import (
    AnswerKey,
    Batched,
    Environment,
    FieldAnswer,
    Generated,
    Illustrated,
    JsonAnswers,
    Mark,
    Oddity,
    Panel,
    Picture,
    Records,
    Shaped,
    Taught,
    Told,
)

TURNS = 4
PLOTS = (6, 10)
GOLD, RUBBLE, NOT_DUG = "gold", "rubble", "gold not dug"
NOTES = ("grey", "hill", "by", "the", "river", "old", "mine", "north")
WORDS = ('{"act":"', '","plot":', "}", "probe", "dig", "field", "of", "plots", "plot", "specks", "at", "left")


def written(act, plot):
    """Return a completion."""
    return json.dumps({"act": act, "plot": int(plot)}, separators=(",", ":"))


def read(completion, plots):
    """Return act, plot and whether the JSON had to be dug out of other text; act None: why it is no move."""
    found = re.search(r"\{[^{}]*\}", completion)
    try:
        said = json.loads(found[0])
        act, plot = said["act"], said["plot"]
    except (TypeError, ValueError, KeyError):
        return None, "no object with act and plot", False
    if act not in ("probe", "dig") or type(plot) is not int or not 0 <= plot < plots:
        return None, "no such act, or no such plot", False
    return act, plot, found[0] != completion.strip()


def drawn(rng, least, most):
    """Return a field: its plots, the one with the lode, the rubble in each."""
    plots = int(rng.integers(least, most))
    return plots, int(rng.integers(plots)), tuple(rng.integers(4, size=plots).tolist())


def record(rng, plots, lode, rubble):
    """Return a field with a note."""
    note = " ".join(NOTES[place] for place in rng.integers(len(NOTES), size=2).tolist())
    return {"plots": plots, "lode": lode, "rubble": list(rubble), "note": note}


class Lode(Environment, AnswerKey, JsonAnswers, Taught, Illustrated, Batched, Shaped, Records, Generated):
    """Gold glitters up to one plot away, and rubble glitters too: three probes, then dig."""

    plane = ("plot that was dug, or should have been", "specks there")
    marks = {GOLD: True, RUBBLE: False, NOT_DUG: None}  # noqa: RUF012 - plain data, which nobody changes

    def reset(self, row, seed):
        self.plots, self.lode, self.rubble = row["plots"], row["lode"], np.array(row["rubble"])
        self.seen, self.moves, self.probed, self.dug = {}, [], set(), None
        return f"{row['note']} field of {self.plots} plots".strip()

    def step(self, completion):
        return self.step_batch([self], [completion])[0]

    # --- batch_step: what costs time is computed for all at once

    @staticmethod
    def step_batch(environments, completions):
        reads = [read(said, each.plots) for each, said in zip(environments, completions, strict=True)]
        plots = np.array([0 if act is None else plot for act, plot, _ in reads])
        lodes = np.array([each.lode for each in environments])
        rubble = np.array([each.rubble[plot] for each, plot in zip(environments, plots, strict=True)])
        specks = np.maximum(0, 4 - 2 * np.abs(plots - lodes)) + rubble
        moves = zip(environments, reads, specks.tolist(), strict=True)
        return [each._moved(*found, specks) for each, found, specks in moves]

    def _moved(self, act, plot, repaired, specks):
        self.moves.append(act)
        left = TURNS - len(self.moves)
        if act is None:
            return Told(f"{left} left", {"form": -0.02}, failure=plot)
        self.seen[plot] = specks
        said = {"action": f"{act} {plot}", "repaired": repaired}
        if act == "probe":
            self.probed.add(plot)
            return Told(f"{specks} specks at {plot} {left} left", {"form": 0.0}, **said)
        self.dug = plot
        off, probes = abs(plot - self.lode), self.moves.count("probe")
        return Told(
            None,
            {"found": 1.0 if off == 0 else 0.2 * (off == 1)},
            success=off == 0,
            flags={"near": off <= 1, "again": probes > len(self.probed), "in_field": True},
            metrics={"probes": probes},
            ending="dug",
            **said,
        )

    # --- players, as task.players names them

    def hasty(self, rng):
        """Dig beside the best plot seen more often than in it: weak."""
        if not self.seen or (len(self.seen) < 3 and rng.uniform() < 0.6):
            return written("probe", rng.integers(self.plots))
        best = max(self.seen, key=self.seen.get)
        return written("dig", best if rng.uniform() < 0.3 else (best + 1) % self.plots)

    def first(self):
        """Dig in the first plot: trivial."""
        return written("dig", 0)

    def search(self):
        """Probe three plots apart, then dig in the best: scripted."""
        places = [self.plots // 6, self.plots // 2, self.plots * 5 // 6]
        if len(self.moves) < 3:
            return written("probe", places[len(self.moves)])
        return written("dig", max(self.seen, key=self.seen.get))

    # --- answer_key

    def solution(self, row):
        return written("dig", row["lode"])

    def right_answer(self, row):
        return str(row["lode"])

    def answer(self, row, action):
        return action.split()[-1]

    def shape(self, row):
        return f"{row['plots']} plots"

    def fields(self, row, action):
        act, plot = action.split()
        return {} if act != "dig" else {"plot": FieldAnswer(plot, str(row["lode"]), plot == str(row["lode"]))}

    def survey(self, rows):
        lodes = {row["lode"] for row in rows}
        return [Oddity("constant_field", f"lode: {lodes.pop()} in all records")] if len(lodes) == 1 else []

    # --- schema

    def answer_schema(self, row):
        moves = {"act": {"enum": ["probe", "dig"]}, "plot": {"enum": list(range(row["plots"]))}}
        return {
            "type": "object",
            "properties": moves,
            "required": ["act", "plot"],
            "additionalProperties": False,
        }

    # --- teach

    def vocabulary(self, rows):
        return [*WORDS, *NOTES, " ", *map(str, range(20))]

    def demonstrations(self, rows, rng, n):
        for place in rng.integers(len(rows), size=n).tolist():
            field = Lode()
            dialogue = [{"role": "user", "content": field.reset(rows[place], 0)}]
            for _ in range(TURNS):
                said = field.hasty(rng)
                told = field.step(said)
                dialogue.append({"role": "assistant", "content": said})
                if told.text is None or len(field.moves) == TURNS:
                    break
                dialogue.append({"role": "user", "content": told.text})
            yield dialogue

    def drills(self, rows, rng, n):
        for act, plot in zip(rng.choice(["probe", "dig"], n), rng.integers(9, size=n), strict=True):
            yield [
                {"role": "user", "content": f"{act} at {plot}"},
                {"role": "assistant", "content": written(str(act), plot)},
            ]

    # --- illustrate

    def picture(self, row, completions):
        dug = None if self.dug is None else (float(self.dug), self.dug + 1.0)
        panel = Panel(
            "specks seen",
            list(range(self.plots + 1)),
            [self.seen.get(plot, 0) for plot in range(self.plots)],
            [1.0 * (plot in self.seen) for plot in range(self.plots)],
            dug,
            self.lode + 0.5,
        )
        return Picture(
            "plot", "specks", [panel], "" if not self.moves else f"{self.moves[-1] or 'unreadable'}"
        )

    def mark(self, row, completions):
        if self.dug is None:
            return Mark(self.lode, 4, NOT_DUG)
        return Mark(self.dug, self.seen[self.dug], GOLD if self.dug == self.lode else RUBBLE)

    def spent(self, row, completions):
        used = {"probes": self.moves.count("probe"), "digging": self.moves.count("dig")}
        used |= {"unreadable": self.moves.count(None), "not used": TURNS - len(self.moves)}
        return {"turns": {name: n / TURNS for name, n in used.items()}}

    # --- shape

    def potential(self, row, completions):
        return max((1 - abs(plot - self.lode) / self.plots for plot in self.seen), default=0.0)

    # --- records

    def oddities(self, row):
        return [Oddity("type_spelling", "plots is a text")] if isinstance(row["plots"], str) else []

    def shortened(self, row, chars):
        return {**row, "note": row["note"][: -chars or None]} if chars <= len(row["note"]) else None

    # --- generate

    def generate(self, rng, n):
        return [record(rng, *drawn(rng, *PLOTS)) for _ in range(n)]
