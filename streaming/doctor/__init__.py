"""`kipwatch doctor --config`: examines what a configuration needs, on this machine and in Kafka."""
