"""Alerts on the watched Kafka: clients and brokers that break the rules.

The level of each finding counts. Levels below a violation are shown on dashboards and fire no alert, except
for many misrouted clients at once.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from dashboards.alert import (
    KEEP_FIRING,
    KNOWN_FOR,
    MISROUTED_STORM,
    NEW_FOR,
    UNIDENTIFIED_FOR,
    UNIDENTIFIED_TIMES,
    VALIDATED_WITHIN,
    Alert,
    Severity,
    Watches,
)
from dashboards.links import CLIENTS, FINDINGS, FINDINGS_OF_LABEL, PIPELINE, RULE, SECTION_OF_LABEL
from dashboards.promql import level, none_of, one_of, role, select, total
from dashboards.recordings import OFFENCES, SOFTWARE
from expectations.judging.outcome import SUPPRESSED
from expectations.rules.base.rule import Level, Role
from streaming.metrics import definitions as metrics
from streaming.metrics.labels import UNKNOWN

CLIENT_VIOLATION = "KafkaClientProtocolViolation"
INSTANCE_ID_SHARED = "kip1313/instance-id-shared"
MEMBER_ID_SHARED = "kip1082/member-id-shared"
MISROUTED = "kip1242/misrouted"
SHARED = (INSTANCE_ID_SHARED, MEMBER_ID_SHARED)
"""Rules with alerts of their own, because data is at risk and not only the next upgrade."""

BY_RULE = ("job", "cluster", "rule")
BY_SOFTWARE = (*BY_RULE, "owner", "client_software_name")
IDENTIFIED = none_of("client_software_name", [UNKNOWN])
UNIDENTIFIED = one_of("client_software_name", [UNKNOWN])
"""Connections that sent no ApiVersions with a name: old clients, scanners, strays."""
_SAME = "{job=%q, cluster=%q, rule=%q} > 0"
CLIENT = "{{ $labels.client_software_name }}"
OF = f'{{{{ with $labels.owner }}}}{{{{ if ne . "{UNKNOWN}" }}}} of {{{{ . }}}}{{{{ end }}}}{{{{ end }}}}'
"""The owner of the clients, if there is one."""
IN = "{{ with $labels.cluster }} Cluster: {{ . }}.{{ end }}"


def _offending(label: str, *shared: str, before: str = "", after: str = "") -> str:
    """Return a template of the values of a label, of the offences that share labels with the alert."""
    matched = ", ".join(f"{each}=%q" for each in shared)
    given = " ".join(f"$labels.{each}" for each in shared)
    query = f"query (printf `sum by ({label}) ({OFFENCES}{{{matched}}} > 0)` {given})"
    listed = f"{{{{ if $place }}}}, {{{{ end }}}}{{{{ $each.Labels.{label} }}}}"
    return (
        f"{{{{ with {query} | sortByLabel `{label}` }}}}{before}"
        f"{{{{ range $place, $each := . }}}}{listed}{{{{ end }}}}{after}{{{{ end }}}}"
    )


WHERE = IN + _offending("listener", *BY_RULE, before=" Listeners: ", after=".")
"""The cluster, and its listeners, if known, at which any client broke the rule meanwhile."""
VERSIONS = _offending("client_software_version", *BY_SOFTWARE)
"""The versions of the software that offend."""
OPEN = (
    f"{{{{ with query (printf `sum({metrics.CONNECTIONS.name}{{job=%q, client_software_name=%q}})` "
    "$labels.job $labels.client_software_name) }}{{ . | first | value }}{{ else }}0{{ end }}"
)
"""How many connections of the software are open, of any owner. No metric tells how many of them offend."""
ABOUT = '{{ printf "%.0f" $value }}'


def _offences(*matchers: str) -> str:
    return select(OFFENCES, level(Level.VIOLATION), *matchers)


def _violations(software: str) -> str:
    """Violations by clients whose software a matcher selects, of rules without alerts of their own."""
    return total(_offences(role(Role.CLIENT), none_of("rule", SHARED), software), *BY_SOFTWARE)


def _newly_violating() -> str:
    offences, software = _offences(role(Role.CLIENT), IDENTIFIED), ("job", "cluster", "owner", *SOFTWARE)
    known = total(f"max_over_time({offences}[{KNOWN_FOR}] offset {NEW_FOR})", *software)
    return f"{total(offences, *software)} > 0 unless {known} > 0"


def _misrouted() -> str:
    misrouted = select(OFFENCES, one_of("rule", [MISROUTED]), none_of("level", [SUPPRESSED]))
    return f"{total(misrouted, *BY_RULE)} > {MISROUTED_STORM}"


def _policy_not_met() -> str:
    success = f"min_over_time({metrics.EXPECTATION_SUCCESS.name}[{VALIDATED_WITHIN}])"
    info = f"max by (job, suite, expectation, says) ({metrics.POLICY_INFO.name})"
    return (
        f"(min by (job, suite, expectation) ({success}) == 0) "
        f"+ on (job, suite, expectation) group_left (says) (0 * {info})"
    )


_alert = partial(
    Alert,
    watches=Watches.KAFKA,
    dashboard=RULE,
    variables=BY_RULE,
    findings=FINDINGS_OF_LABEL,
    keep=KEEP_FIRING,
)
_of_rule = partial(_alert, section=SECTION_OF_LABEL)
"""On a rule, whose own section of the runbook says what to do."""


def _shared(name: str, severity: Severity, rule: str, *, summary: str, consequence: str) -> Alert:
    offences = _offences(one_of("rule", [rule]))
    return _of_rule(
        name,
        severity,
        f"{total(offences, *BY_RULE)} > 0",
        summary=summary,
        description=(
            f"Clients presented an ID that others have; offences in 5 minutes: about {ABOUT}.{WHERE} "
            f"{consequence} The findings name both sides; which of them copied the ID they do not tell."
        ),
    )


ALERTS: Final = (
    _of_rule(
        CLIENT_VIOLATION,
        Severity.WARNING,
        f"{_violations(IDENTIFIED)} > 0",
        summary="A Kafka client breaks a rule of the protocol.",
        description=(
            f"{CLIENT}{OF} broke {{{{ $labels.rule }}}}; offences in 5 minutes: about "
            f"{ABOUT}.{WHERE} The topic kipwatch.findings holds the connections and the bytes."
        ),
        variables=BY_SOFTWARE,
        details={"versions": VERSIONS, "connections": OPEN},
    ),
    # Repeated offences only: one packet of a scanner is an offence, too.
    _of_rule(
        CLIENT_VIOLATION,
        Severity.WARNING,
        f"count_over_time(({_violations(UNIDENTIFIED)} > 0)[{UNIDENTIFIED_FOR}:5m]) >= {UNIDENTIFIED_TIMES}",
        summary="A Kafka client that never says which software it is breaks a rule of the protocol.",
        description=(
            f"Connections without a name{OF} broke {{{{ $labels.rule }}}} again and again: in {ABOUT} "
            f"periods of 5 minutes within {UNIDENTIFIED_FOR}.{WHERE} The topic kipwatch.findings holds their "
            "addresses and the bytes."
        ),
        variables=BY_SOFTWARE,
        labels={"identified": "false"},
    ),
    _of_rule(
        "KafkaBrokerProtocolViolation",
        Severity.WARNING,
        f"{total(_offences(role(Role.BROKER)), *BY_RULE)} > 0",
        summary="A Kafka broker breaks a rule of the protocol.",
        description=(
            f"A broker broke {{{{ $labels.rule }}}}; offences in 5 minutes: about {ABOUT}.{WHERE} The topic "
            "kipwatch.findings names the broker, the connections and the bytes."
        ),
    ),
    _alert(
        "KafkaClientSoftwareNewlyViolating",
        Severity.INFO,
        _newly_violating(),
        summary="A version of a client software violates that did not before.",
        description=(
            f"{CLIENT} {{{{ $labels.client_software_version }}}}{OF} broke rules for the "
            f"first time in {KNOWN_FOR}; offences in 5 minutes: about {ABOUT}.{IN} It is a new release or a "
            "new client."
        ),
        dashboard=CLIENTS,
        variables=("job", "cluster", "owner", "client_software_name"),
        findings=FINDINGS,
    ),
    _shared(
        "KafkaClientInstanceIdShared",
        Severity.WARNING,
        INSTANCE_ID_SHARED,
        summary="Different clients present the same instance ID.",
        consequence="Brokers take them for one client: the telemetry of one is booked to the other.",
    ),
    _shared(
        "KafkaMemberIdShared",
        Severity.CRITICAL,
        MEMBER_ID_SHARED,
        summary="Two consumers of a group present the same member ID.",
        consequence=(
            "The coordinator takes them for one member: each fences the other, and records may go unread."
        ),
    ),
    _alert(
        "KafkaClientsMisrouted",
        Severity.WARNING,
        _misrouted(),
        summary="Many clients reach another broker than they meant to.",
        description=(
            f"Brokers told about {ABOUT} connections in 5 minutes that they came to the wrong broker or "
            f"cluster: addresses changed hands, or a load balancer or DNS mixes them up.{WHERE}"
        ),
    ),
    _alert(
        "KafkaPolicyNotMet",
        Severity.WARNING,
        _policy_not_met(),
        summary="A policy of your own is not kept.",
        description=(
            "A sample within the last hour did not meet {{ $labels.expectation }} of the policy "
            "{{ $labels.suite }}: {{ $labels.says }}"
        ),
        dashboard=PIPELINE,
        variables=("job",),
        findings="",
    ),
)
