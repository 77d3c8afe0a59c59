"""Finds the Java for the broker, Spark and Ivy, and fetches the pinned jars once, verified and cached.

The jars are those of broker, Kafka connector and object stores. The files in `pins` pin versions. Ivy, which
pyspark ships, fetches the jars; it needs nothing but Java, so no Maven. Each jar must have the SHA-256 that
is recorded beside its pins: next to `ivy.xml` lies `ivy.sha256`, as `sha256sum` writes it. `<user
cache>/kipwatch/jars/<digest of the pins>/` then holds a folder for each Ivy configuration. It is renamed into
place when it is complete, so an interrupted resolve leaves no partial folder. Each process compares the jars
that it uses with their digests again. The jars of object stores have pins of their own: they are large, and
only a checkpoint in an object store needs them.

`python -m streaming.broker.jars FILE.xml` fetches what a file pins and records the digests.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from streaming.broker import child_guard
from streaming.user_error import UserError

# The oldest Java that Spark 4.2 and Kafka 4.4 brokers support.
OLDEST = 17

# `openjdk version "17.0.15" 2025-04-15`; before Java 9 it read `java version "1.8.0_412"`.
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

PINS = Path(__file__).resolve().with_name("pins") / "ivy.xml"
S3_PINS = PINS.with_name("s3.xml")
_SETTINGS = PINS.with_name("ivysettings.xml")

# The beginnings of the lines in which Ivy tells why it failed, the most specific first.
_ERRORS = ("Server access error", "Host ", "module not found:", "[FAILED", "Exception in thread")
IvyConfiguration = Literal["broker", "connector", "s3"]


def jars(configuration: IvyConfiguration, report: Callable[[str], None] | None = None) -> list[Path]:
    """Return the jars of an Ivy configuration. Resolves all of its pins first if the cache lacks a jar.

    A cold resolve takes a minute; `report` gets its progress line by line. Raises `UserError`.
    """
    pins = S3_PINS if configuration == "s3" else PINS
    home = _cache() / _digest(pins)
    try:
        if not complete(home, pins):
            _fill(home, pins, report or _ignore)
        _refuse_changed(home, pins)
    except OSError as error:
        remedy = "set XDG_CACHE_HOME to a folder that you can write to"
        raise UserError(f"cannot keep jars in {home}: {error.strerror}; {remedy}") from error
    return [home / name for name in _recorded(pins) if name.startswith(f"{configuration}/")]


def complete(home: Path, pins: Path) -> bool:
    """Whether a cache folder holds every recorded jar. One that is missing was deleted later."""
    return all((home / name).is_file() for name in _recorded(pins))


def _cache() -> Path:
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise UserError(
            "this user has no home to keep jars in; name a folder in the environment: XDG_CACHE_HOME"
        ) from None
    return base / "kipwatch" / "jars"


def _digest(pins: Path) -> str:
    return hashlib.sha256(pins.read_bytes()).hexdigest()[:16]


def _fill(home: Path, pins: Path, report: Callable[[str], None]) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with _locked(home.with_suffix(".lock"), report):
        if complete(home, pins):  # filled by another process
            return
        partial = home.with_suffix(".partial")
        _remove(partial)  # left by a process that was killed
        try:
            retrieve(pins, partial, report)
            _remove(partial / "ivy")
            verify(partial, pins)
            _remove(home)
            partial.rename(home)
        finally:
            _remove(partial)


@functools.cache
def _refuse_changed(home: Path, pins: Path) -> None:
    """Raise UserError if a cached jar differs from the fetched one: others may be able to write there."""
    recorded, found = _recorded(pins), _digests(home)
    for name in sorted(recorded.keys() | found.keys()):
        if recorded.get(name) != found.get(name):
            raise UserError(f"{home / name} is not the recorded jar; remove {home} to fetch all again")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


@contextmanager
def _locked(lock: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock between processes. The kernel releases it when its holder ends."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("jars: another process is fetching them, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ignore(line: str) -> None:
    """Report nothing."""


def retrieve(pins: Path, target: Path, report: Callable[[str], None]) -> None:
    """Fetch what a file pins into `target/<configuration>/`. `report` gets one line for each step of Ivy.

    Creates `target` and leaves Ivy's own cache in `target/ivy/`. Raises `UserError` if a jar is missing.
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
    """Report the progress of Ivy while it runs. Returns its output."""
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
    """Read a line of Ivy: "found" or "fetched" and the artifact, None for other lines."""
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


def verify(home: Path, pins: Path) -> None:
    """Compare all jars of a folder with the digests beside the pins.

    Raises `UserError` if a jar differs, is missing, or is not recorded.
    """
    recorded, fetched = _recorded(pins), _digests(home)
    for name in sorted(recorded.keys() | fetched.keys()):
        if name not in fetched:
            raise UserError(f"{name} was not fetched although {_recording(pins).name} records it; try again")
        if name not in recorded:
            raise UserError(
                f"{name} is not recorded in {_recording(pins).name}: no jar of it is used; {_remedy(pins)}"
            )
        if recorded[name] != fetched[name]:
            raise UserError(
                f"{name} is not the recorded jar: its SHA-256 is {fetched[name]},"
                f" recorded is {recorded[name]}; no jar is used; ask who runs your repository or proxy"
            )


def record(pins: Path, home: Path) -> int:
    """Write the digests of a folder's jars beside the pins. Returns how many there are."""
    digests = _digests(home)
    _recording(pins).write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    return len(digests)


def _recording(pins: Path) -> Path:
    return pins.with_suffix(".sha256")


def _remedy(pins: Path) -> str:
    return f"record it: .venv/bin/python -m streaming.broker.jars {pins}"


def _recorded(pins: Path) -> dict[str, str]:
    try:
        lines = _recording(pins).read_text().splitlines()
    except FileNotFoundError as error:
        raise UserError(
            f"{_recording(pins)} is missing, so no jar can be verified; {_remedy(pins)}"
        ) from error
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _digests(home: Path) -> dict[str, str]:
    """Return the digest of each jar by its path below the folder, in order of paths."""
    return {str(jar.relative_to(home)): _sha256(jar) for jar in sorted(home.glob("*/*.jar"))}


def _sha256(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> int:
    """Fetch what each named file pins, and record its digests."""
    try:
        for pins in map(Path, sys.argv[1:]):
            with tempfile.TemporaryDirectory() as folder:
                home = Path(folder) / "jars"
                retrieve(pins, home, partial(print, flush=True))
                print(f"{record(pins, home)} digests in {_recording(pins)}")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def java() -> Path:
    """Return a `java` of version 17 or newer: that of JAVA_HOME, or else the first on PATH.

    Raises `UserError` if there is none.
    """
    seen = []
    for command in _candidates():
        version = _version(command)
        if version is not None and version >= OLDEST:
            return command
        seen.append(f"{command} is {'not a Java' if version is None else f'Java {version}'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    remedy = f"install openjdk-{OLDEST}-jre-headless or newer, or set JAVA_HOME"
    raise UserError(f"no Java {OLDEST}+ in JAVA_HOME or on PATH{found}: {remedy}")


def _candidates() -> list[Path]:
    home = os.environ.get("JAVA_HOME")
    of_home = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    return of_home + ([Path(on_path)] if on_path else [])


def _version(command: Path) -> int | None:
    """Return the major version of a command, None if it is no working Java."""
    try:
        report = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    return version_in(report)


def version_in(report: str) -> int | None:
    """Return the major version in the output of `java -version`, None if there is none."""
    match = _VERSION.search(report)
    return int(match[1]) if match else None


if __name__ == "__main__":
    sys.exit(main())
