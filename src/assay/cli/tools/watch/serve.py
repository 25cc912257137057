"""`assay runs serve`: the evidence folder on this machine's own address, to read and nothing else.

A page that shows a claim about other settings or data than those at hand is not given out.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any
from urllib.parse import quote, unquote

from assay.core.console import say
from assay.core.errors import NO_VERDICT, AssayError, ConfigError, RecordError
from assay.core.evidence_files import FILES
from assay.core.storage.files import real
from assay.pipeline.project import Project
from assay.stages.render_evidence.at_hand import LOCK, PARAMS, differences
from assay.stages.render_evidence.no_claim import SHOWN, withdrawn_page
from assay.verdict.evidence.page.shell import escaped, shell

ADDRESS = "127.0.0.1"
NAME = re.compile(r"[^./\\][^/\\]*")  # neither hidden nor a way to elsewhere
HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?", re.IGNORECASE)
PAGES = ("observed/live/index.html", "results/report/report.html")  # the newer one is where a visitor begins
FIRST = (*PAGES, "README.md")  # of the list of the folder
LIST = "files"  # /?files shows it
HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
TYPES = {".html": HTML, ".svg": "image/svg+xml", ".png": "image/png", ".json": "application/json"}
TYPES |= {".csv": "text/csv; charset=utf-8", ".jsonl": TEXT, ".md": TEXT, ".txt": TEXT}
# Pages bring stricter rules of their own, by digests of their scripts: both hold. Nothing else may act.
RULES = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; img-src data:"
PAGE_RULES = f"{RULES} 'self'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
PAGE_RULES += "form-action 'none'"
HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
HEADERS |= {"Cross-Origin-Resource-Policy": "same-origin"}


class ClaimShown:
    """Says whether a project's pages may be shown; looks again when a file that decides it changed."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.data, self._data_folder = self.root.name, self.root / "data"
        self._lock = threading.Lock()
        self._marks: dict[Path, tuple[int, int]] | None = None
        self._found: list[str] = []

    def bears_claim(self, path: Path) -> bool:
        """Return whether a path is, or lies in, what shows a claim; on a file system of any case, too."""
        if not path.is_relative_to(self.root):
            return False
        name = path.relative_to(self.root).as_posix().casefold()
        return any(f"{name}/".startswith(f"{shown.casefold()}/") for shown in SHOWN)

    def differences(self) -> list[str]:
        """Return in what the claim is about others than the settings and data at hand; nothing: show it."""
        with self._lock:
            marks = self._read_marks()
            if marks != self._marks:
                try:
                    project = Project.open(self.root)
                    self.data, self._data_folder = project.params.dataset.name, project.data("")
                    self._found = differences(project)
                except AssayError as error:
                    self._found = [f"{error.where}: expected {error.expected}, found {error.found}"]
                self._marks = marks
            return self._found

    def _read_marks(self) -> dict[Path, tuple[int, int]]:
        """Return what changes with each file that decides whether a claim is about this project."""
        files = [self.root / PARAMS, self.root / LOCK]
        for folder in (*(self.root / name for name in FILES), self._data_folder):
            files += folder.rglob("*")
        marks = {}
        for path in files:
            with suppress(OSError):
                found = path.stat()
                marks[path] = (found.st_mtime_ns, found.st_size)
        return marks


def run(folder: Path, port: int) -> None:
    """Serve a folder until Ctrl-C; errors as of `open_server`."""
    with open_server(folder, port) as server, suppress(KeyboardInterrupt):
        address = f"http://{ADDRESS}:{server.server_address[1]}/"
        say(f"serving {folder} at {address}   (read-only, this machine only; Ctrl-C ends it)")
        say(f"it opens with the live page or the report, whichever is newer; all files: {address}?{LIST}")
        server.serve_forever()


def open_server(folder: Path, port: int) -> EvidenceServer:
    """Return a server that has its port, for 0 any free one; an AssayError says what hinders."""
    if not folder.is_dir():
        raise RecordError("a folder", found="none", where=str(folder), fix="name one with --folder")
    try:
        return EvidenceServer(real(folder), port)
    except OSError as error:
        found = "that another program uses it" if error.errno == errno.EADDRINUSE else str(error.strerror)
        where, fix = f"{ADDRESS}:{port}", f"--port {port + 1}"
        raise ConfigError("a free port", found=found, where=where, fix=fix) from None


