"""What the query stores of connections and identities, and its layout. Knows no Spark."""
