"""Examines what a configuration needs, on this machine and in Kafka: `kipwatch doctor --config`."""
