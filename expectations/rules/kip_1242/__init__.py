"""Rules on KIP-1242: clients that reach another broker or cluster than they meant to."""
