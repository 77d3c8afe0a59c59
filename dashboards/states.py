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
    """One bar a rule over time."""
    return panels.timeline_panel(
        title,
        "The gravest thing that happened to each rule in the five minutes before. Grey says that the rule "
        f"was never exercised. Drawn from the recording rule {recordings.RULE_STATE}.",
        query,
        legend="{{rule}}",
        states=STATES,
        height=height,
    )
