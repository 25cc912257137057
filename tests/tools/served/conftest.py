"""A project whose tasks a served model plays, and a server that is always right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.served.material import starred, write_project
from tests.tools.served.stand_in import StandIn, serving


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def project(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, without a key in the environment."""
    monkeypatch.chdir(made)
    monkeypatch.delenv("ASSAY_API_KEY", raising=False)
    return made


@pytest.fixture
def server() -> Iterator[StandIn]:
    with serving(starred) as known:
        yield known
