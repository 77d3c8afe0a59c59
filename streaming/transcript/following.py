"""Follows a client instance or a group through a capture: which connections ever show it.

A connection shows a client instance by its ID in a request header (KIP-1313), in telemetry (KIP-714) or as a
member ID (KIP-1082), and a group by a request or response that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from expectations.conversation.identifier import identifier_bytes
from streaming.transcript.frame import DecodedFrame

_GROUPS: Final = frozenset({"groupId", "groups", "groupIds", "groupsNames"})
_INSTANCES: Final = frozenset({"clientInstanceId", "memberId"})
_GROUP_COORDINATOR: Final = 0
"""The key type of a FindCoordinator request for a group."""


class Followed(NamedTuple):
    """What is followed: a client instance ID of 16 bytes, a group ID, or both. None is not looked at."""

    instance_id: bytes | None = None
    group_id: str | None = None

    def shown_by(self, frame: DecodedFrame) -> bool:
        """Whether a frame shows all that is followed."""
        return self._shows_instance(frame) and self._shows_group(frame)

    def _shows_instance(self, frame: DecodedFrame) -> bool:
        if self.instance_id is None:
            return True
        texts = [frame.client_instance_id, *_texts(frame.body, _INSTANCES)]
        return any(text is not None and identifier_bytes(text) == self.instance_id for text in texts)

    def _shows_group(self, frame: DecodedFrame) -> bool:
        if self.group_id is None:
            return True
        return self.group_id in (*_texts(frame.body, _GROUPS), *_sought(frame.body or {}))


def connections_of(frames: Iterable[DecodedFrame], *followed: Followed) -> set[str]:
    """Return the connections, in hex, that show each of what is followed, in one frame or several."""
    shown: list[set[str]] = [set() for _ in followed]
    for frame in frames:
        for each, connections in zip(followed, shown, strict=True):
            if each.shown_by(frame):
                connections.add(frame.connection)
    return set.intersection(*shown) if shown else set()


def _texts(value: Any, names: frozenset[str], name: str = "") -> Iterator[str]:
    """Yield the texts of fields with certain names, wherever they are in a body."""
    if isinstance(value, dict):
        for inner, content in value.items():
            yield from _texts(content, names, inner)
    elif isinstance(value, list):
        for content in value:
            yield from _texts(content, names, name)
    elif isinstance(value, str) and name in names:
        yield value


def _sought(body: dict[str, Any]) -> Iterator[str]:
    """Yield the groups whose coordinator a FindCoordinator request seeks."""
    if (
        body.get("keyType", _GROUP_COORDINATOR) == _GROUP_COORDINATOR
        and {"key", "coordinatorKeys"} & body.keys()
    ):
        yield from _texts(body, frozenset({"key", "coordinatorKeys"}))
