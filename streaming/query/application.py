"""The application: runs the query, its sinks and its metrics endpoint from start to stop.

| state | meanwhile | becomes |
|---|---|---|
| starting | serves metrics, creates topics, starts Spark; `stop` raises KeyboardInterrupt | running |
| running | the query processes batches | finishing at `stop`, or at `reload` if decisions have changed |
| running | the query ends by itself | pausing if the reason is transient, otherwise failed |
| finishing | waits for the batch under way, so that it is not judged again | stopped, or running anew |
| pausing | waits for the next of PAUSES before a restart | running; stopped after `stop` |
| failed | `run` raises UserError with the reason | |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from itertools import chain, repeat
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.archive.archive import Archive, DailyCompaction
from streaming.audit.live_validation import MOST, LiveValidation
from streaming.broker.topics import create_missing, create_topics, quarantine_topic
from streaming.judging.report import Report
from streaming.log import QUERY_LOG
from streaming.metrics.exposition import Exposition, serve
from streaming.query.application_metrics import ApplicationMetrics, MetricsSink
from streaming.query.batch_limit import BatchLimit
from streaming.query.exit_reason import CHECKPOINT_GONE, UNKNOWN, explain
from streaming.query.overview import Overview
from streaming.query.progress import (
    ClockWatch,
    KafkaWatch,
    ProgressListener,
    Readiness,
    StartLog,
    is_healthy,
)
from streaming.query.query import BatchReports, ended_because, reports_of, start_query
from streaming.query.session import spark_session
from streaming.query.topic_sinks import FindingsSink, QuarantineSink
from streaming.settings.address import host_and_port
from streaming.settings.confidential import tls_context
from streaming.settings.configuration import Configuration
from streaming.settings.decisions import Decisions, take_over
from streaming.settings.release import load_schemas
from streaming.user_error import UserError

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds to wait before each restart of a query that ended for a transient reason."""
POLL_SECONDS = 0.2
LAST_BATCH_SECONDS = 30.0
"""How long `stop` waits for the batch under way."""


