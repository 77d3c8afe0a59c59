"""The workload by aiokafka."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

RECORDS = 50
SECURITY: dict[str, Any] = {}
if user := os.environ.get("CLIENT_USER"):
    SECURITY |= {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    SECURITY |= {"sasl_plain_username": user, "sasl_plain_password": os.environ["CLIENT_PASSWORD"]}
if authority := os.environ.get("CLIENT_CA"):
    SECURITY |= {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(cafile=authority)}


async def administer(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, client_id="aiokafka-admin", **SECURITY)
    await admin.start()
    await admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    await admin.list_topics()
    await admin.describe_cluster()
    await admin.close()


async def produce(bootstrap: str, topic: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="aiokafka-producer", **SECURITY)
    await producer.start()
    for number in range(RECORDS):
        await producer.send_and_wait(topic, f"record {number}".encode())
    await producer.stop()


async def transact(bootstrap: str, topic: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, client_id="aiokafka-transactional", transactional_id=topic, **SECURITY
    )
    await producer.start()
    async with producer.transaction():
        for number in range(10):
            await producer.send_and_wait(topic, f"record {number}".encode())
    await producer.stop()


async def consume(bootstrap: str, topic: str) -> None:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        client_id="aiokafka-classic",
        group_id=f"{topic}-classic",
        auto_offset_reset="earliest",
        **SECURITY,
    )
    await consumer.start()
    left = RECORDS
    while left > 0:
        left -= sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
    await consumer.commit()
    await consumer.stop()


STEPS = {"administer": administer, "produce": produce, "consume": consume, "transact": transact}


async def main() -> None:
    bootstrap, topic, *steps = sys.argv[1:]
    for step in steps:
        await STEPS[step](bootstrap, topic)


if __name__ == "__main__":
    asyncio.run(main())
