"""Key schedules and records beside the traces of RFC 8448 section 3; TLS 1.2's PRF beside a vector."""

from __future__ import annotations

import pytest

from decoders.tls.handshake import (
    TLS_1_2,
    TLS_1_3,
    HandshakeMessages,
    read_client_hello,
    read_server_hello,
)
from decoders.tls.key_log import KeyLog
from decoders.tls.protection import (
    CipherSuite,
    Protection,
    cipher_suite,
    expand_label,
    pseudorandom,
    traffic_keys,
)
from decoders.tls.records import RecordReader, TlsRecord
from decoders.tls.session import NOTHING, Session, Side

CLIENT_RANDOM = bytes.fromhex("cb34ecb1e78163ba1c38c6dacb196a6dffa21a8d9912ec18a2ef6283024dece7")
SERVER_RANDOM = bytes.fromhex("a6af06a4121860dc5e6e60249cd34c95930c8ac5cb1434dac155772ed3e26928")
CLIENT_HELLO = bytes.fromhex(
    "16030100c4010000c00303cb34ecb1e78163ba1c38c6dacb196a6dffa21a8d9912ec18a2ef6283024dece7"
    "000006130113031302010000910000000b0009000006736572766572ff01000100000a00140012001d001700"
    "1800190100010101020103010400230000003300260024001d002099381de560e4bd43d23d8e435a7dbafeb3"
    "c06e51c13cae4d5413691e529aaf2c002b0003020304000d0020001e04030503060302030804080508060401"
    "0501060102010402050206020202"
    "002d00020101001c00024001"
)
SERVER_HELLO = bytes.fromhex(
    "160303005a020000560303a6af06a4121860dc5e6e60249cd34c95930c8ac5cb1434dac155772ed3e26928"
    "00130100002e00330024001d0020c9828876112095fe66762bdbf7c672e156d6cc253b833df1dd69b1b04e75"
    "1f0f002b00020304"
)
CLIENT_SECRET = bytes.fromhex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5")
SERVER_SECRET = bytes.fromhex("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643")
CLIENT_DATA = bytes.fromhex(
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a"
    "20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4"
)
SERVER_DATA = bytes.fromhex(
    "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb"
    "501a59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d"
)
"""The server's second record with these keys: a NewSessionTicket precedes it."""
PAYLOAD = bytes(range(50))


def suite() -> CipherSuite:
    found = cipher_suite(TLS_1_3, 0x1301)
    assert found is not None
    return found


def records(data: bytes) -> list[TlsRecord]:
    reader, found = RecordReader(), []
    reader.push(data)
    while (record := reader.next()) is not None:
        reader.accept(record)
        found.append(record)
    assert reader.held == reader.dropped == 0
    return found


@pytest.mark.parametrize(
    ("secret", "key", "iv"),
    [
        (CLIENT_SECRET, "17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9"),
        (SERVER_SECRET, "9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984"),
    ],
    ids=["client", "server"],
)
def test_traffic_keys_are_those_of_the_trace(secret: bytes, key: str, iv: str) -> None:
    keys = traffic_keys(suite(), secret)
    assert (keys.key.hex(), keys.iv.hex()) == (key, iv)


def test_the_finished_key_is_that_of_the_trace() -> None:
    handshake_secret = bytes.fromhex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38")
    expected = "008d3b66f816ea559f96b537e885c31fc068bf492c652f01f288a1d8cdc19fc8"
    assert expand_label("sha256", handshake_secret, b"finished", 32).hex() == expected


def test_hellos_are_read() -> None:
    (client,), (server,) = (
        HandshakeMessages().push(records(each)[0].fragment) for each in (CLIENT_HELLO, SERVER_HELLO)
    )
    assert read_client_hello(client.body) == (CLIENT_RANDOM, b"", b"", False)
    assert read_server_hello(server.body) == (SERVER_RANDOM, b"", TLS_1_3, 0x1301, False)


@pytest.mark.parametrize(
    ("secret", "data", "number"),
    [(CLIENT_SECRET, CLIENT_DATA, 0), (SERVER_SECRET, SERVER_DATA, 1)],
    ids=["client", "server"],
)
def test_records_open_with_their_number_only(secret: bytes, data: bytes, number: int) -> None:
    protection, (record,) = Protection(suite(), traffic_keys(suite(), secret)), records(data)
    opened = protection.open(record, number)
    assert opened is not None
    assert (opened.content_type, opened.data) == (23, PAYLOAD)
    assert protection.open(record, number + 1) is None


def test_a_session_reads_the_trace_with_the_secrets_of_a_key_log() -> None:
    key_log = KeyLog()
    session = Session(key_log)
    assert session.read(Side.CLIENT, records(CLIENT_HELLO)[0]) == NOTHING
    assert session.read(Side.SERVER, records(SERVER_HELLO)[0]) == NOTHING
    (request,) = records(CLIENT_DATA)
    assert session.awaits_key(Side.CLIENT, request)
    for name, secret in (("CLIENT", CLIENT_SECRET), ("SERVER", SERVER_SECRET)):
        key_log.add(f"{name}_TRAFFIC_SECRET_0 {CLIENT_RANDOM.hex()} {secret.hex()}\n")
    assert not session.awaits_key(Side.CLIENT, request)
    assert session.read(Side.CLIENT, request).data == PAYLOAD
    session.close()
    assert not key_log.secrets(CLIENT_RANDOM)


def test_the_pseudorandom_function_of_tls_1_2_is_that_of_the_vector() -> None:
    # https://mailarchive.ietf.org/arch/msg/tls/fzVCzk-z3FShgGJ6DOXqM1ydxms
    secret = bytes.fromhex("9bbe436ba940f017b17652849a71db35")
    seed = b"test label" + bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c")
    assert pseudorandom("sha256", secret, seed, 100).hex() == (
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e"
        "14baf9af0fa022f7077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5"
        "a72e5a5110fff70187347b66"
    )


def test_suites_that_cannot_be_read_are_unknown() -> None:
    aes_128_cbc_sha = 0xC013
    assert cipher_suite(TLS_1_2, aes_128_cbc_sha) is None
    assert cipher_suite(TLS_1_2, 0x1301) is None
    assert cipher_suite(0x0302, 0xC02F) is None
