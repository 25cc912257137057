"""`assay serve`: the evidence folder on this machine's own address, to read and nothing else."""

from __future__ import annotations

import errno
import io
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from assay.console import say
from assay.errors import NO_VERDICT, ConfigError, RecordError
from assay.evidence.page.shell import escaped, shell
from assay.stages.withdrawn import page
from assay.storage.files import real
from assay.tools.claim_shown import ClaimShown, project_of
from assay.tools.served_path import Opened, Refused, content_type, listed, names_of, open_inside

ADDRESS = "127.0.0.1"
HOSTS = ("127.0.0.1", "localhost", "[::1]")
SHORTCUTS = {"observed/live/index.html": "live page of a training", "results/report.html": "report", "README.md": "read me"}
REQUEST_S = 10.0  # for a whole request, however slowly it drips in
SEND_S = 30.0  # without any progress while an answer is sent
MOST_AT_ONCE = 128  # connections; more are told to come back
# Pages bring stricter rules of their own, by the digests of their scripts; both hold. Nothing else may act at all.
PAGE_RULES = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
OTHER_RULES = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"


def run(folder: Path, port: int) -> None:
    """Serve a folder until Ctrl-C.

    Raises:
        RecordError: There is no such folder.
        ConfigError: The port is taken, or not ours to take.
    """
    server = opened(folder, port)
    say(f"serving {folder} at http://{ADDRESS}:{server.server_address[1]}/   (read-only, this machine only; Ctrl-C ends it)")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def opened(folder: Path, port: int) -> Server:
    """Return a server that has its port and waits to be started; port 0 takes any that is free."""
    if not folder.is_dir():
        raise RecordError("a folder", found="none", where=str(folder), fix="name the evidence folder with --folder")
    try:
        return Server(real(folder), port)
    except OSError as error:
        found = "that another program uses it" if error.errno == errno.EADDRINUSE else str(error.strerror)
        raise ConfigError("a free port", found=found, where=f"{ADDRESS}:{port}", fix=f"--port {port + 1}") from None


class Server(ThreadingHTTPServer):
    """Serves one folder, a thread a connection, so many at once and no more."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, folder: Path, port: int) -> None:
        """Take the port."""
        self.folder = folder
        root = project_of(folder)
        self.claim = None if root is None else ClaimShown(root)
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__((ADDRESS, port), Handler)

    def server_bind(self) -> None:
        """Bind, without asking a name server what this machine is called."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = ADDRESS, int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, if there is one left."""
        if not self._free.acquire(blocking=False):
            try:
                request.settimeout(0.1)
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
            except OSError:
                pass
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that broke: browsers break them all the time."""


class _Dripping(io.RawIOBase):
    """Reads a connection, but not for longer than a request may take in all."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection, self._until = connection, time.monotonic() + REQUEST_S

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has come, waiting for the time that is left."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """Answers one request; each connection is closed after it."""

    server: Server

    def setup(self) -> None:
        """Bound the time of reading."""
        super().setup()
        self.rfile = io.BufferedReader(_Dripping(self.connection))

    def do_GET(self) -> None:
        """Send a file, or the list of a folder."""
        try:
            self._check_host()
            names = names_of(self.path)
            if why := self._withheld(names):
                self._send(409, "text/html; charset=utf-8", why.encode(), PAGE_RULES)
                return
            found = open_inside(self.server.folder, names)
        except Refused as refused:
            self._refuse(refused.status, refused.why)
            return
        self.connection.settimeout(SEND_S)
        if found.folder:
            try:
                self._send_list(found)
            finally:
                os.close(found.descriptor)
            return
        with os.fdopen(found.descriptor, "rb") as stream:
            if self.path.partition("?")[0].endswith("/"):
                self._refuse(404, "a file is no folder")
                return
            kind = content_type(found.names[-1])
            self._head(200, kind, found.size, PAGE_RULES if kind.startswith("text/html") else OTHER_RULES)
            if self.command == "GET" and found.size:
                self.wfile.flush()
                self.connection.sendfile(stream, 0, found.size)

    do_HEAD = do_GET

    def _withheld(self, names: tuple[str, ...]) -> str | None:
        """Return the page that stands in for one that shows a claim about other settings; None where there is none of it."""
        claim = self.server.claim
        if claim is None or not claim.bears_claim(self.server.folder.joinpath(*names)):
            return None
        found = claim.differences()
        return page(claim.data, found) if found else None

    def _no(self) -> None:
        self._refuse(405, "read-only: GET and HEAD")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _no

    def _check_host(self) -> None:
        """Refuse who came here under another name: a page of a stranger whose name was made to mean this machine."""
        hosts = self.headers.get_all("Host", [])
        name, _, port = hosts[0].strip().lower().rpartition(":") if len(hosts) == 1 else ("", "", "")
        if port.endswith("]") or not name:  # no port was given
            name, port = (f"{name}:{port}" if name else port), "0"
        if name not in HOSTS or not (port.isascii() and port.isdecimal()):
            raise Refused(421, "this server answers to 127.0.0.1 and localhost only")

    def _send_list(self, found: Opened) -> None:
        if not self.path.partition("?")[0].endswith("/"):
            self.send_response(301)
            self.send_header("Location", "/" + "/".join(quote(name, safe="") for name in found.names) + "/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        here = "/".join((self.server.folder.name, *found.names))
        links = [(quote(name, safe="/"), name) for name in listed(found)]
        if found.names:
            links.insert(0, ("../", "../"))
        first = [] if found.names else [(path, text) for path, text in SHORTCUTS.items() if self._stands(path)]
        items = "".join(f'<li><a href="{escaped(link)}">{escaped(text)}</a></li>' for link, text in [*first, *links])
        why = "" if found.names or not (odd := self._other_settings()) else f"<p>{escaped(NO_VERDICT)}: {escaped(odd)}</p>"
        body = f'<main id="main"><h1>{escaped(here)}</h1>{why}<ul>{items}</ul></main>'
        self._send(200, "text/html; charset=utf-8", shell(title=here, body=body).encode(), PAGE_RULES)

    def _other_settings(self) -> str:
        found = [] if self.server.claim is None else self.server.claim.differences()
        return found[0] if found else ""

    def _stands(self, path: str) -> bool:
        if self._withheld(tuple(path.split("/"))):
            return False
        try:
            os.close(open_inside(self.server.folder, tuple(path.split("/"))).descriptor)
        except Refused:
            return False
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse in plain text, quoting nothing of the request."""
        self._refuse(int(code), "not a request that is understood here")

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True
        self._send(status, "text/plain; charset=utf-8", f"{status}: {why}\n".encode(), OTHER_RULES)

    def _send(self, status: int, kind: str, content: bytes, rules: str) -> None:
        self._head(status, kind, len(content), rules)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _head(self, status: int, kind: str, size: int, rules: str) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind), ("Content-Length", str(size)), ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", rules), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"), *([("Allow", "GET, HEAD")] if status == 405 else []),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()

    def version_string(self) -> str:
        """Name the program, and no version of anything."""
        return "assay"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a page is loaded again every few seconds."""
