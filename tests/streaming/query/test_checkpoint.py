"""The file manager of a checkpoint depends on its file system and on the table [spark]."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.query.checkpoint import BY_FILE_SYSTEM, MANAGER
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
        ("", {}, None),
    ],
)
def test_a_local_checkpoint_is_written_through_the_file_system(
    tmp_path: Path, checkpoint: str, spark: dict[str, str], manager: str | None
) -> None:
    configuration = Configuration(checkpoint=checkpoint.format(folder=tmp_path), spark=spark)

    with spark_session(configuration) as session:
        assert session.conf.get(MANAGER, None) == manager
