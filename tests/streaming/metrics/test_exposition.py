"""Pages are served plainly, by TLS and on IPv6; metrics only with a certificate if one is demanded."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge

from streaming.metrics import exposition as exposition_module
from streaming.metrics.exposition import MOST_CONNECTIONS, Exposition, serve
from streaming.settings.confidential import tls_context
from streaming.settings.configuration import MetricsTls
from streaming.user_error import UserError
from tests.streaming.secure_broker import make_certificate
from tests.waiting import until

Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_certificate(tmp_path_factory.mktemp("server"), "server")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_certificate(tmp_path_factory.mktemp("client"), "client")


def exposed(tls: MetricsTls | None = None, host: str = "127.0.0.1", *, is_ready: bool = True) -> Exposition:
    registry = CollectorRegistry()
    Gauge("told", "A value.", registry=registry).set(7)
    return serve(
        registry,
        0,
        lambda: True,
        lambda: is_ready,
        host=host,
        make_context=tls_context(tls or MetricsTls()),
    )


@pytest.fixture
def mutual(server: Pair, client: Pair) -> Iterator[Exposition]:
    files = MetricsTls(certificate=str(server[0]), key=str(server[1]), client_ca=str(client[0]))
    with closing(exposed(files)) as exposition:
        yield exposition


def trusting(server: Pair, shown: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(server[0]))
    if shown:
        context.load_cert_chain(*map(str, shown))
    return context


def get(exposition: Exposition, path: str, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    """Return the status and the text of a page, by TLS if there is a context."""
    url = f"{'https' if context else 'http'}://127.0.0.1:{exposition.port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_health_and_readiness_have_a_page_each() -> None:
    with closing(exposed(is_ready=False)) as exposition:
        status, text = get(exposition, "/metrics")
        assert (status, "told 7.0" in text) == (200, True)
        assert get(exposition, "/healthz") == (200, "yes\n")
        assert get(exposition, "/readyz") == (503, "no\n")
        assert get(exposition, "/")[0] == 404


def test_a_port_in_use_is_one_line_that_names_the_port_and_the_flag() -> None:
    with closing(exposed()) as exposition, pytest.raises(UserError) as raised:
        serve(CollectorRegistry(), exposition.port, lambda: True, lambda: True)
    line = str(raised.value)
    assert str(exposition.port) in line
    assert "--metrics-address" in line
    assert "\n" not in line


def test_a_port_is_free_once_its_page_is_closed() -> None:
    first = exposed()
    first.close()
    with closing(serve(CollectorRegistry(), first.port, lambda: True, lambda: True)) as second:
        assert get(second, "/healthz")[0] == 200


def test_pages_are_served_by_tls(server: Pair) -> None:
    files = MetricsTls(certificate=str(server[0]), key=str(server[1]))
    with closing(exposed(files)) as exposition:
        status, text = get(exposition, "/metrics", trusting(server))
        assert (status, "told 7.0" in text) == (200, True)
        with pytest.raises((urllib.error.URLError, OSError)):
            get(exposition, "/metrics")


def test_metrics_demand_a_certificate_and_probes_do_not(
    mutual: Exposition, server: Pair, client: Pair
) -> None:
    assert get(mutual, "/metrics", trusting(server, client))[0] == 200
    assert get(mutual, "/metrics", trusting(server))[0] == 403
    assert get(mutual, "/healthz", trusting(server))[0] == 200


def test_a_certificate_of_another_authority_is_refused(mutual: Exposition, server: Pair) -> None:
    with pytest.raises((urllib.error.URLError, OSError)):
        get(mutual, "/metrics", trusting(server, server))


def test_a_client_that_does_not_shake_hands_delays_nobody(
    mutual: Exposition, server: Pair, client: Pair, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        socket.create_connection(("127.0.0.1", mutual.port)),
        closing(socket.create_connection(("127.0.0.1", mutual.port))) as noisy,
    ):
        noisy.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        began = time.monotonic()
        assert get(mutual, "/metrics", trusting(server, client))[0] == 200
        assert time.monotonic() - began < 5
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("by_tls", [False, True])
def test_connections_that_wait_hold_few_threads_and_keep_nobody_out(server: Pair, by_tls: bool) -> None:
    before = threading.active_count()
    files = MetricsTls(certificate=str(server[0]), key=str(server[1]))
    with closing(exposed(files if by_tls else None)) as exposition, ExitStack() as waiting:
        for _ in range(4 * MOST_CONNECTIONS):
            idle = waiting.enter_context(socket.create_connection(("127.0.0.1", exposition.port), timeout=5))
            idle.sendall(b"\x16\x03\x01" if by_tls else b"GET /metrics HTTP/1.1\r\n")
        assert get(exposition, "/metrics", trusting(server) if by_tls else None)[0] == 200
        # The threads of those that were ended take a moment to notice.
        until(lambda: threading.active_count() <= before + MOST_CONNECTIONS + 1, every=0.05)


def test_a_request_that_comes_byte_by_byte_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition_module, "REQUEST_SECONDS", 0.5)
    with (
        closing(exposed()) as exposition,
        socket.create_connection(("127.0.0.1", exposition.port), timeout=5) as slow,
        pytest.raises(OSError, match=r"Broken pipe|reset"),
    ):
        for _ in range(400):
            slow.sendall(b"G")
            time.sleep(0.05)


def test_a_renewed_certificate_is_taken_over(server: Pair, client: Pair, tmp_path: Path) -> None:
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"

    def install(pair: Pair, time_: int) -> None:
        for target, source in zip(files, pair, strict=True):
            target.write_bytes(source.read_bytes())
            os.utime(target, (time_, time_))

    install(server, 1)
    tls = MetricsTls(certificate=str(files[0]), key=str(files[1]))
    with closing(exposed(tls)) as exposition:
        assert get(exposition, "/healthz", trusting(server))[0] == 200
        install(client, 2)
        assert get(exposition, "/healthz", trusting(client))[0] == 200
        files[0].write_text("no certificate")
        assert get(exposition, "/healthz", trusting(client))[0] == 200


def test_pages_are_served_on_ipv6() -> None:
    with closing(exposed(host="::1")) as exposition:
        with urllib.request.urlopen(f"http://[::1]:{exposition.port}/metrics", timeout=5) as response:
            assert response.status == 200
        with pytest.raises(UserError, match=r"\[::1\]:\d+: the port is in use"):
            serve(CollectorRegistry(), exposition.port, lambda: True, lambda: True, host="::1")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (MetricsTls(key="key.pem"), "needs `certificate`"),
        (MetricsTls(certificate="/nowhere/certificate.pem"), "No such file"),
    ],
)
def test_files_that_cannot_be_used_are_one_line(files: MetricsTls, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as raised:
        tls_context(files)
    assert "\n" not in str(raised.value)
