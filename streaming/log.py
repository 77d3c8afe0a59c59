"""The log of feeder, query, Kafka clients and the JVM: stdlib logging as JSON lines on standard output.

A line has `time`, `level` and `event`. The first key of a line of kipwatch's own is the component, whose
value repeats the event, as in `{"feeder": "ready", …}`. A line of a library has its `logger` instead.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Final, Literal, TextIO

Level = Literal["debug", "info", "warning", "error"]

_OURS: Final = "kipwatch."
_FIELDS: Final = "kipwatch_fields"


class EventLog:
    """The log of one component. An event has a name, a few words with hyphens, and fields."""

    def __init__(self, component: str) -> None:
        self.logger = logging.getLogger(_OURS + component)

    def debug(self, event: str, **fields: object) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._log(logging.ERROR, event, fields)

    def _log(self, level: int, event: str, fields: dict[str, object]) -> None:
        self.logger.log(level, event, extra={_FIELDS: fields})


FEEDER_LOG: Final = EventLog("feeder")
QUERY_LOG: Final = EventLog("query")
JVM_LOG: Final = EventLog("jvm")
KAFKA_LOG: Final = EventLog("kafka")


def configure_log(level: Level = "info") -> None:
    """Write records of `level` and above as JSON lines."""
    handler = _StandardOutput()
    handler.setFormatter(_JsonLines())
    handler.addFilter(_is_not_of_py4j)
    # At debug, libraries stay at info: numba would log every instruction that it compiles.
    logging.basicConfig(level="INFO" if level == "debug" else level.upper(), handlers=[handler], force=True)
    logging.getLogger(_OURS.rstrip(".")).setLevel(level.upper())
    # It tells what it skips while it is loaded.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    logging.captureWarnings(True)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Drop records of py4j, some of which come through the root logger.

    It logs each call to a JVM that is gone, for which the query has an event of its own.
    """
    return "py4j" not in (*PurePath(record.pathname).parts, record.name.partition(".")[0])


class _StandardOutput(logging.StreamHandler[TextIO]):
    """Writes to the present `sys.stdout`. A line that cannot be written is dropped and stops nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stdout
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (named so in the base class)
        """Ignore the error."""


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        ours, event = record.name.startswith(_OURS), record.getMessage()
        line = {record.name.removeprefix(_OURS): event} if ours else {"logger": record.name}
        line["time"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line["level"], line["event"] = record.levelname.lower(), event
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line | getattr(record, _FIELDS, {}), default=str)
