"""A reloaded configuration changes decisions, and names what else would need a restart."""

from __future__ import annotations

from datetime import date

from expectations.rules.base.rule import Level
from streaming.settings.configuration import Configuration, Listener, Suppression
from streaming.settings.reloading import take_over

RULE = "kip1313/instance-id-changed"
CURRENT = Configuration(bootstrap="kafka:9092", buckets=8, disable=[RULE])


def test_decisions_are_taken_over() -> None:
    changed = Configuration(
        bootstrap="kafka:9092",
        buckets=8,
        spec=["kip1082=text"],
        levels={RULE: Level.INFORMATION},
        suppress=[Suppression(RULE, "known", date(2027, 1, 1))],
        listener=[Listener("h:1", "WATCHED")],
    )
    assert take_over(CURRENT, changed) == (changed, [])


def test_other_settings_stay_and_are_named() -> None:
    changed = Configuration(bootstrap="elsewhere:9092", buckets=16, disable=[RULE])
    assert take_over(CURRENT, changed) == (CURRENT, ["bootstrap", "buckets"])
