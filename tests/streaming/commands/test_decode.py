"""`kipwatch decode`: every frame, complete, in the order of the wire."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from decoders.codec.request import write_request
from decoders.schema.header_versions import Layout
from decoders.schema.registry import default_schemas
from decoders.schema.table import COMMITTED_TABLE
from expectations.conversation.texts import identifier_text
from tests.exchange import ID_A, ID_B, SOFTWARE, Exchange, advertisement
from tests.streaming.captures import packets_of, write_capture, write_packets
from tests.streaming.commands.ran import Kipwatch

FIELDS = [
    "connection",
    "client",
    "server",
    "kind",
    "sequence",
    "captured_at",
    "api_key",
    "api",
    "api_version",
    "header_version",
    "correlation_id",
    "client_id",
    "client_instance_id",
    "body",
    "remarks",
    "failure",
    "client_software_name",
    "client_software_version",
]


@pytest.fixture
def objects(kipwatch: Kipwatch, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Decode an exchange to objects."""

    def decode(exchange: Exchange, *flags: object) -> list[dict[str, Any]]:
        path = write_capture(tmp_path / "exchange.pcap", exchange)
        ran = kipwatch("decode", "--jsonl", "--ports", "9092", path, *flags)
        assert (ran.status, not ran.errors) == (0, bool(ran.output))
        return [json.loads(line) for line in ran.output.splitlines()]

    return decode


Objects = Callable[..., list[dict[str, Any]]]


def test_a_line_a_frame_and_its_fields_beneath(kipwatch: Kipwatch, captures: Path) -> None:
    ran = kipwatch("decode", captures / "violating.pcap")
    assert (ran.status, ran.errors) == (0, "")
    opened, first, *fields = ran.output.splitlines()
    assert opened == "     1  1970-01-01 00:16:40.001000  10.0.0.1:40000 ↔ 10.0.0.2:9092  -- opened"
    assert first == (
        "     2  1970-01-01 00:16:40.002000  10.0.0.1:40000 → 10.0.0.2:9092  ApiVersions v6 request  #1"
        '  header v3  client_id=app  client_instance_id=AAECAwQFBgcICQoLDA0ODw  software="RP Console"/1.0'
    )
    assert fields[:4] == [
        '        clientSoftwareName: "RP Console"',
        '        clientSoftwareVersion: "1.0"',
        "        clusterId: null",
        "        nodeId: -1",
    ]
    assert "10.0.0.1:40000 ← 10.0.0.2:9092  ApiVersions v6 response  #1  header v0" in fields[4]
    assert fields[5] == "        errorCode: 42"
    assert fields[-1].endswith("-- closed (fin)")


