"""Which pod had an address, and when: the history of pods, without any API."""

from __future__ import annotations

import msgspec
import pytest

from streaming.feeder.pods import KEPT_FOR, LAG, MOST_OF_ADDRESS, Pod, PodAddresses
from tests.streaming.feeder.pod_server import pod

SECOND = 1_000_000_000
NOW = 1_700_000_000
ADDRESS = "10.0.0.7"


def read(given: object) -> Pod:
    return msgspec.convert(given, Pod)


@pytest.mark.parametrize(
    ("given", "placement"),
    [
        (pod("x-7d9f-abcde", made_by=("ReplicaSet", "x-7d9f"), stamp="7d9f"), "payments/x@node-7"),
        (pod("x-abcde", made_by=("ReplicaSet", "x-own")), "payments/x-own@node-7"),
        (pod("db-0", made_by=("StatefulSet", "db")), "payments/db@node-7"),
        (pod("agent-abcde", made_by=("DaemonSet", "agent")), "payments/agent@node-7"),
        (pod("load-abcde", made_by=("Job", "load")), "payments/load@node-7"),
        (pod("load-28333335-abcde", made_by=("Job", "load-28333335")), "payments/load@node-7"),
        (pod("load-7-abcde", made_by=("Job", "load-7")), "payments/load-7@node-7"),
        (pod("proxy-node-7", made_by=("Node", "node-7")), "payments/proxy@node-7"),
        (pod("kafka-0", made_by=("StrimziPodSet", "kafka")), "payments/kafka@node-7"),
        (pod("bare"), "payments/bare@node-7"),
        (pod("agent-abcde", made_by=("DaemonSet", "agent"), host_network=True), "@node-7"),
        (pod("bare", node=""), ""),
        (pod("<b>"), ""),
        (pod("b" * 253), ""),
    ],
)
def test_a_workload_is_what_made_the_pod_and_of_a_shared_address_only_the_node_is_known(
    given: object, placement: str
) -> None:
    assert read(given).placement == placement


def at(addresses: PodAddresses, seconds: float, address: str = ADDRESS) -> set[str]:
    return addresses.placements(address, int((NOW + seconds) * SECOND))


def put(addresses: PodAddresses, given: object, seconds: float) -> None:
    addresses.put(read(given), int((NOW + seconds) * SECOND))


def test_an_address_is_the_pods_that_had_it_then() -> None:
    addresses = PodAddresses()
    first, second = pod("one", ADDRESS, started=NOW), pod("two", ADDRESS, started=NOW + 60)
    put(addresses, first, 3)
    addresses.remove("uid-of-one", (NOW + 50) * SECOND)
    put(addresses, second, 63)
    for seconds, found in (
        (-1, set[str]()),
        (0, {"payments/one@node-7"}),
        (49, {"payments/one@node-7"}),
        (50, set()),
        (59, set()),
        (60, {"payments/two@node-7"}),
        (1_000, {"payments/two@node-7"}),
    ):
        assert at(addresses, seconds) == found
    assert at(addresses, 1, "10.0.0.8") == set()


def test_while_two_pods_may_have_an_address_it_is_said_to_be_of_both() -> None:
    """The API tells of an end after it. Pods of one workload on one node are no two."""
    addresses = PodAddresses()
    put(addresses, pod("one", ADDRESS, started=NOW), 1)
    put(addresses, pod("two", ADDRESS, started=NOW + 10), 12)
    addresses.remove("uid-of-one", (NOW + 13) * SECOND)
    assert at(addresses, 9) == {"payments/one@node-7"}
    assert len(at(addresses, 11)) == 2
    assert at(addresses, 14) == {"payments/two@node-7"}
    alike = PodAddresses()
    for name, begun in (("db-0", 0), ("db-1", 10)):
        put(alike, pod(name, ADDRESS, started=NOW + begun, made_by=("StatefulSet", "db")), begun)
    assert at(alike, 11) == {"payments/db@node-7"}


def test_a_pod_that_is_over_has_no_address_and_may_change_it() -> None:
    addresses = PodAddresses()
    put(addresses, pod("one"), 0)
    assert len(addresses) == 0
    put(addresses, pod("one", ADDRESS, "fd00::7", started=NOW), 5)
    assert at(addresses, 1) == at(addresses, 1, "fd00::7") == {"payments/one@node-7"}
    put(addresses, pod("one", "10.0.0.8", started=NOW), 20)
    assert at(addresses, 19) == {"payments/one@node-7"} and at(addresses, 20) == set()
    assert at(addresses, 20, "10.0.0.8") == {"payments/one@node-7"}
    assert at(addresses, 5, "10.0.0.8") == set()
    put(addresses, pod("one", "10.0.0.8", started=NOW, phase="Succeeded"), 30)
    assert at(addresses, 30, "10.0.0.8") == set()


def test_of_a_pod_that_vanished_unseen_only_is_known_how_long_it_was_there() -> None:
    addresses = PodAddresses()
    put(addresses, pod("one", ADDRESS, started=NOW), 1)
    put(addresses, pod("two", ADDRESS, started=NOW + 60), 100)
    addresses.keep_only({"uid-of-two"}, (NOW + 40) * SECOND)
    assert at(addresses, 39) == {"payments/one@node-7"}
    assert at(addresses, 50) == set()
    assert at(addresses, 60) == {"payments/two@node-7"}


def test_what_is_kept_of_an_address_and_of_all_is_bounded() -> None:
    addresses = PodAddresses(most=20)
    for number in range(100):
        put(addresses, pod("one", ADDRESS, started=NOW + number, uid=f"uid-{number}"), number)
        addresses.remove(f"uid-{number}", (NOW + number + 1) * SECOND)
    assert len(addresses) == MOST_OF_ADDRESS
    for number in range(100):
        put(addresses, pod("other", f"10.0.1.{number}", uid=f"other-{number}", started=NOW), 200)
    assert len(addresses) == 20 and addresses.left_out == 88
    later = KEPT_FOR / SECOND + 300
    put(addresses, pod("new", "10.0.2.1", started=NOW + later), later)
    assert len(addresses) == 13 and at(addresses, later, "10.0.2.1") == {"payments/new@node-7"}
    for number in range(12):
        addresses.remove(f"other-{number}", 0)
        addresses.remove(f"other-{number}", 0)
    addresses.forget_ended(int((NOW + later) * SECOND))
    assert len(addresses) == 1


def test_what_is_no_address_is_nobodys() -> None:
    addresses = PodAddresses()
    put(addresses, pod("one", "", "here", "10.0.0.256", started=NOW), 1)
    assert len(addresses) == 0


def test_a_clock_that_is_ahead_hides_no_pod() -> None:
    addresses = PodAddresses()
    put(addresses, pod("one", ADDRESS, started=NOW + 3_600), 1)
    assert at(addresses, 2) == {"payments/one@node-7"}
    put(addresses, pod("two", "10.0.0.8"), 100)
    assert at(addresses, 100 - LAG / SECOND, "10.0.0.8") == {"payments/two@node-7"}
