"""The Pipeline dashboard: the fate of every byte and frame, how late it is judged, at what cost."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import capture, conformance, links, panels, queries, tables, variables
from dashboards.layout import dashboard as laid_out
from dashboards.panels import AMBER, GREEN, RED
from dashboards.thresholds import DELAY_OBJECTIVE, DELAY_SECONDS, GROWING_LAG
from streaming.metrics import definitions as metrics
from streaming.validation.live_validation import SHARE

NOTHING_JUDGED = "nothing was judged"
NOT_VALIDATED = "no sample was validated: kipwatch[audit] is not installed, or it is too early"
NOT_SCRAPED = "kipwatch is not scraped"
BUDGET = 1 - DELAY_OBJECTIVE


def dashboard() -> builder.Dashboard:
    """The dashboard for those who run kipwatch."""
    return laid_out(
        links.PIPELINE,
        "kipwatch: pipeline",
        "From captured bytes to verdicts: the fate of every byte, lag, delay, batches and state.",
        [variables.instances()],
        {
            "Is everything judged?": [
                conformance.since_batch(),
                conformance.undecodable_share(),
                conformance.lost_share(),
                _slow(),
                _lag(),
                capture.dropped(),
                capture.opaque(),
                _overflow(),
            ],
            "Capture": [
                capture.payload(),
                capture.missed(),
                capture.ports(),
                capture.tls(),
                capture.packets(),
                capture.records(),
                capture.waiting(),
            ],
            "What is decoded": [_kinds(), _apis(), _reasons()],
            "Judgement": [_delay(), _batches(), _connections(), _state()],
            "The monitor itself": [_endings(), _refused(), _builds()],
            "Is the data right?": [
                _not_met(),
                _validations(),
                _validation_share(),
                _quarantined(),
                _expectations(),
            ],
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


def _overflow() -> panels.Panel:
    return panels.stat_panel(
        "Observations counted as other",
        "Observations over the range for which a label had no room: sums are right, names are missing. "
        "Raise label_limit if the fleet has that many.",
        {"other": queries.LABEL_OVERFLOW},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=8,
        empty=NOT_SCRAPED,
    )


def _kinds() -> panels.Panel:
    return panels.graph_panel(
        "Frames",
        "Requests and responses that were judged. Their numbers differ after gaps and on connections joined "
        "midway.",
        {"{{kind}}": queries.FRAMES_BY_KIND},
        unit=panels.FRAMES_PER_SECOND,
        span=8,
        empty=NOTHING_JUDGED,
    )


def _apis() -> panels.Panel:
    graph = panels.graph_panel(
        "Frames by API",
        "The ten busiest APIs.",
        {"{{api}}": queries.FRAMES_BY_API},
        unit=panels.FRAMES_PER_SECOND,
        span=10,
        empty=NOTHING_JUDGED,
    )
    return panels.with_figures(graph)


def _reasons() -> panels.Panel:
    return tables.table_panel(
        "Undecodable frames by reason",
        "Frames that no known schema could read, over the range, and why.",
        {"Frames": queries.UNDECODABLE_BY_REASON},
        [tables.Column("reason", "Reason", 220), tables.count("Frames")],
        span=6,
        empty="no undecodable frame was counted",
        sort=["Frames"],
    )


def _delay() -> panels.Panel:
    graph = panels.graph_panel(
        "Delay from capture to judgement",
        "Half of the frames were judged faster than p50, all but one in a hundred faster than p99. The line "
        f"is the objective: {DELAY_OBJECTIVE:.0%} of the frames within {DELAY_SECONDS} s.",
        {
            "p50": queries.quantile_of(0.5, metrics.DETECTION_DELAY),
            "p99": queries.quantile_of(0.99, metrics.DETECTION_DELAY),
        },
        unit=panels.SECONDS,
        span=12,
        empty=NOTHING_JUDGED,
    )
    return panels.with_limits(graph.axis_soft_max(1.2 * DELAY_SECONDS), (DELAY_SECONDS, RED))


def _batches() -> panels.Panel:
    return panels.graph_panel(
        "Duration of batches",
        "Half of the batches took less than p50, all but one in a hundred less than p99.",
        {
            "p50": queries.quantile_of(0.5, metrics.BATCH_DURATION),
            "p99": queries.quantile_of(0.99, metrics.BATCH_DURATION),
        },
        unit=panels.SECONDS,
        span=12,
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


def _endings() -> panels.Panel:
    return tables.table_panel(
        "Endings of the query",
        "How often the query ended by itself over the range, by reason. Where Kafka was away or findings "
        "could not be written it restarts; any other reason needs attention.",
        {"Times": queries.ENDINGS_BY_REASON},
        [tables.Column("reason", "Reason", 220), tables.count("Times")],
        span=8,
        empty="no ending was counted",
        sort=["Times"],
    )


def _refused() -> panels.Panel:
    return panels.stat_panel(
        "Findings refused by Kafka",
        "Findings over the range that Kafka does not take: they are only in the log of the query, by their "
        "IDs. Raise max.message.bytes of the findings topic.",
        {"refused": queries.FINDINGS_REFUSED},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, RED)],
        span=4,
        empty=NOT_SCRAPED,
    )


def _not_met() -> panels.Panel:
    return panels.stat_panel(
        "Expectations not met",
        "Expectations on kipwatch's own data that the latest sample did not meet. The table names them.",
        {"not met": queries.EXPECTATIONS_NOT_MET},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, RED)],
        span=4,
        empty=NOT_VALIDATED,
    )


def _validations() -> panels.Panel:
    return tables.table_panel(
        "Validations",
        "Samples over the range that were validated, by outcome. The log of the query says why one failed. "
        "Judging goes on without them.",
        {"Samples": queries.VALIDATIONS_BY_OUTCOME},
        [tables.Column("outcome", "Outcome", 160), tables.count("Samples")],
        span=4,
        empty=NOT_VALIDATED,
        sort=["Samples"],
    )


def _validation_share() -> panels.Panel:
    return panels.stat_panel(
        "What validation takes",
        "Processor time of validations as a share of the time of batches over the range. It is higher right "
        "after a start, because the first sample is validated after a minute of batches.",
        {"share": queries.VALIDATION_SHARE},
        unit=panels.SHARE,
        steps=[(0, GREEN), (SHARE, AMBER)],
        span=4,
        empty=NOT_VALIDATED,
    )


def _expectations() -> panels.Panel:
    return tables.table_panel(
        "Expectations",
        "What the latest sample says of each expectation on frames, verdicts and usage, by suite. `kipwatch "
        "audit` says what each means and what to do.",
        {"Result": queries.SUCCESS_BY_EXPECTATION},
        [
            tables.Column("suite", "Suite", 130),
            tables.Column("expectation", "Expectation", 240),
            tables.Column(
                "Result", "Result", 110, states={0: ("not met", RED), 1: ("met", GREEN)}, unit="none"
            ),
        ],
        span=12,
        empty=NOT_VALIDATED,
    )


def _quarantined() -> panels.Panel:
    return tables.table_panel(
        "Records in quarantine",
        "Records of the frames topic over the range that are no frames of this version: written to the "
        "quarantine, left out because there were too many, or failed to be written.",
        {"Records": queries.QUARANTINED_BY_FATE},
        [tables.Column("fate", "Fate", 160), tables.count("Records")],
        span=12,
        empty="no record was refused",
        sort=["Records"],
    )


def _builds() -> panels.Panel:
    return tables.table_panel(
        "Versions",
        "The versions of kipwatch and of Kafka's message schemas, of the application and the feeders.",
        {"Running": queries.BUILDS},
        [
            tables.Column("job", "Job", 180),
            tables.Column("version", "kipwatch", 120),
            tables.Column("kafka", "Kafka's schemas", 140),
        ],
        span=12,
        empty=NOT_SCRAPED,
    )
