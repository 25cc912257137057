"""What tells a secret by what stands around it, whoever issued it: a name, an option, a header, an address.

Tokens that have a shape of their own are known by the detectors of others (`detectors.py`). A shape here
begins at a literal that is cheap to look for, and is bounded, so that no text, however hostile, makes the
search slow.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from assay.package.secrets.detectors import provider_tokens
from assay.package.secrets.values import Hit, entropy, is_drawn, is_example, is_gap, looks_random

_CODE = re.compile(rb"[()\[\]{}]")
_NAME = re.compile(rb"[A-Za-z_]\w*(?:[.\-/][A-Za-z_]\w*)*[.,;:]?")  # a variable, an attribute, a path
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.\-])"
    r"(?:[A-Z0-9]*?(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH|COOKIE)S?|PASS|PWD|PAT|DSN|SAS)"
    r"(?=$|[_.\-0-9])"
)
_NO_SECRETS = ("PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY")
_AHEAD, _AROUND = 1 << 14, 256  # bytes behind a literal in which a shape ends; of one that begins before it


class Pattern(NamedTuple):
    """One kind of secret: it holds one of some literals, in any case.

    Args:
        kind: What it is called.
        literals: In small letters.
        shape: What is a secret; its group `secret`, or all of it.
        plausible: Whether what has the shape is one.
        before: Bytes before a literal at which the shape may begin; 0: it begins with the literal.
    """

    kind: str
    literals: tuple[bytes, ...]
    shape: re.Pattern[bytes]
    plausible: Callable[[re.Match[bytes]], bool]
    before: int = 0


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
    value, password = match["secret"], match["name"].lower()[:4] in (b"pass", b"pwd", b"psk", b"bind")
    if is_gap(value) or is_example(value) or _CODE.search(value):
        return False
    if looks_random(value) and not (match["quote"] is None and re.fullmatch(rb"[a-z_.\-/]*\d{0,3}", value)):
        return True
    if not password or len(value) < 6:
        return False
    if match["quote"] is not None:
        return not re.match(rb"(?i)(?:string|text|integer|password)", value)  # a schema's type
    return _several_kinds(value) and (not _NAME.fullmatch(value) or bool(re.search(rb"\d", value)))


def _several_kinds(value: bytes) -> bool:
    kinds = (rb"[a-z]", rb"[A-Z]", rb"\d", rb"[^A-Za-z0-9]")
    return sum(bool(re.search(kind, value)) for kind in kinds) >= 2


def _is_filled(match: re.Match[bytes]) -> bool:
    return not is_gap(match["secret"]) and not is_example(match["secret"])


def _is_random(match: re.Match[bytes]) -> bool:
    return _is_filled(match) and looks_random(match["secret"])


def _is_password(match: re.Match[bytes]) -> bool:
    """Return whether a word that is told to be a password is one: not a word of a sentence or a path."""
    value = match["secret"]
    return (
        _is_filled(match)
        and len(value) >= 6
        and _several_kinds(value)
        and not _CODE.search(value)
        and (bool(re.search(rb"\d", value)) and not re.match(rb"[./~-]", value))
    )


def _is_said(match: re.Match[bytes]) -> bool:
    """Return whether what a sentence says behind `the password is` or `my API key` is no word of it."""
    value = match["secret"].rstrip(b".!?):")
    if not _is_password(match) or is_drawn(value):
        return _is_password(match)
    if match["name"].lower() in (b"key", b"token"):
        return re.fullmatch(rb"[A-Za-z0-9_-]{24,}", value) is not None and looks_random(value)
    name = match["name"].lower()
    named = name.startswith((b"pass", b"ident", b"secures")) and (match["verb"] or match["quote"]) is not None
    return named and re.search(rb"[A-Z].*[a-z]|[a-z].*[A-Z]|[^\w.:/-]", value) is not None


def _is_login(value: bytes) -> bool:
    """Return whether base64 holds a name, a colon and a password."""
    try:
        plain = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False
    return re.fullmatch(rb"[!-9;-~]{1,64}:[ -~]{4,}", plain) is not None and not is_example(
        plain.partition(b":")[2]
    )


def _always(match: re.Match[bytes]) -> bool:
    return True


def _is_of_a_person(match: re.Match[bytes]) -> bool:
    """Return whether a home folder is somebody's: not that of an example, nor one that images come with."""
    return match["user"].lower() not in _ANYBODY


