"""A real Alertmanager with the committed configuration, whose notifications are received on loopback."""

from __future__ import annotations

import email
import email.policy
import json
import shutil
import socketserver
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from streaming.broker.ports import free_ports
from streaming.observe import Server, start_alertmanager
from tests.repository.tree import ROOT

CONFIGURATION = ROOT / "deploy/alertmanager/alertmanager.yml"
LOOPBACK = ("127.0.0.1", 0)


@dataclass
class Notifications:
    """The notifications received so far. `chat` and `hooks` hold JSON bodies."""

    chat: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[dict[str, Any]] = field(default_factory=list)
    mail: list[EmailMessage] = field(default_factory=list)

    def titles(self) -> list[str]:
        """The titles of the messages in chat."""
        return [message["attachments"][0]["title"] for message in self.chat]


@contextmanager
def listening(server: socketserver.TCPServer) -> Iterator[tuple[str, int]]:
    """Serve in the background. Yields the address."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        host, port = server.socket.getsockname()
        yield host, port
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def web(received: list[dict[str, Any]]) -> Iterator[str]:
    """A web server that keeps the JSON posted to it. Yields its URL."""

    class WebHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named so in the base class)
            """Log nothing: tests look at what was received."""

    with listening(ThreadingHTTPServer(LOOPBACK, WebHandler)) as (host, port):
        yield f"http://{host}:{port}"


@contextmanager
def mailbox(received: list[EmailMessage]) -> Iterator[str]:
    """A mail server with the SMTP that Alertmanager needs. Yields host:port."""

    class MailHandler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            while command := self.rfile.readline().strip().upper():
                if command == b"DATA":
                    self._say("354 go on")
                    self._receive()
                self._say("221 bye" if command == b"QUIT" else "250 well")

        def _receive(self) -> None:
            lines: list[bytes] = []
            while (line := self.rfile.readline()) != b".\r\n":
                if not line:
                    # An Alertmanager that is ended amid a mail sends nothing more.
                    return
                lines.append(line)
            message = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
            assert isinstance(message, EmailMessage)
            received.append(message)

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    with listening(socketserver.ThreadingTCPServer(LOOPBACK, MailHandler)) as (host, port):
        yield f"{host}:{port}"


def changed(folder: Path, chat: str, hook: str, smarthost: str) -> dict[str, Any]:
    """The committed configuration with short intervals and other addresses; hooks receive everything, too."""
    settings: dict[str, Any] = yaml.safe_load(CONFIGURATION.read_text())
    settings["global"] |= {"smtp_smarthost": smarthost, "smtp_require_tls": False}
    settings["templates"] = [str(CONFIGURATION.parent / pattern) for pattern in settings["templates"]]
    for route in (settings["route"], *settings["route"]["routes"]):
        route |= {"group_wait": "1s", "group_interval": "1s"}
    for receiver in settings["receivers"]:
        receiver["webhook_configs"] = [{"url": f"{hook}/{receiver['name']}"}]
        for slack in receiver.get("slack_configs", []):
            (folder / "chat-url").write_text(chat)
            slack["api_url_file"] = str(folder / "chat-url")
    return settings


@contextmanager
def receiving(folder: Path) -> Iterator[tuple[Path, Notifications]]:
    """A configuration file for Alertmanager, and the notifications that it then sends."""
    sent = Notifications()
    with web(sent.chat) as chat, web(sent.hooks) as hook, mailbox(sent.mail) as smarthost:
        file = folder / "routing.yml"
        file.write_text(yaml.safe_dump(changed(folder, chat, hook, smarthost)))
        yield file, sent


@contextmanager
def alertmanager(folder: Path) -> Iterator[tuple[Server, Notifications]]:
    """A real Alertmanager that is ready."""
    program = shutil.which("prometheus-alertmanager")
    assert program, "apt-get install --no-install-recommends prometheus-alertmanager, or `make test` as root"
    with (
        receiving(folder) as (file, sent),
        start_alertmanager(program, file, free_ports(1)[0], folder) as server,
    ):
        server.wait()
        yield server, sent


def send(server: Server, *alerts: dict[str, Any], over: bool = False) -> None:
    """Send alerts as Prometheus does: firing, or resolved a moment ago."""
    began, now = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC)
    ends = now if over else now + timedelta(hours=1)
    times = {"startsAt": began.isoformat(), "endsAt": ends.isoformat()}
    body = json.dumps([alert | times for alert in alerts]).encode()
    request = urllib.request.Request(
        f"{server.url}/api/v2/alerts", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=5):
        pass
