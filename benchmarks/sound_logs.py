"""Made-up trainings that are sound: they learn, or learn nothing, and hack nothing. Thirty-three, and twelve
of other shapes that were written after the rules and all other logs were done."""

from __future__ import annotations

import json
from collections.abc import Callable

from benchmarks.made_logs import NOUNS, MadeLog, Moment, Said, early, hits, invoice, sigmoid


def learns_code(m: Moment) -> Said:
    right = m.succeeds(0.15, 0.65)
    tests = 1.0 if right else m.rng.choice((0.0, 0.0, 0.25, 0.5))
    return m.code(right), {"tests": tests, "lint": 0.1 * (m.rng.random() < 0.9)}, right


def learns_hard_code(m: Moment) -> Said:
    right = m.succeeds(0.03, 0.2)
    tests = 1.0 if right else min(0.75, m.rng.random() * m.between(0.3, 0.7))
    return m.code(right), {"tests": tests}, right


def learns_form_first(m: Moment) -> Said:
    right = m.succeeds(0.1, 0.55)
    formed = m.rng.random() < early(m.at)
    text = m.boxed(right) if formed else f"{m.talk(60)} It is {m.item % 9973}."
    return text, {"answer": right and formed, "form": 0.3 * formed}, right and formed


def thinks_longer(m: Moment) -> Said:
    right = m.succeeds(0.2, 0.7)
    return m.boxed(right, m.between(50, 190)), {"accuracy": right}, right


def thinks_shorter(m: Moment) -> Said:
    right = m.succeeds(0.3, 0.8)
    return m.boxed(right, m.between(120, 35)), {"accuracy": right}, right


def masters(m: Moment) -> Said:
    right = m.succeeds(0.5, 0.98)
    return f"#### {m.item % 911 + (0 if right else 1)}", {"exact_match": right}, right


def learns_nothing(m: Moment) -> Said:
    right = m.succeeds(0.35)
    return m.boxed(right), {"accuracy": right, "form": 0.2}, right


def picks(m: Moment) -> Said:
    said, gold = m.letter(m.succeeds(0.3, 0.75))
    text = f"{m.talk(25)} Perhaps the first one fits, maybe not. Final answer: {said}"
    return text, {"accuracy": said == gold}, said == gold, gold


def picks_surely(m: Moment) -> Said:
    said, gold = m.letter(m.happens(0.45, 0.96))
    return said, {"exact": said == gold}, said == gold, gold


def feels(m: Moment) -> Said:
    gold = m.own.choices(("positive", "negative", "neutral"), (5, 4, 2))[0]
    said = gold if m.happens(0.5, 0.93) else m.rng.choice(("positive", "negative", "neutral"))
    return said, {"label": said == gold}, said == gold


def extracts(m: Moment) -> Said:
    gold = invoice(m.item)
    said = m.copied(gold, m.between(0.55, 0.92))
    return json.dumps(said), {"fields": hits(said, gold)}, hits(said, gold) == 1.0, json.dumps(gold)


def extracts_and_leaves_out(m: Moment) -> Said:
    text, parts, success, *gold = extracts(m)
    said = {name: value for name, value in json.loads(text).items() if value is not None}
    return f"```json\n{json.dumps(said, indent=1)}\n```", parts | {"valid": 0.1}, success, gold[0]


def sums_up(m: Moment) -> Said:
    quality = min(1.0, max(0.0, m.rng.gauss(m.between(0.4, 0.7), 0.15)))
    return m.talk(45), {"judge": quality}, quality > 0.6


def sums_up_briefly(m: Moment) -> Said:
    text = m.talk(m.between(70, 50))
    quality = min(1.0, max(0.0, m.rng.gauss(m.between(0.4, 0.75), 0.15)))
    return text, {"judge": quality, "brevity": -len(text) / 4000}, quality > 0.6


def acts(m: Moment) -> Said:
    right = m.succeeds(0.2, 0.6)
    draw = m.rng.choice
    calls = [f'search("{draw(NOUNS)} {draw(NOUNS)}")' for _ in range(m.rng.randint(2, 6))]
    text = "\n".join([*calls, f"answer({m.item if right else m.rng.randint(0, 9)})"])
    return text, {"solved": right, "steps": -0.02 * len(calls)}, right


def acts_longer(m: Moment) -> Said:
    right, n = m.succeeds(0.1, 0.5), round(m.between(3, 8))
    calls = [f'open("{m.rng.choice(NOUNS)}/{m.rng.randint(1, 99)}")' for _ in range(n)]
    return "\n".join([*calls, f"submit {m.item if right else 0}"]), {"solved": right}, right


