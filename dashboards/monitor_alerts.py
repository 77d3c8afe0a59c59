"""Alerts on kipwatch itself: parts that are absent or stalled, and work that is too little or too late.

Without the alerts on presence, "no violations" and "blind" would look alike.
"""

from __future__ import annotations

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
from dashboards.links import CONFORMANCE, PIPELINE, Addresses
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


def presence_alerts(addresses: Addresses) -> list[Alert]:
    """Return the alerts on parts that are absent or stalled, and the watchdog."""
    return [
        _application_absent(addresses),
        _stalled(addresses),
        _first_batch_missing(addresses),
        _feeder_absent(addresses),
        _no_feeder(addresses),
        _no_traffic(addresses),
        _only_opaque(addresses),
        _key_log_stopped(addresses),
        _watchdog(addresses),
    ]


def work_alerts(addresses: Addresses) -> list[Alert]:
    """Return the alerts on a kipwatch that runs and works badly."""
    return [
        _capture_loss(addresses),
        _contradicted(addresses),
        _undecodable(addresses),
        _coverage_lost(addresses),
        _lag_growing(addresses),
        *_delay_budget(addresses),
        _label_overflow(addresses),
        _kubernetes_away(addresses),
        _expectation_not_met(addresses),
    ]


def _application_absent(addresses: Addresses) -> Alert:
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
        runbook=addresses.section("kipwatchapplicationabsent"),
        dashboard=addresses.dashboard(PIPELINE),
        wait="2m",
        labels=BLIND,
    )


