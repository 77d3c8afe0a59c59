"""Secrets of the configuration: it names where they are, as `env:NAME` or `file:PATH`, and holds none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from streaming.user_error import UserError

ENVIRONMENT: Final = "env:"
FILE: Final = "file:"


def is_reference(value: object) -> bool:
    """Whether a setting says where its value is."""
    return isinstance(value, str) and value.startswith((ENVIRONMENT, FILE))


def looked_up(setting: str, reference: str) -> str:
    """Return what a reference refers to; errors name the `setting`. Raises UserError if it is not there."""
    if reference.startswith(ENVIRONMENT):
        variable = reference.removeprefix(ENVIRONMENT)
        if variable not in os.environ:
            raise UserError(f"{setting}: the environment variable {variable} is not set")
        return os.environ[variable]
    return read_text(setting, reference.removeprefix(FILE)).strip()


def read_text(setting: str, path: str) -> str:
    """Return a file's text. Raises UserError if it cannot be read."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{setting}: cannot read {path}: {reason}") from error
