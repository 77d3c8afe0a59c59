"""Connects, which includes the choice of a version of ApiVersions."""

from __future__ import annotations

import sys

from kafka.admin import KafkaAdminClient


def main() -> None:
    admin = KafkaAdminClient(bootstrap_servers=sys.argv[1], client_id="kafka-python-admin")
    admin.close()


if __name__ == "__main__":
    main()
