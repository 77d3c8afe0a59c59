"""Rules are told only what they say they hear, and would have passed over the rest."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from decoders.schema.registry import default_schemas
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.judging.judge import Hearing, Judge, asked, open_connection
from expectations.judging.outcome import Outcome
from tests.exchange import Exchange, added_up
from tests.expectations.conversation.test_fold import STEPS


class Gossip(Judge):
    """Tells every rule everything."""

    def _hearing(self, observation: Observation, conversation: Conversation) -> Hearing:
        return Hearing([asked(rule) for rule in self._rules], [])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(list(STEPS)), max_size=30), st.booleans(), st.booleans())
def test_telling_every_rule_everything_changes_nothing(
    steps: list[str], mid_stream: bool, closed: bool
) -> None:
    exchange = Exchange(mid_stream=mid_stream)
    for name in steps:
        STEPS[name](exchange)
    if closed:
        exchange.close()
    names = default_schemas().api_names
    assert judged(Judge(names), exchange) == judged(Gossip(names), exchange)


def judged(judge: Judge, exchange: Exchange) -> object:
    windows = exchange.windows()
    state = open_connection(windows[0])
    outcome: Outcome = added_up([judge.hear(state, window) for window in windows])
    return outcome.checks, {finding.id: finding for finding in outcome.findings}, state
