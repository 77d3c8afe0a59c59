"""Reading Kafka's request log; the lines are what a 4.4.0 broker wrote."""

from pathlib import Path

import msgspec
import pytest

from tests.streaming.broker.request_log import LoggedRequest, logged_request, read_request_log

HEARTBEAT = (
    'Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":12,"requestApiVersion":3,'
    '"correlationId":8,"clientId":"demo-classic","requestApiKeyName":"HEARTBEAT"},"request":{"groupId":'
    '"demo-classic","generationId":1,"memberId":"demo-classic-85f5591e-1bbd-47df-a35c-b295104020e4",'
    '"groupInstanceId":null},"response":{"throttleTimeMs":0,"errorCode":0},"connection":'
    '"127.0.0.1:38161-127.0.0.1:40052-0-2","totalTimeMs":1.612,"requestQueueTimeMs":0.448,"localTimeMs":0.469,'
    '"remoteTimeMs":0.465,"throttleTimeMs":0,"responseQueueTimeMs":0.097,"sendTimeMs":0.132,"securityProtocol":'
    '"PLAINTEXT","principal":"User:ANONYMOUS","listener":"WATCHED","clientInformation":{"softwareName":'
    '"confluent-kafka-python","softwareVersion":"2.16.1-rdkafka-2.16.0"}}\n'
)
READ = LoggedRequest("WATCHED", "127.0.0.1:38161-127.0.0.1:40052-0-2", 12, 3, 8, "demo-classic")


def test_a_line_identifies_a_request() -> None:
    assert logged_request(HEARTBEAT) == READ


def test_a_line_has_both_bodies() -> None:
    line = logged_request(HEARTBEAT)
    assert line.request is not None and line.request["generationId"] == 1
    assert line.response == {"throttleTimeMs": 0, "errorCode": 0}
    unacknowledged = HEARTBEAT.replace('{"throttleTimeMs":0,"errorCode":0}', '""')
    assert logged_request(unacknowledged).response is None


def test_a_line_that_is_still_being_written_is_left_for_later(tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    log.write_text(HEARTBEAT + HEARTBEAT[:200])
    assert list(read_request_log(log)) == [READ]
    log.write_text(HEARTBEAT + HEARTBEAT)
    assert list(read_request_log(log)) == [READ, READ]


def test_a_line_that_lacks_a_field_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        logged_request('Completed request:{"listener":"WATCHED"}\n')
