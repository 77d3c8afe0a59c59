"""How long the demo waits: as long as anything moves, however slow the machine is."""

from __future__ import annotations

from typing import Final

STALLED_SECONDS: Final = 300.0
"""On two cores with a load of 15 some steps of Spark's start show nothing for 40 seconds."""
NOTED_SECONDS: Final = 60.0


class Patience:
    """Remembers since when nothing has moved. Times are in seconds of any one clock."""

    def __init__(self, now: float, limit: float) -> None:
        self.limit = limit
        self._signs: object = None
        self._moved_at = now

    def observe(self, signs: object, now: float) -> None:
        """Take what is seen at `now`; what differs from last time is a move."""
        if signs != self._signs:
            self._signs, self._moved_at = signs, now

    def still_for(self, now: float) -> float:
        """Return for how long nothing has moved."""
        return now - self._moved_at

    def is_over(self, now: float) -> bool:
        """Whether nothing has moved for longer than the limit."""
        return self.still_for(now) > self.limit

    def note(self, now: float) -> str:
        """Say that nothing moves; "" if something did within a minute."""
        still = self.still_for(now)
        if still < NOTED_SECONDS:
            return ""
        return f"nothing has moved for {still:.0f} s, the demo gives up after {self.limit:.0f} s"
