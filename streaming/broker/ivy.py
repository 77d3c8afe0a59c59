"""Runs Ivy, which pyspark ships, to fetch the jars that the files in `pins` pin.

Ivy needs nothing but Java, so a machine without Maven can resolve the jars too.
"""

import importlib.util
import io
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from streaming.broker import child_guard
from streaming.broker.java import java
from streaming.user_error import UserError

PINS = Path(__file__).resolve().with_name("pins") / "ivy.xml"
S3_PINS = PINS.with_name("s3.xml")
_SETTINGS = PINS.with_name("ivysettings.xml")

# How the lines begin in which Ivy says why it failed, the most specific first.
_ERRORS = ("Server access error", "Host ", "module not found:", "[FAILED", "Exception in thread")


def retrieve(pins: Path, target: Path, report: Callable[[str], None]) -> None:
    """Fetch what a file pins into `target/<configuration>/`; `report` gets one line for each step of Ivy.

    `target` is created; Ivy's own cache remains in `target/ivy/`. Raises `UserError` if a jar is missing.
    """
    process = child_guard.start(_command(pins, target), subprocess.PIPE)
    try:
        assert process.stdout is not None
        output = _follow(io.TextIOWrapper(process.stdout, errors="replace"), report)
    finally:
        status = child_guard.stop(process)
    if status != 0:
        raise UserError(f"cannot fetch the pinned jars: {error_in(output)}; check the network and try again")


def _command(pins: Path, target: Path) -> list[str | Path]:
    pattern = f"{target}/[conf]/[artifact]-[revision](-[classifier]).[ext]"
    ivy: list[str | Path] = [java(), "-jar", _ivy_jar(), "-settings", _SETTINGS, "-ivy", pins]
    return [*ivy, "-cache", target / "ivy", "-types", "jar", "bundle", "-retrieve", pattern]


def _ivy_jar() -> Path:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise UserError("the jars are fetched by Ivy, which pyspark ships: pip install 'kipwatch[run]'")
    found = sorted((Path(spark.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise UserError("pyspark is installed without its Ivy jar: run `make setup`")
    return found[-1]


def _follow(lines: Iterable[str], report: Callable[[str], None]) -> list[str]:
    """Report the progress of Ivy while it runs; return its output."""
    output, counts = [], {"found": 0, "fetched": 0}
    for line in lines:
        output.append(line.strip())
        step = progress(line)
        if step:
            verb, name = step
            counts[verb] += 1
            report(f"jars: {counts[verb]} {verb}, {name}")
    return output


def progress(line: str) -> tuple[str, str] | None:
    """Read one line of Ivy: "found" or "fetched", and the artifact; None if the line is neither."""
    words = line.split()
    if len(words) > 1 and words[0] == "found":
        return "found", _artifact(words[1])
    if len(words) > 2 and words[0] == "[SUCCESSFUL":
        return "fetched", _artifact(words[2].partition("!")[0])
    return None


def _artifact(module: str) -> str:
    """Return `kafka-clients 4.4.0` for Ivy's `org.apache.kafka#kafka-clients;4.4.0`."""
    return module.partition("#")[2].replace(";", " ")


def error_in(output: list[str]) -> str:
    """Return the line of Ivy's output that best explains why it failed."""
    for beginning in _ERRORS:
        for line in output:
            if line.startswith(beginning):
                return line
    return next((line for line in reversed(output) if line), "Ivy printed nothing")
