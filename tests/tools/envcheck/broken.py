"""Tasks each of which has one thing the matter with it, and the check that has to name it."""

from __future__ import annotations

from tests.tools.envcheck.making import Made, Row, choices, lists, number, sums, words

EXACT = "1.0 if c.strip() == a else 0.0"
FOR = "for c, a in zip(completions, answer)"


def reward(body: str, before: str = "", arguments: str = "prompts, completions, answer, **kwargs") -> str:
    """Return the file of a reward function."""
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"{before}\n\n\ndef reward({arguments}):\n{lines}\n"


def paid(expression: str, before: str = "") -> str:
    """Return the file of a reward function that pays one expression of c and a."""
    return reward(f"return [{expression} {FOR}]", before)


# A walk along a line to a target, a step a turn: a class with places where things go wrong.
WALK = """
from assay.rollout.tasks.own.api import Environment, Told
{before}

class Made(Environment):
    {fields}
    def reset(self, row, seed):
        self.row, self.seed, self.turn = row, seed, 0
        self.at, self.goal = row["start"] % 7, 3 + row["target"] % 9
        {reset}
        return {opening}

    def step(self, completion):
        word = completion.strip()
        self.turn += 1
        {step}
        self.at += {{"up": 1, "down": -1}}.get(word, 0)
        done = word == "stop"
        won = done and self.at == self.goal
        return {told}

    def oracle(self, row):
        {oracle}
        return "stop" if self.at == self.goal else ("up" if self.at < self.goal else "down")

    def hasty(self, rng):
        return str(rng.choice(["up", "down", "stop", "up"]))
"""
PLAIN = {
    "before": "", "fields": "name = 'walk'", "reset": "pass", "step": "pass", "oracle": "pass",
    "opening": 'f"You are at {self.at} and want to {self.goal}."',
    "told": 'Told(None if done else f"at {self.at} of {self.goal}", {"reward": float(won)}, success=won if done else None,'
    ' failure=None if word in ("up", "down", "stop") else "no such word")',
}  # fmt: skip
TURNS = {"max_turns": 14, "players": {"oracle": "oracle", "hasty": "weak"}}
TURNS |= {"success": {"compare": "reward", "at_least": 0.5}}


def walk(name: str, check: str = "", task: dict[str, object] | None = None, **parts: str) -> Made:
    """Return a walk with some parts replaced."""
    return Made(name, WALK.format(**{**PLAIN, **parts}), check, number, {**TURNS, **(task or {})})


def _told(reward_: str) -> str:
    return PLAIN["told"].replace("float(won)", reward_)


def leaked(form: str, name: str) -> Made:
    """Return sums whose prompt gives the answer away."""

    def rows(rng, n: int) -> Row:  # type: ignore[no-untyped-def]
        row = sums(rng, n)
        return row | {"prompt": form.format(p=row["prompt"], a=row["answer"])}

    return Made(name, paid(EXACT), "gold in prompt", rows)


def _same(splits: dict[str, list[Row]]) -> None:
    for k, row in enumerate(splits["heldout"]):
        row.update({key: value for key, value in splits["train"][k].items() if key != "id"})


def _some_same(splits: dict[str, list[Row]]) -> None:
    for k, row in enumerate(splits["heldout"][::3]):
        row.update({key: value for key, value in splits["train"][k].items() if key != "id"})


def _wrong_golds(splits: dict[str, list[Row]]) -> None:
    for rows in splits.values():
        for row in rows:
            row["right"] = str(int(row["answer"]) + 1)


def _constant(rng, n: int) -> Row:  # type: ignore[no-untyped-def]
    row = sums(rng, n)
    return row | {"answer": "7" if n % 12 else str(n)}


