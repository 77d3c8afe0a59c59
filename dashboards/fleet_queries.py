"""Queries on the fleet: requests by API version, group protocols, and what brokers advertise."""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.promql import counted, findings, grown, one_of, part, select, stepped, total
from dashboards.queries import (
    CLUSTER,
    INTERVAL,
    JOB,
    MOST_OPEN_BY_SOFTWARE,
    RANGE,
    RATE,
    SEEING,
    SOFTWARE,
    WHOSE,
    gravest_first,
    open_now,
    or_zero,
)
from decoders.protocol import HEARTBEAT_APIS
from expectations.report.upgrade import NEWER, UpgradeFate
from streaming.metrics import definitions as metrics
from streaming.metrics.labels import FORMER

NAME = "client_software_name"
VERSION = ("api", "version")
FATES = (*UpgradeFate, NEWER)
GHOST = "kip1082/member-ghost"
REBOOTSTRAP_REPEATED = "kip1242/rebootstrap-with-ids"
CLASSIC_HEARTBEAT = "Heartbeat"
GROUP_HEARTBEATS = HEARTBEAT_APIS.values()
_SOURCE = ("job", "instance")
_COUNTED = f'{NAME}!="{FORMER}"'
"""Excludes `former`, whose counts were counted under the software's name before."""


def requests(*matchers: str) -> str:
    """A selector of the requests of the chosen software."""
    return select(metrics.REQUESTS, JOB, SOFTWARE, _COUNTED, *matchers)


def sent(*by: str, of: str) -> str:
    """Requests over the range by some labels, without zeros."""
    return f"{counted(grown(of, RANGE), *by)} > 0"


def sent_rate(*by: str, of: str) -> str:
    """Requests a second at each step, by some labels."""
    return total(f"rate({of}[{RATE}])", *by)


def known_as(expression: str, *matchers: str) -> str:
    """Restrict requests to known API versions, and add their fate and header as labels.

    If the schemas changed within the range, one entry of a version counts.
    """
    known = f"last_over_time({select(metrics.API_VERSIONS, JOB, *matchers)}[{RANGE}])"
    key = ", ".join((*_SOURCE, *VERSION))
    return f"{expression} * on ({key}) group_left (fate, header) topk by ({key}) (1, {known})"


def fated(*fates: str) -> str:
    """Requests over the range of API versions with these fates."""
    return known_as(total(grown(requests(), RANGE), *_SOURCE, *VERSION, NAME), one_of("fate", fates))


def fated_by(*by: str, fates: Sequence[str] = FATES) -> str:
    """Requests over the range of API versions with these fates, by some labels, without zeros."""
    return f"{counted(fated(*fates), *by)} > 0"


def fated_rate(*by: str, fates: Sequence[str] = FATES) -> str:
    """Requests a second of API versions with these fates, by some labels."""
    return total(known_as(sent_rate(*_SOURCE, *VERSION, NAME, of=requests()), one_of("fate", fates)), *by)


REMOVED = or_zero(counted(fated(UpgradeFate.REMOVED)))
DEPRECATED = or_zero(counted(fated(UpgradeFate.DEPRECATED)))
BREAKING = or_zero(f"count({fated_by(NAME, fates=(UpgradeFate.REMOVED,))})")
SENT = total(grown(requests(), RANGE))

_IN_HEADER_3 = 'header="3"'
_HEADER_3 = known_as(total(grown(requests(), RANGE), *_SOURCE, *VERSION), _IN_HEADER_3)
_HEADER_3_RATE = known_as(sent_rate(*_SOURCE, *VERSION, NAME, of=requests()), _IN_HEADER_3)
HEADER_3_SHARE = part(total(_HEADER_3), SENT)
HEADER_3_TREND = f"{total(_HEADER_3_RATE, NAME)} / ({sent_rate(NAME, of=requests())} > 0)"


def _ids(*matchers: str) -> str:
    return total(grown(select(metrics.BROKER_IDS, JOB, SOFTWARE, _COUNTED, *matchers), RANGE))


IDS_SHARE = part(_ids('ids="given"'), _ids())
"""The share of ApiVersions requests, of version 5 or later, that name the intended broker."""

_HEARTBEATS = requests(one_of("api", (CLASSIC_HEARTBEAT, *GROUP_HEARTBEATS)))
_CLASSIC = requests(one_of("api", [CLASSIC_HEARTBEAT]))


