"""A real broker meets its duties, and altered responses are findings about the broker.

The broker itself is accused of nothing, and the client only of what it did.
"""

from __future__ import annotations

from functools import partial

import pytest

from decoders.schema.registry import default_schemas
from expectations.judging.terms import Terms
from expectations.report.duties import DutyReport, DutyState
from streaming.broker.ports import HOST
from streaming.probe.client import send
from streaming.probe.connection import Login, Security, Target
from streaming.probe.duties import DUTIES
from streaming.probe.probing import Probing
from streaming.record.rewriting import Address, RewritingPassage
from tests.scenarios.client_requests import send_as_version
from tests.scenarios.stage import PASSWORD, SCRAM, USER, Stage, found
from tests.streaming.probe.faults import FAULTS, Fault

pytestmark = pytest.mark.jvm

NEVER_OFFERED = {"telemetry-id-assigned", "telemetry-id-echoed"}
"""The stage's broker keeps no metrics of clients. Its front offers the same on header v3."""
OF_HEADER_V3 = {"header-v3", "instance-id-checked", "handshake-without-instance-id"}
OUT_OF_RANGE = (("Metadata", 99), ("Fetch", 3), ("FindCoordinator", 99), ("ListOffsets", 99))


def probed(address: Address, only: str = "", security: Security | None = None) -> list[DutyReport]:
    """Probe what listens at an address, joining groups, too."""
    probing = Probing(Target(default_schemas(), address, security or Security()), Terms())
    probing.open()
    return list(probing.run([duty for duty in DUTIES if only in ("", duty.name)], writes=True))


def states(duties: list[DutyReport]) -> dict[DutyState, set[str]]:
    """Return the duties by their states; those with a finding count as violated."""
    by_state: dict[DutyState, set[str]] = {}
    for duty in duties:
        state = DutyState.VIOLATES if duty.findings else duty.state
        by_state.setdefault(state, set()).add(duty.duty)
    return by_state


@pytest.mark.parametrize("mechanism", ["", "PLAIN", SCRAM])
def test_the_broker_meets_its_duties(stage: Stage, mechanism: str) -> None:
    login = Login(mechanism, USER, PASSWORD) if mechanism else None
    address = (HOST, stage.broker.secured_port) if mechanism else stage.old
    met = states(probed(address, security=Security(login=login)))
    assert DutyState.VIOLATES not in met
    assert met[DutyState.NOT_OFFERED] == NEVER_OFFERED | OF_HEADER_V3
    # Of the listener with a login, clients are told another port, which nobody can compare.
    assert met.get(DutyState.UNDECIDED, set()) == ({"well-routed"} if mechanism else set())


def test_the_broker_that_speaks_header_v3_meets_its_duties(stage: Stage) -> None:
    met = states(probed(stage.new))
    assert DutyState.VIOLATES not in met
    assert met[DutyState.CONFORMS] >= OF_HEADER_V3


@pytest.mark.parametrize("fault", [each for each in FAULTS if each.newest > 4], ids=lambda fault: fault.rule)
def test_an_altered_response_is_a_finding_about_the_broker(stage: Stage, fault: Fault) -> None:
    target = stage.new if fault.newest > 5 or fault.duty in NEVER_OFFERED else stage.old
    security = Security()
    if fault.login:
        target, security = (HOST, stage.broker.secured_port), Security(login=Login("PLAIN", USER, PASSWORD))
    alter = fault.make()
    passage = partial(RewritingPassage, default_schemas(), lambda broker: broker, print, alter)
    with stage.watch(target, passage) as watch:
        [duty] = probed(watch.address, fault.duty, security)
    assert fault.rule in {finding.rule for finding in duty.findings}, duty.why


@pytest.mark.parametrize(("api", "version"), OUT_OF_RANGE)
def test_a_close_upon_an_unknown_version_is_no_finding_about_the_broker(
    stage: Stage, api: str, version: int
) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        send_as_version(client, api, 6, version)
    assert found(stage.examine(watch)) == {"wire/unknown-api"}


def test_an_unstable_version_is_no_finding(stage: Stage) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        send(client, "InitProducerId", 6, transactionTimeoutMs=1_000)
    assert found(stage.examine(watch)) == set()
