"""The JSON surface: one object per turn, for models that already speak JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from assay.tasks.collider.actions import KINDS, WITH_CHANNEL, Action, ActionKind, Parsed, failed

MAX_LENGTH = 20_000
MAX_OBJECT = 500
# Actions are flat, so an object is a run without inner braces: linear to find, whatever the input.
_OBJECT = re.compile(r"\{[^{}]*\}")
_FIELDS: dict[str, frozenset[str]] = {
    "take_data": frozenset({"channel", "blocks"}),
    "calibrate": frozenset({"channel"}),
    "scan": frozenset(),
    "fit": frozenset({"channel"}),
    "angles": frozenset({"channel"}),
    "claim": frozenset({"channel", "mass_gev", "spin", "confidence"}),
    "no_signal": frozenset({"confidence"}),
}


def write_json(action: Action) -> str:
    """Return the text of an action: one JSON object on one line.

    >>> write_json(Action("take_data", "diphoton", blocks=4))
    '{"action_type":"take_data","channel":"diphoton","blocks":4}'
    """
    body: dict[str, Any] = {"action_type": action.kind}
    if action.kind in WITH_CHANNEL:
        body["channel"] = action.channel
    if action.kind == "take_data":
        body["blocks"] = action.blocks
    if action.kind == "claim":
        body |= {"mass_gev": action.mass_gev, "spin": action.spin}
    if action.confidence is not None:
        body["confidence"] = action.confidence
    return json.dumps(body, separators=(",", ":"), allow_nan=False)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key appears twice")
    return dict(pairs)


def _number(value: Any) -> float | None:
    """Return a finite float, or None; booleans, texts and numbers too large for a float are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _action(body: dict[str, Any]) -> Action:
    """Return the action of an object; ValueError tells the player what is wrong."""
    kind = body.get("action_type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"action_type must be one of {', '.join(KINDS)}")
    fields = _FIELDS[kind]
    given = set(body) - {"action_type"}
    if given != fields:
        raise ValueError(f"{kind} needs exactly these fields: {', '.join(sorted(fields)) or 'none'}")
    blocks, spin, channel = body.get("blocks"), body.get("spin"), body.get("channel")
    if "blocks" in fields and type(blocks) is not int:
        raise ValueError("blocks must be a whole number")
    if spin is not None and type(spin) is not int:
        raise ValueError("spin must be 0, 1, 2 or null")
    if channel is not None and not isinstance(channel, str):
        raise ValueError("channel must be a name")
    mass_gev, confidence = _number(body.get("mass_gev")), _number(body.get("confidence"))
    if "mass_gev" in fields and mass_gev is None:
        raise ValueError("mass_gev must be a finite number")
    if "confidence" in fields and confidence is None:
        raise ValueError("confidence must be a number from 0 to 1")
    name: ActionKind = KINDS[KINDS.index(kind)]
    return Action(name, channel, blocks, mass_gev, spin, confidence)


def parse_json(text: str) -> Parsed:
    """Read a completion: one strict JSON object is ok; one inside prose or a fence is repaired; anything else
    failed.

    >>> parse_json('{"action_type":"scan"}').outcome, parse_json('I look: {"action_type":"scan"}').outcome
    ('ok', 'repaired')
    >>> parse_json("scan please").reason
    'no JSON object found'
    """
    if len(text) > MAX_LENGTH:
        return failed(f"longer than {MAX_LENGTH} characters")
    spots = _OBJECT.findall(text)
    if not spots:
        return failed("no JSON object found")
    if len(spots) > 1:
        return failed("more than one JSON object")
    if len(spots[0]) > MAX_OBJECT:
        return failed(f"an object longer than {MAX_OBJECT} characters")
    try:
        body = json.loads(spots[0], parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        action = _action(body)
    except json.JSONDecodeError as error:
        return failed(f"not JSON: {error.msg}")
    except ValueError as error:
        return failed(str(error)[:200])
    return Parsed("ok" if spots[0] == text.strip(" \t\r\n") else "repaired", action, None)
