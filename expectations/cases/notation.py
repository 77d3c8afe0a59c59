"""The notation of the cases: pages of prose with exchanges, written as records, and their expected results.

`tests/cases/README.md` describes it. Reading is strict: a line that is not understood is an error that names
it. An exchange between a client and a broker is written as the feeder would write its records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec
from ruamel.yaml import YAML

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.record import Closing, Direction, Endpoint, Flag, Kind, Pairing, Record
from decoders.protocol import API_VERSIONS
from decoders.schema.header_versions import Layout
from decoders.schema.registry import default_schemas
from expectations.conversation.texts import RESERVED_UUIDS, identifier_text
from expectations.judging.finding import Finding
from expectations.report.coverage import Coverage
from expectations.rules.base.rule import Rule, Verdict
from expectations.rules.catalogue import read_choices, rules_read_as

SECOND = 1_000_000_000
ID_A, ID_B = bytes(range(16)), bytes(range(16, 32))
ZERO_ID, ONE_ID = RESERVED_UUIDS
SOFTWARE = {"clientSoftwareName": "tester", "clientSoftwareVersion": "1.0"}
ADVERTISED = {18: (0, 6), 3: (0, 14), 10: (0, 7), 68: (0, 2), 0: (3, 14)}


@dataclass
class WrittenExchange:
    """Records of one connection. Each call adds one; `at` is the capture time in nanoseconds.

    Connections that share their `records` are those of one capture.
    """

    mid_stream: bool = False
    records: list[Record] = field(default_factory=list)
    at: int = 1_000 * SECOND
    correlation_id: int = 0
    connection: bytes = b"c" * 16
    client: str = "10.0.0.1:40000"
    server: str = "10.0.0.2:9092"

    def __post_init__(self) -> None:
        self._add(Kind.OPENED, flags=Flag.MID_STREAM if self.mid_stream else Flag.NONE)

    def request(
        self,
        api: str,
        version: int,
        body: dict[str, Any] | None = None,
        *,
        client_id: str | None = None,
        instance_id: bytes | None = None,
        settled: bool = False,
        informed: bool = False,
        layout: Layout | None = None,
        frame: bytes | None = None,
    ) -> Record:
        """Add a request, or the bytes of one."""
        self.correlation_id += 1
        schemas = default_schemas()
        known = schemas.api_named(api)
        on_header_v3 = known is not None and known.request_header_version(version) == 3
        given = (instance_id or ZERO_ID) if on_header_v3 else None
        if frame is None:
            frame = write_request(
                schemas, api, version, self.correlation_id, client_id, body or {}, given, layout
            )
        flags = Flag(Flag.SETTLED * settled | Flag.INFORMED * informed)
        return self._add(Kind.REQUEST, frame=frame, flags=flags, direction=Direction.TO_BROKER)

    def respond(
        self,
        request: Record,
        body: dict[str, Any] | None = None,
        *,
        version: int | None = None,
        frame: bytes | None = None,
    ) -> Record:
        """Add the response to a request, or its bytes; `version` is that of the body if it differs."""
        key, asked = (int.from_bytes(request.frame[at : at + 2]) for at in (0, 2))
        correlation_id = int.from_bytes(request.frame[4:8])
        written = asked if version is None else version
        if frame is None:
            frame = write_response(default_schemas(), key, written, correlation_id, body or {})
        return self._add(
            Kind.RESPONSE,
            frame=frame,
            direction=Direction.TO_CLIENT,
            pairing=Pairing.MATCHED,
            paired_sequence=request.sequence,
            paired_api_key=key,
            paired_api_version=asked,
        )

    def stray(self, pairing: Pairing, frame: bytes = bytes(4), *, api_key: int = -1) -> Record:
        """Add a response that is not paired with a request; `api_key` is what its bytes show."""
        paired = {"pairing": pairing, "paired_api_key": api_key}
        return self._add(Kind.RESPONSE, frame=frame, direction=Direction.TO_CLIENT, **paired)

    def negotiate(self, version: int = 4, **how: Any) -> None:
        """Ask for the versions and be told ADVERTISED."""
        request = self.request("ApiVersions", version, SOFTWARE, **how)
        self.respond(request, advertisement())

    def gap(self, direction: Direction = Direction.TO_BROKER, size: int = 100) -> None:
        """Lose bytes."""
        self._add(Kind.GAP, direction=direction, true_length=size)

    def invalid_size(self, size: int, direction: Direction = Direction.TO_BROKER) -> None:
        """Add a length that no frame has."""
        self._add(Kind.INVALID_SIZE, direction=direction, true_length=size)

    def not_kafka(self, beginning: bytes, *, named_port: bool = False, responded: bool = False) -> None:
        """Begin with four bytes that are no request, before the end is added."""
        flags = Flag.NAMED_PORT if named_port else Flag.NONE
        flags |= Flag.RESPONDED if responded else Flag.NONE
        self._add(Kind.NOT_KAFKA, frame=beginning, flags=flags, direction=Direction.TO_BROKER)

    def close(self, closing: Closing = Closing.FIN, first: Direction = Direction.TO_BROKER) -> None:
        """End the connection, or give it up; `first` is the direction of the first FIN or RST."""
        self._add(Kind.CLOSED, closing=closing, direction=first)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.at += int(seconds * SECOND)

    def cut_last(self, kept: int) -> None:
        """Keep only the first bytes of the last frame."""
        last = self.records[-1]
        self.records[-1] = msgspec.structs.replace(last, frame=last.frame[:kept])

    def _add(self, kind: Kind, **what: Any) -> Record:
        self.at += 1_000_000
        frame = what.get("frame", b"")
        what.setdefault("true_length", len(frame))
        record = Record(
            kind=kind,
            connection=self.connection,
            run=1,
            sequence=len(self.records) + 1,
            captured_at=self.at,
            client=Endpoint(self.client),
            server=Endpoint(self.server),
            position=1_000 * (len(self.records) + 1),
            **what,
        )
        self.records.append(record)
        return record


def advertisement(error_code: int = 0) -> dict[str, Any]:
    """The body of an ApiVersions response."""
    ranges = [
        {"apiKey": key, "minVersion": lowest, "maxVersion": highest}
        for key, (lowest, highest) in ADVERTISED.items()
    ]
    return {"errorCode": error_code, "apiKeys": ranges if error_code == 0 else []}


AnyExchange = TypeVar("AnyExchange", bound=WrittenExchange)
INSTANCE_IDS = {"A": ID_A, "B": ID_B, "zero": ZERO_ID, "one": ONE_ID} | {
    name: name.encode() * 16 for name in "CDEF"
}
DIRECTIONS = {"broker": Direction.TO_BROKER, "client": Direction.TO_CLIENT}
PAIRINGS = {pairing.name.lower(): pairing for pairing in (Pairing.FOREIGN, Pairing.UNOWED, Pairing.UNKNOWN)}
BEGINNINGS = {
    "HTTP": b"GET ",
    "TLS": bytes.fromhex("16030100"),
    "PROXY": b"PROX",
    "SSH": b"SSH-",
    "noise": bytes.fromhex("8f3a771c"),
    "length": bytes.fromhex("ffffffff"),
}
"""The first four bytes of what is not Kafka; a length is that of a broken encoder."""

_CASE = re.compile(r"^## (.+?)$(.*?)^```exchange$(.*?)^```$(.*?)^```expected$(.*?)^```$", re.M | re.S)
_YAML: Final = YAML(typ="safe")
_MESSAGE = re.compile(r"(client >|broker <) (\w+)((?: [^\s{]+)*)(?: (\{.*\}))?")


@dataclass(frozen=True)
class Case:
    """One exchange and its expected result: the verdicts of the page's rule, and all findings."""

    rule: str
    title: str
    script: list[str]
    verdicts: str
    findings: list[str]

    def played(self, new: Callable[..., AnyExchange]) -> tuple[AnyExchange, Sequence[Rule]]:
        """Write the exchange's records. `new` makes the exchange of a connection.

        Returns the last one and the rules in their readings.
        """
        player = Player(new)
        for line in self.script:
            player.play(line)
        return player.exchange, rules_read_as(read_choices(player.choices))