def _is_of_somebody(match: re.Match[bytes]) -> bool:
    """Return whether an address is somebody's: names that are kept for examples reach nobody (RFC 2606)."""
    name, domain = match["user"].lower(), match["domain"].lower()
    kept = re.search(rb"(?:^|\.)(?:example(?:\.(?:com|net|org))?|test|invalid|localhost)$", domain)
    if kept or name in (b"git", b"noreply", b"no-reply"):
        return False
    text, start, end = match.string, *match.span()  # what is compressed has such a shape now and then
    return _is_text(text[max(0, start - _BESIDE) : start]) or _is_text(text[end : end + _BESIDE])


def _is_text(piece: bytes) -> bool:
    """Return whether bytes are text in UTF-8, but for a character that is cut at either end.

    >>> _is_text("é, mail".encode()[1:]), _is_text(b"\\x00\\x93k")
    (True, False)
    """
    inner = piece.lstrip(_CONTINUED)
    try:
        text = inner.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return False
        text = inner[: error.start].decode()
    return all(letter.isprintable() or letter in "\t\n\r" for letter in text)


_BESIDE, _CONTINUED = 12, bytes(range(0x80, 0xC0))


_ANYBODY = frozenset(
    b"alice bob carol carlos dave erin eve frank grace heidi ivan judy mallory oscar peggy trent victor"
    b" walter user username users you me name yourname foo bar john jane johndoe janedoe public shared"
    b" default".split()
)
_ASSIGNED = (
    "password passwd passphrase passwort pwd psk bindpw pass secret token api_key apikey api-key"
    " access_key accesskey access-key secret_key secretkey secret-key secret_key_base private_key"
    " privatekey private-key private_key_id presharedkey auth_key authkey account_key accountkey"
    " app_key master_key encryption_key signing_key license_key deploy_key storage_key shared_key"
    " client_key client-key-data credential credentials _auth authtoken auth_token sessionid"
    " session_id session_key webhook_key service_key subscription_key subscription-key x-auth"
    " connect.sid"
)
_STEMS = (b"pass", b"secret", b"token", b"key", b"auth", b"cred", b"session")  # most texts lack most of them
# What may stand between a name and its value, also inside a JSON string: quotes, their backslashes, colon or
# equals sign; the end of a tag; the value of an entry that the name is the name of.
_TO_VALUE = (
    r"(?:(?:\\{0,3}[\"'])?[ \t]{0,8}(?:=>|:=|[:=])[ \t]{0,8}(?P<quote>\\{0,3}[\"'])?"
    r"|(?:\\{0,3}[\"'][ \t]{1,4}value[ \t]?=[ \t]?(?P<entry>\\{0,3}[\"'])|>(?P<tag>)))"
)
_GAP = r"(?:\s|\\[nrt]){1,16}"
_WORD = r"[^\s\\]{1,256}"
# Printable, but for what ends a value, or a letter of UTF-8: random weights are no text.
_LETTER = r"(?:[!#-%(-+\--:=?-\[\]-_a-~]|[\xc2-\xf4][\x80-\xbf]{1,3})"
_VALUE = rf"(?:base64:)?(?P<secret>{_LETTER}{{6,512}})"
_VERB = r"(?P<verb>[ \t]{1,4}(?:is|was|ist|to|as|with|for|of|by):?)?(?:[ \t]{1,4}[a-z-]{1,10}:?)?"
_SOME = r"(?P<secret>[^\s\"'<>\\,;|&]{6,256})"
_LONG = r"(?P<secret>[A-Za-z0-9+/_.~%=-]{16,4096})"


def _named(
    kind: str, literals: str, shape: str, plausible: Callable[[re.Match[bytes]], bool], before: int = 0
) -> Pattern:
    return Pattern(
        kind, tuple(each.encode() for each in literals.split()), re.compile(shape.encode()), plausible, before
    )


