"""Alerts on kipwatch itself: parts that are absent or stalled, and work that is too little or too late.

Without the alerts on presence, "no violations" and "blind" would look alike.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from dashboards.alert import (
    BEGUN_WITHIN,
    BLIND,
    BURN_RATES,
    CONTRADICTIONS,
    DELAY_OBJECTIVE,
    DELAY_SECONDS,
    EXERCISED_HOURS,
    FIRST_BATCH,
    GROWING_LAG,
    KEEP_FIRING,
    KEY_LOG_WORKED_WITHIN,
    KNOWN_FOR,
    LOST_SHARE,
    STALLED_AFTER,
    TRAFFIC_WINDOW,
    UNDECODABLE_SHARE,
    VALIDATED_WITHIN,
    WATCH_AWAY,
    WITHOUT_KEYS,
    WITHOUT_TRAFFIC,
    Alert,
    Severity,
    Watches,
)
from dashboards.links import CONFORMANCE, PIPELINE
from dashboards.promql import none_of, one_of, select, total
from dashboards.recordings import EXERCISED, LOST, UNDECODABLE, slow
from decoders.tls.outcome import TlsOutcome
from decoders.wire.ledger import SkipReason
from streaming.metrics import definitions as metrics

WATCHDOG = "KipwatchWatchdog"
CRITICAL_WINDOWS = 2
"""How many pairs of windows, the fastest first, have critical alerts; the others have warnings."""
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
"""Expectations on what clients send, or that a capture is fed once. They show no fault of kipwatch."""
PERCENT = "{{ $value | humanizePercentage }}"
_FEEDER = ("job", "instance")
_alert = partial(Alert, watches=Watches.KIPWATCH, dashboard=PIPELINE, variables=("job",))


def _gone(metric: metrics.Metric, *by: str) -> str:
    """Select series that existed within a day and are gone."""
    name, latest = metric.name, f"max by ({', '.join(by)})"
    return f"{latest} (last_over_time({name}[1d])) unless {latest} ({name})"


def _increase(series: str, window: str, *by: str) -> str:
    """How far counters grew within a window, by some labels."""
    return total(f"increase({series}[{window}])", *by)


def _application_absent() -> str:
    latest = metrics.LAST_BATCH_TIMESTAMP
    return f"({_gone(latest, 'job')}) or absent_over_time({latest.name}[1d])"


def _first_batch_missing() -> str:
    latest = metrics.LAST_BATCH_TIMESTAMP.name
    # It must have been 0 then, too: otherwise an earlier run had finished batches.
    begun = f"max by (job) (min_over_time({latest}[{FIRST_BATCH}] offset {BEGUN_WITHIN})) == 0"
    return f"max by (job) (max_over_time({latest}[{FIRST_BATCH}])) == 0 and {begun}"


def _no_traffic() -> str:
    reasons = (SkipReason.OWN, SkipReason.EXCLUDED, SkipReason.OTHER_PORT)
    not_watched = [f"skipped-{reason}" for reason in reasons]
    captured = select(metrics.CAPTURE_BYTES, none_of("fate", not_watched))
    return f"{_increase(captured, TRAFFIC_WINDOW, *_FEEDER)} == 0"


def _only_opaque() -> str:
    unread = [f"skipped-{reason}" for reason in (SkipReason.OPAQUE, SkipReason.ENCRYPTED)]
    opaque, framed = (
        _increase(select(metrics.CAPTURE_PORT_BYTES, one_of("fate", fates)), TRAFFIC_WINDOW, *_FEEDER, "port")
        for fates in (unread, ["framed"])
    )
    return f"{opaque} > 0 and {framed} == 0"


def _key_log_stopped() -> str:
    read, no_key = (
        select(metrics.TLS_CONNECTIONS, one_of("outcome", [outcome]))
        for outcome in (TlsOutcome.READ, TlsOutcome.NO_KEY)
    )
    return (
        f"{_increase(no_key, TRAFFIC_WINDOW, *_FEEDER)} > 0 "
        f"and {_increase(read, TRAFFIC_WINDOW, *_FEEDER)} == 0 "
        f"and {_increase(read, KEY_LOG_WORKED_WITHIN, *_FEEDER)} > 0"
    )


def _coverage_lost() -> str:
    steadily = f"avg_over_time({EXERCISED}[{KNOWN_FOR}] offset 1d) > {EXERCISED_HOURS}"
    return f"max_over_time({EXERCISED}[1d]) == 0 and {steadily}"


def _lag_growing() -> str:
    lag = metrics.TOPIC_LAG.name
    grows = f"min by (job) (min_over_time({lag}[5m])) > max by (job) (max_over_time({lag}[5m] offset 10m))"
    return f"max by (job) ({lag}) > {GROWING_LAG} and {grows}"


def _expectation_not_met() -> str:
    success = select(metrics.EXPECTATION_SUCCESS, none_of("expectation", OF_THE_FLEET))
    return (
        f"min by (job, suite, expectation) (min_over_time({success}[{VALIDATED_WITHIN}])) == 0 "
        f"unless on (job, suite, expectation) {metrics.POLICY_INFO.name}"
    )


def _budget_burn(short: str, long: str, rate: float, severity: Severity) -> Alert:
    budget = f"{rate:g} * {1 - DELAY_OBJECTIVE:g}"
    # Before the window is full, the first start of Spark alone would exceed the budget.
    full = f"max by (job) (present_over_time({metrics.DETECTION_DELAY.name}_count[{long}] offset {long}))"
    return _alert(
        "KipwatchDetectionDelayBudgetBurn",
        severity,
        f"{slow(long)} > {budget} and {slow(short)} > {budget} and {full}",
        summary="Frames are judged later than the objective allows.",
        description=(
            f"{PERCENT} of the frames of the last {long} were judged more than {DELAY_SECONDS} s after their "
            f"capture. At this rate the budget of 30 days lasts less than {30 / rate:.2g} days."
        ),
        labels={"window": long},
    )


PRESENCE_ALERTS: Final = (
    _alert(
        "KipwatchApplicationAbsent",
        Severity.CRITICAL,
        _application_absent(),
        summary="Prometheus cannot reach kipwatch: no violation would be seen.",
        description=(
            "The application answers no scrape. Until it is back, the absence of violations means nothing."
        ),
        variables=(),
        wait="2m",
        labels=BLIND,
    ),
    _alert(
        "KipwatchStalled",
        Severity.CRITICAL,
        f"time() - max by (job) ({metrics.LAST_BATCH_TIMESTAMP.name} > 0) > {STALLED_AFTER}",
        summary="kipwatch judges nothing: no violation would be seen.",
        description=(
            "The latest batch was finished {{ $value | humanizeDuration }} ago. Until one is, the absence of "
            "violations means nothing. The query's own page and log say whether Kafka responds to it."
        ),
        wait="1m",
        labels=BLIND,
    ),
    _alert(
        "KipwatchFirstBatchMissing",
        Severity.CRITICAL,
        _first_batch_missing(),
        summary="kipwatch was started and judges nothing yet: no violation would be seen.",
        description=(
            f"The application started more than {BEGUN_WITHIN} ago and has not finished its first batch. "
            "Until it has, the absence of violations means nothing."
        ),
        labels=BLIND,
    ),
    _alert(
        "KipwatchFeederAbsent",
        Severity.WARNING,
        _gone(metrics.FEED_WAITING_BYTES, "job", "instance"),
        summary="A feeder has gone: what passes its broker is not seen.",
        description="The feeder at {{ $labels.instance }} answered within the last day and no longer does.",
        wait="5m",
    ),
    _alert(
        "KipwatchNoFeeder",
        Severity.CRITICAL,
        f"absent({metrics.FEED_WAITING_BYTES.name})",
        summary="No feeder can be reached: no violation would be seen.",
        description=(
            "Prometheus scrapes no feeder at all. Until one is back, the absence of violations means nothing."
        ),
        variables=(),
        wait="5m",
        labels=BLIND,
    ),
    _alert(
        "KipwatchNoTraffic",
        Severity.WARNING,
        _no_traffic(),
        summary="A feeder sees no traffic: its port or interface may be wrong.",
        description=(
            f"The feeder at {{{{ $labels.instance }}}} captured nothing of others for {WITHOUT_TRAFFIC}. "
            "What passes its broker is not seen."
        ),
        wait=WITHOUT_TRAFFIC,
    ),
    _alert(
        "KipwatchOnlyOpaque",
        Severity.WARNING,
        _only_opaque(),
        summary="A watched port carries only TLS or another protocol: nothing is judged there.",
        description=(
            "The feeder at {{ $labels.instance }} cannot read anything on port {{ $labels.port }}. That no "
            "violations are found there means nothing."
        ),
        wait=WITHOUT_TRAFFIC,
    ),
    _alert(
        "KipwatchTlsKeyLogStopped",
        Severity.WARNING,
        _key_log_stopped(),
        summary="The key log has stopped: new TLS connections are not read.",
        description=(
            "The feeder at {{ $labels.instance }} reads none of the TLS connections that open, and did "
            "before. What they carry is not judged."
        ),
        wait=WITHOUT_KEYS,
    ),
    _alert(
        WATCHDOG,
        Severity.NONE,
        "vector(1)",
        summary="Alerts reach you.",
        description="This alert always fires. If it no longer arrives, no other would.",
        dashboard=CONFORMANCE,
        variables=(),
    ),
)
"""On parts that are absent or stalled, and the watchdog."""

WORK_ALERTS: Final = (
    _alert(
        "KipwatchCaptureLoss",
        Severity.WARNING,
        f"{LOST} > {LOST_SHARE}",
        summary="A feeder misses part of what passes its broker.",
        description=(
            f"The feeder at {{{{ $labels.instance }}}} missed {PERCENT} of the bytes of the last 5 minutes. "
            "Checks that depend on them are undecided."
        ),
        wait="5m",
        keep=KEEP_FIRING,
    ),
    _alert(
        "KipwatchCaptureContradicted",
        Severity.WARNING,
        f"{_increase(metrics.CAPTURE_CONTRADICTIONS.name, '15m', *_FEEDER)} > {CONTRADICTIONS}",
        summary="Somebody sends packets that make a feeder lose track of connections.",
        description=(
            "The feeder at {{ $labels.instance }} saw about {{ $value | humanize }} segments in 15 minutes "
            "that contradict others. It reads on, but checks of these connections may be undecided."
        ),
        keep=KEEP_FIRING,
    ),
    _alert(
        "KipwatchUndecodableFrames",
        Severity.WARNING,
        f"{UNDECODABLE} > {UNDECODABLE_SHARE}",
        summary="Frames cannot be decoded, and so not judged.",
        description=(
            f"No known schema could read {PERCENT} of the frames of the last 15 minutes: a newer Kafka, a "
            "protocol of somebody's own, or frames that are broken."
        ),
        wait="10m",
        keep=KEEP_FIRING,
    ),
    _alert(
        "KipwatchCoverageLost",
        Severity.WARNING,
        _coverage_lost(),
        summary="A rule that used to be exercised no longer is.",
        description=(
            f"{{{{ $labels.rule }}}} was decided in most hours of the {KNOWN_FOR} before and not once in the "
            "last day. That nobody breaks it no longer says anything."
        ),
        dashboard=CONFORMANCE,
        variables=("job", "rule"),
        wait="30m",
    ),
    _alert(
        "KipwatchLagGrowing",
        Severity.WARNING,
        _lag_growing(),
        summary="Frames come faster than they are judged.",
        description=(
            "{{ $value | humanize }} frames wait to be judged, and their number keeps growing. What the "
            "topic no longer keeps is lost unjudged."
        ),
        wait="10m",
        keep=KEEP_FIRING,
    ),
    *(
        _budget_burn(*burn, Severity.CRITICAL if place < CRITICAL_WINDOWS else Severity.WARNING)
        for place, burn in enumerate(BURN_RATES)
    ),
    _alert(
        "KipwatchLabelOverflow",
        Severity.WARNING,
        f"{_increase(metrics.LABEL_OVERFLOW.name, '15m', 'job')} > 0",
        summary="More client software is seen than metrics have labels for: names are missing.",
        description=(
            "About {{ $value | humanize }} observations of 15 minutes are counted as `other`. Sums are "
            "right, and findings name the software; dashboards and alerts do not."
        ),
        wait="15m",
        keep=KEEP_FIRING,
    ),
    _alert(
        "KipwatchKubernetesAway",
        Severity.WARNING,
        f"max by (job, instance) ({metrics.KUBERNETES_WATCH_AGE.name}) > {WATCH_AWAY}",
        summary="A feeder no longer hears which pod has which address: owners of clients may be wrong.",
        description=(
            "Kubernetes' API told the feeder at {{ $labels.instance }} nothing for "
            "{{ $value | humanizeDuration }}. Clients get the names of pods that had their addresses then."
        ),
    ),
    _alert(
        "KipwatchExpectationNotMet",
        Severity.WARNING,
        _expectation_not_met(),
        summary="kipwatch's own data is not as it must be.",
        description=(
            "A sample within the last hour did not meet {{ $labels.expectation }} of {{ $labels.suite }}. Do "
            "not build on verdicts and sums of this time before it is explained."
        ),
    ),
)
"""On a kipwatch that runs and works badly."""
