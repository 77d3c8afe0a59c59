"""What a rule is, and bases for rules of several KIPs."""
