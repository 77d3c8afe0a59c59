"""Lists the groups of the cluster."""

from __future__ import annotations

import sys

from confluent_kafka.admin import AdminClient


def main() -> None:
    admin = AdminClient({"bootstrap.servers": sys.argv[1], "client.id": "librdkafka-admin"})
    admin.list_consumer_groups(request_timeout=20).result(30)


if __name__ == "__main__":
    main()