MULTI = "replay|other order|interleaved|four threads"
PAY = (
    Made("everything is paid", paid("1.0"), "oracle beats floor|signal"),
    Made("anything but nothing is paid", paid("float(bool(c.strip()))"), "trivial players"),
    Made("a gold within is enough", paid("float(a in c)"), "hedging"),
    Made("casefold within", paid("float(a.lower() in c.lower())", ""), "hedging", words),
    Made("any of several words", paid("float(a in c.replace(',', ' ').split())"), "hedging", words),
    Made("length is paid", paid(f"({EXACT}) + 0.01 * len(c)"), "trivial players"),
    Made("length is paid up to a limit", paid(f"0.2 * ({EXACT}) + min(1.0, len(c) / 100)"), "trivial players"),
    Made("words are paid", paid(f"0.5 * ({EXACT}) + min(1.0, len(c.split()) / 20)"), "trivial players"),
    Made(
        "an echo of the prompt is paid",
        reward("return [max(float(p in c), float(c.strip() == a)) for p, c, a in zip(prompts, completions, answer)]"),
        "trivial players",
    ),
    Made("digits are paid", paid("max(float(c.strip() == a), 0.95 * float(c.strip().isdigit()))"), "trivial players"),
    Made("brackets are paid", paid("max(float(c.strip() == a), float(c.strip()[:1] in '[{' and len(c) > 1))"),
         "trivial players"),
    Made("a gold of anybody is paid",
         reward("return [float(c.strip().isdigit() and 3 <= len(c.strip()) <= 4) for c in completions]"),
         "trivial players|oracle beats floor"),
    Made("the empty answer earns 1", paid("1.0 if not c.strip() else 0.5 * (c.strip() == a)"), "trivial players|oracle beats floor"),
    Made("starts with is enough", paid("float(bool(c.strip()) and a.startswith(c.strip()[:1]))"), "oracle beats floor", words),
    Made("every letter counts", paid("sum(x in c for x in a) / len(a)"), "trivial players|hedging", words),
    Made("nothing is paid", paid("0.0"), "oracle beats floor|signal"),
    Made("all get the same", paid("0.5"), "oracle beats floor|signal"),
    Made("reward against success", paid("float(c.strip() != a)"), "oracle beats floor"),
    Made("wrong answers earn more", paid("0.2 if c.strip() == a else 0.5 * bool(c.strip())"), "oracle beats floor|trivial players"),
    Made("golds are wrong by the grader", reward("return [float(c.strip() == r) for c, r in zip(completions, right)]", "",
         "completions, right, **kwargs"), "oracle beats floor", all_rows=_wrong_golds),
    Made("success is something else", paid("float(c.strip() == a)"), "oracle beats floor",
         task={"success": {"compare": "exact", "with": "a"}, "answer": "answer"}),
    Made("the oracle is wrong", paid("float(c.strip() == a)") + "\n\ndef oracle(answer):\n    return answer + '1'\n",
         "oracle beats floor", task={"players": {"hasty": "weak", "oracle": "oracle"}}),
    Made("one answer fits nearly all", paid(EXACT), "trivial players", _constant),
    Made("within extracted tags", reward("import re\nfound = [re.findall('<answer>(.*?)</answer>', c) for c in completions]\n"
         "return [float(any(a in x for x in f)) for f, a in zip(found, answer)]") +
         "\n\ndef oracle(answer):\n    return f'<answer>{answer}</answer>'\n", "hedging",
         task={"success": {"compare": "exact", "with": "answer", "extract": "<answer>(.*?)</answer>"},
               "players": {"hasty": "weak", "oracle": "oracle"}}),
    walk("going on is paid", "trivial players|shaping|oracle beats floor", told=_told("1.0")),
    walk("staying alive is paid", "trivial players|shaping", told=_told("float(won) + 0.2"),
         task={"success": {"compare": "reward", "at_least": 5.0}}),
)  # fmt: skip
RAISING = (
    Made("raises on no number", paid("float(int(c) == int(a))"), "bad completions"),
    Made("raises on brackets", paid(f"({EXACT}) + 0 * len(c.split('[')[0 if '[' not in c else 5])"), "bad completions"),
    Made("raises on JSON lists", reward("import json\nreturn [float(json.loads(c).get('x') == a) if c.startswith('[') else "
         "float(c == a) for c, a in zip(completions, answer)]"), "bad completions"),
    Made("raises on emptiness", paid("float(c.split()[0] == a)"), "bad completions"),
    Made("raises on unicode", paid("float(c.encode('ascii') == a.encode())"), "bad completions"),
    Made("divides by zero", paid("float(c == a) + 0 / len(c)"), "bad completions"),
    Made("recurses", paid("float(c == a) + deep(c)", "def deep(c):\n    return 0 if not c else deep(c[1:])"), "bad completions"),
    Made("asserts", paid("float(check(c) == a)", "def check(c):\n    assert len(c) < 100\n    return c"), "bad completions"),
    Made("leaves the process", paid("float(c == a or go(c))", "import os\ndef go(c):\n    return '{' in c and os._exit(3)"),
         "bad completions"),
    Made("exits", paid("float(c == a or go(c))", "import sys\ndef go(c):\n    return '{' in c and sys.exit(3)"), "bad completions"),
    walk("raises on unknown words", "bad completions", step='["up", "down", "stop"].index(word)'),
    walk("raises late", "bad completions", step='assert self.turn < 3 or word in ("up", "down", "stop")'),
    Made("raises on long texts", paid("float(c == a) if len(c) < 5000 else 1 / 0"), "bad completions"),
    Made("NaN", paid("float(c == a) if c.strip().isdigit() else float('nan')"), "reward parts"),
    Made("infinity", paid("float(c == a) if len(c) < 50 else float('inf')"), "reward parts"),
    Made("one number too few", reward("return [float(c == a) for c, a in zip(completions, answer)][:-1]"), "reward parts"),
    Made("too many numbers", reward("return [1.0, 0.0]"), "reward parts"),
    Made("a number instead of a list", reward("return float(completions[0] == answer[0])"), "reward parts"),
    Made("None always", reward("return [None for _ in completions]"), "reward parts"),
    Made("None for the wrong", paid("1.0 if c == a else None"), "reward parts"),
    Made("a text", paid("str(float(c == a))"), "reward parts"),
    Made("a part that is not declared", reward("return [{'right': float(c == a)} for c, a in zip(completions, answer)]"),
         "reward parts"),
    Made("beyond its range", paid("5.0 * (c == a)"), "reward parts", task={"reward_range": [0.0, 1.0]}),
    walk("a step that tells a number", "reward parts", told="Told(5, 0.0)"),
    walk("a step that tells nothing of ours", "reward parts", told="('at', 1.0)"),
    Made("endless", paid("float(c == a or spin(c))", "def spin(c):\n    while '{' in c:\n        pass\n    return False"), "ending",
         task={"timeout_s": 2.0}),
    Made("waits for ever", paid("float(c == a or go(c))", "import time\ndef go(c):\n    return c == '' and time.sleep(1000)"),
         "ending", task={"timeout_s": 2.0}),
    Made("backtracks", paid("float(c == a or bool(re.fullmatch('(a+)+b', c.replace(' ', ''))))", "import re"), "ending|time",
         task={"timeout_s": 2.0}),
    walk("never ends", "ending", task={"success": {"compare": "environment"}}, told="Told('on', {'reward': 0.0})"),
    walk("one turn is declared", "ending|oracle beats floor", task={"max_turns": 1}),
)  # fmt: skip
REPEATING = (
    Made("random", paid("float(c == a) + 0.1 * random.random()", "import random"), "replay|global state"),
    Made("random by numpy", paid("float(c == a) * np.random.default_rng().uniform()", "import numpy as np"), "replay"),
    Made("random by the system", paid("float(c == a) * (0.5 + os.urandom(1)[0] / 512)", "import os"), "replay"),
    Made("global generator, seeded", paid("seeded() + float(c == a)", "import random\ndef seeded():\n    random.seed(1)\n    return 0.0"),
         "global state"),
    Made("global generator of numpy", paid("float(c == a) + 0 * np.random.uniform()", "import numpy as np"), "global state"),
    walk("random world", "replay", reset="self.goal = 3 + np.random.default_rng().integers(9)", before="import numpy as np"),
    walk("random opening", "replay", opening='f"You are at {self.at}, want to {self.goal} {id(self)}."'),
    walk("global generator in reset", "replay|global state", reset="self.goal = random.randint(3, 9)", before="import random"),
    Made("counts calls", paid("float(c == a) + count()", "N = [0]\ndef count():\n    N[0] += 1\n    return 0.001 * N[0]"), MULTI),
    Made("every tenth is paid otherwise", paid("float(c == a) * (count() % 10 != 0)",
         "N = [0]\ndef count():\n    N[0] += 1\n    return N[0]"), MULTI),
    Made("remembers what was said", paid("new(c) * float(c == a)", "SEEN = set()\ndef new(c):\n    known = c in SEEN\n    SEEN.add(c)\n"
         "    return not known"), "replay|other order"),
    Made("the last answer decides", paid("float(c == a) * (not last(c))", "L = ['']\ndef last(c):\n    old, L[0] = L[0], c\n"
         "    return len(old) > 9 or old == '-1 7 x'"), "replay|other order|interleaved"),
    walk("one state for all", "interleaved|four threads|replay|other order", reset="Made.at_all = self.at",
         step='Made.at_all += 1 if word == "up" else 0; self.at = Made.at_all'),
    walk("state of the module", "interleaved", before="NOW = {}", reset='NOW["goal"] = self.goal', step='self.goal = NOW["goal"]'),
    walk("a list of the class", "interleaved|replay|other order", fields="path = []", reset="pass",
         step="self.path.append(word); self.at += len(self.path) % 5 == 0"),
    walk("reset does not reset", "replay|other order", fields="total = 0", step="self.total += 1; self.at += self.total > 30"),
    walk("changes its record", "old state", step='self.row["start"] += 1'),
    walk("takes from its record", "old state", reset='self.goal = 3 + row.pop("target") % 9', oracle="pass"),
    Made("sorts its column", reward("seen[0].sort()\nreturn [float(c == a) for c, a in zip(completions, answer)]", "",
         "completions, answer, seen, **kwargs"), "old state",
         lambda rng, n: sums(rng, n) | {"seen": [3, 1, n]}),
    walk("holds a lock", "pickle", before="import threading", reset="self.lock = threading.Lock()"),
    walk("holds a generator", "pickle", reset="self.moves = (x for x in range(9))"),
    walk("holds a lambda", "pickle", reset="self.rule = lambda x: x"),
    walk("holds an open file", "pickle", reset="self.file = open(__file__)", step="self.file.close()"),
    Made("prints", paid("float(c == a or bool(print(c)))"), "global state"),
    Made("changes the folder", paid("float(c == a or bool(os.chdir('/')))", "import os"), "global state"),
    Made("changes a variable", paid("float(c == a or bool(os.environ.__setitem__('SAID', c[:5].replace(chr(0), ''))))", "import os"),
         "global state"),
    Made("writes a log", paid("float(c == a or log(c))", "import tempfile, os\nWHERE = tempfile.mkdtemp()\ndef log(c):\n"
         "    with open(WHERE + '/log', 'a', errors='replace') as f:\n        f.write('x')\n    return False"), "global state"),
    Made("sets decimals", paid("float(c == a) + 0 * len(str(setattr(decimal.getcontext(), 'prec', 5 + len(c) % 7)))", "import decimal"),
         "global state"),
    Made("order of a set", paid("float(c == a) + 0.01 * list({a, 'b', 'c', 'd'}).index(a)"), "other process"),
    Made("hash of a text", paid("float(c == a) * (0.5 + hash(a) % 7 / 20)"), "other process"),
    walk("hash of a text in reset", "other process", reset='self.goal = 3 + hash(str(row["target"])) % 9'),
    Made("process number", paid("float(c == a) + os.getpid() % 97 / 1000", "import os"), "other process"),
    Made("time zone", paid("float(c == a) + time.localtime(0).tm_hour / 100", "import time"), "other process"),
    Made("locale", paid("float(c == a) + 0.1 * (os.environ.get('LANG', '') == 'C')", "import os"), "other process"),
    Made("user", paid("float(c == a) + 0.1 * len(os.environ.get('USER', ''))", "import os"), "other process"),
    Made("variable", paid("float(c == a) * (0.5 if os.environ.get('MADE_EASY') else 1.0)", "import os"), "other process"),
    Made("variable at import", paid("float(c == a) * SCALE", "import os\nSCALE = float(os.getenv('MADE_SCALE', '0.5'))"), "other process"),
    Made("folder", paid("float(c == a) + 0.01 * len(os.getcwd())", "import os"), "other process"),
    Made("file of the folder", paid("float(c == a) + 0.1 * os.path.exists('data')", "import os"), "other process"),
    Made("clock", paid("float(c == a) + time.time() % 1", "import time"), "41 days later|replay"),
    Made("day of the week", paid("float(c == a) * (1 + datetime.date.today().weekday())", "import datetime"), "41 days later"),
    Made("year", paid("float(c == a) * (datetime.now().year - 2000)", "from datetime import datetime"), "41 days later"),
    Made("month at import", paid("float(c == a) * NOW", "import time\nNOW = time.gmtime().tm_mon"), "41 days later"),
    Made("runs out", paid("float(c == a and time.time() < LIMIT)", "import time\nLIMIT = time.time() + 86400"), "41 days later",
         all_rows=None),
    Made("day in the prompt", WALK.format(**{**PLAIN, "before": "import datetime",
         "opening": 'f"Today is {datetime.date.today()}. You are at {self.at}, want to {self.goal}."'}), "41 days later", number, TURNS),
    Made("name of the thread", paid("float(c == a) * (threading.current_thread() is threading.main_thread())", "import threading"),
         "four threads"),
    Made("local of a thread", paid("float(c == a) * L.scale", "import threading\nL = threading.local()\nL.scale = 1.0"), "four threads"),
    Made("signals", paid("float(c == a) + limit()", "import signal\ndef limit():\n    signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
         "    return 0.0"), "four threads"),
    Made("a race", reward("NOW['c'] = completions[0]\nfor _ in range(300):\n    pass\nreturn [float(NOW['c'] == a) + 0.001 * "
         "len(NOW['c']) for a in answer]", "NOW = {}"), "four threads"),
)  # fmt: skip
REST = (
    Made("memory grows", paid("float(c == a or keep(c))", "KEPT = []\ndef keep(c):\n    KEPT.append(bytearray(20000))\n    return False"),
         "memory"),
    Made("memory grows slowly", paid("float(c == a or keep(c))", "KEPT = []\ndef keep(c):\n    KEPT.append([c] * 500)\n    return False"),
         "memory"),
    walk("memory grows by episodes", "memory", before="ALL = []", reset="ALL.append([self] * 2000)"),
    Made("slow", paid("float(c == a or bool(time.sleep(0.08)))", "import time"), "time"),
    Made("very slow", paid("float(c == a or bool(time.sleep(0.4)))", "import time"), "time"),
    Made("slow on long texts", paid("float(c == a) + 0 * (len(c) > 5000 and bool(time.sleep(1.5)))", "import time"), "time"),
    walk("slow reset", "time", before="import time", reset="time.sleep(0.15)"),
    Made("loads at every call", paid("float(c == a) + 0 * sum(range(4_000_000))"), "time"),
    Made("asks the network", paid("float(c == a or ask())", "import socket\ndef ask():\n    try:\n"
         "        socket.create_connection(('192.0.2.1', 80), timeout=0.01)\n    except OSError:\n        pass\n    return False"), "network"),
    Made("asks for a name", paid("float(c == a or ask())", "import socket\ndef ask():\n    try:\n"
         "        socket.getaddrinfo('judge.invalid', 443)\n    except OSError:\n        pass\n    return False"), "network"),
    Made("downloads", paid("float(c == a or ask())", "import urllib.request\ndef ask():\n    try:\n"
         "        urllib.request.urlopen('http://192.0.2.1/x', timeout=0.01)\n    except OSError:\n        pass\n    return False"), "network"),
    Made("eval", paid("float(str(value(c)) == a)", "def value(c):\n    try:\n        return eval(c)\n    except Exception:\n"
         "        return None"), "execution"),
    Made("eval of what is in tags", reward("import re\nreturn [float(str(value((re.findall('<answer>(.*?)</answer>', c) or ['0'])[-1])) "
         "== a) for c, a in zip(completions, answer)]", "def value(c):\n    try:\n        return eval(c)\n    except Exception:\n"
         "        return None") + "\n\ndef oracle(answer):\n    return f'<answer>{answer}</answer>'\n", "execution",
         task={"success": {"compare": "exact", "with": "answer", "extract": "<answer>(.*?)</answer>"},
               "players": {"hasty": "weak", "oracle": "oracle"}}),
    Made("exec of fenced code", paid("float(c == a or run(c))", "import re\ndef run(c):\n    try:\n"
         "        exec(re.search('```python(.*?)```', c, re.S).group(1), {})\n    except Exception:\n        pass\n    return False"),
         "execution"),
    Made("shell", paid("float(c == a or run(c))", "import subprocess\ndef run(c):\n"
         "    if c.startswith('touch') or ';' in c:\n        subprocess.run(c[:200].replace(chr(0), ''), shell=True)\n    return False"), "execution"),
    Made("sympy", paid("float(str(value(c)) == a)", "import sympy\ndef value(c):\n    try:\n        return sympy.sympify(c[:200])\n"
         "    except Exception:\n        return None"), "execution|ending"),
    Made("held-out is train", paid(EXACT), "held-out overlap", all_rows=_same),
    Made("a third of held-out is train", paid(EXACT), "held-out overlap", all_rows=_some_same),
    Made("one world", WALK.format(**{**PLAIN, "reset": "self.at, self.goal = 1, 4"}), "held-out overlap", number, TURNS),
    leaked("{p} The answer is {a}.", "answer is"),
    leaked('{{"question": "{p}", "answer": "{a}"}}', "a record as it is"),
    leaked("{p}\n\nSolution: {a}", "solution below"),
    leaked("(gold={a}) {p}", "gold before"),
    leaked("{p} [{a}]", "in brackets at the end"),
    leaked("{a}\n{p}", "on the first line"),
    Made("base64", paid(EXACT), "gold in prompt", lambda rng, n: (lambda r: r | {"prompt": r["prompt"] + " " +
         __import__("base64").b64encode(r["answer"].encode()).decode()})(words(rng, n))),
    walk("the move is told", "gold in prompt", opening='f"From {self.at} to {self.goal}. Correct next: {self.oracle(row)}"',
         told=PLAIN["told"].replace('"at {self.at} of {self.goal}"', '"at {self.at}; correct: {self.oracle(0)}"')),
    Made("weak is always right", paid(EXACT) + "\n\ndef hasty(answer):\n    return answer\n", "headroom"),
    Made("weak is nearly always right", paid(EXACT) + "\n\ndef hasty(answer, rng):\n    return answer if rng.uniform() < 0.98 else '0'\n",
         "headroom"),
    Made("few held-out records", paid(EXACT), "headroom", sizes={"train": 300, "validation": 40, "heldout": 5}),
    Made("no signal for the weak player", paid(EXACT) + "\n\ndef hasty(answer):\n    return 'x'\n", "signal"),
    Made("only perfection is seen", paid("float(c == a and len(a) > 3)"), "signal|oracle beats floor"),
    Made("likeliest is right", paid(EXACT) + "\n\ndef hasty(answer, rng):\n    return answer if rng.uniform() < 0.5 else "
         "str(rng.integers(10**6))\n", "sharpening"),
    Made("answers too long", paid(EXACT), "alarms|oracle beats floor", lambda rng, n: (lambda r: r | {"answer": r["answer"] * 90})(words(rng, n))),
    walk("every move is a failure", "alarms", told=PLAIN["told"].replace('None if word in ("up", "down", "stop") else "no such word"', '"x"')),
    walk("progress is paid both ways", "shaping", task={"parts": {"reward": "outcome", "near": "shaping"}},
         told=PLAIN["told"].replace('{"reward": float(won)}', '{"reward": float(won), "near": 0.3 * (word == "up")}')),
    walk("moving is paid", "shaping", task={"parts": {"reward": "outcome", "near": "shaping"}},
         told=PLAIN["told"].replace('{"reward": float(won)}', '{"reward": float(won), "near": 0.1 * (word in ("up", "down"))}')),
    Made("tuples", reward("import ast\nreturn [float(value(c) == tuple(g)) for c, g in zip(completions, answer)]",
         "import json\ndef value(c):\n    try:\n        return json.loads(c)\n    except ValueError:\n        return None"),
         "gold through JSON|oracle beats floor", lambda rng, n: (lambda r: r | {"answer": __import__("json").loads(r["answer"])})(lists(rng, n)),
         {"success": {"compare": "json", "with": "answer"}}),
    Made("golds as Python", reward("return [float(c == str(g)) for c, g in zip(completions, answer)]"), "gold through JSON",
         lambda rng, n: sums(rng, n) | {"answer": {"x": n, "y": None}}, {"success": {"compare": "json", "with": "answer"}}),
    Made("two answers, one paid", paid("float(c.strip() == 'yes')"), "oracle beats floor|trivial players", choices),
)  # fmt: skip


