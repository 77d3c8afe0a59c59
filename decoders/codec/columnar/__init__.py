"""The columnar reader: batches of frames in, arrays out, compiled by numba.

It runs the programs of `codec/program.py`, as the scalar reader does, with equal results for every frame.
"""
