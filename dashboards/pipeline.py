"""The Pipeline dashboard: what becomes of every byte and frame, how late it is judged, what that takes."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import conformance, links, panels, queries
from dashboards.layout import dashboard as laid_out
from dashboards.panels import AMBER, GREEN, RED
from dashboards.thresholds import DELAY_OBJECTIVE, DELAY_SECONDS, GROWING_LAG
from streaming import metrics

NO_FEEDER = "no feeder is scraped"
NOTHING_JUDGED = "nothing was judged"
NOT_SCRAPED = "kipwatch is not scraped"
BUDGET = 1 - DELAY_OBJECTIVE


def dashboard() -> builder.Dashboard:
    """The dashboard for those who run kipwatch."""
    return laid_out(
        links.PIPELINE,
        "kipwatch: pipeline",
        "From captured bytes to judgements: the fate of every byte, lag, delay, batches and state.",
        {
            "Is everything judged?": [
                conformance.since_batch(),
                conformance.undecodable_share(),
                conformance.lost_share(),
                _slow(),
            ],
            "Capture": [_dropped(), _bytes(), _records(), _waiting()],
            "What is decoded": [_kinds(), _apis(), _reasons()],
            "Judgement": [_lag(), _delay(), _batches(), _connections(), _state()],
            "The monitor itself": [_overflow(), _builds()],
        },
    )


def _slow() -> panels.Panel:
    return panels.stat_panel(
        "Judged too late",
        f"The share of frames that were judged more than {DELAY_SECONDS} s after their capture, over the "
        f"range. The objective allows {BUDGET:.0%}.",
        {"late share": queries.SLOW_SHARE},
        unit=panels.SHARE,
        steps=[(0, GREEN), (BUDGET / 2, AMBER), (BUDGET, RED)],
        span=6,
        empty=NOT_SCRAPED,
    )


def _dropped() -> panels.Panel:
    return panels.stat_panel(
        "Packets dropped",
        "Packets that the kernel dropped because the feeder did not keep up; what follows is undecided.",
        {"dropped packets": queries.DROPPED_PACKETS},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=6,
        empty=NO_FEEDER,
    )


def _bytes() -> panels.Panel:
    return panels.graph_panel(
        "Captured bytes by fate",
        "TCP payload that was framed, skipped for a reason, or lost, that is, passed without being captured.",
        {"{{fate}}": queries.BYTES_BY_FATE},
        unit=panels.BYTES_PER_SECOND,
        span=18,
        empty=NO_FEEDER,
    )


def _records() -> panels.Panel:
    return panels.graph_panel(
        "Records by fate",
        "What the feeder published, what Kafka refused, and what was shed because Kafka was slow or away.",
        {"{{fate}}": queries.RECORDS_BY_FATE},
        unit=panels.PER_SECOND,
        span=12,
        empty=NO_FEEDER,
    )


def _waiting() -> panels.Panel:
    return panels.graph_panel(
        "Waiting for Kafka",
        "Memory of the records that Kafka has not taken yet, and bytes that were shed for want of room.",
        {"waiting": queries.WAITING_BYTES, "shed per second": queries.SHED_BYTES},
        unit=panels.BYTES,
        span=12,
        empty=NO_FEEDER,
    )


def _kinds() -> panels.Panel:
    return panels.graph_panel(
        "Frames",
        "Requests and answers that were judged. After gaps or joins there are more of one than of the other.",
        {"{{kind}}": queries.FRAMES_BY_KIND},
        unit=panels.PER_SECOND,
        span=8,
        empty=NOTHING_JUDGED,
    )


def _apis() -> panels.Panel:
    return panels.graph_panel(
        "Frames by API",
        "The ten busiest APIs.",
        {"{{api}}": queries.FRAMES_BY_API},
        unit=panels.PER_SECOND,
        span=8,
        empty=NOTHING_JUDGED,
    )


def _reasons() -> panels.Panel:
    return panels.table_panel(
        "Undecodable frames by reason",
        "What no known schema could read, over the range, and why.",
        {"Frames": queries.UNDECODABLE_BY_REASON},
        span=8,
        empty="every frame could be decoded",
    )


def _lag() -> panels.Panel:
    return panels.stat_panel(
        "Records waiting",
        "Records of the frames topic that were not judged yet.",
        {"lag": queries.LAG},
        unit=panels.COUNT,
        steps=[(0, GREEN), (GROWING_LAG, AMBER), (100 * GROWING_LAG, RED)],
        span=6,
        empty=NOT_SCRAPED,
    )


def _delay() -> panels.Panel:
    return panels.graph_panel(
        "Delay from capture to judgement",
        "Half of the frames were judged faster than p50, all but one in a hundred faster than p99.",
        {
            "p50": queries.quantile_of(0.5, metrics.DETECTION_DELAY),
            "p99": queries.quantile_of(0.99, metrics.DETECTION_DELAY),
        },
        unit=panels.SECONDS,
        span=9,
        empty=NOTHING_JUDGED,
    )


def _batches() -> panels.Panel:
    return panels.graph_panel(
        "Duration of batches",
        "Half of the batches took less than p50, all but one in a hundred less than p99.",
        {
            "p50": queries.quantile_of(0.5, metrics.BATCH_DURATION),
            "p99": queries.quantile_of(0.99, metrics.BATCH_DURATION),
        },
        unit=panels.SECONDS,
        span=9,
        empty=NOTHING_JUDGED,
    )


def _connections() -> panels.Panel:
    return panels.graph_panel(
        "Connections followed",
        "Connections that the query keeps state of.",
        {"connections": queries.OPEN_CONNECTIONS},
        unit=panels.COUNT,
        span=12,
        empty=NOT_SCRAPED,
    )


def _state() -> panels.Panel:
    return panels.graph_panel(
        "State",
        "Memory that the state of all connections takes.",
        {"state": queries.STATE_BYTES},
        unit=panels.BYTES,
        span=12,
        empty=NOT_SCRAPED,
    )


def _overflow() -> panels.Panel:
    return panels.stat_panel(
        "Observations counted as other",
        "Observations over the range that found their label full: sums are right, names are missing. "
        "Raise label_limit if the fleet has that many.",
        {"other": queries.LABEL_OVERFLOW},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=6,
        empty=NOT_SCRAPED,
    )


def _builds() -> panels.Panel:
    return panels.table_panel(
        "Versions",
        "The versions of kipwatch and of Kafka's message schemas, of the application and the feeders.",
        {"Running": queries.BUILDS},
        span=18,
        empty=NOT_SCRAPED,
    )
