"""What the query keeps of connections and identities between two batches, and how. Knows no Spark."""


class StateError(ValueError):
    """Another kipwatch wrote the stored state, or a part of it is missing; the message says what to do."""
