"""What the report and the front page of the site weigh: bytes by kind, elements, pixels, sheets of paper.

    .ci/site; ./run bench pages

Wants Chromium. With ASSAY_AXE (see .ci/run) the rules of accessibility that are broken are counted too. The
bytes of the site are those of the files that a first visit loads, as they lie on disk, not compressed.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.common import RESULTS, ROOT, options, written
from tests.evidence.browser import AXE, CHROMIUM, Browser, browser

from assay.core.evidence_files import place_of

RESULT = RESULTS / "pages.json"
KINDS = {
    "images": r"<img [^>]*?>|<svg.*?</svg>",
    "scripts": r"<script.*?</script>",
    "styles": r"<style.*?</style>",
}
FONT = re.compile(r"@font-face[^}]*}|url\([\"']?data:font/[^)]*\)", re.DOTALL)


def weigh_file(page: Path) -> dict[str, int]:
    """Return the bytes of one page that holds everything, by kind; `rest` is its text and tables."""
    text = page.read_text(encoding="utf-8")
    found = {"total": len(text.encode()), "fonts": sum(len(each.encode()) for each in FONT.findall(text))}
    rest = text
    for kind, pattern in KINDS.items():
        parts = re.findall(pattern, rest, re.DOTALL)
        found[kind] = sum(len(each.encode()) for each in parts)
        rest = re.sub(pattern, "", rest, flags=re.DOTALL)
    return found | {"rest": len(rest.encode())}


def weigh_loaded(page: Path, window: Browser) -> dict[str, int]:
    """Return the bytes of the files on disk that an open page loaded, by how their names end."""
    loaded = {Path(unquote(urlparse(url).path)) for url in window.requested() if url.startswith("file:")}
    found = Counter({"html": page.stat().st_size})
    for path in filter(Path.is_file, loaded):
        found[path.suffix.lstrip(".")] += path.stat().st_size
    return {"total": sum(found.values()), **dict(sorted(found.items()))}


def look(page: Path, window: Browser, *, alone: bool) -> dict[str, Any]:
    """Return what a page weighs and how large it is; `alone`: it is one file that holds everything."""
    window.open(page, width=390)
    height = "document.documentElement.scrollHeight"
    narrow = window.value(height)
    window.open(page)
    printed = window.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"]
    found = {
        "bytes": weigh_file(page) if alone else weigh_loaded(page, window),
        "asked_of_others": sum(not url.startswith("file:") for url in window.requested()),
        "elements": window.value("document.querySelectorAll('*').length"),
        "pixels_at_1280": window.value(height),
        "pixels_at_390": narrow,
        "sheets_of_A4": len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed))),
    }
    return found | ({} if AXE is None else {"rules_broken": len(window.barriers())})


def main() -> None:
    """Look at the report and at the front page of the site, if it was built, and write what they weigh."""
    parser: argparse.ArgumentParser = options(__doc__)
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("expected Chromium, found none. Fix: install it (Debian: apt install chromium)")
    pages = {
        "report": (ROOT / place_of("report.html"), True),
        "front page": (ROOT / "site/index.html", False),
    }
    with (
        tempfile.TemporaryDirectory(prefix="assay-pages-", ignore_cleanup_errors=True) as profile,
        browser(Path(profile)) as window,
    ):
        found = {
            name: look(page, window, alone=alone) for name, (page, alone) in pages.items() if page.is_file()
        }
    print(json.dumps(written(chosen.out, found, sort_keys=False), indent=2))


if __name__ == "__main__":
    main()