PATTERNS: tuple[Pattern, ...] = (
    # Each name by itself: what is no value of one may hold another, as in token=your_api_key=...
    *(
        _named(
            "value of a secret's name",
            name,
            rf"(?i)(?P<name>{re.escape(name)}){_TO_VALUE}{_VALUE}",
            _is_value,
        )
        for name in _ASSIGNED.split()
    ),
    # Its rule at hand asks for the secret key beside it.
    _named(
        "AWS access key id",
        "akia asia",
        r"(?<![A-Za-z0-9])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])",
        lambda match: not is_example(match[0]),
    ),
    _named(
        "private key",
        "-----begin",
        r"-----BEGIN (?:[A-Za-z0-9]{1,12} ){0,3}(?:PRIVATE KEY(?: BLOCK)?|Static key V\d)-----[^-]{0,8192}"
        r"(?:-----END [A-Za-z0-9 ]{1,40}-----)?",
        _always,
    ),
    _named(
        "private key",
        "private-lines:",
        r"(?i)private-lines: ?\d{1,4}(?:\s|\\[nr]){1,4}(?P<secret>[A-Za-z0-9+/=]{16,})",
        _always,
    ),
    _named(
        "login in a URL",
        "://",
        r"://[^\s/:@\"'<>\\]{0,128}:(?P<secret>[^\s/@\"'<>\\]{1,256})@[A-Za-z0-9\[]",
        _is_filled,
    ),
    _named("token in a URL", "://", r"://(?P<secret>[A-Za-z0-9_.~-]{20,256})@[A-Za-z0-9\[]", _is_filled),
    _named(
        "token in a URL",
        "sig= signature= key= token= code= auth= secret= password=",
        rf"(?i)(?<=[?&;])(?:[a-z-]{{1,16}}"
        rf"[-_])?(?:sig|signature|key|token|code|auth|secret|password)={_LONG}",
        _is_random,
        before=18,
    ),
    _named(
        "Authorization header",
        "authorization",
        rf"(?i)authorization{_TO_VALUE}(?:[a-z-]{{1,20}}[ ]{{1,4}})?(?P<secret>[\w+/=.~-]{{8,4096}})",
        _is_random,
    ),
    _named(
        "bearer token",
        "bearer",
        r"(?i)bearer {1,8}(?P<secret>(?=[a-z._~+/-]{0,256}\d)[\w.~+/=-]{20,4096})",
        _is_filled,
    ),
    _named(
        "cookie",
        "cookie:",
        r"(?i)cookie:(?:[ \t]{0,4}[\w.-]{1,64}=[^;\s]{0,256};){0,8}?[ \t]{0,4}[\w.-]{1,64}="
        r"(?P<secret>(?=[A-Za-z._~%-]{0,64}\d)[\w.~%+/=-]{16,1024})",
        _is_random,
    ),
    _named(
        "netrc password",
        "machine default",
        rf"(?i)(?:machine{_GAP}{_WORD}|default)(?:{_GAP}(?:login|account|user){_GAP}{_WORD}){{0,2}}"
        rf"{_GAP}password{_GAP}(?P<secret>{_WORD})",
        _is_filled,
    ),
    _named(
        "password on a command line",
        "pass passwd password passphrase token secret apikey api-key pwd",
        r"(?i)(?<![\w/])[-/]{1,2}"
        r"(?:[a-z]{1,16}-?)?(?:pass|passwd|password|passphrase|token|secret|api-?key|pwd)"
        r"(?:[ =]|:(?!\w{1,12}=))[\"']?"
        rf"(?:pass:)?{_SOME}",
        _is_password,
        before=20,
    ),
    _named(
        "password on a command line",
        "lftp ssh-keygen",
        rf""
        rf"(?:lftp\b[^\n|;&]{{0,80}}? -u ?[\w.@-]{{1,64}},"
        rf"|ssh-keygen\b[^\n|;&]{{0,80}}? -[NP] ?[\"']?){_SOME}",
        _is_filled,
    ),
    _named(
        "password on a command line",
        "sshpass mysql mariadb mongo redis-cli docker podman helm psql sqlcmd ldapsearch ldapmodify smbclient"
        " htpasswd zip 7z unzip mosquitto_ kinit snmp ftp impala beeline clickhouse-client influx",
        rf"[\w.-]{{2,24}}[^\n|;&]{{0,160}}? -(?:p|a|P|w|U [^\s]{{1,32}}%) ?[\"']?{_SOME}",
        _is_password,
    ),
    _named(
        "password on a command line",
        "curl http wget",
        r"(?:curl|https?|wget)"
        r"\b[^\n|;&]{0,160}? (?:-u|--user|--proxy-user|-U|-a) ?"
        r"[\"']?[\w.@+-]{0,64}:(?P<secret>[^\s\"'<>\\]{6,256})",
        _is_filled,
    ),
    _named(
        "said to be a secret",
        "password passphrase passwort token key secret login credential securestring identified",
        rf"(?i)"
        rf"(?P<name>password|passphrase|passwort|token|key|securestring|secret|login|credentials?|identified){_VERB}"
        r"[ \t]{1,4}(?P<quote>[`\"'])?(?P<secret>[^\s\"'`<>\\,;]{8,256})",
        _is_said,
    ),
    _named(
        "password in a call",
        "login( auth( auth=( authenticate( connect( credentials( basicauth(",
        r"(?i)\w{4,16}=?\((?:[^()\n]{0,120}[,=][ ]?)?[\"'](?P<secret>[^\"'\s]{6,256})[\"'][,)]",
        _is_password,
    ),
    _named(
        "address of a webhook",
        "webhook hooks.",
        r"(?i)(?:webhooks?|hooks\.)[^\s\"'<>]{0,160}/(?P<secret>(?=[A-Za-z_-]{0,32}\d)[A-Za-z0-9_-]{20,128})",
        _is_random,
    ),
    _named(
        "login of a header",
        "basic ",
        r"(?i)basic (?P<secret>[A-Za-z0-9+/]{10,1024}={0,2})",
        lambda match: _is_login(match["secret"]),
    ),
    _named(
        "password of a database",
        ":5432: :3306: :27017: :1521:",
        r":\d{4,5}:[\w*.-]{1,64}:[\w*.-]{1,64}:(?P<secret>[^\s:]{6,256})",
        _is_filled,
    ),
    _named(
        "said to be a secret",
        "login",
        r"(?i)login[ \t]{1,4}(?:--\S{1,16}[ \t])?(?P<secret>[0-9a-zA-Z_-]{24,256})",
        _is_random,
    ),
    _named(
        "seed phrase",
        "mnemonic phrase",
        r"(?i)(?:mnemonic|(?:seed|recovery|backup|secret) phrase)\W{1,5}(?P<secret>(?:[a-z]{3,8}"
        r"[ ,]{1,2}){11,23}[a-z]{3,8})",
        _always,
        before=16,
    ),
    _named(
        "hash of a password",
        "$",
        r""
        r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2\w{1,2}|scrypt|pbkdf2[\w-]{0,10}|P|H|bcrypt-sha256)\$[./A-Za-z0-9$=,+]{20,256}",
        lambda match: looks_random(match[0]),
    ),
    _named(
        "hash of a password",
        "{",
        r"(?i)\{(?:SSHA|SHA|SMD5|CRYPT|PBKDF2)\d{0,3}\}(?P<secret>[./A-Za-z0-9$=+]{12,256})",
        _is_random,
    ),
    _named(
        "hash of a password",
        ":::",
        r"(?i):[0-9]{1,10}:(?P<secret>[0-9a-f]{32}:[0-9a-f]{32}):::",
        _always,
        before=80,
    ),
    _named(
        "login of a registry",
        '"auth"',
        r"\"auth\"\s{0,8}:\s{0,8}\"(?P<secret>[A-Za-z0-9+/]{12,1024}={0,2})\"",
        _is_filled,
    ),
    _named(
        "Kaggle key",
        '"username"',
        r'"username"\s{0,8}:\s{0,8}"[^"]{0,128}"\s{0,8},\s{0,8}"key"\s{0,8}:\s{0,8}"(?P<secret>[0-9a-f]{32})"',
        _always,
    ),
    # No name of a site in front: https://host/home/page is no home folder.
    _named(
        "path of a home folder",
        "/home/ /users/",
        r"(?:(?<=file://)|(?<![A-Za-z0-9_.~/%-]))/(?i:home|Users)/(?P<user>[A-Za-z0-9][\w.@-]{0,64})"
        r"(?![^/\\\"'\s:,;)\]&<])",
        _is_of_a_person,
    ),
    _named(
        "path of a home folder", "/root/", r"(?:(?<=file://)|(?<![A-Za-z0-9_.~/%-]))/root/(?=[\w.])", _always
    ),
    _named(
        "path of a home folder",
        ":\\users\\ :\\\\users\\\\ :/users/",
        r"(?i):(?:/|\\{1,2})Users(?:/|\\{1,2})(?P<user>[A-Za-z0-9][\w.@ -]{0,64})",
        _is_of_a_person,
    ),
    _named(
        "e-mail address",
        "@",
        r"(?<![\w.+%/:=-])(?P<user>[A-Za-z0-9][\w.+-]{1,63})@(?P<domain>(?:[A-Za-z0-9-]{1,63}"
        r"\.){1,8}[A-Za-z]{2,24})(?![\w@(-])",
        _is_of_somebody,
        before=65,
    ),
    _named(
        "private host",
        ".internal .corp .lan .intranet .local .priv .cluster",
        r"(?i)"
        r"(?:(?<=://)|(?<=@)|(?<=ssh )|(?<=host )|(?<=host=)|(?<=host: )|(?<=scp )"
        r"|(?<![\w.@/-])(?=[\w.]{0,40}-\w{1,20}))"
        r"[a-z0-9][a-z0-9.-]{1,80}\.(?:internal|corp|lan|intranet|local|priv|cluster)"
        r"(?:\.[a-z0-9-]{2,20}){0,2}(?![\w(.-])",
        _always,
        before=100,
    ),
    _named(
        "private address",
        "10. 192.168. 172.1 172.2 172.3",
        r"(?:(?<=://)|(?<=@)|(?<=host=)|(?<=[ \t\"'(\[]))"
        r"(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d{1,3}\.\d{1,3}(?=[:/])",
        _always,
    ),
)


