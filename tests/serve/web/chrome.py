"""A real Chromium without a window, driven over its own protocol by a pipe.

Takes: the browser of the system. Gives: :class:`Page`, on which tests press keys and click where
something is, as a person would. Refuses: to wait for ever, and to leave a browser behind.

The protocol is JSON between two file descriptors, so no package is needed for it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from waiting import DEADLINE

_NAVIGATED = re.compile("context|navigated|Promise was collected", re.IGNORECASE)
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"),
    *("--disable-dev-shm-usage", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--disable-default-apps", "--mute-audio", "--hide-scrollbars"),
    *("--disable-extensions", "--no-default-browser-check", "--lang=en-US"),
    # A tab that is not in front must not be slowed down: on a busy machine it would hardly run.
    *("--disable-renderer-backgrounding", "--disable-background-timer-throttling"),
    "--disable-backgrounding-occluded-windows",
)
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37,
        "ArrowRight": 39, "Backspace": 8, " ": 32}  # fmt: skip
SEEN = """
window.__seen = {violations: [], errors: []};
document.addEventListener('securitypolicyviolation', (e) => window.__seen.violations.push(
    e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sourceFile));
window.addEventListener('error', (e) => window.__seen.errors.push(String(e.message)));
window.addEventListener('unhandledrejection', (e) => window.__seen.errors.push(String(e.reason)));
"""


def find() -> str | None:
    """The browser of this machine."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Chrome:
    """The process, and its answers by the number of what was asked."""

    def __init__(self, program: str, folder: Path) -> None:
        import fcntl  # Only POSIX has it, and only there is this tried.

        down, up = os.pipe(), os.pipe()
        # Above the two numbers that the browser expects, so that neither is in the other's way.
        reads, writes = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (down[0], up[1]))
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        self.process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$0" "$@" 3<&{reads} 4>&{writes}',
                program,
                *FLAGS,
                *root,
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            pass_fds=(reads, writes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
            start_new_session=True,
        )
        for fd in (down[0], up[1], reads, writes):
            os.close(fd)
        self._to, self._from = os.fdopen(down[1], "wb", 0), os.fdopen(up[0], "rb", 0)
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: dict[int, Queue[dict[str, Any]]] = {}
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        rest = b""
        while part := self._from.read(1 << 16):
            *whole, rest = (rest + part).split(b"\0")
            for each in whole:
                message = json.loads(each)
                if "id" in message:
                    self._waiting.pop(message["id"]).put(message)
                elif message["method"] in ("Runtime.exceptionThrown", "Log.entryAdded"):
                    self.events.append(message)

    def send(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        with self._lock:
            self._number += 1
            number = self._number
            answer = self._waiting[number] = Queue()
            told = {"id": number, "method": method, "params": params}
            self._to.write(json.dumps(told | ({"sessionId": session} if session else {})).encode())
            self._to.write(b"\0")
        try:
            found = answer.get(timeout=DEADLINE)
        except Empty:
            raise AssertionError(f"the browser does not answer {method}") from None
        if "error" in found:
            kind = Navigated if _NAVIGATED.search(found["error"]["message"]) else AssertionError
            raise kind(method, found["error"])
        result: dict[str, Any] = found["result"]
        return result

    @contextmanager
    def page(self, width: int = 1360, height: int = 860) -> Iterator[Page]:
        """A tab that shares nothing with others."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)
        session = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, session["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            page.send(f"{domain}.enable")
        page.send("Page.addScriptToEvaluateOnNewDocument", source=SEEN)
        page.resize(width, height)
        try:
            yield page
        finally:
            self.send("Target.disposeBrowserContext", browserContextId=context)

    def close(self) -> None:
        with suppress(AssertionError, OSError):
            self.send("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        self._to.close()
        self._from.close()


class Navigated(AssertionError):
    """The document in which an expression was evaluated is gone."""


class Page:
    """One tab."""

    def __init__(self, chrome: Chrome, session: str) -> None:
        self._chrome = chrome
        self._session = session

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self._chrome.send(method, self._session, **params)

    # -- looking -----------------------------------------------------------------------------

    def eval(self, expression: str) -> Any:
        """The value of an expression on the page; a promise is waited for, an element is true."""
        told = (
            f"(async () => {{ const v = await ({expression}); return v instanceof Node || v; }})()"
        )
        found = self.send(
            "Runtime.evaluate", expression=told, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, (expression, found["exceptionDetails"])
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Its value, once that is something; until then it may also fail."""
        deadline = time.monotonic() + DEADLINE
        tried = f"(() => {{ try {{ return ({expression}); }} catch {{ return false; }} }})()"
        while not (found := self._try(tried)):
            assert time.monotonic() < deadline, (expression, self.text("main")[:500], self.seen())
            time.sleep(0.02)
        return found

    def _try(self, expression: str) -> Any:
        """Its value; nothing while another document is being loaded."""
        with suppress(Navigated):
            return self.eval(expression)

    def text(self, selector: str) -> str:
        found = f"document.querySelector({json.dumps(selector)})"
        return str(self.eval(f"{found} ? {found}.innerText : ''"))

    def count(self, selector: str) -> int:
        return int(self.eval(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def seen(self) -> dict[str, list[str]]:
        """What the browser refused, and what failed, since the page was loaded."""
        found: dict[str, list[str]] = self.eval("window.__seen")
        return found

    def measure(self, expression: str) -> float:
        """Return the processor seconds of the page's main thread while a promise is waited for.

        They are the same on a busy machine, unlike the time between two frames.
        """
        self.send("Performance.enable", timeDomain="threadTicks")
        before = self._count_seconds()
        self.eval(expression)
        return self._count_seconds() - before

    def _count_seconds(self) -> float:
        metrics = self.send("Performance.getMetrics")["metrics"]
        return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")

    @property
    def hash(self) -> str:
        return str(self.eval("location.hash"))

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    # -- doing -------------------------------------------------------------------------------

    def open(self, address: str) -> None:
        """Anew, also where it is the same page at another place."""
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def resize(self, width: int, height: int) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip

    def prefer(self, scheme: str, motion: str = "reduce") -> None:
        """Colours and motion, as the system would say."""
        self.send(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": motion},
            ],
        )

    def click(self, selector: str, times: int = 1) -> None:
        """With the mouse, in the middle of the first that there is."""
        x, y = self.middle(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            more = {} if kind == "mouseMoved" else {"button": "left", "clickCount": times}
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def middle(self, selector: str) -> tuple[float, float]:
        self.wait(f"document.querySelector({json.dumps(selector)})")
        box = self.eval(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return box[0], box[1]

    def wheel(self, selector: str, down: float) -> None:
        x, y = self.middle(selector)
        self.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=down)

    def type(self, text: str) -> None:
        for letter in text:
            self.press(letter)

    def press(self, *keys: str) -> None:
        for key in keys:
            told: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, 0)}
            if key == "Enter":
                told["text"] = "\r"
            elif len(key) == 1:
                told["text"] = key
            self.send("Input.dispatchKeyEvent", type="keyDown", **told)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=key)


@contextmanager
def running(program: str, folder: Path) -> Iterator[Chrome]:
    chrome = Chrome(program, folder)
    try:
        yield chrome
    finally:
        chrome.close()
