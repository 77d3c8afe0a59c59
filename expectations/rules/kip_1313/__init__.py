"""Rules on KIP-1313: the client instance ID in request header v3."""
