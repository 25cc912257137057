"""`assay publish push` sends what was checked, byte for byte, in one commit; half-sent is never done; no
token is shown."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.core.errors import PackageError
from assay.package.publish import push
from assay.package.verification import levels as levels_room
from assay.package.verification.checks import Check
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import sealed, write_gz, write_tar
from tests.house import ROOT
from tests.tools.fake_hub import TOKEN, FakeHub, serving

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)
REPO = "somebody/model"
FILES = {
    "README.md": b"---\nlicense: apache-2.0\n---\n# a model card\n",
    "verify.py": (ROOT / "src/assay/stages/packing/verify.py").read_bytes(),
    "provenance.json": b'{"format":"assay-package/7"}\n',
    "params.yaml": (ROOT / "params.yaml").read_bytes(),
    "models/adapter/adapter_model.safetensors": bytes(range(256)) * 40,
    "evidence/results/empty.jsonl": b"",
    "evidence/results/pre_eval/pre_eval.jsonl": '{"completion": "é\u2028"}\n'.encode(),
}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(push, "say", lines.append)
    return lines


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "assay-package.tar"
    write_tar(path, sealed(dict(FILES)), root="assay-package")
    return path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    from huggingface_hub import constants
    from huggingface_hub.utils import _http

    monkeypatch.setattr(
        constants, "HF_HUB_DISABLE_XET", True
    )  # its uploads go to servers that a fake cannot be
    monkeypatch.setattr(_http.time, "sleep", lambda seconds: None)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with serving() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


@pytest.fixture(autouse=True)
def levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """V1 to V3 need a whole run, and have tests of their own; V0 and the search for secrets are real here."""
    monkeypatch.setattr(levels_room, "all_levels", lambda *_, **__: iter(()))


def send(package: Path, **options: object) -> None:
    given = {"dry_run": False, "private": None, "revision": "main", "replace": False} | options
    push.run(package, REPO, **given)  # type: ignore[arg-type]


def refused(package: Path, **options: object) -> PackageError:
    with pytest.raises(PackageError) as error:
        send(package, **options)
    assert TOKEN not in str(error.value)
    return error.value


def test_every_file_arrives_byte_for_byte_and_plain_python_can_check_it_there(
    hub: FakeHub, package: Path, said: list[str], tmp_path: Path
) -> None:
    send(package)
    sent = dict(hub.files)
    assert sent.pop(".gitattributes")
    assert {name: sent[name] for name in FILES} == FILES
    assert set(sent) == set(FILES) | {"SHA256SUMS"}
    assert hub.of_large == {"models/adapter/adapter_model.safetensors"}
    assert sum("/commit/" in asked for asked in hub.asked) == 1 and hub.private is True
    assert hub.tokens == {f"Bearer {TOKEN}", None}  # none where a large file goes: its address says enough
    downloaded = tmp_path / "downloaded"
    for name, content in hub.files.items():
        (downloaded / name).parent.mkdir(parents=True, exist_ok=True)
        (downloaded / name).write_bytes(content)
    result = plain.check(downloaded, sha256=plain.check(package).sha256, allow=[".gitattributes"])
    assert result.ok, result
    assert any("with the digests they have here" in line for line in said) and TOKEN not in "\n".join(said)


def test_a_dry_run_lists_files_and_sizes_and_asks_no_network(
    hub: FakeHub, package: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def connects(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", connects)
    monkeypatch.delenv("HF_TOKEN")
    send(package, dry_run=True)
    assert hub.asked == []
    text = "\n".join(said)
    for name, content in FILES.items():
        assert f"{len(content):>12,}  {name}" in said
    for part in (f"{len(FILES) + 1} files", REPO, "nothing was sent", "private"):
        assert part in text


def test_sending_again_is_no_fault_and_another_package_may_replace_it(
    hub: FakeHub, package: Path, tmp_path: Path
) -> None:
    send(package)
    send(package)
    smaller = tmp_path / "smaller.tar.gz"
    less = {name: content for name, content in FILES.items() if "empty" not in name}
    write_tar(tmp_path / "smaller.tar", sealed(dict(less)), root="assay-package")
    write_gz(smaller, tmp_path / "smaller.tar")
    before = dict(hub.files)
    error = refused(smaller)
    assert "evidence/results/empty.jsonl" in error.found and "--replace" in error.fix and hub.files == before
    send(smaller, replace=True)
    assert "evidence/results/empty.jsonl" not in hub.files and ".gitattributes" in hub.files


def test_a_branch_is_made_and_main_stays_as_it_is(hub: FakeHub, package: Path) -> None:
    send(package, revision="run-2", private=False)
    assert set(hub.files) == {".gitattributes"} and hub.private is False
    assert set(FILES) < set(hub.branches["run-2"])


def test_what_was_asked_to_be_private_is_not_made_public(hub: FakeHub, package: Path) -> None:
    send(package, private=False)
    n = sum("/commit/" in asked for asked in hub.asked)
    error = refused(package, private=True)
    assert "a private repository" in error.expected and sum("/commit/" in asked for asked in hub.asked) == n


@pytest.mark.parametrize(
    ("request_", "status", "word"),
    [
        ("GET /api/whoami-v2", 401, "hf auth login"),
        ("POST /api/repos/create", 403, "write access"),
        ("POST /api/models/somebody/model/preupload", 403, "write access"),
        ("POST /somebody/model.git/info/lfs", 500, "trouble of its own"),
        ("PUT /put/", 503, "trouble of its own"),
        ("POST /api/models/somebody/model/commit", 409, "somebody else"),
        ("POST /api/models/somebody/model/commit", 412, "somebody else committed"),
        ("POST /api/models/somebody/model/commit", 500, "trouble of its own"),
        ("GET /api/models/somebody/model/tree", 502, "trouble of its own"),
        ("POST /api/models/somebody/model/preupload", 429, "wait"),
        ("POST /api/repos/create", 200, "no hub"),
    ],
)
def test_each_failure_of_the_hub_is_one_message_with_a_fix(
    hub: FakeHub, package: Path, said: list[str], request_: str, status: int, word: str
) -> None:
    hub.fail[request_] = status
    error = refused(package)
    assert f"HTTP {status}" in error.found or status == 200
    assert word in error.fix and REPO in error.where
    assert not any("are at" in line for line in said)
    if hub.branches:
        assert set(hub.files) == {".gitattributes"}


def test_a_hub_that_is_not_there_or_never_answers_is_told_as_such(
    hub: FakeHub, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        monkeypatch.setattr(push, "SILENCE_S", 0.2)
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{mute.getsockname()[1]}")
        assert "none in" in refused(package).found
    monkeypatch.setenv(
        "HF_ENDPOINT", f"http://127.0.0.1:{mute.getsockname()[1] if mute.fileno() >= 0 else 9}"
    )
    assert "can be reached" in refused(package).expected


@pytest.mark.parametrize(("what", "word"), [("lose", "is missing"), ("spoil", "has another content")])
def test_nothing_half_sent_is_called_done(
    hub: FakeHub, package: Path, said: list[str], what: str, word: str
) -> None:
    for name in ("params.yaml", "models/adapter/adapter_model.safetensors"):
        setattr(hub, what, name)
        error = refused(package, replace=True)
        assert f"{name} {word}" in error.found and "not the package" in error.fix
    assert not any("are at" in line for line in said)


def test_without_a_token_nothing_is_checked_and_nothing_is_asked(
    hub: FakeHub, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert "hf auth login" in refused(package).fix and hub.asked == []


@pytest.mark.parametrize(
    "breaks", [lambda b: b[:-1024], lambda b: b.replace(b"# a model card", b"# a model cart")]
)
def test_a_package_that_fails_a_check_is_not_sent(
    hub: FakeHub, package: Path, breaks: Callable[[bytes], bytes]
) -> None:
    package.write_bytes(breaks(package.read_bytes()))
    error = refused(package)
    assert "V0" in error.found and "assay verify" in error.fix and hub.asked == []


def test_a_level_above_the_files_refuses_as_well(
    hub: FakeHub, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Check(level="V2", name="grading", outcome="failed", found="item 7")
    monkeypatch.setattr(push, "verified", lambda *_: iter([failed]))
    assert "V2, grading: item 7" in refused(package).found and hub.asked == []


def test_a_secret_in_a_package_of_elsewhere_is_not_sent(hub: FakeHub, tmp_path: Path) -> None:
    leaky = tmp_path / "leaky.tar"
    files = FILES | {"evidence/results/post_eval/post_eval.jsonl": f'{{"completion": "{TOKEN}"}}\n'.encode()}
    write_tar(leaky, sealed(dict(files)), root="assay-package")
    error = refused(leaky)
    assert "evidence/results/post_eval/post_eval.jsonl:1" in error.found and hub.asked == []


def test_an_archive_that_changes_behind_the_checks_is_not_sent(
    hub: FakeHub, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.tar"
    write_tar(other, sealed(FILES | {"LICENSE": b"another\n"}), root="assay-package")
    real = push.verified

    def swapped(*given):  # type: ignore[no-untyped-def]
        yield from real(*given)
        shutil.copy(other, package)

    monkeypatch.setattr(push, "verified", swapped)
    assert "the archive that was checked" in refused(package).expected and hub.asked == []


@pytest.mark.parametrize("repo_id", ["model", "a/b/c", "../x", "a/ b", "https://hub/a/b", "/a"])
def test_what_is_no_name_of_a_repository_is_refused(package: Path, repo_id: str) -> None:
    with pytest.raises(PackageError, match="owner/name"):
        push.run(package, repo_id, dry_run=True, private=None, revision="main", replace=False)
    with pytest.raises(PackageError, match="an archive"):
        push.run(package.parent, REPO, dry_run=True, private=None, revision="main", replace=False)
