"""The rules on request headers, held against a plain account of any sequence of requests."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tests.exchange import ID_A, ID_B, ZERO_ID, Exchange

UNREADABLE = bytes.fromhex("0003000c00000009ffff00ff")


class Said(NamedTuple):
    """A request by its header; `header` 0 is one that cannot be read, and -1 lost bytes."""

    header: int
    instance_id: bytes | None = None
    client_id: str | None = None
    is_handshake: bool = False


STATEMENTS = st.one_of(
    st.tuples(st.just(3), st.sampled_from([ID_A, ID_B, ZERO_ID]), st.sampled_from([None, "app"])).map(
        lambda given: Said(*given)
    ),
    st.sampled_from([None, "app", "other"]).map(lambda client_id: Said(2, None, client_id)),
    st.just(Said(1, None, "app", is_handshake=True)),
    st.just(Said(0)),
    st.just(Said(-1)),
)


def play(said: list[Said], mid_stream: bool) -> Exchange:
    exchange = Exchange(mid_stream=mid_stream)
    for one in said:
        if one.header == -1:
            exchange.gap()
        elif one.header == 0:
            exchange.request("Metadata", 12, frame=UNREADABLE)
        elif one.is_handshake:
            exchange.request("SaslHandshake", 1, {"mechanism": "PLAIN"}, client_id=one.client_id)
        else:
            version = 14 if one.header == 3 else 13
            exchange.request("Metadata", version, client_id=one.client_id, instance_id=one.instance_id)
    return exchange


def has_id(one: Said) -> bool:
    return one.instance_id not in (None, ZERO_ID)


class Account:
    """What the catalogue says of a connection, worked out from the whole of it at once."""

    def __init__(self, said: list[Said], mid_stream: bool) -> None:
        requests = [(place, one) for place, one in enumerate(said) if one.header != -1]
        self.requests = [one for _, one in requests]
        identified = [(place, one) for place, one in requests if not one.is_handshake]
        begins = identified[0][0] if identified else len(said)
        self.first = identified[0][1] if identified else None
        self.seen = not mid_stream and all(one.header != -1 for one in said[:begins])
        self.later = [one for _, one in identified[1:]]

    def zero(self) -> tuple[int, int, int]:
        if self.first is None:
            return 0, 0, 0
        later = [one for one in self.later if one.header == 3]
        zeros = sum(not has_id(one) for one in later)
        if not self.seen or self.first.header == 0:
            return 0, 0, int(self.first.header == 3) + zeros
        if self.first.header == 3:
            return int(has_id(self.first)), int(not has_id(self.first)), 0
        return len(later) - zeros, zeros, 0

    def missing(self) -> tuple[int, int, int]:
        if self.first is None or not self.seen or self.first.header == 0:
            given = [place for place, one in enumerate(self.requests) if has_id(one)]
            after = self.requests[given[0] :] if given else []
            return 0, 0, sum(not has_id(one) and not one.is_handshake for one in after)
        if not has_id(self.first):
            return 0, 0, 0
        # Nothing is advertised, so nobody knows whether an older header could have been avoided.
        on_header_v3 = [one for one in self.later if one.header == 3]
        having = sum(map(has_id, on_header_v3))
        return having, len(on_header_v3) - having, len(self.later) - len(on_header_v3)

    def changed(self) -> tuple[int, int, int]:
        places = [place for place, one in enumerate(self.requests) if has_id(one)]
        if not places:
            return 0, 0, 0
        anchor, after = self.requests[places[0]], self.requests[places[0] + 1 :]
        same = sum(one.instance_id == anchor.instance_id for one in after)
        other = sum(has_id(one) and one.instance_id != anchor.instance_id for one in after)
        return same, other, sum(one.header == 0 for one in after)


@given(st.lists(STATEMENTS, max_size=20), st.booleans())
def test_the_rules_on_instance_ids_say_what_the_account_says(said: list[Said], mid_stream: bool) -> None:
    exchange, account = play(said, mid_stream), Account(said, mid_stream)
    assert exchange.verdicts("kip1313/instance-id-zero") == account.zero()
    assert exchange.verdicts("kip1313/instance-id-missing") == account.missing()
    assert exchange.verdicts("kip1313/instance-id-changed") == account.changed()


@given(
    st.lists(STATEMENTS, max_size=20),
    st.lists(st.sampled_from([0, 42, 30, None]), max_size=20),
    st.booleans(),
)
def test_every_wrong_id_is_judged_once_on_the_brokers_side(
    said: list[Said], errors: list[int | None], closed: bool
) -> None:
    """By its response, or as undecided: at the end of the connection none is left open."""
    exchange, without_response = Exchange(), 0
    for one, error_code in zip([Said(3, ID_A, "app"), *said], [0, *errors], strict=False):
        if one.header != 3:
            continue
        request = exchange.request("OffsetDelete", 1, client_id=one.client_id, instance_id=one.instance_id)
        if error_code is None:
            without_response += 1
        else:
            exchange.respond(request, {"errorCode": error_code})
    if closed:
        exchange.close()
    offences = exchange.verdicts("kip1313/instance-id-missing")[1]
    offences += exchange.verdicts("kip1313/instance-id-changed")[1]
    judged = sum(exchange.verdicts("kip1313/instance-id-accepted-wrongly"))
    assert offences - (0 if closed else without_response) <= judged <= offences


@given(st.lists(STATEMENTS, max_size=20))
def test_client_ids_are_not_judged_before_header_v3_is_used(said: list[Said]) -> None:
    exchange = play([one for one in said if one.header != 3], mid_stream=False)
    for rule in ("client-id-dropped", "client-id-changed", "client-id-missing-first", "client-id-repeated"):
        assert exchange.verdicts(f"kip1313/{rule}") == (0, 0, 0)


@given(st.lists(STATEMENTS, max_size=20))
def test_a_connection_whose_beginning_was_not_seen_is_not_accused_of_its_client_id(said: list[Said]) -> None:
    exchange = play(said, mid_stream=True)
    for rule in ("client-id-dropped", "client-id-changed", "client-id-missing-first"):
        assert exchange.verdicts(f"kip1313/{rule}")[1] == 0
