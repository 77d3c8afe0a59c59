"""The suites over the archive's usage and errors: calls that Kafka has, and each batch once.

A row of either table counts calls of one API version by one client in one minute (CALLS): usage by header
version, errors by error code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from great_expectations import expectations as expect

from decoders.protocol import NO_ERROR
from decoders.schema.registry import Schemas
from expectations.suites.suite import (
    CRITICAL,
    OF_A_BATCH,
    WARNING,
    WRONG_SUMS,
    Expectation,
    counted,
    expected,
    unique,
)

SHORTEST_REQUEST: Final = 8
"""Bytes of the length, API key and API version: a client may send a request of nothing else."""
UNKNOWN: Final = "unknown"
CERTAIN: Final = 0.9
"""Share of requests' rows of which everything is known in usual traffic."""
NAMED: Final = 0.5
"""Share of requests' rows whose client software is known in usual traffic."""
CALLS: Final = (
    "file",
    "minute",
    "cluster",
    "listener",
    "client_software_name",
    "client_software_version",
    "client_id",
    "folded",
    "api_key",
    "api_version",
)
"""The columns that say which calls a row counts."""


def usage_expectations(schemas: Schemas) -> tuple[Expectation, ...]:
    """Return the expectations on usage, with the APIs of a release."""
    return (
        counted("requests", "requests-counted", least=0),
        expected(
            expect.ExpectColumnValuesToBeBetween,
            "request-bytes-plausible",
            CRITICAL,
            f"A request has {SHORTEST_REQUEST} bytes or more on the wire.",
            "Do not build on the bytes of this day; report it as a fault of kipwatch, with the file.",
            column="bytes_beyond",
            min_value=0,
        ),
        unique(
            "usage-once",
            (*CALLS, "header_version"),
            "A batch counts the same requests in one row.",
            row_condition=OF_A_BATCH,
        ),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "usage-was-checked",
            CRITICAL,
            "Each batch that has requests has verdicts: every request is checked by some rule.",
            "A file of `coverage` is missing: restore it, or delete the batch from all tables.",
            column="is_checked",
            value_set=[True],
        ),
        api_known(schemas),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "version-in-schema",
            WARNING,
            f"{CERTAIN:.0%} of rows have a version that the schemas have.",
            "Clients are newer than the schemas: run with those of a newer release.",
            column="call",
            value_set=[call for call, _ in _calls(schemas)],
            mostly=CERTAIN,
        ),
        expected(
            expect.ExpectColumnValuesToBeInSet,
            "header-of-version",
            CRITICAL,
            "A request has the header version that its API version demands.",
            "The codec misread headers, or the query runs with other schemas: audit with its --schemas.",
            column="headed_call",
            value_set=[f"{call}:{header}" for call, header in _calls(schemas)],
        ),
        expected(
            expect.ExpectColumnValuesToNotBeNull,
            "header-certain",
            WARNING,
            f"{CERTAIN:.0%} of rows have a header that could be read.",
            "Frames cannot be decoded: see `kipwatch_undecodable_frames_total`.",
            column="header_version",
            mostly=CERTAIN,
        ),
        expected(
            expect.ExpectColumnValuesToNotBeInSet,
            "api-not-unknown",
            WARNING,
            f"{CERTAIN:.0%} of rows have an API that the schemas know.",
            "Clients speak APIs newer than the schemas, or the ports carry something else than Kafka.",
            column="api",
            value_set=[UNKNOWN],
            mostly=CERTAIN,
        ),
        expected(
            expect.ExpectColumnValuesToNotBeNull,
            "software-known",
            WARNING,
            f"{NAMED:.0%} of rows have a client software (KIP-511).",
            "Connections were joined midway, or clients are too old to name themselves.",
            column="client_software_name",
            mostly=NAMED,
        ),
    )


def errors_expectations(schemas: Schemas) -> tuple[Expectation, ...]:
    """Return the expectations on errors, with the APIs of a release."""
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
            WRONG_SUMS,
            column="error_code",
            value_set=[NO_ERROR],
        ),
        expected(
            expect.ExpectColumnValuesToNotBeNull,
            "error-has-code",
            CRITICAL,
            "A row names the error that it counts.",
            WRONG_SUMS,
            column="error_code",
        ),
    )


def api_known(schemas: Schemas) -> Expectation:
    """Expect that APIs have the names of the schemas."""
    return expected(
        expect.ExpectColumnValuesToBeInSet,
        "api-known",
        CRITICAL,
        "APIs have the names of the schemas; those that no schema has are `unknown`.",
        "Audit with the --schemas that the query runs with.",
        column="api",
        value_set=[*schemas.api_names.values(), UNKNOWN],
    )


def _calls(schemas: Schemas) -> Iterator[tuple[str, int]]:
    """Yield key:version of each request that the schemas have, and the version of its header."""
    for api in schemas.apis:
        for version in range(api.request.versions.lowest, api.request.versions.highest + 1):
            yield f"{api.key}:{version}", api.request_header_version(version)