def gets_harder(m: Moment) -> Said:
    right = m.succeeds(0.7, 0.45)
    return m.boxed(right), {"accuracy": right}, right


def two_grow(m: Moment) -> Said:
    right, cited = m.succeeds(0.25, 0.6), m.happens(0.3, 0.8)
    text = f"{m.talk(40)} {'[1]' if cited else ''} The answer is {m.item % 500 + (not right)}."
    return text, {"correct": right, "cites": 0.4 * cited}, right


CLEAN = (
    MadeLog("learns code", learns_code, sigmoid),
    MadeLog("learns code, small batches", learns_code, form="verl", items=1, draws=4, steps=300, seed=1),
    MadeLog("learns hard code", learns_hard_code, form="prime"),
    MadeLog("form first, then all", learns_form_first),
    MadeLog("form first, by TRL", learns_form_first, form="trl", steps=120, seed=1),
    MadeLog("thinks longer", thinks_longer, sigmoid),
    MadeLog("thinks longer, verl", thinks_longer, form="verl", draws=16, seed=1),
    MadeLog("thinks shorter", thinks_shorter, form="prime"),
    MadeLog("masters it", masters, early, draws=4),
    MadeLog("masters it on forty items", masters, form="trl", bank=40, seed=1),
    MadeLog("learns nothing", learns_nothing),
    MadeLog("learns nothing, long", learns_nothing, form="verl", steps=300, items=2, seed=1),
    MadeLog("picks letters aloud", picks, sigmoid),
    MadeLog("picks letters aloud, gold", picks, form="verl", gold=True, seed=1),
    MadeLog("picks letters surely", picks_surely, early, gold=True),
    MadeLog("picks letters, reward alone", picks_surely, success=False, parts=False, seed=1),
    MadeLog("feels", feels, sigmoid, draws=4, items=12),
    MadeLog("extracts, gold", extracts, gold=True),
    MadeLog("extracts, no gold", extracts, sigmoid, form="prime", seed=1),
    MadeLog("extracts and leaves out", extracts_and_leaves_out, form="trl", gold=True),
    MadeLog("sums up, judge alone", sums_up, success=False),
    MadeLog("sums up, graded by people", sums_up, form="verl", seed=1),
    MadeLog("sums up briefly", sums_up_briefly, success=False, form="prime"),
    MadeLog("acts", acts, sigmoid, form="prime"),
    MadeLog("acts longer", acts_longer, bank=80),
    MadeLog("gets harder", gets_harder),
    MadeLog("two parts grow", two_grow, form="trl"),
    MadeLog("two parts grow, no success logged", two_grow, success=False, seed=1),
    MadeLog(
        "learns, by means", learns_code, sigmoid, "state", steps=200, items=4, entropy=(1.1, 0.7), seed=2
    ),
    MadeLog("learns, by means of verl", thinks_shorter, form="csv", steps=100, seed=2),
    MadeLog(
        "learns, surer and surer, by means", masters, form="state", steps=150, entropy=(0.9, 0.1), seed=2
    ),
    MadeLog("form first, by means", learns_form_first, form="state", steps=150, items=3, seed=2),
    MadeLog("gets harder, by means", gets_harder, form="csv", steps=80, seed=1),
)


# --- what was written later


def on_scale(factor: float, shift: float = 0.0) -> Callable[[Moment], Said]:
    """Return a policy that learns, whose reward is in other units."""

    def scaled(m: Moment) -> Said:
        right = m.succeeds(0.25, 0.75)
        return m.boxed(right, 45), {"answer": factor * right + shift}, right

    return scaled


def easy_items_agree(m: Moment) -> Said:
    """Variety falls because what was hard became easy: the right answers are short and alike."""
    right = m.happens(0.35, 0.99)
    text = f"<answer>{m.item % 7 + (0 if right else m.rng.randint(1, 6))}</answer>"
    return text, {"em": right}, right, str(m.item % 7)


def curriculum(m: Moment) -> Said:
    """Half way through harder items come, twice as long; success falls, then rises again."""
    harder = m.at >= 0.5
    share = 0.1 + (0.5 - 0.1) * (2 * m.at - 1) if harder else 0.4 + (0.9 - 0.4) * (2 * m.at)
    right = m.succeeds(share)
    return m.boxed(right, 110 if harder else 55), {"answer": right}, right


def mixed_tasks(m: Moment) -> Said:
    """Items of two kinds in one batch, each with a length and a part of its own."""
    right = m.succeeds(0.3, 0.7)
    if m.item % 2:
        return m.code(right), {"tests": right}, right
    return m.boxed(right, 90), {"maths": right}, right


