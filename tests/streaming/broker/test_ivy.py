"""What is read of Ivy's output, and the pins."""

from xml.etree import ElementTree

from streaming.broker.ivy import PINS, error_in, progress


def test_every_dependency_is_pinned_to_one_version_in_one_configuration() -> None:
    dependencies = ElementTree.parse(PINS).getroot().findall("dependencies/dependency")
    pins = {(d.get("conf"), d.get("name")): d.get("rev", "") for d in dependencies}
    assert len(pins) == len(dependencies)
    assert all(version[0].isdigit() and not set(version) & set("[](),+") for version in pins.values())
    assert pins["broker->default", "kafka_2.13"] == "4.4.0"
    assert pins["connector->default", "spark-sql-kafka-0-10_2.13"] == "4.2.0"


def test_the_settings_name_no_host() -> None:
    assert "://" not in PINS.with_name("ivysettings.xml").read_text()


def test_progress_is_read_from_the_lines_of_ivy() -> None:
    assert progress("\tfound org.apache.kafka#kafka-clients;4.4.0 in central\n") == (
        "found",
        "kafka-clients 4.4.0",
    )
    assert progress(
        "\t[SUCCESSFUL ] org.xerial.snappy#snappy-java;1.1.10.7!snappy-java.jar(bundle) (158ms)\n"
    ) == (
        "fetched",
        "snappy-java 1.1.10.7",
    )
    assert progress(":: resolution report :: resolve 48770ms :: artifacts dl 9731ms\n") is None
    assert progress("\n") is None


def test_the_cause_is_preferred_to_its_consequence() -> None:
    refused = (
        "Server access error at url https://example.org/x.pom (java.net.ConnectException: Connection refused)"
    )
    missing = "module not found: org.apache.kafka#kafka_2.13;4.4.0"
    assert error_in([missing, "", refused]) == refused
    assert error_in(["", missing]) == missing
    assert error_in(["something else", ""]) == "something else"
    assert error_in([]) == "Ivy printed nothing"
