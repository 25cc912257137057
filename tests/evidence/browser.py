"""A headless Chromium for tests: opens a page from disk with the network off and tells what it did."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# axe-core, the rules of accessibility, as the wheel of .ci/axe.txt has it in the folder ASSAY_AXE.
AXE = next(Path(os.environ.get("ASSAY_AXE", os.devnull)).glob("axe_playwright_python-*.whl"), None)
NO_AXE = "ASSAY_AXE names no folder with the wheel of .ci/axe.txt; pip download brings it"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "about:blank",
)
# The browser reads commands from descriptor 3 and answers on descriptor 4.
PLACED = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3],"
    " sys.argv[3:])"
)


class Browser:
    """One page of a browser, steered through the pipe of its debugging protocol; `events` holds all it
    reported."""

    def __init__(self, to: int, back: int, seconds: float = 60.0) -> None:
        self._to, self._back, self._seconds = to, back, seconds
        self._text = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer to one command; what is reported meanwhile goes to `events`."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._number:
                assert "error" not in found, f"{method}: {found['error']}"
                return dict(found["result"])
            self.events.append(found)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._text:
            assert select.select([self._back], [], [], self._seconds)[0], "the browser says nothing"
            chunk = os.read(self._back, 1 << 20)
            assert chunk, "the browser went away"
            self._text += chunk
        one, _, self._text = self._text.partition(b"\0")
        return dict(json.loads(one))

    def open(self, page: Path, *, width: int = 1280, dark: bool = False, script: bool = True) -> None:
        """Open a file and wait until it is loaded; forgets the events of pages before."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.events = []
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        time.sleep(0.2)  # a timer of the page's own would not run where scripts are switched off
        self.value("1")

    def value(self, expression: str) -> Any:
        """Return the value of an expression on the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def barriers(self) -> list[str]:
        """Return what axe-core finds on the page as it stands: the broken rule, where, and why."""
        assert AXE is not None
        with zipfile.ZipFile(AXE) as wheel:
            self.value(wheel.read("axe_playwright_python/axe.min.js").decode() + "; 0")
        told = "axe.run().then(found => found.violations.flatMap("
        told += "rule => rule.nodes.map(node => `${rule.id}: ${node.target}: ${node.failureSummary}`)))"
        found = self.call("Runtime.evaluate", expression=told, returnByValue=True, awaitPromise=True)
        return list(found["result"]["value"])

    def key(self, name: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **typed
            )

    def requested(self) -> list[str]:
        """Return what the page asked for beside itself and the pictures in it."""
        urls = [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls[1:] if not url.startswith("data:")]

    def complaints(self) -> list[str]:
        """Return what stands in the console, exceptions and breaches of the page's policy included."""
        kinds = (
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
        )
        return [json.dumps(event) for event in self.events if event.get("method") in kinds]

    def picture(self, *, whole: bool = True) -> bytes:
        """Return the page as PNG, its whole length or what a window shows."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Give a browser with an empty profile in that folder; it ends with the block."""
    assert CHROMIUM is not None
    (his_in, to), (back, his_out) = os.pipe(), os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (his_in, his_out)]
    process = subprocess.Popen(
        [sys.executable, "-c", PLACED, *map(str, high), CHROMIUM, f"--user-data-dir={profile}", *FLAGS],
        pass_fds=high,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for fd in (his_in, his_out, *high):
        os.close(fd)
    try:
        yield Browser(to, back)
    finally:
        process.terminate()
        process.wait(timeout=30)
        os.close(to)
        os.close(back)
