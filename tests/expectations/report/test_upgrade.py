"""What an upgrade means: removed and deprecated versions, who breaks, and who only seems to."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from decoders.schema.model import Table
from decoders.schema.registry import Schemas, default_schemas
from decoders.schema.table import COMMITTED_TABLE, parse_table
from expectations.conversation.conversation import Conversation
from expectations.report.fleet import ClientUsage, UsageByClient, UsedVersions
from expectations.report.junit import junit_upgrade
from expectations.report.page import upgrade_section
from expectations.report.terminal import upgrade_summary
from expectations.report.upgrade import UpgradeFate, UpgradeReport, upgrade_report
from tests.exchange import Exchange

LATER = default_schemas()
RANGES = {11: (0, 9), 3: (0, 12), 18: (0, 4)}
OFFERED = {
    "apiKeys": [
        {"apiKey": key, "minVersion": lowest, "maxVersion": highest}
        for key, (lowest, highest) in RANGES.items()
    ]
}


def usage_of(*exchanges: Exchange) -> list[ClientUsage]:
    """What the clients of closed connections used."""
    found = UsageByClient()
    for exchange in exchanges:
        usage = UsedVersions()
        for window in exchange.windows():
            key = window.connection
            conversation = Conversation(key.id, key.cluster, key.client, key.server, key.run)
            for observation in window.observations:
                conversation.process(observation)
                usage.record(observation)
        found.add(conversation, usage)
    return found.clients()


def client(
    api: str, version: int, *, asks: bool = True, client_id: str = "orders", times: int = 1
) -> Exchange:
    """A client that sends one API version; with `asks` after ApiVersions, else at once."""
    exchange = Exchange()
    if asks:
        software = {"clientSoftwareName": "sarama", "clientSoftwareVersion": "1.25"}
        request = exchange.request("ApiVersions", 3, software, client_id=client_id)
        exchange.respond(request, OFFERED)
    for _ in range(times):
        exchange.request(api, version, {}, client_id=client_id, frame=_request(api, version, client_id))
    exchange.close()
    return exchange


def _request(api: str, version: int, client_id: str) -> bytes:
    """The header of a request of any version, known or not."""
    found = LATER.api_named(api)
    assert found is not None
    name = client_id.encode()
    return found.key.to_bytes(2) + version.to_bytes(2) + bytes(4) + len(name).to_bytes(2) + name


def report_of(*exchanges: Exchange, to: Schemas = LATER, since: Schemas | None = None) -> UpgradeReport:
    return upgrade_report(usage_of(*exchanges), to, since)


def release(name: str, **changed: dict[str, str]) -> Schemas:
    """The committed release with other properties of some requests."""
    table: Table = parse_table(COMMITTED_TABLE.read_text(), name)
    messages: list[dict[str, Any]] = [dict(message) for message in table["messages"]]
    for message in messages:
        api = message["name"].removesuffix("Request").removesuffix("Response")
        of_both = {key: value for key, value in changed.get(api, {}).items() if key == "validVersions"}
        message.update(changed.get(api, {}) if message["type"] == "request" else of_both)
    return Schemas.of({**table, "release": name, "messages": messages})


def verdicts(report: UpgradeReport) -> dict[tuple[str, int], UpgradeFate]:
    return {(row.api, row.version): row.verdict for row in report.rows}


def test_a_version_that_the_release_has_not_breaks_its_client() -> None:
    """KIP-896: Kafka 4.0 has no Metadata of its own that is older, and JoinGroup from version 2 on."""
    later = release("9.9.9", JoinGroup={"validVersions": "2-9"})
    report = report_of(client("JoinGroup", 1, times=3), client("JoinGroup", 5, client_id="new"), to=later)
    assert [each.name for each in report.breaking] == ['sarama 1.25, client ID "orders"']
    (row,) = (row for row in report.breaking[0].rows if row.verdict is UpgradeFate.REMOVED)
    assert (row.api, row.api_key, row.version, row.requests, row.supported) == ("JoinGroup", 11, 1, 3, "2-9")
    assert row.last_seen > 0
    assert upgrade_summary(report).plain == "an upgrade to Kafka 9.9.9: 1 of 2 clients breaks"


def test_a_client_that_negotiates_may_know_more_than_its_broker_offered() -> None:
    """The highest version that a broker offers says nothing of what the client could send."""
    later = release("9.9.9", Metadata={"validVersions": "13"})
    limited, own_limit = client("Metadata", 12), client("Metadata", 9, client_id="old")
    report = report_of(limited, own_limit, to=later)
    assert set(verdicts(report).values()) == {UpgradeFate.REMOVED, UpgradeFate.KEPT}
    assert [each.client_id for each in report.breaking] == ["old"]


def test_a_client_of_removed_versions_alone_is_named() -> None:
    """Produce before version 3 is in no schema since 4.0; three old producers are three clients."""
    names = ("billing", "orders", "stock")
    report = report_of(*(client("Produce", 2, asks=False, client_id=name) for name in names))
    assert sorted(each.name for each in report.breaking) == [f'unknown, client ID "{name}"' for name in names]


def test_a_version_of_no_release_names_nobody() -> None:
    """A later release may have another header, so its bytes are no client ID."""
    (unknown,) = report_of(client("Produce", 99, asks=False)).breaking
    assert unknown.client_id is None


def test_who_never_asks_cannot_choose() -> None:
    later = release("9.9.9", Metadata={"validVersions": "13"})
    (broken,) = report_of(client("Metadata", 12, asks=False), to=later).breaking
    assert broken.without_api_versions == 1


def test_a_version_above_the_release_is_negotiated() -> None:
    assert (
        report_of(client("JoinGroup", 9), to=release("1.0", JoinGroup={"validVersions": "0-8"})).breaking
        == []
    )
    beyond = client("JoinGroup", 9, asks=False)
    assert len(report_of(beyond, to=release("1.0", JoinGroup={"validVersions": "0-8"})).breaking) == 1


def test_deprecated_versions_break_nobody_yet() -> None:
    later = release("9.9.9", JoinGroup={"deprecatedVersions": "0-1"})
    report = report_of(client("JoinGroup", 1), client("JoinGroup", 2, client_id="new"), to=later)
    assert verdicts(report)["JoinGroup", 1] is UpgradeFate.DEPRECATED
    assert verdicts(report)["JoinGroup", 2] is UpgradeFate.KEPT
    assert report.breaking == []


def test_api_versions_falls_back_and_breaks_nobody() -> None:
    earlier = release("0.11", ApiVersions={"validVersions": "0-2", "flexibleVersions": "none"})
    report = report_of(client("JoinGroup", 5), to=earlier)
    assert [(each.breaks, each.falls_back) for each in report.clients] == [(False, True)]
    assert [each.falls_back for each in report_of(client("JoinGroup", 5)).clients] == [False]


def test_what_the_present_release_refuses_too_is_left_out() -> None:
    without = {"JoinGroup": {"validVersions": "2-9"}}
    report = report_of(client("JoinGroup", 1), to=release("2", **without), since=release("1", **without))
    assert (report.breaking, report.refused_before, report.upgrade_from) == ([], 1, "1")


def test_rows_are_ordered_by_traffic_and_clients_by_what_breaks() -> None:
    later = release("9.9.9", JoinGroup={"validVersions": "2-9"})
    report = report_of(client("JoinGroup", 5, client_id="busy", times=9), client("JoinGroup", 1), to=later)
    assert [each.client_id for each in report.clients] == ["orders", "busy"]
    assert [row.requests for row in report.rows] == sorted(
        (row.requests for row in report.rows), reverse=True
    )


def test_junit_and_page_show_who_breaks() -> None:
    later = release("9.9.9", JoinGroup={"validVersions": "2-9"})
    report = report_of(client("JoinGroup", 1, client_id="<old>"), client("JoinGroup", 5), to=later)
    suite = ET.fromstring(junit_upgrade(report, "2026-11-24T00:00:00"))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    page = upgrade_section(report)
    assert "&lt;old&gt;" in page and "<old>" not in page and "JoinGroup v1: removed; it has 2-9" in page
