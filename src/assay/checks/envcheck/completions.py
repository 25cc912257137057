"""Texts that nobody should be paid for, texts that models write when they go wrong, and texts that show
whether a grader executes what it is given."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from contextlib import suppress

# Texts that models do write when they go wrong; grading them must end in a failure, never in an error.
BAD_COMPLETIONS = (
    "",
    " ",
    "\x00",
    "\ufffd",
    "🙂" * 64,
    "null",
    "[]",
    '{"a":',
    "{" * 3000,
    "[" * 3000,
    "9" * 5000,
    "a" * 60 + "!",
    "1" * 60 + "!",
    " " * 60 + "!",
    "-1e999",
    "NaN",
    '{"a":1}' * 50,
    "<|endoftext|>",
    "\n" * 500,
    "12a",
    "7 apples",
    "3x",
    "1,5",
    "1_000",
    "½",
    "²",
    "0x1F",
    "1 2",
    "--5",
    "5.",
    ".",
    "{}",
    '"7"',
    "true",
    "<answer>",
    "</answer><answer>",
    "\\boxed{",
    "```json\n{",
    "####",
    "abc",
    "3.5",
    "1/0",
    "[1, 2]",
    '{"answer": null}',
    "1e400",
    "sNaN",
    "٣",
    "a,b",
    "()",
)
# How answers are usually written where more than the answer is said; \0 stands for the answer.
FRAMES = (
    "\0",
    "<answer>\0</answer>",
    "<think>\nso\n</think>\n<answer>\n\0\n</answer>",
    "<think>so</think><answer>\0</answer>",
    "\\boxed{\0}",
    "#### \0",
    "The answer is \0",
    "Answer: \0",
    "```\n\0\n```",
    "<think>so</think>\0",
)
LONG = "a " * 10_000
# What a policy may come to say to every item; a text of many words is paid by graders that count.
CONSTANT = (
    "", "0", "1", "yes", "no", "Yes", "True", "A", "[]", "{}", "None", "banana", "ok", "the",
    "nan", "inf", "-inf", ".*", "%", "<think>so</think>" * 20, "<answer>" * 20, "\n- so" * 20,
    "I don't know.", "I cannot answer that.", "I cannot", "I'm sorry, but I can't help with that.",
    "I am sure that this is the correct answer, because I thought about it step by step. Therefore, the final"
    " answer is correct.",
    LONG, "x" * 200, "!" * 50, "\n" * 50, "0123456789", "answer", "\\boxed{}", "<answer></answer>",
    "```\n```", "<think>\n</think>\n<answer>\n</answer>",
)  # fmt: skip
MARKER = "assay_canary_7f3a"


def wrapped(text: str, extract: str | None) -> str:
    """Return a text as the declared expression finds it; as it is where that cannot be made simply.

    >>> wrapped("7", "<answer>(.*?)</answer>")
    '<answer>7</answer>'
    """
    if extract is None:
        return text
    head, _, tail = re.sub(r"\\[sn][*+]?", " ", extract).partition("(")
    rest = tail.partition(")")[2]
    plain = re.sub(r"\\(.)", r"\1", head) + "\0" + re.sub(r"\\(.)", r"\1", rest)
    for frame in (re.sub(r"[$^]", "", plain), *FRAMES):
        made = framed(text, frame)
        seen = list(re.finditer(extract, made, re.DOTALL))
        if seen and (seen[-1].group(1) or "").strip() == text.strip():
            return made
    return text


def pattern_of(frame: str) -> str:
    """Return the expression that finds what stands in a frame.

    >>> pattern_of("<answer>\\0</answer>")
    '<answer>(.*?)</answer>'
    """
    head, _, tail = frame.partition("\0")
    return f"{re.escape(head)}(.*?){re.escape(tail)}"


def framed(text: str, frame: str) -> str:
    """Return a text within a frame.

    >>> framed("7", "<answer>\\0</answer>")
    '<answer>7</answer>'
    """
    return frame.replace("\0", text)


def frame_of(completion: str, answer: str) -> str | None:
    """Return the frame in which a completion holds an answer; None where it is all that is said, or does not
    stand there once.

    >>> frame_of("so: <b>7</b>", "7")
    'so: <b>\\x00</b>'
    """
    if not answer or completion.count(answer) != 1 or completion.strip() == answer.strip():
        return None
    return completion.replace(answer, "\0")


def trivial_texts(prompt: str, golds: Sequence[str], extract: str | None) -> dict[str, str]:
    """Return what needs no skill, by name, for one prompt; `golds` are right completions of other items."""
    lines = [line for line in prompt.splitlines() if line.strip()] or [""]
    words = prompt.split() or [""]
    found = {shown_name(text): text for text in CONSTANT}
    found |= {
        "the prompt": prompt,
        "the prompt twice": prompt + prompt,
        "its last line": lines[-1],
        "its first line": lines[0],
        "its last word": words[-1],
        "its first word": words[0],
    }
    found |= {f"its word {place}": words[place - 1] for place in range(2, min(6, len(words)))}
    found |= {f"its word {place} from the end": words[-place] for place in range(2, min(6, len(words)))}
    found |= {shown_name(text): text for text in BAD_COMPLETIONS}
    if golds:
        common = max(sorted(set(golds)), key=list(golds).count)
        found |= {"the commonest gold": common}
        found |= {"another item's gold": golds[0], "yet another's gold": golds[len(golds) // 2]}
    if extract is not None:
        found |= {f"{name}, as task.success finds it": wrapped(text, extract) for name, text in found.items()}
    return found


def shown_name(text: str) -> str:
    """Return what a constant text is called.

    >>> shown_name("x" * 200)
    "'xxxxxxxxxxxx…' (200 characters)"
    """
    return repr(text) if len(text) <= 24 else f"{text[:12] + '…'!r} ({len(text):,} characters)"


def hedges(gold: str, others: Sequence[str], seed: int) -> dict[str, list[str]]:
    """Return texts that name the right answer among others, by how they are put together: each in several
    orders, in one of which it comes first and in one last. A grader is hedged against where all are paid. A
    first letter that several have names them all."""
    rest = [each for each in dict.fromkeys(others) if each.strip() != gold.strip()][:8]
    if not rest:
        return {}
    random.Random(seed).shuffle(rest)
    middle = len(rest) // 2
    orders = [[*rest, gold], [gold, *rest]]
    if len(rest) > 1:
        orders.append([*rest[:middle], gold, *rest[middle:]])
    joined = {"spaces": " ", "commas": ", ", "or": " or ", "lines": "\n", "bars": "|", "nothing": ""}
    found = {name: [mark.join(order) for order in orders] for name, mark in joined.items()}
    found["a list"] = [json.dumps(order, ensure_ascii=False) for order in orders]
    if gold[:2].isalpha() and any(each[:1] == gold[0] for each in rest):  # else it tells the answer
        found["its first letter"] = [gold[0]]
    with suppress(ValueError, RecursionError):
        read = {text: json.loads(text) for text in orders[0]}
        if all(isinstance(value, list) for value in read.values()):
            found["one list of all"] = [
                json.dumps([each for text in order for each in read[text]], ensure_ascii=False)
                for order in orders
            ]
    return found


def malformed(gold: str) -> list[str]:
    """Return right answers that were damaged, as a policy damages them."""
    half = len(gold) // 2
    made = [
        gold[:half],
        gold + gold,
        f"{gold}\n{gold}",
        f"<{gold}",
        f'"{gold}',
        f"{gold}}}",
        f"[{gold}",
        gold.upper(),
    ]
    made += [
        gold.replace(" ", ""),
        f"{gold}\x00",
        f"{gold},",
        f"-{gold}",
        f"{gold}/0",
        f"{gold}e999",
        " ".join(gold),
    ]
    swapped = re.sub(r"\d+", "x", gold), re.sub(r"[A-Za-z]+", "7", gold), re.sub(r"\d", "0", gold)
    return [text for text in dict.fromkeys([*made, *swapped]) if text != gold]


def canaries(path: str, gold: str, extract: str | None) -> list[str]:
    """Return completions that would write a file, or name the marker, if they were executed."""
    write = f"__import__('pathlib').Path({path!r}).write_text('{MARKER}')"
    shell = f"touch {path} # {MARKER}"
    bodies = [
        write, f"{MARKER} = {write}", f"print({write})", f"[{write}]", f"({write}, 1)", f"{{'a': {write}}}",
        f'{{"answer": "{write}", "{MARKER}": 1}}', f"def solution(*args, **kwargs):\n    return {write}\n",
        f"import os\nos.system('{shell}')", f"$({shell})", f"; {shell}", f"`{shell}`", shell,
        f"!!python/object/apply:os.system ['{shell}']", f"{MARKER} + 1", f"'{MARKER}'", f"len('{MARKER}')",
        f"{gold} if '{MARKER}' else {write}", f"{gold} # {MARKER}", f"lambda: {write}",
        f"{write} or {gold}",
    ]  # fmt: skip
    found = [*bodies]
    for body in bodies:
        found += [f"```python\n{body}\n```", f"<answer>{body}</answer>", f"\\boxed{{{body}}}"]
        if extract is not None:
            found.append(wrapped(body, extract))
    return list(dict.fromkeys(found))
