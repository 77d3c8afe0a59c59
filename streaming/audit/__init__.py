"""The latest records of the frames topic against the Great Expectations suite, without Spark."""
