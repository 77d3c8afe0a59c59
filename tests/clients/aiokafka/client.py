"""The workload by aiokafka."""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

RECORDS = 50


async def administer(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, client_id="aiokafka-admin")
    await admin.start()
    await admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    await admin.list_topics()
    await admin.describe_cluster()
    await admin.close()


async def produce(bootstrap: str, topic: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="aiokafka-producer")
    await producer.start()
    for number in range(RECORDS):
        await producer.send_and_wait(topic, f"record {number}".encode())
    await producer.stop()


async def transact(bootstrap: str, topic: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, client_id="aiokafka-transactional", transactional_id=topic
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
