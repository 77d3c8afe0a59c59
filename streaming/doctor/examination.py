"""The examination: what is looked at for the feeder and for the query of a configuration, in order."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka.admin import AclOperation

from streaming.broker.jars import jars
from streaming.broker.java import java
from streaming.doctor import machine
from streaming.doctor.diagnosis import Diagnosis, Verdict, examine
from streaming.doctor.kafka import KafkaDoctor, Use, findings_use, frames_use, quarantine_use
from streaming.doctor.watched_ports import watched_ports
from streaming.settings.configuration import Configuration
from streaming.settings.kafka_client import jvm_options
from streaming.user_error import UserError


def examination(configuration: Configuration, *, feeder: bool, query: bool) -> Iterator[Diagnosis]:
    """Yield what was found, line by line; capturing takes some seconds, Kafka may take some."""
    if query:
        yield from _for_query(configuration)
    yield machine.clock()
    if feeder:
        yield from _for_feeder(configuration)
    yield from _of_kafka(configuration, feeder=feeder, query=query)


def _for_query(configuration: Configuration) -> Iterator[Diagnosis]:
    yield examine("Java", lambda: str(java()))
    yield examine("jars", lambda: f"{len(jars('connector'))} in the cache")
    yield examine("Spark's login to Kafka", lambda: _login(configuration))
    yield machine.checkpoint(configuration.checkpoint)


def _login(configuration: Configuration) -> str:
    protocol = jvm_options(configuration.bootstrap, configuration.kafka).get("kafka.security.protocol")
    return f"by {protocol or 'PLAINTEXT'}"


def _for_feeder(configuration: Configuration) -> Iterator[Diagnosis]:
    if configuration.user:
        yield machine.feeder_user(configuration.user)
    found = [machine.capture_right(), *map(machine.interface, configuration.interface)]
    yield from found
    if all(each.verdict is Verdict.YES for each in found):
        yield from watched_ports(configuration)


def _of_kafka(configuration: Configuration, *, feeder: bool, query: bool) -> Iterator[Diagnosis]:
    try:
        kafka = KafkaDoctor(configuration)
    except UserError as error:
        yield Diagnosis(Verdict.NO, "Kafka", str(error))
        return
    reached = kafka.reach()
    yield reached
    if reached.verdict is not Verdict.NO:
        for use in _uses(configuration, feeder=feeder, query=query):
            yield from kafka.topic(use)


def _uses(configuration: Configuration, *, feeder: bool, query: bool) -> Iterator[Use]:
    if feeder:
        yield frames_use(configuration, AclOperation.WRITE)
    if query:
        yield frames_use(configuration, AclOperation.READ)
        yield findings_use(configuration)
        yield quarantine_use(configuration)
