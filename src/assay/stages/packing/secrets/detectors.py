"""Tokens of some three hundred providers, by the detectors of Kingfisher with the rules of Betterleaks.

They are kept by others: https://github.com/mongodb/kingfisher, Apache-2.0. Nothing here asks a
provider whether a token is good: the part of the library that does is never called.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from kingfisher_sdk import Rules, Scanner

from assay.stages.packing.secrets.values import Hit, is_example

_NAME = re.compile(r"(?:betterleaks\.|veles\.secrets/)?(.+?)(?:\.\d+)?")
# Rules for what goes beside a secret and says where it is used.
_NO_SECRET = re.compile(r"-(?:id|url|host|name|domain|address|pub-key|public-key)")
_ENDS = bytes(c if (chr(c).isalnum() and c < 128) or c in b"\n_-.+/=:@~#?&%$!^*" else 32 for c in range(256))


@functools.cache
def _scanner() -> Scanner:
    """Compile the rules: four seconds, or half a second where an earlier call could keep them."""
    return Scanner(Rules(confidence="low"), base64=False)


def provider_tokens(text: bytes) -> Iterator[Hit]:
    """Yield the tokens of known providers in a text; the kind is the rule's name."""
    # Most rules want a blank or a quote at either end; a tag, a bracket or a byte of a picture is an end too.
    for found in (
        each for body in dict.fromkeys((text, text.translate(_ENDS))) for each in _scanner().scan(body)
    ):
        name = _NAME.fullmatch(found.rule_id)
        kind = name[1] if name else found.rule_id
        secret, start = found.secret.encode("utf-8", "surrogateescape"), found.location["start_offset"]
        if not found.visible or _NO_SECRET.search(kind) or not secret or is_example(secret):
            continue
        if text[start : start + len(secret)] != secret:  # of UTF-16 it tells the place in what it read
            start = text.find(secret)
        if start >= 0:
            yield Hit(kind, start, start + len(secret))
