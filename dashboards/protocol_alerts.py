"""Alerts on the watched Kafka: clients and brokers that break the rules.

They use the level of each finding. Lower levels than a violation are shown on dashboards and fire no alert,
except for many misrouted clients at once.
"""

from __future__ import annotations

from dashboards.alert import Alert, Severity, Watches
from dashboards.links import CLIENTS, RULE, SECTION_OF_LABEL, Places
from dashboards.promql import grown, level, none_of, one_of, role, select, total, verdict
from dashboards.recordings import OFFENCES, SOFTWARE, VIOLATIONS
from dashboards.thresholds import (
    KEEP_FIRING,
    KNOWN_FOR,
    MISROUTED_STORM,
    NEW_FOR,
    UNIDENTIFIED_FOR,
    UNIDENTIFIED_TIMES,
)
from expectations.rules.base.rule import Level, Role, Verdict
from streaming.metrics import definitions as metrics
from streaming.metrics.label_values import UNKNOWN

CLIENT_VIOLATION = "KafkaClientProtocolViolation"
INSTANCE_ID_SHARED = "kip1313/instance-id-shared"
MEMBER_ID_SHARED = "kip1082/member-id-shared"
MISROUTED = "kip1242/misrouted"
SHARED = (INSTANCE_ID_SHARED, MEMBER_ID_SHARED)
"""Rules that have alerts of their own: data is at risk, not the next upgrade."""

BY_RULE = ("job", "rule")
BY_SOFTWARE = (*BY_RULE, "client_software_name")
IDENTIFIED = none_of("client_software_name", [UNKNOWN])
UNIDENTIFIED = one_of("client_software_name", [UNKNOWN])
"""Of connections that sent no ApiVersions with a name: old clients, scanners, strays."""
WHERE = (
    f"{{{{ with query (printf `{VIOLATIONS}{{job=%q, rule=%q}}` $labels.job $labels.rule) "
    "| sortByLabel `listener` }} Listeners: "
    "{{ range $place, $each := . }}{{ if $place }}, {{ end }}{{ $each.Labels.listener }}{{ end }}.{{ end }}"
)
"""The listeners at which the rule was broken meanwhile, by whichever client; nothing if none is known."""
ABOUT = '{{ printf "%.0f" $value }}'


def alerts(places: Places) -> list[Alert]:
    """Return the alerts on clients and brokers."""
    return [
        _client_violation(places),
        _unidentified_violation(places),
        _broker_violation(places),
        _new_software(places),
        _instance_id_shared(places),
        _member_id_shared(places),
        _misrouted(places),
    ]


def _offences(*matchers: str) -> str:
    return select(OFFENCES, level(Level.VIOLATION), *matchers)


def _client_violation(places: Places) -> Alert:
    offences = _offences(role(Role.CLIENT), none_of("rule", SHARED), IDENTIFIED)
    return Alert(
        CLIENT_VIOLATION,
        Watches.KAFKA,
        Severity.WARNING,
        f"{total(offences, *BY_SOFTWARE)} > 0",
        summary="A Kafka client breaks a rule of the protocol.",
        description=(
            "{{ $labels.client_software_name }} broke {{ $labels.rule }}; offences in 5 minutes: about "
            f"{ABOUT}.{WHERE} The topic kipwatch.findings holds the connections and the bytes."
        ),
        runbook=places.section(SECTION_OF_LABEL),
        dashboard=places.dashboard(RULE, *BY_SOFTWARE),
        keep=KEEP_FIRING,
    )


def _unidentified_violation(places: Places) -> Alert:
    """One packet of a scanner is an offence; an old client that never says its name goes on to offend."""
    offences = _offences(role(Role.CLIENT), none_of("rule", SHARED), UNIDENTIFIED)
    times = f"count_over_time(({total(offences, *BY_SOFTWARE)} > 0)[{UNIDENTIFIED_FOR}:5m])"
    return Alert(
        CLIENT_VIOLATION,
        Watches.KAFKA,
        Severity.WARNING,
        f"{times} >= {UNIDENTIFIED_TIMES}",
        summary="A Kafka client that never says which software it is breaks a rule of the protocol.",
        description=(
            f"Connections without a name broke {{{{ $labels.rule }}}} again and again: in {ABOUT} periods of "
            f"5 minutes within {UNIDENTIFIED_FOR}.{WHERE} The topic kipwatch.findings holds their addresses "
            "and the bytes."
        ),
        runbook=places.section(SECTION_OF_LABEL),
        dashboard=places.dashboard(RULE, *BY_SOFTWARE),
        keep=KEEP_FIRING,
        labels={"identified": "false"},
    )


