"""The notation is read strictly, so that no case tests less than it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from decoders.frame.record import Closing, Direction, Kind, Record
from expectations.cases.notation import Player
from tests.cases.notation import read_page
from tests.exchange import Exchange


def records(*lines: str) -> list[Record]:
    player = Player(Exchange)
    for line in lines:
        player.play(line)
    return player.exchange.records


@pytest.mark.parametrize(
    "line",
    [
        "client: Metadata v14",
        "client > Metadata v14 idd=A",
        "client > Metadata v14 {topics: null",
        "gap",
        "close by broker",
        "wait a while",
    ],
)
def test_a_line_that_is_not_understood_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"not a line of the notation|not understood"):
        records(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("broker < Metadata foreign cut=4", "not understood: cut"),
        ("broker < Metadata foreign unowed", "not understood: "),
        ("broker < Metadata foreign {errorCode: 1}", "not understood: a body"),
        ("broker < Metadata bogus", "not understood: bogus"),
        ("client > Metadata", "a request needs its version, such as v3"),
        ("client > Metadata id=A", "a request needs its version, such as v3"),
    ],
)
def test_what_is_wrong_with_a_message_is_said(line: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        records("client > Metadata v13", line)


@pytest.mark.parametrize(
    "page",
    ["## A case\n\nNothing follows.\n", "## A case\n\n```exchange\ngap to broker\n```\n"],
    ids=["nothing", "nothing expected"],
)
def test_a_case_without_all_its_parts_is_refused(tmp_path: Path, page: str) -> None:
    path = tmp_path / "offence.md"
    path.write_text(page)
    with pytest.raises(ValueError, match="every heading needs an exchange"):
        read_page(path)


def test_a_response_belongs_to_the_oldest_request_of_its_api() -> None:
    _, one, _, other, first, second = records(
        "client > OffsetDelete v0",
        "client > Metadata v13",
        "client > OffsetDelete v0",
        "broker < OffsetDelete {errorCode: 0}",
        "broker < OffsetDelete {errorCode: 42}",
    )
    assert (first.paired_sequence, second.paired_sequence) == (one.sequence, other.sequence)


def test_who_closes_and_what_is_lost_has_a_direction() -> None:
    opened, gap, closed = records("joined mid-stream", "gap to client", "close rst by broker")
    assert opened.kind is Kind.OPENED
    assert (gap.kind, gap.direction) == (Kind.GAP, Direction.TO_CLIENT)
    assert (closed.closing, closed.direction) == (Closing.RST, Direction.TO_CLIENT)


def test_connections_of_one_capture_share_their_sequence_and_time() -> None:
    said = records(
        "client > Metadata v13",
        "connection second from 10.0.0.9:41000",
        "client > Metadata v13",
    )
    assert [record.sequence for record in said] == [1, 2, 3, 4]
    assert len({record.connection for record in said}) == 2
    assert said[-1].client == "10.0.0.9:41000"
    assert [record.captured_at for record in said] == sorted(record.captured_at for record in said)
