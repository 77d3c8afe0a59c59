"""Batches of packets to columns of frames, in compiled code, equal to the scalar tracker.

Connections with ordinary traffic are on the fast path: a row of the flow table holds their state. The scalar
tracker handles every packet that is out of the ordinary.
"""
