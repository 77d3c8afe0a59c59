"""The application: the query, its sinks and its metrics address, from start to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from itertools import chain, repeat
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from streaming.broker.topics import create_topics
from streaming.judging.report import Report
from streaming.metrics.exposition import Exposition, serve
from streaming.query.application_metrics import ApplicationMetrics
from streaming.query.exit_reason import UNKNOWN, explain
from streaming.query.findings_sink import FindingsSink
from streaming.query.health import is_healthy
from streaming.query.log import tell
from streaming.query.metrics_sink import MetricsSink
from streaming.query.progress import ProgressListener
from streaming.query.query import reports_of, start_query
from streaming.query.readiness import Readiness
from streaming.query.session import spark_session
from streaming.settings.configuration import Configuration, host_and_port
from streaming.settings.decisions import Decisions
from streaming.settings.release import load_schemas
from streaming.user_error import UserError

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before the query is started again when it ended for a reason that passes."""
LOOK_SECONDS = 0.2
LAST_BATCH_SECONDS = 30.0
"""How long a stop waits for the batch under way."""


class Application:
    """Runs until `stop` is called or the query dies."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        release = load_schemas(configuration.schemas).release
        self._metrics = ApplicationMetrics(
            [rule.id for rule in Decisions(configuration).rules],
            version=version("kipwatch"),
            kafka=release,
            label_limit=configuration.label_limit,
        )
        self._sink = MetricsSink(self._metrics)
        self._readiness = Readiness()
        self._findings: FindingsSink
        self._progress = ProgressListener(self._metrics)
        self._begun = False
        self._latest_batch = -1
        self._created_at = time.time()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Serve metrics, run the query, return when stopped.

        Raises UserError when the address is taken, Java or jars are missing, or the query died.
        """
        settings = self._configuration
        topics = settings.frames_topic, settings.findings_topic
        with ExitStack() as stack:
            stack.callback(self._serve().close)
            create_topics(settings.bootstrap, *topics, settings=settings.kafka)
            self._findings = FindingsSink(settings.bootstrap, settings.findings_topic, settings.kafka)
            self._follow(stack.enter_context(spark_session(settings)))

    def stop(self) -> None:
        """Ask `run` to return after the batch under way; meant for a signal handler.

        Before the query has begun there is no batch to finish: raises KeyboardInterrupt, at once.
        """
        if not self._begun:
            raise KeyboardInterrupt
        self._stopping.set()

    def _serve(self) -> Exposition:
        host, port = host_and_port(self._configuration.metrics_address)
        return serve(self._metrics.registry, port, self._is_healthy, self._is_ready, host=host)

    def _follow(self, session: SparkSession) -> None:
        self._begun = True
        session.streams.addListener(self._progress)
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            told = self._run_once(session)
            if told is not None:
                self._hear_ending(told)
            if told is None or self._stopping.wait(pause):
                break
        tell("stopped", batch=self._latest_batch)

    def _run_once(self, session: SparkSession) -> str | None:
        """Give all that is said of why the query ended by itself, None if it was told to end."""
        try:
            query = self._start(session)
            while query.isActive:
                if self._stopping.wait(LOOK_SECONDS):
                    self._finish(query)
                    return None
            return str(query.exception() or "")
        except (Py4JError, OSError) as error:
            # Where all was told to end, Spark may have done so first.
            return None if self._stopping.is_set() else f"{type(error).__name__}: {error}"

    def _start(self, session: SparkSession) -> Any:
        query = start_query(reports_of(session, self._configuration), self._configuration, self._take)
        tell("started", id=str(query.id), checkpoint=self._configuration.checkpoint)
        return query

    def _finish(self, query: Any) -> None:
        """Let the batch under way come to its end: what was judged is then not judged again."""
        latest, deadline = self._progress.latest_batch_at, time.monotonic() + LAST_BATCH_SECONDS
        while query.status["isTriggerActive"] and self._progress.latest_batch_at == latest:
            if not query.isActive or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        query.stop()

    def _hear_ending(self, told: str) -> None:
        """Tell why the query ended by itself. Raises UserError unless it may be started again."""
        ending, line = explain(told)
        self._metrics.count_ending(ending)
        tell("ended", reason=ending.reason, line=line, **({"detail": told} if ending is UNKNOWN else {}))
        if not ending.passes:
            raise UserError(f"the query stopped: {line}")

    def _take(self, batch_id: int, reports: Iterator[Report]) -> None:
        taken = list(reports)
        findings = [finding for report in taken for finding in report.findings]
        self._findings.write(findings)
        self._sink.take(batch_id, taken)
        self._readiness.note(batch_id, time.monotonic())
        self._latest_batch = batch_id
        frames = sum(sum(kinds.values()) for report in taken for kinds in report.frames.values())
        if frames:
            undecodable = sum(sum(report.undecodable.values()) for report in taken)
            tell("batch", batch=batch_id, frames=frames, findings=len(findings), undecodable=undecodable)

    def _is_healthy(self) -> bool:
        return is_healthy(self._created_at, self._progress.latest_batch_at, time.time())

    def _is_ready(self) -> bool:
        return self._readiness.is_whole
