"""Alerts on a kipwatch that works badly: it judges too little or too late."""

from __future__ import annotations

from dashboards.alert import Alert, Severity, Watches
from dashboards.links import CONFORMANCE, PIPELINE, Places
from dashboards.promql import none_of, select, total
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
    UNDECODABLE_SHARE,
    VALIDATED_WITHIN,
)
from streaming.metrics import definitions as metrics

CRITICAL_WINDOWS = 2
"""The number of window pairs, fastest first, whose alert is critical; the others are warnings."""
OF_THE_FLEET = (
    "software-known",
    "header-certain",
    "version-in-schema",
    "api-not-unknown",
    "epoch-exists",
    "record-unique",
    "opened-once",
    "closed-once",
    "sequence-ascending",
)
"""Expectations on what clients send, or that a capture is fed once. They tell of no fault of kipwatch."""
PERCENT = "{{ $value | humanizePercentage }}"


def alerts(places: Places) -> list[Alert]:
    """Return the alerts on a kipwatch that runs but does not work as it should."""
    return [
        _capture_loss(places),
        _undecodable(places),
        _coverage_lost(places),
        _lag_growing(places),
        *_delay_budget(places),
        _label_overflow(places),
        _expectation_not_met(places),
    ]


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
            "{{ $value | humanize }} frames wait to be judged, and their number keeps growing. What the "
            "topic no longer keeps is lost unjudged."
        ),
        runbook=places.section("kipwatchlaggrowing"),
        dashboard=places.dashboard(PIPELINE, "job"),
        wait="10m",
        keep=KEEP_FIRING,
    )


def _label_overflow(places: Places) -> Alert:
    return Alert(
        "KipwatchLabelOverflow",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"{total(f'increase({metrics.LABEL_OVERFLOW.name}[15m])', 'job')} > 0",
        summary="More client software is seen than metrics have labels for: names are missing.",
        description=(
            "About {{ $value | humanize }} observations of 15 minutes are counted as `other`. Sums are "
            "right, and findings name the software; dashboards and alerts do not."
        ),
        runbook=places.section("kipwatchlabeloverflow"),
        dashboard=places.dashboard(PIPELINE, "job"),
        wait="15m",
        keep=KEEP_FIRING,
    )


def _expectation_not_met(places: Places) -> Alert:
    success = select(metrics.EXPECTATION_SUCCESS, none_of("expectation", OF_THE_FLEET))
    return Alert(
        "KipwatchExpectationNotMet",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"min by (job, suite, expectation) (min_over_time({success}[{VALIDATED_WITHIN}])) == 0",
        summary="kipwatch's own data is not as it must be.",
        description=(
            "A sample within the last hour did not meet {{ $labels.expectation }} of {{ $labels.suite }}. Do "
            "not build on verdicts and sums of this time before it is explained."
        ),
        runbook=places.section("kipwatchexpectationnotmet"),
        dashboard=places.dashboard(PIPELINE, "job"),
    )


def _delay_budget(places: Places) -> list[Alert]:
    return [
        _budget_burn(places, *burn, Severity.CRITICAL if place < CRITICAL_WINDOWS else Severity.WARNING)
        for place, burn in enumerate(BURN_RATES)
    ]


def _budget_burn(places: Places, short: str, long: str, rate: float, severity: Severity) -> Alert:
    budget = f"{rate:g} * {1 - DELAY_OBJECTIVE:g}"
    # In a window that is not full yet, the first start of Spark alone would exceed the budget.
    full = f"max by (job) (present_over_time({metrics.DETECTION_DELAY.name}_count[{long}] offset {long}))"
    return Alert(
        "KipwatchDetectionDelayBudgetBurn",
        Watches.KIPWATCH,
        severity,
        f"{slow(long)} > {budget} and {slow(short)} > {budget} and {full}",
        summary="Frames are judged later than the objective allows.",
        description=(
            f"{PERCENT} of the frames of the last {long} were judged more than {DELAY_SECONDS} s after their "
            f"capture. At this rate the budget of 30 days lasts less than {30 / rate:.2g} days."
        ),
        runbook=places.section("kipwatchdetectiondelaybudgetburn"),
        dashboard=places.dashboard(PIPELINE, "job"),
        labels={"window": long},
    )
