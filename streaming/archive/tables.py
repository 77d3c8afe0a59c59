"""The archive's tables: their columns, and the rows that the reports of a batch come to.

Those of what changes are in `change_tables.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Final

import msgspec
import pyarrow as pa

from expectations.judging.finding import Finding
from streaming.archive.change_tables import CHANGE_TABLES
from streaming.archive.table import EPOCH, INSTANT, Batch, Table, Values, instant, schema_of
from streaming.judging.report import checks_of
from streaming.judging.usage import UNCERTAIN, Usage, Use

UNKNOWN: Final = "unknown"
_WHO: Final = (
    ("minute", INSTANT),
    ("cluster", pa.string()),
    ("listener", pa.string()),
    ("client_software_name", pa.string()),
    ("client_software_version", pa.string()),
    ("client_id", pa.string()),
    ("folded", pa.bool_()),
    ("api", pa.string()),
    ("api_key", pa.int16()),
    ("api_version", pa.int16()),
)
_FINDING_COLUMNS: Final = (
    *((name, INSTANT) for name in ("captured_at", "first_captured_at", "last_captured_at")),
    *((name, pa.string()) for name in ("id", "rule", "kip", "section", "level", "role", "spec", "message")),
    *((name, pa.string()) for name in ("expected", "observed", "cluster", "connection", "client", "broker")),
    *((name, pa.string()) for name in ("listener", "client_id", "client_software_name")),
    *((name, pa.string()) for name in ("client_software_version", "client_instance_id")),
    *((name, pa.string()) for name in ("member_id", "group_id", "api")),
    ("api_key", pa.int32()),
    ("api_version", pa.int32()),
    ("correlation_id", pa.int64()),
    ("sequence", pa.int64()),
    ("occurrences", pa.int64()),
    ("suppressed", pa.bool_()),
    ("context", pa.string()),
    ("evidence", pa.string()),
    ("runbook", pa.string()),
)
_TIMES: Final = ("captured_at", "first_captured_at", "last_captured_at")


@dataclass(slots=True)
class _Sums:
    """What a row of usage adds up."""

    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    connections: int = 0


def _who(use: Use, names: Mapping[int, str]) -> Values:
    return {
        "minute": EPOCH + timedelta(minutes=use.minute),
        "cluster": use.cluster,
        "listener": use.listener,
        "client_software_name": use.software_name,
        "client_software_version": use.software_version,
        "client_id": use.client_id,
        "folded": use.folded,
        "api": names.get(use.api_key, UNKNOWN),
        "api_key": use.api_key,
        "api_version": use.api_version,
    }


def _usage(batch: Batch) -> Iterator[Values]:
    uses: defaultdict[Use, defaultdict[int, _Sums]] = defaultdict(lambda: defaultdict(_Sums))
    for report in batch.reports:
        for usage in report.usage:
            # A use is long to hash, and a batch has it from each bucket.
            sums = uses[usage.use]
            for version, count in usage.requests.items():
                found = sums[version]
                found.requests += count
                found.request_bytes += usage.request_bytes.get(version, 0)
                found.connections += usage.connections.get(version, 0)
            if usage.response_bytes:
                sums[_only_version(usage)].response_bytes += usage.response_bytes
    for use, sums in uses.items():
        for version, found in sums.items():
            known = None if version == UNCERTAIN else version
            yield {**_who(use, batch.api_names), "header_version": known, **asdict(found)}


def _only_version(usage: Usage) -> int:
    """Return the header version of requests that responses belong to, if there is one such version."""
    return next(iter(usage.requests)) if len(usage.requests) == 1 else UNCERTAIN


def _errors(batch: Batch) -> Iterator[Values]:
    responses: Counter[tuple[Use, int]] = Counter()
    for report in batch.reports:
        for usage in report.usage:
            for code, count in usage.errors.items():
                responses[usage.use, code] += count
    for (use, code), count in responses.items():
        yield {**_who(use, batch.api_names), "error_code": code, "responses": count}


def _findings(batch: Batch) -> Iterator[Values]:
    return map(_finding, batch.findings)


def _finding(finding: Finding) -> Values:
    values = {name: getattr(finding, name) for name, _ in _FINDING_COLUMNS}
    values.update({name: instant(values[name]) for name in _TIMES})
    values["suppressed"] = bool(finding.suppressed)
    for name in ("context", "evidence"):
        values[name] = msgspec.json.encode(values[name]).decode()
    return values


def _coverage(batch: Batch) -> Iterator[Values]:
    for rule, verdicts in checks_of(batch.reports).items():
        for verdict, count in verdicts.items():
            yield {"captured_at": instant(batch.at), "rule": rule, "verdict": verdict, "checks": count}


TABLES: Final = (
    Table(
        "usage",
        schema_of(
            *_WHO,
            ("header_version", pa.int16()),
            ("requests", pa.int64()),
            ("request_bytes", pa.int64()),
            ("response_bytes", pa.int64()),
            ("connections", pa.int64()),
        ),
        "minute",
        _usage,
    ),
    Table(
        "errors",
        schema_of(*_WHO, ("error_code", pa.int16()), ("responses", pa.int64())),
        "minute",
        _errors,
    ),
    Table("findings", schema_of(*_FINDING_COLUMNS), "last_captured_at", _findings),
    Table(
        "coverage",
        schema_of(
            ("captured_at", INSTANT), ("rule", pa.string()), ("verdict", pa.string()), ("checks", pa.int64())
        ),
        "captured_at",
        _coverage,
    ),
    *CHANGE_TABLES,
)
