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


@pytest.fixture
def without_metadata(tmp_path: Path) -> str:
    """A release that is the committed one, but does not know Metadata."""
    table = json.loads(COMMITTED_TABLE.read_text())
    kept = [message for message in table["messages"] if message.get("apiKey") != 3]
    path = tmp_path / "release.json"
    path.write_text(json.dumps({**table, "release": "9.9.9", "messages": kept}))
    return str(path)


def test_no_name_is_the_committed_release() -> None:
    assert load_schemas("") is default_schemas()
    assert table_text("") is None
    assert load_table(COMMITTED)["release"] == default_schemas().release


def test_the_committed_release_has_a_name_and_a_number() -> None:
    for name in (COMMITTED, default_schemas().release):
        assert load_schemas(name) is default_schemas()
        assert table_text(name) is None
        assert load_table(name) == load_table("")


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


def test_the_feeder_frames_with_it(without_metadata: str) -> None:
    with pytest.raises(UserError, match=r"missing\.jar"):
        Feeder(Configuration(schemas="missing.jar"), run=1)
    Feeder(Configuration(schemas=without_metadata), run=1)