_RUN = re.compile(rb"(?<![A-Za-z0-9])[A-Za-z0-9]{32,64}(?![A-Za-z0-9])")
# A name, a sign, and a long rest.
_PREFIXED = re.compile(
    rb"(?<![\w.+/%-])(?P<prefix>(?:[a-z]{1,12}|[A-Z]{1,12})\d{0,2}[_.-])(?P<rest>[A-Za-z0-9_.-]{18,400})(?![\w+/=%])"
)
# Digests, and the names of answers, calls and runs that servers give: drawn too, and no secrets.
_IDS = re.compile(
    rb"(?i)(?:(?:sha|md|blake|crc)\d|(?:chatcmpl|cmpl|call|msg|message|toolu|tool|resp|response|run|req|request|thread|asst"
    rb"|file|org|proj|batch|step|gen|item|task|event|evt|trace|span|job|id|uuid|cid|conv|fc|rs|ws|ftjob|model|ckpt"
    rb"|checkpoint|version|commit|etag|hash|digest|seed)[_.-])"
)
_SAID_TO_BE_A_DIGEST = re.compile(
    rb"(?i)(?:digest|hash|sum|sha\d{1,3}|md5|integrity|fingerprint|etag|cid|commit|_id|\bid)\W{0,6}$"
)
_ONE_CASE = re.compile(rb"(?=(?:[A-Z]*\d){4})[A-Z0-9]{24,128}")


