"""KIP-1082's scenarios with a real coordinator: lost responses, rejoining, mixed versions, ghosts."""

from __future__ import annotations

import pytest

from streaming.probe.client import HEARTBEATS, JOIN, LEAVE, InstanceClient, beat, negotiate
from tests.scenarios.client_requests import send_without_reading
from tests.scenarios.stage import Stage, found

pytestmark = pytest.mark.jvm

MEMBER, OTHER = "kcjqdTIoQMuWKqjv0mmNEw", "t1DVi8ZtQ7ipVPBY2tX9gg"
MEMBERSHIPS = pytest.mark.parametrize(
    ("api", "version"), HEARTBEATS, ids=[f"{api} v{version}" for api, version in HEARTBEATS]
)


def join_again_after_a_lost_response(stage: Stage, first: str, second: str, version: int = 1) -> set[str]:
    """The connection breaks before the response to a join is read, and the client joins on another one."""
    with stage.watch(stage.old) as watch:
        with watch.client() as client:
            negotiate(client)
            send_without_reading(client, first, version)
        with watch.client() as client:
            negotiate(client)
            joined = beat(client, second, JOIN, version=version)
            beat(client, joined["memberId"], LEAVE, version=version)
    return found(stage.examine(watch))


def test_a_join_that_is_repeated_with_the_same_id_is_the_same_member(stage: Stage) -> None:
    assert join_again_after_a_lost_response(stage, MEMBER, MEMBER) == set()


def test_a_join_that_leaves_its_id_to_the_broker_leaves_a_ghost(stage: Stage) -> None:
    assert join_again_after_a_lost_response(stage, "", "", version=0) == {"kip1082/member-id-assigned-late"}


def test_a_ghost_counts_as_often_as_it_joins(stage: Stage) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        negotiate(client)
        members = [beat(client, "", JOIN, version=0)["memberId"] for _ in range(2)]
        assert len(set(members)) == 2
        for member_id in members:
            beat(client, member_id, LEAVE, version=0)
    (late,) = [
        finding
        for finding in stage.examine(watch).findings
        if finding.rule == "kip1082/member-id-assigned-late"
    ]
    assert late.occurrences == 2


def live(client: InstanceClient, api: str, version: int, members: tuple[str, str]) -> None:
    """Join, leave, join again, leave."""
    negotiate(client)
    for member_id in members:
        for epoch in (JOIN, LEAVE):
            beat(client, member_id, epoch, api, version)


@MEMBERSHIPS
def test_a_member_that_comes_back_keeps_its_id(stage: Stage, api: str, version: int) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        live(client, api, version, (MEMBER, MEMBER))
    assert found(stage.examine(watch)) == set()


@MEMBERSHIPS
def test_a_member_that_comes_back_as_another_is_told(stage: Stage, api: str, version: int) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        live(client, api, version, (MEMBER, OTHER))
    assert found(stage.examine(watch)) == {"kip1082/member-id-changed"}


def test_a_client_may_adopt_the_id_that_the_broker_gave_and_speak_a_newer_version(stage: Stage) -> None:
    """Mixed versions, as while clients are upgraded: joined by version 0, heartbeats by version 1."""
    with stage.watch(stage.old) as watch, watch.client() as client:
        negotiate(client)
        joined = beat(client, "", JOIN, version=0)
        for epoch in (joined["memberEpoch"], LEAVE):
            beat(client, joined["memberId"], epoch, version=1)
    assert found(stage.examine(watch)) == {"kip1082/member-id-assigned-late"}


def test_versions_may_change_under_one_id(stage: Stage) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        negotiate(client)
        epoch = beat(client, MEMBER, JOIN, version=0)["memberEpoch"]
        beat(client, MEMBER, epoch, version=1)
        beat(client, MEMBER, LEAVE, version=0)
    assert found(stage.examine(watch)) == set()
