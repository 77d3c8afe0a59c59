"""A dead man's switch for another machine: acts when KipwatchWatchdog stops arriving.

    python3 watchdog.py --listen 127.0.0.1:9095 --after 900 -- mail -s "kipwatch, silent" oncall@example.org

Alertmanager posts the alert that always fires to it (receiver `watchdog`). If none has arrived for `--after`
seconds, the command is run once; it runs again only after the alert has arrived meanwhile. GET answers 200
while the alert arrives, else 503. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ALERT = "KipwatchWatchdog"
POLL_SECONDS = 1.0
LONGEST_BODY = 1 << 20


class Switch:
    """Remembers when the alert last arrived, and whether the command has run since."""

    def __init__(self, after: float, command: list[str]) -> None:
        self._after, self._command = after, command
        # The start counts as an arrival, because Alertmanager needs time to send the alert.
        self._arrived_at, self._acted = time.monotonic(), False

    def record_arrival(self) -> None:
        """Wait anew, because the alert has arrived."""
        if self._acted:
            print("kipwatch is heard again", flush=True)
        self._arrived_at, self._acted = time.monotonic(), False

    def is_silent(self) -> bool:
        """Whether the alert has not arrived for too long."""
        return time.monotonic() - self._arrived_at > self._after

    def act(self) -> None:
        """Run the command once if the alert has not arrived for too long."""
        if self.is_silent() and not self._acted:
            print(f"no {ALERT} for {self._after:.0f} s: running {self._command[0]}", flush=True)
            status = subprocess.run(self._command, check=False).returncode
            # Retry a command that fails, such as mail without a network.
            self._acted = status == 0


def handler(switch: Switch) -> type[BaseHTTPRequestHandler]:
    """Return the handler of requests from Alertmanager and probes."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal():
                self._answer(411, "expected a Content-Length")
            elif _is_watchdog(self.rfile.read(min(int(length), LONGEST_BODY))):
                switch.record_arrival()
                self._answer(200, "heard")
            else:
                self._answer(400, f"expected firing {ALERT}")

        def do_GET(self) -> None:
            self._answer(*((503, "silent") if switch.is_silent() else (200, "heard")))

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(f"{text}\n".encode())

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Log no request."""

    return Handler


def _is_watchdog(body: bytes) -> bool:
    try:
        alerts = json.loads(body)["alerts"]
        return any(alert["status"] == "firing" and alert["labels"]["alertname"] == ALERT for alert in alerts)
    except (ValueError, KeyError, TypeError):
        return False


def main() -> int:
    """Listen until interrupted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--listen", default="127.0.0.1:9095", metavar="HOST:PORT")
    parser.add_argument("--after", type=float, default=900.0, metavar="SECONDS")
    parser.add_argument("command", nargs="+", help="what to run")
    given = parser.parse_args()
    host, _, port = given.listen.rpartition(":")
    switch = Switch(given.after, given.command)
    server = ThreadingHTTPServer((host, int(port)), handler(switch))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"waiting for {ALERT} at {host}:{server.server_port}", flush=True)
    try:
        while True:
            time.sleep(min(POLL_SECONDS, given.after / 4))
            switch.act()
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