def drawn_words(text: bytes) -> Iterator[Hit]:
    """Yield what is made like a token of any provider: a short name, a sign, and much that was drawn; or more
    that was drawn, alone.

    >>> [hit.kind for hit in drawn_words(b"see zq" + b"w" + b"_" + b"a8Xk02QpZr7LmN4tYv1C")]
    ['token with a prefix']
    """
    for word in _PREFIXED.finditer(text):
        # Dots stand between names; of those only one counts by itself.
        rest = max((re.sub(rb"[_-]", b"", part) for part in word["rest"].split(b".")), key=len)
        told = is_drawn(rest) or (_ONE_CASE.fullmatch(rest) and entropy(rest) >= 3.5)
        if told and not _IDS.match(word[0]) and not is_example(word[0]):
            yield Hit("token with a prefix", *word.span())
    for run in _RUN.finditer(text):
        before, behind = text[max(0, run.start() - 24) : run.start()], text[run.end() : run.end() + 1]
        alone = not re.search(rb"[\w+/=.%-]$", before) and not re.match(rb"[\w+/=.%-]", behind)
        if alone and is_drawn(run[0]) and entropy(run[0]) >= 4.2 and not _SAID_TO_BE_A_DIGEST.search(before):
            yield Hit("long word drawn at random", *run.span())


def tokens(text: bytes) -> Iterator[Hit]:
    """Yield everything in a text that looks like a secret, kind by kind; positions are those of the secret
    itself.

    >>> text = b"see " + b"hf" + b"_" + b"qWmZbXkTrLpVnYcGdHsJfQaRzKwMxBtNvP"
    >>> {(hit.kind, hit.start) for hit in tokens(text)}
    {('huggingface-access-token', 4)}
    """
    yield from provider_tokens(text)
    yield from drawn_words(text)
    low = text.lower()
    absent = tuple(stem for stem in _STEMS if stem not in low)
    for pattern in PATTERNS:
        group = "secret" if "secret" in pattern.shape.groupindex else 0
        for literal in pattern.literals:
            at = -1 if any(stem in literal for stem in absent) else low.find(literal)
            while at >= 0:
                if pattern.before:
                    match = pattern.shape.search(text, max(0, at - pattern.before), at + _AROUND)
                else:
                    match = pattern.shape.match(text, at, at + _AHEAD)
                if match and match.start() <= at and pattern.plausible(match):
                    yield Hit(pattern.kind, *match.span(group))
                at = low.find(
                    literal, max(at + len(literal), match.end() if match and pattern.before == 0 else 0)
                )
