"""Other spellings of a text: base64 at any alignment and turned round, base32, base85, hex and its dumps,
JSON, URL and HTML escapes, UTF-16 and 32, texts of a PNG, packed files, signs that look alike or are not
seen, letters apart, what is cut in pieces, bytes as numbers.

Two ways to the same end. A long value is found by undoing the encodings of what a file holds and looking
there, which also finds tokens nobody knows of. A value too short to be told from chance that way is looked
for in its encoded spellings.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import gzip
import html
import io
import lzma
import re
import unicodedata
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from string import ascii_lowercase, ascii_uppercase
from typing import IO
from urllib.parse import quote_plus, unquote_to_bytes

from assay.core.errors import PackageError
from assay.stages.packing.secrets.values import is_drawn

SHORTEST_RUN = 16  # characters of base64; 12 bytes
SHORTEST_HEX = 12  # 6 bytes
DEPTH = 3  # encodings inside one another
CUT = "put together"  # how a view is called whose pieces stood apart
ROT13 = bytes.maketrans(
    (ascii_uppercase + ascii_lowercase).encode(),
    "".join(each[13:] + each[:13] for each in (ascii_uppercase, ascii_lowercase)).encode(),
)
_MOST_UNPACKED = 1 << 22
_BROKEN = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
)
_MOST_TURNED = 1 << 12  # of longer base64 nobody turns the letters round
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_HEX = b"0123456789abcdefABCDEF"
_PRINTABLE = bytes(range(32, 127)) + b"\t\n\r"
_WRAPPED = re.compile(
    rb"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{40,128}\r?\n[ \t]{0,8})+[A-Za-z0-9+/_-]{4,128}"
)
_WIDE = re.compile(
    rb"(?:[\t\n\r -~]\0){4,}[ -~]?|(?:[\t\n\r -~]\0{3}){4,}[ -~]?"
)  # UTF-16 and 32 in either byte order; that of the high bytes first begins late
_STRINGS = re.compile(rb"[\t\n\r -~]{6,}")
_JSON_ESCAPE = re.compile(rb"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-3][0-7]{2}|.)", re.S)
_JSON_PLAIN = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
# Letters written wide or with marks, signs that are not seen, and Cyrillic and Greek ones that look Latin.
_UNSEEN = re.compile(
    rb"\xc2\xad|[\xcc\xcd][\x80-\xbf]|\xe2\x80[\x8b-\x8f]|\xe2\x81[\xa0-\xa4]|\xef\xbb\xbf|\xef[\xbc"
    rb"\xbd]|\xf0\x9d"
    rb"|[\xce-\xd1][\x80-\xbf]"
)
_ALIKE = str.maketrans(
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0430\u0435\u043e\u0440"
    "\u0441\u0443\u0445\u0456\u0458\u0455"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd",
    "ABEKMHOPCTXaeopcyxijsABEZHIKMNOPTYXov",
)
_APART = re.compile(rb"(?<!\w)(?:[\"']?[\w+/=][\"']?[ \t\r\n,.|-]{1,3}){19,1024}[\"']?[\w+/=](?!\w)")
_HEX_APART = re.compile(
    rb"(?<![0-9a-zA-Z])(?:(?:0x)?[0-9a-fA-F]{2}[ :,\t=]{1,2}){15,4096}(?:0x)?[0-9a-fA-F]{2}(?![0-9a-zA-Z])"
)
_DUMP = re.compile(
    rb"(?m)(?:^[0-9a-fA-F]{4,16}:?[ \t]{1,3}(?:[0-9a-fA-F]{2,8}[ ]{1,2}){1,16}[^\n]{0,40}(?:\n|\Z)){1,4096}"
)
# Between two pieces of one text: quotes with a sign, a line's end, or a name between them; or a line's end
# alone, with what stands before every line of a comment, a quotation or a list of changes.
_JOINT = (
    rb"(?:[\"'][ \t]{0,8}[,+.&)(\\]?\s{0,40}[+.&]?[ \t]{0,8}(?:[\"']\w{1,40}[\"'][ \t]?:[ \t]?)?[\"']"
    rb"|=?\\?\r?\n[ \t]{0,40}(?:[+>#|*]|//|--)?[ \t]{0,8})"
)
_PIECE = rb"[A-Za-z0-9_+/=.~-]{1,200}+"
_CUT = re.compile(rb"(?<![A-Za-z0-9_+/=.~-])" + _PIECE + rb"(?:" + _JOINT + _PIECE + rb"){1,8}")
_JOINTS = re.compile(_JOINT)
_NUMBERS = re.compile(rb"(?<!\d)(?:(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])[, \t\r\n]{1,4}){19,4096}\d{2,3}(?!\d)")
_BINARY = re.compile(rb"(?<!\d)(?:[01]{8}[, \t\r\n]{0,2}){16,4096}(?!\d)")
_BASE32 = re.compile(rb"(?<![A-Za-z0-9])(?:[A-Z2-7]{24,4096}|[a-z2-7]{24,4096})(?![A-Z0-9a-z])")
# Of five letters that stand for text the first is one of few.
_BASE85 = re.compile(
    rb"(?:[A-Za-e][0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{4}){5,800}[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{0,4}"
)
_ASCII85 = re.compile(rb"(?:[+-I][!-u]{4}){5,800}[!-u]{0,4}")


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


def _inflated(plain: bytes) -> Iterator[bytes]:
    """Yield bytes and, where they are a packed text, what it unpacks to."""
    yield plain
    if plain[:2] in (b"\x1f\x8b", b"x\x9c", b"x\xda", b"x\x01"):
        with suppress(zlib.error):
            yield zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(plain, _MOST_UNPACKED)


def _from_base64(piece: bytes) -> Iterator[bytes]:
    letters = piece.translate(None, b"\r\n \t")
    turns = (
        (letters[::-1], letters.swapcase(), letters.translate(ROT13)) if len(letters) <= _MOST_TURNED else ()
    )
    for turned, read in enumerate((letters, *turns)):
        standard = read.translate(_TO_STANDARD)
        for skipped in range(4):
            rest = standard[skipped:]
            rest = rest[: len(rest) - (len(rest) % 4 == 1)]
            plain = binascii.a2b_base64(rest + b"=" * (-len(rest) % 4))
            if not turned:
                yield from _inflated(plain)
            elif printable(plain):
                yield plain


def _from_base85(decode: Callable[[bytes], bytes]) -> Callable[[bytes], Iterator[bytes]]:
    def decoded(piece: bytes) -> Iterator[bytes]:
        with suppress(ValueError):
            text = _STRINGS.match(decode(piece))  # a quote at its end may be a letter, too
            if text and len(text[0]) >= SHORTEST_RUN:
                yield text[0]

    return decoded


def _seen(piece: bytes) -> bytes:
    same = unicodedata.normalize("NFKD", piece.decode("utf-8", "replace").translate(_ALIKE))
    return "".join(c for c in same if unicodedata.category(c) not in ("Cf", "Mn")).encode("utf-8", "replace")


def _is_drawn_together(cut: bytes) -> bool:
    return is_drawn(re.sub(rb"\W", b"", _JOINTS.sub(b"", cut)))


def _from_numbers(piece: bytes) -> bytes:
    return bytes(n for each in re.findall(rb"\d+", piece) if (n := int(each)) < 128)


def _from_binary(piece: bytes) -> bytes:
    return bytes(int(each, 2) for each in re.findall(rb"[01]{8}", piece))


def _from_base32(piece: bytes) -> Iterator[bytes]:
    with suppress(binascii.Error):
        yield base64.b32decode(piece[: len(piece) // 8 * 8], casefold=True)


def _from_hex(piece: bytes) -> Iterator[bytes]:
    digits = re.sub(rb"0x|[^0-9a-fA-F]", b"", piece)
    for skipped in range(2):
        rest = digits[skipped:]
        yield from _inflated(binascii.unhexlify(rest[: len(rest) // 2 * 2]))


def _from_dump(piece: bytes) -> bytes:
    """Return the bytes of the lines of a hex dump: an address, up to sixteen bytes, and their letters."""
    found = bytearray()
    for line in piece.splitlines():
        row = b""
        for word in line.split()[1:]:
            if len(row) + len(word) // 2 > 16 or not re.fullmatch(rb"(?:[0-9a-fA-F]{2}){1,4}", word):
                break
            row += binascii.unhexlify(word)
        found += row
    return bytes(found)


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


def decodings(view: View, seen: set[tuple[str, bytes]], depth: int = 1) -> Iterator[View]:
    """Yield what the encoded pieces of a text decode to, then what is encoded in that, and once more.

    Args:
        view: The text.
        seen: Encodings and pieces that were undone already; grows. Most digests of a run occur many times.
        depth: How many encodings have been undone, this one included.
    """
    found: list[View] = []
    inner = view.how in ("base64", "hex")  # what random bytes seem to encode is no text

    def undo(
        how: str,
        pieces: Iterable[bytes],
        decode: Callable[[bytes], Iterator[bytes]],
        texts_only: bool = inner,
    ) -> None:
        fresh = [piece for piece in dict.fromkeys(pieces) if (how, piece) not in seen]
        seen.update((how, piece) for piece in fresh)
        undone = _view(view, how, fresh, decode, texts_only)
        if undone is not None:
            found.append(undone)

    def all_of(shape: re.Pattern[bytes]) -> Iterator[bytes]:
        return (match[0] for match in shape.finditer(body))

    body = view.body
    if b"\0" in body:
        undo(
            "UTF-16 or UTF-32", all_of(_WIDE), _once(lambda text: text.replace(b"\0", b"")), texts_only=False
        )
        # Encoded text is printable; weights and pixels, of which there may be gigabytes, are not.
        view = _view(
            view, "", _STRINGS.findall(body), lambda text: iter((text + b"\0",)), texts_only=False
        ) or View(b"")
        body = view.body
    for how, sign, decode in (
        ("JSON", b"\\", _unescaped),
        ("URL", b"%", unquote_to_bytes),
        ("HTML", b"&", _un_html),
    ):
        if sign in body:
            undo(how, (line for line in body.splitlines() if sign in line), _once(decode))
    if _UNSEEN.search(body):
        undo("Unicode", (line for line in body.splitlines() if _UNSEEN.search(line)), _once(_seen))
    if not inner:
        undo("letters apart", all_of(_APART), _once(lambda each: re.sub(rb"[ \t\r\n,.|\"'-]", b"", each)))
        undo("numbers", all_of(_NUMBERS), _once(_from_numbers))
        undo("binary digits", all_of(_BINARY), _once(_from_binary))
        undo("hex dump", all_of(_DUMP), _once(_from_dump))
        undo("base32", all_of(_BASE32), _from_base32, texts_only=True)
        undo("base85", all_of(_BASE85), _from_base85(base64.b85decode))
        undo("ascii85", all_of(_ASCII85), _from_base85(base64.a85decode))
    runs = (
        p for p in body.translate(_BASE64_TABLE).split() if len(p) >= SHORTEST_RUN and p.translate(None, _HEX)
    )
    undo("base64", chain(runs, all_of(_WRAPPED)), _from_base64)
    digits = (p for p in body.translate(_HEX_TABLE).split() if len(p) >= SHORTEST_HEX)
    undo("hex", chain(digits, all_of(_HEX_APART)), _from_hex)
    if not inner:
        undo(CUT, filter(_is_drawn_together, all_of(_CUT)), _once(lambda each: _JOINTS.sub(b"", each)))
    for each in found:
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


def _chunks(png: bytes) -> Iterator[tuple[bytes, range]]:
    """Yield name and place of what is in each chunk of a PNG; nothing of what is no PNG."""
    at = 8
    while png.startswith(b"\x89PNG") and at + 12 <= len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        yield png[at + 4 : at + 8], range(at + 8, at + 8 + length)
        at += 12 + length


def png_pixels(png: bytes) -> list[range]:
    """Return where the packed pixels of a whole PNG lie: what looks like a short name with a value there is
    chance, once in some hundred megabytes."""
    found = [place for name, place in _chunks(png) if name == b"IDAT"]
    opened = zlib.decompressobj()
    with suppress(zlib.error):
        for place in found:
            opened.decompress(png[place.start : place.stop])
    return found if opened.eof else []


def png_texts(png: bytes) -> bytes:
    """Return the texts of a PNG, packed ones unpacked, one a line; nothing of what is no PNG.

    Raises:
        PackageError: They unpack to more than 4 MiB, which no picture of a package needs.
    """
    texts, room = [], _MOST_UNPACKED
    for name, place in _chunks(png):
        text = png[place.start : place.stop]
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
    return b"\n".join(texts)


def _opened(stream: IO[bytes]) -> Iterator[io.BufferedIOBase | IO[bytes]]:
    magic = stream.read(6)
    stream.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        yield gzip.GzipFile(fileobj=stream)
    elif magic.startswith(b"BZh"):
        yield bz2.BZ2File(stream)
    elif magic.startswith(b"\xfd7zXZ"):
        yield lzma.LZMAFile(stream)  # noqa: SIM115
    elif magic.startswith(b"PK\3\4"):
        inside = zipfile.ZipFile(stream)
        yield from (inside.open(each) for each in inside.infolist() if each.compress_type)  # 0: as it is


def unpacked(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield what a packed file holds: gzip, bzip2, xz, or the packed members of a zip; else nothing.

    Of what unpacks to more than 16 MiB only so much is read: a few bytes can unpack without end.
    """
    room = 4 * _MOST_UNPACKED
    with suppress(*_BROKEN):
        for opened in _opened(stream):
            text = bytearray()
            with suppress(*_BROKEN):  # of one that is cut short: what could be read
                while len(text) < room and (piece := opened.read(1 << 16)):
                    text += piece
            room -= len(text)
            yield bytes(text)
