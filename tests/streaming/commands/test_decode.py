"""`kipwatch decode`: every frame, whole, in the order of the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.exchange import Exchange
from tests.streaming.captures import write_capture
from tests.streaming.commands.ran import Ran

Kipwatch = Callable[..., Ran]


def test_a_line_a_frame(kipwatch: Kipwatch, captures: Path) -> None:
    ran = kipwatch("decode", captures / "violating.pcap")
    assert (ran.status, ran.errors) == (0, "")
    first, answer, *_ = lines = ran.output.splitlines()
    assert len(lines) == 4
    assert "10.0.0.1:40000 → 10.0.0.2:9092  ApiVersions v6" in first
    assert "client_id=app client_instance_id=AAECAwQFBgcICQoLDA0ODw" in first
    assert '"clientSoftwareName": "RP Console"' in first
    assert "10.0.0.1:40000 ← 10.0.0.2:9092  ApiVersions v6" in answer
    assert '"errorCode": 42' in answer


def test_an_object_a_frame(kipwatch: Kipwatch, captures: Path) -> None:
    frames = [
        json.loads(line)
        for line in kipwatch("decode", "--jsonl", captures / "violating.pcap").output.splitlines()
    ]
    assert [(frame["kind"], frame["api"], frame["correlation_id"]) for frame in frames] == [
        ("request", "ApiVersions", 1),
        ("response", "ApiVersions", 1),
        ("request", "Metadata", 2),
        ("request", "Metadata", 3),
    ]
    assert frames[0]["header_version"] == 3
    assert frames[1]["body"]["errorCode"] == 42
    assert len({frame["connection"] for frame in frames}) == 1
    assert all(frame["failure"] is None for frame in frames)


def test_filters_choose_by_api_and_kind(kipwatch: Kipwatch, captures: Path) -> None:
    path = captures / "violating.pcap"
    assert kipwatch("decode", path, "--api", "Metadata").output.count("\n") == 2
    assert kipwatch("decode", path, "--kind", "response").output.count("\n") == 1
    nothing = kipwatch("decode", path, "--api", "Metadata", "--kind", "response")
    assert (nothing.status, nothing.output) == (0, "")


def test_a_frame_that_cannot_be_read_says_why(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """Between frames that can."""
    exchange = Exchange()
    exchange.request("Metadata", 12, client_id="app")
    exchange.request("Metadata", 12, frame=bytes.fromhex("0003000c00000009ffff00ff"))
    exchange.request("Metadata", 12, frame=bytes.fromhex("7fff00050000000affff"))
    path = write_capture(tmp_path / "odd.pcap", exchange)
    ran = kipwatch("decode", "--jsonl", "--ports", "9092", path)
    good, malformed, unknown = map(json.loads, ran.output.splitlines())
    assert good["failure"] is None
    assert malformed["body"] is None and "topics" in malformed["failure"]
    assert (unknown["api"], unknown["api_key"], unknown["api_version"]) == (None, 0x7FFF, 5)
    assert kipwatch("decode", "--ports", "9092", path).output.count("\n") == 3


def test_a_client_id_cannot_act_on_the_terminal(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.request("Metadata", 12, client_id="\x1b[2Jevil\nline")
    ran = kipwatch("decode", write_capture(tmp_path / "evil.pcap", exchange))
    assert ran.output.count("\n") == 1
    assert "\x1b" not in ran.output
    assert r"client_id=\x1b[2Jevil\nline" in ran.output


def test_the_end_of_a_truncated_file_is_told(kipwatch: Kipwatch, captures: Path) -> None:
    ran = kipwatch("decode", captures / "truncated.pcap")
    assert ran.status == 2
    assert ran.output.count("\n") == 4
    assert ran.errors.endswith("truncated.pcap ends inside a packet; what is whole was read\n")


def test_a_file_without_a_frame_is_misuse(kipwatch: Kipwatch, captures: Path) -> None:
    assert "no Kafka frame is in it" in kipwatch("decode", captures / "empty.pcap").complaint
    assert (
        "check the file and --ports" in kipwatch("decode", captures / "clean.pcap", "--ports", "1").complaint
    )


def test_raw_sasl_tokens_are_told_without_their_bytes(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange = Exchange()
    handshake = exchange.request("SaslHandshake", 0, {"mechanism": "PLAIN"}, client_id="app")
    exchange.answer(handshake, {"mechanisms": ["PLAIN"]})
    exchange.request("SaslHandshake", 0, frame=b"\0user\0hunter2")
    ran = kipwatch("decode", "--ports", "9092", write_capture(tmp_path / "sasl.pcap", exchange))
    token = ran.output.splitlines()[-1]
    assert "→ 10.0.0.2:9092  SASL token" in token
    assert '{"sender": "client", "length": 13}' in token
    assert "hunter2" not in ran.output
