"""What a manifest says of the checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from assay.core.provenance import (
    ARITHMETIC,
    ENVIRONMENT,
    arithmetic,
    environment,
    git_state,
    host_and_path,
    remotes,
)


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def test_only_code_data_and_settings_count_as_modified(tmp_path: Path) -> None:
    for name in ("evidence/results/a.json", "src/a.py", "dvc.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    (tmp_path / "evidence/results/a.json").write_text("two")
    (tmp_path / "dvc.lock").write_text("two")
    assert git_state(tmp_path)["modified"] is False
    (tmp_path / "src/a.py").write_text("two")
    assert git_state(tmp_path)["modified"] is True


def test_outside_a_checkout_nothing_is_known(tmp_path: Path) -> None:
    assert git_state(tmp_path) == {"commit": None, "modified": None}


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("git@Host.example:team/code.git", "host.example/team/code.git"),
        ("host.example:code", "host.example/code"),
        ("ssh://git@host.example:2222/team/code", "host.example/team/code"),
        ("https://host.example:8443/team/code/?key=one#two", "host.example/team/code"),
        ("/srv/git/code", "local"),
        ("../code", "local"),
        ("C:\\code", "local"),
        ("C:/code", "local"),
        ("file:///srv/git/code", "local"),
        ("\\\\server\\code", "local"),
        ("ext::sh -c x", "unclear"),
        ("", "local"),
    ],
)
def test_a_remote_is_shown_as_host_and_path(address: str, shown: str) -> None:
    assert host_and_path(address) == shown


@pytest.mark.parametrize(
    "password", ["plain7", "a@at", "a/slash", "a:colon", "a#hash", "a?mark", "12345", "a@b/c:d"]
)
@pytest.mark.parametrize(
    "address",
    ["https://someone:{}@host.example/team/code", "ssh://someone:{}@host.example:22/x", "someone:{}@h:x"],
)
def test_no_part_of_a_login_is_ever_shown(address: str, password: str) -> None:
    shown = host_and_path(address.format(password))
    assert shown in ("host.example/team/code", "host.example/x", "unclear")


def test_remotes_of_a_checkout_are_listed_once_without_their_names(tmp_path: Path) -> None:
    git(tmp_path, "init")
    assert remotes(tmp_path) == []
    git(tmp_path, "remote", "add", "someones-fork", "https://someone:" + "hidden7@host.example/team/code")
    git(tmp_path, "remote", "add", "origin", "git@host.example:team/code")
    git(tmp_path, "remote", "add", "here", str(tmp_path))
    git(tmp_path, "remote", "set-url", "--push", "origin", "git@other.example:team/code")
    assert remotes(tmp_path) == ["host.example/team/code", "local", "other.example/team/code"]


def test_outside_a_checkout_there_are_no_remotes_to_know_of(tmp_path: Path) -> None:
    assert remotes(tmp_path) is None


def test_only_named_variables_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_EXP_NAME_TOKEN", "hidden")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert set(environment()) <= set(ENVIRONMENT) and environment()["OMP_NUM_THREADS"] == "3"


def test_what_decides_last_bits_names_processor_instructions_and_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = (
        "processor\t: 0\nmodel name\t: One 7\nflags\t\t: fpu avx2 sse4_2 fma avx\n\nprocessor\t: 1\nmodel"
        " name\t: Two\n"
    )
    monkeypatch.setattr(Path, "is_file", lambda self: True)
    monkeypatch.setattr(Path, "read_text", lambda self: told)
    for name in ARITHMETIC:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert arithmetic() == {
        "processor": "One 7",
        "instructions": "avx avx2 fma sse4_2",
        "ATEN_CPU_CAPABILITY": "avx2",
    }
    told = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
    assert arithmetic() | {"ATEN_CPU_CAPABILITY": ""} == {
        "processor": "0x41 0xd40",
        "instructions": "asimd sve",
        "ATEN_CPU_CAPABILITY": "",
    }