class EvidenceServer(ThreadingTCPServer):  # the one of HTTP asks a name server what this machine is called
    """Serves one folder, a thread a connection."""

    allow_reuse_address, daemon_threads, block_on_close, request_queue_size = True, True, False, 128

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        around = (up for up in (folder, *list(folder.parents)[:2]) if (up / PARAMS).is_file())
        root = next(around, None)
        self.claim = None if root is None else ClaimShown(root)
        super().__init__((ADDRESS, port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that broke: browsers break them all the time."""


class Handler(BaseHTTPRequestHandler):
    """Answers one request, and closes the connection."""

    server: EvidenceServer
    timeout = 10.0  # seconds without a byte
    server_version, sys_version = "assay", ""

    def do_GET(self) -> None:
        """Send a file, or the list of a folder."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not HOST.fullmatch(hosts[0].strip()):
            return self.send_error(421)  # a page of a stranger whose name was made to mean this machine
        target, _, query = self.path.partition("?")
        # Decoded after the split: an encoded slash stays in its name, and no such name is served.
        names = [unquote(name) for name in target.removesuffix("/").split("/")[1:]]
        path = self.server.folder.joinpath(*names)
        is_plain = all(NAME.fullmatch(name) and name.isprintable() for name in names)
        if not target.startswith("/") or not is_plain or os.path.realpath(path) != str(path):
            return self.send_error(404)  # hidden, or behind a link, wherever that leads
        if target == "/" and query != LIST and (begins := self._first_page()) is not None:
            return self._send(302, TEXT, b"", location=f"/{begins}")
        if os.path.isdir(path):
            return self._send(200, HTML, self._list(path).encode())
        claim = self.server.claim
        if claim is not None and self._is_withheld(path):
            return self._send(409, HTML, withdrawn_page(claim.data, claim.differences()).encode())
        if target.endswith("/") or not os.path.isfile(path):  # a pipe is never opened
            return self.send_error(404)
        try:
            content = path.read_bytes()
        except OSError:
            return self.send_error(404)
        return self._send(200, TYPES.get(path.suffix.lower(), "application/octet-stream"), content)

    do_HEAD = do_GET

    def _is_withheld(self, path: Path) -> bool:
        claim = self.server.claim
        return claim is not None and claim.bears_claim(path) and bool(claim.differences())

    def _first_page(self) -> str | None:
        """Return the page that was written last, of those that may be shown."""
        written = dict[str, float]()
        for name in PAGES:
            path = self.server.folder / name
            with suppress(OSError):
                if not path.is_symlink() and not self._is_withheld(path):
                    written[name] = path.stat().st_mtime
        return max(written, key=written.__getitem__, default=None)

    def _list(self, folder: Path) -> str:
        root, claim = self.server.folder, self.server.claim
        first = [path for path in map(root.joinpath, FIRST) if path.is_file() and not self._is_withheld(path)]
        shown = [path for path in sorted(folder.iterdir()) if path.name[0] != "." and not path.is_symlink()]
        names = [path.relative_to(root).as_posix() + "/" * path.is_dir() for path in [*first, *shown]]
        links = [f'<a href="/{quote(name)}">{escaped(name)}</a>' for name in names if name.isprintable()]
        items = "".join(f"<li>{link}</li>" for link in links)
        odd = claim.differences() if claim else []
        note = f"<p>{escaped(NO_VERDICT)}: {escaped(odd[0])}</p>" if odd else ""
        title = folder.relative_to(root.parent).as_posix()
        body = f'<main id="main"><h1>{escaped(title)}</h1>{note}<ul>{items}</ul></main>'
        return shell(title=title, body=body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse in plain text, quoting nothing of the request."""
        self._send(code, TEXT, f"{int(code)}: {HTTPStatus(code).phrase}\n".encode())

    def _send(self, status: int, kind: str, content: bytes, *, location: str = "") -> None:
        self.send_response(status)
        rules = PAGE_RULES if kind == HTML else f"{RULES}; sandbox"
        own = {"Content-Type": kind, "Content-Length": str(len(content)), "Content-Security-Policy": rules}
        for name, value in (HEADERS | own | ({"Location": location} if location else {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a page is loaded again every few seconds."""
