"""The metrics page: what is on it from the start, exact sums, few label values."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from decoders.tls.outcome import TlsOutcome
from decoders.wire.ledger import Ledger
from expectations.rules.base.rule import Verdict
from streaming.feeder.feeder import FeederMetrics
from streaming.metrics.definitions import METRICS
from streaming.metrics.instruments import BulkHistogram
from streaming.metrics.labels import LONGEST, UNKNOWN, label_value
from streaming.query.application_metrics import ApplicationMetrics
from streaming.query.exit_reason import EXIT_REASONS
from streaming.query.exit_reason import UNKNOWN as UNKNOWN_EXIT

RULES = ("kip35/version-out-of-range", "wire/malformed-request")


def application(label_limit: int = 100) -> ApplicationMetrics:
    return ApplicationMetrics(RULES, version="0.1.0", kafka="4.4.0", label_limit=label_limit)


def feeder() -> FeederMetrics:
    return FeederMetrics(version="0.1.0", kafka="4.4.0")


def page(registry: CollectorRegistry) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample of a page: by name and label values, in the order of the labels' names."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_check_is_there_at_zero_before_anything_happened() -> None:
    """increase() does not see the first violation of a series that begins with it."""
    samples = page(application().registry)
    for rule in RULES:
        for verdict in Verdict:
            assert samples["kipwatch_rule_checks_total", ("", rule, verdict)] == 0


def test_a_page_says_which_kipwatch_and_which_kafka_it_is_of() -> None:
    for registry in (application().registry, feeder().registry):
        assert page(registry)["kipwatch_build_info", ("4.4.0", "0.1.0")] == 1


def test_every_reason_for_an_ending_is_there_at_zero_and_counted() -> None:
    metrics = application()
    metrics.count_exit(UNKNOWN_EXIT)
    samples = page(metrics.registry)
    counted = {
        reason.name: samples["kipwatch_query_endings_total", (reason.name,)] for reason in EXIT_REASONS
    }
    assert set(counted.values()) == {0} and len(counted) == len(EXIT_REASONS)
    assert samples["kipwatch_query_endings_total", (UNKNOWN_EXIT.name,)] == 1


def test_the_definitions_and_the_two_pages_name_the_same_metrics() -> None:
    """Every exposed metric is defined, every defined metric is exposed, and types agree."""
    exposed = {}
    for registry in (application().registry, feeder().registry):
        for line in generate_latest(registry).decode().splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                exposed[name] = kind
    births = {name for name in exposed if name.endswith("_created")}
    served, defined = exposed.keys() - births, {metric.name for metric in METRICS}
    unserved, undefined = sorted(defined - served), sorted(served - defined)
    assert not unserved, f"create it in ApplicationMetrics or FeederMetrics: {', '.join(unserved)}"
    assert not undefined, f"served, but not in METRICS: {', '.join(undefined)}"
    for metric in METRICS:
        assert exposed[metric.name] == metric.kind, metric.name
    assert births <= {f"{metric.name.removesuffix('_total')}_created" for metric in METRICS}
    assert len(births) > 1


def test_every_definition_says_what_it_counts_in_base_units() -> None:
    """The name tells type and unit, so it has no other unit; every metric has a sentence of help."""
    others = {"milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days", "bits"}
    for metric in METRICS:
        assert metric.help.endswith("."), f"{metric.name}: its help ends with a full stop"
        words = metric.name.split("_")
        assert others.isdisjoint(words), f"{metric.name}: base units are seconds and bytes"
        assert metric.unit or {"bytes", "seconds"}.isdisjoint(words), f"{metric.name}: its unit comes last"


def test_no_label_can_name_a_single_connection_or_client() -> None:
    """Cardinality follows the fleet's software, never its size."""
    labels = {label for metric in METRICS for label in metric.labels}
    assert labels.isdisjoint(
        {"connection", "client_id", "client_instance_id", "member_id", "client", "address"}
    )


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_becomes_a_label_value_that_can_be_exposed(text: str) -> None:
    """Not even a lone surrogate from the wire may break the page."""
    value = label_value(text)
    assert 1 <= len(value) <= LONGEST
    assert value.isprintable()
    value.encode()


def test_software_without_connections_leaves_the_gauge() -> None:
    """KIP-511: a gauge of connections that are open, not of those that ever were."""
    metrics = application()
    metrics.show_connections({(("librdkafka", "2.16.1"), "WATCHED"): 3, ((None, None), "WATCHED"): 1})
    metrics.show_connections({((None, None), "WATCHED"): 2})
    shown = {key: value for key, value in page(metrics.registry).items() if key[0] == "kipwatch_connections"}
    assert shown == {("kipwatch_connections", (UNKNOWN, UNKNOWN, "WATCHED")): 2}


def test_captured_bytes_and_drops_follow_their_totals() -> None:
    """Ledger and kernel hold totals; the counters must not count them twice."""
    metrics = feeder()
    first = Ledger(captured=100, framed=100, tls=Counter({TlsOutcome.READ: 1}))
    then = Ledger(captured=150, framed=150, lost=7, tls=Counter({TlsOutcome.READ: 3, TlsOutcome.NO_KEY: 1}))
    metrics.account(first, {}, dropped=3)
    metrics.account(then, {}, dropped=5)
    samples = page(metrics.registry)
    assert samples["kipwatch_capture_bytes_total", ("framed",)] == 150
    assert samples["kipwatch_capture_bytes_total", ("lost",)] == 7
    assert samples["kipwatch_capture_dropped_packets_total", ()] == 5
    assert samples["kipwatch_tls_connections_total", ("read",)] == 3
    assert samples["kipwatch_tls_connections_total", ("no_key",)] == 1


BOUNDS = (0.5, 1, 3)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 2.0, 64.0]), st.integers(0, 50))))
def test_equal_observations_may_be_counted_together(seen: list[tuple[float, int]]) -> None:
    """The page is that of a histogram which counts them one by one."""
    one_by_one, together = CollectorRegistry(), CollectorRegistry()
    histogram = Histogram("delay_seconds", "A delay.", unit="seconds", buckets=BOUNDS, registry=one_by_one)
    bulk = BulkHistogram("delay_seconds", "A delay.", BOUNDS, "seconds")
    together.register(bulk)
    for value, count in seen:
        bulk.observe(value, count)
        for _ in range(count):
            histogram.observe(value)
    first, second = (
        [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]
        for registry in (one_by_one, together)
    )
    assert second == first