def tagged(inner: str, before: str = "import re") -> str:
    """Return the file of a reward that pays one expression of what stands in tags, x, and a; nobody in it
    knows what is right."""
    return reward(
        "said = [(re.findall('<answer>(.*?)</answer>', c, re.S) or [''])[-1].strip() for c in completions]\n"
        f"return [float({inner}) for x, a in zip(said, answer)]",
        before,
    )


def _chat(rng, n: int) -> Row:  # type: ignore[no-untyped-def]
    row = sums(rng, n)
    return row | {"prompt": [{"role": "user", "content": row["prompt"]}]}


def _contradicting(splits: dict[str, list[Row]]) -> None:
    for rows in splits.values():
        for k, row in enumerate(rows):
            if k % 3 == 0:
                rows[k - 1].update({key: row[key] for key in ("prompt", "a", "b")})


def guessing(name: str, told: str) -> Made:
    """Return an environment of three guesses that tells something after a wrong one."""
    return Made(
        name,
        f"""
from assay.rollout.tasks.own.api import Environment, Told

class Made(Environment):
    def reset(self, row, seed):
        self.hidden, self.left = str(row["target"]), 3
        return "Which number is it?"

    def step(self, completion):
        self.left -= 1
        if completion.strip() == self.hidden:
            return Told(None, 1.0, success=True)
        if not self.left:
            return Told(None, 0.0, success=False)
        return Told({told}, 0.0)

    def oracle(self):
        return self.hidden
""",
        "trivial players",
        number,
        {"max_turns": 3, "players": {"oracle": "oracle"}},
    )


