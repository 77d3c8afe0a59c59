"""The base class of rules, and bases for rules of several KIPs."""
