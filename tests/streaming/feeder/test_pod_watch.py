"""The watch follows pods through breaks of any kind, and says when it cannot."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from streaming.commands import doctor
from streaming.commands.main import main
from streaming.doctor import Answer
from streaming.feeder import pod_watch as watch_module
from streaming.feeder.pod_watch import ApiServer, PodWatch
from streaming.log import configure_log
from streaming.settings.configuration import Configuration
from tests.streaming.captures import conforming, write_capture
from tests.streaming.feeder.pod_server import PATIENCE, PodServer, pod, serving, until, watching

SECOND = 1_000_000_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodServer]:
    yield from serving(tmp_path, monkeypatch)


def now(watch: PodWatch, address: str) -> set[str]:
    return watch.addresses.placements(address, time.time_ns())


def test_pods_that_are_there_come_and_go_are_known(server: PodServer) -> None:
    started = time.time() - 60
    for number in range(5):
        server.put(pod(f"app-{number}", f"10.0.1.{number}", started=started))
    with closing(watching(server)) as watch:
        until(lambda: watch.current_since)
        assert [now(watch, f"10.0.1.{number}") for number in range(5)] == [
            {f"payments/app-{number}@node-7"} for number in range(5)
        ]
        assert [query.get("continue") for query in server.asked] == [None, "2", "4", None]
        new = pod("new", "10.0.1.9", started=started)
        server.put(new)
        until(lambda: now(watch, "10.0.1.9"))
        server.remove(new)
        until(lambda: not now(watch, "10.0.1.9"))
        assert watch.addresses.placements("10.0.1.9", int(started + 1) * SECOND) == {"payments/new@node-7"}
        assert (watch.errors, len(server.asked)) == (0, 4)


def test_a_watch_that_ends_goes_on_where_it_ended(server: PodServer) -> None:
    with closing(watching(server)) as watch:
        until(lambda: watch.current_since)
        server.put(pod("one", "10.0.1.1", started=time.time()))
        until(lambda: now(watch, "10.0.1.1"))
        server.bookmark()
        until(lambda: "BOOKMARK" in server.told)
        server.cut()
        until(lambda: len(server.asked) >= 3)
        assert server.asked[2].items() >= {"watch": "1", "resourceVersion": "102"}.items()
        server.put(pod("two", "10.0.1.2", started=time.time()))
        until(lambda: now(watch, "10.0.1.2"))
        assert [query for query in server.asked if not query.get("watch")] == server.asked[:1]


def test_what_the_api_has_forgotten_is_listed_again(server: PodServer) -> None:
    gone, stays = (pod(name, f"10.0.1.{len(name)}", started=time.time() - 60) for name in ("gone", "stays"))
    server.put(gone)
    server.put(stays)
    with closing(watching(server)) as watch:
        until(lambda: watch.current_since)
        server.remove(gone, in_silence=True)
        server.put(pod("new", "10.0.1.9", started=time.time() - 60), in_silence=True)
        server.compact()
        server.cut()
        until(lambda: now(watch, "10.0.1.9"))
        until(lambda: watch.current_since)
        assert now(watch, "10.0.1.4") == set() and now(watch, "10.0.1.5") == {"payments/stays@node-7"}
        assert watch.errors == 0


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_while_the_api_is_away_names_are_stale_and_it_is_said_once(
    server: PodServer, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_log()
    server.put(pod("one", "10.0.1.1", started=time.time() - 60))
    with closing(watching(server)) as watch:
        until(lambda: watch.current_since)
        server.status = 503
        server.cut()
        until(lambda: watch.errors >= 3)
        assert watch.current_since is None and now(watch, "10.0.1.1") == {"payments/one@node-7"}
        assert watch.age > 0
        server.status = 200
        until(lambda: watch.current_since)
        assert watch.age < PATIENCE
    told = [event for event in events(capsys) if event.get("feeder", "").startswith("kubernetes")]
    assert [event["feeder"] for event in told] == [
        "kubernetes-watched",
        "kubernetes-away",
        "kubernetes-watched",
    ]
    assert told[1]["reason"] == "503 not today" and told[1]["level"] == "warning"


def test_a_token_is_read_anew_and_a_refusal_told(server: PodServer) -> None:
    token = server.account / "token"
    text = token.read_text()
    token.write_text("another")
    with closing(watching(server)) as watch:
        until(lambda: watch.errors >= 2)
        token.unlink()
        until(lambda: watch.errors >= 4)
        assert watch.current_since is None
        token.write_text(text)
        until(lambda: watch.current_since)


def test_a_server_that_the_accounts_authority_did_not_sign_is_not_believed(
    server: PodServer, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with closing(PodServer(other)) as stranger:
        (server.account / "ca.crt").write_bytes((stranger.account / "ca.crt").read_bytes())
        with closing(watching(server)) as watch:
            until(lambda: watch.errors >= 2)
            assert not server.asked and watch.current_since is None


def test_a_silent_watch_is_dead(server: PodServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "SILENCE", 1.0)
    with closing(watching(server)) as watch:
        until(lambda: watch.errors and watch.current_since)


def test_the_doctor_lists_pods_once_or_says_why_it_cannot(
    server: PodServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def examined() -> tuple[Answer, str]:
        configuration = Configuration(kubernetes=True, interface=["no-such-one"])
        found = doctor.examination(configuration, feeder=True, query=False)
        return next((each.answer, each.detail) for each in found if each.name == "Kubernetes")

    assert examined()[0] is Answer.NO and "KUBERNETES_SERVICE_HOST" in examined()[1]
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", server.api.host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.api.port))
    monkeypatch.setattr(watch_module, "ACCOUNT", server.account)
    server.put(pod("one", "10.0.1.1", "fd00::1", started=time.time()))
    assert examined() == (Answer.YES, "pods may be listed and have 2 addresses")
    server.status = 403
    assert examined() == (Answer.NO, "pods cannot be listed: 403 not today")


def test_the_api_is_where_the_environment_of_the_pod_says() -> None:
    found = ApiServer.of_this_pod({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"})
    assert (found.host, found.port) == ("fd00::1", 443)


@pytest.mark.parametrize(
    ("identities", "told"),
    [
        ("plain", "KUBERNETES_SERVICE_HOST is not set"),
        ("keyed-hash", 'kubernetes = true would name the clients that identities = "keyed-hash" hides'),
    ],
)
def test_a_feeder_outside_of_a_cluster_or_with_pseudonyms_refuses_to_watch(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    identities: str,
    told: str,
) -> None:
    monkeypatch.setenv("KIPWATCH_KEY", "k" * 32)
    key = 'identities_key = "env:KIPWATCH_KEY"\n' if identities == "keyed-hash" else ""
    file, capture = tmp_path / "kipwatch.toml", write_capture(tmp_path / "a.pcap", conforming())
    file.write_text(f'kubernetes = true\nidentities = "{identities}"\n{key}')
    assert main(["feed", str(capture), "--dry-run", "--config", str(file)]) == 2
    errors = capsys.readouterr().err
    assert told in errors and errors.count("\n") == 1
