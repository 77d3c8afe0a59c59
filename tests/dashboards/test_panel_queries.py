"""Queries of panels and marks, asked by promtool: figures without data, where alerts begin, end and lead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboards.build import artefacts
from dashboards.fleet_queries import RELEASES
from dashboards.layout import annotation_queries
from dashboards.links import PAGE, Addresses
from dashboards.panels import NO_DATA_SINCE, SILENCE, UNKNOWN
from tests.dashboards.dashboard_files import PANELS, filled, leads, queries
from tests.dashboards.prometheus import evaluate
from tests.dashboards.rule_file import RULE_FILE
from tests.dashboards.stored_series import FRAMES

JUDGES = "kipwatch_last_batch_timestamp_seconds"
CAPTURES = "kipwatch_capture_packets_total"
JUDGED = 'kipwatch_detection_delay_seconds_count{job="kipwatch"}'
DIED, ASKED = 60, 75
"""Minutes."""
LATEST_BATCH = 60 * DIED - 30
"""Seconds."""
COLOURED = [
    panel
    for _, panel in PANELS
    if panel["type"] == "stat"
    and panel["options"]["colorMode"] != "none"
    and panel["title"] not in ("Since the last batch", "Offences by level")
]
"""The figures that judge by a source, each with a query of since when that is silent."""
OF_NOW = {"Rules violated now", "Violating now", "Since the last violation", "Undecodable frames"}
OF_KIPWATCH = {
    *("Bytes not captured", "Packets dropped", "Connections that are not Kafka"),
    *("Frames waiting", "Automaton full", "Refused", "Expectations not met", "What validation takes"),
}
OF_RANGE = {panel["title"] for panel in COLOURED} - OF_NOW - OF_KIPWATCH


def test_zeros_of_stats_need_a_kipwatch_that_is_scraped(tmp_path: Path) -> None:
    """With nothing scraped no stat may claim anything, least of all that all is well."""
    asked = [query for _, panel in PANELS if panel["type"] == "stat" for query in queries(panel)]
    says_so = [{"labels": '{kafka="no data"}', "value": 0}]
    silent = [
        {"expr": query, "eval_time": "120m", "exp_samples": says_so if query == filled(RELEASES) else []}
        for query in asked
    ]
    case = {
        "interval": "1m",
        "input_series": [{"series": 'up{job="kipwatch"}', "values": "0x120"}],
        "promql_expr_test": silent,
    }
    evaluate(tmp_path, case, rules=[RULE_FILE])


@pytest.mark.parametrize(
    ("judging", "capturing"),
    [
        (f"-30+60x{DIED} stale", f"0+1x{DIED} stale"),
        (f"-30+60x{DIED} {LATEST_BATCH}x60", "0+1x120"),
    ],
    ids=["gone", "stalled"],
)
def test_no_figure_judges_by_data_that_no_longer_comes(tmp_path: Path, judging: str, capturing: str) -> None:
    """It says since when there is none. A query that stalls is scraped and has zeros as before."""
    moments, silent = [], []
    for panel in COLOURED:
        *asked, since = queries(panel)
        assert panel["targets"][-1]["refId"] == SILENCE
        (override,) = (
            each["properties"]
            for each in panel["fieldConfig"]["overrides"]
            if each["matcher"] == {"id": "byFrameRefID", "options": SILENCE}
        )
        assert override[0]["value"] == NO_DATA_SINCE and override[1]["value"]["fixedColor"] == UNKNOWN
        if JUDGES in since or "stale" in capturing:
            silent += asked
            moments.append(since)
    assert len(moments) > 10
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f'{JUDGES}{{job="kipwatch"}}', "values": judging},
            {"series": f'{CAPTURES}{{job="kipwatch-feeder", fate="tcp"}}', "values": capturing},
            {"series": 'kipwatch_rule_checks_total{job="kipwatch"}', "values": "0x120"},
            {
                "series": 'kipwatch_capture_dropped_packets_total{job="kipwatch-feeder"}',
                "values": "0x60 stale",
            },
            *({"series": frames, "values": f"0+5x{DIED} stale"} for frames in (FRAMES, JUDGED)),
        ],
        "promql_expr_test": [
            *({"expr": query, "eval_time": f"{ASKED}m", "exp_samples": []} for query in silent),
            *(
                {
                    "expr": query,
                    "eval_time": f"{ASKED}m",
                    "exp_samples": [{"labels": "{}", "value": 1000 * at}],
                }
                for query in moments
                for at in [LATEST_BATCH if JUDGES in query else 60 * DIED]
            ),
        ],
    }
    evaluate(tmp_path, case)


@pytest.mark.parametrize(
    ("titles", "one", "known", "asked"),
    [
        (OF_NOW, "Rules violated now", (DIED - 1, DIED + 4), ASKED),
        (OF_RANGE, "Versions that violate", (DIED - 1, DIED + 55), DIED + 70),
    ],
    ids=["now", "range"],
)
def test_no_figure_judges_clients_by_batches_without_frames(
    tmp_path: Path, titles: set[str], one: str, known: tuple[int, int], asked: int
) -> None:
    """Without a feeder the query finishes empty batches, and nothing that is violated can be seen."""
    figures = [(panel["title"], queries(panel)) for panel in COLOURED if panel["title"] in titles]
    assert {title for title, _ in figures} == titles
    (shown, _) = next(asking for title, asking in figures if title == one)
    zeros = [
        {"expr": shown, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": 0}]}
        for minute in known
    ]
    unknown = [
        {"expr": query, "eval_time": f"{asked}m", "exp_samples": []}
        for _, (*judging, _) in figures
        for query in judging
    ]
    said = [
        {
            "expr": f"abs(({since}) - {60 * DIED * 1000}) <= bool 60000",
            "eval_time": f"{asked}m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for _, (*_, since) in figures
    ]
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f'{JUDGES}{{job="kipwatch"}}', "values": "0+60x140"},
            *({"series": frames, "values": f"0+5x{DIED} {5 * DIED}x80"} for frames in (FRAMES, JUDGED)),
            {"series": 'kipwatch_rule_checks_total{job="kipwatch"}', "values": "0x140"},
        ],
        "promql_expr_test": [*zeros, *unknown, *said],
    }
    evaluate(tmp_path, case)


def test_no_connection_is_called_open_while_no_frame_comes(tmp_path: Path) -> None:
    """A feeder that is killed ends no connection, so the query goes on to count them."""
    titles = {"Connections"} | {
        f"Open connections by {what}" for what in ("version", "client software", "listener")
    }
    asked = {panel["title"]: queries(panel)[0] for _, panel in PANELS if panel["title"] in titles}
    assert asked.keys() == titles
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f'{JUDGES}{{job="kipwatch"}}', "values": "0+60x120"},
            {"series": FRAMES, "values": f"0+5x{DIED} {5 * DIED}x60"},
            {"series": 'kipwatch_connections{job="kipwatch", client_software_name="a"}', "values": "7x120"},
        ],
        "promql_expr_test": [
            {"expr": f"max({query})", "eval_time": f"{minute}m", "exp_samples": shown}
            for query in asked.values()
            for minute, shown in ((DIED, [{"labels": "{}", "value": 7}]), (ASKED, []))
        ],
    }
    evaluate(tmp_path, case)


def test_a_share_of_nothing_is_nothing(tmp_path: Path) -> None:
    """Not 0 %: then all of nothing would be of the other kind."""
    shares = {
        "Connections without a name",
        "Requests with an instance ID",
        "Requests that name the broker",
        "Heartbeats of the new protocols",
    }
    asked = {panel["title"]: queries(panel)[0] for _, panel in PANELS if panel["title"] in shares}
    assert asked.keys() == shares
    series = {
        f'{JUDGES}{{job="kipwatch"}}': "0+60x120",
        FRAMES: "0+5x120",
        'kipwatch_rule_checks_total{job="kipwatch"}': "0x120",
    }
    none = [
        'kipwatch_requests_total{job="kipwatch", api="Heartbeat", version="4", client_software_name="a"}',
        'kipwatch_broker_ids_total{job="kipwatch", client_software_name="a", ids="none"}',
    ]
    open_now = 'kipwatch_connections{job="kipwatch", client_software_name="a"}'
    cases = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in given.items()],
            "promql_expr_test": [
                {"expr": query, "eval_time": "90m", "exp_samples": expected} for query in asked.values()
            ],
        }
        for given, expected in (
            (series, []),
            (
                {**series, **dict.fromkeys(none, "0+1x120"), open_now: "1x120"},
                [{"labels": "{}", "value": 0}],
            ),
        )
    ]
    evaluate(tmp_path, *cases)


def test_what_is_violated_and_cannot_be_decoded_now_is_shown_with_the_first_scrape(tmp_path: Path) -> None:
    """One value tells of no growth, but its counter says that it began within the five minutes."""
    figures = {panel["title"]: queries(panel)[0] for panel in COLOURED if panel["title"] in OF_NOW}
    found = 'rule="r", level="violation", role="client", client_software_name="lib", owner="o"'
    born = {
        FRAMES: 12,
        f'kipwatch_findings_total{{job="kipwatch", {found}}}': 1,
        'kipwatch_undecodable_frames_total{job="kipwatch", reason="unknown-api"}': 3,
    }
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f'{JUDGES}{{job="kipwatch"}}', "values": "_x30 1830+60x10"},
            *({"series": series, "values": f"_x30 {number}x10"} for series, number in born.items()),
            *({"series": series.replace("_total", "_created"), "values": "_x30 1790x10"} for series in born),
        ],
        "promql_expr_test": [
            {"expr": figures[title], "eval_time": "31m", "exp_samples": [{"labels": "{}", "value": value}]}
            for title, value in (("Rules violated now", 1), ("Undecodable frames", 0.25))
        ],
    }
    evaluate(tmp_path, case, rules=[RULE_FILE])


def test_an_alert_is_marked_where_it_begins_and_where_it_ends_and_few_of_a_storm(tmp_path: Path) -> None:
    """A mark as long as the alert covers the graph below it."""
    begin, end = (filled(each.build().expr or "") for each in annotation_queries()[:2])
    labels = 'alertstate="firing", watches="kafka"'
    counted = (
        *((begin, minute, marks) for minute, marks in ((59, 0), (60, 3), (61, 0), (121, 0))),
        *((end, minute, marks) for minute, marks in ((60, 0), (61, 0), (120, 0), (126, 3), (127, 0))),
    )
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f'ALERTS{{{labels}, alertname="A{number}"}}', "values": "_x60 1x60"}
            for number in range(24)
        ],
        "promql_expr_test": [
            {
                "expr": f"count({query}) or vector(0)",
                "eval_time": f"{minute}m",
                "exp_samples": [{"value": marks}],
            }
            for query, minute, marks in counted
        ],
    }
    evaluate(tmp_path, case)


def test_an_alert_leads_to_what_it_is_about_and_says_whose_it_is_and_since_when(tmp_path: Path) -> None:
    """To its rule, else to its client, else to kipwatch itself. What is unknown is left out."""
    (alerts,) = (panel for _, panel in PANELS if panel["title"] == "Firing alerts")
    assert [address.partition("$")[0] for address in leads(alerts)] == ["/d/"]
    severity, since, firing = queries(alerts)
    rule, client = 'rule="kip35/range-inverted"', 'client_software_name="lib"'
    about_rule, about_client = (
        "kipwatch-rule?var-rule=kip35/range-inverted&",
        "kipwatch-client?var-software=lib&",
    )
    led = {
        f'{rule}, {client}, owner="pay", cluster="eu"': (about_rule, "lib of pay in eu"),
        f'{rule}, {client}, owner="unknown", cluster="eu"': (about_rule, "lib in eu"),
        f'{rule}, client_software_name="unknown", owner="pay", cluster="unknown"': (
            about_rule,
            "unknown of pay",
        ),
        client: (about_client, "lib"),
        'cluster="unknown"': ("kipwatch-pipeline?", ""),
        'instance="a:9107"': ("kipwatch-pipeline?", "at a:9107"),
    }
    series, counted, begun, grave = [], [], [], []
    for labels, (subject, who) in led.items():
        named = f'alertname="A", severity="warning", {labels}'
        for copy in ("1", "2"):
            own = f'{named}, job="kipwatch", watches="kafka", copy="{copy}"'
            series.append({"series": f'ALERTS{{{own}, alertstate="firing"}}', "values": "1x10"})
            series.append({"series": f"ALERTS_FOR_STATE{{{own}}}", "values": f"{copy}x10"})
        told = f', who="{who}"' if who else ""
        counted.append({"labels": f'{{{named}, subject="{subject}"{told}}}', "value": 2})
        grave.append({"labels": f"{{{named}}}", "value": 2})
        begun.append({"labels": f"{{{named}}}", "value": 1000})
    asked = [
        {"expr": query, "eval_time": "9m", "exp_samples": found}
        for query, found in ((firing, counted), (since, begun), (severity, grave))
    ]
    case = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    evaluate(tmp_path, case)


def test_an_alert_leads_to_its_section_of_a_runbook_that_a_browser_can_open(tmp_path: Path) -> None:
    """To that of its rule, unless it has a section of its own. A path in a repository leads nowhere."""
    (committed,) = (panel for _, panel in PANELS if panel["title"] == "Firing alerts")
    assert not [address for address in leads(committed) if PAGE in address]
    own = artefacts(Addresses("https://grafana.example", "https://wiki.example/runbook"))
    board = json.loads(own["dashboards/generated/conformance.json"])
    (alerts,) = (panel for panel in board["panels"] if panel["title"] == "Firing alerts")
    assert f"${{__data.fields.{PAGE}}}" in leads(alerts)
    rule, subject = 'rule="kip1242/misrouted"', "kipwatch-rule?var-rule=kip1242/misrouted&"
    led = {
        f'alertname="KafkaClientProtocolViolation", {rule}': ("kip1242misrouted", subject),
        f'alertname="KafkaClientsMisrouted", {rule}': ("kafkaclientsmisrouted", subject),
        'alertname="KipwatchStalled"': ("kipwatchstalled", "kipwatch-pipeline?"),
    }
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f'ALERTS{{{labels}, watches="kafka", alertstate="firing"}}', "values": "1x10"}
            for labels in led
        ],
        "promql_expr_test": [
            {
                "expr": queries(alerts)[-1],
                "eval_time": "9m",
                "exp_samples": [
                    {
                        "labels": f'{{{labels}, subject="{about}", runbook="what to do", '
                        f'page="https://wiki.example/runbook#{section}"}}',
                        "value": 1,
                    }
                    for labels, (section, about) in led.items()
                ],
            }
        ],
    }
    evaluate(tmp_path, case)