def read_page(path: Path, family: str) -> list[Case]:
    """Read all cases of a page. Its name is the rule's in the family, as that of the rule's file is.

    Raises ValueError if a case lacks a part.
    """
    text = path.read_text()
    found = [*_CASE.finditer(text)]
    if len(found) != len(re.findall(r"^## ", text, re.M)):
        raise ValueError(f"{path}: every heading needs an exchange and what is expected of it")
    rule = f"{family}/{path.stem.replace('_', '-')}"
    return [_case(rule, *match.group(1, 3, 5)) for match in found]


def _case(rule: str, title: str, script: str, expected: str) -> Case:
    verdicts, *findings = [_with_identifiers(line) for line in expected.strip().splitlines()]
    return Case(rule, title, script.strip().splitlines(), verdicts, sorted(findings))


def _with_identifiers(text: str) -> str:
    """Replace `<A>`, `<B>`, `<zero>` and `<one>` by identifiers."""
    return re.sub(r"<(\w+)>", lambda name: identifier_text(INSTANCE_IDS[name[1]]), text)


def verdicts_in_words(row: Coverage) -> str:
    """Return the verdicts of a rule as pages write them: `violates 2, undecided 3 (cut)` or `nothing`."""
    said = [f"{verdict} {getattr(row, verdict)}" for verdict in Verdict if getattr(row, verdict)]
    if len(row.reasons) == 1:
        said[-1] += f" ({next(iter(row.reasons))})"
    elif row.reasons:
        said[-1] += f" ({', '.join(f'{reason} {count}' for reason, count in row.reasons.items())})"
    return ", ".join(said) or "nothing"


