"""What the KIPs demand, and what rule packs do, sentence by sentence."""
