"""The messages of Kafka's tests: every type and feature of the schema language, at every version.

What no message of a release has is here: nullable structs in tagged fields, unsigned int32, arrays and
structs with tags of their own, fields that are tagged at some versions alone.
"""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from pathlib import Path
from random import Random

from decoders.codec.program import Program, compile_message
from decoders.codec.writer import write
from decoders.schema.grammar import parse_message
from decoders.schema.model import Message
from tests.examples import share_of
from tests.oracle import chance
from tests.oracle.comparison import difference
from tests.oracle.judge import JudgedMessage, Oracle, Pair

NAMES = (
    "AllTypeMessage",
    "NullableStructMessage",
    "SimpleArraysMessage",
    "SimpleExampleMessage",
    "SimpleRecordsMessage",
)
OF_EACH = round(share_of(300))
KNOWN_DIFFERENCES = re.compile(
    # Of a null in a tagged field Kafka's two decoders expect another mark.
    r"^NullableStructMessage .*: Kafka's second decoder"
    # A negative number of tagged fields is none to this release; the newest refuses it.
    r"|: only we refuse it: invalid-length at header\._taggedFields"
)
SEED = 1082


@cache
def messages(jar: Path) -> dict[str, Message]:
    with zipfile.ZipFile(jar) as archive:
        return {name: parsed(archive.read(f"common/message/{name}.json"), name) for name in NAMES}


def parsed(content: bytes, name: str) -> Message:
    lines = content.decode().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
    return parse_message(json.loads(text), f"{name}.json")


def pairs(jar: Path) -> list[Pair]:
    return [
        Pair(name, version)
        for name, message in messages(jar).items()
        for version in range(message.versions.lowest, message.versions.highest + 1)
    ]


def program(jar: Path, pair: Pair) -> Program:
    return compile_message(messages(jar)[pair.message], pair.version)


def differences(jar: Path, messages: list[JudgedMessage]) -> list[str]:
    found = (difference(program(jar, one.pair), one) for one in messages)
    return [one for one in found if one and not KNOWN_DIFFERENCES.search(one)]


def test_what_kafka_made_is_read_and_written_as_kafka_does(feature_oracle: Oracle, feature_jar: Path) -> None:
    made = list(feature_oracle.make(pairs(feature_jar), SEED, OF_EACH))
    assert len(made) == OF_EACH * 13
    assert differences(feature_jar, made) == []


def test_what_we_made_is_read_and_written_as_kafka_does(feature_oracle: Oracle, feature_jar: Path) -> None:
    random = Random(SEED)
    programs = [(pair, program(feature_jar, pair)) for pair in pairs(feature_jar) for _ in range(OF_EACH)]
    made = [(pair, write(compiled, chance.body(random, compiled))) for pair, compiled in programs]
    judged = list(feature_oracle.judge(made))
    assert all(one.verdict.written == one.data for one in judged)
    assert differences(feature_jar, judged) == []


def test_what_kafka_refuses_is_a_failure_and_nothing_else_is(
    feature_oracle: Oracle, feature_jar: Path
) -> None:
    random = Random(SEED)
    whole = feature_oracle.make(pairs(feature_jar), SEED, OF_EACH)
    torn = [(one.pair, chance.damaged(random, one.verdict.written)) for one in whole]
    judged = list(feature_oracle.judge(torn))
    assert {one.verdict.json is None for one in judged} == {True, False}
    assert differences(feature_jar, judged) == []
