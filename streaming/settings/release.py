"""The Kafka release to decode frames with: the committed one, or one that the user names.

The committed release is named by its number, by COMMITTED, or by no name at all.
"""

from __future__ import annotations

from pathlib import Path

from decoders.schema.model import SchemaError, Table
from decoders.schema.registry import Schemas, schemas_of
from decoders.schema.table import COMMITTED_TABLE, dump_table, read_table
from streaming.user_error import UserError

COMMITTED = "committed"
"""The name of the committed release."""
_NUMBER = COMMITTED_TABLE.stem.removeprefix("kafka-")
RELEASE_HELP = (
    "a kafka-clients jar, a table made of one, a folder of Kafka's message files, "
    f"or the committed release, `{COMMITTED}` or {_NUMBER}"
)
"""What names a release, for the help of flags."""


def load_table(name: str) -> Table:
    """Read the table of a jar, a table file or a folder, or the committed one. Raises UserError."""
    if not _is_committed(name) and not Path(name).exists():
        raise UserError(f"{name} is neither a file nor the committed release ({_NUMBER}): name a jar")
    try:
        return read_table(COMMITTED_TABLE if _is_committed(name) else Path(name))
    except SchemaError as error:
        raise UserError(str(error)) from error


def _is_committed(name: str) -> bool:
    return name in ("", COMMITTED, _NUMBER)


def table_text(name: str) -> str | None:
    """Return the text of a release's table, to be sent to other processes; None for the committed one."""
    return None if _is_committed(name) else dump_table(load_table(name))


def load_schemas(name: str) -> Schemas:
    """Load the schemas of a release, once per process. Raises UserError."""
    try:
        return schemas_of(table_text(name))
    except SchemaError as error:
        raise UserError(str(error)) from error
