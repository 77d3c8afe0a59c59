"""`kipwatch init` chooses what to watch, and writes files that the feeder and the query can read."""

from __future__ import annotations

import argparse
import re
import stat
from pathlib import Path

import pytest

from streaming.broker.cluster import BrokerListener, Cluster, ClusterBroker, parse_listeners
from streaming.commands import init
from streaming.commands.run import refuse_watched_bootstrap
from streaming.settings.configuration import Configuration, configure
from streaming.settings.kafka_client import Setting
from streaming.starter import Plan, address_towards, feeder_file, interfaces_with, plan, query_file, resolved
from streaming.user_error import UserError

CLIENTS = BrokerListener("CLIENTS", "kafka-1", 9092, "SASL_PLAINTEXT")
INTERNAL = BrokerListener("INTERNAL", "kafka-1", 9093, "PLAINTEXT")
SECURE = BrokerListener("SECURE", "kafka-1", 9094, "SASL_SSL")
LOGIN: dict[str, Setting] = {
    "sasl.password": "env:PASSWORD",
    "security.protocol": "SASL_PLAINTEXT",
    "linger.ms": 5,
}


def planned(*listeners: BrokerListener, bootstrap: str = "kafka-1:9093") -> Plan:
    cluster = Cluster("c-1", (ClusterBroker(1, "kafka-1", 9093, listeners),))
    return plan(bootstrap, cluster, lambda host, port: {"kafka-1": "10.0.0.1"}.get(host))


def loaded(folder: Path, text: str) -> Configuration:
    file = folder / "kipwatch.toml"
    file.write_text(text)
    return configure(argparse.Namespace(config=file))


def test_listeners_are_parsed_with_their_protocols() -> None:
    found = parse_listeners(
        "CLIENTS://kafka-1:9092,SSL://[fd00::1]:9094, PLAINTEXT://:9095", "CLIENTS:SASL_PLAINTEXT,SSL:SSL"
    )
    assert found == (
        BrokerListener("CLIENTS", "kafka-1", 9092, "SASL_PLAINTEXT"),
        BrokerListener("SSL", "fd00::1", 9094, "SSL"),
        BrokerListener("PLAINTEXT", "", 9095, "PLAINTEXT"),
    )


def test_all_readable_listeners_but_kipwatchs_own_are_watched() -> None:
    chosen = planned(CLIENTS, INTERNAL, SECURE)
    assert (chosen.ports, chosen.encrypted, chosen.is_own_watched) == ([9092], (9094,), False)


def test_the_only_listener_is_watched_although_it_is_kipwatchs_own() -> None:
    chosen = planned(INTERNAL)
    assert (chosen.ports, chosen.is_own_watched) == ([9093], True)


def test_a_cluster_that_does_not_tell_its_listeners_is_watched_where_its_brokers_are() -> None:
    chosen = planned()
    assert (chosen.ports, chosen.addresses) == ([9093], ["10.0.0.1"])


def test_the_files_say_what_was_found(tmp_path: Path) -> None:
    chosen = planned(CLIENTS, INTERNAL, SECURE)
    feeder = loaded(tmp_path, feeder_file(chosen, LOGIN, ["eth1", "lo"], "10.0.0.9"))
    assert (feeder.bootstrap, feeder.ports, feeder.interface) == ("kafka-1:9093", [9092], ["eth1", "lo"])
    query = loaded(tmp_path, query_file(chosen, LOGIN, tmp_path / "checkpoint", None))
    (listener,) = query.listener
    assert (listener.address, listener.name, listener.cluster_id, listener.node_id) == (
        "10.0.0.1:9092",
        "CLIENTS",
        "c-1",
        1,
    )
    assert feeder.kafka == query.kafka == LOGIN
    assert query.ports == [9092]
    assert query.checkpoint == str(tmp_path / "checkpoint")
    assert re.search(r"(?m)^# Port 9094 carries TLS.*: tls_keylog ", feeder_file(chosen, {}, [], None))


def initialised(
    folder: Path, monkeypatch: pytest.MonkeyPatch, broker: str = "127.0.0.1"
) -> argparse.Namespace:
    """Run `kipwatch init` for a broker that tells no listeners, and return the arguments."""
    cluster = Cluster("c-1", (ClusterBroker(1, broker, 9093, ()),))
    monkeypatch.setattr(init, "ask_cluster", lambda *_: cluster)
    arguments = argparse.Namespace(bootstrap="127.0.0.1:9093", folder=folder / "new", config=None)
    assert init.run(arguments) == 0
    return arguments


@pytest.mark.parametrize(("broker", "excluded"), [("127.0.0.1", []), ("203.0.113.1", ["127.0.0.1"])])
def test_the_host_of_a_broker_is_not_excluded_on_that_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: str, excluded: list[str]
) -> None:
    """The query reads where it is watched. Excluding a broker's own host would hide all of its traffic."""
    text = (initialised(tmp_path, monkeypatch, broker).folder / init.FEEDER).read_text()
    assert [each.address for each in loaded(tmp_path, text).exclude] == excluded


def test_files_are_closed_to_others_and_none_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table [kafka] that they repeat may hold a password."""
    arguments = initialised(tmp_path, monkeypatch)
    files = [tmp_path / "new" / name for name in (init.FEEDER, init.QUERY)]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    files[1].write_text("mine")
    files[0].unlink()
    with pytest.raises(UserError, match=r"query\.toml exists: remove it"):
        init.run(arguments)
    assert (files[0].exists(), files[1].read_text()) == (False, "mine")


def test_a_name_that_this_host_does_not_know_is_marked(tmp_path: Path) -> None:
    unknown = CLIENTS._replace(host="elsewhere")
    text = query_file(planned(unknown, INTERNAL), {}, tmp_path, None)
    assert "# This host does not know elsewhere" in text
    assert loaded(tmp_path, text).listener[0].address == "elsewhere:9092"


@pytest.mark.parametrize("query_host", ["10.0.0.9", None])
def test_the_query_may_read_where_it_is_watched_if_the_feeders_exclude_its_host(
    tmp_path: Path, query_host: str | None
) -> None:
    chosen = planned(INTERNAL)
    feeder = loaded(tmp_path, feeder_file(chosen, {}, [], query_host))
    query = loaded(tmp_path, query_file(chosen, {}, tmp_path, query_host))
    assert [each.address for each in feeder.exclude] == ([query_host] if query_host else [])
    if query_host:
        refuse_watched_bootstrap(query)
    else:
        with pytest.raises(UserError, match="exclude"):
            refuse_watched_bootstrap(query)


def test_a_query_with_a_listener_of_its_own_needs_no_exclusion(tmp_path: Path) -> None:
    chosen = planned(CLIENTS, INTERNAL)
    assert "exclude" not in feeder_file(chosen, {}, [], "10.0.0.9")
    text = query_file(chosen, {}, tmp_path, "10.0.0.9")
    assert "allow_watched_bootstrap" not in text
    refuse_watched_bootstrap(loaded(tmp_path, text))


def test_addresses_of_this_host_are_found() -> None:
    assert resolved("127.0.0.1", 9092) == "127.0.0.1"
    assert resolved("no.such.host.invalid", 9092) is None
    assert address_towards("127.0.0.1", 9092) == "127.0.0.1"
    assert interfaces_with(["127.0.0.1"]) == ["lo"]
    assert interfaces_with(["203.0.113.1"]) == []
