"""The template of a form: what comes of each opening of it, with gaps for what is the connection's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from expectations.conversation.bodies import Advertisement, SoftwareClaim
from expectations.conversation.in_flight import ApiVersion
from expectations.identity.claim import Claim, Identity
from expectations.judging.judge import ConnectionState
from streaming.judging.changes import Changes
from streaming.judging.gaps import Gaps
from streaming.judging.judged_opening import JudgedOpening
from streaming.judging.opening import AT, FIELDS, FIRST_OBSERVATION, Opening
from streaming.judging.stored_template import PLACES, StoredTemplate
from streaming.judging.tally import OpeningChecks
from streaming.judging.usage import Speaker

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder()


@dataclass(frozen=True, slots=True, eq=False)
class ServerShown:
    """A claim that belongs to a server and to no connection. `at` is the slot of its time."""

    claim: Claim
    at: int

    def claimed(self, cluster: str, server: str, first: tuple[int, bytes], until: int) -> Claim:
        """Return the claim of a server. `first` is when it showed this first, and to which connection."""
        since, witness = first
        return msgspec.structs.replace(
            self.claim,
            identity=Identity(self.claim.identity.kind, cluster, server),
            server=server,
            opened_at=since,
            since=since,
            until=until,
            witness=witness if self.claim.witness else b"",
        )


class OpeningTemplate:
    """What comes of the openings of one form.

    `checks` is what is counted, `advertised` what the server advertised last with the slot of its time.
    `made_at` are the values that follow from others, with their slots.
    `answered` has the slot of the first response's time for each API version. `claims` are the `claim_count`
    claims of the connection, `shown` those of its server. `stored` is None if the connection has ended.
    """

    def __init__(self, judged: JudgedOpening, probe: Opening) -> None:
        values = [*probe.values(), *([None] * len(PLACES))]
        times = range(FIRST_OBSERVATION + AT, FIRST_OBSERVATION + FIELDS * len(probe.said), FIELDS)
        gaps = Gaps(values, times)
        own = [claim for claim in judged.claims if claim.connection]
        self.checks = OpeningChecks(judged.frames, judged.requests, judged.checks)
        self.answered = {version: gaps.slot(at) for version, at in judged.answered.items()}
        self.versions = frozenset(self.answered)
        self.claim_count = len(own)
        self.claims = gaps.gapped(*(_DECODER.decode(_ENCODER.encode(claim)) for claim in own))
        self.shown = [
            ServerShown(each, gaps.slot(each.since)) for each in judged.claims if not each.connection
        ]
        self.stored = None if judged.state is None else StoredTemplate(judged.state, gaps, len(values))
        self._changes = gaps.gapped(_DECODER.decode(_ENCODER.encode(judged.changes)))
        self._software = judged.software
        self.advertised = None
        if judged.advertised is not None:
            self.advertised = judged.advertised[0], gaps.slot(judged.advertised[1])
        self._clients = [None if named is None else gaps.slot(named) for named in judged.named]
        self._made = gaps.made
        self.made_at = tuple(enumerate(gaps.made, start=len(values)))

    def values(self, opening: Opening, places: tuple[int, ...] = (0,) * len(PLACES)) -> list[Any]:
        """Return the values of an opening by slot. `places` are those that the stored connection names."""
        values: list[Any] = [*opening.values(), *places]
        for made in self._made:
            values.append(made.of(values))
        return values

    def first_responses(self, values: list[Any]) -> dict[ApiVersion, int]:
        """Return the time of the first response of each API version."""
        return {version: values[slot] for version, slot in self.answered.items()}

    def shown_by_server(self, values: list[Any]) -> tuple[Advertisement, int] | None:
        """Return what the server of an opening advertised last, and when."""
        return self.advertised and (self.advertised[0], values[self.advertised[1]])

    def changed(self, values: list[Any]) -> Changes:
        """Return the changes of an opening for the archive."""
        return _CHANGES.decode(self._changes.filled(values))

    def speaker(self, observations: int, opening: Opening, values: list[Any]) -> Speaker:
        """Return who speaks after a number of observations."""
        client = self._clients[observations - 1]
        software: SoftwareClaim | None = self._software[observations - 1]
        named = None if client is None else values[client]
        return Speaker(opening.key.cluster, opening.key.server, software, named)

    def fits(self, judged: JudgedOpening, opening: Opening) -> bool:
        """Whether the template gives what came of an opening of its form."""
        values = self.values(opening)
        return (
            self._is_stored_as(judged.state, values)
            and (self.checks.frames, self.checks.requests, self.checks.checks)
            == (judged.frames, judged.requests, judged.checks)
            and self.shown_by_server(values) == judged.advertised
            and self.first_responses(values) == judged.answered
            and self.changed(values) == judged.changes
            and sorted(map(repr, self._claims(opening, values))) == sorted(map(repr, judged.claims))
            and [self.speaker(at + 1, opening, values) for at in range(len(judged.software))]
            == [
                Speaker(opening.key.cluster, opening.key.server, software, named)
                for software, named in zip(judged.software, judged.named, strict=True)
            ]
        )

    def _is_stored_as(self, state: ConnectionState | None, values: list[Any]) -> bool:
        if self.stored is None or state is None:
            return self.stored is None and state is None
        return self.stored.fits(state, values)

    def _claims(self, opening: Opening, values: list[Any]) -> Iterator[Claim]:
        yield from decoded_claims([self.claims.filled(values)], self.claim_count)
        key = opening.key
        for shown in self.shown:
            at = values[shown.at]
            yield shown.claimed(key.cluster, key.server, (at, key.id), at)


def decoded_claims(packed: list[bytes], count: int) -> list[Claim]:
    """Decode `count` claims that are packed one after the other."""
    header = _ENCODER.encode([None] * count)[: -count or None]
    return _CLAIMS.decode(b"".join([header, *packed]))


_CLAIMS: Final = msgspec.msgpack.Decoder(list[Claim])
_CHANGES: Final = msgspec.msgpack.Decoder(Changes)
