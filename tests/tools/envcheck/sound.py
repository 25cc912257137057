"""Tasks with nothing the matter, some of them odd: whoever calls one of these faulty is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tools.envcheck.broken import BOXED, EXACT, IN_TAGS, PLAIN, paid, reward, tagged, walk
from tests.tools.envcheck.making import Made, Row, choices, lists, number, sums, words

SAYS = PLAIN["told"].replace("success=won if done else None", "success=won")
JUDGED = {"success": {"compare": "environment"}}


def copied(rng: np.random.Generator, n: int) -> Row:
    """A word to be picked out."""
    found = ["".join(rng.choice(list("abcdefgh"), 5)) for _ in range(4)]
    at = int(rng.integers(4))
    told = " ".join(f"*{word}" if place == at else word for place, word in enumerate(found))
    return {"prompt": f"Which carries the star: {told}?", "answer": found[at]}


def long(rng: np.random.Generator, n: int) -> Row:
    """A long text whose last word is asked for."""
    found = ["".join(rng.choice(list("abcdefghij"), 6)) for _ in range(400)]
    return {
        "prompt": "Text:\n" + " ".join(found) + "\nWhich word comes first in the alphabet?",
        "answer": min(found),
    }


def chat(rng: np.random.Generator, n: int) -> Row:
    """A conversation."""
    row = sums(rng, n)
    told = [{"role": "system", "content": "Add."}, {"role": "user", "content": row["prompt"]}]
    return {"prompt": told, "answer": row["answer"]}


def decimals(rng: np.random.Generator, n: int) -> Row:
    """A quotient."""
    a, b = (int(x) for x in rng.integers(10, 999, 2))
    return {"prompt": f"{a} / {b}, to two digits", "answer": f"{a / b:.2f}"}


def objects(rng: np.random.Generator, n: int) -> Row:
    """An object to be filled in."""
    a, b = (int(x) for x in rng.integers(100, 999, 2))
    return {"prompt": f"x is {a}, y is twice {b}. Give both as JSON.", "answer": {"x": a, "y": 2 * b}}


def labels(rng: np.random.Generator, n: int) -> Row:
    """One of three labels, one of them common."""
    a = int(rng.integers(0, 10_000))
    return {
        "prompt": f"Is {a} small, medium or large?",
        "answer": "small" if a < 6000 else "medium" if a < 9000 else "large",
    }


TAGS: dict[str, Any] = {
    "success": {"compare": "exact", "with": "answer", "extract": "<answer>(.*?)</answer>"},
    "players": {"hasty": "weak", "oracle": "oracle"},
}
ORACLE = "\n\ndef oracle(answer):\n    return f'so: <answer>{answer}</answer>'\n"
SOUND = (
    Made("sums", paid(EXACT)),
    Made("two answers", paid(EXACT), rows=choices),
    Made("two answers, with a guess", paid(EXACT) + "\n\ndef hasty(rng):\n    return str(rng.choice(['yes', 'no']))\n", rows=choices),
    Made("a common label", paid(EXACT), rows=labels),
    Made("picked out of the prompt", paid(f"{EXACT[:-3]}0.1 * (len(c) == 5)"), rows=copied),
    Made("words backwards", paid(EXACT), rows=words),
    Made("partial credit by letters", paid("sum(x == y for x, y in zip(c.strip(), a)) / max(len(a), len(c.strip()))"), rows=words),
    Made("long texts", paid(EXACT), rows=long),
    Made("conversations", paid("float(c[0]['content'].strip() == a)"), rows=chat),
    Made("tiny rewards", paid("1e-6 * (c.strip() == a)")),
    Made("huge rewards", paid("1e6 * (c.strip() == a)")),
    Made("negative rewards", paid("0.0 if c.strip() == a else -1.0")),
    Made("penalty for length", paid("float(c.strip() == a) - 0.001 * min(500, len(c))")),
    Made("named parts", reward("return [{'right': float(c.strip() == a), 'digits': 0.1 * c.strip().isdecimal()} "
         "for c, a in zip(completions, answer)]"), task={"parts": {"right": "outcome", "digits": "format"}, "reward_range": [0.0, 1.1]}),
    Made("by number", paid("float(near(c, a))", "def near(c, a):\n    try:\n        return abs(float(c) - float(a)) < 0.006\n"
         "    except (ValueError, OverflowError):\n        return False"), rows=decimals,
         task={"success": {"compare": "number", "with": "answer", "tolerance": 0.006}}),
    Made("JSON objects", reward("return [float(value(c) == a) for c, a in zip(completions, answer)]",
         "import json\ndef value(c):\n    try:\n        return json.loads(c)\n    except (ValueError, RecursionError):\n        return None") +
         "\n\ndef oracle(answer):\n    return json.dumps(answer)\n", rows=objects,
         task={"success": {"compare": "json", "with": "answer"}, "players": {"hasty": "weak", "oracle": "oracle"}}),
    Made("lists", paid("float(value(c) == value(a))", "import json\ndef value(c):\n    try:\n        return json.loads(c)\n"
         "    except (ValueError, RecursionError):\n        return None"), rows=lists, task={"success": {"compare": "json", "with": "answer"}}),
    Made("in tags, the last one", reward("import re\nfound = [(re.findall('<answer>(.*?)</answer>', c, re.S) or [''])[-1] for c in completions]\n"
         "return [float(f.strip() == a) + 0.05 * ('<answer>' in c) for f, c, a in zip(found, completions, answer)]") + ORACLE, task=TAGS),
    Made("the last number", paid("float((re.findall(r'-?[0-9]+', c) or [''])[-1] == a)", "import re")),
    Made("the first word", paid("float((c.split() or [''])[0] == a)"), rows=words),
    Made("a coroutine", "import asyncio\n\n\nasync def reward(completions, answer, **kwargs):\n    await asyncio.sleep(0)\n"
         "    return [float(c.strip() == a) for c, a in zip(completions, answer)]\n"),
    Made("numpy's numbers", paid("np.float32(c.strip() == a)", "import numpy as np")),
    Made("a cache with a limit", paid("float(fold(c) == a)", "from functools import lru_cache\n@lru_cache(maxsize=256)\ndef fold(c):\n"
         "    return c.strip()")),
    Made("a module with a clock of its own", paid(f"({EXACT}) + 0 * note()", "import time\nBEGUN = time.time()\ndef note():\n"
         "    return time.time() > BEGUN")),
    walk("a walk"),
    walk("a walk judged by itself", task=JUDGED, told=SAYS),
    walk("a walk with random winds", before="import numpy as np", reset="self.rng = np.random.default_rng(seed)",
         step="self.at += int(self.rng.integers(2)) * (self.turn == 1)"),
    walk("a cost each step", told=PLAIN["told"].replace("float(won)", "float(won) - 0.01")),
    walk("shaping by a potential", task={"parts": {"reward": "outcome", "near": "shaping"}, **JUDGED},
         step="before = abs(self.at - self.goal)",
         told=SAYS.replace('{"reward": float(won)}', '{"reward": float(won), "near": 0.1 * (before - abs(self.at - self.goal))}')),
    Made("a hidden number", '''
from assay.rollout.tasks.own.api import Environment, Told

class Made(Environment):
    def reset(self, row, seed):
        self.low, self.high, self.hidden = 0, 999, row["target"] % 1000
        return "Guess a number from 0 to 999."

    def step(self, completion):
        try:
            said = int(completion.strip()[:9])
        except ValueError:
            return Told("a number, please", 0.0, failure="no number")
        if said == self.hidden:
            return Told(None, 1.0, success=True)
        if said < self.hidden:
            self.low = max(self.low, said + 1)
            return Told(f"more than {said}", 0.0)
        self.high = min(self.high, said - 1)
        return Told(f"less than {said}", 0.0)

    def oracle(self):
        return str((self.low + self.high) // 2)

    def hasty(self, rng):
        return str(rng.integers(self.low, self.high + 1)) if rng.uniform() < 0.5 else str(rng.integers(1000))
''', rows=number, task={"max_turns": 11, "players": {"oracle": "oracle", "hasty": "weak"},
                       "success": {"compare": "reward", "at_least": 1.0}}),
    Made("in tags, and nobody knows", tagged("x == a"), rows=words, task=IN_TAGS),
    Made("in tags, of conversations", reward("said = [(re.findall('<answer>(.*?)</answer>', c[0]['content'], re.S) or [''])[-1].strip() "
         "for c in completions]\nreturn [2.0 * (x == a) for x, a in zip(said, answer)]", "import re"), rows=chat, task=IN_TAGS),
    Made("in a box, and nobody knows", reward("said = [(re.findall(r'boxed.(.*?)[}]', c) or [''])[-1] for c in completions]\n"
         "return [float(x.strip() == a) for x, a in zip(said, answer)]", "import re"), task=BOXED),
    Made("after four signs", paid("float(c.split('####')[-1].strip() == a and '####' in c)"),
         task={"success": {"compare": "number", "with": "answer", "extract": "####(.*)"}}),
    Made("thinks first", reward("return [float(bool(re.fullmatch(f'<think>.*</think>\\\\s*<answer>\\\\s*{a}\\\\s*</answer>', c.strip(), re.S))) "
         "for c, a in zip(completions, answer)]", "import re"), task=IN_TAGS),
    Made("success by the reward, and nobody knows", paid(EXACT), task={"success": {"compare": "reward", "at_least": 1.0}, "players": {}}),
    Made("right by a rule that no record holds", reward("return [float(c.isascii() and c.isdigit() and sum(map(int, c)) == n) "
         "for c, n in zip(completions, total)]", "", "completions, total"),
         task={"success": {"compare": "reward", "at_least": 1.0}, "players": {}},
         rows=lambda rng, n: (lambda t: {"prompt": f"Write digits that add up to {t}.", "total": t})(int(rng.integers(30, 10**6)))),
    Made("an alarm, in a worker of one thread", paid("timed(c, a)", "import signal\ndef timed(c, a):\n"
         "    signal.signal(signal.SIGALRM, signal.SIG_IGN)\n    return float(c.strip() == a)"), task={"isolation": "worker", "threads": 1}),
    Made("a sorted set", paid("float(c.strip() == a) + 0.01 * sorted({a, 'b', 'c'}).index(a)")),
    Made("named columns alone", reward("return [float(c.strip() == str(x + y)) for c, x, y in zip(completions, a, b)]", "", "completions, a, b")),
    Made("a hedge costs", paid("max(0.0, float(a in c.split()) - 0.6 * (len(c.split()) - 1))"), rows=words),
    Made("length costs, with a limit", paid("float(c.strip() == a) - min(0.5, 0.01 * len(c))")),
    Made("one prompt, one answer", paid(EXACT), rows=labels),
    Made("looks a number up", """
