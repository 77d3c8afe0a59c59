"""`kipwatch record`: real clients behind relays, against a real broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from streaming.check.examination import records_of
from streaming.feeder.source import open_capture
from streaming.settings.address import address_text
from tests.streaming.broker.request_log import read_request_log
from tests.streaming.commands.ran import Kipwatch, run_process
from tests.streaming.feeder.live import assert_same_requests
from tests.streaming.probe.model_broker import ModelBroker
from tests.streaming.secure_broker import SecureBroker, make_certificate

WORKLOAD = """
import os, sys, threading
from streaming.demo.workload import run_workload
assert sys.argv[1] == os.environ["KIPWATCH_BOOTSTRAP"]
run_workload(sys.argv[1], print, threading.Event())
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("tls")) as running:
        yield running


@pytest.mark.jvm
def test_every_connection_of_real_clients_stays_inside(broker: SecureBroker, tmp_path: Path) -> None:
    """Every connection of the broker's own log is in the recording."""
    save = tmp_path / "recorded.pcap"
    flags = ["--bootstrap", broker.watched, "--save", save, "--json"]
    ran = run_process("record", *flags, "--", sys.executable, "-c", WORKLOAD, "{bootstrap}")
    assert ran.status == 0, ran.errors
    examination = json.loads(ran.output.splitlines()[-1])
    logged = list(read_request_log(broker.request_log))
    assert examination["connections"] == len({line.connection for line in logged})
    with open_capture(save) as packets:
        records = records_of(default_schemas(), packets, (), 1)
        assert_same_requests(list(records), logged)
    assert examination["ledger"]["lost"] == 0
    # Findings of lower levels are expected of real clients.
    assert "violation" not in {finding["level"] for finding in examination["findings"]}


LIST_TOPICS = """
import sys
from confluent_kafka.admin import AdminClient
settings = {"bootstrap.servers": sys.argv[1]}
if certificate := sys.argv[2:]:
    settings |= {"security.protocol": "ssl", "ssl.ca.location": certificate[0]}
admin = AdminClient(settings)
admin.list_topics(timeout=20)
admin.describe_cluster(request_timeout=20).result()
"""


@pytest.mark.jvm
def test_tls_ends_at_the_relay(broker: SecureBroker, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    flags = ["--bootstrap", broker.watched, "--save", tmp_path / "tls.pcap", "--json"]
    flags += ["--tls-certificate", certificate, "--tls-key", key]
    ran = run_process("record", *flags, "--", sys.executable, "-c", LIST_TOPICS, "{bootstrap}", certificate)
    assert ran.status == 0, ran.errors
    assert json.loads(ran.output.splitlines()[-1])["frames"] >= 8


@pytest.mark.jvm
def test_the_relay_connects_by_tls_to_brokers_that_require_it(broker: SecureBroker, tmp_path: Path) -> None:
    flags = ["--bootstrap", broker.tls, "--save", tmp_path / "upstream.pcap", "--json"]
    flags += ["--upstream-tls", "--upstream-ca", broker.certificate]
    ran = run_process("record", *flags, "--", sys.executable, "-c", LIST_TOPICS, "{bootstrap}")
    assert ran.status == 0, ran.errors
    assert json.loads(ran.output.splitlines()[-1])["frames"] >= 8


@pytest.mark.jvm
def test_a_broker_whose_certificate_is_not_trusted_is_refused(broker: SecureBroker, tmp_path: Path) -> None:
    flags = ["--bootstrap", broker.tls, "--save", tmp_path / "unknown.pcap", "--upstream-tls"]
    script = LIST_TOPICS.replace("20", "2")
    ran = run_process("record", *flags, "--", sys.executable, "-c", script, "{bootstrap}")
    assert ran.status == 2
    expected = f"kipwatch: cannot reach {broker.tls}: [SSL: CERTIFICATE_VERIFY_FAILED]"
    assert ran.errors.count(expected) == 1


def test_a_command_that_ignores_the_relay_is_told_so(kipwatch: Kipwatch, tmp_path: Path) -> None:
    ran = kipwatch("record", "--bootstrap", "127.0.0.1:1", "--save", tmp_path / "x.pcap", "--", "true")
    assert ran.error_line.startswith("the command opened no connection to the relay at 127.0.0.1:")
    assert "{bootstrap} in the command or from $KIPWATCH_BOOTSTRAP" in ran.error_line


def test_brokers_that_cannot_be_reached_are_named(kipwatch: Kipwatch, tmp_path: Path) -> None:
    connect = "import sys, socket; h, p = sys.argv[1].split(':'); socket.create_connection((h, p)).recv(1)"
    command = ["--", sys.executable, "-c", connect, "{bootstrap}"]
    ran = kipwatch("record", "--bootstrap", "127.0.0.1:1", "--save", tmp_path / "x.pcap", *command)
    assert ran.status == 2
    assert "kipwatch: no broker was reached at 127.0.0.1:1: see that it runs there" in ran.errors
    assert "--ports" not in ran.errors


def test_a_command_that_fails_is_status_2(kipwatch: Kipwatch, tmp_path: Path) -> None:
    save = tmp_path / "x.pcap"
    ran = kipwatch("record", "--bootstrap", "127.0.0.1:1", "--save", save, "--", "sh", "-c", "exit 7")
    assert ran.status == 2
    assert "kipwatch: the command ended with status 7" in ran.errors


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--bootstrap", "127.0.0.1:1"], "name the command to run"),
        (["--bootstrap", "here", "--", "true"], "'here' is not host:port"),
        (["--bootstrap", "127.0.0.1:1", "--", "no-such-command"], "cannot run no-such-command"),
        (["--bootstrap", "127.0.0.1:1", "--tls-key", "k", "--", "true"], "needs --tls-certificate"),
        (["--bootstrap", "127.0.0.1:1", "--upstream-ca", "k", "--", "true"], "needs --upstream-tls"),
        (
            ["--bootstrap", "127.0.0.1:1", "--tls-certificate", "missing.pem", "--", "true"],
            "cannot use the TLS files: No such file",
        ),
        (["--bootstrap", "127.0.0.1:1", "--config", "missing.toml", "--", "no-such-command"], "missing.toml"),
        (["--bootstrap", "127.0.0.1:1", "--spec", "kip9=text", "--", "no-such-command"], "names no KIP"),
        (
            ["--bootstrap", "127.0.0.1:1", "--junit", "missing/check.xml", "--", "no-such-command"],
            "cannot write 'missing/check.xml': there is no folder 'missing'",
        ),
    ],
)
def test_a_mistake_is_one_line(kipwatch: Kipwatch, tmp_path: Path, flags: list[str], message: str) -> None:
    """It is told before the command runs, which may take long."""
    assert message in kipwatch("record", "--save", tmp_path / "x.pcap", *flags).error_line


