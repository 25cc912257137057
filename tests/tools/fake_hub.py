"""A hub on this machine, of which there is just what huggingface_hub asks for when a model repository is
written."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_" + "fakeFAKEfakeFAKEfakeFAKEfakeFAKE12"


class FakeHub:
    """What the hub holds and was asked; `fail` maps the start of "METHOD /path" to a status, `lose` names a
    file to drop."""

    def __init__(self) -> None:
        self.branches: dict[str, dict[str, bytes]] = {}
        self.private: bool | None = None
        self.large: dict[str, bytes] = {}
        self.of_large: set[str] = set()
        self.asked: list[str] = []
        self.fail: dict[str, int] = {}
        self.lose: str | None = None
        self.spoil: str | None = None
        self.url = ""
        self.tokens: set[str | None] = set()

    @property
    def files(self) -> dict[str, bytes]:
        """Files of the main branch."""
        return self.branches["main"]

    def commit_id(self, branch: str) -> str:
        """Return what stands for the newest commit of a branch."""
        content = sorted(
            (name, hashlib.sha1(body).hexdigest()) for name, body in self.branches[branch].items()
        )
        return hashlib.sha1(json.dumps(content).encode()).hexdigest()

    def branch_of(self, revision: str) -> str:
        """Return the branch that a branch's name or its newest commit means."""
        return next(b for b in self.branches if revision in (b, self.commit_id(b)))


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: Any = None) -> None:
        content = json.dumps({} if body is None else body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _handle(self) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        body = self._body()
        asked = f"{self.command} {path}"
        hub.asked.append(asked)
        hub.tokens.add(self.headers.get("Authorization"))
        for start, status in hub.fail.items():
            if asked.startswith(start):
                self._answer(status, {"error": f"no, {TOKEN}"})
                return
        parts = path.strip("/").split("/")
        if path == "/api/whoami-v2":
            self._answer(200, {"name": "somebody", "type": "user"})
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif parts[-4:] == ["info", "lfs", "objects", "batch"]:
            objects = [self._object(each) for each in json.loads(body)["objects"]]
            self._answer(200, {"transfer": "basic", "objects": objects})
        elif parts[0] == "put":
            hub.large[parts[1]] = body
            self._answer(200)
        elif parts[:2] == ["api", "models"]:
            self._repository(parts[4:], body)
        else:
            self._answer(404, {"error": "unknown"})

    do_GET = do_POST = do_PUT = _handle

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _create(self, asked: dict[str, Any]) -> None:
        if self.hub.private is not None:
            url = f"{self.hub.url}/somebody/{asked['name']}"
            self._answer(409, {"error": "You already created this model repo", "url": url})
            return
        self.hub.private = (
            asked.get("visibility", "private" if asked.get("private") else "public") == "private"
        )
        self.hub.branches["main"] = {".gitattributes": b"*.safetensors filter=lfs\n"}
        self._answer(200, {"url": f"{self.hub.url}/somebody/{asked['name']}"})

    def _object(self, each: dict[str, Any]) -> dict[str, Any]:
        if each["oid"] in self.hub.large:
            return dict(each)
        return each | {"actions": {"upload": {"href": f"{self.hub.url}/put/{each['oid']}"}}}

    def _repository(self, parts: list[str], body: bytes) -> None:
        hub = self.hub
        if hub.private is None:
            self._answer(404, {"error": "Repository not found"})
            return
        verb, revision = (parts[0], parts[1]) if len(parts) > 1 else ("", "main")
        if verb == "branch":
            hub.branches.setdefault(revision, dict(hub.files))
            self._answer(200)
        elif verb == "preupload":
            told = []
            for name in [each["path"] for each in json.loads(body)["files"]]:
                mode = "lfs" if name.endswith(".safetensors") else "regular"
                told.append({"path": name, "shouldIgnore": False, "oid": None, "uploadMode": mode})
            self._answer(200, {"files": told})
        elif verb == "commit":
            self._commit(revision, [json.loads(line) for line in body.split(b"\n") if line])
        elif verb == "tree":
            files = sorted(hub.branches[hub.branch_of(revision)].items())
            self._answer(200, [self._listed(*each) for each in files])
        else:
            sha = hub.commit_id(hub.branch_of(revision))
            named = {"id": "somebody/model", "modelId": "somebody/model"}
            self._answer(200, named | {"sha": sha, "private": hub.private})

    def _commit(self, revision: str, lines: list[dict[str, Any]]) -> None:
        hub, branch = self.hub, self.hub.branch_of(revision)
        head = next(line["value"] for line in lines if line["key"] == "header")
        if head.get("parentCommit", hub.commit_id(branch)) != hub.commit_id(branch):
            self._answer(412, {"error": "A commit has happened since."})
            return
        files = dict(hub.branches[branch])
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = hub.large[value["oid"]]
                hub.of_large.add(value["path"])
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        if hub.lose is not None:
            del files[hub.lose]
        if hub.spoil is not None:
            files[hub.spoil] = files[hub.spoil][:-1] + b"?"
        hub.branches[branch] = files
        commit = hub.commit_id(branch)
        self._answer(200, {"commitUrl": f"{hub.url}/somebody/model/commit/{commit}", "commitOid": commit})

    def _listed(self, name: str, body: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
        told: dict[str, Any] = {"type": "file", "path": name, "size": len(body), "oid": blob}
        if name in self.hub.of_large:
            told["lfs"] = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 130}
        return told


@contextmanager
def serving() -> Iterator[FakeHub]:
    """Serve a new hub on this machine while the block runs."""
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
