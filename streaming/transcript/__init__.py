"""Frames as `kipwatch decode` prints them, and the bytes of each connection by fate."""
