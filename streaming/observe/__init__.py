"""Prometheus and Alertmanager beside a kipwatch: `--observe`."""
