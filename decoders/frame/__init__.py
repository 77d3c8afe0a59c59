"""Records: frames with the time and place of their capture, without the bytes that may not be kept.

`columnar` does the same for whole batches, and has the blocks in which records travel.
"""
