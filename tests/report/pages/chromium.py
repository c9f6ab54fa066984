"""A headless Chromium, spoken to over a pipe: its DevTools protocol, with the standard library.

No port is opened. Everything that pages ask of the network, write to the console or fail at is
kept, for tests to look at.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

#: What Debian's package calls itself, then what others do.
PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
_PATIENCE_S = 60.0
_FLAGS = (
    "--headless",
    "--no-sandbox",  # root has none, and pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--lang=en",
    "--remote-debugging-pipe",
)
#: Keys by name: the key's code, and the text that pressing it writes.
_KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    " ": (32, " "),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
}


class Chromium:
    """One browser; ``open`` gives its pages."""

    def __init__(self, home: Path) -> None:
        self.home = home
        orders, self._orders = (_high(end) for end in os.pipe())
        self._told, told = (_high(end) for end in os.pipe())
        self._process = subprocess.Popen(
            [str(PROGRAM), *_FLAGS, f"--user-data-dir={home}/profile", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(home / "chromium.log").open("wb"),
            env={**os.environ, "HOME": str(home)},
            preexec_fn=lambda: (os.dup2(orders, 3), os.dup2(told, 4)),
            pass_fds=(3, 4),
        )
        os.close(orders)
        os.close(told)
        self._number, self._unread = 0, b""
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._orders)
        os.close(self._told)

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come meanwhile are kept."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": params}
        if session:
            order["sessionId"] = session
        os.write(self._orders, json.dumps(order).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer.get('error')}"
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._told], [], [], max(0, end - time.monotonic()))
            more = os.read(self._told, 1 << 20) if ready else b""
            assert more, f"Chromium is silent: {(self.home / 'chromium.log').read_text()}"
            self._unread += more
        message, _, self._unread = self._unread.partition(b"\0")
        found = json.loads(message)
        assert isinstance(found, dict)
        return found

    def open(self, path: Path, **media: str) -> Page:
        """Load a file in a page of its own, as ``prefers-color-scheme`` or so wants it."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.ask(f"{domain}.enable")
        features = [{"name": name.replace("_", "-"), "value": v} for name, v in media.items()]
        page.ask("Emulation.setEmulatedMedia", features=features)
        page.ask("Page.navigate", url=path.as_uri())
        page.do("new Promise(done => document.readyState === 'complete' ? done() : "
                "addEventListener('load', done))")  # fmt: skip
        return page


class Page:
    """A page of the browser."""

    def __init__(self, browser: Chromium, target: str, session: str) -> None:
        self.browser, self.target, self.session = browser, target, session

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.ask(method, self.session, **params)

    def do(self, script: str) -> Any:
        """Run a script past the page's policy, and give its value, awaited."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True,
                          returnByValue=True)  # fmt: skip
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def size(self, width: int, height: int) -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip

    def press(self, key: str) -> None:
        code, text = _KEYS[key]
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            own = {"text": text} if text and kind == "keyDown" else {}
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                     windowsVirtualKeyCode=code, **own)  # fmt: skip

    def point(self, selector: str) -> None:
        """Move the mouse to the middle of an element."""
        x, y = self._middle(selector)
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _middle(self, selector: str) -> tuple[float, float]:
        x, y = self.do(
            "(() => { const found = document.querySelector(" + json.dumps(selector) + ");"
            "found.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = found.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        return x, y

    def picture(self, path: Path) -> None:
        """Write what the window shows as PNG."""
        shot = self.ask("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(shot))

    def pdf(self) -> bytes:
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])

    def events(self, *methods: str) -> list[dict[str, Any]]:
        return [
            event["params"]
            for event in self.browser.events
            if event.get("sessionId") == self.session and event["method"] in methods
        ]

    def complaints(self) -> list[dict[str, Any]]:
        """Give everything on the console, uncaught errors and violations of the policy included."""
        return self.events("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")

    def requests(self) -> list[str]:
        """Give the addresses that were asked for, the page's own first."""
        sent = self.events("Network.requestWillBeSent")
        return [event["request"]["url"] for event in sent]

    def dialogs(self) -> list[dict[str, Any]]:
        return self.events("Page.javascriptDialogOpening")

    def close(self) -> None:
        self.browser.ask("Target.closeTarget", targetId=self.target)


def _high(end: int) -> int:
    """Move an end of a pipe beyond 3 and 4, where the browser looks for its own."""
    moved = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(end)
    return moved
