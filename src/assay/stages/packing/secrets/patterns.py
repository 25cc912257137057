"""What tells a secret by what stands around it, whoever issued it: a name, an option, a header, an address.

Tokens that have a shape of their own are known by the detectors of others (`detectors.py`). A shape here
begins at a literal that is cheap to look for, and is bounded, so that no text, however hostile, makes the
search slow.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import chain, takewhile
from typing import NamedTuple

from assay.stages.packing.secrets.detectors import provider_tokens
from assay.stages.packing.secrets.values import Hit, entropy, is_drawn, is_example, is_gap, looks_random

_CODE, _CALL = re.compile(rb"[()\[\]{}]"), re.compile(rb"[{}]|^[\w.]*[(\[]")
_NAME = re.compile(rb"[A-Za-z_]\w*(?:[.\-/][A-Za-z_]\w*)*[.,;:]?")  # a variable, an attribute, a path
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.\-])"
    r"(?:[A-Z0-9]*?(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH|COOKIE)S?|PASS|PWD"
    r"|PAT|DSN|SAS)"
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


_OBJECT = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+:[A-Za-z_]\w*")  # package.module:Name, as entry points


def _is_value(match: re.Match[bytes]) -> bool:
    """Return whether what stands behind `password=` or `token:` is a value and not code, prose or a gap to
    fill."""
    value, name, quoted = (
        match["secret"],
        match["name"],
        match["quote"] or match["entry"] or match["declared"],
    )
    if (
        is_gap(value)
        or is_example(value)
        or value.lower() == name.lower()
        or (_OBJECT.fullmatch(value) is not None and value.lower().endswith(name.lower()))  # names itself
        or (_CALL if quoted else _CODE).search(value)
    ):
        return False
    if re.match(rb"(?i)(?:sha\d|md5|blake)", value):
        return False
    if _SAID_TO_BE_PUBLIC.search(match.string, max(0, match.start() - 40), match.end("name")):
        return False
    if not _says_secret(match):  # a key by itself is that of a row or a map
        return is_drawn(value) or _is_drawn_small(value)
    if match["tag"] is not None and match.string[match.end() : match.end() + 1] != b"<":
        return False
    drawn = is_drawn(value) or _is_drawn_small(value) or re.fullmatch(rb"[0-9a-f-]{24,}", value) is not None
    if drawn or (looks_random(value) and (quoted is not None or not _is_name(value))):
        return drawn or match["argument"] is None
    if quoted is not None and re.fullmatch(rb"\w{10,}", value) and len(_TURN.findall(value)) >= 3:
        return True
    if len(value) < 6 or match["argument"] is not None or not _PASSWORD.match(name):
        return False
    if quoted is not None:
        return not re.match(rb"(?i)(?:string|text|integer|password)", value)  # a schema's type
    words = re.fullmatch(rb"[a-z]{3,12}(?:-[a-z]{3,12}){3,}", value) is not None
    return words or (_several_kinds(value) and (not _NAME.fullmatch(value) or bool(re.search(rb"\d", value))))


def _says_secret(match: re.Match[bytes]) -> bool:
    """Return whether a name is a secret's: not `key` or `session` by itself, not a word like `monkey` or
    `cache_key`."""
    before = _BEFORE_NAME.search(match.string, max(0, match.start() - 40), match.start())
    front = before[0] if before else b""
    if _OPEN_NAMES.search(front):
        return False
    if not front and re.match(rb"(?i)[_-]?id\b", match.string[match.end("name") : match.end("name") + 4]):
        return False
    if not match["name"].lower().startswith(b"key"):
        return match["name"].lower() != b"session"
    camel = match["name"][:1].isupper() and front[-1:].islower()
    whole = re.search(
        rb"(?i)(?:api|access|secret|private|shared|auth|account|app|master|admin|service|storage)$", front
    )
    return bool(front) and (camel or whole is not None or not front[-1:].isalpha())


def _is_name(value: bytes) -> bool:
    """Return whether a value could be the name of a variable: few digits, in words.

    >>> _is_name(b"Qwen3OmniMoeCode2"), _is_name(b"ktP6jF6Uj9ovtajk")
    (True, False)
    """
    words, digits = (len(re.findall(each, value)) for each in (rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", rb"\d"))
    whole = len(value) >= 2 * words or not value.isalnum()
    return _NAME.fullmatch(value) is not None and digits < 5 and whole


_TURN = re.compile(rb"[A-Za-z](?=\d)|\d(?=[A-Za-z])")


def _is_drawn_small(value: bytes) -> bool:
    """Return whether a value can hardly be anything but drawn from letters of one case and digits, and is no
    number in hex.

    >>> [_is_drawn_small(value) for value in (b"cr479du2l9pkm" + b"har8gw5hufofvwp86q9", b"ab12" * 8)]
    [True, False]
    """
    value = value.replace(b"-", b"")
    plain, turns = re.fullmatch(rb"[a-z0-9]{20,400}|[A-Z0-9]{20,400}", value), len(_TURN.findall(value))
    return (
        plain is not None
        and len(value) - len(value.translate(None, b"ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ")) >= 3
        and turns >= len(value) / 5
        and entropy(value) >= 3.7
    )


def _kinds(value: bytes) -> list[bytes]:
    """Return which of small letters, capitals, digits and signs a value holds."""
    return [kind for kind in (rb"[a-z]", rb"[A-Z]", rb"\d", rb"[^A-Za-z0-9]") if re.search(kind, value)]


def _several_kinds(value: bytes) -> bool:
    return len(_kinds(value)) >= 2


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
    told = (match["verb"] or match["quote"]) is not None or len(_kinds(value)) == 4
    named = name.startswith((b"pass", b"ident", b"secures")) and told
    return named and re.search(rb"[A-Z].*[a-z]|[a-z].*[A-Z]|[^\w.:/-]", value) is not None


def _is_signed(value: bytes) -> bool:
    """Return whether a word has a sign that names of algorithms and versions have not."""
    return re.search(rb"[^\w.:/,()-]", value) is not None or is_drawn(value)


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
# Parts of names that say that the value is secret, and how such a name goes on. Of one in another language
# the part that no capital letter changes.
_ELSEWHERE = (
    *("kennwort", "senha", "wachtwoord", "heslo", "salasana", "parola", "hasło", "senord", "ifre"),
    *("ароль", "密码", "密碼", "パスワード", "비밀번호"),
)
_NAMES = {
    "pass": r"pass(?:words?|wd|wort|ord|phrase|code|e)?",
    "pwd": "pwd",
    "pw": r"(?<![a-z0-9])pw",
    "psk": "psk",
    "bindpw": "bindpw",
    "secret": "secrets?",
    "token": "tokens?",
    "key": "keys?",
    "cred": "cred(?:ential)?s?",
    "auth": "auth(?:token)?",
    "session": "session(?:_?id)?",
    "connect.sid": r"connect\.sid",
    "contrase": "contrase(?:\u00f1|n)a",
} | {word: word for word in _ELSEWHERE}
_SUFFIX = (
    r"(?:[_-]?(?:value|text|string|data|base|b64|base64|hex|raw|plain|prod|production|dev|staging|te"
    r"st|live|main|old"
    r"|new|id|\d{1,3}))?"
)
_PASSWORD = re.compile(
    rb"(?i)pass|pwd|pw|psk|bind|kenn|senh|wacht|hesl|sala|paro|has|seno|ifre|contra|[\x80-\xff]"
)
# What stands before `key` or `token` where the value is no secret, or only one that is drawn counts.
_OPEN_NAMES = re.compile(
    rb"(?i)(?:^|[_.\-])(?:cache|row|sort|primary|foreign|group|partition|index|dedup|dedupe|lookup|p"
    rb"ublic|pub|idempotency"
    rb"|object|unique|join|map|hot|short|run|item|prompt|example|sample|state|config|dict|data|next|"
    rb"page|next_?page"
    rb"|continuation|pad|eos|bos|unk|sep|cls|mask|special|stop|image|ssh_host)[_.\-]?$"
)
_BEFORE_NAME = re.compile(rb"[\w.\-]{0,40}$")
_STEMS = (b"pass", b"secret", b"token", b"key", b"auth", b"cred", b"session")  # most texts lack most of them
# What may stand between a name and its value, also inside a JSON string: quotes, their backslashes, colon or
# equals sign; a line's end and the start of a block; the end of a tag; the value of an entry that the name is
# the name of, or the default of a variable that is declared so; the comma before a call's next argument. An
# anchor or a tag of YAML may stand before a value.
_TO_VALUE = (
    r"(?:(?:\\{0,3}[\"'])?[ \t]{0,8}(?:=>|:=|[:=]|\xef\xbc\x9a)[ \t]{0,8}"
    r"(?:[&!][\w.:/!-]{0,40}[ \t]{1,4}){0,2}(?:[|>][+-]?\r?\n[ \t]{1,4"
    r"0})?(?P<quote>\\{0,3}[\"'])?"
    r"|\\{0,3}[\"'][ \t]{0,4},?\s{0,40}(?:\\{0,3}[\"'])?value(?:\\{0,3}[\"'])?[ \t]{0,4}[:=][ \t]{0,"
    r"4}(?P<entry>\\{0,3}[\"'])"
    r"|(?:\\{0,3}[\"'])?[ \t]{0,4}[,:{]{0,2}[ \t]{0,4}\r?\n[ \t]{0,40}"
    r"(?:(?:type|description|sensitive|nullable|required)[ \t]{0,8}[:=][^\n]{0,160}\n[ \t]{0,40}){0,4}"
    r"(?:value|default)[ \t]{0,8}[:=][ \t]{0,8}(?P<declared>\\{0,3}[\"'])?"
    r"|(?:</key>\s{0,40}<string)?>(?P<tag>)|[\"'],[ \t]{0,4}(?P<argument>[\"']))"
)
_GAP = r"(?:\s|\\[nrt]){1,16}"
_WORD = r"[^\s\\]{1,256}"
# Printable, but for what ends a value, or a letter of UTF-8: random weights are no text.
_LETTER = r"(?:[!#-%(-+\--:=?-\[\]-_a-~]|[\xc2-\xf4][\x80-\xbf]{1,3})"
_VALUE = (
    rf"(?:base64:)?(?P<secret>(?(quote)(?:[!#-&(-\[\]-~]|[\xc2-\xf4][\x80-\xbf]{{1,3}})|{_LETTER}){{6,512}})"
)
_VERB = r"(?P<verb>[ \t]{1,4}(?:is|was|ist|to|as|with|for|of|by):?)?(?:[ \t]{1,4}[a-z-]{1,10}:?)?"
# Of a sentence in any of some languages: up to three words, then a verb or a colon.
_WORDS = (
    r"(?:[ \t]{1,4}(?:[a-z'-]|[\xc2-\xf4][\x80-\xbf]{1,3}){1,16}){0,3}"
    r"(?:[ \t]{1,4}(?:is|was|ist|lautet|est|es|to|\xc3\xa8|\xc3\xa9|\xe2\x80\x94|-):?|[ \t]?:|\xef\xbc\x9a)"
    r"[ \t]{0,4}"
)
_SOME = r"(?P<secret>[^\s\"'<>\\,;|&]{6,256})"
_LONG = r"(?P<secret>[A-Za-z0-9+/_.~%=-]{16,4096})"


def _named(
    kind: str, literals: str, shape: str, plausible: Callable[[re.Match[bytes]], bool], before: int = 0
) -> Pattern:
    return Pattern(
        kind, tuple(each.encode() for each in literals.split()), re.compile(shape.encode()), plausible, before
    )


NAMED = "value of a secret's name"
PATTERNS: tuple[Pattern, ...] = (
    # Each name by itself: what is no value of one may hold another, as in token=your_api_key=...
    *(
        _named(NAMED, part, rf"(?i)(?P<name>{name}){_SUFFIX}{_TO_VALUE}{_VALUE}", _is_value)
        for part, name in _NAMES.items()
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
        "lftp ssh-keygen openssl net",
        rf"(?:lftp\b[^\n|;&]{{0,80}}? -u ?[\w.@-]{{1,64}},|ssh-keygen\b[^\n|;&]{{0,80}}? -[NP] ?[\"']?"
        rf"|openssl\b[^\n|;&]{{0,160}}? (?:-k |pass:)[\"']?|net use [^\n|;&]{{0,160}}? (?=\S{{6,64}}"
        rf" /user:)){_SOME}",
        _is_filled,
    ),
    _named(
        "password on a command line",
        "echo printf",
        r"(?:echo|printf)(?: -n)? [\"']?(?P<secret>[^\s\"'<>\\,;|&]{6,256})(?:\\n)?[\"']? \| ?(?:sudo )?"
        r"(?:kinit|openssl|gpg|cryptsetup|passwd|chpasswd|smbpasswd|vault|gh secret|gcloud secrets"
        r"|(?:podman|docker)(?: secret create| login)|kubectl create secret|mosquitto_passwd)\b",
        _is_password,
    ),
    _named(
        "password on a command line",
        "password",  # as Apple's are made
        r"password[ =][\"']?(?P<secret>[a-z]{4}(?:-[a-z]{4}){3})(?![\w-])",
        _is_filled,
    ),
    _named(
        "password on a command line",
        "htpasswd",
        rf"htpasswd -[A-Za-z]{{0,8}}b[A-Za-z]{{0,8}} \S{{1,200}} [\w.@-]{{1,64}} [\"']?{_SOME}",
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
        rf"(?P<name>password|passphrase|passwort|token|key|securestring|secret|login|credentials?|id"
        rf"entified){_VERB}"
        r"[ \t]{1,4}(?P<quote>[`\"'])?(?P<secret>[^\s\"'`<>\\,;]{8,256})",
        _is_said,
    ),
    _named(
        "said to be a secret",
        f"password passwort passe contrase {' '.join(_ELSEWHERE)}",
        rf"(?i)(?:pass(?:word|wort|e)|contrase(?:\xc3\xb1|n)a|{'|'.join(_ELSEWHERE)}){_WORDS}[`\"']?{_SOME}",
        lambda match: _is_password(match) and _is_chosen(match["secret"]) and _is_signed(match["secret"]),
    ),
    _named(
        "said to be a secret",
        "credential login account user logon",
        r"(?i)(?<![\w/])(?:credentials?|login|logon|account|user(?:name)?)[ \t]?[:=][ \t]{0,4}[\w.@+"
        r"-]{2,64}[ \t]?[/|:,][ \t]?"
        r"(?P<secret>[^\s\"'`<>\\,;]{6,256})",
        lambda match: _is_password(match) and len(_kinds(match["secret"])) >= 3,
    ),
    _named(
        "password in a call",
        "login( auth( auth=( authenticate( connect( credentials( basicauth(",
        r"(?i)\w{4,16}=?\((?:[^()\n]{0,120}[,=][ ]?)?[\"'](?P<secret>[^\"'\s]{6,256})[\"'][,)]",
        _is_password,
    ),
    _named(
        "key in a call",
        "init( set_api_key( setapikey( set_token( settoken( set_key( client(",
        r"(?i)[\w.]{4,16}\([\"'](?P<secret>[A-Za-z0-9_-]{24,256})[\"'][,)]",
        lambda match: (
            _is_filled(match)
            and (is_drawn(match["secret"]) or re.fullmatch(rb"[0-9a-f]{32,64}", match["secret"]) is not None)
        ),
    ),
    _named(
        "address of a webhook",
        "webhook hooks.",
        r"(?i)(?:webhooks?|hooks\.)[^\s\"'<>]{0,160}/(?P<secret>(?=[A-Za-z_-]{0,32}\d)[A-Za-z0-9_-]{20,128})",
        _is_random,
    ),
    _named(
        "address of a webhook",
        "://hook",
        r"(?i)://hooks?\.[\w.-]{1,80}/[^\s\"'<>]{0,160}/(?P<secret>(?=[A-Za-z_-]{0,32}\d)[A-Za-z0-9_"
        r"-]{6,128})/?(?![\w/])",
        _is_filled,
    ),
    _named(
        "key in an address",
        "/v1/ /v2/ /v3/",
        r"(?<=[a-z])/v\d/(?P<secret>[A-Za-z0-9_-]{30,128})(?![\w/.-])",
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
        "seed phrase",
        "seed words",
        r"(?i)(?:seed|words)[\"']?[ \t]?[:=][ \t]?[\"']?(?P<secret>(?:[a-z]{3,8} ){11}(?:(?:[a-z]{3,"
        r"8} ){12})?[a-z]{3,8})"
        r"(?=[\"'\r\n]|\Z)",
        lambda match: (
            not re.search(rb"(?i)\b(?:the|and|for|with|from|are|was|has|not|each|when|then|than)\b", match[0])
        ),
    ),
    _named(
        "codes in place of a password",
        "codes",
        r"(?i)(?:recovery|backup|scratch|rescue|emergency)[ _-]codes?\W{1,8}(?P<secret>(?:(?=[a-z-"
        r"]{0,8}\d)[a-z0-9-]{8,24}"
        r"[\s,;]{1,8}){1,20}[a-z0-9-]{8,24})",
        _always,
        before=12,
    ),
    _named(
        "hash of a password",
        "$",
        r""
        r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2\w{1,2}|scrypt|pbkdf2[\w-]{0,10}|P|H|bcrypt-sha256)"
        r"\$[./A-Za-z0-9$=,+]{20,256}",
        lambda match: looks_random(match[0]),
    ),
    _named(
        "hash of a password",
        "pbkdf2 bcrypt scrypt argon2",
        r"(?:pbkdf2|bcrypt|scrypt|argon2)[\w:.-]{0,16}\$[./A-Za-z0-9$=,+]{40,256}",
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
        r'"username"\s{0,8}:\s{0,8}"[^"]{0,128}"\s{0,8},\s{0,8}"key"\s{0,8}:\s{0,8}"(?P<secret>[0-9a'
        r'-f]{32})"',
        _always,
    ),
    # No name of a site in front: https://host/home/page is no home folder.
    _named(
        "path of a home folder",
        "/home/ /users/",
        r"(?:(?<=file://)|(?<![A-Za-z0-9_.~/%-]))/(?:home|Users)/(?P<user>[A-Za-z0-9][\w.@-]{0,64})"
        r"(?![^/\\\"'\s:,;)\]&<])",
        _is_of_a_person,
    ),
    _named(
        "path of a home folder",
        "root/",
        r"(?:(?<=file://)|(?<![A-Za-z0-9_.~/%-]))/[r]oot/(?=[\w.])",
        _always,
        before=1,
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
        "user and host",
        ":~ :/",
        r"(?<![\w.+%/:=@-])(?P<user>[A-Za-z][\w.-]{1,31})@(?P<domain>[A-Za-z][\w-]{1,62}):[~/][\w/.~"
        r"-]{0,128}[ \t]?[$#%>]",
        lambda match: (
            _is_of_a_person(match)
            and match["user"] != b"root"
            and match["domain"] not in (b"host", b"localhost")
        ),
        before=96,
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
        r"(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d{1,3}\.\d{1,3}(?=:|/(?!\d{1,2}\b))",
        _always,
    ),
)


_RUN = re.compile(rb"(?<![\w+/%\\-])(?<!==)[A-Za-z0-9_-]{24,400}(?![\w+/=%-])")
_BASE64_LINE = re.compile(rb"[ \t\"']{0,40}[A-Za-z0-9+/]{4,}={0,2}[\"',]{0,2}\r?")
_SECRET_CELL = re.compile(
    rb"(?i)(?:\w{1,20}[ _-])?(?:pass(?:word|wd|phrase|code)?|pwd|secret|(?:api|access|secret|private"
    rb")[ _-]?key"
    rb"|(?:api|access|auth|refresh|bearer)?[ _-]?token|credentials?)"
)
_COLUMN = re.compile(
    rb"(?im)(?:(?P<before>[,;\t|])[ \"']{0,3}|^[ \"']{0,3})"
    + _SECRET_CELL.pattern[4:]
    + rb"[ \"']{0,3}(?:(?P<sign>[,;\t|])|\r?$)"
)
# A prefix that says so, and a number in hex.
_SAYS_SO = re.compile(
    rb"(?<![\w.+/%-])(?:pat|sdk|sk|rk|sq[apu]|tok|token|secret|key|apikey|api|auth|[A-Z]{0,8}(?:API|KEY|TOKEN))[_-]"
    rb"(?:[a-z0-9]{1,8}[_-]){0,2}(?:[0-9a-f]{32,64}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})(?![\w+/=%-])"
)
# A name, a sign, and a long rest.
_PREFIXED = re.compile(
    rb"(?<![\w.+/%-])(?P<prefix>(?:[a-z]{1,12}|[A-Z]{1,12})\d{0,2}[_.-])(?P<rest>[A-Za-z0-9_.-]{18,4"
    rb"00})(?![\w+/=%])"
)
# Digests, and the names of answers, calls and runs that servers give: drawn too, and no secrets.
_IDS = re.compile(
    rb"(?i)(?:(?:sha|md|blake|crc)\d|(?:chatcmpl|cmpl|call|msg|message|toolu|tool|resp|response|run|"
    rb"req|request|thread|asst"
    rb"|file|org|proj|batch|step|gen|item|task|event|evt|trace|span|job|id|uuid|cid|conv|fc|rs|ws|ft"
    rb"job|model|ckpt"
    rb"|checkpoint|version|commit|etag|hash|digest|seed)[_.-])"
)
_SAID_TO_BE_PUBLIC = re.compile(
    rb"(?i)(?:digest|hash|sum|sha\d{1,3}|md5|integrity|fingerprint|etag|cid|commit|_id|\bid"
    rb"|site-?key|public_?key|publishable_?key)\W{0,6}$"
)
# Addresses that coins are sent to (BIP 173), and what names a program to Google.
_PUBLIC = re.compile(
    rb"(?:bc|tb|ltc|addr|cosmos|osmo)1[a-z0-9]{25,100}|\d{6,21}-[a-z0-9]{32}(?=\.apps\.googleusercontent\.com)"
)
_ONE_CASE = re.compile(rb"(?=(?:[A-Z]*\d){4})[A-Z0-9]{24,128}")


def _is_line_of_base64(text: bytes, start: int, end: int) -> bool:
    """Return whether a word is a line of a picture or a certificate; many lack base64's signs."""
    above = text[max(0, start - 1024) : start].split(b"\n")[-2:0:-1]
    below = text[end : end + 1024].split(b"\n")[1:-1]
    block = (takewhile(_BASE64_LINE.fullmatch, lines) for lines in (above, below))
    return any(b"+" in line or b"/" in line for line in chain(*block))


