"""`init` and `findings` at a Kafka with TLS, a login and ACLs: each mistake has a line of its own.

What the tests of the doctor show of the same mistakes is not shown again; the words are made in one place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from streaming.broker import cluster, topics
from streaming.broker.topics import create_topics
from streaming.settings.kafka_client import Setting
from tests.streaming.commands.ran import Kipwatch
from tests.streaming.secure_broker import PASSWORD, PASSWORD_VARIABLE, USER, SecureBroker

FINDINGS = "kipwatch.findings"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("secure")) as running:
        create_topics(running.internal, "kipwatch.frames", FINDINGS)
        yield running


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", 5.0)
    monkeypatch.setattr(topics, "RESPONSE_SECONDS", 5.0)


@pytest.fixture
def at(tmp_path: Path) -> Callable[..., list[object]]:
    """The flags of a command that meets a listener with a table [kafka]."""

    def flags(bootstrap: str, kafka: dict[str, Setting]) -> list[object]:
        file = tmp_path / "login.toml"
        lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in kafka.items()]
        file.write_text("\n".join(["[kafka]", *lines]))
        return ["--config", file, "--bootstrap", bootstrap]

    return flags


Flags = Callable[..., list[object]]


@pytest.mark.jvm
@pytest.mark.parametrize("command", ["init", "findings"])
def test_mistakes_are_told_apart(
    secure: SecureBroker, kipwatch: Kipwatch, at: Flags, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    login = secure.login(USER)

    def line(bootstrap: str, kafka: dict[str, Setting]) -> str:
        told = kipwatch(command, *at(bootstrap, kafka)).error_line
        assert told.startswith(f"cannot ask Kafka at {bootstrap}: ")
        assert "[kafka]" in told or "correct `bootstrap`" in told
        return told

    assert "Connection refused" in line("127.0.0.1:1", {})
    assert "Name or service not known" in line("no-such-host.invalid:9092", {})
    assert 'it speaks TLS, and this client does not; write security.protocol = "SSL"' in line(secure.tls, {})
    stranger = str(secure.client_certificate)
    assert "certificate verify failed" in line(secure.sasl, {**login, "ssl.ca.location": stranger})
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong")
    assert "Authentication failed" in line(secure.sasl, login)
    # librdkafka words it by how the listener ends the handshake.
    assert "in state SSL_HANDSHAKE" in line(secure.internal, login)


@pytest.mark.jvm
def test_init_names_the_right_that_it_needs(
    secure: SecureBroker, kipwatch: Kipwatch, at: Flags, tmp_path: Path
) -> None:
    """Without it the listeners are unknown, and all but kipwatch's own would go unwatched."""
    folder = tmp_path / "made"
    command = ["init", *at(secure.sasl, secure.login("auditor")), "--folder", folder]
    told = kipwatch(*command).error_line
    assert "may not see the listeners of broker 1" in told
    assert "grant DescribeConfigs on the cluster" in told
    assert not folder.exists()
    secure.grant("auditor", (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS))
    ran = kipwatch(*command)
    assert (ran.status, ran.errors) == (0, "")
    own = secure.internal.rpartition(":")[2]
    assert f'address = "127.0.0.1:{own}"' in (folder / "query.toml").read_text()


@pytest.mark.jvm
def test_findings_name_the_right_that_they_need(secure: SecureBroker, kipwatch: Kipwatch, at: Flags) -> None:
    """Without any right the topic cannot be seen; with Describe alone it can be seen and not be read."""
    command = ["findings", *at(secure.sasl, secure.login("query"))]
    wanted = f"cannot read the topic {FINDINGS} at {secure.sasl}"
    for _ in range(2):
        told = kipwatch(*command).error_line
        assert told.startswith(wanted)
        assert told.endswith("grant Read on it (docs/run.md lists the ACLs)")
        secure.grant("query", (ResourceType.TOPIC, FINDINGS, AclOperation.DESCRIBE))