def _broker_violation(places: Places) -> Alert:
    return Alert(
        "KafkaBrokerProtocolViolation",
        Watches.KAFKA,
        Severity.WARNING,
        f"{total(_offences(role(Role.BROKER)), *BY_RULE)} > 0",
        summary="A Kafka broker breaks a rule of the protocol.",
        description=(
            f"A broker broke {{{{ $labels.rule }}}}; offences in 5 minutes: about {ABOUT}.{WHERE} The topic "
            "kipwatch.findings names the broker, the connections and the bytes."
        ),
        runbook=places.section(SECTION_OF_LABEL),
        dashboard=places.dashboard(RULE, *BY_RULE),
        keep=KEEP_FIRING,
    )


def _new_software(places: Places) -> Alert:
    offences, software = _offences(role(Role.CLIENT), IDENTIFIED), ("job", *SOFTWARE)
    known = total(f"max_over_time({offences}[{KNOWN_FOR}] offset {NEW_FOR})", *software)
    return Alert(
        "KafkaClientSoftwareNewlyViolating",
        Watches.KAFKA,
        Severity.INFO,
        f"{total(offences, *software)} > 0 unless {known} > 0",
        summary="A version of a client software violates that did not before.",
        description=(
            "{{ $labels.client_software_name }} {{ $labels.client_software_version }} broke rules for the "
            f"first time in {KNOWN_FOR}; offences in 5 minutes: about {ABOUT}. It is a new release or a new "
            "client."
        ),
        runbook=places.section("kafkaclientsoftwarenewlyviolating"),
        dashboard=places.dashboard(CLIENTS, "job", "client_software_name"),
        keep=KEEP_FIRING,
    )


def _instance_id_shared(places: Places) -> Alert:
    return _shared(
        places,
        "KafkaClientInstanceIdShared",
        Severity.WARNING,
        INSTANCE_ID_SHARED,
        summary="Different clients present the same instance ID.",
        consequence="Brokers take them for one client: the telemetry of one is booked to the other.",
    )


def _member_id_shared(places: Places) -> Alert:
    return _shared(
        places,
        "KafkaMemberIdShared",
        Severity.CRITICAL,
        MEMBER_ID_SHARED,
        summary="Two consumers of a group present the same member ID.",
        consequence=(
            "The coordinator takes them for one member: each fences the other, and records may go unread."
        ),
    )


def _shared(
    places: Places, name: str, severity: Severity, rule: str, *, summary: str, consequence: str
) -> Alert:
    offences = _offences(one_of("rule", [rule]))
    return Alert(
        name,
        Watches.KAFKA,
        severity,
        f"{total(offences, *BY_SOFTWARE)} > 0",
        summary=summary,
        description=(
            "{{ $labels.client_software_name }} presented an ID that another connection uses; offences in 5 "
            f"minutes: about {ABOUT}.{WHERE} {consequence}"
        ),
        runbook=places.section(SECTION_OF_LABEL),
        dashboard=places.dashboard(RULE, *BY_SOFTWARE),
        keep=KEEP_FIRING,
    )


def _misrouted(places: Places) -> Alert:
    checks = select(metrics.RULE_CHECKS, one_of("rule", [MISROUTED]), verdict(Verdict.VIOLATES))
    misrouted = grown(checks, "5m")
    return Alert(
        "KafkaClientsMisrouted",
        Watches.KAFKA,
        Severity.WARNING,
        f"{total(misrouted, *BY_RULE)} > {MISROUTED_STORM}",
        summary="Many clients reach another broker than they meant to.",
        description=(
            f"Brokers told about {ABOUT} connections in 5 minutes that they came to the wrong broker or "
            f"cluster: addresses changed hands, or a load balancer or DNS mixes them up.{WHERE}"
        ),
        runbook=places.section("kafkaclientsmisrouted"),
        dashboard=places.dashboard(RULE, *BY_RULE),
        keep=KEEP_FIRING,
    )
