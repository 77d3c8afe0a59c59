"""What `kipwatch run` would do: its configuration as it is in effect, and Spark's plan of the query."""

from __future__ import annotations

import msgspec

from streaming.query.query import reports_of
from streaming.query.session import spark_session
from streaming.settings.configuration import Configuration


def show_plan(configuration: Configuration) -> None:
    """Print both. Kafka is not asked and nothing is written.

    Secrets do not stand in a configuration, which only names them, and Spark blanks them in its plan.
    """
    print(msgspec.json.format(msgspec.json.encode(configuration), indent=2).decode())
    with spark_session(configuration) as session:
        reports_of(session, configuration).explain("formatted")
