"""What tokens and passwords look like: a literal that is cheap to look for, and the shape that makes it one.

Every shape is bounded, so that no text, however hostile, makes the search slow. Prefixes are those the
providers document.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

_PLACEHOLDERS = re.compile(
    rb"(?i)(?:\$|%\(|%s|\{|<|\[|\*{3}|x{3}|\.{3}|\xe2\x80\xa6|your|change_?me|example|redacted|none\b|null\b|true\b|false\b|os\.environ|getenv)"
)
_CODE = re.compile(rb"[()\[\]{}]")
_NAME = re.compile(rb"[A-Za-z_]\w*(?:[.\-/][A-Za-z_]\w*)*[.,;:]?")  # a variable, an attribute, a path


class Hit(NamedTuple):
    """Where a text holds something: what it is, and from where to where in bytes."""

    kind: str
    start: int
    end: int


class Pattern(NamedTuple):
    """One kind of secret: literals to find first (folded: in any case), then the shape that has to begin
    there."""

    kind: str
    literals: tuple[bytes, ...]
    shape: re.Pattern[bytes]
    folded: bool = False
    plausible: Callable[[re.Match[bytes]], bool] = lambda match: True


def entropy(text: bytes) -> float:
    """Return the Shannon entropy of a text's own bytes, in bits per byte.

    >>> entropy(b"aaaa"), entropy(b"abab")
    (0.0, 1.0)
    """
    total = len(text)
    return abs(sum(n / total * math.log2(n / total) for n in Counter(text).values())) if total else 0.0


def looks_random(value: bytes) -> bool:
    """Return whether a value is more likely drawn at random than written: long, of several kinds of
    characters, uneven."""
    letters, digits = any(chr(c).isalpha() for c in value), any(48 <= c <= 57 for c in value)
    mixed = value != value.lower() and value != value.upper()
    return len(value) >= 12 and letters and (digits or (mixed and len(value) >= 20)) and entropy(value) >= 3.0


def _assigned(match: re.Match[bytes]) -> bool:
    """Return whether what stands behind `password=` or `token:` is a value and not code, prose or a gap to
    fill."""
    value, password = match["secret"], match["name"].lower()[:4] in (b"pass", b"pwd")
    if _PLACEHOLDERS.match(value) or _CODE.search(value):
        return False
    if looks_random(value) and not (match["quote"] is None and re.fullmatch(rb"[a-z_.\-/]*\d{0,3}", value)):
        return True
    if not password or len(value) < 6:
        return False
    kinds = sum(bool(re.search(kind, value)) for kind in (rb"[a-z]", rb"[A-Z]", rb"\d", rb"[^A-Za-z0-9]"))
    if match["quote"] is not None:
        return not re.match(rb"(?i)(?:string|text|integer|password)", value)  # a schema's type
    return kinds >= 2 and (not _NAME.fullmatch(value) or bool(re.search(rb"\d", value)))


def _filled(match: re.Match[bytes]) -> bool:
    return not _PLACEHOLDERS.match(match["secret"])


def _of(kind: str, literals: str, shape: str) -> Pattern:
    return Pattern(kind, tuple(each.encode() for each in literals.split()), re.compile(shape.encode()))


_ASSIGNED = (
    "password passwd passphrase pwd secret token api_key apikey api-key access_key accesskey access-key"
    " secret_key secretkey secret-key private_key auth_key account_key accountkey credential credentials"
)
# What may stand between a name and its value, also inside a JSON string: quotes, their backslashes, colon or
# equals sign.
_TO_VALUE = rb"(?:\\{0,3}[\"'])?[ \t]{0,8}(?:=>|:=|[:=])[ \t]{0,8}(?P<quote>\\{0,3}[\"'])?"
_GAP = rb"(?:\s|\\[nrt]){1,16}"

PATTERNS: tuple[Pattern, ...] = (
    _of("Hugging Face token", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{30,64}"),
    _of("OpenAI or Anthropic key", "sk-", r"(?<![A-Za-z0-9-])sk-[A-Za-z0-9_-]{20,256}"),
    _of("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,255}"),
    _of("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,255}"),
    _of(
        "GitLab token",
        "glpat- glptt- gldt- glrt- glcbt- glft-",
        r"gl(?:pat|ptt|dt|rt|cbt|ft)-[A-Za-z0-9_-]{20,64}",
    ),
    _of("AWS access key id", "AKIA ASIA", r"(?<![A-Za-z0-9])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _of("Google API key", "AIza", r"AIza[A-Za-z0-9_-]{35}"),
    _of("Google OAuth secret", "GOCSPX- ya29.", r"(?:GOCSPX-|ya29\.)[A-Za-z0-9_-]{20,512}"),
    _of(
        "Slack token",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-",
        r"x(?:ox[a-z]|app)-[A-Za-z0-9-]{10,255}",
    ),
    _of("Slack webhook", "hooks.slack.com/services/", r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,128}"),
    _of(
        "Stripe key",
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
        r"(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,255}",
    ),
    _of("npm token", "npm_", r"npm_[A-Za-z0-9]{30,64}"),
    _of("PyPI token", "pypi-", r"pypi-[A-Za-z0-9_-]{32,1024}"),
    _of("SendGrid key", "SG.", r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}"),
    _of("Databricks token", "dapi", r"(?<![A-Za-z0-9])dapi[0-9a-f]{32}(?![0-9a-f])"),
    _of("DigitalOcean token", "dop_v1_ doo_v1_", r"do[op]_v1_[0-9a-f]{64}"),
    _of(
        "model provider key",
        "gsk_ xai- pplx- r8_ lsv2_",
        r"(?:gsk_|xai-|pplx-|r8_|lsv2_(?:pt|sk)_)[A-Za-z0-9_]{30,128}",
    ),
    _of("age secret key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{50,64}"),
    _of(
        "JSON web token",
        "eyJ",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{0,2048}",
    ),
    _of(
        "private key",
        "-----BEGIN ",
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----[^-]{0,8192}(?:-----END [A-Z0-9"
        r" ]{1,40}-----)?",
    ),
    Pattern(
        "login in a URL",
        (b"://",),
        re.compile(rb"://[^\s/:@\"'<>\\]{0,128}:(?P<secret>[^\s/@\"'<>\\]{1,256})@[A-Za-z0-9\[]"),
        plausible=_filled,
    ),
    _of("token in a URL", "://", r"://(?P<secret>[A-Za-z0-9_.~-]{20,256})@[A-Za-z0-9\[]"),
    Pattern(
        "Authorization header",
        (b"authorization",),
        re.compile(
            rb"(?i)authorization"
            + _TO_VALUE
            + rb"(?:bearer|basic|token|digest)[ ]{1,4}(?P<secret>[A-Za-z0-9+/=._~-]{8,4096})"
        ),
        folded=True,
        plausible=_filled,
    ),
    Pattern(
        "bearer token",
        (b"bearer ",),
        re.compile(rb"(?i)bearer {1,8}(?P<secret>(?=[A-Za-z._~+/-]{0,256}\d)[A-Za-z0-9._~+/=-]{20,4096})"),
        folded=True,
    ),
    Pattern(
        "netrc password",
        (b"machine", b"default"),
        re.compile(
            rb"(?i)(?:machine"
            + _GAP
            + rb"[^\s\\]{1,256}|default)(?:"
            + _GAP
            + rb"(?:login|account|user)"
            + _GAP
            + rb"[^\s\\]{1,256}){0,2}"
            + _GAP
            + rb"password"
            + _GAP
            + rb"(?P<secret>[^\s\\]{1,256})"
        ),
        folded=True,
        plausible=_filled,
    ),
    Pattern(
        "Kaggle key",
        (b'"username"',),
        re.compile(
            rb'"username"\s{0,8}:\s{0,8}"[^"]{0,128}"\s{0,8},\s{0,8}"key"\s{0,8}:\s{0,8}"(?P<secret>[0-9a-f]{32})"'
        ),
    ),
    Pattern(
        "value of a secret's name",
        tuple(each.encode() for each in _ASSIGNED.split()),
        re.compile(
            rb"(?i)(?P<name>"
            + "|".join(sorted(_ASSIGNED.split(), key=len, reverse=True)).encode()
            + rb")"
            + _TO_VALUE
            + rb"(?P<secret>[^\s\"'`,;&<>\\]{6,512})"
        ),
        folded=True,
        plausible=_assigned,
    ),
    # No name of a site in front: https://host/home/page is no home folder.
    Pattern(
        "path of a home folder",
        (b"/home/", b"/users/", b"/root/"),
        re.compile(
            rb"(?:(?<=file://)|(?<![A-Za-z0-9_.~/%-]))(?:/(?i:home|Users)/[A-Za-z0-9][\w.@-]{0,64}(?![^/\\\"'\s:,;)\]&<])"
            rb"|/root/(?=[\w.]))"
        ),
        folded=True,
    ),
    Pattern(
        "path of a home folder",
        (b":\\users\\", b":\\\\users\\\\", b":/users/"),
        re.compile(rb"(?i):(?:/|\\{1,2})Users(?:/|\\{1,2})[A-Za-z0-9][\w.@ -]{0,64}"),
        folded=True,
    ),
)


def tokens(text: bytes) -> Iterator[Hit]:
    """Yield everything in a text that has the shape of a secret, kind by kind; positions are those of the
    secret itself.

    >>> text = b"see " + b"hf" + b"_" + b"A1b2" * 9
    >>> [(hit.kind, hit.start) for hit in tokens(text)]
    [('Hugging Face token', 4)]
    """
    low = text.lower()
    for pattern in PATTERNS:
        hay, group = low if pattern.folded else text, "secret" if "secret" in pattern.shape.groupindex else 0
        for literal in pattern.literals:
            at = hay.find(literal)
            while at >= 0:
                match = pattern.shape.match(text, at)
                if match and pattern.plausible(match):
                    yield Hit(pattern.kind, *match.span(group))
                at = hay.find(literal, match.end() if match else at + 1)
