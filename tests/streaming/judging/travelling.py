"""Windows as they come to a bucket: told briefly by the first stage, packed, and unpacked."""

from __future__ import annotations

from collections.abc import Iterable

from expectations.conversation.connection_window import (
    BriefEvidence,
    BriefWindow,
    ConnectionWindow,
    Moment,
    Speakers,
)
from expectations.conversation.observation import Observation
from streaming.judging.bucket_input import Folded, FoldedWindow, pack_folded, unpack_folded


def folded(windows: Iterable[ConnectionWindow]) -> Folded:
    """Tell windows briefly, with a saying for each observation."""
    told = Folded()
    for window in windows:
        moments = [_moment(told, observation) for observation in window.observations]
        speakers = Speakers(window.connection, window.cluster, window.client, window.server, window.run)
        told.briefs.append(BriefWindow(speakers, moments))
    return told


def _moment(told: Folded, observation: Observation) -> Moment:
    own = {name: getattr(observation, name) for name in Moment.__struct_fields__ if name != "saying"}
    full = observation.evidence
    own["evidence"] = BriefEvidence(
        full.source, bytes.fromhex(full.bytes), full.position, full.partition, full.offset
    )
    number = len(told.sayings)
    told.sayings[number] = observation
    return Moment(saying=number, **own)


def travelled(windows: Iterable[ConnectionWindow]) -> list[FoldedWindow]:
    """Send windows to a bucket."""
    return list(unpack_folded(pack_folded(folded(windows))).windows())


def observed(told: Folded) -> list[ConnectionWindow]:
    """Put all windows together."""
    return [window.observed(window.brief.moments) for window in told.windows()]
