"""Bugs that others reported and fixed: the affected and the fixed version are captured and judged."""