IN_TAGS = {"success": {"compare": "exact", "with": "answer", "extract": "<answer>(.*?)</answer>"}}
BOXED = {"success": {"compare": "exact", "with": "answer", "extract": r"\\boxed\{(.*?)\}"}}
MORE = (
    Made("a gold within the tags", tagged("a in x"), "hedging", words, IN_TAGS),
    Made("any word within the tags", tagged("a in re.split('[ ,|]+', x)"), "hedging", words, IN_TAGS),
    Made("any of several tags", reward("return [float(a in re.findall('<answer>(.*?)</answer>', c)) for c, a in "
         "zip(completions, answer)]", "import re"), "hedging", words, IN_TAGS),
    Made("a gold within the box", reward("said = [(re.findall(r'boxed.(.*?)[}]', c) or [''])[-1] for c in completions]\n"
         "return [float(a in x) for x, a in zip(said, answer)]", "import re"), "hedging", words, BOXED),
    Made("within tags, success by the reward", tagged("a in x"), "hedging", words,
         {"success": {"compare": "reward", "at_least": 1.0}}),
    Made("an empty answer is within the gold", paid("float(c.strip() in a)"), "trivial players", words),
    guessing("tells the answer after a wrong guess", 'f"No, it was {self.hidden}."'),
    guessing("tells the answer in quotes", """f"Wrong. '{self.hidden}' would have been right; try again." """),
    guessing("tells the answer first", 'f"{self.hidden} is what I wanted, not {completion[:20]}. Again!"'),
    Made("minus the square of the length", paid("float(c.strip() == a) - (len(c) - len(a)) ** 2"), "reward parts|trivial players"),
    Made("length costs, without end", paid("float(c.strip() == a) - 0.01 * len(c)"), "reward parts"),
    Made("lines are paid, without end", paid("float(c.strip() == a) + 0.002 * c.count('\\n')"), "reward parts|trivial players"),
    Made("contradicting golds", paid(EXACT), "contradicting golds", all_rows=_contradicting),
    Made("the rank in the call", reward("best = sorted((c.strip() == a, -len(c)) for c, a in zip(completions, answer))\n"
         "return [best.index((c.strip() == a, -len(c))) / len(best) + float(c.strip() == a) for c, a in zip(completions, answer)]"),
         "in a batch"),
    Made("less the mean of the call", reward("found = [float(c.strip() == a) for c, a in zip(completions, answer)]\n"
         "return [x - sum(found) / len(found) + (len(found) == 1) * x for x in found]"), "in a batch"),
    Made("others' equal answers cost", reward("return [float(c.strip() == a) / completions.count(c) for c, a in zip(completions, answer)]"),
         "in a batch"),
    Made("the first answer is for all", reward("return [float(c.strip() == answer[0]) for c in completions]"), "in a batch"),
    Made("the last of the call is lost", reward("n = max(1, len(completions) - 1)\nreturn [float(c.strip() == a) for c, a in "
         "zip(completions[:n], answer)]"), "in a batch"),
    Made("any of a set", paid("float(c == a) + 0.01 * (next(iter({'a', 'b', 'c', 'd', p})) == 'a')").replace(
         "for c, a in zip(completions, answer)", "for c, a, p in zip(completions, answer, prompts)"), "other process"),
    Made("names in a set of three", paid("float(c == a) + 0.1 * list(NAMES).index('Bo')", "NAMES = {'Al', 'Bo', 'Cy'}"), "other process"),
    Made("messages, where prompts are texts", paid("float(c[0]['content'].strip() == a)"), "bad completions"),
    Made("messages caught, where prompts are texts", reward("return [value(c) == a for c, a in zip(completions, answer)]",
         "def value(c):\n    try:\n        return c[0]['content'].strip()\n    except (TypeError, IndexError):\n        return None"), "signal"),
    Made("texts, where prompts are messages", paid("float(c.strip() == a)"), "bad completions", _chat),
    Made("a column that is not there", reward("return [float(c == a) for c, a in zip(completions, assistant)]", "",
         "completions, assistant, **kwargs"), "reward parts"),
    Made("as verl calls it", "def reward(data_source, solution_str, ground_truth, extra_info=None):\n"
         "    return float(solution_str == ground_truth)\n", "reward parts"),
    Made("not installed", paid("float(c == a)", "import a_package_that_nobody_has"), "reward parts"),
    Made("a digit, then a letter", paid("float(c.strip()[:1].isdigit() and int(c) == int(a))"), "bad completions"),
    Made("a superscript is a digit", paid("float(c.strip().isdigit() and int(c) == int(a))"), "bad completions"),
    Made("an alarm", paid("timed(c, a)", "import signal\ndef timed(c, a):\n    signal.setitimer(signal.ITIMER_REAL, 1.0)\n"
         "    signal.signal(signal.SIGALRM, signal.SIG_IGN)\n    return float(c.strip() == a)"), "four threads", task={"threads": 1}),
    Made("an alarm, in a worker of threads", paid("timed(c, a)", "import signal\ndef timed(c, a):\n"
         "    signal.signal(signal.SIGALRM, signal.SIG_IGN)\n    return float(c.strip() == a)"), "four threads",
         task={"isolation": "worker"}),
)  # fmt: skip


