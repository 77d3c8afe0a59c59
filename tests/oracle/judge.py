"""Kafka's own message classes, as the reference: the Java program of this folder, compiled and run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from streaming.broker.jars import OLDEST, java

SOURCES = sorted((Path(__file__).parent / "java").glob("*.java"))
SECONDS = 240


class Pair(NamedTuple):
    """A message, by the name of its schema (`MetadataRequest`, `RequestHeader`), at a version."""

    message: str
    version: int


@dataclass(frozen=True, slots=True)
class KafkaVerdict:
    """Kafka's result for the bytes of a message.

    `json` is what its JsonConverter prints, None where the bytes are refused, for the `reason` given.
    `read` is how many bytes were read and `written` what Kafka writes for what it read. `agreed` says
    that the schemas of `ApiMessageType`, Kafka's second decoder, read the same from `written`.
    """

    read: int
    written: bytes
    agreed: bool
    json: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class JudgedMessage:
    """A message whose bytes Kafka has judged."""

    pair: Pair
    data: bytes
    verdict: KafkaVerdict


class Oracle:
    """The Java program, compiled once; each question starts it anew and ends with it."""

    def __init__(self, classpath: Iterable[Path], classes: Path) -> None:
        """Compile the program into the existing folder `classes`."""
        jars = ":".join(map(str, classpath))
        options: list[str | Path] = ["--release", str(OLDEST), "-d", classes, "-cp", jars]
        subprocess.run([_compiler(), *options, *SOURCES], check=True, timeout=SECONDS)
        self._command = [str(java()), "-cp", f"{classes}:{jars}", "Oracle"]

    def pairs(self) -> dict[Pair, int]:
        """Return the header version of every request and response at every version, -1 for a header."""
        rows = (line.split("\t") for line in self._run("list"))
        return {Pair(message, int(version)): int(header) for message, version, header in rows}

    def make(self, pairs: Iterable[Pair], seed: int, count: int) -> Iterator[JudgedMessage]:
        """Let Kafka make `count` random messages of each pair, most of their fields not at the default."""
        asked = [f"{pair.message}\t{pair.version}" for pair in pairs]
        for line in self._run("make", str(seed), str(count), asked=asked):
            message, version, data, verdict = line.split("\t", 3)
            yield JudgedMessage(Pair(message, int(version)), bytes.fromhex(data), _verdict(verdict))

    def judge(self, messages: Iterable[tuple[Pair, bytes]]) -> Iterator[JudgedMessage]:
        """Let Kafka judge the bytes of messages."""
        questions = list(messages)
        asked = [f"{pair.message}\t{pair.version}\t{data.hex()}" for pair, data in questions]
        for (pair, data), line in zip(questions, self._run("judge", asked=asked), strict=True):
            yield JudgedMessage(pair, data, _verdict(line))

    def closed_upon(self, seed: int, count: int) -> set[int]:
        """Return the APIs of which a broker closes upon one of `count` random bodies that it can read."""
        return {int(line) for line in self._run("close", str(seed), str(count)) if line}

    def _run(self, *arguments: str, asked: Iterable[str] = ()) -> list[str]:
        ran = subprocess.run(
            [*self._command, *arguments],
            input="".join(f"{line}\n" for line in asked).encode(),
            stdout=subprocess.PIPE,
            timeout=SECONDS,
            check=True,
        )
        # Not splitlines: text in JSON may hold what Unicode takes for the end of a line.
        return ran.stdout.decode().removesuffix("\n").split("\n")


def _compiler() -> str:
    """Find the compiler beside the Java that is used, or else on PATH: `make packages` installs one."""
    found = shutil.which("javac", path=f"{java().parent}:{os.environ['PATH']}")
    assert found, "no javac: install a JDK"
    return found


def _verdict(line: str) -> KafkaVerdict:
    read, written, agreed, printed, reason = line.split("\t")
    return KafkaVerdict(int(read), bytes.fromhex(written), agreed == "true", printed or None, reason)
