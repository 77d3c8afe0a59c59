"""The record of the frames topic: a frame with its envelope, and what of a frame may be kept.

`columnar` does the same for whole batches.
"""
