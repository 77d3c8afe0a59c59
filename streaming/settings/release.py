"""Which Kafka release frames are read with: the committed one, or another that the user names."""

from __future__ import annotations

from pathlib import Path

from decoders.schema.model import SchemaError
from decoders.schema.registry import COMMITTED_TABLE, Schemas, read_table, schemas_of
from decoders.schema.table import Table, dump_table
from streaming.user_error import UserError

COMMITTED = "committed"
"""The word for the committed table where a release is to be named."""


def load_table(name: str) -> Table:
    """Read the table of a kafka-clients jar or a table file, or the committed one. Raises UserError."""
    try:
        return read_table(COMMITTED_TABLE if name == COMMITTED else Path(name))
    except SchemaError as error:
        raise UserError(str(error)) from error


def table_text(name: str) -> str | None:
    """Give the text of a named table, as it travels to other processes, or None where there is no name."""
    return dump_table(load_table(name)) if name else None


def load_schemas(name: str) -> Schemas:
    """Load the schemas of a named release, for no name those of the committed one. Raises UserError."""
    try:
        return schemas_of(table_text(name))
    except SchemaError as error:
        raise UserError(str(error)) from error