def _by_protocol(expression: str) -> str:
    """Add the protocol of the group to heartbeats, as a label."""
    classic = f'label_replace({expression}, "protocol", "Classic", "api", "{CLASSIC_HEARTBEAT}")'
    return f'label_replace({classic}, "protocol", "$1", "api", "(.+)GroupHeartbeat")'


HEARTBEATS_BY_PROTOCOL = _by_protocol(sent_rate("api", of=_HEARTBEATS))
HEARTBEATS_BY_CLIENT = _by_protocol(sent(NAME, *VERSION, of=_HEARTBEATS))
CLASSIC_BY_CLIENT = sent_rate(NAME, of=_CLASSIC)
CLASSIC_CLIENTS = or_zero(f"count({sent(NAME, of=_CLASSIC)})")
NEW_PROTOCOL_SHARE = part(
    total(grown(requests(one_of("api", GROUP_HEARTBEATS)), RANGE)), total(grown(_HEARTBEATS, RANGE))
)

_BROKERS = select(metrics.BROKERS, JOB, CLUSTER)
_VERSIONS_IN_USE = f"group by (versions) ({_BROKERS})"
_FEATURES_IN_USE = f"group by (features) ({_BROKERS})"
_VERSIONS = f"({select(metrics.ADVERTISED_VERSIONS, JOB)} and on (versions) {_VERSIONS_IN_USE})"
_FEATURES = f"({select(metrics.ADVERTISED_FEATURES, JOB)} and on (features) {_FEATURES_IN_USE})"
BROKERS = f"max by (cluster, listener, broker, versions, features) ({_BROKERS})"
BROKER_COUNT = or_zero(f"count({BROKERS})")
OFFERS = or_zero(f"count({_VERSIONS_IN_USE})")
RANGES = f"max by (api, lowest, highest, versions) {_VERSIONS}"
FEATURES = f"max by (feature, kind, lowest, highest, features) {_FEATURES}"
_SAME = f"count by (api, lowest, highest) (group by (api, lowest, highest, versions) {_VERSIONS})"
_DIFFERENT = f"{RANGES} unless on (api, lowest, highest) ({_SAME} == scalar(count({_VERSIONS_IN_USE})))"
DIFFERENT_COUNT = or_zero(f"count(group by (api) ({_DIFFERENT}))")
_AMOUNTS = f'count_values by (versions) ("amount", count by (versions) ({BROKERS}))'
_ALIKE = f"topk by (versions) (1, {BROKERS}) * on (versions) group_left (amount) {_AMOUNTS}"
_JOINED = f'label_join({_ALIKE}, "brokers", "|", "broker", "amount")'
_NAMED = f'label_replace({_JOINED}, "brokers", "$1 (1 of $2)", "brokers", "(.*)[|](.*)")'
DIFFERENT = (
    f'label_join(({_DIFFERENT}) * on (versions) group_left (brokers) {_NAMED}, "range", "\u2013", '
    '"lowest", "highest")'
)
"""The versions of each API by the brokers that offer them: the address of one, and their number."""
CHANGES = total(stepped(select(metrics.RANGES_CHANGES, JOB), INTERVAL), "listener")


def _offences(*matchers: str) -> str:
    return grown(findings(JOB, WHOSE, *matchers), RANGE)


def offences_by(*by: str, of: str = ".+") -> str:
    """Offences of the chosen software over the range by some labels. `of` is a pattern of rules."""
    chosen = _offences(f'rule=~"{of}"')
    return f"{counted(chosen, *by)} > 0"


OFFENCES_BY_LEVEL = gravest_first(_offences)
GHOSTS = or_zero(counted(_offences(one_of("rule", [GHOST]))))
_REBOOTSTRAPS = select(metrics.RULE_CHECKS, JOB, one_of("rule", [REBOOTSTRAP_REPEATED]))
REBOOTSTRAPS = counted(grown(_REBOOTSTRAPS, RANGE), "verdict")
"""How often the next connection after a rebootstrap gave up the IDs (conforms), or showed them again."""
VERSIONS_SEEN = or_zero(f"count({MOST_OPEN_BY_SOFTWARE})")
RELEASES = (
    f"group by (kafka) ({select(metrics.BUILD_INFO, JOB)}) "
    'or on () label_replace(vector(0), "kafka", "no data", "", "")'
)
"""Grafana shows the names of series, so a series stands for the absence of others."""
OPEN = f"{open_now()} or 0 * {SEEING.delivers}"
