"""The file manager of a checkpoint depends on its file system and on the table [spark]."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.query.checkpoint import BY_FILE_SYSTEM, BY_UPLOAD, MANAGER
from streaming.query.session import spark_session
from streaming.settings.configuration import Configuration

pytestmark = pytest.mark.jvm
BY_CONTEXT = BY_FILE_SYSTEM.replace("FileSystem", "FileContext")


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
