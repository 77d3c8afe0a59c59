"""The fuzz target, run for a moment from its corpus: no input breaks a promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import share_of
from tests.fuzz.corpus import FOLDER, seeds
from tests.fuzz.invariants import examine

ROOT = Path(__file__).parents[2]
LONG = 300


def fuzz(seconds: int, work: Path) -> int:
    """Fuzz for some seconds and return the number of inputs; what was found is left in `work`."""
    found = work / "found"
    found.mkdir()
    limits = [f"-max_total_time={seconds}", "-max_len=1024", "-timeout=10", "-rss_limit_mb=2048"]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.target", found, FOLDER, f"-artifact_prefix={work}/", *limits],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=seconds + 120,
        check=False,
    )
    print("\n".join(ran.stderr.splitlines()[-4:]))
    assert ran.returncode == 0, ran.stderr[-3000:]
    done = re.search(r"^Done (\d+) runs", ran.stderr, flags=re.MULTILINE)
    assert done, ran.stderr[-3000:]
    return int(done[1])


@pytest.mark.parametrize(("name", "data"), list(seeds()), ids=[name for name, _ in seeds()])
def test_the_corpus_is_what_its_script_writes_and_keeps_its_promises(name: str, data: bytes) -> None:
    assert (FOLDER / name).read_bytes() == data
    examine(data)


@pytest.mark.slow
def test_a_moment_of_fuzzing_finds_nothing(tmp_path: Path) -> None:
    assert fuzz(round(share_of(12)), tmp_path) > 1_000


@pytest.mark.long
@pytest.mark.timeout(LONG + 180)
def test_a_long_time_of_fuzzing_finds_nothing(tmp_path: Path) -> None:
    assert fuzz(LONG, tmp_path) > 10_000
