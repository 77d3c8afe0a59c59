"""The session: Spark redacts secrets wherever it shows settings.

A user without a name and a home runs the query, though Hadoop asks the machine for both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from streaming.broker import jars
from streaming.query import session
from streaming.query.session import SECRET, is_nameless, nameless_settings
from streaming.settings.configuration import Configuration
from streaming.settings.kafka_client import Setting, jvm_options
from streaming.user_error import UserError

VARIABLE: Final = "KIPWATCH_TEST_PASSWORD"
SESAME: Final = "sesame"
REFERENCE: Final = f"env:{VARIABLE}"
TABLES: Final[dict[str, dict[str, Setting]]] = {
    "password": {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "watch", "sasl.password": REFERENCE},
    "token": {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "watch",
        "sasl.oauthbearer.client.secret": REFERENCE,
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
    },
    "key": {"ssl.certificate.pem": "certificate", "ssl.key.pem": REFERENCE, "ssl.key.password": REFERENCE},
    "keystore": {"ssl.keystore.location": "/etc/k.p12", "ssl.keystore.password": REFERENCE},
}


@pytest.mark.parametrize("name", TABLES)
def test_every_option_with_a_secret_has_a_name_that_is_redacted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, SESAME)
    options = jvm_options("kafka:9092", TABLES[name])
    secret = [option for option, value in options.items() if SESAME in value]
    assert secret
    assert [option for option in secret if not re.search(SECRET, option)] == []


def test_addresses_and_protocols_are_shown() -> None:
    options: dict[str, Setting] = {"security.protocol": "SSL", "client.id": "kipwatch"}
    assert not [option for option in jvm_options("kafka:9092", options) if re.search(SECRET, option)]


def test_the_session_is_given_the_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own misses what the Kafka source calls its login."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    settings = session._settings(Configuration(), (), tmp_path)
    assert settings["spark.redaction.regex"] == settings["spark.sql.redaction.options.regex"] == SECRET


NAMELESS = 64_999
UNSHARED = ("unshare", "--user", f"--map-user={NAMELESS}")
"""Begins a command of a user without a name, to whom this user's files belong."""


def is_admitted() -> bool:
    try:
        return subprocess.run([*UNSHARED, "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def test_jars_and_home_are_named_so_that_spark_looks_nothing_up(tmp_path: Path) -> None:
    settings = nameless_settings("local[2]", [Path("/a.jar"), Path("/b.jar")], tmp_path, "-Da=b")
    assert settings == {
        "spark.jars": "",
        "spark.driver.extraClassPath": "/a.jar:/b.jar",
        "spark.driver.extraJavaOptions": f"-Da=b -Duser.home={tmp_path}",
    }


def test_a_cluster_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no name on this machine.*/etc/passwd"):
        nameless_settings("spark://master:7077", [], tmp_path, "")


def test_a_user_whom_the_machine_does_not_know_is_nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_nameless()
    monkeypatch.setattr(os, "getuid", lambda: NAMELESS)
    assert is_nameless()


def test_a_cache_without_a_home_is_asked_for_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(UserError, match=r"no home .* XDG_CACHE_HOME"):
        jars.jars("connector")


@pytest.mark.jvm
@pytest.mark.skipif(not is_admitted(), reason="this machine admits no user namespaces")
def test_spark_starts_and_plans_the_query(tmp_path: Path) -> None:
    """The dry run starts Spark with the jars, which is where such users failed."""
    cache = jars.jars("connector")[0].parents[4]
    gone = ("HOME", "USER", "LOGNAME")
    environment = {name: value for name, value in os.environ.items() if name not in gone}
    command = [*UNSHARED, sys.executable, "-m", "kipwatch", "run", "--dry-run"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | {"XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    assert "== Physical Plan ==" in done.stdout
