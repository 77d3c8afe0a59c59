"""Rules on KIP-35: version negotiation."""
