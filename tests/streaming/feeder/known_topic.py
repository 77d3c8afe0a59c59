"""A topic to publish to, without Kafka."""

from __future__ import annotations


class KnownTopic:
    """A topic with a number of partitions, 0 while it is unknown, and a problem."""

    def __init__(self, partitions: int = 2, problem: str = "") -> None:
        self.partitions, self._problem = partitions, problem

    def problem(self) -> str:
        return self._problem
