"""Opens a connection for the bootstrap, and one more to the broker that it learns of."""

from __future__ import annotations

import sys

from kafka.admin import KafkaAdminClient


def main() -> None:
    admin = KafkaAdminClient(bootstrap_servers=sys.argv[1], client_id="kafka-python-admin")
    admin.list_topics()
    admin.close()


if __name__ == "__main__":
    main()
