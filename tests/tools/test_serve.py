"""`assay runs serve` gives out whole files of one folder, to this machine, and nothing else, however it is
asked."""

from __future__ import annotations

import hashlib
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.cli.tools.watch import serve
from assay.core.errors import ConfigError, RecordError
from assay.core.storage.files import write_bytes
from tests.house import ROOT

SECRET = b"THE-SECRET-OUTSIDE"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evidence folder with something to find outside of it, and ways that might lead there."""
    root = tmp_path_factory.mktemp("project")
    evidence = root / "evidence"
    for name, content in (
        ("results/report/report.html", b"<p>report"),
        ("results/post_eval.jsonl", b'{"completion":"<script>alert(1)</script>"}\n'),
        ("results/a.svg", b"<svg/>"),
        ("results/a.png", b"\x89PNG"),
        ("results/a.csv", b"step\n1\n"),
        ("results/a.json", b"{}"),
        ("results/empty.txt", b""),
        ("results/odd.bin", b"\0\1"),
        ("README.md", b"# read me"),
        ("results/.hidden", SECRET),
        (".git/config", SECRET),
        ("observed/live/index.html", b"<p>live"),
        ("results/with space & <b>.txt", b"spaced"),
        ("results/100%.txt", b"percent"),
    ):
        write_bytes(evidence / name, content)
    write_bytes(root / "secret.txt", SECRET)
    write_bytes(root / "evidence-2/secret.txt", SECRET)
    (evidence / "link.txt").symlink_to(root / "secret.txt")
    (evidence / "out").symlink_to(root)
    (evidence / "inside.txt").symlink_to(evidence / "README.md")
    (evidence / "loop").symlink_to(evidence / "loop")
    os.mkfifo(evidence / "pipe.txt")
    return evidence


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    yield from serving(folder)


def serving(folder: Path) -> Iterator[int]:
    server = serve.open_server(folder, 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def raw(port: int, request: bytes) -> bytes:
    """Send bytes and return all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def ask(
    port: int, target: bytes, method: bytes = b"GET", host: bytes = b"localhost:1"
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of a request whose target is sent as it is."""
    head, _, body = raw(port, method + b" " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n").partition(
        b"\r\n\r\n"
    )
    first, *rest = head.decode("latin-1").split("\r\n")
    return int(first.split(" ")[1]), dict(line.split(": ", 1) for line in rest), body


TRICKS = b"""
/../secret.txt /../../secret.txt /results/../../secret.txt /results/../README.md /./README.md
/%2e%2e/secret.txt /%2E%2E/secret.txt /.%2e/secret.txt /%2e./secret.txt /results/%2e%2e/%2e%2e/secret.txt
/..%2fsecret.txt /..%2Fsecret.txt /%2e%2e%2fsecret.txt /results%2freport.html /%2fetc/passwd
/%252e%252e/secret.txt /%25%32%65%25%32%65/secret.txt /..%252fsecret.txt /%c0%ae%c0%ae/secret.txt
/%c0%2e%c0%2e/secret.txt /%e0%80%ae%e0%80%ae/secret.txt /..%c0%afsecret.txt /%uff0e%uff0e/secret.txt
/%ef%bc%8e%ef%bc%8e/secret.txt /..\\secret.txt /..%5csecret.txt /results\\..\\..\\secret.txt
/%5c%5chost/share \\..\\secret.txt /C:/windows/win.ini /c:secret.txt /C%3a/windows /README.md::$DATA
//etc/passwd ///etc/passwd //evidence-2/secret.txt /results//report.html /etc/passwd etc/passwd
../secret.txt .. file:///etc/passwd http://evil.example/README.md * /README.md%00.txt /%00
/..%00/secret.txt /README.md\x00 /\x00 /.git/config /.git/ /%2egit/config /results/.hidden /. /.. /...
/....//secret.txt /..;/secret.txt /;/../secret.txt /link.txt /out/secret.txt /out/ /out /inside.txt /loop
/pipe.txt /README.md/ /README.md/x /../evidence-2/secret.txt /%2e%2e/evidence-2/secret.txt /~root/
/~/secret.txt /$HOME/secret.txt /`id` /proc/self/environ /dev/stdin /CON /nul /README.md#/../secret.txt
/\xff\xfe /%ff /README.md%0d%0aX-Evil:%201 /%0a /\x1b[2J /%E2%80%AEtxt /README.md%20 /README.MD
/readme.md%2f..%2f..
""".split()
TRICKS += [
    "/\uff0e\uff0e/secret.txt".encode(),
    b"/a" * 600,
    b"/" + b"a" * 300,
    b"/" + b"../" * 300,
    b"/" + b"%2e%2e/" * 100 + b"etc/passwd",
    "/\u202etxt".encode(),
]


@pytest.mark.parametrize("trick", TRICKS, ids=[ascii(trick)[2:42] for trick in TRICKS])
def test_no_path_trick_gets_a_file(port: int, trick: bytes) -> None:
    answer = raw(port, b"GET " + trick + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    status = int(answer.split(b" ")[1])
    assert status in (400, 404)
    assert not any(text in answer for text in (SECRET, b"root:", b"X-Evil", b"# read me"))
    assert b"\r\n\r\n" in answer and len(answer.partition(b"\r\n\r\n")[2]) < 100, "a refusal quotes nothing"


def test_a_query_is_no_part_of_a_path(port: int) -> None:
    assert ask(port, b"/README.md?file=../../secret.txt")[2] == b"# read me"


PLAIN = "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("results/report/report.html", "text/html; charset=utf-8"),
        ("results/a.svg", "image/svg+xml"),
        ("results/a.png", "image/png"),
        ("results/a.csv", "text/csv; charset=utf-8"),
        ("results/a.json", "application/json"),
        ("results/odd.bin", "application/octet-stream"),
        *((f"results/{name}", PLAIN) for name in ("post_eval.jsonl", "empty.txt", "100%25.txt")),
        *((name, PLAIN) for name in ("README.md", "results/with%20space%20&%20%3Cb%3E.txt")),
    ],
)
def test_a_file_comes_whole_with_its_type_and_rules(port: int, folder: Path, name: str, kind: str) -> None:
    from urllib.parse import unquote

    status, headers, body = ask(port, f"/{name}".encode())
    assert (status, body) == (200, (folder / unquote(name)).read_bytes())
    assert headers["Content-Type"] == kind and headers["Content-Length"] == str(len(body))
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert ("sandbox" in headers["Content-Security-Policy"]) == (not kind.startswith("text/html"))
    again, same, nothing = ask(port, f"/{name}".encode(), b"HEAD")
    assert (again, nothing) == (200, b"") and same["Content-Length"] == headers["Content-Length"]


def test_it_opens_with_the_live_page_or_the_report_whichever_is_newer(port: int, folder: Path) -> None:
    live, report = folder / "observed/live/index.html", folder / "results/report/report.html"
    for newer, older in ((live, report), (report, live)):
        os.utime(older, (1_000, 1_000))
        os.utime(newer, (2_000, 2_000))
        status, headers, _ = ask(port, b"/")
        assert (status, headers["Location"]) == (302, f"/{newer.relative_to(folder)}")


def test_a_folder_is_listed_without_links_and_hidden_files_and_with_names_as_text(port: int) -> None:
    status, headers, body = ask(port, b"/?files")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert b'href="/observed/live/index.html"' in body and b'href="/results/report/report.html"' in body
    for hidden in (b".git", b"link.txt", b'"out', b"loop", b"secret"):
        assert hidden not in body
    inner = ask(port, b"/results/")[2]
    assert (
        b"&lt;b&gt;" in inner and b"<b>" not in inner and b".hidden" not in inner and b"100%25.txt" in inner
    )
    assert ask(port, b"/results")[2] == inner


@pytest.mark.parametrize(
    "host",
    [b"localhost", b"127.0.0.1", b"[::1]", b"localhost:8765", b"127.0.0.1:80", b"[::1]:9", b"LOCALHOST"],
)
def test_this_machine_may_ask_by_its_own_names(port: int, host: bytes) -> None:
    assert ask(port, b"/README.md", host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        *b"evil.example evil.example:8765 localhost.evil.example localhost@evil.example 0.0.0.0".split(),
        *b"127.0.0.2 [::1].evil localhost:x localhost:80:80 ::1 2130706433 127.1".split(),
        *(b"", b"localhost\r\nHost: evil.example", b"evil.example\r\nHost: localhost"),
    ],
)
def test_a_page_that_calls_this_machine_by_another_name_gets_nothing(port: int, host: bytes) -> None:
    status, _, body = ask(port, b"/README.md", host=host)
    assert status == 421 and b"read me" not in body


def test_without_a_host_nothing_is_given(port: int) -> None:
    for request in (
        b"GET /README.md\r\n\r\n",
        b"GET /README.md HTTP/1.0\r\n\r\n",
        b"GET /README.md HTTP/1.1\r\n\r\n",
    ):
        assert b"read me" not in raw(port, request)


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "BREW"]
)
def test_nothing_but_reading_is_understood(port: int, folder: Path, method: str) -> None:
    before = sorted(folder.rglob("*"))
    status, _, body = ask(port, b"/README.md", method.encode())
    assert status == 501 and b"read me" not in body
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "request_",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1 x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
        b"\0" * 100 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"b" * 70000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_ends_with_a_refusal_and_the_server_lives(port: int, request_: bytes) -> None:
    try:
        answer = raw(port, request_)
    except ConnectionResetError:
        answer = b""
    assert not answer.startswith((b"HTTP/1.0 2", b"HTTP/1.0 3")) and b"Traceback" not in answer
    assert ask(port, b"/README.md")[0] == 200


def test_a_request_that_stops_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve.Handler, "timeout", 0.5)
    for port in serving(folder):
        assert raw(port, b"GET /README.md HTTP/1.1\r\n") == b""


def test_a_port_in_use_and_a_folder_that_is_none_are_one_message(port: int, folder: Path) -> None:
    with pytest.raises(
        ConfigError, match=f"127.0.0.1:{port}: expected a free port, found that another program uses it"
    ):
        serve.open_server(folder, port)
    with pytest.raises(RecordError, match="expected a folder, found none"):
        serve.open_server(folder / "README.md", 0)


def test_only_this_machine_is_listened_to(port: int) -> None:
    assert serve.ADDRESS == "127.0.0.1"
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", port), timeout=5).close()


def test_the_command_says_where_and_ends_with_ctrl_c(folder: Path) -> None:
    command = [sys.executable, "-m", "assay.cli", "runs", "serve", "--port", "0", "--folder", str(folder)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    port = int(line.split("http://127.0.0.1:")[1].split("/")[0])
    assert ask(port, b"/README.md")[2] == b"# read me"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


READERS, READS = 50, 2000


def signed(number: int, size: int) -> bytes:
    """Return a file that says itself whether it is whole."""
    body = (f"{number}\n" * (1 + size // 4)).encode()[:size] + b"\n"
    return body + hashlib.sha256(body).hexdigest().encode() + b"\n"


@pytest.mark.long
def test_fifty_readers_see_no_torn_file_in_2000_reads_while_files_are_replaced(tmp_path: Path) -> None:
    names = [f"file{k}.csv" for k in range(4)]
    chance = random.Random(0)
    for name in names:
        write_bytes(tmp_path / name, signed(0, 1000))
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    for k in range(READS):
        todo.put(names[k % len(names)])
    torn, seen, written = list[bytes](), set[bytes](), 0

    def read(port: int) -> None:
        while True:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                return
            answer = raw(port, b"GET /" + name.encode() + b" HTTP/1.0\r\nHost: localhost\r\n\r\n")
            head, _, body = answer.partition(b"\r\n\r\n")
            content, digest = body[:-65], body[-65:-1]
            seen.add(digest)
            if head[:12] != b"HTTP/1.0 200" or hashlib.sha256(content).hexdigest().encode() != digest:
                torn.append(answer[:200])

    for port in serving(tmp_path):
        readers = [threading.Thread(target=read, args=(port,)) for _ in range(READERS)]
        for reader in readers:
            reader.start()
        while any(reader.is_alive() for reader in readers):
            written += 1
            size = chance.choice((10, 1000, 40_000, 300_000))
            write_bytes(tmp_path / chance.choice(names), signed(written, size))
        for reader in readers:
            reader.join()
    assert torn == [] and todo.empty()
    assert written > 50 and len(seen) > 20, "the files were replaced while they were read"
