"""Other spellings of a text: base64 at any alignment, base32, hex, JSON, URL and HTML escapes, UTF-16, texts
of a PNG, signs that look alike or are not seen, letters apart, texts put together, bytes as numbers.

Two ways to the same end. A long value is found by undoing the encodings of what a file holds and looking
there, which also finds tokens nobody knows of. A value too short to be told from chance that way is looked
for in its encoded spellings.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from urllib.parse import quote_plus, unquote_to_bytes

from assay.core.errors import PackageError

SHORTEST_RUN = 16  # characters of base64; 12 bytes
SHORTEST_HEX = 12  # 6 bytes
DEPTH = 3  # encodings inside one another
_MOST_UNPACKED = 1 << 22
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_HEX = b"0123456789abcdefABCDEF"
_PRINTABLE = bytes(range(32, 127)) + b"\t\n\r"
_WRAPPED = re.compile(
    rb"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{40,128}\r?\n[ \t]{0,8})+[A-Za-z0-9+/_-]{4,128}"
)
_WIDE = re.compile(
    rb"(?:[\t\n\r -~]\0){4,}[ -~]?"
)  # either byte order; that of the high bytes first begins a byte late
_STRINGS = re.compile(rb"[\t\n\r -~]{6,}")
_JSON_ESCAPE = re.compile(rb"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-3][0-7]{2}|.)", re.S)
_JSON_PLAIN = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
# Letters written wide or with marks, signs that are not seen, and Cyrillic and Greek ones that look Latin.
_UNSEEN = re.compile(
    rb"\xc2\xad|[\xcc\xcd][\x80-\xbf]|\xe2\x80[\x8b-\x8f]|\xe2\x81[\xa0-\xa4]|\xef\xbb\xbf|\xef[\xbc\xbd]|\xf0\x9d"
    rb"|[\xce-\xd1][\x80-\xbf]"
)
_ALIKE = str.maketrans(
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd",
    "ABEKMHOPCTXaeopcyxijsABEZHIKMNOPTYXov",
)
_APART = re.compile(rb"(?<!\w)(?:[\"']?[\w+/=][\"']?[ \t\r\n,.|-]{1,3}){19,1024}[\"']?[\w+/=](?!\w)")
_HEX_APART = re.compile(
    rb"(?<![0-9a-zA-Z])(?:(?:0x)?[0-9a-fA-F]{2}[ :,\t]{1,2}){15,4096}(?:0x)?[0-9a-fA-F]{2}(?![0-9a-zA-Z])"
)
_TOGETHER = re.compile(
    rb"([\"'])[ \t]{0,8}(?:\\?[\r\n]{1,2}[ \t]{0,40})?[+.&]?[ \t]{0,8}(?:[\r\n]{1,2}[ \t]{0,40})?\1"
)
_NUMBERS = re.compile(rb"(?<!\d)(?:(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])[, \t\r\n]{1,4}){19,4096}\d{2,3}(?!\d)")
_BASE32 = re.compile(rb"(?<![A-Z0-9])[A-Z2-7]{24,4096}(?![A-Z0-9a-z])")


def _only(alphabet: bytes) -> bytes:
    return bytes(c if c in alphabet else 32 for c in range(256))


_BASE64_TABLE, _HEX_TABLE, _TO_STANDARD = _only(_BASE64), _only(_HEX), bytes.maketrans(b"-_", b"+/")


class View:
    """A text as a file holds it, or what some of its pieces decode to, one after the other.

    Args:
        body: The text; of decoded pieces: all of them, each with a newline behind it.
        how: The encoding that was undone; empty for the file's own text.
        parent: The view that the pieces were found in; None for the file's own text.
        pieces: The encoded pieces, in the order of the body.
        starts: Where in the body each decoded piece begins.
    """

    def __init__(
        self,
        body: bytes,
        how: str = "",
        parent: View | None = None,
        pieces: Sequence[bytes] = (),
        starts: Sequence[int] = (),
    ) -> None:
        self.body, self.how, self.parent, self._pieces, self._starts = body, how, parent, pieces, starts

    def origin(self, at: int) -> int:
        """Return the byte of the file's own text at which the piece begins that decoded to what stands at
        `at`."""
        if self.parent is None:
            return at
        return self.parent.origin(self.parent.body.find(self._pieces[bisect_right(self._starts, at) - 1]))

    @property
    def spelling(self) -> str:
        """The encodings that were undone, outermost first, e.g. `JSON, base64`; `plain` where there were
        none."""
        outer = self.parent.spelling if self.parent is not None else "plain"
        return outer if not self.how else self.how if outer == "plain" else f"{outer}, {self.how}"


def printable(text: bytes) -> bool:
    """Return whether a text is nothing but ASCII that can be printed, tabs and line ends."""
    return not text.translate(None, _PRINTABLE)


def _unescaped(piece: bytes) -> bytes:
    def plain(match: re.Match[bytes]) -> bytes:
        sign = match[1]
        if len(sign) == 5:
            return chr(int(sign[1:], 16)).encode("utf-8", "surrogatepass")
        if len(sign) == 3:
            return bytes([int(sign[1:], 16) if sign[:1] == b"x" else int(sign, 8)])
        return _JSON_PLAIN.get(sign, sign)

    return _JSON_ESCAPE.sub(plain, piece)


def _un_html(piece: bytes) -> bytes:
    return html.unescape(piece.decode("latin-1")).encode("latin-1", "replace")


def _from_base64(piece: bytes) -> Iterator[bytes]:
    letters = piece.translate(_TO_STANDARD, b"\r\n \t")
    for skipped in range(4):
        rest = letters[skipped:]
        rest = rest[: len(rest) - (len(rest) % 4 == 1)]
        plain = binascii.a2b_base64(rest + b"=" * (-len(rest) % 4))
        yield plain
        if plain[:2] in (b"\x1f\x8b", b"x\x9c", b"x\xda", b"x\x01"):
            with suppress(zlib.error):
                yield zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(plain, _MOST_UNPACKED)


def _seen(piece: bytes) -> bytes:
    same = unicodedata.normalize("NFKD", piece.decode("utf-8", "replace").translate(_ALIKE))
    return "".join(c for c in same if unicodedata.category(c) not in ("Cf", "Mn")).encode("utf-8", "replace")


def _from_numbers(piece: bytes) -> bytes:
    return bytes(n for each in re.findall(rb"\d+", piece) if (n := int(each)) < 128)


def _from_base32(piece: bytes) -> Iterator[bytes]:
    with suppress(binascii.Error):
        yield base64.b32decode(piece[: len(piece) // 8 * 8])


def _from_hex(piece: bytes) -> Iterator[bytes]:
    digits = re.sub(rb"0x|[^0-9a-fA-F]", b"", piece)
    for skipped in range(2):
        rest = digits[skipped:]
        yield binascii.unhexlify(rest[: len(rest) // 2 * 2])


def _view(
    parent: View, how: str, found: list[bytes], decode: Callable[[bytes], Iterator[bytes]], texts_only: bool
) -> View | None:
    pieces: list[bytes] = []
    starts: list[int] = []
    parts: list[bytes] = []
    at = 0
    for piece in found:
        for plain in decode(piece):
            if plain == piece or (texts_only and not printable(plain)):
                continue
            pieces.append(piece)
            starts.append(at)
            parts += [plain, b"\n"]
            at += len(plain) + 1
    return View(b"".join(parts), how, parent, pieces, starts) if parts else None


def _once(decode: Callable[[bytes], bytes]) -> Callable[[bytes], Iterator[bytes]]:
    return lambda piece: iter((decode(piece),))


def decodings(view: View, seen: set[bytes], depth: int = 1) -> Iterator[View]:
    """Yield what the encoded pieces of a text decode to, then what is encoded in that, and once more.

    Args:
        view: The text.
        seen: Pieces that were decoded already; grows. Most digests of a run occur many times.
        depth: How many encodings have been undone, this one included.
    """
    found: list[View | None] = []

    def new(pieces: Iterator[bytes]) -> list[bytes]:
        fresh = [piece for piece in dict.fromkeys(pieces) if piece not in seen]
        seen.update(fresh)
        return fresh

    if b"\0" in view.body:
        wide = new(match[0] for match in _WIDE.finditer(view.body))
        found.append(
            _view(view, "UTF-16", wide, _once(lambda text: text.replace(b"\0", b"")), texts_only=False)
        )
        # Encoded text is printable; weights and pixels, of which there may be gigabytes, are not.
        view = _view(
            view, "", _STRINGS.findall(view.body), lambda text: iter((text + b"\0",)), texts_only=False
        ) or View(b"")
    body = view.body
    inner = view.how in ("base64", "hex")  # what random bytes seem to encode is no text
    for how, sign, decode in (
        ("JSON", b"\\", _unescaped),
        ("URL", b"%", unquote_to_bytes),
        ("HTML", b"&", _un_html),
    ):
        if sign in body:
            found.append(
                _view(
                    view, how, new(line for line in body.splitlines() if sign in line), _once(decode), inner
                )
            )
    if _UNSEEN.search(body):
        lines = new(line for line in body.splitlines() if _UNSEEN.search(line))
        found.append(_view(view, "Unicode", lines, _once(_seen), inner))
    if not inner:
        lines = new(match[0] for match in _APART.finditer(body))
        found.append(
            _view(
                view,
                "letters apart",
                lines,
                _once(lambda each: re.sub(rb"[ \t\r\n,.|\"'-]", b"", each)),
                inner,
            )
        )
        lines = new(line for line in body.splitlines() if len(line) < 1 << 14 and _TOGETHER.search(line))
        found.append(_view(view, "put together", lines, _once(lambda each: _TOGETHER.sub(b"", each)), inner))
        lines = new(match[0] for match in _NUMBERS.finditer(body))
        found.append(_view(view, "numbers", lines, _once(_from_numbers), inner))
        lines = new(match[0] for match in _BASE32.finditer(body))
        found.append(_view(view, "base32", lines, _from_base32, texts_only=True))
    runs = new(
        p for p in body.translate(_BASE64_TABLE).split() if len(p) >= SHORTEST_RUN and p.translate(None, _HEX)
    )
    runs += new(match[0] for match in _WRAPPED.finditer(body))
    found.append(_view(view, "base64", runs, _from_base64, inner))
    digits = new(p for p in body.translate(_HEX_TABLE).split() if len(p) >= SHORTEST_HEX)
    digits += new(match[0] for match in _HEX_APART.finditer(body))
    found.append(_view(view, "hex", digits, _from_hex, inner))
    for each in found:
        if each is not None:
            yield each
            if depth < DEPTH:
                yield from decodings(each, seen, depth + 1)


def spellings(value: str) -> dict[bytes, str]:
    """Return how a value may be written where undoing encodings does not find it: spelling → encoding.

    Short values have base64 and hex too short to undo. The three alignments of base64 give three texts, each
    without the letters that depend on its neighbours.

    >>> spellings("a long password & more")
    {b'a+long+password+%26+more': 'URL'}
    """
    plain = value.encode("utf-8", "surrogateescape")
    found: dict[bytes, str] = {}
    if b" " in plain:
        found[quote_plus(plain).encode()] = "URL"
    if not plain.isascii() and not any(ord(letter) > 255 for letter in value):
        found[value.encode("latin-1")] = "Latin-1"
    if len(plain) <= SHORTEST_RUN:
        found |= _short(plain)
    found.pop(plain, None)
    return found


def _short(plain: bytes) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    for skipped in range(3):
        whole = base64.b64encode(b"\0" * skipped + plain).rstrip(b"=")
        sure = whole[(0, 2, 3)[skipped] : (skipped + len(plain)) * 8 // 6]
        # Four letters of one case could be a word of any text.
        if len(sure) > 4 or (len(sure) == 4 and sure != sure.lower() and sure != sure.upper()):
            found.setdefault(sure, "base64")
            found.setdefault(sure.translate(bytes.maketrans(b"+/", b"-_")), "base64")
    if len(plain) < SHORTEST_HEX // 2:
        found |= {plain.hex().encode(): "hex", plain.hex().upper().encode(): "hex"}
    return found


def png_texts(png: bytes) -> bytes:
    """Return the texts of a PNG, packed ones unpacked, one a line; nothing of what is no PNG.

    Raises:
        PackageError: They unpack to more than 4 MiB, which no picture of a package needs.
    """
    at, texts, room = 8, [], _MOST_UNPACKED
    while png.startswith(b"\x89PNG") and at + 12 <= len(png):
        length, name = int.from_bytes(png[at : at + 4], "big"), png[at + 4 : at + 8]
        text = png[at + 8 : at + 8 + length]
        if name in (b"tEXt", b"zTXt", b"iTXt"):
            texts.append(text)
        if name in (b"zTXt", b"iCCP", b"iTXt"):
            packed = text[text.find(b"\0") + 2 :]  # behind the keyword and how it is packed
            if name == b"iTXt":  # there are a flag more, and two more names
                packed = b"".join(packed[1:].split(b"\0", 2)[2:])
            with suppress(zlib.error):
                texts.append(zlib.decompressobj().decompress(packed, room))
                room -= len(texts[-1])
        if room <= 0:
            found, fix = f"more than {_MOST_UNPACKED:,} bytes", "draw it without them"
            raise PackageError(
                "a few lines of text in a picture", found=found, where="a PNG of the package", fix=fix
            )
        at += 12 + length
    return b"\n".join(texts)
