"""The columnar twin of observe, fold and window: a batch of frames → one folded window a connection.

Only one of several like frames is read by the scalar code; the rest are compared and counted as columns.
"""
