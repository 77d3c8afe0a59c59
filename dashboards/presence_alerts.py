"""Alerts on whether kipwatch is running and judging at all.

Without them "no violations" and "blind" would look alike.
"""

from __future__ import annotations

from dashboards.alert import BLIND, Alert, Severity, Watches
from dashboards.links import CONFORMANCE, PIPELINE, Places
from dashboards.promql import none_of, one_of, select, total
from dashboards.thresholds import (
    BEGUN_WITHIN,
    FIRST_BATCH,
    KEY_LOG_WORKED_WITHIN,
    STALLED_AFTER,
    TRAFFIC_WINDOW,
    WITHOUT_KEYS,
    WITHOUT_TRAFFIC,
)
from decoders.tls.outcome import Outcome
from decoders.wire.ledger import SkipReason
from streaming.metrics import definitions as metrics

WATCHDOG = "KipwatchWatchdog"


def alerts(places: Places) -> list[Alert]:
    """Return the alerts on parts that are absent or stalled, and the watchdog."""
    return [
        _application_absent(places),
        _stalled(places),
        _first_batch_missing(places),
        _feeder_absent(places),
        _no_feeder(places),
        _no_traffic(places),
        _only_opaque(places),
        _key_log_stopped(places),
        _watchdog(places),
    ]


def _application_absent(places: Places) -> Alert:
    latest = metrics.LAST_BATCH_TIMESTAMP
    return Alert(
        "KipwatchApplicationAbsent",
        Watches.KIPWATCH,
        Severity.CRITICAL,
        f"({_gone(latest, 'job')}) or absent_over_time({latest.name}[1d])",
        summary="Prometheus cannot reach kipwatch: no violation would be seen.",
        description=(
            "The application answers no scrape. Until it is back, the absence of violations means nothing."
        ),
        runbook=places.section("kipwatchapplicationabsent"),
        dashboard=places.dashboard(PIPELINE),
        wait="2m",
        labels=BLIND,
    )


def _stalled(places: Places) -> Alert:
    return Alert(
        "KipwatchStalled",
        Watches.KIPWATCH,
        Severity.CRITICAL,
        f"time() - max by (job) ({metrics.LAST_BATCH_TIMESTAMP.name} > 0) > {STALLED_AFTER}",
        summary="kipwatch judges nothing: no violation would be seen.",
        description=(
            "The latest batch was finished {{ $value | humanizeDuration }} ago. Until one is, the absence of "
            "violations means nothing."
        ),
        runbook=places.section("kipwatchstalled"),
        dashboard=places.dashboard(PIPELINE, "job"),
        wait="1m",
        labels=BLIND,
    )


def _first_batch_missing(places: Places) -> Alert:
    latest = metrics.LAST_BATCH_TIMESTAMP.name
    seen = f"max by (job) (present_over_time({latest}[{FIRST_BATCH}] offset {BEGUN_WITHIN}))"
    return Alert(
        "KipwatchFirstBatchMissing",
        Watches.KIPWATCH,
        Severity.CRITICAL,
        f"max by (job) (max_over_time({latest}[{FIRST_BATCH}])) == 0 and {seen}",
        summary="kipwatch was started and judges nothing yet: no violation would be seen.",
        description=(
            f"The application started more than {BEGUN_WITHIN} ago and has not finished its first batch. "
            "Until it has, the absence of violations means nothing."
        ),
        runbook=places.section("kipwatchfirstbatchmissing"),
        dashboard=places.dashboard(PIPELINE, "job"),
        labels=BLIND,
    )


def _feeder_absent(places: Places) -> Alert:
    return Alert(
        "KipwatchFeederAbsent",
        Watches.KIPWATCH,
        Severity.WARNING,
        _gone(metrics.FEED_WAITING_BYTES, "job", "instance"),
        summary="A feeder has gone: what passes its broker is not seen.",
        description="The feeder at {{ $labels.instance }} answered within the last day and no longer does.",
        runbook=places.section("kipwatchfeederabsent"),
        dashboard=places.dashboard(PIPELINE, "job"),
        wait="5m",
    )


