"""Configuration, decisions of users about rules, Kafka clients, the release to decode with."""
