"""Another release than the committed one, wherever frames are decoded, also in Spark's workers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from decoders.schema.registry import default_schemas
from decoders.schema.table import COMMITTED_TABLE
from streaming.feeder.feeder import Feeder
from streaming.judging.bucket_input import unpack_input
from streaming.query.stages import decode_stage
from streaming.settings.configuration import Configuration
from streaming.settings.release import COMMITTED, load_schemas, load_table, table_text
from streaming.user_error import UserError
from tests.decoders.frame.columnar.batches import block
from tests.exchange import Exchange
from tests.streaming.captures import write_capture
from tests.streaming.feeder.test_pseudonyms import fed


@pytest.fixture
def without_metadata(tmp_path: Path) -> str:
    """A release that is the committed one, but does not know Metadata."""
    table = json.loads(COMMITTED_TABLE.read_text())
    kept = [message for message in table["messages"] if message.get("apiKey") != 3]
    path = tmp_path / "release.json"
    path.write_text(json.dumps({**table, "release": "9.9.9", "messages": kept}))
    return str(path)


@pytest.mark.parametrize("name", ["", COMMITTED, default_schemas().release])
def test_the_committed_release_is_meant_without_a_name_by_its_name_and_by_its_number(name: str) -> None:
    assert load_schemas(name) is default_schemas()
    assert table_text(name) is None
    assert load_table(name)["release"] == default_schemas().release


def test_a_release_is_loaded_once(without_metadata: str) -> None:
    schemas = load_schemas(without_metadata)
    assert (schemas.release, schemas.api(3)) == ("9.9.9", None)
    assert load_schemas(without_metadata) is schemas


def test_what_is_no_release_is_a_user_error(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"release": "1", "digest": "", "messages": [{"type": "gossip"}]}')
    with pytest.raises(UserError, match="type 'gossip' is not one of"):
        load_schemas(str(bad))
    with pytest.raises(UserError, match=r"missing\.jar is neither a file nor the committed release"):
        load_schemas("missing.jar")


def known(table: str | None) -> list[bool]:
    """Whether the decode stage in another process knows a Metadata and an ApiVersions request."""
    exchange = Exchange()
    exchange.request("Metadata", 12)
    exchange.request("ApiVersions", 0)
    records = exchange.records[1:]
    columns = [pa.array([block(records)]), pa.array(["t"]), pa.array([0]), pa.array([0])]
    batch = pa.RecordBatch.from_arrays(columns, names=["value", "topic", "partition", "offset"])
    stage = pickle.loads(cloudpickle.dumps(decode_stage(4, table)))
    (inputs,) = stage(iter([batch]))
    (row,) = map(unpack_input, inputs.column("input").to_pylist())
    return [observation.known for window in row.columns().windows() for observation in window.observations]


def test_sparks_workers_decode_with_it(without_metadata: str) -> None:
    assert known(None) == [True, True]
    assert known(table_text(without_metadata)) == [False, True]


def test_the_feeder_cuts_by_it(without_metadata: str, tmp_path: Path) -> None:
    """Of an API that the release does not have, the key and the version are kept."""
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    asked = exchange.request("Metadata", 12, {"topics": [{"name": "orders"}]}, client_id="app").frame
    capture = write_capture(tmp_path / "metadata.pcap", exchange)
    frames = [
        fed(capture, Configuration(ports=[], schemas=schemas))[-1].frame for schemas in ("", without_metadata)
    ]
    assert frames == [asked, asked[:4]]
    with pytest.raises(UserError, match=r"missing\.jar"):
        Feeder(Configuration(schemas="missing.jar"), run=1)
