"""The states of a rule and the verdicts of its checks, in words and colours."""

from __future__ import annotations

from dashboards import panels, recordings
from dashboards.panels import AMBER, BLUE, GREEN, RED, TRANSPARENT
from expectations.rules.base.rule import Verdict
from expectations.rules.catalogue import RULES

STATES = {
    recordings.NOT_EXERCISED: ("not exercised", TRANSPARENT),
    recordings.ONLY_UNDECIDED: ("only undecided", BLUE),
    recordings.CONFORMS: ("conforms", GREEN),
    recordings.COULD_BE_BETTER: ("could be better", AMBER),
    recordings.VIOLATES: ("violates", RED),
}
VERDICTS = {Verdict.CONFORMS: GREEN, Verdict.VIOLATES: RED, Verdict.UNDECIDED: BLUE}
"""The same colours wherever a verdict is drawn."""


def timeline(title: str, query: str, *, height: int, empty: str) -> panels.Panel:
    """Return a panel with one bar per rule over time, all of them on one page."""
    return panels.timeline_panel(
        title,
        "The most severe state of each rule in the five minutes before. Where a bar is missing the rule was "
        f"not exercised. Drawn from the recording rule {recordings.RULE_STATE}.",
        query,
        legend="{{rule}}",
        states=STATES,
        height=height,
        lines=len(RULES),
        empty=empty,
    )
