"""The JVM of Spark's driver, whose output becomes lines of our log instead of mixing with them."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import threading
from collections import deque
from typing import BinaryIO, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from streaming.log import JVM_LOG
from streaming.query.nameless_user import is_nameless, log_in
from streaming.user_error import UserError

QUIET, TALKATIVE = "FATAL", "INFO"
"""Levels of Spark's own log. We log the end of a query in one line; Spark would log every stack trace."""
_TROUBLE: Final = re.compile(
    r"\b(Error|FATAL|fatal error|OutOfMemory\w*|SIG[A-Z]{3,4})\b|Exception in thread|[Ii]nvalid"
)
_REMEMBERED: Final = 20
"""Lines of output among which the reason of a failed start is looked for."""


def start_context(conf: SparkConf) -> SparkContext:
    """Start Spark in a JVM of its own, whose output is logged: trouble as warnings, all else for debugging.

    A JVM that exists is used as it is: that of spark-submit, or of an earlier context of this process. Raises
    UserError if the JVM does not start.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        context = SparkContext.getOrCreate(conf)
    else:
        context = SparkContext(conf=conf, gateway=_launch(conf))
    context.setLogLevel(TALKATIVE if JVM_LOG.logger.isEnabledFor(logging.DEBUG) else QUIET)
    return context


def _launch(conf: SparkConf) -> object:
    reading, writing = os.pipe()
    output = _Output(os.fdopen(reading, "rb"))
    try:
        gateway = launch_gateway(conf, {"stdout": writing, "stderr": subprocess.STDOUT})
    except PySparkRuntimeError:
        os.close(writing)
        writing = -1
        output.join()
        raise UserError(f"Spark's JVM did not start: {output.trouble()}") from None
    finally:
        if writing >= 0:
            os.close(writing)
    if is_nameless():
        log_in(gateway)
    return gateway


class _Output(threading.Thread):
    """Logs the output of a JVM until it ends."""

    def __init__(self, lines: BinaryIO) -> None:
        super().__init__(name="jvm-output", daemon=True)
        self._lines = lines
        self._latest: deque[str] = deque(maxlen=_REMEMBERED)
        self.start()

    def run(self) -> None:
        with self._lines:
            for line in self._lines:
                text = line.decode(errors="replace").strip()
                if text:
                    self._latest.append(text)
                    log = JVM_LOG.warning if _TROUBLE.search(text) else JVM_LOG.debug
                    log("output", line=text)

    def trouble(self) -> str:
        """Return the line that best says why the JVM ended."""
        trouble = (line for line in self._latest if _TROUBLE.search(line))
        return next(trouble, self._latest[-1] if self._latest else "it printed nothing")
