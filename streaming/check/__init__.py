"""Captures to findings in one process: recordings, examination, summary, evidence."""
