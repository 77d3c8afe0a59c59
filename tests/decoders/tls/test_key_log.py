"""Key logs: their text comes in any pieces, from several files, and what it holds is bounded."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from decoders.tls.key_log import LABELS, MASTER_SECRET, MAX_LINE, KeyLog
from tests.examples import examples

TLS_13 = sorted(LABELS - {MASTER_SECRET})
RANDOM, SECRET = bytes(range(32)), bytes(range(100, 132))
Line = tuple[str, bytes, bytes]


def line_of(label: str, client_random: bytes, secret: bytes) -> bytes:
    return f"{label} {client_random.hex()} {secret.hex()}\n".encode()


randoms = st.binary(min_size=32, max_size=32)
lines: st.SearchStrategy[Line] = st.one_of(
    st.tuples(st.just(MASTER_SECRET), randoms, st.binary(min_size=48, max_size=48)),
    st.tuples(st.sampled_from(TLS_13), randoms, st.sampled_from([32, 48]).map(bytes)),
    st.tuples(st.sampled_from(TLS_13), randoms, st.binary(min_size=32, max_size=32)),
)


@examples(300)
@given(st.lists(lines, max_size=12), st.lists(st.integers(0, 4000), max_size=8))
def test_any_cut_of_the_text_yields_the_same_secrets(logged: list[Line], cuts: list[int]) -> None:
    text = b"".join(line_of(*line) for line in logged)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    key_log = KeyLog()
    for start, end in pairwise(places):
        key_log.add(text[start:end])
    expected: dict[bytes, dict[str, bytes]] = {}
    for label, client_random, secret in logged:
        expected.setdefault(client_random, {})[label] = secret
    assert {each: dict(key_log.secrets(each)) for each in expected} == expected
    assert (len(key_log), key_log.broken_lines) == (len(expected), 0)


@examples(300)
@given(st.lists(st.binary(max_size=2 * MAX_LINE), max_size=10), st.lists(lines, min_size=1, max_size=4))
def test_noise_never_raises_and_hides_no_line_behind_it(noise: list[bytes], logged: list[Line]) -> None:
    key_log = KeyLog()
    for each in noise:
        key_log.add(each)
    key_log.add(b"\n")
    for line in logged:
        key_log.add(line_of(*line))
    label, client_random, secret = logged[-1]
    assert key_log.secrets(client_random)[label] == secret


def test_a_line_waits_for_its_end() -> None:
    key_log = KeyLog()
    line = line_of("CLIENT_TRAFFIC_SECRET_0", RANDOM, SECRET)
    key_log.add(line[:-1])
    assert (key_log.secrets(RANDOM), key_log.version) == ({}, 0)
    key_log.end()
    assert (key_log.secrets(RANDOM), key_log.version) == ({"CLIENT_TRAFFIC_SECRET_0": SECRET}, 1)


def test_lines_of_two_files_that_grow_together_do_not_mix() -> None:
    first, second = (line_of(label, RANDOM, SECRET) for label in TLS_13[:2])
    key_log = KeyLog()
    for start, end in ((0, 40), (40, 200)):
        key_log.add(first[start:end], "one")
        key_log.add(second[start:end], "two")
    assert dict(key_log.secrets(RANDOM)) == dict.fromkeys(TLS_13[:2], SECRET)
    assert key_log.broken_lines == 0


def test_what_is_no_line_is_counted() -> None:
    key_log = KeyLog()
    key_log.add("# a comment\r\n\n  \nRSA 0011223344556677 00\n")
    key_log.add(f"EXPORTER_SECRET {RANDOM.hex()} {SECRET.hex()}\n")
    assert (key_log.broken_lines, len(key_log)) == (0, 0)
    for broken in ("", "00", f"{RANDOM.hex()} zz", f"{RANDOM.hex()} 00", f"00 {'00' * 48}", "00 11 22"):
        key_log.add(f"CLIENT_RANDOM {broken}\n")
    assert (key_log.broken_lines, len(key_log)) == (6, 0)


def test_a_line_that_never_ends_takes_no_memory() -> None:
    key_log = KeyLog()
    tracemalloc.start()
    try:
        for _ in range(1000):
            key_log.add(b"x" * 1000)
        assert tracemalloc.get_traced_memory()[0] < 10 * MAX_LINE
    finally:
        tracemalloc.stop()
    key_log.add(b"\n" + line_of("CLIENT_TRAFFIC_SECRET_0", RANDOM, SECRET))
    assert (key_log.broken_lines, len(key_log)) == (1, 1)


def test_the_version_grows_with_what_is_new() -> None:
    key_log = KeyLog()
    for secret in (SECRET, SECRET, bytes(32)):
        key_log.add(line_of("SERVER_TRAFFIC_SECRET_0", RANDOM, secret))
    assert (key_log.version, key_log.secrets(RANDOM)) == (2, {"SERVER_TRAFFIC_SECRET_0": bytes(32)})


def test_a_master_secret_is_also_known_by_its_session_id() -> None:
    key_log, session_id = KeyLog(), bytes(range(50, 82))
    key_log.add(f"RSA Session-ID:{session_id.hex().upper()} Master-Key:{'ab' * 48}\n")
    assert key_log.secrets(RANDOM) == {}
    assert key_log.secrets(session_id) == {}
    assert key_log.secrets(RANDOM, session_id) == {MASTER_SECRET: b"\xab" * 48}
    key_log.forget(RANDOM)
    assert key_log.secrets(RANDOM, session_id)
    key_log.add(line_of(MASTER_SECRET, RANDOM, bytes(48)))
    assert key_log.secrets(RANDOM, session_id) == {MASTER_SECRET: bytes(48)}


def test_a_session_without_an_id_is_nobodys() -> None:
    key_log = KeyLog()
    for line in (f"Session-ID: Master-Key:{'00' * 48}", f"Session-ID:{'00' * 33} Master-Key:{'00' * 48}"):
        key_log.add(f"RSA {line}\nRSA Session-ID:00\n")
    assert (key_log.secrets(RANDOM), len(key_log), key_log.broken_lines) == ({}, 0, 4)


def test_connections_that_were_not_used_the_longest_make_room() -> None:
    key_log = KeyLog(capacity=2)
    for number in range(2):
        key_log.add(line_of(MASTER_SECRET, bytes([number]) * 32, bytes(48)))
    assert key_log.secrets(bytes(32))
    key_log.add(line_of(MASTER_SECRET, bytes([2]) * 32, bytes(48)))
    held = [number for number in range(3) if key_log.secrets(bytes([number]) * 32)]
    assert (held, len(key_log)) == ([0, 2], 2)


def test_secrets_are_forgotten_with_their_connection() -> None:
    key_log = KeyLog()
    key_log.add(line_of(MASTER_SECRET, RANDOM, bytes(48)))
    key_log.forget(RANDOM)
    key_log.forget(RANDOM)
    assert (key_log.secrets(RANDOM), len(key_log)) == ({}, 0)


def test_no_repr_shows_a_secret() -> None:
    key_log = KeyLog()
    key_log.add(line_of("CLIENT_TRAFFIC_SECRET_0", RANDOM, SECRET))
    secrets = key_log.secrets(RANDOM)
    shown = f"{key_log!r} {key_log} {secrets!r} {secrets} {[secrets]}"
    assert SECRET.hex() not in shown
    assert repr(SECRET)[2:-1] not in shown
    assert "CLIENT_TRAFFIC_SECRET_0" in shown


def test_a_ticket_whose_session_changes_is_the_latest() -> None:
    key_log = KeyLog(capacity=2)
    for ticket, session_id in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")):
        key_log.remember_ticket(ticket, session_id)
    assert [key_log.session_of(ticket) for ticket in (b"a", b"b", b"c")] == [b"3", None, b"4"]
