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
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.\-])(?:[A-Z0-9]*?(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH|COOKIE)S?|PASS|PWD|PAT|DSN|SAS)"
    r"(?=$|[_.\-0-9])"
)
_NO_SECRETS = ("PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY")


class Hit(NamedTuple):
    """Where a text holds something: what it is, and from where to where in bytes."""

    kind: str
    start: int
    end: int


class Pattern(NamedTuple):
    """One kind of secret; a text without any of the literals, in any case, is not searched for the shape."""

    kind: str
    literals: str
    shape: re.Pattern[bytes]
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


def secret_name(name: str) -> bool:
    """Return whether a name says that its value is secret.

    >>> [secret_name(name) for name in ("HF_TOKEN", "MYAPIKEY", "AWS_SECRET_ACCESS_KEY")]
    [True, True, True]
    >>> [secret_name(name) for name in ("TOKENIZERS_PARALLELISM", "GIT_AUTHOR_NAME", "KEYBOARD")]
    [False, False, False]
    """
    return name not in _NO_SECRETS and _SECRET_NAME.search(name) is not None


def _is_value(match: re.Match[bytes]) -> bool:
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


def _is_filled(match: re.Match[bytes]) -> bool:
    return not _PLACEHOLDERS.match(match["secret"])


_ASSIGNED = (
    "password passwd passphrase pwd secret token api_key apikey api-key access_key accesskey access-key"
    " secret_key secretkey secret-key private_key auth_key account_key accountkey credential credentials"
)
# What may stand between a name and its value, also inside a JSON string: quotes, their backslashes, colon or
# equals sign.
_TO_VALUE = r"(?:\\{0,3}[\"'])?[ \t]{0,8}(?:=>|:=|[:=])[ \t]{0,8}(?P<quote>\\{0,3}[\"'])?"
_GAP = r"(?:\s|\\[nrt]){1,16}"
_WORD = r"[^\s\\]{1,256}"

# Of 28 kinds of examples (tests/packaging/canaries.py) the 27 detectors of detect-secrets 1.5 know 9.
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("Hugging Face token", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{30,64}"),
    ("OpenAI or Anthropic key", "sk-", r"(?<![A-Za-z0-9-])sk-[A-Za-z0-9_-]{20,256}"),
    ("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,255}"),
    ("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,255}"),
    ("GitLab token", "glpat- glptt- gldt- glrt- glcbt- glft-", r"gl(?:pat|ptt|dt|rt|cbt|ft)-[\w-]{20,64}"),
    ("AWS access key id", "akia asia", r"(?<![A-Za-z0-9])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("Google API key", "aiza", r"AIza[A-Za-z0-9_-]{35}"),
    ("Google OAuth secret", "gocspx- ya29.", r"(?:GOCSPX-|ya29\.)[A-Za-z0-9_-]{20,512}"),
    ("Slack token", "xox xapp-", r"x(?:ox[a-z]|app)-[A-Za-z0-9-]{10,255}"),
    ("Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,128}"),
    ("Stripe key", "_live_ _test_ whsec_", r"(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,255}"),
    ("npm token", "npm_", r"npm_[A-Za-z0-9]{30,64}"),
    ("PyPI token", "pypi-", r"pypi-[A-Za-z0-9_-]{32,1024}"),
    ("SendGrid key", "sg.", r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}"),
    ("Databricks token", "dapi", r"(?<![A-Za-z0-9])dapi[0-9a-f]{32}(?![0-9a-f])"),
    ("DigitalOcean token", "dop_v1_ doo_v1_", r"do[op]_v1_[0-9a-f]{64}"),
    ("model provider key", "gsk_ lsv2_", r"(?:gsk_|lsv2_(?:pt|sk)_)[A-Za-z0-9_]{30,128}"),
    ("model provider key", "xai- pplx- r8_", r"(?:xai-|pplx-|r8_)[A-Za-z0-9_]{30,128}"),
    ("age secret key", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{50,64}"),
    (
        "JSON web token",
        "eyj",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{0,2048}",
    ),
    (
        "private key",
        "-----begin ",
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----[^-]{0,8192}"
        r"(?:-----END [A-Z0-9 ]{1,40}-----)?",
    ),
    ("token in a URL", "://", r"://(?P<secret>[A-Za-z0-9_.~-]{20,256})@[A-Za-z0-9\[]"),
    ("bearer token", "bearer ", r"(?i)bearer {1,8}(?P<secret>(?=[a-z._~+/-]{0,256}\d)[\w.~+/=-]{20,4096})"),
    (
        "Kaggle key",
        '"username"',
        r'"username"\s{0,8}:\s{0,8}"[^"]{0,128}"\s{0,8},\s{0,8}"key"\s{0,8}:\s{0,8}"(?P<secret>[0-9a-f]{32})"',
    ),
    # No name of a site in front: https://host/home/page is no home folder.
    (
        "path of a home folder",
        "/home/ /users/ /root/",
        r"(?:(?<=file://)|(?<![A-Za-z0-9_.~/%-]))(?:/(?i:home|Users)/[A-Za-z0-9][\w.@-]{0,64}"
        r"(?![^/\\\"'\s:,;)\]&<])|/root/(?=[\w.]))",
    ),
    (
        "path of a home folder",
        ":\\users\\ :\\\\users\\\\ :/users/",
        r"(?i):(?:/|\\{1,2})Users(?:/|\\{1,2})[A-Za-z0-9][\w.@ -]{0,64}",
    ),
)
_FILLED: tuple[tuple[str, str, str], ...] = (
    ("login in a URL", "://", r"://[^\s/:@\"'<>\\]{0,128}:(?P<secret>[^\s/@\"'<>\\]{1,256})@[A-Za-z0-9\[]"),
    (
        "Authorization header",
        "authorization",
        rf"(?i)authorization{_TO_VALUE}(?:bearer|basic|token|digest)[ ]{{1,4}}"
        r"(?P<secret>[\w+/=.~-]{8,4096})",
    ),
    (
        "netrc password",
        "machine default",
        rf"(?i)(?:machine{_GAP}{_WORD}|default)(?:{_GAP}(?:login|account|user){_GAP}{_WORD}){{0,2}}"
        rf"{_GAP}password{_GAP}(?P<secret>{_WORD})",
    ),
)
# Printable, but for what ends a value, or a letter of UTF-8: random weights are no text.
_LETTER = r"(?:[!#-%(-+\--:=?-\[\]-_a-~]|[\xc2-\xf4][\x80-\xbf]{1,3})"
_VALUE = rf"{_TO_VALUE}(?P<secret>{_LETTER}{{6,512}})"
PATTERNS: tuple[Pattern, ...] = (
    *(Pattern(kind, literals, re.compile(shape.encode())) for kind, literals, shape in _SHAPES),
    *(Pattern(kind, literals, re.compile(shape.encode()), _is_filled) for kind, literals, shape in _FILLED),
    # Each name by itself: what is no value of one may hold another, as in token=your_api_key=...
    *(
        Pattern(
            "value of a secret's name", name, re.compile(rf"(?i)(?P<name>{name}){_VALUE}".encode()), _is_value
        )
        for name in _ASSIGNED.split()
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
    for kind, literals, shape, plausible in PATTERNS:
        if not any(literal.encode() in low for literal in literals.split()):
            continue
        group = "secret" if "secret" in shape.groupindex else 0
        for match in shape.finditer(text):
            if plausible(match):
                yield Hit(kind, *match.span(group))
