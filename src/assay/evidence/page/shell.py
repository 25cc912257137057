"""The frame of every page of ours: one file, nothing from elsewhere, and a policy that lets nothing but our
own script run."""

from __future__ import annotations

import base64
import hashlib
import html

from assay.core.errors import EvidenceError
from assay.evidence.escape import visible
from assay.evidence.page.style import STYLE

MISSING_SCRIPT = "script-src 'none'"


def escaped(value: object) -> str:
    """Return any value as text of a page: markup is escaped, control and direction-changing characters are
    made visible.

    It may stand between tags and in a quoted attribute.

    >>> escaped("<b title='x'>")
    '&lt;b title=&#x27;x&#x27;&gt;'
    """
    return html.escape(visible(str(value)), quote=True)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _closed(text: str, tag: str) -> str:
    # The parser of a browser ends script and style at their closing tag wherever it stands, and "<!--"
    # changes how it reads on.
    low = text.lower()
    if f"</{tag}" in low or "<!--" in low:
        raise EvidenceError(
            f"a {tag} of ours", found="text that would end it", where="page.shell", fix="keep data out of it"
        )
    return text


def shell(
    *,
    title: str,
    body: str,
    script: str = "",
    style: str = "",
    refresh_seconds: int | None = None,
    served: bool = False,
) -> str:
    """Return a whole page around `body`, which is markup already (use `escaped` for every text in it); ends
    with a newline.

    The policy names our style and our script by their digests: no attribute `style`, no other script, nothing
    from the network. `served` lets the page also load images and data from the server it came from.
    `refresh_seconds` makes the browser load it again, without any script.

    Raises:
        EvidenceError: `script` or `style` holds text that would end its element (the caller's fault).
    """
    rules = _closed(STYLE + style, "style")
    own = " 'self'" if served else ""
    policy = [
        "default-src 'none'",
        f"style-src {_digest(rules)}",
        f"script-src {_digest(_closed(script, 'script'))}" if script else MISSING_SCRIPT,
        f"img-src data:{own}",
        *(["connect-src 'self'"] if served else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    refresh = (
        "" if refresh_seconds is None else f'<meta http-equiv="refresh" content="{int(refresh_seconds)}">'
    )
    code = f"<script>{script}</script>" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta'
        f' http-equiv="Content-Security-Policy" content="{"; ".join(policy)}"><meta name="viewport"'
        ' content="width=device-width,initial-scale=1"><meta name="referrer"'
        f' content="no-referrer">{refresh}<title>{escaped(title)}</title><style>{rules}</style></head><body><a'
        f' class="skip" href="#main">Skip to the content</a>\n{body}\n{code}</body></html>\n'
    )
