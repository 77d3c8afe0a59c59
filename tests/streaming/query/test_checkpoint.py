"""The file manager of a checkpoint depends on its file system and on the table [spark].

The metadata of a moved checkpoint's steps names the schema's files where they are now.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streaming.query.checkpoint import BY_FILE_SYSTEM, BY_UPLOAD, MANAGER, with_schema_in
from streaming.query.session import spark_session
from streaming.settings.configuration import Configuration

BY_CONTEXT = BY_FILE_SYSTEM.replace("FileSystem", "FileContext")


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("checkpoint", "spark", "manager"),
    [
        ("file:{folder}", {}, BY_FILE_SYSTEM),
        ("{folder}", {}, BY_FILE_SYSTEM),
        ("{folder}", {MANAGER: BY_CONTEXT}, BY_CONTEXT),
        ("{folder}", {"spark.hadoop.fs.defaultFS": "hdfs://127.0.0.1:9"}, None),
        ("hdfs://127.0.0.1:9{folder}", {}, None),
        ("nowhere://{folder}", {}, None),
        pytest.param("s3a://bucket{folder}", {MANAGER: BY_CONTEXT}, BY_CONTEXT, marks=pytest.mark.long),
        pytest.param("s3a://bucket{folder}", {}, BY_UPLOAD, marks=pytest.mark.long),
        ("", {}, None),
    ],
)
def test_how_a_checkpoint_is_written_depends_on_where_it_is(
    tmp_path: Path, checkpoint: str, spark: dict[str, str], manager: str | None
) -> None:
    configuration = Configuration(checkpoint=checkpoint.format(folder=tmp_path), spark=spark)

    with spark_session(configuration) as session:
        assert session.conf.get(MANAGER, None) == manager


FILE = "state/1/_stateSchema/default/0_7d7b17e8"


def metadata(*paths: str) -> str:
    step = {"operatorInfo": {"operatorId": 1}, "stateStoreInfo": [{"stateSchemaFilePaths": list(paths)}]}
    return f"v2\n{json.dumps(step, separators=(',', ':'))}"


@pytest.mark.parametrize("first", ["file:/a", "file:/a/state/0/_stateSchema/b", "s3a://bucket/a"])
@pytest.mark.parametrize("root", ["file:/c", "s3a://bucket/c d", r"file:/\1"])
def test_every_path_is_below_the_new_root(first: str, root: str) -> None:
    moved = with_schema_in(root, metadata(f"{first}/{FILE}", f"{first}/{FILE}-2"))

    version, content = moved.split("\n")
    assert version == "v2"
    assert json.loads(content) == json.loads(metadata(f"{root}/{FILE}", f"{root}/{FILE}-2").split("\n")[1])


def test_a_checkpoint_in_its_place_is_left_as_it_is() -> None:
    text = metadata(f"file:/a/{FILE}")
    assert with_schema_in("file:/a", text) is text


@pytest.mark.parametrize("text", ["v2\n", "v2\n{", "v2\n{}", "nothing"])
def test_what_is_no_metadata_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        with_schema_in("file:/a", text)