def _stalled(addresses: Addresses) -> Alert:
    return Alert(
        "KipwatchStalled",
        Watches.KIPWATCH,
        Severity.CRITICAL,
        f"time() - max by (job) ({metrics.LAST_BATCH_TIMESTAMP.name} > 0) > {STALLED_AFTER}",
        summary="kipwatch judges nothing: no violation would be seen.",
        description=(
            "The latest batch was finished {{ $value | humanizeDuration }} ago. Until one is, the absence of "
            "violations means nothing. The query's own page and log say whether Kafka responds to it."
        ),
        runbook=addresses.section("kipwatchstalled"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        wait="1m",
        labels=BLIND,
    )


def _first_batch_missing(addresses: Addresses) -> Alert:
    latest = metrics.LAST_BATCH_TIMESTAMP.name
    # What was seen of it then is 0, too: an application that ended before this start had finished batches.
    begun = f"max by (job) (min_over_time({latest}[{FIRST_BATCH}] offset {BEGUN_WITHIN})) == 0"
    return Alert(
        "KipwatchFirstBatchMissing",
        Watches.KIPWATCH,
        Severity.CRITICAL,
        f"max by (job) (max_over_time({latest}[{FIRST_BATCH}])) == 0 and {begun}",
        summary="kipwatch was started and judges nothing yet: no violation would be seen.",
        description=(
            f"The application started more than {BEGUN_WITHIN} ago and has not finished its first batch. "
            "Until it has, the absence of violations means nothing."
        ),
        runbook=addresses.section("kipwatchfirstbatchmissing"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        labels=BLIND,
    )


def _feeder_absent(addresses: Addresses) -> Alert:
    return Alert(
        "KipwatchFeederAbsent",
        Watches.KIPWATCH,
        Severity.WARNING,
        _gone(metrics.FEED_WAITING_BYTES, "job", "instance"),
        summary="A feeder has gone: what passes its broker is not seen.",
        description="The feeder at {{ $labels.instance }} answered within the last day and no longer does.",
        runbook=addresses.section("kipwatchfeederabsent"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        wait="5m",
    )


def _no_feeder(addresses: Addresses) -> Alert:
    return Alert(
        "KipwatchNoFeeder",
        Watches.KIPWATCH,
        Severity.CRITICAL,
        f"absent({metrics.FEED_WAITING_BYTES.name})",
        summary="No feeder can be reached: no violation would be seen.",
        description=(
            "Prometheus scrapes no feeder at all. Until one is back, the absence of violations means nothing."
        ),
        runbook=addresses.section("kipwatchnofeeder"),
        dashboard=addresses.dashboard(PIPELINE),
        wait="5m",
        labels=BLIND,
    )


def _no_traffic(addresses: Addresses) -> Alert:
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
        runbook=addresses.section("kipwatchnotraffic"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        wait=WITHOUT_TRAFFIC,
    )


def _only_opaque(addresses: Addresses) -> Alert:
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
        runbook=addresses.section("kipwatchonlyopaque"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        wait=WITHOUT_TRAFFIC,
    )


def _key_log_stopped(addresses: Addresses) -> Alert:
    read, no_key = (
        select(metrics.TLS_CONNECTIONS, one_of("outcome", [outcome]))
        for outcome in (TlsOutcome.READ, TlsOutcome.NO_KEY)
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
        runbook=addresses.section("kipwatchtlskeylogstopped"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        wait=WITHOUT_KEYS,
    )


def _watchdog(addresses: Addresses) -> Alert:
    return Alert(
        WATCHDOG,
        Watches.KIPWATCH,
        Severity.NONE,
        "vector(1)",
        summary="Alerts reach you.",
        description="This alert always fires. If it no longer arrives, no other would.",
        runbook=addresses.section("kipwatchwatchdog"),
        dashboard=addresses.dashboard(CONFORMANCE),
    )


def _gone(metric: metrics.Metric, *labels: str) -> str:
    """Select series that existed within a day and are gone."""
    name, by = metric.name, f"max by ({', '.join(labels)})"
    return f"{by} (last_over_time({name}[1d])) unless {by} ({name})"


def _capture_loss(addresses: Addresses) -> Alert:
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
        runbook=addresses.section("kipwatchcaptureloss"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        wait="5m",
        keep=KEEP_FIRING,
    )


def _contradicted(addresses: Addresses) -> Alert:
    contradictions = f"increase({metrics.CAPTURE_CONTRADICTIONS.name}[15m])"
    return Alert(
        "KipwatchCaptureContradicted",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"{total(contradictions, 'job', 'instance')} > {CONTRADICTIONS}",
        summary="Somebody sends packets that make a feeder lose track of connections.",
        description=(
            "The feeder at {{ $labels.instance }} saw about {{ $value | humanize }} segments in 15 minutes "
            "that contradict others. It reads on, but checks of these connections may be undecided."
        ),
        runbook=addresses.section("kipwatchcapturecontradicted"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        keep=KEEP_FIRING,
    )


def _undecodable(addresses: Addresses) -> Alert:
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
        runbook=addresses.section("kipwatchundecodableframes"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        wait="10m",
        keep=KEEP_FIRING,
    )


def _coverage_lost(addresses: Addresses) -> Alert:
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
        runbook=addresses.section("kipwatchcoveragelost"),
        dashboard=addresses.dashboard(CONFORMANCE, "job", "rule"),
        wait="30m",
    )


def _lag_growing(addresses: Addresses) -> Alert:
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
        runbook=addresses.section("kipwatchlaggrowing"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        wait="10m",
        keep=KEEP_FIRING,
    )


def _label_overflow(addresses: Addresses) -> Alert:
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
        runbook=addresses.section("kipwatchlabeloverflow"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        wait="15m",
        keep=KEEP_FIRING,
    )


def _kubernetes_away(addresses: Addresses) -> Alert:
    return Alert(
        "KipwatchKubernetesAway",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"max by (job, instance) ({metrics.KUBERNETES_WATCH_AGE.name}) > {WATCH_AWAY}",
        summary="A feeder no longer hears which pod has which address: owners of clients may be wrong.",
        description=(
            "Kubernetes' API told the feeder at {{ $labels.instance }} nothing for "
            "{{ $value | humanizeDuration }}. Clients get the names of pods that had their addresses then."
        ),
        runbook=addresses.section("kipwatchkubernetesaway"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
    )


def _expectation_not_met(addresses: Addresses) -> Alert:
    success = select(metrics.EXPECTATION_SUCCESS, none_of("expectation", OF_THE_FLEET))
    return Alert(
        "KipwatchExpectationNotMet",
        Watches.KIPWATCH,
        Severity.WARNING,
        f"min by (job, suite, expectation) (min_over_time({success}[{VALIDATED_WITHIN}])) == 0 "
        f"unless on (job, suite, expectation) {metrics.POLICY_INFO.name}",
        summary="kipwatch's own data is not as it must be.",
        description=(
            "A sample within the last hour did not meet {{ $labels.expectation }} of {{ $labels.suite }}. Do "
            "not build on verdicts and sums of this time before it is explained."
        ),
        runbook=addresses.section("kipwatchexpectationnotmet"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
    )


def _delay_budget(addresses: Addresses) -> list[Alert]:
    return [
        _budget_burn(addresses, *burn, Severity.CRITICAL if place < CRITICAL_WINDOWS else Severity.WARNING)
        for place, burn in enumerate(BURN_RATES)
    ]


def _budget_burn(addresses: Addresses, short: str, long: str, rate: float, severity: Severity) -> Alert:
    budget = f"{rate:g} * {1 - DELAY_OBJECTIVE:g}"
    # Before the window is full, the first start of Spark alone would exceed the budget.
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
        runbook=addresses.section("kipwatchdetectiondelaybudgetburn"),
        dashboard=addresses.dashboard(PIPELINE, "job"),
        labels={"window": long},
    )
