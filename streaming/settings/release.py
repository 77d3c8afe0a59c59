"""The Kafka release that frames are decoded with: the committed one, or another that the user names."""

from __future__ import annotations

from pathlib import Path

from decoders.schema.model import SchemaError
from decoders.schema.registry import COMMITTED_TABLE, Schemas, read_table, schemas_of
from decoders.schema.table import Table, dump_table
from streaming.user_error import UserError

COMMITTED = "committed"
"""The name of the committed table."""
RELEASE_HELP = f"a kafka-clients jar, a table made of one, or `{COMMITTED}`"
"""How flags explain what names a release."""


def load_table(name: str) -> Table:
    """Read the table of a kafka-clients jar or a table file, or the committed one. Raises UserError."""
    try:
        return read_table(COMMITTED_TABLE if name == COMMITTED else Path(name))
    except SchemaError as error:
        raise UserError(str(error)) from error


def table_text(name: str) -> str | None:
    """Return the text of a named table, as it is sent to other processes; None for no name."""
    return dump_table(load_table(name)) if name else None


def load_schemas(name: str) -> Schemas:
    """Load the schemas of a named release; without a name, of the committed one. Raises UserError."""
    try:
        return schemas_of(table_text(name))
    except SchemaError as error:
        raise UserError(str(error)) from error
