"""One log of JSON lines, with time, level and event: of our components, of libraries and of the JVM."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from streaming.log import FEEDER_LOG, QUERY_LOG, Level, configure_log


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    configure_log()


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_line_has_its_component_time_level_event_and_fields(lines: Any) -> None:
    before = datetime.now(UTC)
    FEEDER_LOG.warning("shedding", waiting_bytes=7)
    (line,) = lines()
    assert list(line) == ["feeder", "time", "level", "event", "waiting_bytes"]
    assert (line["feeder"], line["event"], line["level"]) == ("shedding", "shedding", "warning")
    assert abs(datetime.fromisoformat(line["time"]) - before).total_seconds() < 5
    assert line["waiting_bytes"] == 7


@pytest.mark.parametrize(
    ("level", "logged"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_a_level_hides_what_is_less_grave(level: Level, logged: list[str], lines: Any) -> None:
    configure_log(level)
    for name in ("debug", "info", "warning", "error"):
        getattr(QUERY_LOG, name)("told")
    assert [line["level"] for line in lines()] == logged


def test_libraries_are_not_debugged(lines: Any) -> None:
    configure_log("debug")
    logging.getLogger("numba.core").debug("bytecode")
    assert lines() == []


def test_libraries_write_the_same_lines(lines: Any) -> None:
    """With their exceptions, and in one line whatever the text contains."""
    try:
        raise ValueError("of two\nlines")
    except ValueError:
        logging.getLogger("library").exception("it %s", "failed")
    (failed,) = lines()
    assert (failed["logger"], failed["event"], failed["level"]) == ("library", "it failed", "error")
    assert failed["exception"].endswith("ValueError: of two\nlines")


def test_calls_to_a_jvm_that_is_gone_are_not_logged_and_all_other_errors_are(lines: Any) -> None:
    logging.getLogger("py4j.clientserver").error("Error while sending or receiving.")
    logging.getLogger("py4j").info("Closing down clientserver connection")
    # py4j uses the root logger, too.
    of_root = ("Exception while sending command.", (), None)
    logging.getLogger().handle(
        logging.LogRecord("root", logging.ERROR, "/lib/py4j/java_gateway.py", 1, *of_root)
    )
    logging.getLogger("other").error("seen")
    assert [line["event"] for line in lines()] == ["seen"]


def test_a_log_that_cannot_be_written_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, text: str) -> None:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Closed())
    FEEDER_LOG.info("ready")
