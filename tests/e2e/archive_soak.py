"""Clients that work at a broker for a long time, while `run --archive` judges them and is killed.

Four accounts count their requests: the broker's request log, the topic of frames, the archive, and the
metrics page. The log lacks requests whose client left before the response: the broker drops it, and logs
nothing.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import HOST, free_ports
from streaming.broker.topics import create_topics
from streaming.demo.progress import scrape
from streaming.demo.road import Child, PacketPipe
from streaming.record.relay import Relay
from streaming.settings.configuration import Configuration
from tests.e2e.archive_rows import rows_of
from tests.e2e.process_tree import children
from tests.e2e.request_counts import Call, LoggedRequests, PublishedRequests, published_requests
from tests.e2e.working_clients import TOPIC
from tests.waiting import until

JUDGED: Final = 600.0
"""Seconds from the start of a query on a busy machine until it has judged what waits."""
ENDED: Final = 60.0
QUIET: Final = 10.0
"""Seconds without a further request after which clients that have stopped count as judged."""
_FRAMES, _FINDINGS = "kipwatch.frames", "kipwatch.findings"

Checks = Counter[tuple[str, str]]
"""Checks by rule and verdict."""


class ArchiveSoak:
    """Broker, relay, feeder and query; a context manager. Clients find the broker at `watched`."""

    def __init__(self, folder: Path) -> None:
        self.archive = folder / "archive"
        self._folder = folder
        self._starts = 0

    def __enter__(self) -> ArchiveSoak:
        with ExitStack() as stack:
            port, relayed, page, feeder_page = free_ports(4)
            broker = stack.enter_context(EmbeddedBroker(port, watched_advertised_port=relayed))
            self._bootstrap = broker.internal
            self._page_at, self._feeder_page_at = f"{HOST}:{page}", f"{HOST}:{feeder_page}"
            self.watched = f"{HOST}:{relayed}"
            _create_topics(broker.internal)
            pipe_end, own_end = os.pipe()
            pipe = PacketPipe(os.fdopen(own_end, "wb"))
            stack.callback(pipe.close)
            feed = ["feed", "-", "--bootstrap", broker.internal, "--ports", str(relayed)]
            feed += ["--feeder-metrics-address", self._feeder_page_at]
            with os.fdopen(pipe_end, "rb") as source:
                self._feeder = stack.enter_context(Child(feed, self._folder / "feed.log", source))
            stack.enter_context(Relay((HOST, port), pipe.write, port=relayed))
            self.logged = LoggedRequests(broker.request_log)
            self._query = self._started()
            stack.callback(self.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def pages(self) -> Configuration:
        """Where Prometheus finds the metrics of query and feeder."""
        return Configuration(metrics_address=self._page_at, feeder_metrics_address=self._feeder_page_at)

    def publish_strangers(self) -> None:
        """Write records that are no blocks into the topic of the frames."""
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for number in range(3):
            producer.produce(_FRAMES, f"stranger {number}".encode())
        assert producer.flush(30) == 0

    def await_validation(self) -> None:
        """Wait until a sample was validated, which is due by the time of batches: clients must work."""
        until(lambda: self._total("kipwatch_validations_total", outcome="done"), JUDGED, *self._processes())

    def stop(self) -> None:
        """Stop the query after its batch."""
        self._query.stop()

    def kill(self, *, amid_files: bool) -> None:
        """Kill the query and start another one; `amid_files`, as soon as a further batch has a first file."""
        if amid_files:
            self._await_file()
        os.kill(self._process(), signal.SIGKILL)
        self._query.wait(ENDED)
        self._query = self._started()

    def settle(self) -> None:
        """Wait until the archive has each request of the log, and gets no more. The caller compares."""
        deadline, found, since = time.monotonic() + JUDGED, Counter[Call](), time.monotonic()
        while time.monotonic() < deadline:
            self._check_running()
            latest = archived(self.archive)
            if latest != found:
                found, since = latest, time.monotonic()
            elif self.logged.calls() <= found and time.monotonic() > since + QUIET:
                return
            time.sleep(1.0)

    def published(self) -> PublishedRequests:
        """Return the requests in the topic of frames."""
        return published_requests(self._bootstrap, _FRAMES)

    def on_page(self) -> Counter[tuple[str, int]]:
        """Return the requests on the metrics page by API and version, of the query that runs now.

        Waits until they are as many as in the archive, which is written first.
        """
        count, deadline = archived(self.archive).total(), time.monotonic() + JUDGED
        while True:
            page = scrape(self._page_at)
            found = page.by("kipwatch_requests_total", "api", "version") if page else {}
            if sum(found.values()) >= count or time.monotonic() > deadline:
                return Counter({(api, int(each)): int(sent) for (api, each), sent in found.items()})
            self._check_running()
            time.sleep(0.2)

    def checks(self) -> tuple[Checks, Checks]:
        """Return the checks of rules in the archive and on the metrics page, of the query that runs now.

        Waits until they are equal, as between two batches. The caller compares: it may take too long.
        """
        deadline = time.monotonic() + JUDGED
        while True:
            found, page = archived_checks(self.archive), scrape(self._page_at)
            by_rule = page.by("kipwatch_rule_checks_total", "rule", "verdict") if page else {}
            shown = +Counter({(rule, verdict): int(count) for (rule, verdict), count in by_rule.items()})
            if found == shown or time.monotonic() > deadline:
                return found, shown
            self._check_running()
            time.sleep(0.2)

    def _process(self) -> int:
        """Return the process of the query, which its guard starts."""
        return until(lambda: children(self._query.process_id), ENDED, *self._processes(), every=0.02)[0]

    def _await_file(self) -> None:
        before = self._files()
        until(lambda: not self._files() <= before, JUDGED, *self._processes(), every=0.02)

    def _total(self, name: str, **labels: str) -> float:
        page = scrape(self._page_at)
        return page.total(name, **labels) if page else 0.0

    def _started(self) -> Child:
        self._starts += 1
        command = ["run", "--bootstrap", self._bootstrap, "--metrics-address", self._page_at]
        command += ["--checkpoint", str(self._folder / "checkpoint"), "--archive", str(self.archive)]
        return Child(command, self._folder / f"run-{self._starts}.log")

    def _files(self) -> set[str]:
        """Return the files of usage, without hidden ones: these are not finished."""
        return {path.name for path in self.archive.glob("usage/*/[!.]*.parquet")}

    def _processes(self) -> tuple[Child, Child]:
        return self._feeder, self._query

    def _check_running(self) -> None:
        for process in self._processes():
            process.check_running()


def archived(folder: Path) -> Counter[Call]:
    """Return the requests that an archive holds; none while a file of it is being replaced."""
    calls: Counter[Call] = Counter()
    for row in rows_of(folder, "usage"):
        calls[row["api"], row["api_version"], row["client_id"] or ""] += row["requests"]
    # Rows of responses to requests of an earlier batch have none.
    return +calls


def archived_checks(folder: Path) -> Checks:
    """Return the checks of rules that an archive holds; none while a file of it is being replaced."""
    checks: Checks = Counter()
    for row in rows_of(folder, "coverage"):
        checks[row["rule"], row["verdict"]] += row["checks"]
    return checks


def _create_topics(bootstrap: str) -> None:
    create_topics(bootstrap, _FRAMES, _FINDINGS)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, 3)]).values():
        created.result()
