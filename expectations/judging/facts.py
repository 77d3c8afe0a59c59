"""The facts of connections that behave alike: from a state to its canonical form, and back."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from expectations.conversation.bodies import ClusterDescription, SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import ConnectionKey
from expectations.conversation.progress import Progress
from expectations.conversation.statement_template import is_own_text
from expectations.identity.shown import ShownIdentities
from expectations.judging.canonical import OddStateError, Registers, Renamer, Walk, walk_of
from expectations.judging.judge import ConnectionState
from expectations.rules.catalogue import RULE_STATES, changed_states

FACTS_KEPT: Final = 2_000
"""Facts that a worker keeps decoded."""
NO_CLIENT: Final = -1
_RULE_TYPES: Final = typing.get_type_hints(RULE_STATES)
_RULES: Final = {name: typing.cast(Walk, walk_of(hint)) for name, hint in _RULE_TYPES.items()}
_IDENTITIES: Final = typing.cast(Walk, walk_of(ShownIdentities))
_CONVERSATION: Final = typing.cast(Walk, walk_of(Conversation))
_NOBODY: Final = ConnectionKey(b"", "", "", "", 0)


class Shape(NamedTuple):
    """The numbers of a progress that are present; `has_heartbeat` is about the member's latest heartbeat."""

    has_client: bool = False
    has_instance: bool = False
    has_member: bool = False
    has_loss: bool = False
    has_heartbeat: bool = False


class _Form(msgspec.Struct, array_like=True):
    """A canonical form. `rules` has the states that have changed."""

    conversation: Conversation
    rules: dict[str, Any]
    identities: ShownIdentities
    shape: Shape


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Form)


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """What connections that behave alike have in common. `packed` is their canonical form.

    `client` is the text register of the client ID, NO_CLIENT if there is none. `widths` are the numbers of
    number, UUID and text registers. The facts of a state without a canonical form have an empty `packed`.
    """

    packed: bytes
    software: SoftwareClaim | None = None
    client: int = NO_CLIENT
    widths: tuple[int, int, int] = (0, 0, 0)
    is_closed: bool = False

    @property
    def shape(self) -> Shape:
        """Which numbers of the progress are there."""
        return _unpacked(self.packed).shape

    def state(
        self,
        renamer: Renamer,
        key: ConnectionKey,
        progress: Callable[[str], Progress],
        configured: ClusterDescription | None = None,
    ) -> ConnectionState:
        """Return the state with the values of its registers, without findings.

        `progress` makes the progress, given the name of the only member.
        """
        form = _unpacked(self.packed)
        identities = _IDENTITIES(form.identities, renamer)
        conversation = _walked(form.conversation, key, configured, renamer)
        conversation.progress = progress(next(iter(conversation.members.known), ""))
        rules = RULE_STATES()
        for name, kept in form.rules.items():
            setattr(rules, name, _RULES[name](kept, renamer))
        return ConnectionState(conversation, rules, {}, identities)


def canonical(state: ConnectionState, encoder: msgspec.msgpack.Encoder = _ENCODER) -> tuple[Facts, Registers]:
    """Return the facts of a state and its registers.

    The progress, the findings and what the configuration says of the server are left out. Raises
    OddStateError.
    """
    conversation, progress = state.conversation, state.conversation.progress
    if len(progress.members) > 1:
        raise OddStateError
    registers = Registers()
    renamer = registers.renamer
    form = _Form(
        _walked(conversation, _NOBODY, None, renamer),
        {name: _RULES[name](kept, renamer) for name, kept in changed_states(state.rules).items()},
        _IDENTITIES(state.identities, renamer),
        shape_of(progress),
    )
    client = conversation.client_id or ""
    facts = Facts(
        encoder.encode(form),
        conversation.software,
        registers.texts[client] if is_own_text(client) else NO_CLIENT,
        registers.checked_widths(),
        conversation.closed,
    )
    return facts, registers


def shape_of(progress: Progress) -> Shape:
    """Return which numbers of a progress are there."""
    member = progress.only_member
    return Shape(
        progress.client is not None,
        progress.instance is not None,
        member is not None,
        progress.loss != 0,
        member is not None and member.heartbeat != 0,
    )


def _walked(
    conversation: Conversation,
    key: ConnectionKey,
    configured: ClusterDescription | None,
    renamer: Renamer,
) -> Conversation:
    walked: Conversation = _CONVERSATION(conversation, renamer)
    walked.connection, walked.cluster, walked.client = key.id, key.cluster, key.client
    walked.server, walked.run, walked.configured = key.server, key.run, configured
    return walked


@functools.lru_cache(maxsize=FACTS_KEPT)
def _unpacked(packed: bytes) -> _Form:
    """Unpack a canonical form. Those of most connections have been asked for before."""
    form = _DECODER.decode(packed)
    # A later version may lack a rule that kept a state.
    form.rules = {
        name: msgspec.convert(kept, _RULE_TYPES[name])
        for name, kept in form.rules.items()
        if name in _RULE_TYPES
    }
    return form
