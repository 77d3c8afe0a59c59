"""Real client libraries at real brokers: each is captured, compared with the broker's log, and judged."""