class Application:
    """Runs the query until `stop` is called or the query fails for a reason that is not transient."""

    def __init__(
        self,
        configuration: Configuration,
        configure: Callable[[], Configuration],
        has_checkpoint: Callable[[], bool] = lambda: True,
    ) -> None:
        """`configure` reads the configuration again; it raises UserError if it is invalid.

        `has_checkpoint` tells whether the folder of the checkpoint is still that of the start.
        """
        self._configuration, self._configure = configuration, configure
        self._has_checkpoint = has_checkpoint
        self._decisions = Decisions(configuration)
        schemas = load_schemas(configuration.schemas)
        self._metrics = ApplicationMetrics(
            [rule.id for rule in self._decisions.rules],
            version=version("kipwatch"),
            kafka=schemas.release,
            schemas=schemas,
            label_limit=configuration.label_limit,
        )
        self._sink = MetricsSink(self._metrics)
        self._readiness = Readiness()
        self._findings: FindingsSink
        self._quarantine: QuarantineSink
        folder = configuration.archive
        self._archive = Archive(folder, schemas.api_names) if folder else None
        self._compaction = DailyCompaction(self._archive) if self._archive else None
        self._limit = BatchLimit(configuration.frames_per_batch)
        self._progress = ProgressListener(self._metrics, self._limit)
        self._validation = LiveValidation(configuration, self._metrics, lambda: self._progress.batch_seconds)
        self._skips_lost = False
        self._started = False
        self._latest_batch = -1
        self._has_judged = False
        self._created_at = time.monotonic()
        self._kafka_watch = KafkaWatch(
            configuration.bootstrap,
            configuration.frames_topic,
            configuration.kafka,
            lambda: self._progress.latest_batch_at or self._created_at,
            self._progress,
        )
        self._clock_watch = ClockWatch()
        self._overview = Overview(self._metrics, lambda: self._kafka_watch.trouble)
        self._stopping, self._reloading = threading.Event(), threading.Event()

    def run(self) -> None:
        """Serve metrics, run the query, return when stopped.

        Raises UserError if the address is in use, Java or jars are missing, or the query failed.
        """
        settings = self._configuration
        names = settings.frames_topic, settings.findings_topic
        with ExitStack() as stack:
            stack.enter_context(self._kafka_watch)
            stack.callback(self._validation.close)
            stack.callback(self._serve().close)
            create_topics(settings.bootstrap, *names, settings.topics, settings=settings.kafka)
            self._findings = FindingsSink(settings.bootstrap, settings.findings_topic, settings.kafka)
            self._quarantine = QuarantineSink(
                settings.bootstrap, settings.quarantine_topic, settings.kafka, self._quarantine_problem()
            )
            QUERY_LOG.info("starting-spark", metrics=settings.metrics_address)
            self._run_until_stopped(stack.enter_context(spark_session(settings)))

    def _quarantine_problem(self) -> str:
        """Create the quarantine's topic. Returns why that is impossible: judging needs no quarantine."""
        settings = self._configuration
        try:
            wanted = quarantine_topic(settings.quarantine_topic, settings.topics)
            create_missing(settings.bootstrap, settings.kafka, wanted)
        except UserError as error:
            return str(error)
        return ""

    def stop(self) -> None:
        """Ask `run` to return after the batch under way; for use in a signal handler.

        Raises KeyboardInterrupt if the query has not started, since there is no batch to finish.
        """
        if not self._started:
            raise KeyboardInterrupt
        self._stopping.set()

    def reload(self) -> None:
        """Ask `run` to take over changed decisions after the batch under way; for use in a signal handler."""
        self._reloading.set()

    def _serve(self) -> Exposition:
        host, port = host_and_port(self._configuration.metrics_address)
        return serve(
            self._metrics.registry,
            port,
            self._is_healthy,
            self._is_ready,
            page=self._overview.page,
            host=host,
            make_context=tls_context(self._configuration.metrics_tls),
        )

    def _run_until_stopped(self, session: SparkSession) -> None:
        self._started = True
        session.streams.addListener(self._progress)
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            error_text = self._run_once(session)
            if error_text is None:
                break
            self._handle_exit(error_text)
            if self._stopping.wait(pause):
                break
            # A restarted query has as long for its next batch as one that Kafka has just answered.
            self._kafka_watch.record_wait()
        QUERY_LOG.info("stopped", batch=self._latest_batch)

    def _run_once(self, session: SparkSession) -> str | None:
        """Run the query. Return Spark's text on why it ended by itself, None if it was stopped."""
        try:
            query, start_log = self._start(session), StartLog(session)
            while query.isActive:
                if self._stopping.wait(POLL_SECONDS):
                    self._finish(query)
                    return None
                if not self._has_checkpoint():
                    query.stop()
                    return CHECKPOINT_GONE
                if self._must_restart():
                    self._finish(query)
                    query = self._start(session)
                if not self._has_judged:
                    start_log.poll()
            return ended_because(query, session)
        except (Py4JError, PySparkException, OSError) as error:
            # A signal to the whole process group may have ended Spark first.
            return None if self._stopping.is_set() else f"{type(error).__name__}: {error}"

    def _start(self, session: SparkSession) -> Any:
        # Once behind the loss, the query must tell any other one.
        self._skips_lost = self._configuration.after_loss and not self._progress.has_advanced
        query = start_query(
            reports_of(
                session, self._configuration, terms=self._decisions.terms, skips_lost=self._skips_lost
            ),
            self._configuration,
            partial(self._process_batch, session),
            self._limit,
        )
        QUERY_LOG.info("started", id=str(query.id), checkpoint=self._configuration.checkpoint)
        return query

    def _must_restart(self) -> bool:
        """Whether to start the query anew, after the batch under way and in the same session."""
        set_back = self._clock_watch.set_back(time.time(), time.monotonic())
        if set_back:
            QUERY_LOG.warning("clock-set-back", seconds=round(set_back))
        decisions_have_changed = self._reloading.is_set() and self._take_over_decisions()
        is_past_loss = self._skips_lost and self._progress.has_advanced
        return is_past_loss or decisions_have_changed or bool(set_back)

    def _take_over_decisions(self) -> bool:
        """Read the decisions again; return whether they changed. Invalid ones leave those in force."""
        self._reloading.clear()
        try:
            configuration, others = take_over(self._configuration, self._configure())
            decisions = Decisions(configuration)
        except UserError as error:
            QUERY_LOG.error("decisions-refused", line=str(error))
            return False
        changed = configuration != self._configuration or decisions.owners != self._decisions.owners
        self._configuration, self._decisions = configuration, decisions
        self._metrics.add_rules(rule.id for rule in decisions.rules)
        QUERY_LOG.info(
            "decisions-reloaded", changed=changed, needs_restart=others, warnings=decisions.expired()
        )
        return changed

    def _finish(self, query: Any) -> None:
        """Stop the query after the batch under way, so that this is not judged again after a restart."""
        latest, deadline = self._progress.latest_batch_at, time.monotonic() + LAST_BATCH_SECONDS
        while query.status["isTriggerActive"] and self._progress.latest_batch_at == latest:
            if not query.isActive or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        query.stop()

    def _handle_exit(self, error_text: str) -> None:
        """Log and count why the query ended by itself. Raises UserError unless the reason is transient."""
        reason, line = explain(error_text)
        self._metrics.count_exit(reason)
        detail = {"detail": error_text} if reason is UNKNOWN else {}
        log = QUERY_LOG.warning if reason.transient else QUERY_LOG.error
        log("ended", reason=reason.name, line=line, **detail)
        if not reason.transient:
            raise UserError(f"the query stopped: {line}")
        self._kafka_watch.record_wait()

    def _process_batch(self, session: SparkSession, batch_id: int, batch_reports: Iterator[Report]) -> None:
        sampled = MOST if self._validation.is_due() else 0
        batch = BatchReports(batch_reports, keeps_findings=self._archive is not None, sampled=sampled)
        findings = self._overview.findings.noting(batch.findings())
        self._metrics.findings_refused.inc(self._findings.write(findings))
        if self._archive is not None and self._compaction is not None:
            # The session has one query, which is active before its first batch.
            query = str(session.streams.active[0].id)
            written = self._archive.write(query, batch_id, batch.reports, findings=batch.kept_findings())
            self._compaction.after_batch(query, batch_id, written.day)
            if written.further:
                QUERY_LOG.warning("archive-further-days", batch=batch_id, rows=written.further)
        self._sink.add_batch(batch_id, batch.reports, self._quarantine.write(batch.reports))
        self._readiness.record_batch(batch_id, time.monotonic())
        self._latest_batch = batch_id
        for report in batch.reports:
            if report.refusal:
                QUERY_LOG.warning("refused", batch=batch_id, line=f"a record of the topic: {report.refusal}")
        if batch.frames:
            self._has_judged = True
            if sampled:
                self._validation.begin(batch.reports, batch.sample)
        if batch.frames or batch.found:
            counts = {"frames": batch.frames, "findings": batch.found, "undecodable": batch.undecodable}
            QUERY_LOG.info("batch", batch=batch_id, **counts)

    def _is_healthy(self) -> bool:
        latest_batch_at, kafka_away_at = self._progress.latest_batch_at, self._kafka_watch.away_at
        return is_healthy(self._created_at, latest_batch_at, kafka_away_at, time.monotonic())

    def _is_ready(self) -> bool:
        return self._readiness.is_ready
