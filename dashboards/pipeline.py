"""The Pipeline dashboard: the fate of every packet, byte and frame, how late it is judged, at what cost."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builder

from dashboards import conformance, layout, links, panels, queries, tables
from dashboards.alert import DELAY_OBJECTIVE, DELAY_SECONDS, LOST_SHARE, Watches
from dashboards.panels import AMBER, GREEN, RED
from streaming.audit.live_validation import SHARE
from streaming.metrics import definitions as metrics

NOTHING_JUDGED = "nothing was judged"
NOT_VALIDATED = "no sample was validated: kipwatch[audit] is not installed, or it is too early"
BUDGET = 1 - DELAY_OBJECTIVE
NO_FEEDER = "no feeder is scraped"
NOTHING_CAPTURED = "nothing was captured, or no feeder is scraped"
SHED = "shed"
MANY_WAITING = 1_000_000
"""Frames that take a processor minutes to judge, whatever the rate at which they come."""


def dashboard() -> builder.Dashboard:
    """Build the dashboard, for those who run kipwatch."""
    return layout.laid_out(
        links.PIPELINE,
        "kipwatch: pipeline",
        "From captured bytes to verdicts: the fate of every byte, lag, delay, batches and state.",
        [layout.choose_feeders()],
        {
            "Is everything judged?": _summary(),
            "Capture": _capture(),
            "What is decoded": _decoded(),
            "Judgement": _judgement(),
            "The monitor itself": _monitor(),
            "Is the data right?": _data(),
        },
        watched=[Watches.KIPWATCH],
    )


def _summary() -> list[panels.Panel]:
    return [
        conformance.since_batch(),
        conformance.undecodable_share(),
        conformance.lost_share(),
        panels.stat_panel(
            "Judged too late",
            f"The share of frames that were judged more than {DELAY_SECONDS} s after their capture, over "
            f"the range. The objective allows {BUDGET:.0%}.",
            {"late share": queries.SLOW_SHARE},
            unit=panels.SHARE,
            steps=[(0, GREEN), (BUDGET / 2, AMBER), (BUDGET, RED)],
            span=5,
            empty=panels.NOT_SCRAPED,
        ),
        panels.stat_panel(
            "Frames waiting",
            "Frames in the topic that wait to be judged, those of the batch under way included, estimated "
            "from its blocks. A busy cluster always has some; an alert fires if they become more and more.",
            {"lag": queries.LAG},
            steps=[(0, GREEN), (MANY_WAITING, AMBER)],
            source=queries.JUDGING,
            span=6,
            empty="not known: no batch yet, or Kafka does not answer",
        ),
        panels.stat_panel(
            "Packets dropped",
            "Packets over the range that the kernel dropped because the feeder did not keep up. Checks that "
            "depend on them are undecided.",
            {"dropped packets": queries.DROPPED_PACKETS},
            steps=[(0, GREEN), (1, AMBER)],
            source=queries.CAPTURING,
            span=8,
            empty=NO_FEEDER,
        ),
        panels.stat_panel(
            "Connections that are not Kafka",
            "Connections to the watched ports, over the range, that carry TLS or another protocol. What "
            "they carry is not judged.",
            {"not Kafka": queries.OPAQUE_CONNECTIONS},
            steps=[(0, GREEN), (1, AMBER)],
            source=queries.CAPTURING,
            span=8,
            empty=NO_FEEDER,
        ),
        panels.stat_panel(
            "Observations counted as other",
            "Observations over the range for which a label had no room: sums are right, names are missing. "
            "Raise label_limit if the fleet has that many.",
            {"other": queries.LABEL_OVERFLOW},
            steps=[(0, GREEN), (1, AMBER)],
            span=8,
            empty=panels.NOT_SCRAPED,
        ),
    ]


def _capture() -> list[panels.Panel]:
    return [
        panels.graph_panel(
            "Captured bytes by fate",
            "TCP payload that was framed, skipped for a reason, or lost, which means not captured.",
            {"{{fate}}": queries.BYTES_BY_FATE},
            unit=panels.BYTES_PER_SECOND,
            span=12,
            empty=NOTHING_CAPTURED,
        ),
        panels.with_limits(
            panels.graph_panel(
                "Bytes not captured, by feeder",
                "The share of bytes that each feeder missed or did not publish, over 5 minutes.",
                {"{{instance}}": queries.LOST_BY_FEEDER},
                unit=panels.SHARE,
                span=12,
                empty="no feeder sees traffic",
            )
            .max(1)
            .axis_soft_max(2 * LOST_SHARE),
            (LOST_SHARE, RED),
        ),
        panels.graph_panel(
            "Captured bytes by port",
            "TCP payload of each watched port that was framed, or skipped as TLS or another protocol.",
            {"{{port}} {{fate}}": queries.BYTES_BY_PORT},
            unit=panels.BYTES_PER_SECOND,
            span=8,
            empty=NOTHING_CAPTURED,
        ),
        panels.graph_panel(
            "TLS connections by outcome",
            "TLS connections over the range, of feeders with a key log: read, or why not: no key, an "
            "unsupported cipher suite, a handshake that was not captured, record numbers lost with bytes.",
            {"{{outcome}}": queries.TLS_CONNECTIONS_BY_OUTCOME},
            span=8,
            empty="no feeder has a key log",
        ),
        panels.graph_panel(
            "Captured packets by fate",
            "Packets whose TCP segment was read, packets of the feeder's own connections, and packets that "
            "were skipped, by reason.",
            {"{{fate}}": queries.PACKETS_BY_FATE},
            unit=panels.PACKETS_PER_SECOND,
            span=8,
            empty=NOTHING_CAPTURED,
        ),
        panels.graph_panel(
            "Records by fate",
            "Records published, refused by Kafka, and shed because Kafka was slow or unreachable.",
            {"{{fate}}": queries.RECORDS_BY_FATE},
            unit=panels.RECORDS_PER_SECOND,
            span=8,
            empty=NOTHING_CAPTURED,
        ),
        panels.graph_panel(
            "Waiting for Kafka",
            "Memory of the records that wait for Kafka, and bytes that were shed because the queue was full.",
            {"waiting": queries.WAITING_BYTES, SHED: queries.SHED_BYTES},
            unit=panels.BYTES,
            span=8,
            empty=NO_FEEDER,
        ).override_by_name(SHED, panels.unit(panels.BYTES_PER_SECOND)),
        panels.graph_panel(
            "Evicted connections",
            "Connections over the range that feeders gave up: because too many were open, by how far they "
            "had come, or because they held too many bytes (heavy). Many half-open ones are a SYN flood.",
            {"{{state}}": queries.EVICTED_CONNECTIONS},
            span=8,
            empty="no connection was evicted",
        ),
        panels.graph_panel(
            "Segments that contradict others",
            "Segments over the range that may be forged: a reset or a fin that its receiver does not "
            "accept, an acknowledgment of bytes that were never sent, bytes that differ from those buffered, "
            "bytes after a close.",
            {"{{kind}}": queries.CONTRADICTIONS},
            span=24,
            empty="no segment contradicts another",
        ),
        panels.graph_panel(
            "Connections by what Kubernetes tells",
            "Connections over the range, of feeders that watch pods, by the client's address: a pod's; a "
            "node's, which others share; unknown, as outside of the cluster; ambiguous, if two pods may "
            "have had it. Closed ones ended before it was known; stale ones were named without the API.",
            {"{{outcome}}": queries.PLACED_CONNECTIONS},
            span=12,
            empty="no feeder watches pods",
        ),
        panels.graph_panel(
            "Kubernetes' API",
            "Seconds since the API last told a feeder of pods, the highest of all feeders: a minute at most "
            "while the API responds. Names of clients are as old. Over the range: attempts that failed, and "
            "addresses of pods for which there was no room.",
            {
                "seconds since it was heard": queries.KUBERNETES_WATCH_AGE,
                "errors": queries.KUBERNETES_ERRORS,
                "left out": queries.KUBERNETES_LEFT_OUT,
            },
            span=12,
            empty=NO_FEEDER,
        ),
    ]


def _decoded() -> list[panels.Panel]:
    return [
        panels.graph_panel(
            "Frames",
            "Requests and responses that were judged. Their numbers differ after gaps and on connections "
            "joined midway.",
            {"{{kind}}": queries.FRAMES_BY_KIND},
            unit=panels.FRAMES_PER_SECOND,
            span=16,
            empty=NOTHING_JUDGED,
        ),
        tables.table_panel(
            "Undecodable frames by reason",
            "Frames that no known schema could read, over the range, and why.",
            {"Frames": queries.UNDECODABLE_BY_REASON},
            [tables.TableColumn("reason", "Reason", 220), tables.count("Frames")],
            span=8,
            empty="no undecodable frame was counted",
        ),
        panels.with_figures(
            panels.graph_panel(
                "Frames by API",
                "The ten busiest APIs.",
                {"{{api}}": queries.FRAMES_BY_API},
                unit=panels.FRAMES_PER_SECOND,
                span=24,
                empty=NOTHING_JUDGED,
            )
        ),
    ]


def _judgement() -> list[panels.Panel]:
    return [
        panels.with_limits(
            panels.graph_panel(
                "Delay from capture to judgement",
                "Half of the frames were judged faster than p50, 99 of 100 faster than p99. The line is the "
                f"objective: {DELAY_OBJECTIVE:.0%} of the frames within {DELAY_SECONDS} s.",
                queries.percentiles(metrics.DETECTION_DELAY),
                unit=panels.SECONDS,
                span=12,
                empty=NOTHING_JUDGED,
            ).axis_soft_max(1.2 * DELAY_SECONDS),
            (DELAY_SECONDS, RED),
        ),
        panels.graph_panel(
            "Duration of batches",
            "Half of the batches took less than p50, 99 of 100 less than p99.",
            queries.percentiles(metrics.BATCH_DURATION),
            unit=panels.SECONDS,
            span=12,
            empty=NOTHING_JUDGED,
        ),
        panels.graph_panel(
            "Connections followed",
            "Connections that the query keeps state of.",
            {"connections": queries.OPEN_CONNECTIONS},
            span=12,
            empty=panels.NOT_SCRAPED,
        ),
        panels.graph_panel(
            "State",
            "Memory that the state of all connections takes.",
            {"state": queries.STATE_BYTES},
            unit=panels.BYTES,
            span=12,
            empty=panels.NOT_SCRAPED,
        ),
        panels.graph_panel(
            "Judged by automaton and rules",
            "Windows, what one connection said in one batch, by what judged them. New statements go to the "
            "rules, which take ten times as long. If most do for hours, traffic never repeats itself.",
            {"{{by}}": queries.WINDOWS_BY},
            unit=panels.WINDOWS_PER_SECOND,
            span=20,
            empty=NOTHING_JUDGED,
        ),
        panels.stat_panel(
            "Automaton full",
            "How often a worker forgot what its automaton had learnt because it was full, over the range.",
            {"times": queries.AUTOMATON_CLEARS},
            steps=[(0, GREEN), (100, AMBER)],
            source=queries.JUDGING,
            span=4,
            empty=panels.NOT_SCRAPED,
        ),
    ]


def _monitor() -> list[panels.Panel]:
    return [
        tables.table_panel(
            "Endings of the query",
            "How often the query ended by itself over the range, by reason. It restarts after kafka-away, "
            "store-away, worker-ended, worker-not-started, findings-not-written and archive-not-written; any "
            "other reason needs attention.",
            {"Times": queries.ENDINGS_BY_REASON},
            [tables.TableColumn("reason", "Reason", 220), tables.count("Times")],
            span=8,
            empty="no ending was counted",
        ),
        panels.stat_panel(
            "Refused",
            "Findings over the range that Kafka refuses: the log of the query has their IDs. Raise "
            "max.message.bytes of the findings topic. And rule packs that do not judge: the log says why.",
            {"findings": queries.FINDINGS_REFUSED, "rule packs": queries.PACKS_REFUSED},
            steps=[(0, GREEN), (1, RED)],
            source=queries.JUDGING,
            span=4,
            empty=panels.NOT_SCRAPED,
        ),
        tables.table_panel(
            "Versions",
            "The versions of kipwatch and of Kafka's message schemas, of the application and the feeders.",
            {"Running": queries.BUILDS},
            [
                tables.TableColumn("job", "Job", 180),
                tables.TableColumn("version", "kipwatch", 120),
                tables.TableColumn("kafka", "Kafka's schemas", 140),
            ],
            span=12,
            empty=panels.NOT_SCRAPED,
        ),
    ]


def _data() -> list[panels.Panel]:
    return [
        panels.stat_panel(
            "Expectations not met",
            "Expectations on kipwatch's own data that the latest sample did not meet. The table names them.",
            {"not met": queries.EXPECTATIONS_NOT_MET},
            steps=[(0, GREEN), (1, RED)],
            source=queries.JUDGING,
            span=4,
            empty=NOT_VALIDATED,
        ),
        tables.table_panel(
            "Validations",
            "Samples over the range that were validated, by outcome. The log of the query says why one "
            "failed. Judging goes on without them.",
            {"Samples": queries.VALIDATIONS_BY_OUTCOME},
            [tables.TableColumn("outcome", "Outcome", 160), tables.count("Samples")],
            span=4,
            empty=NOT_VALIDATED,
        ),
        panels.stat_panel(
            "What validation takes",
            "Processor time of validations as a share of the time of batches over the range. It is higher "
            "right after a start, because the first sample is validated after a minute of batches.",
            {"share": queries.VALIDATION_SHARE},
            unit=panels.SHARE,
            steps=[(0, GREEN), (SHARE, AMBER)],
            source=queries.JUDGING,
            span=4,
            empty=NOT_VALIDATED,
        ),
        tables.table_panel(
            "Records in quarantine",
            "Records of the frames topic over the range that are no frames of this version: written to the "
            "quarantine, left out because there were too many, or failed to be written.",
            {"Records": queries.QUARANTINED_BY_FATE},
            [tables.TableColumn("fate", "Fate", 160), tables.count("Records")],
            span=12,
            empty="no record was refused",
        ),
        tables.table_panel(
            "Expectations",
            "What the latest sample says of each expectation on frames, verdicts and usage, by suite. "
            "`kipwatch audit` says what each means and what to do.",
            {"Result": queries.SUCCESS_BY_EXPECTATION},
            [
                tables.TableColumn("suite", "Suite", 130),
                tables.TableColumn("expectation", "Expectation", 240),
                tables.TableColumn("says", "Demand of a policy", 300),
                tables.TableColumn(
                    "Result", "Result", 110, states={0: ("not met", RED), 1: ("met", GREEN)}, unit="none"
                ),
            ],
            span=24,
            empty=NOT_VALIDATED,
        ),
    ]
