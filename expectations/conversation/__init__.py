"""What frames say, and the facts of a connection that follow from it.

`columnar` makes the same windows from whole batches of frames.
"""
