"""Every message of the release: our codec reads, writes and refuses the same as Kafka.

Kafka's caps of 1,000,000 elements of an array and 10,000 tagged fields are not ours; no message here
is long enough to meet them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import pytest

from decoders.codec.program import Program, compile_message
from decoders.codec.writer import write
from decoders.schema.model import Message
from decoders.schema.registry import default_schemas
from expectations.identity.known_ranges import REFUSED_FOR_CONTENT
from tests.examples import share_of
from tests.oracle import chance
from tests.oracle.comparison import difference
from tests.oracle.judge import JudgedMessage, Oracle, Pair

SCHEMAS = default_schemas()
MESSAGES: dict[str, Message] = {
    message.name: message
    for api in SCHEMAS.apis
    for message in (api.request, api.response, SCHEMAS.request_header, SCHEMAS.response_header)
}
HEADERS = [
    Pair("RequestHeader", 1),
    Pair("RequestHeader", 2),
    Pair("ResponseHeader", 0),
    Pair("ResponseHeader", 1),
]
PAIRS = [
    Pair(message.name, version)
    for api in SCHEMAS.apis
    if api.release_versions
    for version in range(api.release_versions.lowest, api.release_versions.highest + 1)
    for message in (api.request, api.response)
] + HEADERS
OF_EACH = round(share_of(85))
OF_EACH_DAMAGED = round(share_of(30))
SEEDS = [1313, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 10))]
TROUBLESOME = bytes.fromhex("61 80 90 9f a0 bf c0 c3 e0 e2 ed f0 f4 f5 ff")
"""Bytes that begin or go on with a character, in and out of order."""


def program(pair: Pair) -> Program:
    return compile_message(MESSAGES[pair.message], pair.version)


def differences(messages: list[JudgedMessage]) -> list[str]:
    return [found for one in messages if (found := difference(program(one.pair), one))]


def header_version(pair: Pair) -> int:
    if pair in HEADERS:
        return -1
    api = SCHEMAS.api_named(pair.message.removesuffix("Request").removesuffix("Response"))
    assert api is not None
    is_request = pair.message == api.request.name
    return (api.request_header_version if is_request else api.response_header_version)(pair.version)


def test_the_release_has_309_apis_at_versions_and_their_headers_are_ours(oracle: Oracle) -> None:
    assert len(PAIRS) == 2 * 309 + len(HEADERS)
    assert oracle.pairs() == {pair: header_version(pair) for pair in PAIRS}


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_that_kafka_made_are_read_and_written_as_kafka_does(oracle: Oracle, seed: int) -> None:
    made = list(oracle.make(PAIRS, seed, OF_EACH))
    assert len(made) == OF_EACH * len(PAIRS)
    assert all(one.verdict.json is not None for one in made)
    assert differences(made) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_that_we_made_are_read_and_written_as_kafka_does(oracle: Oracle, seed: int) -> None:
    judged = list(oracle.judge(ours(seed)))
    assert len(judged) == OF_EACH * len(PAIRS)
    assert all(one.verdict.written == one.data for one in judged)
    assert differences(judged) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_what_kafka_refuses_is_a_failure_and_nothing_else_is(oracle: Oracle, seed: int) -> None:
    random = Random(seed)
    whole = oracle.make(PAIRS, seed, OF_EACH_DAMAGED)
    judged = list(oracle.judge((one.pair, chance.damaged(random, one.verdict.written)) for one in whole))
    refused = sum(one.verdict.json is None for one in judged)
    assert min(refused, len(judged) - refused) > share_of(5_000)
    assert differences(judged) == []


def test_text_that_is_not_utf8_is_read_as_kafka_reads_it(oracle: Oracle) -> None:
    random, pair = Random(1313), Pair("RequestHeader", 1)
    texts = [bytes(random.choices(TROUBLESOME, k=random.randint(1, 6))) for _ in range(5_000)]
    header = struct.Struct(">hhih")
    asked = [(pair, header.pack(18, 0, 7, len(text)) + text) for text in texts]
    assert differences(list(oracle.judge(asked))) == []


def ours(seed: int) -> Iterator[tuple[Pair, bytes]]:
    random = Random(seed)
    for pair in PAIRS:
        for _ in range(OF_EACH):
            yield pair, write(program(pair), chance.body(random, program(pair)))


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_of_three_apis_are_refused_for_their_content(oracle: Oracle, seed: int) -> None:
    assert oracle.closed_upon(seed, OF_EACH) == REFUSED_FOR_CONTENT
