"""A headless Chromium, driven over the pipe of its debugging protocol: no driver needed."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from base64 import b64decode
from io import BytesIO
from pathlib import Path

from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--no-default-browser-check",
    "--disable-sync", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE_S = 60.0


def find():
    """The browser's path, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one page. Messages go to its file descriptor 3 and come from 4, each ended by a NUL byte."""

    def __init__(self, profile: Path):
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        # Above 4, so that laying one over 3 or 4 cannot hit another of them.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_read, to_write)]
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            [find(), *FLAGS, *sandbox, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,  # all of ours close themselves on exec; 3 and 4 must stay
            preexec_fn=lambda: [os.dup2(end, fd) for fd, end in zip((3, 4), ends, strict=True)],
        )
        for end in (to_read, to_write, *ends):
            os.close(end)
        self._bytes, self._last, self._session = b"", 0, None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """Sends a command and returns its result; events that come meanwhile are kept."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            output = self._receive()
            if output.get("id") == self._last:
                assert "error" not in output, (method, output["error"])
                return output["result"]

    def _receive(self):
        until = time.monotonic() + PATIENCE_S
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser said nothing for {PATIENCE_S:.0f} s"
            part = os.read(self._from, 1 << 16)
            assert part, "the browser ended"
            self._bytes += part
        line, _, self._bytes = self._bytes.partition(b"\0")
        output = json.loads(line)
        if "method" in output:
            self.events.append(output)
        return output

    def open(self, url):
        """Loads a page afresh."""
        for address in ("about:blank", url):
            before = len(self.events)
            self.call("Page.navigate", url=address)
            while not any(e["method"] == "Page.loadEventFired" for e in self.events[before:]):
                self._receive()

    def run(self, script):
        """The value of an expression within the page; a promise is awaited."""
        output = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in output, output["exceptionDetails"]
        return output["result"].get("value")

    def look(self, width, height=900, dark=False, phone=False):
        """Sets the size of the window and what the reader prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def key(self, key, code=None, text=None):
        """Presses a key and lets it go."""
        about = {
            "key": key,
            "code": code or key,
            "windowsVirtualKeyCode": {"Tab": 9, "Enter": 13}.get(key, 0),
        }
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text):
        """Types into what has the focus."""
        self.call("Input.insertText", text=text)

    def settle(self):
        """Waits until timers and history have done what was asked of them."""
        self.run("new Promise(done => setTimeout(() => requestAnimationFrame(() => setTimeout(done)), 150))")

    def screenshot(self, path):
        path.write_bytes(b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def pixel(self, x, y):
        """Red, green and blue of a place of the window."""
        data = b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        return Image.open(BytesIO(data)).convert("RGB").getpixel((round(x), round(y)))

    def pdf(self, path, **options):
        path.write_bytes(b64decode(self.call("Page.printToPDF", **options)["data"]))

    def complaints(self):
        """Errors and warnings of the console, exceptions, refusals of the content policy."""
        result = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                result.append(params["exceptionDetails"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled":
                result.append(f"{params['type']}: {params['args']}")
            elif event["method"] == "Log.entryAdded":
                result.append(params["entry"]["text"])
        return result

    def requests(self):
        """Addresses that were asked for, those within the page itself left out."""
        urls = [
            e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("data:", "about:"))]

    def close(self):
        """Ends the browser, and takes care that it has ended."""
        try:
            self._session = None
            self.call("Browser.close")
            self.process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait(10)
        finally:
            os.close(self._to)
            os.close(self._from)
