"""The principal of a connection is known from its login on, and is no fact that the automaton learns."""

from __future__ import annotations

from collections import Counter
from itertools import count, repeat
from random import Random
from statistics import median
from time import process_time

import pytest
from msgspec.structs import replace

from decoders.frame.record import Endpoint, Kind
from decoders.wire.principal import LONGEST_NAME
from expectations.conversation.observation import Window
from expectations.conversation.pseudonyms import Pseudonyms
from expectations.conversation.texts import LONGEST_TEXT
from streaming.state.bucket import Bucket, pack_bucket
from tests.exchange import SOFTWARE, Exchange
from tests.expectations.identity.test_principals import SCRIPTS, played
from tests.streaming.judging.stepping import Pair, Stores
from tests.streaming.judging.travelling import in_batches, observed
from tests.streaming.query.test_same_as_check import streamed

pytestmark = pytest.mark.usefixtures("transitions_are_learnt_at_once")

NAMELESS = SOFTWARE | {"clientSoftwareName": "a b"}
MALFORMED = "kip511/software-name-malformed"


def logged_in(name: str, error_code: int = 0, *, offends: bool = False, number: int = 0) -> Exchange:
    """A client that asks for the versions, logs in, and fetches."""
    exchange = Exchange(client=f"10.0.{number >> 8}.{number & 255}:40000")
    if offends:
        exchange.respond(exchange.request("ApiVersions", 4, NAMELESS, client_id="app"))
    else:
        exchange.negotiate(client_id="app")
    exchange.log_in(name, error_code, client_id="app")
    if not error_code:
        exchange.respond(exchange.request("Fetch", 12, client_id="app"), {})
    return exchange


def principal_of(exchange: Exchange, size: int) -> str | None:
    """The principal of the finding that the client makes before it logs in."""
    (finding,) = [each for each in exchange.judge(size).findings if each.rule == MALFORMED]
    assert finding.occurrences == 1
    return finding.principal or None


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize(("error_code", "principal"), [(0, "alice"), (58, None)])
def test_a_finding_has_the_principal_that_logs_in_later_unless_it_is_refused(
    size: int, error_code: int, principal: str | None
) -> None:
    still_open, closed = (logged_in("alice", error_code, offends=True) for _ in range(2))
    closed.close()
    assert [principal_of(exchange, size) for exchange in (still_open, closed)] == [principal] * 2


@pytest.mark.parametrize("size", [1, 100])
def test_a_name_counts_only_once_the_broker_serves_its_client(size: int) -> None:
    """A client may begin a login by SCRAM under any name: the broker responds with a challenge."""
    exchange = Exchange()
    exchange.respond(exchange.request("ApiVersions", 4, NAMELESS, client_id="app"))
    exchange.log_in("alice", client_id="app")
    exchange.respond(exchange.request("ApiVersions", 4, NAMELESS, client_id="app"))
    exchange.close()
    (finding,) = [each for each in exchange.judge(size).findings if each.rule == MALFORMED]
    assert not finding.principal


@pytest.mark.parametrize("size", [1, 100])
def test_a_certificate_names_nobody_who_logs_in_by_other_means(size: int) -> None:
    """By Kerberos, whose tokens show no name."""
    exchange = Exchange()
    exchange.show_name("CN=alice")
    exchange.respond(exchange.request("ApiVersions", 4, NAMELESS, client_id="app"))
    exchange.respond(
        exchange.request("SaslHandshake", 1, {"mechanism": "GSSAPI"}), {"mechanisms": ["GSSAPI"]}
    )
    exchange.respond(exchange.request("SaslAuthenticate", 2, {"authBytes": ""}))
    exchange.respond(exchange.request("Fetch", 12, client_id="app"), {})
    assert principal_of(exchange, size) is None


