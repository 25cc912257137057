"""Packages of what only earlier versions can do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay.core.config.removed import LAST
from assay.core.errors import PackageError
from assay.package.checking import VerifyRequest, run
from assay.stages.packing.archive import sealed, write_tar
from assay.stages.packing.verify import FORMAT
from tests.composed import composed
from tests.house import ROOT

URL = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("base", {"kind": "served", "url": URL, "model": "my-base"}),
        ("train", {"kind": "external", "served": {"url": URL, "model": "my-tuned"}}),
        ("generation", {"backend": "vllm_server"}),
    ],
)
@pytest.mark.parametrize("other_code", [False, True])
def test_a_package_of_what_was_removed_is_one_message_with_the_version_that_checks_it(
    tmp_path: Path, section: str, values: dict[str, Any], other_code: bool
) -> None:
    package, params = tmp_path / "package.tar", json.dumps(composed("tiny") | {section: values})
    told = f'{{"format":"{FORMAT}"}}\n'
    write_tar(package, sealed({"params.yaml": params.encode(), "provenance.json": told.encode()}))
    with pytest.raises(PackageError) as refused:
        run(package, VerifyRequest(other_code=other_code), None)
    assert f"params.yaml, {section}." in str(refused.value) and "removed" in refused.value.found
    assert f"commit {LAST} and --other-code" in refused.value.fix


def test_the_commit_that_is_named_has_what_was_removed() -> None:
    def has(what: str) -> bool:
        return subprocess.run(["git", "cat-file", "-e", what], cwd=ROOT, capture_output=True).returncode == 0

    if not has(LAST):
        pytest.skip("a copy without the history")
    for name in ("verify/content/served.py", "policy/backends/by_server.py"):
        assert has(f"{LAST}:src/assay/{name}") and not (ROOT / "src/assay" / name).exists()
