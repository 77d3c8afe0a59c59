"""Equal statements of a batch have one number, so that they travel and are looked at once."""

from __future__ import annotations

from tests.exchange import Exchange
from tests.expectations.conversation.columnar.test_windows import at_once, unheard


def opening(connection: bytes, correlation_id: int) -> Exchange:
    exchange = Exchange(connection=connection * 16, correlation_id=correlation_id)
    exchange.negotiate(client_id="app")
    exchange.respond(exchange.request("Metadata", 12, client_id="app"), {})
    return exchange


def test_connections_that_say_the_same_share_their_statements() -> None:
    records = [*opening(b"a", 7).records, *opening(b"b", 3_000_000).records]
    one, other = at_once(unheard(records))
    assert one.numbers == other.numbers
    assert one.statements is other.statements
    assert len(one.statements) == len(set(one.numbers)) == len(one.numbers)


def test_what_differs_has_another_number() -> None:
    exchange = opening(b"a", 1)
    exchange.request("Metadata", 12, client_id="other")
    (window,) = at_once(unheard(exchange.records))
    assert len(set(window.numbers)) == len(window.numbers)
