"""Turns frames into statements, and statements into the facts of a connection.

`columnar` makes the same windows from whole batches of frames.
"""
