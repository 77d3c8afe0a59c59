"""Identities are kept apart by kind, cluster and name."""

from __future__ import annotations

import pytest

from expectations.identity.claim import Identity, IdentityKind

CLIENT, MEMBER = IdentityKind.CLIENT, IdentityKind.MEMBER


@pytest.mark.parametrize(
    "other", [(MEMBER, "c", "n"), (CLIENT, "d", "n"), (CLIENT, "c", "m"), (CLIENT, "", "c\0n")]
)
def test_another_kind_cluster_or_name_has_another_digest(other: tuple[IdentityKind, str, str]) -> None:
    """The store knows identities by their digests alone."""
    assert Identity(*other).digest != Identity(CLIENT, "c", "n").digest
