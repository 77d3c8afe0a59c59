"""KIP-1242 by what the configuration says of a listener, which no exchange can show."""

from __future__ import annotations

import pytest

from decoders.schema.registry import default_schemas
from expectations.conversation.bodies import ClusterDescription
from expectations.judging.judge import Judge
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms
from tests.exchange import SOFTWARE, Exchange, advertisement

ACCEPTED = "kip1242/misrouted-accepted"
WITHOUT_CAUSE = "kip1242/rebootstrap-without-cause"


def judged(node_id: int, error_code: int, configured: ClusterDescription) -> Outcome:
    """A client that means to reach a node of cluster c, and a response with an error."""
    exchange = Exchange()
    body = SOFTWARE | {"clusterId": "c", "nodeId": node_id}
    exchange.respond(exchange.request("ApiVersions", 5, body, client_id="app"), advertisement(error_code))
    exchange.close()
    terms = Terms(brokers={exchange.server: configured})
    return exchange.judge(judge=Judge(default_schemas().api_names, terms))


@pytest.mark.parametrize(
    ("rule", "node_id", "error_code", "verdict"),
    [
        (ACCEPTED, 3, 0, "conforms"),
        (ACCEPTED, 4, 0, "violates"),
        (WITHOUT_CAUSE, 3, 129, "violates"),
        (WITHOUT_CAUSE, 4, 129, "conforms"),
    ],
)
def test_ids_are_held_against_the_configured_ones(
    rule: str, node_id: int, error_code: int, verdict: str
) -> None:
    assert judged(node_id, error_code, ClusterDescription("c", 3)).checks[rule, verdict] == 1


def test_a_listener_of_which_only_the_cluster_is_configured_tells_nothing_of_the_node() -> None:
    outcome = judged(4, 0, ClusterDescription("c", -1))
    assert outcome.checks[ACCEPTED, "not-shown"] == 1
