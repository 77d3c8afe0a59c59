"""`kipwatch record`: relays before the brokers of a cluster, through which a test suite runs."""
