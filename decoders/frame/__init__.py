"""The record: a frame with when and where it was seen, and what of a frame may be kept.

`columnar` does the same for whole batches, and holds the blocks in which records travel.
"""
