"""The configuration: settings, decisions on rules, Kafka clients, the release to decode with."""
