"""The frame of a page lets nothing run but the script whose digest it names."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from assay.core.errors import EvidenceError
from assay.evidence.page.shell import escaped, shell


def policy(text: str) -> dict[str, str]:
    """Return the rules of a page by their names."""
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found is not None
    rules = [rule.strip().split(" ", 1) for rule in found[1].split(";")]
    return {name: value for name, value in rules}


def test_the_policy_names_script_and_style_by_their_digests() -> None:
    text = shell(title="t", body="<main id='main'></main>", script="'use strict';\n", style="b{color:red}")
    rules = policy(text)
    assert rules["default-src"] == "'none'" and "unsafe" not in str(rules)
    for tag in ("script", "style"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert inside is not None
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


def test_without_a_script_none_may_run_and_a_served_page_may_ask_its_server() -> None:
    assert policy(shell(title="t", body=""))["script-src"] == "'none'"
    rules = policy(shell(title="t", body="", served=True, refresh_seconds=5))
    assert rules["connect-src"] == "'self'" and rules["img-src"] == "data: 'self'"
    assert 'http-equiv="refresh" content="5"' in shell(title="t", body="", refresh_seconds=5)
    assert "connect-src" not in policy(shell(title="t", body=""))


@pytest.mark.parametrize("text", ["</script>", "</SCRIPT x", "a<!--b"])
def test_a_script_that_would_end_early_is_refused(text: str) -> None:
    with pytest.raises(EvidenceError, match="would end it"):
        shell(title="t", body="", script=text)


def test_a_style_that_would_end_early_is_refused() -> None:
    with pytest.raises(EvidenceError, match="would end it"):
        shell(title="t", body="", style="a{}</style>")


def test_the_title_is_text() -> None:
    assert "<title>&lt;/title&gt;\\u2028</title>" in shell(title="</title>\u2028", body="")
    assert escaped("\u202e\"'&") == "\\u202e&quot;&#x27;&amp;"
