"""Each KIP-1313 rule fires, conforms and stays undecided where it should."""

from __future__ import annotations

from tests.exchange import ID_A, ID_B, SOFTWARE, ZERO_ID, Exchange

ZERO = "kip1313/instance-id-zero"
MISSING = "kip1313/instance-id-missing"
CHANGED = "kip1313/instance-id-changed"
MISSING_FIRST = "kip1313/client-id-missing-first"
REPEATED = "kip1313/client-id-repeated"


def opened(instance_id: bytes = ID_A, client_id: str | None = "app", mid_stream: bool = False) -> Exchange:
    """A connection whose first request is on header v3."""
    exchange = Exchange(mid_stream=mid_stream)
    exchange.request("ApiVersions", 6, SOFTWARE, client_id=client_id, instance_id=instance_id)
    return exchange


def negotiated() -> Exchange:
    """A connection that begins with header v3 and is told that every API is offered on it."""
    exchange = Exchange()
    exchange.negotiate(6, client_id="app", instance_id=ID_A)
    return exchange


def test_an_older_header_is_undecided_where_nothing_is_advertised() -> None:
    exchange = opened()
    exchange.request("FindCoordinator", 6, client_id="app")
    assert exchange.verdicts(MISSING) == (0, 0, 1)


def test_a_zero_id_in_the_first_request_violates() -> None:
    exchange = opened(ZERO_ID)
    exchange.request("Metadata", 14, instance_id=ZERO_ID)
    assert exchange.verdicts(ZERO) == (0, 1, 0)


def test_an_id_in_the_first_request_conforms() -> None:
    assert opened().verdicts(ZERO) == (1, 0, 0)


def test_a_first_request_on_an_older_header_is_no_opportunity() -> None:
    exchange = Exchange()
    exchange.request("ApiVersions", 4, SOFTWARE, client_id="app")
    exchange.request("Metadata", 13, client_id="app")
    assert exchange.verdicts(ZERO) == (0, 0, 0)


def test_a_zero_id_after_a_first_request_on_an_older_header_is_an_improvement() -> None:
    exchange = Exchange()
    exchange.request("ApiVersions", 4, SOFTWARE, client_id="app")
    exchange.request("Metadata", 14, instance_id=ZERO_ID)
    assert exchange.verdicts(ZERO) == (0, 1, 0)
    assert exchange.judge().findings[0].level == "improvement"


def test_the_first_request_of_a_connection_joined_mid_stream_is_undecided() -> None:
    assert opened(ZERO_ID, mid_stream=True).verdicts(ZERO) == (0, 0, 1)


def test_a_gap_before_the_first_request_leaves_it_undecided() -> None:
    exchange = Exchange()
    exchange.gap()
    exchange.request("Metadata", 14, client_id="app", instance_id=ZERO_ID)
    assert exchange.verdicts(ZERO) == (0, 0, 1)


def test_sasl_handshake_is_not_the_first_request_for_the_instance_id() -> None:
    exchange = Exchange()
    exchange.request("SaslHandshake", 1, {"mechanism": "PLAIN"}, client_id="app")
    exchange.request("Metadata", 14, instance_id=ZERO_ID)
    assert exchange.verdicts(ZERO) == (0, 1, 0)


def test_a_later_request_without_an_id_violates_in_both_its_forms() -> None:
    exchange = negotiated()
    exchange.request("Metadata", 14, instance_id=ZERO_ID)
    exchange.request("FindCoordinator", 6, client_id="app")
    assert exchange.verdicts(MISSING) == (0, 2, 0)
    assert exchange.judge().findings[0].context == {"missing": "zero in header v3"}


def test_an_id_in_every_request_conforms() -> None:
    exchange = opened()
    for _ in range(3):
        exchange.request("Metadata", 14, instance_id=ID_A)
    assert exchange.verdicts(MISSING) == (3, 0, 0)


def test_a_missing_id_is_undecided_when_the_first_request_was_not_seen() -> None:
    exchange = opened(mid_stream=True)
    exchange.request("Metadata", 14, instance_id=ZERO_ID)
    assert exchange.verdicts(MISSING) == (0, 0, 1)


def test_sasl_handshake_need_not_carry_the_id() -> None:
    exchange = opened()
    exchange.request("SaslHandshake", 1, {"mechanism": "PLAIN"}, client_id="app")
    assert exchange.verdicts(MISSING) == (0, 0, 0)


