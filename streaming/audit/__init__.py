"""Frames topic, archive and samples of batches against the suites of Great Expectations, without Spark."""
