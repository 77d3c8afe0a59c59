"""An hour under steady traffic: after the warm-up memory is flat, and the query keeps up."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.e2e.sampled_road import Sample, SampledRoad, curves, paced
from tests.e2e.soak import FRAMES_IN_BLOCK, FRAMES_PER_SECOND, traffic

SECONDS = int(os.environ.get("KIPWATCH_SOAK_SECONDS", "3600"))
RATE = int(os.environ.get("KIPWATCH_SOAK_RATE", str(FRAMES_PER_SECOND)))
FOLDER = os.environ.get("KIPWATCH_SOAK_FOLDER", "")
"""The folder for samples and curves, if any."""
SAMPLE_SECONDS = 10.0
GROWTH = 1.1
SLACK_MEBIBYTES = 24.0

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(SECONDS + 600)]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Sample]:
    blocks = paced(traffic(RATE), RATE / FRAMES_IN_BLOCK)
    with SampledRoad(tmp_path_factory.mktemp("soak"), blocks, whole_heap=True) as road:
        samples = list(road.samples(SECONDS, SAMPLE_SECONDS))
    if FOLDER:
        Path(FOLDER, "soak.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, samples)))
        Path(FOLDER, "soak.svg").write_text(curves("Resident memory under steady traffic", samples))
    return samples


@pytest.mark.parametrize("field", ["feeder", "driver", "java", "workers", "state"])
def test_memory_is_flat_after_warm_up(samples: list[Sample], field: str) -> None:
    def memory(sample: Sample) -> float:
        return float(getattr(sample, field))

    second, last = quarter(samples, 1, memory), quarter(samples, 3, memory)
    assert last <= GROWTH * second + SLACK_MEBIBYTES


def test_the_query_keeps_up_and_forgets_closed_connections(samples: list[Sample]) -> None:
    assert quarter(samples, 3, lambda sample: sample.lag) < 60 * RATE
    rate = (samples[-1].frames - samples[len(samples) // 2].frames) / (
        samples[-1].seconds - samples[len(samples) // 2].seconds
    )
    assert rate > 0.9 * RATE
    assert quarter(samples, 3, lambda sample: sample.open_connections) <= 300


def quarter(samples: list[Sample], number: int, value: Callable[[Sample], float]) -> float:
    """The median of a value in one quarter of the time."""
    size = len(samples) // 4
    return statistics.median(map(value, samples[number * size : (number + 1) * size]))
