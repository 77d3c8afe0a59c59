"""What connections claim of identities, and what a judge of identities makes of it."""

from __future__ import annotations

import msgspec

from decoders.frame.record import Direction
from decoders.schema.registry import default_schemas
from expectations.identity.claim import Claim
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import IdentityState
from expectations.judging.judge import ConnectionState, Judge, open_connection
from expectations.judging.outcome import Outcome
from tests.exchange import ID_A, SECOND, SOFTWARE, Exchange, added_up, claims_of

NAMES = default_schemas().api_names


def claims_of_all(exchange: Exchange) -> list[Claim]:
    """Return all that the connections of an exchange claim, frame by frame."""
    judge, states, claims = Judge(NAMES), dict[bytes, ConnectionState](), []
    for window in exchange.windows(1):
        state = states.setdefault(window.connection.id, open_connection(window.connection))
        claims += claims_of(judge.judge(state, window), window)
    return claims + [claim for state in states.values() for claim in judge.latest_claims(state)]


def judged(parts: list[list[Claim]]) -> Outcome:
    """Judge claims part by part, the state stored in between."""
    judge, state, outcomes = IdentityJudge(NAMES), IdentityState(), []
    for part in parts:
        outcomes.append(judge.process(state, part))
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=IdentityState)
    return added_up([*outcomes, judge.finish(state)])


def log_in(exchange: Exchange) -> None:
    """A login that the broker accepts."""
    exchange.respond(exchange.request("SaslHandshake", 1, {"mechanism": "PLAIN"}))
    exchange.respond(exchange.request("SaslAuthenticate", 2))


def instance(number: int, software: str = "x") -> Exchange:
    """A connection of one client instance, in a software."""
    exchange = Exchange(connection=number.to_bytes(16), client=f"10.0.0.1:{number}")
    body = SOFTWARE | {"clientSoftwareName": software}
    exchange.request("ApiVersions", 6, body, client_id="app", instance_id=ID_A)
    return exchange


def negotiated(number: int, asks: bool) -> Exchange:
    """A connection of a client that asks for the versions first, or does not; each long after the last."""
    exchange = Exchange(
        connection=number.to_bytes(16), client=f"10.0.0.1:{number}", at=number * 1_000 * SECOND
    )
    if asks:
        exchange.negotiate(client_id="app")
    exchange.request("Metadata", 12, client_id="app")
    exchange.close()
    return exchange


def strangers(count: int) -> list[list[Claim]]:
    """The claims of addresses that send HTTP to a port to which others speak Kafka, one part an address."""
    kafka = Exchange()
    kafka.respond(kafka.request("Metadata", 12, client_id="app"))
    parts = [claims_of_all(kafka)]
    for number in range(count):
        client = f"10.0.{number // 250 + 1}.{number % 250}:1"
        stranger = Exchange(connection=number.to_bytes(16), client=client)
        stranger.at += number * SECOND
        stranger.not_kafka(b"GET ")
        stranger.close()
        parts.append(claims_of_all(stranger))
    return parts


def closed_upon_what_is_not_listed(number: int, asks: bool) -> Exchange:
    """A connection that the broker closes upon an API that is not on its list, for which a client may ask."""
    exchange = Exchange(
        connection=number.to_bytes(16), client=f"10.0.0.{number}:1", at=number * 1_000 * SECOND
    )
    if asks:
        exchange.negotiate(client_id="app")
    exchange.request("Heartbeat", 4, client_id="app")
    exchange.close(first=Direction.TO_CLIENT)
    return exchange
