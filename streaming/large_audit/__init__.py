"""The frames topic and the archive audited at any size: in Spark, chunk by chunk."""