def test_a_request_that_cannot_be_read_is_undecided() -> None:
    exchange = opened()
    exchange.request("Metadata", 12, frame=bytes.fromhex("0003000c00000009ffff00ff"))
    assert exchange.verdicts(MISSING) == (0, 0, 1)


def test_another_id_violates_and_the_finding_names_both() -> None:
    exchange = opened()
    exchange.request("Metadata", 14, instance_id=ID_A)
    exchange.request("Metadata", 14, instance_id=ID_B)
    assert exchange.verdicts(CHANGED) == (1, 1, 0)
    (finding,) = exchange.judge().findings
    assert finding.context["anchor"] == "first-request"
    assert (finding.expected, finding.observed) == ("AAECAwQFBgcICQoLDA0ODw", "EBESExQVFhcYGRobHB0eHw")


def test_another_id_is_told_mid_stream_too() -> None:
    exchange = opened(mid_stream=True)
    exchange.gap()
    exchange.request("Metadata", 14, instance_id=ID_B)
    assert exchange.verdicts(CHANGED) == (0, 1, 0)
    assert exchange.judge().findings[0].context["anchor"] == "mid-stream"


def test_a_request_that_cannot_be_read_may_carry_another_id() -> None:
    exchange = opened()
    exchange.request("Metadata", 12, frame=bytes.fromhex("0003000c00000009ffff00ff"))
    assert exchange.verdicts(CHANGED) == (0, 0, 1)


def test_a_zero_id_is_no_other_id() -> None:
    exchange = opened()
    exchange.request("Metadata", 14, instance_id=ZERO_ID)
    assert exchange.verdicts(CHANGED) == (0, 0, 0)


def test_a_null_client_id_in_the_first_request_is_an_improvement() -> None:
    exchange = opened(client_id=None)
    exchange.request("Metadata", 14, instance_id=ID_A)
    assert exchange.verdicts(MISSING_FIRST) == (0, 1, 0)
    assert exchange.judge().findings[0].level == "improvement"


def test_it_becomes_a_violation_once_a_later_request_has_a_client_id() -> None:
    exchange = opened(client_id=None)
    exchange.request("Metadata", 14, instance_id=ID_A, client_id="app")
    finding = next(found for found in exchange.judge().findings if found.rule == MISSING_FIRST)
    assert (finding.level, finding.occurrences, finding.sequence) == ("violation", 1, 2)


def test_the_first_request_is_judged_when_the_connection_turns_to_header_v3() -> None:
    exchange = Exchange()
    exchange.request("ApiVersions", 4, SOFTWARE, client_id=None)
    assert exchange.verdicts(MISSING_FIRST) == (0, 0, 0)
    exchange.request("Metadata", 14, instance_id=ID_A)
    assert exchange.verdicts(MISSING_FIRST) == (0, 1, 0)


def test_a_client_id_in_the_first_request_conforms() -> None:
    assert opened().verdicts(MISSING_FIRST) == (1, 0, 0)


def test_the_first_client_id_is_undecided_mid_stream() -> None:
    assert opened(client_id=None, mid_stream=True).verdicts(MISSING_FIRST) == (0, 0, 1)


def test_a_repeated_client_id_violates() -> None:
    exchange = opened()
    for _ in range(3):
        exchange.request("Metadata", 14, instance_id=ID_A, client_id="app")
    assert exchange.verdicts(REPEATED) == (0, 3, 0)
    (finding,) = exchange.judge().findings
    assert finding.occurrences == 3 and "rejected alternatives" in finding.message


def test_a_null_client_id_later_conforms() -> None:
    exchange = opened()
    exchange.request("Metadata", 14, instance_id=ID_A)
    assert exchange.verdicts(REPEATED) == (1, 0, 0)


def test_an_older_header_may_repeat_the_client_id() -> None:
    exchange = opened()
    exchange.request("Metadata", 12, client_id="app")
    assert exchange.verdicts(REPEATED) == (0, 0, 0)


def test_mid_stream_a_client_id_is_judged_from_the_second_request() -> None:
    exchange = opened(mid_stream=True)
    exchange.request("Metadata", 14, instance_id=ID_A, client_id="app")
    assert exchange.verdicts(REPEATED) == (0, 1, 1)
