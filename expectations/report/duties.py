"""Reports on duties: of a broker that was probed, or a client that was provoked. For people and as JSON."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from expectations.conversation.texts import printable
from expectations.judging.finding import Finding
from expectations.report.coverage import Coverage
from expectations.report.terminal import LEVEL_STYLES
from expectations.rules.base.rule import Level, Role


class DutyState(enum.StrEnum):
    """How a duty is met. NOT_OFFERED: there was nothing to which the duty applies."""

    CONFORMS = "conforms"
    VIOLATES = "violates"
    NOT_OFFERED = "not offered"
    UNDECIDED = "undecided"


_STYLES = {
    DutyState.CONFORMS: "green",
    DutyState.VIOLATES: "bold red",
    DutyState.NOT_OFFERED: "dim",
    DutyState.UNDECIDED: "yellow",
}


class DutyReport(msgspec.Struct, frozen=True):
    """One duty: what must be done, the rules that judge it, and what became of it.

    `why` says why a duty is not offered or undecided. `findings` are those about the side under test; only
    one of level violation makes it violate its duty.
    """

    duty: str
    says: str
    rules: Sequence[str]
    state: DutyState
    why: str = ""
    findings: Sequence[Finding] = ()


class DutiesReport(msgspec.Struct, frozen=True):
    """What was found by the requests to a broker, and where they were saved."""

    broker: str
    saved: str
    requests: int
    duties: Sequence[DutyReport]


def judged(
    duty: DutyReport,
    role: Role,
    findings: Iterable[Finding],
    coverage: Iterable[Coverage],
    trouble: str,
) -> DutyReport:
    """Return the duty of one side as the rules judged it.

    `trouble` is why the rules may have been shown too little, "" if nothing was in their way. Some rules look
    only at what offends: without trouble, nothing offended.
    """
    about = tuple(finding for finding in findings if finding.role == role)
    duty = msgspec.structs.replace(duty, findings=about)
    if any(finding.level == Level.VIOLATION for finding in about):
        return msgspec.structs.replace(duty, state=DutyState.VIOLATES)
    own = [row for row in coverage if row.rule in duty.rules]
    unsure = [row.rule for row in own if row.undecided]
    if trouble:
        return msgspec.structs.replace(duty, why=trouble)
    if unsure and not any(row.conforms for row in own):
        return msgspec.structs.replace(duty, why=f"{', '.join(unsure)} could not decide by the response")
    return msgspec.structs.replace(duty, state=DutyState.CONFORMS)


def duties_table(duties: Sequence[DutyReport]) -> Table:
    """Return all duties, each with its state, and below it the findings or the reason."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for duty in duties:
        says = Text(duty.duty, "bold").append(f"  {duty.says}", "not bold dim")
        for line in _details(duty):
            says.append("\n").append(line)
        table.add_row(Text(duty.state, _STYLES[duty.state]), says)
    return table


def _details(duty: DutyReport) -> Iterable[Text]:
    if duty.why:
        yield Text(duty.why, "yellow")
    seen: set[tuple[str, str]] = set()
    for finding in duty.findings:
        if (finding.rule, finding.message) not in seen:
            seen.add((finding.rule, finding.message))
            text = Text(f"{finding.level} ", LEVEL_STYLES[finding.level]).append(f"{finding.rule} ", "bold")
            yield text.append(printable(finding.message))


def duties_verdict(duties: Sequence[DutyReport]) -> str:
    """Return how many duties have each state, in one line."""
    counts = ((state, sum(duty.state == state for duty in duties)) for state in DutyState)
    return f"{len(duties)} duties: " + ", ".join(f"{count} {state}" for state, count in counts if count)
