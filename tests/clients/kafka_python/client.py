"""The workload by kafka-python."""

from __future__ import annotations

import os
import sys
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

RECORDS = 50
SECURITY: dict[str, Any] = {}
if user := os.environ.get("CLIENT_USER"):
    SECURITY |= {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    SECURITY |= {"sasl_plain_username": user, "sasl_plain_password": os.environ["CLIENT_PASSWORD"]}
if authority := os.environ.get("CLIENT_CA"):
    SECURITY |= {"security_protocol": "SSL", "ssl_cafile": authority}


def administer(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="kafka-python-admin", **SECURITY)
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    admin.list_topics()
    admin.describe_cluster()
    admin.close()


def produce(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, client_id="kafka-python-producer", **SECURITY)
    for number in range(RECORDS):
        producer.send(topic, f"record {number}".encode()).get(30)
    producer.close()


def send_unacknowledged(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, client_id="kafka-python-unacknowledged", acks=0, **SECURITY
    )
    for number in range(10):
        producer.send(topic, f"record {number}".encode()).get(30)
    producer.close()


def consume(bootstrap: str, topic: str) -> None:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        client_id="kafka-python-classic",
        group_id=f"{topic}-classic",
        auto_offset_reset="earliest",
        **SECURITY,
    )
    left = RECORDS
    while left > 0:
        left -= sum(map(len, consumer.poll(500).values()))
    consumer.commit()
    consumer.close()


STEPS = {"administer": administer, "produce": produce, "consume": consume, "acks-0": send_unacknowledged}


def main() -> None:
    bootstrap, topic, *steps = sys.argv[1:]
    for step in steps:
        STEPS[step](bootstrap, topic)


if __name__ == "__main__":
    main()
