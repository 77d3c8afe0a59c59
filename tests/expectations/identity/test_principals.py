"""Two principals are two clients: what one did is not held against another that shares all else with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from expectations.cases.notation import Player
from tests.exchange import Exchange

ASKED = '{clientSoftwareName: x, clientSoftwareVersion: "1"}'
HEARTBEAT = "client > ConsumerGroupHeartbeat"
MEMBER = "groupId: g, memberId: orders-1, memberEpoch:"
SCRIPTS = {
    "kip35/negotiation-not-repeated": f"""
connection one from 10.0.0.1:40001
client > ApiVersions v4 client-id=app {ASKED}
broker < ApiVersions advertised
client > Metadata v12 client-id=app
broker < Metadata
close fin by client
connection two from 10.0.0.1:40002
client > Metadata v12 client-id=app
broker < Metadata
close fin by client""",
    "kip35/broker-not-asked": f"""
connection one from 10.0.0.1:40001 to 10.0.0.2:9092
client > ApiVersions v4 client-id=app {ASKED}
broker < ApiVersions advertised
client > Metadata v12 client-id=app
broker < Metadata
connection two from 10.0.0.1:40002 to 10.0.0.3:9092
client > Metadata v12 client-id=app
broker < Metadata
wait 61 s
client > Metadata v12 client-id=app""",
    "kip35/refused-version-repeated": f"""
connection other from 10.0.0.9:40000
client > ApiVersions v4 client-id=other {ASKED}
broker < ApiVersions {{apiKeys: [{{apiKey: 11, minVersion: 2, maxVersion: 9}}]}}
"""
    + "\n".join(
        f"""connection c{number} from 10.0.0.1:4000{number}
client > Metadata v12 client-id=app
broker < Metadata
client > JoinGroup v1 client-id=app {{groupId: g}}
close fin by broker"""
        for number in (1, 2, 3)
    ),
    "kip1242/ids-withheld": f"""
connection one from 10.0.0.1:40000 to 10.0.0.2:9092
client > ApiVersions v5 client-id=app {ASKED}
broker < ApiVersions advertised
client > Metadata v12 client-id=app
broker < Metadata {{clusterId: c}}
wait 2 s
connection two from 10.0.0.1:40001 to 10.0.0.3:9092
client > ApiVersions v5 client-id=app {ASKED}
broker < ApiVersions advertised
client > FindCoordinator v3 client-id=app {{key: g}}
broker < FindCoordinator
close fin by client""",
    "kip1313/instance-id-not-lifelong": f"""
connection one from 10.0.0.1:40001
client > ApiVersions v6 client-id=app id=A {ASKED}
broker < ApiVersions advertised
{HEARTBEAT} v2 id=A {{{MEMBER} 0}}
broker < ConsumerGroupHeartbeat {{memberId: orders-1, memberEpoch: 4}}
{HEARTBEAT} v2 id=A {{{MEMBER} 4}}
connection two from 10.0.0.1:40002
client > ApiVersions v6 client-id=app id=B {ASKED}
broker < ApiVersions advertised
{HEARTBEAT} v2 id=B {{{MEMBER} 4}}
broker < ConsumerGroupHeartbeat {{memberId: orders-1, memberEpoch: 4}}
{HEARTBEAT} v2 id=B {{{MEMBER} 4}}""",
    "kip1082/member-id-changed": f"""
connection one from 10.0.0.1:40001
client > ApiVersions v4 client-id=app correlation=4 {ASKED}
broker < ApiVersions advertised
client > Metadata v12 client-id=app
broker < Metadata
{HEARTBEAT} v1 client-id=app {{groupId: g, memberId: <A>, memberEpoch: 0}}
close rst by client
connection two from 10.0.0.1:40002
client > ApiVersions v4 client-id=app correlation=7 {ASKED}
broker < ApiVersions advertised
client > Metadata v12 client-id=app
broker < Metadata
{HEARTBEAT} v1 client-id=app {{groupId: g, memberId: <B>, memberEpoch: 0}}""",
}


def played(rule: str, names: Iterable[str]) -> Exchange:
    """The script of a rule. Each connection shows a certificate of the next name, none if that is empty."""
    given = iter(names)

    def connected(**how: Any) -> Exchange:
        exchange = Exchange(**how)
        if name := next(given):
            exchange.show_name(name)
        return exchange

    player = Player(connected)
    for line in SCRIPTS[rule].strip().splitlines():
        player.play(line)
    return player.exchange


def accusations(rule: str, names: Iterable[str], size: int) -> int:
    return sum(finding.rule == rule for finding in played(rule, names).judge(size).findings)


@pytest.mark.parametrize("size", [1, 4, 10_000])
@pytest.mark.parametrize("rule", SCRIPTS)
def test_only_what_may_be_one_client_is_held_together(rule: str, size: int) -> None:
    """Connections that both show a name, and not the same one, are not; one that shows none may be any's."""
    asked_first = ["", ""] if "connection other" in SCRIPTS[rule] else [""]
    half_known = itertools.chain(asked_first, itertools.repeat("bob"))
    for names in (itertools.repeat("alice"), itertools.repeat(""), half_known):
        assert accusations(rule, names, size) == 1
    assert accusations(rule, map(str, itertools.count()), size) == 0
