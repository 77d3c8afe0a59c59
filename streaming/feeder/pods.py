"""Which pod had an address, and when, by what Kubernetes' API says of pods. Time is an argument.

Addresses are reused, so each has a history of periods, of immutable values: one thread changes it while
another one reads. A period ends when the API says so. If a pod vanished while the API was away, its periods
end when the API was last heard.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final, NamedTuple

import msgspec

from decoders.frame.record import is_placement

MOST_PERIODS: Final = 200_000
"""Periods of addresses that are kept. A pod has one or two addresses."""
MOST_OF_ADDRESS: Final = 8
"""Periods of one address that are kept, the latest ones."""
KEPT_FOR: Final = 15 * 60 * 1_000_000_000
"""Nanoseconds that a period is kept after its end. Packets are read seconds after they are captured."""
LAG: Final = 10 * 1_000_000_000
"""Nanoseconds after which the API has surely told of an address that a pod has been given."""
_OVER: Final = frozenset({"Succeeded", "Failed"})
_STAMPED: Final = re.compile(r"-[0-9]{8}$")
"""The suffix of a CronJob's jobs: the scheduled time in minutes since the epoch."""
_HASH: Final = "pod-template-hash"


class _Maker(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    controller: bool = False


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[_Maker] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    host_network: bool = False


class _Address(msgspec.Struct, frozen=True):
    ip: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    start_time: datetime | None = None
    pod_ips: list[_Address] | None = msgspec.field(default=None, name="podIPs")


class Pod(msgspec.Struct, frozen=True):
    """What is read of a pod as the API writes it."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def workload(self) -> str:
        """The name of the pod's controller: the Deployment's for a ReplicaSet, the CronJob's for a Job."""
        metadata = self.metadata
        maker = next((each for each in metadata.owner_references or () if each.controller), None)
        if maker is None:
            return metadata.name
        if maker.kind == "ReplicaSet" and (stamp := (metadata.labels or {}).get(_HASH)):
            return maker.name.removesuffix(f"-{stamp}")
        if maker.kind == "Job":
            return _STAMPED.sub("", maker.name)
        if maker.kind == "Node":
            # A static pod, which the kubelet makes from a file on the node.
            return metadata.name.removesuffix(f"-{self.spec.node_name}")
        return maker.name

    @property
    def placement(self) -> str:
        """Where it runs; only the node if the pod shares the node's address. Empty if a name is invalid."""
        own = "" if self.spec.host_network else f"{self.metadata.namespace}/{self.workload}"
        placement = f"{own}@{self.spec.node_name}"
        return placement if is_placement(placement) else ""

    @property
    def addresses(self) -> frozenset[str]:
        """The addresses that it has now."""
        if self.status.phase in _OVER:
            return frozenset()
        return frozenset(filter(None, map(_normal, self.status.pod_ips or ())))


class Period(NamedTuple):
    """A pod had an address from `since` until before `until`, None if it still has it. In nanoseconds."""

    uid: str
    placement: str
    since: int
    until: int | None = None


class PodAddresses:
    """The history of all addresses. `left_out` counts periods for which there was no room."""

    def __init__(self, most: int = MOST_PERIODS) -> None:
        self.left_out = 0
        self._most = most
        self._count = 0
        self._periods: dict[str, tuple[Period, ...]] = {}
        self._held: dict[str, frozenset[str]] = {}

    def __len__(self) -> int:
        return self._count

    def placements(self, address: str, at: int) -> set[str]:
        """Return the placements of the pods that may have had an address at a time; one of them is right."""
        periods = self._periods.get(address, ())
        return {each.placement for each in periods if each.since <= at and not _is_over(each, at)}

    def put(self, pod: Pod, now: int) -> None:
        """Note a pod that was added or has changed."""
        uid, placement = pod.metadata.uid, pod.placement
        before, after = self._held.get(uid, frozenset()), pod.addresses if placement else frozenset()
        for address in before - after:
            self._end(address, uid, now)
        # A pod gets its first address after its start, and another one a moment before the API says so.
        started = pod.status.start_time
        since = now - LAG if before or started is None else min(_nanoseconds(started), now)
        kept = {address for address in after - before if self._begin(address, uid, placement, since, now)}
        self._hold(uid, (before & after) | kept)

    def remove(self, uid: str, at: int) -> None:
        """Note that a pod is gone."""
        for address in self._held.pop(uid, frozenset()):
            self._end(address, uid, at)

    def keep_only(self, uids: Collection[str], at: int) -> None:
        """Note that all other pods are gone, perhaps since `at`."""
        for uid in self._held.keys() - set(uids):
            self.remove(uid, at)

    def forget_ended(self, before: int) -> None:
        """Forget the periods that ended before a time."""
        for address in [*self._periods]:
            self._replace(address, [each for each in self._periods[address] if not _is_over(each, before)])

    def _begin(self, address: str, uid: str, placement: str, since: int, now: int) -> bool:
        if self._count >= self._most:
            self.forget_ended(now - KEPT_FOR)
        if self._count >= self._most:
            self.left_out += 1
            return False
        earlier = [each for each in self._periods.get(address, ()) if not _is_over(each, now - KEPT_FOR)]
        self._replace(address, [*earlier, Period(uid, placement, since)])
        return True

    def _end(self, address: str, uid: str, at: int) -> None:
        self._replace(
            address,
            [
                each._replace(until=max(at, each.since)) if each.uid == uid and each.until is None else each
                for each in self._periods.get(address, ())
            ],
        )

    def _replace(self, address: str, periods: Iterable[Period]) -> None:
        kept = tuple(periods)[-MOST_OF_ADDRESS:]
        self._count += len(kept) - len(self._periods.get(address, ()))
        if kept:
            self._periods[address] = kept
        else:
            self._periods.pop(address, None)

    def _hold(self, uid: str, addresses: frozenset[str]) -> None:
        if addresses:
            self._held[uid] = addresses
        else:
            self._held.pop(uid, None)


def _is_over(period: Period, at: int) -> bool:
    return period.until is not None and period.until <= at


def _nanoseconds(moment: datetime) -> int:
    return int(moment.astimezone(UTC).timestamp()) * 1_000_000_000


def _normal(given: _Address) -> str:
    """Return an address as records write it, empty if it is none."""
    try:
        return str(ip_address(given.ip))
    except ValueError:
        return ""
