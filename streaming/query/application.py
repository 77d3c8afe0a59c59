"""The application: the query, its sinks and its metrics address, from start to stop."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

from decoders.schema.registry import default_schemas
from expectations.catalogue import RULES
from streaming.broker.jars import jars
from streaming.broker.topics import create_topics
from streaming.configuration import Configuration, host_and_port
from streaming.exposition import Exposition, serve
from streaming.failure import UserError
from streaming.metrics import ApplicationMetrics
from streaming.query.bucket import Report
from streaming.query.findings_sink import FindingsSink
from streaming.query.metrics_sink import MetricsSink
from streaming.query.progress import ProgressListener
from streaming.query.query import start_query
from streaming.query.session import make_session

STALLED_AFTER = 60.0
"""Seconds without a finished batch after which the application is no longer healthy."""


class Application:
    """Runs until `stop` is called or the query dies."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._metrics = ApplicationMetrics(
            [rule.id for rule in RULES], version=version("kipwatch"), kafka=default_schemas().release
        )
        self._sink = MetricsSink(self._metrics)
        self._findings: FindingsSink
        self._progress = ProgressListener(self._metrics)
        self._begun = False
        self._stopping = threading.Event()

    def run(self) -> None:
        """Serve metrics, run the query, return when stopped.

        Raises UserError when the address is taken, Java or jars are missing, or the query died.
        """
        settings = self._configuration
        with ExitStack() as stack:
            stack.callback(self._serve().close)
            create_topics(settings.bootstrap, settings.frames_topic, settings.findings_topic)
            self._findings = FindingsSink(settings.bootstrap, settings.findings_topic)
            scratch = Path(stack.enter_context(TemporaryDirectory(prefix="kipwatch-run-")))
            session = make_session(jars("connector"), settings.shuffle_partitions, scratch)
            stack.callback(session.stop)
            self._follow(session)

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
        query = start_query(session, self._configuration, self._configuration.checkpoint, self._take)
        print(json.dumps({"query": "started", "id": str(query.id)}), flush=True)
        while not self._stopping.wait(0.2):
            if not query.isActive:
                raise UserError(f"the query stopped: {_first_line(query.exception())}")
        query.stop()

    def _take(self, batch_id: int, reports: Iterator[Report]) -> None:
        taken = list(reports)
        findings = [finding for report in taken for finding in report.findings]
        self._findings.write(findings)
        self._sink.take(batch_id, taken)
        frames = sum(sum(kinds.values()) for report in taken for kinds in report.frames.values())
        if frames:
            print(json.dumps({"batch": batch_id, "frames": frames, "findings": len(findings)}), flush=True)

    def _is_healthy(self) -> bool:
        latest = self._progress.latest_batch_at
        return not latest or time.time() - latest < STALLED_AFTER

    def _is_ready(self) -> bool:
        return self._progress.latest_batch_at > 0


def _first_line(error: Any) -> str:
    return str(error).splitlines()[0] if error else "no reason given"
