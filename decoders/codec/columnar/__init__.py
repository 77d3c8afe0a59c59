"""The columnar interpreter: a column of frames → Arrow columns, compiled by numba.

It runs the programs of `codec/program.py`, as the scalar reader does, and equals it on every frame.
"""
