"""The placement of a client in Kubernetes is in its findings, and is no fact that the automaton learns."""

from __future__ import annotations

import pytest

from expectations.conversation.pseudonyms import Pseudonyms
from expectations.judging.finding import Finding
from expectations.judging.judge import Judge
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms
from expectations.report.terminal import finding_line
from streaming.settings.owners import Owner, owners_of
from tests.exchange import ID_A, SOFTWARE, Exchange
from tests.streaming.judging.stepping import Pair, Stores
from tests.streaming.judging.travelling import in_batches

pytestmark = pytest.mark.usefixtures("transitions_are_learnt_at_once")

NAMELESS = SOFTWARE | {"clientSoftwareName": "a b"}
MALFORMED = "kip511/software-name-malformed"
CHECKOUT = "payments/checkout@node-7"


def placed(placement: str, *, after: bool = False, offends: bool = True) -> Exchange:
    """A client that asks for the versions and fetches. Where it runs is known before or after it asks."""
    exchange = Exchange()
    if not after:
        exchange.show_placement(placement)
    if offends:
        exchange.respond(exchange.request("ApiVersions", 4, NAMELESS, client_id="app"))
    else:
        exchange.negotiate(client_id="app")
    if after:
        exchange.show_placement(placement)
    exchange.respond(exchange.request("Fetch", 12, client_id="app"), {})
    return exchange


def malformed(outcome: Outcome) -> Finding:
    (finding,) = [each for each in outcome.findings if each.rule == MALFORMED]
    return finding


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("placement", "workload", "node"),
    [
        (CHECKOUT, "payments/checkout", "node-7"),
        ("@node-7", None, "node-7"),
        ("payments/checkout", None, None),
        ("payments@node-7", None, None),
        ("a/b/c@node-7", None, None),
        ("payments/<b>@node-7", None, None),
        ("payments/checkout@node-7\n", None, None),
        (f"payments/{'c' * 250}@node-7", None, None),
    ],
)
def test_a_finding_says_where_its_client_runs_if_a_name_can_be_that(
    placement: str, workload: str | None, node: str | None, *, after: bool, size: int
) -> None:
    finding = malformed(placed(placement, after=after).judge(size))
    assert finding.occurrences == 1
    assert (finding.workload or None, finding.node or None) == (workload, node)


def test_a_finding_is_published_once_more_when_its_placement_is_known() -> None:
    pair, stores = Pair(), Stores()
    reports = [pair.step(stores, *parts) for parts in in_batches(placed(CHECKOUT, after=True), 1)]
    reports += [pair.tick(stores), pair.tick(stores)]
    published = [
        finding.workload or None
        for report in reports
        for finding in report.findings
        if finding.rule == MALFORMED
    ]
    assert published == [None, "payments/checkout"]


@pytest.mark.parametrize("size", [1, 100])
def test_what_was_said_of_a_client_is_taken_back(size: int) -> None:
    exchange = placed(CHECKOUT)
    exchange.show_placement("")
    found = malformed(exchange.judge(size))
    assert not found.workload and not found.node


def test_a_finding_about_what_connections_share_says_it_too() -> None:
    one = Exchange()
    other = Exchange(records=one.records, connection=b"d" * 16, client="10.0.0.9:40000", at=one.at)
    one.show_placement(CHECKOUT)
    other.show_placement("search/index@node-8")
    for exchange, software in ((one, "orders"), (other, "billing")):
        body = SOFTWARE | {"clientSoftwareName": software}
        exchange.request("ApiVersions", 6, body, client_id="app", instance_id=ID_A)
    one.at = other.at
    one.wait(5)
    one.request("Metadata", 14, instance_id=ID_A)
    (shared,) = [each for each in one.judge().findings if each.rule == "kip1313/instance-id-shared"]
    assert (shared.client, shared.workload, shared.node) == (other.client, "search/index", "node-8")


@pytest.mark.parametrize("placement", [CHECKOUT, "@node-7", "app/app@app"])
def test_the_automaton_comes_to_what_the_judge_does(placement: str) -> None:
    pair = Pair()
    for size in (1, 100):
        for after in (False, True):
            exchange = placed(placement, after=after)
            exchange.close()
            pair.compare_in_turns([*in_batches(exchange, size)])


def test_a_hundred_placements_teach_the_automaton_nothing_after_the_first() -> None:
    pair, learnt = Pair(), list[tuple[int, int, int]]()
    for number in range(100):
        stores, judged = Stores(), pair.judge.judged
        exchange = placed(f"team-{number}/app-{number}@node-{number}", offends=False)
        for parts in in_batches(exchange, 100):
            pair.walk(stores.walked.load(), *parts)
        learnt.append((len(pair.automaton.facts), len(pair.automaton.templates), len(pair.automaton.yields)))
    assert learnt[0] == learnt[-1]
    assert pair.judge.judged == judged == 0


def test_whose_a_client_is_may_depend_on_its_workload() -> None:
    listed = [Owner("platform", workload="kube-*/*"), Owner("payments", workload="payments/*")]
    for placement, owner in ((CHECKOUT, "payments"), ("@node-7", None), ("apps/payments@payments", None)):
        exchange = placed(placement)
        judge = Judge({}, Terms(owner_of=owners_of(listed).of))
        assert malformed(exchange.judge(judge=judge)).owner == owner


def test_a_line_of_the_terminal_says_where_a_client_runs() -> None:
    for placement, told in ((CHECKOUT, ") in payments/checkout → "), ("@node-7", ") on node-7 → ")):
        assert told in finding_line(malformed(placed(placement).judge())).plain


def test_with_pseudonyms_nobodys_placement_is_kept() -> None:
    (window,) = Pseudonyms(bytes(32)).windows(placed(CHECKOUT).windows())
    named = str([window.statements[number] for number in window.numbers])
    assert "checkout" not in named and "node-7" not in named
