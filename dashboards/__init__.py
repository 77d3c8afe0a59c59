"""Dashboards, alerts, runbook and references as code.

`python -m dashboards.build` writes `generated`, and pages in `docs`. `pages` has the runbook page of each
alert.
"""
