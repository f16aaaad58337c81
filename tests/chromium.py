"""Debian's Chromium without a window.

The browser is spoken to over the DevTools protocol's pipe, so that no port is opened: messages are JSON, each ended by
a NUL byte, on its file descriptors 3 and 4 (https://chromedevtools.github.io/devtools-protocol/).
"""

import base64
import fcntl
import json
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMANDS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 90.0  # seconds for one answer: a slow machine starts a browser in a tenth of it
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe")


def find() -> str:
    """The command of an installed Chromium, or ""."""
    return next((found for command in COMMANDS if (found := shutil.which(command))), "")


class Tab:
    """One tab, and all that happened in it."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self.browser, self.session = browser, session
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method."""
        return self.browser.call(method, parameters, self.session)

    def open(self, path: Path, width: int, scheme: str = "light", media: str = "") -> None:
        """Load a file at a width, in a colour scheme; returns once it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.browser.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.browser.wait("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """What an expression comes to in the page: DevTools may run code where the page itself must not."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened, the page itself left out; data in the page is no request."""
        asked = [event["params"]["request"]["url"] for event in self._of("Network.requestWillBeSent")]
        return [url for url in asked[1:] if not url.startswith("data:")]

    def complaints(self) -> list[str]:
        """What the console says: errors, warnings, refused by policy, exceptions."""
        said = [event["params"]["entry"]["text"] for event in self._of("Log.entryAdded")]
        said += [str(event["params"]["args"]) for event in self._of("Runtime.consoleAPICalled")]
        return said + [str(event["params"]["exceptionDetails"]) for event in self._of("Runtime.exceptionThrown")]

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        return base64.b64decode(shot["data"])

    def pdf(self) -> bytes:
        """The page, printed on A4."""
        printed = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False)
        return base64.b64decode(printed["data"])

    def _of(self, method: str) -> list[dict[str, Any]]:
        return [event for event in self.browser.events if event["method"] == method]


class Browser:
    """A running browser."""

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int) -> None:
        self.process, self.write, self.read = process, write, read
        self.events: list[dict[str, Any]] = []
        self._left, self._number = b"", 0
        self._ready = selectors.DefaultSelector()
        self._ready.register(read, selectors.EVENT_READ)

    def tab(self) -> Tab:
        """A new tab."""
        target = self.call("Target.createTarget", {"url": "about:blank"}, "")["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True}, "")["sessionId"]
        return Tab(self, session)

    def call(self, method: str, parameters: dict[str, Any], session: str) -> dict[str, Any]:
        """Send a message and read until its answer comes. AssertionError for an error."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        rest = memoryview(json.dumps(message).encode() + b"\0")
        while rest:
            rest = rest[os.write(self.write, rest) :]
        while True:
            heard = self._hear()
            if heard.get("id") == self._number:
                if "error" in heard:
                    raise AssertionError(f"{method}: {heard['error']}")
                result: dict[str, Any] = heard["result"]
                return result

    def wait(self, method: str) -> None:
        """Read until an event comes, or has come."""
        while not any(event["method"] == method for event in self.events):
            self._hear()

    def _hear(self) -> dict[str, Any]:
        """The next message; events are kept."""
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._left:
            if not self._ready.select(max(0.0, until - time.monotonic())):
                raise AssertionError(f"the browser said nothing for {PATIENCE:g} s")
            part = os.read(self.read, 1 << 20)
            if not part:
                raise AssertionError(f"the browser left with {self.process.wait()}")
            self._left += part
        line, _, self._left = self._left.partition(b"\0")
        heard: dict[str, Any] = json.loads(line)
        if "method" in heard:
            self.events.append(heard)
        return heard


@contextmanager
def running(profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own, ended afterwards."""
    theirs_read, ours_write = os.pipe()
    ours_read, theirs_write = os.pipe()
    command = [find(), *FLAGS, *QUIET, f"--user-data-dir={profile}", "about:blank"]

    def connect() -> None:
        """In the browser's process: both ends away from 3 and 4 first, so that neither is overwritten."""
        one, other = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_read, theirs_write))
        os.dup2(one, 3)
        os.dup2(other, 4)

    process = subprocess.Popen(
        command,
        preexec_fn=connect,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_read)
    os.close(theirs_write)
    try:
        yield Browser(process, ours_write, ours_read)
    finally:
        os.close(ours_write)  # the browser leaves when its pipe ends
        os.close(ours_read)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
