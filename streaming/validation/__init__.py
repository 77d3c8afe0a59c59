"""Live validation: a sample of batches against the suites of Great Expectations, beside the query."""
