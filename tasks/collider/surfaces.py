"""What a player can do, and how it is written and read: on the compact surface every value is one token, so
that a tiny model trained from scratch can speak it; on the other a turn is one JSON object."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NoReturn

from assay.core.records import ParseOutcome

from .world.physics import BUDGET_BLOCKS, LETTERS, N_BINS, NAMES, bin_at, centre_gev

ActionKind = Literal["take_data", "calibrate", "scan", "fit", "angles", "claim", "no_signal"]
KINDS: tuple[ActionKind, ...] = ("take_data", "calibrate", "scan", "fit", "angles", "claim", "no_signal")
WITH_CHANNEL = frozenset({"take_data", "calibrate", "fit", "angles", "claim"})
MAX_MASS_GEV = 1e6


@dataclass(frozen=True, slots=True)
class Action:
    """One decision. Fields that the kind does not use are None; `spin` is None where a claim abstains from
    it."""

    kind: ActionKind
    channel: str | None = None
    blocks: int | None = None
    mass_gev: float | None = None
    spin: int | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        """Refuse fields that contradict the kind, with a ValueError."""
        problem = self.problem()
        if problem is not None:
            raise ValueError(problem)

    def problem(self) -> str | None:
        """Return what is wrong with the fields, or None; a parser passes this on to the player.

        >>> Action("scan").problem() is None
        True
        """
        known = self.channel in NAMES
        if known != (self.kind in WITH_CHANNEL) or (self.channel is not None and not known):
            return f"{self.kind}: channel must be one of {', '.join(NAMES)}"
        if (self.blocks is not None) != (self.kind == "take_data"):
            return f"{self.kind}: blocks belong to take_data alone"
        if self.blocks is not None and not 1 <= self.blocks <= BUDGET_BLOCKS:
            return f"blocks must be a whole number from 1 to {BUDGET_BLOCKS}"
        if (self.mass_gev is not None) != (self.kind == "claim") or (
            self.spin is not None and self.kind != "claim"
        ):
            return f"{self.kind}: a mass belongs to every claim, mass and spin to nothing else"
        if self.mass_gev is not None and not 0.0 < self.mass_gev < MAX_MASS_GEV:
            return "mass_gev must be a positive number below 1e6"
        if self.spin not in (None, 0, 1, 2):
            return "spin must be 0, 1, 2 or null"
        if (self.confidence is not None) != (self.kind in ("claim", "no_signal")):
            return f"{self.kind}: a confidence belongs to a verdict, and to nothing else"
        if self.confidence is not None and not (
            math.isfinite(self.confidence) and 0.0 <= self.confidence <= 1.0
        ):
            return "confidence must be a number from 0 to 1"
        return None


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """What reading came to: an action with `ok` or `repaired`, or a reason with `failed`."""

    outcome: ParseOutcome
    action: Action | None
    reason: str | None


def failed(reason: str) -> ParsedAction:
    """Return a failure with its reason.

    >>> failed("empty").outcome
    'failed'
    """
    return ParsedAction("failed", None, reason)


# Longest first; joining the tokens of a text gives the text back. A channel with its bin (gb07) is one token:
# a tiny attention-only model learns to copy one token on every seed tried, and to look up "what followed g"
# only on some.
COMPACT_TOKEN_PATTERN = rf"[{LETTERS}]b\d\d|z\d\d|c\d|10|\d|[A-Za-z]|[-+?! \n]"
MAX_LENGTH = 400
_Z_CAP = 99
_Z_TOKENS = [f"z{i:02d}" for i in range(_Z_CAP + 1)]
_BIN_TOKENS = [f"b{i:02d}" for i in range(N_BINS)]
_VERBS = "rksfayn"
_MARKS = ("L", "t", "x", "?", "!", "-", "+", " ", "\n")

_ACTION = re.compile(
    rf"(?P<take>r(?P<take_channel>[{LETTERS}])(?P<blocks>10|[1-9]))"
    rf"|(?P<verb>[kfa])(?P<verb_channel>[{LETTERS}])"
    r"|(?P<scan>s)"
    rf"|(?P<claim>y(?P<claim_channel>[{LETTERS}])b(?P<bin>[0-5]\d|6[0-3])"
    r"(?P<spin>[012-])c(?P<claim_confidence>\d))"
    r"|(?P<null>nc(?P<null_confidence>\d))"
)
_LONE = re.compile(rf"(?<![A-Za-z0-9])(?:{re.sub(r'[?]P<[a-z_]+>', '', _ACTION.pattern)})(?![A-Za-z0-9-])")
_LETTER_OF = dict(zip(NAMES, LETTERS, strict=True))


def compact_vocabulary() -> tuple[str, ...]:
    """Return every token of the surface, each once.

    >>> len(compact_vocabulary()) == len(set(compact_vocabulary()))
    True
    """
    digits = [str(i) for i in range(BUDGET_BLOCKS + 1)]
    letters = sorted(set(_VERBS + LETTERS))
    bins = [f"{name}{token}" for name in LETTERS for token in _BIN_TOKENS]
    return (*_MARKS, *letters, *digits, *_Z_TOKENS, *bins, *(f"c{i}" for i in range(10)))


def z_token(z: float) -> str:
    """Return a significance as one token, in steps of half a sigma, rounded down.

    >>> z_token(3.9), z_token(80.0)
    ('z07', 'z99')
    """
    return _Z_TOKENS[min(_Z_CAP, max(0, int(2.0 * z + 1e-9)))]


def bin_token(bin_index: int) -> str:
    """Return a bin as one token.

    >>> bin_token(7)
    'b07'
    """
    return _BIN_TOKENS[bin_index]


def letter(channel: str) -> str:
    """Return the letter of a channel.

    >>> letter("four_lepton")
    'l'
    """
    return _LETTER_OF[channel]


def _tenths(confidence: float | None) -> str:
    return f"c{min(9, int(10.0 * (confidence or 0.0) + 0.5))}"


def write_compact(action: Action, m0_gev: float) -> str:
    """Return the text of an action; a mass becomes its bin, a confidence its nearest tenth up to 0.9.

    >>> write_compact(Action("claim", "diphoton", mass_gev=108.3, spin=2, confidence=0.9), 100.0)
    'ygb072c9'
    """
    if action.kind == "scan":
        return "s"
    if action.kind == "no_signal":
        return f"n{_tenths(action.confidence)}"
    channel = letter(str(action.channel))
    if action.kind == "take_data":
        return f"r{channel}{action.blocks}"
    if action.kind == "claim":
        spin = "-" if action.spin is None else str(action.spin)
        place = bin_token(bin_at(m0_gev, action.mass_gev or m0_gev))
        return f"y{channel}{place}{spin}{_tenths(action.confidence)}"
    return {"calibrate": "k", "fit": "f", "angles": "a"}[action.kind] + channel


def _build(match: re.Match[str], m0_gev: float) -> Action:
    found = match.groupdict()
    if found["take"]:
        return Action("take_data", NAMES[LETTERS.index(found["take_channel"])], blocks=int(found["blocks"]))
    if found["scan"]:
        return Action("scan")
    if found["null"]:
        return Action("no_signal", confidence=int(found["null_confidence"]) / 10)
    if found["claim"]:
        return Action(
            "claim",
            NAMES[LETTERS.index(found["claim_channel"])],
            mass_gev=centre_gev(m0_gev, int(found["bin"])),
            spin=None if found["spin"] == "-" else int(found["spin"]),
            confidence=int(found["claim_confidence"]) / 10,
        )
    channel = NAMES[LETTERS.index(found["verb_channel"])]
    if found["verb"] == "k":
        return Action("calibrate", channel)
    return Action("fit" if found["verb"] == "f" else "angles", channel)


@lru_cache(maxsize=4096)  # copies of a group say the same again and again
def parse_compact(text: str, m0_gev: float) -> ParsedAction:
    """Read a completion: exactly one action is ok; one action among other words is repaired; anything else
    failed.

    >>> (parse_compact("rg4", 100.0).outcome, parse_compact("go: rg4", 100.0).outcome,
    ... parse_compact("rg", 100.0).reason)
    ('ok', 'repaired', 'no action found')
    """
    if len(text) > MAX_LENGTH:
        return failed(f"longer than {MAX_LENGTH} characters")
    whole = _ACTION.fullmatch(text)
    if whole is not None:
        return ParsedAction("ok", _build(whole, m0_gev), None)
    spots = {match.group(0) for match in _LONE.finditer(text)}
    if len(spots) > 1:
        return failed("more than one action")
    match = _ACTION.fullmatch(spots.pop()) if spots else None
    if match is None:
        return failed("no action found")
    return ParsedAction("repaired", _build(match, m0_gev), None)


MAX_JSON_LENGTH = 20_000
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


def _action_of(body: dict[str, Any]) -> Action:
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


def parse_json(text: str) -> ParsedAction:
    """Read a completion: one strict JSON object is ok; one inside prose or a fence is repaired; anything else
    failed.

    >>> parse_json('{"action_type":"scan"}').outcome, parse_json('I look: {"action_type":"scan"}').outcome
    ('ok', 'repaired')
    >>> parse_json("scan please").reason
    'no JSON object found'
    """
    if len(text) > MAX_JSON_LENGTH:
        return failed(f"longer than {MAX_JSON_LENGTH} characters")
    spots = _OBJECT.findall(text)
    if not spots:
        return failed("no JSON object found")
    if len(spots) > 1:
        return failed("more than one JSON object")
    if len(spots[0]) > MAX_OBJECT:
        return failed(f"an object longer than {MAX_OBJECT} characters")
    try:
        body = json.loads(spots[0], parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        action = _action_of(body)
    except json.JSONDecodeError as error:
        return failed(f"not JSON: {error.msg}")
    except ValueError as error:
        return failed(str(error)[:200])
    return ParsedAction("ok" if spots[0] == text.strip(" \t\r\n") else "repaired", action, None)
