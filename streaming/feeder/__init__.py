"""Packets to the frames topic: live capture, capture files, relays, publishing, shedding."""