def finding_in_words(finding: Finding) -> str:
    """Return a finding as pages write it."""
    times = f" x{finding.occurrences}" if finding.occurrences > 1 else ""
    return f"{finding.level} {finding.rule}{times}: {finding.message}"


class Player(Generic[AnyExchange]):
    """Plays the lines of a script. `new` makes the exchange of each connection."""

    def __init__(self, new: Callable[..., AnyExchange]) -> None:
        self.choices: list[str] = []
        self._new = new
        self._exchanges: dict[str, AnyExchange] = {}
        self._current = ""
        self._in_flight: dict[tuple[str, str], list[Record]] = {}
        self._mid_stream = False

    @property
    def exchange(self) -> AnyExchange:
        """The exchange on the current connection, which opens with its first line."""
        if self._current not in self._exchanges:
            self._exchanges[self._current] = self._new(mid_stream=self._mid_stream)
        return self._exchanges[self._current]

    def play(self, line: str) -> None:
        """Play one line. Raises ValueError if it is no line of the notation."""
        message = _MESSAGE.fullmatch(line)
        if message:
            words = _words(message[3])
            body = _YAML.load(_with_identifiers(message[4])) if message[4] else {}
            speak = self._request if message[1] == "client >" else self._respond
            speak(message[2], words, body)
        elif not any(self._event(pattern, act, line) for pattern, act in self._events()):
            raise ValueError(f"not a line of the notation: {line}")

    def _event(self, pattern: str, act: Callable[[re.Match[str]], object], line: str) -> bool:
        match = re.fullmatch(pattern, line)
        if match:
            act(match)
        return bool(match)

    def _events(self) -> Iterator[tuple[str, Callable[[re.Match[str]], object]]]:
        yield r"spec (\S+)", lambda match: self.choices.append(match[1])
        yield r"joined mid-stream", lambda _: setattr(self, "_mid_stream", True)
        yield r"connection (\w+)(?: from (\S+))?(?: to (\S+))?( joined mid-stream)?", self._connect
        yield r"wait ([\d.]+) s", lambda match: self.exchange.wait(float(match[1]))
        yield r"gap to (broker|client)", lambda match: self.exchange.gap(DIRECTIONS[match[1]])
        yield r"size (\d+) to (broker|client)", self._size
        yield r"not kafka (\w+)(?: to a (named) port)?(, responded)?", self._not_kafka
        yield r"close (fin|rst) by (client|broker)", self._close
        yield r"(evicted|idle|replaced)", lambda match: self.exchange.close(Closing[match[1].upper()])

    def _connect(self, match: re.Match[str]) -> None:
        """Switch to the connection of a name, which opens if it is new."""
        before, name = self.exchange, match[1]
        self._current = name
        if name not in self._exchanges:
            self._exchanges[name] = self._new(
                mid_stream=self._mid_stream or bool(match[4]),
                records=before.records,
                connection=name.encode().ljust(16, b"\0"),
                client=match[2] or before.client,
                server=match[3] or before.server,
                at=before.at,
            )
        self.exchange.at = max(self.exchange.at, before.at)

    def _size(self, match: re.Match[str]) -> None:
        self.exchange.invalid_size(int(match[1]), DIRECTIONS[match[2]])

    def _not_kafka(self, match: re.Match[str]) -> None:
        beginning, named_port, responded = BEGINNINGS[match[1]], bool(match[2]), bool(match[3])
        self.exchange.not_kafka(beginning, named_port=named_port, responded=responded)

    def _close(self, match: re.Match[str]) -> None:
        first = DIRECTIONS["client" if match[2] == "broker" else "broker"]
        self.exchange.close(Closing[match[1].upper()], first)

    def _request(self, api: str, words: dict[str, str], body: dict[str, Any]) -> None:
        version = _version(words)
        if version is None:
            raise ValueError("a request needs its version, such as v3")
        given = words.pop("bytes", None)
        if number := words.pop("correlation", None):
            self.exchange.correlation_id = int(number) - 1
        cut = words.pop("cut", None)
        sent = self.exchange.request(
            api,
            version,
            body,
            client_id=words.pop("client-id", None),
            instance_id=INSTANCE_IDS[words.pop("id", "zero")],
            settled=words.pop("settled", None) is not None,
            informed=words.pop("informed", None) is not None,
            layout=None if words.pop("tagged", None) is None else Layout.TAGGED,
            frame=bytes.fromhex(given) if given else None,
        )
        self._shorten(cut)
        _refuse(words)
        self._in_flight.setdefault((self._current, api), []).append(sent)

    def _respond(self, api: str, words: dict[str, str], body: dict[str, Any]) -> None:
        if pairings := words.keys() & PAIRINGS.keys():
            self._stray(api, pairings.pop(), words, body)
            return
        if words.pop("advertised", None) is not None:
            body = advertisement() | body
        given, cut = words.pop("bytes", None), words.pop("cut", None)
        version = _version(words)
        request = self._in_flight[self._current, api].pop(0)
        frame = bytes.fromhex(given) if given else None
        self.exchange.respond(request, body, version=version, frame=frame)
        self._shorten(cut)
        _refuse(words)

    def _stray(self, api: str, pairing: str, words: dict[str, str], body: dict[str, Any]) -> None:
        del words[pairing]
        _refuse([*words, *(["a body"] if body else [])])
        self.exchange.stray(PAIRINGS[pairing], api_key=API_VERSIONS if api == "ApiVersions" else -1)

    def _shorten(self, kept: str | None) -> None:
        if kept is not None:
            self.exchange.cut_last(int(kept))


def _words(text: str) -> dict[str, str]:
    """Read `v14 id=A settled`: names with values, "" where a word stands alone."""
    return {name: value for name, _, value in (word.partition("=") for word in text.split())}


def _version(words: dict[str, str]) -> int | None:
    """Take the version out of the words, None if they have none."""
    name = next((name for name in words if re.fullmatch(r"v-?\d+", name)), None)
    if name is None:
        return None
    del words[name]
    return int(name[1:])


def _refuse(words: Collection[str]) -> None:
    if words:
        raise ValueError(f"not understood: {', '.join(words)}")