def _in_columns(text: bytes) -> Iterator[Hit]:
    """Yield the values in those columns of a table whose names say that they are secret.

    >>> text = b"user,pass" + b"word\\nann,Kestrel-" + b"4471!"
    >>> [text[hit.start : hit.end] for hit in _in_columns(text)] == [b"Kestrel-" + b"4471!"]
    True
    """
    done = 0
    for name in _COLUMN.finditer(text):
        start = text.rfind(b"\n", max(0, name.start() - 1000), name.start()) + 1
        end = text.find(b"\n", name.end(), name.end() + 1000)
        header, sign = text[start:end], name["sign"] or name["before"]
        if start < done or end < 0 or sign is None or len(header) > 1000:
            continue
        places = [
            place
            for place, cell in enumerate(header.split(sign))
            if _SECRET_CELL.fullmatch(cell.strip(b" \"'\r"))
        ]
        done, at = end, end + 1
        for line in text[at : at + _AHEAD].splitlines(keepends=True):
            cells = line.split(sign)
            if len(cells) != header.count(sign) + 1 or not places:
                break
            for place in places:
                cell = cells[place].strip(b" \"'\r\n")
                if not is_gap(cell) and not is_example(cell) and (looks_random(cell) or _is_chosen(cell)):
                    begin = at + len(sign.join(cells[:place])) + (place > 0)
                    begin = text.index(cell, begin)
                    yield Hit(NAMED, begin, begin + len(cell))
            at += len(line)
            done = at