def test_structs_in_arrays_stand_behind_a_dash(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.negotiate()
    beat = exchange.request("ConsumerGroupHeartbeat", 1, {"groupId": "g", "subscribedTopicNames": ["a", "b"]})
    assigned = {"topicPartitions": [{"topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [0, 1]}]}
    exchange.respond(beat, {"assignment": assigned})
    lines = kipwatch("decode", write_capture(tmp_path / "a.pcap", exchange)).output.splitlines()
    assert "        apiKeys: 5" in lines
    assert "          - apiKey: 68 (ConsumerGroupHeartbeat), minVersion: 0, maxVersion: 2" in lines
    assert '        subscribedTopicNames: ["a", "b"]' in lines
    assert "        topicPartitions: null" in lines
    assert lines[-3:] == [
        "        assignment:",
        "            topicPartitions: 1",
        '              - topicId: "AAAAAAAAAAAAAAAAAAAAAQ", partitions: [0, 1]',
    ]


def test_a_struct_that_holds_others_takes_several_lines(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange = Exchange()
    partition = {"index": 1, "records": "AAAA"}
    exchange.request("Produce", 12, {"topicData": [{"name": "t", "partitionData": [partition]}]})
    lines = kipwatch(
        "decode", "--ports", "9092", write_capture(tmp_path / "a.pcap", exchange)
    ).output.splitlines()
    assert lines[-4:] == [
        "        topicData: 1",
        '          - name: "t"',
        "            partitionData: 1",
        '              - index: 1, records: "AAAA"',
    ]


def test_an_object_a_frame(kipwatch: Kipwatch, captures: Path) -> None:
    lines = kipwatch("decode", "--jsonl", captures / "violating.pcap").output.splitlines()
    frames = [json.loads(line) for line in lines]
    assert all(list(frame) == FIELDS for frame in frames)
    assert [(frame["kind"], frame["api"], frame["correlation_id"]) for frame in frames] == [
        ("request", "ApiVersions", 1),
        ("response", "ApiVersions", 1),
        ("request", "Metadata", 2),
        ("request", "Metadata", 3),
    ]
    assert [frame["header_version"] for frame in frames] == [3, 0, 3, 3]
    assert frames[1]["body"]["errorCode"] == 42
    assert len({frame["connection"] for frame in frames}) == 1
    assert all(frame["failure"] is None and frame["remarks"] == [] for frame in frames)
    assert [frame["sequence"] for frame in frames] == sorted({frame["sequence"] for frame in frames})


def test_every_line_names_the_software_that_was_last_announced(objects: Objects) -> None:
    exchange = Exchange()
    exchange.request("Metadata", 12, client_id="app")
    exchange.negotiate()
    exchange.request("ApiVersions", 2)
    exchange.request("ApiVersions", 3, {"clientSoftwareName": "other", "clientSoftwareVersion": "2"})
    names = [(frame["client_software_name"], frame["client_software_version"]) for frame in objects(exchange)]
    assert names == [(None, None), *[("tester", "1.0")] * 3, ("other", "2")]


def test_filters_choose_by_api_and_kind(kipwatch: Kipwatch, captures: Path) -> None:
    path = captures / "violating.pcap"

    def count(*flags: object) -> int:
        return kipwatch("decode", path, "--jsonl", *flags).output.count("\n")

    assert count("--api", "Metadata") == count("--api", 3) == 2
    assert count("--kind", "response") == count("--kind", "response", "--api", 18) == 1
    assert count("--api", 12345) == 0
    nothing = kipwatch("decode", path, "--api", "Metadata", "--kind", "response")
    assert (nothing.status, nothing.output) == (0, "")


def test_a_client_id_selects_responses_and_later_requests_too(objects: Objects) -> None:
    """With header v3 only the first request carries it."""
    exchange = Exchange()
    request = exchange.request("ApiVersions", 6, SOFTWARE, client_id="app", instance_id=ID_A)
    exchange.respond(request, advertisement())
    exchange.request("Metadata", 14, instance_id=ID_A)
    assert len(objects(exchange, "--client-id", "app")) == 3
    assert objects(exchange, "--client-id", "ap") == []


def test_a_frame_that_cannot_be_read_says_why(objects: Objects) -> None:
    """It is shown between frames that can be decoded."""
    exchange = Exchange()
    exchange.request("Metadata", 12, client_id="app")
    exchange.request("Metadata", 12, frame=bytes.fromhex("0003000c00000009ffff00ff"))
    exchange.request("Metadata", 12, frame=bytes.fromhex("7fff00050000000affff"))
    exchange.request("Metadata", 12, frame=bytes.fromhex("000300630000000bffff"))
    exchange.request("Metadata", 12, frame=bytes.fromhex("0003000e0000000cffff0000"))
    exchange.request("Metadata", 12, client_id="app")
    good, malformed, api, version, overlay, last = objects(exchange)
    assert good["failure"] is last["failure"] is None
    assert malformed["body"] is None
    assert malformed["failure"] == {"reason": "truncated", "path": "topics", "offset": 11}
    assert (api["api"], api["api_key"], api["api_version"]) == (None, 0x7FFF, 5)
    reasons = [frame["failure"] for frame in (api, version, overlay)]
    assert [reason["reason"] for reason in reasons] == ["unknown-api", "unknown-version", "unproven"]
    assert [frame["correlation_id"] for frame in (api, version, overlay)] == [10, 11, 12]


def test_a_remark_is_shown_beside_the_body(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange = Exchange()
    frame = write_request(default_schemas(), "Metadata", 12, 7, "app", {}) + b"\0\0"
    exchange.request("Metadata", 12, frame=frame)
    path = write_capture(tmp_path / "odd.pcap", exchange)
    frame_object = json.loads(kipwatch("decode", "--ports", "9092", "--jsonl", path).output)
    assert frame_object["body"]["topics"] == []
    assert frame_object["remarks"] == [{"reason": "trailing-bytes", "path": "", "offset": len(frame) - 2}]
    assert f"        remark: trailing-bytes, byte {len(frame) - 2}\n" in (
        kipwatch("decode", "--ports", "9092", path).output
    )


def test_a_response_to_a_request_that_was_not_captured_is_shown(objects: Objects) -> None:
    exchange = Exchange(mid_stream=True)
    request = exchange.request("Metadata", 12)
    exchange.respond(request)
    exchange.respond(request)
    *_, unpaired = objects(exchange)
    assert (unpaired["kind"], unpaired["api_key"], unpaired["correlation_id"]) == ("response", None, 1)
    assert unpaired["failure"] == {"reason": "unpaired", "path": "", "offset": None}


def test_both_layouts_of_header_3_are_read(objects: Objects) -> None:
    exchange = Exchange()
    for layout in Layout:
        frame = write_request(default_schemas(), "Metadata", 14, 7, None, {}, ID_A, layout)
        exchange.request("Metadata", 14, frame=frame)
    found = [(frame["header_version"], frame["client_instance_id"]) for frame in objects(exchange)]
    assert found == [(3, "AAECAwQFBgcICQoLDA0ODw")] * 2


def test_a_client_id_cannot_control_the_terminal(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.request("Metadata", 12, {"topics": [{"name": "\x1b[2Jx"}]}, client_id="\x1b[2Jevil\nline")
    output = kipwatch("decode", write_capture(tmp_path / "evil.pcap", exchange)).output
    assert "\x1b" not in output
    assert r"client_id=\x1b[2Jevil\nline" in output
    assert r'"\x1b[2Jx"' in output


def test_a_gap_between_frames_is_shown(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.gap(size=77)
    exchange.close()
    path = write_capture(tmp_path / "gap.pcap", exchange)
    assert "→ 10.0.0.2:9092  -- 77 bytes were not captured\n" in kipwatch("decode", path).output
    assert "77 bytes" not in kipwatch("decode", path, "--kind", "request").output


def test_nothing_is_cut(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """Neither long values nor, on request, secrets."""
    exchange = Exchange()
    exchange.request("SaslAuthenticate", 2, {"authBytes": "c2VjcmV0"})
    exchange.request("Metadata", 12, {"topics": [{"name": "t" * 30_000}]})
    path = write_capture(tmp_path / "long.pcap", exchange)
    output = kipwatch("decode", "--ports", "9092", "--show-secrets", path).output
    assert '"c2VjcmV0"' in output
    assert "t" * 30_000 in output


def test_a_truncated_file_is_status_2(kipwatch: Kipwatch, captures: Path) -> None:
    ran = kipwatch("decode", "--jsonl", captures / "truncated.pcap")
    assert ran.status == 2
    assert ran.output.count("\n") == 4
    assert ran.errors.endswith("truncated.pcap ends inside a packet; all complete packets were read\n")


def test_a_file_without_a_frame_is_misuse(kipwatch: Kipwatch, captures: Path) -> None:
    assert "it holds no Kafka frame" in kipwatch("decode", captures / "empty.pcap").error_line
    line = kipwatch("decode", captures / "clean.pcap", "--ports", "1").error_line
    assert line.endswith("check the file and --ports, and if it is TLS, --tls-keylog")


def test_raw_sasl_tokens_are_shown_without_their_bytes(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange = Exchange()
    handshake = exchange.request("SaslHandshake", 0, {"mechanism": "PLAIN"}, client_id="app")
    exchange.respond(handshake, {"mechanisms": ["PLAIN"]})
    exchange.request("SaslHandshake", 0, frame=b"\0user\0hunter2")
    path = write_capture(tmp_path / "sasl.pcap", exchange)
    *_, token, sender, length = kipwatch("decode", "--ports", "9092", path).output.splitlines()
    assert token.endswith("10.0.0.1:40000 → 10.0.0.2:9092  SASL token")
    assert (sender, length) == ('        sender: "client"', "        length: 13")
    ran = kipwatch("decode", "--ports", "9092", "--jsonl", path, "--kind", "sasl_token")
    assert json.loads(ran.output)["body"] == {"sender": "client", "length": 13}
    assert "hunter2" not in ran.output


def test_another_release_decodes_what_it_knows(kipwatch: Kipwatch, captures: Path, tmp_path: Path) -> None:
    table = json.loads(COMMITTED_TABLE.read_text())
    kept = [message for message in table["messages"] if message.get("apiKey") != 3]
    path = tmp_path / "without-metadata.json"
    path.write_text(json.dumps({**table, "messages": kept}))
    ran = kipwatch("decode", "--jsonl", captures / "clean.pcap", "--schemas", path)
    frames = [json.loads(line) for line in ran.output.splitlines()]
    assert [(frame["api"], frame["failure"] and frame["failure"]["reason"]) for frame in frames] == [
        ("ApiVersions", None),
        ("ApiVersions", None),
        (None, "unknown-api"),
    ]


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    exchange = Exchange()
    for _ in range(2_000):
        exchange.request("Metadata", 12, {"topics": [{"name": "t" * 100}]})
    path = write_capture(tmp_path / "many.pcap", exchange)
    command = [sys.executable, "-m", "streaming.commands.main", "decode", "--ports", "9092", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_the_ledger_of_each_connection_is_shown(kipwatch: Kipwatch, tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.close()
    path = write_capture(tmp_path / "exchange.pcap", exchange)
    of_connection, rest = kipwatch("decode", "--ledger", path).output.splitlines()
    account, _ = (
        json.loads(line) for line in kipwatch("decode", "--ledger", "--jsonl", path).output.splitlines()
    )
    size = account["captured"]
    assert of_connection == f"10.0.0.1:40000 → 10.0.0.2:9092: {size} captured = {size} framed; 0 lost"
    assert rest.startswith("no connection: 0 captured")
    assert account["framed"] == size > 50
    assert "leave --api" in kipwatch("decode", "--ledger", "--api", "3", path).error_line


def sasl_exchange() -> Exchange:
    exchange = Exchange()
    token = base64.b64encode(b"\0user\0hunter2").decode()
    exchange.respond(exchange.request("SaslAuthenticate", 2, {"authBytes": token}), {"authBytes": ""})
    return exchange


def test_passwords_are_hidden(objects: Objects) -> None:
    asked, answered = objects(sasl_exchange())
    assert asked["body"]["authBytes"] == "(hidden)"
    assert answered["body"]["authBytes"] == ""


def test_secrets_are_shown_on_request_with_a_warning(kipwatch: Kipwatch, tmp_path: Path) -> None:
    path = write_capture(tmp_path / "sasl.pcap", sasl_exchange())
    hidden = kipwatch("decode", "--ports", "9092", path)
    shown = kipwatch("decode", "--jsonl", "--ports", "9092", "--show-secrets", path)
    token = base64.b64encode(b"\0user\0hunter2").decode()
    assert token not in hidden.output and "hunter2" not in hidden.output
    assert json.loads(shown.output.splitlines()[0])["body"]["authBytes"] == token
    assert shown.errors == "kipwatch: the output may hold passwords and tokens: do not share it\n"


def instances(kipwatch: Kipwatch, path: Path, *flags: str) -> list[dict[str, Any]]:
    ran = kipwatch("decode", "--jsonl", path, *flags)
    assert (ran.status, not ran.errors) == (0, bool(ran.output))
    return [json.loads(line) for line in ran.output.splitlines()]


def two_members(folder: Path) -> Path:
    """Two connections of one client instance, of which the second heartbeats, and one of another instance."""
    negotiating, member, other = (
        Exchange(connection=bytes([number]) * 16, client=f"10.0.0.1:4000{number}") for number in range(3)
    )
    negotiating.request("Metadata", 14, client_id="app", instance_id=ID_A)
    member.negotiate(client_id="app")
    for group in ("orders", "bills"):
        beat = {"groupId": group, "memberId": identifier_text(ID_A), "memberEpoch": 1}
        member.request("ConsumerGroupHeartbeat", 1, beat, client_id="app")
    other.request("Metadata", 14, client_id="app", instance_id=ID_B)
    other.request("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["orders"]}, client_id="app")
    packets = [packet for exchange in (negotiating, member, other) for packet in packets_of(exchange)]
    return write_packets(folder / "members.pcap", sorted(packets, key=lambda packet: packet.captured_at))


def clients_of(frames: list[dict[str, Any]]) -> list[str]:
    return sorted({frame["client"] for frame in frames})


@pytest.mark.parametrize("text", [identifier_text(ID_A), ID_A.hex(), str(UUID(bytes=ID_A))])
def test_a_client_instance_is_followed_from_connection_to_connection(
    kipwatch: Kipwatch, tmp_path: Path, text: str
) -> None:
    """All frames of its connections are shown, those before its ID appears, too."""
    frames = instances(kipwatch, two_members(tmp_path), "--instance-id", text)
    assert clients_of(frames) == ["10.0.0.1:40000", "10.0.0.1:40001"]
    assert [frame["api"] for frame in frames].count("ApiVersions") == 2


def test_a_group_is_followed_by_whoever_names_it(kipwatch: Kipwatch, tmp_path: Path) -> None:
    path = two_members(tmp_path)
    assert clients_of(instances(kipwatch, path, "--group", "orders")) == ["10.0.0.1:40001", "10.0.0.1:40002"]
    assert clients_of(instances(kipwatch, path, "--group", "bills")) == ["10.0.0.1:40001"]
    both = instances(kipwatch, path, "--group", "orders", "--instance-id", ID_A.hex(), "--api", "68")
    assert [frame["body"]["groupId"] for frame in both] == ["orders", "bills"]
    assert instances(kipwatch, path, "--group", "orders", "--instance-id", ID_B.hex(), "--api", "68") == []
    assert instances(kipwatch, path, "--group", "none") == []


def test_what_is_followed_is_shown_with_its_beginning(kipwatch: Kipwatch, tmp_path: Path) -> None:
    ran = kipwatch("decode", two_members(tmp_path), "--group", "bills")
    assert ran.output.splitlines()[0].endswith("10.0.0.1:40001 ↔ 10.0.0.2:9092  -- opened")


def test_an_instance_that_is_no_uuid_is_refused(kipwatch: Kipwatch, captures: Path) -> None:
    ran = kipwatch("decode", captures / "clean.pcap", "--instance-id", "app")
    assert "--instance-id must be a UUID" in ran.error_line
