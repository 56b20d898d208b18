"""Debian's Chromium without a window, spoken to over a pipe. It is installed where it is absent, which needs root.

Only ``make test-long`` uses it.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PATIENCE_S = 60.0
_WORDS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
_COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


@dataclass(kw_only=True)
class Page:
    """A page as it was loaded.

    Attributes:
        complaints: What the browser's console said.
        asked: Addresses that were asked for, the page's own first.
    """

    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    tab: "_Tab"

    def value(self, expression: str) -> Any:
        """What an expression comes to in the page."""
        done = self.tab.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def picture(self) -> bytes:
        """The whole page as PNG."""
        return base64.b64decode(self.tab.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])


class Browser:
    """One that runs."""

    def __init__(self, pipe: "_Pipe") -> None:
        self._pipe = pipe

    def open(self, path: Path, width: int, *, dark: bool = False) -> Page:
        """A local file in a window so wide; a narrow one is a phone's."""
        target = self._pipe.call("Target.createTarget", url="about:blank")["targetId"]
        session = self._pipe.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = _Tab(self._pipe, session)
        for part in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{part}.enable")
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", features=[scheme])
        self._pipe.events.clear()
        tab.call("Page.navigate", url=path.resolve().as_uri())
        self._pipe.wait_for("Page.loadEventFired")
        page = Page(tab=tab)
        for event in self._pipe.events:
            if event["method"] in _COMPLAINTS:
                page.complaints.append(json.dumps(event["params"]))
            if event["method"] == "Network.requestWillBeSent":
                page.asked.append(event["params"]["request"]["url"])
        return page


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own; gone at the end."""
    _install()
    with tempfile.TemporaryDirectory(prefix="shardrel-browser-", ignore_cleanup_errors=True) as profile:
        process, pipe = _start([*_WORDS, f"--user-data-dir={profile}", "--remote-debugging-pipe"])
        try:
            yield Browser(pipe)
        finally:
            process.kill()
            process.wait(_PATIENCE_S)
            pipe.close()


class _Pipe:
    """Messages of the DevTools protocol, each with a zero byte behind it."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer
        self._pending = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda one: one.get("id") == message["id"])
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def wait_for(self, method: str) -> None:
        """Until an event has come, be it already."""
        if not any(event["method"] == method for event in self.events):
            self._until(lambda one: one.get("method") == method)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def _until(self, wanted: Any) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            message = self._next(deadline)
            if "method" in message:
                self.events.append(message)
            if wanted(message):
                return message

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._reader, 1 << 20)
            assert data, "the browser is gone"
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@dataclass(frozen=True)
class _Tab:
    pipe: _Pipe
    session: str

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask this tab."""
        return self.pipe.call(method, self.session, **params)


def _start(words: Sequence[str]) -> tuple["subprocess.Popen[bytes]", _Pipe]:
    """The browser reads from its descriptor 3 and writes to 4."""
    to_read, to_write = (_above(end) for end in os.pipe())
    from_read, from_write = (_above(end) for end in os.pipe())
    shell = ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{from_write}', "bash", "chromium", *words]
    process = subprocess.Popen(
        shell,
        pass_fds=(to_read, from_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    return process, _Pipe(from_read, to_write)


def _above(end: int) -> int:
    """The same end under a number that the shell does not use."""
    moved = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(end)
    return moved


def _install() -> None:
    with (Path(tempfile.gettempdir()) / "shardrel-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if shutil.which("chromium"):
            return
        subprocess.run(["apt-get", "update", "-q"], check=True, stdout=subprocess.DEVNULL)
        command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", "chromium"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
