"""Frames to fields and back: one frame at a time, in plain Python.

`columnar` reads whole batches of frames in compiled code, with equal results.
"""
