"""Real clients at brokers that seem to misbehave: what they do, by the provocations of `record --provoke`."""
