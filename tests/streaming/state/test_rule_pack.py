"""What a pack's rule remembers is stored, read again, and in nobody's way without the pack.

Each step is a process of its own, which installs the pack or does not: `python -m` this module judges rows of
one connection from what the step before stored.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from decoders.frame.columnar.block_reading import BlockReader
from decoders.frame.columnar.block_writing import write_block
from decoders.schema.registry import default_schemas
from expectations.conversation.columnar.windows import Arrival, ColumnarWindows
from expectations.judging.judge import Judge
from streaming.judging.step import BucketStep
from streaming.state.bucket import pack_bucket, unpack_bucket
from tests.expectations.rules.test_packs import RULE, break_page
from tests.rule_pack import install, searched
from tests.streaming.commands.test_rule_packs import insistent


def judge_rows(folder: Path, begin: int, end: int) -> dict[str, object]:
    """Judge rows of the connection by what the folder holds, and store what is known then."""
    stored, contents = folder / "bucket", folder / "contents"
    read = stored.read_bytes() if stored.exists() else None
    bucket = unpack_bucket(read, lambda: contents.read_bytes() if contents.exists() else None)
    schemas = default_schemas()
    judge = Judge(schemas.api_names)
    block = write_block(insistent().records[begin:end], schemas.digest)
    (opened,) = BlockReader(schemas.digest).read([block])
    arrival = Arrival.of_topic(opened, pa.array(["frames"]), pa.array([0]), pa.array([begin]))
    windows = ColumnarWindows(schemas, secrets.token_bytes()).columns_of(arrival)
    report = BucketStep(judge, schemas.by_key).process(0, bucket, [windows])
    packed = pack_bucket(bucket)
    stored.write_bytes(packed.bucket)
    if packed.contents is not None:
        contents.write_bytes(packed.contents)
    return {
        "checks": report.checks.get(RULE, {}),
        "found": [finding.occurrences for finding in report.findings if finding.rule == RULE],
        "requests": sum(requests.count for requests in report.requests),
    }


def step(folder: Path, begin: int, end: int, path: str) -> dict[str, object]:
    command = [sys.executable, "-m", __name__, str(folder), str(begin), str(end)]
    environment = {"PYTHONPATH": path, "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    ran = subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    read: dict[str, object] = json.loads(ran.stdout)
    return read


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_state_survives_restarts_with_and_without_its_pack(tmp_path: Path) -> None:
    package = install(tmp_path / "site")
    installed = searched(tmp_path / "site")
    first = step(tmp_path, 0, 5, installed)
    assert first["checks"] == {"conforms": 2}
    second = step(tmp_path, 5, 7, installed)
    assert (second["checks"], second["found"]) == ({"violates": 1}, [1])
    break_page(package)
    without = step(tmp_path, 7, 9, installed)
    assert (without["checks"], without["requests"]) == ({}, 1)


if __name__ == "__main__":
    print(json.dumps(judge_rows(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
