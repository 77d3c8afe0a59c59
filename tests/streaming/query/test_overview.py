"""The page at /: true while kipwatch starts, judges, lags and stands still, and unmoved by hostile names."""

from __future__ import annotations

import html
import json
import re
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from dashboards.links import FINDINGS_OF_LABEL
from decoders.schema.registry import default_schemas
from expectations.judging.finding import Finding
from expectations.judging.outcome import Offence
from expectations.report.live_page import REFRESH_SECONDS
from expectations.rules.base.reason import Reason
from expectations.rules.catalogue import RULES
from streaming.check.examination import Examination, examine
from streaming.judging.report import OpenConnections, Report
from streaming.metrics.exposition import Exposition, serve
from streaming.query.application_metrics import ApplicationMetrics, MetricsSink
from streaming.query.overview import BEHIND_AFTER, SILENT_AFTER, Overview
from streaming.query.progress import STALLED_AFTER
from streaming.query.recent import MOST, WINDOW_MINUTES, Recent
from tests.captures import planted
from tests.dashboards.test_site_in_browser import CHROMIUM, FRAMES, PHONE, TOLD, document
from tests.expectations.report.test_page import outline_of

RULE, BROKERS_RULE = "kip35/version-out-of-range", "kip35/range-inverted"
LISTENER = "10.0.0.2:9092"
HOSTILE = "<script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">&lt;\x1b[2J\u202e"
"""Markup, an entity, and characters that act on a terminal or turn the text around."""


class Query:
    """The page of a query that has judged what a test lets it."""

    def __init__(self) -> None:
        self.metrics = ApplicationMetrics([rule.id for rule in RULES], version="0.1.0", kafka="4.4.0")
        self._sink, self.overview, self._batches = MetricsSink(self.metrics), Overview(self.metrics), 0

    def judge(self, *offences: Offence, delay: float = 1.0, findings: Sequence[Finding] = ()) -> None:
        """Finish a batch in which each offence occurred once."""
        list(self.overview.findings.noting(findings))
        now = time.time()
        checks = {offence.rule: {"violates": 1} for offence in offences}
        checks["kip35/version-refused"] = {"conforms": 4, "no-response": 2, "cut": 1}
        report = Report(
            0,
            checks_at={LISTENER: checks},
            offences=[*Counter(offences).items()],
            frames={"Metadata": {"request": 7}},
            captured={int((now - delay) * 10): 7},
            open_connections=[OpenConnections("sarama", "1.42", LISTENER, 3)],
        )
        self._sink.add_batch(self._batches, [report])
        self._batches += 1
        self.metrics.last_batch_timestamp.set(now)

    def page(self, refreshes: bool = True) -> str:
        return self.overview.page(refreshes)


@pytest.fixture
def query() -> Query:
    return Query()


@pytest.fixture(scope="module")
def examination() -> Examination:
    return examine(planted.CAPTURE, default_schemas())


def offence(software: str = "sarama", *, rule: str = RULE, role: str = "client") -> Offence:
    return Offence(rule, "violation", role, software, "1.42", listener=LISTENER)


def state(page: str) -> tuple[str, str]:
    """The colour and the sentence that say whether kipwatch judges."""
    ((colour, sentence),) = re.findall(r'<p class="state (\w+)">(.*?)</p>', page)
    return colour, html.unescape(sentence)


def section(page: str, place: str) -> str:
    return page[page.index(f'<section id="{place}">') :].partition("</section>")[0]


def words(part: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", part)).split())


def at(monkeypatch: pytest.MonkeyPatch, later: float) -> None:
    """Let the page be asked for so many seconds later."""
    now = time.time() + later
    monkeypatch.setattr("streaming.query.overview.time.time", lambda: now)


def test_a_query_that_has_judged_nothing_says_so_instead_of_good_news(query: Query) -> None:
    page = query.page()
    assert state(page) == ("undecided", "kipwatch starts: nothing is judged yet.")
    assert "Nothing is known." in section(page, "now") and "conforms" not in section(page, "now")


def test_a_query_that_judges_names_what_is_violated_now_and_by_whom(query: Query) -> None:
    query.judge(offence(), offence(), offence("kafka-go"), offence(rule=BROKERS_RULE, role="broker"))
    page = query.page()
    assert state(page)[0] == "conforms"
    now = words(section(page, "now"))
    assert "4 violations" in now
    assert f"{RULE} sarama 1.42 {LISTENER} 2 times 1 s ago" in now
    assert f"{RULE} kafka-go 1.42 {LISTENER} 1 time 1 s ago" in now
    assert f"{BROKERS_RULE} the broker {LISTENER} 1 time 1 s ago" in now
    assert "sarama 1.42 3 3 · ·" in words(section(page, "clients"))


def test_what_was_violated_is_no_longer_now_after_some_minutes(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.judge(offence())
    query.metrics.last_batch_timestamp.set(time.time() + 60 * WINDOW_MINUTES)
    at(monkeypatch, 60 * WINDOW_MINUTES)
    page = query.page()
    assert RULE not in section(page, "now")
    assert "sarama 1.42 3 1 · ·" in words(section(page, "clients")), "the sum since the start stays"


@pytest.mark.parametrize(
    ("later", "batch_later", "expected"),
    [
        (STALLED_AFTER + 5, 0.0, ("violation", "Nothing has been judged since")),
        (SILENT_AFTER + 5, SILENT_AFTER + 4, ("undecided", "No frame has been captured since")),
    ],
    ids=["stands still", "sees nothing"],
)
def test_a_query_that_judges_no_more_says_so(
    query: Query,
    monkeypatch: pytest.MonkeyPatch,
    later: float,
    batch_later: float,
    expected: tuple[str, str],
) -> None:
    query.judge()
    query.metrics.last_batch_timestamp.set(time.time() + batch_later)
    at(monkeypatch, later)
    colour, sentence = state(query.page())
    assert (colour, sentence.startswith(expected[1])) == (expected[0], True), sentence
    assert "Nothing." not in section(query.page(), "now")


def test_offences_of_a_backlog_are_not_told_as_those_of_now(query: Query) -> None:
    query.judge(offence(), delay=3_600)
    colour, sentence = state(query.page())
    assert (colour, "captured at" in sentence) == ("improvement", True)
    assert "Nothing is known." in section(query.page(), "now")
    assert "sarama 1.42 3 1 · ·" in words(section(query.page(), "clients"))
    query.judge(offence(), delay=BEHIND_AFTER - 5)
    assert state(query.page())[0] == "conforms"


def test_a_query_that_kafka_keeps_waiting_says_why(query: Query) -> None:
    query.judge()
    overview = Overview(query.metrics, lambda: "cannot connect to 127.0.0.1:9092")
    colour, sentence = state(overview.page(refreshes=True))
    assert (colour, sentence.endswith("cannot connect to 127.0.0.1:9092.")) == ("violation", True)


def test_a_backlog_that_is_judged_late_hides_no_silence(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A feeder died, and Kafka was away: what it had captured is judged long after, and nothing follows."""
    query.judge(delay=SILENT_AFTER - BEHIND_AFTER)
    assert state(query.page())[0] == "improvement"
    query.metrics.last_batch_timestamp.set(time.time() + BEHIND_AFTER + 5)
    at(monkeypatch, BEHIND_AFTER + 6)
    colour, sentence = state(query.page())
    assert (colour, sentence.startswith("No frame has been captured since")) == ("undecided", True)


def test_frames_that_wait_for_the_first_batch_are_no_sign_of_a_missing_feeder(query: Query) -> None:
    query.metrics.last_batch_timestamp.set(time.time())
    assert "is a feeder running" in state(query.page())[1]
    query.metrics.topic_lag.set(3)
    assert state(query.page()) == ("undecided", "The first frames wait to be judged.")


def test_a_lag_that_nobody_knows_yet_is_no_number(query: Query) -> None:
    query.judge()
    assert "frames waiting unknown" in words(query.page())
    query.metrics.topic_lag.set(1_200)
    assert "frames waiting about 1,200" in words(query.page())


def test_an_undecided_rule_says_why_and_how_often(query: Query) -> None:
    query.judge()
    rules = section(query.page(), "rules")
    why = f"undecided: {Reason.NO_RESPONSE.meaning} (2); {Reason.CUT.meaning} (1)"
    assert f"version-refused conforms 4 0 3 {why}" in words(rules)
    assert rules.count("undecided: ") == 1
    assert "member-id-empty not exercised 0 0 0" in words(rules)


def test_a_storm_against_one_rule_hides_no_finding_of_another(query: Query, examination: Examination) -> None:
    first, *_, other = sorted(examination.findings, key=lambda finding: finding.rule)
    storm = [msgspec.structs.replace(first, id=str(number)) for number in range(10_000)]
    query.judge(findings=[other, *storm])
    found = section(query.page(), "findings")
    assert f"<code>{other.rule}</code>" in found
    assert found.count(f'<summary><span class="level {first.level}">') <= 4


def test_an_alert_leads_to_the_findings_of_its_rule(query: Query, examination: Examination) -> None:
    """Each rule has one place, however many clients broke it."""
    query.judge(findings=examination.findings)
    found = section(query.page(), "findings")
    for rule in {finding.rule for finding in examination.findings}:
        anchor = FINDINGS_OF_LABEL.replace(
            '{{ $labels.rule | reReplaceAll "/" "-" }}', rule.replace("/", "-")
        )
        _, place, after = found.partition(f'<a id="{anchor}"></a>')
        assert place and place not in after
        assert f"<code>{rule}</code>" in after.partition("</summary>")[0]


def test_a_finding_shows_its_frame(query: Query, examination: Examination) -> None:
    evidence = msgspec.structs.replace(
        examination.findings[0].evidence, source="kipwatch.frames", partition=2, offset=17, row=5, packet=None
    )
    query.judge(findings=[msgspec.structs.replace(examination.findings[0], evidence=evidence)])
    found = words(section(query.page(), "findings"))
    assert "row 5 of the block kipwatch.frames 2:17" in found
    assert f"begins with {evidence.bytes}" in found


def test_offenders_are_bounded_and_further_ones_are_others() -> None:
    recent = Recent()
    recent.add_frames(1_000.0, 999.0)
    for number in range(3 * MOST):
        recent.add(offence(f"name-{number}"), 1)
    found = recent.offenders(1_001.0)
    assert len(found) == MOST + 1 and sum(each.times for each in found) == 3 * MOST
    assert max(found, key=lambda each: each.times).software == ("other", "other")


def hostile(examination: Examination) -> Query:
    """A query whose findings carry hostile text wherever a stranger chooses it."""
    query = Query()
    chosen = dict.fromkeys(("message", "expected", "observed", "client_id", "principal", "owner"), HOSTILE)
    chosen |= dict.fromkeys(("client_software_name", "client_software_version"), HOSTILE)
    findings = [msgspec.structs.replace(each, **chosen) for each in examination.findings]
    query.judge(offence(HOSTILE), offence("x" * 10_000), findings=findings)
    return query


def test_names_from_the_wire_are_text_and_the_page_asks_for_nothing(examination: Examination) -> None:
    page = hostile(examination).page()
    outline = outline_of(page)
    names = {name for name, _ in outline.attributes}
    assert names.isdisjoint({"src", "onerror", "onclick"})
    links = {value or "" for name, value in outline.attributes if name == "href"}
    assert {link for link in links if not link.startswith("#")} == {"./?still"}
    places = [value for name, value in outline.attributes if name == "id"]
    assert len(places) == len(set(places)) and {f"#{place}" for place in places} >= links - {"./?still"}
    assert not re.search(r"url\(|@import|<script|https?:", page)
    assert "\x1b" not in page and "\u202e" not in page
    assert "document.title='ran'" in "".join(outline.text)


@pytest.fixture
def served(query: Query) -> Iterator[Exposition]:
    query.judge(offence())
    registry = query.metrics.registry
    with closing(serve(registry, 0, lambda: True, lambda: True, page=query.overview.page)) as exposition:
        yield exposition


def got(exposition: Exposition, path: str) -> tuple[str, str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{exposition.port}{path}", timeout=10) as response:
        return response.read().decode(), response.headers["Content-Security-Policy"]


def test_the_page_is_served_beside_the_metrics_and_may_run_nothing(served: Exposition) -> None:
    page, policy = got(served, "/")
    assert f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">' in page and "sarama" in page
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert "http-equiv" not in got(served, "/?still")[0]
    with pytest.raises(urllib.error.HTTPError, match="404") as missing:
        got(served, "/index.html")
    assert missing.value.read().decode() == "not found: there are /metrics, /, /healthz and /readyz\n"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(CHROMIUM is None, reason="apt-get install --no-install-recommends chromium")
@pytest.mark.parametrize("make", [hostile, lambda _: Query()], ids=["hostile", "empty"])
def test_in_a_browser_nothing_runs_and_nothing_is_wider_than_a_phone(
    make: Callable[[Examination], Query], examination: Examination, tmp_path: Path
) -> None:
    page = make(examination).page(refreshes=False)
    (tmp_path / "page.html").write_text(page.replace("</head>", f"{TOLD}</head>", 1))
    (tmp_path / "frames.html").write_text(FRAMES % (json.dumps(["page.html"]), PHONE))
    (text,) = re.findall(
        r'<pre id="found">(.*?)</pre>', document(f"file://{tmp_path}/frames.html", 60_000), re.DOTALL
    )
    assert json.loads(html.unescape(text))["page.html"]["width"] <= PHONE
    (tmp_path / "still.html").write_text(page)
    assert "<title>kipwatch</title>" in document(f"file://{tmp_path}/still.html", 5_000)
