"""The page of a server in a real browser: how soon it is painted, what it costs, how it looks.

    testing/page.py --port-program PROGRAM [--out FOLDER]

PROGRAM is the example `page` of `busbar-web`: a port with 64 devices and 500 sessions that change.
"""

import argparse
import base64
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

PAINT_MS = 300
# The server has run for seconds: the day that it tells of is made of the devices that it has.
A_DAY = """
const real = window.fetch;
window.fetch = async (url, options) => {
  const said = await real(url, options);
  if (!String(url).endsWith('/v1/history') || !said.ok) return said;
  const told = await said.json();
  const day = (f) => Array.from({ length: 1440 }, (_, minute) => f(minute));
  told.times = day((minute) => 1_700_000_000 + minute * told.step);
  told.devices.forEach((device, n) => {
    device.utilization = day((m) => ((m + n) % 240 < 20 ? null : (1 + Math.sin(m / 60 + n)) / 2));
    device.memory = day((m) => (m < 600 ? 0.2 : 0.7));
    device.sessions = day((m) => m % 8);
  });
  return new Response(JSON.stringify(told), { status: said.status, headers: said.headers });
};
"""
CPU_PERCENT = 2.0
SECONDS = 30


class Tab:
    """A tab of a browser, by its debugging protocol."""

    def __init__(self, url):
        host, path = url.removeprefix("ws://").split("/", 1)
        name, port = host.split(":")
        self.socket = socket.create_connection((name, int(port)), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        head = (
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        self.socket.sendall(head.encode())
        said = b""
        while not said.endswith(b"\r\n\r\n"):
            said += self.socket.recv(1)
        if b" 101 " not in said:
            raise RuntimeError(said)
        self.last = 0

    def _exactly(self, n):
        said = b""
        while len(said) < n:
            more = self.socket.recv(n - len(said))
            if not more:
                raise RuntimeError("the browser is gone")
            said += more
        return said

    def _message(self):
        text = b""
        while True:
            first, second = self._exactly(2)
            n = second & 127
            if n == 126:
                (n,) = struct.unpack(">H", self._exactly(2))
            elif n == 127:
                (n,) = struct.unpack(">Q", self._exactly(8))
            text += self._exactly(n)
            if first & 128:
                return json.loads(text)

    def call(self, method, **params):
        self.last += 1
        text = json.dumps({"id": self.last, "method": method, "params": params}).encode()
        n = len(text)
        size = bytes([128 | n]) if n < 126 else bytes([128 | 126]) + struct.pack(">H", n)
        mask = os.urandom(4)
        body = bytes(b ^ mask[i % 4] for i, b in enumerate(text))
        self.socket.sendall(b"\x81" + size + mask + body)
        while True:
            said = self._message()
            if said.get("id") == self.last:
                if "error" in said:
                    raise RuntimeError(said["error"])
                return said["result"]

    def value(self, expression):
        said = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in said:
            raise RuntimeError(said["exceptionDetails"])
        return said["result"].get("value")

    def until(self, expression):
        deadline = time.monotonic() + 60
        while not (value := self.value(expression)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{expression} did not come to be")
            time.sleep(0.05)
        return value

    def picture(self, path, width, height, dark):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        time.sleep(0.5)
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


def processor_seconds(pid):
    """What a process and all below it have used."""
    total = 0.0
    ticks = os.sysconf("SC_CLK_TCK")
    below = {pid}
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(") ", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / ticks)
    changed = True
    while changed:
        more = {p for p, (parent, _) in parents.items() if parent in below} - below
        changed = bool(more)
        below |= more
    for p in below:
        total += parents.get(p, (0, 0.0))[1]
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--port-program", required=True)
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--out", type=Path, default=Path("target/page"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    server = subprocess.Popen([args.port_program], stdout=subprocess.PIPE, text=True)
    profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    browser = None
    try:
        at = server.stdout.readline().strip()
        log = open(Path(profile.name) / "log", "w+")
        browser = subprocess.Popen(
            [
                args.browser,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-port=0",
                f"--user-data-dir={profile.name}/browser",
                "--window-size=1280,900",
                "about:blank",
            ],
            stderr=log,
            stdout=log,
        )
        told = Path(profile.name) / "browser/DevToolsActivePort"
        deadline = time.monotonic() + 60
        while not (told.exists() and told.read_text().count("\n")):
            if time.monotonic() > deadline:
                raise RuntimeError("the browser does not start:\n" + Path(log.name).read_text())
            time.sleep(0.1)
        port = told.read_text().split()[0]
        tabs = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json"))
        tab = Tab(next(t for t in tabs if t["type"] == "page")["webSocketDebuggerUrl"])
        tab.call("Page.enable")
        tab.call("Page.addScriptToEvaluateOnNewDocument", source=A_DAY)
        tab.call("Page.navigate", url=at)
        tab.until("document.querySelectorAll('#rows tr').length === 500")
        tab.until("document.querySelectorAll('#devices li').length === 64")
        tab.until("document.querySelectorAll('#leases tr').length === 16")
        tab.until("document.querySelectorAll('#waiting tr').length === 8")
        tab.until("document.querySelectorAll('#devices svg').length === 64")
        said = tab.value("document.querySelector('#devices svg').getAttribute('aria-label')")
        if "over the last 24 h" not in said:
            raise RuntimeError(f"the last day is not told: {said}")
        why = tab.value("document.querySelector('#waiting tr:nth-child(2)').textContent")
        if "behind user0@host" not in why or "held by" not in why:
            raise RuntimeError(f"who waits is not told why: {why}")
        paint = tab.until(
            "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
        )
        wrong = tab.value("document.querySelectorAll('#rows script, #devices script').length")
        time.sleep(5)
        before = [processor_seconds(browser.pid), processor_seconds(server.pid)]
        start = time.monotonic()
        time.sleep(SECONDS)
        took = time.monotonic() - start
        after = [processor_seconds(browser.pid), processor_seconds(server.pid)]
        page, port_cost = (100 * (a - b) / took for a, b in zip(after, before, strict=True))
        for name, width, height, dark in [
            ("light", 1280, 900, False),
            ("dark", 1280, 900, True),
            ("phone", 390, 844, False),
            ("phone-dark", 390, 844, True),
        ]:
            tab.picture(args.out / f"{name}.png", width, height, dark)
            tab.value("document.getElementById('sessions').scrollIntoView()")
            tab.picture(args.out / f"{name}-sessions.png", width, height, dark)
            tab.value("document.getElementById('leases-part').scrollIntoView()")
            tab.picture(args.out / f"{name}-leases.png", width, height, dark)
            tab.value("window.scrollTo(0, 0)")
        print(f"first paint after {paint:.0f} ms (at most {PAINT_MS})")
        print(
            f"of one core: the browser {page:.1f} %, the server {port_cost:.1f} % "
            f"(at most {CPU_PERCENT} each)"
        )
        print(f"pictures: {args.out}")
        if wrong or paint > PAINT_MS or page > CPU_PERCENT or port_cost > CPU_PERCENT:
            sys.exit("the page is not what it should be")
    finally:
        for child in (browser, server):
            if child:
                child.kill()
                child.wait()
        profile.cleanup()


if __name__ == "__main__":
    main()
