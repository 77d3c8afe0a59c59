"""Alerts on kipwatch itself: it sees nothing, too little, or too late.

Without them "no violations" and "blind" would look alike.
"""

from __future__ import annotations

from dashboards.alert import BLIND, Alert, Severity, Watches
from dashboards.links import CONFORMANCE, PIPELINE, Places
from dashboards.recordings import EXERCISED, LOST, UNDECODABLE, slow
from dashboards.thresholds import (
    BURN_RATES,
    DELAY_OBJECTIVE,
    DELAY_SECONDS,
    EXERCISED_HOURS,
    GROWING_LAG,
    KEEP_FIRING,
    KNOWN_FOR,
    LOST_SHARE,
    STALLED_AFTER,
    UNDECODABLE_SHARE,
)
from streaming import metrics

CRITICAL_WINDOWS = 2
"""So many of the pairs of windows, the fastest ones, wake somebody; the others can wait for the day."""
PERCENT = "{{ $value | humanizePercentage }}"


def alerts(places: Places) -> list[Alert]:
    """The alerts that tell of the monitor."""
    return [
        _application_absent(places),
        _stalled(places),
        _feeder_absent(places),
        _no_feeder(places),
        _capture_loss(places),
        _undecodable(places),
        _coverage_lost(places),
        _lag_growing(places),
        *_delay_budget(places),
        _watchdog(places),
    ]


def _gone(metric: metrics.Metric, *labels: str) -> str:
    """Series that were there within a day and are no longer."""
    name, by = metric.name, f"max by ({', '.join(labels)})"
    return f"{by} (last_over_time({name}[1d])) unless {by} ({name})"


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
        f"time() - max by (job) ({metrics.LAST_BATCH_TIMESTAMP.name}) > {STALLED_AFTER}",
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


def _capture_loss(places: Places) -> Alert:
    return Alert(
        "KipwatchCaptureLoss",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"{LOST} > {LOST_SHARE}",
        summary="A feeder misses part of what passes its broker.",
        description=(
            f"The feeder at {{{{ $labels.instance }}}} missed {PERCENT} of the bytes of the last 5 minutes. "
            "Checks that depend on them are undecided."
        ),
        runbook=places.section("kipwatchcaptureloss"),
        dashboard=places.dashboard(PIPELINE, "job"),
        wait="5m",
        keep=KEEP_FIRING,
    )


def _undecodable(places: Places) -> Alert:
    return Alert(
        "KipwatchUndecodableFrames",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"{UNDECODABLE} > {UNDECODABLE_SHARE}",
        summary="Frames cannot be decoded, and so not judged.",
        description=(
            f"No known schema could read {PERCENT} of the frames of the last 15 minutes: a newer Kafka, a "
            "protocol of somebody's own, or frames that are broken."
        ),
        runbook=places.section("kipwatchundecodableframes"),
        dashboard=places.dashboard(PIPELINE, "job"),
        wait="10m",
        keep=KEEP_FIRING,
    )


def _coverage_lost(places: Places) -> Alert:
    steadily = f"avg_over_time({EXERCISED}[{KNOWN_FOR}] offset 1d) > {EXERCISED_HOURS}"
    return Alert(
        "KipwatchCoverageLost",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"max_over_time({EXERCISED}[1d]) == 0 and {steadily}",
        summary="A rule that used to be exercised no longer is.",
        description=(
            f"{{{{ $labels.rule }}}} was decided in most hours of the {KNOWN_FOR} before and not once in the "
            "last day. That nobody breaks it no longer says anything."
        ),
        runbook=places.section("kipwatchcoveragelost"),
        dashboard=places.dashboard(CONFORMANCE, "job", "rule"),
        wait="30m",
    )


def _lag_growing(places: Places) -> Alert:
    lag = metrics.TOPIC_LAG.name
    grows = f"min by (job) (min_over_time({lag}[5m])) > max by (job) (max_over_time({lag}[5m] offset 10m))"
    return Alert(
        "KipwatchLagGrowing",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"max by (job) ({lag}) > {GROWING_LAG} and {grows}",
        summary="Frames come faster than they are judged.",
        description=(
            "{{ $value | humanize }} records wait to be judged, more than 10 minutes ago. What the topic no "
            "longer keeps is lost unjudged."
        ),
        runbook=places.section("kipwatchlaggrowing"),
        dashboard=places.dashboard(PIPELINE, "job"),
        wait="10m",
        keep=KEEP_FIRING,
    )


def _delay_budget(places: Places) -> list[Alert]:
    return [
        _budget_burn(places, *burn, Severity.CRITICAL if place < CRITICAL_WINDOWS else Severity.WARNING)
        for place, burn in enumerate(BURN_RATES)
    ]


def _budget_burn(places: Places, short: str, long: str, rate: float, severity: Severity) -> Alert:
    budget = f"{rate:g} * {1 - DELAY_OBJECTIVE:g}"
    return Alert(
        "KipwatchDetectionDelayBudgetBurn",
        Watches.KIPWATCH,
        severity,
        f"{slow(long)} > {budget} and {slow(short)} > {budget}",
        summary="Frames are judged later than the objective allows.",
        description=(
            f"{PERCENT} of the frames of the last {long} were judged more than {DELAY_SECONDS} s after their "
            f"capture: the budget of 30 days is spent {rate:g} times as fast as it may be."
        ),
        runbook=places.section("kipwatchdetectiondelaybudgetburn"),
        dashboard=places.dashboard(PIPELINE, "job"),
        labels={"window": long},
    )


def _watchdog(places: Places) -> Alert:
    return Alert(
        "KipwatchWatchdog",
        Watches.KIPWATCH,
        Severity.NONE,
        "vector(1)",
        summary="Alerts reach you.",
        description="This alert always fires. If it no longer arrives, no other would.",
        runbook=places.section("kipwatchwatchdog"),
        dashboard=places.dashboard(CONFORMANCE),
    )
