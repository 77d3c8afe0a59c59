"""The states of a rule, in words and colours."""

from __future__ import annotations

from dashboards import panels, recordings
from dashboards.panels import AMBER, BLUE, GREEN, GREY, RED

STATES = {
    recordings.NEVER_EXERCISED: ("never exercised", GREY),
    recordings.ONLY_UNDECIDED: ("only undecided", BLUE),
    recordings.CONFORMS: ("conforms", GREEN),
    recordings.COULD_BE_BETTER: ("could be better", AMBER),
    recordings.VIOLATES: ("violates", RED),
}


def timeline(title: str, query: str, height: int) -> panels.Panel:
    """Return a panel with one bar per rule over time."""
    return panels.timeline_panel(
        title,
        "The most severe state of each rule in the five minutes before. Grey means that the rule was never "
        f"exercised. Drawn from the recording rule {recordings.RULE_STATE}.",
        query,
        legend="{{rule}}",
        states=STATES,
        height=height,
    )
