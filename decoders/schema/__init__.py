"""Kafka's message schemas: the committed table, its language, other releases, the KIP-1313 overlay.

`kafka-4.4.0.json` is the committed table. It keeps what affects the encoding and no prose.
"""
