"""A feeder that keeps principals publishes the names of logins, and nothing else; the query finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from decoders.frame.record import Kind, Record
from decoders.schema.registry import default_schemas
from expectations.conversation.pseudonyms import Pseudonyms
from expectations.judging.terms import Terms
from streaming.check.examination import examine
from streaming.settings.configuration import Configuration
from tests.decoders.frame.columnar.batches import block
from tests.streaming.captures import packets_of, write_packets
from tests.streaming.commands.test_principals import NAME, SECRET, offending
from tests.streaming.feeder.test_pseudonyms import fed
from tests.streaming.query.test_same_as_check import streamed

PLAIN, KEEPING = Configuration(ports=[]), Configuration(ports=[], keep=["principal"])


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write_packets(tmp_path / "login.pcap", packets_of(offending()))


def holds(records: list[Record], text: str) -> bool:
    """Whether a record holds a text, or the block of all of them does."""
    return any(text.encode() in record.frame for record in records) or text.encode() in block(records)


def test_the_name_is_published_and_no_secret_is(capture: Path) -> None:
    kept, plain = fed(capture, KEEPING), fed(capture, PLAIN)
    assert holds(kept, NAME) and not holds(kept, SECRET)
    assert not holds(plain, NAME) and not holds(plain, SECRET)
    named = [record for record in kept if record.kind is Kind.PRINCIPAL]
    assert [record.frame.decode() for record in named] == [NAME]
    others = [record for record in kept if record.kind is not Kind.PRINCIPAL]
    assert [(record.kind, record.frame) for record in others] == [
        (record.kind, record.frame) for record in plain
    ]


@pytest.mark.parametrize("size", [1, 4, 97])
@pytest.mark.parametrize("terms", [Terms(), Terms(pseudonyms=Pseudonyms(bytes(32)))], ids=["plain", "keyed"])
def test_the_query_finds_the_principals_that_check_finds(capture: Path, size: int, terms: Terms) -> None:
    found = streamed(fed(capture, KEEPING), size, terms).findings.values()
    checked = examine(capture, default_schemas(), terms=terms, keeps_principals=True).findings
    assert {(each.rule, each.principal) for each in found} == {
        (each.rule, each.principal) for each in checked
    }
    name = NAME if terms.pseudonyms is None else terms.pseudonyms.text(NAME)
    assert {each.principal for each in found} == {name}
