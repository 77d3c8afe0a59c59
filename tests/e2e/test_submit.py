"""`kipwatch run` under spark-submit: the same application, in a JVM that starts before it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from decoders.schema.registry import default_schemas
from streaming.bench.traffic import Traffic, publish_blocks
from streaming.broker import child_guard
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.jars import jars
from streaming.broker.topics import create_topics
from streaming.commands import main
from streaming.demo.progress import scrape
from tests.e2e.pages import free_pages
from tests.e2e.process_tree import children
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(400)]

CONNECTIONS = 20
JUDGED, ENDED = 200.0, 60.0
SPARK_HOME = Path(pyspark.__file__).parent


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        create_topics(broker.internal, "kipwatch.frames", "kipwatch.findings")
        publish_blocks(broker.internal, "kipwatch.frames", Traffic(default_schemas(), CONNECTIONS).opening())
        yield broker


class Submitted:
    """A process of spark-submit, with its own log."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, *flags: str) -> None:
        (self.page_at,), self.log = free_pages(1), folder / "submitted.log"
        run = ["run", "--bootstrap", broker.internal, "--checkpoint", str(folder / "checkpoint")]
        run += ["--buckets", "4", "--metrics-address", self.page_at]
        submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]", *flags]
        environment = ["env", f"SPARK_HOME={SPARK_HOME}", f"PYSPARK_PYTHON={sys.executable}"]
        with self.log.open("wb") as output:
            self.guard = child_guard.start([*environment, *submit, str(main.__file__), *run], output)

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def check_running(self) -> None:
        assert self.guard.poll() is None, self.output()[-2000:]

    def line(self) -> str:
        """The one error line of the process, after its end."""
        self.guard.wait(ENDED)
        assert "Traceback" not in self.output()
        (line,) = [line for line in self.output().splitlines() if line.startswith("kipwatch: ")]
        return line


def test_it_judges_and_ends_with_its_jvm(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A service manager stops the JVM, through which the application prints."""
    submitted = Submitted(broker, tmp_path, "--jars", ",".join(str(jar) for jar in jars("connector")))
    try:
        until(lambda: '"query": "batch"' in submitted.output(), JUDGED, submitted)
        page = scrape(submitted.page_at)
        assert page is not None and page.total("kipwatch_open_connections") == CONNECTIONS
        (jvm,) = children(submitted.guard.pid)
        application = children(jvm)[0]
        os.kill(jvm, signal.SIGTERM)
        submitted.guard.wait(ENDED)
        until(lambda: not Path(f"/proc/{application}").exists(), ENDED)
        assert "Traceback" not in submitted.output()
    finally:
        child_guard.stop(submitted.guard)


def test_without_the_jars_it_names_them(broker: EmbeddedBroker, tmp_path: Path) -> None:
    submitted = Submitted(broker, tmp_path)
    try:
        line = submitted.line()
        assert "give spark-submit --jars" in line
        assert all(str(jar) in line for jar in jars("connector"))
    finally:
        child_guard.stop(submitted.guard)
