"""Clients that push their metrics to a broker whose plug-in receives them (KIP-714)."""
