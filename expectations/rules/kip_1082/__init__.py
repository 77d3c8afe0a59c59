"""Rules on KIP-1082: member IDs that the client generates itself."""
