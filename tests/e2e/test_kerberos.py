"""A login by Kerberos (GSSAPI) from one table [kafka], in both clients, at a real broker and realm.

The wheels of confluent-kafka contain no Kerberos. What librdkafka does is tried by kcat, which is librdkafka
with a command line; distributions build it with Cyrus SASL.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from streaming.broker.topics import create_topics
from streaming.settings.configuration import Configuration
from streaming.settings.kafka_client import Setting, jvm_options, librdkafka_settings
from tests.streaming import kerberos
from tests.streaming.kerberos import KerberosBroker, Realm

KCAT: Final = shutil.which("kcat")
FRAMES: Final = Configuration().frames_topic
SECONDS: Final = 200.0
READ: Final = """
import json, sys
from streaming.query.session import spark_session
from streaming.settings.configuration import Configuration
options = json.loads(sys.argv[1])
with spark_session(Configuration()) as session:
    rows = session.read.format("kafka").options(**options).option("subscribe", sys.argv[2]).load()
    print("keys", sorted(bytes(row.key).decode() for row in rows.select("key").collect()))
"""

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not kerberos.is_installed(), reason=f"needs the packages {kerberos.PACKAGES}"),
]


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")) as running:
        yield running


@pytest.fixture(scope="module")
def broker(realm: Realm) -> Iterator[KerberosBroker]:
    with KerberosBroker(realm) as running:
        create_topics(running.internal, FRAMES, "findings")
        producer = Producer({"bootstrap.servers": running.internal})
        producer.produce(FRAMES, key="by nobody")
        assert producer.flush(30) == 0
        yield running


@pytest.fixture(scope="module")
def login(realm: Realm) -> dict[str, Setting]:
    return realm.login("feeder")


def test_the_jvm_logs_in(realm: Realm, broker: KerberosBroker, login: dict[str, Setting]) -> None:
    read = read_by_jvm(realm, broker, login)
    assert "by nobody" in read.stdout, read.stderr[-2_000:]


def test_a_stranger_does_not(realm: Realm, broker: KerberosBroker, login: dict[str, Setting]) -> None:
    read = read_by_jvm(realm, broker, login | {"sasl.kerberos.principal": f"stranger@{kerberos.REALM}"})
    assert read.returncode != 0 and "keys" not in read.stdout


@pytest.mark.skipif(KCAT is None, reason="needs the packages kcat and libsasl2-modules-gssapi-mit")
def test_librdkafka_logs_in(
    realm: Realm, broker: KerberosBroker, login: dict[str, Setting], tmp_path: Path
) -> None:
    settings = librdkafka_settings(broker.kerberos, login)
    file = tmp_path / "kcat.conf"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    read = subprocess.run(
        [KCAT or "", "-F", file, "-C", "-t", FRAMES, "-e", "-f", "%k\n"],
        env=realm.environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert "by nobody" in read.stdout, read.stderr[-2_000:]


def read_by_jvm(
    realm: Realm, broker: KerberosBroker, login: dict[str, Setting]
) -> subprocess.CompletedProcess[str]:
    """Read the topic in a JVM of its own: one that runs already knows no realm."""
    options = json.dumps(jvm_options(broker.kerberos, login))
    environment = {**realm.environment, "JAVA_TOOL_OPTIONS": realm.java_option}
    command = [sys.executable, "-c", READ, options, FRAMES]
    return subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=SECONDS
    )
