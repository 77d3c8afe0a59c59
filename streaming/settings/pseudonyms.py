"""Pseudonyms as the configuration asks for them: `identities` and `identities_key`."""

from __future__ import annotations

from expectations.conversation.pseudonyms import SHORTEST_KEY, Pseudonyms
from streaming.settings.configuration import Configuration
from streaming.settings.secret import is_reference, looked_up
from streaming.user_error import UserError


def pseudonyms_of(configuration: Configuration) -> Pseudonyms | None:
    """Return the pseudonyms, None if identities stay plain. Raises UserError if there is no usable key."""
    reference = configuration.identities_key
    if configuration.identities == "plain":
        if reference:
            raise UserError('identities_key has no effect without identities = "keyed-hash"')
        return None
    if not is_reference(reference):
        raise UserError('identities_key: keyed-hash needs a key; write "env:NAME" or "file:PATH"')
    try:
        return Pseudonyms(looked_up("identities_key", reference).encode())
    except ValueError:
        raise UserError(
            f"identities_key: the key has less than {SHORTEST_KEY} bytes; `openssl rand -hex 32` makes one"
        ) from None
