"""What is known of servers' responses is bounded, whoever made them."""

from __future__ import annotations

from expectations.conversation.observation import ConnectionKey
from expectations.conversation.progress import ApiVersion
from streaming.judging.tally import ANSWERED_LIMIT, SERVER_LIMIT, ServerResponses

KEY = ConnectionKey(b"c" * 16, "", "10.0.0.1:40000", "10.0.0.2:9092", 1)


def claimed(known: dict[str, set[ApiVersion]], key: ConnectionKey, versions: list[ApiVersion]) -> int:
    """How much a batch claims in which a server responds to these API versions."""
    responses = ServerResponses(known)
    for version in versions:
        responses.add(key, version, 7)
    return len(list(responses.claims()))


def test_a_server_that_responds_to_anything_is_known_by_a_bounded_number_of_versions() -> None:
    """In one batch as in many; a version that is known is known for good."""
    known = dict[str, set[ApiVersion]]()
    versions = [(key, version) for key in range(100) for version in range(100)]
    assert claimed(known, KEY, versions[:600]) == 1 + 600
    assert claimed(known, KEY, versions) == ANSWERED_LIMIT - 600
    assert claimed(known, KEY, versions) == 0
    assert [len(each) for each in known.values()] == [ANSWERED_LIMIT]


def test_servers_are_bounded() -> None:
    known = dict[str, set[ApiVersion]]()
    for number in range(SERVER_LIMIT + 5):
        claimed(known, ConnectionKey(b"c" * 16, "", "", f"10.0.0.2:{number}", 1), [(18, 0)])
    assert len(known) == SERVER_LIMIT
