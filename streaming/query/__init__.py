"""The Structured Streaming query: session, stages, checkpoint, status, sinks. All that knows Spark."""
