"""The secret scan: no token, password, name of a person or machine leaves in a package unless somebody
answers for it.

It fails closed: what it finds is refused, by file and line and never by what it says, until it is removed or
waived. Every member is read, binary ones too, in windows of bounded size; what is encoded is decoded and
searched again.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from pydantic import Field

from assay.core.config.settings import Waiver
from assay.core.errors import PackageError
from assay.core.records import Record
from assay.stages.packing.archive import open_plain
from assay.stages.packing.secrets.detectors import provider_tokens
from assay.stages.packing.secrets.encodings import (
    CUT,
    ROT13,
    View,
    decodings,
    png_pixels,
    png_texts,
    printable,
    spellings,
    unpacked,
)
from assay.stages.packing.secrets.known import KnownSecret
from assay.stages.packing.secrets.patterns import NAMED, tokens
from assay.stages.packing.secrets.values import is_drawn

WINDOW, OVERLAP, BEFORE = (1 << 20, 1 << 14, 1 << 9)  # bytes: a window's own, seen behind, and before
_SHOWN = 10
_MOST = 1000  # different findings in one file that are kept one by one
_PLACE = "the package"


class SecretFound(Record):
    """Something in a package that must not be there; says where and what, never the text itself."""

    file: str = Field(description="path inside the package")
    line: int | None = Field(
        description="line of the first occurrence, from 1; null in a binary file and in a file's name"
    )
    byte: int | None = Field(description="byte of the first occurrence, from 0; null in a file's name")
    kind: str = Field(description="what it is, by pattern or by where this machine has it from")
    spelling: str = Field(description="plain, or the encodings that were undone to see it")
    begins: str = Field(description="its first two characters")
    length: int = Field(ge=1, description="bytes, decoded")
    sha256: str = Field(description="of the text found, decoded; what a waiver names")
    reason: str | None = Field(default=None, description="why somebody lets it pass; null: nobody does")

    @property
    def place(self) -> str:
        """File and line, or byte, or that it is the name itself."""
        if self.byte is None:
            return f"{self.file} (its name)"
        return f"{self.file}, byte {self.byte}" if self.line is None else f"{self.file}:{self.line}"


class _Needle(NamedTuple):
    text: bytes
    how: str
    secret: KnownSecret
    plain: bytes  # the value itself


class _Window(NamedTuple):
    body: bytes
    start: int  # byte of the file at which the body begins
    own: range  # bytes of the body that no other window answers for
    line: int  # of the file at which the body begins


def _open(source: bytes | Path) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else open_plain(source)


def _unpacked(source: bytes | Path) -> Iterator[bytes]:
    with _open(source) as stream:
        yield from unpacked(stream)


def _windows(source: bytes | Path) -> Iterator[_Window]:
    """Yield windows that overlap: what begins in the own bytes of one is seen whole in it, if it is no longer
    than OVERLAP."""
    body, start, own, line, last = b"", 0, 0, 1, False
    with _open(source) as stream:
        while not last:
            piece = stream.read(WINDOW)
            last = not piece
            body += piece
            until = len(body) if last else len(body) - OVERLAP
            if until <= own and not last:
                continue
            yield _Window(body, start, range(own, until), line)
            cut = max(0, until - BEFORE)
            line += body.count(b"\n", 0, cut)
            body, start, own = body[cut:], start + cut, until - cut


def _needles(known: Sequence[KnownSecret]) -> list[_Needle]:
    made = []
    for secret in known:
        plain = secret.value.encode("utf-8", "surrogateescape")
        made.append(_Needle(plain, "", secret, plain))
        made += [_Needle(text, how, secret, plain) for text, how in spellings(secret.value).items()]
    return made


def _alone(text: bytes, start: int, end: int) -> bool:
    return not (text[start - 1 : start].isalnum() if start else False) and not text[end : end + 1].isalnum()


def _readable(text: bytes, start: int, end: int) -> bool:
    return printable(text[max(0, start - 6) : start]) and printable(text[end : end + 6])


class _Hit(NamedTuple):
    kind: str
    view: View
    at: int  # byte of the view's body
    spelling: str
    text: bytes


def _known_hits(view: View, needles: Sequence[_Needle], binary: bool) -> Iterator[_Hit]:
    body, guessed = view.body, view.how in ("base64", "hex")  # most of what these seem to encode is chance
    low = None if binary or guessed else body.lower()
    for needle in needles:
        word, sought, hay = needle.secret.word, needle.text, body
        if word and not needle.how and low is not None:
            sought, hay = sought.lower(), low  # a name is the same name in any case
        at = hay.find(sought)
        while at >= 0:
            end = at + len(sought)
            if (
                needle.how in ("base64", "hex")
                or not word
                or (_alone(body, at, end) and (not guessed or len(sought) > 8 or _readable(body, at, end)))
            ):
                spelling = (
                    needle.how if view.spelling == "plain" else f"{view.spelling}, {needle.how}".rstrip(", ")
                )
                yield _Hit(needle.secret.name, view, at, spelling or "plain", needle.plain)
            at = hay.find(sought, at + 1)


def _view_hits(view: View, needles: Sequence[_Needle], binary: bool) -> Iterator[_Hit]:
    yield from _known_hits(view, needles, binary)
    # Of lines that are put together only what has a provider's shape: any two words make a longer one.
    for hit in provider_tokens(view.body) if CUT in view.spelling else tokens(view.body):
        yield _Hit(hit.kind, view, hit.start, view.spelling, view.body[hit.start : hit.end])
    for how, read in (("backwards", view.body[::-1]), ("rot13", view.body.translate(ROT13))):
        for hit in provider_tokens(read):
            # Words written so can look like a rule's.
            if is_drawn(re.sub(rb"\W", b"", read[hit.start : hit.end])):
                start = len(read) - hit.end if how == "backwards" else hit.start
                said = how if view.spelling == "plain" else f"{view.spelling}, {how}"
                yield _Hit(hit.kind, view, start, said, view.body[start : start + hit.end - hit.start])


def _hits(body: bytes, needles: Sequence[_Needle], binary: bool) -> Iterator[_Hit]:
    whole = View(body)
    yield from _view_hits(whole, needles, binary)
    for view in decodings(whole, set()):
        yield from _view_hits(view, needles, binary)


def _lies_in(places: Sequence[range], hit: _Hit) -> bool:
    at = hit.view.origin(hit.at)
    return any(at in place for place in places)


def _found(file: str, hit: _Hit, line: int | None, byte: int | None) -> SecretFound:
    begins = ascii(hit.text[:2].decode("latin-1"))[1:-1]
    return SecretFound(
        file=file,
        line=line,
        byte=byte,
        kind=hit.kind,
        spelling=hit.spelling,
        begins=begins,
        length=len(hit.text),
        sha256=hashlib.sha256(hit.text).hexdigest(),
    )


def _in_member(file: str, source: bytes | Path, needles: Sequence[_Needle]) -> Iterator[SecretFound]:
    """Yield each text that must not be there once, where it stands first: plain before encoded, known before
    by its shape."""
    seen: set[bytes] = set()

    def new(hits: Iterator[_Hit], own: range | None = None) -> Iterator[tuple[_Hit, int]]:
        for hit in hits:
            if hit.text in seen:
                continue
            at = hit.view.origin(hit.at)
            if own is None or at in own:
                seen.add(hit.text)
                yield hit, at

    for hit, _ in new(_hits(file.encode("utf-8", "surrogateescape"), needles, binary=False)):
        yield _found(file, hit, None, None)
    seen.clear()  # what the name says does not tell where the content says it
    binary: bool | None = None
    pixels: list[range] = []
    for window in _windows(source):
        if binary is None:
            binary, pixels = b"\0" in window.body[:8192], png_pixels(window.body)
            # In a picture larger than a window: of its first megabyte.
            inner = [
                ("PNG text", png_texts(window.body)),
                *(("packed file", text) for text in _unpacked(source)),
            ]
            for how, piece in ((how, piece) for how, text in inner for piece in _windows(text)):
                for hit, _ in new(_hits(piece.body, needles, binary=False), piece.own):
                    yield _found(file, hit._replace(spelling=f"{how}, {hit.spelling}"), None, 0)
        hits = _hits(window.body, needles, binary)
        if pixels:
            hits = (hit for hit in hits if hit.kind != NAMED or not _lies_in(pixels, hit))
        for hit, at in new(hits, window.own):
            line = None if binary else window.line + window.body.count(b"\n", 0, at)
            yield _found(file, hit, line, window.start + at)


def scan(
    members: Mapping[str, bytes | Path], known: Sequence[KnownSecret], waivers: Sequence[Waiver]
) -> list[SecretFound]:
    """Return what must not be in a package: each text once for each file, in the order of files and bytes.

    Args:
        members: Path inside the package → its content, or the file that holds it.
        known: Values of this machine, see `known.known_secrets`.
        waivers: Findings that somebody answers for; they are returned with the reason.

    Raises:
        PackageError: A member is no regular file, or holds more than anybody answers for one by one.
    """
    reasons = {(each.file, each.sha256 or each.kind): each.reason for each in waivers}
    needles = _needles(known)
    found: list[SecretFound] = []
    for file in sorted(members):
        inside: list[SecretFound] = []
        answered = set[str]()
        for each in _in_member(file, members[file], needles):
            reason = reasons.get((file, each.kind))
            if reason is None:
                inside.append(each.model_copy(update={"reason": reasons.get((file, each.sha256))}))
            elif each.kind not in answered:  # the first stands for all
                answered.add(each.kind)
                inside.append(each.model_copy(update={"reason": reason}))
            if len(inside) > _MOST:
                kinds = sorted({one.kind for one in inside if one.reason is None})
                raise PackageError(
                    "no secrets",
                    found=f"more than {_MOST}: {', '.join(kinds)}",
                    where=file,
                    fix="see what this file is; if it holds none, say why, for all of a kind:"
                    + _waiving(f"file: {_quoted(file)}, kind: {_quoted(kind)}" for kind in kinds),
                )
        found += sorted(inside, key=lambda each: -1 if each.byte is None else each.byte)
    return found


def _waiving(entries: Iterable[str]) -> str:
    """Return the lines of a preset that let findings pass."""
    return "\n  package:\n    waivers:" + "".join(f"\n      - {{{entry}, reason: …}}" for entry in entries)


def refuse(found: Sequence[SecretFound], waivers: Sequence[Waiver]) -> None:
    """Refuse a package that holds what nobody answers for, or a waiver of what it does not hold.

    Raises:
        PackageError: Names file, line and kind of the first ten, and the lines that would waive them.
    """
    open_ones = [each for each in found if each.reason is None]
    if open_ones:
        shown, more = open_ones[:_SHOWN], len(open_ones) - _SHOWN
        listed = "".join(
            f"\n  {at.place}: {at.kind} ({at.spelling}; {at.begins}…, {at.length} bytes)" for at in shown
        )
        lines = _waiving(f"file: {_quoted(at.file)}, sha256: {at.sha256}" for at in shown)
        raise PackageError(
            "no secrets and no names of people or machines",
            found=f"{len(open_ones)}:{listed}" + (f"\n  and {more} more" if more > 0 else ""),
            where=_PLACE,
            fix=(
                "remove it where it comes from and, if it is a secret, replace it at its issuer; if it is"
                f" none (`kind:` in place of sha256 answers for all of a kind in a file), say why:{lines}"
            ),
        )
    answered = {(each.file, name) for each in found for name in (each.sha256, each.kind)}
    stale = [each for each in waivers if (each.file, each.sha256 or each.kind) not in answered]
    if stale:
        names = ", ".join(f"{each.file} {each.kind or f'{each.sha256:.12}…'}" for each in stale[:_SHOWN])
        raise PackageError(
            "a finding behind every waiver",
            found=f"{len(stale)} without: {names}",
            where="package.waivers",
            fix="remove these waivers from the preset; what they answered for is no longer there",
        )


def _quoted(text: str) -> str:
    return ascii(text) if any(c in text for c in " :#{}[],&*!|>'\"%@`\\") else text


def cleared(
    members: Mapping[str, bytes | Path], known: Sequence[KnownSecret], waivers: Sequence[Waiver]
) -> list[SecretFound]:
    """Return the waived findings of a package, or refuse it.

    Raises:
        PackageError: As `scan` and `refuse`.
    """
    found = scan(members, known, waivers)
    refuse(found, waivers)
    return found
