"""The compact surface: every value is one token, so that a tiny model trained from scratch can speak it."""

from __future__ import annotations

import re
from functools import lru_cache

from assay.tasks.collider.actions import Action, Parsed, failed
from assay.tasks.collider.world.physics import BUDGET_BLOCKS, LETTERS, N_BINS, NAMES, bin_at, centre_gev

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
    rf"|(?P<claim>y(?P<claim_channel>[{LETTERS}])b(?P<bin>[0-5]\d|6[0-3])(?P<spin>[012-])c(?P<claim_confidence>\d))"
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
def parse_compact(text: str, m0_gev: float) -> Parsed:
    """Read a completion: exactly one action is ok; one action among other words is repaired; anything else
    failed.

    >>> parse_compact("rg4", 100.0).outcome, parse_compact("go: rg4", 100.0).outcome, parse_compact("rg", 100.0).reason
    ('ok', 'repaired', 'no action found')
    """
    if len(text) > MAX_LENGTH:
        return failed(f"longer than {MAX_LENGTH} characters")
    whole = _ACTION.fullmatch(text)
    if whole is not None:
        return Parsed("ok", _build(whole, m0_gev), None)
    spots = {match.group(0) for match in _LONE.finditer(text)}
    if len(spots) > 1:
        return failed("more than one action")
    match = _ACTION.fullmatch(spots.pop()) if spots else None
    if match is None:
        return failed("no action found")
    return Parsed("repaired", _build(match, m0_gev), None)
