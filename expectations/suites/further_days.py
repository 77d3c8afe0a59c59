"""The folder in which an archive has rows of days beyond those that a batch has folders for."""

from __future__ import annotations

from typing import Final

FURTHER: Final = "0001-01-01"
"""Its day: a date to every tool, and that of no capture."""
