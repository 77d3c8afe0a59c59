"""One step of a bucket: windows of frames → verdicts, counted and reported. Knows no Spark."""
