"""Usage: each request and each error once, by who sent it, and bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from decoders.frame.record import Kind, Pairing
from decoders.schema.registry import default_schemas
from expectations.conversation.bodies import SoftwareClaim
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.observation import (
    NO_EVIDENCE,
    ConnectionKey,
    Occurrence,
    Statement,
    Window,
)
from expectations.judging.judge import Judge
from expectations.judging.terms import Terms
from streaming.judging.part import MINUTE, Part
from streaming.judging.step import BucketStep
from streaming.judging.usage import LIMIT, Usage, UsageCount
from streaming.state.bucket import Bucket
from tests.exchange import Exchange
from tests.streaming.captures import conforming
from tests.streaming.judging.travelling import travelled, windows

NAMES, APIS = default_schemas().api_names, default_schemas().by_key


def columns_of(exchange: Exchange) -> list[WindowColumns]:
    return travelled(windows(exchange))


def step() -> BucketStep:
    terms = Terms(listeners={"10.0.0.9:9092": "INTERNAL"})
    return BucketStep(Judge(NAMES, terms), APIS, counts_usage=True)


def window(*statements: Statement, at: int = 0) -> Window:
    occurrences = [
        Occurrence(sequence, sequence, at, at, NO_EVIDENCE) for sequence in range(1, len(statements) + 1)
    ]
    key = ConnectionKey(bytes(16), "c", "10.0.0.1:40000", "10.0.0.9:9092", 1)
    return Window(key, list(range(len(statements))), occurrences, dict(enumerate(statements)))


def counted(*parts: Sequence[tuple[str, Window]]) -> list[Usage]:
    """Count parts of windows, each with the client ID of its connection, all of one software."""
    count = UsageCount()
    for said in parts:
        part = Part(WindowColumns.of([window for _, window in said]))
        part.clients[:] = [client_id for client_id, _ in said]
        part.software[:] = [SoftwareClaim("librdkafka", "2.3.0")] * len(said)
        for each in part.said(by_client=True):
            count.add(each, "L")
    return count.report()


def requests_of(usage: list[Usage]) -> Counter[tuple[str, int]]:
    sums: Counter[tuple[str, int]] = Counter()
    for each in usage:
        sums[NAMES[each.use.api_key], each.use.api_version] += sum(each.requests.values())
    return sums


def test_each_request_counts_once_under_the_software_and_client_id_of_its_connection() -> None:
    exchange = conforming()
    usage = step().process(0, Bucket(), columns_of(exchange)).usage
    requests = [record for record in exchange.records if record.kind is Kind.REQUEST]
    assert sum(requests_of(usage).values()) == len(requests)
    assert requests_of(usage)["Metadata", 12] == 1
    assert {each.use.client_id for each in usage} == {"app"}
    assert None not in {each.use.software_name for each in usage}
    assert {each.use.minute for each in usage} <= {record.captured_at // MINUTE for record in requests}


def test_a_window_that_comes_again_counts_nothing() -> None:
    exchange, bucket = Exchange(), Bucket()
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 12, client_id="app")
    judging = step()
    assert judging.process(0, bucket, columns_of(exchange)).usage
    assert judging.process(0, bucket, columns_of(exchange)).usage == []


def test_nothing_is_counted_where_nothing_is_archived() -> None:
    assert BucketStep(Judge(NAMES), APIS).process(0, Bucket(), columns_of(conforming())).usage == []


def test_each_error_code_of_a_response_counts_and_none_is_no_error() -> None:
    parts = []
    for errors in ((0, 3), (3, 5), (0,), None):
        response = Statement(Kind.RESPONSE, api_key=3, api_version=12, errors=errors)
        matched = msgspec.structs.replace(response, pairing=Pairing.MATCHED)
        parts.append([("app", window(matched))])
    (usage,) = counted(*parts)
    assert usage.errors == {3: 2, 5: 1}
    assert usage.requests == {}


def test_clients_beyond_the_limit_fold_and_their_requests_still_count() -> None:
    request = Statement(Kind.REQUEST, api_key=3, api_version=12, header_version=2)
    known = [(f"app {number}", window(request, request)) for number in range(LIMIT + 10)]
    unknown = Statement(Kind.REQUEST, known=False, api_key=999, api_version=7)
    usage = counted(known[:10], known[10:], [("last", window(unknown))])
    folded = {each.use.api_key: each for each in usage if each.use.folded}
    assert len(usage) == LIMIT + 2
    assert folded[3].requests == {2: 20}
    assert folded[-1].requests == {-1: 1}
    assert all(each.use.client_id is None and each.use.software_name is None for each in folded.values())


def test_bytes_and_connections_count_by_header_version() -> None:
    exchange, bucket = Exchange(), Bucket()
    exchange.negotiate(client_id="app")
    for _ in range(3):
        exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    usage = step().process(0, bucket, columns_of(exchange)).usage
    for kind, counted in (
        (Kind.REQUEST, sum(sum(each.request_bytes.values()) for each in usage)),
        (Kind.RESPONSE, sum(each.response_bytes for each in usage)),
    ):
        sizes = [4 + record.true_length for record in exchange.records if record.kind is kind]
        assert counted == sum(sizes) > 4 * len(sizes)
    assert all(set(each.connections.values()) == {1} for each in usage)


def test_a_connection_counts_once_however_often_it_sends() -> None:
    request = Statement(Kind.REQUEST, api_key=3, api_version=12, header_version=2)
    given = window(request, request)
    one, other = (
        given._replace(connection=msgspec.structs.replace(given.connection, id=bytes([number]) * 16))
        for number in range(2)
    )
    (usage,) = counted([("app", one), ("app", other)], [("app", one)])
    assert (usage.requests, usage.connections) == ({2: 6}, {2: 2})


def test_requests_are_counted_for_metrics_as_they_are_for_the_archive() -> None:
    exchange, bucket, judging = Exchange(), Bucket(), step()
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 12, client_id="app")
    first, again = (judging.process(0, bucket, columns_of(exchange)) for _ in range(2))
    counted = Counter[tuple[str, int]]()
    for each in first.requests:
        counted[NAMES[each.api_key], each.api_version] += each.count
    assert counted == requests_of(first.usage)
    assert again.requests == []
