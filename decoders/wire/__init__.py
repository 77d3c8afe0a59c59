"""Packets to frames: capture files, TCP reassembly, framing, pairing of requests with responses.

`columnar` does so for whole batches of packets in compiled code, with equal results.
"""