GREETS = """
import os
from decoders.schema.registry import default_schemas
from streaming.probe.client import InstanceClient, new_instance_id
from streaming.probe.client import negotiate
from streaming.settings.address import host_and_port
address = host_and_port(os.environ["KIPWATCH_BOOTSTRAP"])
with InstanceClient(default_schemas(), address, "greeter", new_instance_id()) as client:
    asked = 4
    while negotiate(client, asked)["errorCode"] == 35:
        asked -= AFTER_REFUSAL
"""


@pytest.mark.parametrize(("step", "status"), [("4", 0), ("1", 1)], ids=["dutiful", "offending"])
def test_a_client_is_provoked(kipwatch: Kipwatch, tmp_path: Path, step: str, status: int) -> None:
    """Version 3 is outside of the range beside the refusal of version 4."""
    save, junit = tmp_path / "run.pcap", tmp_path / "run.xml"
    flags = ["--provoke", "versions-refused, older-broker", "--save", save, "--junit", junit, "--json"]
    script = GREETS.replace("AFTER_REFUSAL", step)
    with ModelBroker(5) as broker:
        bootstrap = address_text(*broker.address)
        ran = kipwatch("record", "--bootstrap", bootstrap, *flags, "--", sys.executable, "-c", script)
    report = json.loads(ran.output)
    assert [duty["duty"] for duty in report["duties"]] == ["versions-refused", "older-broker"]
    assert [duty["state"] for duty in report["duties"]][1] == "undecided"
    assert (tmp_path / "run-versions-refused.pcap").exists()
    assert b"kipwatch.duty" in junit.read_bytes()
    assert ran.status == status, report


def test_a_provocation_that_meets_nothing_is_not_offered(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """A client without a group sends no heartbeat."""
    flags = ["--provoke", "members-fenced", "--save", tmp_path / "run.pcap", "--json"]
    with ModelBroker(3) as broker:
        bootstrap = address_text(*broker.address)
        script = GREETS.replace("AFTER_REFUSAL", "1")
        ran = kipwatch("record", "--bootstrap", bootstrap, *flags, "--", sys.executable, "-c", script)
    [duty] = json.loads(ran.output)["duties"]
    assert (duty["state"], ran.status) == ("not offered", 2)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--provoke", "older-brokers"], "did you mean older-broker?"),
        (["--provoke", "all", "--quiet"], "--quiet is not for --provoke"),
    ],
)
def test_provocations_that_cannot_be_played(kipwatch: Kipwatch, flags: list[str], message: str) -> None:
    ran = kipwatch("record", "--bootstrap", "127.0.0.1:1", *flags, "--", "true")
    assert message in ran.error_line