@pytest.mark.parametrize("size", [1, 100])
def test_a_client_that_claims_another_name_keeps_its_own_until_it_is_served(size: int) -> None:
    exchange = logged_in("alice", offends=True)
    exchange.log_in("bob", client_id="app")
    assert principal_of(exchange, size) == "alice"
    served = logged_in("alice", offends=True)
    served.log_in("bob", client_id="app")
    served.respond(served.request("Fetch", 12, client_id="app"), {})
    assert principal_of(served, size) == "bob"
    refused = logged_in("alice", offends=True)
    refused.log_in("bob", 58, client_id="app")
    assert principal_of(refused, size) is None


def test_a_finding_is_published_once_more_when_its_principal_is_known() -> None:
    pair, stores = Pair(), Stores()
    reports = [pair.step(stores, *parts) for parts in in_batches(logged_in("alice", offends=True), 1)]
    reports += [pair.tick(stores), pair.tick(stores)]
    published = [
        finding.principal or None
        for report in reports
        for finding in report.findings
        if finding.rule == MALFORMED
    ]
    assert published == [None, "alice"]


@pytest.mark.parametrize("name", ["alice", "app", "a" * 1_000])
def test_the_automaton_comes_to_what_the_judge_does(name: str) -> None:
    pair = Pair()
    for size in (1, 100):
        for offends in (False, True):
            exchange = logged_in(name, offends=offends)
            exchange.close()
            pair.compare_in_turns([*in_batches(exchange, size)])
            pair.compare_in_turns([*in_batches(logged_in(name, 58, offends=offends), size)])


@pytest.mark.parametrize(
    "clients", [1_200, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])]
)
def test_principals_teach_the_automaton_nothing_after_the_first_and_are_stored_once(clients: int) -> None:
    """With the longest names, of which a beginning and a digest are kept, and 64 buckets for 100,000."""
    pair, of_bucket = Pair(), 1_500
    learnt, sizes, seconds = set[tuple[int, int, int]](), Counter[bool](), dict[bool, list[float]]()
    for begin in range(0, clients, of_bucket):
        for is_named in (False, True):
            bucket, end = Bucket(), min(begin + of_bucket, clients)
            windows = [each for number in range(begin, end) for each in openings(number, is_named=is_named)]
            begun = process_time()
            report = pair.walk(bucket, windows)
            seconds.setdefault(is_named, []).append((process_time() - begun) / (end - begin))
            sizes[is_named] += pack_bucket(bucket).size
            assert (report.walked, len(bucket.connections)) == (end - begin, end - begin)
            if is_named:
                automaton = pair.automaton
                learnt.add((len(automaton.facts), len(automaton.templates), len(automaton.yields)))
    assert len(learnt) == 1
    assert pair.judge.judged == 0
    assert sizes[True] - sizes[False] < clients * (LONGEST_TEXT + 32)
    print({is_named: f"{median(each) * 1e6:.0f} us" for is_named, each in seconds.items()}, sizes)


def openings(number: int, *, is_named: bool) -> list[Window]:
    """The window of a client with a name of its own, as long as may be, or with none."""
    name = Random(number).randbytes(LONGEST_NAME // 2).hex().encode()
    records = [
        replace(
            record,
            connection=number.to_bytes(16),
            client=Endpoint.of((10 << 24 | number).to_bytes(4), 40_000),
            frame=name if record.kind is Kind.PRINCIPAL else record.frame,
        )
        for record in TEMPLATE
        if is_named or record.kind is not Kind.PRINCIPAL
    ]
    return observed(records)


TEMPLATE = logged_in("anybody").records


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize("rule", SCRIPTS)
def test_the_query_tells_clients_apart_by_their_principals(rule: str, size: int) -> None:
    for names, expected in ((repeat("alice"), 1), (map(str, count()), 0)):
        query = streamed(played(rule, names).records, size)
        assert sum(finding.rule == rule for finding in query.findings.values()) == expected


def test_a_pseudonym_stands_for_the_principal_before_anything_is_judged() -> None:
    pseudonyms = Pseudonyms(bytes(32))
    exchange = logged_in("alice", offends=True)
    (window,) = pseudonyms.windows(exchange.windows())
    named = [str(window.statements[number]) for number in window.numbers]
    assert not any("alice" in each for each in named)
    assert any(pseudonyms.text("alice") in each for each in named)
