"""The formats iri and iri-reference: URIs whose characters may be other than ASCII.

The package that jsonschema would take for them builds 39 grammars whenever it is imported, over a second in
every process, and refuses addresses of IPv6.
"""

from __future__ import annotations

from typing import Any

from rfc3986_validator import validate_rfc3986  # type: ignore[import-untyped]

# Source: RFC 3987, section 2.2, ucschar and iprivate; the former beyond the first plane are all but the last
# two of each plane, from E1000 on in the fourteenth.
_LETTERS = ((0xA0, 0xD7FF), (0xF900, 0xFDCF), (0xFDF0, 0xFFEF))
_PRIVATE = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))


def is_iri(value: Any, rule: str = "URI") -> bool:
    """Return whether a text is an IRI, or with the rule "URI_reference" a reference to one; other values are.

    Every character beyond ASCII that is allowed where it stands is percent-encoded, and a URI has to come
    out. Source: RFC 3987, section 3.1.

    >>> texts = ("http://m\u00fcller.example/?\ue000", "http://[::1]/", "no scheme", "x:\ue000")
    >>> [is_iri(text) for text in texts]
    [True, True, False, False]
    """
    if not isinstance(value, str):
        return True
    start, mark, rest = value.partition("?")
    if "#" in start:
        start, mark, rest = value, "", ""
    query, sign, fragment = rest.partition("#")
    parts = (_encoded(start), mark, _encoded(query, private=True), sign, _encoded(fragment))
    return None not in parts and bool(validate_rfc3986("".join(map(str, parts)), rule=rule))


def _encoded(text: str, *, private: bool = False) -> str | None:
    allowed = (*_LETTERS, *(_PRIVATE if private else ()))
    found = []
    for character in text:
        code = ord(character)
        beyond = 0x10000 <= code <= 0xEFFFD and code & 0xFFFF <= 0xFFFD and not 0xE0000 <= code < 0xE1000
        if code > 127 and not beyond and not any(low <= code <= high for low, high in allowed):
            return None
        found.append(character if code < 128 else "%20")
    return "".join(found)
