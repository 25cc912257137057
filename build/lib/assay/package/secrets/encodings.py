"""Other spellings of a text: base64 at any alignment, hex, JSON, URL and HTML escapes, UTF-16, texts of a
PNG.

Two ways to the same end. A long value is found by undoing the encodings of what a file holds and looking
there, which also finds tokens nobody knows of. A value too short to be told from chance that way is looked
for in its encoded spellings.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
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
_JSON_ESCAPE = re.compile(rb"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.S)
_JSON_PLAIN = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}


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
        return bytes([int(sign[1:], 16)]) if len(sign) == 3 else _JSON_PLAIN.get(sign, sign)

    return _JSON_ESCAPE.sub(plain, piece)


def _un_html(piece: bytes) -> bytes:
    return html.unescape(piece.decode("latin-1")).encode("latin-1", "replace")


def _from_base64(piece: bytes) -> Iterator[bytes]:
    letters = piece.translate(_TO_STANDARD, b"\r\n \t")
    for skipped in range(4):
        rest = letters[skipped:]
        rest = rest[: len(rest) - (len(rest) % 4 == 1)]
        yield binascii.a2b_base64(rest + b"=" * (-len(rest) % 4))


def _from_hex(piece: bytes) -> Iterator[bytes]:
    for skipped in range(2):
        rest = piece[skipped:]
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
    runs = new(
        p for p in body.translate(_BASE64_TABLE).split() if len(p) >= SHORTEST_RUN and p.translate(None, _HEX)
    )
    runs += new(match[0] for match in _WRAPPED.finditer(body))
    found.append(_view(view, "base64", runs, _from_base64, inner))
    digits = new(p for p in body.translate(_HEX_TABLE).split() if len(p) >= SHORTEST_HEX)
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
