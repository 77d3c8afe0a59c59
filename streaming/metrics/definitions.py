"""Every metric: its name, type, labels and meaning.

Dashboards, alerts, documentation and tests read `METRICS`; the application and the feeder set their values.
Neither a connection nor a client, instance or member ID is ever a label.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class MetricType(enum.StrEnum):
    """The type of a metric, as Prometheus calls it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `buckets` are the upper bounds of a histogram's buckets, in its unit."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def kind(self) -> MetricType:
        """Its type. As Prometheus wants it, counters and no other metrics end in `_total`."""
        if self.buckets:
            return MetricType.HISTOGRAM
        return MetricType.COUNTER if self.name.endswith("_total") else MetricType.GAUGE

    @property
    def unit(self) -> str:
        """The base unit with which its name ends, "" if it counts something without one."""
        last = self.name.removesuffix("_total").rpartition("_")[2]
        return last if last in ("bytes", "seconds") else ""


SOFTWARE = ("client_software_name", "client_software_version")
PLACE = ("cluster", "listener")

RULE_CHECKS = Metric(
    "kipwatch_rule_checks_total",
    "Checks made, by rule, verdict and listener. Every rule and verdict is present from the start, at 0 and "
    "without a listener; the series of a listener appears with its first check.",
    ("rule", "verdict", "listener"),
)
UNDECIDED_CHECKS = Metric(
    "kipwatch_undecided_checks_total",
    "Undecided checks, by rule and reason, one of a closed list. A series appears with its first check.",
    ("rule", "reason"),
)
FINDINGS = Metric(
    "kipwatch_findings_total",
    "Offences found, by rule, level (suppressed where a suppression holds), client software, where (the "
    "cluster that the feeder names, and the listener), and whose: the owner, `unknown` if it is nobody's. A "
    "series appears with its first offence.",
    ("rule", "level", "role", *SOFTWARE, *PLACE, "owner"),
)
CONNECTIONS = Metric(
    "kipwatch_connections",
    "Open client connections, by client software and listener (KIP-511).",
    (*SOFTWARE, "listener"),
)
FRAMES = Metric(
    "kipwatch_frames_total",
    "Protocol frames read, by API and kind (request, response).",
    ("api", "kind"),
)
REQUESTS = Metric(
    "kipwatch_requests_total",
    "Requests, by API, version and name of the client software. A request that is read twice counts once. "
    "`api` and `version` are `unknown` where the schemas do not have the API.",
    ("api", "version", "client_software_name"),
)
API_VERSIONS = Metric(
    "kipwatch_api_version_info",
    "Always 1, for each API version among the requests: its `fate` in the release of the loaded schemas "
    "(kept, deprecated, removed, or newer than those that it has), and the version of its request header.",
    ("api", "version", "fate", "header"),
)
BROKER_IDS = Metric(
    "kipwatch_broker_ids_total",
    "ApiVersions requests of version 5 or later by the IDs of the broker that they mean to reach: `given` or "
    "`none` (KIP-1242).",
    ("client_software_name", "ids"),
)
BROKERS = Metric(
    "kipwatch_broker_info",
    "Always 1, for each broker address: an ID of the versions and one of the features that it advertised "
    "last. Brokers that advertise the same have the same IDs. A broker is known once a client has asked it "
    "since the query was started.",
    ("cluster", "listener", "broker", "versions", "features"),
)
ADVERTISED_VERSIONS = Metric(
    "kipwatch_advertised_versions_info",
    "Always 1, for each API of advertised versions: the lowest and highest of them (KIP-35).",
    ("versions", "api", "lowest", "highest"),
)
ADVERTISED_FEATURES = Metric(
    "kipwatch_advertised_features_info",
    "Always 1, for each advertised feature, `supported` or `finalized`: its levels (KIP-584).",
    ("features", "feature", "kind", "lowest", "highest"),
)
UNDECODABLE_FRAMES = Metric(
    "kipwatch_undecodable_frames_total",
    "Complete frames that no known schema could read, by reason. `removed-version` counts those of versions "
    "that earlier releases had: an old client sends them.",
    ("reason",),
)
RANGES_CHANGES = Metric(
    "kipwatch_advertised_ranges_changes_total",
    "Times that a server advertised ranges of versions that it had not advertised before, by listener, as "
    "after an upgrade. The first advertisement that is seen of a server does not count.",
    ("listener",),
)
CAPTURE_BYTES = Metric(
    "kipwatch_capture_bytes_total",
    "TCP payload by fate: framed, skipped for a reason, or lost, which was never captured.",
    ("fate",),
)
CAPTURE_PORT_BYTES = Metric(
    "kipwatch_capture_port_bytes_total",
    "TCP payload of each watched port that was framed, or skipped because it is not Kafka or not decrypted.",
    ("port", "fate"),
)
CAPTURE_PACKETS = Metric(
    "kipwatch_capture_packets_total",
    "Captured packets: tcp where a segment was read, own, or the reason why the packet was skipped.",
    ("fate",),
)
CAPTURE_OPAQUE = Metric(
    "kipwatch_capture_opaque_connections_total",
    "Connections to the watched ports that are not Kafka, such as TLS, and are left alone.",
)
CAPTURE_EVICTED = Metric(
    "kipwatch_capture_evicted_connections_total",
    "Connections that the feeder gave up because there were too many, by how far they had come (half-open, "
    "silent or speaking), or because of the bytes that they held (heavy).",
    ("state",),
)
CAPTURE_CONTRADICTIONS = Metric(
    "kipwatch_capture_contradictions_total",
    "Captured segments that contradict others, as forged ones do: a reset or a fin that its receiver does "
    "not take, an acknowledgment of bytes that were never sent, a sequence far ahead that is never reached, "
    "other content in place of some that is buffered, bytes after a close.",
    ("kind",),
)
TLS_CONNECTIONS = Metric(
    "kipwatch_tls_connections_total",
    "TLS connections by outcome, with a key log: read, or the reason why not. A connection that could be "
    "read only at first counts under both.",
    ("outcome",),
)
CAPTURE_DROPPED_PACKETS = Metric(
    "kipwatch_capture_dropped_packets_total",
    "Packets that the kernel dropped because the feeder did not keep up.",
)
FEED_RECORDS = Metric(
    "kipwatch_feed_records_total",
    "Records of the feeder by fate: delivered to Kafka, refused by it, or shed because it was slow or away.",
    ("fate",),
)
FEED_SHED_BYTES = Metric(
    "kipwatch_feed_shed_bytes_total",
    "Bytes of the watched connections that were captured and not published; gaps in the topic say where.",
)
FEED_WAITING_BYTES = Metric(
    "kipwatch_feed_waiting_bytes",
    "Memory of the records that wait for Kafka.",
)
PLACED_CONNECTIONS = Metric(
    "kipwatch_kubernetes_connections_total",
    "Connections by what Kubernetes' API tells of clients' addresses within ten seconds: a pod; a node, "
    "whose address others share; ambiguous, if two pods may have had it; unknown, as outside of the cluster; "
    "closed before anything was known. Stale counts, once more, those named while the API was away.",
    ("outcome",),
)
KUBERNETES_WATCH_AGE = Metric(
    "kipwatch_kubernetes_watch_age_seconds",
    "Time since Kubernetes' API told anything of pods, at most a minute while it is there. Always 0 without "
    "`kubernetes = true`.",
)
KUBERNETES_ERRORS = Metric(
    "kipwatch_kubernetes_errors_total",
    "Attempts to list or watch pods that failed, or a watch that broke off.",
)
KUBERNETES_LEFT_OUT = Metric(
    "kipwatch_kubernetes_left_out_total",
    "Addresses of pods that the feeder has no room to keep; an address counts again when its pod changes.",
)
DETECTION_DELAY = Metric(
    "kipwatch_detection_delay_seconds",
    "Time from the capture of a frame to its judgement.",
    buckets=(0.25, 0.5, 1, 2, 3, 5, 10, 30, 60, 300),
)
BATCH_DURATION = Metric(
    "kipwatch_batch_duration_seconds",
    "Time that a batch of the query took.",
    buckets=(0.25, 0.5, 1, 2, 3, 5, 10, 30, 60),
)
LAST_BATCH_TIMESTAMP = Metric(
    "kipwatch_last_batch_timestamp_seconds",
    "When the latest batch was finished, in seconds since the epoch; 0 before the first.",
)
TOPIC_LAG = Metric(
    "kipwatch_topic_lag_records",
    "Frames in the topic that wait to be judged, those of the batch under way included: estimated from the "
    "blocks up to the topic's end and what the latest ones held. NaN before the first batch, and while Kafka "
    "does not answer.",
)
QUERY_ENDINGS = Metric(
    "kipwatch_query_endings_total",
    "Times that the query ended by itself, by reason. Every reason is present from the start, at 0.",
    ("reason",),
)
FINDINGS_REFUSED = Metric(
    "kipwatch_findings_refused_total",
    "Findings that Kafka will never take, such as those above the topic's size limit. They are logged.",
)
PACKS_REFUSED = Metric(
    "kipwatch_rule_packs_refused",
    "Installed rule packs that are refused. The log says why; their rules do not judge.",
)
QUARANTINED = Metric(
    "kipwatch_quarantined_records_total",
    "Records of the frames topic that are no blocks, by fate: written to the quarantine, left-out because "
    "there were too many, or failed to be written. kipwatch_undecodable_frames_total counts all of them with "
    "the reason not-a-record.",
    ("fate",),
)
EXPECTATION_SUCCESS = Metric(
    "kipwatch_expectation_success",
    "1 if the latest sample of batches and frames met the expectation, 0 if not. Without the extra [audit], "
    "or before the first sample, there are no series.",
    ("suite", "expectation"),
)
POLICY_INFO = Metric(
    "kipwatch_policy_info",
    "Always 1, for each expectation of a policy: what it demands, in the words of its author.",
    ("suite", "expectation", "says"),
)
VALIDATIONS = Metric(
    "kipwatch_validations_total",
    "Samples that were validated, by outcome: done, or failed, which the log explains. `unavailable` is 1 if "
    "kipwatch was installed without the extra [audit].",
    ("outcome",),
)
VALIDATION_SECONDS = Metric(
    "kipwatch_validation_seconds_total",
    "Processor time that validations took. It includes the start of the process that makes them.",
)
STATE_BYTES = Metric(
    "kipwatch_state_bytes",
    "Memory that the state of all connections takes.",
)
OPEN_CONNECTIONS = Metric(
    "kipwatch_open_connections",
    "Connections that the query keeps state of.",
)
LABEL_OVERFLOW = Metric(
    "kipwatch_label_overflow_total",
    "Observations counted as `other` because a label had its full number of values.",
)
WINDOWS = Metric(
    "kipwatch_windows_total",
    "What connections said, a window each in a batch, by what judged it: the automaton, or the rules "
    "themselves, which takes ten times as long. News always goes to the rules.",
    ("by",),
)
AUTOMATON_CLEARS = Metric(
    "kipwatch_automaton_clears_total",
    "Times that a worker forgot the transitions of its automaton because it was full.",
)
BUILD_INFO = Metric(
    "kipwatch_build_info",
    "Always 1; the labels name the version of kipwatch and of Kafka's schemas.",
    ("version", "kafka"),
)

METRICS = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
"""Every metric of the application and the feeder."""
OF_FEEDER = ("kipwatch_capture_", "kipwatch_feed_", "kipwatch_kubernetes_", "kipwatch_tls_")
"""How the names of the feeder's metrics begin."""
