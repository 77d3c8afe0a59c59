"""The suite over the archive's errors: codes that Kafka has, and each batch once."""

from __future__ import annotations

from great_expectations import expectations as expect

from decoders.protocol import NO_ERROR
from decoders.schema.registry import Schemas
from expectations.suites.every_table import OF_A_BATCH, counted, unique
from expectations.suites.expectation import CRITICAL, Expectation, expected
from expectations.suites.usage import CALLS, api_known


def errors_expectations(schemas: Schemas) -> tuple[Expectation, ...]:
    """Return the expectations, with the APIs of a release."""
    return (
        counted("responses", "responses-counted"),
        unique(
            "errors-once",
            (*CALLS, "error_code"),
            "A batch counts the same errors in one row.",
            row_condition=OF_A_BATCH,
        ),
        api_known(schemas),
        expected(
            expect.ExpectColumnValuesToNotBeInSet,
            "error-is-one",
            CRITICAL,
            "Code 0 is no error, and no row counts it.",
            "Do not build on the sums of this day; report it as a fault of kipwatch, with the file.",
            column="error_code",
            value_set=[NO_ERROR],
        ),
        expected(
            expect.ExpectColumnValuesToNotBeNull,
            "error-has-code",
            CRITICAL,
            "A row names the error that it counts.",
            "Do not build on the sums of this day; report it as a fault of kipwatch, with the file.",
            column="error_code",
        ),
    )
