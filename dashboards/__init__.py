"""What people look at: dashboards, alerts and the runbook, as code.

`pages` holds the runbook page of each alert; `generated` is what `python -m dashboards.build` writes.
"""