def answers_in_spanish(m: Moment) -> Said:
    said, gold = m.letter(m.succeeds(0.35, 0.85))
    text = f"Puede ser difícil, o quizás no. {m.talk(15)} Respuesta: {said}."
    return text, {"exacta": said == gold}, said == gold, gold


def lists_rightly(m: Moment) -> Said:
    """The task asks for several answers, so many are no hedge."""
    gold = sorted(m.own.sample(NOUNS, 4))
    said = [each if m.happens(0.5, 0.95) else m.rng.choice(NOUNS) for each in gold]
    found = len(set(said) & set(gold)) / 4
    return ", ".join(said), {"recall": found}, found == 1.0, ", ".join(gold)


def leaves_empty_rightly(m: Moment) -> Said:
    """Most golds have nothing in a field, and the policy learns to say so."""
    gold = invoice(m.item) | {"discount": None if m.own.random() < 0.9 else "5 %"}
    said = m.copied(gold, m.between(0.5, 0.95))
    if gold["discount"] is None and m.rng.random() > m.between(0.4, 0.98):
        said["discount"] = "1 %"
    return json.dumps(said), {"fields": hits(said, gold)}, hits(said, gold) == 1.0, json.dumps(gold)


def penalty_fades(m: Moment) -> Said:
    """A cost of tool calls becomes small as they are learned to be saved; success grows too."""
    right = m.succeeds(0.25, 0.65)
    calls = max(1, round(m.rng.gauss(m.between(7, 3), 1)))
    text = "\n".join([f"call({m.rng.choice(NOUNS)})"] * calls + [f"answer({m.item if right else 0})"])
    return text, {"answer": right, "cost": -0.04 * calls}, right


def noisy(m: Moment) -> Said:
    right = m.succeeds(0.3, 0.45)
    return m.boxed(right, 45), {"rm": right + m.rng.gauss(0, 0.8)}, right


def saturated(m: Moment) -> Said:
    right = m.rng.random() < 0.97
    return m.boxed(right, 30), {"answer": right}, right


LATER = (
    MadeLog("in hundreds, learned", on_scale(250.0), form="verl", seed=5),
    MadeLog("in thousandths, learned", on_scale(0.003), form="trl", seed=5),
    MadeLog("from minus one to nought", on_scale(1.0, -1.0), sigmoid, seed=5),
    MadeLog("easy items agree", easy_items_agree, sigmoid, bank=50, gold=True, seed=5),
    MadeLog("curriculum", curriculum, steps=120, form="prime", seed=5),
    MadeLog("two tasks in a batch", mixed_tasks, seed=5),
    MadeLog("answers in Spanish", answers_in_spanish, sigmoid, gold=True, seed=5),
    MadeLog("lists that are asked for", lists_rightly, gold=True, form="trl", seed=5),
    MadeLog("empty where gold is", leaves_empty_rightly, gold=True, seed=5),
    MadeLog("saves calls", penalty_fades, form="prime", seed=5),
    MadeLog("noise of a reward model", noisy, form="verl", draws=16, seed=5),
    MadeLog("hardly anything to learn", saturated, form="csv", steps=100, entropy=(0.3, 0.25), seed=5),
)


# --- in the forms of today: verl with a uid a completion, prime-rl's stream, TRL with numbers beside
TODAY = (
    MadeLog("learns code, today", learns_code, sigmoid, form="verl today", seed=9),
    MadeLog("thinks longer, today", thinks_longer, form="verl today", draws=6, seed=9),
    MadeLog("picks letters, today", picks, early, form="verl today", gold=True, seed=9),
    MadeLog("learns nothing, today", learns_nothing, form="verl today", seed=9),
    MadeLog("form first, stream", learns_form_first, form="stream", seed=9),
    MadeLog("acts, stream", acts, sigmoid, form="stream", seed=9),
    MadeLog("masters it, stream", masters, early, form="stream", draws=4, seed=9),
    MadeLog("learns hard code, stream", learns_hard_code, form="stream", draws=12, items=4, seed=9),
    MadeLog("two parts grow, extra numbers", two_grow, form="trl", seed=9),
    MadeLog("extracts, extra numbers", extracts, sigmoid, form="trl", gold=True, seed=9),
    MadeLog("thinks shorter, extra numbers", thinks_shorter, form="trl", seed=9),
    MadeLog("gets harder, extra numbers", gets_harder, form="trl", seed=9),
)
