"""`kipwatch run --dry-run`: prints the effective configuration and Spark's plan of the query."""

from __future__ import annotations

import msgspec

from streaming.query.query import reports_of
from streaming.query.session import spark_session
from streaming.settings.configuration import Configuration


def show_plan(configuration: Configuration) -> None:
    """Print both. Opens no connection to Kafka and writes nothing.

    No secret is printed: a configuration holds only references to secrets, and Spark redacts its plan.
    """
    print(msgspec.json.format(msgspec.json.encode(configuration), indent=2).decode())
    with spark_session(configuration) as session:
        reports_of(session, configuration).explain("formatted")