def _is_chosen(value: bytes) -> bool:
    """Return whether a value could be a password that somebody chose: three of the four kinds of signs."""
    return 6 <= len(value) <= 64 and len(_kinds(value)) >= 3 and not re.search(rb"\s", value)


def drawn_words(text: bytes) -> Iterator[Hit]:
    """Yield what is made like a token of any provider: a short name, a sign, and much that was drawn; or more
    that was drawn, alone.

    >>> [hit.kind for hit in drawn_words(b"see zq" + b"w" + b"_" + b"a8Xk02QpZr7LmN4tYv1C")]
    ['token with a prefix']
    """
    told = set[int]()
    for word in _PREFIXED.finditer(text):
        # Dots stand between names; of those only one counts by itself.
        rest = max((re.sub(rb"[_-]", b"", part) for part in word["rest"].split(b".")), key=len)
        drawn = (
            is_drawn(rest)
            or (_ONE_CASE.fullmatch(rest) and entropy(rest) >= 3.5)
            or any(map(_is_drawn_small, word["rest"].split(b"_")))
        )
        if drawn and not _IDS.match(word[0]) and not is_example(word[0]):
            told.add(word.start())
            yield Hit("token with a prefix", *word.span())
    for run in _RUN.finditer(text):
        before, bare = text[max(0, run.start() - 24) : run.start()], re.sub(rb"[_-]", b"", run[0])
        if before[-1:] == b"." and len(bare) < 32:
            continue
        if before[-1:] == b"=" and not re.search(rb"[A-Za-z_]\w{1,22}[ ]?=$", before):
            continue
        # Of a shorter one more must tell it from the name of a class.
        mixed = is_drawn(bare) and (
            entropy(bare) >= 4.2
            if len(bare) >= 32
            else entropy(bare) >= 3.9 and not re.search(rb"[a-z]{5}", bare)
        )
        if run.start() in told or (not mixed and not (len(bare) >= 32 and _is_drawn_small(run[0]))):
            continue
        if len(bare) >= 40 and _is_line_of_base64(text, *run.span()):
            continue
        if len(run[0]) > 64 and len(run[0]) % 4 == 0:  # base64 of a picture or a text may lack its signs
            continue
        if _SAID_TO_BE_PUBLIC.search(before) or _PUBLIC.match(text, run.start()):
            continue
        if not _IDS.match(run[0]) and not is_example(run[0]):
            yield Hit("long bare drawn at random", *run.span())
    for found in _SAYS_SO.finditer(text):
        if not is_example(found[0]):
            yield Hit("token with a prefix", *found.span())


def tokens(text: bytes) -> Iterator[Hit]:
    """Yield everything in a text that looks like a secret, kind by kind; positions are those of the secret
    itself.

    >>> text = b"see " + b"hf" + b"_" + b"qWmZbXkTrLpVnYcGdHsJfQaRzKwMxBtNvP"
    >>> {(hit.kind, hit.start) for hit in tokens(text)}
    {('huggingface-access-token', 4)}
    """
    issued = list(provider_tokens(text))
    yield from issued
    issued.sort(key=lambda hit: hit.start)
    for word in drawn_words(text):  # what a provider's detector tells by its name is told once
        beside = bisect_right(issued, word.end, key=lambda hit: hit.start)
        if not any(hit.end > word.start for hit in issued[max(0, beside - 2) : beside]):
            yield word
    yield from _in_columns(text)
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
                then = at + len(literal)
                if match and match.start() <= at and pattern.plausible(match):
                    yield Hit(pattern.kind, *match.span(group))
                    then = max(then, match.end())
                at = low.find(literal, then)