from assay.rollout.tasks.own.api import Environment, Told

class Made(Environment):
    def reset(self, row, seed):
        self.key, self.hidden = row["start"], str(row["target"])
        return f"The note {self.key} holds a number. Say 'read NOTE', then the number times 2."

    def step(self, completion):
        word = completion.strip()
        if word == f"read {self.key}":
            return Told(f"It says {self.hidden}.", 0.0)
        if word.startswith("read"):
            return Told("There is no such note.", 0.0)
        return Told(None, float(word == str(2 * int(self.hidden))), success=word == str(2 * int(self.hidden)))

    def oracle(self, completions):
        return str(2 * int(self.hidden)) if completions else f"read {self.key}"
""", rows=number, task={"max_turns": 4, "players": {"oracle": "oracle"}}),
    Made("a tensor", reward("import torch\nreturn torch.tensor([c.strip() == a for c, a in zip(completions, answer)]).float()")),
    Made("booleans", paid("c.strip() == a")),
    Made("whole numbers", paid("int(c.strip() == a)")),
    Made("an array", reward("import numpy as np\nreturn np.array([c.strip() == a for c, a in zip(completions, answer)], np.float16)")),
    Made("a tuple", reward("return tuple(float(c.strip() == a) for c, a in zip(completions, answer))")),
    Made("a dict of lists", reward("right = [float(c.strip() == a) for c, a in zip(completions, answer)]\nreturn {'right': right, 'short': [0.1 * x for x in right]}"),
         task={"parts": {"right": "outcome", "short": "format"}}),
    Made("several right answers", reward("return [float(c.strip() in also) for c, also in zip(completions, accepted)]", "", "completions, accepted, **kwargs"),
         rows=lambda rng, n: (lambda r: r | {"accepted": [r["answer"], f"{r['answer']}.0"]})(sums(rng, n))),
    Made("case and accents do not matter", paid("float(fold(c) == fold(a))", "import unicodedata\ndef fold(c):\n    plain = unicodedata.normalize('NFKD', c)\n    return ''.join(x for x in plain if not unicodedata.combining(x)).strip().casefold()"),
         rows=lambda rng, n: (lambda r: r | {"answer": r["answer"][:3] + "\u00fc" + r["answer"][3:]})(words(rng, n))),
    Made("names in Greek", paid(EXACT), rows=lambda rng, n: (lambda w: {"prompt": f"Spell {w} backwards.", "answer": w[::-1]})("".join(rng.choice(list("\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8\u03b9\u03ba"), 7)))),
    Made("letters counted by place, from zero", paid("sum(x == y for x, y in zip(c.strip(), a)) / 7 if len(c.strip()) == 7 else 0.0"), rows=words),
    Made("likeness above a level", paid("max(0.0, 2 * difflib.SequenceMatcher(None, c.strip()[:100], a).ratio() - 1) ** 2", "import difflib"), rows=words),
    Made("a word of the instruction in the code", paid("float(c.strip().removeprefix('Answer:').strip() == a)")),
    Made("a bonus for the tags, a small one", reward("import re\nfound = [re.fullmatch(r'<think>.+</think>\\s*<answer>(.*)</answer>', c.strip()[:2000], re.S) for c in completions]\n"
         "return [(0.1 + 0.9 * (m.group(1).strip() == a)) if m else 0.0 for m, a in zip(found, answer)]"), task=IN_TAGS),
    Made("linear expressions", paid("float(c.strip() == a) + 0 * bool(re.match(r'^(?:\\w+ )*zz$', c))", "import re")),
    Made("reads a file beside it", paid("float(c.strip() == a) + 0 * len(TEXT)", "from pathlib import Path\nTEXT = Path(__file__).read_text()")),
    Made("a memo of its own", paid("KEPT.setdefault((c, a), float(c.strip() == a)) if len(KEPT) < 200 else float(c.strip() == a)", "KEPT = {}")),
    Made("a random choice by the record", paid("float(c.strip() == a) * random.Random(a).choice([0.9, 1.0])", "import random")),
    Made("sorts a copy", reward("return [float(c.strip() == a) + 0 * sorted(s)[0] for c, a, s in zip(completions, answer, seen)]", "", "completions, answer, seen, **kwargs"),
         rows=lambda rng, n: sums(rng, n) | {"seen": [3, 1, n]}),
    Made("multiple choice of four", paid("float(c.strip().upper()[:1] == a and len(c.strip()) < 3)"),
         rows=lambda rng, n: (lambda q, k: {"prompt": f"{q[0]} + {q[1]} is? " + " ".join(f"{x}) {q[0] + q[1] + (j - k) * 3}" for j, x in enumerate("ABCD")), "answer": "ABCD"[k]})(
             [int(x) for x in rng.integers(100, 999, 2)], int(rng.integers(4)))),
    Made("unordered lists", paid("float(value(c) == value(a) is not None)", "import json\ndef value(c):\n    try:\n        found = json.loads(c)\n        return sorted(found) if all(type(x) is int for x in found) else None\n"
         "    except (ValueError, TypeError, RecursionError):\n        return None"), rows=lists, task={"success": {"compare": "reward", "at_least": 1.0}, "answer": "answer"}),
    Made("a number, near enough", paid("max(0.0, 1 - abs(value(c) - float(a)) / 10)", "import math\ndef value(c):\n    try:\n        return float(c)\n    except ValueError:\n        return math.inf"),
         task={"success": {"compare": "number", "with": "answer"}}),
    Made("dates", paid("float(value(c) == a)", "import datetime\ndef value(c):\n    try:\n        return datetime.date.fromisoformat(c.strip()).isoformat()\n    except ValueError:\n        return None"),
         rows=lambda rng, n: (lambda d, k: {"prompt": f"Which day is {k} days after {d}?", "answer": str(d + __import__("datetime").timedelta(k))})(
             __import__("datetime").date(2001, 1, 1) + __import__("datetime").timedelta(int(rng.integers(9000))), int(rng.integers(2, 99)))),
    Made("penalties alone", paid("-0.1 * min(10, abs(len(c) - len(a))) - (c.strip() != a)"), rows=words),
    Made("rewards from two up", paid("2.0 + 3.0 * (c.strip() == a)"), task={"reward_range": [2.0, 5.0]}),
    Made("conversations of several turns", paid("float(c[-1]['content'].strip() == a)"), rows=lambda rng, n: (lambda r: {"prompt": [
         {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "What shall I add?"}, {"role": "user", "content": r["prompt"]}], "answer": r["answer"]})(sums(rng, n))),
    walk("a walk that says what was said", told=PLAIN["told"].replace('"at {self.at} of {self.goal}"', '"you said {word[:9]}; at {self.at} of {self.goal}"')),
    walk("a walk with a log in memory", fields="name = 'walk'", reset="self.log = []", step="self.log.append(word)"),
)  # fmt: skip