def _no_feeder(places: Places) -> Alert:
    return Alert(
        "KipwatchNoFeeder",
        Watches.KIPWATCH,
        Severity.CRITICAL,
        f"absent({metrics.FEED_WAITING_BYTES.name})",
        summary="No feeder can be reached: no violation would be seen.",
        description=(
            "Prometheus scrapes no feeder at all. Until one is back, the absence of violations means nothing."
        ),
        runbook=places.section("kipwatchnofeeder"),
        dashboard=places.dashboard(PIPELINE),
        wait="5m",
        labels=BLIND,
    )


def _no_traffic(places: Places) -> Alert:
    reasons = (SkipReason.OWN, SkipReason.EXCLUDED, SkipReason.OTHER_PORT)
    not_watched = [f"skipped-{reason}" for reason in reasons]
    captured = select(metrics.CAPTURE_BYTES, none_of("fate", not_watched))
    return Alert(
        "KipwatchNoTraffic",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"{total(f'increase({captured}[{TRAFFIC_WINDOW}])', 'job', 'instance')} == 0",
        summary="A feeder sees no traffic: its port or interface may be wrong.",
        description=(
            f"The feeder at {{{{ $labels.instance }}}} captured nothing of others for {WITHOUT_TRAFFIC}. "
            "What passes its broker is not seen."
        ),
        runbook=places.section("kipwatchnotraffic"),
        dashboard=places.dashboard(PIPELINE, "job"),
        wait=WITHOUT_TRAFFIC,
    )


def _only_opaque(places: Places) -> Alert:
    port = ("job", "instance", "port")
    unread = [f"skipped-{reason}" for reason in (SkipReason.OPAQUE, SkipReason.ENCRYPTED)]
    opaque, framed = (
        select(metrics.CAPTURE_PORT_BYTES, one_of("fate", fates)) for fates in (unread, ["framed"])
    )
    return Alert(
        "KipwatchOnlyOpaque",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"{total(f'increase({opaque}[{TRAFFIC_WINDOW}])', *port)} > 0 "
        f"and {total(f'increase({framed}[{TRAFFIC_WINDOW}])', *port)} == 0",
        summary="A watched port carries only TLS or another protocol: nothing is judged there.",
        description=(
            "The feeder at {{ $labels.instance }} cannot read anything on port {{ $labels.port }}. That no "
            "violations are found there means nothing."
        ),
        runbook=places.section("kipwatchonlyopaque"),
        dashboard=places.dashboard(PIPELINE, "job"),
        wait=WITHOUT_TRAFFIC,
    )


def _key_log_stopped(places: Places) -> Alert:
    read, no_key = (
        select(metrics.TLS_CONNECTIONS, one_of("outcome", [outcome]))
        for outcome in (Outcome.READ, Outcome.NO_KEY)
    )
    feeder = ("job", "instance")
    return Alert(
        "KipwatchTlsKeyLogStopped",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"{total(f'increase({no_key}[{TRAFFIC_WINDOW}])', *feeder)} > 0 "
        f"and {total(f'increase({read}[{TRAFFIC_WINDOW}])', *feeder)} == 0 "
        f"and {total(f'increase({read}[{KEY_LOG_WORKED_WITHIN}])', *feeder)} > 0",
        summary="The key log has stopped: new TLS connections are not read.",
        description=(
            "The feeder at {{ $labels.instance }} reads none of the TLS connections that open, and did "
            "before. What they carry is not judged."
        ),
        runbook=places.section("kipwatchtlskeylogstopped"),
        dashboard=places.dashboard(PIPELINE, "job"),
        wait=WITHOUT_KEYS,
    )


def _watchdog(places: Places) -> Alert:
    return Alert(
        WATCHDOG,
        Watches.KIPWATCH,
        Severity.NONE,
        "vector(1)",
        summary="Alerts reach you.",
        description="This alert always fires. If it no longer arrives, no other would.",
        runbook=places.section("kipwatchwatchdog"),
        dashboard=places.dashboard(CONFORMANCE),
    )


def _gone(metric: metrics.Metric, *labels: str) -> str:
    """Series that were there within a day and are no longer."""
    name, by = metric.name, f"max by ({', '.join(labels)})"
    return f"{by} (last_over_time({name}[1d])) unless {by} ({name})"
