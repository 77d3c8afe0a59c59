"""Runs Ivy, which pyspark ships, to fetch the jars that `deploy/jars/ivy.xml` pins.

Ivy needs nothing but Java, so a machine without Maven can resolve the jars too.
"""

import io
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pyspark

from streaming.broker import child_guard
from streaming.broker.java import java
from streaming.user_error import UserError

PINS = Path(__file__).resolve().parents[2] / "deploy" / "jars" / "ivy.xml"
_SETTINGS = PINS.with_name("ivysettings.xml")

# How Ivy begins the lines that tell why it failed, the most telling first.
_TROUBLES = ("Server access error", "Host ", "module not found:", "[FAILED", "Exception in thread")


def retrieve(target: Path, say: Callable[[str], None]) -> None:
    """Fetch every pinned jar into `target/<configuration>/`, one line of progress for each step of Ivy.

    `target` is created; what Ivy downloads on the way stays beneath it in `ivy/`. Raises `UserError`.
    """
    process = child_guard.start(_command(target), subprocess.PIPE)
    try:
        assert process.stdout is not None
        output = _follow(io.TextIOWrapper(process.stdout, errors="replace"), say)
    finally:
        status = child_guard.let_go(process)
    if status != 0:
        raise UserError(f"cannot fetch the pinned jars: {trouble(output)}; check the network, then try again")


def _command(target: Path) -> list[str | Path]:
    pattern = f"{target}/[conf]/[artifact]-[revision](-[classifier]).[ext]"
    ivy: list[str | Path] = [java(), "-jar", _ivy_jar(), "-settings", _SETTINGS, "-ivy", PINS]
    return [*ivy, "-cache", target / "ivy", "-types", "jar", "bundle", "-retrieve", pattern]


def _ivy_jar() -> Path:
    found = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise UserError("pyspark is installed without its Ivy jar: run `make setup`")
    return found[-1]


def _follow(lines: Iterable[str], say: Callable[[str], None]) -> list[str]:
    """Tell the progress of Ivy while it runs; return its output."""
    output, counts = [], {"found": 0, "fetched": 0}
    for line in lines:
        output.append(line.strip())
        step = progress(line)
        if step:
            verb, name = step
            counts[verb] += 1
            say(f"jars: {counts[verb]} {verb}, {name}")
    return output


def progress(line: str) -> tuple[str, str] | None:
    """Read one line of Ivy: what was ("found" or "fetched") and which artifact, or None."""
    words = line.split()
    if len(words) > 1 and words[0] == "found":
        return "found", _artifact(words[1])
    if len(words) > 2 and words[0] == "[SUCCESSFUL":
        return "fetched", _artifact(words[2].partition("!")[0])
    return None


def _artifact(module: str) -> str:
    """Return `kafka-clients 4.4.0` for Ivy's `org.apache.kafka#kafka-clients;4.4.0`."""
    return module.partition("#")[2].replace(";", " ")


def trouble(output: list[str]) -> str:
    """Return the line of Ivy's output that best tells why it failed."""
    for beginning in _TROUBLES:
        for line in output:
            if line.startswith(beginning):
                return line
    return next((line for line in reversed(output) if line), "Ivy said nothing")
