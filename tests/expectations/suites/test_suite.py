"""Tables in chunks: rows that an expectation compares are together, and the sum of chunks is the whole."""

from __future__ import annotations

import importlib
import itertools
from types import ModuleType
from typing import Any

import pandas
import pytest

from tests.expectations.suites.test_frames import conversation

pytestmark = pytest.mark.slow  # Great Expectations takes seconds to load


@pytest.fixture(scope="module")
def chunking() -> ModuleType:
    return importlib.import_module("expectations.suites.suite")


@pytest.fixture(scope="module")
def frames() -> ModuleType:
    return importlib.import_module("expectations.suites.frames")


def connections(count: int) -> pandas.DataFrame:
    table = conversation()
    return pandas.concat(
        [table.assign(connection=f"{number:032x}") for number in range(count)], ignore_index=True
    )


@pytest.mark.parametrize("chunks", [1, 3, 50])
def test_chunks_say_what_the_whole_table_says(chunking: ModuleType, frames: ModuleType, chunks: int) -> None:
    table = connections(5)
    table.loc[3, "header_version"] = 9
    table = pandas.concat([table, table.iloc[[0]]], ignore_index=True)
    suite = frames.frames_suite()
    numbers = chunking.chunk_numbers(table, chunking.rows_together(suite, ["connection"]), chunks)
    assert numbers.max() < chunks
    outcomes = [
        outcome for _, rows in table.groupby(numbers) for outcome in chunking.validate_chunk(suite, rows)
    ]
    whole = chunking.validate(suite, table)
    assert chunking.merged(suite, outcomes) == whole
    failed = {each.id for each in whole.outcomes if not each.success}
    assert {"header-version-exists", "record-unique"} <= failed


def test_a_share_counts_over_all_chunks(chunking: ModuleType) -> None:
    """One chunk alone may have too few, or too many."""
    from great_expectations import expectations as expect  # noqa: PLC0415

    from expectations.suites.suite import WARNING, Suite, expected  # noqa: PLC0415

    named = expected(
        expect.ExpectColumnValuesToNotBeNull,
        "named",
        WARNING,
        "It says.",
        "Do this.",
        column="name",
        mostly=0.5,
    )
    suite = Suite("names", (named,))

    def merged(*chunks: list[str | None]) -> Any:
        outcomes = [
            outcome
            for names in chunks
            for outcome in chunking.validate_chunk(suite, pandas.DataFrame({"name": names}, dtype="string"))
        ]
        return chunking.merged(suite, outcomes)

    assert merged([None, None], ["a", "b"]).success
    assert not merged([None, None, None], ["a", "b"]).success
    (outcome,) = merged([None]).outcomes
    assert (outcome.meaning, outcome.action) == ("It says.", "Do this.")


def test_a_share_at_the_boundary_is_met_as_great_expectations_has_it(chunking: ModuleType) -> None:
    """The sum over chunks is compared as one table is: not a row more or less may be unexpected."""
    from great_expectations import expectations as expect  # noqa: PLC0415
    from great_expectations.expectations.expectation import _mostly_success  # noqa: PLC0415

    from expectations.suites.suite import WARNING, ChunkOutcome, Suite, expected  # noqa: PLC0415

    for tenths, rows in itertools.product(range(1, 10), range(1, 31)):
        share = tenths / 10
        named = expected(
            expect.ExpectColumnValuesToNotBeNull, "named", WARNING, "", "", column="name", mostly=share
        )
        for wrong in range(rows + 1):
            chunks = [ChunkOutcome("named", False, rows, rows, wrong), ChunkOutcome("named", True, 1, 0, 0)]
            (outcome,) = chunking.merged(Suite("names", (named,)), chunks).outcomes
            assert outcome.success == _mostly_success(rows, wrong, share), (share, rows, wrong)


def test_a_suite_whose_keys_have_no_column_in_common_is_refused(
    chunking: ModuleType, frames: ModuleType
) -> None:
    with pytest.raises(ValueError, match="frames have no column in common"):
        chunking.rows_together(frames.frames_suite(), ["sequence"])
