"""The Kafka release to decode frames with: the committed one, or one that the user names."""

from __future__ import annotations

from pathlib import Path

from decoders.schema.model import SchemaError, Table
from decoders.schema.registry import Schemas, schemas_of
from decoders.schema.table import COMMITTED_TABLE, dump_table, read_table
from streaming.user_error import UserError

COMMITTED = "committed"
"""The name of the committed table."""
RELEASE_HELP = (
    f"a kafka-clients jar, a table made of one, a folder of Kafka's message files, or `{COMMITTED}`"
)
"""What names a release, for the help of flags."""


def load_table(name: str) -> Table:
    """Read the table of a jar, a table file or a folder, or the committed one. Raises UserError."""
    try:
        return read_table(COMMITTED_TABLE if name == COMMITTED else Path(name))
    except SchemaError as error:
        raise UserError(str(error)) from error


def table_text(name: str) -> str | None:
    """Return the text of a named table, to be sent to other processes; None for no name."""
    return dump_table(load_table(name)) if name else None


def load_schemas(name: str) -> Schemas:
    """Load the schemas of a named release, by default the committed one. Raises UserError."""
    try:
        return schemas_of(table_text(name))
    except SchemaError as error:
        raise UserError(str(error)) from error
