"""Topic records and what may be kept of frames, a column at a time."""
