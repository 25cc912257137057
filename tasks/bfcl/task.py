"""One call of a function that is described: grades as the AST checker of the Berkeley Function Calling
Leaderboard does for Python, and executes nothing of a completion. docs/public-tasks.md says how to run it.
"""

import ast
import json
import re

TYPES = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
IGNORED = re.compile(r"[ \,\.\/\-\_\*\^]")  # of a text, beside upper case, as the leaderboard does
QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'|\b([A-Z]\w+(?: [A-Z]\w+)*)")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def reward(prompts, completions, function, ground_truth, **kwargs):
    """Pay 0.1 for a call, 0.2 for the right function, up to 0.2 for its arguments, 0.5 if all is right."""
    return [paid(*each) for each in zip(completions, function, ground_truth, strict=True)]


def paid(completion, functions, accepted):
    """Return the parts of one completion."""
    said = called(completion)
    if said is None:
        return {"call": 0.0, "function": 0.0, "arguments": 0.0, "right": 0.0}
    (name, given), ((right, wanted),) = said, accepted.items()
    schema = next(each for each in functions if each["name"] == right)["parameters"]
    fits = {key: key in wanted and is_accepted(given[key], schema, key, wanted[key]) for key in given}
    left_out = [key for key in wanted if key not in given and is_needed(schema, key, wanted[key])]
    graded = [*fits.values(), *(False for _ in left_out)]
    share = sum(graded) / len(graded) if graded else 1.0
    return {
        "call": 0.1,
        "function": 0.2 * (name == right),
        "arguments": 0.2 * share * (name == right),
        "right": 0.5 * (name == right and all(graded)),
    }


def is_needed(schema, key, accepted):
    """Return whether an argument may not be left out."""
    return key in schema["required"] or "" not in accepted


def called(completion):
    """Return name and arguments of the one call that a text is; None where it is none."""
    try:
        body = ast.parse(completion.strip().strip("'"), mode="eval").body
        calls = [body] if isinstance(body, ast.Call) else body.elts
        ((name, given),) = [call_of(each) for each in calls]
    except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError, MemoryError):
        return None
    return name, given


def call_of(node):
    """Return name and named arguments of a call; those without a name are not looked at."""
    if not isinstance(node, ast.Call):
        raise TypeError("not a call")
    parts, place = [], node.func
    while isinstance(place, ast.Attribute):
        parts.append(place.attr)
        place = place.value
    if isinstance(place, ast.Name):
        parts.append(place.id)
    return ".".join(reversed(parts)), {each.arg: value_of(each.value) for each in node.keywords}


def value_of(node):
    """Return what an argument says, without computing anything."""
    match node:
        case ast.Constant():
            return "..." if node.value is ... else node.value
        case ast.UnaryOp(operand=ast.Constant()):
            return -node.operand.value
        case ast.List():
            return [value_of(each) for each in node.elts]
        case ast.Tuple():
            return tuple(value_of(each) for each in node.elts)
        case ast.Dict():
            return {value_of(key): value_of(value) for key, value in zip(node.keys, node.values, strict=True)}
        case ast.Name():
            return node.id
        case ast.Call(keywords=[]):
            return ast.unparse(node)
        case ast.Call():
            return dict([call_of(node)])
        case ast.Subscript():
            return f"{ast.unparse(node.value)}[{ast.unparse(node.slice)}]"
    raise ValueError(f"{type(node).__name__} is not read")


def is_accepted(value, schema, key, accepted):
    """Return whether an argument has the type that is asked for, and an accepted value."""
    if key not in schema["properties"]:
        return False
    asked = schema["properties"][key]
    kind, of = TYPES[asked["type"]], None
    if asked["type"] in ("array", "tuple"):
        of = TYPES[asked["items"]["type"]]
    if asked["type"] == "tuple" and type(value) is tuple:
        value = list(value)
    if asked["type"] == "float" and type(value) is int:
        value = float(value)
    if not has_type(value, accepted, kind, of):
        return False
    if type(value) is not kind or known_type(accepted) not in (None, kind):
        return value in accepted  # the name of a variable stands for a value
    if kind is dict:
        return any(same_entries(value, each) for each in accepted if each != "")
    if kind is list and of is dict:
        return any(len(value) == len(each) and all(map(same_entries, value, each)) for each in accepted)
    if kind is list:
        return plain(value) in [plain(each) for each in accepted]
    return plain([value]) in [plain([each]) for each in accepted]


def has_type(value, accepted, kind, of):
    """Return whether a value is of a kind, and those of a list of theirs; or of the accepted one's."""
    if type(value) is not kind:
        return known_type(accepted) is type(value)
    return of is None or any(
        type(each) is not list or all(has_type(one, each, of, None) for one in value) for each in accepted
    )


def known_type(accepted):
    """Return the type of the first accepted value; "" only says that there need not be one."""
    return next((type(each) for each in accepted if each != ""), None)


def same_entries(value, accepted):
    """Return whether a dict has accepted entries, and all that may not be left out."""
    return (
        isinstance(value, dict)
        and all(key in accepted and plain([one])[0] in plain(accepted[key]) for key, one in value.items())
        and all(key in value or "" in accepted[key] for key in accepted)
    )


def plain(values):
    """Return values with each text as it is compared."""
    return [
        IGNORED.sub("", each).lower().replace("'", '"') if isinstance(each, str) else each for each in values
    ]


def written(name, arguments):
    """Return a call as Python writes it."""
    return f"{name}({', '.join(f'{key}={literal(value)}' for key, value in arguments.items())})"


def literal(value):
    """Return a value as Python writes it, texts in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {literal(one)}' for key, one in value.items())}}}"
    return repr(value)


def first_of(accepted):
    """Return the first accepted value as it is written, without what may be left out."""
    value = next((each for each in accepted if each != ""), "")
    if isinstance(value, list):
        return [first_entries(each) if isinstance(each, dict) else each for each in value]
    return first_entries(value) if isinstance(value, dict) else value


def first_entries(entries):
    """Return the first accepted value of each entry that may not be left out."""
    return {key: first_of(each) for key, each in entries.items() if "" not in each}


def solution(row):
    """Return the shortest right call."""
    ((name, wanted),) = row["ground_truth"].items()
    schema = next(each for each in row["function"] if each["name"] == name)["parameters"]
    needed = {key: each for key, each in wanted.items() if is_needed(schema, key, each)}
    return written(name, {key: first_of(each) for key, each in needed.items()})


def answer(row, action):
    """Return a right call as `solution` writes it, since there are many, and another as it is."""
    is_right = paid(action, row["function"], row["ground_truth"])["right"] > 0
    return solution(row) if is_right else action


def bare(function):
    """Call the first function without arguments."""
    return written(function[0]["name"], {})


def copier(function, prompt):
    """Call the first function with what the question quotes, writes with a capital, or counts, in order."""
    question = prompt.rsplit("\n\n", 1)[-1]
    texts = [next(filter(None, found)) for found in QUOTED.findall(question)] or [question]
    numbers = NUMBER.findall(question) or ["1"]
    schema, given = function[0]["parameters"], {}
    for key in schema["required"]:
        kind = TYPES[schema["properties"][key]["type"]]
        if kind in (int, float):
            number = numbers.pop(0) if len(numbers) > 1 else numbers[0]
            given[key] = float(number) if kind is float else int(float(number))
        elif kind is bool:
            given[key] = True
        elif kind is dict:
            given[key] = {}
        else:
            text = texts.pop(0) if len(texts) > 1 else texts[0]
            given[key] = [text] if kind is list else text
    return written(function[0]["name"], given)
