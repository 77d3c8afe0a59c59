"""Bytes to meaning: packets → TCP streams → frames → fields. Pure: no Spark, no socket, no clock."""
