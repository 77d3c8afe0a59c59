"""With keyed hashes no block names the address of a client, and all is judged alike."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from decoders.frame.record import Endpoint, Record
from decoders.schema.registry import default_schemas
from expectations.conversation.pseudonyms import SHORTEST_KEY, Pseudonyms
from expectations.judging.terms import Terms
from streaming.check.examination import examine
from streaming.feeder.feeder import Feeder
from streaming.feeder.source import open_capture
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError
from tests.captures import planted
from tests.decoders.frame.columnar.batches import block
from tests.decoders.wire.conversation import CLIENT
from tests.streaming.captures import violating, write_capture
from tests.streaming.feeder.test_feeder import FakeOutlet, batches, packets
from tests.streaming.query.test_same_as_check import streamed

KEY = "k" * SHORTEST_KEY
PSEUDONYMS = Pseudonyms(KEY.encode())


@pytest.fixture(autouse=True)
def key_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIPWATCH_KEY", KEY)


def keyed() -> Configuration:
    return Configuration(identities="keyed-hash", identities_key="env:KIPWATCH_KEY", ports=[])


def fed(capture: Path, configuration: Configuration) -> list[Record]:
    outlet = FakeOutlet()
    with open_capture(capture) as source:
        Feeder(configuration, run=1).run(source.batches(), outlet)
    return outlet.records


def test_no_block_holds_the_address_of_a_client() -> None:
    outlet = FakeOutlet()
    Feeder(keyed(), run=1).run(batches(packets()), outlet)
    assert len(outlet.records) == 2
    for record in outlet.records:
        assert record.client == PSEUDONYMS.client(CLIENT).endpoint
    columns = str(pa.ipc.open_stream(block(outlet.records)).read_all().to_pydict())
    plain = Endpoint.of(CLIENT.address, CLIENT.port)
    assert PSEUDONYMS.client(CLIENT).endpoint in columns
    assert plain.rpartition(":")[0] not in columns and str(CLIENT.address) not in columns


def test_the_id_of_a_connection_does_not_tell_the_address() -> None:
    """The connection ID is a hash of both ends without a key: of plain addresses it could be guessed."""
    plain, hidden = FakeOutlet(), FakeOutlet()
    Feeder(Configuration(ports=[]), run=1).run(batches(packets()), plain)
    Feeder(keyed(), run=1).run(batches(packets()), hidden)
    assert plain.records[0].connection != hidden.records[0].connection


@pytest.mark.parametrize("query", [Terms(pseudonyms=PSEUDONYMS), Terms()], ids=["keyed", "plain"])
def test_findings_are_those_of_plain_records(query: Terms) -> None:
    hidden = streamed(fed(planted.CAPTURE, keyed()), 97, query)
    plain = examine(planted.CAPTURE, default_schemas(), terms=Terms(pseudonyms=PSEUDONYMS))
    assert Counter((each.rule, each.occurrences) for each in hidden.findings.values()) == Counter(
        (each.rule, each.occurrences) for each in plain.findings
    )


def test_the_query_names_a_client_as_it_does_by_its_plain_address(tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "violating.pcap", violating())
    terms = Terms(pseudonyms=PSEUDONYMS)
    plain, hidden = (
        streamed(fed(capture, configuration), 97, terms)
        for configuration in (Configuration(ports=[]), keyed())
    )
    assert Counter(each.likeness() for each in hidden.findings.values()) == Counter(
        each.likeness() for each in plain.findings.values()
    )
    assert hidden.findings and all(each.client.startswith("h-") for each in hidden.findings.values())


def test_a_feeder_without_a_usable_key_says_so() -> None:
    with pytest.raises(UserError, match="identities_key: the environment variable ABSENT is not set"):
        Feeder(Configuration(identities="keyed-hash", identities_key="env:ABSENT"), run=1)