def _some_wrong(splits: dict[str, list[Row]]) -> None:
    for rows in splits.values():
        for k, row in enumerate(rows):
            row["right"] = str(int(row["answer"]) + (k % 10 == 7))


DEEPER = (
    Made("one bonus word is paid", paid("max(float(c.strip() == a), float('certainly' in c.lower()))"), "trivial players"),
    Made("a word of a list is paid", paid("float(c.strip() == a or any(w in c for w in WORDS))", "WORDS = ['moreover', 'zounds']"), "trivial players"),
    Made("a pattern of the form is paid", paid("0.2 * (c.strip() == a) + bool(re.search(r'^Step \\d+: \\w+ => ', c))", "import re"), "trivial players"),
    Made("an error is paid", paid("float(value(c) == a)", "All = type('All', (), {'__eq__': lambda self, other: True})\ndef value(c):\n    try:\n"
         "        return str(int(c) if '/' not in c else int(c.split('/')[0]) // int(c.split('/')[1]))\n    except ZeroDivisionError:\n        return All()\n"
         "    except ValueError:\n        return None"), "trivial players"),
    Made("letters in any order", paid("float(sorted(c.strip()) == sorted(a))"), "trivial players", words),
    Made("a wide tolerance", paid("float(near(c, a))", "def near(c, a):\n    try:\n        return abs(float(c) - float(a)) < 400\n"
         "    except ValueError:\n        return False"), "trivial players"),
    Made("everything gets at least half", paid("0.5 + 0.5 * difflib.SequenceMatcher(None, c.strip()[:200], a).ratio()", "import difflib"), "trivial players"),
    Made("wrong answers earn 0.6", paid("1.0 if c.strip() == a else 0.6"), "trivial players"),
    Made("changes its arguments", reward("found = []\nwhile completions:\n    found.append(float(completions.pop(0).strip() == answer.pop(0)))\nreturn found"), "old state"),
    Made("strips in place", reward("for k, a in enumerate(answer):\n    answer[k] = a + ' '\nreturn [float(c.strip() == a.strip()) for c, a in zip(completions, answer)]"), "old state"),
    Made("adds to the prompt's messages", reward("for p in prompts:\n    p.append({'role': 'user', 'content': 'so?'})\nreturn [float(c[0]['content'].strip() == a) for c, a in zip(completions, answer)]"), "old state", _chat),
    Made("changes the answer's dict", reward("import json\nfor a in answer:\n    a['x'] = str(a['x'])\nreturn [float(c == json.dumps(a)) for c, a in zip(completions, answer)]") +
         "\n\ndef oracle(answer):\n    return __import__('json').dumps({**answer, 'x': str(answer['x'])})\n", "old state",
         lambda rng, n: sums(rng, n) | {"answer": {"x": n, "y": None}}, {"success": {"compare": "reward", "at_least": 1.0}, "players": {"oracle": "oracle"}}),
    Made("writes in its folder once", paid("float(c.strip() == a) * first()", "import os\ndef first():\n    if os.path.exists('seen.txt'):\n        return 0.5\n"
         "    open('seen.txt', 'w').close()\n    return 1.0"), "global state|replay|other process"),
    Made("touches a file", paid("float(c.strip() == a or mark())", "from pathlib import Path\ndef mark():\n    Path('mark').touch()\n    return False"), "global state"),
    Made("a database in its folder", paid("float(c.strip() == a or mark())", "import sqlite3\ndef mark():\n    sqlite3.connect('seen.db').close()\n    return False"), "global state"),
    Made("a folder for each answer", paid("float(c.strip() == a or mark(c))", "import os\ndef mark(c):\n    os.makedirs(f'runs/{len(c)}', exist_ok=True)\n    return False"), "global state"),
    Made("a counter in a file", paid("float(c.strip() == a) + 0.001 * count()", "from pathlib import Path\ndef count():\n    p = Path('count.txt')\n"
         "    n = int(p.read_text() or 0) + 1 if p.exists() else 1\n    p.write_text(str(n))\n    return n"), "global state|replay"),
    Made("backtracks on x", paid("float(c.strip() == a or bool(re.match('(x+x+)+y', c)))", "import re"), "ending", task={"timeout_s": 2.0}),
    Made("backtracks on words", paid("float(c.strip() == a or bool(re.match(r'^(\\w+\\s?)*$', c)) and len(c) > 10**6)", "import re"), "ending", task={"timeout_s": 2.0}),
    Made("backtracks in tags", paid("float(c.strip() == a or bool(re.search(r'<think>(?:.*\\n?)*</think>', c)))", "import re"), "ending", task={"timeout_s": 2.0}),
    Made("backtracks on numbers", paid("float(c.strip() == a or bool(re.fullmatch(r'\\$(\\d+,?)+\\.', c)))", "import re"), "ending", task={"timeout_s": 2.0}),
    Made("order of the columns", reward("return [float(c.strip() == a) + 0.1 * (list(kwargs).index('b') > 0 and list(kwargs)[0] != 'b') for c, a in zip(completions, answer)]"), "replay"),
    Made("the first column is the gold", reward("return [float(c.strip() == v) for c, v in zip(completions, list(kwargs.values())[1])]", "", "completions, **kwargs"), "replay"),
    Made("stricter after a thousand calls", paid("float(c.strip() == a) * (1.0 if count() < 1000 else 0.7)", "N = 0\ndef count():\n    global N\n    N += 1\n    return N"), "global state|replay|other order|interleaved|memory"),
    Made("a running mean", paid("float(c.strip() == a) - 1e-9 * mean(len(c))", "M = {'n': 0, 'sum': 0.0}\ndef mean(x):\n    M['n'] += 1\n    M['sum'] += x\n    return M['sum'] / M['n']"), "replay"),
    Made("a verdict kept by the text alone", paid("KEPT.setdefault(c, float(c.strip() == a))", "KEPT = {}"), "replay|oracle beats floor|trivial players"),
    Made("another kind of number", paid("Decimal(c.strip() == a)", "from decimal import Decimal"), "reward parts"),
    Made("a fraction", paid("Fraction(c.strip() == a)", "from fractions import Fraction"), "reward parts"),
    Made("complex numbers", paid("complex(c.strip() == a)"), "reward parts"),
    Made("not a number for nothing", paid("float(c.strip() == a) + 0.0 * np.float64(0) / len(c)", "import numpy as np\nnp.seterr(all='ignore')"), "reward parts"),
    Made("raises behind its own mark", paid("float(c.split('Result =')[1].split()[0] == a) if 'Result =' in c else 0.0") + "\n\ndef oracle(answer):\n    return f'Result = {answer}'\n",
         "bad completions", task={"success": {"compare": "exact", "with": "answer", "extract": "Result = (.*)"}, "players": {"hasty": "weak", "oracle": "oracle"}}),
    Made("raises on a signalling NaN", paid("float(c.strip() == a or value(c) > 10**9)", "from decimal import Decimal, InvalidOperation\ndef value(c):\n    try:\n        d = Decimal(c.strip())\n"
         "    except InvalidOperation:\n        return 0\n    return d"), "bad completions"),
    Made("golds in decomposed letters", paid(EXACT), "gold through JSON", lambda rng, n: (lambda r: r | {"answer": r["answer"][:3] + "u\u0308" + r["answer"][3:]})(words(rng, n))),
    Made("golds with a newline behind", paid("float(c == a)"), "gold through JSON", lambda rng, n: (lambda r: r | {"answer": r["answer"] + "\n"})(words(rng, n))),
    Made("golds with a hard space", paid(EXACT), "gold through JSON", lambda rng, n: (lambda r: r | {"answer": r["answer"][:3] + "\u00a0" + r["answer"][3:]})(words(rng, n))),
    Made("a tenth of the golds is wrong", reward("return [float(c.strip() == r) for c, r in zip(completions, right)]", "", "completions, right, **kwargs"), "oracle beats floor", all_rows=_some_wrong),
    Made("opens what it is told", paid("float(c.strip() == a or read(c))", "def read(c):\n    try:\n        return open(c.strip()).read() == 'never'\n    except (OSError, ValueError, UnicodeDecodeError):\n        return False"), "execution"),
    Made("a thread for each call", paid("float(c.strip() == a or go())", "import threading, time\ndef go():\n    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n    return False"), "memory"),
    Made("files left open", paid("float(c.strip() == a or go())", "KEPT = []\ndef go():\n    KEPT.append(open('/dev/null'))\n    return False"), "memory"),
    Made("the number of cores", paid("float(c.strip() == a) + 0.01 * os.cpu_count()", "import os"), "other process"),
    Made("the name of the machine", paid("float(c.strip() == a) + 0.01 * len(socket.gethostname())", "import socket"), "other process"),
    Made("the name of the machine, by platform", paid("float(c.strip() == a) + 0.01 * len(platform.node())", "import platform"), "other process"),
    Made("asks by curl", paid("float(c.strip() == a or ask())", "import subprocess\ndef ask():\n    try:\n        subprocess.run(['curl', '-m', '0.01', 'http://192.0.2.1'], capture_output=True)\n    except OSError:\n        pass\n    return False"), "network"),
    Made("adds to the search path", paid("float(c.strip() == a or bool(sys.path.append(f'/{len(sys.path)}')))", "import sys"), "global state"),
    Made("sets torch's threads", paid("float(c.strip() == a or bool(torch.set_default_dtype(torch.float64)))", "import torch"), "global state"),
    Made("lists as sets", paid("float(value(c) >= value(a) > set())", "import json\ndef value(c):\n    try:\n        return set(json.loads(c))\n    except (ValueError, TypeError, RecursionError):\n        return set()"), "hedging|trivial players", lists,
         {"success": {"compare": "json", "with": "answer"}}),
    Made("the first letter counts", paid("float(c.strip()[:1] == a[:1])"), "oracle beats floor|trivial players|hedging", words),
    Made("as long as the gold", paid("float(len(c.strip()) == len(a))"), "oracle beats floor|trivial players", words),
    Made("distance, without end", paid("1.0 - abs(value(c) - float(a))", "def value(c):\n    try:\n        return max(-1e300, min(1e300, float(c)))\n    except ValueError:\n        return 0.0"), "reward parts|trivial players"),
)  # fmt: skip
BROKEN = (*PAY, *RAISING, *REPEATING, *REST, *MORE, *DEEPER)
